//! What one port commits is there for all others, in this process and in the next.

use satchel_domain::{PartState, Timestamp, ToolOutcome};
use satchel_ports::ledger::{AttachmentKey, AttachmentQuery, OutboxQuery, UsageQuery};

use super::{
    CONVERSATION, LedgerFixture, attachment, completed_turn, conversation, message, receive, sent_settlement,
    text_parts,
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

    let outcome = ToolOutcome { attachments: vec![attachment(&here[0], "a.txt")], ..ToolOutcome::default() };
    let stored = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments.remove(0);
    for reader in &readers {
        let found = reader.archive.attachment(&here[0], AttachmentKey::Id(stored.id)).await.unwrap();
        assert_eq!(found.as_ref(), Some(&stored));
        assert_eq!(reader.archive.attachments(&AttachmentQuery::default()).await.unwrap().len(), 1);
        assert_eq!(reader.storage.usages(&UsageQuery::All).await.unwrap()[0].bytes, stored.bytes);
        assert_eq!(reader.storage.find_unreferenced(&[stored.sha256]).await.unwrap(), []);
    }

    let completed = completed_turn(turn, text_parts(&["reply"]));
    let begun = [ledger.turns.complete_turn(&lease, &completed).await.unwrap().unwrap()];
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap().as_ref(), begun.first());
    for reader in &readers {
        assert_eq!(reader.archive.parts(&OutboxQuery::default()).await.unwrap(), begun);
        assert_eq!(reader.archive.history(&here[0], 10).await.unwrap().len(), 2);
    }

    let settled = ledger.outbox.settle_part(&lease, &sent_settlement(&begun[0], "m-2")).await.unwrap();
    assert!(settled.released, "nothing is left to do");
    for reader in &readers {
        let parts = reader.archive.turn(turn).await.unwrap().unwrap().parts;
        assert!(matches!(parts[0].state, PartState::Sent { .. }), "{parts:?}");
    }
    let next = readers[1].leases.claim_lane(&[here[0].channel().clone()]).await.unwrap();
    assert_eq!(next, None, "the lane is idle for every process");
}
