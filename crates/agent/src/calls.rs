//! Runs the tools that the model asked for, at once, and records what each yields.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use satchel_domain::{Attachment, Sender, ToolCall, ToolOutcome};
use satchel_ports::{Event, LedgerError, SafetyTier, Tool, ToolContext, ToolSpec};
use satchel_routing::insist::insist;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    Lane, Services,
    confirm::{Verdict, Words, confirm},
    rounds::Rounds,
    run::publish,
};

/// Whether this process asked for a call itself or found it in the journal of one that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The model has just asked for it.
    Fresh,
    /// It may have run already, unless it had to wait for a person's word.
    Resumed {
        /// What is known of the person's word that it waited for; `None` where it waited for none.
        word: Option<Word>,
    },
}

/// A person's word about a call, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The call had not begun.
    Awaited,
    /// The call may have begun.
    Allowed,
    /// The call never begins.
    Refused,
}

/// What the calls of a turn have in common.
#[derive(Debug, Clone)]
pub struct CallScope {
    /// Who asked.
    pub asker: Sender,
    /// Whether others can read along.
    pub group: bool,
    /// What people say about calls that wait for their word.
    pub words: Words,
    /// The files that came with the turn.
    pub inbound: Arc<[Attachment]>,
    /// Cancelled when the turn ends.
    pub cancel: CancellationToken,
}

/// Runs all calls at once. Each outcome is recorded when it is there, in `rounds` too, so that what is gathered is not
/// lost when this is dropped.
///
/// # Errors
/// When an outcome can't be recorded. A tool that fails, panics or takes too long is no error: the model is told.
pub async fn run_calls(
    services: &Services,
    lane: &Lane,
    scope: &CallScope,
    calls: Vec<ToolCall>,
    origin: Origin,
    rounds: &mut Rounds,
) -> Result<(), LedgerError> {
    let started = |call: ToolCall| {
        let ordinal = call.id.ordinal;
        let word = match rounds.decided.get(&ordinal) {
            Some(true) => Some(Word::Allowed),
            Some(false) => Some(Word::Refused),
            None => rounds.asks.contains(&ordinal).then_some(Word::Awaited),
        };
        let origin = if origin == Origin::Fresh { origin } else { Origin::Resumed { word } };
        run_and_record(services, lane, scope, call, origin)
    };
    let mut running: FuturesUnordered<_> = calls.into_iter().map(started).collect();
    while let Some(finished) = running.next().await {
        let (ordinal, outcome) = finished?;
        rounds.outcomes.insert(ordinal, outcome);
    }
    Ok(())
}

async fn run_and_record(
    services: &Services,
    lane: &Lane,
    scope: &CallScope,
    call: ToolCall,
    origin: Origin,
) -> Result<(u32, ToolOutcome), LedgerError> {
    let conversation = lane.lease.conversation.clone();
    let tool = call.name.clone();
    publish(services, Event::ToolStarted { conversation: conversation.clone(), call: call.id, tool: tool.clone() })
        .await;
    let outcome = outcome_of(services, lane, scope, &call, origin).await?;
    let outcome = match record(services, lane, &call, &outcome).await {
        // A file that the ledger doesn't take as one of this conversation: the tool is at fault, and the turn goes on.
        Err(LedgerError::Unknown { what }) => {
            let refused =
                ToolOutcome::of_failure(format!("`{tool}` yielded what this conversation doesn't have: {what}"));
            record(services, lane, &call, &refused).await?
        }
        recorded => recorded?,
    };
    let failed = outcome.failed;
    publish(services, Event::ToolFinished { conversation, call: call.id, tool, failed }).await;
    Ok((call.id.ordinal, outcome))
}

/// Records what a call has yielded. It has happened already, so the ledger is asked until it takes it.
async fn record(
    services: &Services,
    lane: &Lane,
    call: &ToolCall,
    outcome: &ToolOutcome,
) -> Result<ToolOutcome, LedgerError> {
    insist(&lane.stop, || services.ledger.journal_outcome(&lane.lease, call.id.turn, call.id.ordinal, outcome)).await
}

