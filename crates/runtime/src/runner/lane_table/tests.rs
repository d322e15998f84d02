//! The rules of the lanes as rows: what happens, when, and what is done about it.

use satchel_ports::{
    HolderId,
    ledger::{ConversationSettings, QueuedTurn},
};
use uuid::Uuid;

use super::{
    LaneAction::{Abandon, CancelExpired, CancelLost, CancelReplaced, Claim, CloseClaims, Exit, Renew, Start, Wake},
    LaneEvent::{
        Claimed, ClaimsEnded, Deadline, MessageReceived, Polled, RenewalFailed, Renewed, Stop, Timer, WorkerExited,
    },
    *,
};

/// An event after so many seconds, and the actions that follow.
type Row = (u64, LaneEvent, Vec<LaneAction>);

/// Renews every 10 s, after a failure after 1 s, trusts for 25 s, looks for work every 2 s and drains for 25 s.
fn table(max_lanes: usize) -> LaneTable {
    table_of(LaneRole::All, max_lanes)
}

fn table_of(role: LaneRole, max_lanes: usize) -> LaneTable {
    LaneTable::new(role, RunnerIntervals::default(), max_lanes, at(0))
}

/// After so many seconds, by a clock that has not leapt.
fn at(seconds: u64) -> EventContext {
    let clock = Timestamp(i64::try_from(seconds).unwrap() * 1_000);
    EventContext { elapsed: Duration::from_secs(seconds), clock, waiting_turns: 0 }
}

fn check(table: &mut LaneTable, rows: Vec<Row>) {
    check_in(table, at, rows);
}

fn check_in(table: &mut LaneTable, context: impl Fn(u64) -> EventContext, rows: Vec<Row>) {
    for (seconds, event, actions) in rows {
        assert_eq!(table.on(event.clone(), context(seconds)), actions, "{event:?} after {seconds} s");
    }
}

/// Worker 0 works on the lane `a`.
fn table_with_worker(max_lanes: usize) -> LaneTable {
    let mut table = table(max_lanes);
    check(&mut table, vec![(0, claimed("a", 1), vec![start(0, "a", 1)])]);
    table
}

/// Worker 1 has replaced worker 0, which has not ended.
fn table_with_replaced_worker() -> LaneTable {
    let mut table = table_with_worker(10);
    check(&mut table, vec![(1, claimed("a", 2), vec![start(1, "a", 2), CancelReplaced(WorkerId(0))])]);
    table
}

fn conversation(name: &str) -> ConversationId {
    format!("console:{name}").parse().unwrap()
}

fn lease(name: &str, token: u64) -> Lease {
    Lease { conversation: conversation(name), holder: HolderId(Uuid::nil()), token }
}

fn turn(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(number))
}

fn queued_turn(number: u128) -> Box<QueuedTurn> {
    Box::new(QueuedTurn {
        id: turn(number),
        messages: Vec::new(),
        ready_at: Timestamp(0),
        has_followers: false,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    })
}

/// A lane that was claimed for its turn 1.
fn lane_with_turn(name: &str, token: u64) -> ClaimedLane {
    let claimed_at = Timestamp(0);
    ClaimedLane { lease: lease(name, token), claimed_at, turn: Some(queued_turn(1)), unsettled: false }
}

/// A lane in which only parts are to be delivered, or an album that is not ready.
fn lane_without_turn(name: &str, token: u64) -> ClaimedLane {
    ClaimedLane { lease: lease(name, token), claimed_at: Timestamp(0), turn: None, unsettled: true }
}

fn claimed(name: &str, token: u64) -> LaneEvent {
    Claimed(lane_with_turn(name, token))
}

fn polled(name: &str, token: u64) -> LaneEvent {
    Polled(Some(lane_without_turn(name, token)))
}

fn start(worker: u64, name: &str, token: u64) -> LaneAction {
    Start(WorkerId(worker), lane_with_turn(name, token))
}

fn found(worker: u64, name: &str, token: u64) -> LaneAction {
    Start(WorkerId(worker), lane_without_turn(name, token))
}

fn renewed() -> LaneEvent {
    Renewed { lost: vec![] }
}

