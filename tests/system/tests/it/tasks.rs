//! Tasks from end to end: the real binary at the terminal with a model on the wire, and `/task` in a chat.

use std::{path::Path, sync::Arc};

use satchel::build::PlaybookOptions;
use satchel_attachments::resolve::{AllowedTypes, ResolutionPolicy};
use satchel_domain::{ConversationId, Ending};
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, RecordedRequest, ScriptedCall};
use satchel_intake::access::{AccessPolicy, ChannelAccess};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedModel, ScriptedPiece};
use satchel_ports::ledger::InboundFileState;
use satchel_system::{
    crash::{ChannelAdapter, parse_playbooks},
    real_binary::{ProcessOutput, TestHome, run_to_end},
};
use serde_json::json;

use crate::{
    product::{Product, ProductSetup},
    test_platform::TestPlatform,
};

/// A picture of one red pixel, as far as its header tells.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";

/// Two tasks, of which the second is given what the first one made.
const PICTURES: &str = "\
agents:
  - id: painter
    instructions: You paint.
    tools: [attachment.add]
    actions: [{ id: paint, prompt: 'Paint {{ .input.what }}.' }]
  - id: critic
    instructions: You describe pictures.
    tools: []
    attachments: [{ type: file, path: ./style.txt }]
    actions:
      - id: describe
        prompt: 'Describe it; the painter says: {{ .tasks.generate-image.output.text }}'
        attachments: [{ type: image, path: '{{ .tasks.generate-image.output.path }}', name: picture }]
tasks:
  - { id: generate-image, agent: painter, action: paint }
  - { id: describe, agent: critic, action: describe, description: paints and describes, allow: everyone }
";

/// Tasks whose files are beside the data and the workspace that all conversations share.
const REPORTS: &str = "\
agents:
  - id: painter
    instructions: You paint.
    tools: [attachment.add]
    actions: [{ id: paint, prompt: Paint a cat. }]
  - id: reporter
    instructions: You report.
    tools: []
    actions:
      - id: report
        prompt: Report.
        attachments:
          - { type: image, paths: ['**/*.png'] }
          - { type: image, path: '{{ .input.assets_dir }}/cover.png', name: cover }
          - { type: image, path: '{{ .tasks.generate-image.output.path }}', name: picture }
      - id: open
        prompt: Open it.
        attachments: [{ type: image, path: '{{ .input.assets_dir }}/cover.png' }]
tasks:
  - { id: generate-image, agent: painter, action: paint }
  - { id: report, agent: reporter, action: report }
  - { id: open, agent: reporter, action: open }
";

/// The real binary with `PICTURES`, a workspace that holds a picture, and a model on the wire.
struct TaskHarness {
    server: FakeModelServer,
    home: TestHome,
}

impl TaskHarness {
    async fn start() -> Self {
        let server = FakeModelServer::start().await.expect("a loopback port");
        let home = TestHome::new();
        for directory in ["playbooks", "shared"] {
            std::fs::create_dir(home.work_directory().join(directory)).expect("a new directory");
        }
        home.write_file("playbooks/pictures.yaml", PICTURES);
        home.write_file("playbooks/style.txt", "Be brief.");
        home.write_file("shared/cat.png", PNG);
        let (url, key, model) =
            (server.base_url(ModelWire::OpenAiChat), FakeModelServer::KEY, ModelWire::OpenAiChat.model());
        home.write_file(
            "satchel.yaml",
            format!(
                "workspace: {{ shared_dir: shared }}\nmodels:\n  main: {{ provider: openai, base_url: '{url}', api_key: \
                 '{key}', model: '{model}' }}\n"
            ),
        );
        Self { server, home }
    }

    async fn run(&self, arguments: &[&str]) -> ProcessOutput {
        let mut command = self.home.satchel_command(arguments);
        tokio::task::spawn_blocking(move || run_to_end(&mut command)).await.expect("it runs")
    }

    /// What the models say in a whole run.
    fn script_run(&self) {
        let add = ScriptedCall::new("attachment_add", &json!({ "path": "/shared/cat.png" }).to_string());
        for reply in [ModelReply::calls([add]), ModelReply::text("A cat in oil."), ModelReply::text("A red pixel.")] {
            self.server.reply(reply);
        }
    }
}

fn system_of(request: &RecordedRequest) -> &str {
    let system = &request.system;
    system.rsplit('\n').next().unwrap_or_default()
}

