//! What the commands that only work on existing data do where there is none: they create nothing, name what they used
//! and say where data is.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use satchel_ledger::{has_database, open_data_dirs};

use crate::{
    config::{Config, Sources, locate},
    stores,
};

/// Checks that the configured database exists.
///
/// # Errors
/// When it doesn't, with the configuration and the directory that were used and how to name others.
pub fn check(config: &Config, sources: &Sources<'_>) -> anyhow::Result<()> {
    let directory = stores::database_dir(config)?;
    if has_database(directory) {
        return Ok(());
    }
    let file = locate::config_file(sources.file, sources.environment, sources.cwd);
    let running = open_data_dirs();
    let usual = locate::usual_data_dirs(sources.environment, sources.cwd);
    let idle = usual.into_iter().filter(|directory| has_database(directory)).map(|directory| {
        // As the system writes the directories that processes have open.
        directory.canonicalize().unwrap_or(directory)
    });
    let idle: Vec<PathBuf> = idle.filter(|directory| !running.contains(directory)).collect();
    anyhow::bail!(message(directory, file.as_deref(), &running, &idle))
}

fn message(directory: &Path, file: Option<&Path>, running: &[PathBuf], idle: &[PathBuf]) -> String {
    let configuration = file.map_or_else(|| "none found".to_owned(), |file| file.display().to_string());
    let mut text = format!(
        "there is no data in {}, so there is nothing to look at; nothing was created (configuration: {configuration})",
        directory.display()
    );
    for directory in running {
        let _ = write!(text, "\na Satchel runs with the data in {}", directory.display());
    }
    for directory in idle {
        let _ = write!(text, "\nthere is data in {}", directory.display());
    }
    let example = running.first().or(idle.first()).map_or("DIRECTORY".into(), |directory| directory.to_string_lossy());
    let _ = write!(
        text,
        "\nto look elsewhere, name the configuration with `--config FILE` or the data with \
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
        insta::assert_snapshot!(message(directory, None, &[], &[]));
        let (running, idle) = ([PathBuf::from("/srv/satchel")], [PathBuf::from("/home/ann/.local/share/satchel")]);
        insta::assert_snapshot!(message(directory, Some(Path::new("satchel.yaml")), &running, &idle));
    }
}
