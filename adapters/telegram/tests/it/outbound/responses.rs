//! Every answer of the table, over the wire, for everything that is sent.

use rstest::rstest;
use satchel_domain::delivery::Refusal;
use satchel_fake_kit::Fault;
use satchel_fake_telegram::{ApiRefusal, TelegramFault};

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendKind {
    Text,
    Voice,
    File,
    Album,
    Edit,
}

const ALL_KINDS: [SendKind; 5] = [SendKind::Text, SendKind::Voice, SendKind::File, SendKind::Album, SendKind::Edit];

/// Sends it while the fault is waiting for it.
async fn send(
    stage: &OutboundHarness,
    what: SendKind,
    fault: impl Into<TelegramFault>,
) -> Result<Vec<MessageRef>, SendError> {
    let content = match what {
        SendKind::Text => text("hello"),
        SendKind::Voice => stage.voice(false).await,
        SendKind::File => PartContent::File(stage.item(&photo(1), FileForm::Photo).await),
        SendKind::Album => PartContent::Album {
            items: vec![stage.item(&photo(1), FileForm::Photo).await, stage.item(&photo(2), FileForm::Photo).await],
        },
        SendKind::Edit => {
            let sent = stage.send(text("before")).await.unwrap();
            stage.telegram.script_next("edit*", fault);
            return stage.channel.edit(&sent[0], &stage.part(text("after"))).await;
        }
    };
    stage.telegram.script_next("send*", fault);
    stage.send(content).await
}

/// How many messages stand there that were not there before.
fn new_messages(stage: &OutboundHarness, what: SendKind) -> usize {
    let stands = stage.telegram.transcript().visible(stage.chat).count();
    stands - usize::from(what == SendKind::Edit)
}

#[tokio::test]
async fn rate_limit_is_not_sent_with_retry_after() {
    for what in ALL_KINDS {
        let stage = OutboundHarness::new().await;
        let answer = send(&stage, what, Fault::RateLimit { retry_after_ms: 7_000 }).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(7_000), .. })), "{what:?}: {answer:?}");
        assert_eq!(new_messages(&stage, what), 0, "{what:?}");
    }
}

#[tokio::test]
async fn server_error_is_in_doubt() {
    for what in ALL_KINDS {
        let stage = OutboundHarness::new().await;
        let began = std::time::Instant::now();
        let answer = send(&stage, what, Fault::ServerError).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "nobody sleeps over a 5xx: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn refused_connection_is_not_sent() {
    for what in ALL_KINDS {
        let stage = OutboundHarness::new().await;
        let fault = Fault::RefuseConnection { for_ms: 60_000 };
        let answer = send(&stage, what, fault).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: None, .. })), "{what:?}: {answer:?}");
    }
}

#[rstest]
#[case::page_of_a_proxy(Fault::BadGateway { performed: true }, true)]
#[case::page_instead_of_the_server(Fault::BadGateway { performed: false }, false)]
#[case::reset(Fault::ResetMidTransfer, false)]
#[case::answer_lost(Fault::AcceptAndDrop, true)]
#[case::silence(Fault::Hang { performed: true }, true)]
#[case::silence_before_it_was_read(Fault::Hang { performed: false }, false)]
#[tokio::test]
async fn what_is_no_answer_leaves_doubt(#[case] fault: Fault, #[case] performed: bool) {
    for what in ALL_KINDS {
        let stage = OutboundHarness::new().await;
        let answer = send(&stage, what, fault).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
        if what != SendKind::Edit {
            assert_eq!(new_messages(&stage, what) > 0, performed, "{what:?}");
        }
    }
}

#[tokio::test]
async fn undecodable_success_is_in_doubt() {
    for body in [
        r#"{"ok":true}"#,
        r#"{"ok":true,"result":{"no":"id"}}"#,
        r#"{"ok":true,"result":"#,
        r#"{"ok":false}"#,
        r#"[]"#,
        "",
    ] {
        let stage = OutboundHarness::new().await;
        stage.telegram.script_next("sendMessage", TelegramFault::Answer { status: 200, body: body.to_owned() });
        let answer = stage.send(text("hello")).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn response_with_unknown_fields_is_decoded() {
    let stage = OutboundHarness::new().await;
    let body = r#"{"ok":true,"result":{"message_id":77,"chat":"of a new form","new":{"things":[1]}},"new":1}"#;
    stage.telegram.script_next("sendMessage", TelegramFault::Answer { status: 200, body: body.to_owned() });
    assert_eq!(stage.send(text("hello")).await, Ok(vec![MessageRef("77".to_owned())]));
    let body = r#"{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":3,"new":[1]}}"#;
    stage.telegram.script_next("sendMessage", TelegramFault::Answer { status: 429, body: body.to_owned() });
    let answer = stage.send(text("hello")).await;
    assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(3_000), .. })), "{answer:?}");
}

