//! The account of a bot: its token, whether the platform accepts it, and how a closed channel is opened again.
//!
//! Only this file holds a channel's state. The first call that the platform refuses for its token closes the channel. While it
//! is closed, the only requests ask whether the platform accepts the token, which is read from its file again each time. A
//! platform that counts refused requests therefore sees few of them.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::BoxFuture;
use satchel_domain::{ChannelClosure, ChannelState, Sha256, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use tokio::{sync::watch, time::Instant};

use crate::{Backoff, BotToken, CallError, PlatformError, token::TokenFile};

/// How often a closed account is checked.
const CHECK_BACKOFF: Backoff = Backoff { min_delay: Duration::from_millis(500), max_delay: Duration::from_secs(30) };

/// How long an account must have been open before its next refusal counts as another closure. One that is refused in some
/// calls alone would be closed and opened over and over.
const MIN_OPEN_TIME: Duration = Duration::from_secs(60);

/// Asks the platform whether it accepts a token. Any other failure counts as no.
pub type CheckTokenFn = Box<dyn Fn(SecretString) -> BoxFuture<'static, bool> + Send + Sync>;

/// What differs between the accounts of two platforms.
pub struct AccountSettings {
    /// The platform's name, as people know it.
    pub platform: &'static str,
    /// How an owner gets a new token, as the beginning of a sentence.
    pub remedy: &'static str,
    /// Reads a token as it is configured; `None` if it has not the form of one.
    pub parse: fn(&SecretString) -> Option<SecretString>,
    pub check: CheckTokenFn,
}

/// A bot's account. Clones share it.
#[derive(Clone)]
pub struct BotAccount {
    shared: Arc<Shared>,
}

struct Shared {
    settings: AccountSettings,
    file: Option<TokenFile>,
    state: watch::Sender<ChannelState>,
    inner: Mutex<Inner>,
}

struct Inner {
    token: SecretString,
    /// How often it was closed, without closures that follow at once.
    closures: u32,
    /// How often the current closure was checked.
    checks: u32,
    /// The last closure with this token.
    closure: Option<ChannelClosure>,
    opened_at: Option<Instant>,
}

impl BotAccount {
    /// The open account of a bot; `None` if its token has not the form of one.
    #[must_use]
    pub fn new(token: &BotToken, settings: AccountSettings) -> Option<Self> {
        let file = token.file().cloned();
        let token = (settings.parse)(token.text())?;
        let inner = Inner { token, closures: 0, checks: 0, closure: None, opened_at: None };
        let state = watch::Sender::new(ChannelState::Open);
        Some(Self { shared: Arc::new(Shared { settings, file, state, inner: Mutex::new(inner) }) })
    }

    /// Returns the token for a call.
    ///
    /// # Errors
    /// When the channel is closed.
    pub fn token<E: PlatformError>(&self) -> Result<SecretString, CallError<E>> {
        match self.state() {
            ChannelState::Open => Ok(self.last_token()),
            ChannelState::Closed(closure) => Err(CallError::AccountRefused { reason: closure.reason }),
        }
    }

    /// Returns the last token, whether the platform accepts it or not.
    #[must_use]
    pub fn last_token(&self) -> SecretString {
        self.shared.inner().token.clone()
    }

    /// Closes the channel if the call that was made with this token was refused for it. Returns the call's result.
    ///
    /// # Errors
    /// Those of the call.
    pub fn close_if_refused<T, E: PlatformError>(
        &self,
        token: &SecretString,
        result: Result<T, CallError<E>>,
    ) -> Result<T, CallError<E>> {
        if let Err(CallError::AccountRefused { reason }) = &result {
            self.close(token, reason);
        }
        result
    }

    /// Closes the channel because the platform refuses this token, and lets it be checked until the platform accepts it or
    /// another one. Does nothing if the account has another token by now. `reason` follows the platform's name.
    pub fn close(&self, token: &SecretString, reason: &str) {
        let shared = &self.shared;
        let closure = {
            let mut inner = shared.inner();
            let is_current = inner.token.expose_secret() == token.expose_secret();
            if !is_current || *shared.state.borrow() != ChannelState::Open {
                return;
            }
            let closure = shared.make_closure(&mut inner, reason);
            shared.state.send_replace(ChannelState::Closed(closure.clone()));
            closure
        };
        let ChannelClosure { platform, reason, remedy, .. } = closure;
        tracing::warn!("{platform} {reason}: {remedy}; messages to it wait, and everything else continues");
        tokio::spawn(check_until_open(Arc::downgrade(shared)));
    }

    #[must_use]
    pub fn state(&self) -> ChannelState {
        self.shared.state.borrow().clone()
    }

    /// Waits until the state is another one than this, and returns it.
    pub async fn next_state(&self, state: &ChannelState) -> ChannelState {
        let mut states = self.shared.state.subscribe();
        states.wait_for(|current| current != state).await.expect("its sender is borrowed").clone()
    }

    /// Waits until the channel is open.
    pub async fn wait_until_open(&self) {
        let mut states = self.shared.state.subscribe();
        states.wait_for(|state| *state == ChannelState::Open).await.expect("its sender is borrowed");
    }

    /// Runs what receives the platform's messages, and calls `cancel` once the channel is closed.
    pub async fn cancel_when_closed<T>(&self, receiving: impl Future<Output = T>, cancel: impl FnOnce()) -> T {
        let (mut receiving, open) = (pin!(receiving), ChannelState::Open);
        tokio::select! {
            result = &mut receiving => return result,
            _ = self.next_state(&open) => {}
        }
        cancel();
        receiving.await
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_closure(&self, inner: &mut Inner, reason: &str) -> ChannelClosure {
        let is_same = inner.opened_at.is_some_and(|opened_at| opened_at.elapsed() < MIN_OPEN_TIME);
        if let Some(closure) = inner.closure.clone().filter(|_| is_same) {
            return closure;
        }
        let AccountSettings { platform, remedy, .. } = self.settings;
        let remedy = match &self.file {
            Some(file) => format!("{remedy} and put it into {}, which is read again by itself", file.path.display()),
            None => format!("{remedy}, set it in the configuration and restart Satchel"),
        };
        (inner.checks, inner.closures) = (0, inner.closures.saturating_add(1));
        let (credentials, number) = (fingerprint(&inner.token), inner.closures);
        let closure = ChannelClosure { credentials, number, platform, reason: reason.to_owned(), remedy, since: now() };
        inner.closure.insert(closure).clone()
    }

    fn next_delay(&self) -> Duration {
        let mut inner = self.inner();
        inner.checks = inner.checks.saturating_add(1);
        CHECK_BACKOFF.delay(inner.checks - 1)
    }

    /// Opens the channel if the platform accepts the token in its file, or without a file the last one.
    async fn try_open(&self) -> bool {
        let configured = match &self.file {
            Some(file) => file.read().await.and_then(|text| (self.settings.parse)(&text)),
            None => None,
        };
        let token = configured.unwrap_or_else(|| self.inner().token.clone());
        if !(self.settings.check)(token.clone()).await {
            return false;
        }
        let mut inner = self.inner();
        if inner.token.expose_secret() != token.expose_secret() {
            inner.closure = None;
            inner.token = token;
        }
        inner.opened_at = Some(Instant::now());
        self.state.send_replace(ChannelState::Open);
        tracing::info!("{} accepts the bot's token again; what waits is sent", self.settings.platform);
        true
    }
}

async fn check_until_open(shared: Weak<Shared>) {
    // Nothing else keeps the account: a process that ends, or a test, doesn't wait for it.
    while let Some(delay) = shared.upgrade().map(|shared| shared.next_delay()) {
        tokio::time::sleep(delay).await;
        let Some(shared) = shared.upgrade() else { return };
        if shared.try_open().await {
            return;
        }
    }
}

/// Tells tokens apart, in every version: the ledger stores it. It reveals nothing of a token, which is random and longer.
fn fingerprint(token: &SecretString) -> String {
    Sha256::digest(token.expose_secret()).to_string()[..16].to_owned()
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
