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
    process::ChildProcess,
    product::ModelChoice,
    statistics::{median, median_of_three, to_f64, to_mib, to_ms},
    table::ResultRow,
    telegram_harness::{TelegramHarness, start_default_server},
};

/// Conversations at once, what the model thinks in each, and how long they go on.
const CHATS: usize = 50;
const MODEL_DELAY: Duration = Duration::from_millis(100);
const TURNS_PER_CHAT: usize = 60;

/// Starts whose time is taken.
const STARTS: usize = 15;

/// Until everything of the start is over, and long enough that a tenth of a percent is two of the scheduler's ticks.
const SETTLE_DELAY: Duration = Duration::from_secs(12);
const IDLE_PERIOD: Duration = Duration::from_secs(20);

/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let turns = median_of_three(|| bench.runtime.block_on(measure_throughput(bench)))?;
    let ideal = to_f64(CHATS as u64) / MODEL_DELAY.as_secs_f64();
    let throughput_row = ResultRow::new("telegram: 50 conversations, model 100 ms", turns, "/s").with_limit(ideal);
    let mut rows = vec![throughput_row.with_min_ratio(0.9).with_note("the middle of three")];
    rows.extend(bench.runtime.block_on(measure_idle(bench))?);
    Ok(rows)
}

/// The real `satchel run` with nothing but a bot.
fn start_satchel(bench: &BenchRunner, directory: &Path, telegram: &FakeTelegram) -> Result<ChildProcess> {
    let mut satchel = Command::new(&bench.satchel);
    satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.join("data").display())]);
    satchel.args(["--set", "web.listen=off", "--set", &format!("telegram.api_url={}", telegram.api_url())]);
    satchel.current_dir(directory).env_clear().env("HOME", directory).env("SATCHEL_TELEGRAM__TOKEN", telegram.token());
    ChildProcess::start(&mut satchel)
}

/// From its start to its first poll, and what it costs while nobody writes.
async fn measure_idle(bench: &BenchRunner) -> Result<[ResultRow; 3]> {
    let (directory, telegram) = (bench.directory()?, start_default_server().await?);
    // The first start makes the data directory and is left out.
    let (mut times, mut last) = (Vec::new(), None);
    for start in 0..=STARTS {
        // The one before it, if there is one, is gone before this one polls.
        drop(last.take());
        let first_poll = telegram.on_nth("getUpdates", telegram.requests("getUpdates") + 1, RequestPhase::Arrived);
        let started_at = Instant::now();
        last = Some(start_satchel(bench, directory.path(), &telegram)?);
        tokio::time::timeout(REPLY_TIMEOUT, first_poll).await.context("it does not poll")??;
        if start > 0 {
            times.push(started_at.elapsed());
        }
    }
    let satchel = last.context("it was started")?;
    tokio::time::sleep(SETTLE_DELAY).await;
    let before = satchel.cpu_time()?;
    tokio::time::sleep(IDLE_PERIOD).await;
    let cpu_time = satchel.cpu_time()? - before;
    Ok([
        ResultRow::new("telegram: start to the first poll", to_ms(median(&times)), "ms").with_max(100.0),
        ResultRow::new("telegram: idle memory (PSS)", to_mib(satchel.proportional_memory()?), "MiB").with_max(25.0),
        ResultRow::new("telegram: idle processor", cpu_time.as_secs_f64() / IDLE_PERIOD.as_secs_f64() * 100.0, "%")
            .with_max(0.1),
    ])
}

fn scripted_model(pieces: Vec<ScriptedPiece>) -> ModelChoice {
    let answer = ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    ModelChoice::Scripted(ModelScript { pick: AnswerOrder::ByProgress, answers: vec![answer] })
}

/// Turns a second where each person says the next thing as soon as they are answered.
async fn measure_throughput(bench: &BenchRunner) -> Result<f64> {
    let directory = bench.directory()?;
    let delay = ScriptedPiece::WaitMs(u64::try_from(MODEL_DELAY.as_millis())?);
    let model = scripted_model(vec![delay, ScriptedPiece::Text("A short reply.".into())]);
    let harness = TelegramHarness::open(bench, directory.path(), TelegramRules::default(), CHATS, model).await?;
    harness.send_and_wait("warm up", "sendMessage", 1).await?;
    let turns = (CHATS * TURNS_PER_CHAT) as u64;
    // Each is waited for before it can come: nobody says more than one thing that is not answered.
    let mut future_replies = (2..).map(|nth| harness.telegram.on_nth("sendMessage", nth, RequestPhase::Performed));
    let mut replies: VecDeque<_> = future_replies.by_ref().take(2 * CHATS).collect();
    let mut answered = HashMap::new();
    let started_at = Instant::now();
    harness.people.iter().for_each(|person| harness.send(*person));
    for _ in 0..turns {
        replies.extend(future_replies.next());
        let reply = replies.pop_front().context("there is always one more")?;
        tokio::time::timeout(REPLY_TIMEOUT, reply).await.context("somebody is not answered")??;
        for (person, chat) in harness.telegram.pace().chats {
            let accepted = answered.entry(person).or_insert(u64::from(person == harness.people[0]));
            if chat.accepted > *accepted {
                *accepted = chat.accepted;
                harness.send(person);
            }
        }
    }
    let took = started_at.elapsed();
    harness.satchel.stop()?;
    Ok(to_f64(turns) / took.as_secs_f64())
}
