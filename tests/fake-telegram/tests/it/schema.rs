//! Every method, parameter and answer of the fake against a description of the Bot API that others wrote.
//!
//! The description (Bot API 10.1) lies in `oracles/`.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};
use serde_json::{Value, json};

use crate::{Bot, Upload, mp4, png};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/oracles/telegram-bot-api.json");

/// Rich HTML with every block and every piece of text that the fake reads.
const EVERY_BLOCK: &str = "<h2>a</h2><p><b>b</b> <i>c</i> <u>d</u> <s>e</s> <code>f</code> <mark>g</mark> <sub>h</sub> \
    <sup>i</sup> <tg-spoiler>j</tg-spoiler> <a href=\"https://x.org/\">k</a> <a href=\"mailto:a@b.org\">l</a> \
    <a href=\"tel:+41\">m</a> <a name=\"n\"></a><a href=\"#n\">n</a> <tg-reference name=\"o\">o</tg-reference> \
    <tg-math>x^2</tg-math><br>p</p><hr><pre><code class=\"language-rust\">fn</code></pre><ul><li><input type=\"checkbox\" \
    checked>a</li></ul><ol start=\"3\"><li>b<ul><li>c</li></ul></li></ol><blockquote>q<cite>r</cite></blockquote>\
    <aside>s</aside><table bordered striped><caption>t</caption><tr><th align=\"right\">u</th><td colspan=\"2\">v</td></tr>\
    </table><details open><summary>w</summary><p>x</p></details><tg-math-block>E = mc^2</tg-math-block><footer>y</footer>";

struct Oracle {
    schema: Value,
    complaints: Vec<String>,
}

impl Oracle {
    fn read() -> Self {
        let schema = std::fs::read(SCHEMA).expect("the description lies in the repository");
        let schema = serde_json::from_slice(&schema).expect("the description is JSON");
        Self { schema, complaints: Vec::new() }
    }

    fn fields(&self, part: &str, name: &str) -> Option<Vec<Value>> {
        let described = self.schema[part].get(name)?;
        Some(described["fields"].as_array().cloned().unwrap_or_default())
    }

    /// The name of a method as the manual writes it.
    fn method(&self, lower: &str) -> Option<String> {
        let methods = self.schema["methods"].as_object().expect("methods");
        methods.keys().find(|name| name.to_lowercase() == lower).cloned()
    }

    fn answer(&mut self, method: &str, answer: &Value) {
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        let returns = self.schema["methods"][method]["returns"].clone();
        assert!(returns.is_array(), "the Bot API has no {method}");
        if let Some(wrong) = self.wrong(&answer["result"], &returns) {
            self.complaints.push(format!("{method}: {wrong}"));
        }
    }

    /// What is wrong with a value that has to have one of these types.
    fn wrong(&self, value: &Value, types: &Value) -> Option<String> {
        let types = types.as_array().expect("types").iter().map(|name| name.as_str().expect("a name"));
        let mut why = String::new();
        for name in types {
            match self.wrong_for(value, name) {
                None => return None,
                Some(wrong) => why = wrong,
            }
        }
        Some(why)
    }

    fn wrong_for(&self, value: &Value, name: &str) -> Option<String> {
        if let Some(of) = name.strip_prefix("Array of ") {
            let Some(items) = value.as_array() else { return Some(format!("{value} is no list")) };
            return items.iter().find_map(|item| self.wrong_for(item, of));
        }
        let fits = match name {
            "Integer" => value.is_i64() || value.is_u64(),
            "Float" => value.is_number(),
            "String" => value.is_string(),
            "Boolean" => value.is_boolean(),
            _ => return self.wrong_object(value, name),
        };
        (!fits).then(|| format!("{value} is no {name}"))
    }

    fn wrong_object(&self, value: &Value, name: &str) -> Option<String> {
        if let Some(subtypes) = self.schema["types"][name].get("subtypes") {
            return self.wrong(value, subtypes);
        }
        let fields = self.fields("types", name).expect("the type is described");
        let Some(object) = value.as_object() else { return Some(format!("{value} is no {name}")) };
        let missing = fields
            .iter()
            .find(|field| field["required"] == true && !object.contains_key(field["name"].as_str().expect("a name")));
        if let Some(missing) = missing {
            return Some(format!("{name} lacks {}", missing["name"]));
        }
        object.iter().find_map(|(field, value)| {
            let Some(described) = fields.iter().find(|described| described["name"] == **field) else {
                return Some(format!("{name} has no {field}"));
            };
            self.wrong(value, &described["types"]).map(|wrong| format!("{name}.{field}: {wrong}"))
        })
    }

