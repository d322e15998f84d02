//! People's files: as they were sent, by a new link where the old one has expired, or refused by name.

use std::time::Duration;

use satchel_discord::DiscordChannel;
use satchel_domain::{FileReference, Sha256};
use satchel_fake_discord::{ApiRefusal, CDN, DiscordFault, Permission};
use satchel_fake_kit::{FakeFile, Fault, FaultyBlobs};
use satchel_ports::{BlobHint, Blobs, Channel, FetchedFile, FileFetchError};

use super::bench::{ANN, BOB, Bench, GENERAL, Log, Taker, channel, start, take};

const MEGABYTE: u64 = 1 << 20;
const MESSAGE: &str = "GET /channels/{}/messages/{}";

fn generated(bytes: u64) -> FakeFile {
    FakeFile::generated("скан.bin", "application/octet-stream", 3, bytes)
}

/// Lets Ann send a file, and returns how it came in and the message that carries it.
async fn sent(bench: &Bench, file: FakeFile) -> (FileReference, u64) {
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let message = bench.fake.person_sends(bench.direct, ANN, "", vec![file]);
    let reference = take(&taker, 1).await.remove(0).files.remove(0);
    listening.stop().await;
    (reference, message)
}

/// Fetches a file as intake does.
async fn fetched(channel: &DiscordChannel, reference: &FileReference) -> Result<(Option<u64>, Sha256), FileFetchError> {
    let FetchedFile::Bytes { bytes, content } = channel.fetch(reference).await? else {
        unreachable!("it has no store")
    };
    let stored = FaultyBlobs::default().put(content, &BlobHint::default(), u64::MAX).await;
    let stored = stored.map_err(|error| FileFetchError::Retryable { reason: format!("{error:?}") })?;
    Ok((bytes, stored.sha256))
}

async fn refusal(channel: &DiscordChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Permanent { reason }) => reason,
        other => unreachable!("not refused: {other:?}"),
    }
}

async fn another_try(channel: &DiscordChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Retryable { reason }) => reason,
        other => unreachable!("not to be tried again: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_arrives_byte_for_byte() {
    let bench = start().await;
    let file = generated(9 * MEGABYTE);
    let (reference, _) = sent(&bench, file.clone()).await;
    assert_eq!(fetched(&channel(&bench), &reference).await.unwrap(), (Some(9 * MEGABYTE), file.sha256()));
    assert_eq!((bench.fake.requests(CDN), bench.fake.requests(MESSAGE)), (1, 0));
}

#[tokio::test]
async fn rejected_file_link_is_refreshed() {
    let bench = start().await;
    let file = generated(MEGABYTE);
    let (reference, _) = sent(&bench, file.clone()).await;
    bench.fake.expire_links();
    assert_eq!(fetched(&channel(&bench), &reference).await.unwrap(), (Some(MEGABYTE), file.sha256()));
    assert_eq!((bench.fake.requests(CDN), bench.fake.requests(MESSAGE)), (2, 1));
}

#[tokio::test]
async fn expired_file_link_is_refreshed_without_trying_it() {
    let bench = start().await;
    let file = generated(MEGABYTE);
    bench.fake.links_live(Duration::ZERO);
    let (reference, _) = sent(&bench, file.clone()).await;
    bench.fake.links_live(Duration::from_secs(60));
    assert_eq!(fetched(&channel(&bench), &reference).await.unwrap().1, file.sha256());
    assert_eq!((bench.fake.requests(CDN), bench.fake.requests(MESSAGE)), (1, 1));
}

#[tokio::test]
async fn links_in_replies_and_forwards_are_refreshed_too() {
    let bench = start().await;
    let (fake, taker, file) = (&bench.fake, Taker::new(), generated(MEGABYTE));
    let listening = bench.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, "my plan", vec![file.clone()]);
    fake.person_forwards(bench.direct, ANN, plan);
    take(&taker, 1).await;
    fake.person_replies(GENERAL, ANN, plan, &format!("{} print it", fake.mention()));
    let taken = take(&taker, 2).await;
    listening.stop().await;
    fake.expire_links();
    for message in taken {
        assert_eq!(fetched(&channel(&bench), &message.files[0]).await.unwrap().1, file.sha256(), "{}", message.text);
    }
    assert_eq!(fake.requests(MESSAGE), 2);
}

#[tokio::test]
async fn file_of_deleted_message_is_refused_after_expiry() {
    let bench = start().await;
    let file = generated(MEGABYTE);
    let (reference, message) = sent(&bench, file).await;
    bench.fake.person_deletes(message);
    bench.fake.expire_links();
    let told = refusal(&channel(&bench), &reference).await;
    assert_eq!(told, "Discord no longer has this file: its message was deleted");
}

#[tokio::test]
async fn file_removed_from_its_message_is_refused() {
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(MEGABYTE)).await;
    bench.fake.expire_links();
    let body = format!(r#"{{"id":"1","channel_id":"2","author":{{"id":"{ANN}"}},"attachments":[]}}"#);
    bench.fake.script_next(MESSAGE, DiscordFault::Answer { status: 200, body });
    assert_eq!(refusal(&channel(&bench), &reference).await, "Discord no longer has this file");
}

