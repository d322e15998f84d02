//! The promises of the `Channel` port, one function each; an adapter runs them all through [`crate::channel_contract!`].
//!
//! The [`ChannelCapabilities`] select the promises that apply. Faults that the fixture can't inject are named with
//! `without`, so that a channel without a network runs the same suite and no promise is skipped silently.

mod declared;
mod deliveries;
mod lookups;

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, ConversationId, FileReference, Filename,
    MessageRef, PartContent, PartId, Sha256, Timestamp, TurnId, Visibility,
    capabilities::{GroupingRule, Idempotency, LookupRule, VoiceRule},
    delivery::{Refusal, SendError},
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_ports::{
    BlobHint, Blobs, ByteStream, Channel, FetchedFile, FileFetchError, LookupOutcome, LookupRange, LookupRequest,
    PostRequest, PreviewRequest,
    ledger::{RecordedMessage, RecordedMessages},
};
use uuid::Uuid;

pub use self::{
    declared::{DeclaredFixture, Gap},
    deliveries::interrupted_send_is_one_message,
    lookups::{
        history_look_up_returns_only_unique_match, id_look_up_reports_arrival, id_look_up_skips_recorded_messages,
    },
};

/// Longer than any timeout of a fixture's channel.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A fault of the next send or edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelFault {
    /// Nothing listens, for a short while.
    ConnectionRefused,
    /// The platform asks to wait so long.
    RateLimited {
        /// In milliseconds.
        retry_after_ms: u64,
    },
    /// The platform reports a decodable error that it never sends for a request that it performed.
    ServerError,
    /// The connection ends before the request was read.
    Reset,
    /// The request is performed and the response is lost.
    ResponseLost,
    /// The response is not the platform's, such as a proxy's error page.
    ForeignResponse,
    /// No response ever arrives.
    Hang,
    /// The conversation refuses the message for good.
    Forbidden,
}

/// A message as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivedMessage {
    pub message: MessageRef,
    pub text: String,
    /// Its files, in order: names and addresses of their bytes. The name of a voice note is up to the channel.
    pub files: Vec<(String, Sha256)>,
}

/// What an adapter brings so that its promises can be tested. Each promise gets a fixture of its own.
#[async_trait]
pub trait ChannelFixture: Send + Sync {
    fn channel(&self) -> Arc<dyn Channel>;

    /// A conversation on it in which nothing has been said.
    fn conversation(&self) -> ConversationId;

    /// Where the channel reads its files.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// What Satchel sent and a person sees now, oldest first.
    async fn arrived_messages(&self) -> Vec<ArrivedMessage>;

    /// Lets the next send or edit go wrong; `false` where it can't.
    async fn inject_fault(&self, fault: ChannelFault) -> bool;

    /// Lets a person send a file; `None` where they can't.
    async fn person_sends(&self, filename: &str, content: Bytes) -> Option<FileReference>;
}

/// Runs every promise against an adapter: `channel_contract!(my_fixture().await)`, inside a module of its own.
///
/// The expression makes a new [`ChannelFixture`]; the calling crate depends on `tokio`. What the fixture can't bring
/// about is named by its [`Gap`]: `channel_contract!(my_fixture(), without: [Reset, Hang])`. A gap that isn't named is
/// a failure.
#[macro_export]
macro_rules! channel_contract {
    (@each $fixture:expr, $gaps:expr; $($promise:ident,)+) => {
        $(
            #[tokio::test]
            async fn $promise() {
                let fixture = $crate::channel::DeclaredFixture::new($fixture, $gaps);
                $crate::channel::$promise(&fixture).await;
            }
        )+
    };
    ($fixture:expr) => {
        $crate::channel_contract!($fixture, without: []);
    };
    ($fixture:expr, without: [$($gap:ident),* $(,)?]) => {
        $crate::channel_contract!(@each $fixture, &[$($crate::channel::Gap::$gap),*];
            conversation_id_starts_with_channel_name,
            text_arrives_once_with_returned_id,
            texts_arrive_in_order,
            file_arrives_complete_with_name,
            album_arrives_in_order_with_all_ids,
            voice_arrives,
            text_and_files_arrive_as_one_message,
            unreadable_file_is_reported_and_not_sent,
            refused_connection_is_not_sent,
            rate_limit_returns_retry_after,
            server_error_is_not_sent,
            connection_reset_is_in_doubt,
            lost_response_is_in_doubt,
            undecodable_response_is_in_doubt,
            timed_out_call_is_in_doubt,
            forbidden_is_permanent,
            retry_with_same_key_sends_no_duplicate,
            edit_is_idempotent,
            edit_of_deleted_message_reports_gone,
            delete_of_deleted_message_succeeds,
            interrupted_send_is_one_message,
            history_look_up_returns_only_unique_match,
            id_look_up_reports_arrival,
            id_look_up_skips_recorded_messages,
            preview_makes_no_message,
            probe_has_no_effect,
            cancelled_call_leaves_channel_usable,
            inbound_file_is_fetched_complete,
            missing_file_is_permanent_error,
        );
    };
}

