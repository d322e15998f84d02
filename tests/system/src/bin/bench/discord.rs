//! Turns and files through Discord's own adapter, against a strict server of its HTTP API and its gateway in this
//! process; and what it costs to be everywhere at once while nobody writes.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use satchel_domain::ChannelCapabilities;
use satchel_fake_discord::{DiscordRules, FakeDiscord, Tier};
use satchel_fake_kit::{FakeFile, RequestPhase};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece};
use satchel_routing::tables;
use satchel_system::crash::ChannelAdapter;

use crate::{
    BenchRunner,
    overhead::Overhead,
    process::ChildProcess,
    product::{ModelChoice, ProductSettings},
    statistics::{median, megabytes_per_second, to_mib, to_ms},
    table::ResultRow,
};

/// Files at once, within what every server takes, and the one that only a boosted one does.
const FILE_COUNT: usize = 10;
const FILE_BYTES: u64 = 8_000_000;
const LARGE_FILE_BYTES: u64 = 50_000_000;

/// Starts whose time is taken.
const STARTS: usize = 15;

/// Until everything of the start is over, and long enough that a tenth of a percent is two of the scheduler's ticks.
const SETTLE_DELAY: Duration = Duration::from_secs(12);
const IDLE_PERIOD: Duration = Duration::from_secs(20);

/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

const SEND_ROUTE: &str = "POST /channels/{}/messages";

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let mut rows = bench.runtime.block_on(measure_turns(bench))?;
    rows.extend(bench.runtime.block_on(measure_files(bench, FILE_COUNT, FILE_BYTES, 64.0))?);
    rows.extend(bench.runtime.block_on(measure_files(bench, 1, LARGE_FILE_BYTES, 32.0))?);
    rows.extend(bench.runtime.block_on(measure_idle(bench))?);
    Ok(rows)
}

/// A boosted server with a channel for each person, and the product that listens there.
struct DiscordHarness {
    discord: FakeDiscord,
    channels: Vec<u64>,
    satchel: ChildProcess,
}

impl DiscordHarness {
    async fn open(bench: &BenchRunner, data_dir: &Path, channels: usize, model: ModelChoice) -> Result<Self> {
        let discord = start_server().await?;
        let guild = discord.guild(1, "Home", Tier::Three);
        discord.person(PERSON, "Somebody");
        let channels = (100..).take(channels).map(|id| discord.channel(guild, id, &format!("room-{id}"))).collect();
        let product = ProductSettings {
            data_dir: data_dir.to_owned(),
            platform: discord.api_url(),
            capabilities: ChannelCapabilities { rate_limits: None, ..tables::discord() },
            model,
            adapter: ChannelAdapter::Discord,
        };
        let harness = Self { channels, satchel: product.start(bench)?, discord };
        wait_until_connected(&harness.discord).await?;
        Ok(harness)
    }

    /// Says something and waits for the bot's `nth` message since the start.
    async fn send_and_wait(&self, channel: u64, nth: u64) -> Result<Duration> {
        let reply = self.discord.on_nth(SEND_ROUTE, nth, RequestPhase::Performed);
        let sent_at = Instant::now();
        self.discord.person_says(channel, PERSON, "again");
        match tokio::time::timeout(REPLY_TIMEOUT, reply).await {
            Ok(Ok(())) => Ok(sent_at.elapsed()),
            _ => bail!("no reply came; the channels show\n{}", self.discord.transcript()),
        }
    }
}

const PERSON: u64 = 5;

async fn start_server() -> Result<FakeDiscord> {
    let rules = DiscordRules { keeps_connections: true, ..DiscordRules::unpaced() };
    FakeDiscord::start(rules).await.context("no server could be started")
}

