//! The logins of browsers to the page.

use async_trait::async_trait;
use satchel_domain::{LoginId, Timestamp};
use serde::Serialize;

use super::LedgerError;

/// Stores which browsers are logged in to the page, for all processes that serve it. What proves a login is not stored.
///
/// # Contract
/// Besides that of [all ports](super):
/// - A login ends when it expires, when it is ended, and when newer ones take its place. One that has ended is neither
///   found nor listed, in no process, and nothing revives it.
/// - `create_login` keeps at most as many logins as the caller allows: the new one, and those that were used last.
/// - `touch_login` moves the time of the last use forward only.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Logins: Send + Sync {
    /// Stores a login. Those beyond `max_logins` end, the least recently used first.
    async fn create_login(&self, login: &NewLogin, max_logins: u32) -> Result<PageLogin, LedgerError>;

    /// Returns a login, unless it has ended.
    async fn find_login(&self, login: LoginId) -> Result<Option<PageLogin>, LedgerError>;

    /// Records that a login is used now. Returns `false` if it has ended.
    async fn touch_login(&self, login: LoginId) -> Result<bool, LedgerError>;

    /// Returns all logins, the most recently used first.
    async fn list_logins(&self) -> Result<Vec<PageLogin>, LedgerError>;

    /// Ends a login. Returns `false` if it has ended before.
    async fn end_login(&self, login: LoginId) -> Result<bool, LedgerError>;

    /// Ends all logins, or only those of one issuer; returns how many there were.
    async fn end_logins(&self, issuer: Option<String>) -> Result<u64, LedgerError>;
}

/// A login to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLogin {
    /// What it was made under, such as the fingerprint of a token; logins of one issuer can be ended together.
    pub issuer: String,
    /// The browser, in a few words for people.
    pub client: String,
    /// When it ends if nothing ends it before.
    pub expires_at: Timestamp,
}

/// A login that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageLogin {
    /// Its id, which proves nothing.
    pub id: LoginId,
    /// What it was made under.
    #[serde(skip)]
    pub issuer: String,
    /// The browser, in a few words for people.
    pub client: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was used last, as far as that was recorded.
    pub used_at: Timestamp,
    /// When it ends if nothing ends it before.
    pub expires_at: Timestamp,
}