fn exited(worker: u64) -> LaneEvent {
    WorkerExited(WorkerId(worker))
}

fn received(name: &str, number: u128) -> LaneEvent {
    MessageReceived { conversation: conversation(name), turn: turn(number) }
}

#[test]
fn work_is_claimed_until_none_is_found() {
    let mut table = table(10);
    assert_eq!(table.next_timer(0), Some(Duration::ZERO), "at once");
    check(
        &mut table,
        vec![
            (0, Timer, vec![Claim, Renew(vec![])]),
            (0, Timer, vec![]),
            (0, renewed(), vec![]),
            (1, polled("a", 1), vec![found(0, "a", 1), Claim]),
            (1, polled("b", 1), vec![found(1, "b", 1), Claim]),
            (1, Timer, vec![]),
        ],
    );
    assert_eq!(table.next_timer(0), Some(Duration::from_secs(10)), "while it claims, it only renews");
    check(&mut table, vec![(3, Polled(None), vec![])]);
    assert_eq!(table.next_timer(0), Some(Duration::from_secs(2)), "while it claimed, the time has passed");
    check(&mut table, vec![(3, Timer, vec![Claim]), (4, Polled(None), vec![])]);
    assert_eq!(table.next_timer(0), Some(Duration::from_secs(5)));
}

/// Messages that gateways store claim nothing, and neither does a reply that is left to delivery workers.
#[test]
fn news_of_work_for_its_role_makes_it_look_at_once() {
    let completed = LaneEvent::TurnCompleted;
    for (role, event, looks) in [
        (LaneRole::All, received("a", 1), false),
        (LaneRole::All, completed.clone(), false),
        (LaneRole::Turns, received("a", 1), true),
        (LaneRole::Turns, completed.clone(), false),
        (LaneRole::Turns, exited(0), true),
        (LaneRole::Deliveries, received("a", 1), false),
        (LaneRole::Deliveries, completed.clone(), true),
        (LaneRole::Deliveries, exited(0), false),
    ] {
        let mut table = table_of(role, 10);
        check(&mut table, vec![(0, Timer, vec![Claim, Renew(vec![])]), (0, renewed(), vec![])]);
        check(&mut table, vec![(0, Polled(None), vec![]), (1, event.clone(), vec![])]);
        let expected = Duration::from_secs(if looks { 1 } else { 2 });
        assert_eq!(table.next_timer(0), Some(expected), "{role:?}: {event:?}");
    }
}

#[test]
fn own_message_does_not_wake_its_worker() {
    check(
        &mut table_with_worker(10),
        vec![
            (0, received("a", 1), vec![]),
            (1, received("a", 1), vec![Wake(WorkerId(0))]),
            (1, received("a", 2), vec![Wake(WorkerId(0))]),
            (1, received("elsewhere", 3), vec![]),
            (2, polled("b", 1), vec![found(1, "b", 1), Claim]),
            (2, received("b", 1), vec![Wake(WorkerId(1))]),
            (2, Polled(Some(lane_with_turn("c", 1))), vec![start(2, "c", 1), Claim]),
            (2, received("c", 1), vec![]),
            (2, received("c", 2), vec![Wake(WorkerId(2))]),
            (3, exited(0), vec![]),
            (3, received("a", 4), vec![]),
        ],
    );
}

/// Two messages may be stored at once, and the bus may tell of the second before the claim of the first comes.
#[test]
fn message_before_its_claim_wakes_worker() {
    let mut table = table(10);
    check(
        &mut table,
        vec![
            (0, received("a", 2), vec![]),
            (0, claimed("a", 1), vec![start(0, "a", 1), Wake(WorkerId(0))]),
            (0, received("a", 1), vec![]),
            (0, received("b", 1), vec![]),
            (0, claimed("b", 1), vec![start(1, "b", 1)]),
            (1, received("b", 1), vec![Wake(WorkerId(1))]),
            (1, exited(0), vec![]),
            (1, claimed("a", 2), vec![start(2, "a", 2)]),
        ],
    );
    let of_others =
        (0..2 * u128::try_from(MAX_EARLY_MESSAGES).unwrap()).map(|n| (2, received(&format!("x{n}"), n), vec![]));
    check(&mut table, of_others.collect());
    assert_eq!(table.early_messages.len(), MAX_EARLY_MESSAGES, "those of lanes that others hold are forgotten");
}

