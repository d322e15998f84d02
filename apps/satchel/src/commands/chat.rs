//! `satchel chat`: Satchel at the terminal, one message long or as long as the person likes.

use std::{io::Write, path::PathBuf, sync::Arc};

use satchel_console::{ConverseSettings, Prompt, converse};

use super::terminal::{Opening, Surroundings, Terminal, verdict};
use crate::{
    build::Behaviour, cli::ChatOptions, commands::record::Record, config::Config, models::Decision, scripts,
    stores::Stores,
};

/// Talks until the person leaves, or once.
///
/// # Errors
/// When the terminal or the ledger fails, or when the one turn didn't end well or not all of it was delivered.
pub async fn run(
    options: &ChatOptions,
    config: &Config,
    stores: Stores,
    decision: &Decision,
    around: Surroundings,
) -> anyhow::Result<()> {
    let opening = Opening {
        config,
        stores,
        decision,
        around: &around,
        conversation: options.conversation.clone(),
        behaviour: Behaviour::of(config),
        scripts: scripts::open(config),
        shown: !options.json,
        live: options.once.is_none(),
    };
    let terminal = Terminal::open(opening).await?;
    let ended = match &options.once {
        Some(text) => answer_once(options, text, &terminal, &around).await,
        None => talk(config, decision, &terminal, &around).await,
    };
    terminal.close().await?;
    ended
}

async fn talk(config: &Config, decision: &Decision, terminal: &Terminal, around: &Surroundings) -> anyhow::Result<()> {
    let data_dir = &config.storage.data_dir;
    let screen = &terminal.client.screen;
    screen.banner(&decision.title(), &data_dir.display().to_string());
    let settings =
        ConverseSettings { home: around.home.clone(), file_bytes: config.attachments.max_inbound_file_bytes };
    let prompt = Prompt::open(Arc::clone(screen), &data_dir.join("chat-history"))?;
    Ok(converse(&terminal.client, &settings, prompt).await?)
}

async fn answer_once(
    options: &ChatOptions,
    text: &str,
    terminal: &Terminal,
    around: &Surroundings,
) -> anyhow::Result<()> {
    let files: Vec<PathBuf> = options.attach.iter().map(|file| around.cwd.join(file)).collect();
    let record = terminal.ask(text, &files).await?;
    if options.json {
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &Record::from(&record)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    verdict(&record)
}
