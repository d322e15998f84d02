//! Scripts as they were designed: what they make, and what the tools that they call make, goes with their answer.
//!
//! Everything is real here but the platform and the model: the worker evaluates, the ledger keeps, the bytes lie on the
//! disk. The tests whose names begin with a number are those of the design's own list.

mod isolation;
mod people;
mod schedules;
mod terminal;
mod tools;

use std::sync::Arc;

use satchel_domain::{Attachment, Visibility};
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_models::{ModelProvider, ModelSettings, RemoteModel};
use satchel_ports::{Archive, Blobs, LanguageModel, ledger::AttachmentQuery};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use satchel_system::{crash::ChannelAdapter, real_binary::script_worker};
use secrecy::SecretString;
use serde_json::json;

use crate::{
    day::{call_reply, text_reply},
    product::{Product, ProductSetup},
    tool_result::{ToolResult, last_result},
};

/// A model without vision: it reads about every file, and gets no bytes.
const TEXT_ONLY_MODEL: &str = "plain";

/// The models with which the design's own tests hold: the second one sees, and its provider refuses a whole request for a
/// picture that is none.
const MODELS: [&str; 2] = [TEXT_ONLY_MODEL, "gpt-4o-mini"];

/// A product in whose conversation a model runs scripts.
struct ScriptHarness {
    product: Product,
    model: FakeModelServer,
}

/// What one script answered.
struct ScriptRun {
    /// The words that the model read.
    text: String,
    /// The files that the model read of with them.
    files: Vec<Attachment>,
    /// What the person got.
    delivered: Vec<Attachment>,
}

impl ScriptHarness {
    async fn open() -> Self {
        Self::with_model(TEXT_ONLY_MODEL).await
    }

    async fn with_model(name: &str) -> Self {
        let model = FakeModelServer::start().await.expect("a loopback port");
        model.add_model(name);
        let settings = ModelSettings {
            name: "main".into(),
            provider: ModelProvider::OpenAi,
            base_url: Some(SecretString::from(model.base_url(ModelWire::OpenAiChat))),
            api_key: Some(SecretString::from(FakeModelServer::KEY)),
            model: Some(name.into()),
            accepts: None,
        };
        let mut setup = ProductSetup::for_platform(ChannelAdapter::Discord);
        setup.scripts = Some(Arc::new(WorkerPool::new(ScriptPoolSettings::new(script_worker()))));
        setup.tools = tools::script_tools;
        let make_model = |blobs: &Arc<dyn Blobs>| -> Arc<dyn LanguageModel> {
            Arc::new(RemoteModel::new(settings, Arc::clone(blobs)).expect("the settings are right"))
        };
        Self { product: Product::start_with(setup, make_model).await, model }
    }

    /// Lets the model run a script, and reads what it is handed for it.
    async fn run(&self, script: &str) -> ScriptRun {
        self.run_with(script, Vec::new()).await
    }

    /// The same, for a message with files.
    async fn run_with(&self, script: &str, files: Vec<FakeFile>) -> ScriptRun {
        self.model.reply(call_reply("Run it", &[("execute_script", json!({ "script": script }))]));
        self.model.reply(text_reply("Done."));
        let record = self.product.send("Run it.", files).await;
        let ToolResult { text, files: named, .. } = last_result(&self.model);
        let attachments = self.attachments().await;
        let file = |id: &String| attachments.iter().find(|file| file.id.to_string() == *id).cloned();
        let files = named.iter().map(|named| file(&named.id).expect("the model reads of files that there are"));
        let delivered = record.response.map(|response| response.attachments).unwrap_or_default();
        ScriptRun { text, files: files.collect(), delivered }
    }

    async fn attachments(&self) -> Vec<Attachment> {
        self.product.ledger.attachments(&AttachmentQuery::default()).await.expect("the ledger can be read")
    }
}

