//! Every response of the table, over the wire, for everything that is sent; and secrets that no error and no log shows.

use rstest::rstest;
use satchel_domain::{FileReference, capabilities::VoiceRule, delivery::Refusal};
use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission};
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_ports::{Activity, LookupRange, LookupRequest, ledger::RecordedMessages};
use secrecy::SecretString;

use super::*;
use crate::harness::LogCapture;

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
async fn send(
    harness: &OutboundHarness,
    what: What,
    fault: impl Into<DiscordFault>,
) -> Result<Vec<MessageRef>, SendError> {
    let content = match what {
        What::Text | What::Edit => text("hello"),
        What::Bundle | What::EditWithFiles => bundle("hello", harness.items(&["a.bin", "b.bin"]).await),
        What::Voice => harness.voice(false).await,
        What::File => PartContent::File(harness.item(&small("a.bin", 1)).await),
        What::Album => PartContent::Album { items: harness.items(&["a.bin", "b.bin"]).await },
    };
    if what.is_edit() {
        let sent = harness.send(text("before")).await.unwrap();
        harness.discord.script_next(EDIT, fault);
        return harness.channel.edit(&sent[0], &harness.part(content)).await;
    }
    harness.discord.script_next(CREATE, fault);
    harness.send(content).await
}

/// How many messages stand there that were not there before.
fn new_messages(harness: &OutboundHarness, what: What) -> usize {
    harness.visible() - usize::from(what.is_edit())
}

#[tokio::test]
async fn rate_limit_is_not_sent_with_retry_after() {
    for what in EVERYTHING {
        let harness = OutboundHarness::new().await;
        let answer = send(&harness, what, Fault::RateLimit { retry_after_ms: 7_000 }).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(7_000), .. })), "{what:?}: {answer:?}");
        assert_eq!(new_messages(&harness, what), 0, "{what:?}");
    }
}

#[tokio::test]
async fn proxy_rate_limit_is_not_sent_either() {
    let harness = OutboundHarness::new().await;
    let page = DiscordFault::Answer { status: 429, body: "<html>error code: 1015</html>".to_owned() };
    let answer = send(&harness, What::Text, page).await;
    assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: None, .. })), "{answer:?}");
}

#[tokio::test]
async fn decoded_server_error_is_not_sent_without_delay() {
    for what in EVERYTHING {
        let harness = OutboundHarness::new().await;
        let began = std::time::Instant::now();
        let answer = send(&harness, what, Fault::ServerError).await;
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: None, .. })), "{what:?}: {answer:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "nobody sleeps over a 5xx: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn gateway_timeout_is_in_doubt() {
    for what in EVERYTHING {
        let harness = OutboundHarness::new().await;
        let answer = send(&harness, what, ApiRefusal::new(504, 0, "504: Gateway Timeout")).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
    }
}

#[tokio::test]
async fn refused_connection_is_not_sent() {
    for what in EVERYTHING {
        let harness = OutboundHarness::new().await;
        let answer = send(&harness, what, Fault::RefuseConnection { for_ms: 60_000 }).await;
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
        let harness = OutboundHarness::new().await;
        let answer = send(&harness, what, fault).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{what:?}: {answer:?}");
        if !what.is_edit() {
            assert_eq!(new_messages(&harness, what) > 0, performed, "{what:?}");
        }
    }
}

#[tokio::test]
async fn undecodable_success_is_in_doubt() {
    for body in ["{}", r#"{"id":7}"#, r#"{"id":"#, "[]", "null", "<html>", ""] {
        let harness = OutboundHarness::new().await;
        harness.discord.script_next(CREATE, DiscordFault::Answer { status: 200, body: body.to_owned() });
        let answer = harness.send(text("hello")).await;
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn response_with_unknown_fields_is_decoded() {
    let harness = OutboundHarness::new().await;
    let body = r#"{"id":"77","type":9999,"author":7,"new":{"things":[1]}}"#;
    harness.discord.script_next(CREATE, DiscordFault::Answer { status: 200, body: body.to_owned() });
    assert_eq!(harness.send(text("hello")).await, Ok(vec![MessageRef("77".to_owned())]));
    let body = r#"{"message":"x","retry_after":3.25,"global":false,"new":[1]}"#;
    harness.discord.script_next(CREATE, DiscordFault::Answer { status: 429, body: body.to_owned() });
    let answer = harness.send(text("hello")).await;
    assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(3_250), .. })), "{answer:?}");
}

