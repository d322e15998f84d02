//! What operators see of the outbox and can do about it, on a mock of the ledger.

use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex},
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, CallId, FileReference, InboxId, MediaInfo, PartContent, Sha256,
    SystemTask, Visibility,
    part::{CallQuestion, FailureReason, FileForm, FileItem, Markup},
};
use satchel_ports::{
    LedgerError, MockLedger, SequentialIds,
    ledger::{QueuedMessage, ReceiveOutcome},
};
use uuid::Uuid;

use super::*;

fn item(number: u64) -> FileItem {
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(number.into())),
        number: NonZeroU64::new(number).unwrap(),
        conversation: "console:main".parse().unwrap(),
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
    FileItem { attachment, form: FileForm::Document, caption: String::new() }
}

fn part(content: PartContent, state: PartState) -> Part {
    Part {
        state,
        attempts: 2,
        first_attempt_at: Some(Timestamp(1_700_000_000_000)),
        labelled: true,
        labelled_sends: 1,
        ..Part::new(
            PartId(Uuid::from_u128(5)),
            "console:main".parse().unwrap(),
            TurnId(Uuid::from_u128(6)),
            0,
            content,
            Timestamp(1_700_000_000_000),
        )
    }
}

fn ledger_with(parts: Vec<Part>) -> MockLedger {
    let mut ledger = MockLedger::default();
    ledger.archive.expect_parts().returning(move |_| Ok(parts.clone()));
    ledger.archive.expect_list_queued_notifications().returning(|_| Ok(Vec::new()));
    ledger
}

/// The turn of a notification that waits.
fn queued_notification(number: u128, text: &str, files: &[&str]) -> TurnRecord {
    let turn = TurnId(Uuid::from_u128(number));
    let conversation: ConversationId = "telegram:41".parse().unwrap();
    let file = |name: &&str| FileReference::new("x".to_owned(), Filename::from_untrusted(name));
    let message = InboundMessage {
        files: files.iter().map(file).collect(),
        system_task: Some(SystemTask::DeliverNotification { text: text.to_owned() }),
        ..InboundMessage::new(conversation.clone(), number.to_string(), Sender::new("notification", "Notification"))
    };
    let received_at = Timestamp(1_700_000_000_000);
    let id = InboxId(Uuid::from_u128(number));
    let queued =
        QueuedMessage { id, turn, message, files: Vec::new(), transcriptions: Default::default(), received_at };
    TurnRecord {
        id: turn,
        conversation,
        ending: None,
        response: None,
        messages: vec![queued],
        parts: Vec::new(),
        calls: Vec::new(),
        replaced_by: None,
    }
}

#[tokio::test]
async fn queued_notifications_are_listed_before_parts() {
    let records =
        vec![queued_notification(7, "The backup\nis done.", &[]), queued_notification(8, "", &["report.txt"])];
    let listed = async |json: bool| {
        let mut ledger = MockLedger::default();
        let (records, hello) = (records.clone(), part(PartContent::from_text("Hello"), PartState::Pending));
        ledger.archive.expect_parts().returning(move |_| Ok(vec![hello.clone()]));
        ledger.archive.expect_list_queued_notifications().returning(move |_| Ok(records.clone()));
        let mut out = Vec::new();
        list(&ledger.archive, None, false, json, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    };
    let table = listed(false).await;
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
    assert_eq!(
        table.lines().map(cells).collect::<Vec<_>>(),
        [
            "00000000-0000-0000-0000-000000000008|telegram:41|notification|queued|report.txt",
            "00000000-0000-0000-0000-000000000007|telegram:41|notification|queued|The backup is done.",
            "00000000-0000-0000-0000-000000000005|console:main|text|pending|Hello",
        ]
    );
    let entries: serde_json::Value = serde_json::from_str(&listed(true).await).unwrap();
    let newest = serde_json::json!({
        "turn": "00000000-0000-0000-0000-000000000008", "conversation": "telegram:41", "kind": "notification",
        "state": { "state": "queued" }, "text": "", "files": ["report.txt"], "created_at": 1_700_000_000_000_i64,
    });
    assert_eq!(entries[0], newest);
    assert_eq!(
        (&entries[1]["text"], &entries[2]["state"]["state"]),
        (&"The backup\nis done.".into(), &"pending".into())
    );
}

#[tokio::test]
async fn parts_are_listed_and_shown() {
    let failed = PartState::Failed { reason: FailureReason::TooLarge { limit: 50_000_000 } };
    let doubt = PartState::InDoubt { until: Timestamp(0), reason: "reset\nby peer\u{1b}[2J".to_owned() };
    let parts = vec![part(PartContent::File(item(17)), failed), part(PartContent::from_text("Hello"), doubt)];
    let mut out = Vec::new();
    list(&ledger_with(parts.clone()).archive, None, false, false, &mut out).await.unwrap();
    writeln!(out).unwrap();
    show(&ledger_with(parts.clone()).archive, parts[0].id, false, &mut out).await.unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
    let mut out = Vec::new();
    list(&ledger_with(parts).archive, None, false, true, &mut out).await.unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Part>>(&out).unwrap().len(), 2);
}

