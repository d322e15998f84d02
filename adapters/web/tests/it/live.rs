//! A reply that is being written, as those who look see it grow.

use satchel_domain::{CallId, TurnId};
use satchel_ports::BusEvent;
use serde_json::{Value, json};

use crate::stage::{Events, Stage, conversation};

/// What a page makes of the events that it is sent.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    blocks: Vec<Value>,
    tools: Vec<(Value, Value)>,
}

impl Seen {
    fn of(live: &Value) -> Self {
        let tools = live["tools"].as_array().unwrap().iter().map(|tool| (tool["call"].clone(), tool["state"].clone()));
        Self { blocks: live["blocks"].as_array().unwrap().clone(), tools: tools.collect() }
    }

    fn take(&mut self, name: &str, data: &Value) {
        match name {
            "live" => *self = Self::of(data),
            "snapshot" if data["live"].is_object() => *self = Self::of(&data["live"]),
            "blocks" => {
                let from = data["from"].as_u64().unwrap() as usize;
                assert!(from <= self.blocks.len(), "nothing is left out: {data}");
                self.blocks.truncate(from);
                self.blocks.extend(data["blocks"].as_array().unwrap().iter().cloned());
            }
            "tool" => {
                let known = self.tools.iter_mut().find(|(call, _)| *call == data["call"]);
                match known {
                    Some((_, state)) => *state = data["state"].clone(),
                    None => self.tools.push((data["call"].clone(), data["state"].clone())),
                }
            }
            _ => {}
        }
    }
}

async fn follow(events: &mut Events, seen: &mut Seen, wanted: impl Fn(&Seen) -> bool) {
    while !wanted(seen) {
        let (name, data) = events.next().await.expect("the stream goes on");
        seen.take(&name, &data);
    }
}

fn tool(turn: TurnId, ordinal: u32, failed: Option<bool>) -> BusEvent {
    let (conversation, call) = (conversation(), CallId { turn, ordinal });
    match failed {
        None => BusEvent::ToolStarted { conversation, call, tool: "file_read".into() },
        Some(failed) => BusEvent::ToolFinished { conversation, call, tool: "file_read".into(), failed },
    }
}

#[tokio::test]
async fn first_delta_is_immediate_and_updates_are_incremental() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    stage.wrote(turn, 0, "# Title\n\nOne *mo").await;
    let live = events.find("live", |_| true).await;
    assert_eq!(live["turn"], json!(turn.to_string()));
    assert_eq!(live["blocks"], json!(["<h3>Title</h3>", "<p>One *mo</p>"]));
    stage.wrote(turn, 0, "re*\n\n<b>").await;
    let blocks = events.expect("blocks").await;
    let expected = json!({
        "turn": turn.to_string(), "from": 1, "blocks": ["<p>One <em>more</em></p>", "<p class=\"plain\">&lt;b&gt;</p>"],
    });
    assert_eq!(blocks, expected);
}

#[tokio::test]
async fn reconnecting_page_catches_up_mid_stream() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    // Nobody looks yet; what is written is remembered all the same.
    stage.wrote(turn, 0, "One\n\n").await;
    let mut first = Events::of(&stage).await;
    let mut seen = Seen::default();
    follow(&mut first, &mut seen, |seen| !seen.blocks.is_empty()).await;
    for number in 0..20 {
        stage.wrote(turn, 0, &format!("Piece {number} of it. ")).await;
        if number % 7 == 0 {
            stage.publish(tool(turn, number, None)).await;
        }
        if number == 10 {
            let mut late = Events::of(&stage).await;
            let snapshot = late.expect("snapshot").await;
            assert_eq!(snapshot["turns"][0]["state"], "running");
            let mut late_seen = Seen::of(&snapshot["live"]);
            assert_eq!(late_seen.blocks[0], "<p>One</p>");
            stage.wrote(turn, 0, "\n\nEnd\n\n").await;
            let ends = |seen: &Seen| seen.blocks.contains(&json!("<p>End</p>"));
            follow(&mut late, &mut late_seen, ends).await;
            follow(&mut first, &mut seen, ends).await;
            assert_eq!(seen, late_seen);
        }
    }
    follow(&mut first, &mut seen, |seen| {
        seen.blocks.last().is_some_and(|block| block.as_str().unwrap().ends_with("Piece 19 of it.</p>"))
    })
    .await;
    assert_eq!(seen.blocks.len(), 4);
    stage.reply("Something else in the end", Vec::new()).await;
    first.find("turn", |turn| turn["state"] == "done").await;
    let after = Events::of(&stage).await.expect("snapshot").await;
    assert_eq!(after["live"], json!(null));
}

#[tokio::test]
async fn next_model_message_grows_below_the_previous() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let mut events = Events::of(&stage).await;
    let mut seen = Seen::default();
    stage.wrote(turn, 0, "Let me\n\nlook at\n\nthat").await;
    follow(&mut events, &mut seen, |seen| seen.blocks.len() == 3).await;
    stage.publish(tool(turn, 0, None)).await;
    stage.publish(tool(turn, 1, None)).await;
    stage.publish(tool(turn, 0, Some(false))).await;
    stage.publish(tool(turn, 1, Some(true))).await;
    stage.wrote(turn, 1, "Done").await;
    let shown = ["<p>Let me</p>", "<p>look at</p>", "<p>that</p>", "<p>Done</p>"];
    follow(&mut events, &mut seen, |seen| seen.blocks == shown).await;
    let call = |ordinal: u32| json!(CallId { turn, ordinal }.to_string());
    assert_eq!(seen.tools, [(call(0), json!("finished")), (call(1), json!("failed"))]);
    let snapshot = Events::of(&stage).await.expect("snapshot").await;
    let places: Vec<_> = snapshot["live"]["tools"].as_array().unwrap().iter().map(|tool| &tool["after"]).collect();
    assert_eq!(places, [3, 3], "between the text that requested them and the next");
}

#[tokio::test]
async fn burst_of_calls_is_merged_and_disconnects_nobody() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    let mut seen = Seen::default();
    for ordinal in 0..150 {
        stage.publish(tool(turn, ordinal, None)).await;
    }
    for ordinal in 0..150 {
        stage.publish(tool(turn, ordinal, Some(false))).await;
    }
    let finished = |seen: &Seen| seen.tools.len() == 150 && seen.tools.iter().all(|(_, state)| state == "finished");
    follow(&mut events, &mut seen, finished).await;
}
