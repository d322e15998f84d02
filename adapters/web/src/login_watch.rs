//! Ends the response to a request whose login is ended meanwhile, so that a stream that was opened before shows nothing more.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream, HttpBody},
    response::Response,
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::LoginId;
use tokio::time::Instant;

use crate::{login_registry::LoginRegistry, problem::Problem};

/// How long what is sent may go without a look at the login.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A login whose requests are under way.
pub(crate) struct WatchedLogin {
    logins: Arc<LoginRegistry>,
    login: LoginId,
    checked_at: Instant,
}

impl WatchedLogin {
    /// Watches a login that was checked just now.
    pub(crate) fn new(logins: Arc<LoginRegistry>, login: LoginId) -> Self {
        Self { logins, login, checked_at: Instant::now() }
    }

    /// Returns the response, which ends with an error once the login has ended.
    ///
    /// # Errors
    /// When the login has ended while the response was made.
    pub(crate) async fn watch(mut self, response: Response) -> Result<Response, Problem> {
        if !self.recheck().await? {
            return Err(Problem::unauthorized());
        }
        // What is in memory is sent at once.
        if response.body().size_hint().exact().is_some() {
            return Ok(response);
        }
        let watched = |body: Body| WatchedBody { login: self, chunks: Some(body.into_data_stream()) };
        Ok(response.map(|body| Body::from_stream(stream::unfold(watched(body), next_chunk))))
    }

    /// Checks that the login has not ended, unless that was done a moment ago.
    async fn recheck(&mut self) -> Result<bool, Problem> {
        if self.checked_at.elapsed() < RECHECK_INTERVAL {
            return Ok(true);
        }
        let has_login = self.logins.check_login(self.login).await?;
        self.checked_at = Instant::now();
        Ok(has_login)
    }
}

/// The body of a response that is not sent completely.
struct WatchedBody {
    login: WatchedLogin,
    /// `None` once the login has ended.
    chunks: Option<BodyDataStream>,
}

async fn next_chunk(mut body: WatchedBody) -> Option<(Result<Bytes, axum::Error>, WatchedBody)> {
    let chunk = body.chunks.as_mut()?.next().await?;
    match body.login.recheck().await {
        Ok(true) => Some((chunk, body)),
        // Nothing is sent if it is unknown, either: the client's next request gets the reason.
        Ok(false) | Err(_) => {
            body.chunks = None;
            Some((Err(axum::Error::new(io::Error::other("the login has ended"))), body))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use axum::response::IntoResponse;
    use satchel_domain::Timestamp;
    use satchel_ports::{LedgerError, ManualClock, MockLogins, ledger::PageLogin};
    use tokio::{sync::mpsc, time::advance};
    use uuid::Uuid;

    use super::*;

    const LOGIN: LoginId = LoginId(Uuid::from_u128(7));

    /// A login that a test ends, and how often it was looked up.
    struct Ledger {
        is_ended: Arc<AtomicBool>,
        reads: Arc<AtomicUsize>,
        registry: Arc<LoginRegistry>,
    }

    impl Ledger {
        /// Where the login has ended, a look-up yields `ended`.
        fn new(ended: fn() -> Result<Option<PageLogin>, LedgerError>) -> Self {
            let (is_ended, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
            let (stops, counted) = (Arc::clone(&is_ended), Arc::clone(&reads));
            let mut logins = MockLogins::new();
            logins.expect_find_login().returning(move |id| {
                counted.fetch_add(1, Ordering::Relaxed);
                if stops.load(Ordering::Relaxed) {
                    return ended();
                }
                let [created_at, used_at, expires_at] = [Timestamp(0); 3];
                let (issuer, client) = (String::new(), String::new());
                Ok(Some(PageLogin { id, issuer, client, created_at, used_at, expires_at }))
            });
            let clock = Arc::new(ManualClock::at(Timestamp(0)));
            Self { is_ended, reads, registry: Arc::new(LoginRegistry::new(Arc::new(logins), clock, String::new())) }
        }

        fn watched(&self) -> WatchedLogin {
            WatchedLogin::new(Arc::clone(&self.registry), LOGIN)
        }
    }

    type FoundLogin = Result<Option<PageLogin>, LedgerError>;

    fn failure() -> FoundLogin {
        Err(LedgerError::Full)
    }

    #[tokio::test(start_paused = true)]
    async fn open_stream_ends_soon_after_its_login() {
        let endings: [fn() -> FoundLogin; 2] = [|| Ok(None), failure];
        for ended in endings {
            let ledger = Ledger::new(ended);
            let (sender, mut pieces) = mpsc::unbounded_channel::<&'static str>();
            let pieces = stream::poll_fn(move |context| pieces.poll_recv(context)).map(Ok::<_, io::Error>);
            let response = ledger.watched().watch(Body::from_stream(pieces).into_response()).await.unwrap();
            let mut shown = response.into_body().into_data_stream();
            for piece in ["a", "b", "c"] {
                sender.send(piece).unwrap();
                assert_eq!(shown.next().await.unwrap().unwrap(), piece);
            }
            assert_eq!(ledger.reads.load(Ordering::Relaxed), 0, "a moment ago it was checked");
            advance(RECHECK_INTERVAL).await;
            for piece in ["d", "e"] {
                sender.send(piece).unwrap();
                assert_eq!(shown.next().await.unwrap().unwrap(), piece);
            }
            assert_eq!(ledger.reads.load(Ordering::Relaxed), 1);
            ledger.is_ended.store(true, Ordering::Relaxed);
            advance(RECHECK_INTERVAL).await;
            sender.send("f").unwrap();
            assert!(shown.next().await.unwrap().is_err());
            assert!(shown.next().await.is_none());
            assert!(sender.is_closed(), "and nobody reads on");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn late_response_of_an_ended_login_is_refused() {
        let ledger = Ledger::new(|| Ok(None));
        let watched = ledger.watched();
        ledger.is_ended.store(true, Ordering::Relaxed);
        advance(RECHECK_INTERVAL).await;
        assert_eq!(watched.watch("a turn".into_response()).await.unwrap_err().code(), "unauthorized");
    }

    #[tokio::test]
    async fn response_in_memory_stays_as_it_is() {
        let ledger = Ledger::new(|| Ok(None));
        let response = ledger.watched().watch("a turn".into_response()).await.unwrap();
        assert_eq!(response.body().size_hint().exact(), Some(6));
    }
}
