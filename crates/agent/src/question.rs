//! A question to a person about a call: a part of the running turn, which routing sends and closes.
//!
//! What is opened here stays open when this process dies or the call is dropped. The ledger closes it with the outcome of
//! its call or the end of its turn at the latest.

use std::time::Duration;

use futures::{
    StreamExt,
    future::ready,
    stream::{BoxStream, pending},
};
use satchel_domain::{Button, CallId, Part, PartId, PartState, ToolCall, part::FailureReason};
use satchel_ports::{
    BusEvent, LedgerError,
    ledger::{NewQuestion, OutboxQuery},
};
use tokio::time::{sleep, timeout};

use crate::{AgentServices, LaneHandle, call_tracker::retry_until_drained, run::publish};

/// How often a question is looked up whose delivery nobody reports.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The words of a question whose call ended without an answer.
const NOT_NEEDED: &str = "No longer needed";

/// What a person is asked.
pub(crate) struct QuestionText<'a> {
    pub(crate) call: &'a ToolCall,
    /// The question, in Markdown.
    pub(crate) text: String,
    pub(crate) buttons: Vec<Button>,
}

/// A question that stands or is on its way.
pub(crate) struct Question {
    services: AgentServices,
    lane: LaneHandle,
    call: CallId,
    tool: String,
    part: PartId,
    is_closed: bool,
    changes: BoxStream<'static, ()>,
}

impl Question {
    /// Opens a question, or takes up the one that an earlier process has opened about the call, and tells the bus, by
    /// which the page shows it.
    ///
    /// # Errors
    /// When it can't be opened.
    pub(crate) async fn open(
        services: &AgentServices,
        lane: &LaneHandle,
        QuestionText { call, text, buttons }: QuestionText<'_>,
    ) -> Result<Self, LedgerError> {
        // Before it is opened, so that no change of it is missed.
        let changes = subscribe(services, call.id).await;
        let unanswered = format_closing(NOT_NEEDED, &call.name);
        let question = NewQuestion { call: call.id, text, buttons, unanswered };
        let opened = retry_until_drained(|| services.outbox.open_question(&lane.lease, &question)).await?;
        lane.delivery.wake();
        let NewQuestion { text, buttons, .. } = question;
        let conversation = lane.lease.conversation.clone();
        publish(services, BusEvent::ToolQuestion { conversation, call: call.id, text, buttons }).await;
        let (services, lane, tool) = (services.clone(), lane.clone(), call.name.clone());
        let is_closed = opened.question.is_some_and(|question| question.closing.is_some());
        Ok(Self { services, lane, call: call.id, tool, part: opened.id, is_closed, changes })
    }

    /// Returns whether an earlier process has closed it, without an answer: nobody can answer it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Waits until it stands, or may stand though nobody knows as what. `send_timeout` is how long it may take to be sent.
    ///
    /// # Errors
    /// When it can't be sent, in words.
    pub(crate) async fn wait_until_open(&mut self, send_timeout: Duration) -> Result<(), String> {
        let mut last = PartState::Pending;
        let standing = timeout(send_timeout, self.wait_for_delivery(&mut last)).await;
        standing.unwrap_or_else(|_| match last {
            PartState::Sending | PartState::InDoubt { .. } => Ok(()),
            PartState::Waiting { reason, .. } => Err(reason),
            _ => Err("it could not be sent in time".to_owned()),
        })
    }

    async fn wait_for_delivery(&mut self, last: &mut PartState) -> Result<(), String> {
        loop {
            *last = read(&self.services, self.call, self.part).await.map_or(PartState::Pending, |part| part.state);
            match last {
                PartState::Open { .. } | PartState::Sent { .. } => return Ok(()),
                PartState::Failed { reason: FailureReason::MayHaveArrived { .. } } => return Ok(()),
                PartState::Failed { reason } => return Err(reason.to_string()),
                // The last one of them is the question.
                PartState::Replaced { by } if !by.is_empty() => {
                    self.part = by[by.len() - 1];
                    continue;
                }
                _ => {}
            }
            tokio::select! {
                _changed = self.changes.next() => {}
                () = sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Closes it without an answer. Should that fail, the outcome of the call closes it.
    pub(crate) async fn close(self, words: &str) {
        let Self { services, lane, call, tool, .. } = self;
        let text = format_closing(words, &tool);
        if let Err(error) = services.outbox.close_question(&lane.lease, call, &text).await {
            tracing::debug!(call.id = %call, error = %error, "closing a question failed; the call's outcome closes it");
        }
        publish_decision(&services, &lane, call, words, false).await;
    }
}

async fn read(services: &AgentServices, call: CallId, part: PartId) -> Option<Part> {
    let query = OutboxQuery { part: Some(part), include_delivered: true, ..OutboxQuery::default() };
    match services.archive.parts(&query).await {
        Ok(parts) => parts.into_iter().next(),
        Err(error) => {
            tracing::debug!(call.id = %call, error = %error, "reading a question failed; retrying");
            None
        }
    }
}

/// Reports that a question was closed: to the lane, which delivers that, and to the page, which shows it.
pub(crate) async fn publish_decision(
    services: &AgentServices,
    lane: &LaneHandle,
    call: CallId,
    words: &str,
    allowed: bool,
) {
    lane.delivery.wake();
    let conversation = lane.lease.conversation.clone();
    publish(services, BusEvent::ToolDecided { conversation, call, allowed, text: words.to_owned() }).await;
}

/// The text that takes the place of a question, in Markdown.
pub(crate) fn format_closing(words: &str, tool: &str) -> String {
    format!("{words}: `{tool}`")
}

/// What tells that a part of the call's turn has changed; ends, or never tells anything, where the bus fails.
async fn subscribe(services: &AgentServices, call: CallId) -> BoxStream<'static, ()> {
    match services.bus.subscribe().await {
        Ok(events) => {
            let is_change = move |event| matches!(event, BusEvent::DeliveryPart { turn, .. } if turn == call.turn);
            events.filter_map(move |event| ready(is_change(event).then_some(()))).chain(pending()).boxed()
        }
        Err(error) => {
            tracing::debug!(call.id = %call, error = %error, "event bus unavailable; polling the question");
            pending().boxed()
        }
    }
}

#[cfg(test)]
mod tests;
