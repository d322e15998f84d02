//! Files on their way out: exactly their bytes, and nothing that a browser would run.

use satchel_ports::{
    Storage,
    ledger::{ForgetOutcome, ForgetRequest},
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    api::PNG,
    stage::{Stage, conversation, header, problem},
};

#[tokio::test]
async fn file_is_served_whole_with_required_headers() {
    let stage = Stage::new().await;
    let (made, path) = stage.file("Отчёт.bin", (0..=255).cycle().take(200_000).collect::<Vec<u8>>()).await;
    let answer = stage.get(&path).await;
    assert_eq!(answer.status(), 200);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-length", "200000"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        (
            "content-disposition",
            "attachment; filename=\"_____.bin\"; filename*=UTF-8''%D0%9E%D1%82%D1%87%D1%91%D1%82.bin",
        ),
        ("etag", &format!("\"{}\"", made.sha256)),
    ] {
        assert_eq!(header(&answer, name), value, "{name}");
    }
    // Whoever logs out, or uses the same browser later, is asked again; what is known costs no bytes.
    assert_eq!(header(&answer, "cache-control"), "private, no-cache");
    let bytes = answer.bytes().await.unwrap();
    assert!(bytes.len() == 200_000 && bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    let head = stage.client.head(stage.url(&path)).send().await.unwrap();
    assert_eq!((head.status().as_u16(), header(&head, "content-length").as_str()), (200, "200000"));
}

#[tokio::test]
async fn pieces_are_sent_as_they_are_asked_for() {
    let stage = Stage::new().await;
    let (made, path) = stage.file("digits.bin", "0123456789").await;
    let tag = format!("\"{}\"", made.sha256);
    for (range, status, told, body) in [
        ("bytes=2-4", 206, "bytes 2-4/10", "234"),
        ("bytes=8-", 206, "bytes 8-9/10", "89"),
        ("bytes=-3", 206, "bytes 7-9/10", "789"),
        ("bytes=0-99999999999999999999999", 206, "bytes 0-9/10", "0123456789"),
        ("bytes=10-", 416, "bytes */10", ""),
        ("bytes=18446744073709551615-18446744073709551615", 416, "bytes */10", ""),
        ("bytes=0-1,4-5", 200, "", "0123456789"),
        ("bytes=4-2", 200, "", "0123456789"),
        ("bytes=x", 200, "", "0123456789"),
        ("lines=1-2", 200, "", "0123456789"),
    ] {
        let answer = stage.client.get(stage.url(&path)).header("range", range).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), header(&answer, "content-range").as_str()), (status, told), "{range}");
        if status == 416 {
            problem(answer, 416, "no_such_range").await;
        } else {
            assert_eq!(answer.text().await.unwrap(), body, "{range}");
        }
    }
    for (name, value, status) in [
        ("if-none-match", tag.as_str(), 304),
        ("if-none-match", "\"other\", *", 304),
        ("if-none-match", "\"other\"", 200),
    ] {
        let answer = stage.client.get(stage.url(&path)).header(name, value).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{name}: {value}");
        assert_eq!(header(&answer, "etag"), tag);
    }
    let changed = stage.client.get(stage.url(&path)).header("range", "bytes=0-1").header("if-range", "\"other\"");
    assert_eq!(changed.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn nothing_that_could_run_is_shown() {
    let stage = Stage::new().await;
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    for (name, content, kind, shown) in [
        ("cat.png", PNG, "image/png", true),
        ("a.svg", svg.as_bytes(), "application/octet-stream", false),
        ("svg.png", svg.as_bytes(), "application/octet-stream", false),
        ("a.html", b"<!doctype html><script>alert(1)</script>", "application/octet-stream", false),
        ("html.png", b"<!doctype html><script>alert(1)</script>", "application/octet-stream", false),
        ("a.js", b"alert(1)", "application/octet-stream", false),
        ("a.css", b"body { }", "application/octet-stream", false),
        ("a.xml", b"<?xml version=\"1.0\"?><x/>", "application/octet-stream", false),
        ("a.pdf", b"%PDF-1.7\n", "application/octet-stream", false),
        ("a.txt", b"words", "application/octet-stream", false),
    ] {
        let (_, path) = stage.file(name, content).await;
        let answer = stage.get(&path).await;
        assert_eq!(header(&answer, "content-type"), kind, "{name}");
        let how = if shown { "inline; " } else { "attachment; " };
        assert!(header(&answer, "content-disposition").starts_with(how), "{name}");
        assert!(header(&answer, "content-security-policy").starts_with("sandbox"), "{name}");
        let saved = stage.get(&format!("{path}?download=1")).await;
        assert!(header(&saved, "content-disposition").starts_with("attachment; "), "{name}");
    }
}

#[tokio::test]
async fn a_name_cant_break_out_of_its_header() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a\"\r\nSet-Cookie: x=y;\r\n\r\n<script>.txt", "x").await;
    let answer = stage.get(&path).await;
    assert_eq!(answer.headers().get("set-cookie"), None);
    let told = header(&answer, "content-disposition");
    let expected = "attachment; filename=\"a_Set-Cookie_ x_y__script_.txt\"; \
                    filename*=UTF-8''a%22Set-Cookie_%20x%3Dy%3B%3Cscript%3E.txt";
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_file_belongs_to_its_conversation() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a.txt", "secret").await;
    problem(stage.get(&path.replace("/a/", "/b/")).await, 404, "not_found").await;
    problem(
        stage.get(&path.to_uppercase().replace("/API/CONVERSATIONS/A/FILES", "/api/conversations/A/files")).await,
        404,
        "not_found",
    )
    .await;
}

