//! A second client, written by others: discord.py from PyPI, driven by a small script.
//!
//! Our own adapter and our own fake could share a misreading of the documentation; this one reads it for itself.

use satchel_fake_kit::{FakeFile, PythonClient};
use satchel_requirements::required;

use crate::{ADA, Bot, CHANNEL};

/// The client's pinned packages and its script.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

#[tokio::test]
async fn independent_client_handles_messages_files_edits_and_buttons() {
    let Some(client) = required(PythonClient::install(PYTHON, "discord_py").await) else { return };
    let bot = Bot::start().await;
    bot.fake.thread(CHANNEL, 70_002, "Taxes");
    let file = FakeFile::generated("my report.pdf", "application/pdf", 9, 300_000);
    let gateway = bot.fake.gateway().address()["url"].as_str().expect("an address").to_owned();
    let (api_url, token) = (bot.fake.api_url(), bot.fake.token());
    let arguments = [api_url.as_str(), &gateway, token];
    let person = async {
        bot.fake.gateway().wait_connected(1).await.expect("it connects");
        let words = format!("{} save this", bot.fake.mention());
        bot.fake.person_sends(CHANNEL, ADA, &words, vec![file.clone()]);
        let direct = bot.direct;
        bot.fake.wait_until(|transcript| transcript.texts(direct) == ["between us"]).await.expect("it has said all");
        let transcript = bot.fake.transcript();
        let asked = transcript.visible(CHANNEL).find(|message| !message.buttons.is_empty()).expect("a question");
        bot.fake.person_presses(ADA, asked.id, "/yes");
    };
    let (printed, ()) = tokio::join!(client.run(&arguments), person);
    assert_eq!(printed.trim(), file.sha256().to_string(), "what it downloaded");
    assert!(bot.fake.transcript().pings().is_empty(), "nobody was notified");

    let transcript = bot.fake.transcript();
    let mut reads = transcript.to_string();
    for file in transcript.channels.values().flat_map(|channel| &channel.messages).flat_map(|message| &message.files) {
        reads = reads.replace(&file.sha256.to_string()[..12], "DIGEST");
    }
    insta::assert_snapshot!(reads);
}
