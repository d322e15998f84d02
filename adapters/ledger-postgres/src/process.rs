//! What a connected ledger works with: its holder id among the processes of the database, its settings, clock and ids.

use std::{fmt, sync::Arc, time::Duration};

use satchel_ledger_sql::VerbSettings;
use satchel_ports::{Clock, Ids, ledger::HolderId};
use secrecy::SecretString;

/// The database, and the numbers by which a ledger works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`, with the parameters of libpq, such as `sslmode`. The schema is
    /// `satchel`, unless `options=-c search_path=…` names another.
    pub url: SecretString,
    /// Those of every SQL ledger.
    pub verbs: VerbSettings,
    /// How many connections this process opens at most, besides two for the renewal of leases.
    pub max_connections: u32,
    /// How long it waits for a connection.
    pub connect_timeout: Duration,
    /// How long a verb may take: a server that doesn't answer is as good as none.
    pub verb_timeout: Duration,
}

impl Settings {
    /// The usual numbers, for a database.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            verbs: VerbSettings::default(),
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            verb_timeout: Duration::from_secs(20),
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
