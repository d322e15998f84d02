//! What operators see of the outbox and can do about it, on a mock of the ledger.

use std::{
    num::NonZeroU64,
    sync::{Arc, Mutex},
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Filename, MediaInfo, PartContent, Sha256, Timestamp, TurnId,
    Visibility,
    part::{FailureReason, FileForm, FileItem},
};
use satchel_ports::{LedgerError, MockLedger, SequentialIds, ledger::ReceiveOutcome};
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
    ledger
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

#[tokio::test]
async fn impossible_resend_or_discard_is_reported() {
    let text = ledger_with(vec![part(PartContent::from_text("Hello"), PartState::Pending)]);
    let error =
        resend(&text.into(), &SequentialIds::default(), PartId(Uuid::from_u128(5)), &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("only files can be sent again"), "{error}");
    let error =
        show(&ledger_with(Vec::new()).archive, PartId(Uuid::from_u128(5)), false, &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("there is no part"), "{error}");
    let mut settled = MockLedger::default();
    settled.outbox.expect_discard_part().returning(|part| Err(LedgerError::AlreadySettled(part)));
    let error = discard(&settled.outbox, PartId(Uuid::from_u128(5)), &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().ends_with("is already settled"), "{error}");
}
