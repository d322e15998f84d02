//! The way in, against a strict fake of Discord: what people write, use and press, and the files that they send.

use std::{sync::Arc, time::Duration};

use satchel_contracts::log_capture::LogCapture;
use satchel_discord::{DiscordChannel, HttpTimeouts, SlashCommand};
use satchel_domain::{FileReference, InboundMessage, MessageRef, Sha256};
use satchel_fake_discord::{
    ApiRefusal, CDN, DiscordFault, InteractionResponse, Permission, PersonMessage, SentInteraction,
};
use satchel_fake_kit::{FakeFile, Fault, FaultTiming, FaultyBlobs};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::{BlobHint, Blobs, Channel, FetchedFile, FileFetchError};
use satchel_wait::wait_until;
use serde_json::json;

use crate::harness::{ANN, BOB, GENERAL, GUILD, GatewayHarness, OTHER, RecordingInbound};

/// A bot that answers everything in one of its guild's channels, and elsewhere what is said to it.
async fn start() -> GatewayHarness {
    let mut harness = GatewayHarness::start().await;
    harness.settings.answers_in = vec![OTHER.to_string()];
    let command = |(name, description): (&str, &str)| SlashCommand {
        name: name.into(),
        description: description.into(),
        choices: Vec::new(),
        takes_input: false,
    };
    harness.settings.commands =
        [("Files", "the files of this conversation"), ("resend", "send a file again")].map(command).into();
    harness
}

/// A channel that fetches people's files from this machine.
fn channel(harness: &GatewayHarness) -> DiscordChannel {
    let timeouts = HttpTimeouts {
        connect: Duration::from_secs(5),
        response: Duration::from_secs(5),
        idle: Duration::from_millis(300),
    };
    let allowed = vec!["127.0.0.0/8".parse().expect("it is a range")];
    let fetcher = HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() });
    DiscordChannel::with_timeouts(&harness.settings, Arc::new(FaultyBlobs::default()), Arc::new(fetcher), timeouts)
        .expect("the settings are good")
}

/// Waits until so many messages were taken and no more, and returns them.
async fn take(taker: &RecordingInbound, messages: usize) -> Vec<InboundMessage> {
    taker.takes(messages).await;
    assert_eq!(taker.taken().len(), messages, "{:?}", taker.texts());
    taker.taken()
}

fn pdf(name: &str) -> FakeFile {
    FakeFile::from_bytes(name, "application/pdf", "%PDF-1.7 the plan")
}

#[tokio::test]
async fn addressed_messages_are_received_from_everywhere() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let thread = fake.thread(OTHER, 9_210, "a thread");
    let listening = harness.connected(&taker).await;
    fake.person_says(harness.direct, ANN, "directly");
    take(&taker, 1).await;
    let asked = fake.person_says(GENERAL, BOB, &format!("{}, by name", fake.mention()));
    take(&taker, 2).await;
    fake.person_says(GENERAL, BOB, &format!("by role {}", fake.role_mention(GUILD)));
    take(&taker, 3).await;
    fake.person_says(OTHER, ANN, "where it answers everything");
    take(&taker, 4).await;
    fake.person_says(thread, ANN, "in a thread of that");
    let taken = take(&taker, 5).await;
    listening.stop().await;
    assert_eq!(taker.texts(), ["directly", "by name", "by role", "where it answers everything", "in a thread of that"]);
    let places: Vec<(String, bool)> =
        taken.iter().map(|message| (message.conversation.key().to_owned(), message.group)).collect();
    let place = |channel: u64, group: bool| (channel.to_string(), group);
    assert_eq!(
        places,
        [
            place(harness.direct, false),
            place(GENERAL, true),
            place(GENERAL, true),
            place(OTHER, true),
            place(thread, true)
        ]
    );
    assert_eq!(
        (taken[1].key.clone(), taken[1].message.clone()),
        (asked.to_string(), Some(MessageRef(asked.to_string())))
    );
    assert_eq!((taken[1].sender.id.as_str(), taken[1].sender.name.as_str()), ("43", "Bob"));
    assert_eq!(taken[1].raw["content"], format!("{}, by name", fake.mention()), "kept as it came");
}

