//! A terminal session: everything that one conversation in the terminal needs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use futures::stream;
use satchel_agent::{AgentSettings, SteeringMode};
use satchel_console::{ConsoleChannel, ConsoleClient, ConsoleError, ConsoleSettings, Screen, follow_events, run_once};
use satchel_domain::{ConversationId, Ending};
use satchel_intake::commands::MODEL_COMMAND;
use satchel_local::LocalBus;
use satchel_ports::{Channel, ScriptHost, ledger::TurnRecord};
use satchel_routing::tables;
use satchel_runtime::schedules::ReminderScheduler;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::UsageError;
use crate::{
    adapters,
    build::{Satchel, SatchelOptions, build},
    config::Config,
    media_measuring_blobs::MediaMeasuringBlobs,
    models::{self, ModelFiles, ModelSelection},
    ports::Ports,
    runtime::machine_zone,
    stores::{self, Stores},
};

/// How long the offline model waits before each delta of a live reply.
pub(super) const OFFLINE_CHUNK_DELAY: Duration = Duration::from_millis(12);

/// The environment of a terminal.
#[derive(Debug, Clone)]
pub struct TerminalEnv {
    /// The working directory: the base of relative paths and of saved files.
    pub cwd: PathBuf,
    /// The home directory, for `~`.
    pub home: Option<PathBuf>,
    /// The person's name.
    pub name: String,
    /// Whether colours are unwanted.
    pub no_color: bool,
}

