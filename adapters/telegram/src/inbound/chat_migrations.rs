//! Reports migrations of groups to supergroups that were learned from a refused send and not from an update.

use tokio_util::sync::CancellationToken;

use super::processor::{InboundProcessor, ReceivedUpdate};
use crate::cache::ChatCache;

/// Reports migrations until cancelled. Reporting one that an update has reported, too, does no harm.
pub(super) async fn report_migrations(cache: &ChatCache, processor: &InboundProcessor, cancelled: &CancellationToken) {
    while let Some((from, to)) = cancelled.run_until_cancelled(cache.next_unreported_migration()).await {
        if !processor.store_with_retry(&ReceivedUpdate::migration(from, to), cancelled).await {
            return;
        }
        cache.mark_reported(from);
    }
}