/// The process may have been stopped while the claim waited: another one may have the lane.
#[test]
fn late_claim_hands_over_nothing() {
    let lost = |worker| Start(WorkerId(worker), ClaimedLane { turn: None, ..lane_with_turn("a", 1) });
    check(&mut table(10), vec![(24, claimed("a", 1), vec![start(0, "a", 1)])]);
    check(&mut table(10), vec![(25, claimed("a", 1), vec![lost(0)])]);
    let leapt = |seconds| EventContext { clock: Timestamp(3_600_000), ..at(seconds) };
    check_in(&mut table(10), leapt, vec![(1, claimed("a", 1), vec![lost(0)])]);
    check(
        &mut table(10),
        vec![(0, Timer, vec![Claim, Renew(vec![])]), (25, Polled(Some(lane_with_turn("a", 1))), vec![lost(0)])],
    );
}

#[test]
fn newer_claim_replaces_worker() {
    check(
        &mut table_with_replaced_worker(),
        vec![
            (1, exited(0), vec![]),
            (2, received("a", 2), vec![Wake(WorkerId(1))]),
            (2, Timer, vec![Claim, Renew(vec![lease("a", 2)])]),
        ],
    );
}

#[test]
fn lost_lease_cancels_only_its_worker() {
    check(
        &mut table_with_worker(10),
        vec![
            (0, claimed("b", 1), vec![start(1, "b", 1)]),
            (0, claimed("c", 1), vec![start(2, "c", 1)]),
            (1, exited(2), vec![]),
            (1, claimed("b", 3), vec![start(3, "b", 3), CancelReplaced(WorkerId(1))]),
            (
                1,
                Renewed { lost: vec![lease("a", 1), lease("b", 1), lease("c", 1)] },
                vec![CancelLost(WorkerId(0), conversation("a"))],
            ),
        ],
    );
}

#[test]
fn leases_expire_without_renewal() {
    assert_eq!(table(2).next_deadline(), None, "there is nothing to lose");
    let mut table = table_with_worker(2);
    let leases = || vec![lease("a", 1), lease("b", 1)];
    check(
        &mut table,
        vec![(0, claimed("b", 1), vec![start(1, "b", 1)]), (5, Timer, vec![Renew(leases())]), (6, renewed(), vec![])],
    );
    assert_eq!(table.next_deadline(), Some(Duration::from_secs(30)), "from when the renewal was sent");
    check(&mut table, vec![(15, Timer, vec![Renew(leases())])]);
    assert_eq!(table.next_timer(0), None, "there is no second renewal beside it");
    check(
        &mut table,
        vec![
            (29, Deadline, vec![]),
            (30, Deadline, vec![CancelExpired(vec![WorkerId(0), WorkerId(1)])]),
            (31, Deadline, vec![]),
            (32, renewed(), vec![]),
            (33, exited(0), vec![]),
            (33, exited(1), vec![]),
        ],
    );
    assert_eq!(table.next_deadline(), None);
}

#[test]
fn failed_renewal_is_retried_soon() {
    check(
        &mut table_with_worker(1),
        vec![
            (1, Timer, vec![Renew(vec![lease("a", 1)])]),
            (2, Timer, vec![]),
            (3, RenewalFailed, vec![]),
            (3, Timer, vec![]),
            (4, Timer, vec![Renew(vec![lease("a", 1)])]),
            (4, renewed(), vec![]),
            (13, Timer, vec![]),
            (14, Timer, vec![Renew(vec![lease("a", 1)])]),
        ],
    );
}

