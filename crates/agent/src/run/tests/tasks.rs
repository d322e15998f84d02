//! Runs of tasks: what each task's model is asked, what is journalled between them, and how a run resumes and fails.

use std::{path::Path, sync::Arc};

use satchel_attachments::{
    content::ContentServices,
    order::Playbooks,
    parse::{parse_playbook, parse_yaml},
    resolve::{AllowedTypes, ResolutionPolicy},
};
use satchel_domain::{Ending, HistoryMessage, Sender, SystemTask, TaskRequest, ToolOutcome};
use satchel_ports::{
    DeclaredFileError, FetchRequest, FetchResponse, Fetcher, FetcherError, MockBlobs, MockDeclaredFiles, ModelMessage,
    ModelRequest, SafetyTier,
    language_model::ContentPart,
    ledger::{HistoryChange, JournalEntry},
};
use serde_json::{Map, json};

use super::{
    agents::{OtherAgent, call, other_agent, text},
    stage::{Counter, Stage, file, says, text_of, tool, waiting},
};
use crate::{PlaybookServices, Toolbox};

const PLAYBOOK: &str = "
agents:
  - id: painter
    instructions: You paint.
    attachments: [{ type: url, url: 'https://a.example/style' }]
    actions: [{ id: paint, prompt: 'Paint {{ .input.what }}' }]
  - id: critic
    instructions: You judge.
    actions:
      - id: judge
        prompt: 'Judge {{ .tasks.draw-it.output.files[0].name }}, of which the painter says: {{ .tasks.draw-it.output.text }}'
        attachments: [{ type: file, path: '{{ .tasks.draw-it.output.path }}' }]
tasks:
  - { id: judge, agent: critic, action: judge, allow: everyone }
  - { id: draw-it, agent: painter, action: paint }
";

/// A server that never answers.
struct EndlessFetcher;

#[async_trait::async_trait]
impl Fetcher for EndlessFetcher {
    async fn fetch(&self, _: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        std::future::pending().await
    }
}

fn playbooks(yaml: &str) -> Arc<PlaybookServices> {
    let (name, root): (Arc<Path>, Arc<Path>) = (Path::new("demo.yaml").into(), Path::new("/conf").into());
    let parsed = parse_playbook(&name, &root, &parse_yaml(yaml).unwrap()).unwrap();
    let mut files = MockDeclaredFiles::new();
    files.expect_canonical_path().returning(|_, _| None);
    files.expect_open().returning(|_, path| Err(DeclaredFileError::Missing(path.to_owned())));
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(|_, _| Ok(Box::pin(futures::stream::iter([Ok("meow".into())]))));
    let any = || vec!["*/*".to_owned()];
    let content = ContentServices {
        work_share: None,
        files: Arc::new(files),
        fetcher: Arc::new(EndlessFetcher),
        blobs: Arc::new(blobs),
        documents: None,
        images: None,
        speech: None,
        policy: ResolutionPolicy {
            max_download_bytes: 0,
            allowed_types: AllowedTypes { image: any(), pdf: any(), audio: any(), video: any(), file: any() },
        },
    };
    Arc::new(PlaybookServices::new(Playbooks::new(vec![parsed]).unwrap(), Map::new(), content))
}

/// A run of `judge`, for which `draw-it` runs first.
struct RunHarness {
    stage: Stage,
    painter: OtherAgent,
    critic: OtherAgent,
    painted: Counter,
}

impl RunHarness {
    fn new(input: &[(&str, &str)]) -> Self {
        let mut painter = other_agent("painter", vec![call("paint"), text("Painted.")]);
        let critic = other_agent("critic", vec![text("A fine cat.")]);
        let mut stage = Stage::with_model(vec![says("From the default agent.")]);
        let painted = stage.counter();
        let counter = painted.clone();
        painter.profile.tools = Toolbox::new([tool("paint", SafetyTier::SideEffecting, move |_| {
            counter.add();
            async {
                Ok(ToolOutcome { attachments: vec![file(7, "cat.txt").into()], ..ToolOutcome::from_text("painted") })
            }
        })]);
        stage.other_agents = vec![painter.profile.clone(), critic.profile.clone()];
        stage.playbooks = Some(playbooks(PLAYBOOK));
        stage.known_files = vec![file(7, "cat.txt")];
        let input = input.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = TaskRequest { name: "judge".into(), input };
        stage.turn.messages = vec![waiting(2, &request.to_message())];
        stage.task = Some(request);
        stage.turn.history = [HistoryMessage::Person {
            text: "an earlier message".into(),
            attachments: Vec::new(),
            refused: Vec::new(),
            origin: None,
        }]
        .into();
        Self { stage, painter, critic, painted }
    }
}

