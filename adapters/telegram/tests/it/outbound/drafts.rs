//! Previews of a growing reply, as Telegram's drafts.

use satchel_domain::capabilities::StreamRule;
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_ports::PreviewRequest;

use super::*;

fn with_drafts(capabilities: ChannelCapabilities) -> ChannelCapabilities {
    ChannelCapabilities { stream: tables::TELEGRAM_DRAFTS, ..capabilities }
}

async fn stage(rules: TelegramRules) -> OutboundHarness {
    OutboundHarness::with(rules, with_drafts(unpaced())).await
}

fn preview(place: &str, text: &str) -> PreviewRequest {
    PreviewRequest { turn: TurnId(Uuid::from_u128(7)), conversation: conversation(place), text: text.to_owned() }
}

fn seen(stage: &OutboundHarness) -> Vec<String> {
    stage.telegram.transcript().visible_drafts(stage.chat).map(|draft| draft.words.to_string()).collect()
}

/// Catches: a preview that stands in the chat, and one that doesn't look as the reply will.
#[tokio::test]
async fn preview_is_a_draft_of_its_turn_until_the_reply_arrives() {
    let stage = stage(TelegramRules::default()).await;
    let chat = stage.chat.to_string();
    stage.channel.show_preview(&preview(&chat, "It is **so")).await.unwrap();
    stage.channel.show_preview(&preview(&chat, "It is **so** and *not*")).await.unwrap();
    assert_eq!(seen(&stage), ["It is **so** and _not_"], "the later one takes its place");
    assert!(stage.telegram.transcript().messages(stage.chat).is_empty());
    stage.send(text("It is **so** and *not* else.")).await.unwrap();
    assert_eq!(seen(&stage), [""; 0]);
    let transcript = stage.telegram.transcript();
    assert_eq!(transcript.texts(stage.chat), ["It is so and not else."]);
    let ids: Vec<_> = transcript.drafts(stage.chat).iter().map(|draft| draft.id).collect();
    assert_eq!(ids, [7, 7]);
}

#[tokio::test]
async fn preview_in_a_topic_is_seen_there() {
    let stage = stage(TelegramRules::default()).await;
    stage.telegram.enable_private_topics();
    let topic = stage.telegram.private_topic(stage.chat, "Taxes");
    stage.channel.show_preview(&preview(&format!("{}/{topic}", stage.chat), "Hello")).await.unwrap();
    let threads: Vec<_> = stage.telegram.transcript().visible_drafts(stage.chat).map(|draft| draft.thread).collect();
    assert_eq!(threads, [Some(topic)]);
    stage.telegram.delete_topic(stage.chat, topic);
    let refused = stage.channel.show_preview(&preview(&format!("{}/{topic}", stage.chat), "Hello")).await;
    assert!(matches!(refused, Err(SendError::Forbidden { .. })), "it isn't shown elsewhere: {refused:?}");
}

#[tokio::test]
async fn groups_have_no_previews() {
    let stage = OutboundHarness::with(TelegramRules::default(), with_drafts(tables::telegram())).await;
    let rule = |key: &str| stage.channel.capabilities(&conversation(key)).stream;
    for private in ["4711", "4711/42"] {
        assert_eq!(rule(private), tables::TELEGRAM_DRAFTS, "{private}");
    }
    for group in ["-100123", "-100123/42"] {
        assert_eq!(rule(group), StreamRule::Edits { interval_ms: 3_200 }, "{group}");
    }
}

/// Catches: a request for each text on a server that will refuse it.
#[tokio::test]
async fn server_without_drafts_is_asked_once() {
    let stage = stage(TelegramRules::default().without_drafts()).await;
    let chat = stage.chat.to_string();
    let rule = || stage.channel.capabilities(&conversation(&chat)).stream;
    assert_eq!(rule(), tables::TELEGRAM_DRAFTS);
    let refused = stage.channel.show_preview(&preview(&chat, "Hello")).await;
    assert!(matches!(refused, Err(SendError::Forbidden { .. })), "{refused:?}");
    assert_eq!(rule(), StreamRule::Edits { interval_ms: 1_100 });
    stage.send(text("Hello.")).await.unwrap();
}

#[tokio::test]
async fn refusal_of_one_draft_leaves_drafts_on() {
    let stage = stage(TelegramRules::default()).await;
    let chat = stage.chat.to_string();
    for fault in [Fault::BadMarkup, Fault::Forbidden, Fault::RateLimit { retry_after_ms: 1_000 }, Fault::AcceptAndDrop]
    {
        stage.telegram.script_next("sendMessageDraft", fault);
        let answer = stage.channel.show_preview(&preview(&chat, "**Hello**")).await;
        match fault {
            Fault::BadMarkup => assert!(matches!(answer, Err(SendError::Refused { .. })), "{answer:?}"),
            Fault::Forbidden => assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{answer:?}"),
            Fault::RateLimit { .. } => {
                assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(1_000), .. })), "{answer:?}");
            }
            _ => assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}"),
        }
    }
    assert_eq!(stage.channel.capabilities(&conversation(&chat)).stream, tables::TELEGRAM_DRAFTS);
}

/// Catches: a preview after a flood that Telegram has asked to wait out, which the chat's messages would pay for.
#[tokio::test]
async fn flood_of_drafts_closes_the_chat_for_its_time() {
    let stage = OutboundHarness::with(TelegramRules::default(), with_drafts(tables::telegram())).await;
    let chat = stage.chat.to_string();
    let flood = Fault::RateLimit { retry_after_ms: 60_000 };
    stage.telegram.script("sendMessageDraft", FaultTiming::Nth(1), flood);
    let limited = stage.channel.show_preview(&preview(&chat, "One")).await;
    assert!(matches!(limited, Err(SendError::NotSent { retry_after_ms: Some(60_000), .. })), "{limited:?}");
    let postponed = stage.channel.show_preview(&preview(&chat, "One two")).await;
    assert!(matches!(postponed, Err(SendError::NotSent { retry_after_ms: Some(50_000..), .. })), "{postponed:?}");
    assert_eq!(stage.telegram.requests("sendMessageDraft"), 1);
}