#[tokio::test]
async fn resend_queues_command_without_claiming_lane() {
    let album = PartContent::Album { items: vec![item(17), item(18)] };
    let failed = PartState::Failed { reason: FailureReason::Discarded };
    let mut ledger = ledger_with(vec![part(album, failed)]);
    let stored = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&stored);
    ledger.inbox.expect_receive().returning(move |message, claim| {
        assert_eq!(claim, ClaimMode::Never);
        seen.lock().unwrap().push((message.text.clone(), message.sender.id.clone(), message.key.clone()));
        Ok(ReceiveOutcome { turn: TurnId(Uuid::from_u128(1)), duplicate: false, claimed: None })
    });
    resend(&ledger.into(), &SequentialIds::default(), PartId(Uuid::from_u128(5)), &mut Vec::new()).await.unwrap();
    let stored = stored.lock().unwrap();
    let texts: Vec<_> = stored.iter().map(|(text, sender, _)| (text.as_str(), sender.as_str())).collect();
    assert_eq!(texts, [("/resend 17", OPERATOR), ("/resend 18", OPERATOR)]);
    assert_ne!(stored[0].2, stored[1].2);
}

/// Catches: a text of which people read that it could not be sent, and that nobody can send.
#[tokio::test]
async fn resend_sends_texts_before_their_files() {
    let text = |files| PartContent::Text { text: "See you".to_owned(), markup: Markup::Rich, files };
    let failed = || PartState::Failed { reason: FailureReason::Expired { reason: "revoked".to_owned() } };
    for (content, expected) in [
        (text(Vec::new()), "queued: the text in console:main\n"),
        (text(vec![item(17)]), "queued: the text in console:main\nqueued: /resend 17 in console:main\n"),
        (PartContent::Notice { text: "See you".to_owned() }, "queued: the text in console:main\n"),
    ] {
        let mut ledger = ledger_with(vec![part(content, failed())]);
        let tasks = Arc::new(Mutex::new(Vec::new()));
        let stored = Arc::clone(&tasks);
        ledger.inbox.expect_receive().returning(move |message, _| {
            stored.lock().unwrap().extend(message.system_task.clone());
            Ok(ReceiveOutcome { turn: TurnId(Uuid::from_u128(1)), duplicate: false, claimed: None })
        });
        let mut out = Vec::new();
        let (ledger, ids) = (ledger.into(), SequentialIds::default());
        resend(&ledger, &ids, PartId(Uuid::from_u128(5)), &mut out).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(*tasks.lock().unwrap(), [SystemTask::ResendText { text: "See you".to_owned() }]);
    }
}

#[tokio::test]
async fn impossible_resend_or_discard_is_reported() {
    let call = CallId { turn: TurnId(Uuid::from_u128(6)), ordinal: 0 };
    let asked = CallQuestion { call, unanswered: "Nobody answered".to_owned(), closing: None };
    let failed = PartState::Failed { reason: FailureReason::NotNeeded };
    for (impossible, expected) in [
        (part(PartContent::from_text("Hello"), PartState::Pending), "is still being sent"),
        (
            Part { question: Some(asked), ..part(PartContent::question("May I?", Vec::new()), failed) },
            "is a question about a tool call",
        ),
    ] {
        let (ledger, ids) = (ledger_with(vec![impossible]).into(), SequentialIds::default());
        let error = resend(&ledger, &ids, PartId(Uuid::from_u128(5)), &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error =
        show(&ledger_with(Vec::new()).archive, PartId(Uuid::from_u128(5)), false, &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("there is no part"), "{error}");
    let mut settled = MockLedger::default();
    settled.outbox.expect_discard_part().returning(|part| Err(LedgerError::AlreadySettled(part)));
    let error = discard(&settled.outbox, PartId(Uuid::from_u128(5)), &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().ends_with("is already settled"), "{error}");
}
