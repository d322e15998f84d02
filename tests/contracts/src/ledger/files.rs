//! Promises about files, their numbers and their bytes.

use satchel_domain::{
    Filename, InboundMessage, OutgoingResponse, PartContent, RefusedFile, ToolOutcome,
    part::{PlannedPart, PreparedVoice},
};
use satchel_ports::ledger::{AttachmentKey, AttachmentQuery, ClaimMode, CompletedTurn, InboundFileState, LedgerError};

use super::{
    CONVERSATION, LedgerFixture, attachment, completed_turn, conversation, file_part, message, receive, text_parts,
    with_files,
};

pub(crate) fn refusal(name: &str) -> RefusedFile {
    RefusedFile { filename: Filename::from_untrusted(name), bytes: None, reason: "too large".into() }
}

/// Catches: numbers that are shared by conversations, counted from what is left, or given anew to a known file.
pub async fn numbers_count_from_one_in_each_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let (other, other_turn) = receive(&ledger, &elsewhere).await;
    let file = |name: &str| attachment(&lease.conversation, name);
    let outcome = ToolOutcome { attachments: vec![file("a"), file("b")], ..ToolOutcome::default() };
    let first = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();
    let second = ToolOutcome {
        attachments: vec![first.attachments[1].clone(), outcome.attachments[0].clone()],
        selection: Some(vec![outcome.attachments[1].clone(), file("c")]),
        ..ToolOutcome::default()
    };
    let second = ledger.turns.journal_outcome(&lease, turn, 1, &second, &[]).await.unwrap();
    let numbers = |files: &[satchel_domain::Attachment]| files.iter().map(|file| file.number).collect::<Vec<_>>();
    assert_eq!(numbers(&first.attachments), [1, 2]);
    assert_eq!(numbers(&second.attachments), [2, 1], "known files keep their number");
    assert_eq!(numbers(&second.selection.unwrap()), [2, 3]);
    let there = ToolOutcome { attachments: vec![attachment(&other.conversation, "d")], ..outcome };
    assert_eq!(
        numbers(&ledger.turns.journal_outcome(&other, other_turn, 0, &there, &[]).await.unwrap().attachments),
        [1]
    );

    let listed = |query: AttachmentQuery| {
        let ledger = ledger.clone();
        async move { numbers(&ledger.archive.attachments(&query).await.unwrap()) }
    };
    let here = AttachmentQuery { conversation: Some(lease.conversation.clone()), ..AttachmentQuery::default() };
    assert_eq!(listed(here.clone()).await, [3, 2, 1], "newest first");
    assert_eq!(listed(AttachmentQuery { limit: Some(2), ..here.clone() }).await, [3, 2]);
    assert_eq!(listed(AttachmentQuery { before: Some(3), limit: Some(1), ..here.clone() }).await, [2]);
    assert_eq!(listed(AttachmentQuery { before: Some(1), ..here.clone() }).await, [0; 0]);
    let sha256 = Some(first.attachments[1].sha256);
    assert_eq!(listed(AttachmentQuery { sha256, ..here }).await, [2]);
    assert_eq!(listed(AttachmentQuery { turn: Some(other_turn), ..AttachmentQuery::default() }).await, [1]);
    assert_eq!(listed(AttachmentQuery::default()).await, [1, 3, 2, 1]);
}

/// Catches: a file that can be read or used from another conversation by its id.
pub async fn foreign_file_is_unknown(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let (other, other_turn) = receive(&ledger, &elsewhere).await;
    let outcome =
        ToolOutcome { attachments: vec![attachment(&lease.conversation, "secret.txt")], ..ToolOutcome::default() };
    let stored = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments.remove(0);
    for key in [AttachmentKey::Id(stored.id), AttachmentKey::Number(stored.number)] {
        assert_eq!(ledger.archive.attachment(&lease.conversation, key).await.unwrap().as_ref(), Some(&stored));
        assert_eq!(ledger.archive.attachment(&other.conversation, key).await.unwrap(), None, "{key:?}");
    }
    let mut renamed = stored.clone();
    renamed.conversation = other.conversation.clone();
    for file in [stored, renamed] {
        let stolen = ToolOutcome { attachments: vec![file], ..ToolOutcome::default() };
        let answer = ledger.turns.journal_outcome(&other, other_turn, 0, &stolen, &[]).await;
        assert!(matches!(answer, Err(LedgerError::Unknown { .. })), "{answer:?}");
    }
    assert_eq!(ledger.turns.next_turn(&other).await.unwrap().unwrap().journal, [], "nothing of it was recorded");
}

/// Catches: a file of a call that dies with it, one that gets a second number when the call is done, half a list, and a
/// file of another conversation.
pub async fn call_attachment_survives_crash(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let files = ["a", "b"].map(|name| attachment(&lease.conversation, name));
    let registered = ledger.turns.register_files(turn, &files).await.unwrap();
    assert_eq!(registered.iter().map(|file| file.number).collect::<Vec<_>>(), [1, 2]);
    let again = ledger.turns.register_files(turn, &registered[1..]).await.unwrap();
    assert_eq!(again, registered[1..], "a repeat is the same");

    let foreign = attachment(&conversation("console:b"), "c");
    let mixed = [attachment(&lease.conversation, "d"), foreign];
    let refused = ledger.turns.register_files(turn, &mixed).await;
    assert!(matches!(refused, Err(LedgerError::Unknown { .. })), "{refused:?}");

    let outcome = ToolOutcome { attachments: files.to_vec(), ..ToolOutcome::default() };
    assert_eq!(ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments, registered);
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let late = ledger.turns.register_files(turn, &files).await;
    assert!(matches!(late, Err(LedgerError::Unknown { .. })), "a turn that is complete takes no more: {late:?}");
    drop(ledger);
    let known = fixture.open().await.archive.attachments(&AttachmentQuery::default()).await.unwrap();
    assert_eq!(known, registered.into_iter().rev().collect::<Vec<_>>(), "all of them and no other");
}

