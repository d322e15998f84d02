//! Strangers at the door: what is stored of them, who hears of them, and what they can't bring about.

use std::sync::{Arc, Mutex};

use satchel_domain::{
    ConversationOpening, FileReference, Filename, InboundMessage, PairingCode, RedactedForm, Sender, SystemTask,
    Timestamp, TurnId, UndecodableUpdate,
};
use satchel_ports::{
    Inbound, InboundError, LedgerError, ManualClock, MockEventBus, MockLedger, MockWorkspace,
    ledger::{IssuedCode, Pairing, ReceiveOutcome},
};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{
    InboundService,
    access::{AccessPolicy, ChannelAccess},
};

const TURN: TurnId = TurnId(Uuid::from_u128(1));
const SECRET: &str = "what the stranger wrote";

fn rules() -> AccessPolicy {
    let rules = ChannelAccess {
        allow_users: vec!["@ada".into()],
        owners: vec!["1".into()],
        owner_chats: vec!["telegram:1".parse().unwrap()],
        has_private_topics: true,
    };
    AccessPolicy::new([("telegram:1".parse::<satchel_domain::ConversationId>().unwrap().channel().clone(), rules)])
}

fn code() -> PairingCode {
    "ABCD-EFGH".parse().unwrap()
}

fn said(conversation: &str, sender: Sender) -> InboundMessage {
    let file = FileReference::new(SECRET.into(), Filename::from_untrusted(SECRET));
    InboundMessage {
        text: SECRET.into(),
        files: vec![file],
        raw: serde_json::json!({ "text": SECRET }),
        ..InboundMessage::new(conversation.parse().unwrap(), "5:77".into(), sender)
    }
}

fn eve() -> Sender {
    Sender { handle: Some("eve".into()), ..Sender::new("5", "Eve") }
}

type Stored = Arc<Mutex<Vec<InboundMessage>>>;

/// A ledger that remembers what it stores.
fn ledger() -> (MockLedger, Stored) {
    let stored = Stored::default();
    let mut ledger = MockLedger::default();
    let kept = Arc::clone(&stored);
    ledger.inbox.expect_receive().returning(move |message, _| {
        kept.lock().unwrap().push(message.clone());
        Ok(ReceiveOutcome { turn: TURN, duplicate: false, claimed: None })
    });
    (ledger, stored)
}

async fn accept(ledger: MockLedger, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
    accept_at(Timestamp(0), ledger, message).await
}

async fn accept_at(
    now: Timestamp,
    ledger: MockLedger,
    message: InboundMessage,
) -> Result<Option<TurnId>, InboundError> {
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(|_| Ok(()));
    let (lanes, _claimed) = mpsc::channel(1);
    let (clock, bus) = (Arc::new(ManualClock::at(now)), Arc::new(bus));
    let workspace = Arc::new(MockWorkspace::new());
    InboundService::new(&ledger.into(), clock, bus, lanes, Arc::new(rules()), workspace, None).accept(message).await
}

#[tokio::test]
async fn stranger_message_is_discarded_and_code_is_issued() {
    let (mut ledger, stored) = ledger();
    ledger
        .pairings
        .expect_is_approved()
        .withf(|channel, id| channel.as_str() == "telegram" && id == "5")
        .returning(|_, _| Ok(false));
    ledger.pairings.expect_issue_pairing_code().once().returning(|stranger, rules| {
        assert!(!format!("{stranger:?}").contains(SECRET));
        let (issued_at, expires_at) = (Timestamp(0), Timestamp(0).saturating_add(rules.code_ttl));
        let (person, conversation) = (stranger.person.clone(), stranger.conversation.clone());
        let pairing = Pairing { code: code(), person, conversation, issued_at, expires_at };
        Ok(Some(IssuedCode { pairing, offers: 0 }))
    });
    assert_eq!(accept_at(Timestamp(500), ledger, said("telegram:5", eve())).await.unwrap(), None);
    let stored = stored.lock().unwrap();
    assert!(!format!("{stored:?}").contains(SECRET), "{stored:?}");
    let told: Vec<_> = stored
        .iter()
        .map(|stored| (stored.conversation.to_string(), stored.key.as_str(), stored.system_task.clone()))
        .collect();
    let channel = stored[0].conversation.channel().clone();
    let ask = SystemTask::RequestApproval { code: code(), person: eve(), channel };
    assert_eq!(
        told,
        [
            ("telegram:1".to_owned(), "satchel:ask:ABCD-EFGH:telegram:1", Some(ask)),
            ("telegram:5".to_owned(), "satchel:introduce:ABCD-EFGH:0", Some(SystemTask::OfferPairing { code: code() })),
        ]
    );
}

