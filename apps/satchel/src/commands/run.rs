//! `satchel run`: serves every configured channel until it is stopped.

mod banner;
mod discord;
mod page;
mod page_commands;
mod platforms;
mod second_start;
mod services;
mod stop_signals;
mod system;
mod telegram;
mod work;

use std::{io::Write, sync::Arc};

use anyhow::Context;
use satchel_metrics::{
    Metrics,
    server::{self as metrics_server, RenderText},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use self::page::key_file;
use self::{banner::Banner, services::Services};
pub use self::{
    banner::{browser, is_journalled},
    second_start::check_first_start,
    stop_signals::StopSignals,
};
use super::UsageError;
use crate::{
    adapters::WorkerHosts,
    cli::Role,
    config::{Config, LoadedConfig, leaf::list::OnOff},
    event_bus,
    media_measuring_blobs::MediaMeasuringBlobs,
    models::ModelSelection,
    server_wait::ServerWait,
    stores::{Stores, file_directories},
};

/// The parts of a process that run until it is stopped.
type Tasks = JoinSet<anyhow::Result<()>>;

/// The channels that this process may host.
const CHANNELS: [&str; 5] = ["api", "discord", "nats", "telegram", "web"];

/// The warning for `web.token: off`.
pub(crate) const OPEN_TO_ALL: &str =
    "`web.token` is off: every user and program on this machine can use the page as its owner";

/// A process that serves, and what it serves with.
pub struct ServingProcess<'a> {
    pub loaded: &'a Arc<LoadedConfig>,
    pub stores: Stores,
    pub selection: &'a ModelSelection,
    pub role: Role,
    /// Opens the page on this desktop.
    pub browser: Option<&'static str>,
    /// Whether what it prints goes to a journal that others read, too.
    pub is_journalled: bool,
    /// What is done about a bus that can't be reached.
    pub wait: ServerWait,
}

/// Checks that at least one channel is configured.
///
/// # Errors
/// When none is.
pub fn check_channels(config: &Config) -> Result<(), UsageError> {
    let platforms = [&config.telegram.token, &config.discord.token];
    let has_requests = config.nats.requests == OnOff::On;
    if config.web.listen.0.is_some() || has_requests || platforms.into_iter().any(Option::is_some) {
        return Ok(());
    }
    Err(UsageError(
        "there is nothing to serve: `web.listen` is off and no platform is configured; set `web.listen` to an address \
         such as 127.0.0.1:8787, set a `telegram.token` or a `discord.token`, or talk in the terminal with `satchel chat`"
            .to_owned(),
    ))
}

/// Serves until SIGTERM or SIGINT; then finishes the calls that run and the parts in flight, and leaves the rest in the
/// ledger. A second signal stops at once.
///
/// # Errors
/// When something can't be started or fails, or after a second signal.
pub async fn run(
    process: ServingProcess<'_>,
    signals: StopSignals,
    workers: WorkerHosts,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let ServingProcess { loaded, stores, selection, role, browser, is_journalled, wait } = process;
    let config = loaded.config();
    let StopSignals { stop, stop_now } = signals;
    let metrics = Metrics::new(&CHANNELS, file_directories(config));
    let mut tasks = Tasks::new();
    serve_metrics(config, &metrics, &stores, &mut tasks, &stop).await?;
    let media = Arc::clone(&workers.decoders.media);
    let stores = Stores { blobs: Arc::new(MediaMeasuringBlobs::new(Arc::clone(&stores.blobs), media)), ..stores };
    let opening = stop.run_until_cancelled(event_bus::open(config, &stores, wait)).await;
    let Some(bus) = opening.transpose()? else { return Ok(()) };
    bus.measure(&metrics);
    let lanes_ended = CancellationToken::new();
    let services = Services {
        loaded,
        stores: &stores,
        selection,
        role,
        metrics: &metrics,
        stop: &stop,
        lanes_ended: &lanes_ended,
    };
    let address = services.start(bus, workers, &mut tasks).await?;
    Banner { loaded, selection, role, address, is_journalled }.show(browser, out)?;
    tokio::select! {
        biased;
        () = stop_now.cancelled() => {
            anyhow::bail!("stopped; messages that were being sent are checked at the next start")
        }
        result = wait_for_tasks(&mut tasks, &stop) => result,
    }
}

/// Serves the metrics until `stop`, if an address is configured for them.
async fn serve_metrics(
    config: &Config,
    metrics: &Arc<Metrics>,
    stores: &Stores,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(address) = config.metrics.listen.0 else { return Ok(()) };
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("failed to listen on `metrics.listen` {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "the metrics are at http://{}/metrics", listener.local_addr()?);
    let (metrics, ledger, clock) = (Arc::clone(metrics), stores.ledger.clone(), Arc::clone(&stores.clock));
    let render: RenderText = Arc::new(move || {
        let (metrics, ledger, now) = (Arc::clone(&metrics), ledger.clone(), clock.now());
        Box::pin(async move { metrics.render(&ledger, now).await })
    });
    let stop = stop.clone();
    tasks.spawn(async move {
        metrics_server::serve(listener, render, stop).await;
        Ok(())
    });
    Ok(())
}

/// Waits until all tasks have ended. A task that ends before the stop stops the rest.
async fn wait_for_tasks(tasks: &mut Tasks, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut first_result = Ok(());
    while let Some(joined) = tasks.join_next().await {
        let result = joined.context("a part of the process failed").flatten();
        let is_unexpected = !stop.is_cancelled();
        stop.cancel();
        match result {
            Ok(()) if is_unexpected => {
                tracing::warn!("a part of the process stopped without a request; stopping the rest")
            }
            Ok(()) => {}
            Err(error) if first_result.is_ok() => first_result = Err(error),
            Err(error) => tracing::error!(error = format!("{error:#}"), "another part failed while stopping"),
        }
    }
    first_result
}
