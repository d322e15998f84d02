//! The connections that read beside the writer: opened when they are first needed, each used by one query at a time.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;

use crate::{
    database::{Database, Query},
    error::{Error, Result},
    open::connect_when_free,
    process::Process,
};

/// Readers of one database. Each query sees one state of it, however many statements it has.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    process: Arc<Process>,
    permits: Arc<Semaphore>,
    /// The one that came back last is used first: it knows the statements and has the pages at hand.
    idle: Arc<Mutex<Vec<Database>>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, process: Arc<Process>) -> Self {
        let permits = usize::try_from(process.settings.readers.max(1)).unwrap_or(1);
        Self { path, process, permits: Arc::new(Semaphore::new(permits)), idle: Arc::default() }
    }

    /// Runs a query as soon as a connection is free. A caller that stops waiting doesn't stop it.
    pub(crate) async fn run<T, F>(&self, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Stopped)?;
        let idle = Arc::clone(&self.idle);
        let reader = lock(&idle).pop();
        let (path, process) = (self.path.clone(), Arc::clone(&self.process));
        let read = tokio::task::spawn_blocking(move || {
            let reader = match reader {
                Some(reader) => reader,
                None => connect_reader(path, process)?,
            };
            // One that failed is closed: another takes its place, whatever was wrong with it.
            let read = read_snapshot(&reader, query)?;
            lock(&idle).push(reader);
            drop(permit);
            Ok(read)
        });
        read.await.unwrap_or_else(|error| Err(if error.is_panic() { Error::Panicked } else { Error::Stopped }))
    }
}

fn lock(idle: &Mutex<Vec<Database>>) -> MutexGuard<'_, Vec<Database>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect_reader(path: PathBuf, process: Arc<Process>) -> Result<Database> {
    let connection = connect_when_free(&path, process.settings.busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(Database::new(connection, process)?)
}

fn read_snapshot<T>(reader: &Database, query: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
    reader.run("BEGIN", [])?;
    let read = query(reader)?;
    reader.run("COMMIT", [])?;
    Ok(read)
}

#[cfg(test)]
mod tests;
