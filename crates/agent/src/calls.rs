//! Runs the tools that the model asked for, at once, and records what each yields.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use satchel_domain::{Attachment, AttachmentSource, CallId, Sender, ToolCall, ToolOutcome, TurnId, size};
use satchel_ports::{
    BusEvent, LedgerError, OutcomeReader, SafetyTier, Tool, ToolCaller, ToolContext, ToolSpec,
    ledger::{AttachmentQuery, usage::QuotaExceeded},
};
use satchel_routing::retry::retry_until_stored;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentServices, LaneHandle,
    confirm::{AnswerDeadline, ConfirmOutcome, Confirmations, confirm},
    nested::NestedToolCaller,
    prompt::describe_file,
    rounds::{OUTCOME_UNKNOWN, Rounds},
    run::publish,
    script_turn,
};

/// How long calls have to hand over what they had made, once their turn is stopped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Whether this process asked for a call itself or found it in the journal of one that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrigin {
    /// The model has just asked for it.
    Fresh,
    /// It may have run already, unless it had to wait for a person's word.
    Resumed {
        /// What is known of the person's word that it waited for; `None` where it waited for none.
        word: Option<RecordedDecision>,
    },
}

/// A person's word about a call, as the journal has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedDecision {
    /// The call had not begun.
    Pending,
    /// The call may have begun.
    Allowed,
    /// The call never begins.
    Refused,
}

/// What the calls of a turn have in common.
#[derive(Debug, Clone)]
pub struct CallScope {
    pub requester: Sender,
    /// Whether others can read along.
    pub group: bool,
    /// What people say about calls that wait for their word.
    pub words: Confirmations,
    /// The files that came with the turn.
    pub inbound: Arc<[Attachment]>,
    /// The call that a person wrote and no model asked for: the script that their message is.
    pub written: Option<CallId>,
    /// Cancelled when the turn ends or is stopped.
    pub cancel: CancellationToken,
    /// Whether the turn is complete; closed before it is where the turn is taken up again, by whoever has the lane then.
    pub completed: watch::Receiver<bool>,
}

/// Runs all calls at once. Each outcome is recorded when it is there, in `rounds` too, so that what is gathered is not
/// lost when this is dropped.
///
/// Once the turn is stopped no call begins, and one that runs has a moment to yield what it had made: only then it is
/// given up, without an outcome.
///
/// # Errors
/// When an outcome can't be recorded. A tool that fails, panics or takes too long is no error: the model is told.
pub async fn run_calls(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    calls: Vec<ToolCall>,
    origin: CallOrigin,
    rounds: &mut Rounds,
) -> Result<(), LedgerError> {
    if scope.cancel.is_cancelled() {
        return Ok(());
    }
    let started = |call: ToolCall| {
        let ordinal = call.id.ordinal;
        let word = match rounds.decided.get(&ordinal) {
            Some(true) => Some(RecordedDecision::Allowed),
            Some(false) => Some(RecordedDecision::Refused),
            None => rounds.awaiting_decision.contains(&ordinal).then_some(RecordedDecision::Pending),
        };
        let origin = if origin == CallOrigin::Fresh { origin } else { CallOrigin::Resumed { word } };
        run_and_record(services, lane, scope, call, origin)
    };
    let mut running: FuturesUnordered<_> = calls.into_iter().map(started).collect();
    while let Some(finished) = running.next().await {
        if let Some((ordinal, outcome)) = finished? {
            rounds.outcomes.insert(ordinal, outcome);
        }
    }
    Ok(())
}