impl ScriptRun {
    fn names(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.filename.as_str()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_1_attachment_create_propagation() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let script = r#"
chart_id = attachment_create(
    content="chart data",
    filename="chart.png",
    description="Sales chart",
    mime_type="image/png"
)
return "Created chart"
"#;
        let answer = harness.run(script).await;
        assert_eq!((answer.text.as_str(), answer.names()), ("Script result: Created chart", vec!["chart.png"]));
        let [file] = answer.delivered.as_slice() else { panic!("{:?}", answer.delivered) };
        assert_eq!((file.id, file.description.as_str(), file.bytes), (answer.files[0].id, "Sales chart", 10));
        // Its ten bytes are no picture.
        let request = harness.model.last();
        let told = format!("{}\n{}", request.results()[0].text(), request.user_text());
        assert!(told.contains("You can't see the file \"chart.png\" (image/png, 10 B): "), "{model}: {told}");
        assert_eq!(harness.model.requests().len(), 2, "{model}: no request is refused");
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_2_tool_result_attachment_propagation() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let answer = harness
            .run("result = tools_execute(\"generate_report\", data=\"test\")\nreturn \"Generated report\"\n")
            .await;
        assert_eq!((answer.text.as_str(), answer.names()), ("Script result: Generated report", vec!["report-test.md"]));
        // As Example 2 of the design has it: the answer of a tool that only made a file is the file's id.
        let answer = harness.run("chart_result = tools_execute(\n    \"create_chart\",\n    data=[1, 2, 3, 4, 5],\n    chart_type=\"line\"\n)\n\nreturn \"Chart created: \" + chart_result\n").await;
        assert_eq!(answer.text, format!("Script result: Chart created: {}", answer.files[0].id));
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_3_multiple_attachments() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let script = r#"
id1 = attachment_create(content="data1", filename="file1.txt")
id2 = attachment_create(content="data2", filename="file2.txt")
id3 = tools_execute("generate_chart", data="test")
return "Created 3 attachments"
"#;
        let answer = harness.run(script).await;
        assert_eq!(answer.names(), ["file1.txt", "file2.txt", "chart-test.txt"]);
        assert_eq!(
            answer.delivered.iter().map(|file| file.id).collect::<Vec<_>>(),
            answer.files.iter().map(|file| file.id).collect::<Vec<_>>()
        );
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_4_explicit_attachment_return() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let script = r#"
id1 = attachment_create(content="data1", filename="file1.txt")
id2 = attachment_create(content="data2", filename="file2.txt")
return {"text": "Created files", "attachment_ids": [id1]}
"#;
        let answer = harness.run(script).await;
        assert_eq!(answer.names(), ["file1.txt", "file2.txt"], "both: what is named joins what was made");
        assert!(answer.text.starts_with("Script result:\n{\n  \"text\": \"Created files\","), "{}", answer.text);
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_5_attachment_deduplication() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let script = r#"
id1 = attachment_create(content="data", filename="file.txt")
return {"attachment_ids": [id1, id1, id1]}  # Same ID 3 times
"#;
        assert_eq!(harness.run(script).await.names(), ["file.txt"]);
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_6_no_attachments() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let answer = harness.run("result = 2 + 2\nreturn f\"Result is {result}\"\n").await;
        assert_eq!((answer.text.as_str(), answer.files.len()), ("Script result: Result is 4", 0));
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_7_backward_compatibility() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let script = r#"
notes = json_decode(search_notes(query="TODO"))
count = len(notes) if notes else 0
return f"Found {count} TODO items"
"#;
        let answer = harness.run(script).await;
        assert_eq!((answer.text.as_str(), answer.files.len()), ("Script result: Found 2 TODO items", 0));
        harness.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn test_8_error_returns_text_only() {
    for model in MODELS {
        let harness = ScriptHarness::with_model(model).await;
        let answer = harness.run("invalid syntax !@#").await;
        assert!(answer.text.starts_with("Error: Syntax error in script at line 1: "), "{}", answer.text);
        assert_eq!((answer.files.len(), answer.delivered.len()), (0, 0));
        let answer = harness.run("a = attachment_create(content=\"x\", filename=\"kept.txt\")\n\nb = [1][7]\n").await;
        assert!(answer.text.starts_with("Error: Script execution failed: "), "{}", answer.text);
        assert!(answer.text.contains("line 3, column 5"), "{}", answer.text);
        assert_eq!((answer.files.len(), answer.delivered.len()), (0, 0));
        let known: Vec<_> = harness.attachments().await.iter().map(|file| file.filename.to_string()).collect();
        assert_eq!(known, ["kept.txt"], "what it had made stays known");
        harness.product.stop().await;
    }
}

/// However a script calls it: one kind of error, and nothing that was made before is sent.
#[tokio::test(flavor = "multi_thread")]
async fn missing_tool_is_one_kind_of_error() {
    let harness = ScriptHarness::open().await;
    for call in ["send_mail(to=\"ada\")", "tools_execute(\"send_mail\", to=\"ada\")"] {
        let answer = harness.run(&format!("attachment_create(\"x\", \"a.txt\")\nreturn {call}")).await;
        let expected = "Error: Script execution failed: there is no tool `send_mail`; there are: ";
        assert!(answer.text.starts_with(expected), "{call}: {}", answer.text);
        assert!(answer.text.ends_with("(line 2, column 8)"), "{call}: {}", answer.text);
        assert_eq!((answer.files.len(), answer.delivered.len()), (0, 0), "{call}");
    }
    harness.product.stop().await;
}

/// The design's examples 3 and 4, as they stand there.
#[tokio::test(flavor = "multi_thread")]
async fn design_examples_run_unchanged() {
    let harness = ScriptHarness::open().await;
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
    let answer = harness.run(several).await;
    assert_eq!(answer.names(), ["chart-sales.txt", "chart-revenue.txt", "chart-growth.txt"]);
    let shown = answer.text.strip_prefix("Script result:\n").map(serde_json::from_str::<serde_json::Value>);
    let charts = ["sales", "revenue", "growth"].iter().zip(&answer.files);
    let charts: Vec<_> = charts.map(|(metric, file)| json!({"metric": metric, "chart_id": file.id})).collect();
    assert_eq!(shown.and_then(Result::ok), Some(json!({"created_charts": charts})), "{}", answer.text);
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
    assert_eq!(harness.run(control).await.names(), ["temp.txt", "intermediate.txt", "final.txt"]);
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_files_are_tracked_when_script_drops_them() {
    let harness = ScriptHarness::open().await;
    let answer = harness.run("create_chart(metric=\"a\")\nreturn None\n").await;
    assert_eq!(answer.names(), ["chart-a.txt"]);
    assert_eq!(answer.text, "Script executed successfully with no return value.");
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_files_are_never_delivered() {
    let harness = ScriptHarness::open().await;
    let script = "a = attachment_create(content=\"x\", filename=\"notes.txt\", visibility=\"internal\")\n\
                  b = attachment_create(content=\"y\", filename=\"out.txt\")\nreturn {\"attachment_ids\": [a, b]}\n";
    let answer = harness.run(script).await;
    assert_eq!(answer.names(), ["notes.txt", "out.txt"], "the model knows of both");
    assert_eq!(answer.delivered.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["out.txt"]);
    assert_eq!(answer.files[0].visibility, Visibility::Internal);
    let wrong = harness.run("attachment_create(content=\"x\", filename=\"a\", visibility=\"secret\")").await;
    assert!(wrong.text.contains("`deliver` or `internal`"), "{}", wrong.text);
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_usable_by_id_two_turns_later() {
    let harness = ScriptHarness::open().await;
    let first = harness.run("attachment_create(content=\"keep me\", filename=\"keep.txt\")").await;
    let id = first.files[0].id;
    harness.run("return \"something else\"").await;
    let third = harness
        .run(&format!("t = attachment_read(\"{id}\")\nreturn {{\"text\": t, \"attachment_id\": \"{id}\"}}"))
        .await;
    assert_eq!((third.names(), third.delivered.len()), (vec!["keep.txt"], 1));
    assert!(third.text.contains("\"text\": \"keep me\""), "{}", third.text);
    assert_eq!(third.files[0].number, first.files[0].number, "the same file");
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_canonical_ids_under_their_keys_are_files() {
    let harness = ScriptHarness::open().await;
    let first = harness.run("attachment_create(content=\"x\", filename=\"x.txt\")").await;
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
        let answer = harness.run(&format!("return {value}")).await;
        assert_eq!(answer.files.len(), files, "{value}: {}", answer.text);
        assert!(!answer.text.contains("Error"), "{value}: {}", answer.text);
    }
    let foreign = harness.run("return {\"attachment_id\": \"0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e\"}").await;
    assert!(
        foreign.text.contains("is no attachment of this conversation") && foreign.files.is_empty(),
        "{}",
        foreign.text
    );
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn script_gets_whole_text_of_large_file() {
    let harness = ScriptHarness::open().await;
    let answer = harness
        .run(
            "row = \"0123456789,abcdefghij\\n\"\nfile_write(path=\"/shared/100k.csv\", content=row * 5000)\n\
             return [len(file_read(path=\"/shared/100k.csv\")), file_read(path=\"/shared/100k.csv\") == row * 5000]\n",
        )
        .await;
    assert_eq!(answer.text, "Script result:\n[\n  110000,\n  true\n]");
    let answer = harness
        .run(
            "file_write(path=\"/shared/empty.txt\", content=\"\")\n\
             made = attachment_create(content=\"\", filename=\"nothing.txt\", visibility=\"internal\")\n\
             read = tools_execute(\"attachment.read\", id=made)\n\
             return [file_read(path=\"/shared/empty.txt\") == \"\", read == \"\", attachment_read(made) == \"\"]\n",
        )
        .await;
    assert_eq!(answer.text, "Script result:\n[\n  true,\n  true,\n  true\n]");
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn script_gets_error_above_8_mib() {
    let harness = ScriptHarness::open().await;
    let too_large = "x".repeat((8 << 20) + 1);
    let script = "attachment_save(index=0, path=\"/shared/too-large.txt\")\n\
                  return file_read(path=\"/shared/too-large.txt\")\n";
    let answer = harness.run_with(script, vec![FakeFile::from_bytes("too-large.txt", "text/plain", too_large)]).await;
    let limit_text = "has 8388609 bytes (8.3 MB); a script is given at most 8.3 MB at once";
    assert!(answer.text.starts_with("Error: ") && answer.text.contains(limit_text), "{}", answer.text);
    let id = harness.attachments().await[0].id;
    for read in [format!("attachment_read(\"{id}\")"), format!("tools_execute(\"attachment.read\", id=\"{id}\")")] {
        let answer = harness.run(&format!("return {read}\n")).await;
        assert!(answer.text.starts_with("Error: ") && answer.text.contains(limit_text), "{read}: {}", answer.text);
    }
    harness.product.stop().await;
}
