//! Files flow: whole, shown while they do, and never in part.

use satchel_domain::part::FileForm;
use satchel_fake_kit::Fault;

use super::*;

#[tokio::test]
async fn large_file_arrives_whole() {
    let stage = OutboundHarness::new().await;
    let file = FakeFile::generated("big.bin", "application/octet-stream", 7, 40_000_000);
    let item = stage.item(&file, FileForm::Document).await;
    stage.send(PartContent::File(item)).await.unwrap();
    let transcript = stage.telegram.transcript();
    let arrived = transcript.files(stage.chat)[0];
    assert_eq!((arrived.bytes, arrived.sha256), (40_000_000, file.sha256()));
}

#[tokio::test]
async fn long_upload_shows_its_action() {
    let stage = OutboundHarness::new().await;
    let part = stage.part(PartContent::File(stage.item(&photo(1), FileForm::Document).await));
    let timeouts = HttpTimeouts { response: Duration::from_secs(1), ..SHORT };
    let settings = settings(&stage.telegram, unpaced());
    let channel = TelegramChannel::with_timeouts(&settings, Arc::clone(&stage.blobs) as _, timeouts).unwrap();
    stage.telegram.script_next("sendDocument", Fault::Hang { performed: true });
    let answer = channel.send(&part).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
    assert_eq!(stage.telegram.transcript().chats[&stage.chat].actions, ["upload_document"]);
}

#[tokio::test]
async fn truncated_file_is_not_sent() {
    for damage in ["missing", "damaged", "shorter", "longer"] {
        let stage = OutboundHarness::new().await;
        let file = FakeFile::generated("a.bin", "application/octet-stream", 7, 300_000);
        let mut items =
            vec![stage.item(&photo(1), FileForm::Document).await, stage.item(&file, FileForm::Document).await];
        match damage {
            "missing" => stage.blobs.lose(&file.sha256()),
            "damaged" => stage.blobs.damage(&file.sha256()),
            "shorter" => items[1].attachment.bytes += 1,
            _ => items[1].attachment.bytes -= 1,
        }
        for content in [PartContent::File(items[1].clone()), PartContent::Album { items }] {
            let answer = stage.send(content).await;
            assert!(matches!(answer, Err(SendError::Unreadable { .. })), "{damage}: {answer:?}");
        }
        assert_eq!(stage.telegram.transcript().visible(stage.chat).count(), 0, "{damage}");
    }
}
