//! Promises about turns that are answered once more.

use satchel_domain::{InboundMessage, SystemTask, TurnId};
use satchel_ports::ledger::{
    ClaimMode, CompletedTurn, ConversationSearch, ForgetOutcome, ForgetRequest, InboundFileState, Lease, Ledger,
    QueuedTurn, RetryOutcome, SearchTerms, Transcription, TurnQuery, TurnRetry, WorkFilter,
};
use uuid::Uuid;

use super::{
    LedgerFixture, completed_turn, conversation, injected, message, model_message, new_file, receive, sent_settlement,
    settle, text_parts, with_files,
};

/// A message of the conversation in which turns are retried.
fn web_message(key: &str, text: &str) -> InboundMessage {
    InboundMessage { conversation: conversation("web:a"), ..message(key, text) }
}

async fn retry(ledger: &Ledger, turn: TurnId, text: Option<&str>) -> RetryOutcome {
    let conversation = conversation("web:a");
    let retry = TurnRetry { conversation, turn, excluded: Vec::new(), text: text.map(str::to_owned) };
    ledger.conversations.retry_turn(&retry).await.unwrap()
}

async fn retried(ledger: &Ledger, turn: TurnId, text: Option<&str>) -> TurnId {
    match retry(ledger, turn, text).await {
        RetryOutcome::Queued(turn) => turn,
        refused => panic!("{refused:?}"),
    }
}

/// Completes a turn, and delivers its one part.
async fn reply(ledger: &Ledger, lease: &Lease, completed: &CompletedTurn) {
    let part = ledger.turns.complete_turn(lease, completed).await.unwrap().expect("it is begun");
    settle(ledger, lease, &sent_settlement(&part, &format!("of-{}", completed.turn))).await;
}

/// Claims the conversation for its queued turn.
async fn claim(ledger: &Ledger) -> (Lease, QueuedTurn) {
    let channel = conversation("web:a").channel().clone();
    let lease = ledger.leases.claim_lane(&[channel], WorkFilter::Any).await.unwrap().expect("a turn is queued").lease;
    let turn = ledger.turns.next_turn(&lease).await.unwrap().expect("it is queued");
    (lease, turn)
}

/// The conversation's history.
async fn history(ledger: &Ledger) -> Vec<String> {
    let messages = ledger.archive.history(&conversation("web:a"), 9).await.unwrap();
    messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect()
}

/// Catches: a file that is asked for or counted twice, an answer that the model still reads, and a repeated request that
/// becomes a third turn.
pub async fn last_turn_is_answered_once_more(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, earlier) = receive(&ledger, &web_message("0", "an earlier question")).await;
    reply(&ledger, &lease, &completed_turn(earlier, text_parts(&["reply"]))).await;
    let brings = with_files(web_message("1", "look"), &["a.pdf"]);
    let (lease, first) = receive(&ledger, &brings).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let file = ledger.turns.store_file(&lease, queued.id, 0, &new_file("a.pdf")).await.unwrap();
    reply(&ledger, &lease, &completed_turn(first, text_parts(&["reply"]))).await;
    let before = history(&ledger).await;
    assert_eq!(before.len(), 4, "{before:?}");

    let second = retried(&ledger, first, None).await;
    drop(ledger);
    let ledger = fixture.open().await;
    assert_eq!(history(&ledger).await, before[..2], "what was said before stays");
    assert_eq!(retried(&ledger, first, None).await, second, "it is asked for once");
    assert_eq!(retried(&ledger, first, Some("look")).await, second);
    assert_eq!(retry(&ledger, first, Some("other words")).await, RetryOutcome::NotLast, "no words are dropped");
    let (lease, turn) = claim(&ledger).await;
    assert_eq!((turn.id, turn.messages.len(), turn.history.len()), (second, 1, 2));
    assert_eq!(turn.messages[0].message.text, "look");
    assert_eq!(turn.messages[0].files, [InboundFileState::Stored(file.clone())], "it is the same file");
    reply(&ledger, &lease, &completed_turn(second, text_parts(&["reply"]))).await;

    let query = TurnQuery { conversation: conversation("web:a"), before: None, limit: 9 };
    let turns = ledger.archive.turns(&query).await.unwrap();
    let replaced: Vec<_> = turns.iter().map(|turn| (turn.id, turn.replaced_by)).collect();
    assert_eq!(replaced, [(earlier, None), (first, Some(second)), (second, None)]);
    assert_eq!(turns[1].messages[0].files, [InboundFileState::Stored(file)], "its record stays whole");
    let repeated = ledger.inbox.receive(&brings, ClaimMode::Never).await.unwrap();
    assert!(repeated.duplicate, "the message is known");
}

