//! A look at a database without using it: for whoever wants to know whether it is well.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags};
use satchel_domain::ConversationId;
use satchel_ledger::rows;
use satchel_ledger_sql::{COUNT_QUEUED_NOTIFICATIONS, COUNT_UNDECODABLE};
use satchel_ports::ledger::UndecodableCount;

use crate::{
    database::Query,
    error,
    exclusive::require_active,
    open::{DATABASE, OpenError, at_database, at_directory},
    owners::{self, Owners},
    process::Settings,
    schema::{list_copies, newest_version, version},
};

/// How many kinds of damage are listed.
const MAX_LISTED: usize = 5;

/// What was found in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The version of the schema in the database.
    pub version: i64,
    /// The newest version that this program knows.
    pub known: i64,
    /// What SQLite says is damaged; empty when all is well.
    pub damage: Vec<String>,
    /// The size of the database in bytes.
    pub bytes: u64,
    /// How many processes have the directory open.
    pub processes: usize,
    /// What the channels could not read and is kept.
    pub undecodable: Vec<UndecodableCount>,
    /// How many notifications wait, by conversation.
    pub notifications: Vec<(ConversationId, u64)>,
    /// The copies of the database that were kept when it was converted.
    pub copies: Vec<PathBuf>,
}

/// Looks at the database of a data directory; `None` when there is none yet. Nothing is changed, and processes that
/// work with it are not disturbed.
///
/// # Errors
/// When it can't be read, in words for the person who looks after it.
pub async fn inspect(data_dir: &Path) -> Result<Option<Inspection>, OpenError> {
    let directory = data_dir.to_owned();
    let inspected = tokio::task::spawn_blocking(move || inspect_directory(&directory)).await;
    let other = |panic| OpenError::Other { path: data_dir.join(DATABASE), source: Box::new(panic) };
    inspected.map_err(other)?
}

fn inspect_directory(data_dir: &Path) -> Result<Option<Inspection>, OpenError> {
    let path = data_dir.join(DATABASE);
    let failed = |error: rusqlite::Error| at_database(&path, data_dir, error);
    let in_directory = |error: io::Error| at_directory(data_dir.to_owned(), error);
    let bytes = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at_directory(path, error)),
    };
    if owners::is_moving(data_dir) {
        return Err(OpenError::Moving { path });
    }
    let connection = connect_without_writing(&path).map_err(failed)?;
    let version = version(&connection).map_err(failed)?;
    require_active(&connection, data_dir)?;
    let damage = find_damage(&connection).map_err(failed)?;
    // A database that is damaged, or older than the table, has nothing to say of it.
    let undecodable = count_undecodable(&connection).unwrap_or_default();
    let notifications = count_notifications(&connection).unwrap_or_default();
    drop(connection);
    Ok(Some(Inspection {
        version,
        known: newest_version(),
        damage,
        bytes,
        processes: Owners::open(data_dir).and_then(|owners| owners.living()).map_err(in_directory)?,
        undecodable,
        notifications,
        copies: list_copies(data_dir, DATABASE).map_err(in_directory)?,
    }))
}

fn count_undecodable(connection: &Connection) -> error::Result<Vec<UndecodableCount>> {
    let counts: Vec<(String, i64)> = connection.all(COUNT_UNDECODABLE, [])?;
    let count = |(channel, updates): (String, i64)| {
        Ok(UndecodableCount { channel: rows::channel(channel)?, updates: rows::number(updates, "number of updates")? })
    };
    counts.into_iter().map(count).collect()
}

fn count_notifications(connection: &Connection) -> error::Result<Vec<(ConversationId, u64)>> {
    let counts: Vec<(String, i64)> = connection.all(COUNT_QUEUED_NOTIFICATIONS, [])?;
    let count = |(conversation, count): (String, i64)| {
        Ok((rows::conversation(&conversation)?, rows::number(count, "number of notifications")?))
    };
    counts.into_iter().map(count).collect()
}

/// Connects to a database that exists, and changes nothing in it.
pub(crate) fn connect_without_writing(path: &Path) -> rusqlite::Result<Connection> {
    // Reading beside a process that writes takes a file that both of them can write.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Settings::default().busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn find_damage(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare(&format!("PRAGMA quick_check({MAX_LISTED})"))?;
    let found = check.query_map([], |row| row.get(0))?;
    found.filter(|line: &rusqlite::Result<String>| !line.as_ref().is_ok_and(|line| line == "ok")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_domain::{InboundMessage, Sender, SystemTask, UndecodableUpdate};
    use satchel_local::{SystemClock, UuidV7};
    use satchel_ports::{Inbox, ledger::ClaimMode};

    use super::*;
    use crate::SqliteLedger;

    #[tokio::test]
    async fn database_is_inspected_while_others_use_it() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(inspect(directory.path()).await.unwrap(), None);
        let ledger =
            SqliteLedger::open(directory.path(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap();
        let other =
            SqliteLedger::open(directory.path(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap();
        let found = inspect(directory.path()).await.unwrap().unwrap();
        assert_eq!((found.version, found.damage.as_slice(), found.processes), (found.known, [].as_slice(), 2));
        assert!(found.bytes > 0 && found.known > 0);
        assert_eq!(found.undecodable, []);
        let channel = satchel_domain::ChannelName::new("telegram").unwrap();
        let (raw, reason) = (serde_json::json!({}), "new".to_owned());
        let update = UndecodableUpdate { channel: channel.clone(), key: "1".to_owned(), sender: None, raw, reason };
        ledger.record_undecodable(&update).await.unwrap();
        let found = inspect(directory.path()).await.unwrap().unwrap();
        assert_eq!(found.undecodable, [UndecodableCount { channel, updates: 1 }]);
        assert_eq!(found.notifications, []);
        let sent = InboundMessage {
            system_task: Some(SystemTask::DeliverNotification { text: "done".to_owned() }),
            ..InboundMessage::new(
                "web:main".parse().unwrap(),
                "1".to_owned(),
                Sender::new("notification", "Notification"),
            )
        };
        ledger.receive(&sent, ClaimMode::Never).await.unwrap();
        let found = inspect(directory.path()).await.unwrap().unwrap();
        assert_eq!(found.notifications, [(sent.conversation, 1)]);
        drop((ledger, other));
        assert_eq!(inspect(directory.path()).await.unwrap().unwrap().processes, 0);
    }

    #[tokio::test]
    async fn damage_is_told() {
        let directory = tempfile::tempdir().unwrap();
        drop(
            SqliteLedger::open(directory.path(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap(),
        );
        let path = directory.path().join("satchel.db");
        // What is only in the log would hide what is damaged in the file.
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
        drop(connection);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0x5a);
        fs::write(&path, &bytes).unwrap();
        match inspect(directory.path()).await {
            Ok(found) => assert!(!found.unwrap().damage.is_empty()),
            Err(error) => assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}"),
        }
        fs::write(&path, "no database at all, but long enough to be looked at by whoever opens it").unwrap();
        let error = inspect(directory.path()).await.unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    }
}
