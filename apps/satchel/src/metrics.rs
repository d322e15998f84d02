//! The figures for operators: counted by wrappers around the ports, told as OpenMetrics text, of which only that is
//! used which readers of Prometheus's older format understand as well.
//!
//! Nothing that decides knows of them. Label values come from short lists, so that nobody outside can make series grow.

mod bus;
mod channel;
mod inbound;
mod model;
pub mod server;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use satchel_ports::{
    Ledger,
    ledger::{
        OutboxQuery, UndecodableCount,
        usage::{UsageQuery, UsageScope},
    },
};
use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

use crate::disks::{self, FileDirectory};

pub use self::{bus::MeasuredBus, channel::MeasuredChannel, inbound::MeasuredInbound, model::MeasuredModel};

/// What the text is, as HTTP says it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a scrape waits for the ledger; after it the figure that comes from there is unknown.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a scrape waits for the disks; after it their figures are missing.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// The upper bounds of durations, in seconds: from a local answer to a model that thinks for minutes.
const DURATION_BUCKETS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// What a label says when its value is none of those that are expected.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabels {
    channel: String,
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
struct OfDisk {
    holds: &'static str,
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

/// All figures of this process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    channels: Vec<String>,
    messages: Family<ChannelLabels, Counter>,
    turned_away: Family<ChannelLabels, Counter>,
    unreadable: Family<ChannelLabels, Gauge>,
    turns: Family<TurnLabels, Counter>,
    parts: Family<PartLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: DurationFamily<ChannelLabels>,
    bytes: Family<ByteLabels, Counter>,
    oldest_part_seconds: Gauge<f64, std::sync::atomic::AtomicU64>,
    model_calls: Family<ModelCallLabels, Counter>,
    model_first_piece_seconds: DurationFamily<ModelLabels>,
    model_answer_seconds: DurationFamily<ModelLabels>,
    model_tokens: Family<TokenLabels, Counter>,
    kept_files: Family<ChannelLabels, Gauge>,
    kept_bytes: Family<ChannelLabels, Gauge>,
    directories: Vec<FileDirectory>,
    disk_free: Family<OfDisk, Gauge>,
    disk_reserve: Family<OfDisk, Gauge>,
    /// Held by who asks the disks.
    measuring: Arc<Mutex<()>>,
}

impl Metrics {
    /// Nothing has happened yet. `channels` are those that this process hosts, `directories` those in which it keeps
    /// files.
    #[must_use]
    pub fn new(channels: &[&str], directories: Vec<FileDirectory>) -> Arc<Self> {
        let mut figures = Self {
            registry: Registry::with_prefix("satchel"),
            channels: channels.iter().map(|name| (*name).to_owned()).collect(),
            messages: Family::default(),
            turned_away: Family::default(),
            unreadable: Family::default(),
            turns: Family::default(),
            parts: Family::default(),
            attempts: Family::default(),
            attempt_seconds: durations(),
            bytes: Family::default(),
            oldest_part_seconds: Gauge::default(),
            model_calls: Family::default(),
            model_first_piece_seconds: durations(),
            model_answer_seconds: durations(),
            model_tokens: Family::default(),
            kept_files: Family::default(),
            kept_bytes: Family::default(),
            directories,
            disk_free: Family::default(),
            disk_reserve: Family::default(),
            measuring: Arc::default(),
        };
        figures.register();
        Arc::new(figures)
    }

    fn register(&mut self) {
        // A gauge and no info metric, so that readers of the older text format, who know no such type, read it too.
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        let of = &mut self.registry;
        of.register("build_info", "The running program and its version", build);
        of.register("messages", "Messages stored in the inbox", self.messages.clone());
        let help = "Messages from people who are not allowed; nothing of them is stored";
        of.register("turned_away", help, self.turned_away.clone());
        let help = "Updates that could not be decoded and are stored as they came, counted in the ledger";
        of.register("unreadable_updates", help, self.unreadable.clone());
        of.register("turns", "Completed turns, by ending", self.turns.clone());
        of.register("parts", "Parts of replies, by final state", self.parts.clone());
        of.register("attempts", "Sends and edits, by the platform's response", self.attempts.clone());
        let seconds = || Unit::Seconds;
        let took = self.attempt_seconds.clone();
        of.register_with_unit("attempt_duration", "Duration of a send or an edit", seconds(), took);
        let help = "Bytes of files received from people or sent to them";
        of.register_with_unit("file", help, Unit::Bytes, self.bytes.clone());
        let help = "Age of the oldest part of a reply that is in progress; 0 if there is none";
        of.register_with_unit("oldest_part_age", help, seconds(), self.oldest_part_seconds.clone());
        of.register("model_calls", "Requests to a model, by how the answer ended", self.model_calls.clone());
        let help = "Time until the first delta of a model's answer";
        of.register_with_unit("model_first_piece", help, seconds(), self.model_first_piece_seconds.clone());
        let help = "Time until a model's answer was complete";
        of.register_with_unit("model_answer", help, seconds(), self.model_answer_seconds.clone());
        of.register("model_tokens", "Input and output tokens of a model", self.model_tokens.clone());
        let help = "Files stored in conversations, counted in the ledger";
        of.register("kept_files", help, self.kept_files.clone());
        let help = "Bytes of these files and of the conversations' workspaces, counted in the ledger";
        of.register_with_unit("kept", help, Unit::Bytes, self.kept_bytes.clone());
        let help = "Free bytes on the disk of a directory that holds files, including the reserve";
        of.register_with_unit("disk_free", help, Unit::Bytes, self.disk_free.clone());
        let help = "Free bytes reserved for the database, which no file uses";
        of.register_with_unit("disk_reserve", help, Unit::Bytes, self.disk_reserve.clone());
    }

