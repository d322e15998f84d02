//! The product with every port wrapped, so that its process can die before or after any call of any port.
//!
//! A test starts it as a process of its own (`src/bin/crash.rs`) against a fake platform that lives in the test.
//! What it does is decided by [`CrashOptions`] alone.

pub mod channel;
mod crash_wrapper;
mod notify;
pub mod points;
pub mod storage;
pub mod tools;
pub mod voice;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use satchel::{
    agents::AgentDeclaration,
    build::{PlaybookOptions, Satchel, SatchelOptions, build},
    ports::{ExtraTool, Ports},
};
use satchel_attachments::{
    order::Playbooks,
    parse::{parse_playbook, parse_yaml},
    resolve::{AllowedTypes, ResolutionPolicy},
};
use satchel_calendar::Zone;
use satchel_domain::{
    AllowedPeople, Attachment, ChannelCapabilities, ChannelName, ConversationId, Ending, HistoryMessage, Part, TurnId,
    delivery::DeliveryRules,
};
use satchel_files::{DirectoryDeclaredFiles, DirectoryWorkspace, ExcludedPaths};
use satchel_intake::NotificationService;
use satchel_local::{LocalBus, ModelScript, ScriptedModel, SystemClock, UuidV7};
use satchel_ports::{
    Archive, AuditQuery, AuditRecord, Clock, Fetcher, Ids, SafetyTier, ScriptHost,
    ledger::{AttachmentQuery, ConversationQuery, OutboxQuery, TurnRecord},
};
use satchel_runtime::schedules::ReminderScheduler;
use satchel_sandbox::SandboxRunner;
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use self::channel::ChannelAdapter;
use crate::{
    crash::{
        channel::{AdapterTimeouts, OpenChannel},
        crash_wrapper::{CrashInbound, CrashWrapper},
        notify::notify,
        points::{CrashPoint, CrashPoints},
        storage::{OpenLedger, StorageOptions, open_blobs},
        tools::{CountingTool, RequestVoiceTool, WaitingTool},
        voice::FakeSpeech,
    },
    fetching::fetcher,
};

/// An agent that anybody may choose, with the model and the tools of the default one.
pub const OTHER_AGENT: &str = "helper";

/// Pause between two checks whether all turns are over.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// What a process is to do, and where it is to die.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrashOptions {
    pub data: PathBuf,
    pub storage: StorageOptions,
    /// The directory that every conversation has as `/shared`.
    pub shared: PathBuf,
    /// The file to which each run of the counting tool adds a line.
    pub tally: PathBuf,
    /// The file that the waiting tool makes when it begins to wait.
    pub reached: PathBuf,
    /// The file for which it waits.
    pub done: PathBuf,
    /// Whether side-effecting tools need a person's confirmation.
    pub confirms: bool,
    /// Whether people can make reminders, which the process delivers.
    pub reminds: bool,
    /// Whether another program sends a notification to the first conversation that there is.
    pub notifies: bool,
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
    /// The tasks as YAML; their files are in the shared directory.
    pub playbook: Option<String>,
    /// The script worker; without it scripts are disabled.
    pub script_worker: Option<PathBuf>,
    /// A file to which every point that is passed is written.
    pub points: Option<PathBuf>,
    pub crash_at: Option<CrashPoint>,
}

/// The report of a process that completed all turns.
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
    /// The lines of its audit log, the newest first.
    pub audit: Vec<AuditRecord>,
}

impl CrashReport {
    /// All histories, one after the other.
    pub fn history(&self) -> impl Iterator<Item = &HistoryMessage> {
        self.conversations.iter().flat_map(|conversation| &conversation.history)
    }

