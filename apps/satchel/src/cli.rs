//! The command line, as clap parses it.

mod backup;
mod conversation;
mod migrate;
mod run;
mod scripting;
mod version;
mod web;

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};
use satchel_domain::{AttachmentId, ChannelName, ConversationId, PairingCode, PartId};
use secrecy::SecretString;

pub use self::backup::{
    BackupCommand, BackupCreateOptions, BackupRestoreOptions, ExistingBackupCommand, MissedChoice, ReceivedChoice,
    ReleaseOptions, RestoredCopyCommand, UnsettledChoice,
};
use self::{
    conversation::{parse_console_conversation, parse_conversation},
    version::VERSION,
};
pub use self::{
    migrate::MigrateOptions,
    run::{HealthcheckOptions, Role, RunOptions},
    scripting::{CompletionShell, ScriptRunOptions, SendOptions},
    web::{LoginsCommand, WebCommand},
};
use crate::config::leaf::amount::ConfigDuration;

/// A self-hosted assistant that loses no file.
#[derive(Debug, Parser)]
#[command(
    name = "satchel",
    version = VERSION.as_str(),
    about = "A self-hosted assistant that loses no file",
    long_about = "A self-hosted assistant for Telegram, Discord, a web page and the terminal.\n\nIt loses no file, sends \
                  every reply once and in order, and reports what can't be delivered.\n`satchel` without a command is \
                  `satchel run`.",
    after_help = "Examples:\n  satchel chat                               talk in the terminal\n  satchel chat --once \
                  \"save this\" --attach a.pdf  one turn, then exit\n  satchel run                                serve \
                  the page and all channels that are configured\n  satchel init                               write a \
                  satchel.yaml\n  satchel doctor                             check this machine\n  satchel config show                        every setting and \
                  where it comes from\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration."
)]
pub struct Cli {
    /// The options of every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// The command; without one, `run`.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The options of every command.
#[derive(Debug, Args)]
pub struct GlobalOptions {
    /// Configuration file [default: SATCHEL_CONFIG, ./satchel.yaml, satchel/satchel.yaml in the XDG config directory,
    /// /etc/satchel/satchel.yaml]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Change one setting for this call, such as `--set delivery.max_age=12h`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub set: Vec<String>,
    /// Log filter, such as `info` or `satchel=debug` [default: the setting `log`]
    #[arg(long, value_name = "FILTER", global = true)]
    pub log: Option<String>,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve all channels that are configured, until SIGINT or SIGTERM
    Run(RunOptions),
    /// Talk to Satchel in the terminal
    #[command(
        after_help = "Files in replies are saved to ./files, as NUMBER-NAME.\n\nExamples:\n  satchel chat\n  satchel chat --conversation holiday\n  satchel chat --model small\n  satchel chat --once \
                            \"save these\" --attach a.jpg --attach b.pdf --json\n  cat notes.txt | satchel chat --once summarise\n  \
                            ls -l | satchel chat --once"
    )]
    Chat(ChatOptions),
    /// Send a message to the people of a conversation, from a script or another program
    #[command(
        after_help = "It is delivered as a reply is: once, behind what is under way there, and also if Satchel is not \
                      running now. The model reads it as a note. With --key, the same message sent again is the same \
                      message.\n\nExamples:\n  satchel send telegram:-100123 \"The backup is done.\" --key backup-2026-03-02\n  \
                      df -h | satchel send telegram:-100123 -\n  satchel send web:family --attach report.pdf"
    )]
    Send(SendOptions),
    /// Show how a response would be sent on a channel, without sending it
    #[command(after_help = "Examples:\n  satchel plan response.json --channel telegram\n  echo \
                            '{\"text\":\"Hello\"}' | satchel plan - --channel discord --json\n\nThe limits are those of \
                            the configuration: telegram.limits and discord.limits. With telegram.local_files, telegram \
                            is your own Bot API server; telegram-local is one without it.")]
    Plan(PlanOptions),
    /// List, export and remove stored files
    #[command(subcommand)]
    Attachments(AttachmentsCommand),
    /// List, resend and discard replies that are in progress or failed
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Back up, check and restore the data, also while Satchel runs
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Show which files of workspaces were written and deleted: when, for whom, by what, and how it ended
    #[command(
        after_help = "The last 90 days are kept, with paths and without contents. The time is that of the commit.\n\nExamples:\n  satchel audit\n  \
                            satchel audit --conversation telegram:-100123 --since 7d --json"
    )]
    Audit(AuditOptions),
    /// Show and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask for keys and tokens, test them, and write a commented satchel.yaml
    #[command(
        after_help = "Examples:\n  satchel init\n  OPENAI_API_KEY=... satchel init --yes\n  satchel init --yes --model ollama \
                            --model-name gemma3 --config /etc/satchel/satchel.yaml\n\nOther users of this machine can \
                            see the options while the command runs. They can't see your answers or the environment."
    )]
    Init(InitOptions),
    /// Check the configuration and this machine, and show how to fix problems
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask a running Satchel whether it is ready, for the health check of a container
    #[command(after_help = "It requests /readyz at `web.listen` or, where the process serves no page, the metrics at \
                      `metrics.listen`, and waits 3 seconds for the answer. The exit code is 0 if it is ready.\n\nExamples:\n  \
                      satchel healthcheck\n  satchel healthcheck --role agent")]
    Healthcheck(HealthcheckOptions),
    /// Run scripts
    #[command(subcommand)]
    Script(ScriptCommand),
    /// Run and list declared tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Decide who may talk to Satchel
    #[command(subcommand)]
    Pair(PairAction),
    /// Log in to the page, and list and end logins
    #[command(subcommand)]
    Web(WebCommand),
    /// Print completions for a shell
    #[command(
        after_help = "Examples:\n  satchel completions bash > ~/.local/share/bash-completion/completions/satchel\n  satchel \
                      completions zsh > ~/.zfunc/_satchel\n  satchel completions fish > \
                      ~/.config/fish/completions/satchel.fish"
    )]
    Completions {
        /// Shell
        #[arg(value_name = "SHELL", value_enum)]
        shell: CompletionShell,
    },
    /// Write manual pages, one for each command
    #[command(after_help = "Example:\n  satchel man ~/.local/share/man/man1")]
    Man {
        /// Directory, created if it is missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Move the ledger and the files to PostgreSQL and S3, or back to this machine, while Satchel is stopped
    #[command(
        after_help = "FILE is the configuration to start with afterwards; this one is found as by `satchel run`. Files are \
                      copied first, then the ledger in one step, and all is read back and compared by its hash. Cut off \
                      at any time, the same command goes on: files that are there are not copied again. Then nothing \
                      starts on the old ledger any more; it and the old files stay as they are.\n\nExamples:\n  satchel \
                      migrate --to cluster.yaml\n  satchel migrate --config cluster.yaml --to home.yaml"
    )]
    Migrate(MigrateOptions),
}

