//! What tools may do: `tools`.

use std::{path::PathBuf, time::Duration};

use satchel_ports::SafetyTier;
use satchel_tools::{path_fields, registry::provider_name};

use super::{reader::Reader, unknown};

/// What tools may do.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    /// The tiers whose calls the person must confirm.
    pub confirm: Vec<SafetyTier>,
    /// How long a person may take to confirm a call.
    pub confirm_time: Duration,
    /// Whether privileged tools may be used in groups.
    pub privileged_in_groups: bool,
    /// How long a call may take, unless its tool has a limit of its own.
    pub timeout: Duration,
    /// The largest file that `attachment_save` writes.
    pub save_max_file_bytes: u64,
    /// What `attachment.add` takes.
    pub add: AddLimits,
    /// What `attachment.download` takes.
    pub download: DownloadLimits,
    /// What scripts may do.
    pub script: ScriptSettings,
}

/// What scripts may do.
#[derive(Debug, Clone)]
pub struct ScriptSettings {
    /// How long one may run.
    pub timeout: Duration,
    /// The tools that they may call, by name; `None` for all.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether they may call none at all.
    pub deny_all_tools: bool,
    /// The program that evaluates them; `None` for the one that lies beside this one.
    pub worker: Option<PathBuf>,
}

/// What `attachment.add` takes.
#[derive(Debug, Clone, Copy)]
pub struct AddLimits {
    /// Files a call.
    pub max_files: u32,
    /// Bytes a file.
    pub max_file_bytes: u64,
    /// Bytes a call.
    pub max_call_bytes: u64,
    /// Bytes a turn.
    pub max_turn_bytes: u64,
}

/// What `attachment.download` takes.
#[derive(Debug, Clone, Copy)]
pub struct DownloadLimits {
    /// Bytes a file.
    pub max_file_bytes: u64,
    /// Bytes a call.
    pub max_call_bytes: u64,
}

pub(super) fn read(reader: &mut Reader<'_>) -> ToolSettings {
    let tiers = [
        ("read_only", SafetyTier::ReadOnly),
        ("side_effecting", SafetyTier::SideEffecting),
        ("privileged", SafetyTier::Privileged),
    ];
    let confirm = reader.choices("tools.confirm", &tiers, &[SafetyTier::Privileged]);
    ToolSettings {
        confirm,
        confirm_time: reader.duration("tools.confirm_time", Duration::from_secs(10 * 60)),
        privileged_in_groups: reader.choice("tools.privileged_in_groups", &[("off", false), ("on", true)]),
        timeout: reader.duration("tools.timeout", Duration::from_secs(120)),
        save_max_file_bytes: reader.size("tools.save.max_file_bytes", 50 << 20),
        add: AddLimits {
            max_files: reader.count("tools.add.max_files", 20, 1..=1_000),
            max_file_bytes: reader.size("tools.add.max_file_bytes", 100 << 20),
            max_call_bytes: reader.size("tools.add.max_call_bytes", 200 << 20),
            max_turn_bytes: reader.size("tools.add.max_turn_bytes", 500 << 20),
        },
        download: DownloadLimits {
            max_file_bytes: reader.size("tools.download.max_file_bytes", 50 << 20),
            max_call_bytes: reader.size("tools.download.max_call_bytes", 200 << 20),
        },
        script: ScriptSettings {
            timeout: reader.duration("tools.script.timeout", Duration::from_secs(600)),
            allowed_tools: allowed_tools(reader, "tools.script.allowed_tools"),
            deny_all_tools: reader.choice("tools.script.deny_all_tools", &[("off", false), ("on", true)]),
            worker: reader.path("tools.script.worker"),
        },
    }
}

/// The tools that are named, in Satchel's spelling or in that of scripts; `None` when none need be.
fn allowed_tools(reader: &mut Reader<'_>, key: &str) -> Option<Vec<String>> {
    let named = reader.checked_texts(key, |given| {
        if path_fields::tool_names().any(|tool| given == tool || given == provider_name(tool)) {
            return Ok(());
        }
        let typos = |tool: &'static str| Some((unknown::typos(&provider_name(given), &provider_name(tool))?, tool));
        let expected = match path_fields::tool_names().filter_map(typos).min() {
            Some((_, nearest)) => format!("did you mean `{nearest}`?"),
            None => format!("the tools are {}", path_fields::tool_names().collect::<Vec<_>>().join(", ")),
        };
        Err(format!("unknown tool `{given}` in `{key}`: {expected}"))
    });
    reader.is_given(key).then_some(named)
}
