//! Scripts as far as they are no language: what they reach, what they gather, and what they answer.
//!
//! The script itself is played by a list of steps; the language has its tests where it is evaluated.

use std::{collections::VecDeque, sync::Mutex};

use futures::StreamExt;
use satchel_domain::{
    AttachmentId, AttachmentSource, OutcomeNotice, ReminderId, Visibility, VoiceRequest, WakeRequest,
};
use satchel_ports::{
    HostFunctions, MockToolCaller, ScriptError,
    ledger::AttachmentQuery,
    script_host::{FunctionCall, NewScriptFile, ScriptEvaluation},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fakes::{ToolHarness as Surroundings, attachment, chunked, stored_files};

/// What a script does.
enum Step {
    Call(&'static str, Value),
    Pass(Duration),
    Create(NewScriptFile, Vec<u8>),
}

/// Plays a script: its steps one after the other, each with what came of it.
struct Played {
    steps: Mutex<VecDeque<Step>>,
    end: Box<dyn Fn(Vec<Value>) -> ScriptEvaluation + Send + Sync>,
}

#[async_trait]
impl ScriptHost for Played {
    async fn run<'a>(
        &self,
        _: &ScriptRequest,
        world: &'a (dyn HostFunctions + 'a),
        _: &CancellationToken,
    ) -> ScriptEvaluation {
        let mut yielded = Vec::new();
        loop {
            let Some(step) = self.steps.lock().unwrap().pop_front() else { break };
            let answer = match step {
                Step::Call(function, Value::Object(named)) => {
                    let call = FunctionCall { function: function.to_owned(), positional: Vec::new(), named };
                    world.call(call).await
                }
                Step::Pass(time) => {
                    // A script as slow as the test says.
                    tokio::time::sleep(time).await;
                    Ok(Value::Null)
                }
                Step::Call(function, _) => panic!("{function}: arguments are named"),
                // Slowly, so that those that run side by side meet.
                Step::Create(file, content) => {
                    let slow = chunked(&content).then(|piece| async {
                        tokio::task::yield_now().await;
                        piece
                    });
                    world.create(file, slow.boxed()).await
                }
            };
            match answer {
                Ok(value) => yielded.push(value),
                Err(message) => return ScriptEvaluation::from_error(ScriptError::Failed { message }),
            }
        }
        (self.end)(yielded)
    }
}

fn ends_with(value: Value) -> ScriptEvaluation {
    ScriptEvaluation { value: Ok(value), printed: String::new(), wakes: Vec::new() }
}

fn new_file(filename: &str, mime_type: &str, visibility: Visibility) -> NewScriptFile {
    let description = format!("what {filename} shows");
    NewScriptFile { filename: filename.to_owned(), description, mime_type: mime_type.to_owned(), visibility }
}

fn creates(filename: &str, content: &str) -> Step {
    Step::Create(new_file(filename, "application/octet-stream", Visibility::Deliver), content.as_bytes().to_vec())
}

/// Tools that a script finds: each answers what it is told to.
fn caller(answers: Vec<(&'static str, Result<ToolOutcome, ToolError>)>) -> Arc<dyn satchel_ports::ToolCaller> {
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({}),
        tier: SafetyTier::ReadOnly,
        time_limit: None,
    };
    let specs: Arc<[ToolSpec]> = answers.iter().map(|(name, _)| spec(name)).chain([spec(SCRIPT_TOOL)]).collect();
    let mut caller = MockToolCaller::new();
    caller.expect_specs().returning(move || Arc::clone(&specs));
    caller.expect_call().returning(move |tool, _, _| {
        let answer = answers.iter().find(|(name, _)| *name == tool);
        answer.unwrap_or_else(|| panic!("{tool} was not expected")).1.clone()
    });
    Arc::new(caller)
}

struct Stage {
    world: Surroundings,
    rules: ScriptRules,
    tools: Arc<dyn satchel_ports::ToolCaller>,
}

