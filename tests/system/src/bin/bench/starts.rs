//! How long the binary needs from its start to a first reply.

use std::{
    io::Read,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{
    BenchRunner,
    process::ChildProcess,
    statistics::{median, to_ms},
    table::ResultRow,
};

const RUNS: usize = 15;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    // The first start makes the data directory.
    measure_start(bench, directory.path())?;
    let mut with_data = Vec::new();
    let mut without_data = Vec::new();
    for _ in 0..RUNS {
        with_data.push(measure_start(bench, directory.path())?);
        without_data.push(measure_start(bench, bench.directory()?.path())?);
    }
    let row = |name: &str, times: Vec<Duration>| ResultRow::new(format!("start: {name}"), to_ms(median(&times)), "ms");
    let ((replied, exited), (first_replied, first_exited)) =
        (with_data.into_iter().unzip(), without_data.into_iter().unzip());
    Ok(vec![
        row("to a first reply", replied).with_max(150.0),
        row("to the end of `chat --once`", exited),
        row("to a first reply, no data yet", first_replied).with_max(150.0),
        row("to the end of `chat --once`, no data yet", first_exited),
    ])
}

/// Asks once; returns the time to the reply's first words and to the process's end.
fn measure_start(bench: &BenchRunner, directory: &Path) -> Result<(Duration, Duration)> {
    let started_at = Instant::now();
    let mut satchel = ChildProcess::start(chat_command(bench, directory).args(["--once", "hi"]))?;
    // What is piped in belongs to the message: nothing more comes.
    drop(satchel.child().stdin.take());
    let mut output = satchel.child().stdout.take().context("standard output is a pipe")?;
    let mut reply = vec![0; 1];
    output.read_exact(&mut reply).context("no reply came")?;
    let replied = started_at.elapsed();
    output.read_to_end(&mut reply)?;
    ensure!(reply.len() > 20, "the reply is only {} bytes", reply.len());
    let status = satchel.child().wait()?;
    ensure!(status.success(), "`satchel chat --once` failed ({status})");
    Ok((replied, started_at.elapsed()))
}

/// `satchel chat`, which knows nothing but this directory.
pub(crate) fn chat_command(bench: &BenchRunner, directory: &Path) -> Command {
    let mut satchel = Command::new(&bench.satchel);
    satchel.arg("chat").args(["--set", &format!("storage.data_dir={}", directory.join("data").display())]);
    satchel.current_dir(directory).env_clear().env("HOME", directory);
    satchel
}
