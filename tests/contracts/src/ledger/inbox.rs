//! Promises about the inbox.

use std::time::Duration;

use satchel_domain::{ConversationOpening, FileReference, InboundMessage, Sha256, TurnId};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, InboundFileState, Lease, Ledger, LedgerError, ReleaseMode},
};

use super::{
    LedgerFixture, completed_turn, conversation, injected, message, model_message, receive, text_parts, with_files,
};

/// Catches: a key that is looked up without its channel, or a repeat that becomes a turn of its own.
pub async fn key_is_stored_once_per_channel(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let again = fixture.open().await.inbox.receive(&message("1", "hello"), ClaimMode::IfFree).await.unwrap();
    assert!(again.duplicate && again.turn == turn && again.claimed.is_none());
    let elsewhere = InboundMessage { conversation: conversation("web:1"), ..message("1", "hello") };
    let other = ledger.inbox.receive(&elsewhere, ClaimMode::Never).await.unwrap();
    assert!(!other.duplicate && other.turn != turn);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.len(), 1);
    ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    assert!(
        ledger.inbox.receive(&message("1", "hello"), ClaimMode::Never).await.unwrap().duplicate,
        "also once consumed"
    );
}

/// Catches: a thread whose first message is forgotten by its second one, or repeated with it; an edit that loses it; and one
/// that comes back though the conversation was forgotten.
pub async fn conversation_is_opened_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let opening = |text: &str| {
        let files = with_files(message("", ""), &["plan.pdf"]).files;
        let key = Some("starter".into());
        Some(Box::new(ConversationOpening { text: text.into(), files, key, ..ConversationOpening::default() }))
    };
    let brings = |key: &str, text: &str| InboundMessage { opening: opening("[the plan]"), ..message(key, text) };
    let read = async |ledger: &Ledger, lease: &Lease| {
        let mut turn = ledger.turns.next_turn(lease).await.unwrap().unwrap();
        ledger.turns.complete_turn(lease, &completed_turn(turn.id, Vec::new())).await.unwrap();
        let message = turn.messages.remove(0).message;
        (message.text, message.files.len(), message.earlier_text)
    };
    // A command of Satchel's own brings none.
    let (lease, command) = receive(&ledger, &message("1", "/files")).await;
    ledger.turns.complete_turn(&lease, &completed_turn(command, Vec::new())).await.unwrap();
    let expected = [
        (brings("2", "why?"), "[the plan]\n\nwhy?", 1, None),
        (brings("3", "and when?"), "and when?", 0, None),
        (
            InboundMessage { edit_of: Some("2".into()), ..message("2e", "who?") },
            "[the plan]\n\nwho?",
            1,
            Some("[the plan]\n\nwhy?"),
        ),
    ];
    for (message, text, files, earlier) in expected {
        assert!(!ledger.inbox.receive(&message, ClaimMode::Never).await.unwrap().duplicate, "{text}");
        assert_eq!(read(&ledger, &lease).await, (text.to_owned(), files, earlier.map(str::to_owned)));
    }
    let changed =
        InboundMessage { opening: opening("[another plan]"), edit_of: Some("2e".into()), ..message("2f", "who?") };
    assert!(ledger.inbox.receive(&changed, ClaimMode::Never).await.unwrap().duplicate, "its own words are the same");

    // A starter that was written to Satchel in the same conversation is known.
    let post = InboundMessage { conversation: conversation("console:post"), ..message("starter", "the plan") };
    let (lease, first) = receive(&ledger, &post).await;
    ledger.turns.complete_turn(&lease, &completed_turn(first, Vec::new())).await.unwrap();
    let below = InboundMessage { conversation: conversation("console:post"), ..brings("4", "why?") };
    ledger.inbox.receive(&below, ClaimMode::Never).await.unwrap();
    assert_eq!(read(&ledger, &lease).await, ("why?".to_owned(), 0, None));
}

/// Catches: something that a channel can't read, and that is fetched, or of which nobody is told.
pub async fn unreadable_content_is_refused_at_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let files = vec![FileReference::unreadable("forwarded message", "it isn't shown")];
    let (lease, turn) = receive(&ledger, &InboundMessage { files, ..message("1", "") }).await;
    let message = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let [InboundFileState::Refused(refused)] = message.files.as_slice() else { panic!("{:?}", message.files) };
    assert_eq!(
        (message.turn, refused.filename.as_str(), refused.reason.as_str()),
        (turn, "forwarded message", "it isn't shown")
    );
}

