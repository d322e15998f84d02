//! One turn from its queue entry to its commit.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use satchel_domain::{
    CallId, Ending, InboxId, OutgoingResponse, TaskRequest, ToolCall, WorkShare,
    fold::{EMPTY_RESPONSE_TEXT, InterimText, fold, with_earlier_files, with_interim_texts, with_voice_reply},
};
use satchel_ports::{
    Activity, BusEvent, LedgerError, ModelMessage, ModelRequest,
    ledger::{HistoryChange, ImmediateReply, JournalEntry, QueuedMessage, QueuedTurn, SteeringRequests},
};
use satchel_routing::retry::retry_until_stored;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentServices, LaneHandle, SteeringMode,
    block_offer::{BlocksOffer, offer_blocks},
    call_requester::CallRequester,
    call_tracker::CallTracker,
    calls::{
        CallOrigin, CallScope, abandon_calls, list_changing_calls, list_turn_files, needs_confirmation, resumed_calls,
        run_calls,
    },
    complete::{TurnResult, append_refused_files, complete_turn},
    confirm::Confirmations,
    documents::document_messages,
    draft::{DeltaSink, reply_to},
    heading::HeadingContext,
    joining::{ArrivalSignals, join_turns, joins_messages, try_join, wait_for_followers},
    model::call_model,
    notices::append_notices,
    prompt,
    rounds::{self, Round, Rounds},
    script_turn::{self, allows_empty_reply},
    tasks, voice_notes,
};

/// After how many crashes of its process a turn is given up.
pub const MAX_CRASHES: u32 = 3;

/// How often a running turn polls for a `/stop` in case no wake-up arrived.
const STOP_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// What a message that stops a turn says.
const STOP_TEXT: &str = "/stop";

/// How long a turn runs before activity is shown.
const ACTIVITY_DELAY: Duration = Duration::from_millis(300);

/// How often activity is shown again; platforms hide it after five seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// How the work on a turn ended.
pub(crate) struct LoopEnd {
    pub(crate) ending: Ending,
    /// The `/stop` that ended it; the turn consumes it.
    stop: Option<InboxId>,
    /// Whether only this run of the turn has ended: it has more messages now, and starts again with them.
    starts_again: bool,
}

impl LoopEnd {
    pub(crate) fn new(ending: Ending) -> Self {
        Self { ending, stop: None, starts_again: false }
    }

    fn stopped_by(stop: InboxId) -> Self {
        Self { stop: Some(stop), ..Self::new(Ending::Cancelled) }
    }

    fn with_more_messages() -> Self {
        Self { starts_again: true, ..Self::new(Ending::Done) }
    }
}

/// What a model is first asked.
pub(crate) struct Opening {
    pub(crate) request: ModelRequest,
    /// The task that it is asked for. Messages that arrive later don't reach its model.
    pub(crate) task: Option<String>,
}

