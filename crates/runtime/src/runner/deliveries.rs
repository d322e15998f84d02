//! The work of a delivery worker on one lane: it sends what is unsettled, and leaves turns to agents.

use std::time::Duration;

use satchel_agent::LaneHandle;
use satchel_ports::{
    LedgerError,
    ledger::{ReleaseMode, TURN_PRECEDENCE},
};
use satchel_routing::deliver::{Driver, DriverEnd};
use tokio::time::{Instant, sleep_until};

use super::{WorkerContext, worker::POLL_INTERVAL};

/// Delivers what is unsettled of a lane, then releases it. When a turn is ready, only the part in flight is finished: an
/// agent runs the turn, and delivers the rest beside it. A lane of a closed channel is released, too: another process may
/// have credentials that the platform accepts.
pub(super) async fn deliver_lane(
    context: &WorkerContext,
    lane: &LaneHandle,
    mut driver: Driver,
) -> Result<(), LedgerError> {
    let LaneHandle { lease, delivery, wake, stop, .. } = lane;
    driver.take_over().await?;
    let mut driving = Box::pin(driver.run());
    // A turn that is ready before anything was sent has waited for so long that no agent seems to be there: time is needed to
    // look a part up.
    let patience = if is_turn_ready(context, lane).await { TURN_PRECEDENCE } else { Duration::ZERO };
    let yields_from = Instant::now() + patience;
    let mut next_look = Instant::now() + patience.max(POLL_INTERVAL);
    let ended = loop {
        let is_wake = tokio::select! {
            ended = &mut driving => break ended?,
            () = delivery.idle() => false,
            () = delivery.account_awaited() => false,
            () = stop.cancelled() => false,
            () = wake.notified() => true,
            () = sleep_until(next_look) => true,
        };
        if is_wake && (Instant::now() < yields_from || !is_turn_ready(context, lane).await) {
            next_look = yields_from.max(Instant::now() + POLL_INTERVAL);
            continue;
        }
        stop.cancel();
        delivery.finish();
        break driving.await?;
    };
    if ended == DriverEnd::Finished {
        context.ledger.leases.release(lease, ReleaseMode::Always).await?;
    }
    Ok(())
}

/// Returns whether a turn of the lane can start; `false` if the ledger doesn't answer. The driver notices a lost lease.
async fn is_turn_ready(context: &WorkerContext, lane: &LaneHandle) -> bool {
    let turn = context.ledger.turns.next_turn(&lane.lease).await;
    matches!(turn, Ok(Some(turn)) if turn.ready_at <= context.services.clock.now())
}
