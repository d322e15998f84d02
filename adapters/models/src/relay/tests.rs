//! Tests of the way between a client and a provider, both of which are sockets here.

use std::net::SocketAddr;

use secrecy::SecretString;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;
use crate::settings::{ModelSettings, ModelTarget};

/// A provider that gives each request this answer and closes the connection. Returns what it was sent last.
async fn provider(answer: Vec<u8>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let request = read_request(&mut connection).await;
        // A client that has read enough closes the connection.
        let _sent = connection.write_all(&answer).await;
        String::from_utf8(request).unwrap()
    });
    (address, serving)
}

/// Reads a request whose body is `{}`.
async fn read_request(connection: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    while !request.ends_with(b"{}") {
        let read = connection.read_buf(&mut request).await.expect("the connection stays");
        assert!(read > 0, "the request comes whole");
    }
    request
}

fn route(address: SocketAddr) -> RelayRoute {
    let settings = ModelSettings {
        name: "main".into(),
        provider: ModelProvider::OpenAi,
        base_url: Some(SecretString::from(format!("http://{address}/v1/?version=2"))),
        api_key: Some(SecretString::from("key")),
        model: Some("model".into()),
        accepts: None,
    };
    let target = ModelTarget::new(settings).unwrap();
    let policy = RequestPolicy {
        response_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        ..RequestPolicy::default()
    };
    RelayRoute {
        http: relay_client().unwrap(),
        url: target.url(),
        provider: target.provider,
        policy,
        error_mapper: ErrorMapper::new(&target),
    }
}

/// Sends a request to the address of a relay as the vendor's client does, and returns the whole response.
async fn call(address: &str) -> String {
    let url = Url::parse(address).unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap();
    let target = format!("{}chat/completions?{}", url.path(), url.query().unwrap());
    let request =
        format!("POST {target} HTTP/1.1\r\nauthorization: Bearer key\r\nhost: relay\r\ncontent-length: 2\r\n\r\n{{}}");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    // A connection that gets no answer may be reset.
    let _ended = connection.read_to_string(&mut response).await;
    response
}

/// Relays one request to a provider with this answer: what the relay says, what the client gets, what the provider got.
async fn relay(answer: &[u8]) -> (Result<(), ProviderError>, String, String) {
    let (address, serving) = provider(answer.to_vec()).await;
    let (relay, route) = (Relay::bind().await.unwrap(), route(address));
    let local = relay.address_for(&route.url).unwrap();
    let (result, response) = tokio::join!(relay.run(route), call(&local));
    (result, response, serving.await.unwrap())
}

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn request_reaches_provider_and_answer_returns() {
    let (result, response, request) = relay(format!("{OK}data: 1\r\n\r\ndata: 2").as_bytes()).await;
    assert_eq!(result, Ok(()));
    assert_eq!(response, format!("{OK}data: 1\n\ndata: 2"));
    assert!(request.starts_with("POST /v1/chat/completions?version=2 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer key\r\n"), "{request}");
    assert!(!request.contains("host: relay") && request.contains("\r\nhost: 127.0.0.1:"), "{request}");
}

#[tokio::test]
async fn cut_answer_ends_for_the_client_after_its_last_whole_frame() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ndata: 1\n\ndata: {\"ha";
    let (result, response, _) = relay(cut.as_bytes()).await;
    assert_eq!(result.unwrap_err().error.reason, "its answer was cut off in the middle");
    assert_eq!(response, format!("{OK}data: 1\n\n"));
}

#[tokio::test]
async fn error_status_is_reported_and_only_its_beginning_read() {
    let refusal = "{\"error\":{\"message\":\"no such voice\"}}";
    let (length, head) = (refusal.len(), "HTTP/1.1 400 Bad Request\r\ncontent-length:");
    let (result, response, _) = relay(format!("{head} {length}\r\n\r\n{refusal}").as_bytes()).await;
    assert_eq!(result.unwrap_err().error.reason, "the server refused the request (400): no such voice");
    assert_eq!(response, OK, "the client sees an answer that ends");

    let endless = "x".repeat(crate::body::MAX_ERROR_BYTES * 4);
    let (result, ..) =
        relay(format!("HTTP/1.1 503 Down\r\ncontent-length: 999999999\r\n\r\n{endless}").as_bytes()).await;
    assert_eq!(result.unwrap_err().error.reason, "the server is overloaded; try again in a few minutes");
}

/// An attempt must not wait as long again for a text that only explains it.
#[tokio::test]
async fn dribbled_error_body_is_left_early() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dribbling = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_request(&mut connection).await;
        let mut sent = connection.write_all(b"HTTP/1.1 503 Down\r\ncontent-length: 999999\r\n\r\n").await;
        while sent.is_ok() {
            // The body has to be late; there is nothing to wait for.
            tokio::time::sleep(Duration::from_millis(100)).await;
            sent = connection.write_all(b"x").await;
        }
    });
    let (relay, route) = (Relay::bind().await.unwrap(), route(address));
    let local = relay.address_for(&route.url).unwrap();
    let started = std::time::Instant::now();
    let (result, _) = tokio::join!(relay.run(route), call(&local));
    assert_eq!(result.unwrap_err().error.reason, "the server is overloaded; try again in a few minutes");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    dribbling.await.unwrap();
}

/// The clock is paused: it moves on only while everything waits.
#[tokio::test(start_paused = true)]
async fn request_that_never_arrives_is_a_failure_of_this_machine() {
    for head in ["", "POST SECRET/v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{"] {
        let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (relay, route) = (Relay::bind().await.unwrap(), route(provider.local_addr().unwrap()));
        let port = relay.listener.local_addr().unwrap().port();
        let mut connection = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let head = head.replace("SECRET", &relay.path_prefix);
        connection.write_all(head.as_bytes()).await.unwrap();
        let ended = timeout(Duration::from_secs(60), relay.run(route)).await;
        let error = ended.expect("it doesn't wait for ever").unwrap_err().error;
        let expected =
            "this machine's loopback connection for the server failed; it may have no free port or file handle";
        assert_eq!((error.reason.as_str(), error.retryable), (expected, true), "{head:?}");
    }
}

/// Every account of the machine can connect to the port; none but the client knows the path.
#[tokio::test]
async fn connection_without_the_secret_path_gets_no_answer() {
    let (address, serving) = provider(format!("{OK}data: 1\n\n").into_bytes()).await;
    let (relay, route) = (Relay::bind().await.unwrap(), route(address));
    let local = relay.address_for(&route.url).unwrap();
    let port = Url::parse(&local).unwrap().port().unwrap();
    let exchange = async {
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let guessed = call(&format!("http://127.0.0.1:{port}/{}/v1/?version=2", Uuid::nil().simple())).await;
        (guessed, call(&local).await)
    };
    let (result, (guessed, response)) = tokio::join!(relay.run(route), exchange);
    assert_eq!((result, guessed.as_str()), (Ok(()), ""));
    assert_eq!(response, format!("{OK}data: 1\n\n"));
    assert!(!serving.await.unwrap().contains(&Uuid::nil().simple().to_string()));
}
