//! An existing client library of OpenAI's API that talks to the real binary.

use futures::StreamExt;
use genai::{
    Client, Headers, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, ContentPart, MessageContent, Tool},
    resolver::{AuthData, Endpoint},
};
use satchel_fake_model::{FakeModelServer, ModelReply, ReplyPiece, ScriptedCall};
use satchel_system::real_binary::TestHome;
use serde_json::{Value, json};

use super::{retries::home_with_model, server_process::ServerProcess};

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// A server with a fake model behind it, and a client in front of it.
struct ClientHarness {
    fake: FakeModelServer,
    home: TestHome,
    server: ServerProcess,
    client: Client,
}

impl ClientHarness {
    async fn start() -> Self {
        let (fake, home) = home_with_model().await;
        let server = ServerProcess::start(&home, &[]);
        let http = satchel::platforms::client().expect("HTTP can be spoken");
        let client = Client::builder().with_reqwest(http).build().expect("a client");
        Self { fake, home, server, client }
    }

    fn token(&self) -> String {
        let token = std::fs::read_to_string(self.home.data_directory().join("web-token"));
        token.expect("the server has written it").trim().to_owned()
    }

    fn target(&self) -> ServiceTarget {
        let endpoint = Endpoint::from_owned(format!("{}/v1/", self.server.page));
        let model = ModelIden::new(AdapterKind::OpenAI, "satchel");
        ServiceTarget { endpoint, auth: AuthData::from_single(self.token()), model }
    }

    async fn ask(&self, request: ChatRequest, options: Option<&ChatOptions>) -> Result<String, String> {
        let response = self.client.exec_chat(self.target(), request, options).await;
        response
            .map(|response| response.first_text().unwrap_or_default().to_owned())
            .map_err(|error| format!("{error:?}"))
    }

