//! The one writer: it takes all verbs that wait, runs them in one transaction, and commits them together.
//!
//! An fsync costs more than everything else that a verb does, so the callers that wait while one is under way share
//! the next. A caller that stops waiting doesn't stop its verb.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use satchel_ports::ledger::LedgerError;
use tokio::sync::{mpsc, oneshot};

use crate::{
    database::{Database, Query},
    erasure::Erasure,
    error::{Error, Result},
    timed_receive::{JobWait, receive_jobs},
};

/// How many verbs may wait; whoever comes then waits before the queue.
const QUEUE_CAPACITY: usize = 1024;

/// How many verbs share one commit at most. Whoever comes first waits for all of them, and with few enough, answers are
/// on their way while the database works on the next (measured, ADR 0025); a sixteenth of an fsync is little on any
/// disk.
const MAX_GROUP: usize = 16;

/// The thread that owns the connection. Dropping it waits for the verbs that it was given, and erases what can be erased
/// quickly.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    commits: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(database: Database, erasure: Erasure) -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_CAPACITY);
        let commits = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&commits);
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || run_jobs(&database, jobs, &counter, erasure))?;
        Ok(Self { queue: Some(queue), commits, thread: Some(thread) })
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Runs `work` in the next transaction, after everything that was submitted before it, and answers once that is
    /// durable. `operation` says what it does, in the words of an operator.
    pub(crate) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Verb { work: Some(work), outcome: None, answer });
        let queue = self.queue.as_ref().ok_or(Error::Stopped);
        let submitted = async { queue?.send(job).await.map_err(|_| Error::Stopped) };
        let outcome = match submitted.await {
            Ok(()) => answered.await.unwrap_or(Err(Error::Stopped)),
            Err(stopped) => Err(stopped),
        };
        outcome.map_err(|error| error.at_port(operation))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has told its callers that it stopped.
            let _ = thread.join();
        }
    }
}

/// How a verb went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobStatus {
    Done,
    Failed { is_full: bool },
}

/// A caller's work, whatever it yields.
trait Job: Send {
    fn run(&mut self, database: &Database) -> JobStatus;

    /// Answers the caller: by its own failure, else that of the transaction, else by what it yielded.
    fn answer(self: Box<Self>, transaction: Result<(), Arc<Error>>);
}

struct Verb<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Verb<T, F>
where
    T: Send,
    F: FnOnce(&Database) -> Result<T> + Send,
{
    fn run(&mut self, database: &Database) -> JobStatus {
        let work = self.work.take().expect("a verb is run once");
        // A panic in one verb must not take the writer from all others.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(database))).unwrap_or(Err(Error::Panicked));
        let status = match &outcome {
            Ok(_) => JobStatus::Done,
            Err(error) => JobStatus::Failed { is_full: error.is_full() },
        };
        self.outcome = Some(outcome);
        status
    }

    fn answer(self: Box<Self>, transaction: Result<(), Arc<Error>>) {
        let outcome = match (self.outcome, transaction) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(shared)) => Err(Error::Group(shared)),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => unreachable!("a transaction that was committed has run all its verbs"),
        };
        // The caller may have stopped waiting.
        let _ = self.answer.send(outcome);
    }
}

fn run_jobs(database: &Database, mut jobs: mpsc::Receiver<Box<dyn Job>>, commits: &AtomicU64, mut erasure: Erasure) {
    let mut group = Vec::with_capacity(MAX_GROUP);
    loop {
        match receive_jobs(&mut jobs, &mut group, MAX_GROUP, erasure.delay(Instant::now())) {
            JobWait::Closed => break,
            JobWait::TimedOut => {}
            JobWait::Jobs => {
                answer_group(database, &mut group, commits);
                match database.take_erasure() {
                    true => erasure.start(Instant::now()),
                    false => erasure.postpone(Instant::now()),
                }
            }
        }
        erasure.run_due_step(database, Instant::now());
    }
    erasure.finish(database);
}

/// Runs the jobs of a group, and answers their callers.
fn answer_group(database: &Database, group: &mut Vec<Box<dyn Job>>, commits: &AtomicU64) {
    let transaction = match run_group(database, group) {
        Ok(has_written) => {
            commits.fetch_add(u64::from(has_written), Ordering::Relaxed);
            Ok(())
        }
        Err(error) => {
            // SQLite has rolled back by itself after some errors; then there is nothing left to do.
            let _ = database.run("ROLLBACK", []);
            Err(Arc::new(error))
        }
    };
    for job in group.drain(..) {
        job.answer(transaction.clone());
    }
}

/// Runs verbs as one transaction, and returns whether they changed anything.
fn run_group(database: &Database, group: &mut [Box<dyn Job>]) -> Result<bool> {
    match group {
        [job] => run_alone(database, job.as_mut()),
        jobs => run_together(database, jobs),
    }
}

/// Without a savepoint, for which SQLite copies every page that is written.
fn run_alone(database: &Database, job: &mut dyn Job) -> Result<bool> {
    database.run("BEGIN IMMEDIATE", [])?;
    let changes = database.total_changes();
    if job.run(database) != JobStatus::Done {
        // SQLite may have done so by itself.
        let _ = database.run("ROLLBACK", []);
        return Ok(false);
    }
    database.run("COMMIT", [])?;
    Ok(database.total_changes() > changes)
}

/// Each behind a savepoint of its own, so that its failure is its own.
fn run_together(database: &Database, jobs: &mut [Box<dyn Job>]) -> Result<bool> {
    database.run("BEGIN IMMEDIATE", [])?;
    let mut has_written = false;
    for job in jobs {
        database.run("SAVEPOINT verb", [])?;
        let changes = database.total_changes();
        match job.run(database) {
            JobStatus::Done => has_written |= database.total_changes() > changes,
            // Where there is no room, SQLite may roll back everything, and with it the work of the others.
            JobStatus::Failed { is_full } if database.is_autocommit() => {
                return Err(if is_full { Error::Full } else { Error::RolledBack });
            }
            JobStatus::Failed { .. } => drop(database.run("ROLLBACK TO verb", [])?),
        }
        database.run("RELEASE verb", [])?;
    }
    database.run("COMMIT", [])?;
    Ok(has_written)
}

#[cfg(test)]
mod tests;
