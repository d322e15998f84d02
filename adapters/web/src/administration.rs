//! What owners see of the running system and can do about it, as a port: the program that serves the page implements it.

use async_trait::async_trait;
use satchel_domain::{ChannelName, PairingCode, PartId};
use satchel_ports::LedgerError;
use serde::Serialize;
use utoipa::ToSchema;

/// The running system, for its owners.
///
/// # Contract
/// - No secret is in what is returned.
/// - An action that is repeated has the effect of one.
#[async_trait]
pub trait Administration: Send + Sync {
    /// Describes what runs.
    async fn overview(&self) -> Result<SystemOverview, AdministrationError>;

    /// Runs all checks of `satchel doctor`. Never called twice at once.
    async fn check(&self) -> Vec<SystemFinding>;

    /// Lists every setting, with where it comes from.
    fn settings(&self) -> Vec<SystemSetting>;

    /// Lists the people who may talk, and those who ask to.
    async fn people(&self) -> Result<SystemPeople, AdministrationError>;

    /// Approves or refuses the person of a code.
    async fn decide_pairing(&self, code: PairingCode, approve: bool) -> Result<(), AdministrationError>;

    /// Revokes an approval; does nothing if there is none.
    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<(), AdministrationError>;

    /// Lists the parts that are in progress or failed, the newest first.
    async fn outbox(&self) -> Result<Vec<SystemPart>, AdministrationError>;

    /// Gives up a part that is not being sent.
    async fn discard_part(&self, part: PartId) -> Result<(), AdministrationError>;

    /// Sends the text and the files of a part again; once for each `key`.
    async fn resend_part(&self, part: PartId, key: &str) -> Result<(), AdministrationError>;
}

/// Why an owner's request failed.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// What it is about has changed or doesn't allow it, in a sentence for the owner; a retry doesn't help.
    #[error("{0}")]
    Refused(String),
    /// There is no such thing; its name follows "no such".
    #[error("there is no such {0}")]
    Unknown(&'static str),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemOverview {
    /// The version of Satchel.
    pub version: String,
    /// The operating system and the architecture.
    pub platform: String,
    /// When the process started, in milliseconds since 1970.
    pub started_at: i64,
    /// The configuration file; `null` without one.
    pub config_file: Option<String>,
    pub channels: Vec<SystemChannel>,
    pub models: Vec<SystemModel>,
    pub tools: Vec<SystemTool>,
    pub schedules: Vec<SystemSchedule>,
    pub reminders: Vec<SystemReminder>,
    pub directories: Vec<SystemDirectory>,
    /// The number of stored files.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// The bytes of the workspaces.
    pub workspace_bytes: u64,
}

/// A channel that this process hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemChannel {
    pub name: String,
    /// Its address, or the account that it uses; may be empty.
    pub detail: String,
    /// The parts that wait or are being sent.
    pub unsettled: u64,
    /// Those of them that may have arrived and are being checked.
    pub in_doubt: u64,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemModel {
    /// Its name in the configuration.
    pub name: String,
    pub title: String,
    /// What it is used for: `answers`, `fallback` or `choice`.
    pub role: &'static str,
    /// Why it was selected; empty for one that is only a choice.
    pub reason: String,
}

/// A tool that the model may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemTool {
    pub name: String,
    pub description: String,
    /// What it may do: `read_only`, `side_effecting` or `privileged`.
    pub tier: &'static str,
}

/// A schedule of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemSchedule {
    pub name: String,
    /// Its next run in its own time zone; `null` if it is disabled or never runs again.
    pub next: Option<String>,
    pub conversation: String,
    pub enabled: bool,
}

/// A reminder that somebody made in a chat. Its text stays between them and the assistant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemReminder {
    pub person: String,
    pub conversation: String,
    /// When it is due, in milliseconds since 1970.
    pub next_at: i64,
    /// When it is due again, as a cron expression; `null` for one that is due once.
    pub cron: Option<String>,
}

/// A directory that holds data, and the room on its disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemDirectory {
    /// `data`, `files` or `shared`.
    pub role: String,
    pub path: String,
    /// The free bytes; `null` if they can't be read.
    pub free: Option<u64>,
    /// The bytes of the disk; `null` if they can't be read.
    pub total: Option<u64>,
    /// The bytes that files must leave free.
    pub reserved: u64,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemFinding {
    /// The name of the check.
    pub check: String,
    /// `ok`, `warning` or `problem`.
    pub level: &'static str,
    pub found: String,
    /// How to fix it.
    pub advice: Option<String>,
}

/// A setting. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SystemSetting {
    pub key: String,
    /// The value in effect; `null` when there is none.
    pub value: serde_json::Value,
    /// Where it comes from, as `satchel config show` prints it.
    pub origin: String,
    /// Whether it is the default.
    pub is_default: bool,
    /// What it does.
    pub description: String,
    /// How to change it: the line of the file, the variable or the option.
    pub change: String,
}

/// The people of the channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemPeople {
    /// Those who ask to talk, the oldest first.
    pub pairings: Vec<SystemPairing>,
    pub people: Vec<SystemPerson>,
}

/// A person who asks to talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemPairing {
    pub code: String,
    pub channel: String,
    pub id: String,
    /// The name that they call themselves.
    pub name: String,
    pub handle: Option<String>,
    /// When the code expires, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A person who may talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemPerson {
    pub channel: String,
    pub id: String,
    /// The name that they called themselves; empty if only the configuration knows them.
    pub name: String,
    pub handle: Option<String>,
    /// `owner` or `user`.
    pub role: &'static str,
    /// Where the configuration allows them; `null` for an approval by a code, which can be revoked here.
    pub configured_at: Option<String>,
    /// When a code approved them, in milliseconds since 1970.
    pub approved_at: Option<i64>,
    pub approved_by: Option<String>,
}

/// A part of a reply on its way, or one that failed. The words stay in their conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SystemPart {
    pub id: String,
    pub conversation: String,
    /// What it does on the channel: `post`, `edit` or `delete`.
    pub operation: String,
    /// What it is, without its words: "text", or the names and sizes of its files.
    pub content: String,
    /// `pending`, `sending`, `waiting`, `in_doubt`, `open` or `failed`.
    pub state: String,
    /// Why it waits or failed.
    pub reason: Option<String>,
    pub attempts: u32,
    /// When it was planned, in milliseconds since 1970.
    pub created_at: i64,
    /// Whether it can be given up.
    pub can_discard: bool,
    /// Whether it can be sent again.
    pub can_resend: bool,
}
