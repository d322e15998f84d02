//! Counts failed logins by peer and in total, and limits them.
//!
//! Correct secrets are never counted or refused, so no one can lock anyone else out.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// The maximum number of failed logins of one peer in a [`WINDOW`].
const MAX_FAILED_LOGINS_PER_PEER: u32 = 10;

/// The maximum number of failed logins of all peers in a [`WINDOW`]. It also limits how many peers are tracked.
const MAX_FAILED_LOGINS: u32 = 200;

/// The length of a counting window, which starts with the first failed login.
const WINDOW: Duration = Duration::from_secs(60);

/// The failed logins of the current windows.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    total: Option<Failures>,
    by_peer: HashMap<IpAddr, Failures>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    since: Instant,
}

impl FailedLogins {
    /// Counts a failed login.
    ///
    /// # Errors
    /// When there were too many already: the time until the window ends.
    pub(crate) fn record(&mut self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let is_current = |failures: &Failures| now.duration_since(failures.since) < WINDOW;
        self.total = self.total.filter(is_current);
        self.by_peer.retain(|_, failures| is_current(failures));
        let no_failures = Failures { count: 0, since: now };
        let total = self.total.get_or_insert(no_failures);
        let peer_failures = self.by_peer.get(&peer).copied().unwrap_or(no_failures);
        for (failures, max) in [(peer_failures, MAX_FAILED_LOGINS_PER_PEER), (*total, MAX_FAILED_LOGINS)] {
            if failures.count >= max {
                return Err(WINDOW.saturating_sub(now.duration_since(failures.since)));
            }
        }
        total.count += 1;
        self.by_peer.insert(peer, Failures { count: peer_failures.count + 1, ..peer_failures });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number))
    }

    #[test]
    fn each_peer_has_a_budget_that_time_refills() {
        let (mut failed, start) = (FailedLogins::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..MAX_FAILED_LOGINS_PER_PEER {
            assert_eq!(failed.record(peer(1), at(0)), Ok(()));
        }
        assert_eq!(failed.record(peer(1), at(20)), Err(Duration::from_secs(40)));
        assert_eq!(failed.record(peer(2), at(20)), Ok(()), "another peer");
        assert_eq!(failed.record(peer(1), at(59)), Err(Duration::from_secs(1)), "asking again adds nothing");
        assert_eq!(failed.record(peer(1), at(60)), Ok(()));
    }

    #[test]
    fn many_peers_share_a_budget_and_are_forgotten() {
        let (mut failed, start) = (FailedLogins::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for number in 0..MAX_FAILED_LOGINS {
            assert_eq!(failed.record(peer(number), at(0)), Ok(()), "{number}");
        }
        for number in 0..100_000 {
            assert_eq!(failed.record(peer(number), at(30)), Err(Duration::from_secs(30)), "{number}");
        }
        assert_eq!(failed.by_peer.len(), MAX_FAILED_LOGINS as usize, "memory is bounded");
        assert_eq!(failed.record(peer(7), at(60)), Ok(()));
        assert_eq!(failed.by_peer.len(), 1);
    }
}
