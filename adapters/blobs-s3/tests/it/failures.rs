//! Buckets that are missing, forbidden, full or away: what the error says, and whether a retry may help.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use satchel_blobs_s3::{BucketError, S3Blobs};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, Blobs};
use satchel_requirements::required;
use satchel_servers::{S3Credentials, TcpProxy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::stage::{PREFIX, Stage, chunks, open, put, read};

/// The bucket's error below that of the port.
fn cause(error: &BlobError) -> &BucketError {
    error.source().and_then(|source| source.downcast_ref()).expect("an error of the bucket")
}

#[tokio::test]
async fn unusable_bucket_is_named_with_its_reason() {
    let Some(stage) = required(Stage::start().await) else { return };
    let (server, port) = (&stage.server, stage.server.port());
    let unknown = S3Credentials { key_id: "AKIAUNKNOWN".to_owned(), secret: "canary".to_owned() };
    let wrong = S3Credentials { secret: "canary".to_owned(), ..server.writer.clone() };
    let bucket = server.bucket();
    for (url, reason) in [
        (server.url_of("missing-bucket", PREFIX, &server.writer, port), "doesn't exist"),
        (server.url_of(bucket, PREFIX, &unknown, port), "doesn't know the access key"),
        (server.url_of(bucket, PREFIX, &wrong, port), "refused the secret key"),
        (
            server.url_of(bucket, PREFIX, &server.reader, port),
            "denied access (403 AccessDenied): writing needs the permission s3:PutObject",
        ),
    ] {
        let blobs = open(&url);
        let error = blobs.check().await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the bucket `") && text.contains(&server.endpoint()), "{text}");
        assert!(text.contains(reason), "{text}");
        assert!(!error.is_retryable());
        let error = put(&blobs, chunks(1)).await.unwrap_err();
        assert!(!cause(&error).is_retryable());
        for text in [text, format!("{error:?} {}", cause(&error))] {
            assert!(!text.contains("canary") && !text.contains(&server.reader.secret), "{text}");
        }
    }
    stage.blobs.check().await.unwrap();
    assert_eq!(stage.bucket.count_leftovers().await, 0, "a check leaves nothing");
}

#[tokio::test]
async fn reader_may_read_and_not_write() {
    let Some(stage) = required(Stage::start().await) else { return };
    let stored = put(&stage.blobs, chunks(1)).await.unwrap();
    let reader = open(&stage.server.url_of(stage.server.bucket(), PREFIX, &stage.server.reader, stage.server.port()));
    assert_eq!(read(&reader, &stored.sha256).await.unwrap().len(), 64 * 1024);
    let error = put(&reader, chunks(200)).await.unwrap_err();
    assert!(cause(&error).to_string().contains("denied access"), "{}", cause(&error));
}

#[tokio::test]
async fn server_that_returns_is_used_again() {
    let Some(stage) = required(Stage::start().await) else { return };
    let proxy = TcpProxy::start(stage.server.port()).await.unwrap();
    let blobs = open(&stage.server.url_of(stage.server.bucket(), PREFIX, &stage.server.writer, proxy.port()));
    let stored = put(&blobs, chunks(1)).await.unwrap();
    proxy.cut();
    let errors = [
        put(&blobs, chunks(2)).await.unwrap_err(),
        blobs.open(&stored.sha256, None).await.map(drop).unwrap_err(),
        blobs.sweep().await.unwrap_err(),
    ];
    for error in &errors {
        assert!(cause(error).is_retryable(), "{error:?}");
        assert!(cause(error).to_string().ends_with("; trying again may help"), "{}", cause(error));
    }
    proxy.mend();
    assert_eq!(read(&blobs, &stored.sha256).await.unwrap().len(), 64 * 1024);
    put(&blobs, chunks(2)).await.unwrap();
}

/// The server that others wrote is never full.
#[tokio::test]
async fn full_store_is_reported_as_full() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // All of a small request.
                let mut request = vec![0; 256 * 1024];
                let _read = client.read(&mut request).await;
                let body = "<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its minimum free \
                            drive threshold.</Message></Error>";
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                let _sent = client.write_all(answer.as_bytes()).await;
            });
        }
    });
    let blobs = open(&format!("s3://key:secret@files?endpoint=http://127.0.0.1:{port}"));
    let error = put(&blobs, Box::pin(futures::stream::iter([Ok("small".into())]))).await.unwrap_err();
    assert!(matches!(error, BlobError::Full(_)), "{error:?}");
    let error = blobs.check().await.unwrap_err().to_string();
    assert!(error.contains("is full (507 XMinioStorageFull)"), "{error}");
}

/// What a test lets a server without end send at most, should nobody leave it.
const MAX_SENT_BYTES: usize = 512 << 20;

/// What the sockets between server and store hold at most.
const SOCKET_BYTES: usize = 24 << 20;

/// Returns the answer to a request, and whether bytes without end follow.
type Answer = fn(&str) -> (String, bool);

/// A store whose server chooses by the request what it answers, and whether bytes without end follow. Counts those.
async fn unusual_store(answer: Answer) -> (S3Blobs, Arc<AtomicUsize>) {
    const PIECE: &[u8] = &[b' '; 64 * 1024];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let port = listener.local_addr().expect("it has an address").port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.expect("a connection");
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                // All of a small request.
                let mut request = vec![0; 64 * 1024];
                let read = client.read(&mut request).await.unwrap_or(0);
                let (head, is_endless) = answer(&String::from_utf8_lossy(&request[..read]));
                let mut is_taken = client.write_all(head.as_bytes()).await.is_ok() && is_endless;
                while is_taken && counter.load(Ordering::Relaxed) < MAX_SENT_BYTES {
                    is_taken = client.write_all(PIECE).await.is_ok();
                    counter.fetch_add(PIECE.len(), Ordering::Relaxed);
                }
            });
        }
    });
    (open(&format!("s3://key:secret@files?endpoint=http://127.0.0.1:{port}")), sent)
}

fn refuse(_: &str) -> (String, bool) {
    ("HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n<Error><Code>AccessDenied</Code>".to_owned(), true)
}

fn list_without_end(_: &str) -> (String, bool) {
    ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<ListBucketResult>".to_owned(), true)
}

/// Lists one file of three bytes, and sends many more of it.
fn send_more_than_listed(request: &str) -> (String, bool) {
    if !request.contains("list-type=2") {
        return ("HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\nconnection: close\r\n\r\n".to_owned(), true);
    }
    let list = format!(
        "<ListBucketResult><Contents><Key>blobs/{}/1</Key><Size>3</Size>\
         <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
        "07".repeat(32)
    );
    (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{list}", list.len()), false)
}

#[tokio::test]
async fn answer_without_end_is_left_at_its_limit() {
    let answers: [(Answer, &str); 2] =
        [(refuse, "denied access (403 AccessDenied)"), (list_without_end, "sent an answer that is too long")];
    for (answer, expected) in answers {
        let (blobs, sent) = unusual_store(answer).await;
        let error = blobs.check().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < (8 << 20) + SOCKET_BYTES, "{expected}: {sent} bytes were taken");
    }
}

#[tokio::test]
async fn file_is_read_no_further_than_its_listed_size() {
    let (blobs, sent) = unusual_store(send_more_than_listed).await;
    assert!(read(&blobs, &Sha256([7; 32])).await.is_err());
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < SOCKET_BYTES, "{sent} bytes were taken");
}
