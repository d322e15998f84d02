//! The pool of workers: a script waits for a slot and takes a warm worker where there is one.

use std::{
    collections::VecDeque,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use async_trait::async_trait;
use satchel_ports::{HostFunctions, ScriptError, ScriptEvaluation, ScriptHost, ScriptRequest};
use satchel_worker_process::{SlotPermit, SlotPool, WorkerProcess, WorkerProgram, WorkerStartError};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::evaluate::{EvaluationOutcome, EvaluationTask};
use crate::protocol::{MAX_LINE_BYTES, PROTOCOL_VERSION};

/// How long a script runs before the worker that it took is replaced: starting a process takes longer than most
/// scripts do.
const REFILL_DELAY: Duration = Duration::from_millis(10);

/// How scripts are evaluated.
#[derive(Debug, Clone)]
pub struct ScriptPoolSettings {
    pub worker: PathBuf,
    /// Whether scripts wait for a worker program that doesn't exist yet: one that is still being built. Otherwise they
    /// fail at once.
    pub wait_for_program: bool,
    /// How many workers are kept warm after the first script.
    pub max_warm: usize,
    /// How many scripts run at a time.
    pub max_concurrent: usize,
    /// How many of them may belong to one person, and to one conversation.
    pub max_concurrent_per_holder: usize,
    /// How long a script waits for the worker program and a slot.
    pub queue_timeout: Duration,
    /// After how long without scripts the warm workers are stopped.
    pub idle_timeout: Duration,
}

impl ScriptPoolSettings {
    /// The defaults for this machine: one script per core, and one of them left to others where there are two.
    #[must_use]
    pub fn new(worker: PathBuf) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            worker,
            wait_for_program: false,
            max_warm: 2,
            max_concurrent: cores,
            max_concurrent_per_holder: (cores - 1).clamp(1, 2),
            queue_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(5 * 60),
        }
    }

    fn is_program_pending(&self) -> bool {
        self.wait_for_program && !self.worker.is_file()
    }

    fn program(&self) -> WorkerProgram {
        worker_program(&self.worker)
    }
}

/// Starts one worker, checks whether it can evaluate scripts, kills it, and returns how long it took to get ready.
///
/// # Errors
/// When it can't be started, or doesn't speak the protocol.
pub async fn probe(worker: &Path) -> Result<Duration, WorkerStartError> {
    worker_program(worker).probe().await
}

fn worker_program(path: &Path) -> WorkerProgram {
    WorkerProgram {
        path: path.to_owned(),
        arguments: Vec::new(),
        name: "script worker",
        protocol_version: PROTOCOL_VERSION,
        max_line_bytes: MAX_LINE_BYTES,
    }
}

/// Evaluates each script in a worker process of its own. Dropping the last clone ends every worker.
#[derive(Clone)]
pub struct WorkerPool(Arc<PoolShared>);

impl WorkerPool {
    /// Sets up the pool. No worker is started before the first script.
    #[must_use]
    pub fn new(settings: ScriptPoolSettings) -> Self {
        let slots = SlotPool::new(settings.max_concurrent, settings.max_concurrent_per_holder);
        let inner = WarmPool { settings, workers: Mutex::default(), worker_taken: Notify::new() };
        Self(Arc::new(PoolShared {
            warm_pool: Arc::new(inner),
            slots,
            is_maintained: AtomicBool::new(false),
            shutdown: CancellationToken::new(),
        }))
    }

    /// Evaluates the script; the error says why it never started.
    async fn evaluate(
        &self,
        script: &ScriptRequest,
        host_functions: &dyn HostFunctions,
        cancel: &CancellationToken,
    ) -> Result<ScriptEvaluation, ScriptError> {
        let _permit = run_until_cancelled(cancel, self.acquire_slot(script)).await?;
        // Not earlier: while it waits for a slot, only the script is in memory.
        let task = EvaluationTask::new(script, host_functions)?;
        let warm = self.0.warm_pool.lock_workers().pop_front();
        self.0.maintain_warm_workers();
        if let Some(worker) = warm
            && let EvaluationOutcome::Ended(evaluation) = task.run(worker, cancel).await
        {
            return Ok(evaluation);
        }
        // There was no warm worker, or it had died, which shows only now: the script has not started.
        let worker = run_until_cancelled(cancel, self.start_worker()).await?;
        match task.run(worker, cancel).await {
            EvaluationOutcome::NotStarted(evaluation) | EvaluationOutcome::Ended(evaluation) => Ok(evaluation),
        }
    }

