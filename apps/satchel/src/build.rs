//! Builds the core from the ports: it accepts messages, runs their turns and delivers the replies.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use satchel_agent::{
    AgentProfile, AgentServices, AgentSettings, OwnerChatCheck, OwnerCheck, PlaybookServices, SteeringPlanner, Toolbox,
};
use satchel_attachments::{content::ContentServices, order::Playbooks, resolve::ResolutionPolicy};
use satchel_domain::{ChannelName, ConversationId, agent::InvalidAgentError, delivery::DeliveryRules};
use satchel_intake::{
    access::AccessPolicy,
    commands::{CommandFeatures, ScheduleDirectory},
    prepare::InboundLimits,
    steering::plan_steering,
};
use satchel_ports::{Channel, ledger::Quotas};
use satchel_runtime::WorkerContext;
pub use satchel_runtime::{LaneRole, Runner, Satchel};
use satchel_tools::{
    AuditedWorkspace, RegisterError, ScriptRules, ToolLimits, ToolServices, built_in, execute_script, send_voice,
    tool_selection::UnknownToolError,
};
#[cfg(feature = "application")]
use satchel_tools::{ReminderServices, reminder_tools};
use serde_json::{Map, Value};

use crate::{
    agents::{AgentDeclaration, build_profiles},
    ports::{ExtraTool, Ports},
};

/// The settings of the core.
#[derive(Debug, Clone, Default)]
pub struct SatchelOptions {
    /// How turns run.
    pub agent: AgentSettings,
    /// The system prompt of the default agent, such as [`add_instructions`](satchel_agent::prompt::add_instructions)
    /// makes it; `None` for Satchel's own.
    pub instructions: Option<String>,
    /// The agents besides the default one, among which people choose.
    pub agents: Vec<AgentDeclaration>,
    /// The agents that chats have unless somebody chooses another one. A group's topics have that of the group. `@` and
    /// the id of a person stand for their private chat.
    pub chat_agents: HashMap<ConversationId, String>,
    /// The chats among them in which nobody chooses another agent.
    pub locked_chats: HashSet<ConversationId>,
    /// How parts are retried and given up.
    pub delivery: DeliveryRules,
    /// The limits of incoming messages and files.
    pub inbound: InboundLimits,
    /// The limits of tools.
    pub tools: ToolLimits,
    /// The limits of scripts.
    pub scripts: ScriptRules,
    /// The hosts that people's files may be downloaded from besides the platforms' own.
    pub download_hosts: Vec<String>,
    /// Who may talk, and who decides.
    pub access: AccessPolicy,
    /// The tasks, and the attachments of agents; `None` where none are declared.
    pub playbooks: Option<PlaybookOptions>,
    /// Whether people can make reminders: the program delivers them.
    pub reminders: bool,
    /// The schedules of the configuration, which `/schedules` lists.
    pub schedules: Option<Arc<dyn ScheduleDirectory>>,
    /// Which work of lanes this process does.
    pub role: LaneRole,
    /// The quotas that people see; the ledger enforces its own. `None` shows no limits.
    pub quotas: Option<Quotas>,
}

/// The agents and tasks of playbooks. Each agent is also one of [`SatchelOptions::agents`].
#[derive(Debug, Clone)]
pub struct PlaybookOptions {
    pub playbooks: Playbooks,
    /// The environment variables that templates may name.
    pub environment: Map<String, Value>,
    /// What attachments may resolve to.
    pub policy: ResolutionPolicy,
}

/// Why the core can't be built from the ports.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two channels have the same name: messages of one would be answered on the other.
    #[error("two channels are called `{0}`; give each its own name")]
    DuplicateChannel(ChannelName),
    /// A tool can't be registered, for example because another one has its name.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The agents can't be declared so, for example because two have the same name.
    #[error(transparent)]
    Agent(#[from] InvalidAgentError),
    /// A locked chat has no agent: everybody could choose one there.
    #[error("{0} is locked, but it has no agent; name one in `chat_agents`")]
    LockedChat(ConversationId),
    /// An agent names a model that isn't in [`Ports::models`].
    #[error("the agent `{agent}` can't have the model {model:?}: {models}")]
    AgentModel {
        agent: String,
        model: String,
        /// Which models there are, as text.
        models: String,
    },
    /// An agent names a tool that doesn't exist.
    #[error("the agent `{agent}` can't have its tools")]
    AgentTool {
        agent: String,
        #[source]
        source: UnknownToolError,
    },
}

