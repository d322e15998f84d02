//! Several machines on one: what a turn costs on PostgreSQL beside SQLite, and how much more three agents do than one.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use satchel_fake_kit::RequestPhase;
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_servers::{
    nats::NatsServer,
    postgres::{PostgresServer, TestDatabase},
};
use tempfile::TempDir;

use crate::{
    BenchRunner,
    process::ChildProcess,
    statistics::{percentile, to_f64, to_ms},
    table::ResultRow,
};

/// Turns whose time is taken, and those before them that are not counted.
const TURNS: usize = 200;
const WARM_UP_TURNS: usize = 20;

/// People who talk at once: as many as three agents take, each of which works on 256 conversations at a time.
const PEOPLE: usize = 3 * CONVERSATIONS_PER_AGENT;
const CONVERSATIONS_PER_AGENT: usize = 256;

/// What the model takes for a turn: so long that this machine, on which all of it runs, has time to spare. And how many
/// turns each person has.
const MODEL_DELAY: Duration = Duration::from_secs(10);
const TURNS_PER_PERSON: usize = 2;

/// How soon people notice that they are answered.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a reply may take, and all of them.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const LOAD_TIMEOUT: Duration = Duration::from_secs(240);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    bench.runtime.block_on(async {
        let sqlite = measure_turns(bench, "{}").await?;
        let server = durable_server().await.map_err(|lacking| anyhow!(lacking))?;
        let database = create_database(&server).await?;
        let postgres = measure_turns(bench, &format!("{{ database_url: '{}' }}", database.url())).await?;
        let one = measure_agents(bench, &server, 1).await?;
        let three = measure_agents(bench, &server, 3).await?;
        let load = format!("{PEOPLE} people, model {} s; limit: an ideal scheduler", MODEL_DELAY.as_secs());
        let ideal = to_f64(CONVERSATIONS_PER_AGENT as u64) / MODEL_DELAY.as_secs_f64();
        Ok(vec![
            ResultRow::new("cluster: text turn on SQLite p50", sqlite, "ms"),
            ResultRow::new("cluster: text turn on PostgreSQL p50", postgres, "ms")
                .with_limit(sqlite)
                .with_note("beside SQLite, with all processes on one machine"),
            ResultRow::new("cluster: one agent", one, "turns/s").with_limit(ideal).with_note(load),
            ResultRow::new("cluster: three agents", three, "turns/s")
                .with_limit(3.0 * one)
                .with_min_ratio(0.8)
                .with_note("limit: three times one"),
        ])
    })
}

async fn durable_server() -> Result<PostgresServer, String> {
    let server = PostgresServer::start_private().await?;
    server.turn_on_durability().await?;
    Ok(server)
}

async fn create_database(server: &PostgresServer) -> Result<TestDatabase> {
    server.create_database().await.map_err(|lacking| anyhow!(lacking))
}

/// People on a platform with a model, and processes of Satchel.
struct BenchCluster {
    telegram: FakeTelegram,
    model: FakeModelServer,
    directory: TempDir,
    processes: Vec<ChildProcess>,
}

impl BenchCluster {
    async fn open(bench: &BenchRunner, people: usize, settings: &str) -> Result<Self> {
        let rules = TelegramRules { keeps_connections: true, ..TelegramRules::default() };
        let telegram = FakeTelegram::start(rules).await.context("no server could be started")?;
        let model = FakeModelServer::start().await.context("no server could be started")?;
        let directory = bench.directory()?;
        let people: Vec<String> = (1..).take(people).map(|person| format!("'{person}'")).collect();
        for person in 1..=people.len() as i64 {
            telegram.private_chat(telegram.person(person, "Somebody"));
        }
        let wire = ModelWire::OpenAiChat;
        let config = format!(
            "telegram: {{ token: '{}', api_url: '{}', owners: [{}] }}\ndelivery: {{ pace: off }}\nweb: {{ listen: off }}\n\
             model: fake\nmodels: {{ fake: {{ provider: openai, base_url: '{}', api_key: '{}', model: '{}' }} }}\n{settings}",
            telegram.token(),
            telegram.api_url(),
            people.join(", "),
            model.base_url(wire),
            FakeModelServer::KEY,
            wire.model(),
        );
        std::fs::write(directory.path().join("satchel.yaml"), config)?;
        Ok(Self { telegram, model, directory, processes: Vec::new() })
    }

    fn start(&mut self, bench: &BenchRunner, role: &str) -> Result<()> {
        let mut satchel = Command::new(&bench.satchel);
        satchel.args(["run", "--role", role]).current_dir(self.directory.path()).env_clear();
        self.processes.push(ChildProcess::start(satchel.env("HOME", self.directory.path()))?);
        Ok(())
    }

