//! What a message shows of the people whose messages it replies to or forwards, and what is left if they may not talk.

use satchel_domain::{QuotedFile, RedactedForm};

use super::*;

/// A message of Bob's in the group.
fn of_bob(more: Value) -> Value {
    let mut said =
        json!({ "message_id": 3, "date": 1, "chat": group(), "from": bob(), "caption": "my secret", "photo": photo() });
    said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    said
}

/// Ann's message in the group, as it is where these people may not talk.
fn redacted(more: Value) -> Vec<RedactedForm> {
    let mut with_text = json!({ "text": "@satchel_bot what is this?", "entities": entity("mention", 0, 12) });
    with_text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(&update("message", message(group(), with_text))).redacted_forms
}

/// What the model and the disk would get of a form.
fn shown(form: &RedactedForm) -> (&str, usize, String) {
    (form.text.as_str(), form.files.len(), form.raw.to_string())
}

#[test]
fn reply_to_a_stranger_shows_nothing_of_theirs() {
    let forms = redacted(json!({ "reply_to_message": of_bob(json!({})) }));
    assert_eq!(forms.iter().map(|form| form.author.id.as_str()).collect::<Vec<_>>(), ["43"]);
    let (text, files, raw) = shown(&forms[0]);
    assert_eq!((text, files), ("[in reply to a message of somebody who may not talk to you]\n\nwhat is this?", 0));
    for theirs in ["secret", "Bob", "large"] {
        assert!(!raw.contains(theirs), "{theirs}: {raw}");
    }
    assert!(raw.contains("what is this?"), "{raw}");
}

#[test]
fn explicit_quote_of_a_stranger_is_read_without_name_and_file() {
    let quote = |is_manual: bool| json!({ "text": "secret", "position": 3, "is_manual": is_manual });
    let forms = redacted(json!({ "reply_to_message": of_bob(json!({})), "quote": quote(true) }));
    let (text, files, raw) = shown(&forms[0]);
    let expected = "[in reply to a message of somebody who may not talk to you:]\n> secret\n\nwhat is this?";
    assert_eq!((text, files), (expected, 0));
    assert!(!raw.contains("Bob") && !raw.contains("my secret") && !raw.contains("large"), "{raw}");
    let forms = redacted(json!({ "reply_to_message": of_bob(json!({})), "quote": quote(false) }));
    let (text, _, raw) = shown(&forms[0]);
    assert!(!text.contains("secret") && !raw.contains("secret"), "Telegram has quoted it: {raw}");
}

#[test]
fn commands_and_replies_to_other_chats_bring_nothing_of_a_stranger() {
    let command = json!({
        "text": "/files", "entities": entity("bot_command", 0, 6), "reply_to_message": of_bob(json!({})),
    });
    let forms = read(&update("message", message(group(), command))).redacted_forms;
    assert_eq!((forms[0].text.as_str(), forms[0].raw.to_string().contains("secret")), ("/files", false));
    let elsewhere = json!({ "external_reply": {
        "origin": { "type": "user", "date": 1, "sender_user": bob() }, "message_id": 77, "photo": photo(),
    } });
    let forms = redacted(elsewhere);
    assert_eq!(forms[0].files.len(), 0);
    assert!(!forms[0].raw.to_string().contains("Bob"));
}

#[test]
fn forwarded_message_is_its_senders_but_for_the_name() {
    let origin = json!({ "type": "user", "date": 1, "sender_user": bob() });
    let forwarded = json!({ "caption": "look", "photo": photo(), "forward_origin": origin });
    let said = read(&update("message", message(private(), forwarded)));
    assert_eq!(said.text, "[forwarded from Bob:]\n> look");
    let (text, files, raw) = shown(&said.redacted_forms[0]);
    assert_eq!((text, files, raw.contains("Bob")), ("[forwarded from somebody:]\n> look", 1, false));
    let hidden = json!({ "text": "look", "forward_origin": {
        "type": "hidden_user", "date": 1, "sender_user_name": "Somebody Else",
    } });
    let said = read(&update("message", message(private(), hidden)));
    assert_eq!((said.redacted_forms[0].author.id.as_str(), said.redacted_forms[0].text.contains("Else")), ("", false));
    // A person who may talk answers for their forwarded messages, too.
    let theirs = of_bob(json!({ "forward_origin": { "type": "user", "date": 1, "sender_user": {
        "id": 44, "is_bot": false, "first_name": "Eve",
    } } }));
    let forms = redacted(json!({ "reply_to_message": theirs }));
    assert_eq!(forms.iter().map(|form| form.author.id.as_str()).collect::<Vec<_>>(), ["44", "43"]);
    assert!(forms[0].text.starts_with("[in reply to a message of somebody with photo-3.jpg:]\n> my secret"));
    assert!(!forms[0].raw.to_string().contains("Eve") && forms[0].files.len() == 1);
}

