//! The work on one lane: turns and deliveries side by side, until nothing is left to do.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt, OptionFuture};
use satchel_agent::{
    Lane,
    complete::{Completion, complete},
    run,
    streaming::reply_to,
};
use satchel_domain::{Ending, Part};
use satchel_intake::{
    commands::{self, Command, CommandAnswer},
    prepare::{Fetching, fetch_files, refuse_files},
};
use satchel_ports::{
    Lease, LedgerError,
    ledger::{QueuedTurn, Release},
};
use satchel_routing::deliver::{Delivery, Left, deliver};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Hosting;

/// After how many deaths of its process the files of a turn are no longer fetched; the turn itself is given up then too.
const MOST_CRASHES: u32 = 3;

/// The longest wait before a lane whose ledger failed is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Works on a lane until it is released, lost, or the process stops.
pub(super) async fn work(
    hosting: Hosting,
    lease: Lease,
    wake: Arc<Notify>,
    lost: CancellationToken,
    stop: CancellationToken,
) {
    let Some(channel) = hosting.channels.get(lease.conversation.channel()).map(Arc::clone) else {
        tracing::error!(chat.id = %lease.conversation, "a lane of a channel that isn't hosted here was claimed");
        return;
    };
    let delivery = Delivery {
        ledger: Arc::clone(&hosting.services.ledger),
        channel: Arc::clone(&channel),
        blobs: Arc::clone(&hosting.blobs),
        speech: hosting.speech.clone(),
        bus: Arc::clone(&hosting.services.bus),
        rules: hosting.rules,
        stop: stop.clone(),
    };
    let lane = Lane { lease: lease.clone(), channel, wake };
    let mut pause = Duration::from_secs(1);
    loop {
        let ended = tokio::select! {
            // Dropping the work aborts the request in flight.
            () = lost.cancelled() => return,
            ended = turns_and_deliveries(&hosting, &lane, &delivery, &stop) => ended,
        };
        match ended {
            Ok(()) => return,
            Err(LedgerError::LeaseLost(_)) => {
                tracing::info!(chat.id = %lease.conversation, "the lane has another owner");
                return;
            }
            Err(error) => {
                tracing::error!(
                    chat.id = %lease.conversation, error = &error as &dyn std::error::Error, wait_ms = pause.as_millis(),
                    "work on the lane failed and will go on from the ledger"
                );
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = lost.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs the lane's turns one after the other and delivers its parts one after the other. The two don't wait for each
/// other: a platform that is down keeps nobody from asking on.
async fn turns_and_deliveries(
    hosting: &Hosting,
    lane: &Lane,
    delivery: &Delivery,
    stop: &CancellationToken,
) -> Result<(), LedgerError> {
    let ledger = &hosting.services.ledger;
    let mut delivering: Option<BoxFuture<'_, Result<Left, LedgerError>>> = None;
    let mut turning: Option<BoxFuture<'_, Result<Option<Part>, LedgerError>>> = None;
    let mut ready_in: Option<Duration> = None;
    let mut look_for_turn = true;
    let mut look_for_parts = true;
    loop {
        if stop.is_cancelled() && delivering.is_none() {
            ledger.release(&lane.lease, Release::Always).await?;
            return Ok(());
        }
        if look_for_parts && delivering.is_none() {
            look_for_parts = false;
            delivering = Some(deliver(delivery, &lane.lease, None).boxed());
        }
        if look_for_turn && turning.is_none() && !stop.is_cancelled() {
            look_for_turn = false;
            ready_in = None;
            if let Some(turn) = ledger.next_turn(&lane.lease).await? {
                let wait = turn.ready_at.since(ledger.now());
                if wait.is_zero() {
                    turning = Some(turn_of(hosting, lane, turn).boxed());
                } else {
                    ready_in = Some(wait);
                }
            }
        }
        if delivering.is_none() && turning.is_none() && ready_in.is_none() {
            if ledger.release(&lane.lease, Release::IfIdle).await? {
                return Ok(());
            }
            (look_for_turn, look_for_parts) = (true, true);
            continue;
        }
        let asleep = ready_in.map(tokio::time::sleep);
        tokio::select! {
            Some(left) = OptionFuture::from(delivering.as_mut()) => {
                delivering = None;
                if left? == Left::Released {
                    return Ok(());
                }
            }
            Some(completed) = OptionFuture::from(turning.as_mut()) => {
                turning = None;
                look_for_turn = true;
                match completed? {
                    // Only what nothing stands before is begun with its turn, so no delivery can be under way.
                    Some(begun) if delivering.is_none() => {
                        delivering = Some(deliver(delivery, &lane.lease, Some(begun)).boxed());
                    }
                    _ => look_for_parts = true,
                }
            }
            () = lane.wake.notified(), if turning.is_none() => look_for_turn = true,
            Some(()) = OptionFuture::from(asleep) => look_for_turn = true,
            // The turn stays in the ledger; the part in flight is finished by the delivery, which hears of it itself.
            () = stop.cancelled(), if turning.is_some() || delivering.is_none() => turning = None,
        }
    }
}

/// Answers a command at once; everything else is fetched and given to the agent.
async fn turn_of(hosting: &Hosting, lane: &Lane, turn: QueuedTurn) -> Result<Option<Part>, LedgerError> {
    let services = &hosting.services;
    if let Some(command) = command_of(&turn) {
        let conversation = &lane.lease.conversation;
        let CommandAnswer { response, history } =
            commands::answer(&command, services.ledger.as_ref(), conversation).await?;
        let completion = Completion {
            turn: turn.id,
            ending: Ending::Done,
            response,
            refused: Vec::new(),
            history,
            steered: Vec::new(),
            told: Vec::new(),
            reply_to: reply_to(&turn),
            streamed: false,
        };
        return complete(services, lane, completion).await;
    }
    let fetching = Fetching {
        channel: lane.channel.as_ref(),
        blobs: hosting.blobs.as_ref(),
        ledger: services.ledger.as_ref(),
        lease: &lane.lease,
        limits: hosting.inbound,
    };
    let turn = if turn.crashes < MOST_CRASHES {
        fetch_files(fetching, turn).await?
    } else {
        refuse_files(fetching, turn, "I was interrupted again and again while taking it").await?
    };
    run(services, lane, turn).await
}

/// The command that a turn is; a message with files is never one.
fn command_of(turn: &QueuedTurn) -> Option<Command> {
    match turn.messages.as_slice() {
        [only] if only.files.is_empty() => Command::parse(&only.message.text),
        _ => None,
    }
}
