//! One turn from its queue entry to its commit.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use satchel_domain::{
    Ending, InboxId, OutgoingResponse, Part, Sender, ToolCall,
    fold::{EMPTY_RESPONSE_TEXT, fold, with_voice_reply},
};
use satchel_ports::{
    Activity, BusEvent, LedgerError, ModelRequest,
    ledger::{Explained, HistoryChange, JournalEntry, QueuedMessage, QueuedTurn, SteeringRequests, ToolDecision},
};
use satchel_routing::retry::retry_until_stored;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentServices, LaneHandle, SteeringMode,
    calls::{CallOrigin, CallScope, list_turn_files, needs_confirmation, run_calls},
    complete::{TurnResult, complete},
    confirm::Confirmations,
    heading::HeadingContext,
    model::call_model,
    prompt,
    rounds::{self, Round, Rounds},
    script_turn::{self, allows_empty_reply},
    streaming::{Growth, Streaming, reply_to},
    voice_notes,
};

/// After how many deaths of its process a turn is given up.
pub const MAX_CRASHES: u32 = 3;

/// How often a running turn looks for a `/stop` of which nobody woke it.
const STOP_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a turn may run before the person is shown that it does.
const ACTIVITY_DELAY: Duration = Duration::from_millis(300);

/// How often they are shown it again; platforms let the sign fade after five seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// How the work on a turn ended.
struct LoopEnd {
    ending: Ending,
    /// The `/stop` that ended it; the turn consumes it.
    stop: Option<InboxId>,
}

impl LoopEnd {
    fn with(ending: Ending) -> Self {
        Self { ending, stop: None }
    }

    fn stopped_by(stop: InboxId) -> Self {
        Self { ending: Ending::Cancelled, stop: Some(stop) }
    }
}

/// Runs a turn whose files are all stored or refused, commits it, and returns its first part if that was begun.
///
/// When the lane's work is to be laid down, the turn stays in the ledger, from where it goes on; so it does when this is
/// dropped, but then an edit or a commit in flight is cut off, and what it did is in doubt.
///
/// # Errors
/// When the ledger fails or the lane is lost. Whatever else goes wrong is part of the response.
pub async fn run(services: &AgentServices, lane: &LaneHandle, turn: QueuedTurn) -> Result<Option<Part>, LedgerError> {
    let capabilities = lane.channel.capabilities(&lane.lease.conversation);
    let cancel = CancellationToken::new();
    let _cancel = cancel.clone().drop_guard();
    let (heard, words) = watch::channel(Vec::new());
    let (complete_now, completed) = watch::channel(false);
    let mut rounds = Rounds::from_journal(&turn.journal);
    let scope = CallScope {
        requester: requester(&turn),
        group: turn.messages.iter().any(|queued| queued.message.group),
        words: Confirmations::new(words),
        inbound: rounds::turn_attachments(&turn).into(),
        written: script_turn::script_call(&turn, &rounds, &services.tools),
        cancel: cancel.clone(),
        completed,
    };
    let Streaming { growth, mut editing } = Streaming::start(services, lane, &turn, &capabilities);

    let worked = if turn.crashes >= MAX_CRASHES {
        Ok(Some(LoopEnd::with(Ending::Crashed { times: turn.crashes })))
    } else {
        tokio::select! {
            biased;
            ended = run_until_stopped(services, lane, &turn, &scope, &heard, &mut rounds, &growth) => ended.map(Some),
            never = editing.go_on() => match never {},
            never = show_activity(lane, &scope.words) => match never {},
            () = lane.stop.cancelled() => Ok(None),
        }
    };
    cancel.cancel();
    if let Err(error @ LedgerError::LeaseLost(_)) = worked {
        // Whoever has the lane now edits its messages; ours in flight is cut off.
        return Err(error);
    }
    let streamed = editing.finish().await;
    let Some(ended) = worked? else { return Ok(None) };
    if ended.ending != Ending::Done && rounds.first_interrupted().is_some() {
        rounds.take_interrupted(retry_until_stored(&lane.stop, || list_turn_files(services, turn.id)).await?);
    }

    let folded = fold(&rounds.texts(), &rounds.outcomes(), &ended.ending);
    let says_nothing = folded.text.as_deref() == Some(EMPTY_RESPONSE_TEXT);
    let is_silent = says_nothing && allows_empty_reply(&turn, &rounds);
    let folded = if is_silent { OutgoingResponse::default() } else { folded };
    let folded = if turn.voice { with_voice_reply(folded, &ended.ending) } else { folded };
    let completion = TurnResult {
        turn: turn.id,
        response: voice_notes::append_transcription_failure(folded, &turn),
        refused: rounds::refused_files(&turn),
        history: HistoryChange::Append(rounds.to_history(&turn, &ended.ending)),
        ending: ended.ending,
        steered: rounds.steered_ids().into_iter().chain(scope.words.consumed_messages()).chain(ended.stop).collect(),
        // A model that gave no answer has been told nothing.
        reported_failures: match rounds.answered {
            true => turn.unreported_failures.iter().map(|error| error.part).collect(),
            false => Vec::new(),
        },
        reply_to: reply_to(&turn),
        streamed,
        buttons: Vec::new(),
    };
    let begun = complete(services, lane, completion).await?;
    complete_now.send_replace(true);
    Ok(begun)
}

