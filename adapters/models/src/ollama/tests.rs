//! Tests of the search for a local server.

use satchel_fake_model::{FakeModelServer, ModelWire};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn a_server_with_a_model_is_found() {
    let server = FakeModelServer::start().await.unwrap();
    let address = server.base_url(ModelWire::Ollama);
    server.remove_models();
    assert!(find_at(&address).await.is_none(), "a server without a model is none");
    server.add_model("all-minilm:latest");
    server.add_model("nomic-embed-text");
    assert!(find_at(&address).await.is_none(), "what only embeds can't talk");
    server.add_model("qwen3:8b");
    let found = find_at(&address).await.expect("it is there");
    assert_eq!((found.provider, found.model.as_deref()), (ModelProvider::Ollama, Some("qwen3:8b")));
    assert!(found.api_key.is_none());
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    assert!(find_at(&format!("http://{closed}/")).await.is_none());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let begun = std::time::Instant::now();
    assert!(find_at(&format!("http://{}/", silent.local_addr().unwrap())).await.is_none());
    assert!(begun.elapsed() < 2 * DISCOVERY_TIMEOUT, "nobody waits for long at the start");
}

#[tokio::test]
async fn list_without_content_length_is_bounded() {
    for (filling, is_found) in [(0, true), (MAX_LIST_BYTES, false)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let _asked = connection.read(&mut [0; 4096]).await.unwrap();
            let list = format!("{{\"models\": [{{\"name\": \"qwen3:8b\"}}]}}{}", " ".repeat(filling));
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{list}");
            // A client that has read enough goes away.
            let _gone = connection.write_all(answer.as_bytes()).await;
        });
        assert_eq!(find_at(&format!("http://{address}/")).await.is_some(), is_found, "{filling} bytes more");
        serving.await.unwrap();
    }
}
