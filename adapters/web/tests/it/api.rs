//! The rows of the API: what is asked, what is answered.

use std::sync::Arc;

use satchel_domain::{
    ChannelClosure, ChannelName, ChannelState, MessageRef, Part, PartContent, PartState, Timestamp,
    part::FailureReason, part::PreparedVoice,
};
use satchel_ports::{Archive, Channel, Leases, MockChannel, Outbox, Turns, ledger::WorkFilter};
use satchel_wait::wait_until_async;
use serde_json::json;

use crate::stage::{Events, Stage, header, plain_text, problem, read, sent, unknown_id};

#[tokio::test]
async fn the_page_is_served_and_not_sent_twice() {
    let stage = Stage::new().await;
    let index = stage.get("/").await;
    assert_eq!(index.status(), 200);
    assert_eq!(header(&index, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&index, "cache-control"), "no-cache");
    let tag = header(&index, "etag");
    let again = stage.client.get(stage.url("/")).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.text().await.unwrap().as_str()), (304, ""));
    let same = stage.get("/page/index.html").await;
    assert_eq!(header(&same, "etag"), tag);
    problem(stage.get("/page/none.js").await, 404, "not_found").await;
    problem(stage.get("/elsewhere").await, 404, "not_found").await;
}

#[tokio::test]
async fn a_page_hears_first_what_it_must_know() {
    let stage = Stage::new().await;
    let session = stage.json("/api/session").await;
    let expected = json!({
        "authorized": true, "owner": false, "token_required": true, "model": "offline", "model_is_offline": true,
        "model_takes_images": false,
        "version": env!("CARGO_PKG_VERSION"),
        "limits": {"file_bytes": 300_000, "files_per_message": 3},
    });
    assert_eq!(session, expected);
}

