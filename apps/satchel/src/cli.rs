//! What can be said on the command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use satchel_domain::{AttachmentId, ChannelName, ConversationId, PairingCode, PartId};
use secrecy::SecretString;

/// A self-hosted assistant that loses no file.
#[derive(Debug, Parser)]
#[command(
    name = "satchel",
    version,
    about = "A self-hosted assistant that loses no file",
    long_about = "A self-hosted assistant for Telegram, Discord, a web page and the terminal.\n\nNo file that reaches it \
                  is lost, every reply arrives once and in order, and what can't be delivered is told.\nWithout a \
                  command it runs: `satchel` is `satchel run`.",
    after_help = "Examples:\n  satchel chat                               talk in the terminal\n  satchel chat --once \
                  \"save this\" --attach a.pdf  one turn, then exit\n  satchel run                                serve \
                  the page and all channels that are configured\n  satchel init                               write a \
                  satchel.yaml\n  satchel doctor                             check this machine\n  satchel config show                        every setting and \
                  where it comes from\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration."
)]
pub struct Cli {
    /// What applies to every command.
    #[command(flatten)]
    pub global: GlobalOptions,
    /// What to do; nothing is `run`.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What applies to every command.
#[derive(Debug, Args)]
pub struct GlobalOptions {
    /// Configuration file [default: SATCHEL_CONFIG, ./satchel.yaml, satchel/satchel.yaml in the XDG config directory]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Change one setting for this call, such as `--set delivery.max_age=12h`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub set: Vec<String>,
    /// What is logged, such as `info` or `satchel=debug` [default: the setting `log`]
    #[arg(long, value_name = "FILTER", global = true)]
    pub log: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve all channels that are configured, until SIGINT or SIGTERM
    Run {
        /// Open the page in this desktop's browser
        #[arg(long)]
        open: bool,
    },
    /// Talk to Satchel in the terminal
    #[command(
        after_help = "The files of replies are written to ./files, each with its number before its name.\n\nExamples:\n  satchel chat\n  satchel chat --conversation holiday\n  satchel chat --once \
                            \"save these\" --attach a.jpg --attach b.pdf --json\n  cat notes.txt | satchel chat --once summarise\n  \
                            ls -l | satchel chat --once"
    )]
    Chat(ChatOptions),
    /// Show how a response would be sent on a channel, without sending it
    #[command(after_help = "Examples:\n  satchel plan response.json --channel telegram\n  echo \
                            '{\"text\":\"Hello\"}' | satchel plan - --channel discord --json\n\nThe limits are those of \
                            the configuration: telegram.limits and discord.limits. With telegram.local_files, telegram \
                            is your own Bot API server; telegram-local is one without it.")]
    Plan(PlanOptions),
    /// Look at the files that Satchel keeps
    #[command(subcommand)]
    Attachments(AttachmentsCommand),
    /// Look at replies that are under way or failed
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask for keys and tokens, try them out, and write a commented satchel.yaml
    #[command(
        after_help = "Examples:\n  satchel init\n  OPENAI_API_KEY=... satchel init --yes\n  satchel init --yes --model ollama \
                            --model-name gemma3 --config /etc/satchel/satchel.yaml\n\nWhat is given as an option can be \
                            seen by others on this machine while the command runs; the questions and the environment \
                            can't."
    )]
    Init(InitOptions),
    /// Check what Satchel needs from this machine and say what to do about it
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run scripts
    #[command(subcommand)]
    Script(ScriptCommand),
    /// Run a declared task; not built yet
    #[command(hide = true)]
    Task(Later),
    /// Decide who may talk to Satchel
    #[command(subcommand)]
    Pair(PairCommand),
    /// Log in to the page
    #[command(subcommand)]
    Web(WebCommand),
    /// Bring the database up to date; not built yet: every start does it
    #[command(hide = true)]
    Migrate(Later),
}

/// A command that comes later; whatever follows it is taken, but `--help` at once, so that the answer is "not built yet".
#[derive(Debug, Args)]
pub struct Later {
    /// Not read.
    #[arg(allow_hyphen_values = true, hide = true)]
    pub rest: Vec<OsString>,
}

/// What `script` does.
#[derive(Debug, Subcommand)]
pub enum ScriptCommand {
    /// Run a script and print its answer
    #[command(
        after_help = "The files of the answer are written to ./files/scripts; with --conversation NAME to ./files/NAME.\n\nExamples:\n  satchel script run report.star\n  satchel script run report.star --json"
    )]
    Run(ScriptRunOptions),
}

/// What `script run` takes.
#[derive(Debug, Args)]
pub struct ScriptRunOptions {
    /// The script; - reads it from standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the result as JSON: {"text", "data", "attachments"}
    #[arg(long)]
    pub json: bool,
    /// The conversation whose files and workspace it finds; it is `console:NAME` everywhere else
    #[arg(long, value_name = "NAME", default_value = "scripts", value_parser = console_conversation)]
    pub conversation: ConversationId,
}

