//! Internal input: turns that Satchel starts itself, such as schedules.

use satchel_domain::{ChannelName, ConversationId, InboundMessage, Sender, SystemTask, TurnId};
use satchel_ports::{InboundError, LedgerError};

use crate::inbound_service::{InboundPipeline, run_to_completion};

/// Accepts system tasks. Channels have no access to it: [`crate::InboundService`] removes system tasks from messages.
#[derive(Clone)]
pub struct InternalInbound {
    pipeline: InboundPipeline,
}

impl InternalInbound {
    pub(crate) fn new(pipeline: InboundPipeline) -> Self {
        Self { pipeline }
    }

    /// Stores a message with its system task and wakes a worker, as [`satchel_ports::Inbound::accept`] does for
    /// people's messages. A repeated key is a redelivery.
    ///
    /// # Errors
    /// When its channel isn't hosted, it isn't known whose agent answers there, or it could not be stored.
    pub async fn accept(&self, system_task: SystemTask, message: InboundMessage) -> Result<TurnId, InboundError> {
        self.pipeline.check_hosted(message.conversation.channel())?;
        let pipeline = self.pipeline.clone();
        let message = InboundMessage { system_task: Some(system_task), ..pipeline.add_parents(message).await? };
        run_to_completion(async move { pipeline.enqueue(message).await }).await
    }

    /// Returns whether somebody works on the lanes of a channel.
    #[must_use]
    pub fn hosts(&self, channel: &ChannelName) -> bool {
        self.pipeline.check_hosted(channel).is_ok()
    }

    /// Returns whether somebody may still talk on a channel.
    ///
    /// # Errors
    /// When the ledger can't be read.
    pub async fn is_allowed(&self, channel: &ChannelName, sender: &Sender) -> Result<bool, LedgerError> {
        self.pipeline.is_sender_allowed(channel, sender).await
    }

    /// Returns whether an allowed person can still write in a conversation, as its channel says.
    #[must_use]
    pub fn can_write(&self, conversation: &ConversationId, sender: &Sender) -> bool {
        self.pipeline.can_write(conversation, sender)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, future, sync::Arc};

    use async_trait::async_trait;
    use satchel_domain::{
        AgentDirectory, AgentSummary, ChannelCapabilities, FileReference, MessageRef, Sender, Timestamp,
        delivery::SendError,
        reference_block::{self, AttachmentReference},
        script,
    };
    use satchel_ports::{
        BusEvent, Channel, FetchedFile, FileFetchError, HolderId, Lease, ManualClock, MockEventBus, MockLedger,
        MockWorkspace, PostRequest,
        ledger::{ClaimMode, ClaimedLane, ReceiveOutcome},
    };
    use tokio::sync::mpsc;
    use uuid::Uuid;

    use super::*;
    use crate::InboundService;

    const TURN: TurnId = TurnId(Uuid::from_u128(1));

    fn scheduled() -> SystemTask {
        SystemTask::RunSchedule { name: "report".into(), due: "2026-11-03 08:00 UTC".into() }
    }

    fn saying(text: &str) -> InboundMessage {
        let message = InboundMessage::new("web:main".parse().unwrap(), "k".into(), Sender::new("satchel", "Satchel"));
        InboundMessage { text: text.to_owned(), ..message }
    }

    fn door(ledger: MockLedger, bus: MockEventBus, lanes: mpsc::Sender<ClaimedLane>) -> InternalInbound {
        service(ledger, bus, lanes).internal_inbound()
    }

    fn service(ledger: MockLedger, bus: MockEventBus, lanes: mpsc::Sender<ClaimedLane>) -> InboundService {
        let workspace = Arc::new(MockWorkspace::new());
        InboundService::new(
            &ledger.into(),
            Arc::new(ManualClock::default()),
            Arc::new(bus),
            lanes,
            Arc::default(),
            workspace,
            None,
        )
    }

    /// A channel whose platform answers nothing.
    struct SilentChannel;

    #[async_trait]
    impl Channel for SilentChannel {
        fn name(&self) -> ChannelName {
            ChannelName::new("web").unwrap()
        }

        fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
            unreachable!("nothing is sent")
        }

        async fn find_parents(&self, _: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
            future::pending().await
        }

        async fn post(&self, _: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
            unreachable!("nothing is sent")
        }

