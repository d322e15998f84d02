//! What answers mean, and attacks by their heads.

use std::time::Instant;

use rstest::rstest;
use satchel_wait::wait_until_async;
use tokio::net::TcpStream;

use super::{
    server::{ServerStep, StubServer, answer, head, ok, redirect},
    *,
};

#[tokio::test]
async fn a_file_is_fetched() {
    let server = StubServer::saying(vec![ok("Content-Type: Image/PNG; charset=x\r\n", b"bytes")]).await;
    let fetched = fetch(&fetcher_for(&server), &server.url("/a/b.png?sig=secret#there")).await.unwrap();
    assert_eq!(fetched.url, server.url("/a/b.png"), "the address is told without its query");
    assert_eq!((fetched.mime.as_deref(), fetched.bytes), (Some("image/png"), Some(5)));
    assert_eq!(read_bytes(fetched).await.unwrap(), b"bytes");
    let asked = server.heads().concat();
    assert!(asked.starts_with("GET /a/b.png?sig=secret HTTP/1.1\r\n"), "the server gets the query: {asked}");
    assert!(asked.contains("accept-encoding: gzip\r\n"), "{asked}");
}

#[rstest]
#[case(401, "not there: ")]
#[case(403, "not there: ")]
#[case(404, "not there: ")]
#[case(410, "not there: ")]
#[case(408, "not fetched: ")]
#[case(429, "not fetched: ")]
#[case(500, "not fetched: ")]
#[case(503, "not fetched: ")]
#[case(204, "refused: ")]
#[case(206, "refused: ")]
#[case(300, "refused: ")]
#[case(304, "refused: ")]
#[case(400, "refused: ")]
#[case(451, "refused: ")]
#[tokio::test]
async fn error_status_determines_retryability(#[case] status: u16, #[case] begins: &str) {
    let server = StubServer::saying(vec![answer(status, "", b"")]).await;
    let failure = fetch(&fetcher_for(&server), &server.url("/file")).await.map(|fetched| fetched.url).unwrap_err();
    let failure = failure.to_string();
    assert!(failure.starts_with(begins) && failure.contains(&format!("answers {status}")), "{failure}");
}

#[rstest]
#[case("", None)]
#[case("Content-Type: \r\n", None)]
#[case("Content-Type: png\r\n", None)]
#[case("Content-Type: /\r\n", None)]
#[case("Content-Type: text/ht ml\r\n", None)]
#[case("Content-Type:  TEXT/Html ;charset=utf-8\r\n", Some("text/html"))]
#[tokio::test]
async fn claimed_type_is_reported_only_if_valid(#[case] headers: &str, #[case] mime: Option<&str>) {
    let server = StubServer::saying(vec![ok(headers, b"")]).await;
    assert_eq!(fetch(&fetcher_for(&server), &server.url("/")).await.unwrap().mime.as_deref(), mime);
}

/// Headers without end would fill the memory before the first byte of a body.
#[rstest]
#[case::many("X-Flood: 1\r\n".repeat(1_000))]
#[case::one_long("x".repeat(100_000))]
#[tokio::test]
async fn a_flood_of_headers_ends(#[case] flood: String) {
    let begin = b"HTTP/1.1 200 OK\r\nX-Begin: ".to_vec();
    let server =
        StubServer::saying(vec![ServerStep::Send(begin), ServerStep::Repeat(flood.into_bytes(), Duration::ZERO)]).await;
    let failure = fetch(&fetcher_for(&server), &server.url("/file")).await.map(|fetched| fetched.url);
    let Err(FetcherError::Retryable { reason }) = failure else { panic!("{failure:?}") };
    assert!(reason.contains("gave an invalid answer"), "it ended by the flood, not by the clock: {reason}");
}