async fn run_and_record(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: ToolCall,
    origin: CallOrigin,
) -> Result<Option<(u32, ToolOutcome)>, LedgerError> {
    let conversation = lane.lease.conversation.clone();
    let tool = call.name.clone();
    publish(services, BusEvent::ToolStarted { conversation: conversation.clone(), call: call.id, tool: tool.clone() })
        .await;
    let grace_over = async {
        scope.cancel.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    let outcome = tokio::select! {
        biased;
        outcome = execute_call(services, lane, scope, &call, origin) => outcome?,
        () = grace_over => None,
    };
    let Some(outcome) = outcome else { return Ok(None) };
    // It has happened, so that it is recorded whether the turn goes on or not.
    let recorded = match record(services, lane, &call, &outcome).await {
        // The call has happened; of what it yielded everything is kept but the files.
        Err(LedgerError::QuotaExceeded(exceeded)) => {
            record(services, lane, &call, &without_new_files(outcome, &exceeded)).await
        }
        recorded => recorded,
    };
    let outcome = match recorded {
        // A file that the ledger doesn't take as one of this conversation: the tool is at fault, and the turn goes on.
        Err(LedgerError::Unknown { what }) => {
            let refused = ToolOutcome::from_failure(format!(
                "`{tool}` returned something that this conversation doesn't have: {what}"
            ));
            record(services, lane, &call, &refused).await?
        }
        recorded => recorded?,
    };
    let failed = outcome.failed;
    publish(services, BusEvent::ToolFinished { conversation, call: call.id, tool, failed }).await;
    Ok(Some((call.id.ordinal, outcome)))
}

/// An outcome without the files for which there is no room; it names them.
fn without_new_files(outcome: ToolOutcome, exceeded: &QuotaExceeded) -> ToolOutcome {
    let ToolOutcome { text, mut attachments, mut selection, .. } = outcome.clone();
    let mut names = Vec::new();
    for files in [Some(&mut attachments), selection.as_mut()].into_iter().flatten() {
        files.retain(|file| {
            if file.number == 0 {
                names.push(format!("{:?} ({})", file.filename.as_str(), size::format_bytes(file.bytes)));
            }
            file.number > 0
        });
    }
    let refused = format!("Error: {} could not be stored, so it is not delivered: {exceeded}", names.join(", "));
    let text = text.into_iter().chain([refused]).collect::<Vec<_>>().join("\n");
    ToolOutcome { attachments, selection, ..ToolOutcome { text: Some(text), failed: true, ..outcome } }
}

/// Records what a call has yielded. It has happened already, so the ledger is asked until it takes it.
async fn record(
    services: &AgentServices,
    lane: &LaneHandle,
    call: &ToolCall,
    outcome: &ToolOutcome,
) -> Result<ToolOutcome, LedgerError> {
    retry_until_stored(&lane.stop, || {
        services.ledger.journal_outcome(&lane.lease, call.id.turn, call.id.ordinal, outcome)
    })
    .await
}

/// What a call yields; `None` where it did not begin, since the turn was stopped.
async fn execute_call(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    origin: CallOrigin,
) -> Result<Option<ToolOutcome>, LedgerError> {
    let (spec, tool) = match find_permitted_tool(services, scope, call) {
        Ok(admitted) => admitted,
        Err(words) => return Ok(Some(ToolOutcome::from_failure(words))),
    };
    match decide_action(spec.tier, needs_confirmation(services, scope, call.id, spec), origin) {
        CallAction::Run => {}
        CallAction::Confirm => match confirm(services, lane, scope, call, spec, AnswerDeadline::ConfirmTime).await? {
            ConfirmOutcome::Allowed => {}
            ConfirmOutcome::Refused(words) => return Ok(Some(ToolOutcome::from_failure(words))),
        },
        CallAction::Refuse => return Ok(Some(ToolOutcome::from_failure("the person refused this call"))),
        CallAction::OutcomeUnknown => {
            let made = list_turn_files(services, call.id.turn).await?;
            return Ok(Some(ToolOutcome::from_failure(match scope.written == Some(call.id) {
                true => script_turn::interrupted_message(&made),
                false => interrupted_message(&spec.name, &made),
            })));
        }
    }
    // A stop may have come together with the person's word.
    if scope.cancel.is_cancelled() {
        return Ok(None);
    }
    let others: Arc<dyn ToolCaller> = Arc::new(NestedToolCaller::new(services, lane, scope, call.id));
    Ok(Some(perform_call(services, lane, scope, call, spec, tool.as_ref(), Some(others)).await))
}

/// The tool of a call that may be made here at all, or why it may not, in words for the model.
pub(crate) fn find_permitted_tool<'a>(
    services: &'a AgentServices,
    scope: &CallScope,
    call: &ToolCall,
) -> Result<(&'a ToolSpec, &'a Arc<dyn Tool>), String> {
    let Some((spec, tool)) = services.tools.find(&call.name) else {
        let known: Vec<String> = services.tools.specs().iter().map(|spec| spec.name.clone()).collect();
        return Err(format!("there is no tool `{}`; there are: {}", call.name, known.join(", ")));
    };
    if spec.tier == SafetyTier::Privileged && scope.group && !services.settings.privileged_in_groups {
        return Err(format!("`{}` can't be used in a chat that other people can read", spec.name));
    }
    if !matches!(call.arguments, Value::Object(_)) {
        return Err(format!("the arguments of `{}` must be a JSON object", spec.name));
    }
    Ok((spec, tool))
}