    /// Whether all that the fake takes is in the manual.
    fn requests(&mut self, bot: &Bot) {
        for call in bot.fake.calls() {
            let Some(method) = self.method(&call.method) else {
                self.complaints.push(format!("the Bot API has no {}", call.method));
                continue;
            };
            let fields = self.fields("methods", &method).expect("it is there");
            for taken in &call.taken {
                let Some(field) = fields.iter().find(|field| field["name"] == **taken) else {
                    self.complaints.push(format!("{method} has no parameter {taken}"));
                    continue;
                };
                let given = call.parameters.get(taken).filter(|given| !given.is_string());
                if let Some(wrong) = given.and_then(|given| self.wrong(given, &field["types"])) {
                    self.complaints.push(format!("{method}: {taken}: {wrong}"));
                }
            }
        }
    }
}

#[tokio::test]
async fn all_requests_and_responses_match_the_manual() {
    let mut oracle = Oracle::read();
    let bot = Bot::start().await;
    let (forum, channel) = people_do_everything(&bot);
    let (chat, us) = (bot.chat, bot.fake.bot().0);
    let buttons = json!({ "inline_keyboard": [[{ "text": "Yes", "callback_data": "/y" }]] });
    let text = json!({
        "chat_id": chat, "text": "<b>a</b> <a href=\"https://x.org/\">b</a>", "parse_mode": "HTML",
        "reply_parameters": { "message_id": 1, "allow_sending_without_reply": true }, "reply_markup": buttons,
    });
    let sent = bot.ask("sendMessage", text.clone()).await["message_id"].as_i64().expect("an id");
    let query = bot.fake.person_presses(1001, sent, "Yes");
    let updates = bot.ask("getUpdates", json!({})).await;
    let file = updates[1]["message"]["document"]["file_id"].clone();
    let hook = json!({ "url": "https://bot.example.org/", "secret_token": "a", "allowed_updates": ["message"] });
    let commands = json!([{ "command": "files", "description": "Lists files" }]);
    for (method, parameters) in [
        ("getMe", json!({})),
        ("getUpdates", json!({ "offset": 0, "limit": 100, "timeout": 0 })),
        ("sendMessage", text),
        (
            "sendRichMessage",
            json!({ "chat_id": chat, "rich_message": { "html": EVERY_BLOCK, "skip_entity_detection": true } }),
        ),
        (
            "editMessageText",
            json!({ "chat_id": chat, "message_id": sent, "rich_message": { "html": "<h1>a</h1>", "is_rtl": true } }),
        ),
        ("sendMessageDraft", json!({ "chat_id": chat, "draft_id": 7, "text": "<b>a</b>", "parse_mode": "HTML" })),
        ("sendChatAction", json!({ "chat_id": chat, "action": "typing" })),
        ("editMessageText", json!({ "chat_id": chat, "message_id": sent, "text": "b" })),
        ("editMessageReplyMarkup", json!({ "chat_id": chat, "message_id": sent, "reply_markup": buttons })),
        ("answerCallbackQuery", json!({ "callback_query_id": query, "text": "Done" })),
        ("getFile", json!({ "file_id": file })),
        ("getChat", json!({ "chat_id": chat })),
        ("getChatMember", json!({ "chat_id": chat, "user_id": us })),
        ("getChatMember", json!({ "chat_id": forum, "user_id": us })),
        ("getChatMember", json!({ "chat_id": channel, "user_id": us })),
        ("getChatMember", json!({ "chat_id": channel, "user_id": 1002 })),
        ("getChatAdministrators", json!({ "chat_id": forum })),
        ("sendMessage", json!({ "chat_id": channel, "text": "a" })),
        ("setMyCommands", json!({ "commands": commands })),
        ("getMyCommands", json!({})),
        ("deleteMyCommands", json!({})),
        ("deleteMessage", json!({ "chat_id": chat, "message_id": sent })),
        ("setWebhook", hook),
        ("getWebhookInfo", json!({})),
        ("deleteWebhook", json!({ "drop_pending_updates": true })),
    ] {
        let answer = bot.answer(method, parameters).await.expect("an answer");
        oracle.answer(method, &answer);
    }
    let item = |kind: &str, part: &str| json!({ "type": kind, "media": format!("attach://{part}") });
    let media = json!([item("photo", "p"), item("video", "v")]);
    let photo = || ("photo", "p.png", png(10, 10, 0));
    let album: Vec<Upload<'_>> = vec![("p", "p.png", png(10, 10, 0)), ("v", "v.mp4", mp4())];
    for (method, parameters, files) in [
        ("sendPhoto", json!({ "caption": "a" }), vec![photo()]),
        ("sendDocument", json!({}), vec![("document", "a", b"a".to_vec())]),
        ("sendVoice", json!({ "duration": 3 }), vec![("voice", "a", b"OggS".to_vec())]),
        ("sendAudio", json!({ "duration": 3 }), vec![("audio", "a", b"ID3".to_vec())]),
        ("sendVideo", json!({}), vec![("video", "a", mp4())]),
        ("sendVideoNote", json!({}), vec![("video_note", "a", mp4())]),
        ("sendAnimation", json!({}), vec![("animation", "a", mp4())]),
        ("sendMediaGroup", json!({ "media": media }), album),
    ] {
        let result = bot.upload(method, parameters, files).await.expect(method);
        oracle.answer(method, &json!({ "ok": true, "result": result }));
        if method == "sendPhoto" {
            let edit = json!({ "chat_id": chat, "message_id": result["message_id"], "caption": "b" });
            let answer = bot.answer("editMessageCaption", edit).await.expect("an answer");
            oracle.answer("editMessageCaption", &answer);
        }
    }
    let look_up = json!({ "chat_id": chat, "message_id": 1, "reply_markup": buttons });
    bot.refusal("stopMessageLiveLocation", look_up).await;
    oracle.requests(&bot);
    assert!(oracle.complaints.is_empty(), "{}", oracle.complaints.join("\n"));
}

