//! `satchel doctor`: looks at everything that Satchel needs from this machine and says what to do about what is missing.
//!
//! It changes nothing and may run beside a running `satchel run`.

mod environment;
mod machine;
mod model;
mod people;
mod permissions;
mod schedules;
mod scripts;
mod speech;
mod storage;
#[cfg(test)]
mod tests;
mod web;

use std::io::Write;

use serde::Serialize;

use crate::{config::LoadedConfig, models, platforms};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// As it should be.
    Ok,
    /// It works, and may not for long or not well.
    Warning,
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How bad it is.
    pub level: FindingLevel,
    pub found: String,
    /// What to do about it.
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

/// Looks at everything and prints what was found.
///
/// # Errors
/// When there is a problem, or the output can't be written.
pub async fn run(loaded: &LoadedConfig, json: bool, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let findings = examine(loaded).await;
    if json {
        super::write_json(out, &serde_json::json!({ "version": 1, "findings": findings }))?;
    } else {
        print(&findings, out)?;
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(FindingLevel::Problem), count(FindingLevel::Warning)) {
        (0, _) => Ok(()),
        (1, 0) => anyhow::bail!("there is 1 problem"),
        (problems, warnings) => anyhow::bail!("problems: {problems}, warnings: {warnings}"),
    }
}

async fn examine(loaded: &LoadedConfig) -> Vec<Finding> {
    let config = loaded.config();
    let http = platforms::client();
    let decision = models::select_models(&config.models).await;
    let mut findings = environment::configuration(loaded);
    findings.extend(model::check_model(&decision).await);
    let processes = storage::database(config, &mut findings).await;
    findings.extend(storage::directories(config));
    findings.extend(permissions::check_permissions(config));
    findings.extend(web::page(config).await);
    findings.extend(web::figures(config));
    findings.extend(environment::unencrypted(config, &decision));
    findings.extend(people::people(config));
    findings.extend(speech::speech(config).await);
    findings.push(scripts::scripts(config).await);
    let now = satchel_domain::Timestamp(jiff::Timestamp::now().as_millisecond());
    findings.extend(schedules::schedules(config, now));
    match &http {
        Ok(http) => {
            findings.extend(environment::platforms(config, http).await);
            findings.push(environment::clock(config, &decision, http).await);
        }
        Err(error) => findings.push(Finding::problem(
            "certificates",
            format!("{error:#}"),
            "install the package ca-certificates; without it no https server can be verified",
        )),
    }
    findings.extend(machine::limits());
    findings.extend(machine::user());
    findings.push(machine::processes(processes));
    findings
}

fn print(findings: &[Finding], out: &mut dyn Write) -> std::io::Result<()> {
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
