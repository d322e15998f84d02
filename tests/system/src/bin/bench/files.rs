//! Large files in, saved, and out again: throughput beside what the machine can do, and memory.

use std::{
    fs::{self, File},
    io::{BufReader, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::TelegramRules;

use crate::{
    BenchRunner, machine_limits,
    process::ChildProcess,
    product::ModelChoice,
    starts,
    statistics::{median, megabytes_per_second, to_mib, to_ms},
    table::ResultRow,
    telegram_harness::TelegramHarness,
};

const LARGE_FILE_BYTES: u64 = 50_000_000;
const FILE_COUNT: usize = 10;
const FILE_BYTES: u64 = 20_000_000;
const RUNS: usize = 5;
const REQUEST: &str = "save this as kept.bin and send it back";

/// How long a file may take.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let source = directory.path().join("large.bin");
    write_file(&FakeFile::generated("large.bin", "application/octet-stream", 50, LARGE_FILE_BYTES), &source, bench)?;
    let (mut copy_times, mut loopback_times) = (Vec::new(), Vec::new());
    let (mut terminal, mut platform) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        copy_times.push(machine_limits::measure_copy(&source, directory.path())?);
        loopback_times.push(machine_limits::measure_loopback(LARGE_FILE_BYTES)?);
        terminal.push(measure_terminal_transfer(bench, &source)?);
        platform.push(measure_telegram_transfer(bench, 1, LARGE_FILE_BYTES)?);
    }
    let (copy, send) = (median(&copy_times), median(&loopback_times));
    let mut rows = vec![
        ResultRow::new("files: copy + fsync + 2 × SHA-256 of 50 MB", to_ms(copy), "ms"),
        ResultRow::new("files: loopback of 50 MB", to_ms(send), "ms"),
    ];
    rows.extend(transfer_rows("50 MB through the terminal", &terminal, copy));
    rows.extend(transfer_rows("50 MB through Telegram", &platform, copy + send));
    let ten = measure_telegram_transfer(bench, FILE_COUNT, FILE_BYTES)?;
    let all = FILE_BYTES * FILE_COUNT as u64;
    rows.push(
        ResultRow::new("files: ten of 20 MB at once, extra memory", to_mib(ten.extra_memory), "MiB")
            .with_max(64.0)
            .with_note("all intact"),
    );
    rows.push(ResultRow::new("files: ten of 20 MB at once", megabytes_per_second(all, ten.took), "MB/s"));
    Ok(rows)
}

/// Duration and memory of one transfer.
struct TransferResult {
    took: Duration,
    extra_memory: u64,
}

fn transfer_rows(name: &str, runs: &[TransferResult], limit: Duration) -> [ResultRow; 2] {
    let took = median(&runs.iter().map(|run| run.took).collect::<Vec<_>>());
    let extra = runs.iter().map(|run| run.extra_memory).max().unwrap_or_default();
    [
        ResultRow::new(format!("files: {name}"), megabytes_per_second(LARGE_FILE_BYTES, took), "MB/s")
            .with_limit(megabytes_per_second(LARGE_FILE_BYTES, limit))
            .with_min_ratio(0.6),
        ResultRow::new(format!("files: {name}, extra memory"), to_mib(extra), "MiB").with_max(16.0),
    ]
}

/// Attaches the file in a `satchel chat` and waits until it lies among the reply's files.
fn measure_terminal_transfer(bench: &BenchRunner, source: &Path) -> Result<TransferResult> {
    let directory = bench.directory()?;
    let mut satchel = ChildProcess::start(&mut starts::chat_command(bench, directory.path()))?;
    let mut output = satchel.child().stdout.take().context("standard output is a pipe")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    thread::sleep(Duration::from_millis(500));
    let idle = satchel.peak_memory()?;
    let started_at = Instant::now();
    let input = satchel.child().stdin.as_mut().context("standard input is a pipe")?;
    writeln!(input, "/attach {}\n{REQUEST}", source.display())?;
    let delivered = loop {
        if let Some(delivered) = find_delivered(&directory.path().join("files")) {
            break Some(delivered);
        }
        if started_at.elapsed() > TRANSFER_TIMEOUT {
            break None;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let took = started_at.elapsed();
    let peak = satchel.peak_memory()?;
    satchel.stop()?;
    let printed = reader.join().ok().context("the reader of the output panicked")??;
    let delivered = delivered.with_context(|| format!("the file did not come back:\n{printed}"))?;
    ensure!(has_equal_content(source, &delivered)?, "`{}` is not what was sent", delivered.display());
    Ok(TransferResult { took, extra_memory: peak.saturating_sub(idle) })
}

/// The reply's file, which is put in place once it is whole.
fn find_delivered(files: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(files).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|extension| extension == "bin"))
}

fn has_equal_content(one: &Path, other: &Path) -> Result<bool> {
    let mut readers = [BufReader::new(File::open(one)?), BufReader::new(File::open(other)?)];
    let mut blocks = [vec![0; 1 << 16], vec![0; 1 << 16]];
    loop {
        let [left, right] = &mut readers;
        let read = left.read(&mut blocks[0])?;
        let ended = right.read_exact(&mut blocks[1][..read]).is_err();
        if ended || blocks[0][..read] != blocks[1][..read] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(right.read(&mut blocks[1])? == 0);
        }
    }
}

/// Sends one file in each of so many conversations at once and waits until all have come back.
fn measure_telegram_transfer(bench: &BenchRunner, count: usize, bytes: u64) -> Result<TransferResult> {
    let directory = bench.directory()?;
    let file = |seed| FakeFile::generated(format!("{seed}.bin"), "application/octet-stream", seed, bytes);
    let files: Vec<FakeFile> = (0..count as u64).map(file).collect();
    bench.runtime.block_on(async {
        // More than Telegram's own server gives away, so that large files can be measured in both directions.
        let rules = TelegramRules { download_bytes: None, ..TelegramRules::default() };
        let harness = TelegramHarness::open(bench, directory.path(), rules, count, ModelChoice::Offline).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let idle = harness.satchel.peak_memory()?;
        let took = harness.send_files(REQUEST, &files).await?;
        let extra_memory = harness.satchel.peak_memory()?.saturating_sub(idle);
        let transcript = harness.telegram.transcript();
        for (person, file) in harness.people.iter().zip(&files) {
            let received = transcript.files(*person);
            if received.len() != 1 || received[0].sha256 != file.sha256() {
                bail!("{} did not come back as it was; the chats show\n{transcript}", file.filename);
            }
        }
        harness.satchel.stop()?;
        Ok(TransferResult { took, extra_memory })
    })
}

fn write_file(file: &FakeFile, path: &Path, bench: &BenchRunner) -> Result<()> {
    let mut to = File::create(path)?;
    let mut content = file.stream();
    bench.runtime.block_on(async {
        while let Some(block) = content.next().await {
            to.write_all(&block?)?;
        }
        anyhow::Ok(to.sync_all()?)
    })
}
