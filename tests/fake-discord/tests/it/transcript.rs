//! What stands in the channels reads as a person sees it.

use satchel_fake_discord::{APPLICATION, PersonMessage};
use satchel_fake_kit::{FakeFile, VisibleItem};
use serde_json::json;

use crate::{ADA, Bot, CHANNEL, button, id};

#[tokio::test]
async fn transcript_includes_everything_a_channel_can_contain() {
    let bot = Bot::start().await;
    let photo = FakeFile::photo("my cat.png", 640, 480, 1, 1000);
    let said = bot.fake.person_sends(CHANNEL, ADA, "look\nat this", vec![photo]);
    bot.fake.person_composes(CHANNEL, ADA, PersonMessage::text("").with_sticker("Wave"));
    bot.fake.person_composes(
        CHANNEL,
        ADA,
        PersonMessage::voice(FakeFile::from_bytes("voice-message.ogg", "audio/ogg", "OggS"), 2.5),
    );
    let reply =
        json!({ "content": format!("hello <@{ADA}>"), "message_reference": { "message_id": said.to_string() } });
    let sent = bot.send(reply).await.expect("sent");
    bot.edit(&sent, json!({ "content": "hello" })).await.expect("edited");
    let file = ("a.txt", "text/plain", b"a".to_vec());
    let described = json!({ "attachments": [{ "id": 0, "description": "the first\nof all" }] });
    bot.send_files(described, vec![file]).await.expect("sent");
    let asked = bot.send(json!({ "content": "Sure?", "components": button("Yes", "/yes") })).await.expect("sent");
    bot.fake.person_presses(ADA, id(&asked["id"]), "/yes");
    let commands = json!([{ "name": "resend", "description": "Sends again" }]);
    bot.ask("PUT", &format!("/applications/{APPLICATION}/commands"), commands).await.expect("taken");
    let used = bot.fake.person_commands(bot.direct, ADA, "resend", &[("words", json!("17"))]);
    let path = format!("/interactions/{used}/aW50ZXJhY3Rpb246{used}:fake/callback");
    let answer = json!({ "type": 4, "data": { "content": "/resend 17", "flags": 64 } });
    bot.ask("POST", &path, answer).await.expect("answered");
    bot.fake.person_forwards(bot.direct, ADA, said);
    bot.fake.person_deletes(said);

    let transcript = bot.fake.transcript();
    let mut reads = transcript.to_string();
    for message in transcript.channels.values().flat_map(|channel| &channel.messages) {
        let forwarded = message.forwarded.iter().flat_map(|forwarded| &forwarded.files);
        for file in message.files.iter().chain(forwarded) {
            reads = reads.replace(&file.sha256.to_string()[..12], "DIGEST");
        }
    }
    insta::assert_snapshot!(reads);

    let shared = transcript.shared();
    let conversation = format!("discord:{CHANNEL}").parse().expect("a conversation");
    let digest = transcript.files(CHANNEL)[0].sha256;
    let expected = ["hello", "Sure?"].map(|text| VisibleItem::Text(text.to_owned()));
    assert!(shared.missing(&conversation, &[&expected[..], &[VisibleItem::File(digest)]].concat()).is_empty());
    assert!(shared.duplicates(&conversation).is_empty());
    let told: Vec<_> = shared.visible(&conversation).map(|message| message.reply_to.clone()).collect();
    assert_eq!(told.iter().flatten().map(|answered| answered.0.as_str()).collect::<Vec<_>>(), [said.to_string()]);
}
