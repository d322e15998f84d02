//! Runs the tool calls that the model requested, in their order, and records each outcome.

mod order;
mod resumed;

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use satchel_domain::{
    Attachment, AttachmentSource, CallId, NewAttachment, OutcomeFile, RecordedOutcome, Sender, ToolCall, ToolOutcome,
    TurnId, WorkShare, size,
};
use satchel_ports::{
    BusEvent, ChangeLog, FileChange, LedgerError, OutcomeReader, SafetyTier, Tool, ToolCaller, ToolContext, ToolSpec,
    ledger::{AttachmentQuery, JournalEntry, QueuedTurn, QuotaExceeded},
};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::resumed::{CallOrigin, RecordedDecision};
pub(crate) use self::resumed::{abandon_calls, resumed_calls};
use self::{
    order::{CallEffect, CallGate, CallSlot, CallSteps, plan_slots},
    resumed::possible_changes,
};
use crate::{
    AgentProfile, AgentServices, LaneHandle,
    call_requester::CallRequester,
    call_tracker::{CallTracker, retry_until_drained},
    confirm::{AnswerDeadline, ConfirmOutcome, Confirmations, confirm_call},
    nested::NestedToolCaller,
    prompt::describe_file,
    rounds::Rounds,
    run::publish,
    script_turn,
};

/// How long calls may take to return partial results once their turn is stopped.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// What the calls of a turn have in common.
#[derive(Debug, Clone)]
pub struct CallScope {
    /// The turn's agent, whose tools can be called.
    pub agent: Arc<AgentProfile>,
    /// The person whose text the model has read last.
    pub requester: Sender,
    /// For whom workers do the work of the calls.
    pub work_share: WorkShare,
    /// Whether others can read along.
    pub group: bool,
    /// Whether the model has read texts of others too.
    pub is_shared: bool,
    /// Whether a schedule or a reminder has started the turn, and no person has written into it since.
    pub scheduled: bool,
    /// People's decisions about calls that wait for one.
    pub confirmations: Confirmations,
    /// The files that came with the turn.
    pub inbound: Arc<[Attachment]>,
    /// The call that runs a script sent as a message, which no model requested.
    pub script_call: Option<CallId>,
    /// The turns queued behind the turn that belong to it.
    pub joins: watch::Receiver<Vec<TurnId>>,
    /// The calls that may end when the process stops.
    pub tracker: CallTracker,
    /// Cancelled when the turn ends or is stopped.
    pub cancel: CancellationToken,
}

impl CallScope {
    /// The scope of the calls that the model has requested last: for the person whose text it has read last.
    pub(crate) fn for_latest_calls(&self, turn: &QueuedTurn, rounds: &Rounds) -> Self {
        let CallRequester { person, is_shared, is_scheduled, work_share } = CallRequester::find(turn, rounds);
        let work_share = work_share.unwrap_or_else(|| self.work_share.clone());
        Self { requester: person, work_share, is_shared, scheduled: is_scheduled, ..self.clone() }
    }
}

/// Runs the calls of one message: those that may change something one after the other, in the model's order, and those
/// that only read side by side, but neither before the calls that must end first. Each outcome is recorded as it arrives,
/// in `rounds` too, so that dropping the future loses none of them.
///
/// Once the turn is stopped, no call starts, and a running one has a short time to return what it has. After that it
/// is dropped, without an outcome.
///
/// Once the process stops, no call starts but one that counts as started by its record. The next process makes the others,
/// for which this waits until it is dropped or the turn is stopped.
///
/// # Errors
/// When an outcome can't be recorded. A tool that fails, panics or times out is not an error: the model gets a failure.
pub async fn run_calls(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    calls: Vec<(ToolCall, CallOrigin)>,
    rounds: &mut Rounds,
) -> Result<(), LedgerError> {
    if scope.cancel.is_cancelled() {
        abandon_calls(scope, &calls, rounds);
        return Ok(());
    }
    let slots = plan_slots(calls.iter().enumerate().map(|(index, (call, _))| {
        let tier = call_tier(scope, call);
        // Otherwise the decision counts as the start of the call, which must be able to run at once.
        let can_wait_once_allowed =
            index == 0 || tier == SafetyTier::ReadOnly || rounds.unrecorded_starts.contains(&call.id.ordinal);
        let asks_early = can_wait_once_allowed && needs_confirmation(services, scope, call.id, tier);
        CallEffect { tier, asks_early }
    }));
    let mut steps = CallSteps::new(&slots);
    let start_call = |((call, origin), slot): ((ToolCall, CallOrigin), CallSlot)| {
        let only_reads = call_tier(scope, &call) == SafetyTier::ReadOnly;
        let records_start = rounds.unrecorded_starts.contains(&call.id.ordinal);
        // The next process would not make a call that counts as started.
        let process_stop = if only_reads || records_start { lane.stop.clone() } else { CancellationToken::new() };
        let gate = steps.gate(slot, &scope.tracker, process_stop);
        let progress = CallProgress::new(gate, origin, records_start);
        let active = scope.tracker.track();
        async move {
            let end = run_and_record(services, lane, scope, call, origin, progress).await;
            drop(active);
            (slot, end)
        }
    };
    let mut running: FuturesUnordered<_> = calls.into_iter().zip(slots).map(start_call).collect();
    while let Some((slot, finished)) = running.next().await {
        match finished? {
            CallEnd::Recorded(ordinal, outcome) => {
                rounds.outcomes.insert(ordinal, *outcome);
            }
            CallEnd::CutOff(changes) => rounds.unrecorded_changes.extend(changes),
            CallEnd::Unstarted(ordinal) => {
                rounds.unstarted.insert(ordinal);
            }
        }
        steps.finish_call(slot.run_step);
    }
    Ok(())
}