/// Catches: a message that was injected and is left out, and an edit of another message than the last.
pub async fn retried_turn_takes_all_its_messages(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &web_message("1", "first")).await;
    ledger.inbox.receive(&web_message("2", "and another"), ClaimMode::Never).await.unwrap();
    let queued = ledger.turns.list_queued_behind(&lease, first).await.unwrap().remove(0);
    let entry = model_message("", vec![injected(&queued)]);
    ledger.turns.journal_message(&lease, first, &entry).await.unwrap();
    let completed = CompletedTurn { steered: vec![queued.id], ..completed_turn(first, text_parts(&["reply"])) };
    reply(&ledger, &lease, &completed).await;

    let second = retried(&ledger, first, Some("and something else")).await;
    let (lease, turn) = claim(&ledger).await;
    let texts: Vec<&str> = turn.messages.iter().map(|queued| queued.message.text.as_str()).collect();
    assert_eq!((turn.id, texts), (second, vec!["first", "and something else"]));
    reply(&ledger, &lease, &completed_turn(second, text_parts(&["reply"]))).await;
    let third = retried(&ledger, second, None).await;
    let turn = ledger.archive.turn(third).await.unwrap().unwrap();
    assert_eq!(turn.messages.last().unwrap().message.text, "and something else", "the latest text counts");
}

/// Catches: an order to stop the turn that the model reads as a message of the new one.
pub async fn excluded_messages_are_not_answered_once_more(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &web_message("1", "first")).await;
    ledger.inbox.receive(&web_message("2", "/stop"), ClaimMode::Never).await.unwrap();
    let stop = ledger.turns.list_queued_behind(&lease, first).await.unwrap().remove(0).id;
    let completed = CompletedTurn { steered: vec![stop], ..completed_turn(first, text_parts(&["reply"])) };
    reply(&ledger, &lease, &completed).await;
    let text = Some("other words".to_owned());
    let retry = TurnRetry { conversation: conversation("web:a"), turn: first, excluded: vec![stop], text };
    assert!(matches!(ledger.conversations.retry_turn(&retry).await.unwrap(), RetryOutcome::Queued(_)));
    let (_, turn) = claim(&ledger).await;
    let texts: Vec<&str> = turn.messages.iter().map(|queued| queued.message.text.as_str()).collect();
    assert_eq!(texts, ["other words"], "the last of the others is the one that is edited");
}

