//! The command line of what scripts and shells use.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use satchel_domain::ConversationId;
use serde_json::Value;

use super::conversation::{parse_console_conversation, parse_conversation};

/// The arguments of `script run`.
#[derive(Debug, Args)]
pub struct ScriptRunOptions {
    /// Script file; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Variable that the script finds set, such as `--global 'city="Berlin"'`; may be repeated
    #[arg(long, value_name = "NAME=JSON", value_parser = parse_global)]
    pub global: Vec<(String, Value)>,
    /// Print the result as JSON: {"text", "data", "attachments"}
    #[arg(long)]
    pub json: bool,
    /// Conversation whose files and workspace the script sees; `scripts` and `console:scripts` are the same
    #[arg(long, value_name = "NAME", default_value = "scripts", value_parser = parse_console_conversation)]
    pub conversation: ConversationId,
}

fn parse_global(text: &str) -> Result<(String, Value), String> {
    let (name, json) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "a variable is NAME=JSON, such as days=7 or city=\"Berlin\"".to_owned())?;
    match serde_json::from_str(json) {
        Ok(value) => Ok((name.to_owned(), value)),
        Err(error) => {
            Err(format!("the value of `{name}` is not JSON ({error}); write a text with its quotes: {name}=\"…\""))
        }
    }
}

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
