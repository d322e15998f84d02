//! The product with every port wrapped, so that its process can die before or after any call of any port.
//!
//! A test starts it as a process of its own (`src/bin/crash.rs`) against a fake platform that lives in the test.
//! What it does is decided by [`CrashOptions`] alone.

pub mod channel;
pub mod points;
pub mod tools;
pub mod voice;
mod wrapped;

use std::{collections::BTreeSet, io::Read, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use satchel::{
    build::{Satchel, SatchelOptions, build},
    ports::{ExtraTool, Ports},
};
use satchel_domain::{
    Attachment, ChannelCapabilities, ChannelName, ConversationId, Ending, HistoryMessage, Part, TurnId,
    delivery::DeliveryRules,
};
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_ledger::{Settings, SqliteLedger};
use satchel_local::{LocalBus, ModelScript, ScriptedModel};
use satchel_ports::{
    Fetcher, Ledger, SafetyTier, ScriptHost,
    ledger::{AttachmentQuery, OutboxQuery, TurnRecord},
};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use self::channel::ChannelAdapter;
use crate::{
    crash::{
        channel::{AdapterTimeouts, OpenChannel},
        points::{Point, Points},
        tools::{RequestVoice, Tally, WaitForPerson},
        voice::FakeVoice,
        wrapped::{Wrapped, WrappedInbound},
    },
    fetching::fetcher,
};

/// How often the process looks whether its turns are over.
const LOOK: Duration = Duration::from_millis(4);

/// What a process is to do, and where it is to die.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrashOptions {
    pub data: PathBuf,
    /// The directory that every conversation has as `/shared`.
    pub shared: PathBuf,
    /// The file to which each run of the counting tool adds a line.
    pub tally: PathBuf,
    /// The file that the waiting tool makes when it begins to wait.
    pub reached: PathBuf,
    /// The file for which it waits.
    pub done: PathBuf,
    /// Whether a person is asked before a tool with an effect runs.
    pub confirms: bool,
    /// Where the platform is.
    pub platform: String,
    /// Through which adapter it is reached.
    pub adapter: ChannelAdapter,
    /// What the platform takes.
    pub capabilities: ChannelCapabilities,
    /// The channel on which the process works.
    pub channel: ChannelName,
    /// How many turns there are to be in the end.
    pub turns: usize,
    /// What the model says.
    pub script: ModelScript,
    /// The program that evaluates scripts; without it nobody does.
    pub script_worker: Option<PathBuf>,
    /// A file to which every point that is passed is written.
    pub points: Option<PathBuf>,
    pub crash_at: Option<Point>,
}

/// What a process that lived to the end of all turns tells of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrashReport {
    /// How the turns ended.
    pub endings: Vec<String>,
    /// The kind and state of every part of every turn.
    pub parts: Vec<(String, String)>,
    /// What the ledger has of the conversations, the one last used first.
    pub conversations: Vec<ConversationReport>,
}

/// What the ledger has of one conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConversationReport {
    pub conversation: ConversationId,
    pub history: Vec<HistoryMessage>,
    /// The records of its files, the oldest first.
    pub attachments: Vec<Attachment>,
}

impl CrashReport {
    /// All histories, one after the other.
    pub fn history(&self) -> impl Iterator<Item = &HistoryMessage> {
        self.conversations.iter().flat_map(|conversation| &conversation.history)
    }

