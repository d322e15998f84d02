//! The one writer: it takes all jobs that wait, runs each behind a savepoint, and commits them together.
//!
//! An fsync costs more than everything else that a verb does, so the callers that wait while one is under way share
//! the next. A caller that stops waiting doesn't stop its job.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{FutureExt, future::BoxFuture};
use satchel_ports::ledger::LedgerError;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    batch::Batch,
    error::{Error, Result},
    session::Session,
};

/// How many jobs may wait; whoever comes then waits before the queue.
const QUEUE: usize = 1024;

/// How many jobs share one commit at most. Whoever comes first waits for all of them, and with few enough, answers are
/// on their way while the database works on the next (measured, ADR 0009); a sixteenth of an fsync is little on any
/// disk.
const GROUP: usize = 16;

#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the task that owns the connection. It ends when the writer is dropped and what waited is done.
    pub(crate) fn start(connection: SqliteConnection) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let commits = Arc::new(AtomicU64::new(0));
        tokio::spawn(work_off(connection, jobs, Arc::clone(&commits)));
        Self { queue, commits }
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in the next transaction and answers once that is durable.
    pub(crate) async fn write<T, F>(&self, doing: &'static str, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T>> + Send + 'static,
    {
        self.submit(doing, Effect::Writes, work).await
    }

    /// Runs `work` after everything that was submitted before it, and with no other process writing meanwhile.
    pub(crate) async fn read_in_order<T, F>(&self, doing: &'static str, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T>> + Send + 'static,
    {
        self.submit(doing, Effect::Reads, work).await
    }

    async fn submit<T, F>(&self, doing: &'static str, effect: Effect, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let call = Call { doing, effect, work: Some(work), outcome: None, answer };
        let stopped = || Error::Stopped.at_port(doing);
        self.queue.send(Box::new(call)).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
}

/// How a job went; its failure itself is for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Well,
    Failed,
    /// There was no room; SQLite may have rolled back everything, and with it the work of the others.
    Full,
}

impl Ran {
    fn from_outcome<T>(outcome: &Result<T>) -> Self {
        match outcome {
            Ok(_) => Self::Well,
            Err(error) if error.is_full() => Self::Full,
            Err(_) => Self::Failed,
        }
    }
}

/// A caller's work, whatever it yields.
trait Job: Send {
    fn effect(&self) -> Effect;

    /// Does the work; what failed is to be undone.
    fn run<'s>(&'s mut self, session: &'s mut Session<'_>) -> BoxFuture<'s, Ran>;

    /// Takes note of how what the job had left to be written went.
    fn settle(&mut self, closing: Result<()>) -> Ran;

    /// Tells the caller: its own failure, else that of the transaction, else what it yielded.
    fn answer(self: Box<Self>, transaction: Result<(), Arc<Error>>);
}

struct Call<T, F> {
    doing: &'static str,
    effect: Effect,
    work: Option<F>,
    outcome: Option<Result<T>>,
    answer: oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send + 'static,
    F: for<'s, 'c> FnOnce(&'s mut Session<'c>) -> BoxFuture<'s, Result<T>> + Send + 'static,
{
    fn effect(&self) -> Effect {
        self.effect
    }

    fn run<'s>(&'s mut self, session: &'s mut Session<'_>) -> BoxFuture<'s, Ran> {
        let work = self.work.take().expect("a job is run once");
        Box::pin(async move {
            // A panic in one job must not take the writer from all others.
            let outcome = match AssertUnwindSafe(work(session)).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::Panicked),
            };
            let ran = Ran::from_outcome(&outcome);
            self.outcome = Some(outcome);
            ran
        })
    }

    fn settle(&mut self, closing: Result<()>) -> Ran {
        let ran = Ran::from_outcome(&closing);
        if let Err(error) = closing {
            self.outcome = Some(Err(error));
        }
        ran
    }

    fn answer(self: Box<Self>, transaction: Result<(), Arc<Error>>) {
        let outcome = match (self.outcome, transaction) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(shared)) => Err(Error::Group(shared)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => unreachable!("a transaction that was committed has run all its jobs"),
        };
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome.map_err(|error| error.at_port(self.doing)));
    }
}

async fn work_off(mut connection: SqliteConnection, mut jobs: mpsc::Receiver<Box<dyn Job>>, commits: Arc<AtomicU64>) {
    let mut group = Vec::new();
    while jobs.recv_many(&mut group, GROUP).await > 0 {
        let transaction = run_group(&mut connection, &mut group, &commits).await.map_err(Arc::new);
        if transaction.is_err() {
            // SQLite has rolled back by itself after some errors; then there is nothing left to do.
            let _ = Batch::from_statements(&["ROLLBACK"]).run(&mut connection).await;
        }
        for job in group.drain(..) {
            job.answer(transaction.clone());
        }
    }
}

async fn run_group(connection: &mut SqliteConnection, group: &mut [Box<dyn Job>], commits: &AtomicU64) -> Result<()> {
    let written = match group {
        [job] => run_alone(connection, job.as_mut()).await?,
        jobs => run_together(connection, jobs).await?,
    };
    if written {
        commits.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs a job as a transaction and says whether something was committed.
async fn run_alone(connection: &mut SqliteConnection, job: &mut dyn Job) -> Result<bool> {
    let mut session = Session::behind(connection, Some(Batch::from_statements(&["BEGIN IMMEDIATE"])));
    if job.run(&mut session).await != Ran::Well {
        // It fails where SQLite has rolled back by itself, and where nothing was begun.
        let _ = session.run(Batch::from_statements(&["ROLLBACK"])).await;
        return Ok(false);
    }
    let closing = session.take_closing();
    if closing.is_none() && session.take_opening().is_some() {
        return Ok(false);
    }
    let mut closing = closing.unwrap_or_default();
    closing.add("COMMIT");
    session.run(closing).await?;
    Ok(job.effect() == Effect::Writes)
}

/// Runs jobs as one transaction, each behind a savepoint of its own, and says whether something was committed.
async fn run_together(connection: &mut SqliteConnection, jobs: &mut [Box<dyn Job>]) -> Result<bool> {
    // By itself: were it to fail on the first job's trip, the others would not know why.
    Batch::from_statements(&["BEGIN IMMEDIATE"]).run(connection).await?;
    let mut written = false;
    let mut opening = Some(Batch::from_statements(&["SAVEPOINT job"]));
    for job in jobs {
        let mut session = Session::behind(connection, opening.take());
        let mut ran = job.run(&mut session).await;
        if let Some(closing) = session.take_closing().filter(|_| ran == Ran::Well) {
            // Its failure must stay its own.
            ran = job.settle(session.run(closing).await.map(|_| ()));
        }
        opening = session.take_opening();
        match ran {
            Ran::Well => {
                written |= job.effect() == Effect::Writes;
                opening = opening.or_else(|| Some(Batch::from_statements(&["RELEASE job", "SAVEPOINT job"])));
            }
            // It came to nothing, so the savepoint that stands is still that of the job before it.
            Ran::Failed | Ran::Full if opening.is_some() => {}
            Ran::Failed => drop(session.run(Batch::from_statements(&["ROLLBACK TO job"])).await?),
            // Fails when nothing is left to roll back to.
            Ran::Full => {
                drop(session.run(Batch::from_statements(&["ROLLBACK TO job"])).await.map_err(|_| Error::Full)?)
            }
        }
    }
    Batch::from_statements(&["COMMIT"]).run(connection).await?;
    Ok(written)
}