/// Runs a turn whose files are all stored or refused, and commits it. With `task`, it runs that in place of a
/// conversation.
///
/// When the lane is drained, the calls that run may end, no model is called any more, and the turn stays in the ledger and
/// continues from there. The same holds when the future is dropped, but then calls, and an edit or a commit in flight, are
/// cut off and in doubt.
///
/// When messages join the turn before anything of its reply is recorded or shown, it stays in the ledger with them, and the
/// lane is [`woken`](LaneHandle::woken).
///
/// # Errors
/// When the ledger fails or the lease is lost. Every other failure is part of the response.
pub async fn run_turn(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: QueuedTurn,
    task: Option<&TaskRequest>,
) -> Result<(), LedgerError> {
    let cancel = CancellationToken::new();
    let _cancel = cancel.clone().drop_guard();
    let signals = ArrivalSignals::default();
    let mut rounds = Rounds::from_journal(&turn.journal);
    let agent = match task {
        Some(request) => tasks::current_agent(services, request, &rounds),
        None => services.agents.for_resumed(&turn, rounds.recorded_agent.as_deref()),
    };
    let agent = agent.unwrap_or_else(|| services.agents.for_turn(&turn));
    let CallRequester { person, is_shared, is_scheduled, work_share } = CallRequester::find(&turn, &rounds);
    let scope = CallScope {
        requester: person,
        work_share: work_share.unwrap_or_else(|| WorkShare::from_conversation(lane.lease.conversation.clone())),
        group: turn.messages.iter().any(|queued| queued.message.group),
        is_shared,
        scheduled: is_scheduled,
        confirmations: Confirmations::new(signals.decisions.subscribe()),
        joins: signals.joins.subscribe(),
        inbound: rounds::turn_attachments(&turn).into(),
        script_call: script_turn::script_call(&turn, &rounds, &agent.tools),
        agent,
        tracker: CallTracker::default(),
        cancel: cancel.clone(),
    };
    let interim_text = services.settings.interim_text;
    let deltas = DeltaSink::new(services, lane, &turn, interim_text);

    let loop_result = if turn.crashes >= MAX_CRASHES {
        abandon_calls(&scope, &resumed_calls(&rounds), &mut rounds);
        Ok(Some(LoopEnd::new(Ending::Crashed { times: turn.crashes })))
    } else {
        tokio::select! {
            biased;
            result = run_until_stopped(services, lane, &turn, task, &scope, (&signals, &deltas), &mut rounds) => result.map(Some),
            never = show_activity(lane, &scope.confirmations) => match never {},
            () = scope.tracker.wait_until_drained(&lane.stop, services.settings.stop_grace) => Ok(None),
        }
    };
    cancel.cancel();
    if let Err(error @ LedgerError::LeaseLost(_)) = loop_result {
        // The new holder of the lane edits its messages now.
        return Err(error);
    }
    deltas.finish().await;
    let Some(loop_end) = loop_result? else { return Ok(()) };
    if loop_end.starts_again {
        lane.woken.store(true, Ordering::Relaxed);
        return Ok(());
    }
    if loop_end.ending != Ending::Done && rounds.first_interrupted().is_some() {
        rounds.adopt_interrupted_files(retry_until_stored(&lane.stop, || list_turn_files(services, turn.id)).await?);
    }

    let folded = fold(&rounds.texts(), &rounds.outcomes(), &loop_end.ending);
    let folded = with_earlier_files(folded, &rounds.earlier_files(), &loop_end.ending);
    let has_empty_reply = folded.text.as_deref() == Some(EMPTY_RESPONSE_TEXT);
    let is_silent = has_empty_reply && allows_empty_reply(&turn, &rounds);
    let folded = if is_silent { OutgoingResponse::default() } else { folded };
    let folded = if turn.settings.voice_replies { with_voice_reply(folded, &loop_end.ending) } else { folded };
    let response = voice_notes::append_transcription_failure(folded, &turn);
    let response = append_notices(services, lane, &turn, &rounds, response).await?;
    let response = append_refused_files(response, &rounds::refused_files(&turn));
    // Added last, so that a voice does not speak the interim texts.
    let response = match interim_text {
        InterimText::Keep => with_interim_texts(response, &rounds.texts()),
        InterimText::Last => response,
    };
    let capabilities = lane.channel.capabilities(&lane.lease.conversation);
    let offer = offer_blocks(response.text.as_deref(), &capabilities, &turn.settings, services.clock.now());
    let (buttons, setting) = match offer {
        Some(BlocksOffer { button, setting }) => (vec![button], Some(setting)),
        None => (Vec::new(), None),
    };
    let result = TurnResult {
        turn: turn.id,
        response,
        history: HistoryChange::Append(rounds.to_history(&turn, &loop_end.ending)),
        setting,
        ending: loop_end.ending,
        steered: rounds
            .steered_ids()
            .into_iter()
            .chain(scope.confirmations.consumed_messages())
            .chain(loop_end.stop)
            .collect(),
        // An edit that has meanwhile taken the place of the stop is one of a command that was run.
        injected_texts: rounds
            .steered_texts()
            .into_iter()
            .chain(loop_end.stop.map(|stop| (stop, STOP_TEXT.to_owned())))
            .collect(),
        // Nothing was reported to a model that gave no answer, and nothing in a task.
        reported_failures: match rounds.model_answered && task.is_none() {
            true => turn.unreported_failures.iter().map(|error| error.part).collect(),
            false => Vec::new(),
        },
        reply_to: reply_to(&turn),
        buttons,
        changes: std::mem::take(&mut rounds.unrecorded_changes),
        answered: None,
        blocks: turn.settings.blocks,
    };
    complete_turn(services, lane, result).await
}

