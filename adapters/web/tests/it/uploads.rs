//! Files on their way in: whole or not at all, and nothing left of those that break off.

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{FileReference, Filename};
use satchel_ports::{Channel, FetchedFile, Storage};
use satchel_wait::wait_until_async;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    api::PNG,
    stage::{FILE_BYTES, Stage, problem, raw, read, signed},
};

#[tokio::test]
async fn upload_is_stored_previewed_and_fetched_with_message() {
    let stage = Stage::new().await;
    let uploaded = stage.uploaded("../../C:\\фото\r\n1.png", PNG).await;
    assert_eq!((&uploaded["filename"], &uploaded["bytes"]), (&json!("фото1.png"), &json!(PNG.len())));
    assert_eq!((&uploaded["mime"], &uploaded["inline"]), (&json!("image/png"), &json!("image")));
    let preview = stage.get(uploaded["preview"].as_str().unwrap()).await;
    assert_eq!(preview.status(), 200);
    assert_eq!(preview.bytes().await.unwrap(), PNG);
    let handle = uploaded["upload"].as_str().unwrap().to_owned();
    stage.say_with("k1", "", std::slice::from_ref(&handle)).await;
    let taken = stage.taken().pop().unwrap();
    let reference: &FileReference = &taken.files[0];
    assert_eq!((reference.locator.as_str(), reference.bytes), (handle.as_str(), Some(PNG.len() as u64)));
    let FetchedFile::Stored(blob) = stage.channel.fetch(reference).await.unwrap() else {
        panic!("nothing is copied");
    };
    assert_eq!(Some(blob.sha256), reference.stored);
    let unreferenced = stage.ledger.find_unreferenced(&[blob.sha256]).await.unwrap();
    assert_eq!(unreferenced, [], "a message that waits keeps its files");
}

#[tokio::test]
async fn empty_and_maximum_size_files_are_accepted() {
    let stage = Stage::new().await;
    for bytes in [0, 1, FILE_BYTES as usize] {
        let uploaded = stage.uploaded("a.bin", vec![7; bytes]).await;
        assert_eq!(uploaded["bytes"], json!(bytes));
        assert_eq!((&uploaded["inline"], &uploaded["preview"]), (&json!("none"), &json!(null)));
    }
}

#[tokio::test]
async fn oversized_upload_is_refused_with_or_without_length() {
    let stage = Stage::new().await;
    let bytes = FILE_BYTES as usize + 1;
    let told = stage.upload("a.bin", vec![7; bytes]).send().await.unwrap();
    let told = problem(told, 413, "too_large").await;
    assert_eq!(told["detail"], "The file is too large; the limit is 300 KB.");
    // Before anything of it was sent.
    let head = format!(
        "POST /api/conversations/a/uploads?filename=a HTTP/1.1\r\nhost: {}\r\ncontent-length: {bytes}\r\n\
         content-type: application/octet-stream\r\n\r\n",
        stage.host()
    );
    assert!(raw(&stage, &head).await.starts_with("HTTP/1.1 413 "));
    let pieces = stream::iter(0..3).map(move |_| Ok::<_, std::io::Error>(Bytes::from(vec![7; bytes / 2])));
    let untold = stage.upload("a.bin", reqwest::Body::wrap_stream(pieces)).send().await.unwrap();
    problem(untold, 413, "too_large").await;
    wait_until_async("nothing is kept", async || stage.stored().is_empty()).await;
}

