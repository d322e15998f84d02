//! What one port commits is there for all others, in this process and in the next.

use satchel_domain::{PartState, Sender, Timestamp, ToolOutcome};
use satchel_ports::ledger::{
    AttachmentKey, AttachmentQuery, ClaimMode, OutboxQuery, PairingDecision, PairingRequest, PairingRules, ReleaseMode,
    UsageQuery, WorkFilter,
};
use serde_json::json;

use super::{
    CONVERSATION, LedgerFixture, completed_turn, conversation, message, new_file, receive, sent_settlement, text_parts,
};

/// Catches: a port with a store, a cache or a connection of its own that lags behind the others.
pub async fn commits_are_seen_through_every_port(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let here = [conversation(CONVERSATION)];
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let readers = [ledger.clone(), fixture.open().await];
    for reader in &readers {
        let record = reader.archive.turn(turn).await.unwrap().unwrap();
        assert_eq!((record.messages.len(), record.ending), (1, None));
        assert_eq!(reader.storage.active_conversations(Timestamp(0)).await.unwrap(), here);
    }

    let outcome = ToolOutcome { attachments: vec![new_file("a.txt").into()], ..ToolOutcome::default() };
    let stored = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments.remove(0);
    for reader in &readers {
        let found = reader.archive.attachment(&here[0], AttachmentKey::Id(stored.id)).await.unwrap();
        assert_eq!(found.as_ref(), Some(&stored));
        assert_eq!(reader.archive.attachments(&AttachmentQuery::default()).await.unwrap().len(), 1);
        assert_eq!(reader.storage.usages(&UsageQuery::All).await.unwrap()[0].bytes, stored.bytes);
        assert_eq!(reader.storage.find_unreferenced(&[stored.sha256]).await.unwrap(), []);
    }

    // Another process receives, approves and asks while the first one holds the lane.
    let [ours, theirs] = &readers;
    assert_eq!(ours.turns.next_turn(&lease).await.unwrap().map(|queued| queued.id), Some(turn));
    theirs.inbox.receive(&message("2", "again"), ClaimMode::Never).await.unwrap();
    assert_eq!(ours.turns.list_queued_behind(&lease, turn).await.unwrap().len(), 1);
    let channels = [here[0].channel().clone()];
    let channel = &channels[0];
    theirs.inbox.save_checkpoint(channel, &json!(7)).await.unwrap();
    assert_eq!(ours.inbox.load_checkpoint(channel).await.unwrap(), Some(json!(7)));
    let request = PairingRequest { person: Sender::new("9", "Eve"), conversation: here[0].clone() };
    let rules = PairingRules::default();
    let pairing = [theirs.pairings.issue_pairing_code(&request, &rules).await.unwrap().unwrap().pairing];
    assert_eq!(ours.pairings.list_pairings().await.unwrap(), pairing);
    let decision = PairingDecision { code: pairing[0].code, approve: true, channel: None, decided_by: "owner".into() };
    ours.pairings.decide_pairing(&decision, &rules).await.unwrap();
    assert!(theirs.pairings.is_approved(channel, "9").await.unwrap());

    let completed = completed_turn(turn, text_parts(&["reply"]));
    let begun = [ledger.turns.complete_turn(&lease, &completed).await.unwrap().unwrap()];
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap().as_ref(), begun.first());
    for reader in &readers {
        assert_eq!(reader.archive.parts(&OutboxQuery::default()).await.unwrap(), begun);
        assert_eq!(reader.archive.history(&here[0], 10).await.unwrap().len(), 2);
    }

    let settled = ledger.outbox.settle_part(&lease, &sent_settlement(&begun[0], "m-2")).await.unwrap();
    assert!(!settled.released, "the second message and the confirmation of the approval wait");
    for reader in &readers {
        let parts = reader.archive.turn(turn).await.unwrap().unwrap().parts;
        assert!(matches!(parts[0].state, PartState::Sent { .. }), "{parts:?}");
    }
    assert_eq!(theirs.leases.claim_lane(&channels, WorkFilter::Any).await.unwrap(), None, "the lane has a holder");
    ours.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    let claimed = theirs.leases.claim_lane(&channels, WorkFilter::Any).await.unwrap();
    assert!(claimed.is_some_and(|claimed| claimed.lease.token > lease.token), "and is free once it is released");
}
