//! What people format in Telegram's apps, as the bot gets it.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};
use serde_json::{Value, json};

use crate::Bot;

fn entity(kind: &str, offset: u64, length: u64) -> Value {
    json!({ "type": kind, "offset": offset, "length": length })
}

#[tokio::test]
async fn formatted_text_comes_with_its_entities() {
    let bot = Bot::start().await;
    let html = "/note 𝄞 <s>milk</s> @ann <b>and <i>eggs</i></b> <code>/rm @bob</code>";
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::formatted(html));
    let file = FakeFile::generated("a.txt", "text/plain", 1, 10);
    let captioned = PersonMessage::file(FileKind::Document, file).formatted_caption("<u>keep</u> this");
    bot.fake.person_sends(bot.chat, 1001, captioned);
    let updates = bot.ask("getUpdates", json!({})).await;
    let (text, caption) = (&updates[0]["message"], &updates[1]["message"]);
    assert_eq!(text["text"], "/note 𝄞 milk @ann and eggs /rm @bob");
    let entities = json!([
        entity("bot_command", 0, 5),
        entity("strikethrough", 9, 4),
        entity("mention", 14, 4),
        entity("bold", 19, 8),
        entity("italic", 23, 4),
        entity("code", 28, 8),
    ]);
    assert_eq!(text["entities"], entities, "in code nothing is found");
    assert_eq!(
        (&caption["caption"], &caption["caption_entities"]),
        (&json!("keep this"), &json!([entity("underline", 0, 4)]))
    );
}

#[tokio::test]
async fn quoted_passage_keeps_some_of_its_entities() {
    let bot = Bot::start().await;
    let said = bot.fake.person_sends(bot.chat, 1001, PersonMessage::formatted("𝄞 buy <s>milk</s> <code>now</code>"));
    let quoting = PersonMessage::text("why?").quoting(said, "<s>milk</s> <code>now</code>");
    bot.fake.person_sends(bot.chat, 1001, quoting);
    let updates = bot.ask("getUpdates", json!({})).await;
    let quote =
        json!({ "text": "milk now", "entities": [entity("strikethrough", 0, 4)], "position": 7, "is_manual": true });
    assert_eq!(updates[1]["message"]["quote"], quote);
}
