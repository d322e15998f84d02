//! Opens the bus of a configuration and, with it, the channel of other programs.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use satchel_domain::ChannelName;
use satchel_local::LocalBus;
use satchel_metrics::{LostEvents, Metrics};
use satchel_nats::{
    CHANNEL, NatsBus, NatsChannel, NatsConnection, NatsError, RequestLimits, RequestListener, SenderCheck,
};
use satchel_ports::{Channel, EventBus, Pairings};
use satchel_routing::tables;

use crate::{
    config::{Config, leaf::list::OnOff},
    server_wait::ServerWait,
    stores::Stores,
};

/// How long the last events of a process may take to reach the server.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The bus of a process.
pub(crate) struct OpenBus {
    pub(crate) bus: Arc<dyn EventBus>,
    /// Requests of other programs, if they are taken.
    pub(crate) requests: Option<OpenRequests>,
    nats: Option<Arc<NatsBus>>,
}

/// The channel of other programs, and what receives their requests.
pub(crate) struct OpenRequests {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) listener: RequestListener,
}

/// Opens the bus that `bus.url` names.
///
/// # Errors
/// When its server refuses, or can't be reached and isn't waited for.
pub(crate) async fn open(config: &Config, stores: &Stores, wait: ServerWait) -> anyhow::Result<OpenBus> {
    let Stores { blobs, ledger, .. } = stores;
    let local = Arc::new(LocalBus::new());
    let Some(settings) = config.bus.nats() else {
        return Ok(OpenBus { bus: local, requests: None, nats: None });
    };
    let connection = wait.connect("NATS", NatsError::is_retryable, || NatsConnection::open(&settings)).await;
    let connection = connection.context("`bus.url` can't be used")?;
    let nats = NatsBus::start(&connection, local, Arc::clone(blobs)).await.context("`bus.url` can't be used")?;
    let nats = Arc::new(nats);
    let requests = (config.nats.requests == OnOff::On).then(|| OpenRequests {
        channel: Arc::new(NatsChannel::new(
            connection.clone(),
            tables::nats(),
            Arc::clone(blobs),
            config.nats.group_members(),
        )),
        listener: RequestListener::new(
            connection,
            Arc::clone(blobs),
            RequestLimits {
                files: config.attachments.max_inbound_files_per_turn.as_usize(),
                file_bytes: config.attachments.max_inbound_file_bytes.0,
            },
            config.nats.group_members(),
            sender_check(config, &ledger.pairings),
        ),
    });
    Ok(OpenBus { bus: Arc::clone(&nats) as _, requests, nats: Some(nats) })
}

/// Whether a sender is named in the configuration, or approved.
fn sender_check(config: &Config, pairings: &Arc<dyn Pairings>) -> SenderCheck {
    let (access, pairings) = (Arc::new(config.access()), Arc::clone(pairings));
    let channel = ChannelName::new(CHANNEL).expect("the name is lower-case letters");
    Arc::new(move |sender| {
        let is_named = access.channel_rules(&channel).is_none_or(|rules| rules.is_allowed(&sender));
        let (channel, pairings) = (channel.clone(), Arc::clone(&pairings));
        Box::pin(async move { Ok(is_named || pairings.is_approved(&channel, &sender.id).await?) })
    })
}

/// Waits until the events of a process that ends have reached the server.
pub(crate) async fn flush(nats: Option<Arc<NatsBus>>) {
    if let Some(nats) = nats
        && !nats.flush(FLUSH_TIMEOUT).await
    {
        tracing::info!("NATS is away; the last events are not published");
    }
}

impl OpenBus {
    /// Shows in the metrics how many events did not arrive, where events leave this process.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        let Some(nats) = self.nats.clone() else { return };
        metrics
            .watch_lost_events(move || LostEvents { skipped: nats.skipped_events(), dropped: nats.dropped_events() });
    }

    /// Takes out what has to be flushed at the end.
    pub(crate) fn take_nats(&mut self) -> Option<Arc<NatsBus>> {
        self.nats.take()
    }
}