impl TerminalEnv {
    /// Reads it from the environment.
    #[must_use]
    pub fn from_env(environment: &[(OsString, OsString)], cwd: &Path) -> Self {
        let value = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str());
        let non_empty = |name: &str| value(name).filter(|value| !value.is_empty());
        Self {
            cwd: cwd.to_owned(),
            home: non_empty("HOME").map(PathBuf::from),
            name: non_empty("USER").map_or_else(|| "you".to_owned(), |name| name.to_string_lossy().into_owned()),
            no_color: non_empty("NO_COLOR").is_some() || value("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

/// A terminal and the core that serves it.
pub(super) struct TerminalSession {
    pub(super) client: ConsoleClient,
    /// The names of the models that can be chosen, the usual one first.
    model_names: Vec<String>,
    stop: CancellationToken,
    runner: JoinHandle<()>,
    reminders: Option<JoinHandle<()>>,
}

/// The options of a session.
pub(super) struct TerminalOptions<'a> {
    pub(super) config: &'a Config,
    pub(super) stores: Stores,
    pub(super) selection: &'a ModelSelection,
    pub(super) terminal_env: &'a TerminalEnv,
    pub(super) conversation: ConversationId,
    pub(super) satchel_options: SatchelOptions,
    pub(super) scripts: Option<Arc<dyn ScriptHost>>,
    /// Whether replies are printed; otherwise the caller prints the result.
    pub(super) print_replies: bool,
    /// Whether it is a conversation, whose replies are streamed; otherwise it is one message and its reply.
    pub(super) live: bool,
}

impl TerminalSession {
    /// Builds the core and starts its runner.
    ///
    /// # Errors
    /// When signals can't be handled, or the configuration can't be used.
    pub(super) async fn open(options: TerminalOptions<'_>) -> anyhow::Result<Self> {
        let TerminalOptions {
            config,
            stores,
            selection,
            terminal_env: around,
            conversation,
            satchel_options,
            scripts,
            print_replies,
            live,
        } = options;
        let stop = CancellationToken::new();
        cancel_on_signal(SignalKind::terminate(), &stop)?;
        if live {
            // At the prompt Ctrl-C is a key that stops the turn; without line editing it is this signal.
            cancel_on_signal(SignalKind::interrupt(), &stop)?;
        }
        let screen = Arc::new(if print_replies { Screen::stdout(around.no_color) } else { Screen::silent() });
        let bus = Arc::new(LocalBus::new());
        let console = ConsoleSettings { files_dir: around.cwd.join("files"), capabilities: tables::console() };
        let channel = ConsoleChannel::new(console, Arc::clone(&stores.blobs), Arc::clone(&screen));
        let channel_name = channel.name();
        let makes_reminders = satchel_options.reminders;
        // Somebody waits for their prompt, and the next session continues the turn.
        // A process that sends one message shows the reply to that one, whatever else is sent to the conversation.
        let steering = if live { satchel_options.agent.steering } else { SteeringMode::Never };
        let agent = AgentSettings { stop_grace: Duration::ZERO, steering, ..satchel_options.agent };
        let satchel_options = SatchelOptions { agent, ..satchel_options };
        let piece_delay = if live && screen.style().terminal { OFFLINE_CHUNK_DELAY } else { Duration::ZERO };
        let decoders = adapters::open_decoders(config, &stores.blobs, false);
        let files = ModelFiles { blobs: &stores.blobs, images: &decoders.images };
        let model = models::open(selection, files, piece_delay, &models::unwrapped)?;
        let agents = &satchel_options.agents;
        let named_models = models::open_by_name(agents, &config.models, files, piece_delay, &models::unwrapped)?;
        let usual_model = model.name();
        let other_models = named_models.keys().filter(|name| **name != usual_model).cloned();
        let model_names = std::iter::once(usual_model.clone()).chain(other_models).collect();
        let ports = Ports {
            ledger: stores.ledger.clone(),
            clock: Arc::clone(&stores.clock),
            ids: Arc::clone(&stores.ids),
            blobs: Arc::new(MediaMeasuringBlobs::new(Arc::clone(&stores.blobs), decoders.media)),
            workspace: Arc::clone(&stores.metered_workspace),
            bus: Arc::clone(&bus) as _,
            fetcher: adapters::open_fetcher(config),
            model,
            models: named_models,
            speech: adapters::open_speech(config, decoders.audio)?,
            scripts,
            documents: Some(decoders.documents),
            images: Some(decoders.images),
            declared_files: stores::open_playbook_files(config).await?,
            links: None,
            channels: vec![Arc::new(channel)],
            tools: Vec::new(),
        };
        let Satchel { inbound, internal_inbound, runner, .. } = build(ports, satchel_options)?;
        let client = ConsoleClient {
            inbound,
            archive: Arc::clone(&stores.ledger.archive),
            ids: Arc::clone(&stores.ids),
            bus,
            screen,
            conversation,
            name: around.name.clone(),
            shutdown: stop.clone(),
        };
        // The screen subscribes before the runner starts, so that it misses no event.
        follow_events(&client).await?;
        let runner = tokio::spawn(runner.run(stop.clone()));
        let reminders = makes_reminders.then(|| ReminderScheduler {
            reminders: Arc::clone(&stores.ledger.reminders),
            inbound: internal_inbound,
            clock: Arc::clone(&stores.clock),
            default_zone: machine_zone().into(),
            channels: vec![channel_name],
        });
        let reminders = reminders.map(|reminders| tokio::spawn(reminders.run(stop.clone())));
        Ok(Self { client, model_names, stop, runner, reminders })
    }

    /// Lets another model answer in the conversation, by the command that does so in a chat.
    ///
    /// # Errors
    /// When there is no such model, or the command fails.
    pub(super) async fn choose_model(&self, name: &str) -> anyhow::Result<()> {
        let Some(known) = self.model_names.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            let known = self.model_names.join(", ");
            return Err(UsageError(format!("there is no model {name:?}; the models are {known}")).into());
        };
        check_turn(&self.send_and_wait(&format!("/{MODEL_COMMAND} {known}"), &[]).await?)
    }

    /// Sends one message and waits until its reply is complete and delivered.
    ///
    /// # Errors
    /// When it isn't accepted, or the process is stopped before.
    pub(super) async fn send_and_wait(&self, text: &str, files: &[PathBuf]) -> anyhow::Result<TurnRecord> {
        let interrupted = signal(SignalKind::interrupt()).context("failed to listen for signals")?;
        let interrupts = stream::unfold(interrupted, async |mut signals| signals.recv().await.map(|()| ((), signals)));
        match run_once(&self.client, text, files, interrupts).await {
            Ok(record) => Ok(record),
            Err(ConsoleError::Stopped) => {
                let name = self.client.conversation.key();
                anyhow::bail!(
                    "stopped before the reply was complete; `satchel chat --conversation {name}` continues and shows it"
                )
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Stops the runner and waits for it.
    ///
    /// # Errors
    /// When it panicked.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.runner.await.context("the runner did not stop cleanly")?;
        match self.reminders {
            Some(reminders) => reminders.await.context("the reminders did not stop cleanly"),
            None => Ok(()),
        }
    }
}

/// Checks that the turn is complete and all of its parts were delivered.
///
/// # Errors
/// When it isn't.
pub(super) fn check_turn(record: &TurnRecord) -> anyhow::Result<()> {
    if record.ending != Some(Ending::Done) {
        anyhow::bail!("the turn ended early: {}", record.ending.as_ref().map_or("not complete", Ending::as_str));
    }
    match record.routing_errors().as_slice() {
        [] => Ok(()),
        failed => anyhow::bail!("{} of {} parts were not delivered", failed.len(), record.parts.len()),
    }
}

/// Cancels `stop` at the first signal of this kind.
fn cancel_on_signal(kind: SignalKind, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut signals = signal(kind).context("failed to listen for signals")?;
    let stop = stop.clone();
    tokio::spawn(async move {
        signals.recv().await;
        stop.cancel();
    });
    Ok(())
}
