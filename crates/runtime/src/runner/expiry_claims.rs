//! Claims of lanes on closed channels, whose next part is to be given up: when, and how often.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use satchel_domain::ConversationId;
use tokio::time::Instant;

/// How much older than the largest age a part is when its lane is claimed. The ledger's clock finds it, and this process's
/// gives it up: that one may be behind.
pub(super) const EXPIRY_MARGIN: Duration = Duration::from_secs(60);

/// How soon a lane may be claimed again. Where the clocks differ by more than the margin, it is given back as it was.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);

/// The lanes that were claimed lately.
#[derive(Debug, Default)]
pub(super) struct ExpiryClaims(Mutex<RecentClaims>);

#[derive(Debug, Default)]
struct RecentClaims {
    claimed_at: HashMap<ConversationId, Instant>,
    paused_until: Option<Instant>,
}

impl ExpiryClaims {
    /// Returns whether a lane may be claimed now.
    pub(super) fn may_claim(&self) -> bool {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.paused_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Records that a lane was claimed. A ledger can't be asked for any lane but this one: if it was claimed lately, none is
    /// claimed for a while.
    pub(super) fn record(&self, conversation: &ConversationId) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.claimed_at.retain(|_, claimed_at| claimed_at.elapsed() < REPEAT_INTERVAL);
        if recent.claimed_at.insert(conversation.clone(), Instant::now()).is_some() {
            recent.paused_until = Some(Instant::now() + REPEAT_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> ConversationId {
        format!("console:{name}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn lane_that_comes_back_pauses_claims() {
        let claims = ExpiryClaims::default();
        for name in ["a", "b", "c"] {
            assert!(claims.may_claim(), "each of many lanes is claimed at once");
            claims.record(&lane(name));
        }
        assert!(claims.may_claim());
        claims.record(&lane("b"));
        assert!(!claims.may_claim());
        tokio::time::sleep(REPEAT_INTERVAL).await;
        assert!(claims.may_claim());
        claims.record(&lane("b"));
        assert!(claims.may_claim(), "its last claim was long ago");
    }
}
