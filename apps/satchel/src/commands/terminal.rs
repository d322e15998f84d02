//! Satchel behind a terminal: everything of one process that a conversation there needs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use futures::stream;
use satchel_console::{ConsoleChannel, ConsoleClient, ConsoleError, ConsoleSettings, Screen, follow_events, run_once};
use satchel_domain::{ConversationId, Ending};
use satchel_local::LocalBus;
use satchel_ports::{ScriptHost, ledger::TurnRecord};
use satchel_routing::tables;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    build::{Satchel, SatchelOptions, build},
    config::Config,
    fetch,
    models::{self, ModelSelection},
    ports::Ports,
    speech,
    stores::Stores,
};

/// How long the offline model waits before each piece when somebody watches it write.
pub(super) const OFFLINE_CHUNK_DELAY: Duration = Duration::from_millis(12);

/// What the terminal's surroundings are.
#[derive(Debug, Clone)]
pub struct TerminalEnv {
    /// Where replies' files go, and what relative paths mean.
    pub cwd: PathBuf,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// What the person is called.
    pub name: String,
    /// Whether colours are unwanted.
    pub no_color: bool,
}

impl TerminalEnv {
    /// Reads them off the environment.
    #[must_use]
    pub fn from_env(environment: &[(OsString, OsString)], cwd: &Path) -> Self {
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

/// A terminal with Satchel behind it.
pub(super) struct TerminalSession {
    pub(super) client: ConsoleClient,
    stop: CancellationToken,
    runner: JoinHandle<()>,
}

/// What a terminal is opened with.
pub(super) struct TerminalOptions<'a> {
    pub(super) config: &'a Config,
    pub(super) stores: Stores,
    pub(super) decision: &'a ModelSelection,
    pub(super) around: &'a TerminalEnv,
    pub(super) conversation: ConversationId,
    pub(super) behaviour: SatchelOptions,
    pub(super) scripts: Option<Arc<dyn ScriptHost>>,
    /// Whether replies are shown; otherwise the caller prints what is to be printed.
    pub(super) shown: bool,
    /// Whether somebody may watch the replies grow.
    pub(super) live: bool,
}

impl TerminalSession {
    /// Puts everything together and begins to work.
    ///
    /// # Errors
    /// When signals can't be heard, or what the configuration names can't be used.
    pub(super) async fn open(opening: TerminalOptions<'_>) -> anyhow::Result<Self> {
        let TerminalOptions { config, stores, decision, around, conversation, behaviour, scripts, shown, live } =
            opening;
        let stop = CancellationToken::new();
        cancel_on(SignalKind::terminate(), &stop)?;
        if live {
            // At the prompt Ctrl-C is a key and stops the turn; where nobody edits lines it is this signal.
            cancel_on(SignalKind::interrupt(), &stop)?;
        }
        let screen = Arc::new(if shown { Screen::stdout(around.no_color) } else { Screen::silent() });
        let bus = Arc::new(LocalBus::new());
        let console = ConsoleSettings { files_dir: around.cwd.join("files"), capabilities: tables::console() };
        let channel = ConsoleChannel::new(console, Arc::clone(&stores.blobs), Arc::clone(&screen));
        let piece_delay = if live && screen.style().terminal { OFFLINE_CHUNK_DELAY } else { Duration::ZERO };
        let model = models::open(decision, &stores.blobs, piece_delay, &models::unwrapped)?;
        let ports = Ports {
            ledger: Arc::clone(&stores.ledger),
            blobs: Arc::clone(&stores.blobs),
            workspace: Arc::clone(&stores.metered_workspace),
            bus: Arc::clone(&bus) as _,
            fetcher: fetch::open(config),
            model,
            speech: speech::open(config)?,
            scripts,
            links: None,
            channels: vec![Arc::new(channel)],
            tools: Vec::new(),
        };
        let Satchel { inbound, runner, .. } = build(ports, behaviour)?;
        let client = ConsoleClient {
            inbound,
            ledger: Arc::clone(&stores.ledger),
            bus,
            screen,
            conversation,
            name: around.name.clone(),
            shutdown: stop.clone(),
        };
        // The screen listens before the runner works, so that nothing of what they find to do is missed.
        follow_events(&client).await?;
        let runner = tokio::spawn(runner.run(stop.clone()));
        Ok(Self { client, stop, runner })
    }

    /// Says one thing and waits until its reply is complete and all of it has gone out.
    ///
    /// # Errors
    /// When it isn't taken, or the process is told to stop before.
    pub(super) async fn send_and_wait(&self, text: &str, files: &[PathBuf]) -> anyhow::Result<TurnRecord> {
        let interrupted = signal(SignalKind::interrupt()).context("failed to listen for signals")?;
        let interrupts = stream::unfold(interrupted, async |mut told| told.recv().await.map(|()| ((), told)));
        match run_once(&self.client, text, files, interrupts).await {
            Ok(record) => Ok(record),
            Err(ConsoleError::Stopped) => {
                anyhow::bail!("stopped before the reply was complete; the next chat continues it")
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lays the work down in good order.
    ///
    /// # Errors
    /// When a part of it broke down.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.runner.await.context("the runner did not stop cleanly")
    }
}

/// A turn ended well when the model was done and everything of its response has arrived.
///
/// # Errors
/// When it didn't.
pub(super) fn check_turn(record: &TurnRecord) -> anyhow::Result<()> {
    if record.ending != Some(Ending::Done) {
        anyhow::bail!("the turn ended early: {}", record.ending.as_ref().map_or("not complete", Ending::as_str));
    }
    match record.routing_errors().as_slice() {
        [] => Ok(()),
        failed => anyhow::bail!("{} of {} parts were not delivered", failed.len(), record.parts.len()),
    }
}

/// Begins the stop in good order when the process is told to.
fn cancel_on(kind: SignalKind, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut told = signal(kind).context("failed to listen for signals")?;
    let stop = stop.clone();
    tokio::spawn(async move {
        told.recv().await;
        stop.cancel();
    });
    Ok(())
}
