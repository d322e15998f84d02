//! What the sandbox under the workspace costs: small and large writes beside those without it, its first use, and memory.

use std::{
    fs::{self, File},
    io,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use satchel_domain::path::Mount;
use satchel_files::NativeRunner;
use satchel_ports::{FileAccess, FileRunner, FileWriter, file_runner::MountDirectory};
use satchel_sandbox::SandboxRunner;

use crate::{
    BenchRunner,
    statistics::{median, megabytes_per_second, to_mib, to_ms},
    table::ResultRow,
    workspace_memory::{WorkspaceResult, WorkspaceSettings},
};

const SMALL_FILES: usize = 1000;
const SMALL_FILE_BYTES: usize = 1 << 10;

const LARGE_FILES: usize = 9;
const LARGE_FILE_BYTES: u64 = 80 * BLOCK_BYTES as u64;

/// As much as a workspace writes at a time.
const BLOCK_BYTES: usize = 512 << 10;

/// The name of a file that was written.
const WRITTEN_NAME: &str = "written";

/// How many new processes save files in each way.
const PROCESSES: usize = 5;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let mut rows = Vec::from(measure_writes(bench)?);
    rows.extend(measure_memory(bench)?);
    Ok(rows)
}

fn measure_writes(bench: &BenchRunner) -> Result<[ResultRow; 2]> {
    let directory = bench.directory()?;
    let small = measure_both(SMALL_FILES, directory.path(), write_small_file)?;
    let large = measure_both(LARGE_FILES, directory.path(), write_large_file)?;
    let throughput = |times: &[Duration]| megabytes_per_second(LARGE_FILE_BYTES, median(times));
    Ok([
        ResultRow::new("sandbox: 1 KB written, no fsync, p50", to_ms(median(&small.sandboxed)), "ms")
            .with_limit(to_ms(median(&small.native)))
            .with_max(1.0)
            .with_note("limit: without the sandbox"),
        ResultRow::new("sandbox: 40 MB written, fsync", throughput(&large.sandboxed), "MB/s")
            .with_limit(throughput(&large.native))
            .with_min_ratio(0.5)
            .with_note("limit: without the sandbox"),
    ])
}

/// The durations of the same writes.
#[derive(Default)]
struct WriteTimes {
    sandboxed: Vec<Duration>,
    native: Vec<Duration>,
}

/// Writes so many files in each way, by turns, so that both meet the same disk.
fn measure_both(
    count: usize,
    directory: &Path,
    write: fn(Box<dyn FileWriter>) -> io::Result<()>,
) -> Result<WriteTimes> {
    let sandbox = SandboxRunner::default();
    sandbox.warm_up()?;
    let measure_write = |runner: &dyn FileRunner| {
        let mount =
            MountDirectory { mount: Mount::Shared, directory: File::open(directory)?, access: FileAccess::Owner };
        let started_at = Instant::now();
        write(runner.writer(mount)?)?;
        let took = started_at.elapsed();
        fs::remove_file(directory.join(WRITTEN_NAME)).map(|()| took)
    };
    let mut times = WriteTimes::default();
    for _ in 0..count {
        times.native.push(measure_write(&NativeRunner)?);
        times.sandboxed.push(measure_write(&sandbox)?);
    }
    Ok(times)
}

/// Writes a file as a workspace does: under a temporary name, then renamed.
fn write_small_file(mut writer: Box<dyn FileWriter>) -> io::Result<()> {
    let temporary = Path::new("temporary");
    writer.create(temporary)?;
    writer.write(&[7; SMALL_FILE_BYTES])?;
    writer.rename(temporary, Path::new(WRITTEN_NAME))
}

fn write_large_file(mut writer: Box<dyn FileWriter>) -> io::Result<()> {
    writer.create(Path::new(WRITTEN_NAME))?;
    let block = vec![7; BLOCK_BYTES];
    (0..LARGE_FILE_BYTES / BLOCK_BYTES as u64).try_for_each(|_| writer.write(&block))?;
    writer.sync()
}

/// The first file and a large one in new processes, with and without the sandbox.
fn measure_memory(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let run = |sandbox: bool| {
        let directory = bench.directory()?;
        WorkspaceSettings { directory: directory.path().to_owned(), sandbox }.run(bench)
    };
    let (mut sandboxed, mut native) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        native.push(run(false)?);
        sandboxed.push(run(true)?);
    }
    let max = |results: &[WorkspaceResult], field: fn(&WorkspaceResult) -> u64| {
        to_mib(results.iter().map(field).max().unwrap_or_default())
    };
    let compile_times: Vec<Duration> = sandboxed.iter().map(|result| result.compile_time).collect();
    let memory_row = |name: &str, field: fn(&WorkspaceResult) -> u64| {
        ResultRow::new(format!("sandbox: {name}"), max(&sandboxed, field), "MiB")
            .with_note(format!("{:.2} MiB without the sandbox", max(&native, field)))
    };
    Ok(vec![
        ResultRow::new("sandbox: guests compiled, at the first use", to_ms(median(&compile_times)), "ms"),
        memory_row("memory that the first file leaves, anonymous", |result| result.first_file_anonymous).with_max(3.0),
        memory_row("memory that the first file leaves, file-backed", |result| result.first_file_backed),
        memory_row("50 MiB saved first, extra memory", |result| result.peak_extra).with_max(16.0),
        memory_row("50 MiB saved later, extra memory", |result| result.large_file_extra).with_max(16.0),
    ])
}