async fn wait_until_connected(discord: &FakeDiscord) -> Result<()> {
    let connected = async {
        while discord.gateway().connected() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(REPLY_TIMEOUT, connected).await.context("it does not come to the gateway")
}

async fn measure_turns(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let answer =
        ScriptedAnswer { pieces: vec![ScriptedPiece::Text("A short reply.".into())], ..ScriptedAnswer::default() };
    let model = ModelChoice::Scripted(ModelScript { pick: AnswerOrder::ByProgress, answers: vec![answer] });
    let harness = DiscordHarness::open(bench, directory.path(), 1, model).await?;
    let send_nth = async |nth| harness.send_and_wait(harness.channels[0], nth).await;
    let overhead = Overhead::measure(&harness.satchel, directory.path(), send_nth).await?;
    harness.satchel.stop()?;
    Ok(overhead.rows("discord, text turn"))
}

/// Files at once, each in a channel of its own, saved and sent back.
async fn measure_files(bench: &BenchRunner, count: usize, bytes: u64, max_mib: f64) -> Result<[ResultRow; 2]> {
    let directory = bench.directory()?;
    let file = |seed| FakeFile::generated(format!("{seed}.bin"), "application/octet-stream", seed, bytes);
    let files: Vec<FakeFile> = (0..count as u64).map(file).collect();
    let harness = DiscordHarness::open(bench, directory.path(), count, ModelChoice::Offline).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = harness.satchel.peak_memory()?;
    let mut sent_at = Instant::now();
    for (number, (channel, file)) in harness.channels.iter().zip(&files).enumerate() {
        let text = "save this as kept.bin and send it back";
        harness.discord.person_sends(*channel, PERSON, text, vec![file.clone()]);
        if number == 0 {
            sent_at = Instant::now();
        }
    }
    let all_arrived = async {
        loop {
            let transcript = harness.discord.transcript();
            if harness.channels.iter().all(|channel| !transcript.files(*channel).is_empty()) {
                return transcript;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let transcript = tokio::time::timeout(REPLY_TIMEOUT, all_arrived).await.context("a file did not come back")?;
    let (took, extra) = (sent_at.elapsed(), harness.satchel.peak_memory()?.saturating_sub(idle));
    for (channel, file) in harness.channels.iter().zip(&files) {
        let received = transcript.files(*channel);
        ensure!(
            received.len() == 1 && received[0].sha256 == file.sha256(),
            "a file is not what was sent:\n{transcript}"
        );
    }
    harness.satchel.stop()?;
    let name = format!("discord: {count} of {} MB in and out", bytes / 1_000_000);
    Ok([
        ResultRow::new(format!("{name}, extra memory"), to_mib(extra), "MiB").with_max(max_mib).with_note("all intact"),
        ResultRow::new(name, megabytes_per_second(bytes * count as u64, took), "MB/s"),
    ])
}

/// From its start to its place at the gateway; and what it costs to be on Telegram, Discord and the web while nobody
/// writes.
async fn measure_idle(bench: &BenchRunner) -> Result<[ResultRow; 3]> {
    let (directory, discord) = (bench.directory()?, start_server().await?);
    let telegram = FakeTelegram::start(TelegramRules { keeps_connections: true, ..TelegramRules::default() }).await?;
    let start = || {
        let mut satchel = Command::new(&bench.satchel);
        satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.path().join("data").display())]);
        satchel.args(["--set", "web.listen=127.0.0.1:0"]);
        satchel.args(["--set", &format!("telegram.api_url={}", telegram.api_url())]);
        satchel.args(["--set", &format!("discord.api_url={}", discord.api_url())]);
        satchel.current_dir(directory.path()).env_clear().env("HOME", directory.path());
        satchel.env("SATCHEL_TELEGRAM__TOKEN", telegram.token()).env("SATCHEL_DISCORD__TOKEN", discord.token());
        ChildProcess::start(&mut satchel)
    };
    // The first start makes the data directory and is left out.
    let (mut times, mut last) = (Vec::new(), None);
    for round in 0..=STARTS {
        drop(last.take());
        let initial_report = discord.gateway().report();
        let before = initial_report.identifies + initial_report.resumes;
        let started_at = Instant::now();
        last = Some(start()?);
        let connected = async {
            loop {
                let report = discord.gateway().report();
                if report.identifies + report.resumes > before {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(REPLY_TIMEOUT, connected).await.context("it does not come to the gateway")?;
        if round > 0 {
            times.push(started_at.elapsed());
        }
    }
    let satchel = last.context("it was started")?;
    tokio::time::sleep(SETTLE_DELAY).await;
    let before = satchel.cpu_time()?;
    tokio::time::sleep(IDLE_PERIOD).await;
    let cpu_time = satchel.cpu_time()? - before;
    Ok([
        ResultRow::new("discord: start to the gateway", to_ms(median(&times)), "ms").with_max(100.0),
        ResultRow::new(
            "discord: idle memory (PSS) with Telegram and web",
            to_mib(satchel.proportional_memory()?),
            "MiB",
        )
        .with_max(40.0),
        ResultRow::new(
            "discord: idle processor with Telegram and web",
            cpu_time.as_secs_f64() / IDLE_PERIOD.as_secs_f64() * 100.0,
            "%",
        )
        .with_max(0.1),
    ])
}
