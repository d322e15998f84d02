//! A second client, written by others: aiogram from PyPI, driven by a small script.
//!
//! Our own adapter and our own fake could share a misreading of the manual; this one reads it for itself.

use satchel_fake_kit::{FakeFile, PythonClient};
use satchel_fake_telegram::{FileKind, PersonMessage};
use satchel_requirements::required;

use crate::Bot;

/// The client's pinned packages and its script.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

#[tokio::test]
async fn an_independent_client_sends_edits_polls_and_downloads() {
    let Some(client) = required(PythonClient::install(PYTHON, "aiogram").await) else { return };
    let bot = Bot::start().await;
    let file = FakeFile::generated("report.pdf", "application/pdf", 9, 300_000);
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(FileKind::Document, file.clone()).caption("/save this"));
    let printed = client.run(&[&bot.fake.api_url(), bot.fake.token(), &bot.chat.to_string()]).await;
    let downloaded = printed.trim();
    assert_eq!(downloaded, file.sha256().to_string(), "what it downloaded");
    assert_eq!(bot.fake.unconfirmed_updates(), 0, "it confirmed what it read");

    let mut reads = bot.reads();
    for file in bot.fake.transcript().messages(bot.chat).iter().filter_map(|message| message.file()) {
        reads = reads.replace(&file.sha256.to_string()[..12], "DIGEST");
    }
    insta::assert_snapshot!(reads);
}
