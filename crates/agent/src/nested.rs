//! Calls that a running tool makes of others, such as those of a script: they pass every check of a call of the model's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{CallId, ToolCall, ToolOutcome};
use satchel_ports::{LedgerError, ToolCaller, ToolError, ToolSpec};
use serde_json::Value;

use crate::{
    AgentServices, LaneHandle,
    calls::{CallScope, find_permitted_tool, needs_confirmation, perform_call},
    confirm::{AnswerDeadline, ConfirmOutcome, confirm},
};

/// The way of one call to the other tools.
pub(crate) struct NestedToolCaller {
    services: AgentServices,
    lane: LaneHandle,
    scope: CallScope,
    call: CallId,
    made: AtomicU32,
}

impl NestedToolCaller {
    pub(crate) fn new(services: &AgentServices, lane: &LaneHandle, scope: &CallScope, call: CallId) -> Self {
        Self { services: services.clone(), lane: lane.clone(), scope: scope.clone(), call, made: AtomicU32::new(0) }
    }

    async fn execute_nested(&self, call: &ToolCall, left: Duration) -> Result<ToolOutcome, LedgerError> {
        let Self { services, lane, scope, .. } = self;
        let (spec, tool) = match find_permitted_tool(services, scope, call) {
            Ok(admitted) => admitted,
            Err(words) => return Ok(ToolOutcome::from_failure(words)),
        };
        if needs_confirmation(services, scope, self.call, spec)
            && let ConfirmOutcome::Refused(words) =
                confirm(services, lane, scope, call, spec, AnswerDeadline::Within(left)).await?
        {
            return Ok(ToolOutcome::from_failure(words));
        }
        if scope.cancel.is_cancelled() {
            return Ok(ToolOutcome::from_failure("the turn was stopped"));
        }
        Ok(perform_call(services, lane, scope, call, spec, tool.as_ref(), None).await)
    }
}

#[async_trait]
impl ToolCaller for NestedToolCaller {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.services.tools.specs()
    }

    async fn call(&self, tool: &str, arguments: Value, left: Duration) -> Result<ToolOutcome, ToolError> {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        // Beyond them ids repeat, and with them the words by which people allow calls.
        if nth >= CallId::MAX_NESTED {
            return Err(ToolError(format!("more than {} calls are not allowed", CallId::MAX_NESTED)));
        }
        let id = self.call.nested(nth);
        let call = ToolCall { id, name: tool.to_owned(), arguments };
        match self.execute_nested(&call, left).await {
            Ok(outcome) if outcome.failed && !outcome.has_failed_in_part() => {
                Err(ToolError(outcome.text.unwrap_or_default()))
            }
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(ToolError(format!("the person's decision could not be recorded: {error}"))),
        }
    }
}
