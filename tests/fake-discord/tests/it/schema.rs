//! Every request that the fake takes and every answer that it gives against Discord's own OpenAPI.
//!
//! The OpenAPI (version 10) lies in `oracles/`.

use boon::{Compiler, Schemas};
use satchel_fake_discord::{APPLICATION, PersonMessage};
use satchel_fake_kit::{FakeFile, Fault};
use serde_json::{Value, json};

use crate::{ADA, Bot, CHANNEL, GUILD, Upload, button, id};

const OPENAPI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/oracles/discord-openapi.json");

/// The address under which the OpenAPI is compiled.
const HERE: &str = "http://discord.invalid/openapi.json";

struct Oracle {
    openapi: Value,
    /// What is to be checked: what it is, the schema that it has to have, and the value.
    checks: Vec<(String, Value, Value)>,
}

impl Oracle {
    fn read() -> Self {
        let openapi = std::fs::read(OPENAPI).expect("the OpenAPI lies in the repository");
        let mut openapi: Value = serde_json::from_slice(&openapi).expect("it is JSON");
        // Where it contradicts the documentation, that one is right. Message Reference Types: 1 is FORWARD. Reference,
        // Error Messages: the codes of fields are words.
        let schemas = &mut openapi["components"]["schemas"];
        schemas["MessageReferenceType"] = json!({ "type": "integer", "enum": [0, 1] });
        schemas["InnerErrors"]["properties"]["_errors"]["items"] = json!({
            "type": "object", "required": ["code", "message"],
            "properties": { "code": { "type": "string" }, "message": { "type": "string" } },
        });
        Self { openapi, checks: Vec::new() }
    }

    /// The operation of a route as the fake names it.
    fn operation(&self, route: &str) -> Option<&Value> {
        let (method, path) = route.split_once(' ').expect("a method and a path");
        let paths = self.openapi["paths"].as_object().expect("paths");
        let unnamed = |template: &str| {
            let steps = template.split('/').map(|step| if step.starts_with('{') { "{}" } else { step });
            steps.collect::<Vec<_>>().join("/")
        };
        paths.iter().find(|(template, _)| unnamed(template) == path)?.1.get(method.to_lowercase())
    }

    fn check(&mut self, what: String, schema: Value, value: &Value) {
        self.checks.push((what, schema, value.clone()));
    }

    /// What is wrong with all that was to be checked.
    fn complaints(&self) -> Vec<String> {
        let mut document = self.openapi.clone();
        document["chosen"] = self.checks.iter().map(|(_, schema, _)| schema.clone()).collect();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource(HERE, document).expect("a document");
        let mut complaints = Vec::new();
        for (index, (what, schema, value)) in self.checks.iter().enumerate() {
            let compiled = compiler.compile(&format!("{HERE}#/chosen/{index}"), &mut schemas).expect("a schema");
            if let Err(wrong) = schemas.validate(value, compiled) {
                complaints.push(format!("{what}: {wrong}"));
            }
            let unknown = self.unknown(schema, value);
            complaints.extend(unknown.map(|unknown| format!("{what}: nobody knows {unknown}")));
        }
        complaints
    }