/// Catches: a turn that is retried under the hands of another, whose successors would build on what is gone, or that nobody
/// has asked for.
pub async fn only_last_answered_turn_is_retried(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let unknown = TurnId(Uuid::from_u128(7));
    assert_eq!(retry(&ledger, unknown, None).await, RetryOutcome::NotFound);
    let (lease, first) = receive(&ledger, &web_message("1", "first")).await;
    assert_eq!(retry(&ledger, unknown, None).await, RetryOutcome::NotFound);
    assert_eq!(retry(&ledger, first, None).await, RetryOutcome::Busy, "it runs");
    let part = ledger.turns.complete_turn(&lease, &completed_turn(first, text_parts(&["reply"]))).await.unwrap();
    assert_eq!(retry(&ledger, first, None).await, RetryOutcome::Busy, "the reply is being sent");
    settle(&ledger, &lease, &sent_settlement(&part.expect("it is begun"), "5")).await;

    let other = InboundMessage { conversation: conversation("discord:b"), ..message("b", "in another conversation") };
    let other = ledger.inbox.receive(&other, ClaimMode::Never).await.unwrap().turn;
    assert_eq!(retry(&ledger, other, None).await, RetryOutcome::NotFound);

    let (lease, second) = receive(&ledger, &web_message("2", "second")).await;
    assert_eq!(retry(&ledger, first, None).await, RetryOutcome::Busy, "a message waits");
    reply(&ledger, &lease, &completed_turn(second, text_parts(&["reply"]))).await;
    assert_eq!(retry(&ledger, first, None).await, RetryOutcome::NotLast);

    let task = SystemTask::RunSchedule { name: "report".into(), due: "2026-11-03 08:00 UTC".into() };
    let (lease, third) = receive(&ledger, &InboundMessage { system_task: Some(task), ..web_message("3", "") }).await;
    reply(&ledger, &lease, &completed_turn(third, text_parts(&["reply"]))).await;
    assert_eq!(retry(&ledger, third, None).await, RetryOutcome::SystemTask);
    let channel = conversation("web:a").channel().clone();
    assert_eq!(ledger.leases.claim_lane(&[channel], WorkFilter::Any).await.unwrap(), None, "nothing was queued");
}

/// How many turns and names a search finds.
async fn count_found(ledger: &Ledger, words: &str) -> usize {
    let search = ConversationSearch {
        channel: conversation("web:a").channel().clone(),
        conversation: None,
        terms: SearchTerms::parse(words).unwrap(),
        before: None,
        limit: 9,
    };
    ledger.conversations.search_conversations(&search).await.unwrap().hits.len()
}

/// Catches: the name and the words of a forgotten voice note in the copy that a retry has made of its message, and in what a
/// search finds of that.
pub async fn forgotten_file_leaves_copies_of_a_retry(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let raw = serde_json::json!({ "voice": { "file_name": "secret.ogg" } });
    let brings = InboundMessage { raw, ..with_files(web_message("1", "listen"), &["secret.ogg"]) };
    let (lease, first) = receive(&ledger, &brings).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let note = ledger.turns.store_file(&lease, queued.id, 0, &new_file("secret.ogg")).await.unwrap();
    let heard = Transcription::Text("bring bread".to_owned());
    ledger.turns.record_transcription(&lease, queued.id, 0, &heard).await.unwrap();
    reply(&ledger, &lease, &completed_turn(first, text_parts(&["reply"]))).await;
    let second = retried(&ledger, first, None).await;
    drop(ledger);
    let ledger = fixture.open().await;
    let (lease, queued) = claim(&ledger).await;
    assert_eq!(queued.id, second);
    reply(&ledger, &lease, &completed_turn(second, text_parts(&["reply"]))).await;
    assert_eq!(count_found(&ledger, "bread").await, 2, "both turns have its words");

    let request = ForgetRequest { conversation: lease.conversation, number: note.number.get(), restricted_to: None };
    let forgotten = ledger.storage.forget_file(&request).await.unwrap();
    assert!(matches!(forgotten, ForgetOutcome::Forgotten(_)), "{forgotten:?}");
    assert_eq!(count_found(&ledger, "bread").await, 0);
    assert_eq!(count_found(&ledger, "listen").await, 2, "the rest is still found");
    for turn in [first, second] {
        let record = ledger.archive.turn(turn).await.unwrap().unwrap();
        let stored = format!("{record:?}");
        for trace in ["secret.ogg", "bring bread", "id-of-secret"] {
            assert!(!stored.contains(trace), "{trace} is left: {stored}");
        }
    }
}
