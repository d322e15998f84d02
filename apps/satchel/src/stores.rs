//! Opens the ledger, the blobs and the workspaces of a configuration. The only place that knows their adapters.

use std::{
    fmt, io,
    path::{self, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use satchel_blobs_s3::{BucketError, S3Blobs};
use satchel_decoders::{TextCache, TextEvictingBlobs};
use satchel_domain::{ChannelName, ConversationId, Sender};
use satchel_files::{DirectoryDeclaredFiles, DirectoryWorkspace, NativeRunner, OwnDirectory};
use satchel_ledger::transfer::ExclusiveLedger;
use satchel_ledger_postgres::{ConnectError, PostgresLedger, SchemaMismatch, Settings as PostgresSettings};
use satchel_ledger_sqlite::{OpenError, OwnTurns, QuotaRules, Settings, SqliteLedger, VerbSettings, WorkScope};
use satchel_local::{SystemClock, UuidV7};
use satchel_metrics::FileDirectory;
use satchel_ports::{Blobs, Clock, DeclaredFiles, FileRunner, Ids, Ledger, Workspace};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    config::{
        Config,
        leaf::{list::OnOff, secret::mask_url},
        storage::{BlobBackend, DatabaseBackend},
    },
    metered_workspace::MeteredWorkspace,
    own_paths::{excluded_paths, private_directories},
    ports::{
        BLOBS_DIR, WORKSPACES_DIR, create_private_dir, default_file_runner, open_blobs_directory, open_workspaces,
    },
    server_wait::ServerWait,
};

/// The directory of temporary files for declared attachments in the data directory.
pub(crate) const DOWNLOADS_DIR: &str = "downloads";

/// How long a server that is away is tried again before a bucket counts as one that can't be used.
const BUCKET_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The directory of the text of documents in the data directory.
pub(crate) const TEXTS_DIR: &str = "document-texts";

#[derive(Clone)]
pub struct Stores {
    /// The source of truth.
    pub ledger: Ledger,
    /// The clock of the process, the same that the ledger has.
    pub clock: Arc<dyn Clock>,
    /// The source of new ids.
    pub ids: Arc<dyn Ids>,
    /// The bytes of files.
    pub blobs: Arc<dyn Blobs>,
    /// The directories of the tools.
    pub workspace: DirectoryWorkspace,
    /// The same directories, counted against the quotas.
    pub metered_workspace: Arc<dyn Workspace>,
}

/// Opens all stores; call it in a Tokio runtime.
///
/// # Errors
/// When a directory or the database can't be used.
pub async fn open(config: &Config) -> anyhow::Result<Stores> {
    open_stores(config, WorkScope::All, ServerWait::Never).await
}

/// As [`open`], for a process that shows one conversation and works on it alone.
///
/// # Errors
/// When a directory or the database can't be used.
pub async fn open_for_conversation(config: &Config, conversation: ConversationId) -> anyhow::Result<Stores> {
    open_stores(config, WorkScope::Conversation(conversation), ServerWait::Never).await
}

/// As [`open`], for a process that shows the reply to what it sends itself: it leaves everything else that waits in the
/// conversation to one that shows it.
///
/// # Errors
/// When a directory or the database can't be used.
pub async fn open_for_own_turns(config: &Config, conversation: ConversationId) -> anyhow::Result<Stores> {
    let own_turns = OwnTurns::in_conversation(conversation);
    open_stores(config, WorkScope::OwnTurns(own_turns), ServerWait::Never).await
}

/// As [`open`], but a database and a bucket that can't be reached may be waited for.
///
/// # Errors
/// When a directory, the database or the bucket can't be used.
pub async fn open_when_reachable(config: &Config, wait: ServerWait) -> anyhow::Result<Stores> {
    open_stores(config, WorkScope::All, wait).await
}

async fn open_stores(config: &Config, scope: WorkScope, wait: ServerWait) -> anyhow::Result<Stores> {
    let data_dir = config.storage.data_dir();
    create_private_dir(data_dir)
        .await
        .with_context(|| format!("failed to create the data directory {}", data_dir.display()))?;
    let directories = private_directories(config);
    tokio::task::spawn_blocking(move || restrict_access(&directories))
        .await
        .context("closing the stores was interrupted")?;
    let access = config.access();
    let is_owner = Arc::new(move |channel: &ChannelName, sender: &Sender| access.is_owner(channel, sender));
    let quotas = QuotaRules { quotas: config.attachments.quotas(), is_owner };
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    let ledger = connect_ledger(config, scope, quotas, (&clock, &ids), wait).await;
    let ledger = ledger.context("failed to open the ledger")?;
    let workspaces_dir = data_dir.join(WORKSPACES_DIR);
    let shared = config.workspace.shared_dir.clone().map(|directory| directory.0);
    let quota = config.workspace.quota.0;
    let runner = file_runner(config);
    let blobs = open_blobs(config, wait).await?;
    let workspace = open_workspaces(workspaces_dir, shared, quota, runner).await?;
    let workspace = workspace.with_reserve(config.storage.reserve());
    let metered_workspace = Arc::new(MeteredWorkspace::new(workspace.clone(), Arc::clone(&ledger.storage)));
    let blobs = Arc::new(TextEvictingBlobs::new(blobs, text_cache(config)));
    Ok(Stores { ledger, clock, ids, blobs, workspace, metered_workspace })
}

async fn connect_ledger(
    config: &Config,
    scope: WorkScope,
    quotas: QuotaRules,
    (clock, ids): (&Arc<dyn Clock>, &Arc<dyn Ids>),
    wait: ServerWait,
) -> anyhow::Result<Ledger> {
    let directory = match &config.storage.database_url {
        None => config.storage.data_dir(),
        Some(DatabaseBackend::Sqlite { directory }) => directory,
        Some(DatabaseBackend::Postgres(url)) => {
            let verbs = VerbSettings { scope, quotas, ..VerbSettings::default() };
            let settings = PostgresSettings { verbs, ..PostgresSettings::new(url.clone()) };
            let connect = || PostgresLedger::connect(settings.clone(), Arc::clone(clock), Arc::clone(ids));
            return Ok(Arc::new(wait.connect("PostgreSQL", ConnectError::is_retryable, connect).await?).into());
        }
    };
    let verbs = VerbSettings { scope, quotas, ..VerbSettings::default() };
    let settings = Settings { verbs, ..Settings::default() };
    Ok(Arc::new(SqliteLedger::open(directory, settings, Arc::clone(clock), Arc::clone(ids)).await?).into())
}

/// Where the ledger or the files of a configuration are, as it may be shown to people.
#[derive(Debug, Clone)]
pub(crate) enum StorageLocation {
    Directory(PathBuf),
    Server(SecretString),
}

impl PartialEq for StorageLocation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory(left), Self::Directory(right)) => {
                let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                absolute(left) == absolute(right)
            }
            (Self::Server(left), Self::Server(right)) => left.expose_secret() == right.expose_secret(),
            _ => false,
        }
    }
}