#[tokio::test]
async fn what_is_not_for_us_is_passed_over() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let elsewhere = fake.thread(GENERAL, 9_210, "a thread");
    let listening = harness.connected(&taker).await;
    let said = fake.person_says(GENERAL, ANN, "hello Bob");
    fake.person_replies(GENERAL, BOB, said, "hello Ann");
    fake.person_says(GENERAL, ANN, &format!("<@{BOB}> look"));
    fake.person_says(GENERAL, ANN, "@everyone look");
    fake.person_says(elsewhere, ANN, "nobody asks the bot");
    harness.bot_says(OTHER, "I say this myself", &[]).await;
    fake.person_says(GENERAL, ANN, &format!("{} the last", fake.mention()));
    take(&taker, 1).await;
    fake.person_says(OTHER, ANN, "here too");
    take(&taker, 2).await;
    listening.stop().await;
    assert_eq!(taker.texts(), ["the last", "here too"]);
    assert_eq!(taker.unreadable(), []);
}

#[tokio::test]
async fn an_answer_brings_what_it_answers() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, "my plan", vec![pdf("plan.pdf")]);
    fake.person_replies(GENERAL, ANN, plan, &format!("{} print it", fake.mention()));
    let taken = take(&taker, 1).await;
    assert_eq!(taken[0].text, "[in reply to a message of Bob with plan.pdf:]\n> my plan\n\nprint it");
    assert_eq!(taken[0].files.len(), 1);
    let question = harness.bot_says(GENERAL, "Shall I?", &[]).await;
    let silently = PersonMessage::text("yes").replying_silently_to(question);
    fake.person_composes(GENERAL, ANN, silently);
    assert_eq!(take(&taker, 2).await[1].text, "[in reply to your own message:]\n> Shall I?\n\nyes");
    listening.stop().await;
}

#[tokio::test]
async fn what_is_passed_on_brings_its_files() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, &format!("my plan, <@{ANN}>"), vec![pdf("plan.pdf")]);
    fake.person_forwards(harness.direct, ANN, plan);
    let taken = take(&taker, 1).await;
    listening.stop().await;
    assert_eq!(taken[0].text, "[forwarded from somebody:]\n> my plan, @Ann");
    assert_eq!(taken[0].files[0].filename.as_str(), "plan.pdf");
}

#[tokio::test]
async fn files_keep_names_and_voice_notes_are_marked() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let files = vec![pdf("план [1].pdf"), pdf("plan.pdf"), pdf("plan.pdf")];
    fake.person_sends(harness.direct, ANN, "three files", files);
    take(&taker, 1).await;
    let speech = FakeFile::from_bytes("voice-message.ogg", "audio/ogg", "OggS");
    fake.person_composes(harness.direct, ANN, PersonMessage::voice(speech, 1.5));
    take(&taker, 2).await;
    fake.person_composes(harness.direct, ANN, PersonMessage::default().with_sticker("Wave"));
    let taken = take(&taker, 3).await;
    listening.stop().await;
    let names: Vec<&str> = taken[0].files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["план [1].pdf", "plan.pdf", "plan.pdf"]);
    assert_eq!((taken[0].files[1].mime.as_deref(), taken[0].files[1].bytes), (Some("application/pdf"), Some(17)));
    assert!(!taken[0].files[0].voice_note && taken[1].files[0].voice_note);
    assert_eq!(taken[2].text, "[sticker: Wave]");
}

#[tokio::test]
async fn edit_is_received_but_link_preview_is_not() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let said = fake.person_says(harness.direct, ANN, "see https://example.org/");
    fake.resolves_embeds(said);
    fake.person_edits(harness.direct, ANN, said, "see https://example.org/ please");
    fake.resolves_embeds(said);
    let taken = take(&taker, 2).await;
    fake.person_says(harness.direct, ANN, "thanks");
    take(&taker, 3).await;
    listening.stop().await;
    assert_eq!(taken[1].text, "see https://example.org/ please");
    assert_eq!(taken[1].edit_of, Some(said.to_string()));
    assert!(taken[1].key.starts_with(&format!("{said}:")), "{}", taken[1].key);
}

const CALLBACK: &str = "POST /interactions/{}/{}/callback";
const OFFER: &str = "PUT /applications/{}/commands";
const OFFERED: &str = "GET /applications/{}/commands";

async fn offered(harness: &GatewayHarness) {
    wait_until("the commands are offered", || harness.fake.commands().len() == 2).await;
}

fn interaction(harness: &GatewayHarness, channel: u64, id: u64) -> SentInteraction {
    let transcript = harness.fake.transcript();
    let found = transcript.channels[&channel].interactions.iter().find(|interaction| interaction.id == id);
    found.expect("it was made").clone()
}