/// The answer to a file that is far too large is read by a client that still sends.
#[tokio::test]
async fn client_still_sending_receives_too_large_response() {
    let stage = Stage::new().await;
    let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let head = format!(
        "POST /api/conversations/a/uploads?filename=a HTTP/1.1\r\nhost: {}\r\ncontent-length: 40000000\r\n\
         content-type: application/octet-stream\r\n\r\n",
        stage.host()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&vec![7; 20_000_000]).await.unwrap();
    let mut answer = vec![0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let stage = Stage::new().await;
    let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let head = format!(
        "POST /api/conversations/a/uploads?filename=a HTTP/1.1\r\nhost: {}\r\ncontent-length: 200000\r\n\
         content-type: application/octet-stream\r\n\r\n",
        stage.host()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&[7; 100_000]).await.unwrap();
    wait_until_async("it is on its way", async || !stage.stored().is_empty()).await;
    drop(socket);
    wait_until_async("nothing of it is left", async || stage.stored().is_empty()).await;
}

/// What follows a body is the next request, never part of the file.
#[tokio::test]
async fn bytes_beyond_content_length_are_not_stored() {
    let stage = Stage::new().await;
    let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let request = format!(
        "POST /api/conversations/a/uploads?filename=a HTTP/1.1\r\nhost: {}\r\ncontent-length: 5\r\n\
         content-type: application/octet-stream\r\n\r\n12345GARBAGE AND MORE OF IT\r\n\r\n",
        stage.host()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).await.unwrap();
    assert!(answers.starts_with("HTTP/1.1 201 Created") && answers.contains("\"bytes\":5"), "{answers}");
    assert!(answers.contains("HTTP/1.1 400 Bad Request"), "{answers}");
    let stored = stage.stored();
    assert_eq!(stored.len(), 1);
    assert_eq!(std::fs::read(&stored[0]).unwrap(), b"12345");
}

#[tokio::test]
async fn message_accepts_only_fresh_uploads_of_its_conversation() {
    let stage = Stage::new().await;
    let handle = stage.uploaded("a.txt", "abc").await["upload"].as_str().unwrap().to_owned();
    let send = async |conversation: &str, handle: &str| {
        let body = json!({"key": "k", "text": "x", "uploads": [handle]});
        stage.post(&format!("/api/conversations/{conversation}/messages")).json(&body).send().await.unwrap()
    };
    problem(send("b", &handle).await, 422, "unknown_upload").await;
    problem(stage.get(&format!("/api/conversations/b/uploads/{handle}")).await, 404, "not_found").await;
    let (content, signature) = handle.split_once('.').unwrap();
    let cut = &content[..content.len() - 4];
    for forged in [format!("{cut}.{signature}"), content.to_owned(), format!("{handle}x"), String::new()] {
        problem(send("a", &forged).await, 422, "unknown_upload").await;
    }
    let blob = json!({"sha256": "0".repeat(64), "bytes": 3, "mime": "text/plain", "media": {}});
    let at = stage.clock.now().0 - 31 * 60 * 1_000;
    let old = json!({"blob": blob, "conversation": "web:a", "filename": "old.txt", "at": at});
    let expired = problem(send("a", &signed(&stage, "satchel upload 1", &old)).await, 410, "upload_expired").await;
    assert_eq!(expired["detail"], "old.txt was uploaded too long ago; please upload it again.");
    problem(send("a", &signed(&stage, "satchel link 1", &old)).await, 422, "unknown_upload").await;
    assert_eq!(stage.taken(), []);
    assert_eq!(send("a", &handle).await.status(), 202);
    let reference = |locator: String| FileReference::new(locator, Filename::from_untrusted("a.txt"));
    assert!(stage.channel.fetch(&reference(format!("{handle}x"))).await.is_err());
    assert!(stage.channel.fetch(&reference("/etc/passwd".into())).await.is_err());
}

#[tokio::test]
async fn many_files_come_in_at_once() {
    let stage = Stage::new().await;
    let uploads = (0..20).map(|number: u8| {
        let stage = &stage;
        async move { stage.uploaded(&format!("{number}.bin"), vec![number; 100_000]).await }
    });
    let uploaded: Vec<_> = stream::iter(uploads).buffered(20).collect().await;
    for (number, upload) in (0..).zip(&uploaded) {
        assert_eq!(upload["filename"], json!(format!("{number}.bin")));
    }
    assert_eq!(stage.stored().len(), 20);
}

#[tokio::test]
async fn upload_needs_name_and_correct_type() {
    let stage = Stage::new().await;
    let nameless = stage.post("/api/conversations/a/uploads").header("content-type", "application/octet-stream");
    problem(nameless.body("x").send().await.unwrap(), 422, "invalid_request").await;
    let form = stage.post("/api/conversations/a/uploads?filename=a").header("content-type", "multipart/form-data");
    problem(form.body("x").send().await.unwrap(), 403, "wrong_body_type").await;
    for (name, shown) in
        [("%00", "file"), ("..%2F..%2Fetc%2Fpasswd", "passwd"), ("%FF%FE", "\u{FFFD}\u{FFFD}"), ("", "file")]
    {
        let answer = stage
            .post(&format!("/api/conversations/a/uploads?filename={name}"))
            .header("content-type", "application/octet-stream")
            .body("x");
        assert_eq!(read(answer.send().await.unwrap()).await["filename"], shown, "{name}");
    }
}