/// The subcommands of `task`.
#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Run a task, and before it the tasks whose output it needs
    #[command(
        after_help = "Files in the result are saved to ./files/tasks; with --conversation NAME to ./files/NAME. A run that \
                      is interrupted continues when the next task is run there.\n\nExamples:\n  satchel task run report \
                      --input city=Berlin\n  satchel task run classify --attach cat.jpg --json"
    )]
    Run(TaskRunOptions),
    /// List the declared tasks and their inputs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The arguments of `task run`.
#[derive(Debug, Args)]
pub struct TaskRunOptions {
    /// Name of the task
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Input of the run, such as `--input city=Berlin`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_input)]
    pub input: Vec<(String, String)>,
    /// Attach this file; may be repeated
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Print the result as JSON, as `chat --json` does
    #[arg(long)]
    pub json: bool,
    /// Conversation whose files and workspace the task sees; `tasks` and `console:tasks` are the same
    #[arg(long, value_name = "NAME", default_value = "tasks", value_parser = parse_console_conversation)]
    pub conversation: ConversationId,
}

/// The subcommands of `script`.
#[derive(Debug, Subcommand)]
pub enum ScriptCommand {
    /// Run a script and print its result
    #[command(
        after_help = "Files in the result are saved to ./files/scripts; with --conversation NAME to ./files/NAME.\n\nExamples:\n  satchel script run report.star\n  satchel script run report.star --global 'city=\"Berlin\"' --global days=7 --json"
    )]
    Run(ScriptRunOptions),
}

/// The arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditOptions {
    /// Only this conversation, such as console:main
    #[arg(long, value_name = "CONVERSATION", value_parser = parse_conversation)]
    pub conversation: Option<ConversationId>,
    /// Only changes within this time, such as 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = ConfigDuration::from_str)]
    pub since: Option<ConfigDuration>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `chat`.
