//! What Satchel sends, over the real wire against the strict fake.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod limits;
mod platform;
mod retries;

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_contracts::channel::{ArrivedMessage, ChannelFault, ChannelFixture};
use satchel_discord::{DiscordChannel, DiscordSettings, HttpTimeouts};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Button, ChannelCapabilities, ConversationId, FileReference, Filename,
    MessageRef, PartContent, PartId, Timestamp, TurnId, Visibility,
    delivery::{Refusal, SendError},
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_fake_discord::{DiscordMessage, DiscordRules, FakeDiscord, Mention, Permission, Tier};
use satchel_fake_kit::{FakeFile, Fault, FaultyBlobs};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::{Activity, BlobHint, Blobs, ByteStream, Channel, PostRequest};
use satchel_routing::tables;
use serde_json::{Value, json};
use uuid::Uuid;

/// Waits for tests in which answers never come.
pub(crate) const SHORT: HttpTimeouts = HttpTimeouts {
    connect: Duration::from_millis(500),
    response: Duration::from_millis(600),
    idle: Duration::from_millis(400),
};

const CREATE: &str = "POST /channels/{}/messages";
const EDIT: &str = "PATCH /channels/{}/messages/{}";
const DELETE: &str = "DELETE /channels/{}/messages/{}";

const GUILD: u64 = 71;
const PERSON: u64 = 4_711;

/// A bot, the platform that it works on, and a channel of a guild.
pub(crate) struct OutboundHarness {
    pub(crate) discord: FakeDiscord,
    pub(crate) channel: Arc<DiscordChannel>,
    pub(crate) blobs: Arc<FaultyBlobs>,
    pub(crate) place: u64,
}

/// Discord's table without its pace, which tests that are not about it need not wait for.
pub(crate) fn unpaced() -> ChannelCapabilities {
    ChannelCapabilities { rate_limits: None, ..tables::discord() }
}

pub(crate) fn settings(discord: &FakeDiscord, capabilities: ChannelCapabilities) -> DiscordSettings {
    DiscordSettings {
        token: discord.token().into(),
        api_url: Some(discord.api_url().into()),
        capabilities,
        answers_in: Vec::new(),
        needs_parents: false,
        commands: Vec::new(),
    }
}

/// A fetcher that may ask this machine, where the fake is.
pub(crate) fn fetcher() -> Arc<HttpFetcher> {
    let allowed = vec!["127.0.0.1".parse().unwrap()];
    Arc::new(HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() }))
}

pub(crate) fn channel_with(
    discord: &FakeDiscord,
    blobs: Arc<dyn Blobs>,
    capabilities: ChannelCapabilities,
) -> DiscordChannel {
    DiscordChannel::with_timeouts(&settings(discord, capabilities), blobs, fetcher(), SHORT).unwrap()
}

impl OutboundHarness {
    /// A harness with all limits of the platform but its pace.
    pub(crate) async fn new() -> Self {
        Self::with(DiscordRules::unpaced(), unpaced()).await
    }

    pub(crate) async fn with(rules: DiscordRules, capabilities: ChannelCapabilities) -> Self {
        let discord = FakeDiscord::start(rules).await.unwrap();
        let blobs = Arc::new(FaultyBlobs::default());
        let channel = channel_with(&discord, Arc::clone(&blobs) as _, capabilities);
        discord.person(PERSON, "Ann");
        discord.guild(GUILD, "Home", Tier::None);
        let place = discord.channel(GUILD, 100, "general");
        Self { discord, channel: Arc::new(channel), blobs, place }
    }

    /// The same bot after a restart, which remembers nothing.
    pub(crate) fn restarted(&self) -> DiscordChannel {
        channel_with(&self.discord, Arc::clone(&self.blobs) as _, unpaced())
    }

    pub(crate) fn part_in(&self, place: u64, content: PartContent) -> PostRequest {
        PostRequest {
            part_id: PartId(Uuid::now_v7()),
            turn: TurnId(Uuid::from_u128(1)),
            conversation: conversation(&place.to_string()),
            content,
            reply_to: None,
        }
    }

