//! Places for scripts: so many in all, so many for one conversation, and turns between conversations.
//!
//! Within a conversation one script waits for a place of all; the others wait behind it. So whoever comes new stands
//! behind one script of each conversation, however many a conversation has waiting. Tokio's semaphores serve in the
//! order of coming, which is all the queueing that there is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_domain::ConversationId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_one: usize,
    queues: Mutex<HashMap<ConversationId, Arc<Queue>>>,
}

/// The scripts of one conversation.
struct Queue {
    places: Arc<Semaphore>,
    /// Who waits for a place of all.
    front: Semaphore,
}

/// A place. Dropping it makes room.
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_conversation: OwnedSemaphorePermit,
    _queued: Queued,
}

impl Places {
    pub(crate) fn new(all: usize, of_one: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Self { all, of_one: of_one.clamp(1, Semaphore::MAX_PERMITS), queues: Mutex::default() })
    }

    /// Waits for a place. Whoever drops the call gives up waiting.
    pub(crate) async fn take(self: &Arc<Self>, conversation: &ConversationId) -> Place {
        const OPEN: &str = "a semaphore of places is never closed";
        let queued = Queued::enter(self, conversation);
        let of_conversation = queued.queue.places.clone().acquire_owned().await.expect(OPEN);
        let front = queued.queue.front.acquire().await.expect(OPEN);
        let of_all = self.all.clone().acquire_owned().await.expect(OPEN);
        drop(front);
        Place { _of_all: of_all, _of_conversation: of_conversation, _queued: queued }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits or has a place. The last one of a conversation takes its queue away.
struct Queued {
    places: Arc<Places>,
    conversation: ConversationId,
    queue: Arc<Queue>,
}

impl Queued {
    fn enter(places: &Arc<Places>, conversation: &ConversationId) -> Self {
        let queue = Arc::clone(places.queues().entry(conversation.clone()).or_insert_with(|| {
            Arc::new(Queue { places: Arc::new(Semaphore::new(places.of_one)), front: Semaphore::new(1) })
        }));
        Self { places: Arc::clone(places), conversation: conversation.clone(), queue }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut queues = self.places.queues();
        // The map's own and this one. None is added meanwhile: that takes the lock.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Poll, time::Duration};

    use futures::{FutureExt, poll};
    use satchel_domain::ChannelName;

    use super::*;

    fn conversation(key: &str) -> ConversationId {
        ConversationId::new(ChannelName::new("web").unwrap(), key).unwrap()
    }

    #[tokio::test]
    async fn a_conversation_has_so_many_places_and_all_have_so_many() {
        let places = Places::new(3, 2);
        let (a, b) = (conversation("a"), conversation("b"));
        let first = places.take(&a).now_or_never().unwrap();
        let _second = places.take(&a).now_or_never().unwrap();
        assert!(places.take(&a).now_or_never().is_none(), "a third of one conversation");
        let _third = places.take(&b).now_or_never().unwrap();
        assert!(places.take(&b).now_or_never().is_none(), "a fourth of all");
        drop(first);
        assert!(places.take(&b).now_or_never().is_some());
    }

    /// Without the front of a queue, two scripts of a busy conversation stand before whoever comes new.
    #[tokio::test]
    async fn whoever_comes_new_waits_for_one_place_however_many_another_has_waiting() {
        let places = Places::new(1, 2);
        let (busy, new) = (conversation("busy"), conversation("new"));
        let mut running = Some(places.take(&conversation("third")).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (who, number) in (0..200).map(|number| (&busy, number)).chain([(&new, 0)]) {
            let (places, who, order) = (Arc::clone(&places), who.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = places.take(&who).await;
                order.lock().unwrap().push((who, number));
                tokio::task::yield_now().await;
                drop(place);
            }));
            tokio::task::yield_now().await;
        }
        drop(running.take());
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order.iter().position(|(who, _)| *who == new), Some(1));
        let of_busy: Vec<_> = order.iter().filter(|(who, _)| *who == busy).map(|(_, number)| *number).collect();
        assert_eq!(of_busy, (0..200).collect::<Vec<_>>(), "in the order of coming");
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_is_in_nobodys_way() {
        let places = Places::new(1, 1);
        let (a, b) = (conversation("a"), conversation("b"));
        let place = places.take(&a).await;
        let mut waiting: Vec<_> = [&a, &b, &b].into_iter().map(|who| Box::pin(places.take(who))).collect();
        for future in &mut waiting {
            assert!(matches!(poll!(future), Poll::Pending));
        }
        let last = waiting.pop().unwrap();
        drop(waiting);
        drop(place);
        tokio::time::timeout(Duration::from_secs(5), last).await.expect("the one that still waits gets it");
    }

    #[tokio::test]
    async fn a_conversation_that_is_gone_leaves_nothing_behind() {
        let places = Places::new(2, 1);
        for number in 0..100 {
            let conversation = conversation(&number.to_string());
            let place = places.take(&conversation).await;
            assert!(places.take(&conversation).now_or_never().is_none());
            assert_eq!(places.queues().len(), 1, "it is kept while it has a place");
            drop(place);
            assert_eq!(places.queues().len(), 0);
        }
    }
}
