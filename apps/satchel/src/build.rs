//! Puts the ports together: what comes out takes messages in, runs their turns and delivers their replies.

use std::{collections::HashMap, sync::Arc};

use satchel_agent::{
    AgentSettings, IsOwner, IsOwnersChat, Services, Steer, Toolbox,
    prompt::{INSTRUCTIONS, add_instructions},
};
use satchel_domain::{ChannelName, delivery::DeliveryRules};
use satchel_intake::{OwnDoor, Reception, access::Access, prepare::InboundLimits, steering::steering};
use satchel_ports::{
    Blobs, Channel, EventBus, Fetcher, FileLinks, Inbound, LanguageModel, Ledger, ScriptHost, Speech, Tool, Workspace,
    ledger::usage::Quotas,
};
use satchel_tools::{
    RegisterError, ScriptRules, ToolLimits, ToolServices, built_in, execute_script, path_fields::PathFields, send_voice,
};
use tokio::sync::mpsc;

use crate::{
    config::{Config, leaf::secret::Instructions},
    fetch,
    lanes::{Hosting, Lanes, TurnSlots},
    time_zone::machine_zone,
};

/// How many lanes this process works on at once; further ones wait in the ledger.
const LANES: usize = 256;

/// How many of them may run turns of one person; their further ones wait.
const TURNS_PER_PERSON: usize = LANES / 4;

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
    /// How much may be kept, as people are told; the ledger holds them to it. `None` tells of no bounds.
    pub quotas: Option<Quotas>,
}

impl Behaviour {
    /// What the configuration asks for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let tools = &config.tools;
        Self {
            agent: AgentSettings {
                instructions: match &config.instructions {
                    Some(Instructions(text)) => add_instructions(text),
                    None => INSTRUCTIONS.to_owned(),
                },
                time_zone: machine_zone(),
                model_calls: config.turn.model_calls.0,
                tool_calls: config.turn.tool_calls.0,
                steering: config.turn.steering(),
                tool_time: tools.timeout.0,
                confirm: tools.confirm.clone(),
                confirm_time: tools.confirm_time.0,
                on_doubt: config.delivery.rules().on_doubt,
                privileged_in_groups: tools.privileged_in_groups.is_on(),
                ..AgentSettings::default()
            },
            delivery: config.delivery.rules(),
            inbound: InboundLimits {
                file_bytes: config.attachments.max_inbound_file_bytes.0,
                files_per_turn: config.attachments.max_inbound_files_per_turn.as_usize(),
                ..InboundLimits::default()
            },
            tools: ToolLimits {
                save_bytes: tools.save.max_file_bytes.0,
                inbound_file_bytes: config.attachments.max_inbound_file_bytes.0,
                add_files: tools.add.max_files.as_usize(),
                add_file_bytes: tools.add.max_file_bytes.0,
                add_call_bytes: tools.add.max_call_bytes.0,
                add_turn_bytes: tools.add.max_turn_bytes.0,
                download_file_bytes: tools.download.max_file_bytes.0,
                download_call_bytes: tools.download.max_call_bytes.0,
                ..ToolLimits::default()
            },
            scripts: ScriptRules {
                time_limit: tools.script.timeout.0,
                allowed_tools: tools.script.allowed_tools.clone().map(|tools| tools.0),
                deny_all_tools: tools.script.deny_all_tools.is_on(),
                ..ScriptRules::default()
            },
            download_hosts: fetch::download_hosts(config),
            access: config.access(),
            quotas: Some(config.attachments.quotas()),
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

/// Why the ports can't be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two channels have one name: messages of one would be answered on the other.
    #[error("two channels are called `{0}`; give each a name of its own")]
    DuplicateChannel(ChannelName),
    /// A tool can't be offered; another one has its name, for instance.
    #[error(transparent)]
    Tool(#[from] RegisterError),
}

/// Puts the ports together.
///
/// # Errors
/// When two channels or two tools have one name, or a tool's description is longer than providers take.
pub fn build(ports: Ports, behaviour: Behaviour) -> Result<Satchel, BuildError> {
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
    if speech.as_ref().is_some_and(|speech| speech.can_speak()) {
        tools.register(send_voice()).expect("no built-in tool is called like it, and the table knows it");
    }
    if let Some(host) = scripts {
        let tool = execute_script(tool_services.clone(), host, behaviour.scripts);
        tools.register(tool).expect("no built-in tool is called like it, and the table knows it");
    }
    for ExtraTool { tool, paths } in extra_tools {
        tools.register_with(tool, paths)?;
    }
    let tools = tools.for_model(&tool_services);
    let access = Arc::new(behaviour.access);
    let is_owner: IsOwner = {
        let access = Arc::clone(&access);
        Arc::new(move |channel, sender| access.is_owner(channel, sender))
    };
    let is_owners_chat: IsOwnersChat = {
        let access = Arc::clone(&access);
        Arc::new(move |conversation| access.is_owners_chat(conversation))
    };
    let steer: Steer = {
        let (access, with_links) = (Arc::clone(&access), links.is_some());
        Arc::new(move |waiting| steering(waiting, &access, with_links))
    };
    let services = Services {
        ledger: Arc::clone(&ledger),
        bus: Arc::clone(&bus),
        model,
        tools: Toolbox::new(tools),
        steer,
        links: links.clone(),
        is_owner,
        is_owners_chat,
        settings: behaviour.agent,
    };
    let channels = by_name(channels)?;
    let hosted: Vec<ChannelName> = channels.keys().cloned().collect();
    let (claim, claimed) = mpsc::channel(LANES);
    let (rules, inbound) = (behaviour.delivery, behaviour.inbound);
    let hosting = Hosting {
        services,
        blobs,
        workspace: Arc::clone(&workspace),
        quotas: behaviour.quotas.unwrap_or(Quotas::NONE),
        speech,
        channels,
        rules,
        inbound,
        access: Arc::clone(&access),
        turn_slots: TurnSlots::new(TURNS_PER_PERSON),
    };
    let reception = Reception::new(ledger, bus, claim, access, workspace, links).hosting(hosted);
    let own_door = reception.own_door();
    Ok(Satchel { inbound: Arc::new(reception), own_door, lanes: Lanes::new(hosting, claimed) })
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
            ExtraTool { tool: Arc::new(tool), paths: PathFields::None }
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
        build(ports(channels, tools), Behaviour::default()).err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn duplicate_names_are_errors_of_build() {
        assert_eq!(error(&["board", "lobby"], &["dice", "map"]), None);
        let two_channels = error(&["board", "lobby", "board"], &[]);
        assert_eq!(two_channels.as_deref(), Some("two channels are called `board`; give each a name of its own"));
        for tools in [&["dice", "dice"][..], &["file_list"], &["attachment_add"]] {
            let error = error(&["board"], tools).expect("its name is taken");
            assert!(error.contains("there is a tool of that name already"), "{error}");
        }
    }
}
