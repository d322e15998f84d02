//! Promises about transcriptions.

use std::collections::BTreeMap;

use satchel_domain::InboxId;
use satchel_ports::ledger::{LedgerError, Transcription, WorkFilter};
use uuid::Uuid;

use super::{LedgerFixture, message, new_file, receive, with_files};

/// Catches: words that are kept in memory only, put to another file, or taken from whoever has lost the lane.
pub async fn transcripts_keep_their_position(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, _) = receive(&ledger, &with_files(message("1", ""), &["a.jpg", "b.ogg", "c.ogg"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert_eq!(queued.transcriptions, BTreeMap::new());
    for index in [0, 1] {
        let file = new_file("b.ogg");
        ledger.turns.store_file(&lease, queued.id, index, &file).await.unwrap();
    }
    let (words, unheard) = (Transcription::Text("Ёж, \"/stop\"".into()), Transcription::Failed("too noisy".into()));
    ledger.turns.record_transcription(&lease, queued.id, 2, &unheard).await.unwrap();
    ledger.turns.record_transcription(&lease, queued.id, 1, &unheard).await.unwrap();
    ledger.turns.record_transcription(&lease, queued.id, 1, &words).await.unwrap();
    for (message, index) in [(queued.id, 3), (InboxId(Uuid::nil()), 1)] {
        let answer = ledger.turns.record_transcription(&lease, message, index, &words).await;
        assert!(matches!(answer, Err(LedgerError::Unknown { .. })), "{answer:?}");
    }
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open().await;
    let newer = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    let lost = ledger.turns.record_transcription(&lease, queued.id, 1, &unheard).await;
    assert!(matches!(lost, Err(LedgerError::LeaseLost(_))), "{lost:?}");
    let turn = ledger.turns.next_turn(&newer).await.unwrap().unwrap();
    assert_eq!(turn.messages[0].transcriptions, BTreeMap::from([(1, words), (2, unheard)]));
    assert_eq!(turn.messages[0].files.len(), 3);
}
