//! Events as Discord documents them, and what each of them means.

mod formatting;
mod lengths;
mod replies;

use proptest::prelude::*;
use satchel_domain::{FileReference, Filename};
use serde_json::json;

use super::*;

const US: u64 = 7;
const GUILD: u64 = 900;
/// 2026-02-01, since when the bot is there; in the guild it is since March.
const BEGUN_MS: u64 = 1_769_904_000_000;
/// A channel of the guild's, and one where everything is answered.
const CHANNEL: u64 = 500;
const OPEN: u64 = 501;

/// The bot of these tests, and what it knows of the guild.
fn reader() -> InboundReader {
    reading_in(&["501", " discord:600 "])
}

fn reading_in(answers_in: &[&str]) -> InboundReader {
    let known = GuildCache::default();
    known.record_guild(&json!({
        "id": GUILD.to_string(),
        "joined_at": "2026-03-01T12:00:00.500000+00:00",
        "premium_tier": 0,
        "roles": [
            { "id": GUILD.to_string(), "name": "@everyone" },
            { "id": "71", "name": "Satchel", "tags": { "bot_id": US.to_string() } },
            { "id": "81", "name": "Another bot", "tags": { "bot_id": "8" } },
            { "id": "91", "name": "Boosters", "tags": { "premium_subscriber": null } },
        ],
        "channels": [
            { "id": CHANNEL.to_string(), "type": 0, "name": "family", "parent_id": null },
            { "id": OPEN.to_string(), "type": 0, "name": "satchel" },
            { "id": "601", "type": 0, "name": "in-a-category", "parent_id": "600" },
        ],
        "threads": [
            { "id": "5001", "type": 11, "name": "a thread", "parent_id": OPEN.to_string() },
            { "id": "5002", "type": 11, "name": "another", "parent_id": CHANNEL.to_string() },
            { "id": "5003", "type": 11, "name": "a third", "parent_id": "601" },
        ],
    }));
    let us = BotIdentity { user_id: US, application_id: 70 };
    let answers_in = answers_in.iter().map(|place| (*place).to_owned()).collect();
    InboundReader::new(
        us,
        snowflake::at_unix_ms(BEGUN_MS),
        answers_in,
        Arc::new(known),
        vec!["Files".into(), "stop".into(), "voice".into()],
    )
}

fn ann() -> Value {
    json!({ "id": "42", "username": "ann", "global_name": "Ann Lee", "discriminator": "0", "avatar": null })
}

fn bob() -> Value {
    json!({ "id": "43", "username": "bob", "global_name": null, "discriminator": "0", "avatar": null })
}

fn satchel() -> Value {
    json!({ "id": US.to_string(), "username": "satchel", "global_name": null, "discriminator": "4711", "bot": true })
}

fn with(mut value: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("no object: {more}") };
    value.as_object_mut().expect("an object").extend(more);
    value
}

/// A message of Ann's in her direct channel, with more fields or others.
fn direct(more: Value) -> Value {
    let message = json!({
        "id": "1000", "channel_id": "300", "author": ann(), "type": 0, "content": "", "flags": 0,
        "timestamp": "2026-11-22T09:00:00.000000+00:00", "edited_timestamp": null, "tts": false, "pinned": false,
        "mention_everyone": false, "mentions": [], "mention_roles": [], "attachments": [], "embeds": [],
        "components": [], "nonce": "1", "channel_type": 1,
    });
    with(message, more)
}

