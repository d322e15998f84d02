//! How long after its time a schedule is answered: the real binary, a script that is due again and again, and a chat in
//! which nothing else happens.

use std::{
    fs,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use satchel_fake_kit::RequestPhase;

use crate::{
    BenchRunner,
    process::ChildProcess,
    statistics::{median, percentile, to_ms},
    table::ResultRow,
    telegram_harness::start_default_server,
};

/// Longer than a lane is held for nothing, and than it takes until somebody looks for work by chance.
const SCHEDULE_INTERVAL: Duration = Duration::from_secs(3);

/// Times that are measured, and those before them that are not: the first script starts the workers.
const MEASURED_RUNS: usize = 20;
const WARM_UP_RUNS: usize = 1;

/// How long an answer may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let worker = bench.satchel.with_file_name("satchel-script");
    ensure!(worker.is_file(), "`{}` is missing; `cargo xtask bench` builds it", worker.display());
    let delays = bench.runtime.block_on(measure_delays(bench))?;
    Ok(vec![
        ResultRow::new("schedules: due to its script's answer, p50", to_ms(median(&delays)), "ms").with_max(50.0),
        ResultRow::new("schedules: due to its script's answer, p99", to_ms(percentile(&delays, 99)), "ms"),
    ])
}

/// How long after each of its times a schedule's answer was there.
async fn measure_delays(bench: &BenchRunner) -> Result<Vec<Duration>> {
    let (directory, telegram) = (bench.directory()?, start_default_server().await?);
    let person = telegram.person(1, "Somebody");
    telegram.private_chat(person);
    let schedule = format!(
        "schedules:\n  tick: {{ cron: '*/{} * * * * *', timezone: UTC, conversation: 'telegram:{person}', script: 'return 1' }}\n",
        SCHEDULE_INTERVAL.as_secs()
    );
    fs::write(directory.path().join("satchel.yaml"), schedule).context("the configuration can't be written")?;
    let mut satchel = Command::new(&bench.satchel);
    satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.path().join("data").display())]);
    satchel.args(["--set", "web.listen=off", "--set", "delivery.pace=off"]);
    satchel.args(["--set", &format!("telegram.api_url={}", telegram.api_url())]);
    satchel.current_dir(directory.path()).env_clear().env("HOME", directory.path());
    let _satchel = ChildProcess::start(satchel.env("SATCHEL_TELEGRAM__TOKEN", telegram.token()))?;
    let mut delays = Vec::new();
    for nth in 1..=WARM_UP_RUNS + MEASURED_RUNS {
        let reply = telegram.on_nth("sendMessage", nth as u64, RequestPhase::Performed);
        let Ok(Ok(())) = tokio::time::timeout(REPLY_TIMEOUT, reply).await else {
            bail!("no answer came; the chats show\n{}", telegram.transcript());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("it is before 1970")?;
        if nth > WARM_UP_RUNS {
            delays.push(Duration::from_nanos(u64::try_from(now.as_nanos() % SCHEDULE_INTERVAL.as_nanos())?));
        }
    }
    Ok(delays)
}
