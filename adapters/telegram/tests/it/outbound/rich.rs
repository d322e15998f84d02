//! What becomes of a rich message that Telegram refuses.

use satchel_domain::part::Markup;
use satchel_fake_kit::Fault;
use satchel_fake_telegram::ApiRefusal;

use super::*;

fn table() -> PartContent {
    PartContent::Text { text: "| A |\n|---|\n| 1 |".to_owned(), markup: Markup::Blocks, files: Vec::new() }
}

fn refuse(stage: &OutboundHarness) {
    stage.telegram.script_next("sendRichMessage", ApiRefusal::new(400, "Bad Request: RICH_MESSAGE_DEPTH_INVALID"));
}

/// Catches: a refusal that each attempt asks for anew, which spends what the chat may get before the text in lines.
#[tokio::test]
async fn refused_rich_message_is_in_lines_at_once_with_its_next_attempt() {
    let stage = OutboundHarness::new().await;
    let part = stage.part(table());
    refuse(&stage);
    stage.telegram.script_next("sendMessage", Fault::RateLimit { retry_after_ms: 1_000 });
    let limited = stage.channel.post(&part).await;
    assert!(matches!(limited, Err(SendError::NotSent { retry_after_ms: Some(1_000), .. })), "{limited:?}");
    stage.channel.post(&part).await.unwrap();
    assert_eq!((stage.telegram.requests("sendRichMessage"), stage.texts().len()), (1, 1));
    stage.send(table()).await.unwrap();
    assert_eq!(stage.telegram.requests("sendRichMessage"), 2, "another part is asked about");
}

/// Catches: a server whose only words for an unknown method are those for an unknown path, and a reply that is lost by them.
#[tokio::test]
async fn server_without_the_method_gets_lines() {
    let stage = OutboundHarness::new().await;
    stage.telegram.script_next("sendRichMessage", ApiRefusal::new(404, "Not Found"));
    for _ in 0..2 {
        stage.send(table()).await.unwrap();
    }
    assert_eq!((stage.telegram.requests("sendRichMessage"), stage.texts().len()), (1, 2));
    assert_eq!(stage.channel.capabilities(&conversation("4711")).blocks, None);
}