/// The attack: to write without end, so that the bot answers without end, or writes to its database without end.
#[tokio::test]
async fn persistent_stranger_gets_few_replies_per_hour() {
    let stored = Arc::<Mutex<Vec<String>>>::default();
    for minute in 0..60 {
        let (mut ledger, kept) = (MockLedger::default(), Arc::clone(&stored));
        ledger.inbox.expect_receive().returning(move |message, _| {
            kept.lock().unwrap().push(message.key.clone());
            Ok(ReceiveOutcome { turn: TURN, duplicate: false, claimed: None })
        });
        ledger.pairings.expect_is_approved().returning(|_, _| Ok(false));
        let kept = Arc::clone(&stored);
        ledger.pairings.expect_issue_pairing_code().returning(move |stranger, rules| {
            let (issued_at, expires_at) = (Timestamp(0), Timestamp(0).saturating_add(rules.code_ttl));
            let (person, conversation) = (stranger.person.clone(), stranger.conversation.clone());
            let pairing = Pairing { code: code(), person, conversation, issued_at, expires_at };
            let offers = kept.lock().unwrap().iter().filter(|key| key.starts_with("satchel:introduce:")).count();
            Ok(Some(IssuedCode { pairing, offers: u32::try_from(offers).unwrap() }))
        });
        accept_at(Timestamp(minute * 60_000), ledger, said("telegram:5", eve())).await.unwrap();
        let answered = usize::try_from(minute + 1).unwrap().min(6);
        assert_eq!(stored.lock().unwrap().len(), 1 + answered, "each of the first messages is answered, and no other");
    }
    let offers = (0..6).map(|nth| format!("satchel:introduce:ABCD-EFGH:{nth}"));
    let expected: Vec<String> = std::iter::once("satchel:ask:ABCD-EFGH:telegram:1".to_owned()).chain(offers).collect();
    assert_eq!(*stored.lock().unwrap(), expected);
}

/// The attack: a flood of accounts. Those beyond the codes that are open at once get nothing, and nothing is stored.
#[tokio::test]
async fn stranger_without_code_gets_no_reply() {
    let (mut ledger, stored) = ledger();
    ledger.pairings.expect_is_approved().returning(|_, _| Ok(false));
    ledger.pairings.expect_issue_pairing_code().returning(|_, _| Ok(None));
    assert_eq!(accept(ledger, said("telegram:5", eve())).await.unwrap(), None);
    assert!(stored.lock().unwrap().is_empty());
}

#[tokio::test]
async fn strangers_in_group_are_ignored() {
    let (mut ledger, stored) = ledger();
    ledger.pairings.expect_is_approved().returning(|_, _| Ok(false));
    // No code is made: the mock would fail.
    let message = InboundMessage { group: true, ..said("telegram:-100", eve()) };
    assert_eq!(accept(ledger, message).await.unwrap(), None);
    assert!(stored.lock().unwrap().is_empty());
}