#[test]
fn clock_leap_renews_before_claims() {
    let mut table = table_with_worker(10);
    check(&mut table, vec![(0, Timer, vec![Claim, Renew(vec![lease("a", 1)])]), (0, renewed(), vec![])]);
    let leapt = |seconds| EventContext { clock: Timestamp(3_600_000), ..at(seconds) };
    let leases = || vec![lease("a", 1), lease("b", 1)];
    check_in(
        &mut table,
        leapt,
        vec![
            // No further claim.
            (1, polled("b", 1), vec![found(1, "b", 1)]),
            (2, Timer, vec![Renew(leases())]),
            // One renewal at a time.
            (4, Timer, vec![]),
            (5, RenewalFailed, vec![]),
            (6, Timer, vec![Renew(leases())]),
            (8, Timer, vec![]),
            (9, renewed(), vec![]),
            // Nor does one follow because work was looked for while it was under way.
            (10, Timer, vec![Claim]),
        ],
    );
}

#[test]
fn stop_drains_what_was_claimed() {
    let mut table = table_with_worker(10);
    check(
        &mut table,
        vec![
            (0, Timer, vec![Claim, Renew(vec![lease("a", 1)])]),
            (1, renewed(), vec![]),
            (1, Stop, vec![CloseClaims]),
            (2, claimed("b", 1), vec![start(1, "b", 1)]),
            (2, ClaimsEnded, vec![]),
            (2, polled("c", 1), vec![found(2, "c", 1)]),
            (3, exited(0), vec![]),
            (3, exited(2), vec![]),
            (10, Timer, vec![Renew(vec![lease("b", 1)])]),
            (11, renewed(), vec![]),
            (12, exited(1), vec![Exit]),
        ],
    );
    assert!(table.is_stopping() && !table.can_receive_claims());
}

#[test]
fn stop_without_work_exits_once_claims_end() {
    check(&mut table(10), vec![(0, Stop, vec![CloseClaims]), (0, ClaimsEnded, vec![Exit])]);
    // Whoever claims may be gone before that.
    check(&mut table(10), vec![(0, ClaimsEnded, vec![]), (1, Stop, vec![CloseClaims, Exit])]);
    // The ledger may be about to give a lane, which must be released.
    check(
        &mut table(10),
        vec![
            (0, Timer, vec![Claim, Renew(vec![])]),
            (1, Stop, vec![CloseClaims]),
            (1, ClaimsEnded, vec![]),
            (2, Polled(None), vec![Exit]),
        ],
    );
}

#[test]
fn drain_ends_at_its_deadline() {
    let mut table = table_with_replaced_worker();
    check(&mut table, vec![(3, Stop, vec![CloseClaims])]);
    assert_eq!(table.next_deadline(), Some(Duration::from_secs(25)), "leases expire meanwhile, too");
    check(&mut table, vec![(25, Deadline, vec![CancelExpired(vec![WorkerId(1)])])]);
    assert_eq!(table.next_deadline(), Some(Duration::from_secs(28)), "the drain ends before they would once more");
    check(&mut table, vec![(27, Deadline, vec![]), (28, Deadline, vec![Abandon { workers: 2 }])]);
}

#[test]
fn full_process_claims_no_more() {
    let mut table = table(2);
    check(
        &mut table,
        vec![
            (0, Timer, vec![Claim, Renew(vec![])]),
            (0, renewed(), vec![]),
            (0, polled("a", 1), vec![found(0, "a", 1), Claim]),
            (0, polled("b", 1), vec![found(1, "b", 1)]),
            (4, Timer, vec![]),
        ],
    );
    assert_eq!(table.next_timer(0), Some(Duration::from_secs(10)), "it only renews");
    // A message's lane is taken all the same: its slot was reserved when it was claimed.
    check(&mut table, vec![(5, claimed("c", 1), vec![start(2, "c", 1)]), (6, exited(0), vec![])]);
    assert_eq!(table.next_timer(0), Some(Duration::from_secs(10)));
    let waiting = |seconds| EventContext { waiting_turns: 1, ..at(seconds) };
    assert_eq!(table.next_timer(1), Some(Duration::from_secs(2)), "one that waits for its person leaves room");
    check_in(&mut table, waiting, vec![(7, Timer, vec![Claim]), (8, polled("d", 1), vec![found(3, "d", 1)])]);
    check(&mut table, vec![(8, exited(1), vec![]), (8, exited(2), vec![]), (9, Timer, vec![Claim])]);
}
