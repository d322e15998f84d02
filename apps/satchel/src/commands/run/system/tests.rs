//! What owners see of this process and what their actions do, on a mock of the ledger.

use std::{num::NonZeroU64, path::Path, sync::Mutex};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Filename, MediaInfo, ReminderId, Sha256, TurnId, Visibility,
    part::{FailureReason, FileForm},
    reminder::{ReminderAuthor, ReminderContent},
};
use satchel_ports::{
    ManualClock, MockLedger,
    ledger::{ClaimMode, ReceiveOutcome, Reminder, Usage, UsageScope},
};
use satchel_web::Administration;
use uuid::Uuid;

use super::*;
use crate::{
    config::{ConfigSources, load_text},
    models::ModelCandidate,
};

const YAML: &str = "\
telegram: { token: '1:canary' }
models: { spare: { provider: openai, api_key: canary } }
schedules:
  morning: { cron: '0 8 * * *', timezone: UTC, prompt: secret words, conversation: 'telegram:7' }
";

fn system(ledger: MockLedger) -> RunningSystem {
    let directory = tempfile::tempdir().unwrap();
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
    RunningSystem {
        loaded: Arc::new(load_text(Path::new("satchel.yaml"), YAML, &sources).unwrap()),
        selection: ModelSelection {
            candidates: vec![ModelCandidate::Offline { name: "offline".to_owned() }],
            reason: "nothing else is configured".to_owned(),
        },
        ledger: ledger.into(),
        clock: Arc::new(ManualClock::default()),
        started_at: Timestamp(7),
        channels: ["telegram", "web"].map(|name| ChannelName::new(name).unwrap()).to_vec(),
        model_names: vec!["offline".to_owned(), "spare".to_owned()],
        tools: Arc::default(),
    }
}

fn id() -> PartId {
    PartId(Uuid::from_u128(5))
}

fn part(content: PartContent, state: PartState) -> Part {
    let turn = TurnId(Uuid::from_u128(6));
    Part { state, ..Part::new(id(), "telegram:7".parse().unwrap(), turn, 0, content, Timestamp(3)) }
}

