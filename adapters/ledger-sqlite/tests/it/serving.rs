//! A process that serves one conversation, or only what it has sent itself, leaves the rest to those who serve that.

use std::{path::Path, sync::Arc};

use satchel_domain::{ChannelName, InboundMessage, PartState};
use satchel_ledger_sqlite::{OwnTurns, WorkScope};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox, Leases, Outbox, Turns,
    ledger::{ClaimMode, ClaimedLane, LedgerError, ReleaseMode, WorkFilter},
};

use crate::{Settings, SqliteLedger, VerbSettings, completed, message, open, sent};

/// A ledger of a process that works on what is in this scope.
async fn open_for(data_dir: &Path, scope: WorkScope) -> SqliteLedger {
    let settings = Settings { verbs: VerbSettings { scope, ..VerbSettings::default() }, ..Settings::default() };
    SqliteLedger::open(data_dir, settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

/// A ledger of a process that works on its own turns in `console:main`.
async fn open_for_own_turns(data_dir: &Path) -> SqliteLedger {
    let own = OwnTurns::in_conversation("console:main".parse().unwrap());
    open_for(data_dir, WorkScope::OwnTurns(own)).await
}

fn console() -> [ChannelName; 1] {
    [ChannelName::new("console").unwrap()]
}

/// Stores a message whose lane is free.
async fn claim_with(ledger: &SqliteLedger, key: &str) -> ClaimedLane {
    let received = ledger.receive(&message("console:main", key), ClaimMode::IfFree).await.unwrap();
    received.claimed.expect("the lane is free")
}

#[tokio::test]
async fn only_the_conversation_that_is_served_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let other = open(directory.path()).await;
    for conversation in ["console:main", "console:holiday"] {
        other.receive(&message(conversation, "1"), ClaimMode::Never).await.unwrap();
    }
    let ledger = open_for(directory.path(), WorkScope::Conversation("console:holiday".parse().unwrap())).await;
    let console = console();
    let lease = ledger.claim_lane(&console, WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(lease.conversation.to_string(), "console:holiday");
    assert_eq!(
        ledger.claim_lane(&console, WorkFilter::Any).await.unwrap(),
        None,
        "the other conversation has its own terminal"
    );
    assert!(other.claim_lane(&console, WorkFilter::Any).await.unwrap().is_some());
}

#[tokio::test]
async fn process_with_own_turns_leaves_what_waits_before_them() {
    let directory = tempfile::tempdir().unwrap();
    let other = open(directory.path()).await;
    // A message that waits, behind one whose reply was planned and not sent.
    let answered = other.receive(&message("console:main", "answered"), ClaimMode::IfFree).await.unwrap();
    let lease = answered.claimed.unwrap().lease;
    let film = other.complete_turn(&lease, &completed(answered.turn, &["film", "end"])).await.unwrap().unwrap();
    assert!(other.release(&lease, ReleaseMode::Always).await.unwrap());
    let waiting = other.receive(&message("console:main", "waiting"), ClaimMode::Never).await.unwrap().turn;

    let ledger = open_for_own_turns(directory.path()).await;
    assert_eq!(ledger.claim_lane(&console(), WorkFilter::Any).await.unwrap(), None, "nothing of it is its own");
    let claimed = claim_with(&ledger, "own").await;
    let turn = claimed.turn.expect("its own turn comes with the claim");
    assert_eq!((turn.messages[0].message.key.as_str(), claimed.unsettled), ("console:main/own", false));
    assert_eq!(ledger.next_turn(&claimed.lease).await.unwrap().map(|next| next.id), Some(turn.id));
    assert_eq!(ledger.next_part(&claimed.lease).await.unwrap(), None);
    let part = ledger.complete_turn(&claimed.lease, &completed(turn.id, &["reply"])).await.unwrap();
    let settled = ledger.settle_part(&claimed.lease, &sent(&part.expect("nothing keeps it waiting"))).await.unwrap();
    assert_eq!((settled.next, settled.released), (None, true));

    // The earlier turn is as it was, for the process that shows the conversation.
    assert!(other.turn(waiting).await.unwrap().unwrap().ending.is_none());
    let claimed = other.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(claimed.turn.map(|turn| (turn.id, turn.crashes)), Some((waiting, 0)));
    let next = other.next_part(&claimed.lease).await.unwrap().unwrap();
    assert_eq!((next.id, next.state), (film.id, PartState::Sending));
}

#[tokio::test]
async fn message_of_process_with_own_turns_waits_for_the_lane() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (open_for_own_turns(directory.path()).await, open_for_own_turns(directory.path()).await);
    let first = claim_with(&one, "first").await;
    let second = message("console:main", "second");
    let path = InboundMessage { text: "/var/log x".to_owned(), ..message("console:main", "path") };
    for waits in [&second, &path] {
        let held = two.receive(waits, ClaimMode::IfFree).await;
        assert!(matches!(held, Err(LedgerError::LaneHeld(_))), "{held:?}");
    }
    let turn = first.turn.unwrap().id;
    assert!(one.list_queued_behind(&first.lease, turn).await.unwrap().is_empty(), "nothing of it is stored");

    // What is about the turn that runs doesn't wait.
    let stop = InboundMessage { text: "/stop".to_owned(), ..message("console:main", "stop") };
    assert!(two.receive(&stop, ClaimMode::IfFreeOrQueue).await.unwrap().claimed.is_none());
    // Nor does what is typed where the conversation is shown; it is no part of the turn that runs.
    let chat = open_for(directory.path(), WorkScope::Conversation("console:main".parse().unwrap())).await;
    chat.receive(&message("console:main", "typed"), ClaimMode::IfFree).await.unwrap();
    let behind = one.list_queued_behind(&first.lease, turn).await.unwrap();
    assert_eq!(behind.iter().map(|queued| queued.message.text.as_str()).collect::<Vec<_>>(), ["/stop"]);

    let part = one.complete_turn(&first.lease, &completed(turn, &["reply"])).await.unwrap().unwrap();
    assert!(one.settle_part(&first.lease, &sent(&part)).await.unwrap().released);
    let claimed = two.receive(&second, ClaimMode::IfFree).await.unwrap().claimed.unwrap();
    assert_eq!(claimed.turn.unwrap().messages[0].message.key, stop.key, "its own turns are done in their order");
}

#[tokio::test]
async fn killed_process_with_own_turns_costs_no_other_turn_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let other = open(directory.path()).await;
    let waiting = other.receive(&message("console:main", "waiting"), ClaimMode::Never).await.unwrap().turn;
    let killed = open_for_own_turns(directory.path()).await;
    claim_with(&killed, "killed").await;
    drop(killed);
    let ledger = open_for_own_turns(directory.path()).await;
    let own = claim_with(&ledger, "own").await;
    assert!(ledger.release(&own.lease, ReleaseMode::Always).await.unwrap());
    let claimed = other.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(claimed.turn.map(|turn| (turn.id, turn.crashes)), Some((waiting, 0)));
}

