//! The promises of the bot platforms over their strict fakes, one function each; an adapter runs them all through
//! [`crate::platform_contract!`], besides [`crate::channel_contract!`].
//!
//! They go further than the port's: every kind of send meets every response of the platform's table and every way in
//! which a connection fails, over the adapter's own HTTP client. What differs between platforms is data of the fixture.

mod account;
mod doubt;
mod responses;
mod secrets;
mod uploads;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use satchel_domain::{
    ConversationId, FileReference, MessageRef, PartContent, PartId, Sha256, TurnId,
    delivery::{Refusal, SendError},
};
use satchel_ports::{Blobs, Channel, PostRequest};
use uuid::Uuid;

pub use self::{
    account::refused_account_closes_channel_until_it_is_accepted,
    doubt::{
        connection_lost_after_request_is_in_doubt, delete_after_lost_response_succeeds,
        probe_reports_unreachable_platform, refused_connection_is_never_in_doubt,
    },
    responses::{
        edit_of_missing_or_foreign_message_reports_gone, forbidden_voice_is_cached_per_conversation,
        rate_limit_is_honoured_until_it_ends, response_table_decides_outcome, same_deletion_again_succeeds,
        same_edit_again_succeeds,
    },
    secrets::{errors_logs_and_debug_hide_secrets, invalid_settings_error_hides_secrets},
    uploads::{
        large_file_arrives_whole, long_upload_shows_activity, unreadable_bytes_are_sent_to_nobody, upload_is_streamed,
    },
};
use crate::channel::ChannelFixture;

/// How soon a call fails that needs no waiting: nobody sleeps over a response.
const PROMPT: Duration = Duration::from_secs(2);

/// What is sent or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendKind {
    Text,
    /// A text with files in one message.
    Bundle,
    Voice,
    File,
    Album,
    Edit,
    /// An edit to a text with files.
    EditToBundle,
    Delete,
}

impl SendKind {
    /// The request that carries it.
    #[must_use]
    pub fn operation(self) -> PlatformOperation {
        match self {
            Self::Edit | Self::EditToBundle => PlatformOperation::Edit,
            Self::Delete => PlatformOperation::Delete,
            _ => PlatformOperation::Send,
        }
    }

    fn changes_message(self) -> bool {
        self.operation() != PlatformOperation::Send
    }
}

/// The requests that a fault meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlatformOperation {
    /// Whatever is sent.
    Send,
    /// A file is sent as a document.
    Upload,
    Edit,
    Delete,
    /// The request by which the channel asks whether the platform answers.
    Probe,
}

/// What a request meets instead of the platform's own response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformFault {
    /// Nothing listens when the request is made.
    ConnectionRefused,
    /// The connection ends before the request was read.
    Reset,
    /// The request is performed and the response is lost.
    ResponseLost,
    /// A proxy answers in the platform's place.
    ForeignResponse { performed: bool },
    /// No response ever arrives.
    Hang { performed: bool },
    /// The platform asks to wait so long.
    RateLimited {
        /// In milliseconds.
        retry_after_ms: u64,
    },
    /// The platform's refusal with this status and text.
    Refusal { status: u16, text: String },
    /// The request is not performed, and this is the response.
    Response { status: u16, body: String },
}

/// What a channel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedOutcome {
    Sent(Vec<MessageRef>),
    /// Certainly not sent, and after this delay it may be.
    NotSent {
        retry_after_ms: Option<u64>,
    },
    InDoubt,
    Forbidden,
    AccountRefused,
    Refused(Refusal),
    Unreadable,
}

impl From<Result<Vec<MessageRef>, SendError>> for ExpectedOutcome {
    fn from(outcome: Result<Vec<MessageRef>, SendError>) -> Self {
        match outcome {
            Ok(messages) => Self::Sent(messages),
            Err(SendError::NotSent { retry_after_ms, .. }) => Self::NotSent { retry_after_ms },
            Err(SendError::InDoubt { .. }) => Self::InDoubt,
            Err(SendError::Forbidden { .. }) => Self::Forbidden,
            Err(SendError::AccountRefused { .. }) => Self::AccountRefused,
            Err(SendError::Refused { refusal, .. }) => Self::Refused(refusal),
            Err(SendError::Unreadable { .. }) => Self::Unreadable,
        }
    }
}

