//! Where everything is kept: `storage`, `workspace`, `bus`.

use std::path::{Path, PathBuf};

use satchel_domain::DiskReserve;
use secrecy::SecretString;

use super::reader::Reader;

/// Where the ledger and the files are kept.
#[derive(Debug)]
pub struct Storage {
    /// The directory that holds everything that has no place of its own.
    pub data_dir: PathBuf,
    /// The database.
    pub database: Database,
    /// The bytes of files.
    pub blobs: BlobStore,
    /// How much of each disk stays free of files.
    pub reserve: DiskReserve,
}

/// Which database holds the ledger.
#[derive(Debug)]
pub enum Database {
    /// SQLite, in the data directory.
    DataDirectory,
    /// SQLite, as `satchel.db` in this directory.
    Sqlite {
        /// The directory, which also holds the locks of running processes.
        directory: PathBuf,
    },
    /// A PostgreSQL server; the URL may hold a password.
    Postgres(SecretString),
}

/// What holds the bytes of files.
#[derive(Debug)]
pub enum BlobStore {
    /// A directory in the data directory.
    DataDirectory,
    /// This directory.
    Directory(PathBuf),
    /// A bucket; the URL may hold credentials.
    S3(SecretString),
}

/// The directories that tools work in.
#[derive(Debug)]
pub struct WorkspaceSettings {
    /// One directory as `/shared` of every conversation; `None` gives each its own.
    pub shared_dir: Option<PathBuf>,
    /// The bytes that one conversation may keep.
    pub quota: u64,
}

/// What carries events between processes.
#[derive(Debug)]
pub enum Bus {
    /// The process itself.
    Local,
    /// A NATS server; the URL may hold a password.
    Nats(SecretString),
}

pub(super) fn read(reader: &mut Reader<'_>, default_data_dir: &Path) -> Storage {
    let data_dir = reader.path("storage.data_dir").unwrap_or_else(|| default_data_dir.to_owned());
    reader.show_default("storage.data_dir", &data_dir.display().to_string());
    // The ledger's file has one name, because other processes look for it and for the locks beside it.
    let base = reader.base_of("storage.database_url");
    let database = reader.url(
        "storage.database_url",
        "`sqlite:DIRECTORY/satchel.db` or a URL that begins with postgres://",
        r"^(sqlite:.*satchel\.db|postgres(ql)?://.+)$",
        |url| match url.split_once(':')? {
            ("sqlite", path) => {
                let directory = base.join(local_path(path)?.strip_suffix("satchel.db")?);
                Some(Database::Sqlite { directory })
            }
            ("postgres" | "postgresql", rest) if rest.len() > 2 && rest.starts_with("//") => {
                Some(Database::Postgres(SecretString::from(url)))
            }
            _ => None,
        },
    );
    let base = reader.base_of("storage.blobs_url");
    let expected = "`file:PATH` or a URL that begins with s3://";
    let blobs = reader.url("storage.blobs_url", expected, r"^(file:.+|s3://.+)$", |url| match url.split_once(':')? {
        ("file", path) => Some(BlobStore::Directory(base.join(local_path(path)?))),
        ("s3", rest) if rest.len() > 2 && rest.starts_with("//") => Some(BlobStore::S3(SecretString::from(url))),
        _ => None,
    });
    if matches!(database, Some(Database::Postgres(_))) {
        reader.not_built("storage.database_url", "a PostgreSQL database");
    }
    if matches!(blobs, Some(BlobStore::S3(_))) {
        reader.not_built("storage.blobs_url", "files in S3");
    }
    reader.show_default("storage.database_url", "sqlite: in the data directory");
    reader.show_default("storage.blobs_url", "file: in the data directory");
    let reserve = reader.optional_size_or_zero("storage.reserve").map_or(DiskReserve::Standard, DiskReserve::Bytes);
    reader.show_default("storage.reserve", "1GiB or 5 % of the disk, whichever is less");
    Storage {
        data_dir,
        reserve,
        database: database.unwrap_or(Database::DataDirectory),
        blobs: blobs.unwrap_or(BlobStore::DataDirectory),
    }
}

pub(super) fn read_workspace(reader: &mut Reader<'_>) -> WorkspaceSettings {
    let shared_dir = reader.path("workspace.shared_dir");
    reader.show_default("workspace.shared_dir", "one for each conversation");
    WorkspaceSettings { shared_dir, quota: reader.size("workspace.quota", 2 << 30) }
}

pub(super) fn read_bus(reader: &mut Reader<'_>) -> Bus {
    let expected = "`local:` or a URL that begins with nats://";
    let bus = reader.url("bus.url", expected, r"^(local:|(nats|tls)://.+)$", |url| match url.split_once(':')? {
        ("local", "") => Some(Bus::Local),
        ("nats" | "tls", rest) if rest.len() > 2 && rest.starts_with("//") => Some(Bus::Nats(SecretString::from(url))),
        _ => None,
    });
    if matches!(bus, Some(Bus::Nats(_))) {
        reader.not_built("bus.url", "a NATS server");
    }
    reader.show_default("bus.url", "local:");
    bus.unwrap_or(Bus::Local)
}

/// The path of a `sqlite:` or `file:` URL, with or without the slashes of an empty host.
fn local_path(rest: &str) -> Option<&str> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    (!path.is_empty()).then_some(path)
}