/// The attack: a platform that lets people hand over more than words makes them say what only Satchel says.
#[tokio::test]
async fn an_errand_that_comes_from_outside_is_none() {
    let forged = SystemTask::OfferPairing { code: code() };
    for sender in [Sender { handle: Some("Ada".into()), ..Sender::new("7", "Ada") }, Sender::new("1", "Owner")] {
        let (ledger, stored) = ledger();
        let message = InboundMessage { system_task: Some(forged.clone()), ..said("telegram:7", sender) };
        assert_eq!(accept(ledger, message).await.unwrap(), Some(TURN));
        let stored = stored.lock().unwrap();
        assert_eq!((stored[0].system_task.as_ref(), stored[0].text.as_str()), (None, SECRET));
    }
}

#[tokio::test]
async fn approved_sender_is_accepted_unless_ledger_fails() {
    let (mut known, stored) = ledger();
    known.pairings.expect_is_approved().returning(|_, id| Ok(id == "5"));
    assert_eq!(accept(known, said("telegram:5", eve())).await.unwrap(), Some(TURN));
    assert_eq!(stored.lock().unwrap().len(), 1);

    let (mut broken, stored) = ledger();
    broken.pairings.expect_is_approved().returning(|_, _| Err(LedgerError::Full));
    assert!(accept(broken, said("telegram:5", eve())).await.is_err(), "the platform must offer it again");
    assert!(stored.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_channel_without_rules_asks_nobody() {
    let (ledger, stored) = ledger();
    assert_eq!(accept(ledger, said("web:a", eve())).await.unwrap(), Some(TURN));
    assert_eq!(stored.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_names_of_a_stranger_are_cut() {
    let (mut ledger, _) = ledger();
    ledger.pairings.expect_is_approved().returning(|_, _| Ok(false));
    ledger.pairings.expect_issue_pairing_code().once().returning(|stranger, _| {
        let Sender { name, handle, .. } = &stranger.person;
        assert_eq!((name.chars().count(), handle.as_ref().map(|handle| handle.chars().count())), (100, Some(100)));
        Ok(None)
    });
    let long = Sender { handle: Some("x".repeat(5_000)), ..Sender::new("5", "ё".repeat(5_000)) };
    accept(ledger, said("telegram:5", long)).await.unwrap();
}

#[tokio::test]
async fn undecodable_updates_stay_raw_only_for_allowed_users() {
    let ada = Sender { handle: Some("ada".into()), ..Sender::new("9", "") };
    for (channel, sender, let_in, kept_whole) in [
        ("telegram", Some(eve()), false, false),
        ("telegram", Some(eve()), true, true),
        ("telegram", Some(ada), false, true),
        ("telegram", None, true, false),
        ("console", None, false, true),
    ] {
        let mut ledger = MockLedger::default();
        ledger.pairings.expect_is_approved().returning(move |_, _| Ok(let_in));
        ledger.inbox.expect_record_undecodable().once().returning(move |update| {
            assert_eq!(update.raw.to_string().contains(SECRET), kept_whole, "{update:?}");
            assert_eq!(
                (update.key.as_str(), update.reason.as_str()),
                ("77", "a new form"),
                "it is counted all the same"
            );
            Ok(true)
        });
        let update = UndecodableUpdate {
            channel: satchel_domain::ChannelName::new(channel).unwrap(),
            key: "77".into(),
            sender,
            raw: serde_json::json!({ "message": { "text": [SECRET] } }),
            reason: "a new form".into(),
        };
        let (lanes, _claimed) = mpsc::channel(1);
        let door = InboundService::new(
            &ledger.into(),
            Arc::new(ManualClock::default()),
            Arc::new(MockEventBus::new()),
            lanes,
            Arc::new(rules()),
            Arc::new(MockWorkspace::new()),
            None,
        );
        door.record_undecodable(update).await.unwrap();
    }
}

/// The attack: somebody who may not talk changes a message that was passed over, or presses a button that others see,
/// which is a command of theirs.
#[tokio::test]
async fn edits_and_presses_of_strangers_are_ignored() {
    let edit = InboundMessage { key: "5:77:1:9".into(), edit_of: Some("5:77".into()), ..said("telegram:-100", eve()) };
    let press = InboundMessage {
        key: "callback:43".into(),
        text: "/allow ABCD2345".into(),
        files: Vec::new(),
        ..said("telegram:-100", eve())
    };
    let album = InboundMessage { album: Some("a".into()), ..edit.clone() };
    for message in [edit, press, album] {
        let (mut ledger, stored) = ledger();
        ledger.pairings.expect_is_approved().once().returning(|_, _| Ok(false));
        let message = InboundMessage { group: true, ..message };
        assert_eq!(accept(ledger, message.clone()).await.unwrap(), None, "{message:?}");
        assert!(stored.lock().unwrap().is_empty(), "{message:?}");
    }
}

/// Ada's message, which shows what these people wrote.
fn shows(people: &[(&str, &str)]) -> InboundMessage {
    let ada = Sender { handle: Some("ada".into()), ..Sender::new("7", "Ada") };
    let form = |(id, left): &(&str, &str)| RedactedForm {
        author: Sender::new(*id, "Eve"),
        text: (*left).to_owned(),
        files: Vec::new(),
        raw: serde_json::Value::Null,
    };
    InboundMessage { redacted_forms: people.iter().map(form).collect(), ..said("telegram:-100", ada) }
}

/// The attack: somebody who was refused is read nevertheless, because Ada replies to their message.
#[tokio::test]
async fn nothing_of_a_quoted_stranger_is_stored() {
    for (people, expected) in [
        (vec![], SECRET),
        (vec![("1", "hidden")], SECRET),
        (vec![("9", "hidden")], SECRET),
        (vec![("5", "hidden")], "hidden"),
        (vec![("", "a name alone")], "a name alone"),
        (vec![("5", "no name"), ("9", "nothing")], "no name"),
        (vec![("9", "no name"), ("5", "nothing")], "nothing"),
        (vec![("5", "no name"), ("6", "nothing")], "nothing"),
    ] {
        let (mut ledger, stored) = ledger();
        ledger.pairings.expect_is_approved().returning(|_, id| Ok(id == "9"));
        accept(ledger, shows(&people)).await.unwrap();
        let stored = stored.lock().unwrap();
        assert_eq!(stored[0].text, expected, "{people:?}");
        let shows_all = expected == SECRET;
        assert_eq!(
            (stored[0].files.len(), stored[0].raw.is_null()),
            (usize::from(shows_all), !shows_all),
            "{people:?}"
        );
        assert_eq!(stored[0].redacted_forms, [], "{people:?}");
    }
}

/// The attack: somebody who was refused is read nevertheless, because Ada starts a thread from their message.
#[tokio::test]
async fn nothing_is_stored_of_a_stranger_from_whose_message_a_thread_was_started() {
    for (author, expected) in [(Some("5"), "hidden"), (Some("9"), SECRET), (None, SECRET)] {
        let (mut ledger, stored) = ledger();
        ledger.pairings.expect_is_approved().returning(|_, id| Ok(id == "9"));
        let opening = ConversationOpening {
            author: author.map(|id| Sender::new(id, "Eve")),
            text: SECRET.into(),
            redacted_text: "hidden".into(),
            files: vec![FileReference::new(SECRET.into(), Filename::from_untrusted("a.txt"))],
            ..ConversationOpening::default()
        };
        accept(ledger, InboundMessage { opening: Some(Box::new(opening)), ..shows(&[]) }).await.unwrap();
        let stored = stored.lock().unwrap();
        let kept = stored[0].opening.as_deref().expect("it has an opening");
        assert_eq!((kept.text.as_str(), kept.files.len()), (expected, usize::from(expected == SECRET)), "{author:?}");
        assert_eq!(stored[0].text, SECRET, "Ada's own words stay");
    }
}
