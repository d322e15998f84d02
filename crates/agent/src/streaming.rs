//! Shows the reply while the model writes it: deltas on the bus, and edits of one message where the channel edits.
//!
//! The streamed message is a part of the ledger before anyone can see it, so that a crash in the middle ends in an edit
//! of it and not in a second message. Nothing that must last is put on it before the turn is committed.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use satchel_domain::{
    ChannelCapabilities, ConversationId, MessageRef, Part, PartContent, PartState, TurnId,
    capabilities::StreamRule,
    delivery::{DeliveryRules, Refusal, SendError},
    markdown::{append_paragraph, trim_blank_edges},
};
use satchel_ports::{BusEvent, Clock, EventBus, LedgerError, Outbox, SendRequest, ledger::QueuedTurn};
use satchel_routing::split::split;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{AgentServices, LaneHandle};

/// How long a reply may grow before it is shown growing.
const MOMENT: Duration = Duration::from_millis(300);

/// How long the end of a turn waits for an edit in flight: longer than any adapter lets a call take, its turn,
/// connecting and a silence in the answer included. An edit that is dropped earlier may arrive after the final one and
/// stand there for good.
const LAST_EDIT: Duration = Duration::from_secs(60);

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

    /// A task of a run begins; what the one before it wrote gives way.
    pub fn task_started(&self, task: &str, number: usize, total: usize) {
        self.shown.send_replace(format!("… {task} ({number} of {total})"));
    }

    /// Tools run, and until the model writes on the message says which, below what it wrote before it asked for them.
    pub fn works(&self, written: &str, tools: &[&str]) {
        let progress = format!("… {}", tools.join(", "));
        self.shown.send_replace(append_paragraph(trim_blank_edges(written), &progress));
    }

    /// The model wrote a piece; `all` is its message so far.
    pub async fn wrote(&self, piece: &str, all: &str) {
        self.shown.send_modify(|shown| {
            if all.len() == piece.len() {
                shown.clear();
            }
            shown.push_str(piece);
        });
        let event = BusEvent::TextDelta {
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
    pub editing: Editing,
}

/// The edits that show how a reply grows. They are made while this is awaited, and are no task of their own: most
/// replies are complete before there is anything to show.
pub struct Editing {
    turn: TurnId,
    finished: CancellationToken,
    edits: Edits,
}

/// Whether they go on, and, at their end, whether a person may see a streamed message.
enum Edits {
    Go(BoxFuture<'static, bool>),
    Over(bool),
}

impl Streaming {
    /// Begins to show a turn's reply as the channel can.
    #[must_use]
    pub fn start(
        services: &AgentServices,
        lane: &LaneHandle,
        turn: &QueuedTurn,
        capabilities: &ChannelCapabilities,
    ) -> Self {
        let (shown, growing) = watch::channel(String::new());
        let finished = CancellationToken::new();
        let edits = match capabilities.stream {
            StreamRule::Edits { interval_ms } => {
                let editor = Editor {
                    outbox: Arc::clone(&services.outbox),
                    clock: Arc::clone(&services.clock),
                    lane: lane.clone(),
                    turn: turn.id,
                    reply_to: reply_to(turn),
                    interval: Duration::from_millis(interval_ms),
                    capabilities: capabilities.clone(),
                    finished: finished.clone(),
                };
                // What breaks down here must not take the turn with it.
                let shown = AssertUnwindSafe(editor.show(turn.stream.clone(), growing)).catch_unwind();
                Edits::Go(shown.map(|part| part.map_or(true, |part| part.as_ref().is_some_and(may_be_visible))).boxed())
            }
            StreamRule::Deltas | StreamRule::None => Edits::Over(turn.stream.as_ref().is_some_and(may_be_visible)),
        };
        let growth = Growth {
            bus: Arc::clone(&services.bus),
            conversation: lane.lease.conversation.clone(),
            turn: turn.id,
            message: AtomicU32::new(0),
            shown,
        };
        Self { growth, editing: Editing { turn: turn.id, finished, edits } }
    }
}

impl Editing {
    /// Shows the growth for as long as this is awaited.
    pub async fn go_on(&mut self) -> Infallible {
        if let Edits::Go(edits) = &mut self.edits {
            self.edits = Edits::Over(edits.await);
        }
        std::future::pending().await
    }

    /// Ends the growth, waits for the edit in flight, and tells whether a person may see a streamed message.
    pub async fn finish(self) -> bool {
        self.finished.cancel();
        match self.edits {
            Edits::Over(visible) => visible,
            Edits::Go(edits) => timeout(LAST_EDIT, edits).await.unwrap_or_else(|_| {
                tracing::warn!(turn.id = %self.turn, "the last edit of a streamed reply timed out; treating the message as visible");
                true
            }),
        }
    }
}

/// Whether a person may see a streamed part: it has an id, or nobody knows whether it arrived.
fn may_be_visible(part: &Part) -> bool {
    part.target.is_some() || matches!(part.state, PartState::Sending | PartState::InDoubt { .. })
}

/// The person's message that a turn answers.
#[must_use]
pub fn reply_to(turn: &QueuedTurn) -> Option<MessageRef> {
    turn.messages.first().and_then(|queued| queued.message.message.clone())
}

struct Editor {
    outbox: Arc<dyn Outbox>,
    clock: Arc<dyn Clock>,
    lane: LaneHandle,
    turn: TurnId,
    reply_to: Option<MessageRef>,
    interval: Duration,
    capabilities: ChannelCapabilities,
    finished: CancellationToken,
}

/// What came of showing the text once.
enum Shown {
    /// The message shows it, as far as it ever will.
    Done,
    /// Not now: the same text is tried again after this wait.
    Later(Duration),
    /// The message can't grow any further.
    Ends,
}

impl Editor {
    async fn show(self, earlier: Option<Part>, mut growing: watch::Receiver<String>) -> Option<Part> {
        let mut part = earlier;
        let mut last = String::new();
        let mut settled = false;
        while !self.finished.is_cancelled() {
            let text = self.clip(&growing.borrow_and_update());
            if text.trim().is_empty() || text == last {
                tokio::select! {
                    () = self.finished.cancelled() => break,
                    changed = growing.changed() => if changed.is_err() { break } else { continue },
                }
            }
            if part.is_none() && !settled {
                // A reply that is complete in a moment needs no streaming, which costs two commits and an edit.
                settled = true;
                tokio::select! {
                    () = self.finished.cancelled() => break,
                    () = tokio::time::sleep(self.interval.min(MOMENT)) => continue,
                }
            }
            let wait = match self.show_once(&mut part, &text).await {
                Ok(Shown::Done) => {
                    last = text;
                    self.interval
                }
                Ok(Shown::Later(wait)) => wait,
                Ok(Shown::Ends) => break,
                // Streaming is a convenience: the error is met again, and told, when the turn is completed.
                Err(error) => {
                    tracing::debug!(turn.id = %self.turn, error = %error, "editing a streamed reply failed; the rest is sent at the end of the turn");
                    break;
                }
            };
            tokio::select! {
                () = self.finished.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        part
    }

    async fn show_once(&self, shown: &mut Option<Part>, text: &str) -> Result<Shown, LedgerError> {
        let repeated = shown.is_some();
        let part = match shown {
            Some(part) => {
                if part.target.is_none() && !self.may_repeat(part).await? {
                    return Ok(Shown::Ends);
                }
                part
            }
            None => match self.outbox.begin_stream(&self.lane.lease, self.turn, self.reply_to.clone()).await? {
                Some(begun) => shown.insert(begun),
                // An earlier reply is still on its way; this one must not overtake it.
                None => return Ok(Shown::Later(self.interval)),
            },
        };
        let to_send = SendRequest {
            part_id: part.id,
            turn: part.turn,
            conversation: part.conversation.clone(),
            content: PartContent::from_text(text),
            reply_to: part.reply_to.clone(),
        };
        match part.target.clone() {
            Some(target) => self.edit(part, &target, &to_send).await,
            None => self.send(part, &to_send, repeated).await,
        }
    }

    /// Whether the message of a process that died before it knew its id may be sent once more. It can only be found by
    /// its key; where that is no longer known, whether it is visible stays in doubt, and the final text is delivered by
    /// the rules of doubt.
    async fn may_repeat(&self, part: &mut Part) -> Result<bool, LedgerError> {
        if part.state != PartState::Sending {
            return Ok(false);
        }
        let now = self.clock.now();
        let elapsed = part.first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        if self.capabilities.idempotency.covers(elapsed) {
            return Ok(true);
        }
        part.interrupt(now);
        self.outbox.save_part(&self.lane.lease, part).await?;
        Ok(false)
    }

    async fn edit(&self, part: &mut Part, target: &MessageRef, to_send: &SendRequest) -> Result<Shown, LedgerError> {
        match self.lane.channel.edit(target, to_send).await {
            Err(SendError::NotSent { retry_after_ms, .. }) => {
                let told = Duration::from_millis(retry_after_ms.unwrap_or(0));
                Ok(Shown::Later(self.interval.max(told)))
            }
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => {
                part.target = None;
                part.state = PartState::Pending;
                self.outbox.save_part(&self.lane.lease, part).await?;
                Ok(Shown::Ends)
            }
            // More text can mend its markup, and nothing else of it. The final edit meets the refusal again, and that is told.
            Err(
                SendError::Refused {
                    refusal:
                        Refusal::TooLarge { .. }
                        | Refusal::UnsupportedKind
                        | Refusal::VoiceForbidden
                        | Refusal::Item { .. }
                        | Refusal::Other,
                    ..
                }
                | SendError::Forbidden { .. }
                | SendError::Unreadable { .. },
            ) => Ok(Shown::Ends),
            // The final edit brings the text in any case; what went wrong with this one needn't be told.
            Ok(_) | Err(SendError::Refused { refusal: Refusal::BadMarkup, .. } | SendError::InDoubt { .. }) => {
                Ok(Shown::Done)
            }
        }
    }

    async fn send(&self, part: &mut Part, to_send: &SendRequest, repeated: bool) -> Result<Shown, LedgerError> {
        let shown = match self.lane.channel.send(to_send).await {
            Ok(messages) => {
                part.target = messages.into_iter().next();
                Shown::Done
            }
            Err(SendError::InDoubt { reason }) => {
                part.leave_in_doubt(reason, self.clock.now(), &DeliveryRules::default());
                Shown::Ends
            }
            // This one did not arrive, but the one that it repeats may have.
            Err(_) if repeated => {
                part.interrupt(self.clock.now());
                Shown::Ends
            }
            // It certainly did not arrive: the final text is sent as if nothing had been streamed.
            Err(_) => {
                part.state = PartState::Pending;
                Shown::Ends
            }
        };
        self.outbox.save_part(&self.lane.lease, part).await?;
        Ok(shown)
    }

    /// As much of the text as one message holds.
    fn clip(&self, text: &str) -> String {
        split(text, &self.capabilities.text).into_iter().next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
