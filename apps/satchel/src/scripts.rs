//! Opens the script workers: the worker program beside this one, or the configured one.

use std::{path::PathBuf, sync::Arc};

use satchel_ports::ScriptHost;
use satchel_starlark::{ScriptPoolSettings, WorkerPool};

use crate::config::Config;

/// The worker's file name.
const WORKER_FILE_NAME: &str = "satchel-script";

/// Opens the worker pool; `None` if no worker is installed, which turns scripts off.
#[must_use]
pub fn open(config: &Config) -> Option<Arc<dyn ScriptHost>> {
    let worker = worker_path(config);
    if !worker.is_file() {
        tracing::info!(worker = %worker.display(), "scripts are off: the script worker was not found");
        return None;
    }
    Some(Arc::new(WorkerPool::new(ScriptPoolSettings::new(worker))))
}

/// The path of the worker program, which may not exist.
#[must_use]
pub fn worker_path(config: &Config) -> PathBuf {
    let default_path = || {
        std::env::current_exe()
            .map_or_else(|_| PathBuf::from(WORKER_FILE_NAME), |executable| executable.with_file_name(WORKER_FILE_NAME))
    };
    config.tools.script.worker.clone().map_or_else(default_path, |worker| worker.0)
}