/// Catches: an edit that is queued behind its original, or that keeps the original's files.
pub async fn edit_replaces_queued_message(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &message("1", "first")).await;
    let second = ledger.inbox.receive(&with_files(message("2", "second"), &["a.txt"]), ClaimMode::Never).await.unwrap();
    let edit = InboundMessage { edit_of: Some("2".into()), ..with_files(message("2e", "better"), &["b.txt", "c.txt"]) };
    let replaced = ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    assert_eq!((replaced.turn, replaced.duplicate), (second.turn, false));
    let waiting = ledger.turns.list_queued_behind(&lease, first).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].message.text.as_str(), waiting[0].files.len()), ("better", 2));

    // Also the lane's oldest, while nobody works on the lane.
    assert!(ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap());
    let edit = InboundMessage { edit_of: Some("1".into()), ..message("1e", "first, better") };
    assert_eq!(ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap().turn, first);
}

/// Catches: an edit that changes words which the model has read already, and so is lost.
pub async fn edit_of_running_message_is_new_message(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    let edit = InboundMessage { edit_of: Some("1".into()), ..message("1e", "first, better") };
    let stored = ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    assert_ne!(stored.turn, turn);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages[0].message.text, "first");
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let edit = InboundMessage { edit_of: Some("1".into()), ..message("1f", "too late") };
    assert_ne!(ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap().turn, turn, "its original is consumed");
}

/// Catches: a correction that says nothing of what it corrects, or of the version before the last one, and an edit of a message
/// nobody has read yet that is taken for one.
pub async fn late_edit_names_what_it_corrects(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    ledger.inbox.receive(&message("2", "second"), ClaimMode::Never).await.unwrap();
    let edit = |of: &str, key: &str, text: &str| InboundMessage { edit_of: Some(of.into()), ..message(key, text) };
    for (of, key, text) in [("1", "1e", "better"), ("2", "2e", "second, better"), ("1", "1f", "best"), ("9", "9e", "x")]
    {
        ledger.inbox.receive(&edit(of, key, text), ClaimMode::Never).await.unwrap();
    }
    let queued = async |ledger: &Ledger, lease: &Lease, turn: TurnId| {
        let waiting = ledger.turns.list_queued_behind(lease, turn).await.unwrap();
        let read = waiting.into_iter().map(|queued| (queued.message.text, queued.message.earlier_text));
        read.collect::<Vec<_>>()
    };
    let said = |text: &str, earlier: Option<&str>| (text.to_owned(), earlier.map(str::to_owned));
    // Nobody has read the first correction, so the second one takes its place.
    let expected = [said("second, better", None), said("best", Some("first")), said("x", None)];
    assert_eq!(queued(&ledger, &lease, turn).await, expected);
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let second = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    ledger.turns.complete_turn(&lease, &completed_turn(second, Vec::new())).await.unwrap();
    let correction = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!(correction.messages[0].origin().earlier_text.as_deref(), Some("first"));
    ledger.turns.complete_turn(&lease, &completed_turn(correction.id, Vec::new())).await.unwrap();
    let last = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    ledger.inbox.receive(&edit("1", "1g", "the very best"), ClaimMode::Never).await.unwrap();
    let expected = [said("the very best", Some("best"))];
    assert_eq!(queued(&ledger, &lease, last).await, expected, "the newest version was read");
}

/// Catches: a command that runs once more because it was edited into something else, and back.
pub async fn edit_names_the_commands_before_it(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &message("1", "/task pay")).await;
    let mut turn = first;
    for (key, text, earlier, commands) in [
        ("1e", "hm", "/task pay", &[][..]),
        ("1f", "/task pay", "hm", &["/task pay"][..]),
        ("1g", "well", "/task pay", &["/task pay"][..]),
    ] {
        ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
        let edit = InboundMessage { edit_of: Some("1".into()), ..message(key, text) };
        turn = ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap().turn;
        let read = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0).message;
        assert_eq!((read.text.as_str(), read.earlier_text.as_deref()), (text, Some(earlier)));
        assert_eq!(read.earlier_commands, commands, "{key}");
    }
}

