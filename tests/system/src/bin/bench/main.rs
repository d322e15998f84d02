//! `cargo xtask bench [FILTER]`: measures the release build, prints one table and writes it to `target/bench.json`.
//!
//! Figures are information, never an exit code: machines are noisy. What this machine could do at best is measured in
//! the same run, beside what it is compared with. People's platforms run in this process and Satchel in others, so
//! that time, memory and commits are Satchel's own.

mod backup;
mod cluster;
mod conversations;
mod declarations;
mod discord;
mod documents;
mod files;
mod idle;
mod load;
mod machine_limits;
mod overhead;
mod page;
mod plans;
mod process;
mod product;
mod sandbox;
mod schedules;
mod scripts;
mod starts;
mod statistics;
mod table;
mod telegram;
mod telegram_harness;
mod throughput;
mod turns;
mod workspace_memory;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::table::{ResultRow, ResultTable};

/// What the measurements work with.
struct BenchRunner {
    satchel: PathBuf,
    /// This binary, which is also Satchel on a fake platform, or with a load of its own.
    bench_binary: PathBuf,
    /// A directory on the disk that is measured.
    scratch: TempDir,
    /// Where fake platforms run.
    runtime: Runtime,
}

/// Rows that are measured together; the names of all rows begin with their group's.
struct RowGroup {
    name: &'static str,
    measure: fn(&BenchRunner) -> Result<Vec<ResultRow>>,
}

const GROUPS: [RowGroup; 17] = [
    RowGroup { name: "text turn", measure: turns::measure },
    RowGroup { name: "throughput", measure: throughput::measure },
    RowGroup { name: "plan", measure: plans::measure },
    RowGroup { name: "start", measure: starts::measure },
    RowGroup { name: "idle", measure: idle::measure },
    RowGroup { name: "files", measure: files::measure },
    RowGroup { name: "backup", measure: backup::measure },
    RowGroup { name: "sandbox", measure: sandbox::measure },
    RowGroup { name: "declarations", measure: declarations::measure },
    RowGroup { name: "documents", measure: documents::measure },
    RowGroup { name: "page", measure: page::measure },
    RowGroup { name: "conversations", measure: conversations::measure },
    RowGroup { name: "telegram", measure: telegram::measure },
    RowGroup { name: "discord", measure: discord::measure },
    RowGroup { name: "cluster", measure: cluster::measure },
    RowGroup { name: "scripts", measure: scripts::measure },
    RowGroup { name: "schedules", measure: schedules::measure },
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(product::ROLE), Some(settings)) => product::run_product(&settings),
        (Some(load::ROLE), Some(settings)) => load::run_load(&settings),
        (Some(workspace_memory::ROLE), Some(settings)) => workspace_memory::run_workspace(&settings),
        (filter, None) => measure(filter.unwrap_or_default()),
        (_, Some(_)) => bail!("one word at most: part of the name of what is to be measured"),
    }
}

fn measure(filter: &str) -> Result<()> {
    let groups: Vec<&RowGroup> = GROUPS.iter().filter(|group| group.name.contains(filter)).collect();
    if groups.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        bail!("nothing is called `{filter}`; there are: {}", names.join(", "));
    }
    let bench_binary = std::env::current_exe().context("this binary can't be found")?;
    let directory = bench_binary.parent().context("this binary lies in no directory")?.to_owned();
    let target = directory.parent().unwrap_or(&directory);
    let scratch = tempfile::tempdir_in(target).context("there is no room for the measurements")?;
    let runtime = Runtime::new().context("failed to start the asynchronous runtime")?;
    let satchel = directory.join("satchel");
    if !Path::new(&satchel).exists() {
        bail!("`{}` is missing; `cargo xtask bench` builds it", satchel.display());
    }
    let bench = BenchRunner { satchel, bench_binary, scratch, runtime };
    let mut table = ResultTable { machine: describe_machine(), rows: Vec::new() };
    for group in groups {
        eprintln!("measuring {} …", group.name);
        match (group.measure)(&bench) {
            Ok(rows) => table.rows.extend(rows),
            Err(error) => table.rows.push(ResultRow::failed(group.name, &error)),
        }
    }
    println!("{table}");
    let path = target.join("bench.json");
    table.write(&path).with_context(|| format!("failed to write `{}`", path.display()))?;
    println!("figures: {}", path.display());
    Ok(())
}

/// Figures of a machine that has other things to do say little.
fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("{cores} cores; load when the measurements began: {}", load.split(' ').next().unwrap_or_default())
}

impl BenchRunner {
    /// A new, empty directory.
    fn directory(&self) -> Result<TempDir> {
        tempfile::tempdir_in(self.scratch.path()).context("no directory could be made")
    }
}