#[test]
fn messages_of_the_bot_of_programs_and_of_channels_are_no_strangers() {
    let channel = json!({ "id": -9, "type": "channel", "title": "News" });
    let program = json!({ "id": 8, "is_bot": true, "first_name": "Build" });
    for replied in [
        of_bob(json!({ "from": satchel() })),
        of_bob(json!({ "from": program })),
        of_bob(json!({ "from": ann() })),
        of_bob(json!({ "sender_chat": channel, "is_automatic_forward": true })),
    ] {
        assert_eq!(redacted(json!({ "reply_to_message": replied })), [], "{replied}");
    }
    let post = json!({ "external_reply": {
        "origin": { "type": "channel", "date": 1, "chat": channel, "message_id": 77 }, "message_id": 77, "photo": photo(),
    } });
    assert_eq!(redacted(post), []);
    // The attack: to write as a channel of one's own.
    let masked = of_bob(json!({ "sender_chat": channel }));
    assert_eq!(redacted(json!({ "reply_to_message": masked })).len(), 1);
}

#[test]
fn update_that_cannot_be_read_keeps_no_quotation() {
    let origin = json!({ "type": "user", "date": 1, "sender_user": bob() });
    let update = json!({ "message": {
        "text": 5, "reply_to_message": of_bob(json!({})), "from": ann(), "forward_origin": origin, "forward_from": bob(),
        "reply_to_story": { "id": 1, "chat": bob() },
    } });
    let raw = without_quotations(&update);
    assert_eq!(raw, json!({ "message": { "text": 5, "from": ann() } }));
}

/// Catches: a photo that is stored once more because the caption of a reply to a stranger was edited.
#[test]
fn file_of_an_edited_reply_to_a_stranger_is_the_same_file() {
    let said = json!({
        "caption": "@satchel_bot this", "caption_entities": entity("mention", 0, 12), "photo": photo(), "edit_date": 5,
        "reply_to_message": of_bob(json!({})),
    });
    let read = read(&update("edited_message", message(group(), said)));
    let [file] = read.redacted_forms[0].files.as_slice() else { panic!("{read:?}") };
    assert_eq!((file.platform_id.as_deref(), file.quoted.clone()), (Some("b"), Some(QuotedFile::default())));
}

fn eve() -> Value {
    json!({ "id": 44, "is_bot": false, "first_name": "Eve" })
}

/// Catches: what a message that is replied to shows of a third person, which is stored because its author may talk.
#[test]
fn message_that_is_replied_to_keeps_nothing_of_others() {
    let origin = json!({ "type": "user", "date": 1, "sender_user": eve() });
    for of_eve in [
        json!({ "external_reply": { "origin": origin, "message_id": 77 } }),
        json!({ "quote": { "text": "Eve's words", "position": 0 } }),
        json!({ "forward_origin": origin, "forward_from": eve() }),
        json!({ "reply_to_story": { "id": 1, "chat": eve() } }),
        json!({ "reply_to_message": of_bob(json!({ "from": eve() })) }),
    ] {
        let said = json!({
            "text": "@satchel_bot this", "entities": entity("mention", 0, 12), "reply_to_message": of_bob(of_eve),
        });
        let raw = read(&update("message", message(group(), said))).raw.to_string();
        assert!(!raw.contains("Eve") && raw.contains("my secret"), "{raw}");
    }
    let story = json!({ "text": "nice", "reply_to_story": { "id": 1, "chat": eve() } });
    assert!(!read(&update("message", message(private(), story))).raw.to_string().contains("Eve"));
}

