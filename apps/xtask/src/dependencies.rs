//! Checks what the dependencies of both workspaces promise: licences, sources, advisories.
//!
//! cargo-deny checks them, in one version, which is built once into the cache beside the packages of the tests: a
//! machine without it must not pass by checking nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{cargo_command, run_command, skipped_tests::is_ci, worker};

const CARGO_DENY_VERSION: &str = "0.20.2";

/// Checks the dependencies. Returns what could not be checked, and why; in CI only advisories may be missing.
pub(crate) fn check() -> Result<Vec<String>> {
    let program = match ensure_built(&cache_directory()?, build) {
        Ok(program) => program,
        Err(error) => return report_missing(error, is_ci()),
    };
    let root = worker::root()?;
    let manifests = [root.join("Cargo.toml"), worker::manifest(&root)];
    let check = |checks: &[&str]| {
        manifests.iter().try_for_each(|manifest| {
            let name = format!("cargo deny check {} of {}", checks.join(" "), manifest.display());
            // One list of wrappers serves two workspaces.
            let check = ["--offline", "check", "--allow", "unused-wrapper"];
            run_command(&name, cargo_deny(&program, manifest).args(check).args(checks))
        })
    };
    check(&["bans", "licenses", "sources"])?;
    // Their database is on a remote server: a failed download says nothing about the dependencies.
    let mut fetch = cargo_deny(&program, &manifests[0]);
    if run_command("cargo deny fetch", fetch.args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0")).is_err() {
        return Ok(vec!["advisories (their database can't be downloaded)".to_owned()]);
    }
    check(&["advisories"])?;
    Ok(Vec::new())
}

fn cargo_deny(program: &Path, manifest: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--manifest-path").arg(manifest);
    command
}

/// The directory for what the tests install, which lasts longer than any build.
fn cache_directory() -> Result<PathBuf> {
    let named = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    match cache {
        Some(cache) => Ok(cache.join("satchel-tests")),
        None => worker::target_directory(),
    }
}

/// Returns the path of cargo-deny, which is built if the cache doesn't hold this version.
fn ensure_built(cache: &Path, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let root = cache.join(format!("cargo-deny-{CARGO_DENY_VERSION}"));
    let program = root.join("bin/cargo-deny");
    if !program.is_file() {
        println!("building cargo-deny {CARGO_DENY_VERSION} into {}, once", root.display());
        fs::create_dir_all(&root).with_context(|| format!("failed to create `{}`", root.display()))?;
        build(&root).context("cargo-deny could not be built, which takes a network")?;
    }
    if !program.is_file() {
        bail!("the build of cargo-deny left no `{}`", program.display());
    }
    Ok(program)
}

/// Builds cargo-deny quickly: it runs for seconds, and its own release profile would take minutes.
fn build(root: &Path) -> Result<()> {
    let mut install = cargo_command();
    install.args(["install", "cargo-deny", "--version", CARGO_DENY_VERSION, "--locked", "--debug", "--quiet"]);
    install.arg("--root").arg(root).env("CARGO_PROFILE_DEV_DEBUG", "false");
    // In a temporary directory, which cargo removes.
    install.env_remove("CARGO_TARGET_DIR");
    run_command("cargo install", &mut install)
}

fn report_missing(error: anyhow::Error, is_ci: bool) -> Result<Vec<String>> {
    if is_ci {
        return Err(error.context("licences and sources must be checked where CI is set"));
    }
    Ok(vec![format!("licences, sources and advisories ({error:#})")])
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn checker_is_built_once_into_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let build = |root: &Path| {
            fs::create_dir_all(root.join("bin")).unwrap();
            fs::write(root.join("bin/cargo-deny"), "").unwrap();
            Ok(())
        };
        let program = ensure_built(cache.path(), build).unwrap();
        assert!(program.starts_with(cache.path()), "{}", program.display());
        let found = ensure_built(cache.path(), |_| bail!("it was built again")).unwrap();
        assert_eq!(found, program);
    }

    #[test]
    fn checker_that_cannot_be_built_fails_ci() {
        let cache = tempfile::tempdir().unwrap();
        let attempt = || ensure_built(cache.path(), |_| bail!("no network")).unwrap_err();
        let error = report_missing(attempt(), true).unwrap_err();
        assert_eq!(error.to_string(), "licences and sources must be checked where CI is set");
        assert!(format!("{error:#}").ends_with("which takes a network: no network"), "{error:#}");
        let unchecked = report_missing(attempt(), false).unwrap();
        assert!(unchecked[0].starts_with("licences, sources and advisories (cargo-deny could not"), "{unchecked:?}");
    }

    #[test]
    fn build_that_leaves_no_program_is_an_error() {
        let cache = tempfile::tempdir().unwrap();
        let error = ensure_built(cache.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().starts_with("the build of cargo-deny left no `"), "{error:#}");
        assert!(report_missing(anyhow!("anything"), true).is_err());
    }

    /// cargo-deny is silent about those that no dependency needs any more: one list serves two workspaces.
    #[test]
    fn acknowledged_advisories_name_a_dependency_and_a_reason() {
        let root = worker::root().unwrap();
        let read = |path: PathBuf| fs::read_to_string(&path).unwrap();
        let locks = [root.join("Cargo.lock"), root.join(worker::SCRIPT_WORKER).join("Cargo.lock")].map(read);
        let rules = read(root.join(".deny.toml"));
        let acknowledged: Vec<&str> = rules.lines().filter(|line| line.contains("id = \"RUSTSEC-")).collect();
        assert!(acknowledged.len() >= 5, "{acknowledged:?}");
        for line in acknowledged {
            let reason = line.split("reason = \"").nth(1).expect("it has a reason");
            let (name, why) = reason.split_once(": ").expect("the reason begins with the crate's name");
            assert!(why.len() > 20, "{line}");
            let entry = format!("name = \"{name}\"\n");
            assert!(locks.iter().any(|lock| lock.contains(&entry)), "nothing depends on {name} any more: {line}");
        }
    }
}