    pub(crate) fn part(&self, content: PartContent) -> PostRequest {
        self.part_in(self.place, content)
    }

    pub(crate) async fn send(&self, content: PartContent) -> Result<Vec<MessageRef>, SendError> {
        self.channel.post(&self.part(content)).await
    }

    /// Stores a file as an item of a part.
    pub(crate) async fn item(&self, file: &FakeFile) -> FileItem {
        let filename = Filename::from_untrusted(&file.filename);
        let hint = BlobHint { filename: Some(filename.clone()), mime: Some(file.mime.clone()), bytes: None };
        let stored = self.blobs.put(file.stream(), &hint, 1 << 30).await.unwrap();
        let attachment = Attachment {
            id: AttachmentId(Uuid::from_u128(1)),
            number: NonZeroU64::MIN,
            conversation: conversation("1"),
            source: AttachmentSource::Tool,
            filename,
            mime: stored.mime,
            bytes: stored.bytes,
            sha256: stored.sha256,
            media: stored.media,
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        };
        FileItem { attachment, form: FileForm::Document, caption: String::new() }
    }

    /// Stores small files under these names.
    pub(crate) async fn items(&self, names: &[&str]) -> Vec<FileItem> {
        let mut items = Vec::new();
        for (number, name) in names.iter().enumerate() {
            items.push(self.item(&small(name, number as u64)).await);
        }
        items
    }

    pub(crate) async fn voice(&self, as_file: bool) -> PartContent {
        let hint = BlobHint { filename: None, mime: Some("audio/ogg".to_owned()), bytes: None };
        let stored = self.blobs.put(once(b"OggS\0\x02 OpusHead".as_slice()), &hint, 1 << 20).await.unwrap();
        let prepared =
            PreparedVoice { sha256: stored.sha256, bytes: stored.bytes, duration_ms: 1_250, waveform: vec![0, 255] };
        PartContent::Voice {
            text: "hello".to_owned(),
            in_text: true,
            prepared: Some(prepared),
            as_file,
            caption: String::new(),
        }
    }

    /// The words of the bot's messages in the guild's channel.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.discord.transcript().texts(self.place).into_iter().map(str::to_owned).collect()
    }

    /// How many messages of the bot stand in the guild's channel.
    pub(crate) fn visible(&self) -> usize {
        self.discord.transcript().visible(self.place).count()
    }
}

pub(crate) fn conversation(key: &str) -> ConversationId {
    format!("discord:{key}").parse().unwrap()
}

pub(crate) fn once(content: impl Into<Bytes>) -> ByteStream {
    let content = content.into();
    stream::once(async move { Ok(content) }).boxed()
}

pub(crate) fn text(words: &str) -> PartContent {
    PartContent::from_text(words)
}

pub(crate) fn bundle(words: &str, files: Vec<FileItem>) -> PartContent {
    PartContent::Text { text: words.to_owned(), markup: Markup::Rich, files }
}

pub(crate) fn small(name: &str, seed: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, 2_000)
}

impl OutboundHarness {
    /// The file of a message as the way in would note it, with a link of Discord's own.
    async fn reference(&self, filename: &str, message: u64) -> FileReference {
        let address = format!("{}/api/v10/channels/{}/messages/{message}", self.discord.api_url(), self.place);
        let request = reqwest::Client::new().get(address).header("user-agent", "DiscordBot (https://a.b, 1)");
        let answer = request.header("authorization", format!("Bot {}", self.discord.token())).send().await.unwrap();
        let told: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let file = &told["attachments"][0];
        let attachment: u64 = file["id"].as_str().unwrap().parse().unwrap();
        let locator = json!({
            "url": file["url"], "channel": self.place, "message": message, "attachment": attachment,
        });
        FileReference::new(locator.to_string(), Filename::from_untrusted(filename))
    }
}

