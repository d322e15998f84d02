//! A question on a channel: put there until the platform takes it, and closed however whoever asked it ends.
//!
//! A task of its own has it in hand, because the call that asks can be dropped at any moment, by a deadline or with its
//! turn: what was on its way then would arrive all the same, and its buttons would stay for ever.

use std::time::Duration;

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use satchel_domain::{
    Button, CallId, MessageRef, PartContent, PartId, ToolCall,
    delivery::{OnDoubt, SendError},
};
use satchel_ports::{BusEvent, LookupOutcome, LookupRange, SendRequest};
use satchel_routing::{
    label::with_duplicate_label,
    lookup::{DoubtfulSend, delete_duplicates, look_up},
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{AgentServices, LaneHandle, run::publish};

/// How long one attempt to put or to change a question may take.
const SENDING: Duration = Duration::from_secs(20);

/// How long it is tried to take the buttons from a question that is over.
const ENDING: Duration = Duration::from_secs(2 * 60);

/// The least wait before a question that was not put or changed is put or changed again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a question says when whoever asked it is gone.
const NOT_NEEDED: &str = "No longer needed";

pub(crate) struct Asked<'a> {
    /// The call that it is about.
    pub(crate) call: &'a ToolCall,
    /// What is asked for, as the question names it when it is over.
    pub(crate) title: String,
    /// The question, in Markdown.
    pub(crate) text: String,
    pub(crate) buttons: Vec<Button>,
    /// How long it is put again while the platform doesn't take it.
    pub(crate) patience: Duration,
    /// Whether the turn is complete, where the call is taken up again with its turn and the answer counts then too:
    /// however the work on it ends, the buttons stay until the turn is complete.
    pub(crate) taken_up_again: Option<watch::Receiver<bool>>,
}

/// A question that stands or is on its way there. When it is dropped, nobody needs the answer and the buttons go,
/// unless its call is taken up again.
pub(crate) struct Question {
    services: AgentServices,
    lane: LaneHandle,
    call: CallId,
    standing: oneshot::Receiver<Result<(), String>>,
    over: oneshot::Sender<String>,
}

impl Question {
    /// Begins to put it, and tells the bus, by which the page shows it.
    pub(crate) async fn ask(services: &AgentServices, lane: &LaneHandle, asked: Asked<'_>) -> Self {
        let Asked { call, title, text, buttons, patience, taken_up_again } = asked;
        let (tell, standing) = oneshot::channel();
        let (over, ends) = oneshot::channel();
        let conversation = lane.lease.conversation.clone();
        let shown = BusEvent::ToolQuestion {
            conversation: conversation.clone(),
            call: call.id,
            text: text.clone(),
            buttons: buttons.clone(),
        };
        let part = SendRequest {
            part_id: PartId(services.ids.next()),
            turn: call.id.turn,
            conversation,
            content: PartContent::Question { text, buttons },
            reply_to: None,
        };
        let tending = Tending {
            services: services.clone(),
            lane: lane.clone(),
            call: call.id,
            title,
            part,
            patience,
            taken_up_again,
            ends: ends.map(Result::ok).boxed().shared(),
        };
        let question = Self { services: services.clone(), lane: lane.clone(), call: call.id, standing, over };
        tokio::spawn(tending.run(tell));
        publish(services, shown).await;
        question
    }

    /// Waits until it stands, or may stand though nobody knows as what.
    ///
    /// # Errors
    /// When it can't be put, in words.
    pub(crate) async fn stands(&mut self) -> Result<(), String> {
        (&mut self.standing).await.unwrap_or_else(|_| Err("the question's task ended early".to_owned()))
    }

    /// Lets it say how it ended, without its buttons; not waited for, since the call is what people wait for.
    /// A question that keeps its buttons answers no press any more.
    pub(crate) async fn end(self, words: &str, allowed: bool) {
        tell_the_end(&self.services, &self.lane, self.call, words, allowed).await;
        // Nobody hears it where the task has broken down.
        let _unheard = self.over.send(words.to_owned());
    }
}

async fn tell_the_end(services: &AgentServices, lane: &LaneHandle, call: CallId, words: &str, allowed: bool) {
    let conversation = lane.lease.conversation.clone();
    publish(services, BusEvent::ToolDecided { conversation, call, allowed, text: words.to_owned() }).await;
}

/// The end of a question in its words, `None` where whoever asked it is gone; it can be waited for more than once.
type Ends = Shared<BoxFuture<'static, Option<String>>>;

