//! Who may work on a lane.

use std::time::Duration;

use satchel_domain::Timestamp;
use satchel_ports::ledger::{HolderId, Lease};

/// A lane as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneState {
    /// `None` once it was released.
    pub holder: Option<HolderId>,
    /// The fencing token of the last claim.
    pub token: u64,
    pub expires_at: Timestamp,
}

/// What a claim stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub token: u64,
    pub expires_at: Timestamp,
    /// Whether the lane was not released, so that its oldest incomplete turn may have crashed its process.
    pub is_after_crash: bool,
}

/// Returns whether nobody holds a lane: it was released, its holder's process has ended, or its lease has expired.
#[must_use]
pub fn is_free(lane: &LaneState, own: HolderId, now: Timestamp, is_gone: impl FnOnce(HolderId) -> bool) -> bool {
    match lane.holder {
        None => true,
        Some(_) if lane.expires_at <= now => true,
        Some(holder) => holder != own && is_gone(holder),
    }
}

/// Claims a free lane.
#[must_use]
pub fn claim(lane: &LaneState, now: Timestamp, duration: Duration) -> Claim {
    Claim { token: lane.token + 1, expires_at: now.saturating_add(duration), is_after_crash: lane.holder.is_some() }
}

/// Returns whether a lease is, and still is, that of the lane.
#[must_use]
pub fn is_held_by(lane: &LaneState, lease: &Lease) -> bool {
    lane.holder == Some(lease.holder) && lane.token == lease.token
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use uuid::Uuid;

    use super::*;

    const OWN: HolderId = HolderId(Uuid::from_u128(1));
    const OTHER: HolderId = HolderId(Uuid::from_u128(2));
    const NOW: Timestamp = Timestamp(100);

    fn lane(holder: Option<HolderId>, expires_at: i64) -> LaneState {
        LaneState { holder, token: 7, expires_at: Timestamp(expires_at) }
    }

    #[rstest]
    #[case::released(lane(None, 0), false, true)]
    #[case::expired(lane(Some(OTHER), 100), false, true)]
    #[case::held(lane(Some(OTHER), 101), false, false)]
    #[case::held_by_the_dead(lane(Some(OTHER), 101), true, true)]
    #[case::own(lane(Some(OWN), 101), true, false)]
    #[case::own_and_expired(lane(Some(OWN), 100), false, true)]
    fn lane_is_free(#[case] lane: LaneState, #[case] is_gone: bool, #[case] expected: bool) {
        assert_eq!(is_free(&lane, OWN, NOW, |_| is_gone), expected);
    }

    #[test]
    fn each_claim_has_a_higher_token() {
        let next = claim(&lane(None, 0), NOW, Duration::from_millis(30));
        assert_eq!(next, Claim { token: 8, expires_at: Timestamp(130), is_after_crash: false });
        assert!(claim(&lane(Some(OTHER), 0), NOW, Duration::ZERO).is_after_crash, "nobody released it");
    }

    #[test]
    fn lease_is_that_of_its_token() {
        let conversation = "console:main".parse().expect("a conversation");
        let lease = Lease { conversation, holder: OWN, token: 7 };
        assert!(is_held_by(&lane(Some(OWN), 0), &lease), "though it has expired: nobody has claimed it since");
        assert!(!is_held_by(&lane(Some(OTHER), 0), &lease));
        assert!(!is_held_by(&lane(None, 0), &lease));
        assert!(!is_held_by(&lane(Some(OWN), 0), &Lease { token: 6, ..lease.clone() }));
    }
}