/// How a call ended.
enum CallEnd {
    /// With an outcome, recorded under this ordinal.
    Recorded(u32, Box<RecordedOutcome>),
    /// Without an outcome, because the turn was stopped; its changes are recorded at the turn's end.
    CutOff(Vec<FileChange>),
    /// The call with this ordinal never ran, because the turn was stopped before.
    Unstarted(u32),
}

async fn run_and_record(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: ToolCall,
    origin: CallOrigin,
    progress: CallProgress,
) -> Result<CallEnd, LedgerError> {
    // Never finished, since how they ended is unknown.
    possible_changes(scope, &call, origin).into_iter().for_each(|change| drop(progress.changes.start(change)));
    if !progress.gate.wait_for_question_step(&scope.cancel).await {
        return Ok(progress.end_without_outcome(&call));
    }
    let conversation = lane.lease.conversation.clone();
    let tool = call.name.clone();
    publish(services, BusEvent::ToolStarted { conversation: conversation.clone(), call: call.id, tool: tool.clone() })
        .await;
    let grace_elapsed = async {
        scope.cancel.cancelled().await;
        tokio::time::sleep(STOP_GRACE).await;
    };
    let outcome = tokio::select! {
        biased;
        outcome = execute_call(services, lane, scope, &call, origin, &progress) => outcome?,
        () = grace_elapsed => None,
    };
    let Some(outcome) = outcome else { return Ok(progress.end_without_outcome(&call)) };
    let changes = progress.changes.to_vec();
    let notices = outcome.notices.clone();
    // It has happened, so it is recorded whether the turn continues or not.
    let recorded = match record_outcome(services, lane, &call, &outcome, &changes).await {
        // The call has happened: everything but its new files is recorded.
        Err(LedgerError::QuotaExceeded(exceeded)) => {
            record_outcome(services, lane, &call, &drop_new_files(outcome, &exceeded), &changes).await
        }
        recorded => recorded,
    };
    let outcome = match recorded {
        // The ledger knows no such file in this conversation: the tool is at fault, and the turn continues.
        Err(LedgerError::Unknown { item: what }) => {
            let reason = format!("`{tool}` returned something that this conversation doesn't have: {what}");
            let failure = ToolOutcome { notices, ..ToolOutcome::from_failure(reason) };
            record_outcome(services, lane, &call, &failure, &changes).await?
        }
        recorded => recorded?,
    };
    if scope.confirmations.has_opened_questions() || origin != CallOrigin::Fresh {
        // It may have closed a question, also one that an earlier process has opened.
        lane.delivery.wake();
    }
    let failed = outcome.failed;
    publish(services, BusEvent::ToolFinished { conversation, call: call.id, tool, failed }).await;
    Ok(CallEnd::Recorded(call.id.ordinal, Box::new(outcome)))
}