    /// Returns the tool results that the model read.
    pub fn tool_results(&self) -> impl Iterator<Item = &str> {
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

/// Runs until standard input ends and all turns are settled, and reports their results.
///
/// # Errors
/// When a store can't be opened, or the ledger can't be read at the end.
pub async fn run_crash_process(options: CrashOptions) -> anyhow::Result<CrashReport> {
    let points = Arc::new(CrashPoints::new(options.points.as_deref(), options.crash_at.clone())?);
    let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    let OpenLedger { ledger, wrapped } =
        OpenLedger::open(&options, Arc::clone(&clock), Arc::clone(&ids), &points).await?;
    let blobs = Arc::new(CrashWrapper::new(open_blobs(&options)?, &points));
    let workspaces = options.data.join("workspaces");
    let workspace =
        DirectoryWorkspace::open(&workspaces, Some(&options.shared), 1 << 30, Arc::new(SandboxRunner::default()))?;
    let timeouts = AdapterTimeouts { connect: Duration::from_millis(500), response: Duration::from_secs(2) };
    let capabilities = options.capabilities.clone();
    let fetcher: Arc<dyn Fetcher> = Arc::new(CrashWrapper::new(fetcher(), &points));
    let (stored, fetched) = (Arc::clone(&blobs) as _, Arc::clone(&fetcher));
    let channel = OpenChannel::new(options.adapter, &options.platform, capabilities, stored, fetched, timeouts)?;
    let counting_tool = CrashWrapper::new(CountingTool { file: options.tally.clone() }, &points);
    let voice_tool = CrashWrapper::new(RequestVoiceTool, &points);
    let (reached, released) = (options.reached.clone(), options.done.clone());
    let waiting_tool = CrashWrapper::new(WaitingTool { reached, released }, &points);
    let extra_tool = ExtraTool::without_paths;
    let scripts = options.script_worker.clone().map(|worker| -> Arc<dyn ScriptHost> {
        Arc::new(CrashWrapper::new(WorkerPool::new(ScriptPoolSettings::new(worker)), &points))
    });
    let excluded = ExcludedPaths { paths: vec![options.data.clone()], ..ExcludedPaths::default() };
    let declared_files = DirectoryDeclaredFiles::open(&options.data.join("downloads"), 1 << 20, excluded)?;
    let ports = Ports {
        ledger: wrapped,
        clock,
        ids,
        blobs,
        workspace: Arc::new(CrashWrapper::new(workspace, &points)),
        bus: Arc::new(CrashWrapper::new(LocalBus::new(), &points)),
        fetcher,
        model: Arc::new(CrashWrapper::new(ScriptedModel::new(options.script.clone()), &points)),
        models: BTreeMap::new(),
        speech: Some(Arc::new(CrashWrapper::new(FakeSpeech, &points))),
        scripts,
        documents: None,
        images: None,
        declared_files: Some(Arc::new(CrashWrapper::new(declared_files, &points))),
        links: None,
        channels: vec![Arc::new(CrashWrapper::new(channel.channel(), &points))],
        tools: vec![
            extra_tool(Arc::new(counting_tool)),
            extra_tool(Arc::new(voice_tool)),
            extra_tool(Arc::new(waiting_tool)),
        ],
    };
    let mut satchel_options = SatchelOptions { delivery: quick_delivery(), ..SatchelOptions::default() };
    satchel_options.agents.push(AgentDeclaration {
        name: OTHER_AGENT.to_owned(),
        description: String::new(),
        instructions: String::new(),
        model: None,
        tools: None,
        context: Vec::new(),
        allow: AllowedPeople::Everyone,
    });
    if let Some(playbook) = &options.playbook {
        let playbooks = parse_playbooks(playbook, &options.shared);
        satchel_options.agents.extend(playbooks.agents().map(AgentDeclaration::from));
        let any = || vec!["*/*".to_owned()];
        let allowed_types = AllowedTypes { image: any(), pdf: any(), audio: any(), video: any(), file: any() };
        let policy = ResolutionPolicy { max_download_bytes: 0, allowed_types };
        satchel_options.playbooks = Some(PlaybookOptions { playbooks, environment: serde_json::Map::new(), policy });
    }
    if options.confirms {
        satchel_options.agent.confirm_tiers.push(SafetyTier::SideEffecting);
    }
    satchel_options.reminders = options.reminds;
    let reminders = Arc::clone(&ports.ledger.reminders);
    let (conversations, archive) = (Arc::clone(&ports.ledger.conversations), Arc::clone(&ports.ledger.archive));
    let (ids, blobs) = (Arc::clone(&ports.ids), Arc::clone(&ports.blobs));
    let clock = Arc::clone(&ports.clock);
    let Satchel { inbound, internal_inbound, runner, .. } =
        build(ports, satchel_options).expect("each channel has a name of its own");
    let stop = CancellationToken::new();
    let runner_task = tokio::spawn(runner.run(stop.clone()));
    let notifications =
        NotificationService { inbound: internal_inbound.clone(), conversations, archive, ids, max_files: 1 };
    let notify_task = options.notifies.then(|| {
        let (conversations, channel) = (Arc::clone(&ledger.conversations), options.channel.clone());
        tokio::spawn(async move { notify(&notifications, &*blobs, &*conversations, channel).await })
    });
    let reminders = ReminderScheduler {
        reminders,
        inbound: internal_inbound,
        clock,
        default_zone: Zone::find("UTC").context("UTC is a zone")?,
        channels: vec![options.channel.clone()],
    };
    let reminder_task = options.reminds.then(|| tokio::spawn(reminders.run(stop.clone())));
    let inbound = Arc::new(CrashInbound::new(inbound, &points));
    let listener_task = {
        let stop = stop.clone();
        tokio::spawn(async move { channel.listen(inbound, stop).await })
    };
    wait_for_end_of_input().await?;
    if let Some(task) = notify_task {
        task.await.context("the notification broke down")??;
    }
    let (turns, parts) = wait_until_settled(&*ledger.archive, &options).await?;
    stop.cancel();
    listener_task.await.context("the channel broke down")??;
    runner_task.await.context("the lanes broke down")?;
    if let Some(task) = reminder_task {
        task.await.context("the reminders broke down")?;
    }
    let ending_name = |turn: TurnRecord| turn.ending.as_ref().map_or("not at all", Ending::as_str).to_owned();
    Ok(CrashReport {
        endings: turns.into_iter().map(ending_name).collect(),
        parts: parts.iter().map(|part| (part.operation.kind().to_owned(), part.state.as_str().to_owned())).collect(),
        conversations: report_conversations(&options).await?,
    })
}

/// Reads a playbook whose files are beneath a directory.
///
/// # Panics
/// When it has a mistake.
#[must_use]
pub fn parse_playbooks(yaml: &str, directory: &Path) -> Playbooks {
    let tree = parse_yaml(yaml).expect("it is YAML");
    let parsed = parse_playbook(&Arc::from(Path::new("tasks.yaml")), &Arc::from(directory), &tree);
    Playbooks::new(vec![parsed.expect("no mistakes")]).expect("no mistakes")
}

/// Reads what the next process would, not what this one remembers.
async fn report_conversations(options: &CrashOptions) -> anyhow::Result<Vec<ConversationReport>> {
    let (clock, ids, points) =
        (Arc::new(SystemClock::new()), Arc::new(UuidV7), Arc::new(CrashPoints::new(None, None)?));
    let OpenLedger { ledger, .. } = OpenLedger::open(options, clock, ids, &points).await?;
    let mut reports = Vec::new();
    let all = ConversationQuery { channel: options.channel.clone(), archived: false, before: None, limit: 100 };
    for summary in ledger.conversations.list_conversations(&all).await? {
        let conversation = summary.conversation;
        let query = AttachmentQuery { conversation: Some(conversation.clone()), ..AttachmentQuery::default() };
        let mut attachments = ledger.archive.attachments(&query).await?;
        attachments.reverse();
        let history = ledger.archive.history(&conversation, 1_000).await?;
        let audit_query = AuditQuery { conversation: Some(conversation.clone()), ..AuditQuery::default() };
        let audit = ledger.storage.audit(&audit_query).await?;
        reports.push(ConversationReport { conversation, history, attachments, audit });
    }
    Ok(reports)
}

/// Waits until the parent process closes standard input.
async fn wait_for_end_of_input() -> anyhow::Result<()> {
    let read_task = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    read_task.await?.context("standard input can't be read")?;
    Ok(())
}

/// Waits until there are as many turns as there are to be, with nothing left to do in any of them.
async fn wait_until_settled(
    archive: &dyn Archive,
    options: &CrashOptions,
) -> anyhow::Result<(Vec<TurnRecord>, Vec<Part>)> {
    let query = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
    loop {
        let parts = archive.parts(&query).await?;
        let ids: BTreeSet<TurnId> = parts.iter().map(|part| part.turn).collect();
        let mut turns = Vec::new();
        for id in ids {
            turns.extend(archive.turn(id).await?);
        }
        let is_settled = turns.len() >= options.turns
            && turns.iter().all(|turn| turn.ending.is_some())
            && parts.iter().all(|part| part.state.is_settled());
        if is_settled {
            return Ok((turns, parts));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