/// A row of the platform's table: what a response means for each kind of send. `F` is a fault of the platform's own.
#[derive(Debug, Clone)]
pub struct ResponseRow<F> {
    pub fault: F,
    pub kinds: &'static [SendKind],
    pub outcome: ExpectedOutcome,
}

/// Why the bytes of a stored file can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobDamage {
    /// They are gone.
    Missing,
    /// They are others.
    Damaged,
}

/// How a fixture opens another channel.
pub struct ChannelOptions {
    pub token: String,
    /// Another server than the platform's own.
    pub api_url: Option<String>,
    pub blobs: Arc<dyn Blobs>,
    /// How long a response may take.
    pub response_timeout: Duration,
}

/// A channel and what `Debug` shows of it.
pub struct OpenedChannel {
    pub channel: Arc<dyn Channel>,
    pub debug: String,
}

/// What a bot platform's adapter brings besides its [`ChannelFixture`]. A promise starts as many as it needs.
#[async_trait]
pub trait PlatformFixture: ChannelFixture + Sized {
    /// What it can send in one request.
    const KINDS: &'static [SendKind];

    /// What the platform's fake can do wrong.
    type Fault: std::fmt::Debug + Clone + Send + Sync + 'static;

    /// A well-formed token that is not the fake's.
    const OTHER_TOKEN: &'static str;

    /// What a person sees while a file is uploaded, as [`PlatformFixture::shown_activities`] names it.
    const UPLOAD_ACTIVITY: &'static str;

    /// A bot on a platform that limits no rate.
    async fn start() -> Self;

    /// Bots whose channel waits as the platform asks, each on a platform of its own.
    async fn start_paced() -> Vec<Self>;

    /// The table of the platform's responses.
    fn response_rows() -> Vec<ResponseRow<Self::Fault>>;

    /// A fault that every platform has, as the fake's own.
    fn fault(fault: PlatformFault) -> Self::Fault;

    /// Tokens and addresses of a server that can't be used.
    fn invalid_settings(user: &str, password: &str) -> Vec<(String, Option<String>)>;

    /// The address of a server, with a secret where the platform accepts one.
    fn address_with_secrets(origin: &str, user: &str, password: &str) -> String;

    /// A reference to a file that can't be fetched, with this secret if the platform's references have any.
    fn reference_with_secret(secret: &str) -> FileReference;

    /// # Errors
    /// The error with its `Debug`, and the `Debug` of the settings, if they can't be used.
    fn open_channel(options: ChannelOptions) -> Result<OpenedChannel, String>;

    fn token(&self) -> String;

    fn api_url(&self) -> String;

    /// What is sent as this kind, for an edit what it edits to.
    async fn content(&self, kind: SendKind) -> PartContent;

    /// Lets the next request of an operation meet a fault.
    fn script_next(&self, operation: PlatformOperation, fault: Self::Fault);

    /// Lets each request meet a fault, and none that was scripted before.
    fn script_all(&self, fault: Self::Fault);

    /// How many requests to send have arrived.
    fn send_requests(&self) -> u64;

    /// Lets the conversation take files of 40 MB.
    fn allow_large_files(&self);

    fn refuse_connections(&self);

    fn forbid_voice(&self);

    /// Refuses the bot's token from now on.
    fn revoke_token(&self);

    /// Accepts it again.
    fn accept_token(&self);

    fn damage_blob(&self, sha256: &Sha256, damage: BlobDamage);

    fn person_deletes(&self, message: &MessageRef);

    /// A message that the bot can't edit.
    fn foreign_message(&self) -> MessageRef;

