//! Tells of groups that became supergroups what no update has told: what a send has learned by being refused.

use tokio_util::sync::CancellationToken;

use super::processor::{InboundProcessor, ReceivedUpdate};
use crate::cache::ChatCache;

/// Tells of such moves until `over`. One that is told by an update too does no harm.
pub(super) async fn report_migrations(known: &ChatCache, desk: &InboundProcessor, over: &CancellationToken) {
    while let Some((from, to)) = over.run_until_cancelled(known.next_unreported_migration()).await {
        if !desk.store_with_retry(&ReceivedUpdate::migration(from, to), over).await {
            return;
        }
        known.mark_reported(from);
    }
}
