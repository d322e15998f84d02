//! `satchel chat`: Satchel at the terminal, one message long or as long as the person likes.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use satchel_console::{
    ConsoleChannel, ConsoleClient, ConsoleError, ConsoleSettings, ConverseSettings, Prompt, Screen, converse, follow,
    once,
};
use satchel_domain::Ending;
use satchel_local::LocalBus;
use satchel_ports::ledger::TurnRecord;
use satchel_routing::tables;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    build::{Behaviour, Ports, Satchel, build},
    cli::ChatOptions,
    commands::record::Record,
    config::Config,
    models::{self, Decision},
    speech,
    stores::Stores,
    upkeep,
};

/// How long the offline model waits before each piece when somebody watches it write.
pub(super) const WATCHED: Duration = Duration::from_millis(12);

/// What the terminal's surroundings are.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Where replies' files go, and what relative paths mean.
    pub cwd: PathBuf,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// What the person is called.
    pub name: String,
    /// Whether colours are unwanted.
    pub no_color: bool,
}

impl Surroundings {
    /// Reads them off the environment.
    #[must_use]
    pub fn of(environment: &[(OsString, OsString)], cwd: &Path) -> Self {
        let value = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
        let given = |name: &str| value(name).filter(|value| !value.is_empty());
        Self {
            cwd: cwd.to_owned(),
            home: given("HOME").map(PathBuf::from),
            name: given("USER").map_or_else(|| "you".to_owned(), |name| name.to_string_lossy().into_owned()),
            no_color: given("NO_COLOR").is_some() || value("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

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
    let stop = CancellationToken::new();
    cancel_on(SignalKind::terminate(), &stop)?;
    if options.once.is_none() {
        // At the prompt Ctrl-C is a key and stops the turn; where nobody edits lines it is this signal.
        cancel_on(SignalKind::interrupt(), &stop)?;
    }

    let screen = Arc::new(if options.json { Screen::silent() } else { Screen::stdout(around.no_color) });
    let bus = Arc::new(LocalBus::new());
    let console = ConsoleSettings { files_dir: around.cwd.join("files"), capabilities: tables::console() };
    let channel = ConsoleChannel::new(console, Arc::clone(&stores.blobs), Arc::clone(&screen));
    let watched = options.once.is_none() && screen.look().terminal;
    let piece_delay = if watched { WATCHED } else { Duration::ZERO };
    let model = models::open(decision, &stores.blobs, piece_delay, &models::as_it_is)?;
    let upkeep = tokio::spawn(upkeep::run(stores.upkeep(), stop.clone()));
    let ports = Ports {
        ledger: Arc::clone(&stores.ledger),
        blobs: Arc::clone(&stores.blobs),
        workspace: Arc::new(stores.workspace),
        bus: Arc::clone(&bus) as _,
        model,
        speech: speech::open(config)?,
        channels: vec![Arc::new(channel)],
        tools: Vec::new(),
    };
    let Satchel { inbound, lanes } = build(ports, Behaviour::of(config));
    let client = ConsoleClient {
        inbound,
        ledger: Arc::clone(&stores.ledger),
        bus,
        screen,
        conversation: options.conversation.clone(),
        name: around.name.clone(),
        shutdown: stop.clone(),
    };
    // The screen listens before the lanes work, so that nothing of what they find to do is missed.
    follow(&client).await?;
    let lanes = tokio::spawn(lanes.run(stop.clone()));
    let ended = match &options.once {
        Some(text) => answer_once(options, text, &client, &around).await,
        None => talk(config, decision, &client, &around).await,
    };
    stop.cancel();
    lanes.await.context("the lanes did not end in good order")?;
    upkeep.await.context("the upkeep did not end in good order")?;
    ended
}

/// Begins the stop in good order when the process is told to.
fn cancel_on(kind: SignalKind, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut told = signal(kind).context("signals can't be heard")?;
    let stop = stop.clone();
    tokio::spawn(async move {
        told.recv().await;
        stop.cancel();
    });
    Ok(())
}

async fn talk(
    config: &Config,
    decision: &Decision,
    client: &ConsoleClient,
    around: &Surroundings,
) -> anyhow::Result<()> {
    let data_dir = &config.storage.data_dir;
    client.screen.banner(&decision.title(), &data_dir.display().to_string());
    let settings =
        ConverseSettings { home: around.home.clone(), file_bytes: config.attachments.max_inbound_file_bytes };
    let prompt = Prompt::open(Arc::clone(&client.screen), &data_dir.join("chat-history"))?;
    Ok(converse(client, &settings, prompt).await?)
}

async fn answer_once(
    options: &ChatOptions,
    text: &str,
    client: &ConsoleClient,
    around: &Surroundings,
) -> anyhow::Result<()> {
    let files: Vec<PathBuf> = options.attach.iter().map(|file| around.cwd.join(file)).collect();
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let record = match once(client, text, &files, interrupt).await {
        Ok(record) => record,
        Err(ConsoleError::Stopped) => {
            anyhow::bail!("stopped before the reply was complete; the next chat goes on with it")
        }
        Err(error) => return Err(error.into()),
    };
    if options.json {
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &Record::from(&record)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    verdict(&record)
}

/// A turn ended well when the model was done and everything of its response has arrived.
fn verdict(record: &TurnRecord) -> anyhow::Result<()> {
    if record.ending != Some(Ending::Done) {
        anyhow::bail!("the turn ended early: {}", record.ending.as_ref().map_or("not complete", Ending::name));
    }
    match record.routing_errors().as_slice() {
        [] => Ok(()),
        failed => anyhow::bail!("{} of {} parts were not delivered", failed.len(), record.parts.len()),
    }
}
