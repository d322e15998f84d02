//! `cargo xtask check`: what a developer runs between two commits, for what has changed since the last one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    cargo_command,
    gate::{ALL_TESTS, check_format, check_lints, check_script_worker_lints, test_arguments},
    has_subcommand, run_command,
    times::StepTimes,
    worker,
};

/// Files on which every package depends.
const SHARED_FILES: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".clippy.toml", ".rustfmt.toml", "rust-toolchain.toml"];

/// The tests of the project's rules: they read all sources and documents.
const ARCHITECTURE_TESTS: &str = "package(satchel-system) & test(/^(architecture|guide)::/)";

/// The tests that take minutes.
const HEAVY_TESTS: &str = "package(satchel-browser) | package(satchel-system) & test(/matrix|^cluster::/)";

/// The packages of the script worker's workspace, and what they use of the project.
const SCRIPT_WORKER_SOURCES: [&str; 3] = [worker::SCRIPT_WORKER, "adapters/starlark", "adapters/worker-process"];

/// The packages of the workspace.
struct WorkspacePackages(BTreeMap<String, WorkspacePackage>);

struct WorkspacePackage {
    /// Its directory in the project.
    directory: String,
    /// The packages of the workspace that it uses.
    dependencies: BTreeSet<String>,
}

/// Checks format and lints, and runs the tests of what has changed since a commit: all of the changed packages, the unit
/// tests of those that use them, and the tests of the project's rules.
pub(crate) fn run(since: &str) -> Result<()> {
    if !has_subcommand("nextest") {
        bail!(
            "cargo-nextest, which selects the tests, is not installed: `cargo install --locked cargo-nextest` adds it"
        );
    }
    let files = changed_files(since)?;
    if files.is_empty() {
        println!("nothing has changed since {since}; `--since COMMIT` compares with another commit");
        return Ok(());
    }
    let packages = WorkspacePackages::read()?;
    let changed = packages.changed(&files);
    let dependents = packages.dependents(&changed);
    let list = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    println!("changed: {}", if changed.is_empty() { "no package".to_owned() } else { list(&changed) });
    println!("depend on them: {}", if dependents.is_empty() { "none".to_owned() } else { list(&dependents) });
    let mut times = StepTimes::default();
    let has_shared_documents = files.iter().any(|file| !packages.has_file(file));
    let outcome = run_steps(&mut times, &files, &filter(&changed, &dependents, has_shared_documents));
    println!("\n── times\n{times}");
    println!(
        "Not run: browser, cluster, crash, kill and fault tests, the integration tests of what only depends on the changes, \
         documentation, the lints of the core that embeds, and licences. `cargo xtask test` runs these, too."
    );
    outcome
}

fn run_steps(times: &mut StepTimes, files: &[String], filter: &str) -> Result<()> {
    times.measure("format", check_format)?;
    // Cargo checks again what has changed, and what depends on that.
    times.measure("lints", check_lints)?;
    let is_of_script_worker = |file: &String| SCRIPT_WORKER_SOURCES.iter().any(|path| is_beneath(file, path));
    let has_script_worker_changed = files.iter().any(is_of_script_worker);
    if has_script_worker_changed {
        times.measure("lints of the script worker", check_script_worker_lints)?;
    }
    // The examples of the guide run on it, whatever it was built from last.
    times.measure("build of the script worker", worker::build_script_worker)?;
    let arguments = test_arguments(true);
    if has_script_worker_changed {
        times.measure("tests of the script worker", || {
            let tests = arguments.iter().map(String::as_str);
            run_command("the script worker's tests", &mut worker::command(tests)?)
        })?;
    }
    times.measure("tests", || {
        let mut tests = cargo_command();
        tests.args(&arguments).args(ALL_TESTS).args(["--filterset", filter]);
        run_command("the tests", &mut tests)
    })
}

/// The tests to run, in the language of cargo-nextest. Unit tests of any package may read a document that belongs to none.
fn filter(changed: &BTreeSet<String>, dependents: &BTreeSet<String>, has_shared_documents: bool) -> String {
    let of = |names: &BTreeSet<String>, tests: &str| -> Vec<String> {
        names.iter().map(|name| format!("package(={name}){tests}")).collect()
    };
    let mut selected = of(changed, "");
    selected.extend(of(dependents, " & (kind(lib) | kind(bin))"));
    selected.extend(has_shared_documents.then(|| "kind(lib)".to_owned()));
    selected.push(ARCHITECTURE_TESTS.to_owned());
    format!("({}) - ({HEAVY_TESTS})", selected.join(" | "))
}

