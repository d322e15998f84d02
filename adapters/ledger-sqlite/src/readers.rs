//! The connections that read beside the writer: opened when they are first needed, each lent to one reader at a time.
//!
//! sqlx's own pool asks a connection whether it lives each time that it comes back, which is a task and two changes of
//! thread more for every read; a file on this machine does not go away as a server does.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sqlx::{SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    error::{Error, Result},
    open::connect,
};

#[derive(Debug)]
pub(crate) struct Readers {
    options: SqliteConnectOptions,
    /// How long another process's lock is waited for.
    patience: Duration,
    places: Semaphore,
    /// The one that came back last is lent first: it knows the statements and has the pages at hand.
    idle: Mutex<Vec<SqliteConnection>>,
}

/// A connection on loan. Dropped without [`Reader::give_back`], as by a caller that waits no longer, it is closed: it
/// may be in the middle of a statement.
pub(crate) struct Reader<'a> {
    connection: SqliteConnection,
    readers: &'a Readers,
    _place: SemaphorePermit<'a>,
}

impl Readers {
    /// Lends at most `most` connections at a time, at least one.
    pub(crate) fn new(options: SqliteConnectOptions, most: u32, patience: Duration) -> Self {
        let places = Semaphore::new(usize::try_from(most.max(1)).unwrap_or(1));
        Self { options: options.pragma("query_only", "ON"), patience, places, idle: Mutex::default() }
    }

    /// Lends a connection as soon as one is free.
    pub(crate) async fn lend(&self) -> Result<Reader<'_>> {
        let place = self.places.acquire().await.map_err(|_| Error::Stopped)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.options, self.patience).await?,
        };
        Ok(Reader { connection, readers: self, _place: place })
    }
}

impl Reader<'_> {
    /// Returns a connection whose statements have all come to their end.
    pub(crate) fn give_back(self) {
        let Self { connection, readers, _place } = self;
        readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

impl Deref for Reader<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn readers(directory: &tempfile::TempDir, most: u32) -> Readers {
        let file = directory.path().join("some.db");
        Readers::new(SqliteConnectOptions::new().filename(file).create_if_missing(true), most, Duration::ZERO)
    }

    fn idle(readers: &Readers) -> usize {
        readers.idle.lock().unwrap().len()
    }

    #[tokio::test]
    async fn reader_pool_is_bounded_and_reuses_connections() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(&directory, 2);
        let (first, second) = (readers.lend().await.unwrap(), readers.lend().await.unwrap());
        assert!(timeout(Duration::from_millis(50), readers.lend()).await.is_err(), "a third has to wait");
        first.give_back();
        assert_eq!(idle(&readers), 1);
        let again = timeout(Duration::from_secs(5), readers.lend()).await.expect("one is free").unwrap();
        assert_eq!(idle(&readers), 0, "none is opened while one is idle");
        again.give_back();
        second.give_back();
        assert_eq!(idle(&readers), 2);
    }

    #[tokio::test]
    async fn reader_of_cancelled_query_is_closed_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(&directory, 1);
        let mut lent = readers.lend().await.unwrap();
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) SELECT i FROM n";
        let cut_off = timeout(Duration::from_millis(1), sqlx::query(endless).fetch_all(&mut *lent)).await;
        assert!(cut_off.is_err());
        drop(lent);
        assert_eq!(idle(&readers), 0);
        let mut lent = timeout(Duration::from_secs(10), readers.lend()).await.expect("its place is free").unwrap();
        let one: i64 = sqlx::query_scalar("SELECT 1").fetch_one(&mut *lent).await.unwrap();
        assert_eq!(one, 1);
    }
}
