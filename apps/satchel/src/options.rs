//! Converts the configuration into the options of the core.

use std::sync::Arc;

use satchel_agent::{AgentSettings, prompt::add_instructions};
use satchel_attachments::{AgentConfig, SourcePosition};
use satchel_intake::prepare::InboundLimits;
use satchel_runtime::schedules::Schedules;
use satchel_tools::{ScriptRules, ToolLimits};

use crate::{
    adapters,
    agents::AgentDeclaration,
    build::{LaneRole, PlaybookOptions, SatchelOptions},
    config::{Config, leaf::secret::Instructions},
    runtime::machine_zone,
};

impl SatchelOptions {
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        let tools = &config.tools;
        Self {
            agent: AgentSettings {
                time_zone: machine_zone(),
                max_model_calls: config.turn.model_calls.0,
                max_tool_calls: config.turn.tool_calls.0,
                steering: config.turn.steering(),
                interim_text: config.turn.interim_text(),
                tool_timeout: tools.timeout.0,
                confirm_tiers: tools.confirm.clone(),
                confirm_timeout: tools.confirm_time.0,
                privileged_in_groups: tools.privileged_in_groups.is_on(),
                ..AgentSettings::default()
            },
            instructions: config.instructions.as_ref().map(|Instructions(text)| add_instructions(text)),
            agents: config.playbooks.agents().map(AgentDeclaration::from).collect(),
            chat_agents: config.telegram.chat_agents().into_iter().chain(config.discord.chat_agents()).collect(),
            locked_chats: config.telegram.locked_chats().into_iter().chain(config.discord.locked_chats()).collect(),
            role: LaneRole::default(),
            delivery: config.delivery.rules(),
            inbound: InboundLimits {
                max_file_bytes: config.attachments.max_inbound_file_bytes.0,
                max_files_per_turn: config.attachments.max_inbound_files_per_turn.as_usize(),
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
            download_hosts: adapters::download_hosts(config),
            access: config.access(),
            playbooks: playbook_options(config),
            reminders: false,
            schedules: Some(Arc::new(Schedules(config.schedules.clone()))),
            quotas: Some(config.attachments.quotas()),
        }
    }
}

/// The playbooks, if there are any.
fn playbook_options(config: &Config) -> Option<PlaybookOptions> {
    let playbooks = config.playbooks.clone();
    playbooks.agents().next()?;
    let (environment, policy) = (config.templates.values.clone(), config.attachments.resolution_policy());
    Some(PlaybookOptions { playbooks, environment, policy })
}

impl From<&AgentConfig> for AgentDeclaration {
    fn from(agent: &AgentConfig) -> Self {
        let names = |tools: &Vec<(String, SourcePosition)>| tools.iter().map(|(name, _)| name.clone()).collect();
        Self {
            name: agent.id.clone(),
            description: agent.description.clone(),
            instructions: add_instructions(&agent.instructions),
            model: agent.model.as_ref().map(|(name, _)| name.clone()),
            tools: agent.tools.as_ref().map(names),
            allow: agent.allow,
            context: Vec::new(),
        }
    }
}
