//! Scripts in messages, and tools that call tools.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_domain::{
    Attachment, Ending, OutgoingResponse, PartContent, PartId, SystemTask, ToolOutcome, Visibility, WakeRequest,
    part::{FailureReason, UndeliveredPart},
};
use satchel_ports::{ModelMessage, OutcomeReader, SafetyTier, ToolError, ledger::JournalEntry};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    recorded,
    stage::{Counter, Stage, TURN, calls, code_of, file, says, text_of, tool, tool_that_calls, waiting},
};

/// The time that a script has left which needn't hurry.
const HOUR: Duration = Duration::from_secs(3_600);

const SCRIPT: &str = "```starlark\nreturn 2 + 2\n```";

/// A turn whose message is a script, and the tool that answers it so.
fn script_stage(model: Vec<Vec<Result<satchel_ports::ModelEvent, &'static str>>>, outcome: ToolOutcome) -> Stage {
    let mut stage = Stage::with_model(model);
    stage.turn.messages[0].message.text = SCRIPT.into();
    stage.tools.push(tool("execute_script", SafetyTier::SideEffecting, move |arguments| {
        assert_eq!(arguments, json!({"script": "return 2 + 2\n"}));
        let outcome = outcome.clone();
        async move { Ok(outcome) }
    }));
    stage
}

fn on_schedule(mut stage: Stage) -> Stage {
    let due = "2026-11-22 08:00 Europe/Berlin".to_owned();
    stage.turn.messages[0].message.system_task = Some(SystemTask::RunSchedule { name: "daily".into(), due });
    stage
}

#[tokio::test(start_paused = true)]
async fn written_script_runs_verbatim_without_model() {
    let outcome =
        ToolOutcome { attachments: vec![file(1, "chart.png").into()], ..ToolOutcome::from_text("Script result: 4") };
    let played = script_stage(Vec::new(), outcome).play().await;
    assert_eq!(played.log, ["journal message", "journal outcome 0", "complete done"], "journalled as any call is");
    assert_eq!(played.requests.len(), 0);
    let OutgoingResponse { text, attachments, .. } = &played.completed.response;
    assert_eq!((text.as_deref(), attachments.len()), (Some("Script result: 4"), 1));
}

#[tokio::test(start_paused = true)]
async fn script_does_not_start_while_the_process_stops() {
    let stage = script_stage(Vec::new(), ToolOutcome::from_text("Script result: 4"));
    let stopped = stage.play_until_stop(Duration::ZERO).await;
    assert_eq!(stopped.log, [""; 0], "the next process starts it");
}

#[tokio::test(start_paused = true)]
async fn variables_behind_label_are_globals_of_call() {
    let mut stage = Stage::with_model(Vec::new());
    stage.turn.messages[0].message.text = "```starlark {\"city\": \"Berlin\"}\nreturn city\n```".into();
    stage.tools.push(tool("execute_script", SafetyTier::SideEffecting, |arguments| async move {
        assert_eq!(arguments, json!({"script": "return city\n", "globals": {"city": "Berlin"}}));
        Ok(ToolOutcome::from_text("Script result: Berlin"))
    }));
    let played = stage.play().await;
    assert_eq!(played.completed.response.text.as_deref(), Some("Script result: Berlin"));
}

#[tokio::test(start_paused = true)]
async fn json_keeps_its_lines_where_people_read_it() {
    let outcome = || ToolOutcome {
        data: Some(json!({"a": [1]})),
        ..ToolOutcome::from_text("Script result:\n{\n  \"a\": [\n    1\n  ]\n}\n--- Printed ---\nx")
    };
    let block = "```json\n{\n  \"a\": [\n    1\n  ]\n}\n```\n--- Printed ---\nx";
    let said = script_stage(Vec::new(), outcome()).play().await.completed.response.text;
    assert_eq!(said, Some(format!("Script result:\n{block}")));
    let said = on_schedule(script_stage(Vec::new(), outcome())).play().await.completed.response.text;
    assert_eq!(said.as_deref(), Some(block));
}

