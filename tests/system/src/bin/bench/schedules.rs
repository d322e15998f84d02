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
    figures::{median, ms, percentile},
    process::ChildProcess,
    table::ResultRow,
    telegram_harness::server,
};

/// Longer than a lane is held for nothing, and than it takes until somebody looks for work by chance.
const EVERY: Duration = Duration::from_secs(3);

/// Times that are measured, and those before them that are not: the first script starts the workers.
const TIMES: usize = 20;
const WARM: usize = 1;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let worker = bench.satchel.with_file_name("satchel-script");
    ensure!(worker.is_file(), "`{}` is missing; `cargo xtask bench` builds it", worker.display());
    let late = bench.runtime.block_on(late(bench))?;
    Ok(vec![
        ResultRow::new("schedules: due to its script's answer, p50", ms(median(&late)), "ms").at_most(50.0),
        ResultRow::new("schedules: due to its script's answer, p99", ms(percentile(&late, 99)), "ms"),
    ])
}

/// How long after each of its times a schedule's answer was there.
async fn late(bench: &BenchRunner) -> Result<Vec<Duration>> {
    let (directory, telegram) = (bench.directory()?, server().await?);
    let person = telegram.person(1, "Somebody");
    telegram.private_chat(person);
    let schedule = format!(
        "schedules:\n  tick: {{ cron: '*/{} * * * * *', timezone: UTC, conversation: 'telegram:{person}', script: 'return 1' }}\n",
        EVERY.as_secs()
    );
    fs::write(directory.path().join("satchel.yaml"), schedule).context("the configuration can't be written")?;
    let mut satchel = Command::new(&bench.satchel);
    satchel.args(["run", "--set", &format!("storage.data_dir={}", directory.path().join("data").display())]);
    satchel.args(["--set", "web.listen=off", "--set", "delivery.pace=off"]);
    satchel.args(["--set", &format!("telegram.api_url={}", telegram.api_url())]);
    satchel.current_dir(directory.path()).env_clear().env("HOME", directory.path());
    let _satchel = ChildProcess::start(satchel.env("SATCHEL_TELEGRAM__TOKEN", telegram.token()))?;
    let mut late = Vec::new();
    for nth in 1..=WARM + TIMES {
        let answered = telegram.on_nth("sendMessage", nth as u64, RequestPhase::Performed);
        let Ok(Ok(())) = tokio::time::timeout(PATIENCE, answered).await else {
            bail!("no answer came; the chats show\n{}", telegram.transcript());
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("it is before 1970")?;
        if nth > WARM {
            late.push(Duration::from_nanos(u64::try_from(now.as_nanos() % EVERY.as_nanos())?));
        }
    }
    Ok(late)
}
