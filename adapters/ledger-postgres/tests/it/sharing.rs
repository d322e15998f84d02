//! What several processes on one database do at the same time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures::future::join_all;
use satchel_contracts::ledger::LedgerFixture;
use satchel_domain::{ChannelName, InboundMessage, MessageRef, Part, PartState, Timestamp};
use satchel_ledger_postgres::{OwnTurns, Settings, VerbSettings, WorkScope};
use satchel_local::SystemClock;
use satchel_ports::{
    Clock, Inbox, Leases, Outbox, Turns,
    ledger::{ClaimMode, LedgerError, RecordedMessage, ReleaseMode, WorkFilter},
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;

use crate::{connect, connect_with, message, store::Store};

fn console() -> [ChannelName; 1] {
    [ChannelName::new("console").unwrap()]
}

#[tokio::test]
async fn concurrent_claims_never_share_a_lane() {
    const LANES: usize = 60;
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledgers = [Arc::new(connect(&database).await), Arc::new(connect(&database).await)];
    let messages: Vec<_> = (0..LANES).map(|number| message(&format!("console:{number}"), "1")).collect();
    join_all(messages.iter().map(|message| ledgers[0].receive(message, ClaimMode::Never))).await;
    let claimed = Arc::new(Mutex::new(BTreeSet::new()));
    let workers = (0..12).map(|worker| {
        let (ledger, claimed) = (Arc::clone(&ledgers[worker % 2]), Arc::clone(&claimed));
        tokio::spawn(async move {
            while let Some(lane) = ledger.claim_lane(&console(), WorkFilter::Any).await.unwrap() {
                let name = lane.lease.conversation.to_string();
                assert!(claimed.lock().unwrap().insert(name), "{lane:?} was claimed twice");
            }
        })
    });
    for worker in join_all(workers).await {
        worker.unwrap();
    }
    assert_eq!(claimed.lock().unwrap().len(), LANES, "and none was left");
}

#[tokio::test]
async fn repeated_message_is_stored_once_by_two_processes() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let (one, two) = (connect(&database).await, connect(&database).await);
    let messages: Vec<_> = (0..50).map(|number| message("console:a", &number.to_string())).collect();
    let (first, second) = tokio::join!(
        join_all(messages.iter().map(|message| one.receive(message, ClaimMode::IfFree))),
        join_all(messages.iter().map(|message| two.receive(message, ClaimMode::IfFree))),
    );
    let received: Vec<_> = first.into_iter().chain(second).map(Result::unwrap).collect();
    assert_eq!(received.iter().filter(|received| received.duplicate).count(), 50, "each is stored once");
    assert_eq!(received.iter().filter(|received| received.claimed.is_some()).count(), 1, "one of them has the lane");
    for (by_one, by_two) in received[..50].iter().zip(&received[50..]) {
        assert_eq!(by_one.turn, by_two.turn);
    }
}

/// Two machines whose clocks differ by two hours: who holds a lane is decided by the database's.
#[tokio::test]
async fn skewed_clock_takes_no_lease() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let [ahead, behind] =
        [3_600_000, -3_600_000].map(|offset| Arc::new(SkewedClock { clock: SystemClock::new(), offset }));
    let one = connect_with(&database, ahead.clone()).await;
    let two = connect_with(&database, behind.clone()).await;
    for (holder, clock, other, name) in [(&one, &ahead, &two, "console:a"), (&two, &behind, &one, "console:b")] {
        let claimed = holder.receive(&message(name, "1"), ClaimMode::IfFree).await.unwrap().claimed.unwrap();
        assert!(claimed.claimed_at <= clock.now(), "it is trusted by the holder's own clock");
        assert_eq!(other.claim_lane(&console(), WorkFilter::Any).await.unwrap(), None, "it has not expired");
        assert_eq!(holder.renew(std::slice::from_ref(&claimed.lease)).await.unwrap(), []);
        let turn = holder.next_turn(&claimed.lease).await.unwrap().expect("it was received");
        assert!(turn.ready_at <= clock.now(), "it can begin at once");
    }
    // Received by the clock that is ahead, and worked on by the other one.
    one.receive(&message("console:c", "1"), ClaimMode::Never).await.unwrap();
    let claimed = two.claim_lane(&console(), WorkFilter::Any).await.unwrap().expect("it waits for nothing");
    assert!(claimed.turn.is_some_and(|turn| turn.ready_at <= behind.now()));
}

