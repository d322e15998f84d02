//! What operators see of files, on mocks of the ledger and the blob store.

use std::num::NonZeroU64;

use bytes::Bytes;
use satchel_domain::{AttachmentId, AttachmentSource, Filename, MediaInfo, Sha256, Timestamp, Visibility};
use satchel_intake::forget::BLOB_GRACE;
use satchel_ports::{BlobError, ByteStream, MockBlobs, MockLedger};
use uuid::Uuid;

use super::*;

fn file(id: u128, number: u64, conversation: &str) -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(id)),
        number: NonZeroU64::new(number).unwrap(),
        conversation: conversation.parse().unwrap(),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted("скан.pdf"),
        mime: "application/pdf".to_owned(),
        bytes: 6,
        sha256: Sha256([7; 32]),
        media: MediaInfo { width: Some(2), height: Some(3), duration_ms: Some(1500), animated: false },
        description: "a scan\u{1b}[31m".to_owned(),
        created_at: Timestamp(1_700_000_000_000),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

fn ledger() -> MockLedger {
    let mut ledger = MockLedger::default();
    let files = vec![file(3, 1, "web:b"), file(2, 2, "console:main"), file(1, 1, "console:main")];
    let of_one = files.clone();
    ledger.archive.expect_attachments().returning(move |_| Ok(files.clone()));
    ledger.archive.expect_attachment().returning(move |conversation, key| {
        let fits = |file: &&Attachment| {
            file.conversation == *conversation
                && match key {
                    AttachmentKey::Id(id) => file.id == id,
                    AttachmentKey::Number(number) => file.number.get() == number,
                }
        };
        Ok(of_one.iter().find(fits).cloned())
    });
    ledger
}

fn blobs(pieces: Vec<std::io::Result<Bytes>>) -> MockBlobs {
    let mut blobs = MockBlobs::new();
    let pieces = std::sync::Mutex::new(Some(pieces));
    blobs.expect_open().returning(move |_, _| {
        let pieces = pieces.lock().unwrap().take().unwrap_or_default();
        Ok(Box::pin(futures::stream::iter(pieces)) as ByteStream)
    });
    blobs
}

fn choice(file: FileSelectorArg, conversation: Option<&str>) -> AttachmentSelector {
    AttachmentSelector { file, conversation: conversation.map(|text| text.parse().unwrap()) }
}

#[tokio::test]
async fn files_are_listed_and_shown() {
    let mut out = Vec::new();
    list(&ledger().archive, None, false, &mut out).await.unwrap();
    writeln!(out).unwrap();
    show(&ledger().archive, &choice(FileSelectorArg::Number(2), None), false, &mut out).await.unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
    let mut out = Vec::new();
    list(&ledger().archive, None, true, &mut out).await.unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Attachment>>(&out).unwrap().len(), 3);
}

#[tokio::test]
async fn ambiguous_file_number_requires_conversation() {
    let ledger = ledger();
    let error = find_attachment(&ledger.archive, &choice(FileSelectorArg::Number(1), None)).await.unwrap_err();
    assert!(error.is::<UsageError>());
    assert!(error.to_string().ends_with("--conversation with one of web:b, console:main"), "{error}");
    let found = find_attachment(&ledger.archive, &choice(FileSelectorArg::Number(1), Some("web:b"))).await.unwrap();
    assert_eq!(found.id, AttachmentId(Uuid::from_u128(3)));
    let by_id = find_attachment(&ledger.archive, &choice(FileSelectorArg::Id(AttachmentId(Uuid::from_u128(1))), None))
        .await
        .unwrap();
    assert_eq!(by_id.conversation.to_string(), "console:main");
    for missing in [choice(FileSelectorArg::Number(9), None), choice(FileSelectorArg::Number(2), Some("web:b"))] {
        let error = find_attachment(&ledger.archive, &missing).await.unwrap_err();
        assert!(!error.is::<UsageError>() && error.to_string().contains("no file #"), "{error}");
    }
}

#[tokio::test]
async fn export_is_complete_or_absent_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let which = choice(FileSelectorArg::Number(2), None);
    let whole = || vec![Ok(Bytes::from_static(b"abc")), Ok(Bytes::from_static(b"def"))];
    let mut out = Vec::new();
    export(&ledger().archive, &blobs(whole()), &which, dir.path(), &mut out).await.unwrap();
    assert_eq!(std::fs::read(dir.path().join("скан.pdf")).unwrap(), b"abcdef");
    assert!(String::from_utf8(out).unwrap().ends_with("скан.pdf (6 B)\n"));

    let error = export(&ledger().archive, &blobs(whole()), &which, dir.path(), &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().ends_with("already exists and is not overwritten; choose another path"), "{error}");
    assert_eq!(std::fs::read(dir.path().join("скан.pdf")).unwrap(), b"abcdef");

    let broken = vec![Ok(Bytes::from_static(b"abc")), Err(std::io::Error::other("damaged"))];
    let target = dir.path().join("copy");
    export(&ledger().archive, &blobs(broken), &which, &target, &mut Vec::new()).await.unwrap_err();
    assert!(!target.exists());

    let mut gone = MockBlobs::new();
    gone.expect_open().returning(|sha256, _| Err(BlobError::Missing(*sha256)));
    export(&ledger().archive, &gone, &which, &target, &mut Vec::new()).await.unwrap_err();
    assert!(!target.exists());
}

