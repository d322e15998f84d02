//! Promises about leases.

use std::time::Duration;

use satchel_domain::{
    ChannelName, InboundMessage, Part, PartContent, PartState, Timestamp, ToolOutcome, part::PlannedPart,
};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, CompletedTurn, Lease, ReleaseMode, TURN_PRECEDENCE, WorkFilter},
};

use super::{
    LedgerFixture, assert_lost, completed_turn, conversation, message, model_message, new_file, receive,
    sent_settlement, settlement, text_parts,
};

fn channels(names: &[&str]) -> Vec<ChannelName> {
    names.iter().map(|name| ChannelName::new(*name).unwrap()).collect()
}

/// Catches: a claim that doesn't look whether the lane is held, and a token that begins again after a release.
pub async fn lane_has_one_holder_and_rising_tokens(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (first, _) = receive(&one, &message("1", "hello")).await;
    assert!(
        one.inbox.receive(&message("2", "hello"), ClaimMode::IfFree).await.unwrap().claimed.is_none(),
        "held by itself"
    );
    assert!(
        two.inbox.receive(&message("3", "hello"), ClaimMode::IfFree).await.unwrap().claimed.is_none(),
        "held by another"
    );
    assert_eq!(two.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap(), None);
    let mut last = first;
    for round in 0..3 {
        assert!(one.leases.release(&last, ReleaseMode::Always).await.unwrap());
        let next = two
            .leases
            .claim_lane(&channels(&["console"]), WorkFilter::Any)
            .await
            .unwrap()
            .expect("released with work in it")
            .lease;
        assert!(next.token > last.token, "round {round}");
        assert!(two.leases.release(&next, ReleaseMode::Always).await.unwrap());
        last = one
            .leases
            .claim_lane(&channels(&["console"]), WorkFilter::Any)
            .await
            .unwrap()
            .expect("released again")
            .lease;
        assert!(last.token > next.token && last.holder != next.holder);
    }
}

/// Catches: a `renew` that prolongs nothing.
pub async fn renewed_lease_is_kept(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, _) = receive(&one, &message("1", "hello")).await;
    for _ in 0..6 {
        fixture.clock().advance(fixture.lease() / 4);
        assert_eq!(one.leases.renew(std::slice::from_ref(&lease)).await.unwrap(), []);
        assert_eq!(two.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap(), None);
    }
    assert!(one.turns.next_turn(&lease).await.unwrap().is_some());
}

/// Catches: a restart that waits until the old lease expires.
pub async fn dead_holders_lane_is_claimable(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    let (lease, turn) = receive(&one, &message("1", "hello")).await;
    drop(one);
    fixture.after_death();
    let two = fixture.open().await;
    let taken = two
        .leases
        .claim_lane(&channels(&["console"]), WorkFilter::Any)
        .await
        .unwrap()
        .expect("its owner is gone")
        .lease;
    assert!(taken.token > lease.token);
    assert_eq!(two.turns.next_turn(&taken).await.unwrap().unwrap().id, turn);
}