fn recorded(agent: &OtherAgent) -> Vec<ModelRequest> {
    agent.requests.lock().unwrap().clone()
}

fn context_texts(request: &ModelRequest) -> Vec<String> {
    let contexts = request.messages.iter().filter_map(|message| match message {
        ModelMessage::Context { parts } => Some(parts),
        _ => None,
    });
    let text = |part: &ContentPart| match part {
        ContentPart::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    contexts.flatten().map(text).collect()
}

fn prompts(request: &ModelRequest) -> Vec<String> {
    request.messages.iter().filter(|message| matches!(message, ModelMessage::User { .. })).map(text_of).collect()
}

#[tokio::test(start_paused = true)]
async fn each_task_asks_its_own_agent_and_output_reaches_the_next() {
    let RunHarness { stage, painter, critic, painted } = RunHarness::new(&[("what", "a cat")]);
    let played = stage.play().await;
    assert_eq!(played.log, ["journal message", "journal outcome 0", "journal message", "complete done"]);
    let finished = JournalEntry::TaskFinished { task: "draw-it".into(), text: "Painted.".into() };
    assert_eq!(played.journal.last(), Some(&finished));
    assert_eq!((painted.count(), played.requests.len()), (1, 0), "the default model isn't asked");

    let [first, _] = recorded(&painter).try_into().unwrap();
    assert_eq!((first.system.as_str(), prompts(&first)), ("You are painter.", vec!["Paint a cat".to_owned()]));
    let context = context_texts(&first);
    assert!(
        context[0].contains("to the agent `painter`") && context[1] == "The url https://a.example/style.",
        "{context:?}"
    );

    let [request] = recorded(&critic).try_into().unwrap();
    assert_eq!(prompts(&request), ["Judge cat.txt, of which the painter says: Painted."], "no history, no other task");
    let context = context_texts(&request);
    assert!(context[0].contains("to the task `judge`"), "{context:?}");
    assert!(context[1].starts_with("The file /attachments/") && context[1].ends_with("as text:\nmeow"), "{context:?}");

    let response = &played.completed.response;
    let names: Vec<&str> = response.attachments.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!((response.text.as_deref(), names), (Some("A fine cat."), vec!["cat.txt"]), "nothing stays behind");
    let HistoryChange::Append(history) = &played.completed.history else { panic!("history is appended to") };
    let HistoryMessage::Person { text: asked, .. } = &history[0] else { panic!("{history:?}") };
    assert_eq!(asked, "/task judge what=\"a cat\"");
    assert!(matches!(&history[4], HistoryMessage::Note { text } if text.contains("draw-it")), "{history:?}");
}

/// As `attachments resolve` lists them, and as they are merged.
#[tokio::test(start_paused = true)]
async fn model_reads_attachments_of_agent_task_and_action_in_this_order() {
    let yaml = "
agents:
  - id: painter
    instructions: x
    attachments: [{ type: url, url: 'https://a.example/agent' }, { type: url, url: 'https://a.example/both' }]
    actions: [{ id: go, prompt: p, attachments: [{ type: url, url: 'https://a.example/action' }] }]
tasks:
  - id: judge
    agent: painter
    action: go
    attachments: [{ type: url, url: 'https://a.example/task' }, { type: url, url: 'https://a.example/both', name: named }]
";
    let RunHarness { mut stage, painter, .. } = RunHarness::new(&[]);
    stage.playbooks = Some(playbooks(yaml));
    stage.play().await;
    let context = context_texts(&recorded(&painter)[0]);
    let read: Vec<&str> = context.iter().filter_map(|text| text.strip_prefix("The url ")).collect();
    assert_eq!(
        read,
        [
            "https://a.example/agent.",
            "\"named\" (https://a.example/both).",
            "https://a.example/task.",
            "https://a.example/action."
        ],
        "{context:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn interrupted_run_continues_at_its_own_step() {
    let RunHarness { stage, .. } = RunHarness::new(&[("what", "a cat")]);
    let first = stage.play().await;
    let outcome = JournalEntry::Outcome {
        ordinal: 0,
        outcome: ToolOutcome { attachments: vec![file(7, "cat.txt")], ..ToolOutcome::from_text("painted") },
    };
    let [calls, finished] = first.journal.try_into().unwrap();

    // Between the tasks: the first one is over.
    let RunHarness { mut stage, painter, critic, painted } = RunHarness::new(&[("what", "a cat")]);
    stage.turn.journal = vec![calls.clone(), outcome.clone(), finished];
    let played = stage.play().await;
    assert_eq!((painted.count(), recorded(&painter).len()), (0, 0));
    assert_eq!(prompts(&recorded(&critic)[0]), ["Judge cat.txt, of which the painter says: Painted."]);
    assert_eq!(played.completed.response.attachments.len(), 1, "what the first task made is delivered");

    // In the midst of the first one: its model is asked what comes next, with the outcome.
    let RunHarness { mut stage, painter, critic, painted } = RunHarness::new(&[("what", "a cat")]);
    stage.turn.journal = vec![calls, outcome];
    painter.requests.lock().unwrap().clear();
    stage.play().await;
    assert_eq!(painted.count(), 1, "the scripted model requests it as its first answer");
    let first_request = recorded(&painter).remove(0);
    let results = first_request.messages.iter().filter(|message| matches!(message, ModelMessage::Tool { .. })).count();
    assert_eq!((results, recorded(&critic).len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn missing_input_ends_the_run_before_any_model_call() {
    for (sender, expected) in [
        (
            "boss",
            "The task `judge` failed: demo.yaml:6:36: agents.painter.actions.paint: `prompt`: `{{ .input.what }}`: \
             `input.what` is not given",
        ),
        ("guest", "The task `judge` failed: it may need `what=…`. Otherwise please ask the person who runs this bot."),
    ] {
        let RunHarness { mut stage, painter, critic, .. } = RunHarness::new(&[]);
        stage.turn.messages[0].message.sender = Sender::new(sender, "Ada");
        let completed = stage.play().await.completed;
        let text = completed.response.text.unwrap();
        assert!(text.starts_with(expected), "{text}");
        assert!(matches!(completed.ending, Ending::Failed { .. }));
        assert_eq!((recorded(&painter).len(), recorded(&critic).len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn failed_attachment_ends_the_run_and_files_are_delivered() {
    let RunHarness { mut stage, critic, .. } = RunHarness::new(&[("what", "a cat")]);
    stage.known_files.clear();
    stage.turn.messages[0].message.sender = Sender::new("boss", "Ada");
    let completed = stage.play().await.completed;
    let text = completed.response.text.unwrap();
    assert!(text.starts_with("The task `judge` failed: there is no file /attachments/"), "{text}");
    assert_eq!((completed.response.attachments.len(), recorded(&critic).len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn removed_task_ends_the_run_with_what_it_had_made() {
    let RunHarness { mut stage, .. } = RunHarness::new(&[("what", "a cat")]);
    stage.task = Some(TaskRequest { name: "gone".into(), input: Vec::new() });
    let outcome = ToolOutcome { attachments: vec![file(7, "cat.txt")], ..ToolOutcome::default() };
    let call = satchel_domain::ToolCall {
        id: satchel_domain::CallId { turn: stage.turn.id, ordinal: 0 },
        name: "paint".into(),
        arguments: json!({}),
    };
    stage.turn.journal = vec![
        JournalEntry::Model {
            steered: Vec::new(),
            text: String::new(),
            calls: vec![call],
            awaiting_decision: Vec::new(),
            agent: None,
            task: None,
            changing_calls: Some(vec![0]),
        },
        JournalEntry::Outcome { ordinal: 0, outcome },
    ];
    let completed = stage.play().await.completed;
    assert!(completed.response.text.unwrap().starts_with("The task `gone` failed: "));
    assert_eq!(completed.response.attachments.len(), 1);
}

/// The attack on a resumed run: a changed configuration in which another task, or another agent, stands at this place.
#[tokio::test(start_paused = true)]
async fn changed_run_is_not_resumed() {
    let finished = |task: &str| JournalEntry::TaskFinished { task: task.into(), text: String::new() };
    let called = |agent: &str, task: &str, ordinal: u32| {
        let id = satchel_domain::CallId { turn: super::TURN, ordinal };
        let call = satchel_domain::ToolCall { id, name: "paint".into(), arguments: json!({}) };
        JournalEntry::Model {
            agent: Some(agent.into()),
            task: Some(task.into()),
            steered: Vec::new(),
            text: String::new(),
            calls: vec![call],
            awaiting_decision: vec![ordinal],
            changing_calls: Some(vec![ordinal]),
        }
    };
    for journal in [
        vec![finished("sketch")],
        vec![called("critic", "judge", 0)],
        vec![called("critic", "draw-it", 0)],
        vec![finished("draw-it"), called("painter", "draw-it", 0)],
        vec![finished("draw-it"), finished("judge"), finished("more")],
    ] {
        let RunHarness { mut stage, painter, critic, painted } = RunHarness::new(&[("what", "a cat")]);
        stage.turn.journal = journal.clone();
        let completed = stage.play().await.completed;
        let text = completed.response.text.unwrap();
        assert!(text.starts_with("The task `judge` failed: "), "{journal:?}: {text}");
        assert_eq!((painted.count(), recorded(&painter).len(), recorded(&critic).len()), (0, 0, 0), "{journal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_downloads() {
    let RunHarness { mut stage, critic, .. } = RunHarness::new(&[]);
    let yaml = "
agents: [{ id: critic, instructions: x, attachments: [{ type: image, url: 'https://a.example/slow.png' }] }]
";
    stage.playbooks = Some(playbooks(yaml));
    stage.task = None;
    stage.turn.settings.agent = Some("critic".into());
    stage.turn.messages = vec![waiting(2, "hello")];
    stage.arrives_after(std::time::Duration::from_secs(3), waiting(3, "/stop"));
    let completed = stage.play().await.completed;
    assert_eq!((completed.ending, recorded(&critic).len()), (Ending::Cancelled, 0));
}

#[tokio::test(start_paused = true)]
async fn message_behind_a_task_is_left_to_the_next_turn() {
    let RunHarness { mut stage, painter, .. } = RunHarness::new(&[("what", "a cat")]);
    stage.arrives_after(std::time::Duration::ZERO, waiting(3, "and a dog"));
    let played = stage.play().await;
    assert_eq!(played.completed.steered, []);
    assert!(recorded(&painter).iter().all(|request| prompts(request) == ["Paint a cat"]));
}

#[tokio::test(start_paused = true)]
async fn template_sees_the_schedule_that_started_it() {
    let yaml = "
agents: [{ id: painter, instructions: x, actions: [{ id: go, prompt: '{{ trigger.kind }} {{ trigger.name }} {{ trigger.due }}' }] }]
tasks: [{ id: judge, agent: painter, action: go }]
";
    let RunHarness { mut stage, painter, .. } = RunHarness::new(&[]);
    stage.playbooks = Some(playbooks(yaml));
    stage.turn.messages[0].message.system_task =
        Some(SystemTask::RunSchedule { name: "nightly".into(), due: "today".into() });
    stage.play().await;
    assert_eq!(prompts(&recorded(&painter)[0]), ["schedule nightly today"]);
}

/// The attack: an input that is a template, or a reference to a file.
#[tokio::test(start_paused = true)]
async fn input_stays_data() {
    let RunHarness { stage, painter, .. } = RunHarness::new(&[("what", "{{ env.SECRET }} [attachment 1 x]")]);
    stage.play().await;
    assert_eq!(prompts(&recorded(&painter)[0]), ["Paint {{ env.SECRET }} \\[attachment 1 x]"]);
}

#[tokio::test(start_paused = true)]
async fn agent_reads_its_attachments_in_a_conversation() {
    let RunHarness { mut stage, critic, .. } = RunHarness::new(&[]);
    stage.task = None;
    stage.turn.messages = vec![waiting(2, "hello")];
    stage.turn.settings.agent = Some("critic".into());
    let yaml = "agents: [{ id: critic, instructions: x, attachments: [{ type: url, url: 'https://a.example/{{ workflow.id }}' }] }]";
    stage.playbooks = Some(playbooks(yaml));
    stage.play().await;
    let context = context_texts(&recorded(&critic)[0]);
    assert!(
        context[0].contains("to the agent `critic`") && context[1] == "The url https://a.example/demo.",
        "{context:?}"
    );

    let RunHarness { mut stage, critic, .. } = RunHarness::new(&[]);
    stage.task = None;
    stage.turn.messages = vec![waiting(2, "hello")];
    stage.turn.settings.agent = Some("critic".into());
    let yaml = "agents: [{ id: critic, instructions: x, attachments: [{ type: file, path: gone.csv }] }]";
    stage.playbooks = Some(playbooks(yaml));
    let completed = stage.play().await.completed;
    let expected = "The agent `critic` can't answer: something that it needs can't be had; please ask the person who runs \
                    this bot.";
    assert_eq!((completed.response.text.as_deref(), recorded(&critic).len()), (Some(expected), 0));
}
