//! A fake collector, and what of a turn arrives at it.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use futures::StreamExt;
use satchel_domain::{OutgoingResponse, TurnId};
use satchel_local::{LocalBus, OfflineModel};
use satchel_metrics::{MeasuredBus, MeasuredModel, Metrics};
use satchel_ports::{BusEvent, EventBus, LanguageModel, ModelMessage, ModelRequest};
use tracing_subscriber::layer::SubscriberExt;
use uuid::Uuid;

use super::*;

/// Takes one request and hands over its head and body.
fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            connection.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            while let Ok(read @ 1..) = connection.read(&mut piece) {
                request.extend_from_slice(&piece[..read]);
            }
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            sender.send(request).unwrap_or_default();
        }
    });
    (format!("http://{address}/"), received)
}

#[test]
fn turn_spans_reach_collector_without_message_text() {
    let (url, received) = collector();
    let environment = [(OsString::from(ENDPOINT), OsString::from(url))];
    let (layer, exporting) = layer(&environment).unwrap().unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    let metrics = Metrics::new(&["web"], Vec::new());
    let bus = MeasuredBus::new(Arc::new(LocalBus::new()), Arc::clone(&metrics));
    let model = MeasuredModel::new(Arc::new(OfflineModel::default()), metrics, "main");
    let turn = TurnId(Uuid::now_v7());
    tracing::subscriber::with_default(subscriber, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let conversation: satchel_domain::ConversationId = "web:a".parse().unwrap();
            bus.publish(BusEvent::MessageReceived { conversation: conversation.clone(), turn }).await.unwrap();
            let said = ModelMessage::User { text: "canary words".to_owned(), attachments: Vec::new() };
            let request =
                ModelRequest { system: String::new(), messages: vec![said], tools: Arc::from([]), work_share: None };
            let answer = model.stream(&request).await.unwrap();
            assert!(answer.count().await > 1);
            let (ending, response) = ("done".to_owned(), OutgoingResponse::from_text("canary answer"));
            bus.publish(BusEvent::TurnCompleted { conversation, turn, ending, response }).await.unwrap();
        });
    });
    drop(exporting);
    let request = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let holds = |words: &str| request.windows(words.len()).any(|window| window == words.as_bytes());
    assert!(holds("POST /v1/traces HTTP/1.1\r\n"));
    for words in ["satchel", "turn", "model.answer", &turn.to_string(), "done", "main"] {
        assert!(holds(words), "{words}");
    }
    assert!(!holds("canary"), "what people say is in no span");
}

#[test]
fn without_a_collector_nothing_is_sent() {
    let of = |pairs: &[(&str, &str)]| {
        let environment: Vec<_> =
            pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        endpoint(&environment)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[(ENDPOINT, "")]), None);
    assert_eq!(of(&[(ENDPOINT, "http://c:4318"), ("OTEL_SDK_DISABLED", "True")]), None);
    assert_eq!(of(&[(ENDPOINT, "http://c:4318/")]).as_deref(), Some("http://c:4318/v1/traces"));
    assert_eq!(of(&[(ENDPOINT, "http://c"), (TRACES_ENDPOINT, "http://d/x")]).as_deref(), Some("http://d/x"));
}
