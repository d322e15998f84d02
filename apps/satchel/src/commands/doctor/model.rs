//! Whether the models answer.

use futures::future::join_all;
use satchel_models::RemoteModel;

use super::Finding;
use crate::models::{ModelCandidate, ModelSelection, no_files};

const CHECK: &str = "model";

/// Asks each model whether it is there, all at once.
pub(super) async fn check_model(decision: &ModelSelection) -> Vec<Finding> {
    join_all(decision.candidates.iter().map(|candidate| check_answer(candidate, decision))).await
}

async fn check_answer(candidate: &ModelCandidate, decision: &ModelSelection) -> Finding {
    let settings = match candidate.settings() {
        Ok(Some(settings)) => settings,
        Ok(None) => return Finding::ok(CHECK, format!("{} ({})", candidate.title(), decision.why)),
        Err(error) => {
            return Finding::problem(CHECK, error.to_string(), "set it; `satchel init` asks for it and tests it");
        }
    };
    let title = format!("{:?} is {}", settings.name, candidate.title());
    let name = settings.name.clone();
    let checked = match RemoteModel::new(settings, no_files()) {
        Ok(model) => model.check().await,
        Err(error) => {
            return Finding::problem(CHECK, error.to_string(), "correct the setting named in the message");
        }
    };
    match checked {
        Ok(()) => Finding::ok(CHECK, format!("{title} answers")),
        Err(error) if error.retryable => {
            let advice =
                format!("try again later; if the problem stays, check `models.{name}.base_url` and the network");
            Finding::problem(CHECK, format!("{title}: {error}"), advice)
        }
        Err(error) => {
            let advice = format!("check `models.{name}`: the key, the model's name, the address");
            Finding::problem(CHECK, format!("{title}: {error}"), advice)
        }
    }
}