#[tokio::test]
async fn too_large_is_recognized_from_proxies_too() {
    for what in [SendKind::Voice, SendKind::File, SendKind::Album] {
        let page = TelegramFault::Answer { status: 413, body: "<html>413</html>".to_owned() };
        for fault in [Fault::TooLarge.into(), page] {
            let stage = OutboundHarness::new().await;
            let answer = send(&stage, what, fault).await;
            let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::TooLarge { limit: None }, .. }));
            assert!(refused, "{what:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_a_chat_forbids_is_forbidden_for_good() {
    for what in ALL_KINDS {
        for fault in [
            Fault::Forbidden.into(),
            Fault::ChatGone.into(),
            TelegramFault::from(ApiRefusal::new(401, "Unauthorized")),
            TelegramFault::from(ApiRefusal::new(404, "Not Found")),
        ] {
            let stage = OutboundHarness::new().await;
            let answer = send(&stage, what, fault.clone()).await;
            assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{what:?} {fault:?}: {answer:?}");
        }
    }
}

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
    assert_eq!(reason(stage.channel.send(&part).await), "the bot was removed from the chat");
    stage.telegram.forget_chat(group);
    assert!(reason(stage.channel.send(&part).await).starts_with("Telegram doesn't know the chat"));
    let elsewhere = SendRequest { conversation: "console:main".parse().unwrap(), ..part };
    assert_eq!(reason(stage.channel.send(&elsewhere).await), "console:main is no chat of Telegram");
}

#[tokio::test]
async fn markup_that_cannot_be_read_is_bad_markup() {
    for what in [SendKind::Text, SendKind::Edit] {
        let stage = OutboundHarness::new().await;
        let answer = send(&stage, what, Fault::BadMarkup).await;
        let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::BadMarkup, .. }));
        assert!(refused, "{what:?}: {answer:?}");
    }
}

#[tokio::test]
async fn an_item_that_is_at_fault_is_named() {
    let stage = OutboundHarness::new().await;
    let answer = send(&stage, SendKind::Album, Fault::BadItem { index: 1 }).await;
    let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::Item { index: 1 }, .. }));
    assert!(refused, "{answer:?}");
    assert_eq!(new_messages(&stage, SendKind::Album), 0);
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
async fn forbidden_voice_is_reported_and_cached_per_chat() {
    let stage = OutboundHarness::new().await;
    stage.telegram.forbid_voice(stage.chat);
    let voice = stage.voice(false).await;
    let answer = stage.send(voice).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::VoiceForbidden, .. })), "{answer:?}");
    let rule = |chat: i64| stage.channel.capabilities(&conversation(&chat.to_string())).voice;
    assert_eq!(rule(stage.chat), satchel_domain::capabilities::VoiceRule::AudioFile);
    assert_eq!(rule(1), satchel_domain::capabilities::VoiceRule::Message, "of others nothing is known");
    let as_file = stage.voice(true).await;
    assert!(stage.send(as_file).await.is_ok());
}

#[tokio::test]
async fn sends_follow_a_moved_chat() {
    let stage = OutboundHarness::new().await;
    let group = stage.telegram.group("Family", &[stage.chat]);
    let old = stage.channel.send(&stage.part_in(group, text("before"))).await.unwrap();
    let supergroup = stage.telegram.migrate(group);
    let reply_to = Some(old[0].clone());
    let after = stage.channel.send(&SendRequest { reply_to, ..stage.part_in(group, text("after")) }).await.unwrap();
    let file = PartContent::File(stage.item(&photo(1), FileForm::Photo).await);
    stage.channel.send(&stage.part_in(group, file)).await.unwrap();
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
    let answer = stage.channel.send(&stage.part_in(group, text("hello"))).await;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
}

#[tokio::test]
async fn unchanged_edit_succeeds_and_deleted_message_is_refused() {
    let stage = OutboundHarness::new().await;
    let sent = stage.send(text("same")).await.unwrap();
    assert_eq!(stage.channel.edit(&sent[0], &stage.part(text("same"))).await, Ok(sent.clone()));
    let voice = stage.voice(false).await;
    for content in [voice, PartContent::Album { items: Vec::new() }] {
        let answer = stage.channel.edit(&sent[0], &stage.part(content)).await;
        assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    }
    stage.telegram.person_deletes(stage.chat, sent[0].0.parse().unwrap());
    for message in [sent[0].clone(), MessageRef("not a number".to_owned()), MessageRef("999999".to_owned())] {
        let answer = stage.channel.edit(&message, &stage.part(text("new"))).await;
        assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn deletion_reports_lateness_and_doubt() {
    let stage = OutboundHarness::new().await;
    let sent = stage.send(text("x")).await.unwrap();
    let chat = conversation(&stage.chat.to_string());
    let delete = || stage.channel.delete(&chat, &sent[0]);
    stage.telegram.script_next("deleteMessage", ApiRefusal::new(400, "Bad Request: message can't be deleted"));
    let answer = delete().await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::Other, .. })), "{answer:?}");
    stage.telegram.script_next("deleteMessage", Fault::AcceptAndDrop);
    assert!(matches!(delete().await, Err(SendError::InDoubt { .. })));
    assert_eq!(delete().await, Ok(()), "it is gone already");
}

#[tokio::test]
async fn a_probe_tells_whether_telegram_answers() {
    let stage = OutboundHarness::new().await;
    assert_eq!(stage.channel.probe().await, Ok(()));
    stage.telegram.script_next("getMe", Fault::BadGateway { performed: false });
    assert!(stage.channel.probe().await.is_err());
    stage.telegram.refuse_connections(Duration::from_secs(30));
    assert!(matches!(stage.channel.probe().await, Err(SendError::NotSent { .. })));
}
