//! The same turns and files through Telegram's own adapter, against a strict Bot API server in this process.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use satchel_domain::{ChannelCapabilities, ChannelName};
use satchel_fakes::{
    FakeFile, Moment,
    telegram::{Composed, FakeTelegram, FileKind, TelegramRules},
};
use satchel_local::scripted_model::{Pick, Piece, Script, ScriptedAnswer};
use satchel_routing::tables;
use satchel_system::crash::Front;

use crate::{
    Bench,
    figures::{median, mib, middle_of_three, ms, number, rate},
    overhead::Overhead,
    process::Running,
    product::{Model, Product},
    table::Row,
};

/// Conversations at once, what the model thinks in each, and how long they go on.
const CHATS: usize = 50;
const THOUGHT: Duration = Duration::from_millis(100);
const ROUNDS: usize = 60;

/// Files at once, just below what Telegram's servers give out.
const TEN: usize = 10;
const EACH: u64 = 20_000_000;

/// Starts whose time is taken.
const STARTS: usize = 15;

/// Until everything of the start is over, and long enough that a tenth of a percent is two of the scheduler's ticks.
const SETTLED: Duration = Duration::from_secs(12);
const WATCHED: Duration = Duration::from_secs(20);

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = bench.runtime.block_on(turns(bench))?;
    let turns = middle_of_three(|| bench.runtime.block_on(throughput(bench)))?;
    let ideal = number(CHATS as u64) / THOUGHT.as_secs_f64();
    let together = Row::new("telegram: 50 conversations, model 100 ms", turns, "/s").limit(ideal);
    rows.push(together.ratio_at_least(0.9).note("the middle of three"));
    rows.extend(bench.runtime.block_on(files(bench))?);
    rows.extend(bench.runtime.block_on(waiting(bench))?);
    Ok(rows)
}

/// People who each have a chat with the bot.
struct Stage {
    telegram: FakeTelegram,
    people: Vec<i64>,
    satchel: Running,
}

impl Stage {
    async fn open(bench: &Bench, data_dir: &Path, people: usize, model: Model) -> Result<Self> {
        let telegram = server().await?;
        let ids = (1..).take(people).map(|id| telegram.person(id, "Somebody"));
        let people = ids
            .inspect(|id| {
                telegram.private_chat(*id);
            })
            .collect();
        let product = Product {
            data_dir: data_dir.to_owned(),
            platform: telegram.api_url(),
            channel: ChannelName::new("telegram")?,
            capabilities: ChannelCapabilities { rate_limits: None, ..tables::telegram() },
            model,
            front: Front::Telegram,
        };
        Ok(Self { people, satchel: product.start(bench)?, telegram })
    }

    fn asks(&self, person: i64) {
        self.telegram.person_says(person, person, "again");
    }

    /// Says something and waits for so many calls of a method, all of them since the start counted.
    async fn says(&self, person: i64, composed: impl Into<Composed>, method: &str, nth: u64) -> Result<Duration> {
        let replied = self.telegram.on_nth(method, nth, Moment::Performed);
        let said = Instant::now();
        self.telegram.person_sends(person, person, composed);
        match tokio::time::timeout(PATIENCE, replied).await {
            Ok(Ok(())) => Ok(said.elapsed()),
            _ => bail!("no reply came; the chats show\n{}", self.telegram.transcript()),
        }
    }
}

async fn server() -> Result<FakeTelegram> {
    let rules = TelegramRules { keeps_connections: true, ..TelegramRules::default() };
    FakeTelegram::start(rules).await.context("no server could be started")
}

/// The real `satchel run` with nothing but a bot.
fn run(bench: &Bench, directory: &Path, telegram: &FakeTelegram) -> Result<Running> {
    let mut satchel = Command::new(&bench.satchel);
    satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.join("data").display())]);
    satchel.args(["--set", "web.listen=off", "--set", &format!("telegram.api_url={}", telegram.api_url())]);
    satchel.current_dir(directory).env_clear().env("HOME", directory).env("SATCHEL_TELEGRAM__TOKEN", telegram.token());
    Running::start(&mut satchel)
}

/// From its start to its first poll, and what it costs while nobody writes.
async fn waiting(bench: &Bench) -> Result<[Row; 3]> {
    let (directory, telegram) = (bench.directory()?, server().await?);
    // The first start makes the data directory and is left out.
    let (mut times, mut last) = (Vec::new(), None);
    for start in 0..=STARTS {
        // The one before it, if there is one, is gone before this one polls.
        drop(last.take());
        let polled = telegram.on_nth("getUpdates", telegram.requests("getUpdates") + 1, Moment::Arrived);
        let begun = Instant::now();
        last = Some(run(bench, directory.path(), &telegram)?);
        tokio::time::timeout(PATIENCE, polled).await.context("it does not poll")??;
        if start > 0 {
            times.push(begun.elapsed());
        }
    }
    let satchel = last.context("it was started")?;
    tokio::time::sleep(SETTLED).await;
    let before = satchel.cpu()?;
    tokio::time::sleep(WATCHED).await;
    let used = satchel.cpu()? - before;
    Ok([
        Row::new("telegram: start to the first poll", ms(median(&times)), "ms").at_most(100.0),
        Row::new("telegram: idle memory (PSS)", mib(satchel.proportional_set()?), "MiB").at_most(25.0),
        Row::new("telegram: idle processor", used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0, "%").at_most(0.1),
    ])
}