    /// A conversation besides the fixture's own.
    fn other_conversation(&self) -> ConversationId;

    /// What the bot was shown to be doing.
    fn shown_activities(&self) -> Vec<String>;
}

/// Runs every promise against a platform's adapter: `platform_contract!(MyFixture)`, inside a module of its own. The
/// calling crate depends on `tokio`.
#[macro_export]
macro_rules! platform_contract {
    (@each $fixture:ty; $($promise:ident,)+) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $crate::platform::$promise::<$fixture>().await;
            }
        )+
    };
    ($fixture:ty) => {
        $crate::platform_contract!(@each $fixture;
            errors_logs_and_debug_hide_secrets,
            invalid_settings_error_hides_secrets,
            large_file_arrives_whole,
            upload_is_streamed,
            unreadable_bytes_are_sent_to_nobody,
            long_upload_shows_activity,
            response_table_decides_outcome,
            same_edit_again_succeeds,
            same_deletion_again_succeeds,
            edit_of_missing_or_foreign_message_reports_gone,
            forbidden_voice_is_cached_per_conversation,
            rate_limit_is_honoured_until_it_ends,
            refused_account_closes_channel_until_it_is_accepted,
            refused_connection_is_never_in_doubt,
            connection_lost_after_request_is_in_doubt,
            delete_after_lost_response_succeeds,
            probe_reports_unreachable_platform,
        );
    };
}

fn part_in(conversation: ConversationId, content: PartContent) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::now_v7()),
        turn: TurnId(Uuid::from_u128(1)),
        conversation,
        content,
        reply_to: None,
    }
}

fn part(fixture: &impl PlatformFixture, content: PartContent) -> PostRequest {
    part_in(fixture.conversation(), content)
}

async fn send_text(fixture: &impl PlatformFixture, text: &str) -> Vec<MessageRef> {
    fixture.channel().post(&part(fixture, PartContent::from_text(text))).await.unwrap()
}

/// Sends, edits or deletes something whose request meets a fault.
async fn send_with_fault<F: PlatformFixture>(
    fixture: &F,
    kind: SendKind,
    fault: F::Fault,
) -> Result<Vec<MessageRef>, SendError> {
    let channel = fixture.channel();
    let before = if kind.changes_message() { send_text(fixture, "before").await } else { Vec::new() };
    if kind == SendKind::Delete {
        fixture.script_next(kind.operation(), fault);
        return channel.delete(&fixture.conversation(), &before[0]).await.map(|()| Vec::new());
    }
    let request = part(fixture, fixture.content(kind).await);
    fixture.script_next(kind.operation(), fault);
    match before.first() {
        Some(message) => channel.edit(message, &request).await,
        None => channel.post(&request).await,
    }
}

/// How many messages have arrived besides the one that was to be changed.
async fn new_messages(fixture: &impl PlatformFixture, kind: SendKind) -> usize {
    fixture.arrived_messages().await.len() - usize::from(kind.changes_message())
}

/// Lets each kind of send meet a fault, each on a platform of its own and all at once. Fails unless each has the same
/// outcome.
async fn assert_outcome<F: PlatformFixture>(kinds: &[SendKind], fault: &F::Fault, expected: &ExpectedOutcome) {
    let checks = kinds.iter().map(|kind| async {
        let fixture = F::start().await;
        let started = tokio::time::Instant::now();
        let outcome = ExpectedOutcome::from(send_with_fault(&fixture, *kind, fault.clone()).await);
        (*kind, outcome, started.elapsed(), new_messages(&fixture, *kind).await)
    });
    for (kind, outcome, elapsed, arrived) in join_all(checks).await {
        assert_eq!(outcome, *expected, "{kind:?} {fault:?}");
        assert!(elapsed < PROMPT, "{kind:?} {fault:?} took {elapsed:?}");
        assert_eq!(arrived, 0, "{kind:?} {fault:?}");
    }
}
