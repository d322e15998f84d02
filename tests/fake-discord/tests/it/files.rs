//! Files and voices: how many, how large, under which names, and where they are downloaded.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_fake_discord::{DiscordRules, PersonMessage, Tier};
use satchel_fake_kit::FakeFile;
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, GUILD, Upload, id, message_path, taken};

fn text(name: &str) -> Upload<'_> {
    (name, "text/plain", name.as_bytes().to_vec())
}

fn small() -> DiscordRules {
    let limits = [(Tier::None, 1000), (Tier::Two, 5000)];
    DiscordRules { file_bytes: limits.into(), request_bytes: 2500, ..DiscordRules::unpaced() }
}

#[tokio::test]
async fn uploads_are_matched_by_number_and_described() {
    let bot = Bot::start().await;
    bot.fake.keep_file_bytes();
    let described = json!({ "content": "two", "attachments": [
        { "id": "1", "filename": "later.txt", "description": "the second" }, { "id": 0 },
    ] });
    let sent = bot.send_files(described, vec![text("a.txt"), text("b.txt")]).await.expect("sent");
    let names: Vec<_> = sent["attachments"].as_array().expect("files").iter().map(|file| &file["filename"]).collect();
    assert_eq!(names, ["later.txt", "a.txt"]);
    assert_eq!(sent["attachments"][0]["description"], "the second");
    assert_eq!(
        (&sent["attachments"][0]["size"], &sent["attachments"][0]["content_type"]),
        (&json!(5), &json!("text/plain"))
    );
    let url = sent["attachments"][0]["url"].as_str().expect("a link").to_owned();
    assert_eq!(reqwest::get(&url).await.expect("an answer").text().await.expect("a text"), "b.txt");
    let proxied = sent["attachments"][0]["proxy_url"].as_str().expect("a link").to_owned();
    assert_eq!(reqwest::get(&proxied).await.expect("an answer").text().await.expect("a text"), "b.txt");

    let wrong = "400 50035 Invalid Form Body; attachments";
    for (payload, expected) in [
        (json!({ "attachments": [{ "id": 1 }] }), format!("{wrong}: ATTACHMENT_NOT_LISTED")),
        (json!({ "attachments": [{ "id": 0 }, { "id": 1 }] }), format!("{wrong}.1.id: ATTACHMENT_NOT_FOUND")),
        (json!({ "attachments": [{ "filename": "a" }] }), format!("{wrong}.0.id: BASE_TYPE_REQUIRED")),
        (
            json!({ "attachments": [{ "id": 0, "description": "d".repeat(1025) }] }),
            format!("{wrong}.0.description: BASE_TYPE_MAX_LENGTH"),
        ),
    ] {
        assert_eq!(bot.send_files(payload.clone(), vec![text("a.txt")]).await, Err(expected), "{payload}");
    }
    let longest = json!({ "attachments": [{ "id": 0, "description": "d".repeat(1024) }] });
    bot.send_files(longest, vec![text("a.txt")]).await.expect("the longest description");
}

#[tokio::test]
async fn ten_files_are_the_most() {
    let bot = Bot::start().await;
    let files = |count: usize| vec![text("a.txt"); count];
    let too_many = Err("400 30015 Maximum number of attachments in a message reached (10)".to_owned());
    assert_eq!(bot.send_files(json!({}), files(11)).await, too_many);
    let named: Vec<_> = (0..11).map(|number| json!({ "id": number })).collect();
    let listed = bot.send_files(json!({ "attachments": named }), files(11)).await;
    assert_eq!(listed, Err("400 50035 Invalid Form Body; attachments: BASE_TYPE_MAX_LENGTH".to_owned()));
    let sent = bot.send_files(json!({}), files(10)).await.expect("ten");
    let more = bot.upload("PATCH", &message_path(&sent), json!({}), files(1)).await;
    assert_eq!(more, too_many, "an edit appends");
}

