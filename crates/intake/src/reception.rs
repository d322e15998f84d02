//! Takes messages in: first who wrote them, then durable, then the workers are woken.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use satchel_domain::{ConversationId, FileReference, Filename, InboundMessage, TurnId, UnreadableUpdate};
use satchel_ports::{
    Event, EventBus, Inbound, InboundError, Lease, Ledger, LedgerError,
    ledger::{Claim, Renamed},
};
use tokio::sync::mpsc;
use unicode_normalization::UnicodeNormalization;

use crate::{access::Access, refusals::Refusals, strangers};

/// A lane that was claimed together with the message that came for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The right to work on it.
    pub lease: Lease,
    /// The turn that the message became part of.
    pub turn: TurnId,
    /// Whether parts of the lane are unsettled.
    pub unsettled: bool,
}

/// The one door through which all channels' messages come.
pub struct Reception {
    desk: Desk,
}

/// What it takes to take a message in.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) ledger: Arc<dyn Ledger>,
    bus: Arc<dyn EventBus>,
    lanes: mpsc::Sender<Claimed>,
    access: Arc<Access>,
    refusals: Arc<Mutex<Refusals>>,
}

impl Reception {
    /// Makes a door that hands each lane that it claims to `lanes`.
    ///
    /// While that queue is full nothing is claimed: the lane stays free and is found by whoever looks for work next.
    #[must_use]
    pub fn new(
        ledger: Arc<dyn Ledger>,
        bus: Arc<dyn EventBus>,
        lanes: mpsc::Sender<Claimed>,
        access: Arc<Access>,
    ) -> Self {
        Self { desk: Desk { ledger, bus, lanes, access, refusals: Arc::default() } }
    }
}

#[async_trait]
impl Inbound for Reception {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        // A task of its own: the caller may be dropped at any moment, and a lane that was claimed must reach a worker.
        let desk = self.desk.clone();
        match tokio::spawn(async move { desk.receive(message).await }).await {
            Ok(received) => received.map_err(|error| InboundError(Box::new(error))),
            Err(broken) => Err(InboundError(Box::new(broken))),
        }
    }

    async fn conversation_moved(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        let renamed = self.desk.ledger.rename_conversation(&from, &to).await;
        match renamed.map_err(|error| InboundError(Box::new(error)))? {
            Renamed::Done => tracing::info!(chat.id = %from, %to, "a conversation goes on under another name"),
            Renamed::Nothing => {}
            Renamed::Taken => tracing::warn!(
                chat.id = %from, %to,
                "a conversation has moved to where there is one already; what was said and sent before stays apart"
            ),
        }
        Ok(())
    }

    async fn keep_unreadable(&self, update: UnreadableUpdate) -> Result<(), InboundError> {
        let kept = self.desk.ledger.keep_unreadable(&update).await.map_err(|error| InboundError(Box::new(error)))?;
        if kept {
            let UnreadableUpdate { channel, key, reason, .. } = update;
            tracing::warn!(%channel, update.key = key, reason, "an update could not be read and is kept as it came");
        }
        Ok(())
    }
}

impl Desk {
    /// Takes in what somebody wrote who may talk; of anybody else's nothing is kept.
    async fn receive(&self, message: InboundMessage) -> Result<Option<TurnId>, LedgerError> {
        let channel = message.conversation.channel();
        if let Some(rules) = self.access.rules(channel)
            && !rules.lets_in(&message.sender)
            && !self.ledger.is_let_in(channel, &message.sender.id).await?
        {
            self.note_refusal(&message);
            strangers::turn_away(self, &message, &rules.owner_chats).await?;
            return Ok(None);
        }
        // Errands are ours alone, whatever a channel makes of what people send.
        self.take_in(InboundMessage { errand: None, ..message }).await.map(Some)
    }

    /// Stores a message and hands its lane on, if it could be claimed.
    pub(crate) async fn take_in(&self, message: InboundMessage) -> Result<TurnId, LedgerError> {
        let message = with_composed_names(message);
        // The place in the queue is taken before the lane is claimed, so that no claimed lane is left without a worker.
        let place = self.lanes.try_reserve().ok();
        let claim = if place.is_some() { Claim::IfFree } else { Claim::Leave };
        let received = self.ledger.receive(&message, claim).await?;
        if let (Some(place), Some(lease)) = (place, received.lease) {
            place.send(Claimed { lease, turn: received.turn, unsettled: received.unsettled });
        }
        if !received.duplicate {
            let event = Event::MessageReceived { conversation: message.conversation, turn: received.turn };
            if let Err(error) = self.bus.publish(event).await {
                // Workers look for work on their own too, so this costs time and nothing else.
                tracing::debug!(error = %error, "nobody was woken for a new message");
            }
        }
        Ok(received.turn)
    }

    /// Tells the log that somebody was turned away; never what they wrote.
    fn note_refusal(&self, message: &InboundMessage) {
        let (channel, sender) = (message.conversation.channel(), message.sender.id.as_str());
        let now = self.ledger.now();
        let line = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).count(channel, sender, now);
        if let Some(line) = line {
            tracing::info!(
                %channel, sender.id = sender, attempts = line.attempts, others = line.others,
                "somebody who may not talk was turned away"
            );
        }
    }
}

