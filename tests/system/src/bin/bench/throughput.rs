//! How many turns a second fifty conversations get, and how many of their commits share one fsync.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    BenchRunner,
    load::{self, LoadResult, LoadSettings},
    machine_limits::AppendFile,
    statistics::{median, median_of_three, to_f64, to_ms},
    table::ResultRow,
};

const CONVERSATIONS: usize = 50;

/// The commits of a text turn, when nobody else's share them: received, completed, settled.
const COMMITS_PER_TURN: f64 = 3.0;

/// How long a delayed fsync takes, in milliseconds.
const FSYNC_DELAY_MS: f64 = 5.0;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let mut disk = AppendFile::open(directory.path())?;
    let append = to_ms(median(&(0..200).map(|_| disk.measure_append()).collect::<Result<Vec<_>>>()?));
    let one_by_one = |fsync: f64| 1e3 / (COMMITS_PER_TURN * fsync);

    let per_second = |result: &LoadResult| to_f64(result.turns) / result.seconds;
    let slow = || measure_load(bench, Command::new(&bench.bench_binary), CONVERSATIONS, 40, 100);
    let slow = median_of_three(|| Ok(per_second(&slow()?)))?;
    let instant = measure_load(bench, Command::new(&bench.bench_binary), CONVERSATIONS, 40, 0)?;
    let alone = measure_load(bench, Command::new(&bench.bench_binary), 1, 200, 0)?;
    let delayed_run = measure_load(bench, delayed_fsync_command(bench), CONVERSATIONS, 20, 0);

    let commits = |result: &LoadResult| to_f64(result.commits) / to_f64(result.turns);
    let share = format!("{:.1} commits of turns share one fsync", COMMITS_PER_TURN / commits(&instant));
    let mut rows = vec![
        ResultRow::new("throughput: 50 conversations, model 100 ms", slow, "turns/s")
            .with_limit(to_f64(CONVERSATIONS as u64) * 10.0)
            .with_min_ratio(0.9)
            .with_note("the middle of three; limit: an ideal scheduler"),
        ResultRow::new("throughput: 50 conversations, instant model", per_second(&instant), "turns/s")
            .with_limit(one_by_one(append))
            .with_note("limit: 1 / 3 F, one commit at a time"),
        ResultRow::new("throughput: commits a turn, 50 conversations", commits(&instant), "").with_note(share),
        ResultRow::new("throughput: one conversation, instant model", per_second(&alone), "turns/s")
            .with_limit(one_by_one(append)),
        ResultRow::new("throughput: commits a turn, one conversation", commits(&alone), "").with_max(COMMITS_PER_TURN),
    ];
    const NAME: &str = "throughput: 50 conversations, fsync 5 ms";
    rows.push(match delayed_run {
        Ok(delayed) => ResultRow::new(NAME, per_second(&delayed), "turns/s")
            .with_limit(one_by_one(FSYNC_DELAY_MS))
            .with_min_ratio(5.0)
            .with_note("limit: one commit at a time; strace delays each fsync"),
        Err(error) => ResultRow::missing(NAME, format!("needs strace, which delays fsync: {error:#}")),
    });
    Ok(rows)
}

/// This binary, with every fsync of it delayed.
fn delayed_fsync_command(bench: &BenchRunner) -> Command {
    let mut strace = Command::new("strace");
    let delay = format!("inject=fsync,fdatasync:delay_exit={}", FSYNC_DELAY_MS * 1e3);
    strace.args(["--follow-forks", "--seccomp-bpf", "-qq", "--output=/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    strace.arg(delay).arg(&bench.bench_binary);
    strace
}

fn measure_load(
    bench: &BenchRunner,
    mut command: Command,
    conversations: usize,
    turns: u64,
    model_ms: u64,
) -> Result<LoadResult> {
    let directory = bench.directory()?;
    let load = LoadSettings { data_dir: directory.path().to_owned(), conversations, turns, model_ms };
    let settings = serde_json::to_string(&load)?;
    let output = command.args([load::ROLE, &settings]).output();
    let played = output.with_context(|| format!("{command:?} could not be started"))?;
    if !played.status.success() {
        bail!("the load could not be carried ({}): {}", played.status, String::from_utf8_lossy(&played.stderr));
    }
    serde_json::from_slice(&played.stdout).context("the load's figures can't be read")
}