#[tokio::test(start_paused = true)]
async fn interrupted_script_is_not_rerun_and_files_listed() {
    let mut stage = script_stage(Vec::new(), ToolOutcome::from_text("never"));
    let call = JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![recorded("execute_script", 0)],
        awaiting_decision: vec![],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    };
    stage.turn.journal = vec![call];
    let internal = Attachment { visibility: Visibility::Internal, ..file(1, "notes.json") };
    stage.made = vec![file(3, "second.txt"), file(2, "first.txt"), internal];
    let played = stage.play().await;
    let said = played.completed.response.text.unwrap();
    assert!(said.contains("outcome unknown") && !said.contains("never"), "{said}");
    let places = ["Files of this turn so far:", "first.txt", "second.txt"].map(|word| said.find(word).unwrap());
    assert!(places.is_sorted(), "{said}");
    assert!(said.contains("#2 `first.txt`, #3 `second.txt`") && said.contains("`/resend 2`"), "{said}");
    assert!(!said.contains("notes.json"), "people don't see it anywhere else: {said}");
    assert!(!said.contains("execute_script") && !said.contains("[attachment"), "in words for people: {said}");
    assert_eq!(played.completed.response.attachments, [], "what a script that failed has made is not sent");
}

/// The worker was removed before the restart.
#[tokio::test(start_paused = true)]
async fn interrupted_script_is_reported_without_its_worker() {
    let call = JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![recorded("execute_script", 0)],
        awaiting_decision: vec![],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    };
    let outcome = JournalEntry::Outcome { ordinal: 0, outcome: ToolOutcome::from_text("Script result: 4") };
    for (journal, expected) in [(vec![call.clone()], "outcome unknown"), (vec![call, outcome], "4")] {
        for is_scheduled in [true, false] {
            let mut stage = script_stage(Vec::new(), ToolOutcome::from_text("never"));
            stage.tools.clear();
            stage.turn.journal.clone_from(&journal);
            let played = if is_scheduled { on_schedule(stage) } else { stage }.play().await;
            let text = played.completed.response.text.unwrap();
            assert!(text.contains(expected) && !text.contains("did not run"), "{text}");
        }
    }
}

/// The attack: the power fails while a script of the terminal's runs, whose tier would need a word anywhere else.
#[tokio::test(start_paused = true)]
async fn trusted_script_needs_no_decision_and_never_reruns() {
    let stage = |trusted| {
        let mut stage = Stage::with_model(Vec::new());
        stage.settings.trust_written_scripts = trusted;
        stage.turn.messages[0].message.text = SCRIPT.into();
        let runs = stage.counter();
        let counted = runs.clone();
        stage.tools.push(tool("execute_script", SafetyTier::Privileged, move |_| {
            counted.add();
            async { Ok(ToolOutcome::from_text("Script result: 4")) }
        }));
        (stage, runs)
    };
    let (first, runs) = stage(true);
    let first = first.play().await;
    let [JournalEntry::Model { awaiting_decision: asks, .. }] = first.journal.as_slice() else {
        panic!("{:?}", first.journal)
    };
    assert_eq!((asks.as_slice(), runs.count()), (&[] as &[u32], 1));

    for trusted in [true, false] {
        let (mut resumed, runs) = stage(trusted);
        resumed.turn.journal.clone_from(&first.journal);
        let resumed = resumed.play().await;
        let said = resumed.completed.response.text.unwrap();
        assert!(said.contains("outcome unknown") && runs.count() == 0, "{said}");
        assert!(!resumed.log.iter().any(|line| line.starts_with("ask")), "{:?}", resumed.log);
    }
}

#[tokio::test(start_paused = true)]
async fn written_script_does_not_use_model_budget() {
    let allowing = |model_calls, mut stage: Stage| {
        (stage.settings.max_model_calls, stage.settings.max_tool_calls) = (model_calls, 0);
        stage
    };
    let played = allowing(0, script_stage(Vec::new(), ToolOutcome::from_text("Script result: 4"))).play().await;
    assert_eq!(played.completed.ending, Ending::Done);
    assert_eq!(played.completed.response.text.as_deref(), Some("Script result: 4"));

    let wakes = || ToolOutcome {
        wakes: vec![WakeRequest { context: json!("look"), include_event: true }],
        ..ToolOutcome::from_text("Script executed successfully with no return value.")
    };
    let played = allowing(1, script_stage(vec![says("I see.")], wakes())).play().await;
    assert_eq!(played.completed.response.text.as_deref(), Some("I see."));
    assert_eq!(played.completed.ending, Ending::Done);
    let played = allowing(1, script_stage(vec![calls(&[("execute_script", json!({}))])], wakes())).play().await;
    assert!(matches!(played.completed.ending, Ending::Budget { .. }), "the model's own call is one too many");
}

