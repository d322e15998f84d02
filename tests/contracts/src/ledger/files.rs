//! Promises about files, their numbers and their bytes.

use satchel_domain::{
    Attachment, AttachmentSource, CallId, Filename, HistoryMessage, InboundMessage, MessageRef, NewAttachment,
    OutcomeFile, OutgoingResponse, PartContent, Picture, QuotedFile, RefusedFile, StoredBlob, Timestamp, ToolOutcome,
    ViewedFile, Visibility,
    part::{Operation, PlannedPart, PreparedVoice},
};
use satchel_ports::ledger::{
    AttachmentKey, AttachmentQuery, ClaimMode, CompletedTurn, FileCategory, FileOrigin, ForgetOutcome, ForgetRequest,
    HistoryChange, InboundFileState, JournalEntry, Lease, LedgerError, ReleaseMode, Transcription, WorkFilter,
};

use super::{
    LedgerFixture, completed_turn, conversation, file_part, message, new_file, receive, sent_settlement, settle,
    text_parts, with_files,
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
    let files = ["a", "b"].map(|name| OutcomeFile::New(new_file(name)));
    let outcome = ToolOutcome { attachments: files.to_vec(), ..ToolOutcome::default() };
    let first = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();
    let second = ToolOutcome {
        attachments: vec![first.attachments[1].clone().into(), files[0].clone()],
        selection: Some(vec![files[1].clone(), new_file("c").into()]),
        ..ToolOutcome::default()
    };
    let second = ledger.turns.journal_outcome(&lease, turn, 1, &second, &[]).await.unwrap();
    let numbers = |files: &[Attachment]| files.iter().map(|file| file.number.get()).collect::<Vec<_>>();
    assert_eq!(numbers(&first.attachments), [1, 2]);
    assert_eq!(numbers(&second.attachments), [2, 1], "known files keep their number");
    assert_eq!(numbers(&second.selection.unwrap()), [2, 3]);
    let there = ToolOutcome { attachments: vec![new_file("d").into()], ..outcome };
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
    assert_eq!(listed(AttachmentQuery { sha256, ..here.clone() }).await, [2]);
    let file = Some(first.attachments[1].id);
    assert_eq!(listed(AttachmentQuery { file, ..AttachmentQuery::default() }).await, [2], "in any conversation");
    let file = Some(first.attachments[0].id);
    assert_eq!(listed(AttachmentQuery { file, sha256, ..here }).await, [0; 0]);
    assert_eq!(listed(AttachmentQuery { turn: Some(other_turn), ..AttachmentQuery::default() }).await, [1]);
    assert_eq!(listed(AttachmentQuery::default()).await, [1, 3, 2, 1]);
}