/// Catches: whoever has opened a topic, in each message of it.
#[test]
fn message_in_a_topic_keeps_nothing_of_who_opened_it() {
    let opened = json!({
        "message_id": 3, "date": 1, "chat": group(), "from": eve(), "forum_topic_created": { "name": "Trip", "icon_color": 1 },
    });
    let said = json!({
        "text": "@satchel_bot hi", "entities": entity("mention", 0, 12), "message_thread_id": 3, "is_topic_message": true,
        "reply_to_message": opened,
    });
    let read = read(&update("message", message(group(), said)));
    assert_eq!(read.conversation.to_string(), "telegram:-100123/3");
    assert!(!read.raw.to_string().contains("Eve"), "{}", read.raw);
}

/// Catches: the message to which the bot has replied, in each press of a button under the reply.
#[test]
fn pressed_button_keeps_nothing_of_what_the_bot_replied_to() {
    let question = json!({
        "message_id": 20, "date": 1, "chat": group(), "from": satchel(), "text": "May I?",
        "reply_to_message": of_bob(json!({ "from": eve() })),
    });
    let press = json!({ "id": "777", "from": bob(), "message": question, "chat_instance": "1", "data": "/files" });
    let InboundEvent::ButtonPressed { message: Some(said), .. } = reader().read(&update("callback_query", press))
    else {
        panic!("a press");
    };
    let raw = said.raw.to_string();
    assert!(!raw.contains("Eve") && !raw.contains("secret") && raw.contains("May I?"), "{raw}");
}

#[test]
fn quoted_file_has_the_name_that_telegram_gave_it() {
    let of = |from: Value| {
        let said = json!({
            "text": "@satchel_bot this", "entities": entity("mention", 0, 12), "reply_to_message": of_bob(json!({ "from": from })),
        });
        read(&update("message", message(group(), said))).files.remove(0)
    };
    let file = of(ann());
    assert_eq!(file.platform_id.as_deref(), Some("b"), "that of the largest size");
    assert_eq!(file.quoted, Some(QuotedFile { shown_in: None, index: 0 }));
    assert_eq!(of(satchel()).quoted, Some(QuotedFile { shown_in: Some(MessageRef("3".into())), index: 0 }));
    let edited = message(private(), json!({ "photo": photo(), "caption": "better", "edit_date": 5 }));
    let edited = read(&update("edited_message", edited)).files.remove(0);
    assert!(edited.platform_id.as_deref() == Some("b") && edited.quoted.is_some(), "the same photo: {edited:?}");
    let own = read(&update("message", message(private(), json!({ "photo": photo() })))).files.remove(0);
    assert_eq!((own.platform_id.as_deref(), own.quoted), (Some("b"), None));
}

/// Catches: a person who sends or forwards the bot something of a kind that it doesn't know, and never hears of it.
#[test]
fn content_of_an_unknown_kind_is_refused_with_a_reason() {
    let origin = json!({ "type": "user", "date": 1, "sender_user": bob() });
    let to_us = json!({ "message_id": 3, "date": 1, "chat": group(), "from": satchel(), "text": "Yes?" });
    let hologram = |more: Value| {
        let mut content = json!({ "hologram": { "of": "Ann" } });
        content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        content
    };
    for (chat, more, text, name) in [
        (private(), json!({}), "", "message"),
        (private(), json!({ "forward_origin": origin }), "[forwarded from Bob]", "forwarded message"),
        (group(), json!({ "reply_to_message": to_us }), "[in reply to your own message:]\n> Yes?", "message"),
    ] {
        let read = read(&update("message", message(chat, hologram(more))));
        let refused: Vec<_> =
            read.files.iter().map(|file| (file.filename.as_str(), file.unreadable.as_deref())).collect();
        assert_eq!((read.text.as_str(), refused), (text, vec![(name, Some("it is of a kind that I can't read"))]));
    }
}