#[tokio::test(start_paused = true)]
async fn only_own_script_outcome_is_read_by_people() {
    let seen: Arc<Mutex<Vec<OutcomeReader>>> = Arc::default();
    let saw = |seen: &Arc<Mutex<Vec<OutcomeReader>>>, name: &str| {
        let seen = Arc::clone(seen);
        tool_that_calls(name, SafetyTier::ReadOnly, move |_, context| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(context.reader);
                if let Some(tools) = context.tools {
                    tools.call("inner", json!({}), HOUR).await.unwrap();
                }
                Ok(ToolOutcome::from_text("Script result: 4"))
            }
        })
    };
    let mut stage = Stage::with_model(Vec::new());
    stage.turn.messages[0].message.text = SCRIPT.into();
    stage.tools = vec![saw(&seen, "execute_script"), saw(&seen, "inner")];
    stage.play().await;
    let mut stage = Stage::with_model(vec![calls(&[("execute_script", json!({}))]), says("Four.")]);
    stage.tools = vec![saw(&seen, "execute_script"), saw(&seen, "inner")];
    stage.play().await;
    let (person, model, program) = (OutcomeReader::Person, OutcomeReader::Model, OutcomeReader::Program);
    assert_eq!(*seen.lock().unwrap(), [person, program, model, program]);
}

