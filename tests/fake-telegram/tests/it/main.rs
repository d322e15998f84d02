//! The fake Bot API: what it takes, what it refuses and in which words, what people do on it, and what goes wrong.

mod aiogram;
mod drafts;
mod faults;
mod formatting;
mod ids;
mod late;
mod lookup;
mod markup;
mod media;
mod members;
mod outages;
mod people;
mod rate;
mod refusals;
mod rich;
mod schema;
mod topics;
mod updates;
mod webhook;

use reqwest::multipart::{Form, Part};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use serde_json::{Value, json};

/// A fake with one person's chat, and a client that does nothing by itself.
pub(crate) struct Bot {
    pub(crate) fake: FakeTelegram,
    pub(crate) chat: i64,
    client: reqwest::Client,
}

/// An upload: the name of its part, its filename, its bytes.
pub(crate) type Upload<'a> = (&'a str, &'a str, Vec<u8>);

impl Bot {
    pub(crate) async fn start() -> Self {
        Self::with(TelegramRules::default()).await
    }

    pub(crate) async fn with(rules: TelegramRules) -> Self {
        let fake = FakeTelegram::start(rules).await.expect("a loopback port");
        let person = fake.person(1001, "Ada");
        let chat = fake.private_chat(person);
        Self { fake, chat, client: reqwest::Client::new() }
    }

    pub(crate) fn url(&self, method: &str) -> String {
        format!("{}/bot{}/{method}", self.fake.api_url(), self.fake.token())
    }

    /// The whole answer to a request with a JSON body.
    pub(crate) async fn answer(&self, method: &str, parameters: Value) -> Result<Value, reqwest::Error> {
        self.client.post(self.url(method)).json(&parameters).send().await?.json().await
    }

    /// The result of a request that is performed.
    pub(crate) async fn ask(&self, method: &str, parameters: Value) -> Value {
        let answer = self.answer(method, parameters).await.expect("an answer");
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["result"].clone()
    }

    /// The description of a request that is refused, with its code before it.
    pub(crate) async fn refusal(&self, method: &str, parameters: Value) -> String {
        described(&self.answer(method, parameters).await.expect("an answer"))
    }

    /// The same with something in the chat of the one person.
    pub(crate) async fn here(&self, method: &str, parameters: Value) -> Result<Value, String> {
        let mut parameters = parameters;
        parameters["chat_id"] = json!(self.chat);
        taken(self.answer(method, parameters).await.expect("an answer"))
    }

    /// A request with files.
    pub(crate) async fn upload(
        &self,
        method: &str,
        parameters: Value,
        files: Vec<Upload<'_>>,
    ) -> Result<Value, String> {
        let mut form = Form::new().text("chat_id", self.chat.to_string());
        for (name, value) in parameters.as_object().expect("parameters are an object") {
            let words = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form = form.text(name.clone(), words);
        }
        for (name, filename, bytes) in files {
            form = form.part(name.to_owned(), Part::bytes(bytes).file_name(filename.to_owned()));
        }
        let answer = self.client.post(self.url(method)).multipart(form).send().await.expect("an answer");
        taken(answer.json().await.expect("JSON"))
    }

    /// What the chat of the one person reads as.
    pub(crate) fn reads(&self) -> String {
        self.fake.transcript().to_string()
    }
}

fn taken(answer: Value) -> Result<Value, String> {
    if answer["ok"] == true { Ok(answer["result"].clone()) } else { Err(described(&answer)) }
}

fn described(answer: &Value) -> String {
    assert_eq!(answer["ok"], false, "{answer}");
    format!("{} {}", answer["error_code"], answer["description"].as_str().expect("a description"))
}

/// A PNG of these sides, as far as its header tells.
pub(crate) fn png(width: u32, height: u32, bytes: usize) -> Vec<u8> {
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    image.extend(width.to_be_bytes());
    image.extend(height.to_be_bytes());
    image.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
    image.resize(bytes.max(image.len()), 7);
    image
}

/// An MP4, as far as its header tells.
pub(crate) fn mp4() -> Vec<u8> {
    b"\0\0\0\x18ftypisom\0\0\0\0isommp42".to_vec()
}
