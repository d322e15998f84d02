//! Places for scripts: so many in all, so many for one person and one conversation, and turns between people.
//!
//! Of a person one script waits in a conversation, and of a conversation one waits for a place of all; the others wait
//! behind it. So whoever comes new stands behind one script of each person, however many one has waiting and in however
//! many conversations. Tokio's semaphores serve in the order of coming, which is all the queueing that there is.
//!
//! The person's place comes first: one who waits for their own scripts keeps nobody else in a group from theirs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{ChannelName, ConversationId};
use satchel_ports::ScriptRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct SlotPool {
    all: Arc<Semaphore>,
    of_one: usize,
    queues: Mutex<HashMap<Holder, Arc<ConversationSlots>>>,
}

/// Whose scripts wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Person(ChannelName, String),
    Conversation(ConversationId),
}

/// The scripts of one holder.
struct ConversationSlots {
    places: Arc<Semaphore>,
    /// Who waits for the next place that is needed.
    front: Semaphore,
}

/// A place. Dropping it makes room.
pub(crate) struct SlotPermit {
    _of_all: OwnedSemaphorePermit,
    _of_conversation: (OwnedSemaphorePermit, QueueTicket),
    _of_person: Option<(OwnedSemaphorePermit, QueueTicket)>,
}

const OPEN: &str = "a semaphore of places is never closed";