fn answering(pieces: Vec<Piece>) -> Model {
    let answer = ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    Model::Scripted(Script { pick: Pick::ByProgress, answers: vec![answer] })
}

async fn turns(bench: &Bench) -> Result<Vec<Row>> {
    let directory = bench.directory()?;
    let stage = Stage::open(bench, directory.path(), 1, answering(vec![Piece::Text("A short reply.".into())])).await?;
    let says = async |nth| stage.says(1, "one part", "sendMessage", nth).await;
    let overhead = Overhead::of(&stage.satchel, directory.path(), says).await?;
    stage.satchel.end()?;
    Ok(overhead.rows("telegram, text turn"))
}

/// Turns a second where each person says the next thing as soon as they are answered.
async fn throughput(bench: &Bench) -> Result<f64> {
    let directory = bench.directory()?;
    let thought = Piece::WaitMs(u64::try_from(THOUGHT.as_millis())?);
    let model = answering(vec![thought, Piece::Text("A short reply.".into())]);
    let stage = Stage::open(bench, directory.path(), CHATS, model).await?;
    stage.says(stage.people[0], "warm up", "sendMessage", 1).await?;
    let turns = (CHATS * ROUNDS) as u64;
    // Each is waited for before it can come: nobody says more than one thing that is not answered.
    let mut to_come = (2..).map(|nth| stage.telegram.on_nth("sendMessage", nth, Moment::Performed));
    let mut replies: VecDeque<_> = to_come.by_ref().take(2 * CHATS).collect();
    let mut answered = HashMap::new();
    let begun = Instant::now();
    stage.people.iter().for_each(|person| stage.asks(*person));
    for _ in 0..turns {
        replies.extend(to_come.next());
        let reply = replies.pop_front().context("there is always one more")?;
        tokio::time::timeout(PATIENCE, reply).await.context("somebody is not answered")??;
        for (person, chat) in stage.telegram.pace().chats {
            let known = answered.entry(person).or_insert(u64::from(person == stage.people[0]));
            if chat.accepted > *known {
                *known = chat.accepted;
                stage.asks(person);
            }
        }
    }
    let took = begun.elapsed();
    stage.satchel.end()?;
    Ok(number(turns) / took.as_secs_f64())
}

/// Ten files of 20 MB, each in a chat of its own, saved and sent back.
async fn files(bench: &Bench) -> Result<[Row; 2]> {
    let directory = bench.directory()?;
    let file = |seed| FakeFile::generated(format!("{seed}.bin"), "application/octet-stream", seed, EACH);
    let files: Vec<FakeFile> = (0..TEN as u64).map(file).collect();
    let stage = Stage::open(bench, directory.path(), TEN, Model::Offline).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = stage.satchel.peak()?;
    // Whoever sends a file has it; its digest, which the server takes now, is not Satchel's time.
    let sent: Vec<_> =
        (1..=TEN as u64).map(|nth| stage.telegram.on_nth("sendDocument", nth, Moment::Performed)).collect();
    let mut said = Instant::now();
    for (number, (person, file)) in stage.people.iter().zip(&files).enumerate() {
        let composed =
            Composed::file(FileKind::Document, file.clone()).caption("save this as kept.bin and send it back");
        stage.telegram.person_sends(*person, *person, composed);
        if number == 0 {
            said = Instant::now();
        }
    }
    for sent in sent {
        tokio::time::timeout(PATIENCE, sent).await.context("a file did not come back")??;
    }
    let (took, extra) = (said.elapsed(), stage.satchel.peak()?.saturating_sub(idle));
    let transcript = stage.telegram.transcript();
    for (person, file) in stage.people.iter().zip(&files) {
        let came = transcript.files(*person);
        ensure!(came.len() == 1 && came[0].sha256 == file.sha256(), "a file is not what was sent:\n{transcript}");
    }
    stage.satchel.end()?;
    Ok([
        Row::new("telegram: ten of 20 MB in and out, extra memory", mib(extra), "MiB").at_most(64.0).note("all intact"),
        Row::new("telegram: ten of 20 MB in and out", rate(EACH * TEN as u64, took), "MB/s"),
    ])
}
