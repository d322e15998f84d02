//! Every answer of the table, over the wire, for everything that is sent.

use rstest::rstest;
use satchel_domain::{capabilities::VoiceRule, delivery::Refusal};
use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission};
use satchel_fake_kit::{Fault, FaultTiming};

use super::*;

const CREATE: &str = "POST /channels/{}/messages";
const EDIT: &str = "PATCH /channels/{}/messages/{}";
const DELETE: &str = "DELETE /channels/{}/messages/{}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Text,
    Bundle,
    Voice,
    File,
    Album,
    Edit,
    EditWithFiles,
}

const EVERYTHING: [What; 7] =
    [What::Text, What::Bundle, What::Voice, What::File, What::Album, What::Edit, What::EditWithFiles];

impl What {
    fn is_edit(self) -> bool {
        matches!(self, Self::Edit | Self::EditWithFiles)
    }
}

/// Sends it while the fault is waiting for it.
async fn send(stage: &Stage, what: What, fault: impl Into<DiscordFault>) -> Result<Vec<MessageRef>, SendError> {
    let content = match what {
        What::Text | What::Edit => text("hello"),
        What::Bundle | What::EditWithFiles => bundle("hello", stage.items(&["a.bin", "b.bin"]).await),
        What::Voice => stage.voice(false).await,
        What::File => PartContent::File(stage.item(&small("a.bin", 1)).await),
        What::Album => PartContent::Album { items: stage.items(&["a.bin", "b.bin"]).await },
    };
    if what.is_edit() {
        let sent = stage.send(text("before")).await.unwrap();
        stage.discord.script_next(EDIT, fault);
        return stage.channel.edit(&sent[0], &stage.part(content)).await;
    }
    stage.discord.script_next(CREATE, fault);
    stage.send(content).await
}

/// How many messages stand there that were not there before.
fn new_messages(stage: &Stage, what: What) -> usize {
    stage.visible() - usize::from(what.is_edit())
}

#[tokio::test]
async fn rate_limit_is_not_sent_with_retry_after() {
    for what in EVERYTHING {
        let stage = Stage::new().await;
        let answer = send(&stage, what, Fault::RateLimit { retry_after_ms: 7_000 }).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(7_000), .. })), "{what:?}: {answer:?}");
        assert_eq!(new_messages(&stage, what), 0, "{what:?}");
    }
}

#[tokio::test]
async fn proxy_rate_limit_is_not_sent_either() {
    let stage = Stage::new().await;
    let page = DiscordFault::Answer { status: 429, body: "<html>error code: 1015</html>".to_owned() };
    let answer = send(&stage, What::Text, page).await;
    assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: None, .. })), "{answer:?}");
}

#[tokio::test]
async fn decoded_server_error_is_not_sent_without_delay() {
    for what in EVERYTHING {
        let stage = Stage::new().await;
        let began = std::time::Instant::now();
        let answer = send(&stage, what, Fault::ServerError).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: None, .. })), "{what:?}: {answer:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "nobody sleeps over a 5xx: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn gateway_timeout_is_in_doubt() {
    for what in EVERYTHING {
        let stage = Stage::new().await;
        let answer = send(&stage, what, ApiRefusal::new(504, 0, "504: Gateway Timeout")).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
    }
}

