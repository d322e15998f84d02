//! What an engine brings: a transaction whose statements run one after the other, and what a verb needs besides rows.

use std::{fmt::Display, time::Duration};

use satchel_domain::{ConversationId, Timestamp};
use satchel_ledger::{quota::QuotaRules, stored::StoredError};
use satchel_ports::ledger::HolderId;
use uuid::Uuid;

use crate::{
    columns::{FromColumn, FromRow},
    error::VerbError,
    lanes::{Lane, LaneId},
    parameters::Parameter,
    work_scope::WorkScope,
};

/// What a verb yields.
pub type VerbResult<T, S> = Result<T, <S as Session>::Error>;

/// The numbers by which verbs work, whichever engine runs them.
#[derive(Debug, Clone)]
pub struct VerbSettings {
    /// How long a lease lives unless it is renewed. On one machine it ends with its owner's process.
    pub lease: Duration,
    /// How long an album must be quiet before its turn may begin.
    pub album_quiet: Duration,
    /// How many messages of its conversation's history a turn brings.
    pub max_history_messages: u32,
    /// What this process works on.
    pub scope: WorkScope,
    /// The bytes that files may take up.
    pub quotas: QuotaRules,
}

impl Default for VerbSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            album_quiet: Duration::from_millis(500),
            max_history_messages: 200,
            scope: WorkScope::default(),
            quotas: QuotaRules::default(),
        }
    }
}

/// The transaction of a verb.
///
/// Statements are written in what all engines understand, with `$1` and so on for what is bound. An engine provides what
/// isn't common: `rarray($1)` is a bound list as a table with the column `value`, `ledger_now()` the time by which leases and
/// queues go, and `json_extract`, `json_remove` and `instr` are those of SQLite. A bound limit is written `LIMIT $1 + 0`:
/// SQLite plans a statement again whenever a bare one is bound. A bound list is never compared with NULL: SQLite binds it as
/// a pointer, which is NULL everywhere but in `rarray`.
pub trait Session {
    /// Why a verb failed.
    type Error: From<VerbError> + From<StoredError>;

    /// Runs a statement, and returns how many rows it changed.
    fn run(&self, sql: &str, parameters: &[Parameter<'_>]) -> impl Future<Output = VerbResult<u64, Self>>;

    /// Reads the first column of the only row.
    fn value<T: FromColumn>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> impl Future<Output = VerbResult<T, Self>>;

    /// Reads the first row, if there is one.
    fn find<T: FromRow>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> impl Future<Output = VerbResult<Option<T>, Self>>;

    /// Reads all rows.
    fn all<T: FromRow>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> impl Future<Output = VerbResult<Vec<T>, Self>>;

    /// Finds the lane of a conversation; there is none before its first message. A verb that writes has it for itself until
    /// it ends.
    fn find_lane(&self, conversation: &ConversationId) -> impl Future<Output = VerbResult<Option<Lane>, Self>>;

    /// Lets one verb at a time look at what no lane's lock covers and change it, such as what a person has in all
    /// conversations. It is named like that.
    fn lock(&self, name: impl Display) -> impl Future<Output = VerbResult<(), Self>>;

    /// Waits for a process that is indexing turns of a lane, up to this sequence, for the search.
    fn wait_for_index(&self, lane: LaneId, last: i64) -> impl Future<Output = VerbResult<(), Self>>;

    /// Lets the search find a conversation by its name, or no longer.
    fn index_name(&self, lane: LaneId, name: Option<&str>) -> impl Future<Output = VerbResult<(), Self>>;

    /// Lets the search find no turn of a lane, up to this sequence. They are marked as merged in the same transaction.
    fn unindex_turns(&self, lane: LaneId, last: i64) -> impl Future<Output = VerbResult<(), Self>>;

    /// Has what this verb forgets erased behind its commit where removing its rows leaves it, as far as the engine can.
    fn request_erasure(&self) -> impl Future<Output = VerbResult<(), Self>>;

    /// The time by this process's clock.
    fn now(&self) -> Timestamp;

    /// How far this process's clock is ahead of `ledger_now()`, in milliseconds, as it was when a lane was found.
    fn clock_lead(&self) -> i64;

    /// How far this process's clock is ahead of `ledger_now()`, in milliseconds, which showed this time just now.
    fn clock_lead_over(&self, ledger_now: Timestamp) -> i64;

    /// A new id.
    fn new_id(&self) -> Uuid;

    /// This process.
    fn holder(&self) -> HolderId;

    /// Whether a process is known to have ended. One on another machine never is, so its leases must expire.
    fn is_gone(&self, holder: HolderId) -> bool;

    /// In a restored copy: messages that people sent before this moment are held back.
    fn held_before(&self) -> Option<Timestamp>;

    /// The numbers by which it works.
    fn settings(&self) -> &VerbSettings;
}