async fn answer(harness: &GatewayHarness, channel: u64, id: u64) -> InteractionResponse {
    wait_until("the interaction is answered", || interaction(harness, channel, id).answer.is_some()).await;
    interaction(harness, channel, id).answer.expect("it was waited for")
}

#[tokio::test]
async fn slash_command_is_stored_with_ephemeral_response() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    offered(&harness).await;
    let used = fake.person_commands(GENERAL, BOB, "resend", &[("words", json!("17"))]);
    let taken = take(&taker, 1).await;
    let answer = answer(&harness, GENERAL, used).await;
    listening.stop().await;
    assert_eq!((taken[0].text.as_str(), taken[0].sender.name.as_str(), taken[0].group), ("/resend 17", "Bob", true));
    assert_eq!((taken[0].key.as_str(), taken[0].message.clone()), (format!("i{used}").as_str(), None));
    assert_eq!(taken[0].conversation.key(), GENERAL.to_string());
    assert_eq!(answer, InteractionResponse { kind: 4, text: "`/resend 17`".into(), ephemeral: true });
    assert_eq!(fake.transcript().pings(), []);
}

#[tokio::test]
async fn button_press_sends_its_command_as_presser() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let question = harness.bot_says(harness.direct, "May I?", &["/allow A1", "buy shoes"]).await;
    let pressed = fake.person_presses(ANN, question, "/allow A1");
    let taken = take(&taker, 1).await;
    assert_eq!(
        answer(&harness, harness.direct, pressed).await,
        InteractionResponse { kind: 6, text: String::new(), ephemeral: false }
    );
    assert_eq!((taken[0].text.as_str(), taken[0].sender.name.as_str(), taken[0].group), ("/allow A1", "Ann", false));
    let nonsense = fake.person_presses(ANN, question, "buy shoes");
    assert_eq!(answer(&harness, harness.direct, nonsense).await.kind, 6, "it doesn't go on waiting");
    listening.stop().await;
    assert_eq!(taker.texts(), ["/allow A1"], "nobody has written the other");
}

#[tokio::test]
async fn interaction_gets_no_response_before_it_is_stored() {
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let question = harness.bot_says(GENERAL, "May I?", &["/allow A1"]).await;
    taker.fail(GENERAL, 3);
    let pressed = fake.person_presses(BOB, question, "/allow A1");
    taker.tried(1).await;
    assert_eq!((fake.requests(CALLBACK), taker.taken().len()), (0, 0));
    answer(&harness, GENERAL, pressed).await;
    assert_eq!(taker.texts(), ["/allow A1"]);
    listening.stop().await;
}

#[tokio::test]
async fn late_interaction_response_is_harmless() {
    let (log, _guard) = LogCapture::listen();
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let question = harness.bot_says(GENERAL, "May I?", &["/allow A1"]).await;
    fake.script_next(CALLBACK, ApiRefusal::new(404, 10_062, "Unknown interaction"));
    fake.person_presses(BOB, question, "/allow A1");
    take(&taker, 1).await;
    wait_until("it was answered", || fake.requests(CALLBACK) == 1).await;
    fake.person_says(GENERAL, ANN, &format!("{} and on", fake.mention()));
    take(&taker, 2).await;
    wait_until("it is told", || log.text().contains("an interaction shows as failed")).await;
    listening.stop().await;
    let text = log.text();
    let line = text.lines().find(|line| line.contains("an interaction shows as failed")).unwrap();
    assert!(line.contains("DEBUG") && line.contains("10062"), "{line}");
}

#[tokio::test]
async fn interaction_token_is_neither_stored_nor_logged() {
    let (log, _guard) = LogCapture::listen();
    let harness = start().await;
    let (fake, taker) = (&harness.fake, RecordingInbound::new());
    let listening = harness.connected(&taker).await;
    let question = harness.bot_says(GENERAL, "May I?", &["/allow A1"]).await;
    fake.script_next(CALLBACK, Fault::ResetMidTransfer);
    let failed = fake.person_presses(BOB, question, "/allow A1");
    wait_until("one answer failed", || log.text().contains("an interaction shows as failed")).await;
    fake.dispatch(
        "INTERACTION_CREATE",
        json!({ "id": "5", "type": 2, "token": "aW50ZXJhY3Rpb246-odd", "channel_id": "7" }),
    );
    wait_until("one was unreadable", || taker.unreadable().len() == 1).await;
    let pressed = fake.person_presses(BOB, question, "/allow A1");
    answer(&harness, GENERAL, pressed).await;
    listening.stop().await;
    let kept = format!("{:?} {:?} {}", taker.taken(), taker.unreadable(), log.text());
    assert!(kept.contains(&failed.to_string()) && !kept.contains("aW50ZXJhY3Rpb246"), "{kept}");
}