/// The files that the turn's calls have registered, the oldest first. Of those that a call had made before it was
/// interrupted, nobody else tells.
pub(crate) async fn list_turn_files(services: &AgentServices, turn: TurnId) -> Result<Vec<Attachment>, LedgerError> {
    let query = AttachmentQuery { turn: Some(turn), ..AttachmentQuery::default() };
    let files = services.ledger.attachments(&query).await?;
    Ok(files.into_iter().rev().filter(|file| file.source != AttachmentSource::User).collect())
}

/// What a model is told of a call that may have run.
fn interrupted_message(tool: &str, made: &[Attachment]) -> String {
    let made = match made {
        [] => String::new(),
        files => {
            format!(". Files of this turn so far: {}", files.iter().map(describe_file).collect::<Vec<_>>().join("; "))
        }
    };
    format!(
        "{OUTCOME_UNKNOWN}Satchel was interrupted while `{tool}` ran. It may have taken effect and is not repeated \
         automatically; check before you request it again{made}"
    )
}

/// Whether a call of this tool needs a person's word; of a call within another, `by` is the outer one. Everybody who has
/// to know asks here: a call that the journal has as waiting for a word, and that began without one, would run twice.
pub(crate) fn needs_confirmation(services: &AgentServices, scope: &CallScope, by: CallId, spec: &ToolSpec) -> bool {
    let is_trusted = services.settings.trust_written_scripts && scope.written == Some(by);
    services.settings.confirm.contains(&spec.tier) && !is_trusted
}

/// What comes first for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallAction {
    Run,
    /// A person must allow it.
    Confirm,
    /// A person has refused it.
    Refuse,
    /// It may have run when its process died, and may not run twice.
    OutcomeUnknown,
}

fn decide_action(tier: SafetyTier, asks: bool, origin: CallOrigin) -> CallAction {
    match origin {
        CallOrigin::Fresh if asks => CallAction::Confirm,
        CallOrigin::Resumed { word: Some(RecordedDecision::Pending) } => CallAction::Confirm,
        CallOrigin::Resumed { word: Some(RecordedDecision::Refused) } => CallAction::Refuse,
        // One that began without a word is not repeated either, whatever the settings ask for now.
        CallOrigin::Resumed { .. } if tier != SafetyTier::ReadOnly => CallAction::OutcomeUnknown,
        CallOrigin::Fresh | CallOrigin::Resumed { .. } => CallAction::Run,
    }
}

/// Makes a call that may be made. `others` is its way to the other tools; a call that has none was made by a tool.
pub(crate) async fn perform_call(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    spec: &ToolSpec,
    tool: &dyn Tool,
    others: Option<Arc<dyn ToolCaller>>,
) -> ToolOutcome {
    let reader = match &others {
        None => OutcomeReader::Program,
        Some(_) if scope.written == Some(call.id) => OutcomeReader::Person,
        Some(_) => OutcomeReader::Model,
    };
    let context = ToolContext {
        conversation: lane.lease.conversation.clone(),
        call: call.id,
        requester: scope.requester.clone(),
        inbound: Arc::clone(&scope.inbound),
        cancel: scope.cancel.child_token(),
        tools: others,
        reader,
    };
    // Cancelled when this future is dropped too, so that no work of the tool's own outlives the call.
    let _cancel = context.cancel.clone().drop_guard();
    let limit = spec.time_limit.unwrap_or(services.settings.tool_time);
    let running = AssertUnwindSafe(tool.call(call.arguments.clone(), &context)).catch_unwind();
    match tokio::time::timeout(limit, running).await {
        Ok(Ok(Ok(outcome))) => outcome,
        Ok(Ok(Err(error))) => ToolOutcome::from_failure(error.to_string()),
        Ok(Err(_panic)) => {
            tracing::error!(call.id = %call.id, tool = spec.name, "a tool panicked");
            ToolOutcome::from_failure(format!("`{}` crashed; this is a fault in the tool", spec.name))
        }
        Err(_) => {
            ToolOutcome::from_failure(format!("`{}` took longer than {} s and was stopped", spec.name, limit.as_secs()))
        }
    }
}
