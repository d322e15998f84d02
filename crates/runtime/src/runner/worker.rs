//! The work on one lane: turns and deliveries side by side, until nothing is left to do.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use satchel_agent::{
    AgentServices, LaneHandle,
    complete::{TurnResult, append_refused_files, complete_turn},
    draft::reply_to,
    joining::ArrivalSignals,
    rounds::refused_files,
    run::{self, MAX_CRASHES, wait_for_stop},
};
use satchel_calendar::Zone;
use satchel_domain::{
    Ending, InboundMessage, Sha256, SystemTask, TaskDirectory, TaskRequest, agent::AgentChat, inbound::ClientContext,
};
use satchel_intake::{
    commands::{
        self, AgentChoice, BlockStatus, ChatCommand, CommandOffers, CommandOutcome, CommandReply, ModelOffers,
        ReminderClock, StorageServices, TaskStarter, VoiceStatus,
    },
    forget::remove_unreferenced,
    joining::rest_awaited_until,
    notifications,
    pairing::CommandContext,
    prepare::{PrepareContext, prepare_turn, refuse_files},
    reminders, system_tasks,
};
use satchel_ports::{
    LedgerError,
    ledger::{AttachmentQuery, ClaimedLane, ConversationSettings, HistoryChange, QueuedTurn, ReleaseMode},
};
use satchel_routing::deliver::{DeliveryContext, DeliveryHandle, Driver, DriverEnd};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{LaneRole, WorkerContext, deliveries::deliver_lane, fetch_notice::FetchNotice};

/// The longest wait before the work on a lane whose ledger failed is retried: after an outage it goes on within seconds.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// How often a lane that waits looks for a turn of which nobody woke it.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A lane as it is handed to its worker.
pub(super) struct LaneAssignment {
    pub(super) claimed: ClaimedLane,
    pub(super) wake: Arc<Notify>,
    /// Cancelled when the lane has another holder.
    pub(super) lost: CancellationToken,
}