/// Works on the turn until it is over or the person stops it. The calls that run then hand over what they had made.
async fn run_until_stopped(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    scope: &CallScope,
    heard: &watch::Sender<Vec<ToolDecision>>,
    rounds: &mut Rounds,
    growth: &Growth,
) -> Result<LoopEnd, LedgerError> {
    let working = run_loop(services, lane, turn, scope, rounds, growth);
    tokio::pin!(working);
    let stop = tokio::select! {
        biased;
        stop = wait_for_stop(services, lane, turn, heard) => stop?,
        ended = &mut working => return ended,
    };
    scope.cancel.cancel();
    working.await?;
    Ok(LoopEnd::stopped_by(stop))
}

/// Asks the model and runs its tools until it has nothing more to ask for, or the turn is cancelled.
async fn run_loop(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    scope: &CallScope,
    rounds: &mut Rounds,
    growth: &Growth,
) -> Result<LoopEnd, LedgerError> {
    let settings = &services.settings;
    let unanswered = rounds.pending_calls();
    if !unanswered.is_empty() {
        // Stopped already, they are no more taken up: what they had made is delivered with the end of the turn.
        if let Some(stop) = steering(services, lane, turn).await?.stop {
            return Ok(LoopEnd::stopped_by(stop));
        }
        run_calls(services, lane, scope, unanswered, CallOrigin::Resumed { word: None }, rounds).await?;
    }
    let history = services.ledger.history(&lane.lease.conversation, settings.history_messages).await?;
    let channel = lane.lease.conversation.channel().clone();
    let context = HeadingContext { channel, time_zone: settings.time_zone.clone() };
    let opening =
        prompt::initial_messages(history, turn, prompt::delivery_receipt(&turn.unreported_failures), &context);
    let opened = opening.len();
    let mut request =
        ModelRequest { system: settings.instructions.clone(), messages: opening, tools: services.tools.specs() };
    // A turn's budget is what a model may do in it: the script that a person wrote was no idea of a model's.
    let free = u32::from(scope.written.is_some());
    let mut begins = true;
    loop {
        if scope.cancel.is_cancelled() {
            return Ok(LoopEnd::with(Ending::Cancelled));
        }
        let written = script_turn::next_step(turn, rounds, &services.tools, is_for_owners(services, turn));
        // Before anything is injected: what the model won't see must not be consumed.
        if written.is_none() && rounds.model_calls().saturating_sub(free) >= settings.model_calls {
            let limit = format!("{} model calls", settings.model_calls);
            return Ok(LoopEnd::with(Ending::Budget { limit }));
        }
        // Files that were fetched and calls that were taken up again took time, in which more may have come.
        let took_time = !turn.journal.is_empty() || turn.messages.iter().any(|message| !message.files.is_empty());
        let may_have_news =
            if begins { turn.has_followers || took_time } else { settings.steering == SteeringMode::Inject };
        if may_have_news {
            let SteeringRequests { stop, inject, .. } = steering(services, lane, turn).await?;
            if let Some(stop) = stop {
                return Ok(LoopEnd::stopped_by(stop));
            }
            // What is said behind a script is a turn of its own: no model is here to read it.
            let inject = if written.is_some() { Vec::new() } else { inject };
            let known = rounds.steered_ids();
            rounds.steered.extend(inject.into_iter().filter(|steered| !known.contains(&steered.id)));
        }
        begins = false;
        growth.begin(rounds.model_calls());
        let first_ordinal = rounds.calls();
        let is_quiet = written.is_some() && script_turn::schedule(turn).is_some();
        let answer = match written {
            Some(answer) => answer,
            None => {
                request.messages.truncate(opened);
                request
                    .messages
                    .extend(prompt::trigger_note(turn, rounds).into_iter().chain(rounds.to_model_messages(&context)));
                let asked = tokio::select! {
                    biased;
                    () = scope.cancel.cancelled() => return Ok(LoopEnd::with(Ending::Cancelled)),
                    asked = call_model(services, &request, turn.id, first_ordinal, &mut rounds.partial, growth) => asked,
                };
                match asked {
                    Ok(answer) => {
                        rounds.answered = true;
                        answer
                    }
                    Err(error) => {
                        let model = services.model.name();
                        tracing::warn!(turn.id = %turn.id, model, error = %error, "the model failed; the turn ends");
                        let for_owners = is_for_owners(services, turn);
                        let reason = if for_owners { error.for_owner() } else { error.for_others() };
                        return Ok(LoopEnd::with(Ending::ModelFailed { reason }));
                    }
                }
            }
        };
        let round = Round { steered: std::mem::take(&mut rounds.steered), text: answer.text, calls: answer.calls };
        if round.calls.is_empty() {
            rounds.rounds.push(round);
            return Ok(LoopEnd::with(Ending::Done));
        }
        let asked_for = first_ordinal.saturating_add(u32::try_from(round.calls.len()).unwrap_or(u32::MAX));
        if asked_for.saturating_sub(free) > settings.tool_calls {
            rounds.rounds.push(Round { calls: Vec::new(), ..round });
            return Ok(LoopEnd::with(Ending::Budget { limit: format!("{} tool calls", settings.tool_calls) }));
        }
        let entry = JournalEntry::Model {
            steered: round.steered.clone(),
            text: round.text.clone(),
            calls: round.calls.clone(),
            asks: calls_to_confirm(services, scope, &round.calls),
        };
        retry_until_stored(&lane.stop, || services.ledger.journal_message(&lane.lease, turn.id, &entry)).await?;
        let calls = round.calls.clone();
        // Nobody waits for a schedule's script, and it may have nothing to say.
        if !is_quiet {
            growth.works(&round.text, &calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>());
        }
        rounds.rounds.push(round);
        run_calls(services, lane, scope, calls, CallOrigin::Fresh, rounds).await?;
    }
}

