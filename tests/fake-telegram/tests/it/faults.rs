//! What goes wrong as scripted, and that nothing else does.

use std::time::Duration;

use satchel_fake_kit::{FakeFile, Fault, FaultTiming, RequestPhase};
use satchel_fake_telegram::{ApiRefusal, DOWNLOAD, FileKind, PersonMessage, TelegramFault};
use serde_json::{Value, json};

use crate::{Bot, png};

const MINUTE: Duration = Duration::from_secs(60);

/// What a client sees of an answer.
async fn seen(bot: &Bot, method: &str, parameters: Value) -> String {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build().expect("a client");
    match client.post(bot.url(method)).json(&parameters).send().await {
        Err(error) if error.is_connect() => "refused".to_owned(),
        Err(error) if error.is_timeout() => "no end in time".to_owned(),
        Err(_) => "cut".to_owned(),
        Ok(answer) => format!("{} {}", answer.status().as_u16(), answer.text().await.expect("a body")),
    }
}

/// The same of a request that is given up soon after it was performed, or has arrived if it isn't to be performed.
async fn seen_until_hung(bot: &Bot, method: &str, parameters: Value, performed: bool) -> String {
    let phase = if performed { RequestPhase::Performed } else { RequestPhase::Arrived };
    let reached = bot.fake.on_nth(method, bot.fake.requests(method) + 1, phase);
    let hung = async {
        reached.await.expect("it comes so far");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::select! {
        seen = seen(bot, method, parameters) => seen,
        () = hung => "nothing".to_owned(),
    }
}

#[tokio::test]
async fn every_fault_is_visible_and_performs_as_declared() {
    let html = "502 <html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>";
    let refusal =
        |code: u16, words: &str| format!(r#"{code} {{"ok":false,"error_code":{code},"description":"{words}"}}"#);
    let retry = r#"429 {"ok":false,"error_code":429,"description":"Too Many Requests: retry after 2","parameters":{"retry_after":2}}"#;
    let refused = TelegramFault::from(ApiRefusal::new(418, "I am a teapot"));
    let garbage = TelegramFault::Answer { status: 200, body: "{\"ok\":tr".to_owned() };
    for (fault, expected, performed) in [
        (Fault::RefuseConnection { for_ms: 60_000 }.into(), "refused".to_owned(), false),
        (Fault::Outage { for_ms: 60_000 }.into(), "cut".to_owned(), false),
        (Fault::RateLimit { retry_after_ms: 1500 }.into(), retry.to_owned(), false),
        (Fault::ServerError.into(), refusal(500, "Internal Server Error"), false),
        (Fault::BadGateway { performed: false }.into(), html.to_owned(), false),
        (Fault::BadGateway { performed: true }.into(), html.to_owned(), true),
        (Fault::Restart { performed: false }.into(), refusal(500, "Internal Server Error: restart"), false),
        (Fault::Restart { performed: true }.into(), refusal(500, "Internal Server Error: restart"), true),
        (Fault::ResetMidTransfer.into(), "cut".to_owned(), false),
        (Fault::ResetAfterRead.into(), "cut".to_owned(), false),
        (Fault::AcceptLate { after_ms: 60_000 }.into(), "cut".to_owned(), false),
        (Fault::AcceptOnRelease.into(), "cut".to_owned(), false),
        (Fault::AcceptAndDrop.into(), "cut".to_owned(), true),
        (Fault::Hang { performed: false }.into(), "nothing".to_owned(), false),
        (Fault::Hang { performed: true }.into(), "nothing".to_owned(), true),
        (Fault::TooLarge.into(), refusal(413, "Request Entity Too Large"), false),
        (Fault::Forbidden.into(), refusal(403, "Forbidden: bot was blocked by the user"), false),
        (Fault::ChatGone.into(), refusal(400, "Bad Request: chat not found"), false),
        (refused, refusal(418, "I am a teapot"), false),
        (garbage, "200 {\"ok\":tr".to_owned(), false),
    ] {
        let bot = Bot::start().await;
        bot.fake.clock().pause();
        let parameters = json!({ "chat_id": bot.chat, "text": "a" });
        assert!(seen(&bot, "sendMessage", parameters.clone()).await.starts_with("200"), "before {fault:?}");
        bot.fake.script_next("SendMessage", fault.clone());
        assert!(seen(&bot, "getMe", json!({})).await.starts_with(if expected == "refused" { "r" } else { "200" }));
        let seen_of_it = if expected == "nothing" {
            seen_until_hung(&bot, "sendMessage", parameters.clone(), performed).await
        } else {
            seen(&bot, "sendMessage", parameters.clone()).await
        };
        assert_eq!(seen_of_it, expected, "{fault:?}");
        let stand = bot.fake.transcript().texts(bot.chat).len();
        assert_eq!(stand, 1 + usize::from(performed), "{fault:?}");
        bot.fake.clock().advance(MINUTE);
        let passes = async {
            while !seen(&bot, "sendMessage", parameters.clone()).await.starts_with("200") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), passes).await.expect("it passes with its time");
    }
}

#[tokio::test]
async fn faults_for_one_message_kind_spare_others() {
    let bot = Bot::start().await;
    bot.fake.script("*", FaultTiming::Every, Fault::BadMarkup);
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("plain words have no markup");
    let refused = bot.here("sendMessage", json!({ "text": "a", "parse_mode": "HTML" })).await.expect_err("markup");
    assert!(refused.starts_with("400 Bad Request: can't parse entities"), "{refused}");
    bot.fake.clear_script();

    bot.fake.script("send*", FaultTiming::Every, Fault::BadItem { index: 1 });
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("it is no album");
    let media = json!([{ "type": "photo", "media": "attach://p" }, { "type": "photo", "media": "attach://p" }]);
    let album = json!({ "media": media });
    let send = async || bot.upload("sendMediaGroup", album.clone(), vec![("p", "p.png", png(1, 1, 0))]).await;
    assert!(send().await.expect_err("an item").contains("failed to send message #2 with the error message"));
    bot.fake.clear_script();
    bot.fake.script_next("sendMediaGroup", Fault::BadItem { index: 2 });
    send().await.expect("it has no third item");

    bot.fake.script("send*", FaultTiming::Every, Fault::VoiceForbidden);
    bot.upload("sendAudio", json!({}), vec![("audio", "a.ogg", b"OggS".to_vec())]).await.expect("it is no voice");
    let voice = bot.upload("sendVoice", json!({}), vec![("voice", "a.ogg", b"OggS".to_vec())]).await;
    assert_eq!(voice, Err("400 Bad Request: VOICE_MESSAGES_FORBIDDEN".to_owned()));
}

#[tokio::test]
async fn downloads_break_off_halfway_and_phases_are_reported() {
    let bot = Bot::start().await;
    let file = FakeFile::generated("a.bin", "application/octet-stream", 1, 300_000);
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(FileKind::Document, file));
    let updates = bot.ask("getUpdates", json!({})).await;
    let id = updates[0]["message"]["document"]["file_id"].clone();
    let path = bot.ask("getFile", json!({ "file_id": id })).await["file_path"].clone();
    let url = format!("{}/file/bot{}/{}", bot.fake.api_url(), bot.fake.token(), path.as_str().expect("a path"));
    bot.fake.script_next(DOWNLOAD, Fault::ResetMidTransfer);
    let broken = reqwest::get(&url).await.expect("a head").bytes().await;
    assert!(broken.is_err(), "half a file is none");
    let mut fetched = bot.fake.on_nth(DOWNLOAD, 2, RequestPhase::Performed);
    assert!(fetched.try_recv().is_err(), "nobody has asked yet");
    assert_eq!(reqwest::get(&url).await.expect("a head").bytes().await.expect("whole").len(), 300_000);
    fetched.try_recv().expect("a download is performed when its answer begins");
    bot.fake.script_next(DOWNLOAD, Fault::ServerError);
    assert_eq!(reqwest::get(&url).await.expect("an answer").status(), 500);
    assert_eq!(bot.fake.requests(DOWNLOAD), 3);

    let says = async { bot.here("sendMessage", json!({ "text": "before" })).await.expect("sent") };
    let stands = bot.fake.wait_until(|transcript| transcript.texts(bot.chat) == ["before"]);
    let (_, stands) = tokio::join!(says, stands);
    stands.expect("it is seen");

    let mut performed = bot.fake.on_nth("send*", 3, RequestPhase::Performed);
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    assert!(performed.try_recv().is_err(), "it is the second that counts");
    bot.here("sendChatAction", json!({ "action": "typing" })).await.expect("sent");
    tokio::time::timeout(Duration::from_secs(10), performed).await.expect("in time").expect("it was performed");
    bot.fake.refuse_connections(Duration::from_secs(60));
    assert_eq!(seen(&bot, "getMe", json!({})).await, "refused");
}

#[tokio::test]
async fn phases_are_reported_while_a_request_hangs() {
    let bot = Bot::start().await;
    bot.fake.script("sendMessage", FaultTiming::Nth(1), Fault::Hang { performed: true });
    let arrived = bot.fake.on_nth("sendMessage", 1, RequestPhase::Arrived);
    let performed = bot.fake.on_nth("sendMessage", 1, RequestPhase::Performed);
    let mut second = bot.fake.on_nth("sendMessage", 2, RequestPhase::Arrived);
    let hangs = bot.answer("sendMessage", json!({ "chat_id": bot.chat, "text": "a" }));
    let told = async {
        arrived.await.expect("told");
        performed.await.expect("told");
    };
    tokio::select! {
        answer = hangs => unreachable!("no answer comes: {answer:?}"),
        () = told => {}
    }
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["a"]);
    assert!(second.try_recv().is_err());
}
