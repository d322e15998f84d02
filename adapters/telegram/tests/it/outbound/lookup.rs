//! Looking for a send whose answer was lost, by asking whose the ids are that nobody knows.

use satchel_domain::{Button, part::FileForm};
use satchel_fake_kit::{Fault, RequestPhase};
use satchel_ports::{
    LookupOutcome, LookupRange, LookupRequest,
    ledger::{RecordedMessage, RecordedMessages},
};

use super::*;

const LOOKUP_METHOD: &str = "stopMessageLiveLocation";

/// A process that knows nothing of what was sent before it.
fn restarted(stage: &OutboundHarness) -> TelegramChannel {
    let settings = settings(&stage.telegram, unpaced());
    TelegramChannel::with_timeouts(&settings, Arc::clone(&stage.blobs) as _, SHORT).unwrap()
}

/// A look-up behind this message of a person, which the ledger knows.
fn behind(message: i64, request: &PostRequest) -> LookupRequest {
    let recorded = |message: i64| RecordedMessage {
        conversation: request.conversation.clone(),
        message: MessageRef(message.to_string()),
    };
    let recorded = RecordedMessages { before: vec![recorded(message)], ..RecordedMessages::default() };
    LookupRequest { part: request.clone(), range: LookupRange::After(None), attempts: 1, recorded }
}

fn found(ids: &[i64]) -> LookupOutcome {
    let messages = ids.iter().map(|id| MessageRef(id.to_string())).collect();
    LookupOutcome::Found { messages, duplicates: Vec::new() }
}

fn is_uncertain(outcome: &LookupOutcome) -> bool {
    matches!(outcome, LookupOutcome::Uncertain { .. })
}

/// Sends a part that meets this fault, which leaves it in doubt.
async fn doubt(stage: &OutboundHarness, request: &PostRequest, fault: Fault) {
    stage.telegram.script_next("send*", fault);
    let answer = stage.channel.post(request).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
}

/// What the bot has said in a chat, by ids.
fn ids(stage: &OutboundHarness, chat: i64) -> Vec<i64> {
    stage.telegram.transcript().visible(chat).map(|message| message.id).collect()
}

#[tokio::test]
async fn what_arrived_is_found_whatever_it_is() {
    let stage = OutboundHarness::new().await;
    let mut album = Vec::new();
    for seed in 0..3 {
        album.push(stage.item(&photo(seed), FileForm::Photo).await);
    }
    let document = stage.item(&photo(9), FileForm::Document).await;
    let buttons = vec![Button { label: "Yes".into(), command: "/allow x".into() }];
    let question = PartContent::question("May I?", buttons);
    let contents = [
        text("hello"),
        PartContent::File(document),
        stage.voice(false).await,
        PartContent::Album { items: album },
        question,
    ];
    for content in contents {
        let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
        let (part, standing) = (stage.part(content), ids(&stage, stage.chat).len());
        doubt(&stage, &part, Fault::AcceptAndDrop).await;
        let arrived = ids(&stage, stage.chat)[standing..].to_vec();
        assert_eq!(arrived.len(), if part.content.kind() == "album" { 3 } else { 1 });
        let shown = stage.telegram.transcript().to_string();
        for channel in [&restarted(&stage), &*stage.channel] {
            assert_eq!(channel.find_sent(&behind(before, &part)).await, Ok(found(&arrived)), "{}", part.content.kind());
        }
        assert_eq!(stage.telegram.transcript().to_string(), shown, "a look-up changes nothing");
    }
}

#[tokio::test]
async fn what_did_not_arrive_is_absent() {
    let stage = OutboundHarness::new().await;
    for fault in [Fault::ResetMidTransfer, Fault::ResetAfterRead, Fault::Restart { performed: false }] {
        let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
        let part = stage.part(text("hello"));
        doubt(&stage, &part, fault).await;
        assert_eq!(stage.channel.find_sent(&behind(before, &part)).await, Ok(LookupOutcome::Absent), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_that_restarts_may_have_performed_it() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::Restart { performed: true }).await;
    let arrived = ids(&stage, stage.chat);
    assert_eq!(stage.channel.find_sent(&behind(before, &part)).await, Ok(found(&arrived)));
}

#[tokio::test]
async fn what_others_wrote_meanwhile_is_passed_over() {
    let stage = OutboundHarness::new().await;
    let other = stage.telegram.private_chat(stage.telegram.person(12, "Ben"));
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    stage.telegram.person_says(other, other, "elsewhere");
    let deleted = stage.telegram.person_says(stage.chat, stage.chat, "oh no");
    stage.telegram.person_deletes(stage.chat, deleted);
    stage.telegram.person_says(stage.chat, stage.chat, "hurry");
    stage.telegram.person_sets_auto_delete(stage.chat, stage.chat, 86_400);
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    let arrived = ids(&stage, stage.chat);
    stage.telegram.person_says(stage.chat, stage.chat, "hello?");
    assert_eq!(restarted(&stage).find_sent(&behind(before, &part)).await, Ok(found(&arrived)));
}

#[tokio::test]
async fn second_pass_finds_late_message() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::AcceptOnRelease).await;
    let request = behind(before, &part);
    // The first pass asks for five ids; it arrives when they were asked for in vain.
    let asked = stage.telegram.on_nth(LOOKUP_METHOD, 5, RequestPhase::Performed);
    let release = async {
        asked.await.unwrap();
        stage.telegram.release_requests();
    };
    let (outcome, ()) = tokio::join!(stage.channel.find_sent(&request), release);
    assert_eq!(outcome, Ok(found(&ids(&stage, stage.chat))));
}

