//! Puts the ports together: what comes out takes messages in, runs their turns and delivers their replies.

use std::{collections::HashMap, sync::Arc};

use satchel_agent::{AgentServices, AgentSettings, IsOwnersChat, OwnerCheck, Steer, Toolbox};
use satchel_domain::{ChannelName, delivery::DeliveryRules};
use satchel_intake::{
    InboundService, InternalInbound, access::AccessPolicy, prepare::InboundLimits, steering::plan_steering,
};
use satchel_ports::{Channel, Inbound, ledger::usage::Quotas};
use satchel_tools::{RegisterError, ScriptRules, ToolLimits, ToolServices, built_in, execute_script, send_voice};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    lanes::{Hosting, Lanes, TurnSlots},
    maintenance::Maintenance,
    ports::{ExtraTool, Ports},
};

/// How many lanes this process works on at once; further ones wait in the ledger.
const DEFAULT_MAX_LANES: usize = 256;

/// How many of them may run turns of one person; their further ones wait.
const TURNS_PER_PERSON: usize = DEFAULT_MAX_LANES / 4;

/// How all of it behaves.
#[derive(Debug, Clone, Default)]
pub struct SatchelOptions {
    /// How turns run.
    pub agent: AgentSettings,
    /// How parts are retried and given up.
    pub delivery: DeliveryRules,
    /// What may come in.
    pub inbound: InboundLimits,
    /// What tools may do.
    pub tools: ToolLimits,
    /// What scripts may do.
    pub scripts: ScriptRules,
    /// The hosts that people's files may be downloaded from besides the platforms' own.
    pub download_hosts: Vec<String>,
    /// Who may talk, and who decides.
    pub access: AccessPolicy,
    /// How much may be kept, as people are told; the ledger holds them to it. `None` tells of no bounds.
    pub quotas: Option<Quotas>,
}

/// Satchel, put together.
pub struct Satchel {
    /// The way in, for the channels' inbound sides.
    pub inbound: Arc<dyn Inbound>,
    /// The way in for turns that Satchel starts itself. Channels don't get it.
    pub internal_inbound: InternalInbound,
    /// The work; nothing happens until it runs.
    pub runner: Runner,
}

/// The work of a process: the turns and deliveries of its lanes, and the maintenance of the stores beside them.
pub struct Runner {
    lanes: Lanes,
    maintenance: Maintenance,
}

impl Runner {
    /// Works until `stop` is cancelled; then finishes the parts in flight, gives the lanes back and returns.
    pub async fn run(self, stop: CancellationToken) {
        run_beside(self.lanes.run(stop.clone()), self.maintenance.run(stop)).await;
    }
}

/// Runs the work to its end. Maintenance is a task of its own: a panic there must not abort deliveries in flight.
async fn run_beside(work: impl Future<Output = ()>, maintenance: impl Future<Output = ()> + Send + 'static) {
    let maintenance = tokio::spawn(maintenance);
    let report = async {
        if let Err(error) = maintenance.await {
            tracing::error!(%error, "maintenance failed; unused files are not removed until the next start");
        }
    };
    tokio::join!(work, report);
}

/// Why the ports can't be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two channels have one name: messages of one would be answered on the other.
    #[error("two channels are called `{0}`; give each its own name")]
    DuplicateChannel(ChannelName),
    /// A tool can't be offered; another one has its name, for instance.
    #[error(transparent)]
    Tool(#[from] RegisterError),
}

