//! What tests may not do: leave early, and wait for a time where they could wait for a condition.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{assert_no_complaints, source_files};

/// A test that leaves early has proved nothing; where it lacks something, or it is not its turn, `satchel_requirements`
/// records it.
#[test]
fn tests_leave_early_only_with_a_record() {
    let mut complaints = Vec::new();
    let mut counted = 0;
    // There the model reads why its call was not run; no test speaks.
    let tells_the_model = |path: &Path| path.ends_with("crates/agent/src/confirm.rs");
    for (path, text) in source_files() {
        // Written apart, so that this file doesn't find itself.
        if !tells_the_model(&path)
            && text.contains(concat!("\"not", " run: "))
            && !path.starts_with("tests/requirements")
        {
            complaints.push(format!("{} says by itself that something is not run", path.display()));
        }
        let lines: Vec<&str> = text.lines().collect();
        for (start, attribute) in lines.iter().enumerate() {
            let code = attribute.trim_start();
            if !code.starts_with("#[test]") && !code.starts_with("#[tokio::test") {
                continue;
            }
            let end = format!("{}}}", &attribute[..attribute.len() - code.len()]);
            let mut statement = String::new();
            for line in lines[start..].iter().take_while(|line| **line != end) {
                if ["let ", "if ", "match "].iter().any(|begin| line.trim_start().starts_with(begin)) {
                    statement.clear();
                }
                statement.push_str(line);
                let leaves = line.ends_with(concat!("return", ";")) || line.contains(concat!("{ return", " }"));
                let is_recorded =
                    ["required(", "is_turn_of(", "has_own_process("].iter().any(|call| statement.contains(call));
                match (leaves, is_recorded) {
                    (true, true) => counted += 1,
                    (true, false) => complaints.push(format!("a test in {} leaves early: {line}", path.display())),
                    (false, _) => {}
                }
            }
        }
    }
    assert!(counted > 40, "only {counted} tests that need something were found");
    assert_no_complaints(&complaints);
}

/// Whole processes and fake servers keep their own time.
const REAL_TIME: [&str; 6] = [
    "tests/browser",
    "tests/fake-discord",
    "tests/fake-kit",
    "tests/fake-model",
    "tests/fake-telegram",
    "tests/system",
];

/// A test waits for a condition, or under paused time; where neither is possible, a comment above the line says why.
#[test]
fn tests_sleep_only_with_a_reason() {
    let mut complaints = Vec::new();
    let mut counted = 0;
    let files = source_files();
    let modules: BTreeSet<PathBuf> = files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
    for (path, text) in &files {
        if REAL_TIME.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        // The last line of the test under paused time in which this line is.
        let mut paused_until = None;
        let mut above = "";
        for whole_line in test_code(path, text, &modules).lines() {
            let line = whole_line.trim_start();
            if line.starts_with("#[tokio::test(") && line.contains("start_paused") {
                paused_until = Some(format!("{}}}", &whole_line[..whole_line.len() - line.len()]));
            } else if paused_until.as_deref() == Some(whole_line) {
                paused_until = None;
            }
            let sleeps = ["sleep(", "sleep_until("].iter().any(|call| {
                line.match_indices(call).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            });
            if sleeps && !line.starts_with("//") && paused_until.is_none() {
                counted += 1;
                if !above.starts_with("// ") {
                    complaints.push(format!("{} waits for a time and doesn't say why: {line}", path.display()));
                }
            }
            above = line;
        }
    }
    assert!(counted > 50, "only {counted} waits were found");
    assert_no_complaints(&complaints);
}

/// The files and folders of the modules that a file declares for tests alone, without `.rs`.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let is_root = ["lib.rs", "main.rs"].iter().any(|name| path.ends_with(name));
    let folder = if is_root { path.parent().expect("it lies in a folder").to_owned() } else { path.with_extension("") };
    let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let declaration = rest.lines().map(str::trim_start).find(|line| !line.starts_with("#["))?.strip_suffix(';')?;
        Some(folder.join(declaration.split_once("mod ")?.1))
    });
    declared.collect()
}

/// The part of a file that is compiled for tests alone.
fn test_code<'a>(path: &Path, text: &'a str, modules: &BTreeSet<PathBuf>) -> &'a str {
    let is_module = path.with_extension("").ancestors().any(|part| modules.contains(part));
    let is_whole = is_module || path.components().any(|part| part.as_os_str() == "tests");
    if is_whole { text } else { text.split_once("#[cfg(test)]\nmod tests {").map_or("", |(_, tests)| tests) }
}