#[tokio::test]
async fn hidden_messages_leave_no_certainty() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.supergroup("Family", &[stage.chat]);
    for (sees_all, is_admin) in [(true, false), (false, true), (false, false)] {
        stage.telegram.set_privacy_mode(!sees_all);
        if is_admin {
            stage.telegram.promote_bot(group, stage.chat);
        } else {
            stage.telegram.demote_bot(group, stage.chat);
        }
        let before = stage.telegram.person_says(group, stage.chat, "@satchel_fake_bot go on");
        let lost = stage.part_in(group, text("hello"));
        doubt(&stage, &lost, Fault::ResetAfterRead).await;
        let outcome = restarted(&stage).find_sent(&behind(before, &lost)).await.unwrap();
        match sees_all || is_admin {
            true => assert_eq!(outcome, LookupOutcome::Absent),
            false => assert!(is_uncertain(&outcome), "{outcome:?}"),
        }
        let arrives = stage.part_in(group, text("hello again"));
        doubt(&stage, &arrives, Fault::AcceptAndDrop).await;
        let arrived = ids(&stage, group).last().copied().unwrap();
        let outcome = restarted(&stage).find_sent(&behind(before, &arrives)).await;
        assert_eq!(outcome, Ok(found(&[arrived])), "its own messages are never hidden");
    }
}

#[tokio::test]
async fn edit_rights_make_lookup_uncertain() {
    let stage = OutboundHarness::new().await;
    let channel = stage.telegram.channel("News", stage.chat);
    let before = stage.channel.post(&stage.part_in(channel, text("first"))).await.unwrap()[0].0.parse().unwrap();
    let part = stage.part_in(channel, text("hello"));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    let arrived = ids(&stage, channel).last().copied().unwrap();
    assert_eq!(restarted(&stage).find_sent(&behind(before, &part)).await, Ok(found(&[arrived])));
    stage.telegram.allow_editing_posts(channel, stage.chat);
    let outcome = restarted(&stage).find_sent(&behind(before, &part)).await.unwrap();
    assert!(is_uncertain(&outcome), "{outcome:?}");
}

#[tokio::test]
async fn over_a_hundred_ids_leave_no_certainty() {
    let stage = OutboundHarness::new().await;
    for (others, is_certain) in [(80, true), (110, false)] {
        let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
        let other = stage.telegram.private_chat(stage.telegram.person(12, "Ben"));
        let part = stage.part(text("hello"));
        doubt(&stage, &part, Fault::AcceptAndDrop).await;
        let newest = (0..others).map(|_| stage.telegram.person_says(other, other, "chatter")).max().unwrap();
        let mut request = behind(before, &part);
        let message = MessageRef(newest.to_string());
        request.recorded.other = vec![RecordedMessage { conversation: conversation("12"), message }];
        let outcome = restarted(&stage).find_sent(&request).await.unwrap();
        assert_eq!(!is_uncertain(&outcome), is_certain, "{others}: {outcome:?}");
    }
}

#[tokio::test]
async fn topic_message_is_found_among_other_topics() {
    let stage = OutboundHarness::new().await;
    let forum = stage.telegram.forum("Family", &[stage.chat]);
    let topic = stage.telegram.topic(forum, "Taxes");
    let before = stage.telegram.person_says(forum, stage.chat, "@satchel_fake_bot go on");
    let in_topic = |topic: Option<i64>| {
        let key = topic.map_or(forum.to_string(), |topic| format!("{forum}/{topic}"));
        PostRequest { conversation: conversation(&key), ..stage.part(text("hello")) }
    };
    stage.channel.post(&in_topic(None)).await.unwrap();
    let part = in_topic(Some(topic));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    let arrived = ids(&stage, forum).last().copied().unwrap();
    assert_eq!(stage.channel.find_sent(&behind(before, &part)).await, Ok(found(&[arrived])));
}

