//! Counts wrong secrets, of each peer and in all, and says when there were too many.
//!
//! What is right never comes here, so nobody can lock anyone else out.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// How many wrong secrets one peer may give in a [`WINDOW`].
const MAX_FAILED_LOGINS_PER_PEER: u32 = 10;

/// How many all peers together may give in it. It also bounds how many peers are remembered.
const MAX_FAILED_LOGINS: u32 = 200;

/// How long wrong secrets are remembered, from the first of them on.
const WINDOW: Duration = Duration::from_secs(60);

/// The wrong secrets of the last time.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    all: Option<Failures>,
    by_peer: HashMap<IpAddr, Failures>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    since: Instant,
}

impl FailedLogins {
    /// Counts a wrong secret.
    ///
    /// # Errors
    /// When there were too many already: how long until the next is counted.
    pub(crate) fn record(&mut self, peer: IpAddr, now: Instant) -> Result<(), Duration> {
        let is_current = |failures: &Failures| now.duration_since(failures.since) < WINDOW;
        self.all = self.all.filter(is_current);
        self.by_peer.retain(|_, failures| is_current(failures));
        let none = Failures { count: 0, since: now };
        let all = self.all.get_or_insert(none);
        let of_peer = self.by_peer.get(&peer).copied().unwrap_or(none);
        for (failures, max) in [(of_peer, MAX_FAILED_LOGINS_PER_PEER), (*all, MAX_FAILED_LOGINS)] {
            if failures.count >= max {
                return Err(WINDOW.saturating_sub(now.duration_since(failures.since)));
            }
        }
        all.count += 1;
        self.by_peer.insert(peer, Failures { count: of_peer.count + 1, ..of_peer });
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
