//! Shows activity indicators ("typing…") in chats. Best effort: no caller waits for them.

use std::{
    collections::HashMap,
    convert::Infallible,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::{CallError, PlatformError};

/// How many indicator requests may be in flight; further ones are dropped.
const MAX_CONCURRENT: usize = 64;

/// How many chats are tracked; further ones get no indicator until another chat's backoff is over.
const MAX_CHATS: usize = 4_096;

/// Pause for a chat after its indicator was refused.
const ERROR_BACKOFF: Duration = Duration::from_secs(30);

/// Longest pause for a chat that the platform can request.
const MAX_BACKOFF: Duration = Duration::from_secs(24 * 3_600);

/// How long a call may take before an indicator is shown.
const ACTIVITY_DELAY: Duration = Duration::from_millis(700);

/// Sends the activity indicators of all chats. `K` identifies a chat.
#[derive(Clone)]
pub struct ActivityIndicator<K> {
    chats: Arc<Mutex<HashMap<K, State>>>,
    typing_duration: Duration,
}

enum State {
    InFlight,
    BackoffUntil(Instant),
}

impl<K: Copy + Eq + Hash + Send + 'static> ActivityIndicator<K> {
    /// Creates an indicator that is sent at most once per `typing_duration` and chat.
    #[must_use]
    pub fn new(typing_duration: Duration) -> Self {
        Self { chats: Arc::default(), typing_duration }
    }

    /// Spawns `call`, unless the chat's last indicator is in flight, was just shown, or was refused.
    pub fn show<T, E, F>(&self, chat: K, call: F)
    where
        E: PlatformError,
        F: Future<Output = Result<T, CallError<E>>> + Send + 'static,
    {
        if !self.start(chat) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let backoff = match call.await {
                Ok(_) => this.typing_duration,
                Err(CallError::RateLimited { retry_after, .. }) => retry_after.unwrap_or(ERROR_BACKOFF),
                Err(_) => ERROR_BACKOFF,
            };
            this.finish(chat, backoff.min(MAX_BACKOFF));
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, State>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, chat: K) -> bool {
        let (mut chats, now) = (self.lock(), Instant::now());
        chats.retain(|_, state| !matches!(state, State::BackoffUntil(until) if *until <= now));
        let in_flight = chats.values().filter(|state| matches!(state, State::InFlight)).count();
        if chats.contains_key(&chat) || in_flight >= MAX_CONCURRENT || chats.len() >= MAX_CHATS {
            return false;
        }
        chats.insert(chat, State::InFlight);
        true
    }

    fn finish(&self, chat: K, backoff: Duration) {
        self.lock().insert(chat, State::BackoffUntil(Instant::now() + backoff));
    }
}

/// Awaits a call that may take long and runs `show` meanwhile: after 700 ms, then once per `interval`.
pub async fn show_while<T>(call: impl Future<Output = T>, interval: Duration, show: impl Fn()) -> T {
    tokio::select! {
        result = call => result,
        never = show_forever(interval, show) => match never {},
    }
}

async fn show_forever(interval: Duration, show: impl Fn()) -> Infallible {
    sleep(ACTIVITY_DELAY).await;
    loop {
        show();
        sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{future, sync::atomic::AtomicU32, sync::atomic::Ordering};

    use super::*;
    use crate::error::tests::StubRefusal;

    const TYPING: Duration = Duration::from_secs(5);

    /// How long a chat's next indicator is suppressed after this result.
    async fn backoff_after(result: Result<(), CallError<StubRefusal>>) -> Duration {
        let indicator = ActivityIndicator::new(TYPING);
        let start = Instant::now();
        indicator.show(1, future::ready(result));
        loop {
            // Under paused time.
            sleep(Duration::from_secs(1)).await;
            if indicator.start(1) {
                return start.elapsed();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_follows_the_result() {
        let limited =
            |retry_after| Err(CallError::RateLimited { retry_after, global: false, reason: "wait".to_owned() });
        for (result, expected) in [
            (Ok(()), TYPING),
            (Err(CallError::Refused(StubRefusal)), ERROR_BACKOFF),
            (Err(CallError::Lost { reason: "gone".to_owned() }), ERROR_BACKOFF),
            (limited(Some(Duration::from_secs(90))), Duration::from_secs(90)),
            (limited(Some(Duration::MAX)), MAX_BACKOFF),
            (limited(None), ERROR_BACKOFF),
        ] {
            assert_eq!(backoff_after(result).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_some_activities_are_in_flight() {
        let indicator = ActivityIndicator::new(TYPING);
        let hang = || future::pending::<Result<(), CallError<StubRefusal>>>();
        for chat in 0..MAX_CONCURRENT {
            indicator.show(chat, hang());
        }
        assert!(!indicator.start(0) && !indicator.start(MAX_CONCURRENT));
        indicator.finish(0, TYPING);
        assert!(!indicator.start(0) && indicator.start(MAX_CONCURRENT), "what was shown takes no room");
    }

    #[tokio::test(start_paused = true)]
    async fn refused_chats_do_not_pile_up() {
        let indicator = ActivityIndicator::new(TYPING);
        for chat in 0..MAX_CHATS {
            assert!(indicator.start(chat));
            indicator.finish(chat, MAX_BACKOFF);
        }
        assert!(!indicator.start(MAX_CHATS), "one more is not remembered");
        tokio::time::advance(MAX_BACKOFF).await;
        assert!(indicator.start(MAX_CHATS), "what is over makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn long_calls_are_shown_in_intervals() {
        let shown = AtomicU32::new(0);
        for (millis, expected) in [(600, 0), (800, 1), (8_800, 2)] {
            shown.store(0, Ordering::Relaxed);
            let count = || _ = shown.fetch_add(1, Ordering::Relaxed);
            show_while(sleep(Duration::from_millis(millis)), Duration::from_secs(8), count).await;
            assert_eq!(shown.load(Ordering::Relaxed), expected, "{millis} ms");
        }
    }
}
