//! Scripts: what one costs in a worker of its own, many of them, and the memory of the workers that wait.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use futures::future::join_all;
use satchel_domain::WorkShare;
use satchel_ports::{
    ByteStream, HostFunctions, ScriptHost, ScriptRequest,
    script_host::{FunctionCall, NewScriptFile},
};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    BenchRunner,
    statistics::{median, percentile, to_mib, to_ms},
    table::ResultRow,
};

const TINY_SCRIPT: &str = "x = 1 + 2\nreturn f\"v {x}\"";
const CALLING_SCRIPT: &str = "t = 0\nfor i in range(50):\n    t += len(look(n=i))\nreturn t";

/// Scripts whose time is taken one by one, and those before them that are not counted.
const SCRIPTS: usize = 200;
const WARM_UP_SCRIPTS: usize = 10;

/// Between two of them, so that a worker waits again, as it does in a chat.
const PAUSE: Duration = Duration::from_millis(60);

/// How long scripts are run without a pause.
const SUSTAINED_PERIOD: Duration = Duration::from_secs(8);

/// How many are asked for at once, of how many conversations.
const MAX_CONCURRENT_SCRIPTS: usize = 200;
const CONVERSATIONS: usize = 20;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let worker = bench.satchel.with_file_name("satchel-script");
    ensure!(worker.is_file(), "`{}` is missing; `cargo xtask bench` builds it", worker.display());
    bench.runtime.block_on(measure_rows(&worker))
}

async fn measure_rows(worker: &Path) -> Result<Vec<ResultRow>> {
    let pool = WorkerPool::new(ScriptPoolSettings::new(worker.to_owned()));
    let tiny = measure_each(&pool, TINY_SCRIPT, &json!("v 3")).await?;
    let idle_memory = worker_memory().context("the workers' memory can't be read")?;
    let fifty = measure_each(&pool, CALLING_SCRIPT, &json!(100)).await?;
    let sustained_rate = measure_sustained(&pool).await?;
    let concurrent_rate = measure_concurrent(&pool).await?;
    Ok(vec![
        ResultRow::new("scripts: tiny, warm, p50", to_ms(median(&tiny)), "ms").with_max(2.0),
        ResultRow::new("scripts: tiny, warm, p99", to_ms(percentile(&tiny, 99)), "ms"),
        ResultRow::new("scripts: 50 host calls, p50", to_ms(median(&fifty)), "ms").with_max(10.0),
        ResultRow::new("scripts: a second, workers replaced", sustained_rate, "").with_limit(50.0).with_min_ratio(1.0),
        ResultRow::new(format!("scripts: {MAX_CONCURRENT_SCRIPTS} at once, a second"), concurrent_rate, ""),
        ResultRow::new("scripts: memory (PSS) of the two workers that wait", to_mib(idle_memory), "MiB"),
    ])
}

/// How long each of many runs takes.
async fn measure_each(pool: &WorkerPool, source: &str, expected: &Value) -> Result<Vec<Duration>> {
    let mut durations = Vec::new();
    for n in 0..WARM_UP_SCRIPTS + SCRIPTS {
        let started_at = Instant::now();
        run_script(pool, source, "bench:one", expected).await?;
        if n >= WARM_UP_SCRIPTS {
            durations.push(started_at.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(durations)
}

/// Scripts a second, each of two conversations running one after the other.
async fn measure_sustained(pool: &WorkerPool) -> Result<f64> {
    let started_at = Instant::now();
    let lane = async |conversation: &str| {
        let mut done = 0_u32;
        while started_at.elapsed() < SUSTAINED_PERIOD {
            run_script(pool, TINY_SCRIPT, conversation, &json!("v 3")).await?;
            done += 1;
        }
        anyhow::Ok(done)
    };
    let (one, other) = tokio::join!(lane("bench:a"), lane("bench:b"));
    Ok(f64::from(one? + other?) / started_at.elapsed().as_secs_f64())
}

async fn measure_concurrent(pool: &WorkerPool) -> Result<f64> {
    let started_at = Instant::now();
    let expected = json!("v 3");
    let names: Vec<String> = (0..CONVERSATIONS).map(|n| format!("bench:{n}")).collect();
    let all = (0..MAX_CONCURRENT_SCRIPTS).map(|n| run_script(pool, TINY_SCRIPT, &names[n % CONVERSATIONS], &expected));
    for outcome in join_all(all).await {
        outcome?;
    }
    Ok(MAX_CONCURRENT_SCRIPTS as f64 / started_at.elapsed().as_secs_f64())
}

async fn run_script(pool: &WorkerPool, source: &str, conversation: &str, expected: &Value) -> Result<()> {
    let script = ScriptRequest {
        source: source.to_owned(),
        globals: serde_json::Map::new(),
        work_share: WorkShare::from_conversation(conversation.parse().context("a conversation's name")?),
        time_limit: Duration::from_secs(60),
    };
    let evaluation = pool.run(&script, &StubHost, &CancellationToken::new()).await;
    match evaluation.value {
        Ok(value) if value == *expected => Ok(()),
        other => bail!("{source:?} came to {other:?}"),
    }
}

/// A world that answers at once.
struct StubHost;

#[async_trait]
impl HostFunctions for StubHost {
    fn functions(&self) -> Vec<String> {
        vec!["look".to_owned()]
    }

    async fn call(&self, _: FunctionCall) -> Result<Value, String> {
        Ok(json!("ok"))
    }

    async fn create(&self, _: NewScriptFile, _: ByteStream) -> Result<Value, String> {
        Err("no files here".to_owned())
    }
}

/// The memory of this process's workers in bytes; what they share is counted once.
fn worker_memory() -> Result<u64> {
    let own = std::process::id().to_string();
    let mut kibibytes = 0_u64;
    for process in fs::read_dir("/proc")? {
        let path = process?.path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        if stat.contains("(satchel-script)") && parent == Some(own.as_str()) {
            let memory = fs::read_to_string(path.join("smaps_rollup"))?;
            let pss = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
            let pss = pss.and_then(|pss| pss.trim().strip_suffix(" kB")).context("no figure")?;
            kibibytes += pss.parse::<u64>()?;
        }
    }
    Ok(kibibytes * 1_024)
}