    /// All figures as text, with the oldest part, what could not be read and what files take up asked of the ledger now,
    /// and the disks of the system.
    pub async fn text(&self, ledger: &dyn Ledger) -> String {
        self.measure_disks().await;
        let oldest = OutboxQuery { unsettled_only: true, limit: Some(1), ..OutboxQuery::default() };
        let age = match timeout(LEDGER_TIMEOUT, ledger.outbox(&oldest)).await {
            Ok(Ok(parts)) => {
                parts.first().map_or(0.0, |part| ledger.now().saturating_duration_since(part.created_at).as_secs_f64())
            }
            Ok(Err(_)) | Err(_) => f64::NAN,
        };
        self.oldest_part_seconds.set(age);
        self.unreadable.clear();
        if let Ok(Ok(unreadable)) = timeout(LEDGER_TIMEOUT, ledger.count_undecodable()).await {
            for UndecodableCount { channel, updates } in unreadable {
                let channel = self.channel(channel.as_str());
                self.unreadable.get_or_create(&ChannelLabels { channel }).inc_by(updates.cast_signed());
            }
        }
        self.sum_stored_files(ledger).await;
        let mut written = String::new();
        text::encode(&mut written, &self.registry).expect("text can be written to a string");
        written
    }

    /// What each channel's conversations keep; unknown where the ledger doesn't say.
    async fn sum_stored_files(&self, ledger: &dyn Ledger) {
        self.kept_files.clear();
        self.kept_bytes.clear();
        let Ok(Ok(usages)) = timeout(LEDGER_TIMEOUT, ledger.usages(&UsageQuery::All)).await else { return };
        for usage in usages {
            let UsageScope::Conversation(conversation) = &usage.scope else { continue };
            let of = ChannelLabels { channel: self.channel(conversation.channel().as_str()) };
            self.kept_files.get_or_create(&of).inc_by(usage.files.cast_signed());
            self.kept_bytes.get_or_create(&of).inc_by(usage.total_bytes().cast_signed());
        }
    }

    /// A disk that doesn't say how much is free has no figures.
    async fn measure_disks(&self) {
        self.disk_free.clear();
        self.disk_reserve.clear();
        // A network's disk may not answer; the one thread that waits for it is left behind.
        let Ok(alone) = Arc::clone(&self.measuring).try_lock_owned() else { return };
        let directories = self.directories.clone();
        let measure = move || {
            let _alone = alone;
            directories.into_iter().map(|directory| (disks::space(&directory.path), directory)).collect()
        };
        let measured: Result<Result<Vec<_>, _>, _> = timeout(DISK_TIMEOUT, spawn_blocking(measure)).await;
        for (space, FileDirectory { holds, reserve, .. }) in measured.into_iter().flatten().flatten() {
            let Ok(space) = space else { continue };
            let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            self.disk_free.get_or_create(&OfDisk { holds }).set(gauge(space.free));
            self.disk_reserve.get_or_create(&OfDisk { holds }).set(gauge(reserve.bytes_of(space.total)));
        }
    }

    /// The channel's name where it is one that this process hosts.
    fn channel(&self, name: &str) -> String {
        self.channels.iter().find(|known| *known == name).map_or_else(|| OTHER.to_owned(), Clone::clone)
    }
}

/// The word of the list that `value` is, or [`OTHER`].
fn one_of(value: &str, words: &[&'static str]) -> &'static str {
    words.iter().find(|word| **word == value).copied().unwrap_or(OTHER)
}

fn durations<L: Clone + std::hash::Hash + Eq>() -> DurationFamily<L> {
    Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS))
}