fn capabilities(fixture: &dyn ChannelFixture) -> ChannelCapabilities {
    fixture.channel().capabilities(&fixture.conversation())
}

fn part_request(fixture: &dyn ChannelFixture, number: u128, content: PartContent) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::from_u128(0x0190_c5a0_7f3b_7c62_8d5e_3f1a_0000_0000 + number)),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: fixture.conversation(),
        content,
        reply_to: None,
    }
}

fn text_request(fixture: &dyn ChannelFixture, number: u128, body: &str) -> PostRequest {
    part_request(fixture, number, PartContent::from_text(body))
}

fn byte_stream(content: impl Into<Bytes>) -> ByteStream {
    let content = content.into();
    stream::once(async move { Ok(content) }).boxed()
}

pub(crate) async fn file_item(fixture: &dyn ChannelFixture, filename: &str, content: impl Into<Bytes>) -> FileItem {
    let hint = BlobHint { filename: Some(Filename::from_untrusted(filename)), mime: None, bytes: None };
    let stored = fixture.blobs().put(byte_stream(content), &hint, 1 << 30).await.unwrap();
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(u128::from(stored.sha256.0[0]) + 1)),
        number: NonZeroU64::MIN.saturating_add(stored.sha256.0[0].into()),
        conversation: fixture.conversation(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(filename),
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

async fn send(fixture: &dyn ChannelFixture, request: &PostRequest) -> Vec<MessageRef> {
    fixture.channel().post(request).await.unwrap()
}

/// Sends with a fault. Returns `None` where the fixture can't inject it.
async fn send_with_fault(
    fixture: &dyn ChannelFixture,
    fault: ChannelFault,
    body: &str,
) -> Option<Result<Vec<MessageRef>, SendError>> {
    if !fixture.inject_fault(fault).await {
        return None;
    }
    let part = text_request(fixture, 1, body);
    let channel = fixture.channel();
    let outcome = tokio::time::timeout(TEST_TIMEOUT, channel.post(&part)).await;
    Some(outcome.expect("every wait ends"))
}

async fn assert_in_doubt(fixture: &dyn ChannelFixture, fault: ChannelFault) {
    if let Some(outcome) = send_with_fault(fixture, fault, "hello").await {
        assert!(matches!(outcome, Err(SendError::InDoubt { .. })), "{fault:?}: {outcome:?}");
    }
}

/// Catches: a name that differs from the conversations' prefix.
pub async fn conversation_id_starts_with_channel_name(fixture: &dyn ChannelFixture) {
    assert_eq!(*fixture.conversation().channel(), fixture.channel().name());
}

/// Catches: an id that is made up, and a send that is repeated inside the adapter.
pub async fn text_arrives_once_with_returned_id(fixture: &dyn ChannelFixture) {
    let ids = send(fixture, &text_request(fixture, 1, "Привет, мир")).await;
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.len(), 1, "{arrived:?}");
    assert!(arrived[0].text.contains("Привет, мир"), "{arrived:?}");
    assert_eq!(ids, [arrived[0].message.clone()]);
}

/// Catches: sends that are handed to a task and overtake each other.
pub async fn texts_arrive_in_order(fixture: &dyn ChannelFixture) {
    for number in 0..5 {
        send(fixture, &text_request(fixture, number, &format!("text {number}"))).await;
    }
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.len(), 5, "{arrived:?}");
    for (number, message) in arrived.iter().enumerate() {
        assert!(message.text.contains(&format!("text {number}")), "{arrived:?}");
    }
}

