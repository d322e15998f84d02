//! Agents and delivery workers on one ledger: who runs a turn, and who delivers what it replies.

use satchel_domain::ChannelName;
use satchel_ports::{
    Leases,
    ledger::{GatewayDuty, GatewayId, Gateways, WorkFilter},
};
use satchel_wait::{wait_until, wait_until_async};

use super::{
    chat::Quirk,
    stage::{Process, Stage, message, place},
};
use crate::runner::LaneRole;

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
