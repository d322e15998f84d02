//! Scripts: whether their worker is there and works.

use satchel_domain::script::parse_script_message;
use satchel_starlark::probe;

use super::Finding;
use crate::{config::Config, scripts::worker};

/// The worker, started once.
pub(super) async fn scripts(config: &Config) -> Finding {
    const CHECK: &str = "scripts";
    const ADVICE: &str = "put the program satchel-script of the same release beside satchel (`cargo xtask worker` builds \
                          it), or name it in `tools.script.worker`";
    let worker = worker(config);
    if worker.is_file() {
        return match probe(&worker).await {
            Ok(took) => Finding::ok(CHECK, format!("their worker is ready after {} ms", took.as_millis())),
            Err(error) => Finding::problem(CHECK, format!("they can't be run: {error}"), ADVICE),
        };
    }
    let missing = format!("they are off: {} isn't there", worker.display());
    let scheduled =
        config.schedules.iter().find(|schedule| schedule.enabled && parse_script_message(&schedule.words).is_some());
    match scheduled {
        Some(schedule) => {
            Finding::problem(CHECK, format!("{missing}, and the schedule `{}` is one", schedule.name), ADVICE)
        }
        None => Finding::warning(CHECK, missing, ADVICE),
    }
}