/// Runs the turn until it ends or the person stops it. Calls that still run then return what they have.
async fn run_until_stopped(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    task: Option<&TaskRequest>,
    scope: &CallScope,
    (signals, deltas): (&ArrivalSignals, &DeltaSink),
    rounds: &mut Rounds,
) -> Result<LoopEnd, LedgerError> {
    let turn_loop = resume_and_run(services, lane, turn, task, scope, rounds, deltas);
    tokio::pin!(turn_loop);
    let stop = tokio::select! {
        biased;
        stop = wait_for_stop(services, lane, turn, signals) => stop?,
        result = &mut turn_loop => return result,
    };
    scope.cancel.cancel();
    let ended = turn_loop.await?;
    // The next run finds the stop, too, and ends with all messages of the turn.
    Ok(if ended.starts_again { ended } else { LoopEnd::stopped_by(stop) })
}

/// Runs the calls that a dead process left behind, then the task, or else the conversation.
async fn resume_and_run(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    task: Option<&TaskRequest>,
    scope: &CallScope,
    rounds: &mut Rounds,
    deltas: &DeltaSink,
) -> Result<LoopEnd, LedgerError> {
    if let Some(end) = refuse_resumption(services, turn, task, rounds) {
        abandon_calls(scope, &resumed_calls(rounds), rounds);
        return Ok(end);
    }
    let pending = resumed_calls(rounds);
    if !pending.is_empty() {
        // A stopped turn doesn't resume its calls: the files that they made are delivered at its end.
        if let Some(stop) = read_steering(services, lane, turn).await?.stop {
            abandon_calls(scope, &pending, rounds);
            return Ok(LoopEnd::stopped_by(stop));
        }
        run_calls(services, lane, scope, pending, rounds).await?;
    }
    if let Some(request) = task {
        return tasks::run_task(services, lane, turn, request, scope, rounds, deltas).await;
    }
    // Downloads and documents may take long, and a stop doesn't wait for them.
    let prepared = async {
        let declared = tasks::agent_attachments(services, lane, turn, &scope.agent).await?;
        Ok((declared, document_messages(services, &scope.agent, turn).await))
    };
    let (declared, documents) = match scope.cancel.run_until_cancelled(prepared).await {
        Some(Ok(prepared)) => prepared,
        Some(Err(end)) => return Ok(end),
        None => return Ok(LoopEnd::new(Ending::Cancelled)),
    };
    let receipt = prompt::delivery_receipt(&turn.unreported_failures);
    let mut messages: Vec<ModelMessage> = prompt::agent_context(&scope.agent, declared).into_iter().collect();
    messages.extend(prompt::initial_messages(turn, receipt, documents, &heading_context(services, lane)));
    let (system, tools) = (scope.agent.instructions.clone(), scope.agent.tools.specs());
    let request = ModelRequest { system, messages, tools, work_share: work_share(turn) };
    let opening = Opening { request, task: None };
    run_loop(services, lane, turn, scope, opening, rounds, deltas).await
}

/// The end of a turn whose agent, or whose task, isn't there any more: its calls must not run with the tools of another.
fn refuse_resumption(
    services: &AgentServices,
    turn: &QueuedTurn,
    task: Option<&TaskRequest>,
    rounds: &Rounds,
) -> Option<LoopEnd> {
    match (task, rounds.recorded_agent.as_deref()) {
        (Some(request), _) => tasks::refuse_resumption(services, turn, request, rounds),
        (None, Some(agent)) if services.agents.find(agent).is_none() => {
            tracing::warn!(turn.id = %turn.id, agent, "the agent of an interrupted turn no longer exists; the turn ends");
            let reason = format!("The agent `{agent}` was removed while it answered. Please ask again.");
            Some(LoopEnd::new(Ending::Failed { reason }))
        }
        (None, _) => None,
    }
}

