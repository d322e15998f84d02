//! The real binary on a real NATS server: another program sends requests with files and reads the replies.

use std::{collections::BTreeSet, time::Duration};

use async_nats::{
    Client, ConnectOptions, Subscriber,
    jetstream::{self, stream},
};
use futures::{StreamExt, TryStreamExt};
use satchel_fake_kit::PythonClient;
use satchel_fake_model::{FakeModelServer, ModelReply, ReplyPiece, ScriptedCall};
use satchel_requirements::required;
use satchel_servers::nats::{GUIDE_PASSWORD, NatsServer};
use satchel_system::real_binary::{TestHome, workspace_root};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{retries::home_with_model, server_process::ServerProcess};

/// Where replies to the sender of the requests arrive.
const REPLIES: &str = "satchel.v1.evt.nats.orders.agent.output.response.text";

/// Longer than a turn takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A model, and a home whose configuration takes the requests of `orders` and `hr`, who share the conversation `desk`.
async fn home_on_nats(url: &str) -> (FakeModelServer, TestHome) {
    let (fake, home) = home_with_model().await;
    let config = std::fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it is written");
    let bus = format!(
        "bus: {{ url: '{url}' }}\n\
         nats: {{ requests: on, allow_users: [orders, hr], groups: {{ desk: [orders, hr] }} }}\n"
    );
    home.write_file("satchel.yaml", config + &bus);
    (fake, home)
}

