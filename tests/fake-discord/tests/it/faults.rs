//! What goes wrong, by script.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use satchel_fake_discord::{ApiRefusal, CDN, DiscordFault};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming, RequestPhase};
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, Upload};

const MINUTE: Duration = Duration::from_secs(60);

/// What a client sees of a message that it sends: the status and the body, or how the connection ended.
async fn seen(bot: &Bot) -> String {
    let request = bot.request("POST", &format!("/channels/{CHANNEL}/messages")).json(&json!({ "content": "a" }));
    match tokio::time::timeout(Duration::from_secs(10), request.send()).await.expect("an end in time") {
        Err(error) if error.is_connect() => "refused".to_owned(),
        Err(_) => "cut".to_owned(),
        Ok(answer) => format!("{} {}", answer.status().as_u16(), answer.text().await.expect("a body")),
    }
}

/// The same of a request that is given up soon after it was performed, or has arrived if it isn't to be performed.
async fn seen_until_hung(bot: &Bot, route: &str, performed: bool) -> String {
    let phase = if performed { RequestPhase::Performed } else { RequestPhase::Arrived };
    let reached = bot.fake.on_nth(route, bot.fake.requests(route) + 1, phase);
    let hung = async {
        reached.await.expect("it comes so far");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::select! {
        seen = seen(bot) => seen,
        () = hung => "nothing".to_owned(),
    }
}

#[tokio::test]
async fn every_fault_hits_the_scripted_request() {
    let route = "post /channels/{}/messages";
    let html = "502 <html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>";
    let wait = r#"429 {"message":"You are being rate limited.","code":0,"retry_after":1.5,"global":false}"#;
    let short = |status: u16, code: u64, words: &str| format!(r#"{status} {{"message":"{words}","code":{code}}}"#);
    let garbage = DiscordFault::Answer { status: 200, body: "{\"id\":".to_owned() };
    for (fault, expected, performed) in [
        (Fault::RefuseConnection { for_ms: 60_000 }.into(), "refused".to_owned(), false),
        (Fault::Outage { for_ms: 60_000 }.into(), "cut".to_owned(), false),
        (Fault::RateLimit { retry_after_ms: 1500 }.into(), wait.to_owned(), false),
        (Fault::ServerError.into(), short(500, 0, "500: Internal Server Error"), false),
        (Fault::BadGateway { performed: false }.into(), html.to_owned(), false),
        (Fault::BadGateway { performed: true }.into(), html.to_owned(), true),
        (Fault::Restart { performed: false }.into(), short(500, 0, "500: Internal Server Error"), false),
        (Fault::Restart { performed: true }.into(), short(500, 0, "500: Internal Server Error"), true),
        (Fault::ResetMidTransfer.into(), "cut".to_owned(), false),
        (Fault::ResetAfterRead.into(), "cut".to_owned(), false),
        (Fault::AcceptLate { after_ms: 60_000 }.into(), "cut".to_owned(), false),
        (Fault::AcceptOnRelease.into(), "cut".to_owned(), false),
        (Fault::AcceptAndDrop.into(), "cut".to_owned(), true),
        (Fault::Hang { performed: false }.into(), "nothing".to_owned(), false),
        (Fault::Hang { performed: true }.into(), "nothing".to_owned(), true),
        (Fault::TooLarge.into(), short(413, 40_005, "Request entity too large"), false),
        (Fault::Forbidden.into(), short(403, 50_013, "Missing Permissions"), false),
        (Fault::ChatGone.into(), short(404, 10_003, "Unknown Channel"), false),
        (ApiRefusal::new(418, 9, "I am a teapot").into(), short(418, 9, "I am a teapot"), false),
        (garbage, "200 {\"id\":".to_owned(), false),
    ] {
        let bot = Bot::start().await;
        bot.fake.clock().pause();
        assert!(seen(&bot).await.starts_with("200"), "before {fault:?}");
        bot.fake.script_next(route, fault.clone());
        let hangs = expected == "nothing";
        let seen_of_it = if hangs { seen_until_hung(&bot, route, performed).await } else { seen(&bot).await };
        assert_eq!(seen_of_it, expected, "{fault:?}");
        let stand = bot.fake.transcript().texts(CHANNEL).len();
        assert_eq!(stand, 1 + usize::from(performed), "{fault:?}");
        bot.fake.clock().advance(MINUTE);
        let passes = async {
            while !seen(&bot).await.starts_with("200") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), passes).await.expect("it passes with its time");
    }
}

#[tokio::test]
async fn faults_for_one_message_kind_spare_others() {
    let bot = Bot::start().await;
    let ogg = || -> Upload<'_> { ("a.ogg", "audio/ogg", b"OggS".to_vec()) };
    bot.fake.script("*", FaultTiming::Every, Fault::BadMarkup);
    bot.send(json!({ "content": "**" })).await.expect("Discord takes all Markdown");
    bot.fake.clear_script();
    bot.fake.script("*", FaultTiming::Every, Fault::BadItem { index: 1 });
    bot.send_files(json!({}), vec![ogg()]).await.expect("it has no second file");
    let second = bot.send_files(json!({}), vec![ogg(), ogg()]).await;
    assert_eq!(second, Err("400 50035 Invalid Form Body; attachments.1: ATTACHMENT_INVALID".to_owned()));
    bot.fake.clear_script();
    bot.fake.script("*", FaultTiming::Every, Fault::VoiceForbidden);
    bot.send_files(json!({}), vec![ogg()]).await.expect("it is no voice");
    let voice = json!({ "flags": 8192, "attachments": [{ "id": 0, "duration_secs": 1.0, "waveform": "AAAA" }] });
    let refused = bot.send_files(voice, vec![ogg()]).await;
    assert_eq!(refused, Err("403 50173 You cannot send voice messages in this channel.".to_owned()));
}

#[tokio::test]
async fn downloads_break_off_halfway_and_phases_are_reported() {
    let bot = Bot::start().await;
    let file = FakeFile::generated("a.bin", "application/octet-stream", 1, 300_000);
    let said = bot.fake.person_sends(CHANNEL, ADA, "", vec![file]);
    let message = bot.again(&json!({ "id": said.to_string() })).await;
    let url = message["attachments"][0]["url"].as_str().expect("a link");
    bot.fake.script_next(CDN, Fault::ResetMidTransfer);
    let broken = reqwest::get(url).await.expect("a head").bytes().await;
    assert!(broken.is_err(), "half a file is none");
    let mut fetched = bot.fake.on_nth(CDN, 2, RequestPhase::Performed);
    assert!(fetched.try_recv().is_err(), "nobody has asked yet");
    assert_eq!(reqwest::get(url).await.expect("a head").bytes().await.expect("whole").len(), 300_000);
    fetched.try_recv().expect("a download is performed when its answer begins");
    bot.fake.script_next(CDN, Fault::ServerError);
    assert_eq!(reqwest::get(url).await.expect("an answer").status(), 500);
    assert_eq!(bot.fake.requests(CDN), 3);

    let says = async { bot.send(json!({ "content": "before" })).await.expect("sent") };
    let stands = bot.fake.wait_until(|transcript| transcript.texts(CHANNEL) == ["before"]);
    let (_, stands) = tokio::join!(says, stands);
    stands.expect("it is seen");
    let mut performed = bot.fake.on_nth("POST /channels/{}/messages", 2, RequestPhase::Performed);
    bot.ask("POST", &format!("/channels/{CHANNEL}/typing"), Value::Null).await.expect("typing");
    assert!(performed.try_recv().is_err(), "it is another route");
    bot.send(json!({ "content": "a" })).await.expect("sent");
    tokio::time::timeout(Duration::from_secs(10), performed).await.expect("in time").expect("it was performed");
    bot.fake.refuse_connections(Duration::from_secs(60));
    assert_eq!(seen(&bot).await, "refused");
}

#[tokio::test]
async fn calls_are_remembered_as_they_were_written() {
    let bot = Bot::start().await;
    bot.get(&format!("/channels/{CHANNEL}/messages?limit=5")).await.expect("a list");
    let part = Part::bytes(b"a".to_vec()).file_name("a.txt").mime_str("text/plain").expect("a type");
    let form = Form::new().part("files[0]", part).text("payload_json", json!({ "content": "b" }).to_string());
    let request = bot.request("POST", &format!("/channels/{CHANNEL}/messages")).multipart(form);
    assert_eq!(request.send().await.expect("an answer").status(), 200);
    let [listed, sent] = bot.fake.calls().try_into().expect("two");
    assert_eq!((listed.route.as_str(), &listed.query[0]), ("GET /channels/{}/messages", &("limit".into(), "5".into())));
    assert_eq!((sent.path, &sent.body["content"]), (format!("/channels/{CHANNEL}/messages"), &json!("b")));
    assert_eq!((sent.files[&0].filename.as_str(), sent.files[&0].bytes), ("a.txt", 1));
    let unknown = Form::new().text("payload_json", "{}").text("file", "a");
    let refused = bot.request("POST", &format!("/channels/{CHANNEL}/messages")).multipart(unknown);
    assert_eq!(refused.send().await.expect("an answer").status(), 400);
}