/// Catches: a photo that is stored once more whenever somebody replies to it, and a file of another conversation, or one that
/// was forgotten, that is taken for it.
pub async fn quoted_file_is_the_stored_one(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brings = |name: &str, key: &str, platform_id: &str, quoted: Option<QuotedFile>| {
        let mut message = with_files(message(key, "look"), &["photo.jpg"]);
        message.conversation = conversation(name);
        message.files[0].platform_id = Some(platform_id.to_owned());
        message.files[0].quoted = quoted;
        message
    };
    let first_message = async |lease: &Lease| ledger.turns.next_turn(lease).await.unwrap().unwrap().messages.remove(0);
    let adopt = async |message: InboundMessage| {
        let (lease, turn) = receive(&ledger, &message).await;
        let queued = first_message(&lease).await;
        let adopted = ledger.turns.adopt_file(&lease, queued.id, 0).await.unwrap();
        if let Some(file) = &adopted {
            assert_eq!(first_message(&lease).await.files, [InboundFileState::Stored(file.clone())]);
        }
        ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
        ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
        adopted
    };
    let reply = || Some(QuotedFile::default());

    let (lease, turn) = receive(&ledger, &brings("console:a", "1", "unique", None)).await;
    let queued = first_message(&lease).await;
    assert_eq!(ledger.turns.adopt_file(&lease, queued.id, 0).await.unwrap(), None, "it quotes nothing");
    assert_eq!(queued.files.len(), 1);
    let photo = ledger.turns.store_file(&lease, queued.id, 0, &new_file("photo.jpg")).await.unwrap();
    let parts = [vec![file_part(&photo)], text_parts(&["of the same message, without a file"])].concat();
    let part = ledger.turns.complete_turn(&lease, &completed_turn(turn, parts)).await.unwrap().expect("it is begun");
    let text = settle(&ledger, &lease, &sent_settlement(&part, "55")).await.next.expect("it is begun, too");
    settle(&ledger, &lease, &sent_settlement(&text, "55")).await;

    assert_eq!(adopt(brings("console:a", "2", "unique", reply())).await, Some(photo.clone()));
    assert_eq!(adopt(brings("console:a", "3", "unique, too", reply())).await, None, "another file");
    let shown = |message: &str, index| Some(QuotedFile { shown_in: Some(MessageRef(message.into())), index });
    assert_eq!(adopt(brings("console:a", "4", "as sent", shown("55", 0))).await, Some(photo.clone()));
    assert_eq!(adopt(brings("console:a", "5", "its second", shown("55", 1))).await, None, "it shows one file");
    assert_eq!(adopt(brings("console:a", "6", "that of another", shown("5", 0))).await, None, "another message");
    assert_eq!(adopt(brings("console:b", "7", "unique", reply())).await, None, "another conversation");
    let here = AttachmentQuery { conversation: Some(conversation("console:a")), ..AttachmentQuery::default() };
    assert_eq!(ledger.archive.attachments(&here).await.unwrap(), std::slice::from_ref(&photo), "it is stored once");

    let request = ForgetRequest { conversation: conversation("console:a"), number: 1, restricted_to: None };
    assert!(matches!(ledger.storage.forget_file(&request).await.unwrap(), ForgetOutcome::Forgotten(_)));
    assert_eq!(adopt(brings("console:a", "8", "unique", reply())).await, None, "it was forgotten");
    assert_eq!(adopt(brings("console:a", "9", "as sent", shown("55", 0))).await, None, "it was forgotten");
}

/// Catches: an edit of the words beneath a file that fetches it again, or names it, though it was forgotten for good.
pub async fn edit_brings_back_no_forgotten_file(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str, text: &str| {
        let mut message = with_files(message(key, text), &["secret.jpg", "map.jpg"]);
        for (file, name) in message.files.iter_mut().zip(["unique-a", "unique-b"]) {
            file.platform_id = Some(name.to_owned());
            file.quoted = Some(QuotedFile::default());
        }
        message
    };
    let (lease, turn) = receive(&ledger, &album("1", "look")).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    for (index, name) in [(0, "secret.jpg"), (1, "map.jpg")] {
        ledger.turns.store_file(&lease, queued.id, index, &new_file(name)).await.unwrap();
    }
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let request = ForgetRequest { conversation: lease.conversation.clone(), number: 1, restricted_to: None };
    assert!(matches!(ledger.storage.forget_file(&request).await.unwrap(), ForgetOutcome::Forgotten(_)));

    let edit = |key: &str, text: &str| InboundMessage { edit_of: Some("1".into()), ..album(key, text) };
    assert!(ledger.inbox.receive(&edit("1e", "look"), ClaimMode::Never).await.unwrap().duplicate, "nothing changed");
    for (key, text) in [("1f", "look here"), ("1g", "look there")] {
        ledger.inbox.receive(&edit(key, text), ClaimMode::Never).await.unwrap();
        let corrected = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
        let [InboundFileState::Refused(removed), InboundFileState::Waiting(map)] = corrected.files.as_slice() else {
            panic!("{corrected:?}");
        };
        assert!(removed.reason.contains("removed") && map.platform_id.as_deref() == Some("unique-b"), "{corrected:?}");
        let stored = format!("{:?} {:?}", corrected.message.files, corrected.message.raw);
        assert!(!stored.contains("unique-a") && !stored.contains("secret"), "{stored}");
        ledger.turns.complete_turn(&lease, &completed_turn(corrected.turn, Vec::new())).await.unwrap();
    }
}

