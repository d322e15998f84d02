//! Checks the free space, the permissions and the health of the database.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{Access, access};
use satchel_domain::{ConversationId, DiskReserve, size::format_bytes};
use satchel_ledger_sqlite::{Inspection, OpenError, inspect};
use satchel_metrics::{FileDirectory, read_space};
use satchel_ports::ledger::UndecodableCount;
use tokio::time::timeout;

use super::{Finding, servers::check_postgres};
use crate::{
    commands::existing_data::check_earlier_default,
    config::{Config, storage::DatabaseBackend},
    stores,
};

/// With less free space than this, besides the reserve, the next large file does not fit.
const LOW_DISK_BYTES: u64 = 1 << 30;

/// With less free space than this, the database itself may not be writable.
const FULL_DISK_BYTES: u64 = 100 << 20;

/// How long the check of the whole database may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// How far ahead of the clock a file's time may be.
const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(60);

/// Checks the database, and returns how many processes have it open.
pub(super) async fn check_database(config: &Config, findings: &mut Vec<Finding>) -> Option<usize> {
    const CHECK: &str = "database";
    let directory = match &config.storage.database_url {
        None => config.storage.data_dir(),
        Some(DatabaseBackend::Sqlite { directory }) => directory,
        Some(DatabaseBackend::Postgres(url)) => return check_postgres(url, findings).await,
    };
    let path = directory.join("satchel.db");
    let path = path.display();
    match timeout(OPEN_TIMEOUT, inspect(directory)).await {
        Err(_) => {
            let found = format!("{path} is too large to be checked within a minute");
            findings.push(Finding::warning(CHECK, found, "run `sqlite3 satchel.db 'PRAGMA quick_check'` at leisure"));
        }
        Ok(Err(error @ OpenError::Damaged { .. })) => findings.push(damage_finding(error.to_string())),
        Ok(Err(error)) => {
            let advice = match error {
                OpenError::Moving { .. } => "run `satchel doctor` again once it has",
                OpenError::Moved { .. } | OpenError::Unfinished { .. } => {
                    "nothing is damaged; see `satchel help migrate`"
                }
                _ => "make it readable and writable for the user that runs Satchel",
            };
            findings.push(Finding::problem(CHECK, describe_open_error(&error), advice));
        }
        Ok(Ok(None)) => {
            findings.push(match check_earlier_default(config) {
                Ok(()) => Finding::ok(CHECK, format!("no database yet; the first start creates {path}")),
                Err(error) => {
                    Finding::problem(CHECK, error.to_string(), "choose one; until then Satchel does not start")
                }
            });
            return Some(0);
        }
        Ok(Ok(Some(Inspection { version, known, .. }))) if version > known => findings.push(Finding::problem(
            CHECK,
            format!("{path} was written by a newer Satchel: schema version {version}, this one knows up to {known}"),
            "update this Satchel; an older version can't use a newer version's data",
        )),
        Ok(Ok(Some(Inspection { damage, processes, .. }))) if !damage.is_empty() => {
            findings.push(damage_finding(format!("{path} is damaged: {}", damage.join("; "))));
            return Some(processes);
        }
        Ok(Ok(Some(Inspection { version, known, bytes, processes, undecodable, notifications, copies, .. }))) => {
            let schema = match version < known {
                true => format!("schema version {version}, migrated to {known} at the next start"),
                false => format!("schema version {version}"),
            };
            findings.push(Finding::ok(CHECK, format!("{path} is healthy: {}, {schema}", format_bytes(bytes))));
            findings.extend(undecodable.into_iter().map(undecodable_finding));
            findings.extend(notifications_finding(&notifications));
            findings.extend(copies.iter().map(|copy| {
                let copy = copy.display();
                Finding::ok(
                    CHECK,
                    format!("{copy} is the database as an earlier version left it; delete it at leisure"),
                )
            }));
            return Some(processes);
        }
    }
    None
}

/// Reports undecodable updates: mostly new features of the platform.
fn undecodable_finding(UndecodableCount { channel, updates }: UndecodableCount) -> Finding {
    let found = match updates {
        1 => format!("1 update from {channel} could not be decoded and is stored"),
        updates => format!("{updates} updates from {channel} could not be decoded and are stored"),
    };
    let advice = "update Satchel if there is a newer version; the table `unreadable_updates` of satchel.db holds each \
                  update";
    Finding::warning("updates", found, advice)
}

/// Reports messages of `satchel send` that wait for a process that serves their conversation.
pub(super) fn notifications_finding(notifications: &[(ConversationId, u64)]) -> Option<Finding> {
    let (first, _) = notifications.first()?;
    let count: u64 = notifications.iter().map(|(_, count)| count).sum();
    let found = match count {
        1 => format!("1 message of `satchel send` waits to be delivered in {first}"),
        _ => {
            let places: Vec<String> =
                notifications.iter().map(|(conversation, count)| format!("{conversation} ({count})")).collect();
            format!("{count} messages of `satchel send` wait to be delivered: {}", places.join(", "))
        }
    };
    let advice = "`satchel run` delivers them to the channels that it serves, `satchel chat --conversation NAME` those of \
                  the terminal; `satchel outbox list` shows them";
    Some(Finding::warning("notifications", found, advice))
}