/// What has a question in hand.
struct Tending {
    services: AgentServices,
    lane: LaneHandle,
    call: CallId,
    title: String,
    part: SendRequest,
    patience: Duration,
    taken_up_again: Option<watch::Receiver<bool>>,
    ends: Ends,
}

/// What came of putting a question.
enum Put {
    Shown(MessageRef),
    /// It may stand, and nobody knows as what.
    Unknown,
    /// It doesn't, for this reason.
    Refused(String),
}

impl Tending {
    async fn run(mut self, tell: oneshot::Sender<Result<(), String>>) {
        let put = match self.begin(self.part.part_id).await {
            Ok(()) => self.put().await,
            Err(reason) => Put::Refused(reason),
        };
        let stands = match &put {
            Put::Shown(_) | Put::Unknown => Ok(()),
            Put::Refused(reason) => Err(reason.clone()),
        };
        // Where nobody waits for it any more, the end is known.
        let _unheard = tell.send(stands);
        let words = match self.ends.clone().await {
            Some(words) => words,
            None => {
                if let Some(completed) = &mut self.taken_up_again
                    && completed.wait_for(|completed| *completed).await.is_err()
                {
                    return;
                }
                tell_the_end(&self.services, &self.lane, self.call, NOT_NEEDED, false).await;
                NOT_NEEDED.to_owned()
            }
        };
        if let Put::Shown(message) = put {
            self.close(&message, &words).await;
        }
    }

    /// Records that a question may stand from now on.
    async fn begin(&self, question: PartId) -> Result<(), String> {
        let Self { services, lane, call, .. } = self;
        services.outbox.begin_question(&lane.lease, question, call.turn).await.map_err(|error| {
            tracing::warn!(call.id = %call, %error, "recording a question failed; the call is not run");
            error.to_string()
        })
    }

    /// Records as which message a question stands. Where that fails it stays a doubt, which costs certainty alone.
    async fn settle(&self, question: PartId, message: Option<MessageRef>) {
        if let Err(error) = self.services.outbox.settle_question(question, message).await {
            tracing::debug!(call.id = %self.call, %error, "recording a question's message id failed; the question stays in doubt");
        }
    }

    /// Puts the question and records what became of it.
    async fn put(&self) -> Put {
        let mut question = self.part.clone();
        let put = self.try_post(&mut question).await;
        match &put {
            Put::Shown(message) => self.settle(question.part_id, Some(message.clone())).await,
            Put::Refused(_) => self.settle(question.part_id, None).await,
            Put::Unknown => {}
        }
        put
    }

    /// Puts the question, again and again while the platform doesn't take it or nobody knows whether it did. What was
    /// in doubt is repeated as long as the platform takes the repeat for the same message; then it is looked for, and
    /// put again: as it is where it certainly did not arrive, else once more with a label, as a reply is. Two sets of
    /// buttons ask for the same word, but of none nobody is asked.
    async fn try_post(&self, part: &mut SendRequest) -> Put {
        let LaneHandle { channel, .. } = &self.lane;
        let capabilities = channel.capabilities(&self.part.conversation);
        let key = capabilities.idempotency;
        let given_up = Instant::now() + self.patience;
        let since = self.services.clock.now();
        let (mut may_stand, mut doubtful_since) = (false, None);
        let (mut attempts, mut is_searched) = (0, false);
        loop {
            let begun = Instant::now();
            attempts += 1;
            let answer = timeout(SENDING, channel.send(part)).await.unwrap_or_else(|_| Err(no_answer()));
            let error = match answer {
                Ok(messages) => {
                    if is_searched {
                        let earlier = DoubtfulSend { part: part.clone(), since, attempts: attempts - 1 };
                        self.remove_duplicates(earlier, &messages).await;
                    }
                    return messages.into_iter().next().map_or(Put::Unknown, Put::Shown);
                }
                Err(error) => error,
            };
            let wait = match &error {
                SendError::InDoubt { .. } => {
                    doubtful_since.get_or_insert(begun);
                    may_stand = true;
                    AGAIN
                }
                SendError::NotSent { retry_after_ms, .. } => pause(*retry_after_ms),
                // That a repeat was refused says nothing about what it repeats.
                _ if may_stand => return Put::Unknown,
                _ => return self.given_up(&error),
            };
            let next = Instant::now() + wait;
            let is_first = part.part_id == self.part.part_id;
            match doubtful_since {
                Some(since) if key.covers(next - since) && next < given_up + ENDING => sleep_until(next).await,
                Some(_) if is_first => {
                    match self.look_up(DoubtfulSend { part: part.clone(), since, attempts }, given_up).await {
                        None => return Put::Unknown,
                        Some(LookupOutcome::Found { messages, duplicates }) => {
                            delete_duplicates(&**channel, &part.conversation, &duplicates).await;
                            return messages.into_iter().next().map_or(Put::Unknown, Put::Shown);
                        }
                        Some(LookupOutcome::Absent) => (may_stand, doubtful_since, is_searched) = (false, None, true),
                        Some(LookupOutcome::Uncertain { .. }) if self.services.settings.on_doubt == OnDoubt::Hold => {
                            return Put::Unknown;
                        }
                        Some(LookupOutcome::Uncertain { .. }) => {
                            part.part_id = PartId(self.services.ids.next());
                            part.content = with_duplicate_label(&part.content, capabilities.caption);
                            if self.begin(part.part_id).await.is_err() {
                                return Put::Unknown;
                            }
                            doubtful_since = None;
                        }
                    }
                }
                Some(_) => return Put::Unknown,
                None if Instant::now() >= given_up && may_stand => return Put::Unknown,
                None if Instant::now() >= given_up => return self.given_up(&error),
                None => {
                    tracing::debug!(call.id = %self.call, error = %error, "posting a question failed; retrying");
                    tokio::select! {
                        _ends = self.ends.clone() => return Put::Refused(error.to_string()),
                        () = sleep_until(given_up.min(next)) => {}
                    }
                }
            }
        }
    }

