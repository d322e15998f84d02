//! Missing, partial and invalid responses, and uploads that stall.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use reqwest::{Body, Method, multipart};
use rstest::rstest;
use satchel_ports::ByteStream;
use satchel_wait::wait_until;

use super::*;
use crate::{
    ApiClient, ApiClientSettings, ServerUrl,
    error::tests::StubRefusal,
    stub_server::{ServerScript, StubServer},
};

const CANARY: &str = "canary-token";

/// Timeouts for tests in which no response arrives.
const SHORT: HttpTimeouts = HttpTimeouts {
    connect: Duration::from_millis(500),
    response: Duration::from_millis(600),
    idle: Duration::from_millis(400),
};

fn client(server: &str) -> ApiClient {
    let server = ServerUrl::parse(server).unwrap();
    ApiClient::new(ApiClientSettings { server, user_agent: "test", http1_only: true, timeouts: SHORT }).unwrap()
}

/// Calls a method whose path holds the token, at an address with credentials.
async fn call(scheme: &str, host: &str) -> Result<ApiResponse, CallError<StubRefusal>> {
    let request = client(&format!("{scheme}://{CANARY}:{CANARY}@{host}")).request(Method::POST, &format!("/{CANARY}"));
    exchange(request, &UploadProgress::none(), SHORT).await
}

fn assert_redacted(error: &CallError<StubRefusal>) {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(CANARY) && !shown.contains("127.0.0.1"), "{shown}");
}

#[tokio::test]
async fn unwritten_requests_are_not_connected() {
    // It has a port and does not listen.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = socket.local_addr().unwrap().to_string();
    let plain = StubServer::start(ServerScript::Respond("no encryption")).await;
    for (scheme, host) in
        [("http", closed), ("http", "nowhere.invalid".to_owned()), ("https", format!("127.0.0.1:{}", plain.port))]
    {
        let error = call(scheme, &host).await.unwrap_err();
        assert!(matches!(error, CallError::NotConnected { .. }), "{scheme}://{host}: {error:?}");
        assert_redacted(&error);
    }
}

#[rstest]
#[case::connection_closed(ServerScript::Respond(""), "")]
#[case::silence(ServerScript::RespondAndHold(""), "no response in time")]
#[case::half_a_head(ServerScript::Respond("HTTP/1.1 200 OK\r\n"), "")]
#[case::no_http(ServerScript::Respond("what is this\r\n\r\n"), "")]
#[case::half_a_body(ServerScript::Respond("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"), "")]
#[case::stopped(
    ServerScript::RespondAndHold("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
    "the response ended early"
)]
#[tokio::test]
async fn incomplete_responses_are_lost(#[case] script: ServerScript, #[case] expected: &str) {
    let server = StubServer::start(script).await;
    let error = call("http", &format!("127.0.0.1:{}", server.port)).await.unwrap_err();
    assert!(matches!(&error, CallError::Lost { reason } if reason.contains(expected)), "{error:?}");
    assert_redacted(&error);
    assert!(server.request().await.starts_with(format!("POST /{CANARY} HTTP/1.1").as_bytes()));
}

#[tokio::test]
async fn endless_response_is_invalid() {
    let server = StubServer::start(ServerScript::RespondForever("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")).await;
    let error = call("http", &format!("127.0.0.1:{}", server.port)).await.unwrap_err();
    let expected = CallError::InvalidResponse { status: 200, reason: "the response is too long".to_owned() };
    assert_eq!(error, expected);
}

#[tokio::test]
async fn endless_error_is_its_beginning() {
    let head = "HTTP/1.1 502 Bad Gateway\r\nretry-after: 7\r\nconnection: close\r\n\r\n<html>";
    let server = StubServer::start(ServerScript::RespondForever(head)).await;
    let response = call("http", &format!("127.0.0.1:{}", server.port)).await.unwrap();
    assert_eq!((response.status, response.body.len()), (502, MAX_ERROR_BYTES));
    assert!(response.body.starts_with(b"<html>") && response.headers["retry-after"] == "7");
}

#[tokio::test]
async fn redirect_response_is_returned_unfollowed() {
    let response_text = "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.invalid\r\ncontent-length: 3\r\n\r\nyes";
    let server = StubServer::start(ServerScript::Respond(response_text)).await;
    let response = call("http", &format!("127.0.0.1:{}", server.port)).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (302, &b"yes"[..]), "redirects are not followed");
    assert_eq!(response.headers["location"], "http://elsewhere.invalid");
}

