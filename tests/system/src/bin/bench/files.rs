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
    BenchRunner,
    figures::{median, mib, ms, rate},
    limits,
    process::ChildProcess,
    product::Model,
    starts,
    table::ResultRow,
    telegram_harness::TelegramHarness,
};

const LARGE: u64 = 50_000_000;
const TEN: usize = 10;
const EACH: u64 = 20_000_000;
const RUNS: usize = 5;
const REQUEST: &str = "save this as kept.bin and send it back";

/// How long a file may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let source = directory.path().join("large.bin");
    write(&FakeFile::generated("large.bin", "application/octet-stream", 50, LARGE), &source, bench)?;
    let (mut copied, mut looped) = (Vec::new(), Vec::new());
    let (mut terminal, mut platform) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        copied.push(limits::copy_and_hash_twice(&source, directory.path())?);
        looped.push(limits::loopback(LARGE)?);
        terminal.push(at_the_terminal(bench, &source)?);
        platform.push(on_a_platform(bench, 1, LARGE)?);
    }
    let (copy, send) = (median(&copied), median(&looped));
    let mut rows = vec![
        ResultRow::new("files: copy + fsync + 2 × SHA-256 of 50 MB", ms(copy), "ms"),
        ResultRow::new("files: loopback of 50 MB", ms(send), "ms"),
    ];
    rows.extend(transfer_rows("50 MB through the terminal", &terminal, copy));
    rows.extend(transfer_rows("50 MB through Telegram", &platform, copy + send));
    let ten = on_a_platform(bench, TEN, EACH)?;
    let all = EACH * TEN as u64;
    rows.push(
        ResultRow::new("files: ten of 20 MB at once, extra memory", mib(ten.extra_memory), "MiB")
            .at_most(64.0)
            .note("all intact"),
    );
    rows.push(ResultRow::new("files: ten of 20 MB at once", rate(all, ten.took), "MB/s"));
    Ok(rows)
}

/// What a file's way took.
struct TransferResult {
    took: Duration,
    extra_memory: u64,
}

fn transfer_rows(name: &str, runs: &[TransferResult], limit: Duration) -> [ResultRow; 2] {
    let took = median(&runs.iter().map(|run| run.took).collect::<Vec<_>>());
    let extra = runs.iter().map(|run| run.extra_memory).max().unwrap_or_default();
    [
        ResultRow::new(format!("files: {name}"), rate(LARGE, took), "MB/s")
            .limit(rate(LARGE, limit))
            .ratio_at_least(0.6),
        ResultRow::new(format!("files: {name}, extra memory"), mib(extra), "MiB").at_most(16.0),
    ]
}

/// Attaches the file in a `satchel chat` and waits until it lies among the reply's files.
fn at_the_terminal(bench: &BenchRunner, source: &Path) -> Result<TransferResult> {
    let directory = bench.directory()?;
    let mut satchel = ChildProcess::start(&mut starts::command(bench, directory.path()))?;
    let mut output = satchel.child().stdout.take().context("standard output is a pipe")?;
    let reading = thread::spawn(move || {
        let mut printed = String::new();
        output.read_to_string(&mut printed).map(|_| printed)
    });
    thread::sleep(Duration::from_millis(500));
    let idle = satchel.peak()?;
    let begun = Instant::now();
    let input = satchel.child().stdin.as_mut().context("standard input is a pipe")?;
    writeln!(input, "/attach {}\n{REQUEST}", source.display())?;
    let delivered = loop {
        if let Some(delivered) = delivered(&directory.path().join("files")) {
            break Some(delivered);
        }
        if begun.elapsed() > PATIENCE {
            break None;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let took = begun.elapsed();
    let peak = satchel.peak()?;
    satchel.end()?;
    let printed = reading.join().ok().context("the reader of the output panicked")??;
    let delivered = delivered.with_context(|| format!("the file did not come back:\n{printed}"))?;
    ensure!(equal(source, &delivered)?, "`{}` is not what was sent", delivered.display());
    Ok(TransferResult { took, extra_memory: peak.saturating_sub(idle) })
}

/// The reply's file, which is put in place once it is whole.
fn delivered(files: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(files).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|extension| extension == "bin"))
}

fn equal(one: &Path, other: &Path) -> Result<bool> {
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
fn on_a_platform(bench: &BenchRunner, count: usize, bytes: u64) -> Result<TransferResult> {
    let directory = bench.directory()?;
    let file = |seed| FakeFile::generated(format!("{seed}.bin"), "application/octet-stream", seed, bytes);
    let files: Vec<FakeFile> = (0..count as u64).map(file).collect();
    bench.runtime.block_on(async {
        // More than Telegram's own server gives away, so that large files can be measured in both directions.
        let rules = TelegramRules { download_bytes: None, ..TelegramRules::default() };
        let harness = TelegramHarness::open(bench, directory.path(), rules, count, Model::Offline).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let idle = harness.satchel.peak()?;
        let took = harness.send_files(REQUEST, &files).await?;
        let extra_memory = harness.satchel.peak()?.saturating_sub(idle);
        let transcript = harness.telegram.transcript();
        for (person, file) in harness.people.iter().zip(&files) {
            let came = transcript.files(*person);
            if came.len() != 1 || came[0].sha256 != file.sha256() {
                bail!("{} did not come back as it was; the chats show\n{transcript}", file.filename);
            }
        }
        harness.satchel.end()?;
        Ok(TransferResult { took, extra_memory })
    })
}

fn write(file: &FakeFile, path: &Path, bench: &BenchRunner) -> Result<()> {
    let mut to = File::create(path)?;
    let mut content = file.stream();
    bench.runtime.block_on(async {
        while let Some(block) = content.next().await {
            to.write_all(&block?)?;
        }
        anyhow::Ok(to.sync_all()?)
    })
}