impl Stage {
    fn new() -> Self {
        Self { world: Surroundings::new(), rules: ScriptRules::default(), tools: caller(Vec::new()) }
    }

    fn tool(
        &self,
        steps: Vec<Step>,
        end: impl Fn(Vec<Value>) -> ScriptEvaluation + Send + Sync + 'static,
    ) -> Arc<dyn Tool> {
        let host = Arc::new(Played { steps: Mutex::new(steps.into()), end: Box::new(end) });
        execute_script(self.world.services(), host, self.rules.clone())
    }

    async fn call(&self, tool: &dyn Tool) -> ToolOutcome {
        let context = ToolContext { tools: Some(Arc::clone(&self.tools)), ..self.world.context() };
        tool.call(json!({"script": "…"}), &context).await.unwrap()
    }

    async fn run(
        &self,
        steps: Vec<Step>,
        end: impl Fn(Vec<Value>) -> ScriptEvaluation + Send + Sync + 'static,
    ) -> ToolOutcome {
        self.call(self.tool(steps, end).as_ref()).await
    }
}

fn names(outcome: &ToolOutcome) -> Vec<String> {
    stored_files(outcome).into_iter().map(|file| file.filename.to_string()).collect()
}

fn text(outcome: &ToolOutcome) -> &str {
    outcome.text.as_deref().expect("a script always says something")
}

#[tokio::test]
async fn script_file_is_returned_with_all_its_metadata() {
    let stage = Stage::new();
    let chart = Step::Create(new_file("chart.png", "image/png", Visibility::Deliver), b"chart data".to_vec());
    let made = stage.run(vec![chart], |_| ends_with(json!("Created chart"))).await;
    assert_eq!((text(&made), made.data.as_ref(), made.failed), ("Script result: Created chart", None, false));
    let [file] = stored_files(&made).try_into().expect("one file");
    assert_eq!((file.filename.as_str(), file.mime.as_str(), file.bytes), ("chart.png", "image/png", 10));
    assert_eq!((file.source, file.visibility), (AttachmentSource::Script, Visibility::Deliver));
    assert_eq!(
        (file.description.as_str(), file.number.get()),
        ("what chart.png shows", 100),
        "numbered when it was made"
    );
    assert_eq!(stage.world.stored(&file.sha256), b"chart data");
}

#[tokio::test]
async fn script_file_is_found_by_next_call() {
    let stage = Stage::new();
    let id = Arc::new(Mutex::new(Value::Null));
    // The steps of one script need the id of another's file: what is known to the ledger outlives a script.
    let kept = Arc::clone(&id);
    stage
        .run(vec![creates("note.txt", "привет")], move |yielded| {
            *kept.lock().unwrap() = yielded[0].clone();
            ends_with(Value::Null)
        })
        .await;
    let id = id.lock().unwrap().clone();
    let steps = vec![Step::Call("attachment_get", json!({"id": id})), Step::Call("attachment_read", json!({"id": id}))];
    let read = stage.run(steps, |yielded| ends_with(Value::Array(yielded))).await;
    let data = read.data.unwrap();
    assert_eq!(
        (&data[0]["filename"], &data[0]["bytes"], &data[0]["source"]),
        (&json!("note.txt"), &json!(12), &json!("script"))
    );
    assert_eq!(data[1], json!("привет"));
    assert_eq!(read.attachments, [], "looking at a file doesn't send it");
}