fn file() -> PartContent {
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(17)),
        number: NonZeroU64::new(17).unwrap(),
        conversation: "telegram:7".parse().unwrap(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted("a.pdf"),
        mime: "application/pdf".to_owned(),
        bytes: 64_000_000,
        sha256: Sha256([7; 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    };
    PartContent::File(FileItem { attachment, form: FileForm::Document, caption: String::new() })
}

fn with_parts(parts: Vec<Part>) -> MockLedger {
    let mut ledger = MockLedger::default();
    ledger.archive.expect_parts().returning(move |_| Ok(parts.clone()));
    ledger
}

fn refusal(result: Result<(), AdministrationError>) -> String {
    match result {
        Err(AdministrationError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn overview_lists_components_without_message_texts() {
    let doubt = PartState::InDoubt { until: Timestamp(0), reason: "reset".to_owned() };
    let parts = vec![part(PartContent::from_text("x"), doubt), part(PartContent::from_text("y"), PartState::Pending)];
    let mut ledger = with_parts(parts);
    ledger.reminders.expect_list_reminders().returning(|_| {
        Ok(vec![Reminder {
            id: ReminderId(1),
            conversation: "telegram:7".parse().unwrap(),
            person: Sender::new("7", "Ada"),
            group: false,
            content: ReminderContent::Prompt("secret words".to_owned()),
            next_at: Timestamp(9),
            cron: None,
            timezone: None,
            author: ReminderAuthor::Model,
            made_at: None,
        }])
    });
    let usage = |scope| Usage { scope, files: 2, bytes: 10, workspace_bytes: 5 };
    let conversation = UsageScope::Conversation("telegram:7".parse().unwrap());
    let person = UsageScope::Person("telegram:7".parse().unwrap());
    ledger.storage.expect_usages().returning(move |_| Ok(vec![usage(conversation.clone()), usage(person.clone())]));
    let overview = system(ledger).overview().await.unwrap();
    let channels = overview.channels.iter();
    let channels: Vec<_> = channels.map(|one| (one.name.as_str(), one.unsettled, one.in_doubt)).collect();
    assert_eq!(channels, [("telegram", 2, 1), ("web", 0, 0)]);
    let models: Vec<_> = overview.models.iter().map(|model| (model.name.as_str(), model.role)).collect();
    assert_eq!(models, [("offline", "answers"), ("spare", "choice")]);
    assert_eq!(
        (overview.files, overview.file_bytes, overview.workspace_bytes),
        (2, 10, 5),
        "people count no file twice"
    );
    assert!(overview.schedules[0].next.as_ref().is_some_and(|next| next.ends_with("08:00 UTC")), "{overview:?}");
    assert_eq!(overview.reminders[0].person, "Ada");
    let json = serde_json::to_string(&overview).unwrap();
    assert!(!json.contains("secret words") && !json.contains("canary"), "{json}");
}

#[tokio::test]
async fn outbox_names_files_without_texts() {
    let failed = PartState::Failed { reason: FailureReason::TooLarge { limit: 50_000_000 } };
    let waiting = PartState::Waiting { until: Timestamp(0), reason: "flood\n\u{1b}[2J".to_owned() };
    let parts = vec![part(file(), failed), part(PartContent::from_text("secret words"), waiting)];
    let listed = system(with_parts(parts)).outbox().await.unwrap();
    let summary = |part: &SystemPart| {
        (part.content.clone(), part.reason.clone().unwrap_or_default(), part.can_discard, part.can_resend)
    };
    let expected = [
        ("a.pdf (64 MB)".to_owned(), "50 MB is the limit here".to_owned(), false, true),
        ("text".to_owned(), "flood [2J".to_owned(), true, false),
    ];
    assert_eq!(listed.iter().map(summary).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn repeated_decision_is_one_and_another_is_refused() {
    let decide = async |outcome: PairingOutcome, approve| {
        let mut ledger = MockLedger::default();
        ledger
            .pairings
            .expect_decide_pairing()
            .withf(move |decision, _| decision.approve == approve && decision.decided_by == outbox::OPERATOR)
            .returning(move |_, _| Ok(outcome.clone()));
        system(ledger).decide_pairing("ABCD-EFGH".parse().unwrap(), approve).await
    };
    let used = |approved| PairingOutcome::AlreadyUsed { person: Sender::new("5", "Ada"), approved };
    decide(used(true), true).await.unwrap();
    decide(used(false), false).await.unwrap();
    assert!(refusal(decide(used(true), false).await).contains("already approved"));
    assert!(refusal(decide(used(false), true).await).contains("already refused"));
    assert!(refusal(decide(PairingOutcome::Expired, true).await).contains("expired"));
    let unknown = PairingOutcome::UnknownCode { tries_left: 3 };
    assert!(refusal(decide(unknown, true).await).contains("expired"), "it may have been removed meanwhile");
}

#[tokio::test]
async fn second_discard_changes_nothing_and_delivered_part_stays() {
    let discard = async |state: PartState| {
        let mut ledger = with_parts(vec![part(PartContent::from_text("x"), state)]);
        ledger.outbox.expect_discard_part().returning(|part| Err(LedgerError::AlreadySettled(part)));
        system(ledger).discard_part(id()).await
    };
    discard(PartState::Failed { reason: FailureReason::Discarded }).await.unwrap();
    assert_eq!(refusal(discard(PartState::Sent { messages: Vec::new() }).await), "It has arrived meanwhile.");
    assert!(refusal(discard(PartState::Sending).await).starts_with("It is being sent"));
    let mut ledger = with_parts(Vec::new());
    let unknown = || LedgerError::Unknown { item: "part".to_owned() };
    ledger.outbox.expect_discard_part().returning(move |_| Err(unknown()));
    let missing = system(ledger).discard_part(id()).await;
    assert!(matches!(missing, Err(AdministrationError::Unknown("part"))), "{missing:?}");
}

#[tokio::test]
async fn resend_with_same_key_is_same_message() {
    let failed = PartState::Failed { reason: FailureReason::Discarded };
    let mut ledger = with_parts(vec![part(file(), failed)]);
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&received);
    ledger.inbox.expect_receive().returning(move |message, claim| {
        assert_eq!((message.text.as_str(), claim), ("/resend 17", ClaimMode::Never));
        seen.lock().unwrap().push(message.key.clone());
        Ok(ReceiveOutcome { turn: TurnId(Uuid::from_u128(1)), duplicate: false, claimed: None })
    });
    let system_with_file = system(ledger);
    for key in ["k", "k", "other"] {
        system_with_file.resend_part(id(), key).await.unwrap();
    }
    let keys = received.lock().unwrap().clone();
    assert!(keys[0] == keys[1] && keys[0] != keys[2], "{keys:?}");
    let waiting = system(with_parts(vec![part(PartContent::from_text("x"), PartState::Pending)]));
    assert_eq!(refusal(waiting.resend_part(id(), "k").await), "This part is still being sent.");
}
