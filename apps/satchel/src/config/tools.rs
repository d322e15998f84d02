//! What tools may do: `tools`.

use std::time::Duration;

use satchel_ports::SafetyTier;
use satchel_tools::{path_fields, registry::provider_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    leaf::{
        address::FilePath,
        amount::{ConfigDuration, Count, Size},
        list::{OnOff, Texts},
    },
    resolver::Resolver,
    suggestions,
};

/// What tools may do.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolsConfig {
    /// The tiers of tools whose calls need a person's confirmation.
    #[schemars(with = "Vec<String>", extend("items" = json!({
        "type": "string", "enum": [SafetyTier::ReadOnly, SafetyTier::SideEffecting, SafetyTier::Privileged]
    })))]
    pub confirm: Vec<SafetyTier>,
    /// How long to wait for a confirmation. No answer means no.
    pub confirm_time: ConfigDuration,
    /// Whether privileged tools may be used in groups, where other people read along.
    pub privileged_in_groups: OnOff,
    /// Whether tools work on the workspace's files in a WebAssembly sandbox. Turn it off only where the sandbox can't
    /// start, such as on a system that forbids programs to compile code; `satchel doctor` says whether it can.
    pub sandbox: OnOff,
    /// How long a tool may run, unless it has a limit of its own.
    pub timeout: ConfigDuration,
    pub save: SaveConfig,
    pub add: AddConfig,
    pub download: DownloadConfig,
    pub script: ScriptToolConfig,
}

/// `attachment_save`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SaveConfig {
    /// The largest file that is saved to the workspace.
    pub max_file_bytes: Size,
}

/// `attachment.add`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AddConfig {
    /// The most files that one call attaches.
    pub max_files: Count<1, 1_000>,
    /// The largest of these files.
    pub max_file_bytes: Size,
    /// The most bytes that one call attaches.
    pub max_call_bytes: Size,
    /// The most bytes that the calls of one turn attach.
    pub max_turn_bytes: Size,
}

/// `attachment.download`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DownloadConfig {
    /// The largest file that is downloaded.
    pub max_file_bytes: Size,
    /// The most bytes that one call downloads.
    pub max_call_bytes: Size,
}

/// Scripts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScriptToolConfig {
    /// How long a script may run, including its tools and the time that it waits for people.
    pub timeout: ConfigDuration,
    /// The tools that scripts may call, by name; all of them unless it is set.
    #[schemars(extend("default" = json!([])))]
    pub allowed_tools: Option<Texts>,
    /// Whether scripts are denied every tool.
    pub deny_all_tools: OnOff,
    /// The program `satchel-script`, which evaluates scripts; by default the one next to the program `satchel`. Without
    /// it no scripts are offered.
    pub worker: Option<FilePath>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            confirm: vec![SafetyTier::Privileged],
            confirm_time: ConfigDuration(Duration::from_secs(10 * 60)),
            privileged_in_groups: OnOff::Off,
            sandbox: OnOff::On,
            timeout: ConfigDuration(Duration::from_secs(120)),
            save: SaveConfig::default(),
            add: AddConfig::default(),
            download: DownloadConfig::default(),
            script: ScriptToolConfig::default(),
        }
    }
}

impl Default for SaveConfig {
    fn default() -> Self {
        Self { max_file_bytes: Size(50 << 20) }
    }
}

impl Default for AddConfig {
    fn default() -> Self {
        Self {
            max_files: Count(20),
            max_file_bytes: Size(100 << 20),
            max_call_bytes: Size(200 << 20),
            max_turn_bytes: Size(500 << 20),
        }
    }
}

impl Default for DownloadConfig {
    fn default() -> Self {
        Self { max_file_bytes: Size(50 << 20), max_call_bytes: Size(200 << 20) }
    }
}

impl Default for ScriptToolConfig {
    fn default() -> Self {
        let timeout = ConfigDuration(Duration::from_secs(600));
        Self { timeout, allowed_tools: None, deny_all_tools: OnOff::Off, worker: None }
    }
}

impl ToolsConfig {
    /// Checks the names of allowed tools, in Satchel's spelling or in that of scripts.
    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>) {
        let key = "tools.script.allowed_tools";
        let is_known =
            |given: &str| path_fields::tool_names().any(|tool| given == tool || given == provider_name(tool));
        let allowed_tools = self.script.allowed_tools.iter().flat_map(|tools| &tools.0).enumerate();
        for (index, given) in allowed_tools.filter(|(_, given)| !is_known(given)) {
            let expected = suggest_tool(given);
            resolver.report(&format!("{key}[{index}]"), format!("unknown tool `{given}` in `{key}`: {expected}"));
        }
    }
}

/// Suggests the tool with the most similar name, or lists all.
pub(super) fn suggest_tool(given: &str) -> String {
    let with_typos =
        |tool: &'static str| Some((suggestions::typo_count(&provider_name(given), &provider_name(tool))?, tool));
    match path_fields::tool_names().filter_map(with_typos).min() {
        Some((_, nearest)) => format!("did you mean `{nearest}`?"),
        None => format!("the tools are {}", path_fields::tool_names().collect::<Vec<_>>().join(", ")),
    }
}
