//! Many conversations on Telegram at once; and what it costs to be there while nobody writes.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use satchel_fake_kit::RequestPhase;
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_local::scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece};

use crate::{
    BenchRunner,
    figures::{median, mib, middle_of_three, ms, number},
    process::ChildProcess,
    product::Model,
    table::ResultRow,
    telegram_harness::{TelegramHarness, server},
};

/// Conversations at once, what the model thinks in each, and how long they go on.
const CHATS: usize = 50;
const THOUGHT: Duration = Duration::from_millis(100);
const ROUNDS: usize = 60;

/// Starts whose time is taken.
const STARTS: usize = 15;

/// Until everything of the start is over, and long enough that a tenth of a percent is two of the scheduler's ticks.
const SETTLED: Duration = Duration::from_secs(12);
const WATCHED: Duration = Duration::from_secs(20);

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let turns = middle_of_three(|| bench.runtime.block_on(throughput(bench)))?;
    let ideal = number(CHATS as u64) / THOUGHT.as_secs_f64();
    let together = ResultRow::new("telegram: 50 conversations, model 100 ms", turns, "/s").limit(ideal);
    let mut rows = vec![together.ratio_at_least(0.9).note("the middle of three")];
    rows.extend(bench.runtime.block_on(waiting(bench))?);
    Ok(rows)
}

/// The real `satchel run` with nothing but a bot.
fn run(bench: &BenchRunner, directory: &Path, telegram: &FakeTelegram) -> Result<ChildProcess> {
    let mut satchel = Command::new(&bench.satchel);
    satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.join("data").display())]);
    satchel.args(["--set", "web.listen=off", "--set", &format!("telegram.api_url={}", telegram.api_url())]);
    satchel.current_dir(directory).env_clear().env("HOME", directory).env("SATCHEL_TELEGRAM__TOKEN", telegram.token());
    ChildProcess::start(&mut satchel)
}

/// From its start to its first poll, and what it costs while nobody writes.
async fn waiting(bench: &BenchRunner) -> Result<[ResultRow; 3]> {
    let (directory, telegram) = (bench.directory()?, server().await?);
    // The first start makes the data directory and is left out.
    let (mut times, mut last) = (Vec::new(), None);
    for start in 0..=STARTS {
        // The one before it, if there is one, is gone before this one polls.
        drop(last.take());
        let polled = telegram.on_nth("getUpdates", telegram.requests("getUpdates") + 1, RequestPhase::Arrived);
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
        ResultRow::new("telegram: start to the first poll", ms(median(&times)), "ms").at_most(100.0),
        ResultRow::new("telegram: idle memory (PSS)", mib(satchel.proportional_set()?), "MiB").at_most(25.0),
        ResultRow::new("telegram: idle processor", used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0, "%")
            .at_most(0.1),
    ])
}

fn answering(pieces: Vec<ScriptedPiece>) -> Model {
    let answer = ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    Model::Scripted(ModelScript { pick: AnswerOrder::ByProgress, answers: vec![answer] })
}

/// Turns a second where each person says the next thing as soon as they are answered.
async fn throughput(bench: &BenchRunner) -> Result<f64> {
    let directory = bench.directory()?;
    let thought = ScriptedPiece::WaitMs(u64::try_from(THOUGHT.as_millis())?);
    let model = answering(vec![thought, ScriptedPiece::Text("A short reply.".into())]);
    let harness = TelegramHarness::open(bench, directory.path(), TelegramRules::default(), CHATS, model).await?;
    harness.send_and_wait("warm up", "sendMessage", 1).await?;
    let turns = (CHATS * ROUNDS) as u64;
    // Each is waited for before it can come: nobody says more than one thing that is not answered.
    let mut to_come = (2..).map(|nth| harness.telegram.on_nth("sendMessage", nth, RequestPhase::Performed));
    let mut replies: VecDeque<_> = to_come.by_ref().take(2 * CHATS).collect();
    let mut answered = HashMap::new();
    let begun = Instant::now();
    harness.people.iter().for_each(|person| harness.send(*person));
    for _ in 0..turns {
        replies.extend(to_come.next());
        let reply = replies.pop_front().context("there is always one more")?;
        tokio::time::timeout(PATIENCE, reply).await.context("somebody is not answered")??;
        for (person, chat) in harness.telegram.pace().chats {
            let known = answered.entry(person).or_insert(u64::from(person == harness.people[0]));
            if chat.accepted > *known {
                *known = chat.accepted;
                harness.send(person);
            }
        }
    }
    let took = begun.elapsed();
    harness.satchel.end()?;
    Ok(number(turns) / took.as_secs_f64())
}
