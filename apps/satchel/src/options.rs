//! What the configuration asks of the core.

use satchel_agent::{
    AgentSettings, SteeringMode,
    prompt::{INSTRUCTIONS, add_instructions},
};
use satchel_intake::prepare::InboundLimits;
use satchel_tools::{ScriptRules, ToolLimits};

use crate::{
    build::SatchelOptions,
    config::{Config, turn::Steering},
    fetch,
    time_zone::machine_zone,
};

impl SatchelOptions {
    /// Reads them off the configuration.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
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
            quotas: Some(config.attachments.quotas),
        }
    }
}
