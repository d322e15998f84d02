//! Starts what a process does in its role: its channels, the work on lanes, the gateways and the page.

use std::{collections::BTreeMap, iter, net::SocketAddr, sync::Arc};

use satchel_domain::{AllowedPeople, ChannelName, agent::DEFAULT_AGENT};
use satchel_intake::{
    ConversationService, InternalInbound, NotificationService, StorageService,
    commands::{CommandFeatures, command_menu},
};
use satchel_metrics::{
    MeasuredBus, MeasuredChannel, MeasuredGateways, MeasuredInbound, MeasuredModel, MeasuredWorkspace, Metrics,
};
use satchel_nats::NatsBus;
use satchel_ports::{Channel, EventBus, Fetcher, FileLinks, Inbound, LanguageModel, ledger::Gateways};
use satchel_runtime::{
    Runner,
    closure_notices::{self, ClosureNotices},
};
use satchel_web::WebPorts;
use tokio_util::sync::CancellationToken;

use super::{
    Tasks, discord,
    page::Page,
    page_commands::{PageOffers, is_owners_page},
    platforms::{HostedPlatform, receive},
    system::RunningSystem,
    telegram, work,
};
use crate::{
    adapters::{self, WorkerHosts},
    agents::AgentDeclaration,
    build::{Satchel, SatchelOptions, build},
    cli::Role,
    commands::terminal::OFFLINE_CHUNK_DELAY,
    config::LoadedConfig,
    event_bus::{OpenBus, OpenRequests},
    models::{self, ModelFiles, ModelSelection},
    ports::Ports,
    stores::{self, Stores},
};

/// What all services of a process share.
pub(super) struct Services<'a> {
    pub(super) loaded: &'a Arc<LoadedConfig>,
    pub(super) stores: &'a Stores,
    pub(super) selection: &'a ModelSelection,
    pub(super) role: Role,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) stop: &'a CancellationToken,
    /// Cancelled once this process works on no lane any more.
    pub(super) lanes_ended: &'a CancellationToken,
}

/// The models that answer.
struct OpenModels {
    /// The one that answers unless an agent or a conversation has another one.
    usual: Arc<dyn LanguageModel>,
    by_name: BTreeMap<String, Arc<dyn LanguageModel>>,
}

impl OpenModels {
    /// The names among which owners choose, the usual model's first.
    fn choices(&self) -> Vec<String> {
        let usual = self.usual.name();
        let others = self.by_name.keys().filter(|name| **name != usual).cloned();
        iter::once(usual.clone()).chain(others).collect()
    }
}

