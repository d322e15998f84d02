//! How many turns a second fifty conversations get, and how many of their commits share one fsync.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{
    BenchRunner,
    figures::{median, middle_of_three, ms, number},
    limits::Appends,
    load::{self, Load, LoadResult},
    table::ResultRow,
};

const CONVERSATIONS: usize = 50;

/// The commits of a text turn, when nobody else's share them: received, completed, settled.
const COMMITS: f64 = 3.0;

/// How long a delayed fsync takes, in milliseconds.
const DELAY: f64 = 5.0;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let mut disk = Appends::to(directory.path())?;
    let append = ms(median(&(0..200).map(|_| disk.append()).collect::<Result<Vec<_>>>()?));
    let one_by_one = |fsync: f64| 1e3 / (COMMITS * fsync);

    let per_second = |carried: &LoadResult| number(carried.turns) / carried.seconds;
    let slow = || carry(bench, Command::new(&bench.myself), CONVERSATIONS, 40, 100);
    let slow = middle_of_three(|| Ok(per_second(&slow()?)))?;
    let instant = carry(bench, Command::new(&bench.myself), CONVERSATIONS, 40, 0)?;
    let alone = carry(bench, Command::new(&bench.myself), 1, 200, 0)?;
    let delayed = carry(bench, delaying(bench), CONVERSATIONS, 20, 0);

    let commits = |carried: &LoadResult| number(carried.commits) / number(carried.turns);
    let share = format!("{:.1} commits of turns share one fsync", COMMITS / commits(&instant));
    let mut rows = vec![
        ResultRow::new("throughput: 50 conversations, model 100 ms", slow, "turns/s")
            .limit(number(CONVERSATIONS as u64) * 10.0)
            .ratio_at_least(0.9)
            .note("the middle of three; limit: an ideal scheduler"),
        ResultRow::new("throughput: 50 conversations, instant model", per_second(&instant), "turns/s")
            .limit(one_by_one(append))
            .note("limit: 1 / 3 F, one commit at a time"),
        ResultRow::new("throughput: commits a turn, 50 conversations", commits(&instant), "").note(share),
        ResultRow::new("throughput: one conversation, instant model", per_second(&alone), "turns/s")
            .limit(one_by_one(append)),
        ResultRow::new("throughput: commits a turn, one conversation", commits(&alone), "").at_most(COMMITS),
    ];
    const NAME: &str = "throughput: 50 conversations, fsync 5 ms";
    rows.push(match delayed {
        Ok(delayed) => ResultRow::new(NAME, per_second(&delayed), "turns/s")
            .limit(one_by_one(DELAY))
            .ratio_at_least(5.0)
            .note("limit: one commit at a time; strace delays each fsync"),
        Err(error) => ResultRow::missing(NAME, format!("needs strace, which delays fsync: {error:#}")),
    });
    Ok(rows)
}

/// This binary, with every fsync of it delayed.
fn delaying(bench: &BenchRunner) -> Command {
    let mut strace = Command::new("strace");
    let delay = format!("inject=fsync,fdatasync:delay_exit={}", DELAY * 1e3);
    strace.args(["--follow-forks", "--seccomp-bpf", "-qq", "--output=/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    strace.arg(delay).arg(&bench.myself);
    strace
}

fn carry(
    bench: &BenchRunner,
    mut command: Command,
    conversations: usize,
    turns: u64,
    model_ms: u64,
) -> Result<LoadResult> {
    let directory = bench.directory()?;
    let load = Load { data_dir: directory.path().to_owned(), conversations, turns, model_ms };
    let settings = serde_json::to_string(&load)?;
    let played = command.args([load::ROLE, &settings]).output();
    let played = played.with_context(|| format!("{command:?} could not be started"))?;
    if !played.status.success() {
        bail!("the load could not be carried ({}): {}", played.status, String::from_utf8_lossy(&played.stderr));
    }
    serde_json::from_slice(&played.stdout).context("the load's figures can't be read")
}