/// Catches: an edit that only a platform sees, such as that of a preview, and that is answered as a message.
pub async fn edit_without_change_is_a_duplicate(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let photo = |key: &str, platform_id: &str| {
        let mut photo = with_files(message(key, "look"), &["a.jpg"]);
        photo.files[0].platform_id = Some(platform_id.into());
        photo.files[0].locator = format!("link of {key}");
        photo
    };
    let (lease, turn) = receive(&ledger, &photo("1", "a")).await;
    let edit =
        |key: &str, photo: InboundMessage| InboundMessage { edit_of: Some("1".into()), key: key.into(), ..photo };
    let same = ledger.inbox.receive(&edit("1e", photo("e", "a")), ClaimMode::IfFree).await.unwrap();
    assert_eq!((same.turn, same.duplicate, same.claimed.is_none()), (turn, true, true));
    let other_photo = ledger.inbox.receive(&edit("1f", photo("f", "b")), ClaimMode::IfFree).await.unwrap();
    assert!(other_photo.turn != turn && !other_photo.duplicate, "{other_photo:?}");
    let again = ledger.inbox.receive(&edit("1g", photo("g", "b")), ClaimMode::IfFree).await.unwrap();
    assert_eq!((again.turn, again.duplicate), (other_photo.turn, true), "its newest version counts");
    let words = InboundMessage { text: "look here".into(), ..photo("h", "b") };
    assert!(!ledger.inbox.receive(&edit("1h", words), ClaimMode::IfFree).await.unwrap().duplicate);
    let waiting = async || {
        let waiting = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
        waiting.into_iter().map(|queued| queued.message.text).collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, ["look here"], "the last edit took its place");
    // The platform delivers again what it doesn't know to have arrived.
    for key in ["1e", "1g"] {
        let repeated = ledger.inbox.receive(&edit(key, photo(key, "a")), ClaimMode::IfFree).await.unwrap();
        assert!(repeated.duplicate, "{key}: {repeated:?}");
    }
    assert_eq!(waiting().await, ["look here"], "an old edit that changed nothing undoes no later one");
}

/// Catches: an edit in which only the message that is quoted has changed, or a name, and that is answered as a message; and one that
/// changes what its sender wrote, and isn't.
pub async fn edit_with_the_same_digest_is_a_duplicate(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let version = |key: &str, quoted: &str, written: &str| InboundMessage {
        edit_of: (key != "1").then(|| "1".to_owned()),
        content_digest: Some(Sha256::digest(written)),
        ..with_files(message(key, &format!("> {quoted}\n\n{written}")), &[quoted])
    };
    let (lease, turn) = receive(&ledger, &version("1", "a.jpg", "print it")).await;
    let received = async |edit: &InboundMessage| {
        let received = ledger.inbox.receive(edit, ClaimMode::IfFree).await.unwrap();
        (received.turn, received.duplicate)
    };
    assert_eq!(received(&version("1e", "b.jpg", "print it")).await, (turn, true), "while it is answered");
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert_eq!(received(&version("1f", "c.jpg", "print it")).await, (turn, true), "once it is answered");
    let (edited, is_duplicate) = received(&version("1g", "a.jpg", "print that")).await;
    assert!(edited != turn && !is_duplicate, "its sender changed it");
    assert_eq!(received(&version("1h", "d.jpg", "print that")).await, (edited, true), "its newest version counts");
    let without = InboundMessage { content_digest: None, ..version("1i", "a.jpg", "print that") };
    assert_eq!(received(&without).await, (edited, true), "text and files are the same");
}

/// Catches: an edit that changes what a dead process's model has read, and of whose old words the journal goes on.
pub async fn edit_after_journalling_is_own_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    let entry = model_message("looking", Vec::new());
    ledger.turns.journal_message(&lease, turn, &entry).await.unwrap();
    assert!(ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap());
    let edit = InboundMessage { edit_of: Some("1".into()), ..message("1e", "first, better") };
    let stored = ledger.inbox.receive(&edit, ClaimMode::IfFree).await.unwrap();
    assert_ne!(stored.turn, turn, "though nobody works on the lane");
    let lease = stored.claimed.expect("the lane was free").lease;
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages[0].message.text, "first");
}

