//! What only Telegram answers: about chats that were blocked, left or moved, and kinds that it rejects.

use satchel_domain::delivery::Refusal;
use satchel_fake_kit::Fault;

use super::*;

#[tokio::test]
async fn send_after_block_or_removal_is_forbidden() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.group("Family", &[stage.chat]);
    stage.telegram.person_blocks(stage.chat);
    stage.telegram.kick(group, stage.chat);
    let reason = |answer| match answer {
        Err(SendError::Forbidden { reason }) => reason,
        other => format!("{other:?}"),
    };
    assert_eq!(reason(stage.send(text("hello")).await), "the person has blocked the bot");
    let part = stage.part_in(group, text("hello"));
    assert_eq!(reason(stage.channel.post(&part).await), "the bot was removed from the chat");
    stage.telegram.forget_chat(group);
    assert!(reason(stage.channel.post(&part).await).starts_with("Telegram doesn't know the chat"));
    let elsewhere = PostRequest { conversation: "console:main".parse().unwrap(), ..part };
    assert_eq!(reason(stage.channel.post(&elsewhere).await), "console:main is no chat of Telegram");
}

#[tokio::test]
async fn photo_telegram_rejects_is_unsupported_kind() {
    let stage = OutboundHarness::new().await;
    let item = stage.item(&FakeFile::photo("tall.png", 100, 9_000, 1, 5_000), FileForm::Photo).await;
    let answer = stage.send(PartContent::File(item.clone())).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::UnsupportedKind, .. })), "{answer:?}");
    let as_document = PartContent::File(FileItem { form: FileForm::Document, ..item });
    assert!(stage.send(as_document).await.is_ok(), "a document takes anything");
}

#[tokio::test]
async fn sends_follow_a_moved_chat() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.group("Family", &[stage.chat]);
    let old = stage.channel.post(&stage.part_in(group, text("before"))).await.unwrap();
    let supergroup = stage.telegram.migrate(group);
    let reply_to = Some(old[0].clone());
    let after = stage.channel.post(&PostRequest { reply_to, ..stage.part_in(group, text("after")) }).await.unwrap();
    let file = PartContent::File(stage.item(&photo(1), FileForm::Photo).await);
    stage.channel.post(&stage.part_in(group, file)).await.unwrap();
    let transcript = stage.telegram.transcript();
    assert_eq!(transcript.texts(supergroup), ["after"]);
    assert_eq!(transcript.files(supergroup).len(), 1);
    let calls = stage.telegram.calls();
    let moved = calls.iter().find(|call| call.parameters["chat_id"] == supergroup).unwrap();
    let refers = moved.parameters.contains_key("reply_parameters");
    assert!(!refers, "the old chat's numbers mean other messages in the new one");
    assert_eq!(stage.telegram.requests("sendMessage"), 3, "the way was asked for once");

    let edited = stage.channel.edit(&old[0], &stage.part_in(group, text("edited"))).await;
    assert!(matches!(edited, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{edited:?}");
    stage.channel.delete(&conversation(&group.to_string()), &old[0]).await.unwrap();
    let new = stage.part_in(supergroup, text("edited"));
    assert!(stage.channel.edit(&after[0], &new).await.is_ok(), "by its own name it is an ordinary chat");
}

#[tokio::test]
async fn doubt_after_a_move_is_doubt() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.group("Family", &[stage.chat]);
    stage.telegram.migrate(group);
    stage.telegram.script("sendMessage", satchel_fake_kit::FaultTiming::Nth(2), Fault::AcceptAndDrop);
    let answer = stage.channel.post(&stage.part_in(group, text("hello"))).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
}

#[tokio::test]
async fn text_edited_to_an_album_reports_gone() {
    let stage = OutboundHarness::new().await;
    let sent = stage.send(text("same")).await.unwrap();
    let answer = stage.channel.edit(&sent[0], &stage.part(PartContent::Album { items: Vec::new() })).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
}
