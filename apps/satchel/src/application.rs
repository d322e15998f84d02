//! Runs the command of the command line, with the configuration that it names.
//!
//! [`start`] gets everything from outside as arguments; nothing below it reads the environment.

use std::{
    ffi::OsString,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Parser;
use satchel_local::SystemClock;
use satchel_ports::Clock;

use crate::{
    adapters,
    cli::{
        AttachmentsCommand, AuditOptions, BackupCommand, Cli, CliCommand, ConfigCommand, ExistingBackupCommand,
        GlobalOptions, LoginsCommand, OutboxCommand, PairAction, PlanOptions, ResolveOptions, RestoredCopyCommand,
        RunOptions, ScriptCommand, StoredFilesCommand, TaskCommand, WebCommand,
    },
    commands::{
        self,
        audit::AuditFilter,
        data_owner::{self, Invocation},
        resolve::ResolveServices,
        run::{ServingProcess, StopSignals},
        send::SendRequest,
        terminal::TerminalEnv,
    },
    config::{self, Config, ConfigSources, LoadedConfig, origin::ConfigProblem},
    logging::{self, LoggingGuard},
    models,
    own_paths::private_directories,
    runtime,
    server_wait::ServerWait,
    stores::{self, Stores},
};

/// Runs the command and returns the process's exit code.
pub fn start(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &[(OsString, OsString)],
    cwd: &Path,
) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            let (file, set) = (cli.global.config.clone(), cli.global.set.clone());
            let has_data = has_data(cli.command.as_ref());
            commands::exit_code(run_command(cli, Invocation { arguments: &arguments, environment, cwd }), || {
                let sources = ConfigSources { file: file.as_deref(), set: &set, environment, cwd };
                // Mistakes in the configuration name their own positions.
                let loaded = config::load(&sources).ok().filter(|_| has_data)?;
                Some(commands::existing_data::describe(&loaded, &sources))
            })
        }
        // Help and version are errors of clap, too, with exit code 0; they go to standard output.
        Err(error) => {
            let printed = error.print();
            match printed {
                Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
                Err(_) => ExitCode::FAILURE,
            }
        }
    }
}

/// Whether a command works with the data of a configuration.
fn has_data(command: Option<&CliCommand>) -> bool {
    let is_without = |command: &CliCommand| {
        matches!(command, CliCommand::Init(_) | CliCommand::Completions { .. } | CliCommand::Man { .. })
    };
    !command.is_some_and(is_without)
}