/// The ordinals of the calls that a person must allow.
fn calls_to_confirm(services: &AgentServices, scope: &CallScope, calls: &[ToolCall]) -> Vec<u32> {
    let tool = |call: &ToolCall| services.tools.find(&call.name);
    let asks =
        |call: &&ToolCall| tool(call).is_some_and(|(spec, _)| needs_confirmation(services, scope, call.id, spec));
    calls.iter().filter(asks).map(|call| call.id.ordinal).collect()
}

/// Shows that a reply is being worked on. One that is there in a moment needs no sign.
async fn show_activity(lane: &LaneHandle, words: &Confirmations) -> Infallible {
    tokio::time::sleep(ACTIVITY_DELAY).await;
    loop {
        // While a person is asked, it is they who are waited for.
        words.wait_until_idle().await;
        lane.channel.show_activity(&lane.lease.conversation, Activity::Writing).await;
        tokio::time::sleep(ACTIVITY_INTERVAL).await;
    }
}

/// Waits until the person stops the turn, and returns the message that does. What is said on the way about calls that
/// wait for a word is handed to `heard`.
///
/// # Errors
/// When the lane is lost.
pub async fn wait_for_stop(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    heard: &watch::Sender<Vec<ToolDecision>>,
) -> Result<InboxId, LedgerError> {
    loop {
        tokio::select! {
            () = lane.wake.notified() => lane.woken.store(true, Ordering::Relaxed),
            () = tokio::time::sleep(STOP_POLL_INTERVAL) => {}
        }
        match steering(services, lane, turn).await {
            Ok(SteeringRequests { stop: Some(stop), .. }) => return Ok(stop),
            Ok(SteeringRequests { decisions, explained, .. }) => {
                explain(services, lane, explained).await?;
                heard.send_if_modified(|known| {
                    let news = *known != decisions;
                    *known = decisions;
                    news
                });
            }
            Err(error @ LedgerError::LeaseLost(_)) => return Err(error),
            // The tools that run must not end with a read that failed; it is repeated soon.
            Err(error) => tracing::warn!(turn.id = %turn.id, error = %error, "polling for a stop failed; retrying"),
        }
    }
}

