//! People's files: as they were sent, or refused by name and with what would help.

use std::path::Path;

use futures::TryStreamExt;
use satchel_contracts::log_capture::LogCapture;
use satchel_domain::{FileReference, Sha256};
use satchel_fake_kit::{FakeFile, Fault, FaultyBlobs};
use satchel_fake_telegram::{ApiRefusal, DOWNLOAD, FileKind, PersonMessage, TelegramFault, TelegramRules};
use satchel_ports::{BlobHint, Blobs, Channel, FetchedFile, FileFetchError};
use satchel_telegram::TelegramChannel;

use super::harness::{ANN, InboundHarness, RecordingInbound};

const MEGABYTE: u64 = 1 << 20;

/// Lets Ann send a file, and returns how it came in.
async fn sent(bench: &InboundHarness, file: FakeFile) -> FileReference {
    bench.fake.person_sends(ANN, ANN, PersonMessage::file(FileKind::Document, file));
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    taker.taken().remove(0).files.remove(0)
}

/// Fetches a file as intake does.
async fn fetched(
    channel: &TelegramChannel,
    reference: &FileReference,
) -> Result<(Option<u64>, Sha256), FileFetchError> {
    let FetchedFile::Bytes { bytes, content } = channel.fetch(reference).await? else {
        unreachable!("it has no store")
    };
    let stored = FaultyBlobs::default().put(content, &BlobHint::default(), u64::MAX).await;
    let stored = stored.map_err(|error| FileFetchError::Retryable { reason: format!("{error:?}") })?;
    Ok((bytes, stored.sha256))
}

async fn refusal(channel: &TelegramChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Permanent { reason }) => reason,
        Err(FileFetchError::NotConfigured { reason, remedy }) => {
            satchel_domain::remedy::owner_message(&reason, &remedy)
        }
        other => unreachable!("not refused: {other:?}"),
    }
}

async fn another_try(channel: &TelegramChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Retryable { reason }) => reason,
        other => unreachable!("not to be tried again: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_arrives_byte_for_byte() {
    let bench = InboundHarness::start().await;
    let file = FakeFile::generated("скан.bin", "application/octet-stream", 3, 19 * MEGABYTE);
    let reference = sent(&bench, file.clone()).await;
    assert_eq!(fetched(&bench.channel(), &reference).await.unwrap(), (Some(19 * MEGABYTE), file.sha256()));
}

#[tokio::test]
async fn oversized_file_is_refused_with_limit_and_remedy() {
    let bench = InboundHarness::start().await;
    let file = FakeFile::generated("film.mov", "video/quicktime", 3, 64_000_000);
    let mut reference = sent(&bench, file).await;
    let told = refusal(&bench.channel(), &reference).await;
    assert_eq!(
        told,
        "it is 64 MB; bots can download at most 20 MB from Telegram: run the Bot API server at `telegram.api_url` with \
         `--local` to remove this limit"
    );
    reference.bytes = None;
    let told = refusal(&bench.channel(), &reference).await;
    assert!(told.starts_with("it is larger; bots can download at most 20 MB from Telegram"), "{told}");
}

#[tokio::test]
async fn cloud_server_is_not_requested_for_oversized_file() {
    let mut bench = InboundHarness::start().await;
    let reference = sent(&bench, FakeFile::generated("film.mov", "video/quicktime", 3, 64_000_000)).await;
    bench.settings.api_url = None;
    let told = refusal(&bench.channel(), &reference).await;
    let remedy = "your own Bot API server (`telegram.api_url`) has no such limit";
    assert_eq!(told, format!("it is 64 MB; bots can download at most 20 MB from Telegram: {remedy}"));
}

#[tokio::test]
async fn local_server_serves_large_files_from_disk() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = InboundHarness::with(TelegramRules::local(root.path().to_owned())).await;
    let file = FakeFile::generated("film.mov", "video/quicktime", 3, 64_000_000);
    let reference = sent(&bench, file.clone()).await;
    let told = refusal(&bench.channel(), &reference).await;
    assert!(told.contains("set `telegram.local_files`"), "{told}");
    bench.settings.local_files = Some(root.path().to_owned());
    assert_eq!(fetched(&bench.channel(), &reference).await.unwrap(), (Some(64_000_000), file.sha256()));
}

#[tokio::test]
async fn local_file_outside_configured_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut bench = InboundHarness::with(TelegramRules::local(root.path().to_owned())).await;
    let reference = sent(&bench, FakeFile::from_bytes("a.txt", "text/plain", "hello")).await;
    let elsewhere = tempfile::tempdir().unwrap();
    bench.settings.local_files = Some(elsewhere.path().to_owned());
    let told = refusal(&bench.channel(), &reference).await;
    assert!(told.contains("outside `telegram.local_files`"), "{told}");
    for path in ["/etc/passwd", "/proc/self/environ"] {
        assert!(Path::new(path).exists());
        let body = format!(r#"{{"ok":true,"result":{{"file_id":"x","file_unique_id":"y","file_path":"{path}"}}}}"#);
        bench.fake.script_next("getFile", TelegramFault::Answer { status: 200, body });
        let told = refusal(&bench.channel(), &reference).await;
        assert!(told.contains("outside `telegram.local_files`") && !told.contains(path), "{told}");
    }
}

