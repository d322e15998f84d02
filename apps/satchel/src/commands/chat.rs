//! `satchel chat`: a conversation in the terminal, for one message or interactively.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use satchel_console::{ChatSettings, Prompt, banner, run_chat};
use satchel_domain::task::TASK_COMMAND;
use satchel_intake::commands::{AGENT_COMMAND, CommandFeatures, MODEL_COMMAND, command_menu, owner_menu};

use super::{
    print_error,
    stdin::{self, PipedFile},
    terminal::{TerminalEnv, TerminalOptions, TerminalSession, check_turn},
};
use crate::{
    adapters, build::SatchelOptions, cli::ChatOptions, commands::turn_json::TurnJson, config::Config,
    models::ModelSelection, stores::Stores,
};

/// Runs an interactive session, or sends `message` and waits for its reply.
///
/// # Errors
/// When the terminal or the ledger fails, or when the one turn failed or was not fully delivered.
pub async fn run(
    options: &ChatOptions,
    message: Option<&str>,
    config: &Config,
    stores: Stores,
    selection: &ModelSelection,
    terminal_env: TerminalEnv,
) -> anyhow::Result<()> {
    let piped = match stdin::is_attached(&options.attach) {
        true => Some(PipedFile::read(config.storage.data_dir(), config.attachments.max_inbound_file_bytes.0).await?),
        false => None,
    };
    let terminal_options = TerminalOptions {
        config,
        stores,
        selection,
        terminal_env: &terminal_env,
        conversation: options.conversation.clone(),
        // One that is made in a session comes in this session or in the next one.
        satchel_options: SatchelOptions { reminders: message.is_none(), ..SatchelOptions::from_config(config) },
        scripts: adapters::open_script_host(config),
        print_replies: !options.json,
        live: message.is_none(),
    };
    let terminal = TerminalSession::open(terminal_options).await?;
    if let Some(model) = &options.model
        && let Err(error) = terminal.choose_model(model).await
    {
        terminal.close().await?;
        return Err(error);
    }
    let files: Vec<PathBuf> = options
        .attach
        .iter()
        .map(|file| match &piped {
            Some(piped) if stdin::is_standard_input(file) => piped.path(),
            _ => terminal_env.cwd.join(file),
        })
        .collect();
    let result = match message {
        Some(text) => send_once(options, text, files, piped, &terminal).await,
        None => run_session(config, selection, &terminal, &terminal_env).await,
    };
    terminal.close().await?;
    result
}

async fn run_session(
    config: &Config,
    selection: &ModelSelection,
    terminal: &TerminalSession,
    terminal_env: &TerminalEnv,
) -> anyhow::Result<()> {
    let data_dir = config.storage.data_dir();
    let screen = &terminal.client.screen;
    let use_color = std::io::stderr().is_terminal() && !terminal_env.no_color;
    print_error(&banner(&selection.title(), &data_dir.display().to_string(), use_color));
    let settings =
        ChatSettings { home: terminal_env.home.clone(), file_bytes: config.attachments.max_inbound_file_bytes.0 };
    let prompt = Prompt::open(Arc::clone(screen), &data_dir.join("chat-history"), completions(config, selection))?;
    Ok(run_chat(&terminal.client, &settings, prompt).await?)
}

/// The beginnings of lines that the tab key completes: commands, and the names of agents, models and tasks.
fn completions(config: &Config, selection: &ModelSelection) -> Vec<String> {
    let agents: Vec<&str> = config.playbooks.agents().map(|agent| agent.id.as_str()).collect();
    let tasks: Vec<&str> = config.playbooks.tasks().map(|task| task.task.id.as_str()).collect();
    let models: Vec<&str> = config.models.declared.iter().map(|model| model.name.as_str()).collect();
    let features = CommandFeatures {
        links: false,
        agents: !agents.is_empty(),
        models: models.iter().any(|name| selection.candidates.first().is_none_or(|usual| usual.name() != *name)),
        tasks: !tasks.is_empty(),
        reminders: true,
        rich: false,
    };
    let commands = command_menu(features).into_iter().chain(owner_menu(features));
    let commands = commands.map(|(name, _)| format!("/{name}"));
    let models = models
        .into_iter()
        .chain(["reset"])
        .filter(|_| features.models)
        .map(|model| format!("/{MODEL_COMMAND} {model}"));
    let agents = agents.into_iter().map(|agent| format!("/{AGENT_COMMAND} {agent}"));
    let tasks = tasks.into_iter().map(|task| format!("/{TASK_COMMAND} {task}"));
    commands
        .chain(agents)
        .chain(models)
        .chain(tasks)
        .chain(["/attach", "/detach", "/quit"].map(str::to_owned))
        .collect()
}

async fn send_once(
    options: &ChatOptions,
    text: &str,
    files: Vec<PathBuf>,
    piped: Option<PipedFile>,
    terminal: &TerminalSession,
) -> anyhow::Result<()> {
    let result = terminal.send_and_wait(text, &files).await;
    if let (Err(error), Some(piped)) = (&result, piped) {
        piped.persist_after(error);
    }
    let record = result?;
    if options.json {
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &TurnJson::from(&record)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    check_turn(&record)
}
