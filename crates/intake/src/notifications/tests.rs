//! What is accepted as a notification, and what it becomes.

use std::num::NonZeroU64;

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Filename, InboxId, MediaInfo, Part, PartContent, PartId, PartState,
    Sha256, StoredBlob, Timestamp, part::FailureReason,
};
use satchel_ports::{
    ManualClock, MockArchive, MockConversations, MockEventBus, MockFileLinks, MockLedger, MockWorkspace,
    NotificationFile, SequentialIds,
    ledger::{ConversationSettings, ConversationSummary, QueuedMessage, ReceiveOutcome, TurnRecord},
};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::*;
use crate::InboundService;

const TURN: TurnId = TurnId(Uuid::from_u128(1));

fn conversation() -> ConversationId {
    "telegram:41".parse().unwrap()
}

fn notification(key: Option<&str>, text: &str) -> Notification {
    Notification { conversation: conversation(), key: key.map(str::to_owned), text: text.to_owned(), files: Vec::new() }
}

fn file(content: &str) -> NotificationFile {
    let blob = StoredBlob {
        sha256: Sha256::digest(content),
        bytes: 1,
        mime: "text/plain".to_owned(),
        media: MediaInfo::default(),
    };
    NotificationFile { blob, filename: Filename::from_untrusted("a.txt") }
}

/// The message that is stored for a notification.
fn stored_message(notification: &Notification) -> InboundMessage {
    let Notification { conversation, key, text, files } = notification.clone();
    let key = format!("notification {} {}", conversation.key(), key.unwrap_or_default());
    InboundMessage {
        files: files.iter().map(|file| FileReference::stored(&file.blob, file.filename.clone())).collect(),
        system_task: Some(SystemTask::DeliverNotification { text }),
        ..InboundMessage::new(conversation, key, Sender::new(NOTIFICATION_SENDER, "Notification"))
    }
}

fn queued(message: InboundMessage, files: Vec<InboundFileState>) -> QueuedMessage {
    let id = InboxId(Uuid::from_u128(2));
    QueuedMessage { id, turn: TURN, message, files, transcriptions: Default::default(), received_at: Timestamp(0) }
}

/// The turn of a notification that waits.
fn queued_record(notification: &Notification) -> TurnRecord {
    TurnRecord {
        id: TURN,
        conversation: conversation(),
        ending: None,
        response: None,
        messages: vec![queued(stored_message(notification), Vec::new())],
        parts: Vec::new(),
        calls: Vec::new(),
        replaced_by: None,
    }
}

/// A service whose inbox has a turn for the key already: that of `first`, or a forgotten one.
fn service(exists: bool, first: Option<&Notification>) -> NotificationService {
    service_with(exists, first.map(queued_record))
}

fn service_with(exists: bool, record: Option<TurnRecord>) -> NotificationService {
    let mut ledger = MockLedger::default();
    let outcome = || ReceiveOutcome { turn: TURN, duplicate: false, claimed: None };
    ledger.inbox.expect_receive().times(usize::from(exists)).returning(move |_, _| Ok(outcome()));
    let (mut conversations, mut archive) = (MockConversations::new(), MockArchive::new());
    let summary = ConversationSummary {
        conversation: conversation(),
        name: None,
        title: String::new(),
        model: None,
        pinned: false,
        archived: false,
        last_turn: TURN,
        last_at: Timestamp(0),
    };
    conversations.expect_find_conversation().returning(move |_| Ok(exists.then(|| summary.clone())));
    archive.expect_turn().returning(move |_| Ok(record.clone()));
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(|_| Ok(()));
    let (clock, workspace) = (Arc::new(ManualClock::default()), Arc::new(MockWorkspace::new()));
    let (lanes, _) = mpsc::channel(1);
    let access = Arc::default();
    let inbound = InboundService::new(&ledger.into(), clock, Arc::new(bus), lanes, access, workspace, None);
    NotificationService {
        inbound: inbound.internal_inbound(),
        conversations: Arc::new(conversations),
        archive: Arc::new(archive),
        ids: Arc::new(SequentialIds::default()),
        max_files: 2,
    }
}

#[tokio::test]
async fn same_key_is_one_message_and_another_one_is_refused() {
    let with_file = |content| Notification { files: vec![file(content)], ..notification(Some("k"), "done") };
    let first = with_file("a");
    assert_eq!(service(true, Some(&first)).send(first.clone()).await.unwrap(), TURN);
    for other in
        [with_file("b"), notification(Some("k"), "done"), Notification { text: "failed".into(), ..with_file("a") }]
    {
        let refused = service(true, Some(&first)).send(other).await.unwrap_err();
        assert_eq!(refused.to_string(), "the key `k` belongs to another message; use a new key for a new message");
    }
    assert_eq!(service(true, None).send(first).await.unwrap(), TURN, "the first was forgotten since");
}