/// Catches: a forgotten file that comes back once another one is taken out of the message, and a new one in its place that is
/// refused for it.
pub async fn forgotten_file_is_known_by_its_name_in_edits(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str, names: &[&str]| {
        let mut message = with_files(message(key, "look"), names);
        for file in &mut message.files {
            file.platform_id = Some(format!("unique-{}", file.filename.as_str()));
        }
        message
    };
    let (lease, turn) = receive(&ledger, &album("1", &["map.jpg", "secret.jpg"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    for (index, name) in [(0, "map.jpg"), (1, "secret.jpg")] {
        ledger.turns.store_file(&lease, queued.id, index, &new_file(name)).await.unwrap();
    }
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let request = ForgetRequest { conversation: lease.conversation.clone(), number: 2, restricted_to: None };
    assert!(matches!(ledger.storage.forget_file(&request).await.unwrap(), ForgetOutcome::Forgotten(_)));

    for (key, names, refused) in [
        ("1e", &["secret.jpg", "map.jpg"][..], &[true, false][..]),
        ("1f", &["secret.jpg"][..], &[true][..]),
        ("1g", &["new.jpg"][..], &[false][..]),
    ] {
        let edit = InboundMessage { edit_of: Some("1".into()), ..album(key, names) };
        let received = ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
        assert!(!received.duplicate, "{key}");
        let corrected = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
        let is_refused = |file: &InboundFileState| matches!(file, InboundFileState::Refused(_));
        assert_eq!(corrected.files.iter().map(is_refused).collect::<Vec<_>>(), refused, "{key}: {corrected:?}");
        ledger.turns.complete_turn(&lease, &completed_turn(corrected.turn, Vec::new())).await.unwrap();
    }
}

/// Catches: a photo that is stored twice, since the words beneath it were edited while its stopped turn waited.
pub async fn edit_in_the_place_of_a_message_keeps_its_stored_files(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let voice_and_photo = |key: &str, text: &str, names: &[&str]| {
        let mut message = with_files(message(key, text), names);
        for file in &mut message.files {
            file.platform_id = Some(format!("unique-{}", file.filename.as_str()));
            file.locator = format!("link of {key}");
        }
        message
    };
    let (lease, turn) = receive(&ledger, &voice_and_photo("1", "look", &["a.ogg", "b.jpg"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let voice = ledger.turns.store_file(&lease, queued.id, 0, &new_file("a.ogg")).await.unwrap();
    let photo = ledger.turns.store_file(&lease, queued.id, 1, &new_file("b.jpg")).await.unwrap();
    ledger.turns.record_transcription(&lease, queued.id, 0, &Transcription::Text("bring bread".into())).await.unwrap();
    assert!(ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap());

    let edit = InboundMessage {
        edit_of: Some("1".into()),
        ..voice_and_photo("1e", "look here", &["new.jpg", "b.jpg", "a.ogg", "b.jpg"])
    };
    let received = ledger.inbox.receive(&edit, ClaimMode::IfFree).await.unwrap();
    assert_eq!(received.turn, turn, "nobody has read it");
    let lease = received.claimed.expect("the lane is free").lease;
    let edited = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let waiting = |index: usize| InboundFileState::Waiting(edit.files[index].clone());
    assert_eq!(edited.message.text, "look here");
    let expected = [waiting(0), InboundFileState::Stored(photo), InboundFileState::Stored(voice), waiting(3)];
    assert_eq!(edited.files, expected);
    assert_eq!(edited.transcriptions.into_iter().collect::<Vec<_>>(), [(2, Transcription::Text("bring bread".into()))]);
}

/// Catches: a filter that leaves out what belongs there, lets in what doesn't, or takes a page before it filters; and a count
/// of something else than what is listed.
pub async fn files_are_filtered(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &with_files(message("1", ""), &["a.jpg"])).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let at = |created_at, file: NewAttachment| NewAttachment { created_at: Timestamp(created_at), ..file };
    let typed = |mime: &str, file: NewAttachment| NewAttachment { mime: mime.into(), ..file };
    let sent = NewAttachment { source: AttachmentSource::User, ..at(10, typed("image/jpeg", new_file("Äpfel.JPG"))) };
    ledger.turns.store_file(&lease, queued.id, 0, &sent).await.unwrap();
    let files = [("image/png", 20), ("audio/ogg", 30), ("video/mp4", 40), ("application/pdf", 50), ("text/plain", 60)];
    let files = files.map(|(mime, created_at)| at(created_at, typed(mime, new_file(mime))));
    let hidden = NewAttachment { visibility: Visibility::Internal, ..at(70, typed("image/png", new_file("hidden"))) };
    let made = files.into_iter().chain([hidden]).map(OutcomeFile::New).collect();
    let outcome = ToolOutcome { attachments: made, ..ToolOutcome::default() };
    ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();

    let all = AttachmentQuery { conversation: Some(lease.conversation.clone()), ..AttachmentQuery::default() };
    let time = |milliseconds| Some(Timestamp(milliseconds));
    let category = |category| AttachmentQuery { category: Some(category), ..all.clone() };
    let origin = |origin| AttachmentQuery { origin: Some(origin), ..all.clone() };
    for (query, numbers) in [
        (category(FileCategory::Image), vec![7, 2, 1]),
        (AttachmentQuery { limit: Some(2), ..category(FileCategory::Image) }, vec![7, 2]),
        (AttachmentQuery { before: Some(7), limit: Some(1), ..category(FileCategory::Image) }, vec![2]),
        (category(FileCategory::Audio), vec![3]),
        (category(FileCategory::Video), vec![4]),
        (category(FileCategory::Other), vec![6, 5]),
        (origin(FileOrigin::Person), vec![1]),
        (origin(FileOrigin::Assistant), vec![7, 6, 5, 4, 3, 2]),
        (AttachmentQuery { visibility: Some(Visibility::Deliver), ..all.clone() }, vec![6, 5, 4, 3, 2, 1]),
        (AttachmentQuery { visibility: Some(Visibility::Internal), ..all.clone() }, vec![7]),
        (AttachmentQuery { since: time(30), until: time(60), ..all.clone() }, vec![5, 4, 3]),
        (AttachmentQuery { since: time(71), ..all.clone() }, vec![]),
        (AttachmentQuery { mime_prefix: Some("image".into()), ..all.clone() }, vec![7, 2, 1]),
        (AttachmentQuery { mime_prefix: Some("image/p".into()), offset: 1, ..all.clone() }, vec![2]),
        (AttachmentQuery { mime_prefix: Some("%".into()), ..all.clone() }, vec![]),
        (AttachmentQuery { source: Some(AttachmentSource::User), ..all.clone() }, vec![1]),
        (AttachmentQuery { source: Some(AttachmentSource::Script), ..all.clone() }, vec![]),
        (AttachmentQuery { name_contains: Some("äPFEL.j".into()), ..all.clone() }, vec![1]),
        (AttachmentQuery { name_contains: Some("P".into()), ..all.clone() }, vec![6, 5, 4, 2, 1]),
        (AttachmentQuery { name_contains: Some("p".into()), offset: 1, limit: Some(2), ..all.clone() }, vec![5, 4]),
        (
            AttachmentQuery { name_contains: Some("i".into()), source: Some(AttachmentSource::User), ..all.clone() },
            vec![],
        ),
        (AttachmentQuery { offset: 5, ..all.clone() }, vec![2, 1]),
        (AttachmentQuery { offset: 5, limit: Some(1), ..all.clone() }, vec![2]),
        (AttachmentQuery { offset: 9, limit: Some(1), ..all.clone() }, vec![]),
    ] {
        let found = ledger.archive.attachments(&query).await.unwrap();
        assert_eq!(found.iter().map(|file| file.number.get()).collect::<Vec<_>>(), numbers, "{query:?}");
        let whole = AttachmentQuery { offset: 0, limit: None, ..query.clone() };
        let whole = ledger.archive.attachments(&whole).await.unwrap().len() as u64;
        assert_eq!(ledger.archive.count_attachments(&query).await.unwrap(), whole, "{query:?}");
    }
}

/// Catches: a file that can be read or used from another conversation by its id.
pub async fn foreign_file_is_unknown(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let (other, other_turn) = receive(&ledger, &elsewhere).await;
    let outcome = ToolOutcome { attachments: vec![new_file("secret.txt").into()], ..ToolOutcome::default() };
    let stored = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments.remove(0);
    for key in [AttachmentKey::Id(stored.id), AttachmentKey::Number(stored.number.get())] {
        assert_eq!(ledger.archive.attachment(&lease.conversation, key).await.unwrap().as_ref(), Some(&stored));
        assert_eq!(ledger.archive.attachment(&other.conversation, key).await.unwrap(), None, "{key:?}");
    }
    let renamed = Attachment { conversation: other.conversation.clone(), ..stored.clone() };
    for file in outcome.attachments.into_iter().chain([stored.into(), renamed.clone().into()]) {
        let stolen = ToolOutcome { attachments: vec![file], ..ToolOutcome::default() };
        let answer = ledger.turns.journal_outcome(&other, other_turn, 0, &stolen, &[]).await;
        assert!(matches!(answer, Err(LedgerError::Unknown { .. })), "{answer:?}");
    }
    assert_eq!(ledger.turns.next_turn(&other).await.unwrap().unwrap().journal, [], "nothing of it was recorded");
    let sent = completed_turn(other_turn, vec![file_part(&renamed)]);
    let answered = OutgoingResponse { attachments: vec![renamed.clone()], ..OutgoingResponse::from_text("here") };
    let answered = CompletedTurn { response: answered, ..completed_turn(other_turn, Vec::new()) };
    let attachments = vec![renamed];
    let said = HistoryMessage::Person { text: "this".into(), attachments, refused: Vec::new(), origin: None };
    let said = CompletedTurn { history: HistoryChange::Append(vec![said]), ..completed_turn(other_turn, Vec::new()) };
    for stolen in [sent, answered, said] {
        let answer = ledger.turns.complete_turn(&other, &stolen).await;
        assert!(matches!(answer, Err(LedgerError::Unknown { .. })), "{answer:?}");
    }
}

/// Catches: a file of a call that dies with it, one that gets a second number when the call is done, half a list, and a
/// file of another conversation.
pub async fn call_attachment_survives_crash(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let files = ["a", "b"].map(new_file);
    let registered = ledger.turns.register_files(turn, &files).await.unwrap();
    assert_eq!(registered.iter().map(|file| file.number.get()).collect::<Vec<_>>(), [1, 2]);
    let again = ledger.turns.register_files(turn, &files[1..]).await.unwrap();
    assert_eq!(again, registered[1..], "a repeat is the same");

    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let (_, other_turn) = receive(&ledger, &elsewhere).await;
    let foreign = new_file("c");
    let foreign_file = ledger.turns.register_files(other_turn, std::slice::from_ref(&foreign)).await.unwrap();
    let mixed = [new_file("d"), foreign];
    let refused = ledger.turns.register_files(turn, &mixed).await;
    assert!(matches!(refused, Err(LedgerError::Unknown { .. })), "{refused:?}");

    let outcome = ToolOutcome { attachments: files.clone().map(Into::into).to_vec(), ..ToolOutcome::default() };
    assert_eq!(ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap().attachments, registered);
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let late = ledger.turns.register_files(turn, &files).await;
    assert!(matches!(late, Err(LedgerError::Unknown { .. })), "a turn that is complete takes no more: {late:?}");
    drop(ledger);
    let known = fixture.open().await.archive.attachments(&AttachmentQuery::default()).await.unwrap();
    assert_eq!(known, [foreign_file, registered.into_iter().rev().collect()].concat(), "all of them and no other");
}

/// Catches: files of one message that change places, and a refusal that the record doesn't show.
pub async fn files_keep_their_position(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let names = ["a.txt", "b.txt", "c.txt"];
    let (lease, turn) = receive(&ledger, &with_files(message("1", ""), &names)).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert!(queued.files.iter().all(|file| matches!(file, InboundFileState::Waiting(_))));
    let file = new_file("c.txt");
    let stored = ledger.turns.store_file(&lease, queued.id, 2, &file).await.unwrap();
    assert_eq!(stored.number.get(), 1);
    assert_eq!(ledger.turns.store_file(&lease, queued.id, 2, &file).await.unwrap(), stored, "a repeat is the same");
    ledger.turns.refuse_file(&lease, queued.id, 1, &refusal("b.txt")).await.unwrap();
    let beyond = ledger.turns.store_file(&lease, queued.id, 3, &new_file("d")).await;
    assert!(matches!(beyond, Err(LedgerError::Unknown { .. })), "{beyond:?}");
    let files = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0).files;
    assert_eq!(files[0], InboundFileState::Waiting(queued.message.files[0].clone()));
    assert_eq!(files[1], InboundFileState::Refused(refusal("b.txt")));
    assert_eq!(files[2], InboundFileState::Stored(stored));
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.refused().collect::<Vec<_>>(), [&refusal("b.txt")]);
}

/// Catches: a name, a caption, a type or a number that is another one once the process that planned it is gone, and a page of a
/// document that the model is shown as the whole.
pub async fn files_are_read_as_they_were_named(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let draft = NewAttachment { visibility: Visibility::Internal, description: "a draft".into(), ..new_file("a.txt") };
    let stored = ledger.turns.register_files(turn, std::slice::from_ref(&draft)).await.unwrap().remove(0);
    let named = Attachment {
        filename: Filename::from_untrusted("a-2.txt"),
        mime: "text/markdown".into(),
        description: "the plan".into(),
        visibility: Visibility::Deliver,
        ..stored.clone()
    };
    let picture = Picture {
        filename: Filename::from_untrusted("page 3 of a.txt.png"),
        stored: StoredBlob { mime: "image/png".into(), ..stored.stored() },
    };
    let outcome = ToolOutcome {
        attachments: vec![named.clone().into()],
        viewed_files: vec![ViewedFile { file: stored.clone().into(), picture: Some(picture) }],
        selection: Some(vec![stored.clone().into(), named.clone().into()]),
        ..ToolOutcome::from_text("attached")
    };
    let recorded = ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();
    assert_eq!(ToolOutcome::from(recorded.clone()), outcome);
    let made_again = NewAttachment { description: "made again".into(), ..draft };
    let outcome = ToolOutcome { attachments: vec![made_again.into()], ..ToolOutcome::default() };
    let again = ledger.turns.journal_outcome(&lease, turn, 1, &outcome, &[]).await.unwrap();
    assert_eq!(again.attachments, [Attachment { description: "made again".into(), ..stored.clone() }]);
    drop(ledger);
    fixture.after_death();

    let ledger = fixture.open().await;
    let lease = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    let journal = ledger.turns.next_turn(&lease).await.unwrap().unwrap().journal;
    let outcomes = [recorded, again].into_iter().zip(0..);
    let expected: Vec<JournalEntry> =
        outcomes.map(|(outcome, ordinal)| JournalEntry::Outcome { ordinal, outcome }).collect();
    assert_eq!(journal, expected);
    let undescribed = Attachment { description: String::new(), ..named.clone() };
    let attachments = vec![named.clone(), undescribed.clone()];
    let call = CallId { turn, ordinal: 0 };
    let history = [HistoryMessage::Tool { call, text: "attached".into(), attachments: attachments.clone() }];
    let done = CompletedTurn {
        response: OutgoingResponse { attachments: attachments.clone(), ..OutgoingResponse::from_text("here") },
        history: HistoryChange::Append(history.to_vec()),
        ..completed_turn(turn, vec![file_part(&named), file_part(&stored), file_part(&undescribed)])
    };
    let begun = ledger.turns.complete_turn(&lease, &done).await.unwrap().unwrap();
    assert_eq!(begun.operation.files()[0].attachment, named);
    ledger.outbox.save_part(&lease, &begun).await.unwrap();
    drop(ledger);

    let ledger = fixture.open().await;
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.response.unwrap().attachments, attachments);
    let sent: Vec<&Attachment> = record.parts.iter().map(|part| &part.operation.files()[0].attachment).collect();
    assert_eq!(sent, [&named, &stored, &undescribed]);
    assert_eq!(ledger.archive.history(&lease.conversation, 10).await.unwrap(), history);
    let key = AttachmentKey::Id(stored.id);
    assert_eq!(ledger.archive.attachment(&lease.conversation, key).await.unwrap(), Some(stored), "its record stays");
}

/// Catches: a sweep that takes the bytes of a file or of a prepared voice, and one that takes nothing.
pub async fn referenced_blobs_are_not_collected(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let [file, loose, voice] = ["a", "b", "c"].map(new_file);
    let outcome = ToolOutcome { attachments: vec![file.clone().into()], ..ToolOutcome::default() };
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
    part.operation = Operation::Post { content: spoken(Some(prepared)) };
    ledger.outbox.save_part(&lease, &part).await.unwrap();
    assert_eq!(ledger.storage.find_unreferenced(&asked).await.unwrap(), [loose.sha256]);
    assert_eq!(ledger.storage.find_unreferenced(&[]).await.unwrap(), []);
}

/// Catches: a sweep that takes what was uploaded for a message that waits behind a long turn.
pub async fn queued_message_keeps_its_blobs(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brought = new_file("a.txt");
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

    let again = new_file("b.txt");
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