#[derive(Debug, Args)]
pub struct ChatOptions {
    /// Send TEXT, standard input or both as one message, wait for the whole reply, then exit
    #[arg(long, value_name = "TEXT")]
    pub once: Option<Option<String>>,
    /// Attach this file; may be repeated; - reads standard input
    #[arg(long, value_name = "FILE", requires = "once")]
    pub attach: Vec<PathBuf>,
    /// Print the response and the state of each part as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Conversation; `main` and `console:main` are the same
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = parse_console_conversation)]
    pub conversation: ConversationId,
    /// Let this model answer in the conversation from now on, like `/model NAME`
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// The arguments of `init`.
#[derive(Debug, Args)]
pub struct InitOptions {
    /// Ask nothing: use the options, then the environment, then what this machine offers
    #[arg(long)]
    pub yes: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Write keys and tokens without testing them
    #[arg(long)]
    pub no_check: bool,
    /// Provider of the model [default: the one whose key is in the environment, a local Ollama, or offline]
    #[arg(long, value_enum, value_name = "PROVIDER")]
    pub model: Option<InitModel>,
    /// Model name, as the provider calls it
    #[arg(long, value_name = "NAME", requires = "model")]
    pub model_name: Option<String>,
    /// Address of another server that offers the provider's API
    #[arg(long, value_name = "URL", requires = "model", value_parser = parse_secret)]
    pub base_url: Option<SecretString>,
    /// API key; without it the one from the environment is used and not written to the file
    #[arg(long, value_name = "KEY", requires = "model", value_parser = parse_secret)]
    pub api_key: Option<SecretString>,
    /// Telegram bot token
    #[arg(long, value_name = "TOKEN", value_parser = parse_secret)]
    pub telegram_token: Option<SecretString>,
    /// Discord bot token
    #[arg(long, value_name = "TOKEN", value_parser = parse_secret)]
    pub discord_token: Option<SecretString>,
}

/// The provider of the model that `init` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InitModel {
    /// OpenAI's Chat Completions API, or another server that offers it.
    Openai,
    /// OpenAI's Responses API.
    #[value(name = "openai_responses")]
    OpenaiResponses,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
    /// An Ollama server.
    Ollama,
    /// The built-in model, which needs no key.
    Offline,
}

/// The arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// An OutgoingResponse as JSON; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// Channel whose rules apply
    #[arg(long, value_enum)]
    pub channel: PlanChannel,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// A channel with a capability table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanChannel {
    /// Telegram through the configured server: Telegram's own, or one with `telegram.local_files`.
    Telegram,
    /// Telegram through a Bot API server of your own that runs with --local.
    TelegramLocal,
    /// Discord.
    Discord,
    /// The web page.
    Web,
    /// The terminal.
    Console,
}

/// The subcommands of `attachments`.
#[derive(Debug, Subcommand)]
pub enum AttachmentsCommand {
    #[command(flatten)]
    Stored(StoredFilesCommand),
    /// Show which attachments the tasks and agents of a file would get, without running them
    #[command(
        after_help = "FILE is the configuration file or one of the folder `playbooks` beside it. What needs the output of \
                      another task is listed as it is declared.\n\nExamples:\n  satchel attachments resolve satchel.yaml\n  \
                      satchel attachments resolve playbooks/nightly.yaml --task report --input city=Berlin --json"
    )]
    Resolve(ResolveOptions),
}

