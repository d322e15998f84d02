//! Reports when each schedule runs next, and checks whether the script worker is installed and works.

use satchel_domain::{Timestamp, script::parse_script_message};
use satchel_runtime::schedules::Schedule;
use satchel_starlark::probe;

use super::{FORBIDDEN_WORKER_ADVICE, Finding};
use crate::{adapters::worker_path, config::Config};

/// Checks each schedule; mistakes in its settings are reported with the configuration.
pub(super) fn check_schedules(config: &Config, now: Timestamp) -> Vec<Finding> {
    config.schedules.iter().map(|schedule| check_schedule(schedule, now)).collect()
}

fn check_schedule(schedule: &Schedule, now: Timestamp) -> Finding {
    const CHECK: &str = "schedule";
    let Schedule { name, cron, conversation, enabled, .. } = schedule;
    match cron.next(now) {
        _ if !enabled => Finding::ok(CHECK, format!("{name} is disabled")),
        Some(next) => Finding::ok(CHECK, format!("{name} runs next at {} in {conversation}", cron.format_local(next))),
        None => {
            let advice = format!("check this machine's clock and `schedules.{name}.cron`");
            Finding::problem(CHECK, format!("{name} will never run again"), advice)
        }
    }
}

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
            Err(error) => {
                let advice = if error.is_forbidden() { FORBIDDEN_WORKER_ADVICE } else { ADVICE };
                Finding::problem(CHECK, format!("scripts can't run: {error}"), advice)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::doctor::FindingLevel,
        config::{ConfigSources, load_text},
    };

    #[test]
    fn each_schedule_says_when_it_is_due() {
        let yaml = "telegram: { token: '1:a' }\nschedules:\n  morning: { cron: '0 8 * * mon-fri', timezone: \
                    Europe/Berlin, prompt: hi, conversation: 'telegram:7' }\n  off: { cron: '@daily', prompt: hi, \
                    conversation: 'telegram:7', enabled: false }\n";
        let directory = tempfile::tempdir().unwrap();
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
        let loaded = load_text(&directory.path().join("satchel.yaml"), yaml, &sources).unwrap();
        // A Friday, half past seven in the evening.
        let findings = check_schedules(loaded.config(), Timestamp(1_795_199_400_000));
        let found: Vec<_> = findings.iter().map(|finding| (finding.level, finding.found.as_str())).collect();
        let morning = "morning runs next at 2026-11-23 08:00 Europe/Berlin in telegram:7";
        assert_eq!(found, [(FindingLevel::Ok, morning), (FindingLevel::Ok, "off is disabled")]);
        let never = check_schedules(loaded.config(), Timestamp(i64::MAX));
        assert_eq!((never[0].level, never[0].found.as_str()), (FindingLevel::Problem, "morning will never run again"));
    }
}
