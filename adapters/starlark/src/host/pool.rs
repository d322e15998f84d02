//! Who evaluates a script: a place for it, and a worker that waits already where there is one.

use std::{
    collections::VecDeque,
    num::NonZero,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use async_trait::async_trait;
use satchel_ports::{HostFunctions, ScriptError, ScriptEvaluation, ScriptHost, ScriptRequest};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    evaluate::{EvaluationOutcome, EvaluationTask},
    slots::{SlotPermit, SlotPool},
    worker::{ScriptHostError, ScriptWorker},
};

/// How long a script runs undisturbed before the worker that it took is replaced: the start of a process takes longer
/// than most scripts do.
const REFILL_DELAY: Duration = Duration::from_millis(10);

/// How scripts are evaluated.
#[derive(Debug, Clone)]
pub struct ScriptPoolSettings {
    /// The program that evaluates one.
    pub worker: PathBuf,
    /// How many workers wait for the next script, once there was one.
    pub warm: usize,
    /// How many scripts run at once.
    pub at_once: usize,
    /// How many of them may be one person's, and one conversation's.
    pub at_once_per_holder: usize,
    /// How long a script waits for a place.
    pub queue_timeout: Duration,
    /// After how long without scripts no worker waits any more.
    pub idle: Duration,
}

impl ScriptPoolSettings {
    /// What suits this machine: a script for each of its cores, and one of them left to others where there are two.
    #[must_use]
    pub fn new(worker: PathBuf) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            worker,
            warm: 2,
            at_once: cores,
            at_once_per_holder: (cores - 1).clamp(1, 2),
            queue_timeout: Duration::from_secs(60),
            idle: Duration::from_secs(5 * 60),
        }
    }
}

/// Evaluates each script in a worker process of its own. Dropping the last clone ends every worker.
#[derive(Clone)]
pub struct WorkerPool(Arc<PoolShared>);

impl WorkerPool {
    /// Sets it up. Nothing is started before the first script.
    #[must_use]
    pub fn new(settings: ScriptPoolSettings) -> Self {
        let places = SlotPool::new(settings.at_once, settings.at_once_per_holder);
        let inner = WarmPool { settings, warm: Mutex::default(), taken: Notify::new() };
        Self(Arc::new(PoolShared {
            inner: Arc::new(inner),
            places,
            kept: AtomicBool::new(false),
            end: CancellationToken::new(),
        }))
    }

    /// What comes of the script, or why it was never begun.
    async fn evaluated(
        &self,
        script: &ScriptRequest,
        world: &dyn HostFunctions,
        cancel: &CancellationToken,
    ) -> Result<ScriptEvaluation, ScriptError> {
        let _place = or_cancelled(cancel, self.acquire_slot(script)).await?;
        // Not before: whoever waits for a place keeps nothing but the script.
        let task = EvaluationTask::new(script, world)?;
        let warm = self.0.inner.warm().pop_front();
        self.0.maintain_warm_workers();
        if let Some(worker) = warm
            && let EvaluationOutcome::Ended(evaluation) = task.run(worker, cancel).await
        {
            return Ok(evaluation);
        }
        // None waited, or it died while it did, which shows only now: the script has not begun.
        let worker = or_cancelled(cancel, self.start_worker()).await?;
        match task.run(worker, cancel).await {
            EvaluationOutcome::NotStarted(evaluation) | EvaluationOutcome::Ended(evaluation) => Ok(evaluation),
        }
    }

    async fn acquire_slot(&self, script: &ScriptRequest) -> Result<SlotPermit, ScriptError> {
        let patience = self.0.inner.settings.queue_timeout;
        timeout(patience, self.0.places.acquire(script)).await.map_err(|_| {
            let reason = "too many scripts are running; try again in a moment".to_owned();
            ScriptError::Unavailable { reason }
        })
    }

    async fn start_worker(&self) -> Result<ScriptWorker, ScriptError> {
        ScriptWorker::start(&self.0.inner.settings.worker).await.map_err(|error| {
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
        world: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        match self.evaluated(script, world, cancel).await {
            Ok(evaluation) => evaluation,
            Err(failure) => ScriptEvaluation::from_error(failure),
        }
    }
}

/// What this comes to, unless it is cancelled before.
async fn or_cancelled<T>(
    cancel: &CancellationToken,
    wanted: impl Future<Output = Result<T, ScriptError>>,
) -> Result<T, ScriptError> {
    cancel.run_until_cancelled(wanted).await.unwrap_or(Err(ScriptError::Cancelled))
}

/// What the clones of a pool have in common.
struct PoolShared {
    inner: Arc<WarmPool>,
    places: Arc<SlotPool>,
    /// Whether somebody keeps workers waiting.
    kept: AtomicBool,
    end: CancellationToken,
}

impl PoolShared {
    /// Says that a script has begun: one worker less waits.
    fn maintain_warm_workers(&self) {
        if self.inner.settings.warm == 0 {
            return;
        }
        if !self.kept.swap(true, Ordering::Relaxed) {
            let (inner, end) = (Arc::clone(&self.inner), self.end.clone());
            tokio::spawn(end.run_until_cancelled_owned(async move { inner.keep_some_waiting().await }));
        }
        self.inner.taken.notify_one();
    }
}

impl Drop for PoolShared {
    fn drop(&mut self) {
        self.end.cancel();
        self.inner.warm().clear();
    }
}

/// What whoever keeps workers waiting needs.
struct WarmPool {
    settings: ScriptPoolSettings,
    warm: Mutex<VecDeque<ScriptWorker>>,
    taken: Notify,
}

impl WarmPool {
    fn warm(&self) -> MutexGuard<'_, VecDeque<ScriptWorker>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces workers that were taken, and lets those go that nobody takes. Never ends.
    async fn keep_some_waiting(&self) {
        loop {
            if timeout(self.settings.idle, self.taken.notified()).await.is_err() {
                self.warm().clear();
                self.taken.notified().await;
            }
            sleep(REFILL_DELAY).await;
            if let Err(error) = self.fill().await {
                // A script that finds none starts one itself, and is told why that fails.
                tracing::warn!(%error, "no worker waits for the next script");
            }
        }
    }

    async fn fill(&self) -> Result<(), ScriptHostError> {
        while self.warm().len() < self.settings.warm {
            let worker = ScriptWorker::start(&self.settings.worker).await?;
            self.warm().push_back(worker);
        }
        Ok(())
    }
}
