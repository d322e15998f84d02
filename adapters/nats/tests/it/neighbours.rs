//! Programs on one server: what a neighbour reads of another program, and what it can send in its name.

use std::{
    future,
    sync::{Arc, Mutex},
};

use async_nats::{Client, ConnectOptions, Event, Message, Subscriber, jetstream};
use futures::{
    FutureExt, StreamExt,
    stream::{SelectAll, select_all},
};
use satchel_domain::{PartContent, part::Markup};
use satchel_ports::Channel;
use satchel_requirements::required;
use satchel_servers::nats::GUIDE_PASSWORD;
use satchel_wait::wait_until;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    channel::{channel, part},
    harness::{Harness, TIMEOUT, turn},
    requests::{listen, request},
};

/// What the program `orders`, Satchel and the server send each other.
const FOREIGN_SUBSCRIPTIONS: [&str; 14] = [
    ">",
    "satchel.>",
    "satchel.v1.evt.>",
    "satchel.v1.evt.*.*.turn.completed",
    "satchel.v1.*.nats.*.>",
    "satchel.v1.*.nats.orders.>",
    "satchel.v1.receipt.>",
    "satchel.v1.receipt.orders.*",
    "satchel.v1.cmd.turn.request.*",
    "satchel.v1.cmd.turn.request.orders",
    "_INBOX.>",
    "_INBOX_satchel.>",
    "_INBOX_orders.>",
    "$JS.>",
];

/// What would speak for `orders`, for Satchel or for the operator.
const FOREIGN_PUBLICATIONS: [&str; 9] = [
    "satchel.v1.cmd.turn.request.orders",
    "satchel.v1.evt.nats.orders.agent.output.response.text",
    "satchel.v1.live.nats.orders.agent.output.delta.text",
    "satchel.v1.receipt.orders.one",
    "_INBOX_orders.x",
    "$JS.API.STREAM.INFO.SATCHEL_REQUESTS",
    "$JS.API.STREAM.MSG.GET.SATCHEL_REQUESTS",
    "$JS.API.STREAM.PURGE.SATCHEL_REQUESTS",
    "$JS.API.CONSUMER.CREATE.SATCHEL_EVENTS",
];

/// Where `hr` lets the server confirm its requests: the confirmation would purge a stream, delete the message with its number,
/// or arrive as a request or an event of another one. The server checks no permission for it.
const FOREIGN_REPLIES: [&str; 6] = [
    "$JS.API.STREAM.MSG.DELETE.SATCHEL_EVENTS",
    "$JS.API.STREAM.MSG.DELETE.SATCHEL_REQUESTS",
    "$JS.API.STREAM.PURGE.SATCHEL_EVENTS",
    "$JS.API.STREAM.PURGE.SATCHEL_REQUESTS",
    "$JS.API.STREAM.DELETE.SATCHEL_EVENTS",
    "satchel.v1.cmd.turn.request.orders",
];

/// A program that is logged in under its own name.
struct Program {
    name: &'static str,
    client: Client,
    /// What the server has refused it.
    refusals: Arc<Mutex<Vec<String>>>,
}

