//! What a process does besides receiving messages: turns, deliveries, schedules, retention and backups.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use satchel_domain::ChannelName;
use satchel_intake::InternalInbound;
use satchel_nats::NatsBus;
use satchel_ports::{
    Channel,
    ledger::{GatewayDuty, Gateways},
};
use satchel_runtime::{
    Runner,
    closure_notices::ClosureNotices,
    gateway::Gateway,
    retention::RetentionTask,
    schedules::{ReminderScheduler, Scheduler},
};
use tokio_util::sync::CancellationToken;

use super::Tasks;
use crate::{backups::BackupTask, config::Config, event_bus, runtime::machine_zone, stores::Stores};

/// Starts what is due by time, a task for each: schedules, reminders, retention and backups. They end once `stop` is
/// cancelled.
///
/// # Errors
/// When the configured backups can't be made.
pub(super) fn start_scheduled(
    config: &Config,
    stores: &Stores,
    inbound: InternalInbound,
    channels: Vec<ChannelName>,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let ledger = &stores.ledger;
    let mut start = |task: BoxFuture<'static, ()>| {
        tasks.spawn(async move {
            task.await;
            Ok(())
        });
    };
    let retention = RetentionTask {
        limits: config.attachments.retention.limits(),
        inbox: Arc::clone(&ledger.inbox),
        archive: Arc::clone(&ledger.archive),
        storage: Arc::clone(&ledger.storage),
        clock: Arc::clone(&stores.clock),
        inbound: inbound.clone(),
    };
    start(retention.run_daily(stop.clone()).boxed());
    let reminders = ReminderScheduler {
        reminders: Arc::clone(&ledger.reminders),
        inbound: inbound.clone(),
        clock: Arc::clone(&stores.clock),
        default_zone: machine_zone().into(),
        channels,
    };
    start(reminders.run(stop.clone()).boxed());
    if let Some(backups) = BackupTask::new(config, Arc::clone(&stores.clock))? {
        start(backups.run(stop.clone()).boxed());
    }
    let scheduler = Scheduler::new(config.schedules.iter().cloned(), Arc::clone(&stores.clock));
    start(scheduler.run(inbound, Arc::clone(&ledger.inbox), stop.clone()).boxed());
    Ok(())
}

/// Starts the work on lanes until `stop` is cancelled; `ended` is cancelled when it has ended. The last events go to `nats`.
pub(super) fn start_runner(
    runner: Runner,
    nats: Option<Arc<NatsBus>>,
    tasks: &mut Tasks,
    stop: &CancellationToken,
    ended: &CancellationToken,
) {
    let (stop, ended) = (stop.clone(), ended.clone().drop_guard());
    tasks.spawn(async move {
        runner.run(stop).await;
        drop(ended);
        event_bus::flush(nats).await;
        Ok(())
    });
}

/// Tells owners of closed channels until `stop` is cancelled.
pub(super) fn start_closure_notices(notices: ClosureNotices, tasks: &mut Tasks, stop: &CancellationToken) {
    let stop = stop.clone();
    tasks.spawn(async move {
        notices.run(stop).await;
        Ok(())
    });
}

/// Sends the last events to `nats` at the stop of a process that works on no lanes.
pub(super) fn flush_at_stop(nats: Option<Arc<NatsBus>>, tasks: &mut Tasks, stop: &CancellationToken) {
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.cancelled().await;
        event_bus::flush(nats).await;
        Ok(())
    });
}

/// Lets agents know until `stop` that these channels have a delivery worker.
pub(super) fn announce_deliveries(
    channels: &[Arc<dyn Channel>],
    gateways: &Arc<dyn Gateways>,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) {
    for channel in channels {
        let (gateways, channel) = (Arc::clone(gateways), Arc::clone(channel));
        let gateway = Gateway { gateways, channel, duty: GatewayDuty::Deliver };
        let stop = stop.clone();
        tasks.spawn(async move {
            let wait = |held: CancellationToken| async move {
                held.cancelled().await;
                Ok(())
            };
            gateway.run(wait, stop).await
        });
    }
}