/// Catches: a turn that crashes its process again and again, and is never given up as jobs come in between.
#[tokio::test]
async fn job_leaves_the_crash_of_another_process_to_the_turn_that_it_was_about() {
    let directory = tempfile::tempdir().unwrap();
    let crashed = open(directory.path()).await;
    let waiting = claim_with(&crashed, "waiting").await.turn.unwrap().id;
    drop(crashed);
    for key in ["own", "next"] {
        let job = open_for_own_turns(directory.path()).await;
        let own = claim_with(&job, key).await;
        assert!(own.turn.is_some_and(|turn| turn.id != waiting && turn.crashes == 0));
        assert!(job.release(&own.lease, ReleaseMode::Always).await.unwrap());
    }
    let other = open(directory.path()).await;
    let claimed = other.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(claimed.turn.map(|turn| (turn.id, turn.crashes)), Some((waiting, 1)));
}

#[tokio::test]
async fn killed_job_costs_no_other_turn_a_crash_where_a_chat_comes_next() {
    let directory = tempfile::tempdir().unwrap();
    let other = open(directory.path()).await;
    let waiting = other.receive(&message("console:main", "waiting"), ClaimMode::Never).await.unwrap().turn;
    let killed = open_for_own_turns(directory.path()).await;
    claim_with(&killed, "killed").await;
    drop(killed);
    let claimed = other.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(claimed.turn.map(|turn| (turn.id, turn.crashes)), Some((waiting, 0)));
}
