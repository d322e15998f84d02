//! A worker program that doesn't exist yet: scripts wait for it, or say that it is missing.

use std::{path::PathBuf, time::Duration};

use futures::poll;
use satchel_ports::{ScriptError, ScriptHost, ScriptRequest};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, script, value, work_share};

/// A stand-in that is put into place later.
struct PendingStandIn {
    stand_in: StandIn,
    hidden: PathBuf,
}

impl PendingStandIn {
    fn new() -> Self {
        let stand_in = StandIn::new("begin; done_with 1");
        let hidden = stand_in.path().with_file_name("hidden");
        std::fs::rename(stand_in.path(), &hidden).unwrap();
        Self { stand_in, hidden }
    }

    fn appear(&self) {
        std::fs::rename(&self.hidden, self.stand_in.path()).unwrap();
    }

    fn settings(&self) -> ScriptPoolSettings {
        ScriptPoolSettings { wait_for_program: true, ..self.stand_in.settings() }
    }
}

#[tokio::test]
async fn scripts_wait_until_the_worker_program_exists() {
    let pending = PendingStandIn::new();
    let pool = WorkerPool::new(pending.settings());
    let (world, cancel) = (World::default(), CancellationToken::new());
    let scripts = ["a", "b", "c"].map(|key| ScriptRequest { work_share: work_share(key), ..script("") });
    let mut runs: Vec<_> = scripts.iter().map(|script| Box::pin(pool.run(script, &world, &cancel))).collect();
    for run in &mut runs {
        assert!(poll!(run).is_pending());
    }
    pending.appear();
    for evaluation in futures::future::join_all(runs).await {
        assert_eq!(value(&evaluation), 1);
    }
}

#[tokio::test]
async fn worker_program_missing_beyond_timeout_is_reported() {
    let pending = PendingStandIn::new();
    let settings = ScriptPoolSettings { queue_timeout: Duration::from_millis(50), ..pending.settings() };
    let pool = WorkerPool::new(settings);
    let run = async || pool.run(&script(""), &World::default(), &CancellationToken::new()).await;
    let reason = "the script worker is not built yet; try again in a minute".to_owned();
    assert_eq!(run().await.value, Err(ScriptError::Unavailable { reason }));
    pending.appear();
    assert_eq!(value(&run().await), 1, "the pool notices the program without a restart");
}

#[tokio::test]
async fn stop_ends_wait_for_worker_program() {
    let pending = PendingStandIn::new();
    let pool = WorkerPool::new(pending.settings());
    let (world, cancel, script) = (World::default(), CancellationToken::new(), script(""));
    let mut run = Box::pin(pool.run(&script, &world, &cancel));
    assert!(poll!(&mut run).is_pending());
    cancel.cancel();
    assert_eq!(run.await.value, Err(ScriptError::Cancelled));
}
