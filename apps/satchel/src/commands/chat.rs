//! `satchel chat`: Satchel at the terminal, one message long or as long as the person likes.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use satchel_console::{ChatSettings, Prompt, banner, run_chat};

use super::{
    piped::{self, PipedFile},
    print_error,
    terminal::{TerminalEnv, TerminalOptions, TerminalSession, check_turn},
};
use crate::{
    build::SatchelOptions, cli::ChatOptions, commands::turn_json::TurnJson, config::Config, models::ModelSelection,
    scripts, stores::Stores,
};

/// Talks until the person leaves, or sends `message` and ends with its reply.
///
/// # Errors
/// When the terminal or the ledger fails, or when the one turn didn't end well or not all of it was delivered.
pub async fn run(
    options: &ChatOptions,
    message: Option<&str>,
    config: &Config,
    stores: Stores,
    decision: &ModelSelection,
    around: TerminalEnv,
) -> anyhow::Result<()> {
    let piped = match piped::is_attached(&options.attach) {
        true => Some(PipedFile::read(config.storage.data_dir(), config.attachments.max_inbound_file_bytes.0).await?),
        false => None,
    };
    let opening = TerminalOptions {
        config,
        stores,
        decision,
        around: &around,
        conversation: options.conversation.clone(),
        behaviour: SatchelOptions::from_config(config),
        scripts: scripts::open(config),
        shown: !options.json,
        live: message.is_none(),
    };
    let terminal = TerminalSession::open(opening).await?;
    let files: Vec<PathBuf> = options
        .attach
        .iter()
        .map(|file| match &piped {
            Some(piped) if piped::is_standard_input(file) => piped.path(),
            _ => around.cwd.join(file),
        })
        .collect();
    let ended = match message {
        Some(text) => answer_once(options, text, files, piped, &terminal).await,
        None => run_session(config, decision, &terminal, &around).await,
    };
    terminal.close().await?;
    ended
}

async fn run_session(
    config: &Config,
    decision: &ModelSelection,
    terminal: &TerminalSession,
    around: &TerminalEnv,
) -> anyhow::Result<()> {
    let data_dir = config.storage.data_dir();
    let screen = &terminal.client.screen;
    let colour = std::io::stderr().is_terminal() && !around.no_color;
    print_error(&banner(&decision.title(), &data_dir.display().to_string(), colour));
    let settings = ChatSettings { home: around.home.clone(), file_bytes: config.attachments.max_inbound_file_bytes.0 };
    let prompt = Prompt::open(Arc::clone(screen), &data_dir.join("chat-history"))?;
    Ok(run_chat(&terminal.client, &settings, prompt).await?)
}

async fn answer_once(
    options: &ChatOptions,
    text: &str,
    files: Vec<PathBuf>,
    piped: Option<PipedFile>,
    terminal: &TerminalSession,
) -> anyhow::Result<()> {
    let asked = terminal.send_and_wait(text, &files).await;
    if let (Err(_), Some(piped)) = (&asked, piped) {
        // The message may be taken, and its file not be fetched yet.
        piped.leave();
    }
    let record = asked?;
    if options.json {
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &TurnJson::from(&record)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    check_turn(&record)
}
