//! Whether every file that holds tests brings some to a run. One that no `mod` names would be missed by nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// What is built from the sources in one directory, such as `src` or `tests/it` of a package.
#[derive(Debug, Default)]
struct Suite {
    /// The files that no `mod` names, since cargo does: `lib.rs`, `main.rs`.
    roots: BTreeSet<PathBuf>,
    /// The names of all its tests.
    tests: BTreeSet<String>,
}

type Suites = BTreeMap<PathBuf, Suite>;

/// Sources behind a feature, whose tests the gate runs by themselves.
const FEATURE_GATED_DIRS: [&str; 1] = ["apps/satchel/src/otel"];

/// Builds a workspace's tests and fails when a file that holds some brings none, or none can be listed at all.
pub(crate) fn check(build: &mut Command) -> Result<()> {
    let suites = list(build)?;
    if suites.is_empty() {
        bail!("no test was built");
    }
    let mut files = BTreeMap::new();
    for directory in suites.keys() {
        find_tests(directory, &mut files)?;
    }
    let is_optional =
        |file: &Path| FEATURE_GATED_DIRS.iter().any(|path| file.parent().is_some_and(|at| at.ends_with(path)));
    let silent: Vec<&Path> = silent_files(&suites, &files).into_iter().filter(|file| !is_optional(file)).collect();
    if !silent.is_empty() {
        let silent: Vec<String> = silent.iter().map(|path| path.display().to_string()).collect();
        bail!("these files hold tests, and none of them is run:\n  {}", silent.join("\n  "));
    }
    let tests: usize = suites.values().map(|suite| suite.tests.len()).sum();
    let holding = files.values().filter(|holds| **holds).count();
    println!("{tests} tests in {holding} files");
    Ok(())
}

/// Builds the tests and asks each program for the names of its own.
fn list(build: &mut Command) -> Result<Suites> {
    let built = build.stderr(Stdio::inherit()).output().context("cargo could not be started")?;
    if !built.status.success() {
        bail!("the tests could not be built ({})", built.status);
    }
    let mut suites = Suites::new();
    for line in String::from_utf8_lossy(&built.stdout).lines() {
        // What build scripts print is no JSON.
        let Ok(artifact) = serde_json::from_str::<Value>(line) else { continue };
        let (true, Some(program)) = (artifact["profile"]["test"] == true, artifact["executable"].as_str()) else {
            continue;
        };
        let root = Path::new(artifact["target"]["src_path"].as_str().context("cargo names a target's source")?);
        let directory = root.parent().context("a source lies in a directory")?;
        let listed = Command::new(program).args(["--list", "--format", "terse"]).output();
        let listed = listed.with_context(|| format!("failed to start `{program}`"))?;
        let names = String::from_utf8_lossy(&listed.stdout);
        let names = names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
        let suite = suites.entry(directory.to_owned()).or_default();
        suite.roots.insert(root.to_owned());
        suite.tests.extend(names);
    }
    Ok(suites)
}

/// Finds the Rust files beneath a directory, each with whether it holds tests.
fn find_tests(directory: &Path, found: &mut BTreeMap<PathBuf, bool>) -> Result<()> {
    let files = fs::read_dir(directory).with_context(|| format!("failed to list `{}`", directory.display()))?;
    for file in files {
        let path = file?.path();
        if path.is_dir() {
            find_tests(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
            found.insert(path, has_tests(&text));
        }
    }
    Ok(())
}

/// Whether a test stands in a file, written out or by a macro that makes some.
fn has_tests(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_test = |at: usize, line: &str| {
        let is_attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        // What a macro makes where it is called says nothing of the file that defines it.
        let function = lines[at..].iter().find_map(|line| line.split_once("fn "));
        is_attribute && function.is_some_and(|(_, name)| !name.starts_with('$'))
    };
    let calls_a_contract =
        |line: &str| line.contains("_contract!(") && !line.contains("$crate") && !line.starts_with("//");
    lines.iter().enumerate().any(|(at, line)| is_test(at, line) || calls_a_contract(line))
}

/// The files that hold tests of which none has the name that its module gives it.
fn silent_files<'a>(suites: &Suites, files: &'a BTreeMap<PathBuf, bool>) -> Vec<&'a Path> {
    let brings_tests = |file: &Path| {
        let beneath = suites.iter().filter(|(directory, _)| file.starts_with(directory));
        let Some((directory, suite)) = beneath.max_by_key(|(directory, _)| directory.components().count()) else {
            return false;
        };
        if suite.roots.contains(file) {
            return !suite.tests.is_empty();
        }
        let module = file.strip_prefix(directory).expect("it lies beneath").with_extension("");
        let module: String = module.iter().map(|part| format!("{}::", part.to_string_lossy())).collect();
        suite.tests.iter().any(|test| test.starts_with(&module))
    };
    files.iter().filter(|(file, holds)| **holds && !brings_tests(file)).map(|(file, _)| file.as_path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_whose_tests_never_run_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        };
        write("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2024\"\n[workspace]\n");
        write("src/lib.rs", "//! Tiny.\n#[cfg(test)]\nmod parts;\nmod plain;\n#[test]\nfn is_run() {}\n");
        write("src/parts.rs", "mod inner;\n");
        write("src/parts/inner.rs", "#[test]\nfn is_run() {}\n");
        write("src/plain.rs", "//! No test.\n");
        write("tests/it/main.rs", "mod there;\n");
        write("tests/it/there.rs", "#[test]\nfn is_run() {}\n");
        let build = || {
            let mut build = Command::new(env!("CARGO"));
            build.args(["test", "--no-run", "--quiet", "--offline", "--message-format", "json"]);
            build.current_dir(directory.path()).env("CARGO_TARGET_DIR", directory.path().join("target"));
            build
        };
        check(&mut build()).unwrap();

        write("src/parts/forgotten.rs", "#[test]\nfn is_never_run() {}\n");
        write("src/parts/inner.rs", "#[cfg(any())]\n#[test]\nfn is_never_run() {}\n");
        write("tests/it/also_forgotten.rs", "blobs_contract!(a_store());\n");
        let error = check(&mut build()).unwrap_err().to_string();
        let names: Vec<&str> = error.lines().skip(1).map(|line| line.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["forgotten.rs", "inner.rs", "also_forgotten.rs"], "{error}");
    }

    #[test]
    fn macros_that_make_tests_hold_none() {
        assert!(has_tests("mod tests {\n    #[tokio::test]\n    async fn a() {}\n}"));
        assert!(has_tests("    ledger_contract!(open().await);"));
        assert!(!has_tests("    #[tokio::test]\n    async fn $promise() {}"));
        assert!(!has_tests("/// Runs them: `ledger_contract!(open().await)`.\n    $crate::ledger_contract!(@each);"));
    }
}
