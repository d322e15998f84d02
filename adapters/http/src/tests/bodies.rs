//! Attacks by what comes: too much, too slowly, too little, packed.

use std::time::Instant;

use async_compression::tokio::bufread::GzipEncoder;
use rstest::rstest;
use tokio::io::AsyncReadExt;

use super::{
    server::{ServerStep, StubServer, head, ok},
    *,
};

async fn gzip(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    GzipEncoder::new(content).read_to_end(&mut packed).await.expect("memory can be read");
    packed
}

/// A server that says at once how much too much it would send: not a byte is read.
#[tokio::test]
async fn oversized_content_length_is_refused_before_reading() {
    let server = StubServer::saying(vec![head("Content-Length: 250000\r\n"), ServerStep::Hang]).await;
    let reason = refusal(&fetcher_for(&server), &server.url("/file?sig=secret")).await;
    assert!(reason.ends_with("/file has 250 KB, the limit is 100 KB"), "{reason}");
    let server = StubServer::saying(vec![head("Content-Length: 18446744073709551000\r\n"), ServerStep::Hang]).await;
    refusal(&fetcher_for(&server), &server.url("/file")).await;
}

/// A server that says nothing of the size, and sends too much.
#[tokio::test]
async fn oversized_body_fails_instead_of_being_cut() {
    let server = StubServer::saying(vec![head(""), ServerStep::Send(vec![b'x'; LIMIT as usize])]).await;
    assert_eq!(fetch_body(&server).await.map(|bytes| bytes.len()), Ok(LIMIT as usize), "what just fits is taken");
    let server = StubServer::saying(vec![head(""), ServerStep::Send(vec![b'x'; LIMIT as usize + 1])]).await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::FileTooLarge));
}

/// A server that never ends.
#[tokio::test]
async fn an_endless_body_ends() {
    let server = StubServer::saying(vec![head(""), ServerStep::Repeat(vec![b'x'; 10_000], Duration::ZERO)]).await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::FileTooLarge));
    let chunk = b"5\r\nhello\r\n".repeat(1_000);
    let server =
        StubServer::saying(vec![head("Transfer-Encoding: chunked\r\n"), ServerStep::Repeat(chunk, Duration::ZERO)])
            .await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::FileTooLarge));
}

/// A server that sends a byte now and then, never silent for long, to hold us for as long as it likes.
#[tokio::test]
async fn an_endless_trickle_ends() {
    let server = StubServer::saying(vec![head(""), ServerStep::Repeat(b"x".to_vec(), Duration::from_millis(50))]).await;
    let before = Instant::now();
    assert_eq!(fetch_body_with(&fetcher_with_short_timeout(&server), &server).await, Err(io::ErrorKind::TimedOut));
    assert!((600..5_000).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
}

/// What comes steadily is taken for longer than the limit, or large files would never come over slow lines.
#[tokio::test]
async fn steady_large_download_outlasts_time_limit() {
    let piece = vec![b'x'; 200_000];
    let steps = (0..12).flat_map(|_| [ServerStep::Send(piece.clone()), ServerStep::Pause(Duration::from_millis(100))]);
    let server = StubServer::saying([head("")].into_iter().chain(steps).collect()).await;
    let request = FetchRequest { url: server.url("/"), hosts: HostPolicy::Public, max_bytes: u64::MAX };
    let fetched = fetcher_with_short_timeout(&server).fetch(&request).await.unwrap();
    assert_eq!(read_bytes(fetched).await.unwrap().len(), 12 * 200_000);
}

/// A server that begins and then says nothing, without closing.
#[tokio::test]
async fn a_body_that_stops_ends() {
    let server =
        StubServer::saying(vec![head("Content-Length: 9\r\n"), ServerStep::Send(b"hello".to_vec()), ServerStep::Hang])
            .await;
    let before = Instant::now();
    assert_eq!(fetch_body_with(&fetcher_with_short_idle_timeout(&server), &server).await, Err(io::ErrorKind::TimedOut));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

/// A line that breaks: what has come is no file.
#[rstest]
#[case::fewer_than_promised("Content-Length: 9\r\n", b"hello")]
#[case::chunks_without_the_last("Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n")]
#[case::half_a_chunk("Transfer-Encoding: chunked\r\n", b"5\r\nhel")]
#[tokio::test]
async fn truncated_body_ends_in_error(#[case] headers: &str, #[case] body: &[u8]) {
    let server = StubServer::saying(vec![head(headers), ServerStep::Send(body.to_vec())]).await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn what_is_packed_is_unpacked_all_of_it() {
    let packed = [gzip(b"hello ").await, gzip(b"world").await].concat();
    let server = StubServer::saying(vec![ok("Content-Encoding: gzip\r\n", &packed)]).await;
    let fetched = fetch(&fetcher_for(&server), &server.url("/")).await.unwrap();
    assert_eq!(fetched.bytes, None, "the size of what is packed is no size of the file");
    assert_eq!(read_bytes(fetched).await.unwrap(), b"hello world");
}

/// A bomb: 64 KB that become 64 MB.
#[tokio::test]
async fn a_bomb_of_gzip_is_counted_unpacked() {
    let bomb = gzip(&vec![0; 64 << 20]).await;
    assert!((bomb.len() as u64) < LIMIT, "the size that it claims passes: {}", bomb.len());
    let server = StubServer::saying(vec![ok("Content-Encoding: gzip\r\n", &bomb)]).await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::FileTooLarge));
}

/// Packed nothing, again and again: the file stays empty and the line stays busy.
#[tokio::test]
async fn endless_gzip_without_content_ends() {
    let nothing = gzip(b"").await.repeat(100);
    let server =
        StubServer::saying(vec![head("Content-Encoding: gzip\r\n"), ServerStep::Repeat(nothing, Duration::ZERO)]).await;
    assert_eq!(fetch_body(&server).await, Err(io::ErrorKind::FileTooLarge));
}

/// Cut inside the packed data while HTTP itself ends well; and something behind it that nobody would see.
#[tokio::test]
async fn cut_or_damaged_gzip_ends_in_error() {
    let packed = gzip(b"hello, this is a file").await;
    let mut damaged = packed.clone();
    let last = damaged.len() - 5;
    damaged[last] ^= 0xff;
    for broken in [&packed[..packed.len() - 1], &packed[..12], b"", &[&packed[..], b"more"].concat(), &damaged] {
        let server = StubServer::saying(vec![ok("Content-Encoding: gzip\r\n", broken)]).await;
        assert!(fetch_body(&server).await.is_err(), "{broken:02x?}");
    }
}

/// Bytes that we couldn't unpack would be kept as they came, and be no file of the type that they claim.
#[rstest]
#[tokio::test]
async fn unknown_packing_is_refused(
    #[values("br", "deflate", "zstd", "gzip, gzip", "gzip\r\nContent-Encoding: gzip", "compress")] encoding: &str,
) {
    let server = StubServer::saying(vec![ok(&format!("Content-Encoding: {encoding}\r\n"), b"x")]).await;
    assert!(refusal(&fetcher_for(&server), &server.url("/file")).await.contains("compressed"));
}