    /// Looks for a question in doubt once the platform answers, while the question is needed and not longer than this.
    async fn look_up(&self, doubtful: DoubtfulSend, given_up: Instant) -> Option<LookupOutcome> {
        let (outbox, channel) = (&*self.services.outbox, &*self.lane.channel);
        let looked_up = async {
            loop {
                if channel.probe().await.is_ok() {
                    match look_up(outbox, channel, doubtful.clone(), LookupRange::After(None)).await {
                        Ok(Ok(outcome)) => return outcome,
                        Ok(Err(SendError::NotSent { .. } | SendError::InDoubt { .. })) => {}
                        Ok(Err(error)) => return LookupOutcome::Uncertain { reason: error.to_string() },
                        Err(error) => return LookupOutcome::Uncertain { reason: error.to_string() },
                    }
                }
                sleep(AGAIN).await;
            }
        };
        tokio::select! {
            _ends = self.ends.clone() => None,
            () = sleep_until(given_up) => None,
            outcome = looked_up => Some(outcome),
        }
    }

    /// Deletes earlier attempts that turned up though a look-up had not found them: their buttons would stay for ever.
    async fn remove_duplicates(&self, earlier: DoubtfulSend, messages: &[MessageRef]) {
        let (outbox, channel) = (&*self.services.outbox, &*self.lane.channel);
        let conversation = earlier.part.conversation.clone();
        let looked_up = look_up(outbox, channel, earlier, LookupRange::Before(messages.to_vec())).await;
        if let Ok(Ok(LookupOutcome::Found { messages, duplicates })) = looked_up {
            delete_duplicates(channel, &conversation, &[messages, duplicates].concat()).await;
        }
    }

    fn given_up(&self, error: &SendError) -> Put {
        tracing::warn!(call.id = %self.call, error = %error, "posting a question failed; the call is not run");
        Put::Refused(error.to_string())
    }

    /// Lets the question say how it ended, until the platform takes it; an edit can be repeated whatever became of it.
    async fn close(self, message: &MessageRef, words: &str) {
        let part = SendRequest { content: PartContent::from_text(format!("{words}: {}", self.title)), ..self.part };
        let given_up = Instant::now() + ENDING;
        loop {
            let edited = timeout(SENDING, self.lane.channel.edit(message, &part)).await;
            let wait = match edited.unwrap_or_else(|_| Err(no_answer())) {
                Ok(_) => return,
                Err(SendError::NotSent { retry_after_ms, .. }) if Instant::now() < given_up => pause(retry_after_ms),
                Err(SendError::InDoubt { .. }) if Instant::now() < given_up => AGAIN,
                Err(error) => {
                    return tracing::debug!(call.id = %self.call, error = %error, "closing a question failed; its buttons stay");
                }
            };
            sleep(wait).await;
        }
    }
}

fn no_answer() -> SendError {
    SendError::InDoubt { reason: "no response".to_owned() }
}

fn pause(retry_after_ms: Option<u64>) -> Duration {
    Duration::from_millis(retry_after_ms.unwrap_or(0)).max(AGAIN)
}

#[cfg(test)]
mod tests;