/// Removes the new files, for which there is no quota, from an outcome and names them in its text.
fn drop_new_files(mut outcome: ToolOutcome, exceeded: &QuotaExceeded) -> ToolOutcome {
    let name = |file: &NewAttachment| format!("{:?} ({})", file.filename.as_str(), size::format_bytes(file.bytes));
    let names: Vec<String> = outcome.new_files().iter().map(name).collect();
    let is_known = |file: &OutcomeFile| matches!(file, OutcomeFile::Stored(_));
    outcome.attachments.retain(is_known);
    outcome.viewed_files.retain(|viewed| is_known(&viewed.file));
    outcome.selection.iter_mut().for_each(|files| files.retain(is_known));
    let reason = format!("Error: {} could not be stored and will not be delivered: {exceeded}", names.join(", "));
    let text = outcome.text.into_iter().chain([reason]).collect::<Vec<_>>().join("\n");
    ToolOutcome { text: Some(text), failed: true, ..outcome }
}

/// Records the outcome of a call. The call has already happened, so recording is retried until it succeeds, also while the
/// process stops, as long as that waits for running calls.
async fn record_outcome(
    services: &AgentServices,
    lane: &LaneHandle,
    call: &ToolCall,
    outcome: &ToolOutcome,
    changes: &[FileChange],
) -> Result<RecordedOutcome, LedgerError> {
    retry_until_drained(|| services.turns.journal_outcome(&lane.lease, call.id.turn, call.id.ordinal, outcome, changes))
        .await
}

/// How far a call has come.
struct CallProgress {
    gate: CallGate,
    /// Whether its start is recorded: without that record the next process makes the call.
    records_start: bool,
    /// Whether it may have had an effect, in this process or in one before.
    has_started: AtomicBool,
    changes: ChangeLog,
}

impl CallProgress {
    fn new(gate: CallGate, origin: CallOrigin, records_start: bool) -> Self {
        let has_started = AtomicBool::new(origin.may_have_started());
        Self { gate, records_start, has_started, changes: ChangeLog::default() }
    }

    /// How the call ended if it has no outcome.
    fn end_without_outcome(&self, call: &ToolCall) -> CallEnd {
        match self.has_started.load(Ordering::Relaxed) {
            true => CallEnd::CutOff(self.changes.to_vec()),
            false => CallEnd::Unstarted(call.id.ordinal),
        }
    }
}

/// Executes a call once it may run; `None` where it did not start because the turn was stopped.
async fn execute_call(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    origin: CallOrigin,
    CallProgress { gate, records_start, has_started, changes }: &CallProgress,
) -> Result<Option<ToolOutcome>, LedgerError> {
    let tier = call_tier(scope, call);
    let action = decide_action(call, tier, needs_confirmation(services, scope, call.id, tier), origin);
    // The journal alone decides about a resumed call: its tool may be gone since, not be there yet, or no longer be
    // permitted.
    match action {
        CallAction::Run | CallAction::Confirm => {}
        CallAction::Refuse => return Ok(Some(ToolOutcome::from_failure("the person refused this call"))),
        CallAction::OutcomeUnknown => {
            let files = retry_until_drained(|| list_turn_files(services, call.id.turn)).await?;
            return Ok(Some(interrupted_outcome(scope, call, &files)));
        }
    }
    let (spec, tool) = match find_permitted_tool(services, scope, call) {
        Ok(permitted) => permitted,
        Err(reason) => return Ok(Some(ToolOutcome::from_failure(reason))),
    };
    if action == CallAction::Confirm
        && let ConfirmOutcome::Refused(reason) =
            confirm_call(services, lane, scope, call, tool.as_ref(), AnswerDeadline::ConfirmTime).await?
    {
        return Ok(Some(ToolOutcome::from_failure(reason)));
    }
    // A stop may have arrived together with the person's decision.
    if !gate.wait_for_run_step(&scope.cancel).await {
        return Ok(None);
    }
    if *records_start {
        let entry = JournalEntry::CallStarted { ordinal: call.id.ordinal };
        retry_until_drained(|| services.turns.journal_message(&lane.lease, call.id.turn, &entry)).await?;
        if scope.cancel.is_cancelled() {
            return Ok(None);
        }
    }
    has_started.store(true, Ordering::Relaxed);
    let tool_caller: Arc<dyn ToolCaller> = Arc::new(NestedToolCaller::new(services, lane, scope, call.id, changes));
    Ok(Some(perform_call(services, lane, scope, call, (spec, tool.as_ref()), changes, Some(tool_caller)).await))
}

/// The ordinals of the calls that may change something.
pub(crate) fn list_changing_calls(scope: &CallScope, calls: &[ToolCall]) -> Vec<u32> {
    let may_change = |call: &&ToolCall| call_tier(scope, call) != SafetyTier::ReadOnly;
    calls.iter().filter(may_change).map(|call| call.id.ordinal).collect()
}