pub(crate) fn heading_context(services: &AgentServices, lane: &LaneHandle) -> HeadingContext {
    let channel = lane.lease.conversation.channel().clone();
    HeadingContext { channel, default_zone: services.settings.time_zone.clone().into() }
}

/// Calls the model and runs its tools until it requests no more, or the turn is cancelled.
pub(crate) async fn run_loop(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    scope: &CallScope,
    opening: Opening,
    rounds: &mut Rounds,
    deltas: &DeltaSink,
) -> Result<LoopEnd, LedgerError> {
    let settings = &services.settings;
    let context = heading_context(services, lane);
    let Opening { mut request, task } = opening;
    let initial_len = request.messages.len();
    // The budget limits the model: the call of a person's own script doesn't count.
    let free_calls = u32::from(scope.script_call.is_some());
    let mut is_first_round = true;
    let mut can_be_joined = task.is_none();
    loop {
        if scope.cancel.is_cancelled() {
            return Ok(LoopEnd::new(Ending::Cancelled));
        }
        let script_response = script_turn::next_step(services, &scope.agent, turn, rounds);
        // Checked before anything is injected: messages that the model won't see must not be consumed.
        if script_response.is_none()
            && rounds.current_model_call_count().saturating_sub(free_calls) >= settings.max_model_calls
        {
            let limit = format!("{} model calls", settings.max_model_calls);
            return Ok(LoopEnd::new(Ending::Budget { limit }));
        }
        // Fetching files and resuming calls took time, in which more messages may have arrived.
        let took_time = !turn.journal.is_empty() || turn.messages.iter().any(|message| !message.files.is_empty());
        let may_have_messages =
            if is_first_round { turn.has_followers || took_time } else { settings.steering == SteeringMode::Inject };
        can_be_joined &= rounds.rounds.is_empty();
        if may_have_messages {
            let SteeringRequests { stop, inject, joins, .. } = read_steering(services, lane, turn).await?;
            // Before a stop, which is about the whole message: the next run finds it.
            if can_be_joined && try_join(services, lane, turn, &joins, deltas).await? {
                return Ok(LoopEnd::with_more_messages());
            }
            if let Some(stop) = stop {
                return Ok(LoopEnd::stopped_by(stop));
            }
            // A message behind a script or a task gets its own turn: no model of a conversation reads it here.
            let inject = if script_response.is_some() || task.is_some() { Vec::new() } else { inject };
            let steered_ids = rounds.steered_ids();
            rounds.steered.extend(inject.into_iter().filter(|steered| !steered_ids.contains(&steered.id)));
        }
        is_first_round = false;
        deltas.start_message(rounds.model_call_count(), &rounds.finished_texts());
        let first_ordinal = rounds.call_count();
        let is_quiet = script_response.is_some() && script_turn::schedule(turn).is_some();
        let response = match script_response {
            Some(response) => response,
            None => {
                if lane.stop.is_cancelled() {
                    // The process stops: the turn continues from its journal, and this future is dropped with it.
                    return std::future::pending().await;
                }
                request.messages.truncate(initial_len);
                request.work_share = CallRequester::find(turn, rounds).work_share;
                request
                    .messages
                    .extend(prompt::trigger_note(turn, rounds).into_iter().chain(rounds.to_model_messages(&context)));
                let model = &*scope.agent.model;
                let first_call = CallId { turn: turn.id, ordinal: first_ordinal };
                let called =
                    call_model(model, settings.model_idle_timeout, &request, first_call, &mut rounds.partial, deltas);
                let result = tokio::select! {
                    biased;
                    () = scope.cancel.cancelled() => return Ok(LoopEnd::new(Ending::Cancelled)),
                    Some(followers) = wait_for_followers(lane, scope.joins.clone(), deltas), if can_be_joined => {
                        if join_turns(services, lane, turn, &followers).await? {
                            return Ok(LoopEnd::with_more_messages());
                        }
                        can_be_joined = false;
                        rounds.partial.clear();
                        continue;
                    }
                    result = called => result,
                };
                match result {
                    Ok(response) => {
                        // A message may have arrived while the answer ended.
                        if can_be_joined && lane.woken.load(Ordering::Relaxed) && joins_messages(lane) {
                            let joins = read_steering(services, lane, turn).await?.joins;
                            if try_join(services, lane, turn, &joins, deltas).await? {
                                return Ok(LoopEnd::with_more_messages());
                            }
                        }
                        rounds.model_answered = true;
                        response
                    }
                    Err(error) => {
                        let model = model.name();
                        tracing::warn!(turn.id = %turn.id, model, error = %error, "the model failed; the turn ends");
                        let for_owners = is_for_owners(services, turn) && is_steered_by_owners(services, lane, rounds);
                        let reason = if for_owners { error.owner_message() } else { error.public_message() };
                        return Ok(LoopEnd::new(Ending::ModelFailed { reason }));
                    }
                }
            }
        };
        let round = Round { steered: std::mem::take(&mut rounds.steered), text: response.text, calls: response.calls };
        if round.calls.is_empty() {
            rounds.rounds.push(round);
            return Ok(LoopEnd::new(Ending::Done));
        }
        let requested = u32::try_from(round.calls.len()).unwrap_or(u32::MAX);
        let total_calls = rounds.current_call_count().saturating_add(requested);
        if total_calls.saturating_sub(free_calls) > settings.max_tool_calls {
            rounds.rounds.push(Round { calls: Vec::new(), ..round });
            return Ok(LoopEnd::new(Ending::Budget { limit: format!("{} tool calls", settings.max_tool_calls) }));
        }
        if lane.stop.is_cancelled() {
            // Calls that aren't recorded don't start: the next process asks for them again.
            return std::future::pending().await;
        }
        let changing_calls = list_changing_calls(scope, &round.calls);
        let entry = JournalEntry::Model {
            agent: Some(scope.agent.summary.name.clone()),
            task: task.clone(),
            steered: round.steered.clone(),
            text: round.text.clone(),
            calls: round.calls.clone(),
            awaiting_decision: calls_to_confirm(services, scope, &round.calls),
            changing_calls: Some(changing_calls.clone()),
        };
        // Counted from here on: calls that are journalled and never start would count as interrupted.
        let starting = scope.tracker.track();
        retry_until_stored(&lane.stop, || services.turns.journal_message(&lane.lease, turn.id, &entry)).await?;
        let calls = round.calls.clone();
        rounds.add_calling_round(round, &changing_calls);
        // No person waits for a scheduled script, and it may produce no reply.
        if !is_quiet {
            let tools: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            deltas.show_tools(&rounds.finished_texts(), &tools);
        }
        let scope = scope.for_latest_calls(turn, rounds);
        drop(starting);
        let calls = calls.into_iter().map(|call| (call, CallOrigin::Fresh)).collect();
        run_calls(services, lane, &scope, calls, rounds).await?;
    }
}