#[async_trait]
impl ChannelFixture for OutboundHarness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel) as _
    }

    fn conversation(&self) -> ConversationId {
        conversation(&self.place.to_string())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as _
    }

    async fn arrived_messages(&self) -> Vec<ArrivedMessage> {
        let arrived = |message: &DiscordMessage| ArrivedMessage {
            message: MessageRef(message.id.to_string()),
            text: message.content.clone(),
            files: message.files.iter().map(|file| (file.shown_name(), file.sha256)).collect(),
        };
        self.discord.transcript().visible(self.place).map(arrived).collect()
    }

    async fn inject_fault(&self, trouble: ChannelFault) -> bool {
        let fault = match trouble {
            ChannelFault::ConnectionRefused => {
                self.discord.refuse_connections(Duration::from_secs(2));
                return true;
            }
            ChannelFault::RateLimited { retry_after_ms } => Fault::RateLimit { retry_after_ms },
            ChannelFault::ServerError => Fault::ServerError,
            ChannelFault::Reset => Fault::ResetMidTransfer,
            ChannelFault::ResponseLost => Fault::AcceptAndDrop,
            ChannelFault::ForeignResponse => Fault::BadGateway { performed: true },
            ChannelFault::Hang => Fault::Hang { performed: false },
            ChannelFault::Forbidden => Fault::Forbidden,
        };
        // A client's first call takes a while; one that is dropped soon should have reached the platform by then.
        self.channel.probe().await.unwrap();
        self.discord.script_next("POST /channels/{}/messages", fault);
        true
    }

    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference> {
        let file = FakeFile::from_bytes(filename, "application/octet-stream", content);
        let message = self.discord.person_sends(self.place, PERSON, "", vec![file]);
        Some(self.reference(filename, message).await)
    }
}

satchel_contracts::channel_contract!(OutboundHarness::new().await);

#[tokio::test]
async fn rich_text_is_formatted_and_plain_text_literal() {
    let harness = OutboundHarness::new().await;
    harness.send(text("# Plan\n\n- [x] **one**\n- [ ] two")).await.unwrap();
    harness
        .send(PartContent::Text { text: "**as is**".to_owned(), markup: Markup::Plain, files: vec![] })
        .await
        .unwrap();
    assert_eq!(harness.texts(), ["# Plan\n\n- ☑ **one**\n- ☐ two", "\\*\\*as is\\*\\*"]);
}

#[tokio::test]
async fn nobody_is_ever_pinged() {
    let harness = OutboundHarness::new().await;
    let asked = harness.discord.person_says(harness.place, PERSON, "hello");
    let words = format!("@everyone @here <@{PERSON}> <@&{GUILD}>");
    let part = PostRequest { reply_to: Some(MessageRef(asked.to_string())), ..harness.part(text(&words)) };
    let sent = harness.channel.post(&part).await.unwrap();
    harness.channel.edit(&sent[0], &harness.part(text(&format!("{words} again")))).await.unwrap();
    harness.send(bundle(&words, harness.items(&["a.bin"]).await)).await.unwrap();
    harness.send(PartContent::Notice { text: words.clone() }).await.unwrap();
    let transcript = harness.discord.transcript();
    assert_eq!(transcript.pings(), Vec::<Mention>::new());
    assert_eq!(transcript.texts(harness.place), [format!("{words} again"), words.clone(), words], "the words are kept");
}

#[tokio::test]
async fn files_accompany_text_in_order_with_descriptions() {
    let harness = OutboundHarness::new().await;
    let mut files = harness.items(&["a.bin", "b.bin", "c.bin"]).await;
    files[1].caption = "the second".to_owned();
    let ids = harness.send(bundle("three files", files)).await.unwrap();
    let transcript = harness.discord.transcript();
    let message = transcript.message(ids[0].0.parse().unwrap()).unwrap();
    assert_eq!(message.content, "three files");
    let shown: Vec<_> =
        message.files.iter().map(|file| (file.filename.as_str(), file.description.as_deref())).collect();
    assert_eq!(shown, [("a.bin", None), ("b.bin", Some("the second")), ("c.bin", None)]);
}