impl fmt::Display for StorageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Server(url) => f.write_str(&mask_url(url.expose_secret())),
        }
    }
}

/// Where the ledger of a configuration is. A directory is named so that others know it, wherever they are started.
pub(crate) fn ledger_location(config: &Config) -> StorageLocation {
    let directory = match &config.storage.database_url {
        None => config.storage.data_dir(),
        Some(DatabaseBackend::Sqlite { directory }) => directory,
        Some(DatabaseBackend::Postgres(url)) => return StorageLocation::Server(url.clone()),
    };
    StorageLocation::Directory(path::absolute(directory).unwrap_or_else(|_| directory.to_owned()))
}

/// Where the bytes of the files of a configuration are.
pub(crate) fn blobs_location(config: &Config) -> StorageLocation {
    match &config.storage.blobs_url {
        None => StorageLocation::Directory(config.storage.data_dir().join(BLOBS_DIR)),
        Some(BlobBackend::Directory(directory)) => StorageLocation::Directory(directory.clone()),
        Some(BlobBackend::S3(url)) => StorageLocation::Server(url.clone()),
    }
}

/// Opens the ledger of a configuration for this process alone, to move it.
///
/// # Errors
/// When it can't be used, or another process uses it.
pub(crate) async fn open_exclusive(config: &Config) -> anyhow::Result<Box<dyn ExclusiveLedger>> {
    match ledger_location(config) {
        StorageLocation::Directory(directory) => {
            Ok(Box::new(SqliteLedger::open_exclusive(&directory, Arc::new(UuidV7)).await?))
        }
        StorageLocation::Server(url) => {
            Ok(Box::new(PostgresLedger::open_exclusive(&PostgresSettings::new(url)).await?))
        }
    }
}

/// As [`open_exclusive`], but also opens a ledger that was moved to `location`, from where it is to come back.
///
/// # Errors
/// When it can't be used, or another process uses it.
pub(crate) async fn open_exclusive_for_return(
    config: &Config,
    location: &StorageLocation,
) -> anyhow::Result<Box<dyn ExclusiveLedger>> {
    let location = location.to_string();
    match ledger_location(config) {
        StorageLocation::Directory(directory) => {
            Ok(Box::new(SqliteLedger::open_exclusive_for_return(&directory, Arc::new(UuidV7), &location).await?))
        }
        StorageLocation::Server(url) => {
            let settings = PostgresSettings::new(url);
            Ok(Box::new(PostgresLedger::open_exclusive_for_return(&settings, &location).await?))
        }
    }
}

/// Where a ledger is that can't be opened because it was moved.
pub(crate) fn find_new_location(error: &anyhow::Error) -> Option<&str> {
    match (error.downcast_ref::<OpenError>(), error.downcast_ref::<ConnectError>()) {
        (Some(OpenError::Moved { location, .. }), _)
        | (_, Some(ConnectError::Schema(SchemaMismatch::Moved { location, .. }))) => Some(location.as_str()),
        _ => None,
    }
}