/// Catches: a file that is cut at a buffer's end, and a name that is replaced.
pub async fn file_arrives_complete_with_name(fixture: &dyn ChannelFixture) {
    let content: Vec<u8> = (0..300_001u32).flat_map(u32::to_le_bytes).collect();
    let item = file_item(fixture, "Отчёт за май.bin", content).await;
    let sha256 = item.attachment.sha256;
    send(fixture, &part_request(fixture, 1, PartContent::File(item))).await;
    let arrived = fixture.arrived_messages().await;
    let files: Vec<_> = arrived.iter().flat_map(|message| &message.files).collect();
    assert_eq!(files.len(), 1, "{arrived:?}");
    assert_eq!(files[0].1, sha256);
    assert!(files[0].0.ends_with("Отчёт за май.bin"), "{}", files[0].0);
}

/// Catches: files that swap places, and an album whose later ids are dropped.
pub async fn album_arrives_in_order_with_all_ids(fixture: &dyn ChannelFixture) {
    if capabilities(fixture).grouping == GroupingRule::Never {
        return;
    }
    let mut items = Vec::new();
    for number in 0..4 {
        items.push(file_item(fixture, &format!("{number}.txt"), format!("file {number}")).await);
    }
    let expected: Vec<Sha256> = items.iter().map(|item| item.attachment.sha256).collect();
    let ids = send(fixture, &part_request(fixture, 1, PartContent::Album { items })).await;
    let arrived = fixture.arrived_messages().await;
    let files: Vec<Sha256> = arrived.iter().flat_map(|message| &message.files).map(|file| file.1).collect();
    assert_eq!(files, expected);
    assert_eq!(ids, arrived.into_iter().map(|message| message.message).collect::<Vec<_>>());
}

/// Catches: a voice whose bytes are not those that were prepared.
pub async fn voice_arrives(fixture: &dyn ChannelFixture) {
    let spoken =
        fixture.blobs().put(byte_stream("OggS, as far as a header tells"), &BlobHint::default(), 1 << 20).await;
    let spoken = spoken.unwrap();
    let prepared =
        PreparedVoice { sha256: spoken.sha256, bytes: spoken.bytes, duration_ms: 1_200, waveform: vec![0, 128, 255] };
    let as_file = capabilities(fixture).voice == VoiceRule::AudioFile;
    let content = PartContent::Voice {
        text: "hello".to_owned(),
        in_text: true,
        prepared: Some(prepared),
        as_file,
        caption: String::new(),
    };
    send(fixture, &part_request(fixture, 1, content)).await;
    let arrived = fixture.arrived_messages().await;
    let files: Vec<Sha256> = arrived.iter().flat_map(|message| &message.files).map(|file| file.1).collect();
    assert_eq!(files, [spoken.sha256]);
}

/// Catches: a bundle that loses its text or its files.
pub async fn text_and_files_arrive_as_one_message(fixture: &dyn ChannelFixture) {
    if !matches!(capabilities(fixture).grouping, GroupingRule::Messages { with_text: true, .. }) {
        return;
    }
    let files = vec![file_item(fixture, "a.txt", "a").await, file_item(fixture, "b.txt", "b").await];
    let content = PartContent::Text { text: "both".to_owned(), markup: Markup::Rich, files };
    let ids = send(fixture, &part_request(fixture, 1, content)).await;
    let arrived = fixture.arrived_messages().await;
    assert_eq!((ids.len(), arrived.len()), (1, 1), "{arrived:?}");
    assert!(arrived[0].text.contains("both") && arrived[0].files.len() == 2, "{arrived:?}");
}

/// Catches: a missing blob that is sent as an empty file, and one that is reported as a lost answer.
pub async fn unreadable_file_is_reported_and_not_sent(fixture: &dyn ChannelFixture) {
    let mut item = file_item(fixture, "a.txt", "never stored under this address").await;
    item.attachment.sha256 = Sha256([7; 32]);
    let answer = fixture.channel().post(&part_request(fixture, 1, PartContent::File(item))).await;
    assert!(matches!(answer, Err(SendError::Unreadable { .. })), "{answer:?}");
    assert_eq!(fixture.arrived_messages().await, []);
}

/// Catches: a failure to connect that is taken for a lost answer, which would label the message.
pub async fn refused_connection_is_not_sent(fixture: &dyn ChannelFixture) {
    if let Some(answer) = send_with_fault(fixture, ChannelFault::ConnectionRefused, "hello").await {
        assert!(matches!(answer, Err(SendError::NotSent { .. })), "{answer:?}");
        assert_eq!(fixture.arrived_messages().await, []);
    }
}

