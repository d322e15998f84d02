//! Waits for jobs on a thread that may have something else to do after a while.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use tokio::sync::mpsc::Receiver;

/// What a wait for jobs ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobWait {
    /// There are jobs.
    Jobs,
    TimedOut,
    /// There will be none any more.
    Closed,
}

/// Receives up to `limit` jobs into an empty list, as soon as there is one. Blocks the thread for at most `timeout`.
pub(crate) fn receive_jobs<T>(
    jobs: &mut Receiver<T>,
    received: &mut Vec<T>,
    limit: usize,
    timeout: Duration,
) -> JobWait {
    match receive_within(jobs, received, limit, timeout) {
        None => JobWait::TimedOut,
        Some(0) => JobWait::Closed,
        Some(_) => JobWait::Jobs,
    }
}

/// Returns how many jobs were received; `None` if none came in time.
fn receive_within<T>(jobs: &mut Receiver<T>, received: &mut Vec<T>, limit: usize, timeout: Duration) -> Option<usize> {
    let deadline = Instant::now() + timeout;
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(count) = jobs.poll_recv_many(&mut context, received, limit) {
            return Some(count);
        }
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return None;
        }
        // It may return early, also because of an earlier wait; the next turn of the loop finds out.
        thread::park_timeout(remaining);
    }
}

/// Wakes a thread that is parked.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_come_before_the_time_is_up() {
        let (sender, mut jobs) = mpsc::channel(4);
        let mut received = Vec::new();
        assert_eq!(receive_jobs(&mut jobs, &mut received, 2, Duration::ZERO), JobWait::TimedOut);
        let sending = thread::spawn(move || {
            (1..=3).for_each(|job| sender.blocking_send(job).unwrap());
        });
        sending.join().unwrap();
        // Far more time than there is.
        let hour = Duration::from_secs(60 * 60);
        assert_eq!(receive_jobs(&mut jobs, &mut received, 2, hour), JobWait::Jobs);
        assert_eq!(received, [1, 2]);
        assert_eq!(receive_jobs(&mut jobs, &mut received, 2, Duration::ZERO), JobWait::Jobs);
        assert_eq!(received, [1, 2, 3]);
        for timeout in [Duration::ZERO, hour] {
            assert_eq!(receive_jobs(&mut jobs, &mut received, 2, timeout), JobWait::Closed);
        }
    }

    #[test]
    fn waiting_thread_is_woken_by_a_job() {
        let (sender, mut jobs) = mpsc::channel(1);
        let receiving = thread::spawn(move || {
            let mut received = Vec::new();
            let outcome = receive_jobs(&mut jobs, &mut received, 1, Duration::from_secs(60 * 60));
            (outcome, received)
        });
        sender.blocking_send("job").unwrap();
        assert_eq!(receiving.join().unwrap(), (JobWait::Jobs, vec!["job"]));
    }
}
