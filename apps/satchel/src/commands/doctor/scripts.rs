//! Checks whether the script worker is installed and works.

use satchel_domain::script::parse_script_message;
use satchel_starlark::probe;

use super::Finding;
use crate::{config::Config, scripts::worker_path};

/// Starts the worker once.
pub(super) async fn check_scripts(config: &Config) -> Finding {
    const CHECK: &str = "scripts";
    const ADVICE: &str = "put the program satchel-script of the same release next to satchel (`cargo xtask worker` \
                          builds it), or set `tools.script.worker` to its path";
    let worker = worker_path(config);
    if worker.is_file() {
        return match probe(&worker).await {
            Ok(startup_time) => {
                Finding::ok(CHECK, format!("the script worker is ready after {} ms", startup_time.as_millis()))
            }
            Err(error) => Finding::problem(CHECK, format!("scripts can't run: {error}"), ADVICE),
        };
    }
    let missing = format!("scripts are off: {} not found", worker.display());
    let scheduled =
        config.schedules.iter().find(|schedule| schedule.enabled && parse_script_message(&schedule.text).is_some());
    match scheduled {
        Some(schedule) => {
            Finding::problem(CHECK, format!("{missing}; the schedule `{}` needs them", schedule.name), ADVICE)
        }
        None => Finding::warning(CHECK, missing, ADVICE),
    }
}
