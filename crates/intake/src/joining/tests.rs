//! Which messages of a person are one.

use std::collections::BTreeMap;

use satchel_domain::{
    FileReference, Filename, InboxId, Part, PartContent, PartId, Sender, SystemTask, inbound::ClientContext,
};
use satchel_ports::ledger::{ConversationSettings, InboundFileState, JournalEntry};
use uuid::Uuid;

use super::*;

/// A message of Ada's, received at this millisecond.
fn received(id: u128, at: i64, text: &str) -> QueuedMessage {
    QueuedMessage {
        id: InboxId(Uuid::from_u128(id)),
        turn: TurnId(Uuid::from_u128(id)),
        message: InboundMessage {
            text: text.into(),
            ..InboundMessage::new("telegram:7".parse().unwrap(), id.to_string(), Sender::new("7", "Ada"))
        },
        files: Vec::new(),
        transcriptions: BTreeMap::new(),
        received_at: Timestamp(at),
    }
}

fn changed(mut queued: QueuedMessage, change: impl FnOnce(&mut InboundMessage)) -> QueuedMessage {
    change(&mut queued.message);
    queued
}

fn with_file(mut queued: QueuedMessage) -> QueuedMessage {
    let file = FileReference::new("x".into(), Filename::from_untrusted("a.txt"));
    queued.message.files = vec![file.clone()];
    queued.files = vec![InboundFileState::Waiting(file)];
    queued
}

fn cut_off(queued: QueuedMessage) -> QueuedMessage {
    changed(queued, |message| message.may_continue = true)
}

fn turn_of(messages: Vec<QueuedMessage>) -> QueuedTurn {
    QueuedTurn {
        id: messages[0].turn,
        ready_at: messages.iter().map(|queued| queued.received_at).max().unwrap(),
        messages,
        has_followers: true,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    }
}

/// The most files of a turn.
const MAX_FILES: usize = 20;

/// The numbers of the messages whose turns join the first one's.
fn joining(messages: &[QueuedMessage]) -> Vec<u128> {
    let turn = turn_of(vec![messages[0].clone()]);
    find_joining_turns(&turn, &messages[1..], MAX_FILES).into_iter().map(|turn| turn.0.as_u128()).collect()
}

#[test]
fn what_comes_within_half_a_second_belongs_together() {
    let question = received(1, 0, "What do you make of this?");
    assert_eq!(joining(&[question.clone(), received(2, 100, "[forwarded from Bob]\n\nnews")]), [2]);
    assert_eq!(joining(&[question.clone(), with_file(received(2, 500, ""))]), [2], "a file is as good as a text");
    assert_eq!(joining(&[question.clone(), received(2, 501, "late")]), [] as [u128; 0]);
    assert_eq!(joining(&[with_file(question.clone()), received(2, 200, "read it")]), [2], "whichever comes first");
    let lines = [question, received(2, 450, "and"), received(3, 900, "so"), received(4, 1_500, "on")];
    assert_eq!(joining(&lines), [2, 3], "counted from the last one");
    assert_eq!(joining(&[received(1, 200, "one"), received(2, 0, "two")]), [2], "received by two processes");
    assert_eq!(joining(&[received(1, 60_000, "one"), received(2, 0, "two")]), [] as [u128; 0]);
}

#[test]
fn another_persons_message_is_passed_over() {
    let by_bob = |queued| changed(queued, |message| message.sender = Sender::new("8", "Bob"));
    let messages = [received(1, 0, "what"), by_bob(received(2, 50, "hello")), received(3, 100, "is this?")];
    assert_eq!(joining(&messages), [3]);
    let anonymous = |queued| changed(queued, |message| message.anonymous = true);
    assert_eq!(joining(&[anonymous(received(1, 0, "a")), anonymous(received(2, 9, "b"))]), [] as [u128; 0]);
    let nameless = |queued| changed(queued, |message| message.sender = Sender::new("", "Ada"));
    assert_eq!(joining(&[nameless(received(1, 0, "a")), nameless(received(2, 9, "b"))]), [] as [u128; 0]);
}

#[test]
fn commands_scripts_and_corrections_join_nothing() {
    let script = satchel_domain::script::to_script_message("return 1");
    let context = ClientContext { instructions: None, model: None, history: Vec::new() };
    let odd = [
        received(2, 10, "/files"),
        with_file(received(2, 10, "/task paint")),
        received(2, 10, &script),
        changed(received(2, 10, "meet at six"), |message| message.earlier_text = Some("meet at five".to_owned())),
        changed(received(2, 10, "water"), |message| message.system_task = Some(SystemTask::ConfirmPairing)),
        changed(received(2, 10, "hello"), |message| message.context = Some(Box::new(context))),
        changed(received(2, 10, "yes"), |message| message.pressed = true),
    ];
    for odd in odd {
        let text = odd.message.text.clone();
        let behind = [received(1, 0, "a"), odd.clone(), received(3, 20, "b")];
        assert_eq!(joining(&behind), [] as [u128; 0], "{text:?} joins nothing, and nothing overtakes it");
        assert_eq!(joining(&[odd, received(3, 20, "b")]), [] as [u128; 0], "nothing joins {text:?}");
    }
    let replaced = changed(received(2, 10, "meet at six"), |message| message.edit_of = Some("2".to_owned()));
    assert_eq!(joining(&[received(1, 0, "a"), replaced]), [2], "an edit in the place of its original corrects nothing");
}

