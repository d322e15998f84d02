//! Promises about a conversation that is renamed.

use satchel_domain::{Attachment, ConversationId, HistoryMessage, InboundMessage, MessageRef, PartState, ToolOutcome};
use satchel_ports::ledger::{
    AttachmentKey, ClaimMode, HistoryChange, JournalEntry, OutboxQuery, ReleaseMode, RenameOutcome, WorkFilter,
};

use super::{
    LedgerFixture, assert_lost, completed_turn, conversation, file_part, message, model_message, new_file,
    questions::open_as, sent_settlement, settle, text_parts,
};

fn in_conversation(conversation: &ConversationId, message: InboundMessage) -> InboundMessage {
    InboundMessage { conversation: conversation.clone(), ..message }
}

/// Catches: files, words or replies that are out of sight under the new name, files that can't be delivered since their
/// records name the old one, a number that is given twice, and an old worker who goes on.
pub async fn renamed_conversation_keeps_its_data(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = (conversation("telegram:-5"), conversation("telegram:-1005"));
    let quoting = "it said \"conversation\":\"telegram:-5\", and that stays";
    let received =
        ledger.inbox.receive(&in_conversation(&old, message("1", quoting)), ClaimMode::IfFree).await.unwrap();
    let (lease, first) = (received.claimed.unwrap().lease, received.turn);
    let mut done = completed_turn(first, text_parts(&["reply"]));
    let outcome = ToolOutcome { attachments: vec![new_file("a.txt").into()], ..ToolOutcome::default() };
    let entry = model_message("saving", Vec::new());
    ledger.turns.journal_message(&lease, first, &entry).await.unwrap();
    let file = ledger.turns.journal_outcome(&lease, first, 0, &outcome, &[]).await.unwrap().attachments.remove(0);
    done.plan.parts.push(file_part(&file));
    done.response.attachments.push(file.clone());
    let said = HistoryMessage::Person {
        text: quoting.into(),
        attachments: vec![file.clone()],
        refused: Vec::new(),
        origin: None,
    };
    done.history = HistoryChange::Append(vec![said]);
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    let second =
        ledger.inbox.receive(&in_conversation(&old, message("2", "and then")), ClaimMode::Never).await.unwrap().turn;
    ledger.turns.journal_message(&lease, second, &entry).await.unwrap();
    let journalled =
        ledger.turns.journal_outcome(&lease, second, 0, &outcome, &[]).await.unwrap().attachments.remove(0);

    assert_eq!(ledger.inbox.rename_conversation(&old, &new).await.unwrap(), RenameOutcome::Renamed);
    assert_lost(ledger.turns.next_turn(&lease).await, "next_turn");
    assert_lost(ledger.leases.release(&lease, ReleaseMode::Always).await, "release");
    assert_eq!(ledger.leases.renew(std::slice::from_ref(&lease)).await.unwrap(), [lease]);
    drop(ledger);

    let ledger = fixture.open().await;
    let channel = old.channel().clone();
    let lease = ledger
        .leases
        .claim_lane(std::slice::from_ref(&channel), WorkFilter::Any)
        .await
        .unwrap()
        .expect("its work waits")
        .lease;
    assert_eq!(lease.conversation, new);
    assert_eq!(
        ledger.leases.claim_lane(&[channel], WorkFilter::Any).await.unwrap(),
        None,
        "none is left under the old name"
    );
    let moved = |file: &Attachment| Attachment { conversation: new.clone(), ..file.clone() };
    let history = ledger.archive.history(&new, 10).await.unwrap();
    let [HistoryMessage::Person { text, attachments, .. }] = history.as_slice() else { panic!("{history:?}") };
    assert_eq!((text.as_str(), attachments.as_slice()), (quoting, [moved(&file)].as_slice()));
    assert_eq!(ledger.archive.history(&old, 10).await.unwrap(), []);
    let found = ledger.archive.attachment(&new, AttachmentKey::Number(1)).await.unwrap();
    assert_eq!(found, Some(moved(&file)));
    assert_eq!(ledger.archive.attachment(&old, AttachmentKey::Number(1)).await.unwrap(), None);
    let parts =
        ledger.archive.parts(&OutboxQuery { conversation: Some(new.clone()), ..OutboxQuery::default() }).await.unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0].operation.files()[0].attachment, moved(&file));
    let record = ledger.archive.turn(first).await.unwrap().unwrap();
    assert_eq!((record.conversation, record.response.unwrap().attachments), (new.clone(), vec![moved(&file)]));
    assert_eq!(record.messages[0].message.text, quoting);

    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!((turn.id, &turn.messages[0].message.conversation), (second, &new));
    let Some(JournalEntry::Outcome { outcome, .. }) = turn.journal.last() else { panic!("{:?}", turn.journal) };
    assert_eq!(outcome.attachments, [moved(&journalled)]);
    let mut done = completed_turn(second, vec![file_part(&outcome.attachments[0])]);
    done.reply_to = Some(MessageRef("m-2".into()));
    ledger.turns.complete_turn(&lease, &done).await.expect("a file of the journal can be delivered");
    let again = ledger.inbox.receive(&in_conversation(&new, message("1", quoting)), ClaimMode::Never).await.unwrap();
    assert!(again.duplicate && again.turn == first, "what is known stays known");
}