/// Mutation: what a person's script makes counts as made by a model, or the other way round.
#[tokio::test(start_paused = true)]
async fn calls_of_written_scripts_are_no_models() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let saw = |name: &str| {
        let seen = Arc::clone(&seen);
        tool_that_calls(name, SafetyTier::ReadOnly, move |_, context| {
            seen.lock().unwrap().push(context.is_written_script);
            async move {
                if let Some(tools) = context.tools {
                    tools.call("inner", json!({}), HOUR).await.unwrap();
                }
                Ok(ToolOutcome::from_text("Script result: 4"))
            }
        })
    };
    let mut stage = Stage::with_model(Vec::new());
    stage.turn.messages[0].message.text = SCRIPT.into();
    stage.tools = vec![saw("execute_script"), saw("inner")];
    stage.play().await;
    let mut stage = Stage::with_model(vec![calls(&[("execute_script", json!({}))]), says("Four.")]);
    stage.tools = vec![saw("execute_script"), saw("inner")];
    stage.play().await;
    assert_eq!(*seen.lock().unwrap(), [true, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn without_script_runner_model_answers_script_message() {
    let mut stage = Stage::with_model(vec![says("That is four.")]);
    stage.turn.messages[0].message.text = SCRIPT.into();
    assert_eq!(stage.play().await.completed.response.text.as_deref(), Some("That is four."));
}

#[tokio::test(start_paused = true)]
async fn message_after_script_is_its_own_turn() {
    let mut stage = Stage::with_model(Vec::new());
    stage.turn.messages[0].message.text = SCRIPT.into();
    stage.tools.push(tool("execute_script", SafetyTier::SideEffecting, |_| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(ToolOutcome::from_text("Script result: 4"))
    }));
    stage.arrives_after(Duration::ZERO, waiting(7, "ok"));
    stage.arrives_after(Duration::from_secs(1), waiting(8, "and in words"));
    let played = stage.play().await;
    assert_eq!(played.completed.response.text.as_deref(), Some("Script result: 4"));
    assert_eq!(played.completed.steered, [], "nothing of it is consumed");
    assert_eq!(played.requests.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn delivery_failures_wait_for_next_model_call() {
    let untold = || UndeliveredPart {
        part: PartId(Uuid::from_u128(9)),
        turn: TURN,
        content: PartContent::from_text("lost"),
        reason: FailureReason::TooLarge { limit: 1 },
        notice_arrived: true,
        text_arrived: false,
    };
    let mut stage = script_stage(Vec::new(), ToolOutcome::from_text("Script result: 4"));
    stage.turn.unreported_failures = vec![untold()];
    assert_eq!(stage.play().await.completed.reported_failures, []);
    let mut stage = Stage::with_model(vec![says("I see.")]);
    stage.turn.unreported_failures = vec![untold()];
    assert_eq!(stage.play().await.completed.reported_failures, [untold().part]);
}

#[tokio::test(start_paused = true)]
async fn unrunnable_scheduled_script_is_reported_without_model() {
    let mut stage = on_schedule(Stage::with_model(Vec::new()));
    stage.turn.messages[0].message.text = SCRIPT.into();
    let said = stage.play().await.completed.response.text.unwrap();
    assert_eq!(
        said,
        "This scheduled script did not run, because scripts are off here; ask the person who runs this bot."
    );
}

#[tokio::test(start_paused = true)]
async fn model_woken_by_schedule_always_replies() {
    let wake = WakeRequest { context: json!("backup failed"), include_event: true };
    let text = "Script executed successfully with no return value.\n--- Wake LLM Contexts ---\n{…}";
    let outcome = ToolOutcome { wakes: vec![wake], ..ToolOutcome::from_text(text) };
    let played = on_schedule(script_stage(vec![says("")], outcome)).play().await;
    assert!(played.completed.response.text.is_some_and(|text| text.contains("without anything to send")));
}

/// The word of whoever writes scripts at the terminal is for the script, and for nothing that a model adds.
#[tokio::test(start_paused = true)]
async fn script_trust_does_not_extend_to_woken_model() {
    let vault = |opened: Counter| {
        tool("vault", SafetyTier::Privileged, move |_| {
            opened.add();
            async { Ok(ToolOutcome::from_text("the secret")) }
        })
    };
    let wakes = vec![WakeRequest { context: json!("look"), include_event: true }];
    let mut stage = Stage::with_model(vec![calls(&[("vault", json!({}))]), says("Done.")]);
    stage.settings.trust_written_scripts = true;
    stage.turn.messages[0].message.text = SCRIPT.into();
    stage.tools.push(tool_that_calls("execute_script", SafetyTier::SideEffecting, move |_, context| {
        let wakes = wakes.clone();
        async move {
            let inside = context.tools.expect("others can be called").call("vault", json!({}), HOUR).await;
            Ok(ToolOutcome { wakes, ..ToolOutcome::from_text(inside.expect("nobody is asked").to_model_text()) })
        }
    }));
    let opened = stage.counter();
    stage.tools.push(vault(opened.clone()));
    let played = stage.play().await;
    assert_eq!(opened.count(), 1, "the script's call and not the model's");
    assert!(played.answers(1)[1].contains("nobody allowed this call"), "{:?}", played.answers(1));
}

#[tokio::test(start_paused = true)]
async fn scheduled_script_sends_its_value_or_nothing() {
    for (outcome, said) in [
        ("Script result: Good morning", Some("Good morning")),
        ("Script executed successfully with no return value.", None),
        ("Error: Script execution failed: boom", Some("Error: Script execution failed: boom")),
        ("Script executed successfully with no return value.\n--- Printed ---\nx", Some("--- Printed ---\nx")),
        ("Script result: 00000000-0000-0000-0000-000000000009", Some("00000000-0000-0000-0000-000000000009")),
    ] {
        let played = on_schedule(script_stage(Vec::new(), ToolOutcome::from_text(outcome))).play().await;
        assert_eq!(played.completed.response.text.as_deref(), said);
        assert_eq!(played.completed.plan.parts.is_empty(), said.is_none(), "nobody is bothered with nothing");
    }
    let spoken = on_schedule(script_stage(
        Vec::new(),
        ToolOutcome {
            attachments: vec![file(1, "report.md").into()],
            ..ToolOutcome::from_text("Script executed successfully with no return value.")
        },
    ));
    let played = spoken.play().await;
    assert_eq!((played.completed.response.text, played.completed.response.attachments.len()), (None, 1));
    let of_an_id = on_schedule(script_stage(
        Vec::new(),
        ToolOutcome {
            attachments: vec![file(1, "report.md").into()],
            ..ToolOutcome::from_text("Script result: 00000000-0000-0000-0000-000000000001")
        },
    ));
    assert_eq!(of_an_id.play().await.completed.response.text, None, "the file speaks for itself");
}

#[tokio::test(start_paused = true)]
async fn waking_script_calls_model_with_its_context() {
    for (include_event, on_time) in [(true, true), (false, true), (true, false)] {
        let wake = WakeRequest { context: json!("the disk is full"), include_event };
        let text = "Script executed successfully with no return value.\n--- Wake LLM Contexts ---\n{…}";
        let outcome = ToolOutcome { wakes: vec![wake], ..ToolOutcome::from_text(text) };
        let stage = script_stage(vec![says("I will look.")], outcome);
        let played = if on_time { on_schedule(stage) } else { stage }.play().await;
        assert_eq!(played.completed.response.text.as_deref(), Some("I will look."));
        let notes: Vec<String> = played.requests[0]
            .messages
            .iter()
            .filter(|message| matches!(message, ModelMessage::Note { .. }))
            .map(text_of)
            .collect();
        let told = notes.iter().any(|note| note.contains("schedule \"daily\"") && note.contains("08:00 Europe/Berlin"));
        assert_eq!(told, include_event && on_time, "{notes:?}");
        assert_eq!(played.answers(0), [text]);
    }
}

#[tokio::test(start_paused = true)]
async fn scheduled_prompt_reaches_model_marked_as_automatic() {
    let mut stage = on_schedule(Stage::with_model(vec![says("Good morning!")]));
    stage.turn.messages[0].message.text = "Say good morning".into();
    let played = stage.play().await;
    let seen: Vec<String> = played.requests[0].messages.iter().map(text_of).collect();
    assert_eq!(seen[1], "Say good morning");
    assert!(seen[2].starts_with("No person wrote this message"), "{seen:?}");
}

/// A tool that calls another one with no arguments as often as it is told to, and answers what it heard.
fn calling(other: &'static str, times: usize) -> Arc<dyn satchel_ports::Tool> {
    tool_that_calls("execute_script", SafetyTier::SideEffecting, move |_, context| async move {
        let tools = context.tools.expect("the model's own call can call others");
        let mut heard = Vec::new();
        for _ in 0..times {
            heard.push(match tools.call(other, json!({}), HOUR).await {
                Ok(outcome) => outcome.to_model_text(),
                Err(error) => format!("refused: {error}"),
            });
        }
        Ok(ToolOutcome::from_data(Value::from(heard)))
    })
}

fn heard(stage_answers: &[String]) -> Vec<String> {
    serde_json::from_str(&stage_answers[0]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nested_tool_call_is_checked_and_cannot_nest() {
    let asked = || vec![calls(&[("execute_script", json!({}))]), says("Done.")];
    let mut stage = Stage::with_model(asked());
    stage.tools.push(calling("inner", 1));
    stage.tools.push(tool_that_calls("inner", SafetyTier::ReadOnly, |_, context| async move {
        assert!(context.tools.is_none() && context.call.ordinal > 1_000);
        Ok(ToolOutcome::from_text("inside"))
    }));
    assert_eq!(heard(&stage.play().await.answers(1)), ["inside"]);

    for (other, words) in
        [("missing", "there is no tool `missing`"), ("fails", "the oven is cold"), ("panics", "crashed")]
    {
        let mut stage = Stage::with_model(asked());
        stage.tools.push(calling(other, 1));
        stage.tools.push(tool("fails", SafetyTier::ReadOnly, |_| async { Err(ToolError("the oven is cold".into())) }));
        stage.tools.push(tool("panics", SafetyTier::ReadOnly, |_| async { panic!("a fault") }));
        let answers = heard(&stage.play().await.answers(1));
        assert!(answers[0].starts_with("refused: ") && answers[0].contains(words), "{answers:?}");
    }

    let mut stage = Stage::with_model(asked());
    stage.turn.messages[0].message.group = true;
    stage.tools.push(calling("vault", 1));
    stage.tools.push(tool("vault", SafetyTier::Privileged, |_| async { panic!("it never runs") }));
    let answers = heard(&stage.play().await.answers(1));
    assert!(answers[0].contains("can't be used in a chat that other people can read"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn partly_failed_call_reaches_its_script() {
    let mut stage = Stage::with_model(vec![calls(&[("execute_script", json!({}))]), says("Done.")]);
    stage.tools.push(tool_that_calls("execute_script", SafetyTier::SideEffecting, |_, context| async move {
        let outcome = context.tools.expect("others can be called").call("half", json!({}), HOUR).await?;
        Ok(ToolOutcome::from_data(json!([outcome.data, outcome.failed])))
    }));
    stage.tools.push(tool("half", SafetyTier::ReadOnly, |_| async {
        let data = Some(json!({"files": ["a"], "failed": ["b"]}));
        Ok(ToolOutcome { data, ..ToolOutcome::from_failure("1 of 2 files could not be downloaded") })
    }));
    assert_eq!(stage.play().await.answers(1), [r#"[{"files":["a"],"failed":["b"]},true]"#]);
}

/// The attack: a script around a tool that a person must allow, and one word taken for two calls.
#[tokio::test(start_paused = true)]
async fn each_privileged_script_call_is_confirmed_separately() {
    let mut stage = Stage::with_model(vec![calls(&[("execute_script", json!({}))]), says("Done.")]);
    stage.tools.push(calling("vault", 2));
    let opened = stage.counter();
    let counted = opened.clone();
    stage.tools.push(tool("vault", SafetyTier::Privileged, move |_| {
        counted.add();
        async { Ok(ToolOutcome::from_text("the secret")) }
    }));
    let mut within = recorded("vault", 0);
    within.id = within.id.nested(0);
    stage.arrives_after(Duration::from_secs(5), waiting(90, &format!("/allow {}", code_of(&within))));
    let played = stage.play().await;
    let answers = heard(&played.answers(1));
    assert_eq!((opened.count(), answers[0].as_str()), (1, "the secret"));
    assert!(answers[1].contains("nobody allowed this call"), "{answers:?}");
    let asked = played.log.iter().filter(|line| line.starts_with("ask May I use `vault`?")).count();
    assert_eq!(asked, 2, "{:?}", played.log);
}