#[tokio::test]
async fn too_large_is_recognized_from_proxies_too() {
    for what in [What::Bundle, What::Voice, What::File, What::Album, What::EditWithFiles] {
        let page = DiscordFault::Answer { status: 413, body: "<html>413</html>".to_owned() };
        for fault in [Fault::TooLarge.into(), page] {
            let harness = OutboundHarness::new().await;
            let answer = send(&harness, what, fault).await;
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
            let harness = OutboundHarness::new().await;
            let answer = send(&harness, what, fault.clone()).await;
            assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{what:?} {fault:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn forbidden_send_explains_reason_in_plain_language() {
    let harness = OutboundHarness::new().await;
    let reason = |answer| match answer {
        Err(SendError::Forbidden { reason }) => reason,
        other => format!("{other:?}"),
    };
    let hello = || text("hello");
    let direct = harness.discord.direct(PERSON);
    harness.discord.person_blocks(PERSON);
    let to_the_person = harness.channel.send(&harness.part_in(direct, hello())).await;
    assert_eq!(reason(to_the_person), "the person doesn't accept direct messages from the bot");
    harness.discord.forbid(harness.place, Permission::Send);
    assert!(reason(harness.send(hello()).await).starts_with("the bot lacks a permission"));
    harness.discord.forbid(harness.place, Permission::View);
    assert_eq!(reason(harness.send(hello()).await), "the bot can't see the channel");
    harness.discord.delete_channel(harness.place);
    assert_eq!(reason(harness.send(hello()).await), "the channel no longer exists");
    let elsewhere = SendRequest { conversation: "console:main".parse().unwrap(), ..harness.part(hello()) };
    assert_eq!(reason(harness.channel.send(&elsewhere).await), "console:main is not a Discord channel");
}

#[tokio::test]
async fn words_go_where_files_may_not() {
    let harness = OutboundHarness::new().await;
    harness.discord.forbid(harness.place, Permission::Attach);
    let files = harness.items(&["a.bin"]).await;
    let both = harness.send(bundle("hello", files.clone())).await;
    assert!(matches!(both, Err(SendError::Refused { refusal: Refusal::Other, .. })), "{both:?}");
    assert!(harness.send(text("hello")).await.is_ok());
    let alone = harness.send(PartContent::File(files[0].clone())).await;
    assert!(matches!(alone, Err(SendError::Forbidden { .. })), "{alone:?}");
}

#[tokio::test]
async fn an_item_that_is_at_fault_is_named() {
    for what in [What::Album, What::Bundle] {
        let harness = OutboundHarness::new().await;
        let answer = send(&harness, what, Fault::BadItem { index: 1 }).await;
        let refused = matches!(answer, Err(SendError::Refused { refusal: Refusal::Item { index: 1 }, .. }));
        assert!(refused, "{answer:?}");
        assert_eq!(new_messages(&harness, what), 0);
    }
}

#[tokio::test]
async fn forbidden_voice_is_reported_and_cached_per_channel() {
    let harness = OutboundHarness::new().await;
    harness.discord.forbid(harness.place, Permission::SendVoice);
    let voice = harness.voice(false).await;
    let answer = harness.send(voice).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::VoiceForbidden, .. })), "{answer:?}");
    let rule = |place: u64| harness.channel.capabilities(&conversation(&place.to_string())).voice;
    assert_eq!((rule(harness.place), rule(1)), (VoiceRule::AudioFile, VoiceRule::Message));
    let as_file = harness.voice(true).await;
    assert!(harness.send(as_file).await.is_ok());
}

#[tokio::test]
async fn message_is_sent_without_unavailable_reply_target() {
    let harness = OutboundHarness::new().await;
    let asked = harness.discord.person_says(harness.place, PERSON, "hello?");
    let answering = |content| SendRequest { reply_to: Some(MessageRef(asked.to_string())), ..harness.part(content) };
    harness.channel.send(&answering(text("an answer"))).await.unwrap();
    harness.discord.forbid(harness.place, Permission::ReadHistory);
    harness.channel.send(&answering(bundle("no reference is allowed", harness.items(&["a.bin"]).await))).await.unwrap();
    harness.discord.allow(harness.place, Permission::ReadHistory);
    harness.discord.person_deletes(asked);
    harness.channel.send(&answering(text("it is gone"))).await.unwrap();
    let transcript = harness.discord.transcript();
    let answered: Vec<_> = transcript.visible(harness.place).map(|message| message.reply_to).collect();
    assert_eq!(answered, [Some(asked), None, None]);
    assert_eq!(transcript.files(harness.place).len(), 1);
}