#[tokio::test]
async fn commands_are_registered_once_until_they_change() {
    let mut harness = start().await;
    let listening = harness.connected(&RecordingInbound::new()).await;
    offered(&harness).await;
    listening.stop().await;
    let commands = harness.fake.commands();
    assert_eq!(commands[0]["name"], "files", "Discord takes lower case only");
    assert_eq!(commands[0]["contexts"], json!([0, 1]));
    let words = json!([{ "type": 3, "name": "words", "description": "What to add to the command", "required": false }]);
    let shown =
        |option: &serde_json::Value| ["type", "name", "description", "required"].map(|field| option[field].clone());
    assert_eq!(shown(&commands[0]["options"][0]), shown(&words[0]));
    assert_eq!(harness.fake.requests(OFFER), 1);

    let listening = harness.connected(&RecordingInbound::new()).await;
    wait_until("what is offered was looked at", || harness.fake.requests(OFFERED) == 2).await;
    listening.stop().await;
    assert_eq!(harness.fake.requests(OFFER), 1, "they are there");

    harness.settings.commands[1].description = "send it once more".into();
    let listening = harness.connected(&RecordingInbound::new()).await;
    wait_until("the new words are there", || harness.fake.commands()[1]["description"] == "send it once more").await;
    listening.stop().await;
    assert_eq!(harness.fake.requests(OFFER), 2);
}

#[tokio::test]
async fn choices_are_registered_up_to_the_limit() {
    let mut harness = start().await;
    let choices = |count: usize| (0..count).map(|number| format!("agent-{number}")).collect::<Vec<_>>();
    harness.settings.commands[1].choices = choices(25);
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    offered(&harness).await;
    let registered = |harness: &GatewayHarness| {
        let options = harness.fake.commands()[1]["options"].clone();
        options[0]["choices"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(registered(&harness).len(), 25);
    assert_eq!(registered(&harness)[24], json!({ "name": "agent-24", "value": "agent-24" }));
    harness.fake.person_commands(GENERAL, BOB, "resend", &[("words", json!("agent-7"))]);
    take(&taker, 1).await;
    assert_eq!(taker.texts(), ["/resend agent-7"]);
    listening.stop().await;

    let listening = harness.connected(&RecordingInbound::new()).await;
    wait_until("what is offered was looked at", || harness.fake.requests(OFFERED) == 2).await;
    listening.stop().await;
    assert_eq!(harness.fake.requests(OFFER), 1, "they are there");

    harness.settings.commands[1].choices = choices(26);
    let listening = harness.connected(&RecordingInbound::new()).await;
    wait_until("no choice limits what is typed", || registered(&harness).is_empty()).await;
    listening.stop().await;
    assert_eq!(harness.fake.requests(OFFER), 2);
}

#[tokio::test]
async fn failed_command_registration_is_retried_without_blocking() {
    let (log, _guard) = LogCapture::listen();
    let harness = start().await;
    let taker = RecordingInbound::new();
    harness.fake.script(OFFER, FaultTiming::First(1), Fault::ServerError);
    let listening = harness.connected(&taker).await;
    harness.fake.person_says(harness.direct, ANN, "/files");
    take(&taker, 1).await;
    offered(&harness).await;
    listening.stop().await;
    assert_eq!(log.text().matches("registering the commands with Discord failed").count(), 1, "{}", log.text());
}

const MEGABYTE: u64 = 1 << 20;
const MESSAGE: &str = "GET /channels/{}/messages/{}";

fn generated(bytes: u64) -> FakeFile {
    FakeFile::generated("скан.bin", "application/octet-stream", 3, bytes)
}

/// Lets Ann send a file, and returns how it came in and the message that carries it.
async fn sent(harness: &GatewayHarness, file: FakeFile) -> (FileReference, u64) {
    let taker = RecordingInbound::new();
    let listening = harness.connected(&taker).await;
    let message = harness.fake.person_sends(harness.direct, ANN, "", vec![file]);
    let reference = take(&taker, 1).await.remove(0).files.remove(0);
    listening.stop().await;
    (reference, message)
}

/// Fetches a file as intake does.
async fn fetched(channel: &DiscordChannel, reference: &FileReference) -> Result<(Option<u64>, Sha256), FileFetchError> {
    let FetchedFile::Bytes { bytes, content } = channel.fetch(reference).await? else {
        unreachable!("it has no store")
    };
    let stored = FaultyBlobs::default().put(content, &BlobHint::default(), u64::MAX).await;
    let stored = stored.map_err(|error| FileFetchError::Retryable { reason: format!("{error:?}") })?;
    Ok((bytes, stored.sha256))
}

async fn refusal(channel: &DiscordChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Permanent { reason }) => reason,
        other => unreachable!("not refused: {other:?}"),
    }
}

