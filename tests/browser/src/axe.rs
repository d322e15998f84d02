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
const RUN: &str = "const done = arguments[arguments.length - 1];
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
    /// Reads it, installing it into the cache directory first where it is missing.
    ///
    /// # Errors
    /// Where it is missing and can't be installed.
    ///
    /// # Panics
    /// When it is there and can't be read.
    pub fn get() -> Result<Self, &'static str> {
        let directory = installed().ok_or("axe-core, which npm and a network install")?;
        let script = directory.join("node_modules/axe-core/axe.min.js");
        Ok(Self { script: std::fs::read_to_string(script).expect("an installed script can be read") })
    }

    /// What is seriously or critically wrong with what a tab shows, in words.
    ///
    /// # Panics
    /// When the script can't be run.
    pub async fn findings(&self, browser: &Browser) -> Vec<String> {
        browser.run(&self.script, vec![]).await;
        let found = browser.tab.execute_async(RUN, vec![]).await.expect("the check runs");
        let found = found.as_array().cloned().unwrap_or_default();
        let grave =
            |one: &&Value| one["impact"].as_str().is_some_and(|impact| impact == "serious" || impact == "critical");
        found.iter().filter(grave).map(Value::to_string).collect()
    }
}

/// Where it lies, outside of the checkout; one directory for each state of the lock file.
fn installed() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let lock: Value = serde_json::from_str(LOCK).expect("the lock file is JSON");
    let version = lock["packages"]["node_modules/axe-core"]["version"].as_str().expect("it pins axe-core");
    let place = cache.join("satchel-browser-checks").join(format!("axe-core-{version}"));
    if !place.is_dir() {
        install(&place)?;
    }
    Some(place)
}

/// Installs beside the place and moves it there whole, so that nobody finds half of it.
fn install(place: &Path) -> Option<()> {
    let parent = place.parent()?;
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
    if std::fs::rename(&finished, place).is_err() {
        // Another test was quicker.
        std::fs::remove_dir_all(&finished).ok()?;
    }
    place.is_dir().then_some(())
}
