//! The guide: the real binary runs each of its scripts, which answers what stands beneath it, and its numbers are right.
//!
//! The block directly beneath an example says what is expected of it: `text` is the answer with a line for each file
//! that goes out, in which `…` stands for anything; `json` is the value.

use std::fmt::Write;

use satchel_system::real_binary::{ProcessOutput, TestHome, script_worker, workspace_root};
use satchel_tools::path_fields;
use serde_json::Value;

/// A fenced block of a page.
#[derive(Debug)]
struct CodeBlock {
    label: String,
    content: String,
    /// The line on which it begins.
    line: usize,
    /// Whether nothing but empty lines stands between it and the block before.
    is_adjacent: bool,
}

fn read_page(name: &str) -> String {
    std::fs::read_to_string(workspace_root().join("docs/guide").join(name)).expect("the guide has this page")
}

fn parse_blocks(page: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut is_adjacent = false;
    let mut lines = page.lines().zip(1..);
    while let Some((opening, line)) = lines.next() {
        let Some(label) = opening.strip_prefix("```") else {
            is_adjacent &= opening.is_empty();
            continue;
        };
        let content = lines.by_ref().map_while(|(line, _)| (line != "```").then(|| format!("{line}\n"))).collect();
        blocks.push(CodeBlock { label: label.to_owned(), content, line, is_adjacent });
        is_adjacent = true;
    }
    blocks
}

/// Runs a script in the household's conversation for scripts, which finds there what those before it have left.
fn run_script(home: &TestHome, script: &str) -> ProcessOutput {
    let file = home.write_file("example.star", script).display().to_string();
    home.run(&["script", "run", &file, "--json"])
}

/// What a script has answered, as the guide shows it.
fn format_answer(answer: &Value) -> String {
    let mut text = answer["text"].as_str().unwrap_or_default().trim_end().to_owned();
    for file in answer["attachments"].as_array().into_iter().flatten() {
        let [name, mime] = ["filename", "mime"].map(|field| file[field].as_str().unwrap_or_default());
        write!(text, "\n+ {name} ({mime})").expect("a text takes more text");
    }
    text
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
fn check_examples(page: &str) -> Vec<String> {
    let _worker = script_worker();
    let home = TestHome::new();
    let blocks = parse_blocks(page);
    let examples: Vec<_> = blocks.iter().enumerate().filter(|(_, block)| block.label == "starlark").collect();
    assert!(!examples.is_empty(), "the page has no examples");
    let mut complaints = Vec::new();
    for (at, example) in examples {
        let expected = blocks.get(at + 1).filter(|next| next.is_adjacent);
        let output = run_script(&home, &example.content);
        let answer = output.json();
        let is_correct = match expected.map(|expected| (expected.label.as_str(), &expected.content)) {
            Some(("text", text)) => is_expected(&format_answer(&answer), text),
            Some(("json", json)) => serde_json::from_str::<Value>(json).is_ok_and(|value| value == answer["data"]),
            _ => false,
        };
        if !is_correct {
            let expected = expected.map_or("nothing", |expected| expected.content.as_str());
            complaints.push(format!("line {}: {}\nexpected: {expected}", example.line, format_answer(&answer)));
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

/// How many tools and ports of the ledger there are, in words.
#[test]
fn documents_count_tools_and_ledger_ports() {
    const WORDS: [&str; 31] = [
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "twenty-one",
        "twenty-two",
        "twenty-three",
        "twenty-four",
        "twenty-five",
        "twenty-six",
        "twenty-seven",
        "twenty-eight",
        "twenty-nine",
        "thirty",
    ];
    let read = |path: &str| std::fs::read_to_string(workspace_root().join(path)).expect("a document");
    let ports = std::fs::read_dir(workspace_root().join("crates/ports/src/ledger")).expect("the ports of the ledger");
    let ports = ports.filter(|file| {
        let path = file.as_ref().expect("an entry").path();
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("pub trait ")))
    });
    let tools = format!("| {} tools", WORDS[path_fields::tool_names().count()]);
    let ports = format!("{} ports", WORDS[ports.count()]);
    for (path, phrase) in [
        ("README.md", &tools),
        ("docs/ARCHITECTURE.md", &tools),
        ("docs/ARCHITECTURE.md", &ports),
        ("crates/ports/src/ledger.rs", &ports),
    ] {
        assert!(read(path).contains(phrase), "{path} doesn't say {phrase:?}");
    }
}

#[test]
fn every_example_returns_documented_result() {
    let wrong = check_examples(&read_page("scripts.md"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What keeps the test above honest: a wrong answer, a file that isn't told of, and an example without an expectation.
#[test]
fn example_with_false_or_missing_expectation_is_found() {
    let right = "```starlark\nreturn 4\n```\n\n```text\nScript …: 4\n```\n";
    assert_eq!(check_examples(right), Vec::<String>::new());
    for wrong in [
        "```starlark\nreturn 4\n```\n\n```text\nScript result: 5\n```\n",
        "```starlark\nreturn [4]\n```\n```json\n[5]\n```\n",
        "```starlark\nattachment_create(\"a\", \"a.txt\")\nreturn 4\n```\n\n```text\nScript result: 4\n```\n",
        "```starlark\nreturn 4\n```\n\nThat is\n\n```text\nScript result: 4\n```\n",
        "```starlark\nreturn 4\n```\n",
    ] {
        assert_eq!(check_examples(wrong).len(), 1, "{wrong}");
    }
}

/// They stand there in Python's colours. What they read is laid out for them.
#[test]
fn schedule_scripts_run() {
    let _worker = script_worker();
    let home = TestHome::new();
    let laid_out = run_script(&home, "file_write(path=\"/shared/todo.md\", content=\"- [ ] bread\\n\")\n");
    assert_eq!(laid_out.exit_code(), Some(0), "{laid_out:#?}");
    let scripts: Vec<_> = parse_blocks(&read_page("schedules.md"))
        .into_iter()
        .filter(|block| ["python", "starlark"].contains(&block.label.as_str()))
        .collect();
    assert!(!scripts.is_empty(), "the page has no scripts");
    for script in scripts {
        let output = run_script(&home, &script.content);
        assert_eq!(output.exit_code(), Some(0), "line {}: {output:#?}", script.line);
    }
}
