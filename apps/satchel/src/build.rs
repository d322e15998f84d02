//! Puts the ports together: what comes out takes messages in, runs their turns and delivers their replies.

use std::{collections::HashMap, sync::Arc};

use satchel_agent::{
    AgentSettings, IsOwner, Services, SteeringMode, Toolbox,
    prompt::{INSTRUCTIONS, add_instructions},
};
use satchel_domain::{ChannelName, delivery::DeliveryRules};
use satchel_intake::{OwnDoor, Reception, access::Access, prepare::InboundLimits, steering::steering};
use satchel_ports::{
    Blobs, Channel, EventBus, Fetcher, FileLinks, Inbound, LanguageModel, Ledger, ScriptHost, Speech, Tool, Workspace,
};
use satchel_tools::{
    ScriptRules, ToolLimits, ToolServices, built_in, execute_script, path_fields::PathFields, send_voice,
};
use tokio::sync::mpsc;

use crate::{
    config::{Config, turn::Steering},
    fetch,
    lanes::{Hosting, Lanes},
    time_zone::machine_zone,
};

/// How many lanes this process works on at once; further ones wait in the ledger.
const LANES: usize = 256;

/// Everything that touches the world.
#[derive(Clone)]
pub struct Ports {
    /// Where everything is recorded.
    pub ledger: Arc<dyn Ledger>,
    /// Where bytes lie.
    pub blobs: Arc<dyn Blobs>,
    /// Where tools work on files.
    pub workspace: Arc<dyn Workspace>,
    /// Who hears of what happens.
    pub bus: Arc<dyn EventBus>,
    /// Who fetches what others have named.
    pub fetcher: Arc<dyn Fetcher>,
    /// Who answers.
    pub model: Arc<dyn LanguageModel>,
    /// Who speaks; `None` where no voice is configured.
    pub speech: Option<Arc<dyn Speech>>,
    /// Who evaluates scripts; `None` where nobody does.
    pub scripts: Option<Arc<dyn ScriptHost>>,
    /// Who gives files away that can't be sent; `None` where nobody does.
    pub links: Option<Arc<dyn FileLinks>>,
    /// Where people are. Only lanes of these channels are worked on.
    pub channels: Vec<Arc<dyn Channel>>,
    /// What the model may ask for besides the tools that Satchel brings along.
    pub tools: Vec<ExtraTool>,
}

/// A tool of a program that embeds Satchel.
#[derive(Clone)]
pub struct ExtraTool {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Which of its arguments hold paths, so that the path policy can hold them.
    pub paths: PathFields,
}

/// How all of it behaves.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
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
    pub access: Access,
}

impl Behaviour {
    /// What the configuration asks for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let tools = &config.tools;
        Self {
            agent: AgentSettings {
                instructions: config.instructions.as_deref().map_or_else(|| INSTRUCTIONS.to_owned(), add_instructions),
                time_zone: machine_zone(),
                model_calls: config.turn.model_calls,
                tool_calls: config.turn.tool_calls,
                steering: match config.turn.steering {
                    Steering::Inject => SteeringMode::Inject,
                    Steering::Wait => SteeringMode::Wait,
                },
                tool_time: tools.timeout,
                confirm: tools.confirm.clone(),
                confirm_time: tools.confirm_time,
                on_doubt: config.delivery.rules().on_doubt,
                privileged_in_groups: tools.privileged_in_groups,
                ..AgentSettings::default()
            },
            delivery: config.delivery.rules(),
            inbound: InboundLimits {
                file_bytes: config.attachments.max_inbound_file_bytes,
                files_per_turn: usize::try_from(config.attachments.max_inbound_files_per_turn).unwrap_or(usize::MAX),
                ..InboundLimits::default()
            },
            tools: ToolLimits {
                save_bytes: tools.save_max_file_bytes,
                inbound_file_bytes: config.attachments.max_inbound_file_bytes,
                add_files: usize::try_from(tools.add.max_files).unwrap_or(usize::MAX),
                add_file_bytes: tools.add.max_file_bytes,
                add_call_bytes: tools.add.max_call_bytes,
                add_turn_bytes: tools.add.max_turn_bytes,
                download_file_bytes: tools.download.max_file_bytes,
                download_call_bytes: tools.download.max_call_bytes,
                ..ToolLimits::default()
            },
            scripts: ScriptRules {
                time_limit: tools.script.timeout,
                allowed_tools: tools.script.allowed_tools.clone(),
                deny_all_tools: tools.script.deny_all_tools,
                ..ScriptRules::default()
            },
            download_hosts: fetch::download_hosts(config),
            access: config.access(),
        }
    }
}

/// Satchel, put together.
pub struct Satchel {
    /// The way in, for the channels' inbound sides.
    pub inbound: Arc<dyn Inbound>,
    /// The way in for what Satchel does unasked. Channels don't get it.
    pub own_door: OwnDoor,
    /// The work; nothing happens until it runs.
    pub lanes: Lanes,
}

/// Puts the ports together.
#[must_use]
pub fn build(ports: Ports, behaviour: Behaviour) -> Satchel {
    let Ports { ledger, blobs, workspace, bus, fetcher, model, speech, scripts, links, channels, tools: extra_tools } =
        ports;
    let tool_services = ToolServices {
        ledger: Arc::clone(&ledger),
        blobs: Arc::clone(&blobs),
        workspace: Arc::clone(&workspace),
        fetcher,
        download_hosts: behaviour.download_hosts,
        limits: behaviour.tools,
    };
    let mut tools = built_in(tool_services.clone());
    if speech.as_ref().is_some_and(|speech| speech.speaks()) {
        tools.register(send_voice()).expect("no built-in tool is called like it, and the table knows it");
    }
    if let Some(host) = scripts {
        let tool = execute_script(tool_services.clone(), host, behaviour.scripts);
        tools.register(tool).expect("no built-in tool is called like it, and the table knows it");
    }
    for ExtraTool { tool, paths } in extra_tools {
        if let Err(error) = tools.register_with(tool, paths) {
            tracing::error!(error = &error as &dyn std::error::Error, "a tool is left out");
        }
    }
    let tools = tools.for_model(&tool_services);
    let access = Arc::new(behaviour.access);
    let is_owner: IsOwner = {
        let access = Arc::clone(&access);
        Arc::new(move |channel, sender| access.is_owner(channel, sender))
    };
    let services = Services {
        ledger: Arc::clone(&ledger),
        bus: Arc::clone(&bus),
        model,
        tools: Toolbox::new(tools),
        steer: steering,
        links: links.clone(),
        is_owner,
        settings: behaviour.agent,
    };
    let channels: HashMap<ChannelName, Arc<dyn Channel>> =
        channels.into_iter().map(|channel| (channel.name(), channel)).collect();
    let (claim, claimed) = mpsc::channel(LANES);
    let (rules, inbound) = (behaviour.delivery, behaviour.inbound);
    let hosting = Hosting { services, blobs, speech, channels, rules, inbound, access: Arc::clone(&access) };
    let reception = Reception::new(ledger, bus, claim, access, workspace, links);
    let own_door = reception.own_door();
    Satchel { inbound: Arc::new(reception), own_door, lanes: Lanes::new(hosting, claimed) }
}
