//! What a `satchel chat` costs that waits at a pipe.

use std::{thread, time::Duration};

use anyhow::Result;

use crate::{BenchRunner, figures::mib, process::ChildProcess, starts, table::ResultRow};

/// Until everything of the start is over; tokio keeps threads that have nothing to do for ten seconds.
const SETTLED: Duration = Duration::from_secs(12);

/// Long enough that a tenth of a percent is two of the scheduler's ticks.
const WATCHED: Duration = Duration::from_secs(20);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let satchel = ChildProcess::start(&mut starts::command(bench, directory.path()))?;
    thread::sleep(SETTLED);
    let before = satchel.cpu()?;
    thread::sleep(WATCHED);
    let used = satchel.cpu()? - before;
    let rows = vec![
        ResultRow::new("idle: memory (PSS), terminal only", mib(satchel.proportional_set()?), "MiB").at_most(25.0),
        ResultRow::new("idle: peak of memory since the start", mib(satchel.peak()?), "MiB"),
        ResultRow::new("idle: processor", used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0, "%").at_most(0.1),
    ];
    satchel.end()?;
    Ok(rows)
}
