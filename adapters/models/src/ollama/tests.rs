//! Tests of the search for a local server.

use satchel_fakes::model::{FakeModelServer, ModelWire};

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
    assert_eq!((found.provider, found.model.as_deref()), (Provider::Ollama, Some("qwen3:8b")));
    assert!(found.api_key.is_none());
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(find_at(&format!("http://{closed}/")).await.is_none());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let begun = std::time::Instant::now();
    assert!(find_at(&format!("http://{}/", silent.local_addr().unwrap())).await.is_none());
    assert!(begun.elapsed() < 2 * LONGEST, "nobody waits for long at the start");
}