/// Names in composed form (NFC): some systems send `ё` as two characters, and nobody finds such a file by typing its name.
fn with_composed_names(mut message: InboundMessage) -> InboundMessage {
    let composed = |file: FileReference| FileReference {
        filename: Filename::from_untrusted(&file.filename.as_str().nfc().collect::<String>()),
        ..file
    };
    message.files = message.files.into_iter().map(composed).collect();
    message
}

#[cfg(test)]
mod tests {
    use satchel_domain::Sender;
    use satchel_ports::{MockEventBus, MockLedger, OwnerId, ledger::Received};
    use uuid::Uuid;

    use super::*;

    const TURN: TurnId = TurnId(Uuid::from_u128(1));

    fn message(filename: &str) -> InboundMessage {
        InboundMessage {
            files: vec![FileReference::new("/tmp/x".into(), Filename::from_untrusted(filename))],
            ..InboundMessage::new("console:main".parse().unwrap(), "1".into(), Sender::new("owner", "Owner"))
        }
    }

    fn lease() -> Lease {
        Lease { conversation: "console:main".parse().unwrap(), owner: OwnerId(Uuid::from_u128(9)), token: 1 }
    }

    fn door(ledger: MockLedger, bus: MockEventBus, lanes: mpsc::Sender<Claimed>) -> Reception {
        Reception::new(Arc::new(ledger), Arc::new(bus), lanes, Arc::default())
    }

    #[tokio::test]
    async fn a_claimed_lane_reaches_a_worker_and_the_bus_hears_of_the_message() {
        let mut ledger = MockLedger::new();
        ledger
            .expect_receive()
            .withf(|message, claim| message.files[0].filename.as_str() == "ёж.txt" && *claim == Claim::IfFree)
            .returning(|_, _| Ok(Received { turn: TURN, duplicate: false, lease: Some(lease()), unsettled: true }));
        let mut bus = MockEventBus::new();
        bus.expect_publish().once().returning(|_| Ok(()));
        let (lanes, mut claimed) = mpsc::channel(1);
        let reception = door(ledger, bus, lanes);
        assert_eq!(reception.accept(message("е\u{308}ж.txt")).await.unwrap(), Some(TURN));
        assert_eq!(claimed.try_recv().unwrap(), Claimed { lease: lease(), turn: TURN, unsettled: true });
    }

    #[tokio::test]
    async fn without_a_free_worker_the_lane_is_left_for_others() {
        let mut ledger = MockLedger::new();
        ledger
            .expect_receive()
            .withf(|_, claim| *claim == Claim::Leave)
            .returning(|_, _| Ok(Received { turn: TURN, duplicate: false, lease: None, unsettled: false }));
        let mut bus = MockEventBus::new();
        bus.expect_publish().returning(|_| Ok(()));
        let (lanes, _claimed) = mpsc::channel(1);
        lanes.try_send(Claimed { lease: lease(), turn: TURN, unsettled: true }).unwrap();
        assert!(door(ledger, bus, lanes).accept(message("a")).await.is_ok());
    }

    #[tokio::test]
    async fn what_could_not_be_stored_is_an_error_and_nobody_hears_of_it() {
        let mut ledger = MockLedger::new();
        ledger.expect_receive().returning(|_, _| Err(LedgerError::Full));
        let (lanes, _claimed) = mpsc::channel(1);
        let reception = door(ledger, MockEventBus::new(), lanes);
        assert!(reception.accept(message("a")).await.is_err());
    }

    #[tokio::test]
    async fn a_conversation_that_moved_is_renamed_and_offered_again_when_it_could_not_be() {
        for (renamed, taken) in [
            (Ok(Renamed::Done), true),
            (Ok(Renamed::Nothing), true),
            (Ok(Renamed::Taken), true),
            (Err(LedgerError::Full), false),
        ] {
            let mut ledger = MockLedger::new();
            let mut renamed = Some(renamed);
            ledger
                .expect_rename_conversation()
                .withf(|from, to| (from.key(), to.key()) == ("-5", "-1005"))
                .once()
                .returning(move |_, _| renamed.take().expect("it is called once"));
            let (lanes, _claimed) = mpsc::channel(1);
            let door = door(ledger, MockEventBus::new(), lanes);
            let (from, to) = ("telegram:-5".parse().unwrap(), "telegram:-1005".parse().unwrap());
            assert_eq!(door.conversation_moved(from, to).await.is_ok(), taken);
        }
    }

    #[tokio::test]
    async fn a_repeat_wakes_nobody() {
        let mut ledger = MockLedger::new();
        ledger
            .expect_receive()
            .returning(|_, _| Ok(Received { turn: TURN, duplicate: true, lease: None, unsettled: false }));
        let (lanes, _claimed) = mpsc::channel(1);
        let reception = door(ledger, MockEventBus::new(), lanes);
        assert_eq!(reception.accept(message("a")).await.unwrap(), Some(TURN));
    }
}
