//! What is refused, in Telegram's own words.

use satchel_fake_telegram::{ButtonPress, FileKind};
use serde_json::{Value, json};

use crate::Bot;

#[tokio::test]
async fn invalid_token_and_unknown_method_are_refused() {
    let bot = Bot::start().await;
    assert_eq!(bot.refusal("sendMassage", json!({})).await, "404 Not Found");
    let url = format!("{}/bot1:wrong/getMe", bot.fake.api_url());
    let answer = reqwest::get(url).await.expect("an answer");
    assert_eq!(answer.status(), 401);
    let answer: Value = answer.json().await.expect("JSON");
    assert_eq!(answer["description"], "Unauthorized");
    let nowhere = reqwest::get(bot.fake.api_url()).await.expect("an answer");
    assert_eq!(nowhere.status(), 404);
}

#[tokio::test]
async fn empty_overlong_or_misaddressed_texts_are_refused() {
    let bot = Bot::start().await;
    let clef = "𝄞"; // two UTF-16 units
    for (parameters, expected) in [
        (json!({ "text": "" }), "400 Bad Request: message text is empty"),
        (json!({ "text": " \n " }), "400 Bad Request: message text is empty"),
        (json!({ "text": "<b> </b>", "parse_mode": "HTML" }), "400 Bad Request: message text is empty"),
        (json!({}), "400 Bad Request: message text is empty"),
        (json!({ "text": "a".repeat(4097) }), "400 Bad Request: message is too long"),
        (json!({ "text": clef.repeat(2049) }), "400 Bad Request: message is too long"),
        (json!({ "text": "a", "parse_mode": "Rich" }), "400 Bad Request: unsupported parse_mode"),
        (json!({ "text": "a", "message_thread_id": 77 }), "400 Bad Request: message thread not found"),
        (
            json!({ "text": "a", "reply_parameters": { "message_id": 77 } }),
            "400 Bad Request: message to be replied not found",
        ),
    ] {
        assert_eq!(bot.here("sendMessage", parameters.clone()).await, Err(expected.to_owned()), "{parameters}");
    }
    assert_eq!(bot.refusal("sendMessage", json!({ "text": "a" })).await, "400 Bad Request: chat_id is empty");
    let nobody = bot.refusal("sendMessage", json!({ "chat_id": 5, "text": "a" })).await;
    assert_eq!(nobody, "400 Bad Request: chat not found");
    assert!(bot.fake.transcript().texts(bot.chat).is_empty(), "nothing arrived");

    bot.here("sendMessage", json!({ "text": clef.repeat(2048) })).await.expect("4096 units");
    let marked = format!("<b>{}</b>", "a".repeat(4096));
    bot.here("sendMessage", json!({ "text": marked, "parse_mode": "html" })).await.expect("markup isn't counted");
    let anyway = json!({ "message_id": 77, "allow_sending_without_reply": true });
    let sent = bot.here("sendMessage", json!({ "text": "a", "reply_parameters": anyway })).await.expect("sent");
    assert_eq!(sent.get("reply_to_message"), None);
}

