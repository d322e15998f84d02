//! For commands that need existing data: without data they create nothing, and report what they used and where data is. And
//! for all others: none of them starts without the data of an earlier version.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use satchel_domain::Timestamp;
use satchel_ledger_sqlite::{has_database, open_data_dirs};
use satchel_ports::Storage;

use crate::{
    commands::{UsageError, print_error},
    config::{Config, ConfigSources, LoadedConfig},
    ports::BLOBS_DIR,
    stores,
};

/// The configured database doesn't exist.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MissingData(String);

/// Names the data and the configuration that a command has used.
#[must_use]
pub fn describe(loaded: &LoadedConfig, sources: &ConfigSources<'_>) -> String {
    let file = loaded.file.as_deref().map(|file| sources.cwd.join(file));
    let (data, configuration) = (stores::ledger_location(loaded.config()), describe_file(file.as_deref()));
    format!("data: {data} (configuration: {configuration})")
}

/// Checks that the configured database exists, and returns the data directories of running processes if none uses it.
/// Whether there is one on a server is seen when it is opened.
///
/// # Errors
/// When it doesn't exist or can't be read; the message names the configuration, the directory and how to change them.
pub fn check(config: &Config, sources: &ConfigSources<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let Some(directory) = stores::sqlite_dir(config) else { return Ok(Vec::new()) };
    let paths = sources.default_paths();
    let has_data = has_database(directory);
    let has_data = has_data.with_context(|| format!("failed to read the data in {}", directory.display()))?;
    let running = open_data_dirs();
    if has_data {
        let runs_here = directory.canonicalize().is_ok_and(|directory| running.contains(&directory));
        return Ok(if runs_here { Vec::new() } else { running });
    }
    let idle = paths
        .default_data_dirs()
        .into_iter()
        .filter(|directory| has_database(directory).is_ok_and(|has_data| has_data))
        .map(|directory| {
            // As the system writes the directories that processes have open.
            directory.canonicalize().unwrap_or(directory)
        });
    let idle: Vec<PathBuf> = idle.filter(|directory| !running.contains(directory)).collect();
    Err(MissingData(missing_data_message(directory, paths.config_file().as_deref(), &running, &idle)).into())
}

/// Checks that the data isn't where an earlier version kept it by default, while nothing is in the default directory of now.
///
/// # Errors
/// When it is; the message names both directories, and what to set for a new Satchel and for the one that was there before.
pub fn check_earlier_default(config: &Config) -> Result<(), UsageError> {
    let Some(earlier) = find_earlier_data(config) else { return Ok(()) };
    let (earlier, directory) = (earlier.display(), config.storage.data_dir().display());
    Err(UsageError(format!(
        "there is no data in {directory}, where this configuration keeps it by default, but there is in {earlier}, where \
         earlier versions kept it; nothing was created. In the configuration of a new Satchel, \
         `storage.data_dir: {directory}` starts without it. In that of the Satchel that had it, \
         `storage.data_dir: {earlier}` keeps that data"
    )))
}

/// The directory in which an earlier version kept the data by default, if it has data and the default directory of now has
/// none. Where the database is named by itself, the bytes of files are what the directory has.
fn find_earlier_data(config: &Config) -> Option<&Path> {
    let storage = &config.storage;
    let has_data = |directory: &Path| match (&storage.database_url, &storage.blobs_url) {
        (None, _) => has_database(directory),
        (Some(_), None) => directory.join(BLOBS_DIR).try_exists(),
        (Some(_), Some(_)) => Ok(false),
    };
    // What can't be looked at is reported when it is opened.
    if has_data(storage.data_dir()).unwrap_or(true) {
        return None;
    }
    let mut earlier = storage.earlier_data_dirs().iter().map(PathBuf::as_path);
    earlier.find(|directory| {
        has_data(directory).is_ok_and(|has_data| has_data) && !is_of_another_process(directory, storage.data_dir())
    })
}

/// Whether a process has this data open, so that it is another Satchel's. What is beneath the data directory of this one is
/// its own, and the process is one of the earlier version.
fn is_of_another_process(directory: &Path, data_dir: &Path) -> bool {
    let is_open = || directory.canonicalize().is_ok_and(|directory| open_data_dirs().contains(&directory));
    !directory.starts_with(data_dir) && is_open()
}

/// Reports on standard error where Satchel runs if the data here is empty: it may be a second database that was created
/// by accident.
///
/// # Errors
/// When the ledger can't be read.
pub async fn report_running_elsewhere(
    config: &Config,
    storage: &dyn Storage,
    running_dirs: &[PathBuf],
) -> anyhow::Result<()> {
    let Some(directory) = stores::sqlite_dir(config) else { return Ok(()) };
    if running_dirs.is_empty() || !storage.active_conversations(Timestamp(0)).await?.is_empty() {
        return Ok(());
    }
    let mut text = format!("note: the data in {} is empty", directory.display());
    for directory in running_dirs {
        let _ = write!(text, "\nSatchel is running with the data in {}", directory.display());
    }
    print_error(&text);
    Ok(())
}

fn describe_file(file: Option<&Path>) -> String {
    file.map_or_else(|| "none found".to_owned(), |file| file.display().to_string())
}

fn missing_data_message(directory: &Path, file: Option<&Path>, running: &[PathBuf], idle: &[PathBuf]) -> String {
    let configuration = describe_file(file);
    let mut text =
        format!("there is no data in {}; nothing was created (configuration: {configuration})", directory.display());
    for directory in running {
        let _ = write!(text, "\nSatchel is running with the data in {}", directory.display());
    }
    for directory in idle {
        let _ = write!(text, "\nthere is data in {}", directory.display());
    }
    let example = running.first().or(idle.first()).map_or("DIRECTORY".into(), |directory| directory.to_string_lossy());
    let _ = write!(
        text,
        "\nto use other data, name the configuration with `--config FILE` or the data with \
         `--set storage.data_dir={example}`"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_configuration_directory_and_remedy() {
        let directory = Path::new("/home/ann/satchel-data");
        insta::assert_snapshot!(missing_data_message(directory, None, &[], &[]));
        let (running, idle) = ([PathBuf::from("/srv/satchel")], [PathBuf::from("/home/ann/.local/share/satchel")]);
        insta::assert_snapshot!(missing_data_message(directory, Some(Path::new("satchel.yaml")), &running, &idle));
    }
}