#[tokio::test]
async fn guild_boosts_set_the_file_size_limit() {
    let bot = Bot::with(small()).await;
    let file = |bytes: usize| ("a.bin", "application/octet-stream", vec![7; bytes]);
    let too_large = Err("413 40005 Request entity too large".to_owned());
    assert_eq!(bot.send_files(json!({}), vec![file(1001)]).await, too_large);
    bot.send_files(json!({}), vec![file(1000)]).await.expect("the largest file");
    assert_eq!(
        bot.send_files(json!({}), vec![file(1000), file(1000), file(501)]).await,
        too_large,
        "the request's limit"
    );
    bot.send_files(json!({}), vec![file(1000), file(500)]).await.expect("a request with room for its form");
    bot.fake.boost(GUILD, Tier::Two);
    bot.send_files(json!({}), vec![file(5000)]).await.expect("a file larger than other guilds' requests");
    let direct = format!("/channels/{}/messages", bot.direct);
    assert_eq!(bot.upload("POST", &direct, json!({}), vec![file(1001)]).await, too_large, "no boosts in a DM");
    let thread = bot.fake.thread(CHANNEL, 70_002, "Taxes");
    let inside = bot.upload("POST", &format!("/channels/{thread}/messages"), json!({}), vec![file(5000)]).await;
    inside.expect("a thread has its guild's limit");
}

#[tokio::test]
async fn whole_request_counts_for_limit_except_lone_file() {
    let bot = Bot::with(small()).await;
    let too_large = Err("413 40005 Request entity too large".to_owned());
    let path = format!("/channels/{CHANNEL}/messages");
    // A form of exactly so many bytes, 1500 of which are files.
    let ask = async |bytes: usize| {
        let part =
            |field: &str, of: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{field}\"{of}\r\n\r\n");
        let file = |number: usize| part(&format!("files[{number}]"), "; filename=\"a\"") + &"f".repeat(750) + "\r\n";
        let around =
            part("payload_json", "").len() + "{\"content\":\"\"}\r\n".len() + 2 * file(0).len() + "--b--".len();
        let words = format!("{{\"content\":\"{}\"}}\r\n", "w".repeat(bytes - around));
        let body = part("payload_json", "") + &words + &file(0) + &file(1) + "--b--";
        assert_eq!(body.len(), bytes);
        let request = bot.request("POST", &path).header("content-type", "multipart/form-data; boundary=b").body(body);
        taken(request).await
    };
    ask(2500).await.expect("the largest request");
    assert_eq!(ask(2501).await, too_large, "its files are far from the limit");
    bot.fake.boost(GUILD, Tier::Two);
    let file = || vec![("a.bin", "application/octet-stream", vec![7; 5000])];
    bot.send_files(json!({}), file()).await.expect("the largest file, whatever its form takes");
    assert_eq!(bot.send_files(json!({ "content": "words" }), file()).await, too_large, "no room is left for words");
}

#[tokio::test]
async fn filenames_are_rewritten_and_title_keeps_the_original() {
    let bot = Bot::start().await;
    for (given, filename, title) in [
        ("report.pdf", "report.pdf", None),
        ("my report (1).pdf", "my_report_1.pdf", Some("my report (1)")),
        ("Résumé.pdf", "Rsum.pdf", Some("Résumé")),
        ("日本.png", "unknown.png", Some("日本")),
        ("日本", "unknown", Some("日本")),
        (".env", "env", None),
        ("__init__.py", "init__.py", None),
        ("._notes_.txt", "notes_.txt", None),
        ("draft_", "draft", None),
        (".日本", "unknown", Some(".日本")),
        ("two  blanks.txt", "two_blanks.txt", Some("two  blanks")),
    ] {
        let sent =
            bot.send_files(json!({ "attachments": [{ "id": 0, "filename": given }] }), vec![text("a.txt")]).await;
        let file = sent.expect("sent")["attachments"][0].clone();
        assert_eq!((file["filename"].as_str(), file["title"].as_str()), (Some(filename), title), "{given}");
    }
}

