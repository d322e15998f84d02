//! Calls that a running tool makes to other tools, as scripts do. They pass every check that a model's call passes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{CallId, ToolCall, ToolOutcome};
use satchel_ports::{ChangeLog, LedgerError, ToolCaller, ToolError, ToolSpec};
use serde_json::Value;

use crate::{
    AgentServices, LaneHandle,
    calls::{CallScope, find_permitted_tool, needs_confirmation, perform_call},
    confirm::{AnswerDeadline, ConfirmOutcome, confirm_call},
};

/// Lets one call make calls to other tools.
pub(crate) struct NestedToolCaller {
    services: AgentServices,
    lane: LaneHandle,
    scope: CallScope,
    call: CallId,
    changes: ChangeLog,
    calls_made: AtomicU32,
}

impl NestedToolCaller {
    pub(crate) fn new(
        services: &AgentServices,
        lane: &LaneHandle,
        scope: &CallScope,
        call: CallId,
        changes: &ChangeLog,
    ) -> Self {
        Self {
            services: services.clone(),
            lane: lane.clone(),
            scope: scope.clone(),
            call,
            changes: changes.clone(),
            calls_made: AtomicU32::new(0),
        }
    }

    async fn execute_nested(&self, call: &ToolCall, remaining: Duration) -> Result<ToolOutcome, LedgerError> {
        let Self { services, lane, scope, .. } = self;
        let (spec, tool) = match find_permitted_tool(services, scope, call) {
            Ok(permitted) => permitted,
            Err(reason) => return Ok(ToolOutcome::from_failure(reason)),
        };
        if needs_confirmation(services, scope, self.call, tool.tier(&call.arguments))
            && let ConfirmOutcome::Refused(reason) =
                confirm_call(services, lane, scope, call, tool.as_ref(), AnswerDeadline::Within(remaining)).await?
        {
            return Ok(ToolOutcome::from_failure(reason));
        }
        if scope.cancel.is_cancelled() {
            return Ok(ToolOutcome::from_failure("the turn was stopped"));
        }
        Ok(perform_call(services, lane, scope, call, (spec, tool.as_ref()), &self.changes, None).await)
    }
}

#[async_trait]
impl ToolCaller for NestedToolCaller {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.scope.agent.tools.specs()
    }

    async fn call(&self, tool: &str, arguments: Value, remaining: Duration) -> Result<ToolOutcome, ToolError> {
        let nth = self.calls_made.fetch_add(1, Ordering::Relaxed);
        // Beyond that, ids repeat, and with them the confirmation codes.
        if nth >= CallId::MAX_NESTED {
            return Err(ToolError(format!("more than {} calls are not allowed", CallId::MAX_NESTED)));
        }
        let id = self.call.nested(nth);
        let call = ToolCall { id, name: tool.to_owned(), arguments };
        match self.execute_nested(&call, remaining).await {
            Ok(outcome) if outcome.failed && !outcome.has_failed_in_part() => {
                Err(ToolError(outcome.text.unwrap_or_default()))
            }
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(ToolError(format!("asking the person failed: {error}"))),
        }
    }
}