/// Puts the ports together.
///
/// # Errors
/// When two channels or two tools have one name, or a tool's description is longer than providers take.
pub fn build(ports: Ports, options: SatchelOptions) -> Result<Satchel, BuildError> {
    let Ports { ledger, blobs, workspace, bus, fetcher, model, speech, scripts, links, channels, tools: extra_tools } =
        ports;
    let tool_services = ToolServices {
        ledger: Arc::clone(&ledger),
        blobs: Arc::clone(&blobs),
        workspace: Arc::clone(&workspace),
        fetcher,
        download_hosts: options.download_hosts,
        limits: options.tools,
    };
    let mut tools = built_in(tool_services.clone());
    if speech.as_ref().is_some_and(|speech| speech.can_speak()) {
        tools.register(send_voice()).expect("no built-in tool is called like it, and the table knows it");
    }
    if let Some(host) = scripts {
        let tool = execute_script(tool_services.clone(), host, options.scripts);
        tools.register(tool).expect("no built-in tool is called like it, and the table knows it");
    }
    for ExtraTool { tool, paths } in extra_tools {
        tools.register_with(tool, paths)?;
    }
    let tools = tools.for_model(&tool_services);
    let access = Arc::new(options.access);
    let is_owner: OwnerCheck = {
        let access = Arc::clone(&access);
        Arc::new(move |channel, sender| access.is_owner(channel, sender))
    };
    let is_owners_chat: IsOwnersChat = {
        let access = Arc::clone(&access);
        Arc::new(move |conversation| access.is_owners_chat(conversation))
    };
    let steer: Steer = {
        let (access, with_links) = (Arc::clone(&access), links.is_some());
        Arc::new(move |waiting| plan_steering(waiting, &access, with_links))
    };
    let services = AgentServices {
        ledger: Arc::clone(&ledger),
        bus: Arc::clone(&bus),
        model,
        tools: Toolbox::new(tools),
        steer,
        links: links.clone(),
        is_owner,
        is_owners_chat,
        settings: options.agent,
    };
    let channels = by_name(channels)?;
    let hosted: Vec<ChannelName> = channels.keys().cloned().collect();
    let (claim, claimed) = mpsc::channel(DEFAULT_MAX_LANES);
    let (rules, inbound) = (options.delivery, options.inbound);
    let hosting = Hosting {
        services,
        blobs,
        workspace: Arc::clone(&workspace),
        quotas: options.quotas.unwrap_or(Quotas::NONE),
        speech,
        channels,
        rules,
        inbound,
        access: Arc::clone(&access),
        turn_slots: TurnSlots::new(TURNS_PER_PERSON),
    };
    let maintenance = Maintenance::new(Arc::clone(&ledger), Arc::clone(&hosting.blobs), Arc::clone(&workspace));
    let runner = Runner { lanes: Lanes::new(hosting, claimed), maintenance };
    let reception = InboundService::new(ledger, bus, claim, access, workspace, links).hosting(hosted);
    let internal_inbound = reception.internal_inbound();
    Ok(Satchel { inbound: Arc::new(reception), internal_inbound, runner })
}

fn by_name(channels: Vec<Arc<dyn Channel>>) -> Result<HashMap<ChannelName, Arc<dyn Channel>>, BuildError> {
    let mut by_name = HashMap::new();
    for channel in channels {
        let name = channel.name();
        if by_name.insert(name.clone(), channel).is_some() {
            return Err(BuildError::DuplicateChannel(name));
        }
    }
    Ok(by_name)
}

#[cfg(test)]
mod tests {
    use satchel_ports::{
        MockBlobs, MockChannel, MockEventBus, MockFetcher, MockLanguageModel, MockLedger, MockTool, MockWorkspace,
        SafetyTier, ToolSpec,
    };
    use serde_json::json;

    use super::*;

    fn ports(channels: &[&'static str], tools: &[&'static str]) -> Ports {
        let channel = |name: &'static str| {
            let mut channel = MockChannel::new();
            channel.expect_name().returning(move || ChannelName::new(name).unwrap());
            Arc::new(channel) as Arc<dyn Channel>
        };
        let tool = |name: &'static str| {
            let mut tool = MockTool::new();
            tool.expect_spec().returning(move || ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                parameters: json!({}),
                tier: SafetyTier::ReadOnly,
                time_limit: None,
            });
            ExtraTool::without_paths(Arc::new(tool))
        };
        Ports {
            ledger: Arc::new(MockLedger::new()),
            blobs: Arc::new(MockBlobs::new()),
            workspace: Arc::new(MockWorkspace::new()),
            bus: Arc::new(MockEventBus::new()),
            fetcher: Arc::new(MockFetcher::new()),
            model: Arc::new(MockLanguageModel::new()),
            speech: None,
            scripts: None,
            links: None,
            channels: channels.iter().copied().map(channel).collect(),
            tools: tools.iter().copied().map(tool).collect(),
        }
    }

    fn error(channels: &[&'static str], tools: &[&'static str]) -> Option<String> {
        build(ports(channels, tools), SatchelOptions::default()).err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn work_outlives_a_panic_of_maintenance() {
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let done = std::cell::Cell::new(false);
        let work = async {
            // The sender falls with the panic.
            let _closed = released.await;
            tokio::task::yield_now().await;
            done.set(true);
        };
        run_beside(work, async move {
            let _release = release;
            panic!("the store is broken");
        })
        .await;
        assert!(done.get());
    }

    #[tokio::test]
    async fn duplicate_names_are_errors_of_build() {
        assert_eq!(error(&["board", "lobby"], &["dice", "map"]), None);
        let two_channels = error(&["board", "lobby", "board"], &[]);
        assert_eq!(two_channels.as_deref(), Some("two channels are called `board`; give each its own name"));
        for tools in [&["dice", "dice"][..], &["file_list"], &["attachment_add"]] {
            let error = error(&["board"], tools).expect("its name is taken");
            assert!(error.contains("there is a tool of that name already"), "{error}");
        }
    }
}
