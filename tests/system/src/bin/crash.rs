//! One process of the crash matrix; its only argument is `CrashOptions` as JSON, its output a `CrashReport`.

use anyhow::Context;
use satchel_system::crash::{CrashOptions, run_crash_process};

fn main() -> anyhow::Result<()> {
    let options = std::env::args().nth(1).context("usage: crash '{…}', which tests/it/crash_matrix.rs writes")?;
    let options: CrashOptions = serde_json::from_str(&options).context("the options can't be read")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(run_crash_process(options))?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
