//! The examples of the documentation, each run with its own files by the real binary and a model on the wire.

mod cluster_example;

use std::{collections::BTreeSet, path::Path};

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, RecordedRequest, ScriptedCall};
use satchel_system::real_binary::{ProcessOutput, TestHome, decoder_worker, run_to_end, workspace_root};
use serde_json::{Value, json};

/// The model that all examples name.
const MODEL: &str = "gpt-5-mini";

/// The examples that have a test below.
const TESTED: [&str; 6] =
    ["cluster", "document-analyser", "family-bot", "image-classifier", "nats-client", "nightly-report"];

/// An example in a directory of its own, as a person has it who copied it.
struct ExampleHarness {
    server: FakeModelServer,
    home: TestHome,
}

impl ExampleHarness {
    async fn start(name: &str) -> Self {
        let server = FakeModelServer::start().await.expect("a loopback port");
        server.add_model(MODEL);
        let home = TestHome::new();
        copy_directory(&workspace_root().join("docs/examples").join(name), &home.work_directory());
        Self { server, home }
    }

    async fn run(&self, arguments: &[&str]) -> ProcessOutput {
        let mut command = self.home.satchel_command(arguments);
        // A key of the environment is for the provider alone.
        for (key, value) in
            [("base_url", self.server.base_url(ModelWire::OpenAiChat)), ("api_key", FakeModelServer::KEY.to_owned())]
        {
            command.arg("--set").arg(format!("models.main.{key}={value}"));
        }
        tokio::task::spawn_blocking(move || run_to_end(&mut command)).await.expect("it runs")
    }

    /// Runs a command that succeeds.
    async fn succeed(&self, arguments: &[&str]) -> ProcessOutput {
        let output = self.run(arguments).await;
        assert_eq!(output.exit_code(), Some(0), "{arguments:?}: {output:#?}");
        output
    }

    /// Lets the model call a tool, and then go on.
    fn call(&self, tool: &str, arguments: &Value) {
        self.server.reply(ModelReply::calls([ScriptedCall::new(tool, &arguments.to_string())]));
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("the example is there").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("a file can be copied")),
        }
    }
}

/// The bytes of the files in a request.
fn request_files(request: &RecordedRequest) -> Vec<Vec<u8>> {
    request.files().into_iter().map(|file| file.bytes).collect()
}

#[test]
fn every_example_is_tested_and_described() {
    let directory = workspace_root().join("docs/examples");
    let entries = std::fs::read_dir(&directory).expect("there are examples").flatten();
    let names: BTreeSet<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, TESTED.map(str::to_owned).into());
    let guide = ["attachments.md", "events.md", "scaling.md"].map(|page| {
        std::fs::read_to_string(workspace_root().join("docs/guide").join(page)).expect("the guide is there")
    });
    let guide = guide.concat();
    for name in names {
        assert!(directory.join(&name).join("README.md").is_file(), "{name} has no README.md");
        assert!(guide.contains(&format!("../examples/{name}/")), "the guide doesn't lead to {name}");
    }
}

#[tokio::test]
async fn image_classifier_compares_picture_with_samples() {
    let example = ExampleHarness::start("image-classifier").await;
    example.server.reply(ModelReply::text(r#"{"class": "stripes", "reason": "it has stripes"}"#));
    let output = example.succeed(&["task", "run", "classify", "--attach", "picture.png", "--json"]).await;
    assert_eq!(output.reply(), r#"{"class": "stripes", "reason": "it has stripes"}"#);
    let [request] = example.server.requests().try_into().expect("one request");
    let names = ["samples/dots/green.png", "samples/stripes/blue.png", "samples/stripes/red.png", "picture.png"];
    let files = names.map(|name| std::fs::read(example.home.work_directory().join(name)).expect("it is an example's"));
    assert_eq!(request_files(&request), files, "the samples in their order, then the picture");
    let text = request.user_text();
    let order = ["samples/dots/green.png", "samples/stripes/red.png", "To which class does the picture"];
    assert!(order.map(|words| text.find(words).expect(words)).is_sorted(), "{text}");
}

#[tokio::test]
async fn document_analyser_reads_contract_and_names_scan() {
    let _worker = decoder_worker();
    let example = ExampleHarness::start("document-analyser").await;
    example.server.reply(ModelReply::text("I'll read them."));
    let arguments = ["task", "run", "analyse", "--attach", "contract.docx", "--attach", "scan.pdf", "--json"];
    example.succeed(&arguments).await;
    let text = example.server.last().user_text();
    assert!(text.contains("Which pages could not be read?"), "it reads the checklist: {text}");
    let listed = example.succeed(&["attachments", "list", "--json"]).await.json();
    let ids: Vec<&str> = listed
        .as_array()
        .or(listed["attachments"].as_array())
        .expect("a list")
        .iter()
        .filter_map(|file| file["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 2, "{listed:#}");
    for id in &ids {
        example.call("attachment_read", &json!({ "id": id }));
    }
    example.server.reply(ModelReply::text("The scan has no text."));
    example.succeed(&["task", "run", "analyse"]).await;
    let results: Vec<String> = example.server.last().results().iter().map(|result| result.text()).collect();
    let all = results.join("\n");
    assert!(all.contains("#1 contract.docx") && all.contains("#2 scan.pdf") && all.contains("no text"), "{all}");
}

#[tokio::test]
async fn nightly_report_draws_chart_and_is_due_at_ten() {
    let example = ExampleHarness::start("nightly-report").await;
    let chart = r#"<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><rect width="10" height="5"/></svg>"#;
    example.call("file_write", &json!({ "path": "/tmp/chart.svg", "content": chart }));
    example.call("attachment_add", &json!({ "path": "/tmp/chart.svg" }));
    example.server.reply(ModelReply::text("Apples lead."));
    let output = example.succeed(&["task", "run", "report"]).await;
    assert!(output.stdout.contains("Apples lead."), "{output:#?}");
    let saved = std::fs::read_to_string(example.home.work_directory().join("files/tasks/1-chart.svg"));
    assert_eq!(saved.expect("the chart was delivered"), chart);
    let text = example.server.requests()[0].user_text();
    for expected in ["apples,120", "notes.md can't be had", "Draw the figures of our sales as a bar chart"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let doctor = example.run(&["doctor"]).await;
    let is_due =
        |line: &str| line.contains("nightly runs next at") && line.contains("22:00") && line.contains("web:reports");
    assert!(doctor.stdout.lines().any(is_due), "{doctor:#?}");
}

#[tokio::test]
async fn family_bot_answers_with_chosen_agent_and_its_recipes() {
    let example = ExampleHarness::start("family-bot").await;
    let list = example.succeed(&["chat", "--once", "/agent"]).await.stdout;
    assert!(list.contains("storyteller") && list.contains("knows our recipes"), "{list}");
    example.succeed(&["chat", "--once", "/agent cook"]).await;
    example.server.reply(ModelReply::text("Pancakes."));
    let output = example.succeed(&["chat", "--once", "What do we eat?", "--json"]).await;
    assert_eq!(output.reply(), "Pancakes.");
    let request = example.server.last();
    assert!(request.system.contains("You suggest meals from our own recipes"), "{}", request.system);
    let text = request.user_text();
    let order = ["to the agent `cook`", "800 g tomatoes", "What do we eat?"];
    assert!(order.map(|words| text.find(words).expect(words)).is_sorted(), "{text}");
}