    async fn acquire_slot(&self, script: &ScriptRequest) -> Result<SlotPermit, ScriptError> {
        let settings = &self.0.warm_pool.settings;
        let acquire = async {
            // Before it takes a slot, which others may need as soon as there is a program.
            self.wait_until_program_exists(script).await;
            self.0.slots.acquire(Some(&script.work_share)).await
        };
        timeout(settings.queue_timeout, acquire).await.map_err(|_| {
            let reason = match settings.is_program_pending() {
                true => "the script worker is not built yet; try again in a minute",
                false => "too many scripts are running; try again in a moment",
            };
            ScriptError::Unavailable { reason: reason.to_owned() }
        })
    }

    async fn wait_until_program_exists(&self, script: &ScriptRequest) {
        let settings = &self.0.warm_pool.settings;
        if !settings.is_program_pending() {
            return;
        }
        let (conversation, worker) = (&script.work_share.conversation, settings.worker.display());
        tracing::info!(%conversation, %worker, "a script waits until the script worker is built");
        settings.program().wait_until_exists().await;
    }

    async fn start_worker(&self) -> Result<WorkerProcess, ScriptError> {
        self.0.warm_pool.settings.program().start().await.map_err(|error| {
            tracing::warn!(%error, "no script can be evaluated");
            ScriptError::Unavailable { reason: error.to_string() }
        })
    }
}

#[async_trait]
impl ScriptHost for WorkerPool {
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        host_functions: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        match self.evaluate(script, host_functions, cancel).await {
            Ok(evaluation) => evaluation,
            Err(failure) => ScriptEvaluation::from_error(failure),
        }
    }
}

/// Runs a future until it completes or is cancelled.
async fn run_until_cancelled<T>(
    cancel: &CancellationToken,
    future: impl Future<Output = Result<T, ScriptError>>,
) -> Result<T, ScriptError> {
    cancel.run_until_cancelled(future).await.unwrap_or(Err(ScriptError::Cancelled))
}

/// The state that the clones of a pool share.
struct PoolShared {
    warm_pool: Arc<WarmPool>,
    slots: Arc<SlotPool>,
    /// Whether the task that keeps workers warm is running.
    is_maintained: AtomicBool,
    shutdown: CancellationToken,
}

impl PoolShared {
    /// Starts the task that keeps workers warm, or wakes it after a worker was taken.
    fn maintain_warm_workers(&self) {
        if self.warm_pool.settings.max_warm == 0 {
            return;
        }
        if !self.is_maintained.swap(true, Ordering::Relaxed) {
            let (inner, end) = (Arc::clone(&self.warm_pool), self.shutdown.clone());
            tokio::spawn(end.run_until_cancelled_owned(async move { inner.maintain().await }));
        }
        self.warm_pool.worker_taken.notify_one();
    }
}

impl Drop for PoolShared {
    fn drop(&mut self) {
        self.shutdown.cancel();
        self.warm_pool.lock_workers().clear();
    }
}

/// The warm workers and what their task needs.
struct WarmPool {
    settings: ScriptPoolSettings,
    workers: Mutex<VecDeque<WorkerProcess>>,
    worker_taken: Notify,
}

impl WarmPool {
    fn lock_workers(&self) -> MutexGuard<'_, VecDeque<WorkerProcess>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces workers that were taken, and stops them when they are idle. Never returns.
    async fn maintain(&self) {
        loop {
            if timeout(self.settings.idle_timeout, self.worker_taken.notified()).await.is_err() {
                self.lock_workers().clear();
                self.worker_taken.notified().await;
            }
            sleep(REFILL_DELAY).await;
            if let Err(error) = self.refill().await {
                // A script without a warm worker starts one itself, and reports why that fails.
                tracing::warn!(%error, "no worker waits for the next script");
            }
        }
    }

    async fn refill(&self) -> Result<(), WorkerStartError> {
        while self.lock_workers().len() < self.settings.max_warm {
            let worker = self.settings.program().start().await?;
            self.lock_workers().push_back(worker);
        }
        Ok(())
    }
}
