//! The fake Discord: what it takes, what it refuses and in which words, what people do on it, and what goes wrong.

mod discord_py;
mod events;
mod faults;
mod files;
mod gateway;
mod history;
mod interactions;
mod markdown;
mod outages;
mod permissions;
mod rate;
mod refusals;
mod repeats;
mod schema;
mod transcript;

use reqwest::{
    Method, RequestBuilder,
    multipart::{Form, Part},
};
use satchel_fake_discord::{DiscordRules, FakeDiscord, Tier};
use serde_json::{Value, json};

/// The person, the guild and its one channel.
const ADA: u64 = 1001;
const GUILD: u64 = 70_000;
pub(crate) const CHANNEL: u64 = 70_001;

/// A fake with one person, one guild with a channel, and a client that does nothing by itself.
pub(crate) struct Bot {
    pub(crate) fake: FakeDiscord,
    /// The person's DM channel.
    pub(crate) direct: u64,
    client: reqwest::Client,
}

/// An upload: its name, its type, its bytes.
pub(crate) type Upload<'a> = (&'a str, &'a str, Vec<u8>);

impl Bot {
    pub(crate) async fn start() -> Self {
        Self::with(DiscordRules::unpaced()).await
    }

    pub(crate) async fn with(rules: DiscordRules) -> Self {
        let fake = FakeDiscord::start(rules).await.expect("a loopback port");
        let direct = fake.direct(fake.person(ADA, "Ada"));
        fake.channel(fake.guild(GUILD, "Home", Tier::None), CHANNEL, "general");
        Self { fake, direct, client: reqwest::Client::new() }
    }

    /// A request with what Discord wants of all of them.
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v10{path}", self.fake.api_url());
        let request = self.client.request(Method::try_from(method).expect("a method"), url);
        let request = request.header("user-agent", "DiscordBot (https://example.org, 0.1)");
        request.header("authorization", format!("Bot {}", self.fake.token()))
    }

    /// The result of a request with a JSON body, or the refusal in short.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let request = self.request(method, path);
        taken(if body.is_null() { request } else { request.json(&body) }).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, String> {
        self.ask("GET", path, Value::Null).await
    }

    /// A message to the guild's channel.
    pub(crate) async fn send(&self, message: Value) -> Result<Value, String> {
        self.ask("POST", &format!("/channels/{CHANNEL}/messages"), message).await
    }

    /// A request with files.
    pub(crate) async fn upload(
        &self,
        method: &str,
        path: &str,
        payload: Value,
        files: Vec<Upload<'_>>,
    ) -> Result<Value, String> {
        let mut form = Form::new().text("payload_json", payload.to_string());
        for (number, (filename, mime, bytes)) in files.into_iter().enumerate() {
            let part = Part::bytes(bytes).file_name(filename.to_owned()).mime_str(mime).expect("a type");
            form = form.part(format!("files[{number}]"), part);
        }
        taken(self.request(method, path).multipart(form)).await
    }

    /// A message with files to the guild's channel.
    pub(crate) async fn send_files(&self, payload: Value, files: Vec<Upload<'_>>) -> Result<Value, String> {
        self.upload("POST", &format!("/channels/{CHANNEL}/messages"), payload, files).await
    }

    /// A change of a message in the guild's channel.
    pub(crate) async fn edit(&self, message: &Value, body: Value) -> Result<Value, String> {
        self.ask("PATCH", &message_path(message), body).await
    }

    /// What is told of a message later.
    pub(crate) async fn again(&self, message: &Value) -> Value {
        self.get(&message_path(message)).await.expect("it stands there")
    }
}

/// The path of a message of the guild's channel.
pub(crate) fn message_path(message: &Value) -> String {
    format!("/channels/{CHANNEL}/messages/{}", message["id"].as_str().expect("an id"))
}

/// The body of a good answer, or the refusal in short: status, code, message, and each field with what is wrong there.
async fn taken(request: RequestBuilder) -> Result<Value, String> {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.bytes().await.expect("a body");
    let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("JSON") };
    if status < 300 {
        return Ok(body);
    }
    let mut described = format!("{status} {} {}", body["code"], body["message"].as_str().expect("a message"));
    if let Some(errors) = body.get("errors") {
        fields(errors, "", &mut described);
    }
    Err(described)
}

fn fields(errors: &Value, path: &str, described: &mut String) {
    for (name, inner) in errors.as_object().expect("errors are objects") {
        if name == "_errors" {
            for error in inner.as_array().expect("a list") {
                *described += &format!("; {path}: {}", error["code"].as_str().expect("a code"));
            }
        } else {
            fields(inner, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, described);
        }
    }
}

/// One row with one button.
pub(crate) fn button(label: &str, custom_id: &str) -> Value {
    json!([{ "type": 1, "components": [{ "type": 2, "style": 1, "label": label, "custom_id": custom_id }] }])
}

/// A number that stands as text, as ids do.
pub(crate) fn id(value: &Value) -> u64 {
    value.as_str().and_then(|id| id.parse().ok()).expect("an id")
}
