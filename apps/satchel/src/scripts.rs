//! What evaluates scripts: the worker program that lies beside this one, or the one that the configuration names.

use std::{path::PathBuf, sync::Arc};

use satchel_ports::ScriptHost;
use satchel_starlark::{ScriptPoolSettings, WorkerPool};

use crate::config::Config;

/// The worker's file name.
const WORKER: &str = "satchel-script";

/// Opens what evaluates scripts; `None` where no worker is installed, and then nobody is offered scripts.
#[must_use]
pub fn open(config: &Config) -> Option<Arc<dyn ScriptHost>> {
    let worker = worker(config);
    if !worker.is_file() {
        tracing::info!(worker = %worker.display(), "scripts are off: the script worker was not found");
        return None;
    }
    Some(Arc::new(WorkerPool::new(ScriptPoolSettings::new(worker))))
}

/// Where the worker lies, or should.
#[must_use]
pub fn worker(config: &Config) -> PathBuf {
    let beside = || std::env::current_exe().map_or_else(|_| PathBuf::from(WORKER), |own| own.with_file_name(WORKER));
    config.tools.script.worker.clone().map_or_else(beside, |worker| worker.0)
}