#[tokio::test]
async fn edit_of_deleted_or_foreign_message_reports_gone() {
    let harness = OutboundHarness::new().await;
    let sent = harness.send(text("mine")).await.unwrap();
    let theirs = harness.discord.person_says(harness.place, PERSON, "theirs");
    let voice = harness.voice(false).await;
    let answer = harness.channel.edit(&sent[0], &harness.part(voice)).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    harness.discord.script_next(EDIT, ApiRefusal::new(400, 50_083, "Thread is archived"));
    let answer = harness.channel.edit(&sent[0], &harness.part(text("new"))).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    harness.discord.person_deletes(sent[0].0.parse().unwrap());
    for message in [sent[0].clone(), MessageRef("not a number".to_owned()), MessageRef(theirs.to_string())] {
        let answer = harness.channel.edit(&message, &harness.part(text("new"))).await;
        assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn deletion_reports_refusal_and_doubt() {
    let harness = OutboundHarness::new().await;
    let sent = harness.send(text("x")).await.unwrap();
    let place = conversation(&harness.place.to_string());
    let delete = || harness.channel.delete(&place, &sent[0]);
    harness.discord.script_next(DELETE, ApiRefusal::new(403, 50_013, "Missing Permissions"));
    assert!(matches!(delete().await, Err(SendError::Forbidden { .. })));
    harness.discord.script_next(DELETE, Fault::AcceptAndDrop);
    assert!(matches!(delete().await, Err(SendError::InDoubt { .. })));
    assert_eq!(delete().await, Ok(()), "it is gone already");
    harness.discord.script_next(DELETE, DiscordFault::Answer { status: 200, body: "{}".to_owned() });
    assert_eq!(delete().await, Ok(()), "whatever stands in the answer");
    assert_eq!(harness.channel.delete(&place, &MessageRef("no number".to_owned())).await, Ok(()));
}

#[tokio::test]
async fn a_probe_tells_whether_discord_answers() {
    let harness = OutboundHarness::new().await;
    assert_eq!(harness.channel.probe().await, Ok(()));
    harness.discord.script("GET /users/@me", FaultTiming::Every, Fault::BadGateway { performed: false });
    assert!(harness.channel.probe().await.is_err());
    harness.discord.refuse_connections(Duration::from_secs(30));
    assert!(matches!(harness.channel.probe().await, Err(SendError::NotSent { .. })));
}

const CANARY: &str = "MTIzNDU2Nzg5.Canary.TokenThatNobodyMaySee_x7Qz";
const NAME: &str = "canary-name";
const PASSWORD: &str = "canary-password";
const WORDS: &str = "what only Ann may read";

fn assert_silent(told: &str, about: &str) {
    for secret in [CANARY, "TokenThatNobody", FakeDiscord::TOKEN, "TokenCanary", NAME, PASSWORD, WORDS] {
        assert!(!told.contains(secret), "{about} tells {secret}: {told}");
    }
}

fn channel(token: &str, api_url: Option<String>) -> DiscordChannel {
    let settings = DiscordSettings {
        token: token.into(),
        api_url: api_url.map(SecretString::from),
        capabilities: unpaced(),
        answers_in: Vec::new(),
        commands: Vec::new(),
    };
    DiscordChannel::with_timeouts(&settings, Arc::new(FaultyBlobs::default()), fetcher(), SHORT).unwrap()
}

/// Does everything that a channel can do, and gathers what it says about it.
async fn everything(channel: &DiscordChannel, item: Option<FileItem>) -> String {
    let mut told = format!("{channel:?} {channel:#?}");
    let part = |content| SendRequest {
        part_id: PartId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: conversation("4711"),
        content,
        reply_to: None,
    };
    let mut note = |said: String| told.push_str(&said);
    note(format!("{:?}", channel.probe().await));
    for content in [Some(text(WORDS)), item.map(PartContent::File)].into_iter().flatten() {
        let answer = channel.send(&part(content)).await;
        if let Err(error) = &answer {
            note(error.to_string());
        }
        note(format!("{answer:?}"));
    }
    let message = MessageRef("1".to_owned());
    note(format!("{:?}", channel.edit(&message, &part(text(WORDS))).await));
    note(format!("{:?}", channel.delete(&conversation("4711"), &message).await));
    let (range, recorded) = (LookupRange::After(None), RecordedMessages::default());
    let look_up = LookupRequest { part: part(text(WORDS)), range, attempts: 1, recorded };
    note(format!("{:?}", channel.find_sent(&look_up).await));
    // Told by the channel's own words, since nobody else may know where a file lies.
    let link = format!("http://{NAME}:{PASSWORD}@127.0.0.1:9/attachments/1/2/a?hm={CANARY}");
    let locator = serde_json::json!({ "url": link, "channel": 4_711, "message": 2, "attachment": 3 });
    let reference = FileReference::new(locator.to_string(), Filename::from_untrusted("a"));
    match tokio::time::timeout(SHORT.response, channel.fetch(&reference)).await {
        Ok(Ok(_)) => note("a file came from nowhere".to_owned()),
        Ok(Err(error)) => note(format!("{error} {error:?}")),
        Err(_) => {}
    }
    channel.show_activity(&conversation("4711"), Activity::Writing).await;
    // The activity is on its way by itself; what it logs is part of what is looked through.
    tokio::time::sleep(SHORT.connect + SHORT.response).await;
    told
}

#[tokio::test]
async fn errors_logs_and_debug_hide_secrets() {
    let log = LogCapture::listen_on_all_threads();
    // Nothing listens, the name leads nowhere, and there is no encryption where some is expected.
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = deaf.local_addr().unwrap();
    for (about, address) in [
        ("a refused connection", format!("http://{closed}/{PASSWORD}")),
        ("a name that leads nowhere", format!("http://nowhere.invalid/{PASSWORD}")),
        ("encryption that is not there", format!("https://{closed}/{PASSWORD}")),
    ] {
        assert_silent(&everything(&channel(CANARY, Some(address)), None).await, about);
    }

    let harness = OutboundHarness::new().await;
    let item = harness.item(&small("a.bin", 1)).await;
    assert_silent(
        &everything(&channel(CANARY, Some(harness.discord.api_url())), Some(item.clone())).await,
        "a wrong token",
    );
    let echo = format!("Not Found: Bot {}", FakeDiscord::TOKEN);
    for fault in [
        Fault::BadGateway { performed: false }.into(),
        Fault::AcceptAndDrop.into(),
        Fault::ResetMidTransfer.into(),
        Fault::Hang { performed: false }.into(),
        DiscordFault::from(ApiRefusal::new(404, 0, echo.clone())),
        DiscordFault::from(ApiRefusal::new(400, 50_035, echo.clone())),
        DiscordFault::Answer { status: 200, body: echo },
    ] {
        harness.discord.clear_script();
        harness.discord.script("*", FaultTiming::Every, fault.clone());
        assert_silent(&everything(&harness.channel, Some(item.clone())).await, &format!("{fault:?}"));
    }
    let logged = log.text();
    assert!(logged.contains("showing an activity failed"), "the log was heard: {logged}");
    assert_silent(&logged, "the log");
    assert_silent(&format!("{:?}", settings(&harness.discord, unpaced())), "the settings");
}

#[test]
fn invalid_settings_error_hides_secrets() {
    for (token, api_url) in [
        (format!("{CANARY}\r\nx: y"), None),
        (String::new(), None),
        (CANARY.to_owned(), Some(format!("ftp://{NAME}:{PASSWORD}@example.org"))),
        (CANARY.to_owned(), Some(format!("{NAME}:{PASSWORD}"))),
        (CANARY.to_owned(), Some(format!("https://{NAME}:{PASSWORD}@example.org"))),
        (CANARY.to_owned(), Some(format!("http://{NAME}:{PASSWORD}@example.org/?x=1"))),
    ] {
        let settings = DiscordSettings {
            token: token.into(),
            api_url: api_url.map(SecretString::from),
            capabilities: unpaced(),
            answers_in: Vec::new(),
            commands: Vec::new(),
        };
        let error = DiscordChannel::new(&settings, Arc::new(FaultyBlobs::default()), fetcher()).unwrap_err();
        assert_silent(&format!("{error} {error:?} {settings:?}"), "a wrong setting");
    }
}