async fn another_try(channel: &DiscordChannel, reference: &FileReference) -> String {
    match fetched(channel, reference).await {
        Err(FileFetchError::Retryable { reason }) => reason,
        other => unreachable!("not to be tried again: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_arrives_byte_for_byte() {
    let harness = start().await;
    let file = generated(9 * MEGABYTE);
    let (reference, _) = sent(&harness, file.clone()).await;
    assert_eq!(fetched(&channel(&harness), &reference).await.unwrap(), (Some(9 * MEGABYTE), file.sha256()));
    assert_eq!((harness.fake.requests(CDN), harness.fake.requests(MESSAGE)), (1, 0));
}

#[tokio::test]
async fn rejected_file_link_is_refreshed() {
    let harness = start().await;
    let file = generated(MEGABYTE);
    let (reference, _) = sent(&harness, file.clone()).await;
    harness.fake.expire_links();
    assert_eq!(fetched(&channel(&harness), &reference).await.unwrap(), (Some(MEGABYTE), file.sha256()));
    assert_eq!((harness.fake.requests(CDN), harness.fake.requests(MESSAGE)), (2, 1));
}

#[tokio::test]
async fn expired_file_link_is_refreshed_without_trying_it() {
    let harness = start().await;
    let file = generated(MEGABYTE);
    harness.fake.links_live(Duration::ZERO);
    let (reference, _) = sent(&harness, file.clone()).await;
    harness.fake.links_live(Duration::from_secs(60));
    assert_eq!(fetched(&channel(&harness), &reference).await.unwrap().1, file.sha256());
    assert_eq!((harness.fake.requests(CDN), harness.fake.requests(MESSAGE)), (1, 1));
}

#[tokio::test]
async fn links_in_replies_and_forwards_are_refreshed_too() {
    let harness = start().await;
    let (fake, taker, file) = (&harness.fake, RecordingInbound::new(), generated(MEGABYTE));
    let listening = harness.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, "my plan", vec![file.clone()]);
    fake.person_forwards(harness.direct, ANN, plan);
    take(&taker, 1).await;
    fake.person_replies(GENERAL, ANN, plan, &format!("{} print it", fake.mention()));
    let taken = take(&taker, 2).await;
    listening.stop().await;
    fake.expire_links();
    for message in taken {
        assert_eq!(fetched(&channel(&harness), &message.files[0]).await.unwrap().1, file.sha256(), "{}", message.text);
    }
    assert_eq!(fake.requests(MESSAGE), 2);
}

#[tokio::test]
async fn file_of_deleted_message_is_refused_after_expiry() {
    let harness = start().await;
    let file = generated(MEGABYTE);
    let (reference, message) = sent(&harness, file).await;
    harness.fake.person_deletes(message);
    harness.fake.expire_links();
    let told = refusal(&channel(&harness), &reference).await;
    assert_eq!(told, "Discord no longer has this file: its message was deleted");
}

#[tokio::test]
async fn file_removed_from_its_message_is_refused() {
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(MEGABYTE)).await;
    harness.fake.expire_links();
    let body = format!(r#"{{"id":"1","channel_id":"2","author":{{"id":"{ANN}"}},"attachments":[]}}"#);
    harness.fake.script_next(MESSAGE, DiscordFault::Answer { status: 200, body });
    assert_eq!(refusal(&channel(&harness), &reference).await, "Discord no longer has this file");
}

#[tokio::test]
async fn link_refresh_needs_access_to_channel_history() {
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(MEGABYTE)).await;
    harness.fake.forbid(harness.direct, Permission::ReadHistory);
    assert!(fetched(&channel(&harness), &reference).await.is_ok(), "its own link works all the same");
    harness.fake.expire_links();
    let told = refusal(&channel(&harness), &reference).await;
    assert_eq!(
        told,
        "its link has expired, and the bot has no permission to read this channel's history for a new one"
    );
}

