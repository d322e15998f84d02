//! The command line: does what the arguments say, with the configuration that they name.
//!
//! [`start`] gets everything that comes from outside as arguments; nothing beneath it reads the environment.

use std::{
    ffi::OsString,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Parser;

use crate::{
    cli::{
        AttachmentsCommand, Cli, CliCommand, ConfigCommand, GlobalOptions, OutboxCommand, PairAction, PlanOptions,
        ScriptCommand, WebCommand,
    },
    commands::{self, not_built::not_built, terminal::TerminalEnv},
    config::{self, Config, ConfigSources, LoadedConfig, origin::ConfigProblem},
    logging::{self, LoggingGuard},
    models, runtime,
    stores::{self, Stores},
};

/// Does what the command line says and answers with the process's exit code.
pub fn start(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(OsString, OsString)],
    cwd: &Path,
) -> ExitCode {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => commands::exit_code(perform(cli, environment, cwd)),
        // Help and version are no errors to clap's exit code, and go to standard output.
        Err(answer) => {
            let printed = answer.print();
            match printed {
                Ok(()) => ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2)),
                Err(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn perform(cli: Cli, environment: &[(OsString, OsString)], cwd: &Path) -> anyhow::Result<()> {
    let command = cli.command.unwrap_or(CliCommand::Run { open: false });
    // Lives until the command has ended, so that whatever is still to be sent is.
    let mut logging = None;
    let mut ready = |command: &CliCommand| {
        let mut loaded = load(&cli.global, environment, cwd)?;
        let warnings = std::mem::take(&mut loaded.warnings);
        let config = loaded.ready()?;
        logging = Some(start_logging(&cli.global, &config, command, environment)?);
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        anyhow::Ok(config)
    };
    let sources = sources(&cli.global, environment, cwd);
    let mut ready_with_data = |command: &CliCommand| {
        let config = ready(command)?;
        let elsewhere = commands::existing_data::check(&config, &sources)?;
        anyhow::Ok(ExistingData { config, elsewhere })
    };
    match &command {
        CliCommand::Run { open } => {
            let config = ready(&command)?;
            commands::run::check(&config)?;
            serving(async {
                let decision = models::select_models(&config.models).await;
                let stores = stores::open(&config, None).await?;
                let browser = commands::run::browser(environment).filter(|_| *open);
                commands::run::run(&config, stores, &decision, browser, &mut std::io::stdout()).await
            })
        }
        CliCommand::Chat(options) => {
            let message = commands::piped::message(options)?;
            let config = ready(&command)?;
            in_runtime(async {
                let decision = models::select_models(&config.models).await;
                let stores = stores::open(&config, Some(options.conversation.clone())).await?;
                let around = TerminalEnv::from_env(environment, cwd);
                commands::chat::run(options, message.as_deref(), &config, stores, &decision, around).await
            })
        }
        CliCommand::Plan(options) => plan(options, &load(&cli.global, environment, cwd)?, cwd),
        CliCommand::Attachments(AttachmentsCommand::Resolve(_)) => not_built("attachments resolve"),
        CliCommand::Attachments(asked) => in_runtime(about_files(asked, &ready_with_data(&command)?, cwd)),
        CliCommand::Outbox(asked) => in_runtime(about_parts(asked, &ready_with_data(&command)?)),
        CliCommand::Config(ConfigCommand::Schema) => commands::config::schema(&mut std::io::stdout().lock()),
        CliCommand::Config(asked) => about_config(asked, load(&cli.global, environment, cwd)?),
        CliCommand::Init(options) => {
            let sources = ConfigSources { file: None, set: &cli.global.set, environment, cwd };
            let path = cli.global.config.clone().unwrap_or_else(|| PathBuf::from("satchel.yaml"));
            let setting = commands::init::InitContext { options, path, sources };
            in_runtime(commands::init::run(&setting, &mut std::io::stdout()))
        }
        CliCommand::Doctor { json } => {
            let loaded = load(&cli.global, environment, cwd)?;
            in_runtime(commands::doctor::run(&loaded, *json, &mut std::io::stdout()))
        }
        CliCommand::Script(ScriptCommand::Run(options)) => {
            let script = commands::script::read(&options.file, cwd)?;
            let config = ready(&command)?;
            in_runtime(async {
                let decision = models::select_models(&config.models).await;
                let stores = stores::open(&config, Some(options.conversation.clone())).await?;
                let around = TerminalEnv::from_env(environment, cwd);
                commands::script::run(options, &script, &config, stores, &decision, around).await
            })
        }
        CliCommand::Task(_) => not_built("task"),
        CliCommand::Pair(asked) => in_runtime(about_people(asked, &ready_with_data(&command)?)),
        CliCommand::Web(WebCommand::Link) => commands::web::link(&ready(&command)?, &mut std::io::stdout().lock()),
        CliCommand::Migrate(_) => not_built("migrate"),
    }
}

fn about_config(asked: &ConfigCommand, loaded: LoadedConfig) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    match asked {
        ConfigCommand::Show { json } => {
            let decision = in_runtime(async { Ok(models::select_models(&loaded.config().models).await) })?;
            commands::config::show(&loaded, &decision, *json, out)?;
            loaded.not_built().chain(&loaded.warnings).for_each(warn);
            Ok(())
        }
        ConfigCommand::Check => {
            loaded.warnings.iter().for_each(warn);
            commands::config::check(loaded, out).map(drop)
        }
        ConfigCommand::Schema => commands::config::schema(out),
    }
}

fn warn(problem: &ConfigProblem) {
    commands::print_error(&format!("warning: {problem}"));
}

/// A configuration whose data exists.
struct ExistingData {
    config: Config,
    /// Where Satchel runs if it doesn't run with this data.
    elsewhere: Vec<PathBuf>,
}

impl ExistingData {
    /// Opens it, and points elsewhere if it is empty.
    async fn open(&self) -> anyhow::Result<Stores> {
        let stores = stores::open(&self.config, None).await?;
        commands::existing_data::report_running_elsewhere(&self.config, &*stores.ledger, &self.elsewhere).await?;
        Ok(stores)
    }
}

async fn about_files(asked: &AttachmentsCommand, data: &ExistingData, cwd: &Path) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let (ledger, blobs) = (&*stores.ledger, &*stores.blobs);
    let out = &mut std::io::stdout().lock();
    match asked {
        AttachmentsCommand::List { conversation, json } => {
            commands::attachments::list(ledger, conversation.clone(), *json, out).await
        }
        AttachmentsCommand::Show { file, json } => commands::attachments::show(ledger, file, *json, out).await,
        AttachmentsCommand::Export { file, to } => {
            commands::attachments::export(ledger, blobs, file, &cwd.join(to), out).await
        }
        AttachmentsCommand::Usage { json } => commands::attachments::usage(ledger, *json, out).await,
        AttachmentsCommand::Remove { files, conversation } => {
            commands::attachments::remove(ledger, blobs, files, conversation.as_ref(), out).await
        }
        AttachmentsCommand::Gc => commands::attachments::gc(ledger, blobs, out).await,
        AttachmentsCommand::Resolve(_) => not_built("attachments resolve"),
    }
}

