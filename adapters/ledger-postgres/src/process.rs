//! What a connected ledger works with: its holder id among the processes of the database, its settings, clock and ids.

use std::{fmt, sync::Arc, time::Duration};

use satchel_domain::ConversationId;
use satchel_ledger::quota::QuotaRules;
use satchel_ports::{Clock, Ids, ledger::HolderId};
use secrecy::SecretString;

/// The database, and the numbers by which a ledger works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`, with the parameters of libpq, such as `sslmode`. The schema is
    /// `satchel`, unless `options=-c search_path=…` names another.
    pub url: SecretString,
    /// How long a lease lives unless it is renewed. Nobody takes the lane of a process that died before.
    pub lease: Duration,
    /// How long an album must be quiet before its turn may begin.
    pub album_quiet: Duration,
    /// How many messages of its conversation's history a turn brings.
    pub max_history_messages: u32,
    /// How many connections this process opens at most, besides two for the renewal of leases.
    pub max_connections: u32,
    /// How long it waits for a connection.
    pub connect_timeout: Duration,
    /// How long a verb may take: a server that doesn't answer is as good as none.
    pub verb_timeout: Duration,
    /// The only conversation whose lane this process takes; `None` for all of the channels that it hosts.
    pub only: Option<ConversationId>,
    /// The bytes that files may take up.
    pub quotas: QuotaRules,
}

impl Settings {
    /// The usual numbers, for a database.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            lease: Duration::from_secs(30),
            album_quiet: Duration::from_millis(500),
            max_history_messages: 200,
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            verb_timeout: Duration::from_secs(20),
            only: None,
            quotas: QuotaRules::default(),
        }
    }
}

pub(crate) struct Process {
    pub(crate) holder: HolderId,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("holder", &self.holder).finish_non_exhaustive()
    }
}
