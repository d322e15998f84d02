//! Backups of 1 GiB while fifty people talk: their speed beside that of a copy, and what is left of the turns.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use satchel_domain::{FileReference, Filename, InboundMessage, Sender};
use satchel_fake_kit::FakeFile;
use satchel_ports::{BlobHint, Blobs, Inbox, ledger::ClaimMode};

use crate::{
    BenchRunner,
    load::{self, LoadResult, LoadSettings},
    machine_limits,
    product::BenchStores,
    statistics::{median, megabytes_per_second, to_f64},
    table::ResultRow,
};

const FILES: u64 = 64;
const FILE_BYTES: u64 = 16 << 20;

const CONVERSATIONS: usize = 50;
/// Enough to outlast a backup.
const TURNS: u64 = 80;
const MODEL_MS: u64 = 100;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let data = directory.path().join("data");
    bench.runtime.block_on(store_files(&data))?;
    let copy = measure_copy(&data, directory.path())?;
    let alone = to_result(start_load(bench, &data)?)?;
    let mut load = start_load(bench, &data)?;
    let mut times = Vec::new();
    while times.is_empty() || load.try_wait()?.is_none() {
        times.push(measure_backup(bench, &data, directory.path())?);
    }
    let beside = to_result(load)?;
    let unchanged = measure_backup(bench, &data, directory.path())?;
    let (bytes, per_second) = (FILES * FILE_BYTES, |load: &LoadResult| to_f64(load.turns) / load.seconds);
    Ok(vec![
        ResultRow::new(
            "backup: 1 GiB while 50 conversations go on",
            megabytes_per_second(bytes, median(&times)),
            "MB/s",
        )
        .with_limit(megabytes_per_second(bytes, copy))
        .with_min_ratio(0.6)
        .with_note("limit: copy + fsync + 2 × SHA-256, with nothing beside it"),
        ResultRow::new("backup: turns meanwhile", per_second(&beside), "turns/s")
            .with_limit(per_second(&alone))
            .with_min_ratio(0.8)
            .with_note("limit: without a backup"),
        ResultRow::new("backup: 1 GiB with nothing beside it", megabytes_per_second(bytes, unchanged), "MB/s"),
    ])
}

/// Stores files that messages of nobody's channel name.
async fn store_files(data: &Path) -> Result<()> {
    let stores = BenchStores::open(data).await?;
    for number in 0..FILES {
        let file = FakeFile::generated(format!("{number}.bin"), "application/octet-stream", number, FILE_BYTES);
        let blob = stores.blobs.put(file.stream(), &BlobHint::default(), FILE_BYTES).await?;
        let conversation = "upload:1".parse().context("a name and a number are a conversation")?;
        let files = vec![FileReference::stored(&blob, Filename::from_untrusted(&file.filename))];
        let message = InboundMessage::new(conversation, number.to_string(), Sender::new("1", "Ann"));
        stores.ledger.receive(&InboundMessage { files, ..message }, ClaimMode::Never).await?;
    }
    Ok(())
}

fn measure_copy(data: &Path, directory: &Path) -> Result<Duration> {
    let mut took = Duration::ZERO;
    let mut pending = vec![data.join("blobs")];
    while let Some(path) = pending.pop() {
        match path.is_dir() {
            true => pending.extend(fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?),
            false => took += machine_limits::measure_copy(&path, directory)?,
        }
    }
    Ok(took)
}

/// Makes a backup where there is none yet.
fn measure_backup(bench: &BenchRunner, data: &Path, directory: &Path) -> Result<Duration> {
    let target = directory.join("backups");
    let started_at = Instant::now();
    let mut command = Command::new(&bench.satchel);
    command.args(["backup", "create"]).arg(&target).arg("--set").arg(format!("storage.data_dir={}", data.display()));
    let output = command.current_dir(directory).env_clear().env("HOME", directory).output()?;
    let took = started_at.elapsed();
    ensure!(output.status.success(), "no backup was made: {}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(target)?;
    Ok(took)
}

fn start_load(bench: &BenchRunner, data: &Path) -> Result<Child> {
    let load =
        LoadSettings { data_dir: data.to_owned(), conversations: CONVERSATIONS, turns: TURNS, model_ms: MODEL_MS };
    let mut command = Command::new(&bench.bench_binary);
    command.args([load::ROLE, &serde_json::to_string(&load)?]).stdout(Stdio::piped());
    command.spawn().context("the load could not be started")
}

fn to_result(load: Child) -> Result<LoadResult> {
    let output = load.wait_with_output()?;
    ensure!(output.status.success(), "the load could not be carried ({})", output.status);
    serde_json::from_slice(&output.stdout).context("the load's figures can't be read")
}
