//! The paths that are Satchel's own: other users have no access to them, declared attachments never reach them, and the
//! directory that conversations share holds none of them.

use std::path::PathBuf;

use satchel_files::{ExcludedPaths, OwnDirectory};
use uuid::Uuid;

use crate::{
    config::{
        Config,
        paths::{FILE_NAME, LOCAL_DATA_DIR},
        storage::{BlobBackend, DatabaseBackend},
    },
    ports::{BLOBS_DIR, WORKSPACES_DIR},
    stores::{DOWNLOADS_DIR, TEXTS_DIR},
};

/// The setting of the data directory, in which there may be other files, too.
const DATA_DIR_KEY: &str = "storage.data_dir";

/// Whether the entry of a directory with this name is Satchel's own.
type OwnEntryCheck = fn(&str) -> bool;

/// The settings of other directories in which there may be other files, too, and their own entries.
const PARTLY_OWN_KEYS: [(&str, OwnEntryCheck); 2] =
    [("backup.to", satchel_files::backup::is_own_entry), ("telegram.local_files", is_bot_server_entry)];

const SHARED_DIR_KEY: &str = "workspace.shared_dir";

/// The configured directories that only their owner may access.
pub(crate) fn private_directories(config: &Config) -> Vec<OwnDirectory> {
    let mut directories = vec![OwnDirectory { path: config.storage.data_dir().to_owned(), is_own: is_own_data }];
    if let Some(DatabaseBackend::Sqlite { directory }) = &config.storage.database_url {
        directories.push(OwnDirectory { path: directory.clone(), is_own: satchel_ledger_sqlite::is_own_entry });
    }
    if let Some(BlobBackend::Directory(directory)) = &config.storage.blobs_url {
        directories.push(OwnDirectory { path: directory.clone(), is_own: satchel_files::blobs::is_own_entry });
    }
    directories
}

/// What declared attachments never reach: the data, the configuration, and all that its settings name.
pub(crate) fn excluded_paths(config: &Config) -> ExcludedPaths {
    let keys: Vec<&str> = PARTLY_OWN_KEYS.iter().map(|(key, _)| *key).chain([DATA_DIR_KEY]).collect();
    let mut excluded = own_paths(config, &keys);
    for named in &config.named_paths {
        if let Some((_, is_own)) = PARTLY_OWN_KEYS.iter().find(|(key, _)| *key == named.key) {
            excluded.own_directories.push(OwnDirectory { path: named.path.clone(), is_own: *is_own });
        }
    }
    for file in &config.source_files {
        // What the same file uses when Satchel is started in its directory, with other options.
        excluded.paths.push(file.with_file_name(FILE_NAME));
        excluded.own_directories.push(OwnDirectory { path: file.with_file_name(LOCAL_DATA_DIR), is_own: is_own_data });
    }
    excluded
}

/// What would be open to every conversation, because the directory that they share holds it or is in it.
pub(crate) fn find_shared_path(config: &Config) -> Option<PathBuf> {
    let shared = config.workspace.shared_dir.as_ref()?;
    let own = own_paths(config, &[DATA_DIR_KEY, SHARED_DIR_KEY]);
    own.find_overlap(&shared.0).map(ToOwned::to_owned)
}

/// The private directories, the files of the configuration, and the paths that its other settings name.
fn own_paths(config: &Config, other_than: &[&str]) -> ExcludedPaths {
    let named = config.named_paths.iter().filter(|named| !other_than.contains(&named.key.as_str()));
    let paths = named.map(|named| &named.path).chain(&config.source_files).cloned();
    ExcludedPaths { own_directories: private_directories(config), paths: paths.collect() }
}

/// Whether an entry of the directory of a Bot API server is the server's own: the files of a bot in a directory that is named
/// after the bot's token, or what the server has written about its bots, with their tokens.
fn is_bot_server_entry(name: &str) -> bool {
    if name.ends_with(".binlog") || name.ends_with(".log") {
        return true;
    }
    let id = name.split_once(':').map_or("", |(id, _)| id);
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether an entry of the data directory is Satchel's own.
fn is_own_data(name: &str) -> bool {
    const NAMES: [&str; 5] = [BLOBS_DIR, WORKSPACES_DIR, DOWNLOADS_DIR, TEXTS_DIR, "chat-history"];
    // The key and the token of the page, and files whose names start with theirs: login links, temporary files.
    let is_page_file =
        |base: &str| name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    // A copy of standard input.
    let is_stdin_copy = name.strip_prefix("stdin-").is_some_and(|id| id.parse::<Uuid>().is_ok());
    NAMES.contains(&name)
        || ["web-key", "web-token"].into_iter().any(is_page_file)
        || is_stdin_copy
        || satchel_ledger_sqlite::is_own_entry(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_a_bot_is_recognised_by_its_name() {
        assert!(is_bot_server_entry("123456:AAbb-cc_dd"));
        for foreign in ["assets", "satchel.yaml", "a:b", ":x", "12"] {
            assert!(!is_bot_server_entry(foreign), "{foreign}");
        }
    }

    /// The access to other files in the data directory is not changed.
    #[test]
    fn only_what_satchel_writes_is_its_own() {
        for own in [
            "satchel.db",
            "satchel.db-wal",
            "satchel.db.version-10",
            "owners",
            "blobs",
            "workspaces",
            "document-texts",
            "downloads",
            "web-key",
            "web-key.logins",
            "web-token",
        ] {
            assert!(is_own_data(own), "{own}");
        }
        assert!(is_own_data("stdin-0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e"));
        for foreign in ["web-frontend", "web-backup.tar", "web-keys", "stdin-notes", "recordings", "satchel.yaml"] {
            assert!(!is_own_data(foreign), "{foreign}");
        }
    }
}
