//! `satchel chat`: Satchel at the terminal, one message long or as long as the person likes.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use satchel_console::{ConverseSettings, Prompt, banner, converse};

use super::{
    complain,
    piped::{self, PipedFile},
    terminal::{Opening, Surroundings, Terminal, verdict},
};
use crate::{
    build::SatchelOptions, cli::ChatOptions, commands::record::Record, config::Config, models::Decision, scripts,
    stores::Stores,
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
    decision: &Decision,
    around: Surroundings,
) -> anyhow::Result<()> {
    let piped = match piped::is_attached(&options.attach) {
        true => Some(PipedFile::read(config.storage.data_dir(), config.attachments.max_inbound_file_bytes.0).await?),
        false => None,
    };
    let opening = Opening {
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
    let terminal = Terminal::open(opening).await?;
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
        None => talk(config, decision, &terminal, &around).await,
    };
    terminal.close().await?;
    ended
}

async fn talk(config: &Config, decision: &Decision, terminal: &Terminal, around: &Surroundings) -> anyhow::Result<()> {
    let data_dir = config.storage.data_dir();
    let screen = &terminal.client.screen;
    let colour = std::io::stderr().is_terminal() && !around.no_color;
    complain(&banner(&decision.title(), &data_dir.display().to_string(), colour));
    let settings =
        ConverseSettings { home: around.home.clone(), file_bytes: config.attachments.max_inbound_file_bytes.0 };
    let prompt = Prompt::open(Arc::clone(screen), &data_dir.join("chat-history"))?;
    Ok(converse(&terminal.client, &settings, prompt).await?)
}

async fn answer_once(
    options: &ChatOptions,
    text: &str,
    files: Vec<PathBuf>,
    piped: Option<PipedFile>,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let asked = terminal.ask(text, &files).await;
    if let (Err(_), Some(piped)) = (&asked, piped) {
        // The message may be taken, and its file not be fetched yet.
        piped.leave();
    }
    let record = asked?;
    if options.json {
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &Record::from(&record)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    verdict(&record)
}