fn run_command(cli: Cli, invocation: Invocation<'_>) -> anyhow::Result<()> {
    let Invocation { environment, cwd, .. } = invocation;
    let command = cli.command.unwrap_or(CliCommand::Run(RunOptions::default()));
    // Kept until the command has ended, so that buffered spans are sent.
    let mut logging = None;
    let mut load_built_config = |command: &CliCommand| {
        let loaded = load_config(&cli.global, environment, cwd)?;
        loaded.check_built()?;
        data_owner::check(&written_directories(command, loaded.config(), cwd), &loaded, invocation)?;
        if uses_data(command) {
            commands::existing_data::check_earlier_default(loaded.config())?;
        }
        logging = Some(start_logging(&cli.global, loaded.config(), command, environment)?);
        loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        anyhow::Ok(loaded)
    };
    let mut load_ready_config = |command: &CliCommand| anyhow::Ok(load_built_config(command)?.into_config()?);
    let sources = config_sources(&cli.global, environment, cwd);
    let mut load_existing_data = |command: &CliCommand| {
        let config = load_ready_config(command)?;
        let running_data_dirs = commands::existing_data::check(&config, &sources)?;
        anyhow::Ok(ExistingData { config, running_data_dirs })
    };
    match &command {
        CliCommand::Run(RunOptions { role, wait, open, wait_for_worker }) => {
            let loaded = Arc::new(load_built_config(&command)?);
            let config = loaded.config();
            commands::run::check_channels(config)?;
            commands::restored_copy::check_released(config)?;
            serve_in_runtime(async {
                let signals = StopSignals::listen()?;
                commands::run::check_first_start(config, *role).await?;
                let wait = ServerWait::from_option(*wait);
                let selection = models::select_models(&config.models).await;
                let opening = signals.stop.run_until_cancelled(stores::open_when_reachable(config, wait)).await;
                let Some(stores) = opening.transpose()? else { return Ok(()) };
                let browser = commands::run::browser(environment).filter(|_| *open);
                let workers = adapters::open_worker_hosts(config, &stores.blobs, *wait_for_worker);
                let process = ServingProcess {
                    loaded: &loaded,
                    stores,
                    selection: &selection,
                    role: *role,
                    browser,
                    is_journalled: commands::run::is_journalled(environment, std::io::stdout().is_terminal()),
                    wait,
                };
                commands::run::run(process, signals, workers, &mut std::io::stdout()).await
            })
        }
        CliCommand::Chat(options) => {
            let message = commands::stdin::read_message(options)?;
            let config = load_ready_config(&command)?;
            commands::restored_copy::check_released(&config)?;
            run_in_runtime(async {
                let selection = models::select_models(&config.models).await;
                let conversation = options.conversation.clone();
                let stores = match message {
                    Some(_) => stores::open_for_own_turns(&config, conversation).await?,
                    None => stores::open_for_conversation(&config, conversation).await?,
                };
                let terminal_env = TerminalEnv::from_env(environment, cwd);
                commands::chat::run(options, message.as_deref(), &config, stores, &selection, terminal_env).await
            })
        }
        CliCommand::Send(options) => {
            commands::send::check(options)?;
            let data = load_existing_data(&command)?;
            commands::restored_copy::check_released(&data.config)?;
            let text = commands::send::read_text(options)?;
            run_in_runtime(async {
                let stores = data.open().await?;
                let request = SendRequest { options, text, cwd };
                commands::send::run(request, &data.config, &stores, &mut std::io::stdout().lock()).await
            })
        }
        CliCommand::Plan(options) => run_plan_command(options, &load_config(&cli.global, environment, cwd)?, cwd),
        CliCommand::Attachments(AttachmentsCommand::Resolve(options)) => {
            let loaded = load_config(&cli.global, environment, cwd)?;
            data_owner::check(&written_directories(&command, loaded.config(), cwd), &loaded, invocation)?;
            run_in_runtime(run_resolve_command(options, &loaded, cwd))
        }
        CliCommand::Attachments(AttachmentsCommand::Stored(subcommand)) => {
            run_in_runtime(run_attachments_command(subcommand, &load_existing_data(&command)?, cwd))
        }
        CliCommand::Outbox(subcommand) => {
            run_in_runtime(run_outbox_command(subcommand, &load_existing_data(&command)?))
        }
        CliCommand::Backup(BackupCommand::Create(options)) => {
            let ExistingData { config, .. } = load_existing_data(&command)?;
            run_in_runtime(commands::backup::create(options, &config, cwd, &mut std::io::stdout()))
        }
        CliCommand::Backup(BackupCommand::Existing(subcommand)) => {
            load_ready_config(&command)?;
            run_in_runtime(run_backup_command(subcommand, cwd))
        }
        CliCommand::Backup(BackupCommand::RestoredCopy(subcommand)) => {
            run_in_runtime(run_restored_copy_command(subcommand, &load_existing_data(&command)?))
        }
        CliCommand::Audit(options) => run_in_runtime(run_audit_command(options, &load_existing_data(&command)?)),
        CliCommand::Config(ConfigCommand::Schema) => commands::config::print_schema(&mut std::io::stdout().lock()),
        CliCommand::Config(subcommand) => run_config_command(subcommand, load_config(&cli.global, environment, cwd)?),
        CliCommand::Init(options) => {
            let sources = ConfigSources { file: None, set: &cli.global.set, environment, cwd };
            let path = cli.global.config.clone().unwrap_or_else(|| PathBuf::from("satchel.yaml"));
            let context = commands::init::InitContext { options, path, sources };
            run_in_runtime(commands::init::run(&context, &mut std::io::stdout()))
        }
        CliCommand::Doctor { json } => {
            let loaded = load_config(&cli.global, environment, cwd)?;
            data_owner::check(&written_directories(&command, loaded.config(), cwd), &loaded, invocation)?;
            run_in_runtime(commands::doctor::run(&loaded, *json, &mut std::io::stdout()))
        }
        CliCommand::Healthcheck(options) => {
            let loaded = load_config(&cli.global, environment, cwd)?;
            run_in_runtime(commands::healthcheck::run(options.role, loaded.config(), &mut std::io::stdout()))
        }
        CliCommand::Script(ScriptCommand::Run(options)) => {
            let script = commands::script::read(&options.file, cwd)?;
            let config = load_ready_config(&command)?;
            commands::restored_copy::check_released(&config)?;
            run_in_runtime(async {
                let selection = models::select_models(&config.models).await;
                let stores = stores::open_for_own_turns(&config, options.conversation.clone()).await?;
                let terminal_env = TerminalEnv::from_env(environment, cwd);
                commands::script::run(options, &script, &config, stores, &selection, terminal_env).await
            })
        }
        CliCommand::Task(TaskCommand::List { json }) => {
            commands::task::list(&load_ready_config(&command)?, *json, &mut std::io::stdout().lock())
        }
        CliCommand::Task(TaskCommand::Run(options)) => {
            let config = load_ready_config(&command)?;
            commands::task::check(options, &config)?;
            commands::restored_copy::check_released(&config)?;
            run_in_runtime(async {
                let selection = models::select_models(&config.models).await;
                let stores = stores::open_for_own_turns(&config, options.conversation.clone()).await?;
                let terminal_env = TerminalEnv::from_env(environment, cwd);
                commands::task::run(options, &config, stores, &selection, terminal_env).await
            })
        }
        CliCommand::Pair(subcommand) => run_in_runtime(run_pair_command(subcommand, &load_existing_data(&command)?)),
        CliCommand::Web(WebCommand::Link) => {
            commands::web::link(&load_ready_config(&command)?, &mut std::io::stdout().lock())
        }
        CliCommand::Web(WebCommand::Logins(subcommand)) => {
            run_in_runtime(run_logins_command(subcommand, &load_existing_data(&command)?))
        }
        CliCommand::Completions { shell } => commands::manual::print_completions(*shell, &mut std::io::stdout().lock()),
        CliCommand::Man { directory } => {
            commands::manual::write_pages(&cwd.join(directory), &mut std::io::stdout().lock())
        }
        CliCommand::Migrate(options) => {
            let ExistingData { config, .. } = load_existing_data(&command)?;
            commands::restored_copy::check_released(&config)?;
            // What the command line changes is this configuration alone.
            let file = cwd.join(&options.to);
            let sources = ConfigSources { file: Some(&file), set: &[], environment, cwd };
            let target = config::load(&sources)?;
            data_owner::check(&written_directories(&command, target.config(), cwd), &target, invocation)?;
            let target = target.into_config()?;
            run_in_runtime(commands::migrate::run(options, &config, &target, &mut std::io::stdout()))
        }
    }
}