#[tokio::test]
async fn missing_foreign_equal_or_mismatched_edits_are_refused() {
    let bot = Bot::start().await;
    let theirs = bot.fake.person_says(bot.chat, 1001, "hello");
    let sent = bot.here("sendMessage", json!({ "text": "one" })).await.expect("sent");
    let own = sent["message_id"].as_i64().expect("an id");
    let edit = async |message: i64, text: &str| {
        let answer = bot.here("editMessageText", json!({ "message_id": message, "text": text })).await;
        answer.map(|message| message["text"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(edit(999, "two").await, Err("400 Bad Request: message to edit not found".to_owned()));
    assert_eq!(edit(theirs, "two").await, Err("400 Bad Request: message can't be edited".to_owned()));
    assert_eq!(edit(own, "").await, Err("400 Bad Request: message text is empty".to_owned()));
    assert_eq!(edit(own, &"a".repeat(4097)).await, Err("400 Bad Request: MESSAGE_TOO_LONG".to_owned()));
    let equal = edit(own, "one ").await.expect_err("it is the same");
    assert!(equal.starts_with("400 Bad Request: message is not modified"), "{equal}");
    assert_eq!(edit(own, "two").await.as_deref(), Ok("two"));
    let caption = bot.here("editMessageCaption", json!({ "message_id": own, "caption": "a" })).await;
    assert_eq!(caption, Err("400 Bad Request: there is no caption in the message to edit".to_owned()));

    let file = bot.upload("sendDocument", json!({}), vec![("document", "a.txt", b"a".to_vec())]).await.expect("sent");
    let file = file["message_id"].as_i64().expect("an id");
    let refused = edit(file, "words").await;
    assert_eq!(refused, Err("400 Bad Request: there is no text in the message to edit".to_owned()));
    let captioned = bot.here("editMessageCaption", json!({ "message_id": file, "caption": "words" })).await;
    assert_eq!(captioned.expect("edited")["caption"], "words");

    bot.here("deleteMessage", json!({ "message_id": own })).await.expect("deleted");
    assert_eq!(edit(own, "three").await, Err("400 Bad Request: message to edit not found".to_owned()));
    let again = bot.here("deleteMessage", json!({ "message_id": own })).await;
    assert_eq!(again, Err("400 Bad Request: message to delete not found".to_owned()));
}

#[tokio::test]
async fn chats_that_shut_the_bot_out_say_so() {
    let bot = Bot::start().await;
    let say = async |chat: i64| bot.answer("sendMessage", json!({ "chat_id": chat, "text": "a" })).await.expect("some");
    bot.fake.person_blocks(1001);
    assert_eq!(say(bot.chat).await["description"], "Forbidden: bot was blocked by the user");
    bot.fake.person_unblocks(1001);
    assert_eq!(say(bot.chat).await["ok"], true);

    let group = bot.fake.group("Family", &[1001]);
    let supergroup = bot.fake.migrate(group);
    let moved = say(group).await;
    assert_eq!(moved["error_code"], 400);
    assert_eq!(moved["description"], "Bad Request: group chat was upgraded to a supergroup chat");
    assert_eq!(moved["parameters"]["migrate_to_chat_id"], supergroup);
    assert_eq!(say(supergroup).await["ok"], true);
    bot.fake.kick(supergroup, 1001);
    let kicked = say(supergroup).await;
    assert_eq!(
        (&kicked["error_code"], &kicked["description"]),
        (&json!(403), &json!("Forbidden: bot was kicked from the supergroup chat"))
    );
    bot.fake.forget_chat(bot.chat);
    assert_eq!(say(bot.chat).await["description"], "Bad Request: chat not found");
}

#[tokio::test]
async fn buttons_have_limits() {
    let bot = Bot::start().await;
    let send = async |keyboard: Value| {
        let parameters = json!({ "text": "?", "reply_markup": { "inline_keyboard": keyboard } });
        bot.here("sendMessage", parameters).await.map(|_| ())
    };
    let unallowed =
        "400 Bad Request: can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard";
    for (keyboard, expected) in [
        (json!([[{ "text": "Yes", "callback_data": "a".repeat(65) }]]), "400 Bad Request: BUTTON_DATA_INVALID"),
        (json!([[{ "text": "Yes", "callback_data": "ä".repeat(33) }]]), "400 Bad Request: BUTTON_DATA_INVALID"),
        (json!([[{ "text": "Yes", "callback_data": "" }]]), unallowed),
        (json!([[{ "text": "Yes" }]]), unallowed),
        (json!([[{ "text": " ", "callback_data": "a" }]]), "400 Bad Request: inline keyboard button text is empty"),
        (
            json!([{ "text": "Yes", "callback_data": "a" }]),
            "400 Bad Request: can't parse inline keyboard button: Array of Arrays expected",
        ),
        (json!(vec![[json!({ "text": "Yes", "callback_data": "a" })]; 101]), "400 Bad Request: REPLY_MARKUP_TOO_LONG"),
    ] {
        assert_eq!(send(keyboard.clone()).await, Err(expected.to_owned()), "{keyboard}");
    }
    assert_eq!(send(json!([[{ "text": "Yes", "callback_data": "a".repeat(64) }]])).await, Ok(()));
    let words = bot.here("sendMessage", json!({ "text": "?", "reply_markup": "{" })).await;
    assert_eq!(words, Err("400 Bad Request: can't parse reply markup JSON object".to_owned()));
}

#[tokio::test]
async fn presses_are_answered_once_and_in_time() {
    let bot = Bot::start().await;
    let buttons = json!({ "inline_keyboard": [[{ "text": "Allow", "callback_data": "/allow 7" }]] });
    let sent = bot.here("sendMessage", json!({ "text": "May I?", "reply_markup": buttons })).await.expect("sent");
    let message = sent["message_id"].as_i64().expect("an id");
    let query = bot.fake.person_presses(1001, message, "Allow");
    let updates = bot.ask("getUpdates", json!({})).await;
    assert_eq!(updates[0]["callback_query"]["data"], "/allow 7");
    assert_eq!(updates[0]["callback_query"]["message"]["message_id"], message);

    let answer = async |query: &str, text: &str| {
        let parameters = json!({ "callback_query_id": query, "text": text });
        bot.answer("answerCallbackQuery", parameters).await.expect("an answer")["description"].clone()
    };
    let old = json!("Bad Request: query is too old and response timeout expired or query ID is invalid");
    assert_eq!(answer("1", "").await, old);
    assert_eq!(answer(&query, &"a".repeat(201)).await, json!("Bad Request: MESSAGE_TOO_LONG"));
    assert_eq!(answer(&query, "Done").await, Value::Null);
    bot.fake.expire_presses();
    assert_eq!(answer(&query, "Done").await, old);
    let transcript = bot.fake.transcript();
    let answers: Vec<_> = transcript.chats[&bot.chat].presses.iter().map(|press: &ButtonPress| &press.answer).collect();
    assert_eq!(answers, [&Some("Done".to_owned())]);
}

#[tokio::test]
async fn actions_and_commands_are_checked() {
    let bot = Bot::start().await;
    let refused = bot.here("sendChatAction", json!({ "action": "thinking" })).await;
    assert_eq!(refused, Err("400 Bad Request: wrong parameter action in request".to_owned()));
    bot.here("sendChatAction", json!({ "action": "typing" })).await.expect("taken");
    assert_eq!(bot.fake.transcript().chats[&bot.chat].actions, ["typing"]);

    let command = |name: &str, description: &str| json!([{ "command": name, "description": description }]);
    for (commands, expected) in [
        (command("Files", "Lists files"), "400 Bad Request: BOT_COMMAND_INVALID"),
        (command("", "Lists files"), "400 Bad Request: BOT_COMMAND_INVALID"),
        (command(&"a".repeat(33), "Lists files"), "400 Bad Request: BOT_COMMAND_INVALID"),
        (command("files", ""), "400 Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
        (command("files", &"a".repeat(257)), "400 Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
        (json!(vec![json!({ "command": "a", "description": "a" }); 101]), "400 Bad Request: BOT_COMMANDS_TOO_MUCH"),
    ] {
        assert_eq!(bot.refusal("setMyCommands", json!({ "commands": commands })).await, expected);
    }
    bot.ask("setMyCommands", json!({ "commands": command("files", "Lists files") })).await;
    assert_eq!(bot.fake.commands()[0]["command"], "files");
    bot.ask("deleteMyCommands", json!({})).await;
    assert_eq!(bot.ask("getMyCommands", json!({})).await, json!([]));
}

#[tokio::test]
async fn voices_are_refused_where_they_are_forbidden() {
    let bot = Bot::start().await;
    bot.fake.forbid_voice(bot.chat);
    let ogg = || vec![("voice", "voice.ogg", b"OggS".to_vec())];
    let refused = bot.upload("sendVoice", json!({}), ogg()).await;
    assert_eq!(refused, Err("400 Bad Request: VOICE_MESSAGES_FORBIDDEN".to_owned()));
    let restricted = bot.ask("getChat", json!({ "chat_id": bot.chat })).await;
    assert_eq!(restricted["has_restricted_voice_and_video_messages"], true);
    let audio = vec![("audio", "voice.ogg", b"OggS".to_vec())];
    bot.upload("sendAudio", json!({}), audio).await.expect("an audio file is none");
    assert_eq!(bot.fake.transcript().files(bot.chat)[0].kind, FileKind::Audio);
}