/// Catches: files of one message that change places, and a refusal that the record doesn't show.
pub async fn files_keep_their_position(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let names = ["a.txt", "b.txt", "c.txt"];
    let (lease, turn) = receive(&ledger, &with_files(message("1", ""), &names)).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert!(queued.files.iter().all(|file| matches!(file, InboundFileState::Waiting(_))));
    let file = attachment(&lease.conversation, "c.txt");
    let stored = ledger.turns.store_file(&lease, queued.id, 2, &file).await.unwrap();
    assert_eq!(stored.number, 1);
    assert_eq!(ledger.turns.store_file(&lease, queued.id, 2, &file).await.unwrap(), stored, "a repeat is the same");
    ledger.turns.refuse_file(&lease, queued.id, 1, &refusal("b.txt")).await.unwrap();
    let beyond = ledger.turns.store_file(&lease, queued.id, 3, &attachment(&lease.conversation, "d")).await;
    assert!(matches!(beyond, Err(LedgerError::Unknown { .. })), "{beyond:?}");
    let files = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0).files;
    assert_eq!(files[0], InboundFileState::Waiting(queued.message.files[0].clone()));
    assert_eq!(files[1], InboundFileState::Refused(refusal("b.txt")));
    assert_eq!(files[2], InboundFileState::Stored(stored));
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.refused().collect::<Vec<_>>(), [&refusal("b.txt")]);
}

/// Catches: a declared file that is delivered as `#0`.
pub async fn response_and_parts_have_file_numbers(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let file = attachment(&lease.conversation, "a.txt");
    let mut done = completed_turn(turn, vec![text_parts(&["reply"]).remove(0), file_part(&file)]);
    done.response = OutgoingResponse { attachments: vec![file], ..done.response };
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.response.unwrap().attachments[0].number, 1);
    assert_eq!(record.parts[1].content.files()[0].attachment.number, 1);
}

/// Catches: a sweep that takes the bytes of a file or of a prepared voice, and one that takes nothing.
pub async fn referenced_blobs_are_not_collected(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let [file, loose, voice] = ["a", "b", "c"].map(|name| attachment(&lease.conversation, name));
    let outcome = ToolOutcome { attachments: vec![file.clone()], ..ToolOutcome::default() };
    ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();
    let spoken = |prepared| PartContent::Voice {
        text: "hello".into(),
        in_text: true,
        prepared,
        as_file: false,
        caption: String::new(),
    };
    ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![PlannedPart::new(spoken(None))])).await.unwrap();
    let mut part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    let asked = [file.sha256, loose.sha256, voice.sha256];
    assert_eq!(ledger.storage.find_unreferenced(&asked).await.unwrap(), [loose.sha256, voice.sha256]);
    let prepared = PreparedVoice { sha256: voice.sha256, bytes: 3, duration_ms: 1, waveform: vec![1] };
    part.content = spoken(Some(prepared));
    ledger.outbox.save_part(&lease, &part).await.unwrap();
    assert_eq!(ledger.storage.find_unreferenced(&asked).await.unwrap(), [loose.sha256]);
    assert_eq!(ledger.storage.find_unreferenced(&[]).await.unwrap(), []);
}

/// Catches: a sweep that takes what was uploaded for a message that waits behind a long turn.
pub async fn queued_message_keeps_its_blobs(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brought = attachment(&conversation(CONVERSATION), "a.txt");
    let mut uploaded = with_files(message("1", "look"), &["plain.txt", "a.txt"]);
    uploaded.files[1].stored = Some(brought.sha256);
    assert_eq!(
        ledger.storage.find_unreferenced(&[brought.sha256]).await.unwrap(),
        [brought.sha256],
        "nobody has named it yet"
    );
    let (lease, _) = receive(&ledger, &uploaded).await;
    assert_eq!(ledger.storage.find_unreferenced(&[brought.sha256]).await.unwrap(), []);
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert_eq!(queued.files[1], InboundFileState::Waiting(uploaded.files[1].clone()));
    ledger.turns.refuse_file(&lease, queued.id, 1, &refusal("a.txt")).await.unwrap();
    assert_eq!(ledger.storage.find_unreferenced(&[brought.sha256]).await.unwrap(), [brought.sha256], "it was refused");

    let again = attachment(&lease.conversation, "b.txt");
    let mut uploaded = with_files(message("2", "/stop"), &["b.txt"]);
    uploaded.files[0].stored = Some(again.sha256);
    ledger.inbox.receive(&uploaded, ClaimMode::Never).await.unwrap();
    assert_eq!(ledger.storage.find_unreferenced(&[again.sha256]).await.unwrap(), []);
    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    let stop = ledger.turns.list_queued_behind(&lease, turn).await.unwrap()[0].id;
    let done = CompletedTurn { steered: vec![stop], ..completed_turn(turn, Vec::new()) };
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    assert_eq!(
        ledger.storage.find_unreferenced(&[again.sha256]).await.unwrap(),
        [again.sha256],
        "nobody will take it any more"
    );
}
