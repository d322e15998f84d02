//! `satchel doctor`: checks everything that Satchel needs from this machine and says how to fix problems.
//!
//! It changes nothing and can run while `satchel run` is running.

mod backups;
mod documents;
mod environment;
mod permissions;
mod platforms;
mod providers;
mod schedules;
mod servers;
mod storage;
#[cfg(test)]
mod tests;
mod web;

use std::io::Write;

use satchel_local::SystemClock;
use satchel_ports::Clock;
use serde::Serialize;

use crate::{config::LoadedConfig, models};

/// What to do about a worker that is there, and that the system forbids what it needs.
const FORBIDDEN_WORKER_ADVICE: &str = "allow it: a systemd unit needs `SystemCallFilter=@system-service seccomp` without `~@resources`, and room in \
     `TasksMax=` and `LimitNPROC=`; a container needs a seccomp profile that allows `seccomp`, `prctl` and `setrlimit`";

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    Ok,
    /// It works, but may fail later or work badly.
    Warning,
    Problem,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    pub level: FindingLevel,
    pub found: String,
    /// How to fix it.
    pub advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: FindingLevel::Ok, found: found.into(), advice: None }
    }

    fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, level: FindingLevel::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    fn problem(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, level: FindingLevel::Problem, found: found.into(), advice: Some(advice.into()) }
    }
}

/// Runs all checks and prints the findings.
///
/// # Errors
/// When there is a problem, or the output can't be written.
pub async fn run(loaded: &LoadedConfig, json: bool, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let findings = collect_findings(loaded, 0).await;
    if json {
        super::write_json(out, &serde_json::json!({ "version": 1, "findings": findings }))?;
    } else {
        print_findings(&findings, out)?;
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(FindingLevel::Problem), count(FindingLevel::Warning)) {
        (0, _) => Ok(()),
        (1, 0) => anyhow::bail!("there is 1 problem"),
        (problems, warnings) => anyhow::bail!("problems: {problems}, warnings: {warnings}"),
    }
}

/// Runs all checks. `own_processes` is how many of the processes that use the data are this one: 1 while it serves.
pub(crate) async fn collect_findings(loaded: &LoadedConfig, own_processes: usize) -> Vec<Finding> {
    let config = loaded.config();
    let http = crate::platforms::client();
    let selection = models::select_models(&config.models).await;
    let mut findings = environment::check_configuration(loaded);
    findings.extend(providers::check_model(&selection).await);
    let processes = storage::check_database(config, &mut findings).await;
    findings.extend(storage::check_directories(config));
    findings.extend(servers::check_bucket(config).await);
    findings.extend(servers::check_bus(config).await);
    findings.extend(backups::check_backups(config, SystemClock::new().wall()));
    findings.extend(permissions::check_permissions(config));
    findings.extend(web::check_page(config).await);
    findings.extend(web::check_metrics(config));
    findings.extend(environment::check_encryption(config, &selection));
    findings.extend(platforms::check_people(config));
    findings.extend(providers::check_speech(config).await);
    findings.push(environment::check_sandbox(config).await);
    findings.push(schedules::check_scripts(config).await);
    findings.push(documents::check_documents(config).await);
    findings.extend(schedules::check_schedules(config, SystemClock::new().wall()));
    match &http {
        Ok(http) => {
            findings.extend(platforms::check_platforms(loaded, http).await);
            findings.push(environment::check_clock(config, &selection, http).await);
        }
        Err(error) => findings.push(Finding::problem(
            "certificates",
            format!("{error:#}"),
            "install the package ca-certificates; without it no https server can be verified",
        )),
    }
    findings.extend(environment::check_limits());
    findings.extend(environment::check_user());
    findings.push(environment::check_processes(processes.map(|count| count.saturating_sub(own_processes))));
    findings
}

fn print_findings(findings: &[Finding], out: &mut dyn Write) -> std::io::Result<()> {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for Finding { check, level, found, advice } in findings {
        let level = match level {
            FindingLevel::Ok => "ok",
            FindingLevel::Warning => "warning",
            FindingLevel::Problem => "PROBLEM",
        };
        writeln!(out, "{level:<7}  {check:<width$}  {}", super::one_line(found, 400))?;
        if let Some(advice) = advice {
            writeln!(out, "{:<7}  {:<width$}  → {}", "", "", super::one_line(advice, 400))?;
        }
    }
    Ok(())
}