/// Opens the ledger of a data directory alone, to look after it while nothing runs in it.
///
/// # Errors
/// When the directory or the database can't be used.
pub async fn open_ledger(directory: &Path) -> anyhow::Result<Arc<SqliteLedger>> {
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    let ledger = SqliteLedger::open(directory, Settings::default(), clock, ids).await;
    Ok(Arc::new(ledger.context("failed to open the ledger")?))
}

/// The text of documents that were read lately.
#[must_use]
pub fn text_cache(config: &Config) -> TextCache {
    TextCache::new(config.storage.data_dir().join(TEXTS_DIR), config.documents.cache_quota.0)
}

/// Opens the files that declared attachments name, without Satchel's own, and a directory for what they download.
///
/// # Errors
/// When the data directory can't be used.
pub async fn open_declared_files(config: &Config) -> anyhow::Result<Arc<dyn DeclaredFiles>> {
    let data_dir = config.storage.data_dir();
    create_private_dir(data_dir)
        .await
        .with_context(|| format!("failed to create the data directory {}", data_dir.display()))?;
    let (downloads, quota) = (data_dir.join(DOWNLOADS_DIR), config.attachments.temp_dir_quota_bytes.0);
    let excluded = excluded_paths(config);
    let open = tokio::task::spawn_blocking(move || DirectoryDeclaredFiles::open(&downloads, quota, excluded));
    let files = open.await.context("opening the temporary files was interrupted")?;
    Ok(Arc::new(files.context("the temporary files can't be used")?))
}

/// As [`open_declared_files`], but `None` where nothing declares any.
///
/// # Errors
/// When the data directory can't be used.
pub async fn open_playbook_files(config: &Config) -> anyhow::Result<Option<Arc<dyn DeclaredFiles>>> {
    match config.playbooks.agents().next() {
        Some(_) => open_declared_files(config).await.map(Some),
        None => Ok(None),
    }
}

/// What works on the files of the workspaces.
fn file_runner(config: &Config) -> Arc<dyn FileRunner> {
    match config.tools.sandbox {
        OnOff::On => default_file_runner(),
        OnOff::Off => Arc::new(NativeRunner),
    }
}

/// The directory of an SQLite database; `None` where the ledger is in PostgreSQL.
#[must_use]
pub fn sqlite_dir(config: &Config) -> Option<&Path> {
    match &config.storage.database_url {
        None => Some(config.storage.data_dir()),
        Some(DatabaseBackend::Sqlite { directory }) => Some(directory),
        Some(DatabaseBackend::Postgres(_)) => None,
    }
}

/// The directory of the bytes of files; `None` if they are in a bucket.
#[must_use]
pub fn blobs_dir(config: &Config) -> Option<PathBuf> {
    match blobs_location(config) {
        StorageLocation::Directory(directory) => Some(directory),
        StorageLocation::Server(_) => None,
    }
}

/// Opens what holds the bytes of files.
///
/// # Errors
/// When it can't be used.
pub(crate) async fn open_blobs(config: &Config, wait: ServerWait) -> anyhow::Result<Arc<dyn Blobs>> {
    match blobs_dir(config) {
        Some(directory) => {
            let blobs = open_blobs_directory(directory).await?;
            Ok(Arc::new(blobs.with_reserve(config.storage.reserve())))
        }
        None => Ok(Arc::new(open_bucket(config, wait).await.context("the file store can't be used")?)),
    }
}

/// Checks the bucket of a configuration, and opens it.
///
/// # Errors
/// When it can't be used, or the configuration names none.
pub(crate) async fn open_bucket(config: &Config, wait: ServerWait) -> anyhow::Result<S3Blobs> {
    let settings = config.storage.bucket().context("`storage.blobs_url` can't be used")?;
    let settings = settings.context("`storage.blobs_url` names no bucket")?;
    let checked = S3Blobs::new(&settings.clone().with_retry_timeout(BUCKET_CHECK_TIMEOUT))?;
    wait.connect("the bucket", BucketError::is_retryable, || checked.check()).await?;
    Ok(S3Blobs::new(settings)?)
}

/// The directories that hold files. The data directory is always one of them, because it holds the workspaces.
#[must_use]
pub fn file_directories(config: &Config) -> Vec<FileDirectory> {
    let reserve = config.storage.reserve();
    let directory = |role, path: &Path| FileDirectory { role, path: path.to_owned(), reserve };
    let mut directories = vec![directory("data", config.storage.data_dir())];
    if let Some(BlobBackend::Directory(path)) = &config.storage.blobs_url {
        directories.push(directory("files", path));
    }
    directories.extend(config.workspace.shared_dir.as_ref().map(|path| directory("shared", &path.0)));
    directories
}

/// Removes other users' access, which earlier versions or a restored backup may have left.
fn restrict_access(directories: &[OwnDirectory]) {
    for OwnDirectory { path, is_own } in directories {
        match satchel_files::close_to_others(path, is_own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "failed to check who can read the data");
            }
            Ok(()) => {}
        }
    }
}