#[tokio::test]
async fn dropped_tool_files_are_tracked_once_in_order() {
    let mut stage = Stage::new();
    let made = |id, name| attachment(id, name, "text/plain", b"x");
    let outcome = |files: Vec<satchel_domain::Attachment>, text: Option<&str>| {
        let attachments = files.into_iter().map(Into::into).collect();
        Ok(ToolOutcome { attachments, text: text.map(str::to_owned), ..ToolOutcome::default() })
    };
    stage.tools = caller(vec![
        ("chart", outcome(vec![made(1, "chart.txt")], None)),
        ("zip", outcome(vec![made(2, "a.txt"), made(1, "chart.txt"), made(3, "b.txt")], Some("two"))),
    ]);
    let steps = vec![
        Step::Call("chart", json!({})),
        creates("own.txt", "own"),
        Step::Call("tools_execute", json!({"tool_name": "zip"})),
    ];
    let run = stage.run(steps, |yielded| {
        assert_eq!(
            yielded[0],
            json!(AttachmentId(uuid::Uuid::from_u128(1)).to_string()),
            "one file and no words: its id"
        );
        assert_eq!((&yielded[2]["text"], yielded[2]["attachment_ids"].as_array().unwrap().len()), (&json!("two"), 3));
        ends_with(json!("done"))
    });
    let run = run.await;
    assert_eq!(names(&run), ["chart.txt", "own.txt", "a.txt", "b.txt"]);
    assert_eq!(run.selection, None);
}