async fn outcome_of(
    services: &Services,
    lane: &Lane,
    scope: &CallScope,
    call: &ToolCall,
    origin: Origin,
) -> Result<ToolOutcome, LedgerError> {
    let Some((spec, tool)) = services.tools.find(&call.name) else {
        let known: Vec<String> = services.tools.specs().iter().map(|spec| spec.name.clone()).collect();
        let words = format!("there is no tool `{}`; there are: {}", call.name, known.join(", "));
        return Ok(ToolOutcome::of_failure(words));
    };
    if spec.tier == SafetyTier::Privileged && scope.group && !services.settings.privileged_in_groups {
        let words = format!("`{}` can't be used where others read along", spec.name);
        return Ok(ToolOutcome::of_failure(words));
    }
    if !matches!(call.arguments, Value::Object(_)) {
        return Ok(ToolOutcome::of_failure(format!("the arguments of `{}` must be a JSON object", spec.name)));
    }
    match first(spec.tier, asks(services, spec), origin) {
        First::Run => {}
        First::Ask => match confirm(services, lane, &scope.words, &scope.asker, call, spec).await? {
            Verdict::Allowed => {}
            Verdict::Refused(words) => return Ok(ToolOutcome::of_failure(words)),
        },
        First::Refuse => return Ok(ToolOutcome::of_failure("the person refused this call")),
        First::Doubt => {
            return Ok(ToolOutcome::of_failure(format!(
                "outcome unknown: Satchel was interrupted while `{}` ran. It may have taken effect and is not repeated \
                 by itself; look before you ask for it again",
                spec.name
            )));
        }
    }
    Ok(performed(services, lane, scope, call, spec, tool.as_ref()).await)
}

/// Whether a call of this tool needs a person's word.
pub(crate) fn asks(services: &Services, spec: &ToolSpec) -> bool {
    services.settings.confirm.contains(&spec.tier)
}

/// What comes first for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Run,
    /// A person must allow it.
    Ask,
    /// A person has refused it.
    Refuse,
    /// It may have run when its process died, and may not run twice.
    Doubt,
}

fn first(tier: SafetyTier, asks: bool, origin: Origin) -> First {
    match origin {
        Origin::Fresh if asks => First::Ask,
        Origin::Resumed { word: Some(Word::Awaited) } => First::Ask,
        Origin::Resumed { word: Some(Word::Refused) } => First::Refuse,
        // One that began without a word is not repeated either, whatever the settings ask for now.
        Origin::Resumed { .. } if tier != SafetyTier::ReadOnly => First::Doubt,
        Origin::Fresh | Origin::Resumed { .. } => First::Run,
    }
}

async fn performed(
    services: &Services,
    lane: &Lane,
    scope: &CallScope,
    call: &ToolCall,
    spec: &ToolSpec,
    tool: &dyn Tool,
) -> ToolOutcome {
    let context = ToolContext {
        conversation: lane.lease.conversation.clone(),
        call: call.id,
        asker: scope.asker.clone(),
        inbound: Arc::clone(&scope.inbound),
        cancel: scope.cancel.child_token(),
    };
    // Cancelled when this future is dropped too, so that no work of the tool's own outlives the call.
    let _cancel = context.cancel.clone().drop_guard();
    let limit = spec.time_limit.unwrap_or(services.settings.tool_time);
    let running = AssertUnwindSafe(tool.call(call.arguments.clone(), &context)).catch_unwind();
    match tokio::time::timeout(limit, running).await {
        Ok(Ok(Ok(outcome))) => outcome,
        Ok(Ok(Err(error))) => ToolOutcome::of_failure(error.to_string()),
        Ok(Err(_panic)) => {
            tracing::error!(call.id = %call.id, tool = spec.name, "a tool panicked");
            ToolOutcome::of_failure(format!("`{}` broke down; this is a fault of the tool", spec.name))
        }
        Err(_) => {
            ToolOutcome::of_failure(format!("`{}` took longer than {} s and was stopped", spec.name, limit.as_secs()))
        }
    }
}
