//! The logins of this server's browsers, which the ledger keeps for all processes.

use std::{
    collections::HashSet,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use satchel_domain::LoginId;
use satchel_ports::{
    Clock, LedgerError, Logins,
    ledger::{NewLogin, PageLogin},
};
use tokio::time::timeout;

use crate::problem::Problem;

/// How long a login lasts, however often it is used.
pub(crate) const LOGIN_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most logins that are kept; a further one ends the least recently used.
const MAX_LOGINS: u32 = 200;

/// How exactly it is recorded when a login was used, so that few requests write.
const USE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The timeout of the ledger, before a request is handled, and for recording that a login is used.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(10);

/// The logins under one token.
pub(crate) struct LoginRegistry {
    logins: Arc<dyn Logins>,
    clock: Arc<dyn Clock>,
    /// The fingerprint of the token: another token makes all logins invalid.
    issuer: String,
    /// The logins whose use is being recorded.
    recorded: Arc<Mutex<HashSet<LoginId>>>,
}

impl LoginRegistry {
    pub(crate) fn new(logins: Arc<dyn Logins>, clock: Arc<dyn Clock>, issuer: String) -> Self {
        Self { logins, clock, issuer, recorded: Arc::default() }
    }

    /// Stores the login of a client.
    pub(crate) async fn create_login(&self, client: String) -> Result<LoginId, Problem> {
        let expires_at = self.clock.now().saturating_add(LOGIN_TTL);
        let login = NewLogin { issuer: self.issuer.clone(), client, expires_at };
        Ok(self.logins.create_login(&login, MAX_LOGINS).await?.id)
    }

    /// Checks that a login has not ended, and has recorded now and then that it is used. The ledger is read each time and
    /// nothing is remembered: whichever process ends a login, its next request is refused.
    ///
    /// # Errors
    /// When the ledger fails, or doesn't answer in time: nobody is logged in then.
    pub(crate) async fn check_login(&self, login: LoginId) -> Result<bool, Problem> {
        let found = timeout(LEDGER_TIMEOUT, self.logins.find_login(login)).await;
        let found = found.map_err(|_| Problem::timed_out())??;
        let Some(found) = found.filter(|found| found.issuer == self.issuer) else { return Ok(false) };
        if self.clock.now().saturating_duration_since(found.used_at) >= USE_INTERVAL {
            self.record_use(login);
        }
        Ok(true)
    }

    /// Records that a login is used, behind the request: a ledger that can be read may have no time to write for a while. Each
    /// login is recorded by one request at a time. A failure costs nothing but a time in a list.
    fn record_use(&self, login: LoginId) {
        let Some(recording) = UseRecording::start(&self.recorded, login) else { return };
        let logins = Arc::clone(&self.logins);
        tokio::spawn(async move {
            match timeout(LEDGER_TIMEOUT, logins.touch_login(login)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => warn_unrecorded(&error),
                Err(elapsed) => warn_unrecorded(&elapsed),
            }
            drop(recording);
        });
    }

    /// Lists the logins, the most recently used first.
    pub(crate) async fn list_logins(&self) -> Result<Vec<PageLogin>, LedgerError> {
        let mut logins = self.logins.list_logins().await?;
        logins.retain(|login| login.issuer == self.issuer);
        Ok(logins)
    }

    /// Ends a login. Returns `false` if it has ended before.
    pub(crate) async fn end_login(&self, login: LoginId) -> Result<bool, LedgerError> {
        self.logins.end_login(login).await
    }
}

fn warn_unrecorded(error: &(dyn Error + 'static)) {
    tracing::warn!(error, "recording the use of a login failed; the list of logins shows an earlier one");
}

/// The use of a login, which is being recorded until this is dropped.
struct UseRecording {
    login: LoginId,
    recorded: Arc<Mutex<HashSet<LoginId>>>,
}

impl UseRecording {
    /// Returns `None` if another request records the same.
    fn start(recorded: &Arc<Mutex<HashSet<LoginId>>>, login: LoginId) -> Option<Self> {
        let is_first = recorded.lock().unwrap_or_else(PoisonError::into_inner).insert(login);
        is_first.then(|| Self { login, recorded: Arc::clone(recorded) })
    }
}

impl Drop for UseRecording {
    fn drop(&mut self) {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.login);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use satchel_domain::Timestamp;
    use satchel_ports::{ManualClock, MockLogins};
    use uuid::Uuid;

    use super::*;

    const LOGIN: LoginId = LoginId(Uuid::from_u128(7));

    fn login(used_at: Timestamp) -> PageLogin {
        PageLogin {
            id: LOGIN,
            issuer: "a token".to_owned(),
            client: "Firefox on Linux".to_owned(),
            created_at: Timestamp(0),
            used_at,
            expires_at: Timestamp(i64::MAX),
        }
    }

    fn registry(logins: MockLogins, now: Timestamp, issuer: &str) -> LoginRegistry {
        LoginRegistry::new(Arc::new(logins), Arc::new(ManualClock::at(now)), issuer.to_owned())
    }

    #[tokio::test]
    async fn each_request_reads_the_ledger_and_few_write() {
        let now = Timestamp(0).saturating_add(USE_INTERVAL);
        for (used_at, writes) in [(Timestamp(0), 3_usize), (Timestamp(1), 0), (now.saturating_add(USE_INTERVAL), 0)] {
            let mut logins = MockLogins::new();
            logins.expect_find_login().times(3).returning(move |_| Ok(Some(login(used_at))));
            logins.expect_touch_login().times(writes).returning(|_| Err(LedgerError::Full));
            let registry = registry(logins, now, "a token");
            for _request in 0..3 {
                assert!(registry.check_login(LOGIN).await.unwrap(), "a full disk refuses nobody");
                // What was started behind the request ends.
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn login_under_another_token_is_none() {
        let mut logins = MockLogins::new();
        logins.expect_find_login().returning(|_| Ok(Some(login(Timestamp(0)))));
        logins.expect_list_logins().returning(|| Ok(vec![login(Timestamp(0))]));
        let registry = registry(logins, Timestamp(0), "another token");
        assert!(!registry.check_login(LOGIN).await.unwrap());
        assert_eq!(registry.list_logins().await.unwrap(), []);
    }

    /// A ledger that never answers, except to what it is asked about the login that it has.
    struct SilentLogins {
        found: Option<PageLogin>,
        writes: AtomicU32,
    }

    #[async_trait::async_trait]
    impl Logins for SilentLogins {
        async fn create_login(&self, _: &NewLogin, _: u32) -> Result<PageLogin, LedgerError> {
            std::future::pending().await
        }

        async fn find_login(&self, _: LoginId) -> Result<Option<PageLogin>, LedgerError> {
            match &self.found {
                Some(login) => Ok(Some(login.clone())),
                None => std::future::pending().await,
            }
        }

        async fn touch_login(&self, _: LoginId) -> Result<bool, LedgerError> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }

        async fn list_logins(&self) -> Result<Vec<PageLogin>, LedgerError> {
            std::future::pending().await
        }

        async fn end_login(&self, _: LoginId) -> Result<bool, LedgerError> {
            std::future::pending().await
        }

        async fn end_logins(&self, _: Option<String>) -> Result<u64, LedgerError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_ledger_authorizes_nobody() {
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let logins = SilentLogins { found: None, writes: AtomicU32::new(0) };
        let registry = LoginRegistry::new(Arc::new(logins), clock, String::new());
        assert_eq!(registry.check_login(LOGIN).await.unwrap_err().code(), "unavailable");
    }

    /// While a database is rewritten it can be read, and nothing can be written.
    #[tokio::test(start_paused = true)]
    async fn slow_write_keeps_no_request_waiting() {
        let logins = Arc::new(SilentLogins { found: Some(login(Timestamp(0))), writes: AtomicU32::new(0) });
        let clock = Arc::new(ManualClock::at(Timestamp(0).saturating_add(USE_INTERVAL)));
        let registry = LoginRegistry::new(Arc::<SilentLogins>::clone(&logins), clock, "a token".to_owned());
        let started_at = tokio::time::Instant::now();
        for _request in 0..3 {
            assert!(registry.check_login(LOGIN).await.unwrap());
            tokio::task::yield_now().await;
        }
        assert_eq!((started_at.elapsed(), logins.writes.load(Ordering::Relaxed)), (Duration::ZERO, 1));
        tokio::time::sleep(LEDGER_TIMEOUT * 2).await;
        assert!(registry.check_login(LOGIN).await.unwrap());
        tokio::task::yield_now().await;
        assert_eq!(logins.writes.load(Ordering::Relaxed), 2, "it is tried again");
    }
}