/// Catches: a wait that is dropped, or read in another unit.
pub async fn rate_limit_returns_retry_after(fixture: &dyn ChannelFixture) {
    // Whole seconds, since some platforms know no others.
    if let Some(answer) = send_with_fault(fixture, ChannelFault::RateLimited { retry_after_ms: 7_000 }, "hello").await {
        assert!(matches!(answer, Err(SendError::NotSent { retry_after_ms: Some(7_000), .. })), "{answer:?}");
        assert_eq!(fixture.arrived_messages().await, []);
    }
}

/// Catches: a readable 5xx that is taken for a lost answer.
pub async fn server_error_is_not_sent(fixture: &dyn ChannelFixture) {
    if let Some(answer) = send_with_fault(fixture, ChannelFault::ServerError, "hello").await {
        assert!(matches!(answer, Err(SendError::NotSent { .. })), "{answer:?}");
        assert_eq!(fixture.arrived_messages().await, []);
    }
}

/// Catches: a reset that is taken for a failure to connect.
pub async fn connection_reset_is_in_doubt(fixture: &dyn ChannelFixture) {
    assert_in_doubt(fixture, ChannelFault::Reset).await;
}

/// Catches: a lost answer that is reported as not sent, so that the message comes twice without a label.
pub async fn lost_response_is_in_doubt(fixture: &dyn ChannelFixture) {
    if let Some(answer) = send_with_fault(fixture, ChannelFault::ResponseLost, "hello").await {
        assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
        assert_eq!(fixture.arrived_messages().await.len(), 1, "it did arrive, once");
    }
}

/// Catches: a status code that is believed though the body is a proxy's.
pub async fn undecodable_response_is_in_doubt(fixture: &dyn ChannelFixture) {
    assert_in_doubt(fixture, ChannelFault::ForeignResponse).await;
}

/// Catches: a request without a time limit.
pub async fn timed_out_call_is_in_doubt(fixture: &dyn ChannelFixture) {
    assert_in_doubt(fixture, ChannelFault::Hang).await;
}

/// Catches: a refusal for good that is tried until it is too old.
pub async fn forbidden_is_permanent(fixture: &dyn ChannelFixture) {
    if let Some(answer) = send_with_fault(fixture, ChannelFault::Forbidden, "hello").await {
        assert!(matches!(answer, Err(SendError::Forbidden { .. })), "{answer:?}");
        assert_eq!(fixture.arrived_messages().await, []);
    }
}

/// Catches: a key that is new for each attempt, or the same for all parts.
pub async fn retry_with_same_key_sends_no_duplicate(fixture: &dyn ChannelFixture) {
    if capabilities(fixture).idempotency == Idempotency::None {
        return;
    }
    let first = text_request(fixture, 1, "hello");
    let ids = send(fixture, &first).await;
    assert_eq!(send(fixture, &first).await, ids);
    assert_eq!(fixture.arrived_messages().await.len(), 1);
    assert_ne!(send(fixture, &text_request(fixture, 2, "hello")).await, ids, "another part is another message");
    assert_eq!(fixture.arrived_messages().await.len(), 2);
}

/// Catches: an edit that sends anew, "not modified" taken for a refusal, and capabilities that say otherwise.
pub async fn edit_is_idempotent(fixture: &dyn ChannelFixture) {
    let ids = send(fixture, &text_request(fixture, 1, "growing")).await;
    let Some(message) = ids.first() else { return };
    let grown = text_request(fixture, 1, "grown up");
    let edited = fixture.channel().edit(message, &grown).await;
    if !capabilities(fixture).can_edit {
        assert!(matches!(edited, Err(SendError::Refused { .. })), "{edited:?}");
        let arrived = fixture.arrived_messages().await;
        assert!(
            arrived.len() == 1 && arrived[0].text.trim_end().ends_with("growing"),
            "nothing has changed: {arrived:?}"
        );
        return;
    }
    edited.unwrap();
    fixture.channel().edit(message, &grown).await.unwrap();
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.len(), 1, "{arrived:?}");
    assert!(arrived[0].text.contains("grown up") && arrived[0].message == *message, "{arrived:?}");
}

/// Catches: an edit of nothing that succeeds, or that is forbidden for good, so that the text is lost.
pub async fn edit_of_deleted_message_reports_gone(fixture: &dyn ChannelFixture) {
    let ids = send(fixture, &text_request(fixture, 1, "short-lived")).await;
    let Some(message) = ids.first() else { return };
    if fixture.channel().delete(&fixture.conversation(), message).await.is_err()
        || !fixture.arrived_messages().await.is_empty()
    {
        // What can't be deleted can't be gone.
        return;
    }
    if !capabilities(fixture).can_edit {
        return;
    }
    let answer = fixture.channel().edit(message, &text_request(fixture, 1, "too late")).await;
    assert!(matches!(answer, Err(SendError::Refused { refusal: Refusal::TargetGone, .. })), "{answer:?}");
    assert_eq!(fixture.arrived_messages().await, []);
}