#[tokio::test]
async fn file_names_stay_original_and_break_no_header() {
    let harness = OutboundHarness::new().await;
    let names = [
        "quote\".txt",
        "Отчёт за май.bin",
        "a\r\nContent-Type: text/html\r\n\r\nevil.txt",
        "semi;name=\"x\".txt",
        "same.txt",
        "same.txt",
        "back\\slash.txt",
        "100%25.txt",
        "no extension",
        "__init__.py",
    ];
    let items = harness.items(&names).await;
    let expected: Vec<_> =
        items.iter().map(|item| (item.attachment.filename.to_string(), item.attachment.sha256)).collect();
    harness.send(PartContent::Album { items }).await.unwrap();
    let transcript = harness.discord.transcript();
    let shown: Vec<_> =
        transcript.files(harness.place).into_iter().map(|file| (file.shown_name(), file.sha256)).collect();
    for (number, (shown, (name, sha256))) in shown.iter().zip(&expected).enumerate() {
        let name = if number == 5 { "same-2.txt" } else { name };
        assert_eq!((shown.0.as_str(), shown.1), (name, *sha256));
    }
    assert_eq!(shown.len(), names.len());
    let calls = harness.discord.calls();
    let sent = &calls.last().unwrap().files;
    assert_eq!(sent.len(), names.len());
    assert!(sent.values().all(|file| file.mime == "application/octet-stream"), "no header was slipped in: {sent:?}");
}

#[tokio::test]
async fn voice_is_native_voice_message_with_waveform() {
    let harness = OutboundHarness::new().await;
    let voice = harness.voice(false).await;
    harness.send(voice).await.unwrap();
    let transcript = harness.discord.transcript();
    let message = transcript.visible(harness.place).next().unwrap();
    assert!(message.is_voice() && message.content.is_empty());
    let file = &message.files[0];
    assert_eq!((file.filename.as_str(), file.mime.as_str()), ("voice-message.ogg", "audio/ogg"));
    assert_eq!((file.duration_secs, file.waveform.as_deref()), (Some(1.25), Some(STANDARD.encode([0, 255]).as_str())));
}

#[tokio::test]
async fn voice_as_file_is_playable_attachment() {
    let harness = OutboundHarness::new().await;
    let voice = harness.voice(true).await;
    harness.send(voice).await.unwrap();
    let transcript = harness.discord.transcript();
    let message = transcript.visible(harness.place).next().unwrap();
    assert!(!message.is_voice());
    assert_eq!(message.files[0].filename, "voice.ogg");
}

#[tokio::test]
async fn question_buttons_carry_commands_until_decided() {
    let harness = OutboundHarness::new().await;
    let button = |label: &str, command: &str| Button { label: label.to_owned(), command: command.to_owned() };
    let buttons = vec![button("Allow", "/allow 7"), button("Refuse", "/refuse 7")];
    let sent = harness.send(PartContent::question("May I?", buttons)).await.unwrap();
    let buttons = || {
        let transcript = harness.discord.transcript();
        let message = transcript.message(sent[0].0.parse().unwrap()).unwrap();
        let row = message.buttons.iter().flatten();
        row.map(|button| (button.label.clone(), button.custom_id.clone().unwrap())).collect::<Vec<_>>()
    };
    let pair = |label: &str, command: &str| (label.to_owned(), command.to_owned());
    assert_eq!(buttons(), [pair("Allow", "/allow 7"), pair("Refuse", "/refuse 7")]);
    harness.channel.edit(&sent[0], &harness.part(PartContent::Notice { text: "Allowed.".to_owned() })).await.unwrap();
    assert_eq!(buttons(), []);
    assert_eq!(harness.texts(), ["Allowed."]);
}

#[tokio::test]
async fn final_edit_adds_files_and_is_idempotent() {
    let harness = OutboundHarness::new().await;
    let sent = harness.send(text("grow")).await.unwrap();
    harness.channel.edit(&sent[0], &harness.part(text("growing"))).await.unwrap();
    let last = harness.part(bundle("grown", harness.items(&["a.bin", "b.bin"]).await));
    for _ in 0..3 {
        assert_eq!(harness.channel.edit(&sent[0], &last).await, Ok(sent.clone()));
    }
    let transcript = harness.discord.transcript();
    let message = transcript.message(sent[0].0.parse().unwrap()).unwrap();
    assert_eq!((message.content.as_str(), harness.visible()), ("grown", 1));
    let names: Vec<_> = message.files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["a.bin", "b.bin"]);
}

