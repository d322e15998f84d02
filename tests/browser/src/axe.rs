//! axe-core from npm, pinned by the lock file in `node/`, and what it finds in a page.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::browser::Browser;

const PACKAGE: &str = include_str!("../node/package.json");
const LOCK: &str = include_str!("../node/package-lock.json");

/// What runs in the page: everything that WCAG 2.2 A and AA and axe's best practices ask for.
const RUN_SCRIPT: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
        result => done(result.violations.map(found =>
            ({ impact: found.impact, id: found.id, nodes: found.nodes.map(node => node.html.slice(0, 160) + ' ' + node.failureSummary) }))),
        error => done([{ impact: 'critical', id: String(error), nodes: [] }]))";

/// The script that checks pages.
#[derive(Debug)]
pub struct Axe {
    script: String,
}

impl Axe {
    /// Loads the script. Installs it into the cache directory first if it is missing.
    ///
    /// # Errors
    /// Where it is missing and can't be installed.
    ///
    /// # Panics
    /// When it is there and can't be read.
    pub fn load() -> Result<Self, &'static str> {
        let directory = ensure_installed().ok_or("axe-core, which npm and a network install")?;
        let script = directory.join("node_modules/axe-core/axe.min.js");
        Ok(Self { script: std::fs::read_to_string(script).expect("an installed script can be read") })
    }

    /// Returns the serious and critical violations in a tab, as text.
    ///
    /// # Panics
    /// When the script can't be run.
    pub async fn find_violations(&self, browser: &Browser) -> Vec<String> {
        browser.run_script(&self.script, vec![]).await;
        let result = browser.tab.execute_async(RUN_SCRIPT, vec![]).await.expect("the check runs");
        let found = result.as_array().cloned().unwrap_or_default();
        let is_serious = |violation: &&Value| {
            violation["impact"].as_str().is_some_and(|impact| impact == "serious" || impact == "critical")
        };
        found.iter().filter(is_serious).map(Value::to_string).collect()
    }
}

/// Where it lies, outside of the checkout; one directory for each state of the lock file.
fn ensure_installed() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let lock: Value = serde_json::from_str(LOCK).expect("the lock file is JSON");
    let version = lock["packages"]["node_modules/axe-core"]["version"].as_str().expect("it pins axe-core");
    let directory = cache.join("satchel-browser-checks").join(format!("axe-core-{version}"));
    if !directory.is_dir() {
        install(&directory)?;
    }
    Some(directory)
}

/// Installs into a temporary directory and renames it, so that no other process sees a partial installation.
fn install(directory: &Path) -> Option<()> {
    let parent = directory.parent()?;
    std::fs::create_dir_all(parent).ok()?;
    let unfinished = tempfile::tempdir_in(parent).ok()?;
    std::fs::write(unfinished.path().join("package.json"), PACKAGE).ok()?;
    std::fs::write(unfinished.path().join("package-lock.json"), LOCK).ok()?;
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    let installed = npm.current_dir(unfinished.path()).stdin(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        return None;
    }
    let finished = unfinished.keep();
    if std::fs::rename(&finished, directory).is_err() {
        // Another test was quicker.
        std::fs::remove_dir_all(&finished).ok()?;
    }
    directory.is_dir().then_some(())
}