/// Catches: a verb that doesn't check the token, so that a frozen process wakes up and writes.
pub async fn expired_lease_is_fenced(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (old, turn) = receive(&one, &message("1", "hello")).await;
    let read = one.turns.next_turn(&old).await.unwrap().unwrap().messages[0].id;
    fixture.clock().advance(fixture.lease());
    let new = two.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().expect("it expired").lease;
    let started_part =
        two.turns.complete_turn(&new, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap().unwrap();

    assert_eq!(one.leases.renew(std::slice::from_ref(&old)).await.unwrap(), std::slice::from_ref(&old));
    let file = new_file("a.txt");
    let model = model_message("", Vec::new());
    assert_lost(one.turns.next_turn(&old).await, "next_turn");
    assert_lost(one.turns.list_queued_behind(&old, turn).await, "list_queued_behind");
    assert_lost(one.turns.join_turns(&old, turn, &[turn]).await, "join_turns");
    assert_lost(one.turns.store_file(&old, read, 0, &file).await, "store_file");
    assert_lost(one.turns.refuse_file(&old, read, 0, &super::files::refusal("a")).await, "refuse_file");
    assert_lost(one.turns.journal_message(&old, turn, &model).await, "journal_message");
    assert_lost(
        one.turns.journal_outcome(&old, turn, 0, &ToolOutcome::from_text("done"), &[]).await,
        "journal_outcome",
    );
    assert_lost(one.outbox.open_draft(&old, turn, None).await, "open_draft");
    for plan in [Vec::new(), text_parts(&["late"])] {
        assert_lost(one.turns.complete_turn(&old, &completed_turn(turn, plan)).await, "complete_turn");
    }
    assert_lost(one.outbox.next_part(&old).await, "next_part");
    assert_lost(one.outbox.save_part(&old, &started_part).await, "save_part");
    assert_lost(one.outbox.settle_part(&old, &sent_settlement(&started_part, "9")).await, "settle_part");
    assert_lost(one.leases.release(&old, ReleaseMode::Always).await, "release");
    let forged = Lease { token: new.token, ..old.clone() };
    let stale = Lease { token: old.token, ..new.clone() };
    for (ledger, lease, what) in
        [(&one, &forged, "the right token of the wrong owner"), (&two, &stale, "an old token of the right owner")]
    {
        assert_lost(ledger.outbox.next_part(lease).await, what);
        assert_lost(ledger.turns.next_turn(lease).await, what);
        assert_lost(ledger.outbox.save_part(lease, &started_part).await, what);
        assert_lost(ledger.outbox.settle_part(lease, &sent_settlement(&started_part, "9")).await, what);
    }
    assert_eq!(two.outbox.next_part(&new).await.unwrap().unwrap().state, PartState::Sending, "nothing of it was done");
}

/// Catches: crashes that are never counted, counted for a lane given back in good order, or on a later turn.
pub async fn unreleased_lane_counts_a_crash(fixture: &impl LedgerFixture) {
    let mut process = fixture.open().await;
    let (mut lease, _) = receive(&process, &message("1", "hello")).await;
    process.inbox.receive(&message("2", "later"), ClaimMode::Never).await.unwrap();
    for crashes in 1..=3 {
        drop(process);
        fixture.after_death();
        process = fixture.open().await;
        lease = process
            .leases
            .claim_lane(&channels(&["console"]), WorkFilter::Any)
            .await
            .unwrap()
            .expect("its owner is gone")
            .lease;
        assert_eq!(process.turns.next_turn(&lease).await.unwrap().unwrap().crashes, crashes);
    }
    assert!(process.leases.release(&lease, ReleaseMode::Always).await.unwrap());
    drop(process);
    let process = fixture.open().await;
    let lease = process
        .leases
        .claim_lane(&channels(&["console"]), WorkFilter::Any)
        .await
        .unwrap()
        .expect("it was released")
        .lease;
    let turn = process.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!(turn.crashes, 3, "a release is no crash");
    process.turns.complete_turn(&lease, &completed_turn(turn.id, Vec::new())).await.unwrap();
    assert_eq!(process.turns.next_turn(&lease).await.unwrap().unwrap().crashes, 0, "the next turn has not crashed");
}

/// Catches: a message after a restart whose lane nobody serves, or which pays for a crash that it did not see.
pub async fn receive_claims_dead_holders_lane(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    let (old, first) = receive(&one, &message("1", "hello")).await;
    drop(one);
    fixture.after_death();
    let two = fixture.open().await;
    let received = two.inbox.receive(&message("2", "are you there?"), ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.expect("nobody holds the lane").lease;
    assert!(lease.token > old.token);
    let turn = two.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!((turn.id, turn.crashes), (first, 1));

    let elsewhere = |key: &str| InboundMessage { conversation: conversation("console:b"), ..message(key, "hello") };
    let (lease, turn) = receive(&two, &elsewhere("3")).await;
    two.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    drop(two);
    fixture.after_death();
    let three = fixture.open().await;
    let lease = three.inbox.receive(&elsewhere("4"), ClaimMode::IfFree).await.unwrap().claimed.unwrap().lease;
    assert_eq!(three.turns.next_turn(&lease).await.unwrap().unwrap().crashes, 0);
}

/// Catches: a process whose clock leaps ahead, as a machine's does that wakes up, and that works on one lane twice.
pub async fn receive_keeps_own_leases(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, _) = receive(&ledger, &message("1", "hello")).await;
    fixture.clock().advance(fixture.lease());
    assert_eq!(ledger.inbox.receive(&message("2", "hello"), ClaimMode::IfFree).await.unwrap().claimed, None);
    assert_eq!(ledger.leases.renew(std::slice::from_ref(&lease)).await.unwrap(), []);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().crashes, 0);
}