#[tokio::test]
async fn message_is_stored_once_before_acceptance() {
    let stage = Stage::new().await;
    let turn = stage.say("k1", "Hello").await;
    let record = stage.ledger.turn(turn).await.unwrap().expect("it is in the ledger");
    assert_eq!(record.messages[0].message.text, "Hello");
    assert_eq!(stage.say("k1", "Hello").await, turn, "the same key is the same message");
    let other = stage.post("/api/conversations/b/messages").json(&json!({"key": "k1", "text": "Hello"}));
    let other = read(other.send().await.unwrap()).await;
    assert_ne!(other["turn"], json!(turn.to_string()), "another conversation has keys of its own");
    let conversations = stage.json("/api/conversations").await;
    let listed: Vec<_> = conversations["conversations"].as_array().unwrap().iter().collect();
    assert_eq!(listed.iter().map(|one| &one["id"]).collect::<Vec<_>>(), ["web:b", "web:a"]);
    assert_eq!(listed[0]["title"], "Hello");
    assert!(listed[0]["last_at"].as_i64() > Some(1_600_000_000_000));
    let one = stage.json("/api/conversations?limit=1").await;
    assert_eq!(one["conversations"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_edit_replaces_a_message_that_waits() {
    let stage = Stage::new().await;
    stage.say("k1", "first").await;
    let turn = stage.say("k2", "secnod").await;
    let edit = json!({"key": "k3", "text": "second", "edit_of": "k2"});
    let edited = stage.post("/api/conversations/a/messages").json(&edit).send().await.unwrap();
    assert_eq!(read(edited).await["turn"], json!(turn.to_string()));
    let turns = stage.json("/api/conversations/a/turns").await;
    assert_eq!(turns["turns"][1]["messages"][0]["text"], "second");
}

#[tokio::test]
async fn messages_that_cant_be_taken_are_told_why() {
    let stage = Stage::new().await;
    let long = "x".repeat(2 << 20);
    for (body, status, code) in [
        (json!({"key": "k", "text": "  \n"}), 422, "invalid_request"),
        (json!({"text": "no key"}), 422, "invalid_request"),
        (json!({"key": "", "text": "x"}), 422, "invalid_request"),
        (json!({"key": "a/b", "text": "x"}), 422, "invalid_request"),
        (json!({"key": "x".repeat(65), "text": "x"}), 422, "invalid_request"),
        (json!({"key": "k", "text": "x", "edit_of": "../k"}), 422, "invalid_request"),
        (json!({"key": "k", "text": "x", "unknown": 1}), 422, "invalid_request"),
        (json!({"key": "k", "text": 7}), 422, "invalid_request"),
        (json!(["k"]), 422, "invalid_request"),
        (json!({"key": "k", "text": "x", "uploads": ["made-up"]}), 422, "unknown_upload"),
        (json!({"key": "k", "text": "x", "uploads": ["1", "2", "3", "4"]}), 422, "too_many_files"),
        (json!({"key": "k", "text": long}), 413, "too_large"),
    ] {
        let answer = stage.post("/api/conversations/a/messages").json(&body).send().await.unwrap();
        problem(answer, status, code).await;
    }
    let broken =
        stage.post("/api/conversations/a/messages").header("content-type", "application/json").body("{\"key\":");
    problem(broken.send().await.unwrap(), 422, "invalid_request").await;
    let bytes =
        stage.post("/api/conversations/a/messages").header("content-type", "application/octet-stream").body("{}");
    problem(bytes.send().await.unwrap(), 415, "wrong_body_type").await;
    assert_eq!(stage.taken(), []);
    assert_eq!(stage.json("/api/conversations/a/turns").await, json!({"turns": [], "more": false}));
}

#[tokio::test]
async fn turns_are_shown_as_they_stand() {
    let stage = Stage::new().await;
    let upload = stage.uploaded("note.txt", "some words").await;
    let handle = upload["upload"].as_str().unwrap().to_owned();
    let first = stage.say_with("k1", "*Look*\nhere <b>", &[handle]).await;
    let second = stage.say("k2", "and then?").await;
    let before = stage.json("/api/conversations/a/turns").await;
    assert_eq!((&before["turns"][0]["state"], &before["turns"][1]["state"]), (&json!("running"), &json!("waiting")));
    let message = &before["turns"][0]["messages"][0];
    assert_eq!(message["html"], json!(null), "words are shown as they were typed");
    assert_eq!((&message["text"], &message["sender"]), (&json!("*Look*\nhere <b>"), &json!("Owner")));
    let waiting = json!({"state": "waiting", "filename": "note.txt", "bytes": 10, "reason": null, "file": null});
    assert_eq!(message["files"], json!([waiting]));

    let picture = stage.made("cat.png", PNG).await;
    let (lease, parts) = stage.answer("Here is **the** cat", vec![picture.clone()]).await;
    stage.settle(&lease, &parts[0], sent(&parts[0])).await;
    let reason = FailureReason::Unreadable { reason: "gone".into() };
    stage.settle(&lease, &parts[1], PartState::Failed { reason }).await;
    let turns = stage.json("/api/conversations/a/turns").await;
    let turn = &turns["turns"][0];
    assert_eq!(
        (&turn["id"], &turn["state"], &turn["ending"]),
        (&json!(first.to_string()), &json!("done"), &json!("done"))
    );
    assert_eq!(turns["turns"][1]["state"], "running");
    assert_eq!(turns["turns"][1]["id"], json!(second.to_string()));
    let file = &turn["messages"][0]["files"][0];
    assert_eq!(
        (&file["state"], &file["file"]["number"], &file["file"]["mime"]),
        (&json!("stored"), &json!(1), &json!("text/plain"))
    );
    assert_eq!(file["file"]["inline"], "none");
    let text = &turn["parts"][0];
    assert_eq!((&text["kind"], &text["state"], &text["reason"]), (&json!("text"), &json!("sent"), &json!(null)));
    assert_eq!(
        (&text["html"], &text["text"]),
        (&json!("<p>Here is <strong>the</strong> cat</p>"), &json!("Here is **the** cat"))
    );
    let part = &turn["parts"][1];
    assert_eq!((&part["kind"], &part["state"], &part["html"]), (&json!("file"), &json!("failed"), &json!(null)));
    assert_eq!(part["reason"], "the file can't be read: gone");
    let shown = &part["files"][0];
    assert_eq!(part["resend"], json!(format!("/resend {}", shown["number"])));
    assert_eq!(
        (&shown["inline"], &shown["width"], &shown["filename"]),
        (&json!("image"), &json!(1), &json!("cat.png"))
    );
    assert_eq!(shown["url"], json!(format!("/api/conversations/a/files/{}", picture.id)));
    assert_eq!(shown["sha256"], json!(picture.sha256.to_string()));
}

#[tokio::test]
async fn a_voice_is_heard_under_its_part() {
    let stage = Stage::new().await;
    stage.say("k1", "speak").await;
    let sound = stage.made("voice.ogg", "OggS and so on").await;
    let prepared = PreparedVoice { sha256: sound.sha256, bytes: sound.bytes, duration_ms: 1_200, waveform: vec![1] };
    let voice = PartContent::Voice {
        text: "spoken *words*".into(),
        in_text: true,
        prepared: Some(prepared),
        as_file: false,
        caption: String::new(),
    };
    let lease = stage.ledger.claim_lane(&[stage.channel.name()], WorkFilter::Any).await.unwrap().unwrap().lease;
    let turn = stage.ledger.next_turn(&lease).await.unwrap().unwrap().id;
    stage.complete(&lease, turn, Default::default(), vec![plain_text("as *it* is"), voice]).await;
    let turns = stage.json("/api/conversations/a/turns").await;
    let parts = &turns["turns"][0]["parts"];
    assert_eq!(parts.as_array().unwrap().len(), 2, "{parts}");
    assert_eq!(parts[0]["html"], "<p class=\"plain\">as *it* is</p>");
    let file = &parts[1]["files"][0];
    assert_eq!(
        (&parts[1]["text"], &file["duration_ms"], &file["inline"]),
        (&json!("spoken *words*"), &json!(1200), &json!("audio"))
    );
    let sound = stage.get(file["url"].as_str().unwrap()).await;
    assert_eq!((header(&sound, "content-type").as_str(), sound.status().as_u16()), ("audio/ogg", 200));
    assert_eq!(sound.text().await.unwrap(), "OggS and so on");
    let elsewhere = file["url"].as_str().unwrap().replace("/a/", "/b/");
    problem(stage.get(&elsewhere).await, 404, "not_found").await;
    let text = format!("/api/conversations/a/voices/{}", parts[0]["id"].as_str().unwrap());
    problem(stage.get(&text).await, 404, "not_found").await;
}

#[tokio::test]
async fn deletion_of_a_draft_is_no_part_to_look_at() {
    let stage = Stage::new().await;
    stage.say("k1", "speak").await;
    let lease = stage.ledger.claim_lane(&[stage.channel.name()], WorkFilter::Any).await.unwrap().unwrap().lease;
    let turn = stage.ledger.next_turn(&lease).await.unwrap().unwrap().id;
    let draft = stage.ledger.open_draft(&lease, turn, None).await.unwrap().unwrap();
    let state = PartState::Open { message: MessageRef("1".into()) };
    stage.ledger.save_part(&lease, &Part { state, ..draft }).await.unwrap();
    let notice = PartContent::Notice { text: "nothing was said".into() };
    stage.complete(&lease, turn, Default::default(), vec![notice]).await;
    let stored = stage.ledger.turn(turn).await.unwrap().unwrap().parts;
    assert_eq!(stored.iter().map(|part| part.operation.kind()).collect::<Vec<_>>(), ["delete", "notice"]);
    let turns = stage.json("/api/conversations/a/turns").await;
    let parts = turns["turns"][0]["parts"].as_array().unwrap();
    assert_eq!(parts.iter().map(|part| &part["kind"]).collect::<Vec<_>>(), ["notice"]);
}

#[tokio::test]
async fn older_turns_come_page_by_page() {
    let stage = Stage::new().await;
    let mut turns = Vec::new();
    for number in 0..5 {
        turns.push(stage.say(&format!("k{number}"), &format!("message {number}")).await.to_string());
    }
    let page = stage.json("/api/conversations/a/turns?limit=2").await;
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page["turns"].as_array().unwrap().iter().map(|turn| turn["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids(&page), &page["more"]), (turns[3..].to_vec(), &json!(true)));
    let older = stage.json(&format!("/api/conversations/a/turns?limit=3&before={}", turns[3])).await;
    assert_eq!((ids(&older), &older["more"]), (turns[..3].to_vec(), &json!(false)));
    for wrong in ["?before=x", "?limit=x", "?limit=-1", "?limit=1&limit=2"] {
        problem(stage.get(&format!("/api/conversations/a/turns{wrong}")).await, 422, "invalid_request").await;
    }
    let many = stage.json("/api/conversations/a/turns?limit=4000000000").await;
    assert_eq!(ids(&many).len(), 5);
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let stage = Stage::new().await;
    let long = "x".repeat(65);
    for id in ["a%2Fb", "..", "a%20b", "%C3%BC", &long, "a.b", "%00"] {
        let path = format!("/api/conversations/{id}/turns");
        problem(stage.get(&path).await, 404, "not_found").await;
    }
    for path in [
        format!("/api/conversations/a/files/{}", unknown_id()),
        "/api/conversations/a/files/17".to_owned(),
        "/api/conversations/a/files/%2e%2e%2fsatchel.db".to_owned(),
        format!("/api/conversations/a/voices/{}", unknown_id()),
        "/api/conversations/a/uploads/x.y".to_owned(),
        "/api/nothing".to_owned(),
        "/links/x.y".to_owned(),
        "/metrics".to_owned(),
        "/page/../Cargo.toml".to_owned(),
        "/page/%ff".to_owned(),
        "/api/conversations/%ff/turns".to_owned(),
        "/page/..%2f..%2fCargo.toml".to_owned(),
    ] {
        problem(stage.get(&path).await, 404, "not_found").await;
    }
    let wrong = stage.client.delete(stage.url("/api/session")).send().await.unwrap();
    problem(wrong, 405, "wrong_method").await;
}

#[tokio::test]
async fn the_server_says_how_it_is() {
    let figures = || "satchel_turns 3\n".to_owned();
    let stage = Stage::with(|settings| settings.metrics = Some(Arc::new(figures))).await;
    assert_eq!(stage.get("/healthz").await.text().await.unwrap(), "alive\n");
    assert_eq!(stage.get("/readyz").await.text().await.unwrap(), "ready\n");
    assert_eq!(stage.get("/metrics").await.text().await.unwrap(), "satchel_turns 3\n");
}

/// Running turns may take a while to end. Open pages continue to show them, and nobody sends this process anything new.
#[tokio::test]
async fn stopping_server_is_not_ready_and_still_serves() {
    let stage = Stage::new().await;
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    stage.drain.cancel();
    wait_until_async("it is no longer ready", async || stage.get("/readyz").await.status() != 200).await;
    let answer = problem(stage.visit("/readyz").await, 503, "stopping").await;
    assert!(answer["detail"].as_str().unwrap().contains("stopping"), "{answer}");
    assert_eq!(stage.get("/healthz").await.text().await.unwrap(), "alive\n");
    let turn = stage.say("k1", "while it stops").await;
    stage.wrote(turn, 0, "still here").await;
    events.find("live", |_| true).await;
}

/// A process that restarts changes nothing about a revoked token, so it stays ready.
#[tokio::test]
async fn readiness_names_closed_channels() {
    let closure = ChannelClosure {
        credentials: "1".to_owned(),
        number: 1,
        platform: "Telegram",
        reason: "no longer accepts the bot's token".to_owned(),
        remedy: "get a new one".to_owned(),
        since: Timestamp(i64::MAX),
    };
    let channel = |name: &'static str, state: ChannelState| -> Arc<dyn Channel> {
        let mut channel = MockChannel::new();
        channel.expect_name().returning(move || ChannelName::new(name).unwrap());
        channel.expect_state().returning(move || state.clone());
        Arc::new(channel)
    };
    let channels = vec![channel("discord", ChannelState::Open), channel("telegram", ChannelState::Closed(closure))];
    let answer = Stage::beside(channels).await.get("/readyz").await;
    assert_eq!(answer.status(), 200);
    let expected = "ready\ntelegram is closed for 0 s: Telegram no longer accepts the bot's token\n";
    assert_eq!(answer.text().await.unwrap(), expected);
}

#[tokio::test]
async fn the_api_describes_itself() {
    let stage = Stage::new().await;
    let document = stage.json("/api/openapi.json").await;
    let mut paths: Vec<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    paths.sort_unstable_by(|one, other| one.split(' ').rev().cmp(other.split(' ').rev()));
    insta::assert_json_snapshot!("openapi_paths", paths);
    let schemas = &document["components"]["schemas"];
    for name in ["Turn", "Part", "File", "Live", "Snapshot", "Problem", "NewMessage", "Uploaded", "Gone", "Blocks"] {
        assert!(schemas[name].is_object(), "{name}");
    }
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas[name].is_object(), "{name} is spoken of and not described");
    }
}

#[tokio::test]
async fn stopped_server_ends_streams_and_requests() {
    let mut stage = Stage::new().await;
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    let began = std::time::Instant::now();
    stage.stopped().await;
    assert!(events.next().await.is_none());
    assert!(began.elapsed().as_secs() < 5);
    assert!(stage.client.get(stage.url("/healthz")).send().await.is_err());
}

pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8,
    6, 0, 0, 0, 0x1F, 0x15, 0xC4, 0x89, 0, 0, 0, 0x0D, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9C, 0x62, 0, 1, 0, 0, 5, 0, 1,
    0x0D, 0x0A, 0x2D, 0xB4, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
];
