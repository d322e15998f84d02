//! The objects of the Bot API as the fake writes them: User, Chat, Message and what a message holds.

use serde_json::{Map, Value, json};

use crate::{
    message::{ChatKind, FileKind, FormattedText, TelegramContent, TelegramFile, TelegramMessage},
    platform_state::{BOT, BOT_USERNAME, BotMembership, BotRole, PlatformState},
};

/// User: the bot, as `getMe` has it.
pub(crate) fn me(platform: &PlatformState) -> Value {
    let mut me = json!({
        "id": BOT, "is_bot": true, "first_name": "Satchel", "username": BOT_USERNAME,
        "can_join_groups": true, "can_read_all_group_messages": !platform.privacy_mode, "supports_inline_queries": false,
        "can_connect_to_business": false, "has_main_web_app": false,
    });
    // User: "True, if the bot has forum topic mode enabled in private chats", "True, if the bot allows users to create and delete
    // topics in private chats"; "returned only in getMe".
    if platform.has_private_topics {
        me["has_topics_enabled"] = json!(true);
        me["allows_users_to_create_topics"] = json!(true);
    }
    me
}

/// User: whoever has this id.
pub(crate) fn user(platform: &PlatformState, id: i64) -> Value {
    if id == BOT {
        return json!({ "id": BOT, "is_bot": true, "first_name": "Satchel", "username": BOT_USERNAME });
    }
    let name = platform.people.get(&id).map_or("Person", String::as_str);
    json!({ "id": id, "is_bot": false, "first_name": name, "language_code": "en" })
}

pub(crate) fn chat(platform: &PlatformState, id: i64) -> Value {
    let chat = platform.chat(id);
    match chat.kind {
        ChatKind::Private => json!({ "id": id, "type": "private", "first_name": chat.title }),
        ChatKind::Group => json!({ "id": id, "type": "group", "title": chat.title }),
        ChatKind::Supergroup => json!({ "id": id, "type": "supergroup", "title": chat.title }),
        ChatKind::Forum => json!({ "id": id, "type": "supergroup", "title": chat.title, "is_forum": true }),
        ChatKind::Channel => json!({ "id": id, "type": "channel", "title": chat.title }),
    }
}

/// ChatMember: the bot or a person in a chat.
pub(crate) fn member(platform: &PlatformState, chat: i64, user: i64) -> Value {
    let shown = self::user(platform, user);
    let chat = platform.chat(chat);
    if user != BOT {
        return match (chat.members.contains(&user), user == chat.owner && chat.kind != ChatKind::Private) {
            (true, true) => json!({ "status": "creator", "user": shown, "is_anonymous": false }),
            (true, false) => json!({ "status": "member", "user": shown }),
            (false, _) => json!({ "status": "left", "user": shown }),
        };
    }
    match (chat.membership, chat.role) {
        (BotMembership::Welcome, BotRole::Administrator { edits_posts }) => {
            let mut member = json!({
                "status": "administrator", "user": shown, "can_be_edited": false, "is_anonymous": false,
                "can_manage_chat": true, "can_delete_messages": true, "can_manage_video_chats": false,
                "can_restrict_members": false, "can_promote_members": false, "can_change_info": false,
                "can_invite_users": false, "can_post_stories": false, "can_edit_stories": false,
                "can_delete_stories": false,
            });
            // ChatMemberAdministrator: "for channels only", "for groups and supergroups only".
            if chat.kind == ChatKind::Channel {
                member["can_post_messages"] = json!(true);
                member["can_edit_messages"] = json!(edits_posts);
            } else {
                member["can_pin_messages"] = json!(false);
            }
            member
        }
        (BotMembership::Welcome, BotRole::Member) => json!({ "status": "member", "user": shown }),
        (BotMembership::Blocked | BotMembership::Kicked, _) => {
            json!({ "status": "kicked", "user": shown, "until_date": 0 })
        }
        (BotMembership::Migrated(_), _) => json!({ "status": "left", "user": shown }),
    }
}

/// Message, with the message that it answers.
pub(crate) fn message(platform: &PlatformState, message: &TelegramMessage) -> Value {
    let mut object = alone(platform, message);
    // A message of a topic that answers nothing else answers the message that opened the topic.
    let topic = message.thread.filter(|topic| *topic != message.id);
    let answered = message.reply_to.and_then(|id| platform.message(message.chat, id));
    if let (Some(passage), Some(answered)) = (&message.quote, answered) {
        object.insert("quote".to_owned(), quote(passage, answered));
    }
    if let Some(answered) = answered.or_else(|| platform.message(message.chat, topic?)) {
        // Message, reply_to_message: "will not contain further reply_to_message fields even if it itself is a reply".
        object.insert("reply_to_message".to_owned(), Value::Object(alone(platform, answered)));
    }
    Value::Object(object)
}

/// TextQuote: the passage of the answered message that the person chose.
fn quote(passage: &FormattedText, answered: &TelegramMessage) -> Value {
    let before = answered.words.text.find(&passage.text).map_or("", |at| &answered.words.text[..at]);
    let mut quote = json!({ "text": passage.text, "position": before.encode_utf16().count(), "is_manual": true });
    if !passage.entities.is_empty() {
        quote["entities"] = json!(passage.entities_json());
    }
    quote
}