#[tokio::test]
async fn title_of_a_request_is_shown_with_the_extension_that_is_left() {
    let bot = Bot::start().await;
    for (filename, title, shown) in
        [(".env", ".env", ".env"), ("__init__.py", "__init__", "__init__.py"), ("a.txt", "b", "b.txt")]
    {
        let described = json!({ "attachments": [{ "id": 0, "filename": filename, "title": title }] });
        let sent = bot.send_files(described, vec![text("a.txt")]).await.expect("sent");
        assert_eq!(sent["attachments"][0]["title"], title);
        let read = bot.fake.transcript();
        assert_eq!(read.files(CHANNEL).last().map(|file| file.shown_name()).as_deref(), Some(shown), "{read}");
    }
    let too_long = json!({ "attachments": [{ "id": 0, "title": "t".repeat(1025) }] });
    let refused = "400 50035 Invalid Form Body; attachments.0.title: BASE_TYPE_MAX_LENGTH".to_owned();
    assert_eq!(bot.send_files(too_long, vec![text("a.txt")]).await, Err(refused));
}

#[tokio::test]
async fn edit_keeps_listed_files_and_adds_new_ones() {
    let bot = Bot::start().await;
    let sent = bot.send_files(json!({ "content": "a" }), vec![text("a.txt"), text("b.txt")]).await.expect("sent");
    let names = |message: &Value| {
        let files = message["attachments"].as_array().expect("files").iter();
        files.map(|file| file["filename"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let path = message_path(&sent);
    let kept = json!({ "attachments": [{ "id": sent["attachments"][1]["id"] }, { "id": 0 }] });
    let edited = bot.upload("PATCH", &path, kept, vec![text("c.txt")]).await.expect("edited");
    assert_eq!(names(&edited), ["b.txt", "c.txt"]);
    assert_eq!(edited["attachments"][0]["id"], sent["attachments"][1]["id"], "what is kept stays the same");
    let only_new = json!({ "content": "b", "attachments": [{ "id": 0 }] });
    for _ in 0..2 {
        let edited = bot.upload("PATCH", &path, only_new.clone(), vec![text("d.txt")]).await.expect("edited");
        assert_eq!(names(&edited), ["d.txt"], "the same edit twice is the same message");
    }
    let words = bot.edit(&sent, json!({ "content": "c" })).await.expect("edited");
    assert_eq!(names(&words), ["d.txt"], "words alone leave the files");
    let bare = bot.edit(&sent, json!({ "attachments": [], "content": "" })).await;
    assert_eq!(bare, Err("400 50006 Cannot send an empty message".to_owned()));
}

#[tokio::test]
async fn voice_message_is_one_audio_file_with_waveform() {
    let bot = Bot::start().await;
    let ogg = || ("voice-message.ogg", "audio/ogg", b"OggS".to_vec());
    let described = |points: usize| {
        let waveform = STANDARD.encode(vec![9_u8; points]);
        json!({ "id": 0, "filename": "voice-message.ogg", "duration_secs": 1.5, "waveform": waveform })
    };
    let single = "400 50160 Voice messages must have a single audio attachment.";
    let metadata = "400 50161 Voice messages must have supporting metadata.";
    let voice = |attachments: Value| json!({ "flags": 8192, "attachments": attachments });
    let mut wordy = voice(json!([described(256)]));
    wordy["content"] = json!("listen");
    let no_waveform = json!([{ "id": 0, "duration_secs": 1.5 }]);
    let no_duration = json!([{ "id": 0, "waveform": "AAAA" }]);
    for (payload, files, expected) in [
        (wordy, vec![ogg()], "400 50159 Voice messages do not support additional content."),
        (voice(json!([])), vec![], single),
        (voice(json!([described(1), { "id": 1 }])), vec![ogg(), ogg()], single),
        (voice(json!([described(1)])), vec![text("a.txt")], single),
        (voice(no_waveform), vec![ogg()], metadata),
        (voice(no_duration), vec![ogg()], metadata),
        (
            voice(json!([described(257)])),
            vec![ogg()],
            "400 50035 Invalid Form Body; attachments.0.waveform: WAVEFORM_INVALID",
        ),
    ] {
        assert_eq!(bot.send_files(payload.clone(), files).await, Err(expected.to_owned()), "{payload}");
    }
    let sent = bot.send_files(voice(json!([described(256)])), vec![ogg()]).await.expect("a voice");
    assert_eq!((&sent["flags"], &sent["attachments"][0]["duration_secs"]), (&json!(8192), &json!(1.5)));
    let edited = bot.edit(&sent, json!({ "content": "b" })).await;
    assert_eq!(edited, Err("400 50162 Voice messages cannot be edited.".to_owned()));
    let plain = bot.send_files(json!({ "attachments": [described(3)] }), vec![ogg()]).await.expect("a file");
    assert_eq!(plain["attachments"][0].get("waveform"), None, "without the flag it is a file like any other");
    let [shown, _] =
        bot.fake.transcript().shared().conversations.into_values().next().expect("one").try_into().expect("two");
    assert_eq!(shown.duration_ms, Some(1500));
}

#[tokio::test]
async fn links_expire_and_renew_while_file_exists() {
    let bot = Bot::start().await;
    let file = FakeFile::generated("a.bin", "application/octet-stream", 1, 300_000);
    let said = bot.fake.person_sends(CHANNEL, ADA, "look", vec![file.clone()]);
    let at = json!({ "id": said.to_string() });
    let link = |message: &Value| message["attachments"][0]["url"].as_str().expect("a link").to_owned();
    let status = async |url: &str| reqwest::get(url).await.expect("an answer").status().as_u16();
    let url = link(&bot.again(&at).await);
    let downloaded = reqwest::get(&url).await.expect("an answer").bytes().await.expect("bytes");
    assert_eq!(FakeFile::from_bytes("a", "b", downloaded).sha256(), file.sha256());
    let (bare, query) = url.split_once('?').expect("a signed link");
    assert_eq!(status(bare).await, 403);
    assert_eq!(status(&format!("{bare}?{}", query.replace("hm=", "hm=00"))).await, 403);
    assert_eq!(status(&format!("{bare}x?{query}")).await, 403, "the signature is the path's too");

    bot.fake.expire_links();
    let gone = reqwest::get(&url).await.expect("an answer");
    assert_eq!(gone.status(), 404);
    assert_eq!(gone.text().await.expect("a text"), "This content is no longer available.");
    assert_eq!(status(&link(&bot.again(&at).await)).await, 200, "a new link works");
    bot.fake.links_live(Duration::ZERO);
    assert_eq!(status(&link(&bot.again(&at).await)).await, 404, "one that is over already doesn't");
    bot.fake.links_live(Duration::from_secs(60));
    let minute_old = link(&bot.again(&at).await);
    assert_eq!(status(&minute_old).await, 200);
    bot.fake.clock().advance(Duration::from_secs(60));
    assert_eq!(status(&minute_old).await, 404, "its time is over");

    let refresh =
        async |urls: Value| bot.ask("POST", "/attachments/refresh-urls", json!({ "attachment_urls": urls })).await;
    let refreshed = refresh(json!([url])).await.expect("refreshed")["refreshed_urls"][0].clone();
    assert_eq!(refreshed["original"], url);
    assert_eq!(status(refreshed["refreshed"].as_str().expect("a link")).await, 200);
    bot.fake.person_deletes(said);
    assert_eq!(refresh(json!([url])).await.expect("an answer")["refreshed_urls"][0]["refreshed"], Value::Null);
    let most = refresh(json!(vec![url; 51])).await;
    assert_eq!(most, Err("400 50035 Invalid Form Body; attachment_urls: BASE_TYPE_BAD_LENGTH".to_owned()));
}

#[tokio::test]
async fn what_people_send_has_names_sides_and_voices() {
    let bot = Bot::start().await;
    let photo = FakeFile::photo("my cat.png", 640, 480, 1, 1000);
    let said = bot.fake.person_sends(CHANNEL, ADA, "", vec![photo]);
    let file = bot.again(&json!({ "id": said.to_string() })).await["attachments"][0].clone();
    assert_eq!((&file["filename"], &file["title"]), (&json!("my_cat.png"), &json!("my cat")));
    assert_eq!((&file["width"], &file["height"]), (&json!(640), &json!(480)));
    let voice = FakeFile::from_bytes("voice-message.ogg", "audio/ogg", "OggS");
    let said = bot.fake.person_composes(CHANNEL, ADA, PersonMessage::voice(voice, 2.5));
    let message = bot.again(&json!({ "id": said.to_string() })).await;
    assert_eq!((&message["flags"], &message["attachments"][0]["duration_secs"]), (&json!(8192), &json!(2.5)));
    assert_eq!(id(&message["author"]["id"]), ADA);
}