/// Catches: a message that came after a part was sent and is taken for an earlier one by the clock of whoever received it.
/// The part would be looked for above that message, not found, and sent a second time.
#[tokio::test]
async fn skewed_clock_takes_no_message_for_an_earlier_one() {
    for offset in [3_600_000, -3_600_000] {
        let Some(database) = required(TestDatabase::create().await) else { return };
        let [agent, gateway] =
            [offset, -offset].map(|offset| Arc::new(SkewedClock { clock: SystemClock::new(), offset }));
        let (agent, gateway) = (connect_with(&database, agent).await, connect_with(&database, gateway).await);
        let receive = async |id: &str| {
            let received = InboundMessage { message: Some(MessageRef(id.to_owned())), ..message("telegram:1", id) };
            gateway.receive(&received, ClaimMode::Never).await.unwrap().turn
        };
        let turn = receive("1").await;
        let lease = agent
            .claim_lane(&[ChannelName::new("telegram").unwrap()], WorkFilter::Any)
            .await
            .unwrap()
            .expect("it waits")
            .lease;
        let part = agent.complete_turn(&lease, &crate::completed(turn, &["reply"])).await.unwrap().expect("started");
        receive("2").await;
        // An attempt that is retried is still the same part.
        agent.save_part(&lease, &part).await.unwrap();
        let recorded = agent.list_recorded_messages(&part.conversation, part.id).await.unwrap();
        let ids = |messages: &[RecordedMessage]| -> Vec<String> {
            messages.iter().map(|recorded| recorded.message.0.clone()).collect()
        };
        assert_eq!((ids(&recorded.before), ids(&recorded.other)), (vec!["1".to_owned()], vec!["2".to_owned()]));
    }
}

/// Catches: a part that another process goes on with, and that it sends an hour too late, or at once although the platform
/// asked for patience.
#[tokio::test]
async fn skewed_clock_waits_as_long_as_the_platform_asked() {
    const RETRY_AFTER: i64 = 600_000;
    /// The longest that the test's own steps take.
    const TOLERANCE: i64 = 60_000;
    for offset in [3_600_000, -3_600_000] {
        let Some(database) = required(TestDatabase::create().await) else { return };
        let [one, two] = [offset, -offset].map(|offset| Arc::new(SkewedClock { clock: SystemClock::new(), offset }));
        let first = connect_with(&database, one.clone()).await;
        let received = first.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
        let lease = received.claimed.unwrap().lease;
        let part = first.complete_turn(&lease, &crate::completed(received.turn, &["reply"])).await.unwrap().unwrap();
        let until = Timestamp(one.now().0 + RETRY_AFTER);
        let waiting = Part { state: PartState::Waiting { until, reason: "429".to_owned() }, ..part };
        first.save_part(&lease, &waiting).await.unwrap();
        assert!(first.release(&lease, ReleaseMode::Always).await.unwrap());

        let second = connect_with(&database, two.clone()).await;
        let lease = second.claim_lane(&console(), WorkFilter::Any).await.unwrap().expect("it was given back").lease;
        let part = second.next_part(&lease).await.unwrap().unwrap();
        let PartState::Waiting { until, .. } = part.state else { panic!("{part:?}") };
        let left = until.0 - two.now().0;
        assert!((RETRY_AFTER - TOLERANCE..=RETRY_AFTER + TOLERANCE).contains(&left), "{left} ms");
    }
}