/// A file that the disk has damaged must not arrive as if it were whole.
#[tokio::test]
async fn a_damaged_file_breaks_off() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a.bin", vec![7; 100_000]).await;
    let stored = stage.stored().pop().unwrap();
    let mut bytes = std::fs::read(&stored).unwrap();
    bytes[50_000] ^= 1;
    std::fs::write(&stored, bytes).unwrap();
    let arrived = async { stage.client.get(stage.url(&path)).send().await?.bytes().await };
    assert!(arrived.await.is_err(), "it is not complete");
    std::fs::remove_file(&stored).unwrap();
    problem(stage.get(&path).await, 404, "not_found").await;
}

#[tokio::test]
async fn a_reader_that_goes_away_harms_nobody() {
    let stage = Stage::new().await;
    let (_, path) = stage.file("a.bin", vec![7; 5_000_000]).await;
    for _ in 0..10 {
        let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", stage.host());
        socket.write_all(request.as_bytes()).await.unwrap();
        socket.read_exact(&mut [0; 1000]).await.unwrap();
    }
    assert_eq!(stage.get(&path).await.bytes().await.unwrap().len(), 5_000_000);
    assert_eq!(stage.json("/api/session").await["authorized"], json!(true));
}

#[tokio::test]
async fn removed_file_is_listed_as_removed_and_unavailable() {
    let stage = Stage::new().await;
    let (made, path) = stage.file("secret.txt", "some words").await;
    let forget = ForgetRequest { conversation: conversation(), number: 1, restricted_to: None };
    let forgotten = stage.ledger.forget_file(&forget).await.unwrap();
    assert!(matches!(forgotten, ForgetOutcome::Forgotten(_)), "{forgotten:?}");
    problem(stage.get(&path).await, 404, "not_found").await;
    let turns = stage.json("/api/conversations/a/turns").await;
    let shown = turns.to_string();
    assert!(shown.contains(r#""forgotten":true"#) && shown.contains(&made.id.to_string()), "{shown}");
    for trace in ["secret.txt", &made.sha256.to_string()] {
        assert!(!shown.contains(trace), "{trace} is in {shown}");
    }
}
