//! The command line of `satchel backup`.

use std::path::PathBuf;

use clap::{
    Args, Subcommand, ValueEnum,
    builder::{PathBufValueParser, TypedValueParser},
};
use satchel_files::backup::BackupId;

/// The subcommands of `backup`.
#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Make a backup: the database, the files that it names and the workspaces without /tmp
    #[command(
        after_help = "What a directory has already is not stored again. The directory is created, but not the one above \
                      it. Settings are not included: keep a copy of satchel.yaml.\n\nExamples:\n  satchel backup create \
                      /mnt/backup/satchel\n  satchel backup create /mnt/backup/satchel --keep 7\n  satchel backup create - \
                      | ssh nas 'cat > satchel.tar'"
    )]
    Create(BackupCreateOptions),
    #[command(flatten)]
    Existing(ExistingBackupCommand),
    #[command(flatten)]
    RestoredCopy(RestoredCopyCommand),
}

/// The subcommands of `backup` for backups that exist.
#[derive(Debug, Subcommand)]
pub enum ExistingBackupCommand {
    /// List the backups of a directory, oldest first
    List {
        /// Directory of backups
        #[arg(value_name = "DIR", value_parser = existing_backups())]
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read all backups of a directory and compare them with their hashes
    Verify {
        /// Directory of backups
        #[arg(value_name = "DIR", value_parser = existing_backups())]
        directory: PathBuf,
    },
    /// Restore a backup into a new data directory
    #[command(after_help = "The copy does not start before `satchel backup release` has decided about what it holds \
                      back. Links to files that were made before don't open in it.\n\nExample:\n  satchel backup \
                      restore /mnt/backup/satchel --to /var/lib/satchel")]
    Restore(BackupRestoreOptions),
}

/// The subcommands of `backup` for a restored copy.
#[derive(Debug, Subcommand)]
pub enum RestoredCopyCommand {
    /// List what this restored copy holds back: what was not sent and not answered, what came in since, what fell due
    Held {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Decide what becomes of what this restored copy holds back; before, it does not start
    #[command(
        after_help = "The Satchel that the backup was made of may have sent, answered and run all of it. Each kind that is \
                      held back needs its option.\n\nExamples:\n  satchel backup release --unsettled drop --missed \
                      skip\n  satchel backup release --received answer"
    )]
    Release(ReleaseOptions),
}

/// The arguments of `backup release`.
#[derive(Debug, Args)]
pub struct ReleaseOptions {
    /// Replies that were not sent and messages that were not answered when the backup was made
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub unsettled: Option<UnsettledChoice>,
    /// Messages that people sent before this copy was released, and that came in since
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub received: Option<ReceivedChoice>,
    /// Runs of schedules and reminders that fell due since the backup
    #[arg(long, value_enum, value_name = "CHOICE")]
    pub missed: Option<MissedChoice>,
}

/// What becomes of what was unsettled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UnsettledChoice {
    /// Send the replies and answer the messages: people may get them twice.
    Send,
    /// Do nothing.
    Drop,
}

/// What becomes of messages that came in since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReceivedChoice {
    /// Answer them: people may be answered twice.
    Answer,
    /// Do nothing.
    Drop,
}

/// What becomes of schedules and reminders that fell due since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MissedChoice {
    /// Run them as after any other pause: each schedule's setting `missed` decides.
    Run,
    /// Continue with the next due time.
    Skip,
}

/// The arguments of `backup create`.
#[derive(Debug, Args)]
pub struct BackupCreateOptions {
    /// Directory of backups; `-` writes one backup as a tar archive to standard output
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
    #[arg(value_name = "DIR", value_parser = existing_backups())]
    pub directory: PathBuf,
    /// New data directory; it must be empty or not exist
    #[arg(long, value_name = "DATA_DIR")]
    pub to: PathBuf,
    /// Id of the backup, as `satchel backup list` shows it [default: the newest]
    #[arg(long, value_name = "ID")]
    pub backup: Option<BackupId>,
}

/// The parser of a directory of backups that is read.
fn existing_backups() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("an archive is unpacked first, with `mkdir DIR` and `tar -xf ARCHIVE -C DIR`; then name DIR"),
        false => Ok(path),
    })
}
