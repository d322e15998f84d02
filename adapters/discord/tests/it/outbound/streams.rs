//! Files flow: whole, shown while they do, and never in part.

use satchel_fake_kit::Fault;

use super::*;

#[tokio::test]
async fn large_file_arrives_whole() {
    let stage = Stage::new().await;
    stage.discord.boost(GUILD, Tier::Two);
    let file = FakeFile::generated("big.bin", "application/octet-stream", 7, 40_000_000);
    let item = stage.item(&file).await;
    stage.send(PartContent::File(item)).await.unwrap();
    let transcript = stage.discord.transcript();
    let arrived = transcript.files(stage.place)[0];
    assert_eq!((arrived.bytes, arrived.sha256), (40_000_000, file.sha256()));
}

#[tokio::test]
async fn long_upload_shows_typing() {
    let stage = Stage::new().await;
    let part = stage.part(PartContent::File(stage.item(&small("a.bin", 1)).await));
    let timeouts = HttpTimeouts { response: Duration::from_secs(1), ..SHORT };
    let (settings, blobs) = (settings(&stage.discord, unpaced()), Arc::clone(&stage.blobs) as _);
    let channel = DiscordChannel::with_timeouts(&settings, blobs, fetcher(), timeouts).unwrap();
    stage.discord.script_next("POST /channels/{}/messages", Fault::Hang { performed: true });
    let answer = channel.send(&part).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
    assert_eq!(stage.discord.transcript().channels[&stage.place].typed, 1);
}

#[tokio::test]
async fn truncated_file_is_not_sent() {
    for damage in ["missing", "damaged", "shorter", "longer"] {
        let stage = Stage::new().await;
        let file = FakeFile::generated("a.bin", "application/octet-stream", 7, 300_000);
        let mut items = vec![stage.item(&small("b.bin", 1)).await, stage.item(&file).await];
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
        assert_eq!(stage.discord.transcript().visible(stage.place).count(), 0, "{damage}");
    }
}