#[tokio::test]
async fn refused_connection_is_not_sent() {
    for what in EVERYTHING {
        let stage = Stage::new().await;
        let answer = send(&stage, what, Fault::RefuseConnection { for_ms: 60_000 }).await;
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
    for what in EVERYTHING {
        let stage = Stage::new().await;
        let answer = send(&stage, what, fault).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
        if !what.is_edit() {
            assert_eq!(new_messages(&stage, what) > 0, performed, "{what:?}");
        }
    }
}

#[tokio::test]
async fn undecodable_success_is_in_doubt() {
    for body in ["{}", r#"{"id":7}"#, r#"{"id":"#, "[]", "null", "<html>", ""] {
        let stage = Stage::new().await;
        stage.discord.script_next(CREATE, DiscordFault::Answer { status: 200, body: body.to_owned() });
        let answer = stage.send(text("hello")).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn response_with_unknown_fields_is_decoded() {
    let stage = Stage::new().await;
    let body = r#"{"id":"77","type":9999,"author":7,"new":{"things":[1]}}"#;
    stage.discord.script_next(CREATE, DiscordFault::Answer { status: 200, body: body.to_owned() });
    assert_eq!(stage.send(text("hello")).await, Ok(vec![MessageRef("77".to_owned())]));
    let body = r#"{"message":"x","retry_after":3.25,"global":false,"new":[1]}"#;
    stage.discord.script_next(CREATE, DiscordFault::Answer { status: 429, body: body.to_owned() });
    let answer = stage.send(text("hello")).await;
    assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(3_250), .. })), "{answer:?}");
}

#[tokio::test]
async fn too_large_is_recognized_from_proxies_too() {
    for what in [What::Bundle, What::Voice, What::File, What::Album, What::EditWithFiles] {
        let page = DiscordFault::Answer { status: 413, body: "<html>413</html>".to_owned() };
        for fault in [Fault::TooLarge.into(), page] {
            let stage = Stage::new().await;
            let answer = send(&stage, what, fault).await;
            let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::TooLarge { .. }, .. }));
            assert!(refused, "{what:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn what_a_channel_forbids_is_forbidden_for_good() {
    for what in EVERYTHING {
        for fault in [
            ApiRefusal::new(403, 50_001, "Missing Access"),
            ApiRefusal::new(404, 10_003, "Unknown Channel"),
            ApiRefusal::new(401, 0, "401: Unauthorized"),
            ApiRefusal::new(403, 50_007, "Cannot send messages to this user"),
        ] {
            let stage = Stage::new().await;
            let answer = send(&stage, what, fault.clone()).await;
            assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{what:?} {fault:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn forbidden_send_explains_reason_in_plain_language() {
    let stage = Stage::new().await;
    let reason = |answer| match answer {
        Err(SendError::Forbidden { reason }) => reason,
        other => format!("{other:?}"),
    };
    let hello = || text("hello");
    let direct = stage.discord.direct(PERSON);
    stage.discord.person_blocks(PERSON);
    let to_the_person = stage.channel.send(&stage.part_in(direct, hello())).await;
    assert_eq!(reason(to_the_person), "the person doesn't accept direct messages from the bot");
    stage.discord.forbid(stage.place, Permission::Send);
    assert!(reason(stage.send(hello()).await).starts_with("the bot lacks a permission"));
    stage.discord.forbid(stage.place, Permission::View);
    assert_eq!(reason(stage.send(hello()).await), "the bot can't see the channel");
    stage.discord.delete_channel(stage.place);
    assert_eq!(reason(stage.send(hello()).await), "the channel no longer exists");
    let elsewhere = SendRequest { conversation: "console:main".parse().unwrap(), ..stage.part(hello()) };
    assert_eq!(reason(stage.channel.send(&elsewhere).await), "console:main is not a Discord channel");
}

#[tokio::test]
async fn words_go_where_files_may_not() {
    let stage = Stage::new().await;
    stage.discord.forbid(stage.place, Permission::Attach);
    let files = stage.items(&["a.bin"]).await;
    let both = stage.send(bundle("hello", files.clone())).await;
    assert!(matches!(both, Err(SendError::Refused { refusal: Refusal::Other, .. })), "{both:?}");
    assert!(stage.send(text("hello")).await.is_ok());
    let alone = stage.send(PartContent::File(files[0].clone())).await;
    assert!(matches!(alone, Err(SendError::Forbidden { .. })), "{alone:?}");
}

#[tokio::test]
async fn an_item_that_is_at_fault_is_named() {
    for what in [What::Album, What::Bundle] {
        let stage = Stage::new().await;
        let answer = send(&stage, what, Fault::BadItem { index: 1 }).await;
        let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::Item { index: 1 }, .. }));
        assert!(refused, "{answer:?}");
        assert_eq!(new_messages(&stage, what), 0);
    }
}

#[tokio::test]
async fn forbidden_voice_is_reported_and_cached_per_channel() {
    let stage = Stage::new().await;
    stage.discord.forbid(stage.place, Permission::SendVoice);
    let voice = stage.voice(false).await;
    let answer = stage.send(voice).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::VoiceForbidden, .. })), "{answer:?}");
    let rule = |place: u64| stage.channel.capabilities(&conversation(&place.to_string())).voice;
    assert_eq!((rule(stage.place), rule(1)), (VoiceRule::AudioFile, VoiceRule::Message));
    let as_file = stage.voice(true).await;
    assert!(stage.send(as_file).await.is_ok());
}

