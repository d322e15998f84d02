//! The one writer: it takes all jobs that wait, runs each in a savepoint, and commits them together.
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

use crate::error::{Error, Result};

/// How many jobs may wait; whoever comes then waits before the queue.
const QUEUE: usize = 1024;

/// How many jobs share one commit at most.
const GROUP: usize = 256;

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
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.submit(doing, Effect::Writes, work).await
    }

    /// Runs `work` after everything that was submitted before it, and with no other process writing meanwhile.
    pub(crate) async fn read_in_order<T, F>(&self, doing: &'static str, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.submit(doing, Effect::Reads, work).await
    }

    async fn submit<T, F>(&self, doing: &'static str, effect: Effect, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
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

/// A caller's work, whatever it yields.
trait Job: Send {
    fn effect(&self) -> Effect;

    /// Does the work; `false` when it failed and is to be undone.
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, bool>;

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
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
{
    fn effect(&self) -> Effect {
        self.effect
    }

    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, bool> {
        let work = self.work.take().expect("a job is run once");
        Box::pin(async move {
            // A panic in one job must not take the writer from all others.
            let outcome = match AssertUnwindSafe(work(connection)).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::Panicked),
            };
            self.outcome.insert(outcome).is_ok()
        })
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
            let _ = execute(&mut connection, "ROLLBACK").await;
        }
        for job in group.drain(..) {
            job.answer(transaction.clone());
        }
    }
}

async fn run_group(connection: &mut SqliteConnection, group: &mut [Box<dyn Job>], commits: &AtomicU64) -> Result<()> {
    execute(connection, "BEGIN IMMEDIATE").await?;
    let alone = group.len() == 1;
    let mut written = false;
    for job in group {
        let writes = job.effect() == Effect::Writes;
        if alone {
            // The transaction itself is its savepoint.
            if !job.run(connection).await {
                return execute(connection, "ROLLBACK").await.or(Ok(()));
            }
            written = writes;
            break;
        }
        execute(connection, "SAVEPOINT job").await?;
        if job.run(connection).await {
            written |= writes;
        } else {
            // Fails when SQLite has rolled back everything, and with it the work of the others.
            execute(connection, "ROLLBACK TO job").await?;
        }
        execute(connection, "RELEASE job").await?;
    }
    execute(connection, "COMMIT").await?;
    if written {
        commits.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<()> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}