    /// A field that the schema doesn't name; schemas that leave a choice are passed over.
    fn unknown(&self, schema: &Value, value: &Value) -> Option<String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let schema = self.openapi.pointer(reference.trim_start_matches('#')).expect("it is there");
            return self.unknown(schema, value);
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let mut choices = choices.iter().filter(|choice| choice["type"] != "null");
            let (only, None) = (choices.next()?, choices.next()) else { return None };
            return if value.is_null() { None } else { self.unknown(only, value) };
        }
        if let Some(items) = value.as_array() {
            return items.iter().find_map(|item| self.unknown(&schema["items"], item));
        }
        let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) else { return None };
        fields.iter().find_map(|(name, value)| match known.get(name) {
            None => Some(name.clone()),
            Some(schema) => self.unknown(schema, value).map(|inner| format!("{name}.{inner}")),
        })
    }

    /// An answer to a route, whatever its status.
    fn answer(&mut self, route: &str, status: u16, body: &Value) {
        let responses = self.operation(route).expect("the route is described")["responses"].clone();
        let response = match (responses.get(status.to_string()), status) {
            (Some(described), _) if described.get("$ref").is_none() => described.clone(),
            (_, 429) => self.openapi["components"]["responses"]["ClientRatelimitedResponse"].clone(),
            (_, 400..500) => self.openapi["components"]["responses"]["ClientErrorResponse"].clone(),
            _ => unreachable!("{route} has no {status}: {body}"),
        };
        let schema = response["content"]["application/json"]["schema"].clone();
        match body {
            Value::Null => assert!(schema.is_null(), "{route}: {status} has a body"),
            body => self.check(format!("the answer to {route}"), schema, body),
        }
    }

    /// Whether the fake has taken only what the OpenAPI allows.
    fn requests(&mut self, bot: &Bot) {
        for call in bot.fake.calls().into_iter().filter(|call| !call.body.is_null()) {
            let Some(operation) = self.operation(&call.route) else {
                assert_eq!(call.route, "POST /attachments/refresh-urls", "only this one isn't described");
                continue;
            };
            let schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
            self.check(format!("a request of {}", call.route), schema, &call.body);
        }
    }
}

/// Asks a route, and holds the answer against the OpenAPI.
async fn asked(oracle: &mut Oracle, bot: &Bot, (route, path): (&str, &str), body: Value, wanted: u16) -> Value {
    let (method, _) = route.split_once(' ').expect("a method and a path");
    let request = bot.request(method, path);
    let request = if body.is_null() { request } else { request.json(&body) };
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let bytes = answer.bytes().await.expect("a body");
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("JSON") };
    assert_eq!(status, wanted, "{route}: {body}");
    oracle.answer(route, status, &body);
    body
}

/// Lets people do everything; returns their messages.
fn people_do_everything(bot: &Bot) -> Vec<u64> {
    let bea = bot.fake.person(1002, "Bea");
    let photo = || vec![FakeFile::photo("my cat.png", 10, 10, 1, 100)];
    let said = bot.fake.person_sends(CHANNEL, ADA, &format!("{} @everyone", bot.fake.mention()), photo());
    let voice = FakeFile::from_bytes("voice-message.ogg", "audio/ogg", "OggS");
    let all = [
        PersonMessage::text("plain"),
        PersonMessage::text("answer").with_files(photo()).replying_to(said),
        PersonMessage::voice(voice, 1.5),
        PersonMessage::forwarding(said),
        PersonMessage::forwarding_unseen(said),
        PersonMessage::text("").with_sticker("Wave"),
    ];
    let mut messages: Vec<u64> =
        all.into_iter().map(|composed| bot.fake.person_composes(CHANNEL, bea, composed)).collect();
    bot.fake.person_edits(CHANNEL, ADA, said, "edited");
    messages.push(said);
    messages
}

