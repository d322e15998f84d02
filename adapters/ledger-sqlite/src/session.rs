//! A connection at work on one job, which opens and commits its transaction on the same trips as the job's statements.

use sqlx::SqliteConnection;

use crate::{
    batch::{Answers, Batch},
    error::Result,
};

/// One job's use of a connection.
pub(crate) struct Session<'c> {
    connection: &'c mut SqliteConnection,
    /// What opens the transaction; it goes with the job's first statements.
    opening: Option<Batch>,
    /// What the job leaves to be written last.
    closing: Option<Batch>,
}

impl<'c> Session<'c> {
    /// Statements that run by themselves, each seeing what is committed then.
    pub(crate) fn reading(connection: &'c mut SqliteConnection) -> Self {
        Self { connection, opening: None, closing: None }
    }

    /// Statements behind `opening`, which goes with the first of them.
    pub(crate) fn behind(connection: &'c mut SqliteConnection, opening: Option<Batch>) -> Self {
        Self { connection, opening, closing: None }
    }

    /// Runs statements in their order, up to the first that fails.
    pub(crate) async fn run(&mut self, batch: Batch) -> Result<Answers> {
        match self.opening.take() {
            None => batch.run(self.connection).await,
            Some(opening) => opening.followed_by(batch).run(self.connection).await,
        }
    }

    /// Leaves to the commit what the job writes last, so that both are one trip. Nothing may depend on its answer.
    pub(crate) fn finish(&mut self, batch: Batch) {
        self.closing = Some(batch);
    }

    /// What the job has left to be written.
    pub(crate) fn take_closing(&mut self) -> Option<Batch> {
        self.closing.take()
    }

    /// What opens the transaction, if the job did not come to it.
    pub(crate) fn take_opening(&mut self) -> Option<Batch> {
        self.opening.take()
    }

    /// The connection for a statement that goes alone.
    pub(crate) async fn connection(&mut self) -> Result<&mut SqliteConnection> {
        if let Some(opening) = self.opening.take() {
            opening.run(self.connection).await?;
        }
        Ok(self.connection)
    }
}
