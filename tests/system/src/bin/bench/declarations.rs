//! What declared attachments cost: many declarations over many files, and a large file that is resolved.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use futures::TryStreamExt;
use satchel_attachments::{
    AttachmentKind, EffectiveList, Item, ItemSource, Scope, SourcePosition, TemplateContext,
    order::Playbooks,
    parse::parse_playbook,
    resolve::{AllowedTypes, ResolutionPolicy, resolve},
};
use satchel_files::{DirectoryDeclaredFiles, ExcludedPaths, OwnDirectory};
use satchel_http::{FetchSettings, HttpFetcher};

use crate::{
    BenchRunner,
    process::OwnMemory,
    statistics::{median, megabytes_per_second, to_mib, to_ms},
    table::ResultRow,
};

const DECLARATIONS: usize = 1000;
const DIRECTORIES: usize = 100;
const FILES_PER_DIRECTORY: usize = 100;
const RUNS: usize = 9;
const LARGE_FILE_BYTES: usize = 400_000_000;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let root = directory.path().canonicalize().context("the directory has a path")?;
    let excluded = ExcludedPaths {
        own_directories: vec![OwnDirectory { path: root.join("satchel-data"), is_own: |name| name == "satchel.db" }],
        paths: vec![root.join("satchel.yaml")],
    };
    let files = DirectoryDeclaredFiles::open(&root.join("downloads"), 1 << 30, excluded)?;
    let merged = bench.runtime.block_on(measure_merge(&root, &files))?;
    let (throughput, extra_memory) = bench.runtime.block_on(measure_resolution(&root, &files))?;
    Ok(vec![
        ResultRow::new("declarations: 1,000 with globs over 10,000 files, merged", to_ms(merged), "ms").with_max(500.0),
        ResultRow::new("declarations: 400 MB file resolved and read", throughput, "MB/s"),
        ResultRow::new("declarations: 400 MB file resolved and read, extra memory", extra_memory, "MiB").with_max(16.0),
    ])
}

async fn measure_merge(root: &Path, files: &DirectoryDeclaredFiles) -> Result<Duration> {
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("assets/{directory:03}"));
        fs::create_dir_all(&path)?;
        for file in 0..FILES_PER_DIRECTORY {
            let extension = if file % 2 == 0 { "png" } else { "jpg" };
            fs::write(path.join(format!("{file:03}.{extension}")), b"")?;
        }
    }
    let playbooks = declare(root)?;
    let task = playbooks.task("all").context("the task is declared")?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let started_at = Instant::now();
        let list = EffectiveList::load(&task.scopes(), &TemplateContext::new(), files).await;
        let list = list.map_err(|problems| anyhow!("{} declarations failed", problems.len()))?;
        times.push(started_at.elapsed());
        let entries = list.entries().len();
        ensure!(entries == DIRECTORIES * FILES_PER_DIRECTORY, "{entries} entries");
    }
    Ok(median(&times))
}

/// A task with declarations of several forms, which together name every file more than once.
fn declare(root: &Path) -> Result<Playbooks> {
    let mut yaml = "agents: [{ id: a, instructions: x, actions: [{ id: go, prompt: p }] }]\n\
                    tasks:\n  - id: all\n    agent: a\n    action: go\n    attachments:\n"
        .to_owned();
    for index in 0..DECLARATIONS {
        let pattern = match index % 4 {
            0 => format!("./assets/{:03}/*.png", index / 4 % DIRECTORIES),
            1 => format!("./assets/{:03}/*.{{png,jpg}}", index / 4 % DIRECTORIES),
            2 => format!("assets/**/{:03}.*", index / 4 % FILES_PER_DIRECTORY),
            _ => format!("assets/*/[0-9]{:02}.jpg", (index / 4 % FILES_PER_DIRECTORY) | 1),
        };
        writeln!(yaml, "      - {{ type: image, paths: ['{pattern}'], meta: {{ index: {index} }} }}")?;
    }
    let file: Arc<Path> = Arc::from(root.join("satchel.yaml"));
    let yaml = satchel_yaml::parse(&yaml).map_err(|error| anyhow!(error.message))?;
    let playbook = parse_playbook(&file, &Arc::from(root), &yaml).map_err(|problems| anyhow!("{problems:?}"))?;
    Playbooks::new(vec![playbook]).map_err(|problems| anyhow!("{problems:?}"))
}

async fn measure_resolution(root: &Path, files: &DirectoryDeclaredFiles) -> Result<(f64, f64)> {
    let name = "large.bin";
    fs::write(root.join(name), vec![7; LARGE_FILE_BYTES])?;
    let item = Item {
        kind: AttachmentKind::File,
        source: ItemSource::File { root: Arc::from(root), path: name.into(), canonical: root.join(name) },
        name: None,
        mime: None,
        meta: Arc::default(),
        optional: false,
        bounds: Default::default(),
        scope: Scope::Task,
        item: "tasks.all.attachments[0]".to_owned(),
        position: SourcePosition { file: Arc::from(root.join("satchel.yaml")), line: 1, column: 1 },
    };
    let any = || vec!["*/*".to_owned()];
    let allowed_types = AllowedTypes { image: any(), pdf: any(), audio: any(), video: any(), file: any() };
    let policy = ResolutionPolicy { max_download_bytes: 0, allowed_types };
    let fetcher = HttpFetcher::new(FetchSettings::default());
    let before = OwnMemory::read()?;
    OwnMemory::reset_peak()?;
    let started_at = Instant::now();
    let resolved = resolve(&item, &policy, files, &fetcher).await?;
    let content = resolved.open().context("a file has content")?;
    let read = content.try_fold(0, async |read, chunk| Ok(read + chunk.len())).await?;
    let took = started_at.elapsed();
    ensure!(read == LARGE_FILE_BYTES, "{read} bytes were read");
    let extra = OwnMemory::read()?.peak.saturating_sub(before.anonymous + before.file_backed);
    Ok((megabytes_per_second(LARGE_FILE_BYTES as u64, took), to_mib(extra)))
}