#[tokio::test]
async fn what_may_pass_is_to_be_tried_again() {
    let harness = start().await;
    let file = generated(MEGABYTE);
    let (reference, _) = sent(&harness, file.clone()).await;
    let channel = channel(&harness);
    for (route, fault) in [
        (CDN, DiscordFault::from(Fault::ServerError)),
        (CDN, Fault::BadGateway { performed: false }.into()),
        (CDN, Fault::ResetMidTransfer.into()),
        (CDN, ApiRefusal::new(429, 0, "slow down").into()),
    ] {
        harness.fake.script_next(route, fault.clone());
        assert!(!another_try(&channel, &reference).await.is_empty(), "{fault:?}");
    }
    harness.fake.expire_links();
    for fault in [
        DiscordFault::from(Fault::ServerError),
        Fault::BadGateway { performed: false }.into(),
        Fault::ResetMidTransfer.into(),
        Fault::RateLimit { retry_after_ms: 100 }.into(),
        DiscordFault::Answer { status: 200, body: "[]".into() },
    ] {
        harness.fake.script_next(MESSAGE, fault.clone());
        assert!(!another_try(&channel, &reference).await.is_empty(), "{fault:?}");
    }
    assert_eq!(fetched(&channel, &reference).await.unwrap().1, file.sha256());
}

#[tokio::test]
async fn fetch_retry_respects_discords_retry_after() {
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(MEGABYTE)).await;
    harness.fake.expire_links();
    harness.fake.script_next(MESSAGE, Fault::RateLimit { retry_after_ms: 700 });
    let begun = std::time::Instant::now();
    another_try(&channel(&harness), &reference).await;
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn files_are_fetched_only_from_discords_cdn() {
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(MEGABYTE)).await;
    let elsewhere = reference.locator.replace("127.0.0.1", "localhost");
    assert_ne!(elsewhere, reference.locator);
    let there = FileReference { locator: elsewhere, ..reference.clone() };
    assert!(!refusal(&channel(&harness), &there).await.is_empty());
    let nonsense = FileReference { locator: "../../etc/passwd".into(), ..reference };
    assert_eq!(refusal(&channel(&harness), &nonsense).await, "Discord did not say where the file is");
    assert_eq!(harness.fake.requests(CDN), 0);
}

#[tokio::test]
async fn file_much_larger_than_announced_is_refused() {
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(3 * MEGABYTE)).await;
    let smaller = FileReference { bytes: Some(MEGABYTE), ..reference };
    assert!(!refusal(&channel(&harness), &smaller).await.is_empty());
}

#[tokio::test]
async fn file_link_never_appears_in_errors_or_logs() {
    let (log, _guard) = LogCapture::listen();
    let harness = start().await;
    let (reference, _) = sent(&harness, generated(MEGABYTE)).await;
    let link: serde_json::Value = serde_json::from_str(&reference.locator).unwrap();
    let (_, signed) = link["url"].as_str().unwrap().split_once("hm=").unwrap();
    let signature = signed.trim_end_matches('&').to_owned();
    assert_eq!(signature.len(), 64);
    let channel = channel(&harness);
    let mut told = format!("{channel:?}");
    fetched(&channel, &reference).await.unwrap();
    let echo = ApiRefusal::new(400, 0, format!("what is {signature}?"));
    for (route, fault) in [
        (CDN, DiscordFault::from(Fault::ResetMidTransfer)),
        (CDN, Fault::BadGateway { performed: false }.into()),
        (CDN, Fault::ServerError.into()),
        (CDN, echo.into()),
    ] {
        harness.fake.script_next(route, fault);
        told += &format!("\n{:?}", fetched(&channel, &reference).await.unwrap_err());
    }
    harness.fake.expire_links();
    harness.fake.script_next(MESSAGE, Fault::ResetMidTransfer);
    told += &format!("\n{:?}", fetched(&channel, &reference).await.unwrap_err());
    fetched(&channel, &reference).await.unwrap();
    let told = told + &log.text();
    assert!(log.text().contains("satchel_discord"), "it has listened");
    let (_, secret) = harness.fake.token().rsplit_once('.').unwrap();
    for never in [signature.as_str(), "hm=", "ex=", secret] {
        assert!(!told.contains(never), "{never}: {told}");
    }
}
