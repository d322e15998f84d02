//! Promises about transcriptions and voice replies.

use std::collections::BTreeMap;

use satchel_domain::{InboundMessage, InboxId};
use satchel_ports::ledger::{ClaimMode, ConversationSetting, LedgerError, Transcription};
use uuid::Uuid;

use super::{LedgerFixture, attachment, complete_with_setting, conversation, message, receive, with_files};

/// Catches: words that are kept in memory only, put to another file, or taken from whoever has lost the lane.
pub async fn transcripts_keep_their_position(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, _) = receive(&ledger, &with_files(message("1", ""), &["a.jpg", "b.ogg", "c.ogg"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert_eq!(queued.transcriptions, BTreeMap::new());
    for index in [0, 1] {
        let file = attachment(&lease.conversation, "b.ogg");
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
    let ledger = fixture.open().await;
    let newer = ledger.leases.claim_lane(&[lease.conversation.channel().clone()]).await.unwrap().unwrap();
    let lost = ledger.turns.record_transcription(&lease, queued.id, 1, &unheard).await;
    assert!(matches!(lost, Err(LedgerError::LeaseLost(_))), "{lost:?}");
    let turn = ledger.turns.next_turn(&newer).await.unwrap().unwrap();
    assert_eq!(turn.messages[0].transcriptions, BTreeMap::from([(1, words), (2, unheard)]));
    assert_eq!(turn.messages[0].files.len(), 3);
}

/// Catches: a wish that is forgotten at a restart, or that holds for every conversation.
pub async fn voice_setting_is_per_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (here, _) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let there = ledger.inbox.receive(&elsewhere, ClaimMode::IfFree).await.unwrap().lease.unwrap();
    assert!(!ledger.turns.next_turn(&here).await.unwrap().unwrap().voice, "nothing is spoken unasked");
    complete_with_setting(&ledger, &here, ConversationSetting::VoiceReplies(true)).await;
    ledger.inbox.receive(&message("3", "and now?"), ClaimMode::IfFree).await.unwrap();
    drop(ledger);
    let ledger = fixture.open().await;
    let mut leases = Vec::new();
    while let Some(lease) = ledger.leases.claim_lane(&[here.conversation.channel().clone()]).await.unwrap() {
        leases.push(lease);
    }
    assert_eq!(leases.len(), 2);
    for lease in &leases {
        let voice = ledger.turns.next_turn(lease).await.unwrap().unwrap().voice;
        assert_eq!(voice, lease.conversation == here.conversation, "{lease:?} is not {there:?}");
    }
    let lease = leases.iter().find(|lease| lease.conversation == here.conversation).unwrap();
    complete_with_setting(&ledger, lease, ConversationSetting::VoiceReplies(false)).await;
    ledger.inbox.receive(&message("4", "and now?"), ClaimMode::IfFree).await.unwrap();
    assert!(!ledger.turns.next_turn(lease).await.unwrap().unwrap().voice);
}