    /// The text of a stream, and whether it came to its end.
    async fn read_stream(&self, request: ChatRequest) -> (String, bool) {
        let response = self.client.exec_chat_stream(self.target(), request, None).await.expect("a stream");
        let mut stream = response.stream;
        let (mut text, mut has_ended) = (String::new(), false);
        while let Some(event) = stream.next().await {
            match event.expect("an event") {
                ChatStreamEvent::Chunk(chunk) => text.push_str(&chunk.content),
                ChatStreamEvent::End(_) => has_ended = true,
                _ => {}
            }
        }
        (text, has_ended)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_sends_history_and_image_and_reads_the_answer() {
    let harness = ClientHarness::start().await;
    harness.fake.reply(ModelReply::text("It is **red**."));
    let image = ContentPart::from_binary_base64("image/png", PIXEL, Some("dot.png".to_owned()));
    let request = ChatRequest::from_system("You are a painter.")
        .append_message(ChatMessage::user("hello"))
        .append_message(ChatMessage::assistant("Good day."));
    let question = MessageContent::from_parts(vec![ContentPart::from_text("which colour?"), image]);
    let answer = harness.ask(request.append_message(ChatMessage::user(question)), None).await.expect("an answer");
    assert_eq!(answer, "It is **red**.");
    let read = format!("{:?}", harness.fake.last());
    for expected in ["You are a painter.", "hello", "Good day.", "which colour?", "image/png"] {
        assert!(read.contains(expected), "the model reads {expected}: {read}");
    }
    let (_, list) = harness.server.get("/api/conversations").await;
    assert!(list.contains(r#""conversations":[]"#), "the page lists none: {list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_reads_a_stream() {
    let harness = ClientHarness::start().await;
    let pieces = ["Hel", "lo, ", "Ada."].map(|text| ReplyPiece::Text(text.to_owned()));
    harness.fake.reply(ModelReply::pieces(pieces));
    let (text, has_ended) = harness.read_stream(ChatRequest::from_user("my name is Ada")).await;
    assert_eq!((text.as_str(), has_ended), ("Hello, Ada.", true));
}

/// The model writes a list with the call that saves it: the client reads it, streamed and whole.
#[tokio::test(flavor = "multi_thread")]
async fn client_reads_the_text_before_a_tool() {
    let harness = ClientHarness::start().await;
    for _ in 0..2 {
        let call = ScriptedCall::new("file_write", r#"{"path": "list.txt", "content": "Milk", "overwrite": true}"#);
        let list = ["Milk, ", "bread.\n"].map(|text| ReplyPiece::Text(text.to_owned()));
        harness.fake.reply(ModelReply::pieces(list.into_iter().chain([ReplyPiece::Call(call)])));
        harness.fake.reply(ModelReply::pieces(["Sav", "ed."].map(|text| ReplyPiece::Text(text.to_owned()))));
    }
    let (streamed, has_ended) = harness.read_stream(ChatRequest::from_user("save a list")).await;
    assert_eq!((streamed.as_str(), has_ended), ("Milk, bread.\n\nSaved.", true));
    let whole = harness.ask(ChatRequest::from_user("save the list again"), None).await;
    assert_eq!(whole.as_deref(), Ok("Milk, bread.\n\nSaved."));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_talks_in_a_conversation_of_the_page() {
    let harness = ClientHarness::start().await;
    for words in ["Noted.", "Ada."] {
        harness.fake.reply(ModelReply::text(words));
    }
    harness.server.send_and_wait("my name is Ada").await;
    let headers = Headers::from(("X-Satchel-Conversation".to_owned(), "test".to_owned()));
    let options = ChatOptions::default().with_extra_headers(headers);
    let answer = harness.ask(ChatRequest::from_user("what is my name?"), Some(&options)).await.expect("an answer");
    assert_eq!(answer, "Ada.");
    assert!(format!("{:?}", harness.fake.last()).contains("my name is Ada"), "it has its history");
    let (_, turns) = harness.server.get("/api/conversations/test/turns").await;
    assert!(turns.contains("what is my name?"), "{turns}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_the_client_are_refused_by_name() {
    let harness = ClientHarness::start().await;
    let tool = Tool::new("weather").with_schema(json!({ "type": "object", "properties": {} }));
    let refused =
        harness.ask(ChatRequest::from_user("rain?").with_tools(vec![tool]), None).await.expect_err("a refusal");
    assert!(refused.contains("unsupported_parameter") && refused.contains("`tools`"), "{refused}");
    assert!(harness.fake.requests().is_empty());
}

/// The process dies while the model writes, and the client retries as OpenAI's own clients do.
#[tokio::test(flavor = "multi_thread")]
async fn retry_after_a_kill_has_one_turn() {
    let harness = ClientHarness::start().await;
    let token = harness.token();
    let ClientHarness { fake, home, server, .. } = harness;
    fake.reply(ModelReply::pieces([ReplyPiece::Hang]));
    let body = json!({ "model": "satchel", "messages": [{ "role": "user", "content": "hello" }] });
    let post = |page: &str, token: &str, retry: &str| {
        let http = satchel::platforms::client().expect("HTTP can be spoken");
        let request = http.post(format!("{page}/v1/chat/completions")).bearer_auth(token).json(&body);
        request.header("x-stainless-retry-count", retry).send()
    };
    let first = tokio::spawn(post(&server.page, &token, "0"));
    fake.wait_until(|requests| requests.len() == 1).await.expect("the model is asked");
    server.send_signal("KILL");
    server.wait_for_exit();
    assert!(first.await.expect("it ends").is_err(), "the connection is lost");
    fake.reply(ModelReply::text("Hi.").every_time());
    let server = ServerProcess::start(&home, &[]);
    let mut ids = Vec::new();
    for retry in ["1", "2"] {
        let answer = post(&server.page, &token, retry).await.expect("an answer");
        let answer: Value = answer.json().await.expect("it is JSON");
        assert_eq!(answer["choices"][0]["message"]["content"], "Hi.", "{answer}");
        ids.push(answer["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(fake.requests().len(), 2, "one turn, which went on after the kill");
}
