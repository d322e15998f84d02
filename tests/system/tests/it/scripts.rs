//! Scripts as they were designed: what they make, and what the tools that they call make, goes with their answer.
//!
//! Everything is real here but the platform: the worker evaluates, the ledger keeps, the bytes lie on the disk. The tests
//! whose names begin with a number are those of the design's own list.

mod people;
mod schedules;
mod terminal;
mod tools;

use std::sync::Arc;

use satchel_domain::{Attachment, Message, Visibility};
use satchel_fakes::FakeMode;
use satchel_local::ScriptedModel;
use satchel_ports::{Ledger, ledger::AttachmentQuery};
use satchel_starlark::{ScriptSettings, WorkerPool};
use satchel_system::real_binary::script_worker;

use crate::product::{Product, Setup};

/// A product in whose conversation scripts are run.
struct Desk(Product);

/// What one script answered, as the model would read it.
struct Answer {
    text: String,
    files: Vec<Attachment>,
    /// What the person got.
    delivered: Vec<Attachment>,
}

impl Desk {
    async fn open() -> Self {
        Self::with_model(ScriptedModel::saying(Vec::<String>::new())).await
    }

    async fn with_model(model: ScriptedModel) -> Self {
        let mut setup = Setup::of(FakeMode::DiscordLike);
        setup.scripts = Some(Arc::new(WorkerPool::new(ScriptSettings::new(script_worker()))));
        setup.tools = tools::all;
        Self(Product::start(setup, Arc::new(model)).await)
    }

    /// Runs a script as a person who writes it into the chat does.
    async fn run(&self, script: &str) -> Answer {
        let record = self.0.say(&satchel_domain::script::fenced(script), Vec::new()).await;
        let history = self.0.ledger.history(&self.0.conversation, 10).await.expect("the ledger can be read");
        let answer = history.into_iter().rev().find_map(|message| match message {
            Message::Tool { text, attachments, .. } => Some((text, attachments)),
            _ => None,
        });
        let (text, files) = answer.expect("the script was run");
        Answer { text, files, delivered: record.response.map(|response| response.attachments).unwrap_or_default() }
    }

    async fn known(&self) -> Vec<Attachment> {
        self.0.ledger.attachments(&AttachmentQuery::default()).await.expect("the ledger can be read")
    }
}

