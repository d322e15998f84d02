//! What a `satchel chat` costs that waits at a pipe.

use std::{thread, time::Duration};

use anyhow::Result;

use crate::{BenchRunner, process::ChildProcess, starts, statistics::to_mib, table::ResultRow};

/// Until everything of the start is over; tokio keeps threads that have nothing to do for ten seconds.
const SETTLE_DELAY: Duration = Duration::from_secs(12);

/// Long enough that a tenth of a percent is two of the scheduler's ticks.
const IDLE_PERIOD: Duration = Duration::from_secs(20);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let satchel = ChildProcess::start(&mut starts::chat_command(bench, directory.path()))?;
    thread::sleep(SETTLE_DELAY);
    let before = satchel.cpu_time()?;
    thread::sleep(IDLE_PERIOD);
    let cpu_time = satchel.cpu_time()? - before;
    let rows = vec![
        ResultRow::new("idle: memory (PSS), terminal only", to_mib(satchel.proportional_memory()?), "MiB")
            .with_max(25.0),
        ResultRow::new("idle: peak of memory since the start", to_mib(satchel.peak_memory()?), "MiB"),
        ResultRow::new("idle: processor", cpu_time.as_secs_f64() / IDLE_PERIOD.as_secs_f64() * 100.0, "%")
            .with_max(0.1),
    ];
    satchel.stop()?;
    Ok(rows)
}