/// A message of Ann's in a channel of the guild.
fn in_guild(channel: u64, more: Value) -> Value {
    let member = json!({ "nick": "Annie", "roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "deaf": false });
    let place = json!({ "guild_id": GUILD.to_string(), "channel_id": channel.to_string(), "member": member });
    with(with(direct(json!({})), place), more)
}

fn pdf(more: Value) -> Value {
    let file = json!({
        "id": "2000", "filename": "plan.pdf", "size": 3_000_000, "content_type": "application/pdf",
        "url": "https://cdn.discordapp.com/attachments/300/2000/plan.pdf?ex=1&is=2&hm=3",
        "proxy_url": "https://media.discordapp.net/attachments/300/2000/plan.pdf?ex=1&is=2&hm=3",
    });
    with(file, more)
}

#[track_caller]
fn taken(meaning: InboundEvent) -> InboundMessage {
    match meaning {
        InboundEvent::Message(message) => *message,
        other => panic!("no message: {other:?}"),
    }
}

#[track_caller]
fn read(message: &Value) -> InboundMessage {
    taken(reader().read("MESSAGE_CREATE", message))
}

#[track_caller]
fn passed_over(meaning: InboundEvent) -> &'static str {
    match meaning {
        InboundEvent::Ignored(reason) => reason,
        other => panic!("not passed over: {other:?}"),
    }
}

fn names(message: &InboundMessage) -> Vec<&str> {
    message.files.iter().map(|file| file.filename.as_str()).collect()
}

#[test]
fn words_in_a_direct_channel_are_a_message() {
    let came = direct(json!({ "content": "hello" }));
    let expected = InboundMessage {
        sent_at: Some(Timestamp(1_420_070_400_000)),
        text: "hello".into(),
        content_digest: Some(digest_content(&Message::read(&came).unwrap().content)),
        message: Some(MessageRef("1000".into())),
        raw: came.clone(),
        ..InboundMessage::new(
            "discord:300".parse().unwrap(),
            "1000".into(),
            Sender { id: "42".into(), name: "Ann Lee".into(), handle: Some("ann".into()) },
        )
    };
    assert_eq!(read(&came), expected);
}

#[test]
fn thread_names_its_channel_and_category() {
    let parents = |channel: u64| {
        let message = in_guild(channel, json!({ "content": format!("<@{US}> hello") }));
        let parents = taken(reader().read("MESSAGE_CREATE", &message)).parents;
        parents.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(parents(5003), ["discord:601", "discord:600"]);
    assert_eq!(parents(5001), [format!("discord:{OPEN}")]);
    assert_eq!(parents(601), ["discord:600"]);
    assert!(parents(OPEN).is_empty());
}

#[test]
fn each_message_kind_is_parsed() {
    let voice = pdf(json!({
        "filename": "voice-message.ogg", "content_type": "audio/ogg", "duration_secs": 3.2, "waveform": "AAEC",
    }));
    let plan = json!({ "id": "990", "author": bob(), "content": "my plan", "attachments": [pdf(json!({}))] });
    let answer = json!({
        "type": 19, "content": "print it", "message_reference": { "type": 0, "channel_id": "300", "message_id": "990" },
        "referenced_message": direct(plan),
    });
    let passed_on = json!({
        "message_reference": { "type": 1, "channel_id": "1", "message_id": "2" },
        "message_snapshots": [{ "message": {
            "type": 0, "content": "see <@43>", "mentions": [bob()], "attachments": [pdf(json!({}))], "embeds": [],
        } }],
    });
    let poll = json!({
        "question": { "text": "Lunch?" },
        "answers": [
            { "answer_id": 1, "poll_media": { "text": "yes" } },
            { "answer_id": 2, "poll_media": { "text": "no", "emoji": { "name": "👎" } } },
        ],
    });
    let kinds = [
        ("words in a guild", in_guild(CHANNEL, json!({ "content": "<@7> what is this?", "mentions": [satchel()] }))),
        (
            "a file",
            direct(json!({ "content": "the plan", "attachments": [pdf(json!({ "description": "a floor plan" }))] })),
        ),
        ("a voice message", direct(json!({ "flags": 8_192, "attachments": [voice] }))),
        ("an answer", direct(answer)),
        ("passed on", direct(passed_on)),
        ("a sticker", direct(json!({ "sticker_items": [{ "id": "5", "name": "Wave", "format_type": 1 }] }))),
        ("a poll", direct(json!({ "poll": poll }))),
    ];
    let read: Vec<(&str, InboundMessage)> =
        kinds.map(|(kind, message)| (kind, InboundMessage { raw: Value::Null, ..read(&message) })).into();
    insta::assert_json_snapshot!(read);
}

#[test]
fn bot_messages_and_channel_events_are_ignored() {
    let reader = reader();
    for more in [
        json!({ "author": satchel() }),
        json!({ "author": with(bob(), json!({ "bot": true })) }),
        json!({ "author": with(bob(), json!({ "system": true })) }),
        json!({ "webhook_id": "5", "author": { "id": "5", "username": "News" } }),
        json!({ "type": 6 }),
        json!({ "type": 7 }),
        json!({ "type": 18 }),
        json!({ "type": 4_000 }),
    ] {
        let message = direct(with(json!({ "content": "hello" }), more));
        assert!(!passed_over(reader.read("MESSAGE_CREATE", &message)).is_empty(), "{message}");
    }
    for event in ["MESSAGE_DELETE", "TYPING_START", "GUILD_CREATE", "SOMETHING_NEW"] {
        passed_over(reader.read(event, &direct(json!({ "content": "hello" }))));
    }
}

#[test]
fn guild_messages_are_taken_only_if_addressed() {
    let reply_to = |author: Value| {
        let asked = in_guild(CHANNEL, json!({ "author": author, "content": "Shall I?" }));
        json!({ "type": 19, "content": "yes", "referenced_message": asked })
    };
    for (more, text) in [
        (json!({ "content": "hello all" }), None),
        (json!({ "content": "<@7> hello", "mentions": [satchel()] }), Some("hello")),
        (json!({ "content": "<@!7> hello", "mentions": [satchel()] }), Some("hello")),
        (json!({ "content": "<@7>", "mentions": [satchel()] }), Some("@satchel")),
        (json!({ "content": "<@43> hello", "mentions": [bob()] }), None),
        (json!({ "content": "<@&71> hello", "mention_roles": ["71"] }), Some("hello")),
        (json!({ "content": "<@&81> hello", "mention_roles": ["81"] }), None),
        (json!({ "content": "@everyone hello", "mention_everyone": true }), None),
        (json!({ "content": "`<@7>` is how you call it" }), None),
        (json!({ "content": "<@7> /files", "mentions": [satchel()] }), Some("/files")),
        (json!({ "content": "/files" }), None),
        (reply_to(satchel()), Some("[in reply to your own message:]\n> Shall I?\n\nyes")),
        (reply_to(bob()), None),
        (
            with(reply_to(bob()), json!({ "mentions": [satchel()], "content": "<@7> yes" })),
            Some("[in reply to a message of bob:]\n> Shall I?\n\nyes"),
        ),
        (json!({ "message_snapshots": [{ "message": { "content": "<@7>", "mentions": [satchel()] } }] }), None),
    ] {
        let text_read = match reader().read("MESSAGE_CREATE", &in_guild(CHANNEL, more.clone())) {
            InboundEvent::Message(message) => Some(message.text),
            InboundEvent::Ignored(_) => None,
            other => panic!("neither for us nor for others: {other:?}"),
        };
        assert_eq!(text_read.as_deref(), text, "{more}");
    }
}

#[test]
fn where_it_answers_everything_nothing_need_be_said() {
    let answered = |reader: &InboundReader, channel: u64| {
        let message = in_guild(channel, json!({ "content": "hello" }));
        matches!(reader.read("MESSAGE_CREATE", &message), InboundEvent::Message(_))
    };
    let reader = reader();
    for (channel, is_answered) in
        [(OPEN, true), (5_001, true), (5_003, true), (601, true), (CHANNEL, false), (5_002, false), (999, false)]
    {
        assert_eq!(answered(&reader, channel), is_answered, "{channel}");
    }
    for channel in [OPEN, CHANNEL, 5_002, 999] {
        assert!(answered(&reading_in(&["*"]), channel), "{channel}");
        assert!(!answered(&reading_in(&["", "#family", "-1", "x"]), channel), "{channel}");
    }
}

#[test]
fn sender_has_name_that_others_see() {
    let sender = |author: Value, member: Value| {
        read(&in_guild(OPEN, json!({ "content": "x", "author": author, "member": member }))).sender
    };
    let named = |id: &str, name: &str, handle: Option<&str>| Sender {
        id: id.into(),
        name: name.into(),
        handle: handle.map(str::to_owned),
    };
    assert_eq!(sender(ann(), json!({ "nick": "Annie" })), named("42", "Annie", Some("ann")));
    assert_eq!(sender(ann(), json!({ "nick": null })), named("42", "Ann Lee", Some("ann")));
    assert_eq!(sender(bob(), Value::Null), named("43", "bob", Some("bob")));
    assert_eq!(sender(bob(), json!({ "nick": "the\u{202E} owner\n" })), named("43", "the owner", Some("bob")));
    let of_old = with(bob(), json!({ "discriminator": "0007" }));
    assert_eq!(sender(of_old, Value::Null), named("43", "bob", None), "another bob may have another number");
}

#[test]
fn an_edit_names_what_it_replaces() {
    let edited = direct(json!({ "content": "hallo", "edited_timestamp": "2026-11-22T09:01:00.250000+00:00" }));
    let read = taken(reader().read("MESSAGE_UPDATE", &edited));
    assert_eq!(read.key, "1000:2026-11-22T09:01:00.250000+00:00");
    assert_eq!((read.edit_of.as_deref(), read.text.as_str()), (Some("1000"), "hallo"));
    assert_eq!(read.message, Some(MessageRef("1000".into())));
    assert_eq!(read.sent_at, Some(Timestamp(1_795_338_060_000)), "when it was edited");
}

/// Catches: an update that is taken for an edit because somebody else was renamed, or has changed the message that is answered.
#[test]
fn only_what_the_sender_wrote_makes_an_edit() {
    let digest = |more: Value| {
        let edited = with(direct(json!({ "edited_timestamp": "2026-11-22T09:01:00+00:00" })), more);
        taken(reader().read("MESSAGE_UPDATE", &edited)).content_digest.expect("the adapter tells")
    };
    let mention = |name: &str| {
        let bob = json!({ "id": "43", "username": "bob", "global_name": name, "discriminator": "0" });
        json!({ "content": "ask <@43>", "mentions": [bob] })
    };
    assert_eq!(digest(mention("Bob")), digest(mention("Robert")));
    let answer = |quoted: Value| {
        let said = with(direct(json!({ "id": "990", "author": bob() })), quoted);
        json!({ "type": 19, "content": "print it", "referenced_message": said })
    };
    let answered = answer(json!({ "content": "my plan" }));
    assert_eq!(
        digest(answered.clone()),
        digest(answer(json!({ "content": "our plan", "attachments": [pdf(json!({}))] })))
    );
    assert_eq!(digest(answered), digest(json!({ "content": "print it", "pinned": true, "flags": 4, "embeds": [{}] })));

    let file =
        |id: &str, url: &str| json!({ "content": "print it", "attachments": [pdf(json!({ "id": id, "url": url }))] });
    assert_eq!(digest(file("2000", "https://cdn.example/a")), digest(file("2000", "https://cdn.example/b")));
    assert_ne!(digest(file("2000", "https://cdn.example/a")), digest(file("2001", "https://cdn.example/a")));
    assert_ne!(digest(json!({ "content": "print it" })), digest(json!({ "content": "print that" })));
}

#[test]
fn edit_before_joining_is_ignored_despite_later_pin() {
    let reader = reader();
    let (private, shared) = (direct(json!({ "content": "hallo" })), in_guild(OPEN, json!({ "content": "hallo" })));
    for (message, edited, is_ours) in [
        (&private, "2026-01-31T23:59:58.999000+00:00", false),
        (&private, "2026-02-01T00:00:00.500000+00:00", true),
        (&shared, "2026-03-01T11:59:58.999000+00:00", false),
        (&shared, "2026-03-01T12:00:00.700000+00:00", true),
        (&private, "some day", true),
    ] {
        let pinned = with(message.clone(), json!({ "edited_timestamp": edited, "pinned": true }));
        let meaning = reader.read("MESSAGE_UPDATE", &pinned);
        assert_eq!(matches!(meaning, InboundEvent::Message(_)), is_ours, "{edited}: {meaning:?}");
    }
    let mut without_guild = with(shared, json!({ "edited_timestamp": "2026-02-28T12:00:00+00:00" }));
    without_guild.as_object_mut().unwrap().remove("guild_id");
    passed_over(reader.read("MESSAGE_UPDATE", &without_guild));
}

#[test]
fn link_preview_is_not_an_edit() {
    let reader = reader();
    passed_over(
        reader.read("MESSAGE_UPDATE", &direct(json!({ "content": "https://a.example", "embeds": [{ "title": "A" }] }))),
    );
    passed_over(reader.read("MESSAGE_UPDATE", &json!({ "id": "1000", "channel_id": "300", "embeds": [] })));
    let partial = json!({ "id": "1000", "channel_id": "300", "edited_timestamp": "2026-11-22T09:01:00+00:00" });
    passed_over(reader.read("MESSAGE_UPDATE", &partial));
}

#[test]
fn history_tells_the_same_without_guild_and_member() {
    let told = in_guild(OPEN, json!({ "content": "hello", "edited_timestamp": "2026-11-22T09:01:00+00:00" }));
    let mut from_history = told.clone();
    for field in ["guild_id", "member", "nonce", "channel_type"] {
        from_history.as_object_mut().unwrap().remove(field);
    }
    let read = taken(reader().read_history(&from_history, Some(GUILD)));
    let live = taken(reader().read("MESSAGE_UPDATE", &told));
    assert_eq!((&read.key, &read.edit_of), (&live.key, &live.edit_of), "the event may come too, under this key");
    assert_eq!(read.edit_of.as_deref(), Some("1000"));
    assert!(read.group);
    assert_eq!(read.sender.name, "Ann Lee");
    assert_eq!((read.conversation, read.text, read.files), (live.conversation, live.text, live.files));
    let elsewhere = with(from_history, json!({ "channel_id": CHANNEL.to_string() }));
    passed_over(reader().read_history(&elsewhere, Some(GUILD)));
    let unedited = direct(json!({ "content": "hello" }));
    let read = taken(reader().read_history(&unedited, None));
    assert_eq!((read.key.as_str(), read.edit_of, read.group), ("1000", None, false));
}

#[test]
fn guild_message_of_deleted_channel_is_never_private() {
    let gone = direct(json!({ "channel_id": "5003", "content": "hello" }));
    let reader = reader();
    passed_over(reader.read_history(&with(gone.clone(), json!({ "channel_id": "404" })), Some(GUILD)));
    reader.cache.remove_channel(5_003);
    passed_over(reader.read("MESSAGE_CREATE", &gone));
    passed_over(reader.read_history(&gone, Some(GUILD)));
}

#[test]
fn a_file_comes_as_its_sender_named_it() {
    let file = |more: Value| -> FileReference { read(&direct(json!({ "attachments": [pdf(more)] }))).files.remove(0) };
    let url = "https://cdn.discordapp.com/attachments/300/2000/plan.pdf?ex=1&is=2&hm=3";
    let locator = format!(r#"{{"url":"{url}","channel":300,"message":1000,"attachment":2000}}"#);
    let expected = FileReference {
        mime: Some("application/pdf".into()),
        bytes: Some(3_000_000),
        source_url: Some(url.into()),
        platform_id: Some("2000".into()),
        ..FileReference::new(locator, Filename::from_untrusted("plan.pdf"))
    };
    assert_eq!(file(json!({})), expected);
    assert_eq!(file(json!({ "content_type": "Text/Plain; charset=utf-8" })).mime.as_deref(), Some("text/plain"));
    assert_eq!(file(json!({ "content_type": null })).mime, None);
    assert_eq!(file(json!({ "description": "a floor plan" })).caption, "a floor plan");
    for (filename, title, name) in [
        ("c953b519.pdf", json!("8월 추천"), "8월 추천.pdf"),
        ("My_File.PDF", json!("My File"), "My File.PDF"),
        ("a.tar.gz", json!("ä.tar"), "ä.tar.gz"),
        ("plan.pdf", json!("Plan.PDF"), "Plan.PDF"),
        ("plan.pdf", json!("AC/DC"), "AC-DC.pdf"),
        ("README", json!("Lies mich"), "Lies mich"),
        ("env", json!(".env"), ".env"),
        ("init__.py", json!("__init__"), "__init__.py"),
        ("plan.pdf", json!("  "), "plan.pdf"),
        ("plan.pdf", Value::Null, "plan.pdf"),
        ("../../etc/passwd", Value::Null, "passwd"),
    ] {
        assert_eq!(file(json!({ "filename": filename, "title": title })).filename.as_str(), name, "{filename} {title}");
    }
}

#[test]
fn several_files_come_in_their_order() {
    let files =
        [("1", "a.png"), ("2", "b.png"), ("3", "b.png")].map(|(id, name)| pdf(json!({ "id": id, "filename": name })));
    assert_eq!(names(&read(&direct(json!({ "attachments": files })))), ["a.png", "b.png", "b.png"]);
}

#[test]
fn what_was_emptied_by_discord_is_told() {
    let reader = reader();
    assert_eq!(passed_over(reader.read("MESSAGE_CREATE", &in_guild(OPEN, json!({})))), EMPTY_MESSAGE_REASON);
    assert_ne!(
        passed_over(reader.read("MESSAGE_CREATE", &in_guild(CHANNEL, json!({})))),
        EMPTY_MESSAGE_REASON,
        "nobody asked us"
    );
}

/// Catches: a person who writes to the bot what it can't read, and never hears of it.
#[test]
fn message_to_the_bot_that_shows_nothing_is_refused_with_a_reason() {
    let reply =
        json!({ "type": 19, "referenced_message": with(in_guild(CHANNEL, json!({})), json!({ "author": satchel() })) });
    let hidden = "Discord shows me what it says only if it mentions me";
    for (message, text, reason) in [
        (in_guild(CHANNEL, json!({ "mention_roles": ["71"] })), "", hidden),
        (in_guild(CHANNEL, reply), "[in reply to your own message]", hidden),
        (direct(json!({})), "", "it is of a kind that I can't read"),
    ] {
        let read = read(&message);
        let refused: Vec<_> =
            read.files.iter().map(|file| (file.filename.as_str(), file.unreadable.as_deref())).collect();
        assert_eq!((read.text.as_str(), refused), (text, vec![("message", Some(reason))]), "{message}");
    }
}

#[test]
fn malformed_event_is_undecodable_without_leaking_content() {
    let reader = reader();
    let without = |field: &str| {
        let mut message = direct(json!({ "content": "secret" }));
        message.as_object_mut().unwrap().remove(field);
        message
    };
    for message in [
        without("id"),
        without("channel_id"),
        without("author"),
        direct(json!({ "content": 5 })),
        direct(json!({ "content": "secret", "id": 1_000 })),
        direct(json!({ "content": "secret", "id": "secret" })),
        direct(json!({ "content": "secret", "attachments": [{ "id": "1", "filename": "a" }] })),
        direct(json!({ "content": "secret", "attachments": "secret" })),
        direct(json!({ "content": "secret", "message_snapshots": [{ "message": { "attachments": [5] } }] })),
        direct(json!({ "content": "secret", "referenced_message": { "content": "secret" } })),
        json!("secret"),
        Value::Null,
    ] {
        for event in ["MESSAGE_CREATE", "INTERACTION_CREATE"] {
            let InboundEvent::Undecodable(reason) = reader.read(event, &message) else { panic!("{event}: {message}") };
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}

/// Any JSON, some of it with the names of fields that are read.
fn json() -> impl Strategy<Value = Value> {
    let names = "id|content|author|attachments|mentions|embeds|poll|question|answers|poll_media|text|member|nick|type|\
                 data|options|value|url|title|filename|referenced_message|message_snapshots|message|sticker_items|token|\
                 [a-z]{1,3}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9]{1,4}|\\PC{0,12}|<[@#:/&!a]{0,3}[a-z0-9:]{0,6}>?|`{1,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_that_comes_makes_it_panic(
        data in json(),
        fields in prop::collection::btree_map(
            "content|type|data|poll|mentions|embeds|referenced_message|message_snapshots|attachments|member|token|user",
            json(),
            0..5,
        ),
    ) {
        let reader = reader();
        let fields = Value::Object(fields.into_iter().collect());
        let odd = with(in_guild(OPEN, json!({ "token": "t", "user": ann() })), fields);
        for event in ["MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"] {
            reader.read(event, &data);
            reader.read(event, &odd);
        }
        reader.read_history(&odd, None);
    }

    #[test]
    fn message_for_bot_decodes_despite_odd_fields(
        more in prop::collection::btree_map(
            "embeds|poll|sticker_items|mentions|mention_roles|member|components|nonce|thread|reactions|[a-z]{1,8}",
            json(),
            0..6,
        ),
    ) {
        let mut message = with(direct(json!({})), Value::Object(more.into_iter().collect()));
        let needed = direct(json!({ "content": "hello <b>", "attachments": [pdf(json!({}))] }));
        for field in ["id", "channel_id", "author", "type", "flags", "content", "attachments", "edited_timestamp"] {
            message[field] = needed[field].clone();
        }
        for field in ["guild_id", "webhook_id", "message_reference", "referenced_message", "message_snapshots"] {
            message.as_object_mut().unwrap().remove(field);
        }
        let read = read(&message);
        prop_assert!(read.text.starts_with("hello <b>"), "{}", read.text);
        prop_assert_eq!(read.files.len(), 1);
        prop_assert_eq!(read.raw, message);
    }
}