#[tokio::test]
async fn output_of_a_task_is_the_attachment_of_the_next() {
    let harness = TaskHarness::start().await;
    harness.script_run();
    let output = harness.run(&["task", "run", "describe", "--input", "what=a \"cat\"", "--json"]).await;
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let progress: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("task ")).collect();
    assert_eq!(progress, ["task 1 of 2: generate-image", "task 2 of 2: describe"]);
    let json = output.json();
    assert_eq!((&json["response"]["text"], &json["ending"]), (&json!("A red pixel."), &json!("done")));
    assert_eq!(json["response"]["attachments"][0]["filename"], "cat.png", "what the first task made is delivered");
    let saved = harness.home.work_directory().join("files/tasks/1-cat.png");
    assert_eq!(std::fs::read(saved).expect("it was written"), PNG);

    let [paint, painted, describe] = harness.server.requests().try_into().expect("three requests");
    assert_eq!([&paint, &describe].map(system_of), ["You paint.", "You describe pictures."]);
    assert_eq!((paint.tools.as_slice(), describe.tools.len()), ([String::from("attachment_add")].as_slice(), 0));
    assert!(paint.user_text().ends_with("Paint a \"cat\"."), "{}", paint.user_text());
    assert_eq!(painted.results().len(), 1);
    let text = describe.user_text();
    let order = [
        "to the agent `critic`",
        "Be brief.",
        "to the task `describe`",
        "The image \"picture\"",
        "the painter says: A cat in oil.",
    ];
    let positions: Vec<_> = order.iter().map(|words| text.find(words)).collect();
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?} in {text}");
    assert_eq!(describe.files().into_iter().map(|file| file.bytes).collect::<Vec<_>>(), [PNG]);
    assert!(!text.contains("Paint a"), "a task doesn't read what another was asked: {text}");
}

#[tokio::test]
async fn failed_run_exits_with_1_and_wrong_usage_with_2() {
    let harness = TaskHarness::start().await;
    let output = harness.run(&["task", "run", "describe"]).await;
    assert_eq!((output.exit_code(), harness.server.requests().len()), (Some(1), 0), "{output:#?}");
    assert!(
        output.stdout.contains("The task `describe` failed: ") && output.stdout.contains("`input.what` is not given"),
        "{output:#?}"
    );
    let output = harness.run(&["task", "run", "paint"]).await;
    assert_eq!(output.exit_code(), Some(2));
    assert!(output.stderr.contains("there is no task `paint`; there is generate-image, describe"), "{output:#?}");
    let output = harness.run(&["task", "list"]).await;
    assert!(output.stdout.contains("describe        what    paints and describes"), "{output:#?}");
}

/// Catches: other people's files that a glob finds, or that a value of the run names, given to the model as the operator's.
#[tokio::test]
async fn model_reads_declared_files_and_no_data() {
    let harness = TaskHarness::start().await;
    let work = harness.home.work_directory();
    std::fs::remove_file(work.join("playbooks/pictures.yaml")).expect("it was written");
    let settings = std::fs::read_to_string(work.join("satchel.yaml")).expect("it was written");
    harness.home.write_file("satchel.yaml", format!("{settings}{REPORTS}"));
    let cover = [PNG, b"cover".as_slice()].concat();
    let theirs = "satchel-data/workspaces/ben/shared";
    for (directory, bytes) in [("assets", cover.as_slice()), (theirs, b"canary".as_slice())] {
        std::fs::create_dir_all(work.join(directory)).expect("a new directory");
        std::fs::write(work.join(directory).join("cover.png"), bytes).expect("a new file");
    }
    let run = async |task: &str, assets: &str| {
        let (assets, data) = (format!("assets_dir={assets}"), "storage.data_dir=satchel-data");
        harness.run(&["task", "run", task, "--input", &assets, "--set", data]).await
    };
    harness.script_run();
    let output = run("report", "assets").await;
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let [_paint, _painted, report] = harness.server.requests().try_into().expect("three requests");
    let files: Vec<_> = report.files().into_iter().map(|file| file.bytes).collect();
    assert_eq!(files, [cover, PNG.to_vec()], "the file of `.input` and that of `.tasks`, and no other");
    let absolute = work.join(theirs).canonicalize().expect("it was created");
    for (assets, reason) in [
        (theirs.to_owned(), "Satchel's data and configuration can't be attached"),
        (format!("assets/../{theirs}"), "comes from a value"),
        (absolute.display().to_string(), "Satchel's data and configuration can't be attached"),
    ] {
        let output = run("open", &assets).await;
        assert_eq!(output.exit_code(), Some(1), "{assets}: {output:#?}");
        assert!(output.stdout.contains(reason), "{assets}: {output:#?}");
    }
    assert_eq!(harness.server.requests().len(), 3, "no model is given anything of it");
}

