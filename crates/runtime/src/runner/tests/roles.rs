//! Agents and delivery workers on one ledger: who runs a turn, and who delivers what it replies.

use std::time::Duration;

use satchel_domain::{
    ChannelName, ConversationId, Ending, OutgoingResponse, PartContent,
    capabilities::StreamRule,
    part::{Plan, PlannedPart},
};
use satchel_ports::{
    Inbox, Leases, Turns,
    ledger::{ClaimMode, CompletedTurn, GatewayDuty, GatewayId, Gateways, HistoryChange, TURN_PRECEDENCE, WorkFilter},
};
use satchel_wait::{wait_until, wait_until_async};

use super::{
    NEVER,
    chat::Quirk,
    stage::{Process, Stage, message, place, with_file},
};
use crate::runner::{LaneRole, fetch_notice::FETCH_NOTICE_DELAY};

/// How often a process has called a verb.
fn calls(process: &Process, verb: &str) -> usize {
    process.ledger.hook.calls().into_iter().filter(|called| *called == verb).count()
}

fn delivery_gateway(channel: &str) -> GatewayId {
    GatewayId { channel: ChannelName::new(channel).unwrap(), duty: GatewayDuty::Deliver }
}

/// An agent and a delivery worker that know of each other.
async fn start_both(stage: &Stage) -> (Process, Process) {
    let worker = stage.start_as(LaneRole::Deliveries).await;
    worker.ledger.claim_gateway(&delivery_gateway("console")).await.unwrap().expect("nobody has it");
    let agent = stage.start_as(LaneRole::Turns).await;
    wait_until("the agent knows of the worker", || calls(&agent, "ledger.claim_lane") > 0).await;
    (agent, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_leaves_replies_to_delivery_worker() {
    let (stage, here) = (Stage::new(), place("main"));
    let (agent, worker) = start_both(&stage).await;
    for (key, text, answers) in [("1", "one", 1), ("2", "two", 2), ("3", "three", 3)] {
        agent.hears(&message(&here, key, text)).await;
        wait_until("an answer", || stage.chat.log(&here).len() == answers).await;
    }
    worker.settles().await;
    assert_eq!(stage.chat.log(&here), ["re: one", "re: two", "re: three"], "each once, in order, and without a label");
    assert_eq!((calls(&agent, "ledger.settle_part"), calls(&worker, "ledger.settle_part")), (0, 3));
    assert_eq!((calls(&agent, "ledger.complete_turn"), calls(&worker, "ledger.complete_turn")), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_delivers_while_there_is_no_delivery_worker() {
    let (stage, here) = (Stage::new(), place("main"));
    let agent = stage.start_as(LaneRole::Turns).await;
    agent.hears(&message(&here, "1", "one")).await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    agent.settles().await;
    assert_eq!(calls(&agent, "ledger.settle_part"), 1);
}

/// Catches: a reply that is left to a delivery worker which doesn't have its channel.
#[tokio::test(flavor = "multi_thread")]
async fn agent_delivers_on_channel_without_delivery_worker() {
    let (stage, here) = (Stage::new(), place("main"));
    let worker = stage.open().await;
    worker.claim_gateway(&delivery_gateway("telegram")).await.unwrap().expect("nobody has it");
    let agent = stage.start_as(LaneRole::Turns).await;
    wait_until("the agent has looked", || calls(&agent, "ledger.claim_lane") > 0).await;
    agent.hears(&message(&here, "1", "one")).await;
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    agent.settles().await;

    // It gets the channel, too.
    worker.claim_gateway(&delivery_gateway("console")).await.unwrap().expect("nobody has it");
    let looks = calls(&agent, "ledger.claim_lane");
    wait_until("the agent has looked once more", || calls(&agent, "ledger.claim_lane") > looks + 1).await;
    agent.hears(&message(&here, "2", "two")).await;
    let channels = [here.channel().clone()];
    wait_until_async("the worker gets the lane", async || {
        worker.claim_lane(&channels, WorkFilter::Deliveries).await.unwrap().is_some()
    })
    .await;
    assert_eq!(calls(&agent, "ledger.settle_part"), 1, "the first one");
}

/// What delivery workers have left behind is sent by agents.
#[tokio::test(flavor = "multi_thread")]
async fn agent_takes_over_deliveries_of_workers_that_ended() {
    let (stage, here) = (Stage::new(), place("main"));
    let (agent, worker) = start_both(&stage).await;
    stage.chat.next_send(Quirk::NotNow(200));
    agent.hears(&message(&here, "1", "one")).await;
    wait_until_async("the part waits", async || worker.has_waiting_part().await).await;
    // The process ends, and what it holds with it.
    drop(worker.stops().await);
    wait_until("the answer", || stage.chat.log(&here) == ["re: one"]).await;
    agent.settles().await;
    assert_eq!(calls(&agent, "ledger.settle_part"), 1);
}

/// Catches: a lane on which no turn starts while a reply waits for its platform.
#[tokio::test(flavor = "multi_thread")]
async fn turn_runs_while_a_reply_is_retried() {
    let (stage, here) = (Stage::new(), place("main"));
    let (agent, worker) = start_both(&stage).await;
    stage.chat.next_send(Quirk::NotNow(3_600_000));
    agent.hears(&message(&here, "1", "one")).await;
    wait_until_async("the first reply waits", async || worker.has_waiting_part().await).await;
    agent.hears(&message(&here, "2", "two")).await;
    wait_until("the second turn", || calls(&agent, "ledger.complete_turn") == 2).await;
    assert_eq!(stage.chat.log(&here), [""; 0], "the second reply waits for the first");
}

/// Stores a turn and its reply of three parts, which an agent has handed over.
async fn hand_over_reply(stage: &Stage, here: &ConversationId) {
    let ledger = stage.open().await;
    let received = ledger.receive(&message(here, "1", "one"), ClaimMode::IfFree).await.unwrap();
    let parts = ["first", "second", "third"].map(|text| PlannedPart::new(PartContent::from_text(text)));
    let completed = CompletedTurn {
        turn: received.turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("first second third"),
        plan: Plan { parts: parts.into() },
        history: HistoryChange::Append(Vec::new()),
        setting: None,
        steered: Vec::new(),
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: true,
    };
    ledger.complete_turn(&received.claimed.unwrap().lease, &completed).await.unwrap();
}

/// Starts a delivery worker on a platform that doesn't answer, and waits for its first send. Its leases last for the test.
async fn start_stuck_worker(stage: &Stage) -> Process {
    stage.chat.answers(false);
    let worker =
        stage.start_in(LaneRole::Deliveries, |intervals| (intervals.renew, intervals.trust) = (NEVER, NEVER)).await;
    wait_until("the first send", || stage.chat.begun() == 1).await;
    worker
}

/// Lets the time of Tokio pass at once, with all that was due in it.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// How many parts a process settled before it released a lane for the first time; `None` if it has released none.
fn settled_before_release(process: &Process) -> Option<usize> {
    let calls = process.ledger.hook.calls();
    let release = calls.iter().position(|called| *called == "ledger.release")?;
    Some(calls[..release].iter().filter(|called| **called == "ledger.settle_part").count())
}

/// Catches: a worker that goes on where an agent has come for the lane.
#[tokio::test]
async fn worker_yields_to_new_turn_after_part_in_flight() {
    let (stage, here) = (Stage::new(), place("main"));
    hand_over_reply(&stage, &here).await;
    let worker = start_stuck_worker(&stage).await;
    worker.hears(&message(&here, "2", "two")).await;
    wait_until("it has seen the turn", || calls(&worker, "ledger.next_turn") > 1).await;
    stage.chat.answers(true);
    wait_until("the release", || calls(&worker, "ledger.release") == 1).await;
    assert_eq!((settled_before_release(&worker), worker.unsettled().await), (Some(1), 2));
    assert_eq!(stage.chat.log(&here), ["first"], "the rest is left to the agent");
    worker.stops().await;
}

/// Catches: a worker that takes a lane of which no agent comes, and gives it back before anything was sent; and one that
/// keeps it for good.
#[tokio::test]
async fn worker_yields_to_earlier_turn_after_its_precedence() {
    for (passed, settled) in [(TURN_PRECEDENCE / 2, 3), (TURN_PRECEDENCE, 1)] {
        let (stage, here) = (Stage::new(), place("main"));
        hand_over_reply(&stage, &here).await;
        let gateway = stage.open().await;
        gateway.receive(&message(&here, "2", "two"), ClaimMode::Never).await.unwrap();
        stage.clock.leap(TURN_PRECEDENCE);
        let worker = start_stuck_worker(&stage).await;
        pass(passed).await;
        if settled == 1 {
            wait_until("it has seen the turn", || calls(&worker, "ledger.next_turn") > 1).await;
        }
        stage.chat.answers(true);
        wait_until("the release", || settled_before_release(&worker).is_some()).await;
        assert_eq!(settled_before_release(&worker), Some(settled), "after {passed:?}");
        worker.stops().await;
    }
}

/// Catches: a lane that is handed over while the notice about its files is on its way, which then may stand there for good.
#[tokio::test]
async fn stopped_fetch_awaits_its_notice_before_hand_over() {
    let (stage, here) = (Stage::streaming(StreamRule::Edits { interval_ms: 50 }), place("main"));
    let (agent, worker) = start_both(&stage).await;
    stage.chat.answers(false);
    agent.hears(&with_file(message(&here, "1", "take this"))).await;
    wait_until("the file is asked for", || stage.chat.fetches() == 1).await;
    pass(FETCH_NOTICE_DELAY).await;
    wait_until("the notice is on its way", || stage.chat.begun() == 1).await;
    let looks = calls(&agent, "ledger.list_queued_behind");
    agent.hears(&message(&here, "2", "/stop")).await;
    wait_until("the stop is seen", || calls(&agent, "ledger.list_queued_behind") > looks).await;
    // Time enough for a turn that doesn't wait for the notice.
    for _ in 0..200 {
        assert_eq!(agent.unsettled().await, 0, "there is a reply before the notice has come back");
    }
    stage.chat.answers(true);
    wait_until("the end", || stage.chat.log(&here).iter().any(|line| line.contains("Stopped, as you asked."))).await;
    worker.settles().await;
    let log = stage.chat.log(&here);
    let [notice, reply] = log.as_slice() else { panic!("{log:?}") };
    assert!(notice.starts_with("Fetching") && reply.starts_with("edit: Stopped"), "{log:?}");
    assert_eq!(stage.chat.cut_off(), 0);
}

/// Catches: a lane that is handed over with what is explained beside a turn, which then loses its tools and its lease.
#[tokio::test(flavor = "multi_thread")]
async fn explanation_beside_turn_hands_over_no_lane() {
    let (stage, here) = (Stage::new(), place("main"));
    let (agent, worker) = start_both(&stage).await;
    agent.hears(&message(&here, "1", "hang")).await;
    wait_until("the tool runs", || *stage.hanging.borrow() == 1).await;
    agent.hears(&message(&here, "2", "/allow")).await;
    wait_until("the explanation", || stage.chat.log(&here).len() == 1).await;
    agent.hears(&message(&here, "3", "/stop")).await;
    wait_until("the end", || stage.chat.log(&here).len() == 2).await;
    worker.settles().await;
    assert_eq!(stage.chat.log(&here)[1], "Stopped, as you asked.");
    let settled = |process| calls(process, "ledger.settle_part");
    assert_eq!((settled(&agent), settled(&worker), *stage.hanging.borrow()), (1, 1, 1));
}
