//! Processes whose platform refuses their account: what they leave to others, and what they give up.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelClosure, ChannelName, ChannelState, ConversationId, FileReference, MessageRef,
    PartState, Timestamp,
    delivery::{DeliveryRules, SendError},
    part::FailureReason,
};
use satchel_ports::{
    Archive, Channel, FetchedFile, FileFetchError, Leases, PostRequest,
    ledger::{OutboxQuery, ReleaseMode, WorkFilter},
};
use satchel_wait::{wait_until, wait_until_async};

use super::{
    chat::Chat,
    stage::{Process, Stage, message, place},
};
use crate::runner::{LaneRole, expiry_claims::EXPIRY_MARGIN};

/// The chat with an account that it refuses.
struct RefusedChat(Arc<Chat>);

const REASON: &str = "no longer accepts the bot's token";

#[async_trait]
impl Channel for RefusedChat {
    fn name(&self) -> ChannelName {
        self.0.name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        self.0.capabilities(conversation)
    }

    fn state(&self) -> ChannelState {
        ChannelState::Closed(ChannelClosure {
            credentials: "a".to_owned(),
            number: 1,
            platform: "Console",
            reason: REASON.to_owned(),
            remedy: "get a new one".to_owned(),
            since: Timestamp(0),
        })
    }

    async fn post(&self, _: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        Err(SendError::AccountRefused { reason: REASON.to_owned() })
    }

    async fn probe(&self) -> Result<(), SendError> {
        Err(SendError::AccountRefused { reason: REASON.to_owned() })
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        self.0.fetch(reference).await
    }
}

async fn start_refused(stage: &Stage, role: LaneRole) -> Process {
    stage.start_on(Arc::new(RefusedChat(Arc::clone(&stage.chat))), role, |_| {}).await
}

/// Waits until this lane can be claimed for its deliveries, and leaves it free.
async fn wait_until_free(stage: &Stage, here: &ConversationId) {
    let other = stage.open().await;
    wait_until_async("the lane is free", async || {
        let claimed = other.claim_lane(&[here.channel().clone()], WorkFilter::Any).await.unwrap();
        let Some(claimed) = claimed else { return false };
        other.release(&claimed.lease, ReleaseMode::Always).await.unwrap()
    })
    .await;
}

/// Stops a process whose account is refused once a reply in its conversation waits and the lane is free.
async fn leave_waiting_reply(stage: &Stage, here: &ConversationId) {
    let agent = start_refused(stage, LaneRole::All).await;
    agent.hears(&message(here, "1", "one")).await;
    wait_until_async("the reply waits", async || agent.has_waiting_part().await).await;
    wait_until_free(stage, here).await;
    agent.stops().await;
}

/// Catches: a lane that a process with a revoked token keeps for as long as its parts may wait.
#[tokio::test(flavor = "multi_thread")]
async fn replies_of_a_refused_account_are_sent_by_a_process_with_another() {
    for role in [LaneRole::All, LaneRole::Deliveries] {
        let (stage, here) = (Stage::new(), place("main"));
        let refused = start_refused(&stage, LaneRole::All).await;
        for (key, text, replies) in [("1", "one", 1), ("2", "two", 2)] {
            refused.hears(&message(&here, key, text)).await;
            wait_until_async("the reply waits", async || refused.unsettled().await == replies).await;
        }
        wait_until_free(&stage, &here).await;
        let refused_worker = start_refused(&stage, LaneRole::Deliveries).await;
        let accepted = stage.start_as(role).await;
        wait_until("the replies", || stage.chat.log(&here) == ["re: one", "re: two"]).await;
        accepted.settles().await;
        assert!(refused.is_running() && refused_worker.is_running());
    }
}

/// Catches: a reply that waits for ever because a closed channel's lanes are claimed by nobody.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_the_account_for_too_long_is_given_up_by_any_process() {
    for role in [LaneRole::All, LaneRole::Turns, LaneRole::Deliveries] {
        let (stage, here) = (Stage::new(), place("main"));
        leave_waiting_reply(&stage, &here).await;
        let process = start_refused(&stage, role).await;
        let too_late = DeliveryRules::default().max_age + EXPIRY_MARGIN;
        stage.clock.leap(too_late);
        process.ledger.hook.leap(too_late);
        let is_given_up = async || {
            let parts = process.ledger.parts(&OutboxQuery::default()).await.unwrap();
            let expired = FailureReason::Expired { reason: REASON.to_owned() };
            parts.iter().any(|part| part.state == PartState::Failed { reason: expired.clone() })
        };
        wait_until_async("the reply is given up", is_given_up).await;
    }
}

/// Catches: a lane that is claimed and given back in a loop, for as long as this process's clock says that its part may wait.
#[tokio::test(flavor = "multi_thread")]
async fn lane_is_not_claimed_in_a_loop_where_the_clock_is_behind_the_ledgers() {
    for role in [LaneRole::All, LaneRole::Turns, LaneRole::Deliveries] {
        let stage = Stage { look: Duration::from_millis(10), ..Stage::new() };
        let here = place("main");
        leave_waiting_reply(&stage, &here).await;
        let process = start_refused(&stage, role).await;
        process.ledger.hook.leap(Duration::ZERO);
        stage.clock.leap(DeliveryRules::default().max_age + EXPIRY_MARGIN);
        let called = |verb: &str| process.ledger.hook.calls().into_iter().filter(|called| *called == verb).count();
        wait_until("it is given back, and others are looked for", || {
            called("ledger.release") >= 1 && called("ledger.claim_lane") >= 30
        })
        .await;
        assert!(called("ledger.release") <= 2, "{role:?}: {}", called("ledger.release"));
        wait_until_async("it isn't given up", async || process.has_waiting_part().await).await;
    }
}