/// Whether a command that needs a configuration without mistakes works with the data of it.
fn uses_data(command: &CliCommand) -> bool {
    !matches!(command, CliCommand::Backup(BackupCommand::Existing(_)) | CliCommand::Task(TaskCommand::List { .. }))
}

/// The directories of data that a command writes.
fn written_directories(command: &CliCommand, config: &Config, cwd: &Path) -> Vec<PathBuf> {
    match command {
        CliCommand::Backup(BackupCommand::Existing(ExistingBackupCommand::Restore(options))) => {
            vec![cwd.join(&options.to)]
        }
        _ if !uses_data(command) => Vec::new(),
        _ => {
            let backups = config.backup.to.as_ref().filter(|_| matches!(command, CliCommand::Run(_)));
            let data = private_directories(config).into_iter().map(|directory| directory.path);
            data.chain(backups.map(|directory| directory.0.clone())).collect()
        }
    }
}

fn run_config_command(command: &ConfigCommand, loaded: LoadedConfig) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    match command {
        ConfigCommand::Show { json } => {
            let selection = run_in_runtime(async { Ok(models::select_models(&loaded.config().models).await) })?;
            commands::config::show(&loaded, &selection, *json, out)?;
            loaded.not_built().chain(&loaded.warnings).for_each(print_warning);
            Ok(())
        }
        ConfigCommand::Check => {
            loaded.warnings.iter().for_each(print_warning);
            commands::config::check(loaded, out).map(drop)
        }
        ConfigCommand::Schema => commands::config::print_schema(out),
    }
}