/// The tier of a call. A tool that isn't there may change anything.
fn call_tier(scope: &CallScope, call: &ToolCall) -> SafetyTier {
    let tool = scope.agent.tools.find(&call.name).map(|(_, tool)| tool);
    tool.map_or(SafetyTier::SideEffecting, |tool| tool.tier(&call.arguments))
}

/// Finds the tool of a call that is permitted here; otherwise returns the reason, as text for the model.
pub(crate) fn find_permitted_tool<'a>(
    services: &AgentServices,
    scope: &'a CallScope,
    call: &ToolCall,
) -> Result<(&'a ToolSpec, &'a Arc<dyn Tool>), String> {
    let Some((spec, tool)) = scope.agent.tools.find(&call.name) else {
        let names: Vec<String> = scope.agent.tools.specs().iter().map(|spec| spec.name.clone()).collect();
        return Err(format!("there is no tool `{}`; there are: {}", call.name, names.join(", ")));
    };
    if !has_valid_arguments(call) {
        return Err(format!("the arguments of `{}` must be a JSON object", spec.name));
    }
    let is_privileged = tool.tier(&call.arguments) == SafetyTier::Privileged;
    if is_privileged && (scope.group || scope.is_shared) && !services.settings.privileged_in_groups {
        let way = if spec.tier == SafetyTier::Privileged { "" } else { " in this way" };
        return Err(format!("`{}` can't be used{way} in a chat that other people can read", spec.name));
    }
    Ok((spec, tool))
}

fn has_valid_arguments(call: &ToolCall) -> bool {
    matches!(call.arguments, Value::Object(_))
}

/// The files that the turn's calls have registered, the oldest first. Nothing else lists those of an interrupted call.
pub(crate) async fn list_turn_files(services: &AgentServices, turn: TurnId) -> Result<Vec<Attachment>, LedgerError> {
    let query = AttachmentQuery { turn: Some(turn), ..AttachmentQuery::default() };
    let files = services.archive.attachments(&query).await?;
    Ok(files.into_iter().rev().filter(|file| file.source != AttachmentSource::User).collect())
}

/// The outcome of a call that may have run, for the model, or for people where it runs their script.
fn interrupted_outcome(scope: &CallScope, call: &ToolCall, files: &[Attachment]) -> ToolOutcome {
    if scope.script_call == Some(call.id) {
        let text = script_turn::interrupted_message(files);
        return ToolOutcome { unknown: true, ..ToolOutcome::from_failure(text) };
    }
    let file_list = match files {
        [] => String::new(),
        files => {
            format!(". Files of this turn so far: {}", files.iter().map(describe_file).collect::<Vec<_>>().join("; "))
        }
    };
    let tool = scope.agent.tools.find(&call.name).map_or(call.name.as_str(), |(spec, _)| spec.name.as_str());
    ToolOutcome::from_unknown(format_args!(
        "Satchel was interrupted while `{tool}` ran. It may have taken effect and is not repeated automatically; check \
         before you request it again{file_list}"
    ))
}

/// Whether a call of this tier needs a person's decision; for a nested call, `top_level_call` is the outer one. This is
/// the only place that decides it: a call that the journal has as pending, but that started, would run twice.
pub(crate) fn needs_confirmation(
    services: &AgentServices,
    scope: &CallScope,
    top_level_call: CallId,
    tier: SafetyTier,
) -> bool {
    let is_trusted = services.settings.trust_written_scripts && scope.script_call == Some(top_level_call);
    services.settings.confirm_tiers.contains(&tier) && !is_trusted
}

/// What is done first for a call.
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

fn decide_action(call: &ToolCall, tier: SafetyTier, must_confirm: bool, origin: CallOrigin) -> CallAction {
    match origin {
        // No process starts it, whatever its tool is.
        _ if !has_valid_arguments(call) => CallAction::Run,
        CallOrigin::Fresh if must_confirm => CallAction::Confirm,
        CallOrigin::Resumed { decision: Some(RecordedDecision::Pending), .. } => CallAction::Confirm,
        CallOrigin::Resumed { decision: Some(RecordedDecision::Refused), .. } => CallAction::Refuse,
        CallOrigin::Resumed { decision: None, may_have_started: false } if must_confirm => CallAction::Confirm,
        // A call that started without a decision is not repeated either, whatever the settings require now.
        CallOrigin::Resumed { may_have_started: true, .. } if tier != SafetyTier::ReadOnly => {
            CallAction::OutcomeUnknown
        }
        CallOrigin::Fresh | CallOrigin::Resumed { .. } => CallAction::Run,
    }
}

