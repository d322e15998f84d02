//! What people format is Markdown on Discord already; what only Discord reads becomes text.

use super::*;

fn replying(replied: Value) -> Value {
    let replied = with(direct(json!({ "id": "990", "author": bob() })), replied);
    json!({ "type": 19, "content": "why?", "referenced_message": replied })
}

#[test]
fn formatting_is_read_in_texts_edits_replies_and_forwards() {
    let text = "buy ~~milk~~ eggs bread, run `rm *_old_*` at <t:1700000000:t> ||ok||";
    let expected = "buy ~~milk~~ eggs bread, run `rm *_old_*` at 2023-11-14T22:13Z ||ok||";
    assert_eq!(taken(reader().read("MESSAGE_CREATE", &direct(json!({ "content": text })))).text, expected);
    let edited = json!({ "content": text, "edited_timestamp": "2026-11-22T09:01:00.000000+00:00" });
    assert_eq!(taken(reader().read("MESSAGE_UPDATE", &direct(edited))).text, expected);
    let reply = direct(replying(json!({ "content": text })));
    let quoted = format!("[in reply to a message of bob:]\n> {expected}\n\nwhy?");
    assert_eq!(taken(reader().read("MESSAGE_CREATE", &reply)).text, quoted);
    let forward = json!({
        "message_reference": { "type": 1, "channel_id": "1", "message_id": "2" },
        "message_snapshots": [{ "message": { "type": 0, "content": text, "attachments": [], "embeds": [], "flags": 0 } }],
    });
    let forwarded = taken(reader().read("MESSAGE_CREATE", &direct(forward)));
    assert_eq!(forwarded.text, format!("[forwarded from somebody:]\n> {expected}"));
}

#[test]
fn names_and_times_of_embeds_are_read() {
    let embed = json!({
        "type": "rich", "title": "Dinner", "description": "<:pot:9> at <t:1700000000:F> in <#500>, all <@&91>",
        "fields": [{ "name": "how", "value": "`<t:1:R>`" }],
    });
    let program = with(bob(), json!({ "bot": true }));
    let reply = direct(replying(json!({ "content": "", "embeds": [embed], "author": program })));
    let quoted = "> Dinner\n> :pot: at 2023-11-14T22:13Z in #family, all @Boosters\n> how: `<t:1:R>`";
    let text = format!("[in reply to a message of bob:]\n{quoted}\n\nwhy?");
    assert_eq!(taken(reader().read("MESSAGE_CREATE", &reply)).text, text);
}

/// A command takes what the person typed, formatting included: there is nothing else of it.
#[test]
fn command_keeps_what_was_typed() {
    for (content, expected) in [
        ("/remind in 2h **x**", "/remind in 2h **x**"),
        ("/remind <t:1700000000> buy ~~milk~~", "/remind 2023-11-14T22:13Z buy ~~milk~~"),
    ] {
        let command = taken(reader().read("MESSAGE_CREATE", &direct(json!({ "content": content }))));
        assert_eq!(command.text, expected);
    }
}