#[tokio::test]
async fn a_persons_direct_channel_is_opened_once() {
    let harness = OutboundHarness::new().await;
    let to_ann = |words: &str| PostRequest { conversation: conversation("@4711"), ..harness.part(text(words)) };
    harness.channel.show_activity(&conversation("@4711"), Activity::Writing).await;
    let sent = harness.channel.post(&to_ann("hello")).await.unwrap();
    harness.channel.post(&to_ann("again")).await.unwrap();
    harness.channel.edit(&sent[0], &to_ann("hello, Ann")).await.unwrap();
    let direct = harness.discord.direct(PERSON);
    assert_eq!(harness.discord.transcript().texts(direct), ["hello, Ann", "again"]);
    assert_eq!(harness.discord.requests("POST /users/@me/channels"), 1);
    let after_a_restart = harness.restarted();
    harness.discord.script_next("POST /users/@me/channels", Fault::AcceptAndDrop);
    let answer = after_a_restart.post(&to_ann("later")).await;
    assert!(matches!(answer, Err(SendError::NotSent { .. })), "opening shows nothing: {answer:?}");
    after_a_restart.post(&to_ann("later")).await.unwrap();
    assert_eq!(harness.discord.transcript().texts(direct).len(), 3);
}

#[tokio::test]
async fn typing_indicator_is_sent_but_not_repeated_immediately() {
    let harness = OutboundHarness::new().await;
    let shown = harness.discord.on_nth("POST /channels/{}/typing", 1, satchel_fake_kit::RequestPhase::Performed);
    for activity in [Activity::Writing, Activity::Speaking, Activity::Uploading] {
        harness.channel.show_activity(&conversation("100"), activity).await;
    }
    shown.await.unwrap();
    // Long enough for the answer to be read, and then for another call to arrive.
    tokio::time::sleep(Duration::from_millis(150)).await;
    harness.channel.show_activity(&conversation("100"), Activity::Writing).await;
    // Another call would arrive by now.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(harness.discord.transcript().channels[&harness.place].typed, 1);
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
    let to_the_person = harness.channel.post(&harness.part_in(direct, hello())).await;
    assert_eq!(reason(to_the_person), "the person doesn't accept direct messages from the bot");
    harness.discord.forbid(harness.place, Permission::Send);
    assert!(reason(harness.send(hello()).await).starts_with("the bot lacks a permission"));
    harness.discord.forbid(harness.place, Permission::View);
    assert_eq!(reason(harness.send(hello()).await), "the bot can't see the channel");
    harness.discord.delete_channel(harness.place);
    assert_eq!(reason(harness.send(hello()).await), "the channel no longer exists");
    let elsewhere = PostRequest { conversation: "console:main".parse().unwrap(), ..harness.part(hello()) };
    assert_eq!(reason(harness.channel.post(&elsewhere).await), "console:main is not a Discord channel");
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
async fn message_is_sent_without_unavailable_reply_target() {
    let harness = OutboundHarness::new().await;
    let asked = harness.discord.person_says(harness.place, PERSON, "hello?");
    let answering = |content| PostRequest { reply_to: Some(MessageRef(asked.to_string())), ..harness.part(content) };
    harness.channel.post(&answering(text("an answer"))).await.unwrap();
    harness.discord.forbid(harness.place, Permission::ReadHistory);
    harness.channel.post(&answering(bundle("no reference is allowed", harness.items(&["a.bin"]).await))).await.unwrap();
    harness.discord.allow(harness.place, Permission::ReadHistory);
    harness.discord.person_deletes(asked);
    harness.channel.post(&answering(text("it is gone"))).await.unwrap();
    let transcript = harness.discord.transcript();
    let answered: Vec<_> = transcript.visible(harness.place).map(|message| message.reply_to).collect();
    assert_eq!(answered, [Some(asked), None, None]);
    assert_eq!(transcript.files(harness.place).len(), 1);
}
