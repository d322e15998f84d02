//! A file that Telegram doesn't take comes as a link to the page, until it is ended, with the real binary between.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use satchel::platforms::client;
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_system::real_binary::TestHome;

use super::server_process::ServerProcess;

/// Ann's id, and so the id of her chat with the bot.
const ANN: i64 = 41;

/// The name under which others reach the page; it leads nowhere here.
const HOST: &str = "satchel.example.org";

/// The links in a text, in the order in which they stand.
fn find_links(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| word.starts_with("https://")).collect()
}

/// Opens a link as somebody elsewhere would whom a proxy has led here.
async fn open_link(server: &ServerProcess, link: &str) -> (u16, Vec<u8>) {
    let path = link.strip_prefix(&format!("https://{HOST}")).unwrap_or_else(|| panic!("{link} leads elsewhere"));
    let http = client().expect("HTTP can be spoken");
    let response = http.get(format!("{}{path}", server.page)).header("host", HOST).send().await.expect("it answers");
    (response.status().as_u16(), response.bytes().await.expect("a body ends").to_vec())
}

/// A bot that takes files of 1 KB, and Ann, who has a chat with it.
async fn start_telegram() -> FakeTelegram {
    let telegram = FakeTelegram::start(TelegramRules { upload_bytes: 1_000, ..TelegramRules::default() });
    let telegram = telegram.await.expect("a loopback port");
    telegram.private_chat(telegram.person(ANN, "Ann"));
    telegram
}

/// A configuration with that bot and a page that others reach.
fn home_with(telegram: &FakeTelegram) -> TestHome {
    let home = TestHome::new();
    let (token, url) = (telegram.token(), telegram.api_url());
    let settings = format!(
        "telegram: {{ token: '{token}', api_url: '{url}', owners: [{ANN}] }}\n\
         web: {{ public_url: 'https://{HOST}', token: 'four words of mine' }}\n\
         delivery: {{ pace: off }}\nmodel: offline\n"
    );
    home.write_file("satchel.yaml", settings);
    home
}

/// What the bot has written to Ann behind `nth` other texts.
async fn wait_for_text(telegram: &FakeTelegram, nth: usize) -> String {
    let told = telegram.wait_until(|transcript| transcript.texts(ANN).len() > nth).await;
    assert!(told.is_ok(), "{}", telegram.transcript());
    telegram.transcript().texts(ANN)[nth].to_owned()
}

/// Sends a film that is too large for the bot to send back, has it sent again, and returns the notice about that.
async fn resend_film(telegram: &FakeTelegram, bytes: Vec<u8>) -> String {
    let film = FakeFile::from_bytes("film.mov", "video/quicktime", bytes);
    telegram.person_sends(ANN, ANN, PersonMessage::file(FileKind::Document, film).caption("list my files"));
    wait_for_text(telegram, 0).await;
    telegram.person_says(ANN, ANN, "/resend 1");
    wait_for_text(telegram, 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_telegram_file_opens_by_link_until_revoked() {
    let telegram = start_telegram().await;
    let home = home_with(&telegram);
    let server = ServerProcess::start(&home, &[]);
    let wait_for_text = async |nth: usize| wait_for_text(&telegram, nth).await;

    let bytes = b"frame".repeat(1_000);
    let notice = resend_film(&telegram, bytes.clone()).await;
    assert!(notice.starts_with("0 of 1 file sent; film.mov is 5 KB, the limit here is"), "{notice}");
    assert!(notice.ends_with(" (for 7 days; a new one: /resend 1)"), "{notice}");
    let [link] = find_links(&notice)[..] else { panic!("not one link: {notice}") };
    assert_eq!(open_link(&server, link).await, (200, bytes.clone()), "without a login");
    assert_eq!(open_link(&server, &format!("{link}x")).await.0, 404);

    telegram.person_says(ANN, ANN, "/unlink 1");
    assert_eq!(wait_for_text(2).await, "All links to #1 film.mov are revoked.");
    assert_eq!(open_link(&server, link).await.0, 410);
    telegram.person_says(ANN, ANN, "/resend 1");
    let second = wait_for_text(3).await;
    assert_eq!(open_link(&server, find_links(&second)[0]).await, (200, bytes), "{second}");
    assert!(telegram.commands().iter().any(|command| command["command"] == "unlink"), "it is offered");

    // What was ended stays so.
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    let server = ServerProcess::start(&home, &[]);
    assert_eq!((open_link(&server, link).await.0, open_link(&server, find_links(&second)[0]).await.0), (410, 200));
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));

    // And what an earlier version had ended, in a file.
    let listed = home.run(&["attachments", "list", "--json"]).json();
    let id = listed[0]["id"].as_str().unwrap_or_else(|| panic!("no id: {listed}")).to_owned();
    let earlier = home.data_directory().join("web-key.revoked");
    std::fs::write(&earlier, format!(r#"{{"{id}":{{"times":2,"at":0}}}}"#)).expect("a file can be written");
    let server = ServerProcess::start(&home, &[]);
    assert_eq!(open_link(&server, find_links(&second)[0]).await.0, 410);
    assert!(!earlier.exists(), "it was moved into the ledger");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

/// The copy has the key by which links are signed, and the count of revocations that its backup has.
#[tokio::test(flavor = "multi_thread")]
async fn link_revoked_after_backup_stays_revoked_in_copy() {
    let telegram = start_telegram().await;
    let home = home_with(&telegram);
    let server = ServerProcess::start(&home, &[]);
    let bytes = b"frame".repeat(1_000);
    let notice = resend_film(&telegram, bytes.clone()).await;
    let [link] = find_links(&notice)[..] else { panic!("not one link: {notice}") };
    assert_eq!(open_link(&server, link).await, (200, bytes));
    let succeed = |arguments: &[&str]| {
        let output = home.run(arguments);
        assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    };
    succeed(&["backup", "create", "../backups", "--with-secrets"]);
    telegram.person_says(ANN, ANN, "/unlink 1");
    wait_for_text(&telegram, 2).await;
    assert_eq!(open_link(&server, link).await.0, 410);
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));

    succeed(&["backup", "restore", "../backups", "--to", "../restored"]);
    let data = home.root().join("restored");
    let copy = format!("storage.data_dir={}", data.to_str().expect("temporary directories have UTF-8 names"));
    succeed(&["backup", "release", "--unsettled", "drop", "--missed", "skip", "--set", &copy]);
    let server = ServerProcess::start(&home, &["--set", &copy]);
    assert_eq!(open_link(&server, link).await.0, 410);
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}
