//! A server that doesn't stop is left before it has filled the memory.

use std::time::Duration;

use satchel_fake_model::ModelWire;
use satchel_models::ModelSettings;
use secrecy::SecretString;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::stage::{Stage, ask, request, user};

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
