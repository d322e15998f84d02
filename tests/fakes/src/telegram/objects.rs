//! The objects of the Bot API as the fake writes them: User, Chat, Message and what a message holds.

use serde_json::{Map, Value, json};

use crate::telegram::{
    message::{ChatKind, Content, FileKind, TelegramFile, TelegramMessage},
    world::{BOT, BOT_USERNAME, World},
};

/// User: the bot, as `getMe` has it.
pub(crate) fn me() -> Value {
    json!({
        "id": BOT, "is_bot": true, "first_name": "Satchel", "username": BOT_USERNAME,
        "can_join_groups": true, "can_read_all_group_messages": true, "supports_inline_queries": false,
        "can_connect_to_business": false, "has_main_web_app": false,
    })
}

/// User: whoever has this id.
pub(crate) fn user(world: &World, id: i64) -> Value {
    if id == BOT {
        return json!({ "id": BOT, "is_bot": true, "first_name": "Satchel", "username": BOT_USERNAME });
    }
    let name = world.people.get(&id).map_or("Person", String::as_str);
    json!({ "id": id, "is_bot": false, "first_name": name, "language_code": "en" })
}

/// Chat.
pub(crate) fn chat(world: &World, id: i64) -> Value {
    let chat = world.chat(id);
    match chat.kind {
        ChatKind::Private => json!({ "id": id, "type": "private", "first_name": chat.title }),
        ChatKind::Group => json!({ "id": id, "type": "group", "title": chat.title }),
        ChatKind::Supergroup => json!({ "id": id, "type": "supergroup", "title": chat.title }),
        ChatKind::Forum => json!({ "id": id, "type": "supergroup", "title": chat.title, "is_forum": true }),
    }
}

/// Message, with the message that it answers.
pub(crate) fn message(world: &World, message: &TelegramMessage) -> Value {
    let mut object = alone(world, message);
    if let Some(answered) = message.reply_to.and_then(|id| world.message(message.chat, id)) {
        // Message, reply_to_message: "will not contain further reply_to_message fields even if it itself is a reply".
        object.insert("reply_to_message".to_owned(), Value::Object(alone(world, answered)));
    } else if let Some(topic) = message.thread {
        // A message of a topic that answers nothing else answers the message that opened the topic.
        object.insert("reply_to_message".to_owned(), topic_opening(world, message, topic));
    }
    Value::Object(object)
}

fn topic_opening(world: &World, message: &TelegramMessage, topic: i64) -> Value {
    let name = world.chat(message.chat).topics.get(&topic).map_or("", String::as_str);
    json!({
        "message_id": topic, "message_thread_id": topic, "is_topic_message": true, "date": message.date,
        "from": user(world, BOT), "chat": chat(world, message.chat),
        "forum_topic_created": { "name": name, "icon_color": 7_322_096 },
    })
}

fn alone(world: &World, message: &TelegramMessage) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    put("message_id", json!(message.id));
    put("from", user(world, message.from));
    put("chat", chat(world, message.chat));
    put("date", json!(message.date));
    if let Some(thread) = message.thread {
        put("message_thread_id", json!(thread));
        put("is_topic_message", json!(true));
    } else if let Some(answered) = message.reply_to.filter(|_| world.chat(message.chat).kind == ChatKind::Supergroup) {
        // Replies in a large group form threads too; only is_topic_message tells a topic from such a thread.
        put("message_thread_id", json!(answered));
    }
    if let Some(origin) = message.forwarded_from {
        let origin = json!({ "type": "user", "date": message.date - 60, "sender_user": user(world, origin) });
        put("forward_origin", origin);
    }
    if let Some(edited) = message.edit_date {
        put("edit_date", json!(edited));
    }
    if let Some(album) = &message.album {
        put("media_group_id", json!(album));
    }
    let (words, entities) = match message.content {
        Content::Words => ("text", "entities"),
        _ => ("caption", "caption_entities"),
    };
    if !message.words.text.is_empty() {
        put(words, json!(message.words.text));
        if !message.words.entities.is_empty() {
            put(entities, json!(message.words.entities_json()));
        }
    }
    match &message.content {
        Content::Words => {}
        Content::File(shown) => {
            put(shown.kind.field(), file(world, shown));
            if shown.kind == FileKind::Animation {
                // Message, animation: "For backward compatibility, when this field is set, the document field will
                // also be set".
                put("document", document(shown));
            }
        }
        Content::Location { latitude, longitude } => {
            put("location", json!({ "latitude": latitude, "longitude": longitude }));
        }
        Content::Contact { name, phone } => {
            put("contact", json!({ "phone_number": phone, "first_name": name }));
        }
    }
    if !message.buttons.is_empty() {
        let described = |row: &Vec<_>| -> Vec<Value> {
            row.iter().map(|button: &crate::telegram::InlineButton| button.described.clone()).collect()
        };
        let rows: Vec<_> = message.buttons.iter().map(described).collect();
        put("reply_markup", json!({ "inline_keyboard": rows }));
    }
    object
}

fn file(world: &World, file: &TelegramFile) -> Value {
    let mut object = json!({ "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes });
    let (width, height) = file.sides;
    match file.kind {
        FileKind::Photo => return json!(sizes(world, file)),
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

/// Document.
fn document(file: &TelegramFile) -> Value {
    json!({
        "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes,
        "file_name": file.filename, "mime_type": file.mime,
    })
}

/// An array of PhotoSize, smallest first, as the server gives them.
fn sizes(world: &World, file: &TelegramFile) -> Vec<Value> {
    let size = |file: &TelegramFile| {
        json!({
            "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes,
            "width": file.sides.0, "height": file.sides.1,
        })
    };
    let smaller = ["s", "m"].iter().filter_map(|size| world.files.get(&format!("{}{size}", file.file_id)));
    smaller.chain([file]).map(size).collect()
}