/// Catches: an hour of messages that becomes one because the platform delivers them together after an outage.
#[test]
fn messages_sent_apart_stay_apart() {
    let sent = |queued, at: i64| changed(queued, |message| message.sent_at = Some(Timestamp(at)));
    let gap = |seconds: i64| joining(&[sent(received(1, 0, "a"), 0), sent(received(2, 3, "b"), seconds * 1_000)]);
    assert_eq!((gap(1), gap(2), gap(3_600)), (vec![2], vec![], vec![]));
}

#[test]
fn cut_text_is_given_more_time() {
    let long = cut_off(received(1, 0, "a long"));
    assert_eq!(joining(&[long.clone(), received(2, 1_500, "text")]), [2]);
    assert_eq!(joining(&[long.clone(), received(2, 1_501, "text")]), [] as [u128; 0]);
    let thirds = [long.clone(), cut_off(received(2, 1_400, "and a longer")), received(3, 2_800, "text")];
    assert_eq!(joining(&thirds), [2, 3]);
    assert_eq!(
        joining(&[received(1, 0, "read this:"), cut_off(received(2, 300, "a long")), received(3, 1_700, "text")]),
        [2, 3]
    );

    assert_eq!(rest_awaited_until(&turn_of(vec![long.clone()])), Some(Timestamp(1_500)));
    let both = turn_of(vec![long.clone(), received(2, 150, "text")]);
    assert_eq!(rest_awaited_until(&both), Some(Timestamp(1_650)), "so long after the last one");
    assert_eq!(rest_awaited_until(&turn_of(vec![received(1, 0, "short")])), None, "it starts at once");
    let command = changed(long, |message| message.text = "/task paint a very long picture".to_owned());
    assert_eq!(rest_awaited_until(&turn_of(vec![command])), None, "nothing would join it");
}

#[test]
fn album_joins_as_a_whole() {
    let photo =
        |id: u128, at: i64| QueuedMessage { turn: TurnId(Uuid::from_u128(2)), ..with_file(received(id, at, "")) };
    let messages = [received(1, 0, "which one?"), photo(2, 300), photo(3, 900), received(4, 1_300, "quick")];
    assert_eq!(joining(&messages), [2, 4]);
    let with_command = changed(photo(3, 350), |message| message.text = "/task paint".to_owned());
    let messages = [received(1, 0, "these"), photo(2, 300), with_command];
    assert_eq!(joining(&messages), [] as [u128; 0], "whichever of its photos has the command");
}

/// Catches: photos that are refused because all together exceed the limit of one turn, within which each of their messages is.
#[test]
fn files_join_up_to_the_limit_of_a_turn() {
    let files: Vec<QueuedMessage> = (1..=22).map(|id| with_file(received(id, 0, ""))).collect();
    let expected = |last: u128| (2..=last).collect::<Vec<_>>();
    assert_eq!(joining(&files), expected(20));
    let words = received(21, 0, "which one?");
    assert_eq!(joining(&[&files[..20], &[words][..]].concat()), expected(21), "words are no file");

    let album = changed(with_file(received(12, 0, "")), |message| message.album = Some("a".to_owned()));
    assert_eq!(joining(&[&files[..11], &[album.clone()][..]].concat()), expected(11), "more of it may be on its way");
    assert_eq!(joining(&[&files[..10], &[album.clone()][..]].concat()), [expected(10), vec![12]].concat());
    let question = turn_of(vec![received(1, 0, "what is this?")]);
    let with_album = find_joining_turns(&question, std::slice::from_ref(&album), 1);
    assert_eq!(with_album, [album.turn], "by itself it would be refused as well");
}

#[test]
fn turn_that_has_begun_is_joined_by_nothing() {
    let (first, next) = (received(1, 0, "a"), [received(2, 10, "b")]);
    let mut recorded = turn_of(vec![cut_off(first.clone())]);
    recorded.journal = vec![JournalEntry::CallStarted { ordinal: 0 }];
    assert_eq!((find_joining_turns(&recorded, &next, MAX_FILES), rest_awaited_until(&recorded)), (Vec::new(), None));
    let mut drafted = turn_of(vec![first.clone()]);
    let (id, conversation) = (PartId(Uuid::from_u128(9)), first.message.conversation.clone());
    let content = PartContent::from_text("");
    drafted.draft = Some(Part::new(id, conversation, drafted.id, 0, content, Timestamp(0)));
    assert_eq!(find_joining_turns(&drafted, &next, MAX_FILES), Vec::new());
}
