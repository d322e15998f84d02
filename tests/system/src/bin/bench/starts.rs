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
    figures::{median, ms},
    process::ChildProcess,
    table::ResultRow,
};

const RUNS: usize = 15;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let kept = bench.directory()?;
    // The first start makes the data directory.
    once(bench, kept.path())?;
    let mut again = Vec::new();
    let mut anew = Vec::new();
    for _ in 0..RUNS {
        again.push(once(bench, kept.path())?);
        anew.push(once(bench, bench.directory()?.path())?);
    }
    let row = |name: &str, times: Vec<Duration>| ResultRow::new(format!("start: {name}"), ms(median(&times)), "ms");
    let ((replied, exited), (replied_anew, exited_anew)) = (again.into_iter().unzip(), anew.into_iter().unzip());
    Ok(vec![
        row("to a first reply", replied).at_most(150.0),
        row("to the end of `chat --once`", exited),
        row("to a first reply, no data yet", replied_anew).at_most(150.0),
        row("to the end of `chat --once`, no data yet", exited_anew),
    ])
}

/// Asks once; returns the time to the reply's first words and to the process's end.
fn once(bench: &BenchRunner, directory: &Path) -> Result<(Duration, Duration)> {
    let begun = Instant::now();
    let mut satchel = ChildProcess::start(command(bench, directory).args(["--once", "hi"]))?;
    // What is piped in belongs to the message: nothing more comes.
    drop(satchel.child().stdin.take());
    let mut output = satchel.child().stdout.take().context("standard output is a pipe")?;
    let mut reply = vec![0; 1];
    output.read_exact(&mut reply).context("no reply came")?;
    let replied = begun.elapsed();
    output.read_to_end(&mut reply)?;
    ensure!(reply.len() > 20, "the reply is only {} bytes", reply.len());
    let status = satchel.child().wait()?;
    ensure!(status.success(), "`satchel chat --once` failed ({status})");
    Ok((replied, begun.elapsed()))
}

/// `satchel chat`, which knows nothing but this directory.
pub(crate) fn command(bench: &BenchRunner, directory: &Path) -> Command {
    let mut satchel = Command::new(&bench.satchel);
    satchel.arg("chat").args(["--set", &format!("storage.data_dir={}", directory.join("data").display())]);
    satchel.current_dir(directory).env_clear().env("HOME", directory);
    satchel
}
