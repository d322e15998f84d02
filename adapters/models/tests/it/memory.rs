//! How much memory a large image costs: the text for the wire, once as a value and once as the body, and no more.

use std::sync::Arc;

use satchel_fake_model::ModelWire;
use satchel_models::ModelSettings;
use satchel_requirements::{exclusion::has_own_process, required};
use secrecy::SecretString;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::stage::{PNG, Stage, ask, request, user};

/// The largest image of the table.
const BYTES: usize = 20_000_000;

/// A number of bytes that the system tells of this process; `None` where it tells nothing.
fn memory(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// A server that forgets what it reads, so that only the client's memory counts.
async fn forgetful() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 64 << 10];
            let (mut head, mut left) = (Vec::new(), None::<usize>);
            while left != Some(0) {
                let Ok(read @ 1..) = stream.read(&mut buffer).await else { break };
                match &mut left {
                    Some(left) => *left -= read,
                    None => {
                        head.extend_from_slice(&buffer[..read]);
                        let text = String::from_utf8_lossy(&head).to_lowercase();
                        let Some(end) = text.find("\r\n\r\n") else { continue };
                        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                        let length: usize = length.expect("a length").trim().parse().expect("a number");
                        left = Some(length - (head.len() - end - 4));
                    }
                }
            }
            let body = "data: {\"choices\":[{\"delta\":{\"content\":\"big\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            // A client that is gone needs no answer.
            let _gone = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}/v1/")
}

#[tokio::test]
async fn large_image_memory_use_is_bounded() {
    if !has_own_process() {
        return;
    }
    let stage = Stage::new().await;
    let mut bytes = vec![7_u8; BYTES];
    bytes[..PNG.len()].copy_from_slice(PNG);
    let photo = stage.file("large.png", "image/png", &bytes).await;
    drop(bytes);
    let wire = ModelWire::OpenAiChat;
    let settings = ModelSettings { base_url: Some(SecretString::from(forgetful().await)), ..stage.settings(wire) };
    let model = Arc::new(stage.model_with(settings));
    let before = memory("VmRSS:").ok_or("a system that tells how much memory a process has held");
    let Some(before) = required(before) else { return };
    let answer = ask(&*model, request(vec![user("look", vec![photo])])).await;
    assert_eq!((answer.text().as_str(), answer.error), ("big", None));
    let extra = memory("VmHWM:").expect("it was told before").saturating_sub(before);
    let encoded = BYTES / 3 * 4;
    println!(
        "an image of {BYTES} bytes cost {extra} bytes of memory, {:.1} times its base64",
        extra as f64 / encoded as f64
    );
    assert!(extra < encoded * 4, "{extra} bytes for {encoded} of base64");
}