/// Catches: a message that is first heard of by its edit, and again when it or its next edit comes.
pub async fn edit_of_unknown_message_is_stored(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let edit = |key: &str, text: &str| InboundMessage { edit_of: Some("1".into()), ..message(key, text) };
    let first = ledger.inbox.receive(&edit("1e", "better"), ClaimMode::Never).await.unwrap();
    let original = ledger.inbox.receive(&message("1", "good"), ClaimMode::Never).await.unwrap();
    assert!(original.duplicate && original.turn == first.turn, "it comes late");
    let next = ledger.inbox.receive(&edit("1f", "best"), ClaimMode::IfFree).await.unwrap();
    assert_eq!((next.turn, next.duplicate), (first.turn, false), "it replaces the first");
    let lease = next.claimed.expect("the lane is free").lease;
    let turn = ledger.turns.next_turn(&lease).await.unwrap().expect("one turn");
    let texts: Vec<&str> = turn.messages.iter().map(|queued| queued.message.text.as_str()).collect();
    assert_eq!((texts, turn.has_followers), (vec!["best"], false));
}

/// Catches: an edit whose own key isn't stored, so that a repeat of an old edit undoes a later one.
pub async fn repeated_edit_is_deduplicated(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &message("1", "first")).await;
    ledger.inbox.receive(&message("2", "second"), ClaimMode::Never).await.unwrap();
    let edit = |key: &str, text: &str| InboundMessage { edit_of: Some("2".into()), ..message(key, text) };
    ledger.inbox.receive(&edit("2e", "better"), ClaimMode::Never).await.unwrap();
    ledger.inbox.receive(&edit("2f", "best"), ClaimMode::Never).await.unwrap();
    assert!(ledger.inbox.receive(&edit("2e", "better"), ClaimMode::Never).await.unwrap().duplicate);
    let waiting = ledger.turns.list_queued_behind(&lease, first).await.unwrap();
    assert_eq!(waiting.iter().map(|queued| queued.message.text.as_str()).collect::<Vec<_>>(), ["best"]);
}

/// Catches: an album of N turns, and a `ready_at` that counts from the first message.
pub async fn album_is_one_debounced_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str| InboundMessage { album: Some("a".into()), ..with_files(message(key, ""), &["p.jpg"]) };
    let (lease, turn) = receive(&ledger, &album("1")).await;
    let ready_at = ledger.turns.next_turn(&lease).await.unwrap().unwrap().ready_at;
    assert!(ready_at > fixture.clock().now());
    fixture.clock().advance(Duration::from_millis(1));
    assert_eq!(ledger.inbox.receive(&album("2"), ClaimMode::Never).await.unwrap().turn, turn);
    let read = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!(read.messages.len(), 2);
    assert!(read.ready_at > ready_at, "the second message pushes it out");
    let alone = ledger.inbox.receive(&message("3", "hello"), ClaimMode::Never).await.unwrap();
    assert_ne!(alone.turn, turn);
    let other = InboundMessage { album: Some("b".into()), ..message("4", "") };
    assert_ne!(ledger.inbox.receive(&other, ClaimMode::Never).await.unwrap().turn, turn);
}

/// Catches: a late photo that joins a turn which runs without it, and is consumed unseen.
pub async fn started_album_accepts_no_more_items(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str| InboundMessage { album: Some("a".into()), ..message(key, "") };
    let (lease, turn) = receive(&ledger, &album("1")).await;
    let entry = model_message("looking", Vec::new());
    ledger.turns.journal_message(&lease, turn, &entry).await.unwrap();
    assert_ne!(ledger.inbox.receive(&album("2"), ClaimMode::Never).await.unwrap().turn, turn, "journalled");

    let elsewhere = |key: &str| InboundMessage { conversation: conversation("console:b"), ..album(key) };
    let (lease, turn) = receive(&ledger, &elsewhere("3")).await;
    let ready_at = ledger.turns.next_turn(&lease).await.unwrap().unwrap().ready_at;
    fixture.clock().set(ready_at);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.len(), 1);
    assert_ne!(ledger.inbox.receive(&elsewhere("4"), ClaimMode::Never).await.unwrap().turn, turn, "ready and owned");
}

/// Catches: messages in the order of their ids or turns mixed up, and one that is injected twice.
pub async fn queued_messages_are_steered_once_in_order(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    assert!(!ledger.turns.next_turn(&lease).await.unwrap().unwrap().has_followers);
    for key in ["2", "3", "4"] {
        ledger.inbox.receive(&message(key, key), ClaimMode::IfFree).await.unwrap();
        assert!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().has_followers);
    }
    let waiting = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
    assert_eq!(waiting.iter().map(|queued| queued.message.text.as_str()).collect::<Vec<_>>(), ["2", "3", "4"]);
    let taken = &waiting[0];
    let entry = model_message("", vec![injected(taken)]);
    ledger.turns.journal_message(&lease, turn, &entry).await.unwrap();
    assert_eq!(ledger.turns.list_queued_behind(&lease, turn).await.unwrap().len(), 2);
    let edit = InboundMessage { edit_of: Some("2".into()), ..message("2e", "better") };
    let stored = ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    assert_ne!(stored.turn, taken.turn, "the model has read the old words");
}