async fn about_parts(asked: &OutboxCommand, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let ledger = &*stores.ledger;
    let out = &mut std::io::stdout().lock();
    match asked {
        OutboxCommand::List { conversation, all, json } => {
            commands::outbox::list(ledger, conversation.clone(), *all, *json, out).await
        }
        OutboxCommand::Show { part, json } => commands::outbox::show(ledger, *part, *json, out).await,
        OutboxCommand::Resend { part } => commands::outbox::resend(ledger, *part, out).await,
        OutboxCommand::Discard { part } => commands::outbox::discard(ledger, *part, out).await,
    }
}

async fn about_people(asked: &PairAction, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let ledger = &*stores.ledger;
    let out = &mut std::io::stdout().lock();
    match asked {
        PairAction::List { json } => commands::pair::list(ledger, *json, out).await,
        PairAction::Approve { code } => commands::pair::approve(ledger, *code, out).await,
        PairAction::Revoke { channel, id } => commands::pair::revoke(ledger, channel, id, out).await,
    }
}

fn in_runtime<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime::runtime().context("failed to start the asynchronous runtime")?;
    runtime.block_on(command)
}

/// As [`in_runtime`], but work of other threads that is still under way at the end is not waited for: whoever asks a
/// server to stop twice means it, and what a dead process leaves behind the next one finds.
fn serving(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = runtime::runtime().context("failed to start the asynchronous runtime")?;
    let ended = runtime.block_on(command);
    runtime.shutdown_background();
    ended
}

fn plan(options: &PlanOptions, loaded: &LoadedConfig, cwd: &Path) -> anyhow::Result<()> {
    loaded.check_built()?;
    let out = &mut std::io::stdout().lock();
    if options.file == Path::new("-") {
        return commands::plan::run(&mut std::io::stdin().lock(), "-", options, loaded, out);
    }
    let name = options.file.display().to_string();
    let mut file = std::fs::File::open(cwd.join(&options.file)).with_context(|| format!("failed to open `{name}`"))?;
    commands::plan::run(&mut file, &name, options, loaded, out)
}

fn load(global: &GlobalOptions, environment: &[(OsString, OsString)], cwd: &Path) -> anyhow::Result<LoadedConfig> {
    Ok(config::load(&sources(global, environment, cwd))?)
}

fn sources<'a>(global: &'a GlobalOptions, environment: &'a [(OsString, OsString)], cwd: &'a Path) -> ConfigSources<'a> {
    ConfigSources { file: global.config.as_deref(), set: &global.set, environment, cwd }
}

fn start_logging(
    global: &GlobalOptions,
    config: &Config,
    command: &CliCommand,
    environment: &[(OsString, OsString)],
) -> anyhow::Result<LoggingGuard> {
    let usual = match command {
        CliCommand::Chat(_) | CliCommand::Script(_) | CliCommand::Web(_) => logging::QUIET_FILTER,
        _ => logging::DEFAULT_FILTER,
    };
    let filter = global.log.as_deref().or(config.log.as_deref()).unwrap_or(usual);
    let reader = match std::io::stderr().is_terminal() {
        true => logging::LogFormat::Text,
        false => logging::LogFormat::Json,
    };
    logging::init_logging(filter, reader, environment).map_err(|error| commands::UsageError(error.to_string()).into())
}
