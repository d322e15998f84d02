//! Metrics for operators: counted by wrappers around the ports and served as OpenMetrics text, limited to what parsers
//! of Prometheus's older format understand, too.
//!
//! No decision depends on them. Label values come from short lists, so that outside input can't add series.

mod bus;
mod channel;
mod closed_channels;
mod disk;
mod gateways;
mod inbound;
mod lost_events;
mod model;
pub mod server;
mod workspace;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use satchel_domain::Timestamp;
use satchel_ports::{
    Channel, Ledger, Storage,
    ledger::{OutboxQuery, UndecodableCount, UsageQuery, UsageScope},
};
use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

pub use self::{
    bus::MeasuredBus,
    channel::MeasuredChannel,
    disk::{FileDirectory, read_space},
    gateways::MeasuredGateways,
    inbound::MeasuredInbound,
    lost_events::LostEvents,
    model::MeasuredModel,
    workspace::MeasuredWorkspace,
};
use self::{
    closed_channels::{ClosureLabels, WatchedChannels},
    lost_events::{LostEventLabels, LostEventSource},
};

/// The `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a scrape waits for the ledger; after that, the metrics from the ledger are unknown.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a scrape waits for the disks; after that, their metrics are missing.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// The upper bounds of durations, in seconds: from a local response to a model that answers after minutes.
const DURATION_BUCKETS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The label value for any value outside the expected list.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabels {
    role: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabels {
    channel: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GatewayLabels {
    channel: String,
    duty: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    channel: String,
    ending: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabels {
    channel: String,
    kind: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    channel: String,
    kind: &'static str,
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByteLabels {
    channel: String,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DiskLabels {
    holds: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FileChangeLabels {
    action: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelCallLabels {
    model: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    model: String,
    direction: &'static str,
}

type DurationFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// All metrics of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    channels: Vec<String>,
    messages: Family<ChannelLabels, Counter>,
    refused: Family<ChannelLabels, Counter>,
    undecodable: Family<ChannelLabels, Gauge>,
    turns: Family<TurnLabels, Counter>,
    parts: Family<PartLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: DurationFamily<ChannelLabels>,
    bytes: Family<ByteLabels, Counter>,
    oldest_part_seconds: Gauge<f64, AtomicU64>,
    oldest_turn_seconds: Gauge<f64, AtomicU64>,
    lost_leases: Family<RoleLabels, Counter>,
    /// What counts the lost leases, and the role of the process.
    lease_losses: OnceLock<(&'static str, Arc<AtomicU64>)>,
    gateway_takeovers: Family<GatewayLabels, Counter>,
    gateways_held: Family<GatewayLabels, Gauge>,
    closed_channels: Family<ClosureLabels, Gauge>,
    watched_channels: WatchedChannels,
    model_calls: Family<ModelCallLabels, Counter>,
    model_first_delta_seconds: DurationFamily<ModelLabels>,
    model_answer_seconds: DurationFamily<ModelLabels>,
    model_tokens: Family<TokenLabels, Counter>,
    file_changes: Family<FileChangeLabels, Counter>,
    stored_files: Family<ChannelLabels, Gauge>,
    stored_bytes: Family<ChannelLabels, Gauge>,
    directories: Vec<FileDirectory>,
    disk_free: Family<DiskLabels, Gauge>,
    disk_reserve: Family<DiskLabels, Gauge>,
    lost_events: Family<LostEventLabels, Counter>,
    lost_event_source: LostEventSource,
    /// Held while the disks are measured.
    disk_lock: Arc<Mutex<()>>,
}

impl Metrics {
    /// All counters start at zero. `channels` are the channels that this process hosts, `directories` those that hold
    /// files.
    #[must_use]
    pub fn new(channels: &[&str], directories: Vec<FileDirectory>) -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("satchel"),
            channels: channels.iter().map(|name| (*name).to_owned()).collect(),
            messages: Family::default(),
            refused: Family::default(),
            undecodable: Family::default(),
            turns: Family::default(),
            parts: Family::default(),
            attempts: Family::default(),
            attempt_seconds: duration_family(),
            bytes: Family::default(),
            oldest_part_seconds: Gauge::default(),
            oldest_turn_seconds: Gauge::default(),
            lost_leases: Family::default(),
            lease_losses: OnceLock::new(),
            gateway_takeovers: Family::default(),
            gateways_held: Family::default(),
            closed_channels: Family::default(),
            watched_channels: WatchedChannels::default(),
            model_calls: Family::default(),
            model_first_delta_seconds: duration_family(),
            model_answer_seconds: duration_family(),
            model_tokens: Family::default(),
            file_changes: Family::default(),
            stored_files: Family::default(),
            stored_bytes: Family::default(),
            directories,
            disk_free: Family::default(),
            disk_reserve: Family::default(),
            lost_events: Family::default(),
            lost_event_source: LostEventSource::default(),
            disk_lock: Arc::default(),
        };
        metrics.register();
        Arc::new(metrics)
    }

    fn register(&mut self) {
        // A gauge, not an info metric: the older text format has no such type.
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        let registry = &mut self.registry;
        registry.register("build_info", "The running program and its version", build);
        registry.register("messages", "Messages stored in the inbox", self.messages.clone());
        let help = "Messages from people who are not allowed; nothing of them is stored";
        registry.register("turned_away", help, self.refused.clone());
        let help = "Updates that could not be decoded and are stored as they came, counted in the ledger";
        registry.register("unreadable_updates", help, self.undecodable.clone());
        registry.register("turns", "Completed turns, by ending", self.turns.clone());
        registry.register("parts", "Parts of replies, by final state", self.parts.clone());
        registry.register("attempts", "Sends and edits, by the platform's response", self.attempts.clone());
        let seconds = || Unit::Seconds;
        let attempt_seconds = self.attempt_seconds.clone();
        registry.register_with_unit("attempt_duration", "Duration of a send or an edit", seconds(), attempt_seconds);
        let help = "Bytes of files received from people or sent to them";
        registry.register_with_unit("file", help, Unit::Bytes, self.bytes.clone());
        let help = "Age of the oldest part of a reply that is in progress; 0 if there is none";
        registry.register_with_unit("oldest_part_age", help, seconds(), self.oldest_part_seconds.clone());
        let help = "Age of the oldest turn that waits for a process to run it; 0 if there is none";
        registry.register_with_unit("oldest_turn_age", help, seconds(), self.oldest_turn_seconds.clone());
        let help = "Conversations that this process lost to another one, or whose lease it couldn't renew, by its role";
        registry.register("lost_leases", help, self.lost_leases.clone());
        let help = "Gateways that this process took over after waiting for them";
        registry.register("gateway_takeovers", help, self.gateway_takeovers.clone());
        let help = "1 while this process holds the channel's gateway for the duty";
        registry.register("gateway_held", help, self.gateways_held.clone());
        let help = "1 while the channel is closed for the reason, so that what is to be sent there waits";
        registry.register("channel_closed", help, self.closed_channels.clone());
        registry.register("model_calls", "Requests to a model, by how the answer ended", self.model_calls.clone());
        let help = "Time until the first delta of a model's answer";
        registry.register_with_unit("model_first_piece", help, seconds(), self.model_first_delta_seconds.clone());
        let help = "Time until a model's answer was complete";
        registry.register_with_unit("model_answer", help, seconds(), self.model_answer_seconds.clone());
        registry.register("model_tokens", "Input and output tokens of a model", self.model_tokens.clone());
        let help = "Files of workspaces that tools and commands wrote, deleted or restored";
        registry.register("file_changes", help, self.file_changes.clone());
        let help = "Files stored in conversations, counted in the ledger";
        registry.register("kept_files", help, self.stored_files.clone());
        let help = "Bytes of these files and of the conversations' workspaces, counted in the ledger";
        registry.register_with_unit("kept", help, Unit::Bytes, self.stored_bytes.clone());
        let help = "Free bytes on the disk of a directory that holds files, including the reserve";
        registry.register_with_unit("disk_free", help, Unit::Bytes, self.disk_free.clone());
        let help = "Free bytes reserved for the database, which no file uses";
        registry.register_with_unit("disk_reserve", help, Unit::Bytes, self.disk_reserve.clone());
        let help = "Events between processes that were not read or not published, by reason";
        registry.register("bus_events_lost", help, self.lost_events.clone());
    }

    /// Where the events come from that did not arrive: a bus that leaves this process.
    pub fn watch_lost_events(&self, count: impl Fn() -> LostEvents + Send + Sync + 'static) {
        self.lost_event_source.set(Box::new(count));
    }

    /// Shows which of these channels are closed.
    pub fn watch_channels(&self, channels: &[Arc<dyn Channel>]) {
        let label = |channel: &Arc<dyn Channel>| self.channel_label(channel.name().as_str());
        self.watched_channels.set(channels.iter().map(|channel| (label(channel), Arc::clone(channel))));
    }

    /// Shows what `losses` counts as leases that a process of this role has lost.
    pub fn watch_lost_leases(&self, role: &'static str, losses: Arc<AtomicU64>) {
        let _first = self.lease_losses.set((role, losses));
    }

    /// Returns all metrics as text. Reads the oldest part and turn, the undecodable updates and the stored files from the
    /// ledger, and the free space from the system.
    pub async fn render(&self, ledger: &Ledger, now: Timestamp) -> String {
        self.measure_disks().await;
        self.lost_event_source.measure(&self.lost_events);
        self.watched_channels.measure(&self.closed_channels);
        let oldest = OutboxQuery { unsettled_only: true, limit: Some(1), ..OutboxQuery::default() };
        let age = match timeout(LEDGER_TIMEOUT, ledger.archive.parts(&oldest)).await {
            Ok(Ok(parts)) => {
                parts.first().map_or(0.0, |part| now.saturating_duration_since(part.created_at).as_secs_f64())
            }
            Ok(Err(_)) | Err(_) => f64::NAN,
        };
        self.oldest_part_seconds.set(age);
        let waited = match timeout(LEDGER_TIMEOUT, ledger.leases.longest_wait()).await {
            Ok(Ok(waited)) => waited.unwrap_or_default().as_secs_f64(),
            Ok(Err(_)) | Err(_) => f64::NAN,
        };
        self.oldest_turn_seconds.set(waited);
        if let Some((role, losses)) = self.lease_losses.get() {
            let counter = self.lost_leases.get_or_create_owned(&RoleLabels { role });
            counter.inc_by(losses.load(Ordering::Relaxed).saturating_sub(counter.get()));
        }
        self.undecodable.clear();
        if let Ok(Ok(unreadable)) = timeout(LEDGER_TIMEOUT, ledger.archive.count_undecodable()).await {
            for UndecodableCount { channel, updates } in unreadable {
                let channel = self.channel_label(channel.as_str());
                self.undecodable.get_or_create(&ChannelLabels { channel }).inc_by(updates.cast_signed());
            }
        }
        self.sum_stored_files(&*ledger.storage).await;
        let mut output = String::new();
        text::encode(&mut output, &self.registry).expect("text can be written to a string");
        output
    }

    /// Sums the stored files and bytes by channel; no series if the ledger fails.
    async fn sum_stored_files(&self, storage: &dyn Storage) {
        self.stored_files.clear();
        self.stored_bytes.clear();
        let Ok(Ok(usages)) = timeout(LEDGER_TIMEOUT, storage.usages(&UsageQuery::All)).await else { return };
        for usage in usages {
            let UsageScope::Conversation(conversation) = &usage.scope else { continue };
            let labels = ChannelLabels { channel: self.channel_label(conversation.channel().as_str()) };
            self.stored_files.get_or_create(&labels).inc_by(usage.files.cast_signed());
            self.stored_bytes.get_or_create(&labels).inc_by(usage.total_bytes().cast_signed());
        }
    }

    /// Reads the free space of every disk; no series for a disk that fails.
    async fn measure_disks(&self) {
        self.disk_free.clear();
        self.disk_reserve.clear();
        // A network disk may not respond; then one thread stays blocked, and no second one is started.
        let Ok(guard) = Arc::clone(&self.disk_lock).try_lock_owned() else { return };
        let directories = self.directories.clone();
        let measure = move || {
            let _guard = guard;
            directories.into_iter().map(|directory| (read_space(&directory.path), directory)).collect()
        };
        let spaces: Result<Result<Vec<_>, _>, _> = timeout(DISK_TIMEOUT, spawn_blocking(measure)).await;
        for (space, FileDirectory { role, reserve, .. }) in spaces.into_iter().flatten().flatten() {
            let Ok(space) = space else { continue };
            let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            self.disk_free.get_or_create(&DiskLabels { holds: role }).set(gauge(space.free));
            self.disk_reserve
                .get_or_create(&DiskLabels { holds: role })
                .set(gauge(reserve.reserved_bytes(space.total)));
        }
    }

    /// The channel's name if this process hosts it, else [`OTHER`].
    fn channel_label(&self, name: &str) -> String {
        self.channels.iter().find(|hosted| *hosted == name).map_or_else(|| OTHER.to_owned(), Clone::clone)
    }
}

/// `value` if it is in the list, else [`OTHER`].
fn label_value(value: &str, allowed: &[&'static str]) -> &'static str {
    allowed.iter().find(|label| **label == value).copied().unwrap_or(OTHER)
}

fn duration_family<L: Clone + std::hash::Hash + Eq>() -> DurationFamily<L> {
    Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS))
}