/// Catches: an edit that comes between reading its original and journalling it, and that the model reads as another order.
pub async fn edit_of_a_message_that_is_being_injected_is_a_correction(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    ledger.inbox.receive(&message("2", "buy milk"), ClaimMode::Never).await.unwrap();
    let read = ledger.turns.list_queued_behind(&lease, turn).await.unwrap().remove(0);
    for (key, text) in [("2e", "buy tea"), ("2f", "buy rice")] {
        let edit = InboundMessage { edit_of: Some("2".into()), ..message(key, text) };
        ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    }
    ledger.turns.journal_message(&lease, turn, &model_message("", vec![injected(&read)])).await.unwrap();
    let waiting = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
    let corrections: Vec<_> =
        waiting.iter().map(|queued| (queued.message.text.as_str(), queued.message.earlier_text.as_deref())).collect();
    assert_eq!(corrections, [("buy rice", Some("buy milk"))]);
}

/// Catches: a command that runs once more because its edit was edited back while the model read it.
pub async fn edit_of_an_injected_edit_names_the_commands_before_it(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, command) = receive(&ledger, &message("1", "/task pay")).await;
    ledger.turns.complete_turn(&lease, &completed_turn(command, Vec::new())).await.unwrap();
    let turn = ledger.inbox.receive(&message("2", "hello"), ClaimMode::Never).await.unwrap().turn;
    let edit = |key: &str, text: &str| InboundMessage { edit_of: Some("1".into()), ..message(key, text) };
    ledger.inbox.receive(&edit("1e", "hm"), ClaimMode::Never).await.unwrap();
    let read = ledger.turns.list_queued_behind(&lease, turn).await.unwrap().remove(0);
    ledger.inbox.receive(&edit("1f", "/task pay"), ClaimMode::Never).await.unwrap();
    ledger.turns.journal_message(&lease, turn, &model_message("", vec![injected(&read)])).await.unwrap();
    let again = ledger.turns.list_queued_behind(&lease, turn).await.unwrap().remove(0).message;
    assert_eq!((again.text.as_str(), again.earlier_text.as_deref()), ("/task pay", Some("hm")));
    assert_eq!(again.earlier_commands, ["/task pay"]);
}

/// Catches: an edit that comes between reading and consuming its original, and is consumed with it unread.
pub async fn late_edit_is_not_consumed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    ledger.inbox.receive(&message("2", "second"), ClaimMode::Never).await.unwrap();
    let read = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
    let edit = InboundMessage { edit_of: Some("2".into()), ..message("2e", "better") };
    ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    let mut done = completed_turn(turn, Vec::new());
    done.steered = vec![read[0].id];
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    let next = ledger.turns.next_turn(&lease).await.unwrap().expect("the edit is still queued");
    assert_eq!(next.messages[0].message.text, "better");
    let gone = ledger.turns.refuse_file(&lease, read[0].id, 0, &super::files::refusal("a.txt")).await;
    assert!(matches!(gone, Err(LedgerError::Unknown { .. })), "{gone:?}");
}

/// Catches: an edit that comes during the last step of a turn, of which nothing is journalled, and that the model reads as another
/// order; and one of an edit that was read in between, which names the words before that.
pub async fn edit_during_the_last_step_is_a_correction(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    ledger.inbox.receive(&message("2", "buy milk"), ClaimMode::Never).await.unwrap();
    let mut done = completed_turn(turn, Vec::new());
    for (key, text) in [("2e", "buy tea"), ("2f", "buy rice")] {
        let read = ledger.turns.list_queued_behind(&lease, turn).await.unwrap().remove(0);
        done.steered.push(read.id);
        done.injected_texts.insert(read.id, read.message.text);
        let edit = InboundMessage { edit_of: Some("2".into()), ..message(key, text) };
        ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
    }
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    let next = ledger.turns.next_turn(&lease).await.unwrap().expect("the edit is still queued").messages.remove(0);
    assert_eq!((next.message.text.as_str(), next.message.earlier_text.as_deref()), ("buy rice", Some("buy tea")));
}