/// Answers what only wants an explanation, in turns of their own: whoever asks how a question is answered must not wait
/// until it is.
async fn explain(services: &AgentServices, lane: &LaneHandle, explained: Vec<Explained>) -> Result<(), LedgerError> {
    for Explained { turn, reply_to, text } in explained {
        let completion = TurnResult {
            turn,
            ending: Ending::Done,
            response: OutgoingResponse::from_text(text),
            refused: Vec::new(),
            history: HistoryChange::Append(Vec::new()),
            steered: Vec::new(),
            reported_failures: Vec::new(),
            reply_to,
            streamed: false,
            buttons: Vec::new(),
        };
        match complete(services, lane, completion).await {
            Ok(_) => lane.planned.notify_one(),
            Err(error @ LedgerError::LeaseLost(_)) => return Err(error),
            // It stays queued, and is answered in its turn.
            Err(error) => {
                tracing::warn!(turn.id = %turn, error = %error, "completing an explanation's turn failed; it stays queued")
            }
        }
    }
    Ok(())
}

async fn steering(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
) -> Result<SteeringRequests, LedgerError> {
    let waiting = services.ledger.list_queued_behind(&lane.lease, turn.id).await?;
    Ok((services.steer)(&waiting))
}

fn requester(turn: &QueuedTurn) -> Sender {
    let first = turn.messages.first();
    first.map_or_else(|| Sender::new("", ""), |queued| queued.message.sender.clone())
}

/// Publishes an event. A bus that fails costs waiting and nothing else, so the error ends here.
pub(crate) async fn publish(services: &AgentServices, event: BusEvent) {
    if let Err(error) = Arc::clone(&services.bus).publish(event).await {
        tracing::debug!(error = %error, "publishing an event failed");
    }
}

/// Whether what a turn says is for owners, who can do something about a failure: they wrote its messages or, where nobody
/// did, they alone read the conversation.
fn is_for_owners(services: &AgentServices, turn: &QueuedTurn) -> bool {
    turn.messages.iter().all(|QueuedMessage { message, .. }| match &message.system_task {
        Some(_) => (services.is_owners_chat)(&message.conversation),
        None => (services.is_owner)(message.conversation.channel(), &message.sender),
    })
}

#[cfg(test)]
mod tests;
