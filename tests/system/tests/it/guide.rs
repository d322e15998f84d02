//! The scripts of the guide: the real binary runs each, and it answers what stands beneath it.
//!
//! The block directly beneath an example says what is expected of it: `text` is the answer with a line for each file that
//! goes out, in which `…` stands for anything; `json` is the value.

use std::fmt::Write;

use satchel_system::real_binary::{Household, Ran, script_worker, workspace_root};
use serde_json::Value;

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    label: String,
    content: String,
    /// The line on which it begins.
    line: usize,
    /// Whether nothing but empty lines stands between it and the block before.
    follows: bool,
}

fn page(name: &str) -> String {
    std::fs::read_to_string(workspace_root().join("docs/guide").join(name)).expect("the guide has this page")
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut follows = false;
    let mut lines = page.lines().zip(1..);
    while let Some((opening, line)) = lines.next() {
        let Some(label) = opening.strip_prefix("```") else {
            follows &= opening.is_empty();
            continue;
        };
        let content = lines.by_ref().map_while(|(line, _)| (line != "```").then(|| format!("{line}\n"))).collect();
        blocks.push(Block { label: label.to_owned(), content, line, follows });
        follows = true;
    }
    blocks
}

/// Runs a script in the household's conversation for scripts, which finds there what those before it have left.
fn run(household: &Household, script: &str) -> Ran {
    let file = household.file("example.star", script).display().to_string();
    household.run(&["script", "run", &file, "--json"])
}

/// What a script has answered, as the guide shows it.
fn shown(answer: &Value) -> String {
    let mut shown = answer["text"].as_str().unwrap_or_default().trim_end().to_owned();
    for file in answer["attachments"].as_array().into_iter().flatten() {
        let [name, mime] = ["filename", "mime"].map(|field| file[field].as_str().unwrap_or_default());
        write!(shown, "\n+ {name} ({mime})").expect("a text takes more text");
    }
    shown
}

/// Whether a text is the expected one, in which `…` stands for anything.
fn is_expected(text: &str, expected: &str) -> bool {
    let mut pieces = expected.trim_end().split('…');
    let Some(mut rest) = pieces.next().and_then(|start| text.strip_prefix(start)) else { return false };
    let Some(end) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(end)
}

/// What is wrong with the examples of a page; an error where it has none.
fn complaints(page: &str) -> Vec<String> {
    let _worker = script_worker();
    let household = Household::new();
    let blocks = blocks(page);
    let examples: Vec<_> = blocks.iter().enumerate().filter(|(_, block)| block.label == "starlark").collect();
    assert!(!examples.is_empty(), "the page has no examples");
    let mut complaints = Vec::new();
    for (at, example) in examples {
        let expected = blocks.get(at + 1).filter(|next| next.follows);
        let ran = run(&household, &example.content);
        let answer = ran.json();
        let is_well = match expected.map(|expected| (expected.label.as_str(), &expected.content)) {
            Some(("text", text)) => is_expected(&shown(&answer), text),
            Some(("json", json)) => serde_json::from_str::<Value>(json).is_ok_and(|value| value == answer["data"]),
            _ => false,
        };
        if !is_well {
            let expected = expected.map_or("nothing", |expected| expected.content.as_str());
            complaints.push(format!("line {}: {}\nexpected: {expected}", example.line, shown(&answer)));
        }
    }
    complaints
}

/// The same file has one size wherever it is read of: as Satchel writes it. Settings and Discord have their own words.
#[test]
fn guide_writes_sizes_as_satchel_does() {
    let directory = workspace_root().join("docs/guide");
    let pages = std::fs::read_dir(directory).expect("there is a guide").map(|entry| entry.expect("an entry").path());
    for path in pages.filter(|path| !path.ends_with("discord.md")) {
        let page = std::fs::read_to_string(&path).expect("a page can be read");
        for line in
            page.lines().filter(|line| !line.contains("iscord") && !line.starts_with("| file | 50 MB | 10 MiB;"))
        {
            // What stands as code is a setting.
            let prose: String = line.split('`').step_by(2).collect();
            let is_binary = ["KiB", "MiB", "GiB"].iter().any(|unit| prose.contains(unit));
            assert!(!is_binary, "{}: {line}", path.display());
        }
    }
}

#[test]
fn every_example_answers_what_stands_beneath_it() {
    let wrong = complaints(&page("scripts.md"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What keeps the test above honest: a wrong answer, a file that isn't told of, and an example without an expectation.
#[test]
fn example_with_false_or_missing_expectation_is_found() {
    let right = "```starlark\nreturn 4\n```\n\n```text\nScript …: 4\n```\n";
    assert_eq!(complaints(right), Vec::<String>::new());
    for wrong in [
        "```starlark\nreturn 4\n```\n\n```text\nScript result: 5\n```\n",
        "```starlark\nreturn [4]\n```\n```json\n[5]\n```\n",
        "```starlark\nattachment_create(\"a\", \"a.txt\")\nreturn 4\n```\n\n```text\nScript result: 4\n```\n",
        "```starlark\nreturn 4\n```\n\nThat is\n\n```text\nScript result: 4\n```\n",
        "```starlark\nreturn 4\n```\n",
    ] {
        assert_eq!(complaints(wrong).len(), 1, "{wrong}");
    }
}

/// They stand there in Python's colours. What they read is laid out for them.
#[test]
fn the_scripts_of_schedules_run() {
    let _worker = script_worker();
    let household = Household::new();
    let laid_out = run(&household, "file_write(path=\"/shared/todo.md\", content=\"- [ ] bread\\n\")\n");
    assert_eq!(laid_out.code(), Some(0), "{laid_out:#?}");
    let scripts: Vec<_> = blocks(&page("schedules.md"))
        .into_iter()
        .filter(|block| ["python", "starlark"].contains(&block.label.as_str()))
        .collect();
    assert!(!scripts.is_empty(), "the page has no scripts");
    for script in scripts {
        let ran = run(&household, &script.content);
        assert_eq!(ran.code(), Some(0), "line {}: {ran:#?}", script.line);
    }
}