#[tokio::test]
async fn message_is_sent_without_unavailable_reply_target() {
    let stage = Stage::new().await;
    let asked = stage.discord.person_says(stage.place, PERSON, "hello?");
    let answering = |content| SendRequest { reply_to: Some(MessageRef(asked.to_string())), ..stage.part(content) };
    stage.channel.send(&answering(text("an answer"))).await.unwrap();
    stage.discord.forbid(stage.place, Permission::ReadHistory);
    stage.channel.send(&answering(bundle("no reference is allowed", stage.items(&["a.bin"]).await))).await.unwrap();
    stage.discord.allow(stage.place, Permission::ReadHistory);
    stage.discord.person_deletes(asked);
    stage.channel.send(&answering(text("it is gone"))).await.unwrap();
    let transcript = stage.discord.transcript();
    let answered: Vec<_> = transcript.visible(stage.place).map(|message| message.reply_to).collect();
    assert_eq!(answered, [Some(asked), None, None]);
    assert_eq!(transcript.files(stage.place).len(), 1);
}

#[tokio::test]
async fn edit_of_deleted_or_foreign_message_reports_gone() {
    let stage = Stage::new().await;
    let sent = stage.send(text("mine")).await.unwrap();
    let theirs = stage.discord.person_says(stage.place, PERSON, "theirs");
    let voice = stage.voice(false).await;
    let answer = stage.channel.edit(&sent[0], &stage.part(voice)).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    stage.discord.script_next(EDIT, ApiRefusal::new(400, 50_083, "Thread is archived"));
    let answer = stage.channel.edit(&sent[0], &stage.part(text("new"))).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    stage.discord.person_deletes(sent[0].0.parse().unwrap());
    for message in [sent[0].clone(), MessageRef("not a number".to_owned()), MessageRef(theirs.to_string())] {
        let answer = stage.channel.edit(&message, &stage.part(text("new"))).await;
        assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn deletion_reports_refusal_and_doubt() {
    let stage = Stage::new().await;
    let sent = stage.send(text("x")).await.unwrap();
    let place = conversation(&stage.place.to_string());
    let delete = || stage.channel.delete(&place, &sent[0]);
    stage.discord.script_next(DELETE, ApiRefusal::new(403, 50_013, "Missing Permissions"));
    assert!(matches!(delete().await, Err(SendError::Forbidden { .. })));
    stage.discord.script_next(DELETE, Fault::AcceptAndDrop);
    assert!(matches!(delete().await, Err(SendError::InDoubt { .. })));
    assert_eq!(delete().await, Ok(()), "it is gone already");
    stage.discord.script_next(DELETE, DiscordFault::Answer { status: 200, body: "{}".to_owned() });
    assert_eq!(delete().await, Ok(()), "whatever stands in the answer");
    assert_eq!(stage.channel.delete(&place, &MessageRef("no number".to_owned())).await, Ok(()));
}

#[tokio::test]
async fn a_probe_tells_whether_discord_answers() {
    let stage = Stage::new().await;
    assert_eq!(stage.channel.probe().await, Ok(()));
    stage.discord.script("GET /users/@me", FaultTiming::Every, Fault::BadGateway { performed: false });
    assert!(stage.channel.probe().await.is_err());
    stage.discord.refuse_connections(Duration::from_secs(30));
    assert!(matches!(stage.channel.probe().await, Err(SendError::NotSent { .. })));
}