/// Catches: two conversations that are thrown together, and work under a name that nobody has.
pub async fn rename_onto_existing_is_conflict(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = (conversation("telegram:-5"), conversation("telegram:-1005"));
    assert_eq!(ledger.inbox.rename_conversation(&old, &new).await.unwrap(), RenameOutcome::NotFound);
    let received = ledger.inbox.receive(&in_conversation(&old, message("1", "old")), ClaimMode::IfFree).await.unwrap();
    ledger.inbox.receive(&in_conversation(&new, message("2", "new")), ClaimMode::Never).await.unwrap();
    for to in [&new, &old] {
        assert_eq!(ledger.inbox.rename_conversation(&old, to).await.unwrap(), RenameOutcome::Conflict);
    }
    let lease = received.claimed.unwrap().lease;
    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!((turn.id, turn.messages.len()), (received.turn, 1), "both stay as they are");

    // There and back again: no lease of the name that it had before is good.
    let third = conversation("telegram:-3");
    assert_eq!(ledger.inbox.rename_conversation(&old, &third).await.unwrap(), RenameOutcome::Renamed);
    assert_eq!(ledger.inbox.rename_conversation(&third, &old).await.unwrap(), RenameOutcome::Renamed);
    assert_lost(ledger.turns.next_turn(&lease).await, "next_turn");
    let taken = ledger
        .inbox
        .receive(&in_conversation(&old, message("3", "more")), ClaimMode::IfFree)
        .await
        .unwrap()
        .claimed
        .unwrap()
        .lease;
    assert!(taken.token > lease.token, "tokens only grow");
    assert_lost(ledger.turns.next_turn(&lease).await, "next_turn");
}

/// Catches: a reply that edits or answers whatever message has the old number under the new name, one that is labelled
/// since a message seems to be in doubt that everybody saw, and a number of what was sent that is forgotten.
pub async fn rename_clears_pending_message_refs(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = (conversation("telegram:-5"), conversation("telegram:-1005"));
    let received =
        ledger.inbox.receive(&in_conversation(&old, message("1", "hello")), ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    let mut done = completed_turn(received.turn, text_parts(&["one", "two"]));
    done.reply_to = Some(MessageRef("77".into()));
    let first = ledger.turns.complete_turn(&lease, &done).await.unwrap().unwrap();
    let second = settle(&ledger, &lease, &sent_settlement(&first, "50")).await.next.unwrap();
    ledger.outbox.save_part(&lease, &second.clone().into_edit_of(MessageRef("51".into()))).await.unwrap();
    ledger.inbox.receive(&in_conversation(&old, message("2", "more")), ClaimMode::Never).await.unwrap();
    assert_eq!(ledger.inbox.rename_conversation(&old, &new).await.unwrap(), RenameOutcome::Renamed);
    let channel = old.channel().clone();
    let lease = ledger.leases.claim_lane(std::slice::from_ref(&channel), WorkFilter::Any).await.unwrap().unwrap().lease;
    let under_way = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert_eq!((under_way.id, under_way.target(), under_way.reply_to.clone()), (second.id, None, None));
    assert_eq!(
        ledger.archive.turn(received.turn).await.unwrap().unwrap().parts[0].state,
        sent_settlement(&first, "50").part.state
    );
    settle(&ledger, &lease, &sent_settlement(&under_way, "9")).await;
    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    let waiting = InboundMessage { message: None, ..in_conversation(&new, message("2", "more")) };
    assert_eq!(turn.messages[0].message, waiting, "everything else of it stays");

    let draft = ledger.outbox.open_draft(&lease, turn.id, Some(MessageRef("78".into()))).await.unwrap().unwrap();
    ledger.outbox.save_part(&lease, &open_as(&draft, "52")).await.unwrap();
    assert_eq!(ledger.inbox.rename_conversation(&new, &old).await.unwrap(), RenameOutcome::Renamed);
    let lease = ledger.leases.claim_lane(std::slice::from_ref(&channel), WorkFilter::Any).await.unwrap().unwrap().lease;
    let begun =
        ledger.turns.complete_turn(&lease, &completed_turn(turn.id, text_parts(&["whole"]))).await.unwrap().unwrap();
    assert_eq!((begun.target(), begun.labelled), (None, false));
    assert_ne!(begun.id, draft.id, "the key of what stands under the old name is not its own");
    assert_eq!(begun.state, PartState::Sending, "it is no doubt: the whole was sent nowhere");
}
