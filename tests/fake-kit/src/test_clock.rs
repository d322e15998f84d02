//! The clock of a fake server: real time, until a test moves it on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::{sync::watch, time::Instant};

/// Real time plus what a test has added to it. Clones are the same clock.
///
/// Deadlines are absolute, so it makes no difference whether a task has begun to sleep before the clock is advanced or
/// begins only afterwards: a deadline that has passed is over at once.
#[derive(Debug, Clone)]
pub struct TestClock(watch::Sender<ClockState>);

#[derive(Debug, Clone, Copy, Default)]
struct ClockState {
    ahead: Duration,
    /// What real time was when the clock was stopped.
    paused_at: Option<(Instant, SystemTime)>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self(watch::Sender::new(ClockState::default()))
    }
}

impl TestClock {
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.borrow().now()
    }

    /// How much time has passed since `earlier`; none if it is yet to come.
    #[must_use]
    pub fn elapsed_since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }

    /// The time since 1970, as platforms date things.
    #[must_use]
    pub fn unix_time(&self) -> Duration {
        let ClockState { ahead, paused_at } = *self.0.borrow();
        let real = paused_at.map_or_else(SystemTime::now, |(_, at)| at);
        real.duration_since(UNIX_EPOCH).expect("the clock is after 1970") + ahead
    }

    /// Lets this much time pass at once; whatever was to happen meanwhile happens now.
    pub fn advance(&self, duration: Duration) {
        self.0.send_modify(|state| state.ahead += duration);
    }

    /// Stops the clock: from now on only [`advance`](Self::advance) lets time pass.
    pub fn pause(&self) {
        self.0.send_modify(|state| {
            state.paused_at.get_or_insert_with(|| (Instant::now(), SystemTime::now()));
        });
    }

    /// Returns when this clock shows `deadline` or later.
    pub async fn sleep_until(&self, deadline: Instant) {
        let mut changes = self.0.subscribe();
        loop {
            let state = *changes.borrow_and_update();
            let left = deadline.saturating_duration_since(state.now());
            if left.is_zero() {
                return;
            }
            let real = async {
                match state.paused_at {
                    Some(_) => std::future::pending().await,
                    None => tokio::time::sleep(left).await,
                }
            };
            tokio::select! {
                () = real => {}
                changed = changes.changed() => changed.expect("this clock holds a sender"),
            }
        }
    }
}

impl ClockState {
    fn now(&self) -> Instant {
        self.paused_at.map_or_else(Instant::now, |(at, _)| at) + self.ahead
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn advance_wakes_sleepers_whose_time_has_come() {
        let clock = TestClock::default();
        clock.pause();
        let deadline = clock.now() + MINUTE;
        let sleep = clock.sleep_until(deadline);
        tokio::pin!(sleep);
        assert_eq!(sleep.as_mut().now_or_never(), None);
        clock.advance(MINUTE - Duration::from_nanos(1));
        assert_eq!(sleep.as_mut().now_or_never(), None, "a moment is left");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(sleep.now_or_never(), Some(()));
        assert_eq!(clock.sleep_until(deadline).now_or_never(), Some(()), "whoever is late doesn't wait");
    }

    #[tokio::test(start_paused = true)]
    async fn clock_left_alone_follows_real_time() {
        let clock = TestClock::default();
        let start = Instant::now();
        assert_eq!(clock.now(), start);
        clock.sleep_until(start + MINUTE).await;
        assert!((MINUTE..MINUTE + Duration::from_millis(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn advanced_clock_keeps_following_real_time() {
        let clock = TestClock::default();
        let start = Instant::now();
        clock.advance(MINUTE);
        let sleep = clock.sleep_until(start + 3 * MINUTE);
        sleep.await;
        assert_eq!(start.elapsed().as_secs(), 120, "one minute of three had passed already");
        assert_eq!(clock.elapsed_since(start).as_secs(), 180);
    }

    #[tokio::test(start_paused = true)]
    async fn paused_clock_moves_only_when_advanced() {
        let clock = TestClock::default();
        clock.pause();
        let (start, unix) = (clock.now(), clock.unix_time());
        tokio::time::advance(MINUTE).await;
        assert_eq!((clock.now(), clock.unix_time()), (start, unix));
        clock.advance(MINUTE);
        assert_eq!((clock.now(), clock.unix_time()), (start + MINUTE, unix + MINUTE));
    }
}