#[derive(Debug)]
struct SkewedClock {
    clock: SystemClock,
    offset: i64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now().0 + self.offset)
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

#[tokio::test]
async fn expired_holder_commits_nothing() {
    let Some(store) = required(Store::new().await) else { return };
    let (one, two) = (store.open().await, store.open().await);
    let received = one.inbox.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    store.clock().advance(store.lease());
    let taken = two.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap().expect("it has expired").lease;
    assert!(taken.token > lease.token);
    let late = one.turns.complete_turn(&lease, &crate::completed(received.turn, &["late"])).await;
    assert!(matches!(late, Err(LedgerError::LeaseLost(_))), "{late:?}");
    let record = two.archive.turn(received.turn).await.unwrap().unwrap();
    assert_eq!((record.parts.len(), record.ending), (0, None));
    let part = two.turns.complete_turn(&taken, &crate::completed(received.turn, &["reply"])).await.unwrap();
    assert!(part.is_some());
}

#[tokio::test]
async fn only_the_conversation_that_is_served_is_taken() {
    let Some(store) = required(Store::new().await) else { return };
    let other = store.open().await;
    for conversation in ["console:main", "console:holiday"] {
        other.inbox.receive(&message(conversation, "1"), ClaimMode::Never).await.unwrap();
    }
    let scope = WorkScope::Conversation("console:holiday".parse().unwrap());
    let verbs = VerbSettings { scope, ..VerbSettings::default() };
    let settings = Settings { verbs, ..store.settings() };
    let ledger = store.open_with(settings).await;
    let lease = ledger.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(lease.conversation.to_string(), "console:holiday");
    assert_eq!(
        ledger.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap(),
        None,
        "the other has its own terminal"
    );
    let lease = other.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap().lease;
    assert!(other.leases.release(&lease, ReleaseMode::Always).await.unwrap());
}

#[tokio::test]
async fn process_with_own_turns_leaves_what_waits_before_them() {
    let Some(store) = required(Store::new().await) else { return };
    let other = store.open().await;
    let answered = other.inbox.receive(&message("console:main", "answered"), ClaimMode::IfFree).await.unwrap();
    let lease = answered.claimed.unwrap().lease;
    other.turns.complete_turn(&lease, &crate::completed(answered.turn, &["film"])).await.unwrap().unwrap();
    assert!(other.leases.release(&lease, ReleaseMode::Always).await.unwrap());
    let waiting = other.inbox.receive(&message("console:main", "waiting"), ClaimMode::Never).await.unwrap().turn;

    let scope = WorkScope::OwnTurns(OwnTurns::in_conversation("console:main".parse().unwrap()));
    let settings = Settings { verbs: VerbSettings { scope, ..VerbSettings::default() }, ..store.settings() };
    let own = store.open_with(settings).await;
    assert_eq!(own.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap(), None, "nothing of it is its own");
    let received = own.inbox.receive(&message("console:main", "own"), ClaimMode::IfFree).await.unwrap();
    let claimed = received.claimed.unwrap();
    assert_eq!(claimed.turn.map(|turn| turn.id), Some(received.turn));
    let part = own.turns.complete_turn(&claimed.lease, &crate::completed(received.turn, &["reply"])).await.unwrap();
    assert!(part.is_some(), "nothing keeps it waiting");
    assert!(own.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    let again = own.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!((again.turn, again.unsettled), (None, true), "its own reply is not sent yet");
    assert_eq!(own.outbox.next_part(&again.lease).await.unwrap().map(|next| next.turn), Some(received.turn));
    let typed = other.inbox.receive(&message("console:main", "typed"), ClaimMode::IfFree).await.unwrap();
    assert_eq!(typed.claimed, None);
    assert!(own.leases.release(&again.lease, ReleaseMode::Always).await.unwrap());
    let claimed = other.leases.claim_lane(&console(), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(claimed.turn.map(|turn| turn.id), Some(waiting));
}
