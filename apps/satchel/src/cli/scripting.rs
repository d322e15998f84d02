//! The command line of what scripts and shells use.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use satchel_domain::ConversationId;

use super::conversation::parse_conversation;

/// The arguments of `send`.
#[derive(Debug, Args)]
pub struct SendOptions {
    /// Conversation in which somebody has written, such as telegram:-100123; `main` is console:main
    #[arg(value_name = "CHANNEL:ID", value_parser = parse_conversation)]
    pub conversation: ConversationId,
    /// Text, as Markdown; - reads standard input
    #[arg(value_name = "TEXT", required_unless_present = "attach")]
    pub text: Option<String>,
    /// Attach this file; may be repeated; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Unique name of this message in the conversation: sent twice, it is delivered once
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A shell for which there are completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Fish.
    Fish,
}