/// Makes a permitted call. `tool_caller` lets it call other tools; `None` for a call that a tool makes.
pub(crate) async fn perform_call(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    (spec, tool): (&ToolSpec, &dyn Tool),
    changes: &ChangeLog,
    tool_caller: Option<Arc<dyn ToolCaller>>,
) -> ToolOutcome {
    let reader = match &tool_caller {
        None => OutcomeReader::Program,
        Some(_) if scope.script_call == Some(call.id) => OutcomeReader::Person,
        Some(_) => OutcomeReader::Model,
    };
    let context = ToolContext {
        conversation: lane.lease.conversation.clone(),
        call: call.id,
        tool: spec.name.clone(),
        requester: scope.requester.clone(),
        work_share: scope.work_share.clone(),
        group: scope.group,
        is_shared: scope.is_shared,
        scheduled: scope.scheduled,
        is_written_script: scope.script_call.is_some_and(|script| call.id == script || call.id.is_nested_in(script)),
        inbound: Arc::clone(&scope.inbound),
        cancel: scope.cancel.child_token(),
        tools: tool_caller,
        reader,
        vault: None,
        changes: changes.clone(),
        clock: Arc::clone(&services.clock),
        ids: Arc::clone(&services.ids),
    };
    // Cancelled when this future is dropped too, so that no work of the tool's own outlives the call.
    let _cancel = context.cancel.clone().drop_guard();
    let limit = spec.time_limit.unwrap_or(services.settings.tool_timeout);
    let execution = AssertUnwindSafe(tool.call(call.arguments.clone(), &context)).catch_unwind();
    match tokio::time::timeout(limit, execution).await {
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use satchel_domain::{AttachmentId, Filename, Sha256, StoredBlob, Timestamp};
    use satchel_ports::ledger::QuotaScope;
    use uuid::Uuid;

    use super::*;

    fn new_file(id: u128, name: &str) -> NewAttachment {
        let stored =
            StoredBlob { sha256: Sha256([7; 32]), bytes: 700, mime: "text/plain".into(), media: Default::default() };
        let (id, name) = (AttachmentId(Uuid::from_u128(id)), Filename::from_untrusted(name));
        NewAttachment::new(id, AttachmentSource::Tool, name, stored, Timestamp(0))
    }

    /// Mutation: a call that was repeated after a crash, and cut off before it ran again, "has changed nothing".
    #[test]
    fn call_that_a_dead_process_may_have_started_is_cut_off() {
        let id = CallId { turn: TurnId(Uuid::from_u128(1)), ordinal: 0 };
        let call = ToolCall { id, name: "look".into(), arguments: serde_json::json!({}) };
        let slots = plan_slots([CallEffect { tier: SafetyTier::ReadOnly, asks_early: false }]);
        let steps = CallSteps::new(&slots);
        let resumed = |may_have_started| CallOrigin::Resumed { decision: None, may_have_started };
        for (origin, is_cut_off) in [(CallOrigin::Fresh, false), (resumed(false), false), (resumed(true), true)] {
            let gate = steps.gate(slots[0], &CallTracker::default(), CancellationToken::new());
            let end = CallProgress::new(gate, origin, false).end_without_outcome(&call);
            assert_eq!(matches!(end, CallEnd::CutOff(_)), is_cut_off, "{origin:?}");
        }
    }

    #[test]
    fn file_over_quota_is_named_once() {
        let known: OutcomeFile =
            new_file(1, "old.txt").numbered("console:main".parse().unwrap(), NonZeroU64::MIN).into();
        let attachments = vec![new_file(2, "a.txt").into(), known.clone(), new_file(3, "a.txt").into()];
        let selection = Some(vec![known.clone(), new_file(2, "a.txt").into(), new_file(4, "b.txt").into()]);
        let exceeded = QuotaExceeded { scope: QuotaScope::Conversation, used: 0, quota: 500, needed: 700 };
        let outcome =
            drop_new_files(ToolOutcome { attachments, selection, ..ToolOutcome::from_text("made") }, &exceeded);
        assert!(outcome.failed);
        assert_eq!((outcome.attachments, outcome.selection), (vec![known.clone()], Some(vec![known])));
        let text = outcome.text.unwrap();
        let names = r#"Error: "a.txt" (700 B), "a.txt" (700 B), "b.txt" (700 B) could not be stored"#;
        assert!(text.starts_with("made\n") && text.contains(names), "{text}");
    }
}
