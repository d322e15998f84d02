//! Checks whether the models answer.

use futures::future::join_all;
use satchel_models::RemoteModel;

use super::Finding;
use crate::models::{ModelCandidate, ModelSelection, empty_blobs};

const CHECK: &str = "model";

/// Probes all models concurrently.
pub(super) async fn check_model(selection: &ModelSelection) -> Vec<Finding> {
    join_all(selection.candidates.iter().map(|candidate| check_answer(candidate, selection))).await
}

async fn check_answer(candidate: &ModelCandidate, selection: &ModelSelection) -> Finding {
    let settings = match candidate.settings() {
        Ok(Some(settings)) => settings,
        Ok(None) => return Finding::ok(CHECK, format!("{} ({})", candidate.title(), selection.reason)),
        Err(error) => {
            return Finding::problem(CHECK, error.to_string(), "set it; `satchel init` asks for it and tests it");
        }
    };
    let title = format!("{:?} is {}", settings.name, candidate.title());
    let name = settings.name.clone();
    let result = match RemoteModel::new(settings, empty_blobs()) {
        Ok(model) => model.check().await,
        Err(error) => {
            return Finding::problem(CHECK, error.to_string(), "correct the setting named in the message");
        }
    };
    match result {
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
