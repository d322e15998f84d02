//! The logins of browsers to the page. One that has expired is not seen any more, and its row goes when the next is stored.

use satchel_domain::{LoginId, Timestamp};
use satchel_ports::ledger::{NewLogin, PageLogin};
use uuid::Uuid;

use crate::{
    params, row_struct,
    session::{Session, VerbResult},
};

/// The lock behind which logins are stored, so that their limit holds.
const LOCK: &str = "logins";

/// Selects whole logins, as [`LoginRow`] reads them.
const SELECT: &str = "SELECT id, issuer, client, created_at, used_at, expires_at FROM logins";

row_struct! {
    struct LoginRow {
        id: Uuid,
        issuer: String,
        client: String,
        created_at: i64,
        used_at: i64,
        expires_at: i64,
    }
}

impl LoginRow {
    fn into_login(self) -> PageLogin {
        let Self { id, issuer, client, created_at, used_at, expires_at } = self;
        PageLogin {
            id: LoginId(id),
            issuer,
            client,
            created_at: Timestamp(created_at),
            used_at: Timestamp(used_at),
            expires_at: Timestamp(expires_at),
        }
    }
}

/// Stores a login, in place of those that have expired and of the least recently used ones beyond the limit.
pub async fn create_login<S: Session>(db: &S, login: &NewLogin, max_logins: u32) -> VerbResult<PageLogin, S> {
    db.lock(LOCK).await?;
    let (id, now) = (db.new_id(), db.now());
    let NewLogin { issuer, client, expires_at } = login.clone();
    remove_expired(db).await?;
    // By the clock of another process the new one may be the least recently used.
    db.run(
        "DELETE FROM logins WHERE id NOT IN (SELECT id FROM logins ORDER BY used_at DESC, id DESC LIMIT $1 + 0)",
        params![max_logins.saturating_sub(1)],
    )
    .await?;
    db.run(
        "INSERT INTO logins (id, issuer, client, created_at, used_at, expires_at) VALUES ($1, $2, $3, $4, $4, $5)",
        params![id, issuer, client, now.0, expires_at.0],
    )
    .await?;
    Ok(PageLogin { id: LoginId(id), issuer, client, created_at: now, used_at: now, expires_at })
}

/// Reads a login by its primary key: each request of a browser does.
pub async fn find_login<S: Session>(db: &S, login: LoginId) -> VerbResult<Option<PageLogin>, S> {
    let row: Option<LoginRow> =
        db.find(&format!("{SELECT} WHERE id = $1 AND expires_at > $2"), params![login.0, db.now().0]).await?;
    Ok(row.map(LoginRow::into_login))
}

pub async fn touch_login<S: Session>(db: &S, login: LoginId) -> VerbResult<bool, S> {
    let touched = db
        .run(
            "UPDATE logins SET used_at = CASE WHEN used_at > $2 THEN used_at ELSE $2 END \
             WHERE id = $1 AND expires_at > $2",
            params![login.0, db.now().0],
        )
        .await?;
    Ok(touched > 0)
}

pub async fn list_logins<S: Session>(db: &S) -> VerbResult<Vec<PageLogin>, S> {
    let rows: Vec<LoginRow> =
        db.all(&format!("{SELECT} WHERE expires_at > $1 ORDER BY used_at DESC, id DESC"), params![db.now().0]).await?;
    Ok(rows.into_iter().map(LoginRow::into_login).collect())
}

pub async fn end_login<S: Session>(db: &S, login: LoginId) -> VerbResult<bool, S> {
    remove_expired(db).await?;
    let ended = db.run("DELETE FROM logins WHERE id = $1", params![login.0]).await?;
    Ok(ended > 0)
}

pub async fn end_logins<S: Session>(db: &S, issuer: Option<String>) -> VerbResult<u64, S> {
    remove_expired(db).await?;
    db.run("DELETE FROM logins WHERE $1 IS NULL OR issuer = $1", params![issuer]).await
}

async fn remove_expired<S: Session>(db: &S) -> VerbResult<(), S> {
    db.run("DELETE FROM logins WHERE expires_at <= $1", params![db.now().0]).await?;
    Ok(())
}
