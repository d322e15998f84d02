//! What a process does besides receiving messages: turns, deliveries, schedules, retention and backups.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use satchel_domain::ChannelName;
use satchel_intake::InternalInbound;
use satchel_nats::NatsBus;
use satchel_runtime::{
    Runner,
    retention::RetentionTask,
    schedules::{ReminderScheduler, Scheduler},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{backups::BackupTask, config::Config, event_bus, runtime::machine_zone, stores::Stores};

/// What works, and on which channels.
pub(super) struct Work {
    pub(super) runner: Runner,
    pub(super) inbound: InternalInbound,
    pub(super) channels: Vec<ChannelName>,
    /// What the last events go to.
    pub(super) nats: Option<Arc<NatsBus>>,
}

/// Starts a task for each; they end once `stop` is cancelled.
///
/// # Errors
/// When the configured backups can't be made.
pub(super) fn start_work(
    config: &Config,
    stores: &Stores,
    work: Work,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Work { runner, inbound, channels, nats } = work;
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
    let stop = stop.clone();
    let running = async move {
        runner.run(stop).await;
        event_bus::flush(nats).await;
    };
    start(running.boxed());
    Ok(())
}