fn ann() -> ConversationId {
    TestPlatform::conversation(ChannelAdapter::Telegram)
}

fn ben() -> ConversationId {
    TestPlatform::other_conversation(ChannelAdapter::Telegram)
}

const CHAT_PLAYBOOK: &str = "\
agents:
  - { id: helper, instructions: x, actions: [{ id: go, prompt: 'say {{ .input.what | default(\"nothing\") }}' }] }
tasks:
  - { id: open, agent: helper, action: go, allow: everyone, description: says something }
  - { id: closed, agent: helper, action: go }
";

/// Ann owns the bot and Ben may talk to it.
async fn start_chat() -> (Product, Arc<ScriptedModel>) {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    let playbooks = parse_playbooks(CHAT_PLAYBOOK, Path::new("/conf"));
    setup.behaviour.agents = playbooks.agents().map(Into::into).collect();
    let none = Vec::new;
    let allowed_types = AllowedTypes { image: none(), pdf: none(), audio: none(), video: none(), file: none() };
    let policy = ResolutionPolicy { max_download_bytes: 0, allowed_types };
    setup.behaviour.playbooks = Some(PlaybookOptions { playbooks, environment: serde_json::Map::new(), policy });
    let rules = ChannelAccess {
        owners: vec![ann().key().to_owned()],
        allow_users: vec![ben().key().to_owned()],
        ..ChannelAccess::default()
    };
    setup.behaviour.access = AccessPolicy::new([(ann().channel().clone(), rules)]);
    let answer = |words: &str| ScriptedAnswer {
        when: Some(words.to_owned()),
        pieces: vec![ScriptedPiece::Text(format!("{words}!"))],
        ..ScriptedAnswer::default()
    };
    let answers = ["say hello", "say nothing", "talk"].map(answer).into();
    let script = ModelScript { pick: AnswerOrder::ByProgress, answers };
    let model = Arc::new(ScriptedModel::new(script).with_request_log(100));
    (Product::start(setup, Arc::clone(&model) as _).await, model)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_in_a_chat_for_whom_they_are_open_to() {
    let (product, model) = start_chat().await;
    let say = async |chat: &ConversationId, text: &str| {
        let record = product.send_in(chat, text, Vec::new()).await;
        assert_eq!(record.ending, Some(Ending::Done), "{text}");
        record.response.and_then(|response| response.text).expect("a reply")
    };
    assert_eq!(say(&ann(), "/task closed what=hello").await, "say hello!");
    assert_eq!(say(&ben(), "/task open what=\"hello\"").await, "say hello!");
    let asked = model.request_count();
    assert_eq!(say(&ben(), "/task closed").await, "Only an owner can run the task `closed`.");
    assert_eq!(say(&ben(), "/task opem").await, "There is no task `opem`. The tasks are `open`.");
    let list = say(&ben(), "/task").await;
    assert!(list.contains("- `/task open what=…`: says something") && !list.contains("closed"), "{list}");
    assert!(say(&ben(), "/help").await.contains("`/task NAME input=value` runs one"));
    assert_eq!(model.request_count(), asked, "no model is asked for any of it");
    // The conversation goes on behind it, with what was run in its history.
    assert_eq!(say(&ben(), "talk").await, "talk!");
    let history = format!("{:?}", model.requests().last().expect("it was asked").messages);
    assert!(history.contains("/task open what") && history.contains("say hello!"), "{history}");
    product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_sent_with_the_command_belong_to_the_task() {
    let (product, model) = start_chat().await;
    let files = || vec![FakeFile::from_bytes("note.txt", "text/plain", "the note")];
    let record = product.send_in(&ben(), "/task open", files()).await;
    assert_eq!(record.response.and_then(|response| response.text).as_deref(), Some("say nothing!"));
    let request = format!("{:?}", model.requests().last().expect("it was asked").messages);
    assert!(request.contains("note.txt") && request.contains("say nothing"), "{request}");
    // The attack: a caption that runs what its author may not run.
    let record = product.send_in(&ben(), "/task closed", files()).await;
    let text = record.response.clone().and_then(|response| response.text);
    assert_eq!(text.as_deref(), Some("Only an owner can run the task `closed`."));
    let kept = record.messages.iter().flat_map(|message| &message.files).collect::<Vec<_>>();
    assert!(matches!(kept.as_slice(), [InboundFileState::Stored(_)]), "no file that comes in is lost: {kept:?}");
    product.stop().await;
}