/// What `chat` takes.
#[derive(Debug, Args)]
pub struct ChatOptions {
    /// Say this and what comes on standard input, or that alone; wait for the whole reply, exit
    #[arg(long, value_name = "TEXT")]
    pub once: Option<Option<String>>,
    /// Send this file with it; may be repeated; - is standard input
    #[arg(long, value_name = "FILE", requires = "once")]
    pub attach: Vec<PathBuf>,
    /// Print the turn's response and what became of each part as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// The conversation's name; it is `console:NAME` everywhere else
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = console_conversation)]
    pub conversation: ConversationId,
}

/// What `init` takes.
#[derive(Debug, Args)]
pub struct InitOptions {
    /// Ask nothing: take the options, then what the environment and this machine offer
    #[arg(long)]
    pub yes: bool,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
    /// Write keys and tokens without trying them out
    #[arg(long)]
    pub no_check: bool,
    /// Who serves the model [default: whoever's key is in the environment, a local Ollama, or offline]
    #[arg(long, value_enum, value_name = "PROVIDER")]
    pub model: Option<InitModel>,
    /// The provider's name of the model
    #[arg(long, value_name = "NAME", requires = "model")]
    pub model_name: Option<String>,
    /// Another server than the provider's own
    #[arg(long, value_name = "URL", requires = "model", value_parser = secret)]
    pub base_url: Option<SecretString>,
    /// The provider's key; without it the environment's is used and not written
    #[arg(long, value_name = "KEY", requires = "model", value_parser = secret)]
    pub api_key: Option<SecretString>,
    /// The token of a Telegram bot
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    pub telegram_token: Option<SecretString>,
    /// The token of a Discord bot
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    pub discord_token: Option<SecretString>,
}

/// Who serves the model that `init` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InitModel {
    /// OpenAI's chat completions, and whoever speaks them.
    Openai,
    /// OpenAI's responses.
    #[value(name = "openai_responses")]
    OpenaiResponses,
    /// Anthropic.
    Anthropic,
    /// Google.
    Gemini,
    /// An Ollama server.
    Ollama,
    /// Nobody.
    Offline,
}

/// What `plan` takes.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// An OutgoingResponse as JSON; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// Whose rules apply
    #[arg(long, value_enum)]
    pub channel: PlanChannel,
    /// Print the plan itself as JSON
    #[arg(long)]
    pub json: bool,
}

/// A channel whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanChannel {
    /// Telegram, by the server that is configured: its own, or one with `telegram.local_files`.
    Telegram,
    /// Telegram, by a Bot API server of your own that runs with --local.
    TelegramLocal,
    /// Discord.
    Discord,
    /// The web page.
    Web,
    /// The terminal.
    Console,
}

/// What can be done with files.
#[derive(Debug, Subcommand)]
pub enum AttachmentsCommand {
    /// List files, the newest first
    List {
        /// Only those of this conversation, such as console:main
        #[arg(long, value_name = "CONVERSATION")]
        conversation: Option<ConversationId>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show everything that is known of one file
    Show {
        /// Which file.
        #[command(flatten)]
        file: AttachmentChoice,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a file out of Satchel
    #[command(after_help = "Example:\n  satchel attachments export 17 --conversation console:main --to ~/Downloads")]
    Export {
        /// Which file.
        #[command(flatten)]
        file: AttachmentChoice,
        /// The new file, or a directory for it; nothing is overwritten
        #[arg(long, value_name = "PATH")]
        to: PathBuf,
    },
    /// Show what files take up, of every conversation and every person
    Usage {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove files for good; their numbers stay
    #[command(after_help = "Examples:\n  satchel attachments remove 17 --conversation telegram:-100123\n  \
                      satchel attachments remove 3 4 5 --conversation console:main")]
    Remove {
        /// Their ids, or their numbers such as 17 or #17
        #[arg(value_name = "ID|N", value_parser = file_name_of, required = true)]
        files: Vec<FileKey>,
        /// Where the numbers count, when several conversations have them
        #[arg(long, value_name = "CONVERSATION")]
        conversation: Option<ConversationId>,
    },
    /// Remove the bytes that nothing has referred to for an hour
    Gc,
    /// Resolve declared attachments; not built yet
    #[command(hide = true)]
    Resolve(Later),
}

/// One file.
#[derive(Debug, Args)]
pub struct AttachmentChoice {
    /// Its id, or its number such as 17 or #17
    #[arg(value_name = "ID|N", value_parser = file_name_of)]
    pub file: FileKey,
    /// Where the number counts, when several conversations have it
    #[arg(long, value_name = "CONVERSATION")]
    pub conversation: Option<ConversationId>,
}

/// How a file is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKey {
    /// By its id.
    Id(AttachmentId),
    /// By its number in its conversation.
    Number(u64),
}

/// What can be done with replies under way.
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// List parts that are under way or failed, the newest first
    List {
        /// Only those of this conversation
        #[arg(long, value_name = "CONVERSATION")]
        conversation: Option<ConversationId>,
        /// Delivered ones too
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one part
    Show {
        /// Its id
        part: PartId,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send the files of a part again, after whatever its conversation still waits for
    Resend {
        /// The part's id
        part: PartId,
    },
    /// Give up a part that is not being sent; the person is not told, the model is
    Discard {
        /// Its id
        part: PartId,
    },
}

/// What can be decided about who may talk.
#[derive(Debug, Subcommand)]
pub enum PairCommand {
    /// List who asks to be let in, and who was
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let the person of a code in; they are told
    #[command(after_help = "Example:\n  satchel pair approve ABCD-EFGH")]
    Approve {
        /// The code that they were told
        code: PairingCode,
    },
    /// Take back that a code let somebody in
    #[command(after_help = "Example:\n  satchel pair revoke telegram 123456")]
    Revoke {
        /// Where they talk, such as telegram
        #[arg(value_parser = channel_name)]
        channel: ChannelName,
        /// Their id, as `satchel pair list` shows it
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

/// What can be done about the page.
#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// Print a link that logs a browser in; it works once, for ten minutes
    #[command(
        after_help = "It may be used beside a running `satchel run`, with the same configuration.\n\nExample:\n  \
                            satchel web link"
    )]
    Link,
}

/// What can be asked about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting, its value and where it comes from; secrets are masked
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tell whether the configuration is right
    Check,
    /// Print the JSON Schema of satchel.yaml, for editors
    #[command(
        after_help = "Example:\n  satchel config schema > satchel.schema.json\n\nThen begin satchel.yaml with:\n  # \
                            yaml-language-server: $schema=./satchel.schema.json"
    )]
    Schema,
}

