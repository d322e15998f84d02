//! The page of a process: its settings, what it works on, and its server.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use satchel_domain::ChannelName;
use satchel_metrics::Metrics;
use satchel_ports::{Channel, FileLinks, ImageScaler, LanguageModel};
use satchel_routing::tables;
use satchel_web::{WebChannel, WebError, WebLinks, WebPorts, WebServer, WebSettings, load_or_create_token};
use secrecy::SecretString;
use tokio::{runtime::Handle, task::block_in_place, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    OPEN_TO_ALL, Tasks,
    page_commands::{PageOffers, list_commands},
    services::Services,
};
use crate::{
    commands::UsageError,
    config::{Config, web::WebToken},
    stores::Stores,
};

/// How long the page is served at most once the process stops. Its requests in flight have time after that, too, and all of
/// it must be less than what a service manager waits.
const MAX_DRAIN_SERVICE: Duration = Duration::from_secs(15);

/// The page, which isn't served yet.
pub(super) struct Page {
    settings: WebSettings,
    channel: Arc<WebChannel>,
    links: Option<Arc<dyn FileLinks>>,
}

impl Page {
    /// Opens the page; `None` where the configuration has none.
    pub(super) async fn open(
        config: &Config,
        services: &Services<'_>,
        model: &Arc<dyn LanguageModel>,
        images: &Arc<dyn ImageScaler>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(listen) = config.web.listen.0 else { return Ok(None) };
        let Services { stores, selection, metrics, .. } = services;
        let settings = WebSettings {
            listen,
            public_url: config.web.public_url.clone().map(|url| url.0),
            token: token(config)?,
            trusted_proxies: config.web.trusted_proxies(),
            capabilities: tables::web(),
            file_bytes: config.attachments.max_inbound_file_bytes.0,
            files_per_message: config.attachments.max_inbound_files_per_turn.as_usize(),
            key_file: key_file(config),
            model: selection.title(),
            model_is_offline: selection.is_offline(),
            model_takes_images: model.input_support().may_be_sent("image/png"),
            commands: Vec::new(),
            images: Some(Arc::clone(images)),
            metrics: Some(render_metrics(metrics, stores)),
        };
        let channel = WebChannel::open(&settings, Arc::clone(&stores.blobs), &*stores.ledger.storage).await;
        let channel = Arc::new(channel.map_err(into_cli_error)?);
        let links = WebLinks::new(&settings, &channel, Arc::clone(&stores.clock)).map_err(into_cli_error)?;
        Ok(Some(Self { settings, channel, links: links.map(|links| Arc::new(links) as _) }))
    }

    /// The same, with the commands that it completes.
    pub(super) fn with_commands(mut self, config: &Config, offers: PageOffers<'_>) -> Self {
        self.settings.commands = list_commands(config, offers, &self.channel.name());
        self
    }

    /// The links to files that the page gives, if it is known where people reach it.
    pub(super) fn links(&self) -> Option<Arc<dyn FileLinks>> {
        self.links.clone()
    }

    pub(super) fn channel_name(&self) -> ChannelName {
        self.channel.name()
    }

    /// The channels of its people and of programs that talk to the same server.
    pub(super) fn channels(&self) -> [Arc<dyn Channel>; 2] {
        [Arc::clone(&self.channel) as _, Arc::new(self.channel.for_programs())]
    }

    /// Serves the page until `stop`, and while the calls that run then end on the lanes. Returns its address.
    pub(super) async fn serve(
        self,
        ports: WebPorts,
        tasks: &mut Tasks,
        stop: &CancellationToken,
        lanes_ended: &CancellationToken,
    ) -> anyhow::Result<SocketAddr> {
        let server = WebServer::bind(self.settings, self.channel, ports).await.map_err(into_cli_error)?;
        let (address, drain, lanes_ended) = (server.address(), stop.clone(), lanes_ended.clone());
        let closing = CancellationToken::new();
        let (drained, close) = (drain.clone(), closing.clone());
        tokio::spawn(async move {
            drained.cancelled().await;
            let _lanes_take_longer = timeout(MAX_DRAIN_SERVICE, lanes_ended.cancelled()).await;
            close.cancel();
        });
        tasks.spawn(async move { server.serve(drain, closing).await.context("the web page failed") });
        Ok(address)
    }
}

/// The page's token, which is made at the first start unless one is configured; `None` where it is off.
fn token(config: &Config) -> anyhow::Result<Option<SecretString>> {
    Ok(match &config.web.token {
        WebToken::Generated => {
            Some(load_or_create_token(&config.storage.data_dir().join("web-token")).map_err(into_cli_error)?)
        }
        WebToken::Configured(token) => Some(token.clone()),
        WebToken::Off => {
            tracing::warn!("{OPEN_TO_ALL}");
            None
        }
    })
}

/// The page renders the metrics in a request handler that can't await.
fn render_metrics(metrics: &Arc<Metrics>, stores: &Stores) -> Arc<dyn Fn() -> String + Send + Sync> {
    let (metrics, ledger, clock) = (Arc::clone(metrics), stores.ledger.clone(), Arc::clone(&stores.clock));
    Arc::new(move || block_in_place(|| Handle::current().block_on(metrics.render(&ledger, clock.now()))))
}

/// The path of the page's key; its login links are beside it.
pub(crate) fn key_file(config: &Config) -> PathBuf {
    config.storage.data_dir().join("web-key")
}

/// Invalid settings are a usage error; any other error is a failure.
fn into_cli_error(error: WebError) -> anyhow::Error {
    match error {
        WebError::Settings(message) => UsageError(message).into(),
        error => anyhow::Error::new(error)
            .context("failed to serve the page (check `web.listen`; `satchel doctor` shows what uses the address)"),
    }
}
