//! The promises of the ports of the ledger, one function each.
//!
//! Each names the mutation that it catches: the change to an adapter that would break the promise unseen.

pub mod audit;
pub mod claimed_turns;
pub mod conversations;
pub mod cross_port;
pub mod drafts;
pub mod files;
pub mod gateways;
pub mod inbox;
pub mod joins;
pub mod lanes;
pub mod logins;
pub mod messages;
pub mod notices;
pub mod parts;
pub mod people;
pub mod processes;
pub mod questions;
pub mod reminders;
pub mod rename;
pub mod retries;
pub mod settings;
mod suites;
pub mod turns;
pub mod usage;
pub mod voice;

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ConversationId, Ending, FileReference, Filename, HistoryMessage,
    InboundMessage, MediaInfo, MessageOrigin, MessageRef, NewAttachment, OutgoingResponse, Part, PartContent,
    PartState, Sender, Sha256, Timestamp, TurnId, Visibility,
    delivery::DeliveryRules,
    part::{FileForm, FileItem, Plan, PlannedPart},
};
use satchel_ports::{
    ManualClock,
    ledger::{
        ClaimMode, CompletedTurn, ConversationSetting, HistoryChange, JournalEntry, Lease, Ledger, LedgerError,
        QueuedMessage, SettleOutcome, Settlement, SteeringMessage,
    },
};
use uuid::Uuid;

/// A store and the ways into it.
#[async_trait]
pub trait LedgerFixture: Send + Sync {
    /// Opens the store as one more process; dropping the ledger is the end of that process, without a farewell.
    async fn open(&self) -> Ledger;

    /// Opens the store as one more process with quotas, in bytes, that bind everybody but the sender `owner`.
    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Ledger;

    /// Called after the death of processes, before others take their lanes: a store on one machine knows at once that a
    /// process is gone, one on several machines once its leases have expired.
    fn after_death(&self) {}

    /// The clock of these processes.
    fn clock(&self) -> &ManualClock;

    /// How long its leases live.
    fn lease(&self) -> Duration;
}

pub(crate) const CONVERSATION: &str = "console:main";

pub(crate) fn conversation(text: &str) -> ConversationId {
    text.parse().unwrap()
}

pub(crate) fn message(key: &str, text: &str) -> InboundMessage {
    InboundMessage {
        text: text.to_owned(),
        message: Some(MessageRef(format!("m-{key}"))),
        raw: serde_json::json!({ "update": key }),
        ..InboundMessage::new(conversation(CONVERSATION), key.to_owned(), Sender::new("7", "Ada"))
    }
}

pub(crate) fn with_files(message: InboundMessage, names: &[&str]) -> InboundMessage {
    let reference = |name: &&str| FileReference {
        bytes: Some(3),
        ..FileReference::new(format!("id-of-{name}"), Filename::from_untrusted(name))
    };
    InboundMessage { files: names.iter().map(reference).collect(), ..message }
}

pub(crate) fn new_file(name: &str) -> NewAttachment {
    let id = Uuid::now_v7();
    let mut sha256 = [0; 32];
    sha256[..16].copy_from_slice(id.as_bytes());
    NewAttachment {
        id: AttachmentId(id),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(name),
        mime: "text/plain".into(),
        bytes: 3,
        sha256: Sha256(sha256),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(1_700_000_000_000),
        visibility: Visibility::Deliver,
    }
}

pub(crate) fn file_part(attachment: &Attachment) -> PlannedPart {
    let item = FileItem { attachment: attachment.clone(), form: FileForm::Document, caption: String::new() };
    PlannedPart::new(PartContent::File(item))
}

pub(crate) fn text_parts(texts: &[&str]) -> Vec<PlannedPart> {
    texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect()
}

/// What a turn records of a message of its model without calls, before which these were injected.
pub(crate) fn model_message(text: &str, steered: Vec<SteeringMessage>) -> JournalEntry {
    JournalEntry::Model {
        agent: None,
        task: None,
        steered,
        text: text.to_owned(),
        calls: Vec::new(),
        awaiting_decision: Vec::new(),
        changing_calls: Some(Vec::new()),
    }
}

/// A message as it is injected into the turn before it.
pub(crate) fn injected(queued: &QueuedMessage) -> SteeringMessage {
    SteeringMessage {
        id: queued.id,
        sender: queued.message.sender.clone(),
        text: queued.message.text.clone(),
        origin: Some(queued.origin()),
    }
}

pub(crate) fn completed_turn(turn: TurnId, parts: Vec<PlannedPart>) -> CompletedTurn {
    CompletedTurn {
        hands_over: false,
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("reply"),
        plan: Plan { parts },
        history: HistoryChange::Append(vec![
            HistoryMessage::Person {
                text: "question".into(),
                attachments: Vec::new(),
                refused: Vec::new(),
                origin: Some(MessageOrigin {
                    sent_at: Timestamp(5),
                    sender: Some(Sender::new("7", "Ada")),
                    timezone: Some("Asia/Tokyo".into()),
                    earlier_text: Some("what?".into()),
                }),
            },
            HistoryMessage::Model { text: "reply".into(), calls: Vec::new() },
        ]),
        setting: None,
        steered: Vec::new(),
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: Some(MessageRef("m-1".into())),
        changes: Vec::new(),
        answered: None,
    }
}

/// Completes the lane's oldest turn, which changes a setting.
pub(crate) async fn complete_with_setting(ledger: &Ledger, lease: &Lease, setting: ConversationSetting) {
    let turn = ledger.turns.next_turn(lease).await.unwrap().expect("a turn is queued").id;
    let completed = CompletedTurn { setting: Some(setting), ..completed_turn(turn, Vec::new()) };
    ledger.turns.complete_turn(lease, &completed).await.unwrap();
}

/// Receives a message of its own turn and claims its lane.
pub(crate) async fn receive(ledger: &Ledger, message: &InboundMessage) -> (Lease, TurnId) {
    let received = ledger.inbox.receive(message, ClaimMode::IfFree).await.unwrap();
    (received.claimed.expect("the lane was free").lease, received.turn)
}

pub(crate) fn sent_settlement(part: &Part, id: &str) -> Settlement {
    let state = PartState::Sent { messages: vec![MessageRef(id.to_owned())] };
    settlement(Part { state, ..part.clone() })
}

pub(crate) fn settlement(part: Part) -> Settlement {
    Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() }
}

pub(crate) async fn settle(ledger: &Ledger, lease: &Lease, settlement: &Settlement) -> SettleOutcome {
    ledger.outbox.settle_part(lease, settlement).await.unwrap()
}

pub(crate) fn part_text(part: &Part) -> &str {
    match part.content() {
        Some(PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. }) => {
            text
        }
        other => panic!("not a text: {other:?}"),
    }
}

pub(crate) fn assert_lost<T: std::fmt::Debug>(result: Result<T, LedgerError>, verb: &str) {
    assert!(matches!(result, Err(LedgerError::LeaseLost(_))), "{verb}: {result:?}");
}