/// Catches: a `chat` beside `run` that takes Telegram's lanes, a lane claimed for an album that may still grow, and
/// work that is taken in any order.
pub async fn claim_filters_by_channel_and_work(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let to = |name: &str, key: &str| InboundMessage { conversation: conversation(name), ..message(key, "hello") };
    assert_eq!(
        ledger.leases.claim_lane(&channels(&["console", "web"]), WorkFilter::Any).await.unwrap(),
        None,
        "an empty store"
    );
    ledger.inbox.receive(&to("telegram:1", "1"), ClaimMode::Never).await.unwrap();
    assert_eq!(
        ledger.leases.claim_lane(&channels(&["console", "web"]), WorkFilter::Any).await.unwrap(),
        None,
        "another channel"
    );
    assert_eq!(ledger.leases.claim_lane(&[], WorkFilter::Any).await.unwrap(), None, "no channel");
    let album = InboundMessage { album: Some("a".into()), ..to("web:1", "2") };
    ledger.inbox.receive(&album, ClaimMode::Never).await.unwrap();
    assert_eq!(ledger.leases.claim_lane(&channels(&["web"]), WorkFilter::Any).await.unwrap(), None, "not ready");

    ledger.inbox.receive(&to("console:old", "3"), ClaimMode::Never).await.unwrap();
    fixture.clock().advance(Duration::from_millis(1));
    ledger.inbox.receive(&to("console:new", "4"), ClaimMode::Never).await.unwrap();
    let first = ledger.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(first.conversation, conversation("console:old"), "it has waited longest");
    let second = ledger.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(second.conversation, conversation("console:new"));
    assert_eq!(
        ledger.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap(),
        None,
        "both are held"
    );

    // A part to be sent is work as well.
    let turn = ledger.turns.next_turn(&first).await.unwrap().unwrap().id;
    ledger.turns.complete_turn(&first, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    ledger.leases.release(&first, ReleaseMode::Always).await.unwrap();
    let again = ledger
        .leases
        .claim_lane(&channels(&["console"]), WorkFilter::Any)
        .await
        .unwrap()
        .expect("a part is unsettled")
        .lease;
    assert_eq!(again.conversation, first.conversation);
}

/// Catches: a lane that is given back while a turn is queued behind a check, and one that is never given back.
pub async fn only_idle_lane_is_released(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    assert!(!ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap(), "a turn is queued");
    let part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap().unwrap();
    assert!(!ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap(), "a part is unsettled");
    ledger.inbox.receive(&message("2", "more"), ClaimMode::IfFree).await.unwrap();
    assert!(
        !ledger.outbox.settle_part(&lease, &sent_settlement(&part, "9")).await.unwrap().released,
        "a turn is queued"
    );
    while let Some(turn) = ledger.turns.next_turn(&lease).await.unwrap() {
        ledger.turns.complete_turn(&lease, &completed_turn(turn.id, Vec::new())).await.unwrap();
    }
    assert!(ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    assert_lost(ledger.outbox.settle_part(&lease, &settlement(part)).await, "a released lease");
}

/// Catches: a `renew` that looks at the owner alone, or at the token alone, so that a process goes on in a lane that
/// has been somebody else's meanwhile.
pub async fn renewal_with_old_token_is_lost(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (first, _) = receive(&one, &message("1", "hello")).await;
    one.leases.release(&first, ReleaseMode::Always).await.unwrap();
    let second =
        one.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().expect("it was released").lease;
    assert_eq!(first.holder, second.holder);
    let both = [first.clone(), second.clone()];
    assert_eq!(one.leases.renew(&both).await.unwrap(), std::slice::from_ref(&first), "the token is an old one");
    assert!(one.turns.next_turn(&second).await.unwrap().is_some(), "the lane is still held under the new one");

    one.leases.release(&second, ReleaseMode::Always).await.unwrap();
    let others =
        two.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().expect("it was released").lease;
    let forged = Lease { token: others.token, ..second.clone() };
    let stale = [first, second, forged];
    assert_eq!(one.leases.renew(&stale).await.unwrap(), stale, "the lane is somebody else's");
    assert_eq!(two.leases.renew(std::slice::from_ref(&others)).await.unwrap(), []);
    assert!(two.turns.next_turn(&others).await.unwrap().is_some());
}

/// Catches: a release that looks whether a lane is idle, and not whose it is.
pub async fn stale_release_frees_no_lane(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (old, turn) = receive(&one, &message("1", "hello")).await;
    one.turns.complete_turn(&old, &completed_turn(turn, Vec::new())).await.unwrap();
    assert!(one.leases.release(&old, ReleaseMode::IfIdle).await.unwrap());
    let (new, turn) = receive(&two, &message("2", "hello")).await;
    two.turns.complete_turn(&new, &completed_turn(turn, Vec::new())).await.unwrap();

    let forged = Lease { token: new.token, ..old.clone() };
    let outdated = Lease { token: old.token, ..new.clone() };
    for (ledger, stale, what) in [
        (&one, &old, "a lease that was given back"),
        (&one, &forged, "the right token of the wrong owner"),
        (&two, &outdated, "an old token of the right owner"),
    ] {
        for release in [ReleaseMode::IfIdle, ReleaseMode::Always] {
            assert_eq!(two.leases.renew(std::slice::from_ref(&new)).await.unwrap(), []);
            assert_lost(ledger.leases.release(stale, release).await, what);
            let key = format!("3 {what} {release:?}");
            let received = one.inbox.receive(&message(&key, "hello"), ClaimMode::IfFree).await.unwrap();
            assert_eq!(received.claimed, None, "{what}: the lane is held");
            let turn = two.turns.next_turn(&new).await.unwrap().expect("it came just now");
            assert_eq!(turn.id, received.turn);
            two.turns.complete_turn(&new, &completed_turn(turn.id, Vec::new())).await.unwrap();
        }
    }
    assert!(two.leases.release(&new, ReleaseMode::IfIdle).await.unwrap(), "its own holder gives it back");
}

/// Catches: an agent that takes lanes in which it has nothing to do, and a delivery worker that takes those of agents.
pub async fn claim_finds_only_work_of_its_filter(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let turns = || WorkFilter::AnyButDeliveriesOn(channels(&["console"]));
    let claim = async |filter| {
        let claimed = ledger.leases.claim_lane(&channels(&["console"]), filter).await.unwrap()?;
        ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap();
        Some((claimed.turn.map(|turn| turn.id), claimed.unsettled))
    };
    let first = ledger.inbox.receive(&message("1", "hello"), ClaimMode::Never).await.unwrap().turn;
    assert_eq!(claim(WorkFilter::Deliveries).await, None, "a turn alone");
    assert_eq!(claim(turns()).await, Some((Some(first), false)));

    let lease = ledger.leases.claim_lane(&channels(&["console"]), turns()).await.unwrap().unwrap().lease;
    ledger.turns.complete_turn(&lease, &completed_turn(first, text_parts(&["reply"]))).await.unwrap();
    ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    assert_eq!(claim(turns()).await, None, "a part alone");
    assert_eq!(claim(WorkFilter::Deliveries).await, Some((None, true)));
    assert_eq!(claim(WorkFilter::Any).await, Some((None, true)));
    let elsewhere = WorkFilter::AnyButDeliveriesOn(channels(&["web"]));
    assert_eq!(claim(elsewhere).await, Some((None, true)), "this channel has no delivery worker");

    let second = ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap().turn;
    assert_eq!(claim(turns()).await, Some((Some(second), true)), "both");
    assert_eq!(claim(WorkFilter::Deliveries).await, None, "an agent takes the lane");
    fixture.clock().advance(TURN_PRECEDENCE);
    assert_eq!(claim(WorkFilter::Deliveries).await, Some((None, true)), "no agent has come");
    ledger.inbox.receive(&message("3", "and more"), ClaimMode::Never).await.unwrap();
    assert_eq!(claim(WorkFilter::Deliveries).await, Some((None, true)), "people who write on keep no reply back");
}

/// Catches: parts of a closed channel that nobody gives up, and lanes that are claimed for them over and over.
pub async fn claim_for_old_deliveries_goes_by_the_next_part(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let day = Duration::from_secs(24 * 60 * 60);
    let is_found = async || {
        let filter = WorkFilter::DeliveriesOlderThan(day);
        let claimed = ledger.leases.claim_lane(&channels(&["console"]), filter).await.unwrap();
        let Some(claimed) = claimed else { return false };
        assert_eq!((claimed.turn, claimed.unsettled), (None, true));
        ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap()
    };
    let (lease, first) = receive(&ledger, &message("1", "hello")).await;
    ledger.turns.complete_turn(&lease, &completed_turn(first, text_parts(&["reply"]))).await.unwrap();
    ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    assert!(!is_found().await, "it is new");
    fixture.clock().advance(day);
    assert!(is_found().await);
    let (lease, second) = receive(&ledger, &message("2", "more")).await;
    ledger.turns.complete_turn(&lease, &completed_turn(second, text_parts(&["another"]))).await.unwrap();
    ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    assert!(is_found().await, "the old one is the next");
    let lease = ledger.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().unwrap().lease;
    let mut part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    part.start(Clock::now(fixture.clock()));
    ledger.outbox.save_part(&lease, &part).await.unwrap();
    ledger.outbox.settle_part(&lease, &sent_settlement(&part, "9")).await.unwrap();
    ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    assert!(!is_found().await, "the new one is the next");
}

/// Catches: a notice of a closed channel for which its lane is claimed over and over, although nobody gives it up.
pub async fn claim_for_old_deliveries_passes_over_untried_notices(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let day = Duration::from_secs(24 * 60 * 60);
    let (mut lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let planned = PlannedPart::new(PartContent::Notice { text: "0 of 1 sent".into() });
    ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![planned])).await.unwrap();
    let notice = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    let waiting = PartState::Waiting { until: Timestamp(0), reason: "revoked".into() };
    for (state, attempts, is_found) in [(PartState::Pending, 0, false), (waiting.clone(), 0, false), (waiting, 1, true)]
    {
        let stored = Part { state, attempts, ..notice.clone() };
        ledger.outbox.save_part(&lease, &stored).await.unwrap();
        ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
        fixture.clock().advance(day);
        let claim = async |filter| ledger.leases.claim_lane(&channels(&["console"]), filter).await.unwrap();
        let found = claim(WorkFilter::DeliveriesOlderThan(day)).await;
        assert_eq!(found.is_some(), is_found, "{} after {attempts} attempts", stored.state.as_str());
        let claimed = match found {
            Some(found) => found,
            None => claim(WorkFilter::Any).await.expect("the notice is to be sent all the same"),
        };
        lease = claimed.lease;
    }
}

/// Catches: a lane that its agent keeps after the hand-over, and a part that seems to be in flight when nobody sends it.
pub async fn handed_over_lane_is_free_and_nothing_is_started(fixture: &impl LedgerFixture) {
    let (agent, worker) = (fixture.open().await, fixture.open().await);
    let (lease, turn) = receive(&agent, &message("1", "hello")).await;
    let completed = CompletedTurn { hands_over: true, ..completed_turn(turn, text_parts(&["reply", "rest"])) };
    assert_eq!(agent.turns.complete_turn(&lease, &completed).await.unwrap(), None);
    assert_lost(agent.outbox.next_part(&lease).await, "the agent's lease after the hand-over");

    let claimed = worker.leases.claim_lane(&channels(&["console"]), WorkFilter::Deliveries).await.unwrap();
    let taken = claimed.expect("it was handed over").lease;
    assert!(taken.token > lease.token);
    let mut part = worker.outbox.next_part(&taken).await.unwrap().expect("the reply");
    assert_eq!((&part.state, part.attempts), (&PartState::Pending, 0), "nobody may have sent it");
    part.start(Clock::now(fixture.clock()));
    worker.outbox.save_part(&taken, &part).await.unwrap();
    let settled = worker.outbox.settle_part(&taken, &sent_settlement(&part, "9")).await.unwrap();
    assert_eq!(settled.next.map(|part| part.state), Some(PartState::Sending), "the rest follows as ever");
}

/// Catches: an age of turns that somebody works on, or of albums that may still grow, and one that ends with a crash.
pub async fn longest_wait_is_that_of_unclaimed_turns(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let waited = async || two.leases.longest_wait().await.unwrap();
    assert_eq!(waited().await, None, "an empty store");
    let second = Duration::from_secs(1);
    one.inbox.receive(&message("1", "hello"), ClaimMode::Never).await.unwrap();
    fixture.clock().advance(second);
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    one.inbox.receive(&elsewhere, ClaimMode::Never).await.unwrap();
    assert_eq!(waited().await, Some(second));
    let lane = one.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(waited().await, Some(Duration::ZERO), "the other one");
    let other = two.leases.claim_lane(&channels(&["console"]), WorkFilter::Any).await.unwrap().unwrap();
    assert_eq!(waited().await, None, "both are worked on");
    let turn = other.turn.expect("it was received").id;
    two.turns.complete_turn(&other.lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    two.leases.release(&other.lease, ReleaseMode::Always).await.unwrap();
    assert_eq!(waited().await, None, "a part is no turn");
    fixture.clock().advance(fixture.lease());
    assert_eq!(waited().await, Some(second + fixture.lease()), "{:?} has lost its lease", lane.lease);
}
