//! The arguments of `migrate`.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateOptions {
    /// Configuration whose storage.database_url and storage.blobs_url name the new places
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Go on although the file store has lost or damaged some of the files that the ledger names
    #[arg(long)]
    pub skip_lost: bool,
}