/// Slow loris: a head that comes letter by letter and never ends.
#[tokio::test]
async fn a_head_that_trickles_ends() {
    let server = StubServer::saying(vec![
        ServerStep::Send(b"HTTP/1.1 200 OK\r\nX-Slow: ".to_vec()),
        ServerStep::Repeat(b"x".to_vec(), Duration::from_millis(20)),
    ])
    .await;
    let before = Instant::now();
    let failure =
        fetch(&fetcher_with_short_idle_timeout(&server), &server.url("/file")).await.map(|fetched| fetched.url);
    let Err(FetcherError::Retryable { reason }) = failure else { panic!("{failure:?}") };
    assert!(reason.ends_with("didn't answer in time"), "{reason}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

/// One that answers each hop just in time must not add the hops' times up without end.
#[tokio::test]
async fn the_time_limit_holds_all_redirects_together() {
    let server = StubServer::start(|_| vec![ServerStep::Pause(Duration::from_millis(250)), redirect("/on")]).await;
    let failure = fetch(&fetcher_with_short_timeout(&server), &server.url("/file")).await.map(|fetched| fetched.url);
    let Err(FetcherError::Retryable { reason }) = failure else { panic!("{failure:?}") };
    assert!(reason.ends_with("didn't answer in time"), "{reason}");
    assert!(server.heads().len() <= 3, "the third was cut at 600 ms");
}

#[tokio::test]
async fn nobody_at_the_address_is_told_as_such() {
    let server = StubServer::victim().await;
    let (url, allowed) = (server.url("/file?sig=secret"), server.address().to_string());
    let address = server.address();
    drop(server);
    wait_until_async("nobody is there", async || TcpStream::connect(address).await.is_err()).await;
    let failure = fetch(&HttpFetcher::new(settings(&[allowed])), &url).await.map(|fetched| fetched.url);
    let Err(FetcherError::Retryable { reason }) = failure else { panic!("{failure:?}") };
    assert!(reason.contains("can't be reached") && !reason.contains("secret"), "{reason}");
}

/// Signed links and passwords are secrets: whoever reads a log or an answer of the assistant must not get them.
#[rstest]
#[case::not_there(vec![answer(404, "", b"")])]
#[case::trouble(vec![answer(500, "", b"")])]
#[case::no_http(vec![ServerStep::Send(b"SECRET\r\n\r\n".to_vec())])]
#[case::too_large(vec![head("Content-Length: 999999\r\n")])]
#[case::packed(vec![ok("Content-Encoding: br\r\n", b"")])]
#[case::nothing(vec![])]
#[case::silent(vec![ServerStep::Hang])]
#[case::to_a_private_network(vec![redirect("http://10.0.0.1/x?key=SECRET#SECRET")])]
#[case::with_credentials(vec![redirect("http://SECRET:SECRET@example.com/")])]
#[case::another_scheme(vec![redirect("ftp://SECRET:SECRET@example.com/?SECRET")])]
#[case::a_loop(vec![redirect("?again=SECRET")])]
#[case::no_address(vec![redirect("http://SECRET:SECRET@/?SECRET")])]
#[case::cut(vec![head("Content-Length: 5\r\n")])]
#[tokio::test]
async fn no_error_tells_credentials_or_a_query(#[case] steps: Vec<ServerStep>) {
    let server = StubServer::saying(steps).await;
    let said = match fetch(&fetcher_with_short_idle_timeout(&server), &server.url("/file?sig=SECRET#SECRET")).await {
        Err(failure) => format!("{failure} {failure:?}"),
        Ok(fetched) => {
            let error = read_bytes(fetched).await.unwrap_err();
            format!("{error} {error:?}")
        }
    };
    assert!(!said.contains("SECRET"), "{said}");
}

#[tokio::test]
async fn first_url_errors_hide_credentials_and_query() {
    let fetcher = HttpFetcher::new(settings(&[]));
    for url in [
        "http://SECRET:SECRET@example.com/?SECRET",
        "http://SECRET:SECRET@:80/?SECRET",
        "SECRET",
        "http://10.0.0.1/?SECRET",
        "http://%/?SECRET",
        &format!("http://example.com/?{}", "SECRET".repeat(2_000)),
    ] {
        let reason = refusal(&fetcher, url).await;
        assert!(!reason.contains("SECRET"), "{reason}");
    }
}

/// The tests' build has reqwest's HTTP/2, as what ships has.
#[tokio::test]
async fn only_http_1_is_offered() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hello = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = vec![0; 4_096];
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await.unwrap();
        hello[..read].to_vec()
    });
    let fetcher = HttpFetcher::new(settings(&[address.to_string()]));
    let failure = fetch(&fetcher, &format!("https://{address}/file")).await.map(|fetched| fetched.url);
    assert!(matches!(failure, Err(FetcherError::Retryable { .. })), "{failure:?}");
    let hello = hello.await.unwrap();
    let offers = |name: &[u8]| hello.windows(name.len()).any(|bytes| bytes == name);
    assert_eq!((offers(b"\x08http/1.1"), offers(b"\x02h2")), (true, false));
}