fn print_warning(problem: &ConfigProblem) {
    commands::print_error(&format!("warning: {problem}"));
}

/// A configuration whose data exists.
struct ExistingData {
    config: Config,
    /// The data directories of running processes, if none of them uses this one.
    running_data_dirs: Vec<PathBuf>,
}

impl ExistingData {
    /// Opens the stores; if they are empty, prints where Satchel runs.
    async fn open(&self) -> anyhow::Result<Stores> {
        let stores = stores::open(&self.config).await?;
        commands::existing_data::report_running_elsewhere(
            &self.config,
            &*stores.ledger.storage,
            &self.running_data_dirs,
        )
        .await?;
        Ok(stores)
    }
}

async fn run_attachments_command(command: &StoredFilesCommand, data: &ExistingData, cwd: &Path) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let (ledger, blobs) = (&stores.ledger, &*stores.blobs);
    let out = &mut std::io::stdout().lock();
    match command {
        StoredFilesCommand::List { conversation, json } => {
            commands::attachments::list(&*ledger.archive, conversation.clone(), *json, out).await
        }
        StoredFilesCommand::Show { file, json } => {
            commands::attachments::show(&*ledger.archive, file, *json, out).await
        }
        StoredFilesCommand::Export { file, to } => {
            commands::attachments::export(&*ledger.archive, blobs, file, &cwd.join(to), out).await
        }
        StoredFilesCommand::Usage { json } => commands::attachments::show_usage(&*ledger.storage, *json, out).await,
        StoredFilesCommand::Remove { files, conversation } => {
            commands::attachments::remove(ledger, blobs, files, conversation.as_ref(), out).await
        }
        StoredFilesCommand::Gc => commands::attachments::gc(&*ledger.storage, blobs, out).await,
    }
}

async fn run_resolve_command(options: &ResolveOptions, loaded: &LoadedConfig, cwd: &Path) -> anyhow::Result<()> {
    let config = loaded.config();
    let (files, fetcher) = (stores::open_declared_files(config).await?, adapters::open_fetcher(config));
    let policy = config.attachments.resolution_policy();
    let services = ResolveServices { files: &*files, fetcher: &*fetcher, policy, now: SystemClock::new().wall() };
    let out = &mut std::io::stdout().lock();
    commands::resolve::run(options, loaded, &services, cwd, out).await
}

async fn run_outbox_command(command: &OutboxCommand, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let ledger = &stores.ledger;
    let out = &mut std::io::stdout().lock();
    match command {
        OutboxCommand::List { conversation, all, json } => {
            commands::outbox::list(&*ledger.archive, conversation.clone(), *all, *json, out).await
        }
        OutboxCommand::Show { part, json } => commands::outbox::show(&*ledger.archive, *part, *json, out).await,
        OutboxCommand::Resend { part } => commands::outbox::resend(ledger, &*stores.ids, *part, out).await,
        OutboxCommand::Discard { part } => commands::outbox::discard(&*ledger.outbox, *part, out).await,
    }
}

async fn run_backup_command(command: &ExistingBackupCommand, cwd: &Path) -> anyhow::Result<()> {
    let out = &mut std::io::stdout();
    match command {
        ExistingBackupCommand::List { directory, json } => commands::backup::list(&cwd.join(directory), *json, out),
        ExistingBackupCommand::Verify { directory } => commands::backup::verify(cwd.join(directory), out).await,
        ExistingBackupCommand::Restore(options) => commands::backup::restore(options, cwd, out).await,
    }
}

