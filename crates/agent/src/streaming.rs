//! Shows the reply while the model writes it: deltas on the bus, and edits of one message where the channel edits.
//!
//! The streamed message is a part of the ledger before anyone can see it, so that a crash in the middle ends in an edit
//! of it and not in a second message. Nothing that must last is put on it before the turn is committed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use satchel_domain::{
    ChannelCapabilities, ConversationId, MessageRef, Part, PartContent, PartState, TurnId,
    capabilities::StreamRule,
    delivery::{DeliveryRules, Event as PartEvent, Refusal, SendError, advance},
};
use satchel_ports::{Event, EventBus, Ledger, LedgerError, PartToSend, ledger::QueuedTurn};
use satchel_routing::split::split;
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{Lane, Services};

/// How long the end of a turn waits for an edit in flight.
const LAST_EDIT: Duration = Duration::from_secs(30);

/// Where the model's pieces go as they come.
pub struct Growth {
    bus: Arc<dyn EventBus>,
    conversation: ConversationId,
    turn: TurnId,
    message: AtomicU32,
    shown: watch::Sender<String>,
}

impl Growth {
    /// A new message of the model begins; what it writes takes the place of what stood there.
    pub fn begin(&self, message: u32) {
        self.message.store(message, Ordering::Relaxed);
    }

    /// The model wrote a piece; `all` is its message so far.
    pub async fn wrote(&self, piece: &str, all: &str) {
        self.shown.send_modify(|shown| {
            if all.len() == piece.len() {
                shown.clear();
            }
            shown.push_str(piece);
        });
        let event = Event::TextDelta {
            conversation: self.conversation.clone(),
            turn: self.turn,
            message: self.message.load(Ordering::Relaxed),
            text: piece.to_owned(),
        };
        // Deltas are lossy by contract; the text itself is in the turn.
        let _ = self.bus.publish(event).await;
    }
}

/// The growing reply of one turn.
pub struct Streaming {
    /// Where the model's pieces go.
    pub growth: Growth,
    finished: CancellationToken,
    editing: Option<AbortOnDropHandle<Option<Part>>>,
}

impl Streaming {
    /// Begins to show a turn's reply as the channel can.
    #[must_use]
    pub fn start(services: &Services, lane: &Lane, turn: &QueuedTurn, capabilities: &ChannelCapabilities) -> Self {
        let (shown, growing) = watch::channel(String::new());
        let finished = CancellationToken::new();
        let editing = match capabilities.stream {
            StreamRule::Edits { interval_ms } => {
                let editor = Editor {
                    ledger: Arc::clone(&services.ledger),
                    lane: lane.clone(),
                    turn: turn.id,
                    reply_to: reply_to(turn),
                    interval: Duration::from_millis(interval_ms),
                    capabilities: capabilities.clone(),
                    finished: finished.clone(),
                };
                let task: JoinHandle<_> = tokio::spawn(editor.show(turn.stream.clone(), growing));
                Some(AbortOnDropHandle::new(task))
            }
            StreamRule::Deltas | StreamRule::None => None,
        };
        let growth = Growth {
            bus: Arc::clone(&services.bus),
            conversation: lane.lease.conversation.clone(),
            turn: turn.id,
            message: AtomicU32::new(0),
            shown,
        };
        Self { growth, finished, editing }
    }

    /// Ends the growth, waits for the edit in flight, and returns the streamed part if there is one.
    pub async fn finish(self) -> Option<Part> {
        self.finished.cancel();
        let editing = self.editing?;
        match timeout(LAST_EDIT, editing).await {
            Ok(Ok(part)) => part,
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(turn.id = %self.growth.turn, "the last edit of a streamed reply did not come back");
                None
            }
        }
    }
}

/// The person's message that a turn answers.
#[must_use]
pub fn reply_to(turn: &QueuedTurn) -> Option<MessageRef> {
    turn.messages.first().and_then(|queued| queued.message.message.clone())
}

struct Editor {
    ledger: Arc<dyn Ledger>,
    lane: Lane,
    turn: TurnId,
    reply_to: Option<MessageRef>,
    interval: Duration,
    capabilities: ChannelCapabilities,
    finished: CancellationToken,
}

/// Whether the message can grow further.
enum Shown {
    Grows { wait: Duration },
    Ends,
}

