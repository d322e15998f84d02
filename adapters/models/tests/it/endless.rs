//! A server that doesn't stop is left before it has filled the memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use satchel_fake_model::ModelWire;
use satchel_models::{ModelSettings, RequestPolicy};
use secrecy::SecretString;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::stage::{Stage, ask, request, short_policy, user};

/// A server that answers everything with `frame`, again and again, and at last with an end that is as it should be.
async fn repeating(frame: String, times: usize, end: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _asked = connection.read(&mut vec![0; 64 << 10]).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let pieces = std::iter::once(head).chain(std::iter::repeat_n(frame.as_str(), times)).chain([end]);
            for piece in pieces {
                if connection.write_all(piece.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    format!("http://{address}/v1/")
}

#[tokio::test]
async fn endless_answer_is_aborted_without_retry() {
    const CHAT_END: &str =
        "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    const MESSAGE_END: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    // How many frames make one; the client handles a long frame slowly.
    const OF_A_MEBIBYTE: usize = 64;
    let long = "x".repeat((1 << 20) / OF_A_MEBIBYTE);
    let chat = |delta: serde_json::Value| format!("data: {}\n\n", json!({ "choices": [{ "delta": delta }] }));
    let call = |name: &str| {
        chat(json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": name, "arguments": "{}" } }] }))
    };
    let chat_wire = ModelWire::OpenAiChat;
    for (what, wire, frame, times, end, wanted) in [
        ("little", chat_wire, chat(json!({ "content": "y" })), 3, CHAT_END, None),
        ("a long thought", chat_wire, chat(json!({ "reasoning_content": long })), 7 * OF_A_MEBIBYTE, CHAT_END, None),
        ("thoughts", chat_wire, chat(json!({ "reasoning_content": long })), 9 * OF_A_MEBIBYTE, CHAT_END, Some("")),
        ("text", chat_wire, chat(json!({ "content": long })), 65 * OF_A_MEBIBYTE, CHAT_END, Some("x")),
        ("what nobody reads", chat_wire, chat(json!({ "padding": long })), 65 * OF_A_MEBIBYTE, CHAT_END, Some("")),
        (
            "frames without an event",
            ModelWire::Anthropic,
            format!("event: {long}\n\n"),
            usize::MAX,
            MESSAGE_END,
            Some(""),
        ),
        ("a name", chat_wire, call(&"n".repeat(257)), 1, CHAT_END, Some("")),
    ] {
        let stage = Stage::new().await;
        let base_url = Some(SecretString::from(repeating(frame, times, end).await));
        let model = stage.model_with(ModelSettings { base_url, ..stage.settings(wire) });
        let asked = ask(&model, request(vec![user("hello", Vec::new())]));
        let answer = tokio::time::timeout(Duration::from_secs(60), asked).await;
        let answer = answer.unwrap_or_else(|_| panic!("{what}: it was waited for"));
        match wanted {
            None => assert!(answer.done && answer.error.is_none(), "{what}: {:?}", answer.error),
            Some(before) => {
                let error = answer.error.as_ref().unwrap_or_else(|| panic!("{what}: it ended well"));
                assert_eq!((error.reason.as_str(), error.retryable), ("its answer did not end", false), "{what}");
                assert_eq!(answer.text().is_empty(), before.is_empty(), "{what}: what was said before stays");
            }
        }
    }
}

/// What a test lets a server without end send at most, should nobody leave it.
const MAX_SENT_BYTES: usize = 512 << 20;

/// What the sockets between server and client hold at most.
const SOCKET_BYTES: usize = 24 << 20;

/// A server that answers everything with `head` and then the same piece until the client leaves. Counts what is taken.
async fn endless(head: &'static str, piece: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    tokio::spawn(async move {
        let piece = piece.repeat((64 << 10) / piece.len());
        while let Ok((mut connection, _)) = listener.accept().await {
            let _asked = connection.read(&mut vec![0; 64 << 10]).await;
            let mut taken = connection.write_all(head.as_bytes()).await.is_ok();
            while taken && counter.load(Ordering::Relaxed) < MAX_SENT_BYTES {
                taken = connection.write_all(piece.as_bytes()).await.is_ok();
                counter.fetch_add(piece.len(), Ordering::Relaxed);
            }
        }
    });
    (format!("http://{address}/v1/"), sent)
}

#[tokio::test]
async fn body_without_end_is_left_at_its_limit() {
    const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n";
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    for wire in ModelWire::ALL {
        for (head, piece, wanted, limit) in [
            (ERROR, "error ", "returned a server error", 64 << 10),
            (ANSWER, "data: {\"choices\":", "its answer did not end", 8 << 20),
            (ANSWER, ": ping\n", "its answer did not end", 64 << 20),
        ] {
            let stage = Stage::new().await;
            let (address, sent) = endless(head, piece).await;
            let settings = ModelSettings { base_url: Some(SecretString::from(address)), ..stage.settings(wire) };
            let model = stage.model_with_policy(settings, RequestPolicy { max_retries: 0, ..short_policy() });
            let asked = ask(&model, request(vec![user("hello", Vec::new())]));
            let answer = tokio::time::timeout(Duration::from_secs(60), asked).await;
            let error = answer.unwrap_or_else(|_| panic!("{wire:?} {piece:?}: it was waited for")).error;
            let error = error.unwrap_or_else(|| panic!("{wire:?} {piece:?}: it ended well"));
            // Ollama's answer consists of lines, of which the first is no JSON.
            let is_unreadable = wire == ModelWire::Ollama && piece.ends_with('\n');
            let wanted = if is_unreadable { "could not be understood" } else { wanted };
            assert!(error.reason.contains(wanted), "{wire:?} {piece:?}: {error}");
            let sent = sent.load(Ordering::Relaxed);
            assert!(sent < limit + SOCKET_BYTES, "{wire:?} {piece:?}: {sent} bytes were taken");
        }
    }
}

/// The vendor's client makes room for as many calls as the highest index says.
#[tokio::test]
async fn index_of_a_call_reserves_no_memory() {
    for function in [json!({ "name": "file_read", "arguments": "{}" }), json!(null), json!(1), json!("x"), json!([])] {
        let calls = json!([{ "index": u32::MAX, "id": "c", "function": function }]);
        let frame = json!({ "choices": [{ "delta": { "tool_calls": calls } }] });
        assert_eq!(refusal(ModelWire::OpenAiChat, format!("data: {frame}\n\n")).await, UNREADABLE, "{function}");
    }
}

/// Proxies give a call the index of its block, before which there are thoughts and text.
#[tokio::test]
async fn first_call_may_have_a_higher_index() {
    const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let chunk = |call: serde_json::Value| {
        format!("data: {}\n\n", json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }))
    };
    for first in [1, 2, 5] {
        let frames = [
            json!({ "index": first, "id": "a", "function": { "name": "file_read", "arguments": "{\"path\":" } }),
            json!({ "index": first, "function": { "arguments": "\"x\"}" } }),
            json!({ "index": first + 1, "id": "b", "function": { "name": "web_search", "arguments": "{}" } }),
        ];
        let stage = Stage::new().await;
        let base_url = Some(SecretString::from(repeating(frames.map(chunk).concat(), 1, END).await));
        let model = stage.model_with(ModelSettings { base_url, ..stage.settings(ModelWire::OpenAiChat) });
        let answer = ask(&model, request(vec![user("hello", Vec::new())])).await;
        assert_eq!((answer.done, answer.error), (true, None), "{first}");
        let calls: Vec<_> = answer.calls.iter().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
        assert_eq!(calls, [("file_read", json!({ "path": "x" })), ("web_search", json!({}))], "{first}");
    }
}

/// The vendor's client copies all that it has of a call for each entry of a frame.
#[tokio::test]
async fn entries_of_a_frame_multiply_no_long_call() {
    let entry = "{\"index\":0,\"function\":{}},".repeat(15_000);
    let long = "x".repeat(3 << 20);
    let frame = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{entry}{{\"index\":0,\"function\":{{\"arguments\":\"{long}\"}}}},{entry}\
         {{\"index\":0,\"function\":{{}}}}]}}}}]}}\n\n"
    );
    assert_eq!(refusal(ModelWire::OpenAiChat, frame).await, UNREADABLE);
}

const UNREADABLE: &str = "the server sent an answer that could not be understood";

/// Why an answer that starts with this frame is refused.
async fn refusal(wire: ModelWire, frame: String) -> String {
    let stage = Stage::new().await;
    let base_url = Some(SecretString::from(repeating(frame, 1, "data: [DONE]\n\n").await));
    let settings = ModelSettings { base_url, ..stage.settings(wire) };
    let model = stage.model_with_policy(settings, RequestPolicy { max_retries: 0, ..short_policy() });
    ask(&model, request(vec![user("hello", Vec::new())])).await.error.expect("it is refused").reason
}