/// The ordinals of the calls that a person must allow.
fn calls_to_confirm(services: &AgentServices, scope: &CallScope, calls: &[ToolCall]) -> Vec<u32> {
    let tier = |call: &ToolCall| scope.agent.tools.find(&call.name).map(|(_, tool)| tool.tier(&call.arguments));
    let must_confirm =
        |call: &&ToolCall| tier(call).is_some_and(|tier| needs_confirmation(services, scope, call.id, tier));
    calls.iter().filter(must_confirm).map(|call| call.id.ordinal).collect()
}

/// Shows that a reply is being written, unless it is ready within a moment.
async fn show_activity(lane: &LaneHandle, confirmations: &Confirmations) -> Infallible {
    tokio::time::sleep(ACTIVITY_DELAY).await;
    loop {
        // While a question is open, the turn waits for the person.
        confirmations.wait_until_idle().await;
        lane.channel.show_activity(&lane.lease.conversation, Activity::Writing).await;
        tokio::time::sleep(ACTIVITY_INTERVAL).await;
    }
}

/// Waits until the person stops the turn, and returns the message that does. What arrives meanwhile is signalled.
///
/// # Errors
/// When the lease is lost.
pub async fn wait_for_stop(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    signals: &ArrivalSignals,
) -> Result<InboxId, LedgerError> {
    loop {
        tokio::select! {
            () = lane.wake.notified() => lane.woken.store(true, Ordering::Relaxed),
            () = tokio::time::sleep(STOP_POLL_INTERVAL) => {}
        }
        match read_steering(services, lane, turn).await {
            Ok(SteeringRequests { stop: Some(stop), .. }) => return Ok(stop),
            Ok(SteeringRequests { decisions, immediate_replies, joins, .. }) => {
                complete_immediate_replies(services, lane, immediate_replies).await?;
                replace_changed(&signals.decisions, decisions);
                replace_changed(&signals.joins, joins);
            }
            Err(error @ LedgerError::LeaseLost(_)) => return Err(error),
            // A failed read must not end the running tools; the next poll retries it.
            Err(error) => tracing::warn!(turn.id = %turn.id, error = %error, "polling for a stop failed; retrying"),
        }
    }
}