/// The design's third example: what it returns are its data, with the ids of the files that go with it.
#[tokio::test]
async fn returned_dict_is_data_beside_tracked_files() {
    let charts: [(u128, &'static str); 3] = [(1, "sales"), (2, "revenue"), (3, "growth")];
    let made = |id, metric| {
        let file = attachment(id, metric, "text/plain", b"x");
        Ok(ToolOutcome { attachments: vec![file.into()], ..ToolOutcome::default() })
    };
    let tools = caller(Vec::from(charts.map(|(id, metric)| (metric, made(id, metric)))));
    let stage = Stage { tools, ..Stage::new() };
    let steps = charts.map(|(_, metric)| Step::Call("tools_execute", json!({"tool_name": metric})));
    let run = stage.run(steps.into(), move |yielded| {
        let created = charts.iter().zip(yielded).map(|((_, metric), id)| json!({"metric": metric, "chart_id": id}));
        ends_with(json!({"created_charts": created.collect::<Vec<_>>()}))
    });
    let run = run.await;
    let created = charts
        .map(|(id, metric)| json!({"metric": metric, "chart_id": AttachmentId(uuid::Uuid::from_u128(id)).to_string()}));
    let data = json!({"created_charts": created});
    assert_eq!((run.data.as_ref(), names(&run)), (Some(&data), charts.map(|(_, metric)| metric.to_owned()).to_vec()));
    assert_eq!(text(&run), format!("Script result:\n{data:#}"));
}

#[tokio::test]
async fn named_files_follow_tracked_ones_without_duplicates() {
    let stage = Stage::new();
    let older = attachment(7, "older.txt", "text/plain", b"older");
    stage.world.add_record(older.clone());
    let id = older.id.to_string();
    let steps = || vec![creates("file1.txt", "data1"), creates("file2.txt", "data2")];
    let run =
        stage.run(steps(), |yielded| ends_with(json!({"text": "x", "attachment_ids": [yielded[1], yielded[1]]}))).await;
    assert_eq!(names(&run), ["file1.txt", "file2.txt"]);
    let nested = move |yielded: Vec<Value>| ends_with(json!({"attachment_ids": [id, yielded[0]], "text": "x"}));
    let run = stage.run(steps(), nested).await;
    assert_eq!(names(&run), ["file1.txt", "file2.txt", "older.txt"]);
    let id = older.id.to_string();
    let run = stage.run(vec![], move |_| ends_with(json!(id))).await;
    assert_eq!(
        (names(&run), text(&run)),
        (vec!["older.txt".to_owned()], format!("Script result: {}", older.id).as_str())
    );
}

/// The attacks: a foreign id, one that was never given, under a key and alone.
#[tokio::test]
async fn foreign_id_is_reported_and_never_attached() {
    let stage = Stage::new();
    let foreign = satchel_domain::Attachment {
        conversation: "console:other".parse().unwrap(),
        ..attachment(8, "secret.txt", "text/plain", b"secret")
    };
    stage.world.add_record(foreign.clone());
    for id in [foreign.id.to_string(), "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e".to_owned()] {
        let named = id.clone();
        let run = stage.run(vec![creates("own.txt", "own")], move |_| ends_with(json!({"attachment_id": named}))).await;
        assert_eq!(names(&run), ["own.txt"], "what was made is not lost");
        let told = format!("\nError: `attachment_id`: `{id}` is no attachment of this conversation");
        assert!(text(&run).contains(&told) && !text(&run).contains("secret"), "{}", text(&run));
        let alone = id.clone();
        let run = stage.run(vec![], move |_| ends_with(json!(alone))).await;
        assert_eq!((run.attachments.len(), text(&run)), (0, format!("Script result: {id}").as_str()), "just text");
        let asked = Step::Call("attachment_read", json!({"id": id}));
        let run = stage.run(vec![asked], |_| panic!("it can't be read")).await;
        assert!(text(&run).contains("is no attachment of this conversation"), "{}", text(&run));
    }
}

#[tokio::test]
async fn named_files_are_limited_per_script() {
    let mut stage = Stage::new();
    stage.rules.files = 2;
    let files: Vec<_> = (1..=3).map(|id| attachment(id, &format!("{id}.txt"), "text/plain", b"x")).collect();
    files.iter().for_each(|file| stage.world.add_record(file.clone()));
    let ids: Vec<_> = files.iter().map(|file| file.id.to_string()).collect();
    let run = stage.run(vec![], move |_| ends_with(json!({ "attachment_ids": ids }))).await;
    assert_eq!(names(&run), ["1.txt", "2.txt"]);
    assert!(text(&run).contains("Error: 3 files are named, and only the first 2 are taken"), "{}", text(&run));
}

#[tokio::test]
async fn every_value_kind_is_formatted() {
    let stage = Stage::new();
    for (value, words, data) in [
        (json!(null), "Script executed successfully with no return value.", false),
        (json!("Result is 4"), "Script result: Result is 4", false),
        (json!(4), "Script result: 4", false),
        (json!(2.5), "Script result: 2.5", false),
        (json!(true), "Script result: True", false),
        (json!([1, "a"]), "Script result:\n[\n  1,\n  \"a\"\n]", true),
        (json!({"b": 1, "a": null}), "Script result:\n{\n  \"b\": 1,\n  \"a\": null\n}", true),
        (json!({}), "Script result:\n{}", true),
    ] {
        let given = value.clone();
        let run = stage.run(vec![], move |_| ends_with(given.clone())).await;
        assert_eq!((text(&run), run.data.as_ref()), (words, data.then_some(&value)));
        assert_eq!((run.attachments.len(), run.failed), (0, false));
    }
}

#[tokio::test]
async fn wake_contexts_follow_result_before_printed_output() {
    let wakes = || {
        vec![
            WakeRequest { context: json!({"why": "low disk"}), include_event: true },
            WakeRequest { context: json!("b\nc"), include_event: false },
        ]
    };
    let stage = Stage::new();
    let run = stage.run(vec![], move |_| ScriptEvaluation {
        printed: "one\ntwo\n".into(),
        wakes: wakes(),
        ..ends_with(json!(1))
    });
    let run = run.await;
    assert_eq!(
        text(&run),
        "Script result: 1\n--- Wake LLM Contexts ---\n{\"context\":{\"why\":\"low disk\"},\"include_event\":true}\n\
         {\"context\":\"b\\nc\",\"include_event\":false}\n--- Printed ---\none\ntwo"
    );
    assert_eq!(run.wakes.len(), 2);
}

#[tokio::test]
async fn script_failure_is_text_and_files_stay_stored() {
    let mut stage = Stage::new();
    stage.tools = caller(vec![("boom", Err(ToolError("the oven is cold".into())))]);
    let run = stage.run(vec![creates("kept.txt", "kept"), Step::Call("boom", json!({}))], |_| panic!("it fails")).await;
    assert_eq!((text(&run), run.failed), ("Error: Script execution failed: boom: the oven is cold", true));
    assert_eq!((run.attachments.len(), &run.data, &run.selection), (0, &None, &None));
    assert_eq!(run.to_model_text(), "Error: Script execution failed: boom: the oven is cold", "said once");
    let known = stage.world.services().archive.attachments(&AttachmentQuery::default()).await.unwrap();
    assert_eq!(known.iter().map(|file| file.filename.as_str()).collect::<Vec<_>>(), ["kept.txt"]);

    let failures = [
        (
            ScriptError::Syntax { line: 5, message: "unexpected `!`".into() },
            "Error: Syntax error in script at line 5: unexpected `!`",
        ),
        (
            ScriptError::TimedOut { after: Duration::from_secs(600) },
            "Error: Script execution timed out after 600 seconds",
        ),
    ];
    for (failure, words) in failures {
        let failed = failure.clone();
        let run = stage.run(vec![], move |_| ScriptEvaluation {
            printed: "so far".into(),
            ..ScriptEvaluation::from_error(failed.clone())
        });
        assert_eq!(text(&run.await), format!("{words}\n--- Printed ---\nso far"));
    }
}

/// A turn that is stopped delivers what its tools had made.
#[tokio::test]
async fn stopped_script_keeps_gathered_files() {
    let stage = Stage::new();
    let stopped =
        |_| ScriptEvaluation { printed: "so far".into(), ..ScriptEvaluation::from_error(ScriptError::Cancelled) };
    let run = stage.run(vec![creates("a.txt", "a"), creates("b.txt", "b")], stopped).await;
    assert_eq!((names(&run), run.failed), (vec!["a.txt".to_owned(), "b.txt".to_owned()], true));
    assert_eq!(text(&run), "Error: Script execution was cancelled\n--- Printed ---\nso far");
}

/// What a tool has done for later is named to people, however the script that called it ends.
#[tokio::test]
async fn notices_of_called_tools_survive_every_end() {
    let notice =
        OutcomeNotice { made: None, cancelled: Some(ReminderId(3)), text: "I cancelled reminder 3.".to_owned() };
    let failed = ScriptError::Failed { message: "x".to_owned() };
    for end in [Ok(json!(1)), Err(failed), Err(ScriptError::Cancelled)] {
        let mut stage = Stage::new();
        let outcome = ToolOutcome { notices: vec![notice.clone()], ..ToolOutcome::from_text("done") };
        stage.tools = caller(vec![("cancel", Ok(outcome))]);
        let evaluation = move |_| ScriptEvaluation { value: end.clone(), printed: String::new(), wakes: Vec::new() };
        let run = stage.run(vec![Step::Call("cancel", json!({}))], evaluation).await;
        assert_eq!(run.notices, std::slice::from_ref(&notice));
    }
}

#[tokio::test]
async fn script_files_and_bytes_are_limited() {
    let mut stage = Stage::new();
    stage.rules = ScriptRules { files: 2, files_bytes: 10, ..ScriptRules::default() };
    let run = stage.run(vec![creates("a", "1"), creates("b", "2"), creates("c", "3")], |_| panic!("too many")).await;
    assert!(text(&run).contains("the script has made 2 files; more are not allowed"), "{}", text(&run));
    let run = stage.run(vec![creates("a", "12345"), creates("b", "123456")], |_| panic!("too large")).await;
    assert!(text(&run).contains("attachment_create: b is larger than the 5 B (5 bytes)"), "{}", text(&run));
    stage.tools = caller(vec![(
        "big",
        Ok(ToolOutcome {
            attachments: vec![attachment(5, "big", "text/plain", &[0; 11]).into()],
            ..ToolOutcome::default()
        }),
    )]);
    let run = stage.run(vec![Step::Call("big", json!({}))], |_| panic!("too large")).await;
    assert!(text(&run).contains("the script has 1 files with 11 B; at most 2 files with 10 B"), "{}", text(&run));
    stage.world.limits.add_turn_bytes = 3;
    let run = stage.run(vec![creates("a", "1234")], |_| panic!("too large")).await;
    assert!(text(&run).contains("that this script has left"), "{}", text(&run));
}

/// Each was told when it began that the turn had room for ten bytes.
#[tokio::test]
async fn concurrent_scripts_share_the_turn_limit() {
    let mut stage = Stage::new();
    stage.world.limits.add_turn_bytes = 10;
    // Of two scripts, each takes a step.
    let tool = stage.tool(vec![creates("a", "123456"), creates("b", "123456")], |_| ends_with(Value::Null));
    let (first, second) = tokio::join!(stage.call(tool.as_ref()), stage.call(tool.as_ref()));
    assert_eq!((names(&first), first.failed), (vec!["a".to_owned()], false));
    assert_eq!((names(&second).len(), second.failed), (0, true));
    assert!(
        text(&second).contains("b is larger than the 4 B (4 bytes) that this script has left"),
        "{}",
        text(&second)
    );
}

#[tokio::test]
async fn wrong_files_are_refused_in_words() {
    let stage = Stage::new();
    let binary = attachment(5, "a.bin", "application/octet-stream", b"ab\xff\xfe\x00");
    stage.world.store(b"ab\xff\xfe\x00");
    stage.world.add_record(binary.clone());
    let huge = satchel_domain::Attachment { bytes: (8 << 20) + 1, ..attachment(6, "huge.txt", "text/plain", b"x") };
    stage.world.add_record(huge.clone());
    for (step, words) in [
        (Step::Create(new_file(" ", "", Visibility::Deliver), vec![]), "attachment_create: `filename` is empty"),
        (
            Step::Create(new_file("a", "no type", Visibility::Deliver), vec![]),
            "attachment_create: `no type` is not a MIME type",
        ),
        (
            Step::Create(
                NewScriptFile { description: "й".repeat(2_049), ..new_file("a.txt", "", Visibility::Deliver) },
                vec![],
            ),
            "attachment_create: the description of a.txt has 4098 bytes; at most 4096 are allowed",
        ),
        (
            Step::Call("attachment_read", json!({"id": binary.id})),
            "attachment_read: a.bin is not text: it is application/octet-stream",
        ),
        (
            Step::Call("attachment_read", json!({"id": huge.id})),
            "attachment_read: huge.txt has 8388609 bytes (8.3 MB); a script is given at most 8.3 MB at once",
        ),
    ] {
        let run = stage.run(vec![step], |_| panic!("it is wrong")).await;
        assert!(text(&run).contains(words), "`{words}` is not in `{}`", text(&run));
    }
}

#[tokio::test]
async fn description_at_max_length_is_preserved() {
    let longest = "й".repeat(2_048);
    let file = NewScriptFile { description: longest.clone(), ..new_file("a.txt", "", Visibility::Deliver) };
    let run = Stage::new().run(vec![Step::Create(file, vec![])], |_| ends_with(Value::Null)).await;
    assert_eq!(stored_files(&run)[0].description, longest);
}

#[tokio::test]
async fn script_file_stays_internal_and_detects_missing_type() {
    let stage = Stage::new();
    let steps =
        vec![Step::Create(new_file("data.csv", "application/octet-stream", Visibility::Internal), b"a,b".to_vec())];
    let run = stage.run(steps, |yielded| ends_with(json!({"attachment_id": yielded[0]}))).await;
    let file = stored_files(&run).remove(0);
    assert_eq!((file.visibility, file.mime.as_str()), (Visibility::Internal, "text/csv"));
}

#[tokio::test]
async fn script_passes_on_reply_requests_of_its_tools() {
    let mut stage = Stage::new();
    let file = |id, name| attachment(id, name, "text/plain", name.as_bytes());
    let voice = VoiceRequest { text: Some("hello".into()) };
    stage.tools = caller(vec![
        ("send_voice", Ok(ToolOutcome { voice: Some(voice.clone()), ..ToolOutcome::default() })),
        (
            "response_attachments",
            Ok(ToolOutcome { selection: Some(vec![file(2, "chosen").into()]), ..ToolOutcome::default() }),
        ),
    ]);
    let steps = vec![
        creates("before", "before"),
        Step::Call("send_voice", json!({})),
        Step::Call("response_attachments", json!({})),
        creates("after", "after"),
    ];
    let run = stage.run(steps, |_| ends_with(json!("x"))).await;
    assert_eq!(run.voice, Some(voice));
    let selection = ToolOutcome { attachments: run.selection.unwrap(), ..ToolOutcome::default() };
    let selected = names(&selection);
    assert_eq!(selected, ["chosen", "after"], "the selection and what was made after it");
}

#[tokio::test]
async fn scripts_call_only_allowed_tools_and_no_scripts() {
    let mut stage = Stage::new();
    stage.tools = caller(vec![("chart", Ok(ToolOutcome::from_text("x"))), ("zip", Ok(ToolOutcome::from_text("y")))]);
    let asked = || Step::Call("tools_execute", json!({"tool_name": SCRIPT_TOOL, "script": "x"}));
    let run = stage.run(vec![asked()], |_| panic!("refused")).await;
    assert!(text(&run).contains("there is no tool `execute_script`; there are: chart, zip"), "{}", text(&run));
    stage.rules.allowed_tools = Some(vec!["zip".into()]);
    let run = stage.run(vec![Step::Call("chart", json!({}))], |_| panic!("refused")).await;
    assert!(text(&run).contains("there is no tool `chart`; there are: zip"), "{}", text(&run));
    stage.rules.deny_all_tools = true;
    let run = stage.run(vec![Step::Call("zip", json!({}))], |_| panic!("refused")).await;
    assert!(text(&run).contains("this script may call none"), "{}", text(&run));
    let listed = stage.run(vec![Step::Call("tools_list", json!({}))], |yielded| ends_with(yielded[0].clone())).await;
    assert_eq!(listed.data, Some(json!([])));

    let context = ToolContext { tools: None, ..stage.world.context() };
    let host = Arc::new(satchel_ports::MockScriptHost::new());
    let nested = execute_script(stage.world.services(), host, ScriptRules::default());
    let refused = nested.call(json!({"script": "return 1"}), &context).await.unwrap_err();
    assert!(refused.0.contains("a script can't run scripts"), "{refused}");
}

#[test]
fn execute_script_spec_matches_snapshot() {
    let host = Arc::new(satchel_ports::MockScriptHost::new());
    let tool = execute_script(Surroundings::new().services(), host, ScriptRules::default());
    insta::assert_json_snapshot!("execute_script", tool.spec());
}

#[tokio::test(start_paused = true)]
async fn tool_receives_remaining_script_time() {
    let left: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let told = Arc::clone(&left);
    let mut tools = MockToolCaller::new();
    tools.expect_specs().returning(|| {
        let spec = ToolSpec {
            name: "look".to_owned(),
            description: String::new(),
            parameters: json!({}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        };
        Arc::new([spec])
    });
    tools.expect_call().returning(move |_, _, left| {
        told.lock().unwrap().push(left);
        Ok(ToolOutcome::from_text("seen"))
    });
    let stage = Stage { tools: Arc::new(tools), ..Stage::new() };
    let look = || Step::Call("look", json!({}));
    stage.run(vec![look(), Step::Pass(Duration::from_secs(500)), look()], |_| ends_with(Value::Null)).await;
    assert_eq!(*left.lock().unwrap(), [600, 100].map(Duration::from_secs));
}
