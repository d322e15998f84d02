//! Promises about the agent that was chosen for a conversation.

use satchel_domain::InboundMessage;
use satchel_ports::ledger::{ClaimMode, LedgerError, ReleaseMode, RenameOutcome};

use super::{LedgerFixture, completed_turn, conversation, message, receive};

/// Catches: a choice that is forgotten at a restart, that holds for every conversation, or that can't be withdrawn.
pub async fn chosen_agent_is_per_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (here, _) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    ledger.inbox.receive(&elsewhere, ClaimMode::IfFree).await.unwrap().lease.unwrap();
    assert_eq!(ledger.turns.next_turn(&here).await.unwrap().unwrap().agent, None, "nobody has chosen");
    ledger.turns.set_agent(&here.conversation, Some("cook".into())).await.unwrap();
    ledger.turns.set_agent(&here.conversation, Some("kids".into())).await.unwrap();
    drop(ledger);
    let ledger = fixture.open().await;
    let mut leases = Vec::new();
    while let Some(lease) = ledger.leases.claim_lane(&[here.conversation.channel().clone()]).await.unwrap() {
        leases.push(lease);
    }
    assert_eq!(leases.len(), 2);
    for lease in &leases {
        let agent = ledger.turns.next_turn(lease).await.unwrap().unwrap().agent;
        let expected = (lease.conversation == here.conversation).then_some("kids");
        assert_eq!(agent.as_deref(), expected, "{lease:?}");
    }
    ledger.turns.set_agent(&here.conversation, None).await.unwrap();
    for lease in &leases {
        assert_eq!(ledger.turns.next_turn(lease).await.unwrap().unwrap().agent, None);
    }
    let unknown = ledger.turns.set_agent(&conversation("console:nobody"), Some("kids".into())).await;
    assert!(matches!(unknown, Err(LedgerError::Unknown { .. })), "{unknown:?}");
}

/// Catches: a turn that is handed over with its message and lacks the choice, or has one that was changed since.
pub async fn cached_turn_has_chosen_agent(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    ledger.turns.set_agent(&lease.conversation, Some("kids".into())).await.unwrap();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert!(ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    let (lease, turn) = receive(&ledger, &message("2", "and this?")).await;
    let cached = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!((cached.id, cached.agent.as_deref()), (turn, Some("kids")));
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap(), cached, "as it is stored");
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert!(ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    let (lease, _) = receive(&ledger, &message("3", "and now?")).await;
    ledger.turns.set_agent(&lease.conversation, None).await.unwrap();
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().agent, None, "the choice was withdrawn since");
}

/// Catches: a group that gets another agent, with other tools, by becoming a supergroup.
pub async fn renamed_conversation_keeps_its_agent(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = (conversation("telegram:-5"), conversation("telegram:-1005"));
    ledger
        .inbox
        .receive(&InboundMessage { conversation: old.clone(), ..message("1", "") }, ClaimMode::Never)
        .await
        .unwrap();
    ledger.turns.set_agent(&old, Some("kids".into())).await.unwrap();
    assert_eq!(ledger.inbox.rename_conversation(&old, &new).await.unwrap(), RenameOutcome::Renamed);
    let lease = ledger.leases.claim_lane(&[new.channel().clone()]).await.unwrap().expect("its turn waits");
    assert_eq!(lease.conversation, new);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().agent.as_deref(), Some("kids"));
}