impl SlotPool {
    pub(crate) fn new(all: usize, of_one: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Self { all, of_one: of_one.clamp(1, Semaphore::MAX_PERMITS), queues: Mutex::default() })
    }

    /// Waits for a place. Whoever drops the call gives up waiting.
    pub(crate) async fn acquire(self: &Arc<Self>, script: &ScriptRequest) -> SlotPermit {
        let channel = script.conversation.channel();
        let person = script.person.as_ref().map(|person| Holder::Person(channel.clone(), person.clone()));
        let Some(person) = person else { return self.take_in(&script.conversation).await };
        let queued = QueueTicket::enter(self, person);
        let permit = queued.queue.places.clone().acquire_owned().await.expect(OPEN);
        let front = queued.queue.front.acquire().await.expect(OPEN);
        let mut place = self.take_in(&script.conversation).await;
        drop(front);
        place._of_person = Some((permit, queued));
        place
    }

    async fn take_in(self: &Arc<Self>, conversation: &ConversationId) -> SlotPermit {
        let queued = QueueTicket::enter(self, Holder::Conversation(conversation.clone()));
        let permit = queued.queue.places.clone().acquire_owned().await.expect(OPEN);
        let front = queued.queue.front.acquire().await.expect(OPEN);
        let of_all = self.all.clone().acquire_owned().await.expect(OPEN);
        drop(front);
        SlotPermit { _of_all: of_all, _of_conversation: (permit, queued), _of_person: None }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Holder, Arc<ConversationSlots>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits or has a place. The last one of a holder takes its queue away.
struct QueueTicket {
    places: Arc<SlotPool>,
    holder: Holder,
    queue: Arc<ConversationSlots>,
}

impl QueueTicket {
    fn enter(places: &Arc<SlotPool>, holder: Holder) -> Self {
        let queue = Arc::clone(places.queues().entry(holder.clone()).or_insert_with(|| {
            Arc::new(ConversationSlots { places: Arc::new(Semaphore::new(places.of_one)), front: Semaphore::new(1) })
        }));
        Self { places: Arc::clone(places), holder, queue }
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut queues = self.places.queues();
        // The map's own and this one. None is added meanwhile: that takes the lock.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Poll, time::Duration};

    use super::*;
    use futures::{FutureExt, poll};

    /// A script that nobody asked for.
    fn conversation(key: &str) -> ScriptRequest {
        ScriptRequest {
            source: String::new(),
            globals: serde_json::Map::new(),
            conversation: ConversationId::new(ChannelName::new("web").unwrap(), key).unwrap(),
            person: None,
            time_limit: Duration::from_secs(1),
        }
    }

    fn of(person: &str, key: &str) -> ScriptRequest {
        ScriptRequest { person: Some(person.to_owned()), ..conversation(key) }
    }

    #[tokio::test]
    async fn slots_are_limited_per_conversation_and_in_total() {
        let places = SlotPool::new(3, 2);
        let (a, b) = (conversation("a"), conversation("b"));
        let first = places.acquire(&a).now_or_never().unwrap();
        let _second = places.acquire(&a).now_or_never().unwrap();
        assert!(places.acquire(&a).now_or_never().is_none(), "a third of one conversation");
        let _third = places.acquire(&b).now_or_never().unwrap();
        assert!(places.acquire(&b).now_or_never().is_none(), "a fourth of all");
        drop(first);
        assert!(places.acquire(&b).now_or_never().is_some());
    }

    /// Without the front of a queue, two scripts of a busy conversation stand before whoever comes new.
    #[tokio::test]
    async fn newcomer_is_served_after_one_slot_despite_queue() {
        let places = SlotPool::new(1, 2);
        let (busy, new) = (conversation("busy"), conversation("new"));
        let mut running = Some(places.acquire(&conversation("third")).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (who, number) in (0..200).map(|number| (&busy, number)).chain([(&new, 0)]) {
            let (places, who, order) = (Arc::clone(&places), ScriptRequest::clone(who), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = places.acquire(&who).await;
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
    async fn many_conversations_of_one_person_leave_free_slots() {
        let places = SlotPool::new(3, 2);
        let taken: Vec<_> =
            (0..20).filter_map(|n| places.acquire(&of("busy", &n.to_string())).now_or_never()).collect();
        assert_eq!(taken.len(), 2, "as many as one conversation has");
        assert!(places.acquire(&of("new", "20")).now_or_never().is_some());
        assert!(places.acquire(&of("new", "0")).now_or_never().is_some(), "also where the busy one is");
        assert!(places.acquire(&conversation("21")).now_or_never().is_some());
    }

    /// All places are taken by others; the new one's turn comes right after the one that the busy person waits with.
    #[tokio::test]
    async fn person_queues_with_only_one_conversation() {
        let places = SlotPool::new(1, 2);
        let mut running = Some(places.acquire(&conversation("third")).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let busy = (0..50).map(|n| of("busy", &n.to_string()));
        for script in busy.chain([of("new", "new")]) {
            let (places, order) = (Arc::clone(&places), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let place = places.acquire(&script).await;
                order.lock().unwrap().push(script.person.unwrap());
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
        assert_eq!(order.iter().position(|who| who == "new"), Some(1));
        assert_eq!(order.len(), 51);
    }

    #[tokio::test]
    async fn queued_person_in_group_blocks_no_other_member() {
        let places = SlotPool::new(4, 2);
        let _busy = [places.acquire(&of("busy", "a")).await, places.acquire(&of("busy", "b")).await];
        let third = of("busy", "group");
        let mut waiting = Box::pin(places.acquire(&third));
        assert!(matches!(poll!(&mut waiting), Poll::Pending));
        assert!(places.acquire(&of("other", "group")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_is_in_nobodys_way() {
        let places = SlotPool::new(1, 1);
        let (a, b) = (conversation("a"), conversation("b"));
        let place = places.acquire(&a).await;
        let mut waiting: Vec<_> = [&a, &b, &b].into_iter().map(|who| Box::pin(places.acquire(who))).collect();
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
        let places = SlotPool::new(2, 1);
        for number in 0..100 {
            let conversation = of("somebody", &number.to_string());
            let place = places.acquire(&conversation).await;
            assert!(places.acquire(&conversation).now_or_never().is_none());
            assert_eq!(places.queues().len(), 2, "they are kept while there is a place");
            drop(place);
            assert_eq!(places.queues().len(), 0);
        }
    }
}