impl Answer {
    fn names(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.filename.as_str()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_1_attachment_create_propagation() {
    let desk = Desk::open().await;
    let script = r#"
chart_id = attachment_create(
    content="chart data",
    filename="chart.png",
    description="Sales chart",
    mime_type="image/png"
)
return "Created chart"
"#;
    let answer = desk.run(script).await;
    assert_eq!((answer.text.as_str(), answer.names()), ("Script result: Created chart", vec!["chart.png"]));
    let [file] = answer.delivered.as_slice() else { panic!("{:?}", answer.delivered) };
    assert_eq!((file.id, file.description.as_str(), file.bytes), (answer.files[0].id, "Sales chart", 10));
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_2_tool_result_attachment_propagation() {
    let desk = Desk::open().await;
    let answer =
        desk.run("result = tools_execute(\"generate_report\", data=\"test\")\nreturn \"Generated report\"\n").await;
    assert_eq!((answer.text.as_str(), answer.names()), ("Script result: Generated report", vec!["report-test.md"]));
    // As Example 2 of the design has it: the answer of a tool that only made a file is the file's id.
    let answer = desk.run("chart_result = tools_execute(\n    \"create_chart\",\n    data=[1, 2, 3, 4, 5],\n    chart_type=\"line\"\n)\n\nreturn \"Chart created: \" + chart_result\n").await;
    assert_eq!(answer.text, format!("Script result: Chart created: {}", answer.files[0].id));
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_3_multiple_attachments() {
    let desk = Desk::open().await;
    let script = r#"
id1 = attachment_create(content="data1", filename="file1.txt")
id2 = attachment_create(content="data2", filename="file2.txt")
id3 = tools_execute("generate_chart", data="test")
return "Created 3 attachments"
"#;
    let answer = desk.run(script).await;
    assert_eq!(answer.names(), ["file1.txt", "file2.txt", "chart-test.txt"]);
    assert_eq!(
        answer.delivered.iter().map(|file| file.id).collect::<Vec<_>>(),
        answer.files.iter().map(|file| file.id).collect::<Vec<_>>()
    );
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_4_explicit_attachment_return() {
    let desk = Desk::open().await;
    let script = r#"
id1 = attachment_create(content="data1", filename="file1.txt")
id2 = attachment_create(content="data2", filename="file2.txt")
return {"text": "Created files", "attachment_ids": [id1]}
"#;
    let answer = desk.run(script).await;
    assert_eq!(answer.names(), ["file1.txt", "file2.txt"], "both: what is named joins what was made");
    assert!(answer.text.starts_with("Script result:\n{\n  \"text\": \"Created files\","), "{}", answer.text);
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_5_attachment_deduplication() {
    let desk = Desk::open().await;
    let script = r#"
id1 = attachment_create(content="data", filename="file.txt")
return {"attachment_ids": [id1, id1, id1]}  # Same ID 3 times
"#;
    assert_eq!(desk.run(script).await.names(), ["file.txt"]);
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_6_no_attachments() {
    let desk = Desk::open().await;
    let answer = desk.run("result = 2 + 2\nreturn f\"Result is {result}\"\n").await;
    assert_eq!((answer.text.as_str(), answer.files.len()), ("Script result: Result is 4", 0));
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_7_backward_compatibility() {
    let desk = Desk::open().await;
    let script = r#"
notes = json_decode(search_notes(query="TODO"))
count = len(notes) if notes else 0
return f"Found {count} TODO items"
"#;
    let answer = desk.run(script).await;
    assert_eq!((answer.text.as_str(), answer.files.len()), ("Script result: Found 2 TODO items", 0));
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn test_8_error_returns_text_only() {
    let desk = Desk::open().await;
    let answer = desk.run("invalid syntax !@#").await;
    assert!(answer.text.starts_with("Error: Syntax error in script at line 1: "), "{}", answer.text);
    assert_eq!((answer.files.len(), answer.delivered.len()), (0, 0));
    let answer = desk.run("a = attachment_create(content=\"x\", filename=\"kept.txt\")\n\nb = [1][7]\n").await;
    assert!(answer.text.starts_with("Error: Script execution failed: "), "{}", answer.text);
    assert!(answer.text.contains("line 3, column 5"), "{}", answer.text);
    assert_eq!((answer.files.len(), answer.delivered.len()), (0, 0));
    let known: Vec<_> = desk.known().await.iter().map(|file| file.filename.to_string()).collect();
    assert_eq!(known, ["kept.txt"], "what it had made stays known");
    desk.0.stop().await;
}

/// The design's examples 3 and 4, as they stand there.
#[tokio::test(flavor = "multi_thread")]
async fn the_designs_longer_examples_run_unchanged() {
    let desk = Desk::open().await;
    let several = r#"
# Script creates multiple visualizations
results = []

for metric in ["sales", "revenue", "growth"]:
    chart_id = tools_execute(
        "create_chart",
        metric=metric,
        period="monthly"
    )
    results.append({"metric": metric, "chart_id": chart_id})

return {"created_charts": results}
"#;
    assert_eq!(desk.run(several).await.names(), ["chart-sales.txt", "chart-revenue.txt", "chart-growth.txt"]);
    let control = r#"
# Script creates temporary and final attachments
temp_id = attachment_create(content="temp", filename="temp.txt")
intermediate_id = attachment_create(content="intermediate", filename="intermediate.txt")
final_id = attachment_create(content="final", filename="final.txt")

# Only return the final result
return {
    "text": "Processing complete",
    "attachment_ids": [final_id]
}
"#;
    assert_eq!(desk.run(control).await.names(), ["temp.txt", "intermediate.txt", "final.txt"]);
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_files_are_tracked_even_when_the_script_drops_its_answer() {
    let desk = Desk::open().await;
    let answer = desk.run("create_chart(metric=\"a\")\nreturn None\n").await;
    assert_eq!(answer.names(), ["chart-a.txt"]);
    assert_eq!(answer.text, "Script executed successfully with no return value.");
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_files_are_never_delivered() {
    let desk = Desk::open().await;
    let script = "a = attachment_create(content=\"x\", filename=\"notes.txt\", visibility=\"internal\")\n\
                  b = attachment_create(content=\"y\", filename=\"out.txt\")\nreturn {\"attachment_ids\": [a, b]}\n";
    let answer = desk.run(script).await;
    assert_eq!(answer.names(), ["notes.txt", "out.txt"], "the model knows of both");
    assert_eq!(answer.delivered.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["out.txt"]);
    assert_eq!(answer.files[0].visibility, Visibility::Internal);
    let wrong = desk.run("attachment_create(content=\"x\", filename=\"a\", visibility=\"secret\")").await;
    assert!(wrong.text.contains("`deliver` or `internal`"), "{}", wrong.text);
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_made_in_turn_1_is_used_by_its_id_in_turn_3() {
    let desk = Desk::open().await;
    let first = desk.run("attachment_create(content=\"keep me\", filename=\"keep.txt\")").await;
    let id = first.files[0].id;
    desk.run("return \"something else\"").await;
    let third =
        desk.run(&format!("t = attachment_read(\"{id}\")\nreturn {{\"text\": t, \"attachment_id\": \"{id}\"}}")).await;
    assert_eq!((third.names(), third.delivered.len()), (vec!["keep.txt"], 1));
    assert!(third.text.contains("\"text\": \"keep me\""), "{}", third.text);
    assert_eq!(third.files[0].number, first.files[0].number, "the same file");
    desk.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_canonical_ids_under_their_keys_are_files() {
    let desk = Desk::open().await;
    let first = desk.run("attachment_create(content=\"x\", filename=\"x.txt\")").await;
    let id = first.files[0].id.to_string();
    let plain = id.replace('-', "");
    for (value, files) in [
        (format!("\"{id}\""), 1),
        (format!("{{\"report\": [{{\"attachment_ids\": [[\"{id}\"]]}}]}}"), 1),
        (format!("{{\"notes\": [{{\"id\": \"{id}\", \"title\": \"a note\"}}]}}"), 0),
        (format!("{{\"attachment_id\": \"{plain}\"}}"), 0),
        (format!("\"{plain}\""), 0),
        (format!("[\"{id}\"]"), 0),
    ] {
        let answer = desk.run(&format!("return {value}")).await;
        assert_eq!(answer.files.len(), files, "{value}: {}", answer.text);
        assert!(!answer.text.contains("Error"), "{value}: {}", answer.text);
    }
    let foreign = desk.run("return {\"attachment_id\": \"0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e\"}").await;
    assert!(
        foreign.text.contains("is no attachment of this conversation") && foreign.files.is_empty(),
        "{}",
        foreign.text
    );
    desk.0.stop().await;
}

/// The attack: everything by which a script might get out.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_the_conversation_is_within_a_scripts_reach() {
    let desk = Desk::open().await;
    for script in [
        "load(\"/etc/passwd\", \"x\")",
        "open(\"/etc/passwd\")",
        "__import__(\"os\")",
        "return execute_script(script=\"return 1\")",
        "return tools_execute(\"execute_script\", script=\"return 1\")",
        "return file_read(path=\"/vault/key\")",
        "return file_read(path=\"/shared/../../etc/passwd\")",
    ] {
        let answer = desk.run(script).await;
        assert!(answer.text.starts_with("Error: ") && !answer.text.contains("root:"), "{script}: {}", answer.text);
    }
    desk.0.stop().await;
}