#[tokio::test]
async fn only_what_nothing_refers_to_is_marked() {
    let mut ledger = MockLedger::default();
    ledger.storage.expect_find_unreferenced().returning(|blobs| Ok(blobs[1..].to_vec()));
    let mut blobs = MockBlobs::new();
    blobs
        .expect_list_stale()
        .withf(|grace| *grace == BLOB_GRACE)
        .returning(|_| Ok(vec![Sha256([1; 32]), Sha256([2; 32])]));
    blobs
        .expect_mark()
        .withf(|marked, grace| marked == [Sha256([2; 32])] && *grace == BLOB_GRACE)
        .times(1)
        .returning(|_, _| Ok(()));
    blobs.expect_sweep().times(1).returning(|| Ok(1_250));
    let mut out = Vec::new();
    gc(&ledger.storage, &blobs, &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "checked 2 old files, deleted 1 unused, freed 1.2 KB\n");
}

#[tokio::test]
async fn usage_is_a_table_of_conversations_and_people() {
    let usage = |scope, workspace_bytes| Usage { scope, files: 2, bytes: 1_250_000, workspace_bytes };
    let mut ledger = MockLedger::default();
    ledger.storage.expect_usages().withf(|query| *query == UsageQuery::All).returning(move |_| {
        Ok(vec![
            usage(UsageScope::Conversation("telegram:-100/42".parse().unwrap()), 4096),
            usage(UsageScope::Person("telegram:7".parse().unwrap()), 0),
        ])
    });
    let mut out = Vec::new();
    show_usage(&ledger.storage, false, &mut out).await.unwrap();
    let table = String::from_utf8(out).unwrap();
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["FILES", "SIZE", "WORKSPACE"], "{table}");
    assert_eq!(words[1], ["conversation", "telegram:-100/42", "2", "1.2", "MB", "4", "KB"], "{table}");
    assert_eq!(words[2], ["person", "telegram:7", "2", "1.2", "MB", "0", "B"], "{table}");
    let mut out = Vec::new();
    show_usage(&ledger.storage, true, &mut out).await.unwrap();
    let read: Vec<Usage> = serde_json::from_slice(&out).unwrap();
    assert_eq!(read[1].scope, UsageScope::Person("telegram:7".parse().unwrap()));
}

#[tokio::test]
async fn removed_files_are_listed_and_needed_ones_fail() {
    let remove = async |outcome: ForgetOutcome, files: &[FileSelectorArg]| {
        let mut ledger = ledger();
        ledger
            .storage
            .expect_forget_file()
            .withf(|forget| forget.restricted_to.is_none() && forget.conversation.to_string() == "console:main")
            .returning(move |_| Ok(outcome.clone()));
        ledger.storage.expect_find_unreferenced().returning(|blobs| Ok(blobs.to_vec()));
        let mut blobs = MockBlobs::new();
        blobs.expect_mark().returning(|_, _| Ok(()));
        blobs.expect_sweep().returning(|| Ok(6));
        let mut out = Vec::new();
        let here = "console:main".parse().unwrap();
        let removed = remove(&ledger.into(), &blobs, files, Some(&here), &mut out).await;
        (removed.map_err(|error| error.to_string()), String::from_utf8(out).unwrap())
    };
    let done = || ForgetOutcome::Forgotten(Box::new(file(2, 2, "console:main")));
    let (removed, out) = remove(done(), &[FileSelectorArg::Number(2), FileSelectorArg::Number(1)]).await;
    assert_eq!(removed, Ok(()));
    assert_eq!(out, "removed #2 скан.pdf of console:main (6 B)\nremoved #1 скан.pdf of console:main (6 B)\n");
    let (removed, out) =
        remove(ForgetOutcome::AlreadyForgotten(Timestamp(1_700_000_000_000)), &[FileSelectorArg::Number(2)]).await;
    assert!(removed.is_ok() && out.starts_with("#2 of console:main was removed on 2023-11-14"), "{out}");
    let (removed, _) = remove(ForgetOutcome::Unsettled, &[FileSelectorArg::Number(2)]).await;
    assert_eq!(
        removed.unwrap_err(),
        "#2 of console:main is still being sent; `satchel outbox list` shows its progress"
    );
    let (removed, _) = remove(ForgetOutcome::InUse, &[FileSelectorArg::Number(2)]).await;
    assert!(removed.unwrap_err().contains("isn't answered yet"));
    let (removed, out) = remove(done(), &[FileSelectorArg::Number(9)]).await;
    assert!(removed.unwrap_err().contains("no file #9") && out.is_empty());
    let (removed, out) = remove(done(), &[FileSelectorArg::Number(2), FileSelectorArg::Number(9)]).await;
    assert!(removed.unwrap_err().contains("no file #9") && out.is_empty(), "nothing is removed: {out}");
}
