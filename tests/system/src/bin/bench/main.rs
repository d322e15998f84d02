//! `cargo xtask bench [FILTER]`: measures the release build, prints one table and writes it to `target/bench.json`.
//!
//! Figures are information, never an exit code: machines are noisy. What this machine could do at best is measured in
//! the same run, beside what it is compared with. People's platforms run in this process and Satchel in others, so
//! that time, memory and commits are Satchel's own.

mod discord;
mod figures;
mod files;
mod idle;
mod limits;
mod load;
mod overhead;
mod page;
mod plans;
mod process;
mod product;
mod schedules;
mod scripts;
mod starts;
mod table;
mod telegram;
mod telegram_harness;
mod throughput;
mod turns;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::table::{ResultRow, ResultTable};

/// What the measurements work with.
struct BenchRunner {
    satchel: PathBuf,
    /// This binary, which is also Satchel on a fake platform, or with a load of its own.
    myself: PathBuf,
    /// A directory on the disk that is measured.
    scratch: TempDir,
    /// Where fake platforms run.
    runtime: Runtime,
}

/// Rows that are measured together; the names of all rows begin with their group's.
struct Group {
    name: &'static str,
    measure: fn(&BenchRunner) -> Result<Vec<ResultRow>>,
}

const GROUPS: [Group; 11] = [
    Group { name: "text turn", measure: turns::measure },
    Group { name: "throughput", measure: throughput::measure },
    Group { name: "plan", measure: plans::measure },
    Group { name: "start", measure: starts::measure },
    Group { name: "idle", measure: idle::measure },
    Group { name: "files", measure: files::measure },
    Group { name: "page", measure: page::measure },
    Group { name: "telegram", measure: telegram::measure },
    Group { name: "discord", measure: discord::measure },
    Group { name: "scripts", measure: scripts::measure },
    Group { name: "schedules", measure: schedules::measure },
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(product::ROLE), Some(settings)) => product::play(&settings),
        (Some(load::ROLE), Some(settings)) => load::play(&settings),
        (filter, None) => measure(filter.unwrap_or_default()),
        (_, Some(_)) => bail!("one word at most: part of the name of what is to be measured"),
    }
}

fn measure(filter: &str) -> Result<()> {
    let chosen: Vec<&Group> = GROUPS.iter().filter(|group| group.name.contains(filter)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        bail!("nothing is called `{filter}`; there are: {}", names.join(", "));
    }
    let myself = std::env::current_exe().context("this binary can't be found")?;
    let beside = myself.parent().context("this binary lies in no directory")?.to_owned();
    let target = beside.parent().unwrap_or(&beside);
    let scratch = tempfile::tempdir_in(target).context("there is no room for the measurements")?;
    let runtime = Runtime::new().context("failed to start the asynchronous runtime")?;
    let satchel = beside.join("satchel");
    if !Path::new(&satchel).exists() {
        bail!("`{}` is missing; `cargo xtask bench` builds it", satchel.display());
    }
    let bench = BenchRunner { satchel, myself, scratch, runtime };
    let mut table = ResultTable { machine: machine(), rows: Vec::new() };
    for group in chosen {
        eprintln!("measuring {} …", group.name);
        match (group.measure)(&bench) {
            Ok(rows) => table.rows.extend(rows),
            Err(error) => table.rows.push(ResultRow::failed(group.name, &error)),
        }
    }
    println!("{table}");
    let written = target.join("bench.json");
    table.write(&written).with_context(|| format!("failed to write `{}`", written.display()))?;
    println!("figures: {}", written.display());
    Ok(())
}

/// Figures of a machine that has other things to do say little.
fn machine() -> String {
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