        async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
            unreachable!("no message has files")
        }
    }

    /// Catches: a message that holds up all that come behind it for as long as a platform is silent.
    #[tokio::test(start_paused = true)]
    async fn message_does_not_wait_for_a_platform_that_never_answers() {
        let chats = HashMap::from([("web:kids".parse().unwrap(), "kids".to_owned())]);
        let kids = AgentSummary { name: "kids".to_owned(), ..AgentSummary::default_agent() };
        let agents = AgentDirectory::new([kids], chats).unwrap();
        let channel = Arc::new(SilentChannel);
        let (lanes, _claimed) = mpsc::channel(1);
        let service = service(MockLedger::default(), MockEventBus::new(), lanes)
            .with_channels(HashMap::from([(channel.name(), channel as Arc<dyn Channel>)]))
            .with_agents(Arc::new(agents));
        let refused = service.internal_inbound().accept(scheduled(), saying("look")).await.unwrap_err();
        let reason = std::error::Error::source(&refused).map(ToString::to_string);
        assert_eq!(reason.as_deref(), Some("channel `web` did not say in time what a conversation is part of"));
    }

    fn received(lease: Option<Lease>, duplicate: bool) -> ReceiveOutcome {
        let claimed = lease.map(|lease| ClaimedLane { lease, claimed_at: Timestamp(0), turn: None, unsettled: false });
        ReceiveOutcome { turn: TURN, duplicate, claimed }
    }

    #[tokio::test]
    async fn system_task_is_preserved_dispatched_and_published() {
        let lease = Lease { conversation: "web:main".parse().unwrap(), holder: HolderId(Uuid::from_u128(9)), token: 1 };
        let mut ledger = MockLedger::default();
        let claimed_with = lease.clone();
        ledger
            .inbox
            .expect_receive()
            .withf(|message, claim| message.system_task == Some(scheduled()) && *claim == ClaimMode::IfFree)
            .once()
            .returning(move |_, _| Ok(received(Some(claimed_with.clone()), false)));
        let mut bus = MockEventBus::new();
        bus.expect_publish()
            .withf(|event| matches!(event, BusEvent::MessageReceived { turn, .. } if *turn == TURN))
            .once()
            .returning(|_| Ok(()));
        let (lanes, mut claimed) = mpsc::channel(1);
        let door = door(ledger, bus, lanes);
        assert_eq!(door.accept(scheduled(), saying("look")).await.unwrap(), TURN);
        assert_eq!(
            claimed.try_recv().unwrap(),
            ClaimedLane { lease, claimed_at: Timestamp(0), turn: None, unsettled: false }
        );
    }

    /// The attack: who is cut off in the middle leaves a lane that was claimed and that nobody works on.
    #[tokio::test]
    async fn dropped_caller_leaves_no_claimed_lane() {
        let lease = Lease { conversation: "web:main".parse().unwrap(), holder: HolderId(Uuid::from_u128(9)), token: 1 };
        let mut ledger = MockLedger::default();
        ledger.inbox.expect_receive().once().returning(move |_, _| Ok(received(Some(lease.clone()), true)));
        let (lanes, mut claimed) = mpsc::channel(1);
        let door = door(ledger, MockEventBus::new(), lanes);
        let mut taking = Box::pin(door.accept(scheduled(), saying("look")));
        assert!(futures::poll!(&mut taking).is_pending());
        drop(taking);
        assert!(claimed.recv().await.is_some());
    }

    /// A file that a configured prompt refers to would be fetched as if somebody had sent it. A script is no text that
    /// is searched for a block: its own text does what its author wrote.
    #[tokio::test]
    async fn prompt_block_is_escaped_and_script_is_verbatim() {
        let forged = reference_block::append("look", &[AttachmentReference::new("http://10.0.0.1/secrets".into())]);
        let script = script::to_script_message(&format!("return {forged:?}"));
        assert_eq!(reference_block::split(&script).1, None);
        for (said, stored) in [(forged.clone(), reference_block::escape(&forged)), (script.clone(), script)] {
            let mut ledger = MockLedger::default();
            ledger
                .inbox
                .expect_receive()
                .withf(move |message, _| message.text == stored)
                .once()
                .returning(|_, _| Ok(received(None, true)));
            let (lanes, _claimed) = mpsc::channel(1);
            assert!(door(ledger, MockEventBus::new(), lanes).accept(scheduled(), saying(&said)).await.is_ok());
        }
    }
}
