//! The notice that a person's files still come in, which the reply takes the place of.

use std::{pin::pin, time::Duration};

use satchel_agent::{LaneHandle, draft::reply_to};
use satchel_ports::ledger::QueuedTurn;
use satchel_routing::deliver::DraftHandle;
use tokio::time::timeout;

/// After how long a person is told that their files still come in: later than a file is refused whose attempts all fail at
/// once.
pub(super) const FETCH_NOTICE_DELAY: Duration = Duration::from_secs(20);

/// What they are told.
const FETCH_NOTICE: &str = "Fetching and storing your files takes longer than usual. I'll answer once they are here; /stop goes on without them.";

/// The notice, in the draft of the reply; without one until the fetch takes long, as when the file store is away.
#[derive(Default)]
pub(super) struct FetchNotice {
    draft: Option<DraftHandle>,
}

impl FetchNotice {
    /// Waits for what fetches a turn's files, and shows the notice if that takes long.
    pub(super) async fn wait_for<T>(
        &mut self,
        fetching: impl Future<Output = T>,
        lane: &LaneHandle,
        turn: &QueuedTurn,
    ) -> T {
        let mut fetching = pin!(fetching);
        if let Ok(fetched) = timeout(FETCH_NOTICE_DELAY, &mut fetching).await {
            return fetched;
        }
        let draft = self.draft.insert(lane.delivery.open_draft(turn.id, reply_to(turn), turn.draft.clone()));
        draft.update(|text| FETCH_NOTICE.clone_into(text));
        fetching.await
    }

    /// Ends the notice once it isn't on its way any more. Before that the turn must not end: it may release the lane, and
    /// what was on its way would be in doubt.
    pub(super) async fn finish(self) {
        if let Some(draft) = self.draft {
            draft.finish().await;
        }
    }
}