#[tokio::test]
async fn key_of_a_message_that_was_not_delivered_says_so() {
    let first = notification(Some("k"), "done");
    let part = |state: PartState| Part {
        state,
        ..Part::new(PartId(Uuid::from_u128(9)), conversation(), TURN, 0, PartContent::from_text("done"), Timestamp(0))
    };
    let record = |ending: Ending, parts: Vec<Part>| TurnRecord { ending: Some(ending), parts, ..queued_record(&first) };
    let send_again = async |record: TurnRecord| service_with(true, Some(record)).send(first.clone()).await;

    let forbidden = FailureReason::Forbidden { reason: "blocked by the user".to_owned() };
    let failed = record(Ending::Done, vec![part(PartState::Failed { reason: forbidden })]);
    let error = send_again(failed).await.unwrap_err().to_string();
    assert!(error.contains("key `k`") && error.contains("blocked by the user"), "{error}");
    assert!(error.contains("`satchel outbox resend 00000000-0000-0000-0000-000000000009`"), "{error}");

    let crashed = send_again(record(Ending::Crashed { times: 3 }, Vec::new())).await.unwrap_err().to_string();
    assert!(crashed.contains("its turn ended as crashed; a new key sends it again"), "{crashed}");
    for state in [PartState::Sent { messages: Vec::new() }, PartState::Pending] {
        assert_eq!(send_again(record(Ending::Done, vec![part(state)])).await.unwrap(), TURN);
    }
}

#[tokio::test]
async fn unknown_conversation_is_refused_by_name() {
    let refused = service(false, None).send(notification(None, "done")).await.unwrap_err();
    assert!(matches!(refused, NotificationError::UnknownConversation(_)));
    assert!(refused.to_string().contains("`telegram:41`"), "{refused}");
}

#[tokio::test]
async fn what_can_not_be_sent_is_refused_before_it_is_stored() {
    let long_key = "k".repeat(MAX_KEY_CHARS + 1);
    for (wrong, reason) in [
        (notification(None, " \n"), "nothing to send"),
        (notification(None, &"x".repeat(MAX_NOTIFICATION_BYTES + 1)), "longer than 100 KB"),
        (Notification { files: vec![file("a"); 3], ..notification(None, "x") }, "it has 3 files; at most 2"),
        (notification(Some(""), "x"), "a key consists of"),
        (notification(Some("a b"), "x"), "a key consists of"),
        (notification(Some("ключ"), "x"), "a key consists of"),
        (notification(Some(&long_key), "x"), "a key consists of"),
    ] {
        let refused = service(false, None).send(wrong).await.unwrap_err();
        assert!(matches!(&refused, NotificationError::Invalid(text) if text.contains(reason)), "{reason}: {refused}");
    }
}

#[test]
fn delivered_notification_has_its_files_and_leaves_a_note() {
    let Notification { files, .. } = Notification { files: vec![file("a")], ..notification(None, "") };
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(3)),
        number: NonZeroU64::MIN,
        conversation: conversation(),
        source: AttachmentSource::User,
        filename: files[0].filename.clone(),
        mime: "text/plain".into(),
        bytes: 1,
        sha256: files[0].blob.sha256,
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Internal,
        link_revocation: None,
    };
    let text = "see https://a.example/links/x";
    let message = stored_message(&notification(Some("k"), text));
    let turn = QueuedTurn {
        id: TURN,
        messages: vec![queued(message, vec![InboundFileState::Stored(attachment)])],
        ready_at: Timestamp(0),
        has_followers: false,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: Vec::new().into(),
    };
    assert_eq!(notification_text(&turn), Some(text));
    let mut links = MockFileLinks::new();
    links.expect_redact_links().returning(|_| "see [link]".to_owned());
    let CommandReply { response, history, .. } = delivery_reply(&turn, text, Some(&links));
    assert_eq!(response.text.as_deref(), Some(text), "people get it as it is");
    assert_eq!(response.attachments[0].visibility, Visibility::Deliver);
    let (attachments, delivery) = (response.attachments.clone(), NotificationDelivery::Unknown);
    let note = HistoryMessage::Notification { text: "see [link]".into(), attachments, delivery };
    assert_eq!(history, HistoryChange::Append(vec![note]));
    assert_eq!(delivery_reply(&turn, " ", None).response.text, None, "files alone");
}