#[tokio::test]
async fn what_may_pass_is_to_be_tried_again() {
    let bench = InboundHarness::start().await;
    let file = FakeFile::generated("a.bin", "application/octet-stream", 3, MEGABYTE);
    let reference = sent(&bench, file.clone()).await;
    let channel = bench.channel();
    let temporary = ApiRefusal::new(400, "Bad Request: wrong file_id or the file is temporarily unavailable");
    for (method, fault) in [
        ("getFile", TelegramFault::from(Fault::ServerError)),
        ("getFile", Fault::BadGateway { performed: false }.into()),
        ("getFile", Fault::ResetMidTransfer.into()),
        ("getFile", temporary.into()),
        ("getFile", Fault::RateLimit { retry_after_ms: 1_000 }.into()),
        (DOWNLOAD, Fault::ServerError.into()),
        (DOWNLOAD, Fault::BadGateway { performed: false }.into()),
        (DOWNLOAD, Fault::ResetMidTransfer.into()),
        (DOWNLOAD, ApiRefusal::new(404, "Not Found").into()),
    ] {
        bench.fake.script_next(method, fault.clone());
        let told = another_try(&channel, &reference).await;
        assert!(!told.is_empty(), "{fault:?}");
    }
    assert_eq!(fetched(&channel, &reference).await.unwrap().1, file.sha256());
}

#[tokio::test]
async fn fetch_retry_respects_telegrams_retry_after() {
    let bench = InboundHarness::start().await;
    let reference = sent(&bench, FakeFile::from_bytes("a.txt", "text/plain", "hello")).await;
    bench.fake.script_next("getFile", Fault::RateLimit { retry_after_ms: 2_000 });
    let begun = std::time::Instant::now();
    another_try(&bench.channel(), &reference).await;
    assert!(begun.elapsed().as_secs() >= 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_is_gone_for_good_is_refused() {
    let bench = InboundHarness::start().await;
    let reference = sent(&bench, FakeFile::from_bytes("a.txt", "text/plain", "hello")).await;
    bench.fake.script_next("getFile", ApiRefusal::new(400, "Bad Request: invalid file_id"));
    let told = refusal(&bench.channel(), &reference).await;
    assert!(told.contains("invalid file_id"), "{told}");
    let nonsense = FileReference { locator: "../../etc/passwd".into(), ..reference };
    refusal(&bench.channel(), &nonsense).await;
}

#[tokio::test]
async fn token_never_appears_in_file_errors_or_logs() {
    let bench = InboundHarness::start().await;
    let reference = sent(&bench, FakeFile::generated("a.bin", "text/plain", 3, MEGABYTE)).await;
    let (log, _guard) = LogCapture::listen();
    let channel = bench.channel();
    let echoed = ApiRefusal::new(400, format!("Bad Request: /file/bot{}/x", bench.fake.token()));
    let mut told = format!("{channel:?} {reference:?}");
    for (method, fault) in [
        ("getFile", TelegramFault::from(echoed.clone())),
        ("getFile", Fault::ResetMidTransfer.into()),
        (DOWNLOAD, echoed.into()),
        (DOWNLOAD, Fault::ResetMidTransfer.into()),
        (DOWNLOAD, Fault::BadGateway { performed: false }.into()),
        (DOWNLOAD, Fault::Hang { performed: false }.into()),
    ] {
        bench.fake.script_next(method, fault);
        told += &format!("\n{:?}", fetched(&channel, &reference).await.unwrap_err());
    }
    bench.fake.refuse_connections(std::time::Duration::from_secs(30));
    told += &format!("\n{:?}\n{}", fetched(&channel, &reference).await.unwrap_err(), log.text());
    let (_, secret) = bench.fake.token().split_once(':').unwrap();
    assert!(!told.contains(secret), "{told}");
    assert_eq!(told.matches("<token>").count(), 2, "{told}");
}

#[tokio::test]
async fn a_file_comes_in_pieces() {
    let bench = InboundHarness::start().await;
    let file = FakeFile::generated("a.bin", "application/octet-stream", 3, 19 * MEGABYTE);
    let reference = sent(&bench, file).await;
    let channel = bench.channel();
    let FetchedFile::Bytes { content, .. } = channel.fetch(&reference).await.unwrap() else { panic!("bytes") };
    let pieces = content.map_ok(|piece| piece.len() as u64).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(pieces.iter().sum::<u64>(), 19 * MEGABYTE);
    assert!(pieces.iter().all(|piece| *piece < MEGABYTE), "{:?}", pieces.iter().max());
}