fn damage_finding(found: String) -> Finding {
    let advice = "stop Satchel, keep a copy of the whole data directory, and restore satchel.db from a backup or with \
                  `sqlite3 satchel.db .recover`";
    Finding::problem("database", found, advice)
}

/// Checks the directories that are written to.
pub(super) fn check_directories(config: &Config) -> Vec<Finding> {
    let data_dir = config.storage.data_dir();
    let mut directories = stores::file_directories(config);
    if let Some(DatabaseBackend::Sqlite { directory }) = &config.storage.database_url {
        let (path, reserve) = (directory.clone(), DiskReserve::NONE);
        directories.insert(1, FileDirectory { role: "database", path, reserve });
    }
    let mut findings: Vec<Finding> = directories.iter().map(check_disk).collect();
    findings.extend(check_same_filesystem(&directories));
    findings.extend(check_clock(data_dir));
    findings
}

/// Checks whether a directory is writable and has free space.
fn check_disk(FileDirectory { role, path: directory, reserve }: &FileDirectory) -> Finding {
    const CHECK: &str = "disk";
    let name = match *role {
        "data" => "the data directory",
        "database" => "the database's directory",
        "files" => "the directory for files",
        _ => "the shared workspace",
    };
    let display = directory.display();
    let existing = nearest_existing(directory);
    let Some(existing) = existing else {
        let advice = "choose another path";
        return Finding::problem(CHECK, format!("{name} {display} can't be created: a file is in the way"), advice);
    };
    let exists = existing == *directory;
    let writable = match exists {
        true => test_write(&existing),
        false => access(&existing, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from),
    };
    if let Err(error) = writable {
        let advice = "make it writable for the user that runs Satchel, or choose another path";
        return Finding::problem(CHECK, format!("{name} {display} is not writable: {error}"), advice);
    }
    let space = match read_space(&existing) {
        Ok(space) => space,
        Err(error) => {
            let advice = "check the file system with `df`";
            return Finding::warning(CHECK, format!("failed to read the free space for {display}: {error}"), advice);
        }
    };
    let state = if exists { "is writable" } else { "is created at the first start" };
    let reserved = match reserve.reserved_bytes(space.total) {
        0 => String::new(),
        bytes => format!(", {} kept free for the database", format_bytes(bytes)),
    };
    let found = format!("{name} {display} {state}, {} free{reserved}", format_bytes(space.free));
    let advice = "free space: `satchel attachments gc` deletes unused files; or move it to a larger disk";
    match reserve.available_bytes(space, 0) {
        None => Finding::problem(CHECK, format!("{found}: no new file is accepted"), advice),
        Some(_) if space.free < FULL_DISK_BYTES => Finding::problem(CHECK, found, advice),
        Some(room) if room < LOW_DISK_BYTES => Finding::warning(CHECK, found, advice),
        Some(_) => Finding::ok(CHECK, found),
    }
}

/// The directory itself, or its nearest existing ancestor; `None` if a file is in the way.
fn nearest_existing(directory: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(directory).ok()?;
    let found = absolute.ancestors().find(|path| path.symlink_metadata().is_ok()).filter(|path| path.is_dir())?;
    Some(if found == absolute { directory.to_owned() } else { found.to_owned() })
}

/// Writes a file: permission alone does not mean that the disk accepts it.
fn test_write(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".doctor-{}", std::process::id()));
    let write_result = fs::File::create_new(&path).and_then(|mut file| {
        io::Write::write_all(&mut file, b"satchel doctor")?;
        file.sync_all()
    });
    let remove_result = fs::remove_file(&path);
    write_result.and(remove_result)
}

/// Checks whether all data is on one file system, so that one snapshot covers it.
fn check_same_filesystem(directories: &[FileDirectory]) -> Option<Finding> {
    let device = |directory: &FileDirectory| Some(fs::metadata(nearest_existing(&directory.path)?).ok()?.dev());
    let devices: Vec<u64> = directories.iter().filter_map(device).collect();
    let first = devices.first()?;
    (!devices.iter().all(|device| device == first)).then(|| {
        Finding::ok("disk", "the data is on several file systems; `satchel backup create` copies from all of them")
    })
}

/// Checks whether the clock is behind the database's last change.
fn check_clock(data_dir: &Path) -> Option<Finding> {
    let modified_at = fs::metadata(data_dir.join("satchel.db")).ok()?.modified().ok()?;
    let ahead = modified_at.duration_since(SystemTime::now()).ok().filter(|ahead| *ahead > MAX_CLOCK_AHEAD)?;
    Some(Finding::warning(
        "clock",
        format!("the database's last change is {} s in the future", ahead.as_secs()),
        "the clock was set back; until it catches up, delays are longer than they should be",
    ))
}

fn describe_open_error(error: &OpenError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}
