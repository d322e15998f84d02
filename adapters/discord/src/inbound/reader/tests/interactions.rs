//! Slash commands and pressed buttons.

use secrecy::ExposeSecret;

use super::*;

/// What Ann does in the guild, with more fields or others.
fn interaction(more: Value) -> Value {
    let event = json!({
        "id": "3000", "application_id": "70", "type": 2, "token": "aW50ZXJhY3Rpb24", "version": 1,
        "guild_id": GUILD.to_string(), "channel_id": CHANNEL.to_string(), "context": 0, "locale": "en-GB",
        "channel": { "id": CHANNEL.to_string(), "type": 0 },
        "member": { "user": ann(), "nick": "Annie", "permissions": "0", "roles": [] },
    });
    with(event, more)
}

fn command(name: &str, options: Value) -> Value {
    interaction(json!({ "data": { "id": "1", "name": name, "type": 1, "options": options } }))
}

fn button(custom_id: &str) -> Value {
    let data = json!({ "component_type": 2, "custom_id": custom_id });
    interaction(json!({ "type": 3, "data": data, "message": direct(json!({ "id": "990", "author": satchel() })) }))
}

#[track_caller]
fn read(event: &Value) -> (PendingInteraction, Option<InboundMessage>) {
    match reader().read("INTERACTION_CREATE", event) {
        InboundEvent::Interaction { interaction, message } => (interaction, message.map(|message| *message)),
        other => panic!("no interaction: {other:?}"),
    }
}

#[test]
fn slash_command_is_sent_by_its_user() {
    let came = command("resend", json!([{ "name": "words", "type": 3, "value": " 17 18 " }]));
    let (waiting, said) = read(&came);
    let said = said.unwrap();
    assert_eq!((waiting.id, waiting.token.expose_secret()), (3_000, "aW50ZXJhY3Rpb24"));
    assert_eq!(waiting.kind, InteractionResponseKind::Command { said: "/resend 17 18".into() });
    assert_eq!((said.text.as_str(), said.key.as_str()), ("/resend 17 18", "i3000"));
    assert_eq!(said.conversation.to_string(), format!("discord:{CHANNEL}"));
    assert_eq!(said.sender, Sender { id: "42".into(), name: "Annie".into(), handle: Some("ann".into()) });
    assert_eq!((said.group, said.message), (true, None));
}

#[test]
fn command_text_includes_every_option() {
    for (options, text) in [
        (Value::Null, "/voice"),
        (json!([]), "/voice"),
        (json!([{ "name": "words", "type": 3, "value": "on" }]), "/voice on"),
        (
            json!([{ "type": 4, "value": 17 }, { "type": 10, "value": 2.5 }, { "type": 5, "value": true }]),
            "/voice 17 2.5 true",
        ),
        (json!([{ "type": 3, "value": "" }]), "/voice"),
    ] {
        assert_eq!(read(&command("voice", options)).1.unwrap().text, text);
    }
}

#[test]
fn in_a_direct_channel_the_user_stands_alone() {
    let mut came = command("files", json!([]));
    for field in ["guild_id", "member"] {
        came.as_object_mut().unwrap().remove(field);
    }
    let came = with(came, json!({ "user": bob(), "channel_id": "300", "context": 1 }));
    let said = read(&came).1.unwrap();
    assert_eq!((said.group, said.sender.name.as_str()), (false, "bob"));
    assert!(read(&with(came, json!({ "context": 2 }))).1.unwrap().group, "others read along");
    assert_eq!(said.conversation.to_string(), "discord:300");
}

#[test]
fn a_button_says_its_command() {
    let (waiting, said) = read(&button("/allow A1"));
    let said = said.unwrap();
    assert_eq!(waiting.kind, InteractionResponseKind::Press);
    assert_eq!((said.text.as_str(), said.sender.id.as_str()), ("/allow A1", "42"));
    assert_eq!(said.message, Some(MessageRef("990".into())));
}

#[test]
fn button_without_bot_command_is_no_message() {
    for custom_id in ["", "hello", "/", "/order pizza", " ", "delete everything", "files"] {
        let (waiting, said) = read(&button(custom_id));
        assert_eq!((waiting.kind, said), (InteractionResponseKind::Press, None), "{custom_id:?}");
    }
    assert!(read(&button("/stop")).1.is_some());
}

#[test]
fn what_was_not_offered_is_passed_over() {
    for more in [
        json!({ "type": 1 }),
        json!({ "type": 4, "data": { "name": "files", "type": 1 } }),
        json!({ "type": 5, "data": { "custom_id": "/stop" } }),
        json!({ "type": 9 }),
        json!({ "data": { "name": "Save this", "type": 3, "target_id": "1" } }),
    ] {
        passed_over(reader().read("INTERACTION_CREATE", &interaction(more)));
    }
}

#[test]
fn interaction_token_is_absent_from_debug_and_raw() {
    let came = command("files", json!([]));
    let meaning = reader().read("INTERACTION_CREATE", &came);
    assert!(!format!("{meaning:?}").contains("aW50ZXJhY3Rpb24"), "{meaning:?}");
    let InboundEvent::Interaction { message: Some(said), .. } = meaning else { panic!("{meaning:?}") };
    assert_eq!(with(said.raw, json!({ "token": "aW50ZXJhY3Rpb24" })), came, "all else is kept");
}

#[test]
fn what_has_another_form_is_unreadable() {
    let nobody = |event: Value| with(event, json!({ "member": null, "user": null }));
    for event in [
        nobody(command("files", json!([]))),
        with(command("files", json!([])), json!({ "token": null })),
        with(command("files", json!([])), json!({ "channel_id": null })),
        interaction(json!({ "data": null })),
        interaction(json!({ "data": { "type": 1 } })),
        interaction(json!({ "type": 3, "data": { "component_type": 2 } })),
        interaction(json!({ "type": "2" })),
    ] {
        assert!(matches!(reader().read("INTERACTION_CREATE", &event), InboundEvent::Undecodable(_)), "{event}");
    }
}
