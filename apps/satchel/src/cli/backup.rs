//! The command line of `satchel backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use satchel_files::backup::BackupId;

/// The subcommands of `backup`.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Make a backup: the database, the files that it names and the workspaces without /tmp
    #[command(
        after_help = "What a directory has already is not stored again. The directory is created, but not the one above \
                      it. Settings are not included: keep a copy of satchel.yaml.\n\nExamples:\n  satchel backup create \
                      /mnt/backup/satchel\n  satchel backup create /mnt/backup/satchel --keep 7"
    )]
    Create(BackupCreateOptions),
    #[command(flatten)]
    Existing(ExistingBackupCommand),
}

/// The subcommands of `backup` for backups that exist.
#[derive(Debug, Subcommand)]
pub enum ExistingBackupCommand {
    /// List the backups of a directory, oldest first
    List {
        /// Directory of backups
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read all backups of a directory and compare them with their hashes
    Verify {
        /// Directory of backups
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Restore a backup into a new data directory
    #[command(
        after_help = "Example:\n  satchel backup restore /mnt/backup/satchel --to /var/lib/satchel\n\nStop the Satchel that \
                      the backup was made of before you start the restored copy."
    )]
    Restore(BackupRestoreOptions),
}

/// The arguments of `backup create`.
#[derive(Debug, Args)]
pub struct BackupCreateOptions {
    /// Directory of backups
    #[arg(value_name = "DIR")]
    pub target: PathBuf,
    /// Include the vaults, and the token and key of the page
    #[arg(long)]
    pub with_secrets: bool,
    /// Then remove all backups but the newest N, with what only they need
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
}

/// The arguments of `backup restore`.
#[derive(Debug, Args)]
pub struct BackupRestoreOptions {
    /// Directory of backups
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// New data directory; it must be empty or not exist
    #[arg(long, value_name = "DATA_DIR")]
    pub to: PathBuf,
    /// Id of the backup, as `satchel backup list` shows it [default: the newest]
    #[arg(long, value_name = "ID")]
    pub backup: Option<BackupId>,
}
