//! Checks what the dependencies of both workspaces promise: licences, sources, advisories.

use anyhow::Result;

use crate::{has_subcommand, run_cargo, worker};

/// Checks the dependencies. Returns what could not be checked, and why.
pub(crate) fn check() -> Result<Vec<&'static str>> {
    if !has_subcommand("deny") {
        return Ok(vec![
            "licences, sources and advisories (`cargo install --locked cargo-deny` adds what checks them)",
        ]);
    }
    let manifest = worker::manifest(&worker::root()?).display().to_string();
    let worker_arguments = ["deny", "--manifest-path", manifest.as_str()];
    let check = |checks: &[&str]| {
        let check = ["--offline", "check"].iter().chain(checks).copied();
        run_cargo("cargo deny", ["deny"].into_iter().chain(check.clone()))?;
        run_cargo("cargo deny of the script worker", worker_arguments.into_iter().chain(check))
    };
    check(&["bans", "licenses", "sources"])?;
    // Their database is on a remote server: a failed download says nothing about the dependencies.
    if run_cargo("cargo deny", ["deny", "fetch", "db"]).is_err() {
        return Ok(vec!["advisories (their database can't be downloaded)"]);
    }
    check(&["advisories"])?;
    Ok(Vec::new())
}