/// Builds the core from the ports.
///
/// # Errors
/// When two channels, tools or agents have the same name, when a tool's description is too long for providers, or when an
/// agent names a model or a tool that doesn't exist.
pub fn build(ports: Ports, options: SatchelOptions) -> Result<Satchel, BuildError> {
    let Ports {
        ledger,
        clock,
        ids,
        blobs,
        workspace,
        bus,
        fetcher,
        model,
        models,
        speech,
        scripts,
        documents,
        images,
        declared_files,
        links,
        channels,
        tools: extra_tools,
    } = ports;
    let playbooks = options.playbooks.zip(declared_files).map(|(declared, files)| {
        let PlaybookOptions { playbooks, environment, policy } = declared;
        let (fetcher, blobs) = (Arc::clone(&fetcher), Arc::clone(&blobs));
        let (documents, images, speech) = (documents.clone(), images.clone(), speech.clone());
        let content = ContentServices { files, fetcher, blobs, documents, speech, images, work_share: None, policy };
        Arc::new(PlaybookServices::new(playbooks, environment, content))
    });
    let tool_services = ToolServices {
        archive: Arc::clone(&ledger.archive),
        turns: Arc::clone(&ledger.turns),
        blobs: Arc::clone(&blobs),
        workspace: AuditedWorkspace::new(Arc::clone(&workspace)),
        fetcher,
        download_hosts: options.download_hosts,
        documents: documents.clone(),
        images,
        limits: options.tools,
    };
    let mut tools = built_in(tool_services.clone());
    if speech.as_ref().is_some_and(|speech| speech.can_speak()) {
        tools.register(send_voice()).expect("its name is unique among the built-in tools");
    }
    if let Some(host) = scripts {
        let tool = execute_script(tool_services.clone(), host, options.scripts);
        tools.register(tool).expect("its name is unique among the built-in tools");
    }
    #[cfg(feature = "application")]
    if options.reminders {
        let default_zone = options.agent.time_zone.clone().into();
        let reminders = ReminderServices { port: Arc::clone(&ledger.reminders), default_zone };
        for tool in reminder_tools(tool_services.clone(), reminders) {
            tools.register(tool).expect("its name is unique among the built-in tools");
        }
    }
    for ExtraTool { tool, paths } in extra_tools {
        tools.register_with_paths(tool, paths)?;
    }
    let tools = tools.for_model(&tool_services);
    let mut default_agent = AgentProfile::default_agent(model, Toolbox::new(tools.clone()));
    default_agent.instructions = options.instructions.unwrap_or(default_agent.instructions);
    let without_agent =
        options.locked_chats.iter().filter(|chat| !options.chat_agents.contains_key(*chat)).min().cloned();
    let agents = build_profiles(default_agent, &tools, &models, options.agents, options.chat_agents)?;
    if let Some(chat) = without_agent {
        return Err(BuildError::LockedChat(chat));
    }
    let agents = agents.with_locked_chats(options.locked_chats).with_models(models);
    let access = Arc::new(options.access);
    let is_owner: OwnerCheck = {
        let access = Arc::clone(&access);
        Arc::new(move |channel, sender| access.is_owner(channel, sender))
    };
    let is_owners_chat: OwnerChatCheck = {
        let access = Arc::clone(&access);
        Arc::new(move |conversation| access.is_owner_chat(conversation))
    };
    let steer: SteeringPlanner = {
        let features = CommandFeatures {
            links: links.is_some(),
            agents: agents.directory().has_choice(),
            models: agents.has_model_choice(),
            tasks: playbooks.as_ref().is_some_and(|playbooks| !playbooks.directory().is_empty()),
            reminders: options.reminders,
            // Which channel asks isn't known here; a turn of its own knows.
            rich: false,
        };
        let access = Arc::clone(&access);
        let max_files = options.inbound.max_files_per_turn;
        Arc::new(move |turn, waiting| plan_steering(turn, waiting, &access, features, max_files))
    };
    let services = AgentServices {
        turns: Arc::clone(&ledger.turns),
        outbox: Arc::clone(&ledger.outbox),
        archive: Arc::clone(&ledger.archive),
        reminders: Arc::clone(&ledger.reminders),
        clock,
        ids,
        bus,
        agents,
        playbooks,
        documents,
        plan_steering: steer,
        links,
        is_owner,
        is_owners_chat,
        settings: options.agent,
    };
    let channels = channels_by_name(channels)?;
    Ok(satchel_runtime::build(WorkerContext {
        ledger,
        services,
        blobs,
        workspace,
        quotas: options.quotas.unwrap_or(Quotas::NONE),
        speech,
        channels,
        rules: options.delivery,
        inbound: options.inbound,
        access,
        reminders: options.reminders,
        schedules: options.schedules,
        turn_slots: Arc::default(),
        role: options.role,
        handover: Arc::default(),
        lost_leases: Arc::default(),
    }))
}

fn channels_by_name(channels: Vec<Arc<dyn Channel>>) -> Result<HashMap<ChannelName, Arc<dyn Channel>>, BuildError> {
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
    use std::collections::BTreeMap;

    use satchel_ports::{
        ManualClock, MockBlobs, MockChannel, MockEventBus, MockFetcher, MockLanguageModel, MockLedger, MockTool,
        MockWorkspace, SafetyTier, SequentialIds, ToolSpec,
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
            ledger: MockLedger::default().into(),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(SequentialIds::default()),
            blobs: Arc::new(MockBlobs::new()),
            workspace: Arc::new(MockWorkspace::new()),
            bus: Arc::new(MockEventBus::new()),
            fetcher: Arc::new(MockFetcher::new()),
            model: Arc::new(MockLanguageModel::new()),
            models: BTreeMap::new(),
            speech: None,
            scripts: None,
            documents: None,
            images: None,
            declared_files: None,
            links: None,
            channels: channels.iter().copied().map(channel).collect(),
            tools: tools.iter().copied().map(tool).collect(),
        }
    }

    fn error(channels: &[&'static str], tools: &[&'static str]) -> Option<String> {
        build(ports(channels, tools), SatchelOptions::default()).err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn locked_chat_without_an_agent_is_an_error_of_build() {
        let locked_chats: [ConversationId; 2] = ["board:1", "board:2"].map(|chat| chat.parse().unwrap());
        let chat_agents = HashMap::from([(locked_chats[0].clone(), "default".to_owned())]);
        let options = SatchelOptions { chat_agents, locked_chats: locked_chats.into(), ..SatchelOptions::default() };
        let error = build(ports(&["board"], &[]), options).err().expect("one has none").to_string();
        assert_eq!(error, "board:2 is locked, but it has no agent; name one in `chat_agents`");
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