/// Catches: a repeated deletion that fails.
pub async fn delete_of_deleted_message_succeeds(fixture: &dyn ChannelFixture) {
    let ids = send(fixture, &text_request(fixture, 1, "short-lived")).await;
    let Some(message) = ids.first() else { return };
    if fixture.channel().delete(&fixture.conversation(), message).await.is_ok() {
        fixture.channel().delete(&fixture.conversation(), message).await.unwrap();
    }
}

/// Catches: a preview that stands among the messages, before the reply or beside it.
pub async fn preview_makes_no_message(fixture: &dyn ChannelFixture) {
    let (turn, conversation) = (TurnId(Uuid::from_u128(1)), fixture.conversation());
    for text in ["Hel", "Hello"] {
        let request = PreviewRequest { turn, conversation: conversation.clone(), text: text.to_owned() };
        let answer = fixture.channel().show_preview(&request).await;
        let has_previews = capabilities(fixture).stream.preview_rule().is_some();
        assert!(answer.is_ok() || !has_previews, "{answer:?}");
    }
    assert_eq!(fixture.arrived_messages().await, []);
    send(fixture, &text_request(fixture, 1, "Hello.")).await;
    let arrived = fixture.arrived_messages().await;
    let texts: Vec<&str> = arrived.iter().map(|arrived| arrived.text.trim_end()).collect();
    assert_eq!(texts, ["Hello."]);
}

/// Catches: a probe that sends something.
pub async fn probe_has_no_effect(fixture: &dyn ChannelFixture) {
    fixture.channel().probe().await.unwrap();
    assert_eq!(fixture.arrived_messages().await, []);
}

/// Catches: a request that goes on when nobody waits for it, and a lock that it holds.
pub async fn cancelled_call_leaves_channel_usable(fixture: &dyn ChannelFixture) {
    if !fixture.inject_fault(ChannelFault::Hang).await {
        return;
    }
    let channel = fixture.channel();
    let dropped = text_request(fixture, 1, "dropped");
    let answer = tokio::time::timeout(Duration::from_millis(300), channel.post(&dropped)).await;
    assert!(answer.is_err(), "it hangs: {answer:?}");
    send(fixture, &text_request(fixture, 2, "the next")).await;
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.len(), 1, "{arrived:?}");
    assert!(arrived[0].text.contains("the next"), "{arrived:?}");
}

/// Catches: a download that is cut, and a size that is not the file's.
pub async fn inbound_file_is_fetched_complete(fixture: &dyn ChannelFixture) {
    for length in [0, 1, 700_001] {
        let content: Bytes = (0..length).map(|number: u32| number.to_le_bytes()[1]).collect();
        let Some(reference) = fixture.person_sends("note.bin", content.clone()).await else { return };
        let incoming = fixture.channel().fetch(&reference).await.unwrap();
        let (bytes, mut content_stream) = match incoming {
            FetchedFile::Bytes { bytes, content } => (bytes, content),
            FetchedFile::Stored(blob) => {
                assert_eq!(reference.stored, Some(blob.sha256), "it is kept while the message waits");
                (Some(blob.bytes), fixture.blobs().open(&blob.sha256, None).await.unwrap())
            }
        };
        assert!(bytes.is_none_or(|bytes| bytes == content.len() as u64), "{bytes:?}");
        let mut received = Vec::new();
        while let Some(chunk) = content_stream.next().await {
            received.extend_from_slice(&chunk.unwrap());
        }
        assert_eq!(received.len(), content.len());
        assert!(received == content, "the bytes of a file of {length} differ");
    }
}

/// Catches: a file that is gone and asked for until it is too old.
pub async fn missing_file_is_permanent_error(fixture: &dyn ChannelFixture) {
    let Some(mut reference) = fixture.person_sends("note.txt", Bytes::from_static(b"x")).await else { return };
    reference.locator.push_str("-never-was");
    let answer = fixture.channel().fetch(&reference).await;
    assert!(matches!(answer, Err(FileFetchError::Permanent { .. })), "{answer:?}");
}