impl Editor {
    async fn show(self, earlier: Option<Part>, mut growing: watch::Receiver<String>) -> Option<Part> {
        let mut part = earlier;
        match self.take_up(&mut part).await {
            Ok(Shown::Grows { .. }) => {}
            Ok(Shown::Ends) => return part,
            Err(error) => return self.given_up(part, &error),
        }
        let mut last = String::new();
        loop {
            tokio::select! {
                biased;
                () = self.finished.cancelled() => return part,
                changed = growing.changed() => if changed.is_err() { return part },
            }
            let text = self.clip(&growing.borrow_and_update());
            if text.trim().is_empty() || text == last {
                continue;
            }
            let wait = match self.show_once(&mut part, &text).await {
                Ok(Shown::Grows { wait }) => wait,
                Ok(Shown::Ends) => return part,
                Err(error) => return self.given_up(part, &error),
            };
            last = text;
            tokio::select! {
                () = self.finished.cancelled() => return part,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Goes on with the message of a process that died. Without its id it can only be found by its key; where there is
    /// none, whether it is visible stays in doubt, and the final text is delivered by the rules of doubt.
    async fn take_up(&self, part: &mut Option<Part>) -> Result<Shown, LedgerError> {
        let grows = Ok(Shown::Grows { wait: self.interval });
        let Some(earlier) = part else { return grows };
        if earlier.target.is_some() {
            return grows;
        }
        if earlier.state != PartState::Sending {
            return Ok(Shown::Ends);
        }
        let now = self.ledger.now();
        let elapsed = earlier.first_attempt_at.map_or(Duration::ZERO, |first| now.since(first));
        if self.capabilities.idempotency.recognises(elapsed) {
            return grows;
        }
        *earlier = advance(earlier, PartEvent::Interrupted, now, &DeliveryRules::default());
        self.ledger.save_part(&self.lane.lease, earlier).await?;
        Ok(Shown::Ends)
    }

    async fn show_once(&self, shown: &mut Option<Part>, text: &str) -> Result<Shown, LedgerError> {
        let grows = Shown::Grows { wait: self.interval };
        let part = match shown {
            Some(part) => part,
            None => match self.ledger.begin_stream(&self.lane.lease, self.turn, self.reply_to.clone()).await? {
                Some(begun) => shown.insert(begun),
                // An earlier reply is still on its way; this one must not overtake it.
                None => return Ok(grows),
            },
        };
        let to_send = PartToSend {
            part: part.id,
            turn: part.turn,
            conversation: part.conversation.clone(),
            content: PartContent::of_text(text),
            reply_to: part.reply_to.clone(),
        };
        if let Some(target) = &part.target {
            return match self.lane.channel.edit(target, &to_send).await {
                Err(SendError::NotSent { retry_after_ms, .. }) => {
                    let told = Duration::from_millis(retry_after_ms.unwrap_or(0));
                    Ok(Shown::Grows { wait: self.interval.max(told) })
                }
                Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => {
                    part.target = None;
                    part.state = PartState::Pending;
                    self.ledger.save_part(&self.lane.lease, part).await?;
                    Ok(Shown::Ends)
                }
                // The final edit brings the text in any case; what went wrong with this one needn't be told.
                _ => Ok(grows),
            };
        }
        let answer = self.lane.channel.send(&to_send).await;
        let shown = match answer {
            Ok(messages) => {
                part.target = messages.into_iter().next();
                grows
            }
            Err(SendError::InDoubt { reason }) => {
                let doubt = PartEvent::Answered(Err(SendError::InDoubt { reason }));
                *part = advance(part, doubt, self.ledger.now(), &DeliveryRules::default());
                Shown::Ends
            }
            // It certainly did not arrive: the final text is sent as if nothing had been streamed.
            Err(_) => {
                part.state = PartState::Pending;
                Shown::Ends
            }
        };
        self.ledger.save_part(&self.lane.lease, part).await?;
        Ok(shown)
    }

    /// As much of the text as one message holds.
    fn clip(&self, text: &str) -> String {
        split(text, &self.capabilities.text).into_iter().next().unwrap_or_default()
    }

    /// Streaming is a convenience: the ledger's error is met again, and told, when the turn is completed.
    fn given_up(&self, part: Option<Part>, error: &LedgerError) -> Option<Part> {
        tracing::debug!(turn.id = %self.turn, error = %error, "the reply is no longer streamed");
        part
    }
}