fn console_conversation(name: &str) -> Result<ConversationId, String> {
    format!("console:{name}").parse().map_err(|_| "a name is made of letters, digits and any of - _ . / @".to_owned())
}

fn channel_name(text: &str) -> Result<ChannelName, String> {
    ChannelName::new(text).map_err(|_| "a channel is named by small letters, such as telegram or discord".to_owned())
}

fn secret(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text))
}

fn file_name_of(text: &str) -> Result<FileKey, String> {
    if let Ok(number) = text.strip_prefix('#').unwrap_or(text).parse() {
        return Ok(FileKey::Number(number));
    }
    text.parse().map(FileKey::Id).map_err(|_| {
        "a file is named by its number, such as 17, or by an id such as 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_can_be_said_is_understood() {
        for line in [
            "",
            "run",
            "--config a.yaml run --set a=b --set c=d --log debug",
            "chat",
            "chat --once hello --attach a.jpg --attach b.pdf --json --conversation holiday",
            "plan - --channel web --json",
            "plan a.json --channel telegram-local --set telegram.limits.text=500",
            "attachments list --conversation telegram:-100123/42 --json",
            "attachments show #17",
            "attachments export 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e --to out",
            "attachments usage --json",
            "attachments remove 17 #18 --conversation console:main",
            "attachments gc",
            "outbox list --all",
            "outbox discard 0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e",
            "pair list --json",
            "pair approve abcd-efgh",
            "pair revoke telegram -123",
            "config show --json",
            "config schema",
            "init",
            "init --yes --force --no-check --model openai_responses --model-name m --base-url http://h --api-key k",
            "init --telegram-token 1:a --discord-token b",
            "doctor --json",
            "web link",
            "task run NAME --input k=v",
            "migrate --to 3 -x",
            "chat --once --attach -",
            "attachments resolve a b",
        ] {
            let words = std::iter::once("satchel").chain(line.split_whitespace());
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn every_command_answers_help() {
        for line in ["task --help", "migrate --help", "attachments resolve --help", "chat -h"] {
            let words = std::iter::once("satchel").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!((error.kind(), error.exit_code()), (clap::error::ErrorKind::DisplayHelp, 0), "{line}");
        }
    }

    #[test]
    fn script_help_names_directory_of_files() {
        let error = Cli::try_parse_from(["satchel", "script", "run", "--help"]).expect_err("it is help");
        let help = error.to_string();
        assert!(help.contains("./files/scripts;") && help.contains("./files/NAME"), "{help}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "walk",
            "chat --json",
            "chat --attach a.jpg",
            "chat --conversation a:b",
            "plan a.json",
            "plan a.json --channel fax",
            "attachments show seventeen",
            "attachments remove",
            "attachments export 17",
            "outbox show 17",
            "pair",
            "pair approve ABCD",
            "web",
            "web link now",
            "pair revoke telegram",
            "pair revoke Telegram 5",
            "config",
            "init --whatever",
            "init --model chatgpt",
            "init --api-key k",
        ] {
            let words = std::iter::once("satchel").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