/// Returns the files that differ from a commit, those included that were never committed, by their paths in the project.
fn changed_files(since: &str) -> Result<Vec<String>> {
    // A file that was moved has changed in both places; names are separated by zero bytes, since git quotes some otherwise.
    let changed = git(&["diff", "--no-renames", "--name-only", "-z", since, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let names = changed.split('\0').chain(new.split('\0'));
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    let output = git.args(arguments).current_dir(worker::root()?).output().context("git could not be started")?;
    if !output.status.success() {
        bail!("`git {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("git names a file that is not UTF-8")
}

fn is_beneath(file: &str, directory: &str) -> bool {
    file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

impl WorkspacePackages {
    fn read() -> Result<Self> {
        let output = cargo_command().args(["metadata", "--no-deps", "--format-version", "1"]).output();
        let output = output.context("cargo could not be started")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let metadata = serde_json::from_slice(&output.stdout).context("cargo's metadata is not JSON")?;
        Self::from_metadata(&metadata, &worker::root()?)
    }

    fn from_metadata(metadata: &Value, root: &Path) -> Result<Self> {
        let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
        let read_package = |package: &Value| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            let directory = manifest.parent()?.strip_prefix(root).ok()?.to_str()?.to_owned();
            let dependencies = package["dependencies"].as_array()?.iter();
            let dependencies = dependencies.filter(|dependency| dependency["path"].is_string());
            let dependencies = dependencies.filter_map(|dependency| dependency["name"].as_str());
            let package_dependencies = dependencies.map(str::to_owned).collect();
            Some((
                package["name"].as_str()?.to_owned(),
                WorkspacePackage { directory, dependencies: package_dependencies },
            ))
        };
        let packages: Option<BTreeMap<_, _>> = packages.iter().map(read_package).collect();
        packages.map(Self).context("cargo describes a package in an unknown form")
    }

    /// Returns the packages to which these files belong.
    fn changed(&self, files: &[String]) -> BTreeSet<String> {
        if files.iter().any(|file| SHARED_FILES.contains(&file.as_str())) {
            return self.0.keys().cloned().collect();
        }
        let is_changed = |package: &WorkspacePackage| files.iter().any(|file| is_beneath(file, &package.directory));
        self.0.iter().filter(|(_, package)| is_changed(package)).map(|(name, _)| name.clone()).collect()
    }

    fn has_file(&self, file: &str) -> bool {
        self.0.values().any(|package| is_beneath(file, &package.directory))
    }

    /// Returns the other packages that use these, directly or through others.
    fn dependents(&self, changed: &BTreeSet<String>) -> BTreeSet<String> {
        let mut reached = changed.clone();
        loop {
            let uses_reached = |package: &WorkspacePackage| !package.dependencies.is_disjoint(&reached);
            let found = self.0.iter().filter(|(name, package)| !reached.contains(*name) && uses_reached(package));
            let found: Vec<String> = found.map(|(name, _)| name.clone()).collect();
            if found.is_empty() {
                return &reached - changed;
            }
            reached.extend(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn packages() -> WorkspacePackages {
        let package = |name: &str, directory: &str, dependencies: &[&str]| {
            let dependencies = dependencies.iter().map(|name| json!({"name": name, "path": "/p"}));
            let dependencies: Vec<Value> = dependencies.chain([json!({"name": "serde", "path": null})]).collect();
            json!({"name": name, "manifest_path": format!("/p/{directory}/Cargo.toml"), "dependencies": dependencies})
        };
        let metadata = json!({"packages": [
            package("domain", "crates/domain", &[]),
            package("http", "adapters/http", &["domain"]),
            package("http-server", "adapters/http-server", &[]),
            package("app", "apps/app", &["http", "http-server"]),
            package("system", "tests/system", &["app"]),
        ]});
        WorkspacePackages::from_metadata(&metadata, Path::new("/p")).unwrap()
    }

    #[test]
    fn changed_file_reaches_its_package_and_all_that_use_it() {
        let changed = packages().changed(&["adapters/http/src/lib.rs".to_owned(), "README.md".to_owned()]);
        assert_eq!(changed, set(&["http"]), "and not the one whose name begins like it");
        assert_eq!(packages().dependents(&changed), set(&["app", "system"]));
        assert_eq!(packages().dependents(&set(&["system"])), set(&[]));
    }

    #[test]
    fn changed_lock_file_reaches_every_package() {
        let changed = packages().changed(&["Cargo.lock".to_owned()]);
        assert_eq!(changed.len(), 5);
        assert_eq!(packages().dependents(&changed), set(&[]));
    }

    #[test]
    fn filter_selects_all_tests_of_changes_and_unit_tests_of_dependents() {
        assert_eq!(
            filter(&set(&["http"]), &set(&["app"]), false),
            format!(
                "(package(=http) | package(=app) & (kind(lib) | kind(bin)) | {ARCHITECTURE_TESTS}) - ({HEAVY_TESTS})"
            )
        );
        assert_eq!(filter(&set(&[]), &set(&[]), false), format!("({ARCHITECTURE_TESTS}) - ({HEAVY_TESTS})"));
    }

    #[test]
    fn document_of_no_package_reaches_all_unit_tests() {
        assert!(packages().has_file("crates/domain/README.md") && !packages().has_file("docs/guide/events.md"));
        assert_eq!(filter(&set(&[]), &set(&[]), true), format!("(kind(lib) | {ARCHITECTURE_TESTS}) - ({HEAVY_TESTS})"));
    }

    #[test]
    fn project_itself_can_be_read() {
        let packages = WorkspacePackages::read().unwrap();
        let dependents = packages.dependents(&set(&["satchel-telegram"]));
        assert!(dependents.is_superset(&set(&["satchel", "satchel-system", "satchel-browser"])), "{dependents:?}");
        assert!(!dependents.contains("satchel-domain"));
    }
}