/// The subcommands of `attachments` for files that conversations have.
#[derive(Debug, Subcommand)]
pub enum StoredFilesCommand {
    /// List files, newest first
    List {
        /// Only this conversation, such as console:main
        #[arg(long, value_name = "CONVERSATION", value_parser = parse_conversation)]
        conversation: Option<ConversationId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show all details of one file
    Show {
        /// Which file.
        #[command(flatten)]
        file: AttachmentSelector,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a file out of Satchel
    #[command(after_help = "Example:\n  satchel attachments export 17 --conversation console:main --to ~/Downloads")]
    Export {
        /// Which file.
        #[command(flatten)]
        file: AttachmentSelector,
        /// Target file or directory; existing files are not overwritten
        #[arg(long, value_name = "PATH")]
        to: PathBuf,
    },
    /// Show the storage used by every conversation and every person
    Usage {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove files for good; their numbers stay
    #[command(after_help = "Examples:\n  satchel attachments remove 17 --conversation telegram:-100123\n  \
                      satchel attachments remove 3 4 5 --conversation console:main")]
    Remove {
        /// File ids, or numbers such as 17 or #17
        #[arg(value_name = "ID|N", value_parser = parse_file_selector, required = true)]
        files: Vec<FileSelectorArg>,
        /// Conversation of the numbers, if several conversations have them
        #[arg(long, value_name = "CONVERSATION", value_parser = parse_conversation)]
        conversation: Option<ConversationId>,
    },
    /// Delete stored bytes that no file has used for an hour
    Gc,
}

/// The arguments of `attachments resolve`.
#[derive(Debug, Args)]
pub struct ResolveOptions {
    /// File that declares agents and tasks
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only this task
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Input of the run, such as `--input city=Berlin`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_input)]
    pub input: Vec<(String, String)>,
    /// Try the next run of this schedule, with its task and its inputs
    #[arg(long, value_name = "NAME", conflicts_with_all = ["task", "input"])]
    pub schedule: Option<String>,
    /// List what would be resolved without opening files or fetching anything
    #[arg(long)]
    pub no_fetch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The arguments that select one file.
#[derive(Debug, Args)]
pub struct AttachmentSelector {
    /// File id, or number such as 17 or #17
    #[arg(value_name = "ID|N", value_parser = parse_file_selector)]
    pub file: FileSelectorArg,
    /// Conversation of the number, if several conversations have it
    #[arg(long, value_name = "CONVERSATION", value_parser = parse_conversation)]
    pub conversation: Option<ConversationId>,
}

/// A file's id or number on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSelectorArg {
    /// By its id.
    Id(AttachmentId),
    /// By its number in its conversation.
    Number(u64),
}

/// The subcommands of `outbox`.
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// List queued messages of `satchel send`, and parts that are in progress or failed, newest first
    List {
        /// Only this conversation, such as telegram:-100123; `main` is console:main
        #[arg(long, value_name = "CONVERSATION", value_parser = parse_conversation)]
        conversation: Option<ConversationId>,
        /// Include delivered parts
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one part
    Show {
        /// Part id
        part: PartId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send the text and the files of a part again, after the parts that its conversation still waits for
    Resend {
        /// Part id
        part: PartId,
    },
    /// Give up a part that is not being sent; the model is told, the person is not
    Discard {
        /// Part id
        part: PartId,
    },
}

/// The subcommands of `pair`.
#[derive(Debug, Subcommand)]
pub enum PairAction {
    /// List people who are waiting for approval, and people who were approved with a code
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve the person with this code; they are told
    #[command(after_help = "Example:\n  satchel pair approve ABCD-EFGH")]
    Approve {
        /// Pairing code that the person received
        code: PairingCode,
    },
    /// Withdraw an approval
    #[command(after_help = "Example:\n  satchel pair revoke telegram 123456")]
    Revoke {
        /// Channel, such as telegram
        #[arg(value_parser = parse_channel_name)]
        channel: ChannelName,
        /// Person's id, as `satchel pair list` shows it
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting, its value and where it comes from; secrets are masked
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration
    Check,
    /// Print the JSON Schema of satchel.yaml, for editors
    #[command(
        after_help = "Example:\n  satchel config schema > satchel.schema.json\n\nThen start satchel.yaml with:\n  # \
                            yaml-language-server: $schema=./satchel.schema.json"
    )]
    Schema,
}

fn parse_channel_name(text: &str) -> Result<ChannelName, String> {
    ChannelName::new(text)
        .map_err(|_| "a channel name consists of lower-case letters, such as telegram or discord".to_owned())
}

fn parse_input(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("an input is KEY=VALUE, such as city=Berlin".to_owned()),
    }
}

fn parse_secret(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text))
}

fn parse_file_selector(text: &str) -> Result<FileSelectorArg, String> {
    if let Ok(number) = text.strip_prefix('#').unwrap_or(text).parse() {
        return Ok(FileSelectorArg::Number(number));
    }
    text.parse().map(FileSelectorArg::Id).map_err(|_| {
        "use the file's number, such as 17, or its id, such as 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e".to_owned()
    })
}

#[cfg(test)]
mod tests;
