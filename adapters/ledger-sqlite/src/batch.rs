//! Several statements as one trip to the database.
//!
//! A connection lives on a thread of its own, and going there and back costs more than most statements do. SQLite's
//! driver runs statements that are joined by `;` one after the other and hands over the rows of each.

use futures::TryStreamExt;
use sqlx::{
    Arguments, AssertSqlSafe, Either, Encode, Executor, FromRow, Sqlite, SqliteConnection, Type,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::error::Result;

/// Statements that run together. Each counts its own `$1`, `$2`, ….
#[derive(Default)]
pub(crate) struct Batch {
    sql: String,
    arguments: SqliteArguments,
    statements: usize,
    /// How many more stand before them.
    before: usize,
    /// Whether the last of them has said all with its first row.
    ends_with_row: bool,
}

/// One statement of a batch, by which its rows are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement(usize);

/// A statement that was just added and still takes its arguments.
pub(crate) struct Added<'a> {
    batch: &'a mut Batch,
    statement: Statement,
}

impl Batch {
    /// Adds a statement. Its text has no `$` but those of its arguments.
    pub(crate) fn add(&mut self, sql: &'static str) -> Added<'_> {
        let offset = self.arguments.len();
        let mut pieces = sql.split('$');
        self.sql.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = piece[..digits].parse().expect("an argument has a number");
            self.sql.push('$');
            self.sql.push_str(&(number + offset).to_string());
            self.sql.push_str(&piece[digits..]);
        }
        self.sql.push(';');
        self.statements += 1;
        self.ends_with_row = false;
        let statement = Statement(self.statements - 1);
        Added { batch: self, statement }
    }

    /// Statements without arguments and answers, such as those around a transaction.
    pub(crate) fn from_statements(statements: &[&'static str]) -> Self {
        let mut batch = Self::default();
        for sql in statements {
            batch.add(sql);
        }
        batch
    }

    /// This batch's statements before those of `batch`, whose answers are found as if it ran alone.
    pub(crate) fn followed_by(mut self, batch: Self) -> Self {
        assert_eq!(self.arguments.len(), 0, "what goes before has no arguments");
        self.sql.push_str(&batch.sql);
        Self { sql: self.sql, before: self.statements, ..batch }
    }

    /// Runs the statements in their order, up to the first that fails.
    pub(crate) async fn run(self, connection: &mut SqliteConnection) -> Result<Answers> {
        let mut rows: Vec<Vec<SqliteRow>> = Vec::new();
        let statements = self.before + self.statements;
        rows.resize_with(statements, Vec::new);
        let mut statement = 0;
        // The text is put together from constants; what comes from outside is bound.
        let query = sqlx::query_with(AssertSqlSafe(self.sql), self.arguments);
        let mut answers = connection.fetch_many(query);
        while let Some(answer) = answers.try_next().await? {
            match answer {
                Either::Left(_) => statement += 1,
                Either::Right(row) => rows[statement].push(row),
            }
            // Whatever else were waited for, the stream's end among it, would cost one more change of thread.
            let said_all = self.ends_with_row && rows.last().is_some_and(|rows| !rows.is_empty());
            if statement == statements || said_all {
                break;
            }
        }
        rows.drain(..self.before);
        Ok(Answers(rows))
    }
}

impl Added<'_> {
    /// Binds the statement's next argument.
    pub(crate) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(self, value: T) -> Self {
        self.batch.arguments.add(value).expect("ids, numbers and our own types have a form in the database");
        self
    }

    /// The statement, for finding its row: it reads one at most, and is the last of its batch.
    pub(crate) fn only_row(self) -> Statement {
        self.batch.ends_with_row = true;
        self.statement
    }

    /// The statement, for finding its rows.
    pub(crate) fn id(self) -> Statement {
        self.statement
    }
}

/// What the statements of a batch brought back.
pub(crate) struct Answers(Vec<Vec<SqliteRow>>);

impl Answers {
    pub(crate) fn all<T>(&self, statement: Statement) -> Result<Vec<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow>,
    {
        Ok(self.0[statement.0].iter().map(T::from_row).collect::<Result<_, _>>()?)
    }

    pub(crate) fn first_row<T>(&self, statement: Statement) -> Result<Option<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow>,
    {
        Ok(self.0[statement.0].first().map(T::from_row).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection;

    use super::*;

    #[tokio::test]
    async fn each_statement_has_its_own_arguments_and_rows() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut batch = Batch::default();
        let made = batch.add("CREATE TABLE t (a INTEGER, b TEXT)").id();
        batch.add("INSERT INTO t VALUES ($1, $2), ($1 + 1, $2)").bind(7).bind("x").id();
        let changed = batch.add("UPDATE t SET b = $1 WHERE a = $2 RETURNING a").bind("y").bind(8).id();
        let read = batch.add("SELECT a, b FROM t WHERE b <> $1 ORDER BY a").bind("z").id();
        let answers = batch.run(&mut connection).await.unwrap();
        assert_eq!(answers.first_row::<(i64,)>(made).unwrap(), None);
        assert_eq!(answers.all::<(i64,)>(changed).unwrap(), [(8,)]);
        let expected = [(7, "x".to_owned()), (8, "y".to_owned())];
        assert_eq!(answers.all::<(i64, String)>(read).unwrap(), expected);
    }

    #[tokio::test]
    async fn single_row_read_leaves_connection_usable() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for number in 0..3 {
            let mut batch = Batch::default();
            batch.add("CREATE TABLE IF NOT EXISTS t (a INTEGER)");
            batch.add("INSERT INTO t VALUES ($1)").bind(number);
            let read = batch.add("SELECT COUNT(*), MAX(a) FROM t").only_row();
            let answers = Batch::from_statements(&["BEGIN"]).followed_by(batch).run(&mut connection).await.unwrap();
            assert_eq!(answers.first_row::<(i64, i64)>(read).unwrap(), Some((number + 1, number)));
            Batch::from_statements(&["COMMIT"]).run(&mut connection).await.unwrap();
        }
        let mut batch = Batch::default();
        let none = batch.add("SELECT a FROM t WHERE a > 7").only_row();
        assert_eq!(batch.run(&mut connection).await.unwrap().first_row::<(i64,)>(none).unwrap(), None);
    }

    #[tokio::test]
    async fn nothing_runs_behind_a_statement_that_fails() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let mut batch = Batch::default();
        batch.add("CREATE TABLE t (a INTEGER NOT NULL)");
        batch.add("INSERT INTO t VALUES ($1)").bind(Option::<i64>::None);
        batch.add("INSERT INTO t VALUES (2)");
        assert!(batch.run(&mut connection).await.is_err());
        let rows: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM t").fetch_one(&mut connection).await.unwrap();
        assert_eq!(rows, 0);
    }
}