    /// Lets a person say something, and waits until so many messages came in all.
    async fn say_and_wait(&self, person: i64) -> Result<Duration> {
        let next = self.telegram.requests("sendMessage") + 1;
        let reply = self.telegram.on_nth("sendMessage", next, RequestPhase::Performed);
        let sent_at = Instant::now();
        self.say(person);
        match tokio::time::timeout(REPLY_TIMEOUT, reply).await {
            Ok(Ok(())) => Ok(sent_at.elapsed()),
            _ => bail!("no reply came; the chats show\n{}", self.telegram.transcript()),
        }
    }

    fn say(&self, person: i64) {
        self.telegram.person_says(person, person, "again");
    }

    /// How many messages each person has got.
    fn accepted(&self) -> Vec<u64> {
        let chats = self.telegram.pace().chats;
        (1..).take(PEOPLE).map(|person| chats.get(&person).map_or(0, |chat| chat.accepted)).collect()
    }
}

/// The time of a turn of one process that does everything, in milliseconds.
async fn measure_turns(bench: &BenchRunner, storage: &str) -> Result<f64> {
    let mut cluster = BenchCluster::open(bench, 1, &format!("storage: {storage}\n")).await?;
    cluster.model.reply(ModelReply::text("A short reply.").every_time());
    cluster.start(bench, "all")?;
    let mut times = Vec::new();
    for turn in 0..WARM_UP_TURNS + TURNS {
        let took = cluster.say_and_wait(1).await?;
        // Until its last part is settled.
        tokio::time::sleep(crate::overhead::SETTLE_DELAY).await;
        if turn >= WARM_UP_TURNS {
            times.push(took);
        }
    }
    Ok(to_ms(percentile(&times, 50)))
}

/// Turns a second of so many agents behind one gateway, where each person says the next thing once they are answered.
async fn measure_agents(bench: &BenchRunner, server: &PostgresServer, agents: usize) -> Result<f64> {
    let database = create_database(server).await?;
    let nats = NatsServer::start().await.map_err(|lacking| anyhow!(lacking))?;
    let settings = format!("storage: {{ database_url: '{}' }}\nbus: {{ url: '{}' }}\n", database.url(), nats.url());
    let mut cluster = BenchCluster::open(bench, PEOPLE, &settings).await?;
    let pieces = [ReplyPiece::Wait(MODEL_DELAY), ReplyPiece::Text("A short reply.".to_owned())];
    cluster.model.reply(ModelReply::pieces(pieces).every_time());
    cluster.start(bench, "gateway")?;
    for _ in 0..agents {
        cluster.start(bench, "agent")?;
    }
    cluster.say_and_wait(1).await?;

    let mut load = Load::new(&cluster);
    // Until everybody has been answered once, as many people wait as agents.
    load.run_until(PEOPLE).await?;
    let (started_at, before) = (Instant::now(), load.answers());
    load.run_until(PEOPLE + PEOPLE * TURNS_PER_PERSON).await?;
    Ok(to_f64(load.answers() - before) / started_at.elapsed().as_secs_f64())
}

/// People who begin one after the other, and say the next thing once they are answered.
struct Load<'a> {
    cluster: &'a BenchCluster,
    started_at: Instant,
    begun: usize,
    /// How many messages each has got.
    accepted: Vec<u64>,
    before: u64,
}

impl<'a> Load<'a> {
    fn new(cluster: &'a BenchCluster) -> Self {
        let accepted = cluster.accepted();
        let before = accepted.iter().sum();
        Self { cluster, started_at: Instant::now(), begun: 0, accepted, before }
    }

    fn answers(&self) -> u64 {
        self.accepted.iter().sum::<u64>() - self.before
    }

    async fn run_until(&mut self, answers: usize) -> Result<()> {
        while self.answers() < answers as u64 {
            if self.started_at.elapsed() > LOAD_TIMEOUT {
                bail!("not all are answered; the chats show\n{}", self.cluster.telegram.transcript());
            }
            // Not all at once, which would let the model answer all at once, too.
            let due = self.started_at.elapsed().as_millis() * PEOPLE as u128 / MODEL_DELAY.as_millis();
            while self.begun < PEOPLE && (self.begun as u128) < due {
                self.begun += 1;
                self.cluster.say(self.begun as i64);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            for (person, (before, now)) in (1..).zip(self.accepted.iter_mut().zip(self.cluster.accepted())) {
                if now > *before {
                    *before = now;
                    self.cluster.say(person);
                }
            }
        }
        Ok(())
    }
}
