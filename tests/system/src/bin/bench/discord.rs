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
    figures::{median, mib, ms, rate},
    overhead::Overhead,
    process::ChildProcess,
    product::{Model, Product},
    table::ResultRow,
};

/// Files at once, within what every server takes, and the one that only a boosted one does.
const TEN: usize = 10;
const EACH: u64 = 8_000_000;
const LARGE: u64 = 50_000_000;

/// Starts whose time is taken.
const STARTS: usize = 15;

/// Until everything of the start is over, and long enough that a tenth of a percent is two of the scheduler's ticks.
const SETTLED: Duration = Duration::from_secs(12);
const WATCHED: Duration = Duration::from_secs(20);

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

const SEND: &str = "POST /channels/{}/messages";

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let mut rows = bench.runtime.block_on(turns(bench))?;
    rows.extend(bench.runtime.block_on(files(bench, TEN, EACH, 64.0))?);
    rows.extend(bench.runtime.block_on(files(bench, 1, LARGE, 32.0))?);
    rows.extend(bench.runtime.block_on(waiting(bench))?);
    Ok(rows)
}

/// A boosted server with a channel for each person, and the product that listens there.
struct DiscordHarness {
    discord: FakeDiscord,
    channels: Vec<u64>,
    satchel: ChildProcess,
}

impl DiscordHarness {
    async fn open(bench: &BenchRunner, data_dir: &Path, channels: usize, model: Model) -> Result<Self> {
        let discord = server().await?;
        let guild = discord.guild(1, "Home", Tier::Three);
        discord.person(PERSON, "Somebody");
        let channels = (100..).take(channels).map(|id| discord.channel(guild, id, &format!("room-{id}"))).collect();
        let product = Product {
            data_dir: data_dir.to_owned(),
            platform: discord.api_url(),
            capabilities: ChannelCapabilities { rate_limits: None, ..tables::discord() },
            model,
            adapter: ChannelAdapter::Discord,
        };
        let harness = Self { channels, satchel: product.start(bench)?, discord };
        is_listened_to(&harness.discord).await?;
        Ok(harness)
    }

    /// Says something and waits for the bot's `nth` message since the start.
    async fn send_and_wait(&self, channel: u64, nth: u64) -> Result<Duration> {
        let replied = self.discord.on_nth(SEND, nth, RequestPhase::Performed);
        let said = Instant::now();
        self.discord.person_says(channel, PERSON, "again");
        match tokio::time::timeout(PATIENCE, replied).await {
            Ok(Ok(())) => Ok(said.elapsed()),
            _ => bail!("no reply came; the channels show\n{}", self.discord.transcript()),
        }
    }
}

const PERSON: u64 = 5;

async fn server() -> Result<FakeDiscord> {
    let rules = DiscordRules { keeps_connections: true, ..DiscordRules::unpaced() };
    FakeDiscord::start(rules).await.context("no server could be started")
}

async fn is_listened_to(discord: &FakeDiscord) -> Result<()> {
    let listened = async {
        while discord.gateway().connected() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listened).await.context("it does not come to the gateway")
}

async fn turns(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let answer =
        ScriptedAnswer { pieces: vec![ScriptedPiece::Text("A short reply.".into())], ..ScriptedAnswer::default() };
    let model = Model::Scripted(ModelScript { pick: AnswerOrder::ByProgress, answers: vec![answer] });
    let harness = DiscordHarness::open(bench, directory.path(), 1, model).await?;
    let says = async |nth| harness.send_and_wait(harness.channels[0], nth).await;
    let overhead = Overhead::of(&harness.satchel, directory.path(), says).await?;
    harness.satchel.end()?;
    Ok(overhead.rows("discord, text turn"))
}

/// Files at once, each in a channel of its own, saved and sent back.
async fn files(bench: &BenchRunner, count: usize, bytes: u64, bar: f64) -> Result<[ResultRow; 2]> {
    let directory = bench.directory()?;
    let file = |seed| FakeFile::generated(format!("{seed}.bin"), "application/octet-stream", seed, bytes);
    let files: Vec<FakeFile> = (0..count as u64).map(file).collect();
    let harness = DiscordHarness::open(bench, directory.path(), count, Model::Offline).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = harness.satchel.peak()?;
    let mut said = Instant::now();
    for (number, (channel, file)) in harness.channels.iter().zip(&files).enumerate() {
        let words = "save this as kept.bin and send it back";
        harness.discord.person_sends(*channel, PERSON, words, vec![file.clone()]);
        if number == 0 {
            said = Instant::now();
        }
    }
    let all_came = async {
        loop {
            let transcript = harness.discord.transcript();
            if harness.channels.iter().all(|channel| !transcript.files(*channel).is_empty()) {
                return transcript;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let transcript = tokio::time::timeout(PATIENCE, all_came).await.context("a file did not come back")?;
    let (took, extra) = (said.elapsed(), harness.satchel.peak()?.saturating_sub(idle));
    for (channel, file) in harness.channels.iter().zip(&files) {
        let came = transcript.files(*channel);
        ensure!(came.len() == 1 && came[0].sha256 == file.sha256(), "a file is not what was sent:\n{transcript}");
    }
    harness.satchel.end()?;
    let what = format!("discord: {count} of {} MB in and out", bytes / 1_000_000);
    Ok([
        ResultRow::new(format!("{what}, extra memory"), mib(extra), "MiB").at_most(bar).note("all intact"),
        ResultRow::new(what, rate(bytes * count as u64, took), "MB/s"),
    ])
}

/// From its start to its place at the gateway; and what it costs to be on Telegram, Discord and the web while nobody
/// writes.
async fn waiting(bench: &BenchRunner) -> Result<[ResultRow; 3]> {
    let (directory, discord) = (bench.directory()?, server().await?);
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
        let greeted = discord.gateway().report();
        let before = greeted.identifies + greeted.resumes;
        let begun = Instant::now();
        last = Some(start()?);
        let there = async {
            loop {
                let report = discord.gateway().report();
                if report.identifies + report.resumes > before {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, there).await.context("it does not come to the gateway")?;
        if round > 0 {
            times.push(begun.elapsed());
        }
    }
    let satchel = last.context("it was started")?;
    tokio::time::sleep(SETTLED).await;
    let before = satchel.cpu()?;
    tokio::time::sleep(WATCHED).await;
    let used = satchel.cpu()? - before;
    Ok([
        ResultRow::new("discord: start to the gateway", ms(median(&times)), "ms").at_most(100.0),
        ResultRow::new("discord: idle memory (PSS) with Telegram and web", mib(satchel.proportional_set()?), "MiB")
            .at_most(40.0),
        ResultRow::new(
            "discord: idle processor with Telegram and web",
            used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0,
            "%",
        )
        .at_most(0.1),
    ])
}