#[tokio::test]
async fn link_refresh_needs_access_to_channel_history() {
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(MEGABYTE)).await;
    bench.fake.forbid(bench.direct, Permission::ReadHistory);
    assert!(fetched(&channel(&bench), &reference).await.is_ok(), "its own link works all the same");
    bench.fake.expire_links();
    let told = refusal(&channel(&bench), &reference).await;
    assert_eq!(
        told,
        "its link has expired, and the bot has no permission to read this channel's history for a new one"
    );
}

#[tokio::test]
async fn what_may_pass_is_to_be_tried_again() {
    let bench = start().await;
    let file = generated(MEGABYTE);
    let (reference, _) = sent(&bench, file.clone()).await;
    let channel = channel(&bench);
    for (route, fault) in [
        (CDN, DiscordFault::from(Fault::ServerError)),
        (CDN, Fault::BadGateway { performed: false }.into()),
        (CDN, Fault::ResetMidTransfer.into()),
        (CDN, ApiRefusal::new(429, 0, "slow down").into()),
    ] {
        bench.fake.script_next(route, fault.clone());
        assert!(!another_try(&channel, &reference).await.is_empty(), "{fault:?}");
    }
    bench.fake.expire_links();
    for fault in [
        DiscordFault::from(Fault::ServerError),
        Fault::BadGateway { performed: false }.into(),
        Fault::ResetMidTransfer.into(),
        Fault::RateLimit { retry_after_ms: 100 }.into(),
        DiscordFault::Answer { status: 200, body: "[]".into() },
    ] {
        bench.fake.script_next(MESSAGE, fault.clone());
        assert!(!another_try(&channel, &reference).await.is_empty(), "{fault:?}");
    }
    assert_eq!(fetched(&channel, &reference).await.unwrap().1, file.sha256());
}

#[tokio::test]
async fn fetch_retry_respects_discords_retry_after() {
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(MEGABYTE)).await;
    bench.fake.expire_links();
    bench.fake.script_next(MESSAGE, Fault::RateLimit { retry_after_ms: 700 });
    let begun = std::time::Instant::now();
    another_try(&channel(&bench), &reference).await;
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn files_are_fetched_only_from_discords_cdn() {
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(MEGABYTE)).await;
    let elsewhere = reference.locator.replace("127.0.0.1", "localhost");
    assert_ne!(elsewhere, reference.locator);
    let there = FileReference { locator: elsewhere, ..reference.clone() };
    assert!(!refusal(&channel(&bench), &there).await.is_empty());
    let nonsense = FileReference { locator: "../../etc/passwd".into(), ..reference };
    assert_eq!(refusal(&channel(&bench), &nonsense).await, "Discord did not say where the file is");
    assert_eq!(bench.fake.requests(CDN), 0);
}

#[tokio::test]
async fn file_much_larger_than_announced_is_refused() {
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(3 * MEGABYTE)).await;
    let smaller = FileReference { bytes: Some(MEGABYTE), ..reference };
    assert!(!refusal(&channel(&bench), &smaller).await.is_empty());
}

#[tokio::test]
async fn file_link_never_appears_in_errors_or_logs() {
    let (log, _guard) = Log::listen();
    let bench = start().await;
    let (reference, _) = sent(&bench, generated(MEGABYTE)).await;
    let link: serde_json::Value = serde_json::from_str(&reference.locator).unwrap();
    let (_, signed) = link["url"].as_str().unwrap().split_once("hm=").unwrap();
    let signature = signed.trim_end_matches('&').to_owned();
    assert_eq!(signature.len(), 64);
    let channel = channel(&bench);
    let mut told = format!("{channel:?}");
    fetched(&channel, &reference).await.unwrap();
    let echo = ApiRefusal::new(400, 0, format!("what is {signature}?"));
    for (route, fault) in [
        (CDN, DiscordFault::from(Fault::ResetMidTransfer)),
        (CDN, Fault::BadGateway { performed: false }.into()),
        (CDN, Fault::ServerError.into()),
        (CDN, echo.into()),
    ] {
        bench.fake.script_next(route, fault);
        told += &format!("\n{:?}", fetched(&channel, &reference).await.unwrap_err());
    }
    bench.fake.expire_links();
    bench.fake.script_next(MESSAGE, Fault::ResetMidTransfer);
    told += &format!("\n{:?}", fetched(&channel, &reference).await.unwrap_err());
    fetched(&channel, &reference).await.unwrap();
    let told = told + &log.text();
    assert!(log.text().contains("satchel_discord"), "it has listened");
    let (_, secret) = bench.fake.token().rsplit_once('.').unwrap();
    for never in [signature.as_str(), "hm=", "ex=", secret] {
        assert!(!told.contains(never), "{never}: {told}");
    }
}