#[tokio::test]
async fn two_doubts_in_one_chat_leave_no_certainty() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let (one, other) = (stage.part(text("one")), stage.part(text("other")));
    doubt(&stage, &one, Fault::AcceptAndDrop).await;
    doubt(&stage, &other, Fault::ResetAfterRead).await;
    for part in [&one, &other] {
        let outcome = stage.channel.find_sent(&behind(before, part)).await.unwrap();
        assert!(is_uncertain(&outcome), "{outcome:?}");
    }
}

#[tokio::test]
async fn searched_chat_accepts_no_send() {
    let stage = OutboundHarness::new().await;
    let other = stage.telegram.private_chat(stage.telegram.person(12, "Ben"));
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    stage.telegram.script_next(LOOKUP_METHOD, Fault::RateLimit { retry_after_ms: 1_000 });
    let asked = stage.telegram.on_nth(LOOKUP_METHOD, 1, RequestPhase::Arrived);
    let meanwhile = async {
        asked.await.unwrap();
        let here = stage.send(text("between")).await;
        assert!(matches!(here, Err(SendError::NotSent { retry_after_ms: Some(_), .. })), "{here:?}");
        stage.channel.post(&stage.part_in(other, text("elsewhere"))).await.unwrap();
    };
    let request = behind(before, &part);
    let (outcome, ()) = tokio::join!(stage.channel.find_sent(&request), meanwhile);
    assert_eq!(outcome, Ok(found(&ids(&stage, stage.chat))), "a short flood is waited out");
    stage.send(text("afterwards")).await.unwrap();
}

#[tokio::test]
async fn cancelled_lookup_can_be_retried() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    let request = behind(before, &part);
    stage.telegram.script_next(LOOKUP_METHOD, Fault::RateLimit { retry_after_ms: 60_000 });
    let later = stage.channel.find_sent(&request).await;
    assert!(matches!(later, Err(SendError::NotSent { retry_after_ms: Some(60_000), .. })), "{later:?}");
    stage.telegram.script_next(LOOKUP_METHOD, Fault::ResetMidTransfer);
    let later = stage.channel.find_sent(&request).await;
    assert!(matches!(later, Err(SendError::InDoubt { .. })), "{later:?}");
    assert_eq!(stage.channel.find_sent(&request).await, Ok(found(&ids(&stage, stage.chat))));
}

#[tokio::test]
async fn duplicate_is_found_before_or_after_retry() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    doubt(&stage, &part, Fault::AcceptOnRelease).await;
    assert_eq!(stage.channel.find_sent(&behind(before, &part)).await, Ok(LookupOutcome::Absent));
    let repeat = stage.channel.post(&part).await.unwrap();
    let look = |range| LookupRequest { range, ..behind(before, &part) };
    let (early, late) = (look(LookupRange::Before(repeat.clone())), look(LookupRange::Late(repeat.clone())));
    assert_eq!(stage.channel.find_sent(&early).await, Ok(LookupOutcome::Absent));
    stage.telegram.release_requests();
    let twin = ids(&stage, stage.chat).into_iter().find(|id| id.to_string() != repeat[0].0).unwrap();
    assert_eq!(stage.channel.find_sent(&early).await, Ok(LookupOutcome::Absent), "it stands behind");
    assert_eq!(stage.channel.find_sent(&late).await, Ok(found(&[twin])));
}

#[tokio::test]
async fn a_channel_that_looks_nothing_up_asks_nothing() {
    let stage = OutboundHarness::with(
        TelegramRules::default(),
        ChannelCapabilities { look_up: satchel_domain::capabilities::LookupRule::None, ..unpaced() },
    )
    .await;
    let part = stage.part(text("hello"));
    let outcome = stage.channel.find_sent(&behind(1, &part)).await.unwrap();
    assert!(is_uncertain(&outcome) && stage.telegram.requests(LOOKUP_METHOD) == 0, "{outcome:?}");
}

#[tokio::test]
async fn unrecorded_send_is_found() {
    let stage = OutboundHarness::new().await;
    let before = stage.telegram.person_says(stage.chat, stage.chat, "go on");
    let part = stage.part(text("hello"));
    stage.channel.post(&part).await.unwrap();
    let arrived = ids(&stage, stage.chat);
    for _ in 0..2 {
        assert_eq!(stage.channel.find_sent(&behind(before, &part)).await, Ok(found(&arrived)));
    }
}

#[tokio::test]
async fn chatter_that_nobody_stored_is_walked_past() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.supergroup("Family", &[stage.chat]);
    stage.telegram.promote_bot(group, stage.chat);
    let before = stage.telegram.person_says(group, stage.chat, "@satchel_fake_bot go on");
    for _ in 0..20 {
        stage.telegram.person_says(group, stage.chat, "chatter");
    }
    let part = stage.part_in(group, text("hello"));
    doubt(&stage, &part, Fault::AcceptAndDrop).await;
    let arrived = ids(&stage, group).last().copied().unwrap();
    assert_eq!(restarted(&stage).find_sent(&behind(before, &part)).await, Ok(found(&[arrived])));
}