    /// What the model was told by its tools.
    pub fn tool_answers(&self) -> impl Iterator<Item = &str> {
        self.history().filter_map(|message| match message {
            HistoryMessage::Tool { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}

/// The rules of delivery in a test: as the product's, with waits that are hundreds of times shorter.
#[must_use]
pub fn quick_delivery() -> DeliveryRules {
    DeliveryRules {
        backoff: Duration::from_millis(4),
        backoff_cap: Duration::from_millis(40),
        resend_delays: [10, 40, 160].map(Duration::from_millis),
        late_duplicate_delay: Duration::from_millis(400),
        ..DeliveryRules::default()
    }
}

/// Works until all turns are over and standard input has ended, and tells what became of them.
///
/// # Errors
/// When a store can't be opened, or the ledger can't be read at the end.
pub async fn run(options: CrashOptions) -> anyhow::Result<CrashReport> {
    let points = Arc::new(Points::new(options.points.as_deref(), options.crash_at.clone())?);
    let ledger = Arc::new(SqliteLedger::open(&options.data, Settings::default()).await?);
    let blobs = Arc::new(Wrapped::new(DirectoryBlobs::open(&options.data.join("blobs"))?, &points));
    let workspaces = options.data.join("workspaces");
    let workspace = DirectoryWorkspace::open(&workspaces, Some(&options.shared), 1 << 30)?;
    let timeouts = AdapterTimeouts { connect: Duration::from_millis(500), answer: Duration::from_secs(2) };
    let capabilities = options.capabilities.clone();
    let fetcher: Arc<dyn Fetcher> = Arc::new(Wrapped::new(fetcher(), &points));
    let (stored, fetched) = (Arc::clone(&blobs) as _, Arc::clone(&fetcher));
    let channel = OpenChannel::new(options.adapter, &options.platform, capabilities, stored, fetched, timeouts)?;
    let tally = Wrapped::new(Tally { file: options.tally.clone() }, &points);
    let voice = Wrapped::new(RequestVoice, &points);
    let (reached, done) = (options.reached.clone(), options.done.clone());
    let waiting = Wrapped::new(WaitForPerson { reached, done }, &points);
    let extra = ExtraTool::without_paths;
    let scripts = options.script_worker.clone().map(|worker| -> Arc<dyn ScriptHost> {
        Arc::new(Wrapped::new(WorkerPool::new(ScriptPoolSettings::new(worker)), &points))
    });
    let ports = Ports {
        ledger: Arc::new(Wrapped::new(Arc::clone(&ledger), &points)),
        blobs,
        workspace: Arc::new(Wrapped::new(workspace, &points)),
        bus: Arc::new(Wrapped::new(LocalBus::new(), &points)),
        fetcher,
        model: Arc::new(Wrapped::new(ScriptedModel::new(options.script.clone()), &points)),
        speech: Some(Arc::new(Wrapped::new(FakeVoice, &points))),
        scripts,
        links: None,
        channels: vec![Arc::new(Wrapped::new(channel.channel(), &points))],
        tools: vec![extra(Arc::new(tally)), extra(Arc::new(voice)), extra(Arc::new(waiting))],
    };
    let mut behaviour = SatchelOptions { delivery: quick_delivery(), ..SatchelOptions::default() };
    if options.confirms {
        behaviour.agent.confirm.push(SafetyTier::SideEffecting);
    }
    let Satchel { inbound, runner, .. } = build(ports, behaviour).expect("each channel has a name of its own");
    let stop = CancellationToken::new();
    let working = tokio::spawn(runner.run(stop.clone()));
    let inbound = Arc::new(WrappedInbound::new(inbound, &points));
    let listening = {
        let stop = stop.clone();
        tokio::spawn(async move { channel.listen(inbound, stop).await })
    };
    end_of_input().await?;
    let (turns, parts) = wait_until_settled(&*ledger, &options).await?;
    stop.cancel();
    listening.await.context("the channel broke down")??;
    working.await.context("the lanes broke down")?;
    let ended = |turn: TurnRecord| turn.ending.as_ref().map_or("not at all", Ending::as_str).to_owned();
    Ok(CrashReport {
        endings: turns.into_iter().map(ended).collect(),
        parts: parts.iter().map(|part| (part.content.kind().to_owned(), part.state.as_str().to_owned())).collect(),
        conversations: conversations(&options).await?,
    })
}

/// Reads what the next process would, not what this one remembers.
async fn conversations(options: &CrashOptions) -> anyhow::Result<Vec<ConversationReport>> {
    let ledger = SqliteLedger::open(&options.data, Settings::default()).await?;
    let mut reports = Vec::new();
    for summary in ledger.conversations(&options.channel, 100).await? {
        let conversation = summary.conversation;
        let query = AttachmentQuery { conversation: Some(conversation.clone()), ..AttachmentQuery::default() };
        let mut attachments = ledger.attachments(&query).await?;
        attachments.reverse();
        let history = ledger.history(&conversation, 1_000).await?;
        reports.push(ConversationReport { conversation, history, attachments });
    }
    Ok(reports)
}

/// Waits until whoever started this process has seen enough of it.
async fn end_of_input() -> anyhow::Result<()> {
    let reading = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    reading.await?.context("standard input can't be read")?;
    Ok(())
}

/// Waits until there are as many turns as there are to be, with nothing left to do in any of them.
async fn wait_until_settled(
    ledger: &dyn Ledger,
    options: &CrashOptions,
) -> anyhow::Result<(Vec<TurnRecord>, Vec<Part>)> {
    let query = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
    loop {
        let parts = ledger.outbox(&query).await?;
        let ids: BTreeSet<TurnId> = parts.iter().map(|part| part.turn).collect();
        let mut turns = Vec::new();
        for id in ids {
            turns.extend(ledger.turn(id).await?);
        }
        let is_over = turns.len() >= options.turns
            && turns.iter().all(|turn| turn.ending.is_some())
            && parts.iter().all(|part| part.state.is_settled());
        if is_over {
            return Ok((turns, parts));
        }
        tokio::time::sleep(LOOK).await;
    }
}