impl Program {
    async fn log_in(harness: &Harness, name: &'static str) -> Self {
        let refusals = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&refusals);
        let options = ConnectOptions::with_user_and_password(name.to_owned(), GUIDE_PASSWORD.to_owned())
            .custom_inbox_prefix(format!("_INBOX_{name}"))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    recorded.lock().unwrap().push(error.to_string());
                }
                future::ready(())
            });
        let client = options.connect(harness.server.address()).await.unwrap();
        Self { name, client, refusals }
    }

    async fn subscribe(&self, subjects: &[&'static str]) -> SelectAll<Subscriber> {
        let mut subscribers = Vec::new();
        for subject in subjects {
            subscribers.push(self.client.subscribe(*subject).await.unwrap());
        }
        self.client.flush().await.unwrap();
        select_all(subscribers)
    }

    /// Sends a request, which the server confirms in the program's own inbox.
    async fn send(&self, request: &Value) {
        let subject = format!("satchel.v1.cmd.turn.request.{}", self.name);
        let sent = jetstream::new(self.client.clone()).publish(subject, request.to_string().into()).await;
        sent.unwrap().await.unwrap();
    }

    /// Sends requests whose confirmations go to these subjects.
    async fn send_with_replies(&self, replies: &[&'static str]) {
        let subject = format!("satchel.v1.cmd.turn.request.{}", self.name);
        for (index, reply) in replies.iter().enumerate() {
            let request = request(&format!("nats:{}", self.name), &format!("attack-{index}")).to_string();
            self.client.publish_with_reply(subject.clone(), *reply, request.into()).await.unwrap();
        }
        self.client.flush().await.unwrap();
    }

    fn count_refusals(&self, action: &str) -> usize {
        self.refusals.lock().unwrap().iter().filter(|refusal| refusal.contains(action)).count()
    }
}

async fn next(messages: &mut SelectAll<Subscriber>) -> (String, Value) {
    let message = timeout(TIMEOUT, messages.next()).await.expect("a message comes").expect("it is open");
    (message.subject.to_string(), serde_json::from_slice(&message.payload).expect("it is JSON"))
}

/// A message that has come already.
fn take_arrived(messages: &mut SelectAll<Subscriber>) -> Option<Message> {
    messages.next().now_or_never().flatten()
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_of_the_guide_keep_programs_apart() {
    let Some(mut harness) = required(Harness::start_as_in_guide().await) else { return };
    harness.log_in_as(&format!("satchel:{GUIDE_PASSWORD}"));
    let messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let (orders, hr) = (Program::log_in(&harness, "orders").await, Program::log_in(&harness, "hr").await);
    let mut of_orders = orders.subscribe(&["satchel.v1.*.nats.orders.>", "satchel.v1.receipt.orders.>"]).await;
    let mut of_hr = hr.subscribe(&["satchel.v1.*.nats.hr.>", "satchel.v1.receipt.hr.>"]).await;

    let mut overheard = hr.subscribe(&FOREIGN_SUBSCRIPTIONS).await;
    for subject in FOREIGN_PUBLICATIONS {
        hr.client.publish(subject, request("nats:orders", "forged").to_string().into()).await.unwrap();
    }
    hr.client.flush().await.unwrap();
    wait_until("all is refused", || {
        hr.count_refusals("Subscription") == FOREIGN_SUBSCRIPTIONS.len()
            && hr.count_refusals("Publish") == FOREIGN_PUBLICATIONS.len()
    })
    .await;

    orders.send(&request("nats:orders/june", "one")).await;
    let (subject, receipt) = next(&mut of_orders).await;
    assert_eq!(
        (subject.as_str(), &receipt["conversation"]),
        ("satchel.v1.receipt.orders.one", &json!("nats:orders/june"))
    );
    let reply = PartContent::Text { text: "Hi".into(), markup: Markup::Rich, files: vec![] };
    channel(&harness).await.post(&part(1, reply)).await.unwrap();
    let (subject, reply) = next(&mut of_orders).await;
    assert_eq!(subject, "satchel.v1.evt.nats.orders.agent.output.response.text");
    assert_eq!(reply["text"], "Hi");

    hr.send(&request("nats:hr/payroll", "two")).await;
    let (subject, receipt) = next(&mut of_hr).await;
    assert_eq!(
        (subject.as_str(), &receipt["type"]),
        ("satchel.v1.receipt.hr.two", &json!("evt.turn.request.accepted"))
    );
    // The server delivers in order: whatever it lets `hr` read of all that has arrived before.
    let arrived = take_arrived(&mut overheard);
    assert!(arrived.is_none(), "{arrived:?}");
    assert!(take_arrived(&mut of_orders).is_none() && take_arrived(&mut of_hr).is_none());
    let senders: Vec<String> = messages.lock().unwrap().iter().map(|message| message.sender.id.clone()).collect();
    assert_eq!(senders, ["orders", "hr"], "nobody speaks for another one");
    assert_eq!(orders.count_refusals(""), 0, "its permissions are enough");
}

/// Until programs had inboxes of their own, the guide let each of them read this one.
#[tokio::test(flavor = "multi_thread")]
async fn common_inbox_shows_no_request() {
    let users = format!(
        "authorization {{ users = [
            {{ user: satchel, password: {GUIDE_PASSWORD} }}
            {{ user: orders, password: {GUIDE_PASSWORD} }}
            {{ user: hr, password: {GUIDE_PASSWORD}, permissions: {{
                publish: [\"satchel.v1.cmd.turn.request.hr\"]
                subscribe: [\"satchel.v1.receipt.hr.>\", \"_INBOX.>\"]
            }} }}
        ] }}"
    );
    let Some(mut harness) = required(Harness::start_with(&users).await) else { return };
    harness.log_in_as(&format!("satchel:{GUIDE_PASSWORD}"));
    let _messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let (orders, hr) = (Program::log_in(&harness, "orders").await, Program::log_in(&harness, "hr").await);
    let mut of_orders = orders.subscribe(&["satchel.v1.receipt.orders.>"]).await;
    let mut of_hr = hr.subscribe(&["satchel.v1.receipt.hr.>"]).await;
    let mut overheard = hr.subscribe(&["_INBOX.>"]).await;
    orders.send(&request("nats:orders", "one")).await;
    assert_eq!(next(&mut of_orders).await.0, "satchel.v1.receipt.orders.one");
    // Without a confirmation, which would go to an inbox.
    hr.client.publish("satchel.v1.cmd.turn.request.hr", request("nats:hr", "two").to_string().into()).await.unwrap();
    assert_eq!(next(&mut of_hr).await.0, "satchel.v1.receipt.hr.two");
    let arrived = take_arrived(&mut overheard);
    assert!(arrived.is_none(), "{arrived:?}");
    assert_eq!(hr.count_refusals(""), 0, "it may read that inbox");
}

/// Waits for the receipts of requests with these ids.
async fn expect_accepted(receipts: &mut SelectAll<Subscriber>, ids: &[&str]) {
    for id in ids {
        let (_, receipt) = next(receipts).await;
        assert_eq!((&receipt["id"], &receipt["type"]), (&json!(id), &json!("evt.turn.request.accepted")), "{receipt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmations_destroy_nothing_of_others() {
    const EVENTS: u64 = 10;
    let Some(mut harness) = required(Harness::start_as_in_guide().await) else { return };
    harness.log_in_as(&format!("satchel:{GUIDE_PASSWORD}"));
    let channel = channel(&harness).await;
    for number in 1..=EVENTS {
        let reply = PartContent::Text { text: "Hi".into(), markup: Markup::Rich, files: vec![] };
        channel.post(&part(number.into(), reply)).await.unwrap();
    }
    let (orders, hr) = (Program::log_in(&harness, "orders").await, Program::log_in(&harness, "hr").await);
    let mut of_orders = orders.subscribe(&["satchel.v1.receipt.orders.>"]).await;
    for id in ["one", "two"] {
        orders.send(&request("nats:orders", id)).await;
    }
    hr.send_with_replies(&FOREIGN_REPLIES).await;
    assert_eq!(hr.count_refusals(""), 0, "the server itself refuses none of it");
    let mut of_hr = hr.subscribe(&["satchel.v1.receipt.hr.>"]).await;
    hr.send(&request("nats:hr", "last")).await;

    let messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    expect_accepted(&mut of_orders, &["one", "two"]).await;
    let (subject, junk) = next(&mut of_orders).await;
    assert_eq!(
        (subject.as_str(), &junk["type"]),
        ("satchel.v1.receipt.orders._", &json!("evt.turn.request.rejected")),
        "what the server wrote is no request of `orders`"
    );
    let mut accepted = Vec::new();
    while accepted.last().is_none_or(|id| id != "last") {
        let (_, receipt) = next(&mut of_hr).await;
        assert_eq!(receipt["type"], "evt.turn.request.accepted", "{receipt}");
        accepted.push(receipt["id"].as_str().unwrap().to_owned());
    }
    // It has deleted itself, which harms nobody else.
    accepted.retain(|id| id != "attack-1");
    assert_eq!(accepted, ["attack-0", "attack-2", "attack-3", "attack-4", "attack-5", "last"]);
    let written = messages.lock().unwrap().iter().filter(|message| message.sender.id == "orders").count();
    assert_eq!(written, 2, "nobody speaks for `orders`");

    let options = ConnectOptions::with_user_and_password("satchel".to_owned(), GUIDE_PASSWORD.to_owned());
    let options = options.custom_inbox_prefix("_INBOX_satchel");
    let context = jetstream::new(options.connect(harness.server.address()).await.unwrap());
    let events = context.get_stream("SATCHEL_EVENTS").await.unwrap();
    for sequence in 1..=EVENTS {
        let event = events.get_raw_message(sequence).await;
        assert!(event.is_ok(), "event {sequence}: {event:?}");
    }
}

/// Where each program has an account, the confirmation reaches nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_the_guide_isolate_programs() {
    let Some(mut harness) = required(Harness::start_with_accounts_of_guide().await) else { return };
    harness.log_in_as(&format!("satchel:{GUIDE_PASSWORD}"));
    let messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let (orders, hr) = (Program::log_in(&harness, "orders").await, Program::log_in(&harness, "hr").await);
    let mut of_orders = orders.subscribe(&["satchel.v1.*.nats.orders.>", "satchel.v1.receipt.orders.>"]).await;
    let mut of_hr = hr.subscribe(&["satchel.v1.receipt.hr.>"]).await;
    let mut overheard = hr.subscribe(&FOREIGN_SUBSCRIPTIONS).await;
    orders.send(&request("nats:orders", "one")).await;
    expect_accepted(&mut of_orders, &["one"]).await;
    let reply = PartContent::Text { text: "Hi".into(), markup: Markup::Rich, files: vec![] };
    channel(&harness).await.post(&part(1, reply)).await.unwrap();
    let (subject, reply) = next(&mut of_orders).await;
    assert_eq!(
        (subject.as_str(), &reply["text"]),
        ("satchel.v1.evt.nats.orders.agent.output.response.text", &json!("Hi"))
    );
    hr.client.flush().await.unwrap();
    let arrived = take_arrived(&mut overheard);
    assert!(arrived.is_none(), "{arrived:?}");
    drop(overheard);

    // What it publishes stays in its own account, and so do the confirmations.
    for subject in FOREIGN_PUBLICATIONS {
        hr.client.publish(subject, request("nats:orders", "forged").to_string().into()).await.unwrap();
    }
    hr.send_with_replies(&FOREIGN_REPLIES).await;
    hr.send_with_replies(&["satchel.v1.evt.nats.orders.agent.output.response.text"]).await;
    hr.send(&request("nats:hr", "last")).await;
    while next(&mut of_hr).await.0 != "satchel.v1.receipt.hr.last" {}
    orders.send(&request("nats:orders", "two")).await;
    expect_accepted(&mut of_orders, &["two"]).await;
    assert!(take_arrived(&mut of_orders).is_none());
    let written = messages.lock().unwrap().iter().filter(|message| message.sender.id == "orders").count();
    assert_eq!(written, 2, "nobody speaks for `orders`");
}
