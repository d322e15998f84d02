//! The commands about the page's logins.

use clap::Subcommand;
use satchel_domain::LoginId;

/// The subcommands of `web`.
#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// Print a link that logs a browser in; it works once, for ten minutes
    #[command(after_help = "Use it while `satchel run` is running, with the same configuration.\n\nExample:\n  \
                            satchel web link")]
    Link,
    #[command(flatten)]
    Logins(LoginsCommand),
}

/// The subcommands of `web` for the logins of browsers.
#[derive(Debug, Subcommand)]
pub enum LoginsCommand {
    /// List the browsers that are logged in, the most recently used first
    Logins {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End logins: their browsers have to log in again
    #[command(after_help = "It counts from the next request on, in every process.\n\nExamples:\n  satchel web logout \
                      0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e\n  satchel web logout --all")]
    Logout {
        /// Login ids, as `satchel web logins` shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        logins: Vec<LoginId>,
        /// End all logins; links of `satchel web link` that nobody has used yet still work for their ten minutes
        #[arg(long, conflicts_with = "logins")]
        all: bool,
    },
}