#[tokio::test]
async fn all_requests_and_responses_match_the_openapi() {
    let mut oracle = Oracle::read();
    let bot = Bot::start().await;
    let thread = bot.fake.thread(CHANNEL, 70_002, "Taxes");
    let said = people_do_everything(&bot);
    let started = bot.fake.thread_from(ADA, said[0], "From a message");
    let none = Value::Null;
    let oracle = &mut oracle;
    let get = |path: &str| path.to_owned();
    for (route, path) in [
        ("GET /gateway", get("/gateway")),
        ("GET /gateway/bot", get("/gateway/bot")),
        ("GET /users/@me", get("/users/@me")),
        ("GET /applications/@me", get("/applications/@me")),
        ("GET /oauth2/applications/@me", get("/oauth2/applications/@me")),
        ("GET /guilds/{}", format!("/guilds/{GUILD}")),
        ("GET /channels/{}", format!("/channels/{CHANNEL}")),
        ("GET /channels/{}", format!("/channels/{thread}")),
        ("GET /channels/{}", format!("/channels/{}", bot.direct)),
        ("GET /channels/{}/messages", format!("/channels/{CHANNEL}/messages")),
        ("GET /channels/{}", format!("/channels/{started}")),
        ("GET /channels/{}/messages", format!("/channels/{started}/messages")),
    ] {
        asked(oracle, &bot, (route, &path), none.clone(), 200).await;
    }
    for message in &said {
        let path = format!("/channels/{CHANNEL}/messages/{message}");
        asked(oracle, &bot, ("GET /channels/{}/messages/{}", &path), none.clone(), 200).await;
    }
    let messages = format!("/channels/{CHANNEL}/messages");
    let create = ("POST /channels/{}/messages", messages.as_str());
    let reference = json!({ "message_id": said[0].to_string(), "fail_if_not_exists": false });
    let full = json!({
        "content": "a", "nonce": "AZrJ2gAAcAAAAAAAAAAAAQ", "enforce_nonce": true, "message_reference": reference,
        "allowed_mentions": { "parse": [], "replied_user": false }, "components": button("Yes", "/yes"), "flags": 4,
    });
    let sent = asked(oracle, &bot, create, full, 200).await;
    let file: Upload<'_> = ("a.png", "image/png", b"png".to_vec());
    let described = json!({ "attachments": [{ "id": "0", "filename": "a.png", "title": "b", "description": "d" }] });
    let with_file = bot.send_files(described, vec![file]).await.expect("sent");
    oracle.answer(create.0, 200, &with_file);
    let ogg: Upload<'_> = ("voice-message.ogg", "audio/ogg", b"OggS".to_vec());
    let metadata = json!({ "id": "0", "filename": "voice-message.ogg", "duration_secs": 1.5, "waveform": "AAAA" });
    let voice = bot.send_files(json!({ "flags": 8192, "attachments": [metadata] }), vec![ogg]).await.expect("sent");
    oracle.answer(create.0, 200, &voice);

    let change = super::message_path(&sent);
    let edit = ("PATCH /channels/{}/messages/{}", change.as_str());
    let words = json!({ "content": "b", "attachments": [], "allowed_mentions": { "parse": [] } });
    asked(oracle, &bot, edit, words, 200).await;
    let typing = format!("/channels/{CHANNEL}/typing");
    asked(oracle, &bot, ("POST /channels/{}/typing", &typing), none.clone(), 204).await;
    let recipient = json!({ "recipient_id": ADA.to_string() });
    asked(oracle, &bot, ("POST /users/@me/channels", "/users/@me/channels"), recipient, 200).await;
    let path = format!("/applications/{APPLICATION}/commands");
    let option = json!({ "name": "words", "description": "What to add to the command", "type": 3, "required": false });
    let commands = json!([{ "name": "files", "description": "Lists", "options": [option], "contexts": [0, 1] }]);
    asked(oracle, &bot, ("PUT /applications/{}/commands", &path), commands, 200).await;
    asked(oracle, &bot, ("GET /applications/{}/commands", &path), none.clone(), 200).await;
    let used = bot.fake.person_commands(CHANNEL, ADA, "files", &[]);
    let answer = json!({ "type": 4, "data": { "content": "/files", "flags": 64 } });
    let path = format!("/interactions/{used}/aW50ZXJhY3Rpb246{used}:fake/callback?with_response=true");
    asked(oracle, &bot, ("POST /interactions/{}/{}/callback", &path), answer, 200).await;
    let pressed = bot.fake.person_presses(ADA, id(&sent["id"]), "/yes");
    let path = format!("/interactions/{pressed}/aW50ZXJhY3Rpb246{pressed}:fake/callback");
    asked(oracle, &bot, ("POST /interactions/{}/{}/callback", &path), json!({ "type": 6 }), 204).await;
    asked(oracle, &bot, ("DELETE /channels/{}/messages/{}", &change), none.clone(), 204).await;
    // What is refused was never taken.
    oracle.requests(&bot);

    asked(oracle, &bot, edit, json!({ "content": "b" }), 404).await;
    asked(oracle, &bot, create, json!({ "content": "a".repeat(2001) }), 400).await;
    bot.fake.script_next("*", Fault::RateLimit { retry_after_ms: 1250 });
    asked(oracle, &bot, create, json!({ "content": "a" }), 429).await;
    assert!(oracle.checks.len() > 30, "all that was asked is checked");
    let complaints = oracle.complaints();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