/// Satchel and the program have the permissions of the guide.
#[tokio::test(flavor = "multi_thread")]
async fn python_program_sends_a_file_and_gets_one_back() {
    let Some(server) = required(NatsServer::start_as_in_guide().await) else { return };
    let example = workspace_root().join("docs/examples/nats-client");
    let Some(client) = required(PythonClient::install(&example.display().to_string(), "nats").await) else { return };
    let (fake, home) = home_on_nats(&url_as(&server, "satchel")).await;
    let satchel = ServerProcess::start(&home, &[]);
    for (tool, arguments) in [
        ("file_write", json!({ "path": "/tmp/checked.csv", "content": "a,b,ok\n" })),
        ("attachment_add", json!({ "path": "/tmp/checked.csv" })),
    ] {
        fake.reply(ModelReply::calls([ScriptedCall::new(tool, &arguments.to_string())]));
    }
    fake.reply(ModelReply::text("All orders are fine."));
    let order = home.write_file("order.csv", "a,b\n").display().to_string();
    let output = home.root().display().to_string();
    let url = url_as(&server, "orders");
    let printed = client.run(&[&url, "orders", "orders/june/1.2", "Check this order.", &order, &output]).await;
    for expected in ["tool: file_write", "text: All orders are fine.", "file: checked.csv text/"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let saved = std::fs::read_to_string(home.root().join("checked.csv")).expect("the program saved it");
    assert_eq!(saved, "a,b,ok\n");
    let question = fake.requests()[0].user_text();
    assert!(question.contains("Check this order.") && question.contains("order.csv"), "{question}");
    satchel.send_signal("TERM");
    assert_eq!(satchel.wait_for_exit().exit_code(), Some(0));
}

/// The server lets Satchel remove nothing, so that it certainly dies before the request is removed.
#[tokio::test(flavor = "multi_thread")]
async fn request_of_a_killed_process_is_one_turn() {
    let users = "authorization { users = [\n\
        { user: satchel, password: pw, permissions: { publish: { deny: [\"$JS.API.STREAM.MSG.DELETE.>\"] } } }\n\
        { user: orders, password: pw } ] }";
    let Some(server) = required(NatsServer::start_with(users).await) else { return };
    let client = ConnectOptions::with_user_and_password("orders".to_owned(), "pw".to_owned());
    let client = client.connect(server.address()).await.expect("it runs");
    let context = jetstream::new(client.clone());
    let requests = stream::Config {
        name: "SATCHEL_REQUESTS".to_owned(),
        subjects: vec!["satchel.v1.cmd.turn.request.*".to_owned()],
        retention: stream::RetentionPolicy::WorkQueue,
        ..stream::Config::default()
    };
    context.create_stream(requests).await.expect("a stream");
    let mut receipts = client.subscribe("satchel.v1.receipt.orders.order-1").await.expect("a subscription");
    let mut replies = client.subscribe(REPLIES).await.expect("a subscription");
    let (fake, home) = home_on_nats(&format!("nats://satchel:pw@{}", server.address())).await;
    // The turn that the first process has begun is continued by the second.
    for _ in 0..2 {
        fake.reply(ModelReply::text("Once."));
    }
    let request = json!({
        "v": 1, "type": "cmd.turn.request", "id": "order-1", "conversation": "nats:orders", "text": "Check it.",
    });
    let published = context.publish("satchel.v1.cmd.turn.request.orders", request.to_string().into()).await;
    published.expect("it is sent").await.expect("it is stored");
    let mut turns = BTreeSet::new();
    let mut next_receipt = async || {
        let message = timeout(TIMEOUT, receipts.next()).await.expect("a receipt comes").expect("it is open");
        let receipt: Value = serde_json::from_slice(&message.payload).expect("it is JSON");
        assert_eq!(receipt["type"], "evt.turn.request.accepted", "{receipt}");
        receipt["turn"].as_str().expect("a turn").to_owned()
    };
    let satchel = ServerProcess::start(&home, &[]);
    turns.insert(next_receipt().await);
    satchel.send_signal("KILL");
    drop(satchel.wait_for_exit());
    let satchel = ServerProcess::start(&home, &[]);
    turns.insert(next_receipt().await);
    assert_eq!(turns.len(), 1, "the request is the same turn each time that it is taken: {turns:?}");
    let reply = timeout(TIMEOUT, replies.next()).await.expect("it is answered").expect("it is open");
    let reply: Value = serde_json::from_slice(&reply.payload).expect("it is JSON");
    assert!(turns.contains(reply["turn"].as_str().expect("a turn")) && reply["text"] == "Once.", "{reply}");
    satchel.send_signal("TERM");
    assert_eq!(satchel.wait_for_exit().exit_code(), Some(0));
    let events = context.get_stream("SATCHEL_EVENTS").await.expect("it holds the replies");
    let mut stored = events.info_with_subjects(REPLIES).await.expect("the server counts them");
    assert_eq!(stored.try_next().await.expect("they are listed"), Some((REPLIES.to_owned(), 1)));
}

/// A program that is logged in with the permissions of the guide, and its own conversations and receipts.
struct Program {
    name: &'static str,
    client: Client,
    receipts: Subscriber,
    replies: Subscriber,
}

impl Program {
    /// Logs in. `replies` are its subjects of replies.
    async fn log_in(server: &NatsServer, name: &'static str) -> Self {
        let options = ConnectOptions::with_user_and_password(name.to_owned(), GUIDE_PASSWORD.to_owned());
        let options = options.custom_inbox_prefix(format!("_INBOX_{name}"));
        let client = options.connect(server.address()).await.expect("it runs");
        let receipts = client.subscribe(format!("satchel.v1.receipt.{name}.>")).await.expect("a subscription");
        let replies = client.subscribe(format!("satchel.v1.evt.nats.{name}.>")).await.expect("a subscription");
        Self { name, client, receipts, replies }
    }

    /// Sends a text to a conversation, and returns what became of it.
    async fn send(&mut self, conversation: &str, id: &str, text: &str) -> Value {
        let request =
            json!({ "v": 1, "type": "cmd.turn.request", "id": id, "conversation": conversation, "text": text });
        let context = jetstream::new(self.client.clone());
        let subject = format!("satchel.v1.cmd.turn.request.{}", self.name);
        let sent = context.publish(subject, request.to_string().into()).await.expect("it is sent");
        sent.await.expect("it is stored");
        let receipt = next_json(&mut self.receipts).await;
        assert_eq!(receipt["id"], id, "{receipt}");
        receipt
    }

    /// Waits for the text of a reply.
    async fn next_reply(&mut self) -> String {
        loop {
            let event = next_json(&mut self.replies).await;
            if event["type"] == "evt.agent.output.response.text" {
                return event["text"].as_str().expect("a text").to_owned();
            }
        }
    }
}

async fn next_json(messages: &mut Subscriber) -> Value {
    let message = timeout(TIMEOUT, messages.next()).await.expect("a message comes").expect("it is open");
    serde_json::from_slice(&message.payload).expect("it is JSON")
}

/// The URL of a server for a user of the guide.
fn url_as(server: &NatsServer, user: &str) -> String {
    format!("nats://{user}:{GUIDE_PASSWORD}@{}", server.address())
}

#[tokio::test(flavor = "multi_thread")]
async fn program_neither_speaks_nor_forgets_for_another() {
    let Some(server) = required(NatsServer::start_as_in_guide().await) else { return };
    let (fake, home) = home_on_nats(&url_as(&server, "satchel")).await;
    let _satchel = ServerProcess::start(&home, &[]);
    let (mut orders, mut hr) = (Program::log_in(&server, "orders").await, Program::log_in(&server, "hr").await);
    fake.reply(ModelReply::text("Noted."));
    let receipt = hr.send("nats:hr/payroll", "one", "Ada earns 4711.").await;
    assert_eq!(receipt["type"], "evt.turn.request.accepted", "{receipt}");
    assert_eq!(hr.next_reply().await, "Noted.");
    for (id, text) in [("speak", "What does Ada earn?"), ("stop", "/stop"), ("new", "/new"), ("forget", "/forget all")]
    {
        let receipt = orders.send("nats:hr/payroll", id, text).await;
        assert_eq!(receipt["type"], "evt.turn.request.rejected", "{receipt}");
    }
    fake.reply(ModelReply::text("4711."));
    hr.send("nats:hr/payroll", "two", "What does Ada earn?").await;
    assert_eq!(hr.next_reply().await, "4711.");
    let requests = fake.requests();
    assert_eq!(requests.len(), 2, "nothing of `orders` became a turn");
    assert!(requests[1].user_text().contains("Ada earns 4711."), "{}", requests[1].user_text());

    for program in [&mut orders, &mut hr] {
        fake.reply(ModelReply::text("Hello."));
        let receipt = program.send("nats:desk", "hello", "Hello.").await;
        assert_eq!(receipt["type"], "evt.turn.request.accepted", "{receipt}");
    }
}

/// Whatever others publish, Satchel goes on, skips what it can't read, and counts that.
#[tokio::test(flavor = "multi_thread")]
async fn bad_events_and_requests_change_nothing() {
    let Some(server) = required(NatsServer::start().await) else { return };
    let (fake, home) = home_on_nats(&server.url()).await;
    let satchel = ServerProcess::start(&home, &[]);
    let client = async_nats::connect(server.url()).await.expect("the server is there");
    let mut receipts = client.subscribe("satchel.v1.receipt.>").await.expect("a subscription");
    let turn = "0197a000-0000-7000-8000-000000000001";
    let bad_events = [
        json!({ "v": 2, "type": "evt.message.received", "place": "elsewhere" }).to_string(),
        json!({ "v": 1, "type": "evt.of.a.later.release", "conversation": "web:test" }).to_string(),
        "{\"v\": 1".to_owned(),
        "x".repeat(900_000),
    ];
    // Readable, and about nothing: out of order, repeated, of a turn that doesn't exist.
    let completed = json!({
        "v": 1, "type": "evt.turn.completed", "conversation": "web:test", "turn": turn, "ending": "done",
        "response": { "text": "Never said.", "voice": null, "attachments": [] },
    });
    let received = json!({ "v": 1, "type": "evt.message.received", "conversation": "web:test", "turn": turn });
    let stray = [completed.to_string(), received.to_string(), received.to_string()];
    for event in bad_events.iter().chain(&stray) {
        let published = client.publish("satchel.v1.evt.web.test.x", event.clone().into()).await;
        published.expect("it is sent");
    }
    let context = jetstream::new(client);
    for (request, reason) in [
        (json!({ "v": 2, "type": "cmd.turn.request", "id": "later" }), "version 2 is unknown"),
        (json!({ "v": 1, "type": "cmd.turn.request", "id": "empty", "conversation": "nats:orders" }), "it has neither"),
        (json!(["no request"]), "`v` is missing"),
    ] {
        let published = context.publish("satchel.v1.cmd.turn.request.orders", request.to_string().into()).await;
        published.expect("it is sent").await.expect("it is stored");
        let receipt = timeout(TIMEOUT, receipts.next()).await.expect("a receipt comes").expect("it is open");
        let receipt: Value = serde_json::from_slice(&receipt.payload).expect("it is JSON");
        assert_eq!(receipt["type"], "evt.turn.request.rejected", "{receipt}");
        assert!(receipt["reason"].as_str().is_some_and(|text| text.starts_with(reason)), "{receipt}");
    }
    fake.reply(ModelReply::text("All is well."));
    let turn = satchel.send_and_wait("are you well?").await;
    assert_eq!(turn["parts"][0]["text"], "All is well.", "{turn:#}");
    assert_eq!(fake.requests().len(), 1, "nothing of it became a turn");
    let (_, metrics) = satchel.get("/metrics").await;
    let expected = format!("satchel_bus_events_lost_total{{reason=\"skipped\"}} {}", bad_events.len());
    assert!(metrics.contains(&expected), "{expected}: {metrics}");
}

/// The model never ends its text, so that nothing of it is in the ledger: only the bus can have brought it.
#[tokio::test(flavor = "multi_thread")]
async fn page_of_one_process_shows_the_text_of_another() {
    let Some(server) = required(NatsServer::start().await) else { return };
    let (fake, home) = home_on_nats(&server.url()).await;
    let call = ReplyPiece::Call(ScriptedCall::new("file_list", "{}"));
    fake.reply(ModelReply::pieces([ReplyPiece::Text("Looking. ".to_owned()), call]));
    fake.reply(ModelReply::pieces([ReplyPiece::Text("Growing text".to_owned()), ReplyPiece::Hang]));
    let (one, other) = (ServerProcess::start(&home, &[]), ServerProcess::start(&home, &[]));
    let token = std::fs::read_to_string(home.data_directory().join("web-token")).expect("a token");
    let mut pages = Vec::new();
    for process in [&one, &other] {
        let client = satchel::platforms::client().expect("HTTP can be spoken");
        let request = client.get(format!("{}/api/conversations/test/events", process.page)).bearer_auth(token.trim());
        let response = request.timeout(TIMEOUT).send().await.expect("the page answers");
        assert_eq!(response.status(), 200);
        pages.push(response);
    }
    one.send("look", &[]).await;
    for page in &mut pages {
        let mut shown = String::new();
        while !(shown.contains("Growing text") && shown.contains("file_list")) {
            let chunk = page.chunk().await.unwrap_or_else(|error| panic!("{error}: {shown}"));
            shown.push_str(&String::from_utf8_lossy(&chunk.expect("the stream stays open")));
        }
    }
}