/// Returns a forum of which the bot is an administrator, and a channel.
fn people_do_everything(bot: &Bot) -> (i64, i64) {
    let said = bot.fake.person_says(bot.chat, 1001, "/files https://x.org/ @somebody");
    let friend = bot.fake.person(1002, "Bea");
    for kind in [
        FileKind::Document,
        FileKind::Photo,
        FileKind::Voice,
        FileKind::Audio,
        FileKind::Video,
        FileKind::VideoNote,
        FileKind::Animation,
        FileKind::Sticker,
    ] {
        let file = FakeFile::photo("a.png", 100, 100, 1, 1000);
        let composed = PersonMessage::file(kind, file).caption("words").replying_to(said).forwarded_from(friend);
        bot.fake.person_sends(bot.chat, 1001, composed);
    }
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::location(47.0, 8.5));
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::contact("Bea", "+4100"));
    bot.fake.person_edits(bot.chat, 1001, said, "/help");
    let forum = bot.fake.forum("Family", &[1001, friend]);
    let topic = bot.fake.topic(forum, "Taxes");
    bot.fake.person_sends(forum, friend, PersonMessage::text("a").in_topic(topic));
    bot.fake.close_topic(forum, topic);
    bot.fake.reopen_topic(forum, topic);
    bot.fake.enable_private_topics();
    let topic = bot.fake.private_topic(bot.chat, "Taxes");
    bot.fake.rename_private_topic(bot.chat, topic, "Taxes 2026");
    bot.fake.person_sends(bot.chat, 1001, PersonMessage::text("a").in_topic(topic));
    let group = bot.fake.group("Small", &[1001]);
    bot.fake.migrate(group);
    bot.fake.person_blocks(1001);
    bot.fake.person_unblocks(1001);
    bot.fake.promote_bot(forum, 1001);
    bot.fake.person_sets_auto_delete(forum, friend, 86_400);
    let channel = bot.fake.channel("News", 1001);
    let post = bot.fake.person_says(channel, 1001, "helo");
    bot.fake.person_edits(channel, 1001, post, "hello");
    bot.fake.person_reacts(channel, post);
    let greeting = bot.fake.person_says(forum, friend, "/start");
    bot.fake.tag_member(forum, friend, "Cook", greeting);
    bot.fake.kick(bot.fake.group("Tiny", &[1001]), 1001);
    (forum, channel)
}