/// Works on a lane until it is released, lost, or the process stops.
pub(super) async fn run_worker(context: WorkerContext, lane: LaneAssignment, stop: CancellationToken) {
    let LaneAssignment { claimed, wake, lost } = lane;
    let ClaimedLane { lease, turn: mut handed_over, mut unsettled, .. } = claimed;
    let Some(channel) = context.channels.get(lease.conversation.channel()).map(Arc::clone) else {
        tracing::error!(chat.id = %lease.conversation, "claimed a lane of a channel that does not run in this process");
        return;
    };
    let mut pause = Duration::from_secs(1);
    loop {
        // Work is stopped when the process stops, and when one half of it fails: the other finishes what is in flight.
        let stopped = stop.child_token();
        let delivery = DeliveryContext {
            outbox: Arc::clone(&context.ledger.outbox),
            archive: Arc::clone(&context.ledger.archive),
            clock: Arc::clone(&context.services.clock),
            channel: Arc::clone(&channel),
            blobs: Arc::clone(&context.blobs),
            speech: context.speech.clone(),
            bus: Arc::clone(&context.services.bus),
            links: context.services.links.clone(),
            owner_reads: context.access.is_owner_chat(&lease.conversation),
            rules: context.rules,
            stop: stopped.clone(),
            process_stop: stop.clone(),
        };
        let (requests, requested) = DeliveryHandle::new();
        let driver = Driver::new(delivery, lease.clone(), requested);
        let lane = LaneHandle {
            lease: lease.clone(),
            channel: Arc::clone(&channel),
            wake: Arc::clone(&wake),
            woken: Arc::default(),
            delivery: requests,
            stop: stopped,
            hands_over: context.handover.flag(lease.conversation.channel()),
            handed_over: Arc::default(),
        };
        let work = async {
            match context.role {
                LaneRole::Deliveries => deliver_lane(&context, &lane, driver).await,
                // After a failure the turn is read once more: it may have come further than when it was handed over.
                LaneRole::All | LaneRole::Turns => {
                    run_lane(&context, &lane, driver, handed_over.take(), unsettled).await
                }
            }
        };
        let ended = tokio::select! {
            // Dropping the work aborts the request in flight.
            () = lost.cancelled() => return,
            ended = work => ended,
        };
        unsettled = true;
        match ended {
            Ok(()) => return,
            Err(LedgerError::LeaseLost(_)) => {
                tracing::info!(chat.id = %lease.conversation, "the lane has another holder");
                return;
            }
            Err(error) => {
                tracing::error!(
                    chat.id = %lease.conversation, error = &error as &dyn std::error::Error, wait_ms = pause.as_millis(),
                    "work on the lane failed; it resumes from the ledger"
                );
            }
        }
        if stop.is_cancelled() {
            return;
        }
        tokio::select! {
            () = lost.cancelled() => return,
            // Once more, to give the lane back.
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

/// The result of looking for a turn.
enum TurnPoll {
    /// No turn is queued.
    Idle,
    /// The oldest one may not start before this time has passed.
    NotReady(Duration),
    /// It was run, or stopped.
    Completed {
        /// Whether others may wait behind it.
        followed: bool,
    },
}

/// Runs the lane's turns one after the other beside the driver of its deliveries. The two don't wait for each other: a
/// platform that is down keeps nobody from asking on.
async fn run_lane(
    context: &WorkerContext,
    lane: &LaneHandle,
    mut driver: Driver,
    mut handed_over: Option<Box<QueuedTurn>>,
    unsettled: bool,
) -> Result<(), LedgerError> {
    let LaneHandle { lease, stop, delivery, .. } = lane;
    let leases = &context.ledger.leases;
    if unsettled {
        driver.take_over().await?;
    }
    let mut driving = Some(driver.run().boxed());
    let mut turning: Option<BoxFuture<'_, Result<TurnPoll, LedgerError>>> = None;
    let mut look_for_turn = true;
    let mut next_look = Instant::now();
    let mut queued = true;
    let mut seems_lost = false;
    let mut failed: Option<LedgerError> = None;
    loop {
        if look_for_turn && turning.is_none() && !stop.is_cancelled() {
            look_for_turn = false;
            turning = Some(match handed_over.take() {
                Some(turn) => run_handed_over(context, lane, *turn).boxed(),
                None => next_turn(context, lane).boxed(),
            });
        }
        if turning.is_none() && stop.is_cancelled() {
            delivery.finish();
            if let Some(driving) = driving.take() {
                match driving.await {
                    Ok(DriverEnd::Released) => return Ok(()),
                    Ok(DriverEnd::Finished) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            leases.release(lease, ReleaseMode::Always).await?;
            return Ok(());
        }
        if turning.is_none() && !queued && delivery.awaits_account() {
            // Another process may have credentials that the platform accepts. A lane that waits for them takes no room here.
            stop.cancel();
            continue;
        }
        if turning.is_none() && !queued && delivery.is_idle() {
            if leases.release(lease, ReleaseMode::IfIdle).await? {
                return Ok(());
            }
            (look_for_turn, queued) = (true, true);
            delivery.wake();
            continue;
        }
        let done = tokio::select! {
            Some(ended) = OptionFuture::from(driving.as_mut()) => {
                driving = None;
                match ended {
                    Ok(DriverEnd::Released) => return Ok(()),
                    Ok(DriverEnd::Finished) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Some(polled) = OptionFuture::from(turning.as_mut()) => {
                turning = None;
                next_look = Instant::now() + POLL_INTERVAL;
                // What comes while nothing is looked for wakes the lane, and the ledger keeps it with work in it.
                queued = !matches!(polled, Ok(TurnPoll::Idle | TurnPoll::Completed { followed: false }));
                match polled {
                    Ok(TurnPoll::Idle) => Ok(()),
                    Ok(TurnPoll::NotReady(wait)) => {
                        next_look = Instant::now() + wait.min(POLL_INTERVAL);
                        Ok(())
                    }
                    // Nothing of the lane is in flight.
                    Ok(TurnPoll::Completed { .. }) if lane.handed_over.load(Ordering::Relaxed) => return Ok(()),
                    Ok(TurnPoll::Completed { followed }) => {
                        look_for_turn = followed;
                        Ok(())
                    }
                    // The delivery may just have given the lane back with its last part; then it says so next.
                    Err(LedgerError::LeaseLost(_)) if !delivery.is_idle() && !seems_lost => {
                        seems_lost = true;
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            () = delivery.idle(), if turning.is_none() && !queued => Ok(()),
            () = delivery.account_awaited(), if turning.is_none() && !queued => Ok(()),
            () = lane.wake.notified(), if turning.is_none() => {
                look_for_turn = true;
                Ok(())
            }
            () = tokio::time::sleep_until(next_look), if turning.is_none() => {
                look_for_turn = true;
                Ok(())
            }
            () = stop.cancelled(), if turning.is_none() => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(error @ LedgerError::LeaseLost(_)) => return Err(error),
            Err(error) => {
                failed = Some(error);
                stop.cancel();
            }
        }
    }
}

/// Looks for the lane's oldest turn and runs it if it is ready.
async fn next_turn(context: &WorkerContext, lane: &LaneHandle) -> Result<TurnPoll, LedgerError> {
    let ledger = &context.ledger;
    let Some(turn) = ledger.turns.next_turn(&lane.lease).await? else { return Ok(TurnPoll::Idle) };
    run_once_ready(context, lane, turn).await
}

/// Runs the turn that was claimed with the lane. What has come since then has woken the lane.
async fn run_handed_over(
    context: &WorkerContext,
    lane: &LaneHandle,
    mut turn: QueuedTurn,
) -> Result<TurnPoll, LedgerError> {
    turn.has_followers |= lane.wake.notified().now_or_never().is_some();
    run_once_ready(context, lane, turn).await
}

/// Runs a turn, unless it still waits for the rest of its album or of its text.
async fn run_once_ready(context: &WorkerContext, lane: &LaneHandle, turn: QueuedTurn) -> Result<TurnPoll, LedgerError> {
    let joins_messages = || lane.channel.capabilities(&lane.lease.conversation).joins_messages;
    let ready_at = rest_awaited_until(&turn).filter(|_| joins_messages()).unwrap_or(turn.ready_at);
    let wait = ready_at.saturating_duration_since(context.services.clock.now());
    if !wait.is_zero() {
        return Ok(TurnPoll::NotReady(wait));
    }
    lane.woken.store(false, Ordering::Relaxed);
    let followed = turn.has_followers;
    run_turn(context, lane, turn).await?;
    Ok(TurnPoll::Completed { followed: followed || lane.woken.load(Ordering::Relaxed) })
}

/// Answers a command at once; everything else is fetched and given to the agent.
async fn run_turn(context: &WorkerContext, lane: &LaneHandle, mut turn: QueuedTurn) -> Result<(), LedgerError> {
    let services = &context.services;
    let speaking = VoiceStatus {
        available: context.speech.as_ref().is_some_and(|speech| speech.can_speak()),
        enabled: turn.settings.voice_replies,
    };
    // A voice that is there no more is not missed at every reply.
    turn.settings.voice_replies &= speaking.available;
    let blocks = BlockStatus {
        offer: lane.channel.capabilities(&lane.lease.conversation).blocks.map(|rule| rule.offer),
        choice: turn.settings.blocks,
    };
    let start = start_turn(context, &turn, speaking, blocks).await?;
    let has_files = turn.messages.iter().any(|queued| !queued.files.is_empty());
    if matches!(start, TurnStart::Answered(_) | TurnStart::Notification(_)) && !has_files {
        return run_started(context, lane, turn, start).await;
    }
    let fetching = PrepareContext {
        channel: lane.channel.as_ref(),
        blobs: context.blobs.as_ref(),
        turns: context.ledger.turns.as_ref(),
        clock: services.clock.as_ref(),
        ids: services.ids.as_ref(),
        lease: &lane.lease,
        speech: context.speech.as_deref(),
        limits: context.inbound,
        access: &context.access,
    };
    if turn.crashes >= MAX_CRASHES {
        let turn = refuse_files(fetching, turn, "I crashed several times while fetching it").await?;
        return run_started(context, lane, turn, start).await;
    }
    if matches!(start, TurnStart::Notification(_)) {
        // Its files are here already, so there is no wait that somebody could stop.
        let prepared = lane.stop.run_until_cancelled(prepare_turn(fetching, turn)).await;
        return match prepared {
            Some(turn) => run_started(context, lane, turn?, start).await,
            None => Ok(()),
        };
    }
    // Nothing waits for a person's word while files come in, and what belongs to them joins the turn once they are here.
    let unanswered = ArrivalSignals::default();
    let mut notice = FetchNotice::default();
    let prepared = async {
        let permit = match turn.messages.first() {
            Some(first) => context.turn_slots.acquire(&first.message).await,
            None => None,
        };
        let prepared = notice.wait_for(prepare_turn(fetching, turn.clone()), lane, &turn).await;
        (permit, prepared)
    };
    let prepared = tokio::select! {
        biased;
        prepared = prepared => Some(prepared),
        () = lane.stop.cancelled() => return Ok(()),
        stop = wait_for_stop(services, lane, &turn, &unanswered) => {
            stop?;
            None
        }
    };
    notice.finish().await;
    let (permit, mut turn) = match prepared {
        Some((permit, prepared)) => (permit, prepared?),
        None => {
            // Read again: some files may be stored by now.
            let Some(turn) = context.ledger.turns.next_turn(&lane.lease).await? else { return Ok(()) };
            (None, refuse_files(fetching, turn, "you stopped me while I was fetching it").await?)
        }
    };
    // While the turn waited for its files or behind another one, a file in its history may have been forgotten, and messages may
    // have come, of which nothing wakes it any more.
    let has_waited = has_files || permit.as_ref().is_some_and(|permit| permit.has_waited);
    if has_waited && let Some(read) = context.ledger.turns.next_turn(&lane.lease).await? {
        (turn.history, turn.draft, turn.has_followers) = (read.history, read.draft, read.has_followers);
    }
    run_started(context, lane, turn, start).await
}

/// Runs a turn whose files are all stored or refused, as it was started.
async fn run_started(
    context: &WorkerContext,
    lane: &LaneHandle,
    turn: QueuedTurn,
    start: TurnStart,
) -> Result<(), LedgerError> {
    let services = &context.services;
    let turn = with_client_context(turn);
    match start {
        TurnStart::Answered(reply) if matches!(reply.history, HistoryChange::Forget(_)) => {
            forget_conversation(context, lane, &turn, reply).await
        }
        TurnStart::Answered(reply) => complete_command(services, lane, &turn, reply).await,
        TurnStart::Notification(text) => {
            let reply = notifications::delivery_reply(&turn, &text, services.links.as_deref());
            complete_command(services, lane, &turn, reply).await
        }
        TurnStart::Task(request) => run::run_turn(services, lane, turn, Some(&request)).await,
        TurnStart::Conversation => run::run_turn(services, lane, turn, None).await,
    }
}

/// Puts what the client tells about the conversation in the place of what is recorded of it.
fn with_client_context(mut turn: QueuedTurn) -> QueuedTurn {
    let context = turn.messages.iter().find_map(|queued| queued.message.context.as_deref());
    if let Some(ClientContext { instructions, model, history }) = context.cloned() {
        turn.settings = ConversationSettings { persona: instructions, model, ..turn.settings };
        turn.history = history.into();
    }
    turn
}

/// Completes a turn whose command forgets the conversation, and removes the bytes of its files.
async fn forget_conversation(
    context: &WorkerContext,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    reply: CommandReply,
) -> Result<(), LedgerError> {
    let conversation = &lane.lease.conversation;
    let query = AttachmentQuery { conversation: Some(conversation.clone()), ..AttachmentQuery::default() };
    let files = context.ledger.archive.attachments(&query).await?;
    complete_command(&context.services, lane, turn, reply).await?;
    let blobs: Vec<Sha256> = files.iter().map(|file| file.sha256).collect();
    remove_unreferenced(&*context.ledger.storage, &*context.blobs, &blobs, conversation).await;
    Ok(())
}

/// Completes a turn with the reply to its command.
async fn complete_command(
    services: &AgentServices,
    lane: &LaneHandle,
    turn: &QueuedTurn,
    CommandReply { response, history, setting, buttons, changes, answered, in_blocks }: CommandReply,
) -> Result<(), LedgerError> {
    // A question of Satchel's own is in lines: whoever has to answer it must be able to read it.
    let is_question = !buttons.is_empty();
    let completion = TurnResult {
        turn: turn.id,
        ending: Ending::Done,
        response: append_refused_files(response, &refused_files(turn)),
        history,
        setting,
        steered: Vec::new(),
        injected_texts: BTreeMap::new(),
        reported_failures: Vec::new(),
        reply_to: reply_to(turn),
        buttons,
        changes,
        answered,
        blocks: if in_blocks || is_question { Some(in_blocks) } else { turn.settings.blocks },
    };
    complete_turn(services, lane, completion).await
}

/// What a turn is.
enum TurnStart {
    /// Satchel itself has replied to it.
    Answered(CommandReply),
    /// Another program sent this text.
    Notification(String),
    Task(TaskRequest),
    /// The model replies.
    Conversation,
}

/// Replies to a command, which is never a message with files unless it runs a task, and to what Satchel itself started.
async fn start_turn(
    context: &WorkerContext,
    turn: &QueuedTurn,
    speaking: VoiceStatus,
    blocks: BlockStatus,
) -> Result<TurnStart, LedgerError> {
    let system_task = system_tasks::system_task(turn);
    if let Some(text) = notifications::notification_text(turn) {
        return Ok(TurnStart::Notification(text.to_owned()));
    }
    if let Some(reply) = reminders::delivery_reply(turn, &*context.ledger.archive).await? {
        return Ok(TurnStart::Answered(reply));
    }
    if let Some(reply) = system_task.and_then(system_tasks::system_reply) {
        return Ok(TurnStart::Answered(reply));
    }
    let Some((message, command)) = find_command(turn) else { return Ok(TurnStart::Conversation) };
    if let Some(reply) = commands::edited_command_reply(message, &command) {
        return Ok(TurnStart::Answered(reply));
    }
    let command_context = CommandContext {
        turn: turn.id,
        repeated: turn.crashes > 0,
        conversation: &message.conversation,
        group: message.group,
        sender: &message.sender,
        access: &context.access,
        now: context.services.clock.now(),
    };
    let starter = match turn.journal.is_empty() {
        false => TaskStarter::Resumed,
        true if system_task.is_some_and(|task| !task.runs_for_sender()) || command_context.is_by_owner() => {
            TaskStarter::Owner
        }
        true => TaskStarter::Guest,
    };
    let AgentServices { links, agents, playbooks, .. } = &context.services;
    let chat = AgentChat::from_message(message);
    let usual_model = agents.usual_model(turn);
    let no_tasks = TaskDirectory::default();
    let default_zone = Zone::from(context.services.settings.time_zone.clone());
    let now = context.services.clock.wall();
    let configured = context.schedules.as_ref().map(|schedules| schedules.upcoming(now)).unwrap_or_default();
    let clock =
        context.reminders.then_some(ReminderClock { default_zone: &default_zone, now, configured: &configured });
    let offers = CommandOffers {
        agents: AgentChoice { directory: agents.directory(), chosen: turn.settings.agent.as_deref(), chat },
        models: ModelOffers {
            names: agents.model_names(),
            usual: &usual_model,
            chosen: turn.settings.model.as_deref(),
        },
        persona: turn.settings.persona.as_deref(),
        zone: &default_zone,
        reminders: clock,
        tasks: playbooks.as_ref().map_or(&no_tasks, |playbooks| playbooks.directory()),
        starter,
        blocks,
    };
    let storage = StorageServices {
        blobs: context.blobs.as_ref(),
        workspace: context.workspace.as_ref(),
        quotas: context.quotas,
    };
    let outcome = commands::handle_command(
        &command,
        &context.ledger,
        &command_context,
        speaking,
        &offers,
        links.as_deref(),
        &storage,
    );
    Ok(match outcome.await? {
        CommandOutcome::Reply(reply) => TurnStart::Answered(reply),
        CommandOutcome::RunTask(request) => TurnStart::Task(request),
    })
}

/// The command of a turn, with the message that gives it. Only a task may come with files or from a schedule.
fn find_command(turn: &QueuedTurn) -> Option<(&InboundMessage, ChatCommand)> {
    let messages = || turn.messages.iter().map(|queued| &queued.message);
    let mut with_text = messages().filter(|message| !message.text.trim().is_empty());
    let (Some(message), None) = (with_text.next(), with_text.next()) else { return None };
    let command = ChatCommand::parse(&message.text)?;
    // A model may have written the prompt of a reminder.
    if message.system_task.as_ref().is_some_and(SystemTask::runs_for_sender) {
        return None;
    }
    let is_plain = turn.messages.iter().all(|queued| queued.files.is_empty()) && message.system_task.is_none();
    (is_plain || matches!(command, ChatCommand::Task(_))).then_some((message, command))
}