const CHUNK: usize = 64 * 1024;

/// Chunks of a file with a pause before each, of which `counter` counts those that were read; after them comes silence.
fn slow_file(chunks: usize, pause: Duration, counter: Arc<AtomicUsize>) -> ByteStream {
    let chunks = stream::iter(0..chunks).then(move |_| {
        let counter = Arc::clone(&counter);
        async move {
            // A file as slow as the test says.
            tokio::time::sleep(pause).await;
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::from(vec![7; CHUNK]))
        }
    });
    chunks.chain(stream::pending()).boxed()
}

/// Uploads a file of so many chunks, of which a stream yields what it will.
async fn upload(
    server: &StubServer,
    content: ByteStream,
    chunks: usize,
    timeouts: HttpTimeouts,
) -> Result<ApiResponse, CallError<StubRefusal>> {
    let bytes = (chunks * CHUNK) as u64;
    let progress = UploadProgress::new(bytes);
    // The stream of a whole file ends with its last chunk.
    let body = Body::wrap_stream(progress.watch(content, bytes));
    let form = multipart::Form::new().part("file", multipart::Part::stream_with_length(body, bytes));
    let request = client(&format!("http://127.0.0.1:{}", server.port)).request(Method::POST, "/").multipart(form);
    exchange(request, &progress, timeouts).await
}

const YES: ServerScript = ServerScript::Respond("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes");

#[tokio::test]
async fn slow_upload_outlasts_idle_timeout() {
    let server = StubServer::start(YES).await;
    // Twice the time limit for silence, and never silent for long.
    let timeouts = HttpTimeouts { idle: Duration::from_millis(700), ..SHORT };
    let file = slow_file(10, Duration::from_millis(150), Arc::default()).take(10).boxed();
    let response = upload(&server, file, 10, timeouts).await.unwrap();
    assert_eq!(response.body, b"yes");
    let request = server.request().await;
    assert_eq!(request.iter().filter(|byte| **byte == 7).count(), 10 * CHUNK);
}

#[tokio::test]
async fn stalled_upload_is_lost() {
    let server = StubServer::start(YES).await;
    let error = upload(&server, slow_file(3, Duration::ZERO, Arc::default()), 10, SHORT).await.unwrap_err();
    assert_eq!(error, CallError::Lost { reason: "no response in time".to_owned() });
}

#[tokio::test]
async fn files_are_read_no_faster_than_taken() {
    let server = StubServer::start(ServerScript::ReadNothing).await;
    let (counter, chunks) = (Arc::default(), 640);
    let error = upload(&server, slow_file(chunks, Duration::ZERO, Arc::clone(&counter)), chunks, SHORT).await;
    assert!(matches!(error, Err(CallError::Lost { .. })), "{error:?}");
    // What the sockets' buffers hold, and no more: the file waits in the store and not in memory.
    let read = counter.load(Ordering::Relaxed) * CHUNK;
    assert!(read < 16 << 20, "{read} bytes were read");
}

#[tokio::test]
async fn unreadable_file_leaves_its_request_incomplete() {
    let chunk = || Ok(Bytes::from(vec![7; CHUNK]));
    let broken = || Err(std::io::Error::other("the disk is gone"));
    for (content, expected) in [
        (vec![chunk()], "its size differs from the stored size"),
        (vec![chunk(), chunk(), chunk()], "its size differs from the stored size"),
        (vec![chunk(), broken()], "the disk is gone"),
    ] {
        let server = StubServer::start(YES).await;
        let error = upload(&server, stream::iter(content).boxed(), 2, SHORT).await.unwrap_err();
        assert_eq!(error, CallError::Unreadable { reason: expected.to_owned() });
        let request = server.request().await;
        assert!(!request.ends_with(b"--\r\n"), "the form has no end");
    }
}

#[tokio::test]
async fn dropped_upload_closes_its_connection() {
    let server = StubServer::start(ServerScript::RespondAndHold("")).await;
    let counter: Arc<AtomicUsize> = Arc::default();
    let started = wait_until("all of it is read", || counter.load(Ordering::Relaxed) == 5);
    tokio::select! {
        result = upload(&server, slow_file(5, Duration::ZERO, Arc::clone(&counter)), 10, SHORT) => {
            panic!("it never ends by itself: {result:?}")
        }
        () = started => {}
    }
    let request = server.request().await;
    assert!(!request.ends_with(b"--\r\n"), "the connection has ended before the form");
}