/// Completes the turns that only need an explanation: a person who asks how to answer a question must not wait until it
/// is answered.
async fn complete_immediate_replies(
    services: &AgentServices,
    lane: &LaneHandle,
    immediate_replies: Vec<ImmediateReply>,
) -> Result<(), LedgerError> {
    // The turn that runs still needs the lane.
    let lane = &LaneHandle { hands_over: Arc::default(), ..lane.clone() };
    for ImmediateReply { turn, reply_to, text } in immediate_replies {
        let result = TurnResult {
            turn,
            ending: Ending::Done,
            response: OutgoingResponse::from_text(text),
            history: HistoryChange::Append(Vec::new()),
            setting: None,
            steered: Vec::new(),
            injected_texts: BTreeMap::new(),
            reported_failures: Vec::new(),
            reply_to,
            buttons: Vec::new(),
            changes: Vec::new(),
            answered: None,
            // A few lines of text.
            blocks: Some(false),
        };
        match complete_turn(services, lane, result).await {
            Ok(()) => {}
            Err(error @ LedgerError::LeaseLost(_)) => return Err(error),
            // It stays queued and is answered later.
            Err(error) => {
                tracing::warn!(turn.id = %turn, error = %error, "completing an explanation's turn failed; it stays queued")
            }
        }
    }
    Ok(())
}

async fn read_steering(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
) -> Result<SteeringRequests, LedgerError> {
    let queued = services.turns.list_queued_behind(&lane.lease, turn.id).await?;
    let requests = (services.plan_steering)(turn, &queued);
    let is_steered = services.settings.steering != SteeringMode::Never;
    let requests = if is_steered { requests } else { SteeringRequests { inject: Vec::new(), ..requests } };
    let may_join = is_steered && !requests.joins.is_empty() && joins_messages(lane);
    Ok(if may_join { requests } else { SteeringRequests { joins: Vec::new(), ..requests } })
}

/// Sends a value, unless it is the one that was sent last.
fn replace_changed<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|current| {
        let has_changed = *current != value;
        *current = value;
        has_changed
    });
}

/// For whom workers and models do the work of a turn that has not started; `None` for a turn without messages.
pub(crate) fn work_share(turn: &QueuedTurn) -> Option<WorkShare> {
    CallRequester::find(turn, &Rounds::default()).work_share
}

/// Publishes an event. A failed bus only delays others, so the error is logged here.
pub(crate) async fn publish(services: &AgentServices, event: BusEvent) {
    if let Err(error) = Arc::clone(&services.bus).publish(event).await {
        tracing::debug!(error = %error, "publishing an event failed");
    }
}

/// Whether the reply is read by owners, who can fix a failure: they wrote the turn's messages or, for a system task,
/// only they read the conversation.
pub(crate) fn is_for_owners(services: &AgentServices, turn: &QueuedTurn) -> bool {
    turn.messages.iter().all(|QueuedMessage { message, .. }| match &message.system_task {
        Some(task) if !task.runs_for_sender() => (services.is_owners_chat)(&message.conversation),
        _ => (services.is_owner)(message.conversation.channel(), &message.sender),
    })
}

/// Whether all messages that were injected into a turn are by owners.
fn is_steered_by_owners(services: &AgentServices, lane: &LaneHandle, rounds: &Rounds) -> bool {
    let channel = lane.lease.conversation.channel();
    rounds.steered_messages().all(|steered| (services.is_owner)(channel, &steered.sender))
}

#[cfg(test)]
mod tests;