async fn run_restored_copy_command(command: &RestoredCopyCommand, data: &ExistingData) -> anyhow::Result<()> {
    let (config, out) = (&data.config, &mut std::io::stdout().lock());
    match command {
        RestoredCopyCommand::Held { json } => commands::restored_copy::list(config, *json, out).await,
        RestoredCopyCommand::Release(options) => commands::restored_copy::release(options, config, out).await,
    }
}

async fn run_audit_command(options: &AuditOptions, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let AuditOptions { conversation, since, limit, json } = options;
    let since = since.map(|since| since.0);
    let filter = AuditFilter { conversation: conversation.clone(), since, limit: *limit };
    let (out, notes) = (&mut std::io::stdout().lock(), &mut std::io::stderr());
    commands::audit::list(&*stores.ledger.storage, stores.clock.now(), filter, *json, out, notes).await
}

async fn run_pair_command(command: &PairAction, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let ledger = &stores.ledger;
    let out = &mut std::io::stdout().lock();
    match command {
        PairAction::List { json } => commands::pair::list(&*ledger.pairings, *json, out).await,
        PairAction::Approve { code } => commands::pair::approve(&*ledger.pairings, *code, out).await,
        PairAction::Revoke { channel, id } => commands::pair::revoke(&*ledger.pairings, channel, id, out).await,
    }
}

async fn run_logins_command(command: &LoginsCommand, data: &ExistingData) -> anyhow::Result<()> {
    let stores = data.open().await?;
    let (logins, out) = (&*stores.ledger.logins, &mut std::io::stdout().lock());
    match command {
        LoginsCommand::Logins { json } => commands::web::list_logins(logins, *json, out).await,
        LoginsCommand::Logout { all: true, .. } => commands::web::end_all_logins(logins, out).await,
        LoginsCommand::Logout { logins: ids, all: false } => commands::web::end_logins(logins, ids, out).await,
    }
}

fn run_in_runtime<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime::build_runtime().context("failed to start the asynchronous runtime")?;
    runtime.block_on(command)
}

/// As [`run_in_runtime`], but does not wait for unfinished work of other threads: a second signal must stop a server at
/// once, and the next process recovers what a dead one leaves behind.
fn serve_in_runtime(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = runtime::build_runtime().context("failed to start the asynchronous runtime")?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

fn run_plan_command(options: &PlanOptions, loaded: &LoadedConfig, cwd: &Path) -> anyhow::Result<()> {
    loaded.check_built()?;
    let out = &mut std::io::stdout().lock();
    if options.file == Path::new("-") {
        return commands::plan::run(&mut std::io::stdin().lock(), "-", options, loaded, out);
    }
    let name = options.file.display().to_string();
    let mut file = std::fs::File::open(cwd.join(&options.file)).with_context(|| format!("failed to open `{name}`"))?;
    commands::plan::run(&mut file, &name, options, loaded, out)
}

fn load_config(
    global: &GlobalOptions,
    environment: &[(OsString, OsString)],
    cwd: &Path,
) -> anyhow::Result<LoadedConfig> {
    Ok(config::load(&config_sources(global, environment, cwd))?)
}

fn config_sources<'a>(
    global: &'a GlobalOptions,
    environment: &'a [(OsString, OsString)],
    cwd: &'a Path,
) -> ConfigSources<'a> {
    ConfigSources { file: global.config.as_deref(), set: &global.set, environment, cwd }
}

fn start_logging(
    global: &GlobalOptions,
    config: &Config,
    command: &CliCommand,
    environment: &[(OsString, OsString)],
) -> anyhow::Result<LoggingGuard> {
    let default_filter = match command {
        CliCommand::Chat(_) | CliCommand::Script(_) | CliCommand::Task(_) | CliCommand::Web(_) => logging::QUIET_FILTER,
        _ => logging::DEFAULT_FILTER,
    };
    let filter = global.log.as_deref().or(config.log.as_deref()).unwrap_or(default_filter);
    let format = match std::io::stderr().is_terminal() {
        true => logging::LogFormat::Text,
        false => logging::LogFormat::Json,
    };
    logging::init_logging(filter, format, environment).map_err(|error| commands::UsageError(error.to_string()).into())
}