fn alone(platform: &PlatformState, message: &TelegramMessage) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    put("message_id", json!(message.id));
    if platform.chat(message.chat).kind == ChatKind::Channel {
        // Message, from: "may be empty for messages sent to channels"; a post's sender_chat is its channel.
        put("sender_chat", chat(platform, message.chat));
    } else {
        put("from", user(platform, message.from));
    }
    put("chat", chat(platform, message.chat));
    put("date", json!(message.date));
    // Message, sender_tag: "Tag or custom title of the sender of the message; for supergroups only".
    if let Some(tag) = platform.chat(message.chat).tags.get(&message.from) {
        put("sender_tag", json!(tag));
    }
    if let Some(thread) = message.thread {
        put("message_thread_id", json!(thread));
        put("is_topic_message", json!(true));
    } else if let Some(answered) = message.reply_to.filter(|_| platform.chat(message.chat).kind == ChatKind::Supergroup)
    {
        // Replies in a large group form threads too; only is_topic_message tells a topic from such a thread.
        put("message_thread_id", json!(answered));
    }
    if let Some(origin) = message.forwarded_from {
        let origin = json!({ "type": "user", "date": message.date - 60, "sender_user": user(platform, origin) });
        put("forward_origin", origin);
    }
    if let Some(edited) = message.edit_date {
        put("edit_date", json!(edited));
    }
    if let Some(album) = &message.album {
        put("media_group_id", json!(album));
    }
    let (words, entities) = match message.content {
        TelegramContent::Words => ("text", "entities"),
        _ => ("caption", "caption_entities"),
    };
    if !message.words.text.is_empty() && !matches!(message.content, TelegramContent::Rich(_)) {
        put(words, json!(message.words.text));
        if !message.words.entities.is_empty() {
            put(entities, json!(message.words.entities_json()));
        }
    }
    match &message.content {
        TelegramContent::Words => {}
        TelegramContent::Rich(rich) => put("rich_message", rich.json()),
        TelegramContent::File(shown) => {
            put(shown.kind.field(), file(platform, shown));
            if shown.kind == FileKind::Animation {
                // Message, animation: "For backward compatibility, when this field is set, the document field will
                // also be set".
                put("document", document(shown));
            }
        }
        TelegramContent::Location { latitude, longitude } => {
            put("location", json!({ "latitude": latitude, "longitude": longitude }));
        }
        TelegramContent::Contact { name, phone } => {
            put("contact", json!({ "phone_number": phone, "first_name": name }));
        }
        TelegramContent::Service(fields) => fields.iter().for_each(|(field, value)| put(field, value.clone())),
    }
    if !message.buttons.is_empty() {
        let described = |row: &Vec<_>| -> Vec<Value> {
            row.iter().map(|button: &crate::InlineButton| button.described.clone()).collect()
        };
        let rows: Vec<_> = message.buttons.iter().map(described).collect();
        put("reply_markup", json!({ "inline_keyboard": rows }));
    }
    object
}

fn file(platform: &PlatformState, file: &TelegramFile) -> Value {
    let mut object = json!({ "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes });
    let (width, height) = file.sides;
    match file.kind {
        FileKind::Photo => return json!(sizes(platform, file)),
        FileKind::Document => return document(file),
        FileKind::Voice => {
            object["duration"] = json!(file.duration);
            object["mime_type"] = json!(file.mime);
        }
        FileKind::Audio => {
            object["duration"] = json!(file.duration);
            object["file_name"] = json!(file.filename);
            object["mime_type"] = json!(file.mime);
        }
        FileKind::Video | FileKind::Animation => {
            object["width"] = json!(width);
            object["height"] = json!(height);
            object["duration"] = json!(file.duration);
            object["file_name"] = json!(file.filename);
            object["mime_type"] = json!(file.mime);
        }
        FileKind::VideoNote => {
            object["length"] = json!(width);
            object["duration"] = json!(file.duration);
        }
        FileKind::Sticker => {
            object["type"] = json!("regular");
            object["width"] = json!(width);
            object["height"] = json!(height);
            object["is_animated"] = json!(false);
            object["is_video"] = json!(file.mime == "video/webm");
            object["emoji"] = json!("👍");
        }
    }
    object
}

fn document(file: &TelegramFile) -> Value {
    json!({
        "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes,
        "file_name": file.filename, "mime_type": file.mime,
    })
}

/// An array of PhotoSize, smallest first, as the server gives them.
fn sizes(platform: &PlatformState, file: &TelegramFile) -> Vec<Value> {
    let size = |file: &TelegramFile| {
        json!({
            "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes,
            "width": file.sides.0, "height": file.sides.1,
        })
    };
    let smaller = ["s", "m"].iter().filter_map(|size| platform.files.get(&format!("{}{size}", file.file_id)));
    smaller.chain([file]).map(size).collect()
}