impl Services<'_> {
    /// Starts the tasks of the role; returns the page's address.
    pub(super) async fn start(
        &self,
        mut open_bus: OpenBus,
        workers: WorkerHosts,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Option<SocketAddr>> {
        let Self { loaded, stores, metrics, .. } = *self;
        let config = loaded.config();
        let nats = open_bus.take_nats();
        let OpenBus { bus, requests, .. } = open_bus;
        let bus: Arc<dyn EventBus> = Arc::new(MeasuredBus::new(bus, Arc::clone(metrics)));
        let role = self.role.lane_role().unwrap_or_default();
        let options = SatchelOptions { reminders: true, role, ..SatchelOptions::from_config(config) };
        let models = self.open_models(&options.agents, &workers)?;
        let page = Page::open(config, self, &models.usual, &workers.decoders.images).await?;
        let links = page.as_ref().and_then(Page::links);
        let features = self.features(&options.agents, &models, links.is_some());
        let page = page.map(|page| {
            let offers = PageOffers { agents: &options.agents, models: models.choices(), features };
            page.with_commands(config, offers)
        });
        let fetcher = adapters::open_fetcher(config);
        let platforms = self.open_platforms(&fetcher, &options.agents, features, requests)?;
        let ports = Ports {
            ledger: stores.ledger.clone(),
            clock: Arc::clone(&stores.clock),
            ids: Arc::clone(&stores.ids),
            blobs: Arc::clone(&stores.blobs),
            workspace: Arc::new(MeasuredWorkspace::new(Arc::clone(&stores.metered_workspace), Arc::clone(metrics))),
            bus: Arc::clone(&bus),
            fetcher,
            model: models.usual,
            models: models.by_name,
            speech: adapters::open_speech(config, workers.decoders.audio)?,
            scripts: workers.scripts,
            documents: Some(workers.decoders.documents),
            images: Some(workers.decoders.images),
            declared_files: stores::open_playbook_files(config).await?,
            links: links.clone(),
            channels: self.measured_channels(page.as_ref(), &platforms),
            tools: Vec::new(),
        };
        let hosted = ports.channels.clone();
        metrics.watch_channels(&hosted);
        let channels: Vec<ChannelName> = hosted.iter().map(|channel| channel.name()).collect();
        let owner_page = page.as_ref().map(Page::channel_name).filter(|name| is_owners_page(config, name));
        let model_names = ports.models.keys().cloned().collect();
        let Satchel { inbound, internal_inbound, runner, tools } = build(ports, options)?;
        let gateways = &stores.ledger.gateways;
        let gateways: Arc<dyn Gateways> = Arc::new(MeasuredGateways::new(Arc::clone(gateways), Arc::clone(metrics)));
        self.start_work(runner, nats, &internal_inbound, &hosted, &gateways, tasks)?;
        let notices = self.closure_notices(hosted.clone(), owner_page.clone(), internal_inbound.clone());
        work::start_closure_notices(notices, tasks, self.stop);
        if !self.role.receives() {
            return Ok(None);
        }
        let inbound: Arc<dyn Inbound> = Arc::new(MeasuredInbound::new(inbound, Arc::clone(metrics)));
        receive(platforms, &gateways, &inbound, tasks, self.stop);
        let Some(page) = page else { return Ok(None) };
        let system = RunningSystem {
            loaded: Arc::clone(loaded),
            selection: self.selection.clone(),
            ledger: stores.ledger.clone(),
            clock: Arc::clone(&stores.clock),
            started_at: stores.clock.now(),
            channels,
            model_names,
            tools,
        };
        let ports = WebPorts {
            inbound,
            notifications: Arc::new(self.notifications(internal_inbound)),
            conversations: Arc::new(self.conversations(&bus, links)),
            storage: Arc::new(self.storage()),
            archive: Arc::clone(&stores.ledger.archive),
            logins: Arc::clone(&stores.ledger.logins),
            clock: Arc::clone(&stores.clock),
            blobs: Arc::clone(&stores.blobs),
            bus,
            channels: hosted,
            administration: owner_page.map(|_| Arc::new(system) as _),
        };
        page.serve(ports, tasks, self.stop, self.lanes_ended).await.map(Some)
    }

    /// Starts what the role does on lanes, and what is due by time.
    fn start_work(
        &self,
        runner: Runner,
        nats: Option<Arc<NatsBus>>,
        inbound: &InternalInbound,
        channels: &[Arc<dyn Channel>],
        gateways: &Arc<dyn Gateways>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<()> {
        if self.role.answers() {
            let (config, channels) = (self.loaded.config(), channels.iter().map(|channel| channel.name()).collect());
            work::start_scheduled(config, self.stores, inbound.clone(), channels, tasks, self.stop)?;
        }
        match self.role.lane_role() {
            Some(_) => {
                self.metrics.watch_lost_leases(self.role.name(), runner.lost_leases());
                work::start_runner(runner, nats, tasks, self.stop, self.lanes_ended);
            }
            // With the runner goes what would claim lanes for it.
            None => {
                self.lanes_ended.cancel();
                work::flush_at_stop(nats, tasks, self.stop);
            }
        }
        if self.role == Role::Delivery {
            work::announce_deliveries(channels, gateways, tasks, self.stop);
        }
        Ok(())
    }

    fn open_models(&self, agents: &[AgentDeclaration], workers: &WorkerHosts) -> anyhow::Result<OpenModels> {
        let wrap = |name: &str, model| Arc::new(MeasuredModel::new(model, Arc::clone(self.metrics), name)) as _;
        let files = ModelFiles { blobs: &self.stores.blobs, images: &workers.decoders.images };
        let models = &self.loaded.config().models;
        Ok(OpenModels {
            usual: models::open(self.selection, files, OFFLINE_CHUNK_DELAY, &wrap)?,
            by_name: models::open_by_name(agents, models, files, OFFLINE_CHUNK_DELAY, &wrap)?,
        })
    }

    fn features(&self, agents: &[AgentDeclaration], models: &OpenModels, links: bool) -> CommandFeatures {
        CommandFeatures {
            links,
            agents: !agents.is_empty(),
            models: models.choices().len() > 1,
            tasks: self.loaded.config().playbooks.tasks().next().is_some(),
            reminders: true,
            rich: false,
        }
    }

    /// Opens the configured platforms, with the channel of programs on NATS.
    fn open_platforms(
        &self,
        fetcher: &Arc<dyn Fetcher>,
        agents: &[AgentDeclaration],
        features: CommandFeatures,
        requests: Option<OpenRequests>,
    ) -> anyhow::Result<Vec<HostedPlatform>> {
        let (config, blobs) = (self.loaded.config(), &self.stores.blobs);
        let menu = command_menu(features);
        let telegram_menu = command_menu(CommandFeatures { rich: config.telegram.offers_rich_messages(), ..features });
        // Everybody sees them.
        let agents =
            agents.iter().filter(|agent| agent.allow == AllowedPeople::Everyone).map(|agent| agent.name.clone());
        let tasks = config.playbooks.tasks().filter(|task| task.task.allow == AllowedPeople::Everyone);
        let names = discord::CommandNames {
            agents: iter::once(DEFAULT_AGENT.to_owned()).chain(agents).collect(),
            tasks: tasks.map(|task| task.task.id.clone()).collect(),
        };
        let platforms = [
            telegram::open_channel(self.loaded, blobs, &telegram_menu)?,
            discord::open_channel(self.loaded, blobs, fetcher, &menu, &names)?,
            requests.map(HostedPlatform::from),
        ];
        Ok(platforms.into_iter().flatten().collect())
    }

    fn measured_channels(&self, page: Option<&Page>, platforms: &[HostedPlatform]) -> Vec<Arc<dyn Channel>> {
        let of_page = page.into_iter().flat_map(Page::channels);
        let channels = of_page.chain(platforms.iter().map(|platform| Arc::clone(&platform.channel)));
        channels.map(|channel| Arc::new(MeasuredChannel::new(channel, Arc::clone(self.metrics))) as _).collect()
    }

    fn closure_notices(
        &self,
        channels: Vec<Arc<dyn Channel>>,
        owner_page: Option<ChannelName>,
        inbound: InternalInbound,
    ) -> ClosureNotices {
        let access = Arc::new(self.loaded.config().access());
        let ledger = &self.stores.ledger;
        let (conversations, inbox) = (Arc::clone(&ledger.conversations), Arc::clone(&ledger.inbox));
        let gateways = Arc::clone(&ledger.gateways);
        let retry_interval = closure_notices::RETRY_INTERVAL;
        ClosureNotices { channels, access, owner_page, conversations, inbox, gateways, inbound, retry_interval }
    }

    fn notifications(&self, inbound: InternalInbound) -> NotificationService {
        let ledger = &self.stores.ledger;
        NotificationService {
            inbound,
            conversations: Arc::clone(&ledger.conversations),
            archive: Arc::clone(&ledger.archive),
            ids: Arc::clone(&self.stores.ids),
            max_files: self.loaded.config().attachments.max_inbound_files_per_turn.as_usize(),
        }
    }

    /// A conversation that is deleted goes with its workspace and its files.
    fn conversations(&self, bus: &Arc<dyn EventBus>, links: Option<Arc<dyn FileLinks>>) -> ConversationService {
        let Stores { ledger, blobs, metered_workspace, .. } = self.stores;
        ConversationService {
            conversations: Arc::clone(&ledger.conversations),
            archive: Arc::clone(&ledger.archive),
            storage: Arc::clone(&ledger.storage),
            workspace: Arc::clone(metered_workspace) as _,
            blobs: Arc::clone(blobs),
            bus: Arc::clone(bus),
            links,
        }
    }

    fn storage(&self) -> StorageService {
        let Stores { ledger, blobs, .. } = self.stores;
        StorageService { storage: Arc::clone(&ledger.storage), blobs: Arc::clone(blobs) }
    }
}
