//! `satchel run`: serves every configured channel until it is stopped.

mod discord;
mod page_commands;
mod stop_signals;
mod system;
mod telegram;
mod work;

use std::{
    ffi::OsString,
    io::Write,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use anyhow::Context;
use futures::future::BoxFuture;
use satchel_domain::{AllowedPeople, ChannelName, agent::DEFAULT_AGENT};
use satchel_intake::{
    ConversationService, NotificationService, StorageService,
    commands::{CommandFeatures, command_menu},
};
use satchel_metrics::{
    MeasuredBus, MeasuredChannel, MeasuredGateways, MeasuredInbound, MeasuredModel, MeasuredWorkspace, Metrics,
    server::{self as metrics_server, RenderText},
};
use satchel_ports::{Channel, EventBus, FileLinks, Inbound, Notifications, ledger::Gateways};
use satchel_routing::tables;
use satchel_runtime::gateway::Gateway;
use satchel_web::{
    Administration, LoginLinks, WebChannel, WebError, WebLinks, WebPorts, WebServer, WebSettings, load_or_create_token,
};
use tokio::{
    net::TcpListener,
    process::Command,
    runtime::Handle,
    task::{JoinSet, block_in_place},
};
use tokio_util::sync::CancellationToken;

pub use self::stop_signals::StopSignals;
use self::{
    system::RunningSystem,
    work::{announce_deliveries, start_runner, start_scheduled},
};
use super::{UsageError, terminal::OFFLINE_CHUNK_DELAY};
use crate::{
    adapters::{self, WorkerHosts},
    build::{Satchel, SatchelOptions, build},
    cli::Role,
    config::{Config, LoadedConfig, leaf::list::OnOff, web::WebToken},
    event_bus::{self, OpenBus, OpenRequests},
    media_measuring_blobs::MediaMeasuringBlobs,
    models::{self, ModelFiles, ModelSelection},
    ports::Ports,
    server_wait::ServerWait,
    stores::{self, Stores, file_directories},
};

/// The channels that this process may host.
const CHANNELS: [&str; 5] = ["api", "discord", "nats", "telegram", "web"];

/// The warning for `web.token: off`.
pub(crate) const OPEN_TO_ALL: &str =
    "`web.token` is off: every user and program on this machine can use the page as its owner";

/// A platform that this process hosts.
struct HostedPlatform {
    channel: Arc<dyn Channel>,
    /// Receives its messages until it is stopped, while this process is the channel's gateway.
    listen: ListenFn,
}

/// Receives a platform's messages until the token is cancelled.
type ListenFn =
    Box<dyn Fn(Arc<dyn Inbound>, CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// A process that serves, and what it serves with.
pub struct ServingProcess<'a> {
    pub loaded: &'a Arc<LoadedConfig>,
    pub stores: Stores,
    pub selection: &'a ModelSelection,
    pub role: Role,
    /// Opens the page on this desktop.
    pub browser: Option<&'static str>,
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

/// Serves until SIGTERM or SIGINT; then finishes the parts in flight and leaves the rest in the ledger. A second signal
/// stops at once.
///
/// # Errors
/// When something can't be started or fails, or after a second signal.
pub async fn run(
    process: ServingProcess<'_>,
    signals: StopSignals,
    workers: WorkerHosts,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let ServingProcess { loaded, stores, selection, role, browser, wait } = process;
    let config = loaded.config();
    let StopSignals { stop, stop_now } = signals;
    let metrics = Metrics::new(&CHANNELS, file_directories(config));
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    if let Some(address) = config.metrics.listen.0 {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("failed to listen on `metrics.listen` {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "the metrics are at http://{}/metrics", listener.local_addr()?);
        let (metrics, ledger, clock) = (Arc::clone(&metrics), stores.ledger.clone(), Arc::clone(&stores.clock));
        let render: RenderText = Arc::new(move || {
            let (metrics, ledger, now) = (Arc::clone(&metrics), ledger.clone(), clock.now());
            Box::pin(async move { metrics.render(&ledger, now).await })
        });
        let stop = stop.clone();
        tasks.spawn(async move {
            metrics_server::serve(listener, render, stop).await;
            Ok(())
        });
    }
    let media = Arc::clone(&workers.decoders.media);
    let stores = Stores { blobs: Arc::new(MediaMeasuringBlobs::new(Arc::clone(&stores.blobs), media)), ..stores };
    let opening = stop.run_until_cancelled(event_bus::open(config, &stores, wait)).await;
    let Some(bus) = opening.transpose()? else { return Ok(()) };
    bus.measure(&metrics);
    let services = Services { loaded, stores: &stores, selection, role, metrics: &metrics, stop: &stop };
    let address = services.start(bus, workers, &mut tasks).await?;
    let login_links = LoginLinks::new(&key_file(config));
    let needs_login = address.is_some() && !matches!(config.web.token, WebToken::Off);
    let link = if needs_login { ok_or_log(login_links.create()) } else { None };
    print_banner(config, selection, role, address, link.as_deref(), out)?;
    if let (Some(browser), Some(address)) = (browser, address) {
        let page = if needs_login { ok_or_log(login_links.create_page()) } else { None };
        open_page(
            browser,
            page.unwrap_or_else(|| PathBuf::from(format!("http://{}/", browser_address(address)))).as_path(),
        );
    }
    tokio::select! {
        biased;
        () = stop_now.cancelled() => {
            anyhow::bail!("stopped; messages that were being sent are checked at the next start")
        }
        result = wait_for_tasks(&mut tasks, &stop) => result,
    }
}

/// What all services of a process share.
struct Services<'a> {
    loaded: &'a Arc<LoadedConfig>,
    stores: &'a Stores,
    selection: &'a ModelSelection,
    role: Role,
    metrics: &'a Arc<Metrics>,
    stop: &'a CancellationToken,
}

impl Services<'_> {
    /// Starts the tasks of the role; returns the page's address.
    async fn start(
        &self,
        mut open_bus: OpenBus,
        workers: WorkerHosts,
        tasks: &mut JoinSet<anyhow::Result<()>>,
    ) -> anyhow::Result<Option<SocketAddr>> {
        let Self { loaded, stores, selection, role, metrics, stop } = *self;
        let config = loaded.config();
        let wrap_model = |name: &str, model| Arc::new(MeasuredModel::new(model, Arc::clone(metrics), name)) as _;
        let role_on_lanes = role.lane_role().unwrap_or_default();
        let options = SatchelOptions { reminders: true, role: role_on_lanes, ..SatchelOptions::from_config(config) };
        let files = ModelFiles { blobs: &stores.blobs, images: &workers.decoders.images };
        let model = models::open(selection, files, OFFLINE_CHUNK_DELAY, &wrap_model)?;
        let (agents, delay) = (&options.agents, OFFLINE_CHUNK_DELAY);
        let named_models = models::open_by_name(agents, &config.models, files, delay, &wrap_model)?;
        let nats = open_bus.take_nats();
        let bus: Arc<dyn EventBus> = Arc::new(MeasuredBus::new(open_bus.bus, Arc::clone(metrics)));
        let page = match web_settings(config, selection, metrics, stores)? {
            Some(mut settings) => {
                settings.images = Some(Arc::clone(&workers.decoders.images));
                settings.model_takes_images = model.input_support().may_be_sent("image/png");
                let channel = WebChannel::new(&settings, Arc::clone(&stores.blobs)).map_err(into_cli_error)?;
                Some((settings, Arc::new(channel)))
            }
            None => None,
        };
        let links = match &page {
            Some((settings, channel)) => {
                WebLinks::new(settings, channel, Arc::clone(&stores.clock)).map_err(into_cli_error)?
            }
            None => None,
        };
        let links = links.map(|links| Arc::new(links) as Arc<dyn FileLinks>);
        let fetcher = adapters::open_fetcher(config);
        let usual = model.name();
        let features = CommandFeatures {
            links: links.is_some(),
            agents: !options.agents.is_empty(),
            models: named_models.keys().any(|name| *name != usual),
            tasks: config.playbooks.tasks().next().is_some(),
            reminders: true,
        };
        let menu = command_menu(features);
        let open_tasks = config.playbooks.tasks().filter(|task| task.task.allow == AllowedPeople::Everyone);
        let agent_names = std::iter::once(DEFAULT_AGENT.to_owned());
        let names = discord::CommandNames {
            agents: agent_names.chain(options.agents.iter().map(|agent| agent.name.clone())).collect(),
            // Everybody sees them.
            tasks: open_tasks.map(|task| task.task.id.clone()).collect(),
        };
        let page = page.map(|(settings, channel)| {
            let choices = named_models.keys().filter(|name| **name != usual).cloned();
            let models = std::iter::once(usual.clone()).chain(choices);
            let offers = page_commands::PageOffers { agents: &options.agents, models: models.collect(), features };
            let commands = page_commands::list_commands(config, offers, &channel.name());
            (WebSettings { commands, ..settings }, channel)
        });
        let platforms = [
            telegram::open_channel(config, &stores.blobs, &menu)?,
            discord::open_channel(config, &stores.blobs, &fetcher, &menu, &names)?,
        ];
        let requests = open_bus.requests.map(|OpenRequests { channel, listener }| HostedPlatform {
            channel,
            listen: Box::new(move |inbound, stop| {
                let listener = listener.clone();
                Box::pin(async move {
                    listener.listen(inbound, stop).await;
                    Ok(())
                })
            }),
        });
        let platforms: Vec<HostedPlatform> = platforms.into_iter().flatten().chain(requests).collect();
        let hosted = page.iter().flat_map(|(_, channel)| {
            [Arc::clone(channel) as Arc<dyn Channel>, Arc::new(channel.for_programs()) as Arc<dyn Channel>]
        });
        let hosted = hosted.chain(platforms.iter().map(|platform| Arc::clone(&platform.channel)));
        let channels = hosted.map(|channel| Arc::new(MeasuredChannel::new(channel, Arc::clone(metrics))) as _);
        let ports = Ports {
            ledger: stores.ledger.clone(),
            clock: Arc::clone(&stores.clock),
            ids: Arc::clone(&stores.ids),
            blobs: Arc::clone(&stores.blobs),
            workspace: Arc::new(MeasuredWorkspace::new(Arc::clone(&stores.metered_workspace), Arc::clone(metrics))),
            bus: Arc::clone(&bus),
            fetcher,
            model,
            models: named_models,
            speech: adapters::open_speech(config, workers.decoders.audio)?,
            scripts: workers.scripts,
            documents: Some(workers.decoders.documents),
            images: Some(workers.decoders.images),
            declared_files: stores::open_playbook_files(config).await?,
            links: links.clone(),
            channels: channels.collect(),
            tools: Vec::new(),
        };
        let hosted_channels: Vec<ChannelName> = ports.channels.iter().map(|channel| channel.name()).collect();
        let model_names = ports.models.keys().cloned().collect();
        let max_files = config.attachments.max_inbound_files_per_turn.as_usize();
        let Satchel { inbound, internal_inbound, runner, tools } = build(ports, options)?;
        let inbound: Arc<dyn Inbound> = Arc::new(MeasuredInbound::new(inbound, Arc::clone(metrics)));
        let mut address = None;
        if role.answers() {
            start_scheduled(config, stores, internal_inbound.clone(), hosted_channels.clone(), tasks, stop)?;
        }
        let gateways: Arc<dyn Gateways> =
            Arc::new(MeasuredGateways::new(Arc::clone(&stores.ledger.gateways), Arc::clone(metrics)));
        if role.lane_role().is_some() {
            metrics.watch_lost_leases(role.name(), runner.lost_leases());
            start_runner(runner, nats, tasks, stop);
        } else {
            // With it goes what would claim lanes for it.
            drop(runner);
            let stop = stop.clone();
            tasks.spawn(async move {
                stop.cancelled().await;
                event_bus::flush(nats).await;
                Ok(())
            });
        }
        if role == Role::Delivery {
            announce_deliveries(Arc::clone(&gateways), tasks, stop);
        }
        if !role.receives() {
            return Ok(None);
        }
        for HostedPlatform { channel, listen } in platforms {
            let gateway = Gateway { gateways: Arc::clone(&gateways), channel: channel.name() };
            let (inbound, stop) = (Arc::clone(&inbound), stop.clone());
            tasks.spawn(async move { gateway.run(|connection| listen(Arc::clone(&inbound), connection), stop).await });
        }
        if let Some((settings, channel)) = page {
            let system = RunningSystem {
                loaded: Arc::clone(loaded),
                selection: selection.clone(),
                ledger: stores.ledger.clone(),
                clock: Arc::clone(&stores.clock),
                started_at: stores.clock.now(),
                channels: hosted_channels,
                model_names,
                tools,
            };
            let is_owned = page_commands::is_owners_page(config, &channel.name());
            let administration = is_owned.then(|| Arc::new(system) as Arc<dyn Administration>);
            let notifications = NotificationService {
                inbound: internal_inbound,
                conversations: Arc::clone(&stores.ledger.conversations),
                archive: Arc::clone(&stores.ledger.archive),
                ids: Arc::clone(&stores.ids),
                max_files,
            };
            let ports = web_ports(stores, inbound, Arc::new(notifications), bus, links);
            let ports = WebPorts { administration, ..ports };
            let server = WebServer::bind(settings, channel, ports).await;
            let server = server.map_err(into_cli_error)?;
            address = Some(server.address());
            let stop = stop.clone();
            tasks.spawn(async move { server.serve(stop).await.context("the web page failed") });
        }
        Ok(address)
    }
}

/// What the page works on. A conversation that is deleted there goes with its workspace and its files.
fn web_ports(
    stores: &Stores,
    inbound: Arc<dyn Inbound>,
    notifications: Arc<dyn Notifications>,
    bus: Arc<dyn EventBus>,
    links: Option<Arc<dyn FileLinks>>,
) -> WebPorts {
    let conversations = ConversationService {
        conversations: Arc::clone(&stores.ledger.conversations),
        archive: Arc::clone(&stores.ledger.archive),
        storage: Arc::clone(&stores.ledger.storage),
        workspace: Arc::clone(&stores.metered_workspace) as _,
        blobs: Arc::clone(&stores.blobs),
        bus: Arc::clone(&bus),
        links,
    };
    let storage = StorageService { storage: Arc::clone(&stores.ledger.storage), blobs: Arc::clone(&stores.blobs) };
    WebPorts {
        inbound,
        notifications,
        conversations: Arc::new(conversations),
        storage: Arc::new(storage),
        archive: Arc::clone(&stores.ledger.archive),
        clock: Arc::clone(&stores.clock),
        blobs: Arc::clone(&stores.blobs),
        bus,
        administration: None,
    }
}

fn web_settings(
    config: &Config,
    selection: &ModelSelection,
    metrics: &Arc<Metrics>,
    stores: &Stores,
) -> anyhow::Result<Option<WebSettings>> {
    let Some(listen) = config.web.listen.0 else { return Ok(None) };
    let token = match &config.web.token {
        WebToken::Generated => {
            Some(load_or_create_token(&config.storage.data_dir().join("web-token")).map_err(into_cli_error)?)
        }
        WebToken::Configured(token) => Some(token.clone()),
        WebToken::Off => {
            tracing::warn!("{OPEN_TO_ALL}");
            None
        }
    };
    let (metrics, ledger, clock) = (Arc::clone(metrics), stores.ledger.clone(), Arc::clone(&stores.clock));
    Ok(Some(WebSettings {
        listen,
        public_url: config.web.public_url.clone().map(|url| url.0),
        token,
        trusted_proxies: config.web.trusted_proxies(),
        capabilities: tables::web(),
        file_bytes: config.attachments.max_inbound_file_bytes.0,
        files_per_message: config.attachments.max_inbound_files_per_turn.as_usize(),
        key_file: key_file(config),
        model: selection.title(),
        model_is_offline: selection.is_offline(),
        model_takes_images: false,
        commands: Vec::new(),
        images: None,
        // The page renders the metrics in a request handler that can't await.
        metrics: Some(Arc::new(move || {
            block_in_place(|| Handle::current().block_on(metrics.render(&ledger, clock.now())))
        })),
    }))
}

/// The path of the page's key; the files of its links are beside it.
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

/// The program that opens a page on this desktop; `None` without a desktop.
#[must_use]
pub fn browser(environment: &[(OsString, OsString)]) -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    let is_set = |name: &str| environment.iter().any(|(key, value)| key == name && !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")).then_some("xdg-open")
}

/// Opens the page. A failure is only logged: the banner shows the page's address.
fn open_page(browser: &str, page: &Path) {
    let quiet = Stdio::null;
    let opened = Command::new(browser).arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    match opened {
        Ok(mut browser) => drop(tokio::spawn(async move { browser.wait().await })),
        Err(error) => tracing::info!(
            error = &error as &dyn std::error::Error,
            browser,
            "opening the browser failed; the first line shows the page's address"
        ),
    }
}

/// Waits until all tasks have ended. A task that ends before the stop stops the rest.
async fn wait_for_tasks(tasks: &mut JoinSet<anyhow::Result<()>>, stop: &CancellationToken) -> anyhow::Result<()> {
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

/// Prints the addresses, the model, the data directory, and how to log in.
fn print_banner(
    config: &Config,
    selection: &ModelSelection,
    role: Role,
    address: Option<SocketAddr>,
    link: Option<&str>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut addresses = Vec::new();
    if let Some(address) = address {
        let others = if address.ip().is_unspecified() { " and this machine's other addresses" } else { "" };
        addresses.push(format!("at http://{}/{others}", browser_address(address)));
        tracing::info!(%address, "serving the page");
    }
    let platforms = [
        ("Telegram", config.telegram.token.is_some()),
        ("Discord", config.discord.token.is_some()),
        ("NATS", config.nats.requests == OnOff::On),
    ];
    for (name, is_hosted) in platforms {
        if is_hosted {
            addresses.push(format!("on {name}"));
        }
    }
    let data = config.storage.data_dir().display();
    let addresses = match role {
        Role::All => addresses.join(" and "),
        Role::Gateway => format!("{} (gateway: agents answer)", addresses.join(" and ")),
        Role::Agent => "an agent: gateways receive what it answers".to_owned(),
        Role::Delivery => "a delivery worker: it sends what agents answer".to_owned(),
    };
    let login = match link {
        Some(link) => format!("Log in at {link} (works once, for 10 minutes; `satchel web link` prints a new one)\n"),
        None if address.is_some() && matches!(config.web.token, WebToken::Off) => format!("{OPEN_TO_ALL}\n"),
        None if address.is_some() => "Log in with a link from `satchel web link`\n".to_owned(),
        None => String::new(),
    };
    let lines = format!("Satchel is {addresses} · {} · data in {data} · Ctrl-C stops it\n{login}", selection.title());
    // In one write: a reader that closes after the first line must not make the second one fail.
    out.write_all(lines.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A login link, if one could be stored; a failure is only logged, and serving continues.
fn ok_or_log<T>(link: Result<Option<T>, WebError>) -> Option<T> {
    link.unwrap_or_else(|error| {
        let error = format!("{:#}", anyhow::Error::from(error));
        tracing::warn!(error, "failed to create a login link; fix the cause, then run `satchel web link`");
        None
    })
}

/// The address as a browser on this machine opens it.
fn browser_address(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", address.port()),
        _ => address.to_string(),
    }
}
