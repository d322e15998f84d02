//! Slots for scripts: limited in total, per person and per conversation, and shared fairly between people.
//!
//! Each person has at most one script in the queue of a conversation, and each conversation has at most one in the
//! total queue; the others wait behind it. So a new script waits behind one script of each person, however many
//! they have queued. Tokio's semaphores are fair (first in, first out), which is all the queueing that is needed.
//!
//! The person's slot is acquired first: a person who waits for their own scripts blocks no one else in a group.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{ChannelName, ConversationId};
use satchel_ports::ScriptRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct SlotPool {
    total: Arc<Semaphore>,
    max_per_holder: usize,
    queues: Mutex<HashMap<Holder, Arc<HolderQueue>>>,
}

/// Whose scripts share a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Person(ChannelName, String),
    Conversation(ConversationId),
}

/// The queue of one holder's scripts.
struct HolderQueue {
    slots: Arc<Semaphore>,
    /// Held by the script at the front, which waits for the next slot.
    front: Semaphore,
}

/// A slot. Dropping it frees it.
pub(crate) struct SlotPermit {
    _total: OwnedSemaphorePermit,
    _conversation: (OwnedSemaphorePermit, QueueTicket),
    _person: Option<(OwnedSemaphorePermit, QueueTicket)>,
}

const NEVER_CLOSED: &str = "the semaphores of slots are never closed";

impl SlotPool {
    pub(crate) fn new(max_total: usize, max_per_holder: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(max_total.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            total: all,
            max_per_holder: max_per_holder.clamp(1, Semaphore::MAX_PERMITS),
            queues: Mutex::default(),
        })
    }

    /// Waits for a slot. Dropping the call leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, script: &ScriptRequest) -> SlotPermit {
        let channel = script.conversation.channel();
        let person = script.person.as_ref().map(|person| Holder::Person(channel.clone(), person.clone()));
        let Some(person) = person else { return self.acquire_in_conversation(&script.conversation).await };
        let ticket = QueueTicket::enter(self, person);
        let permit = ticket.queue.slots.clone().acquire_owned().await.expect(NEVER_CLOSED);
        let front = ticket.queue.front.acquire().await.expect(NEVER_CLOSED);
        let mut slot = self.acquire_in_conversation(&script.conversation).await;
        drop(front);
        slot._person = Some((permit, ticket));
        slot
    }

    async fn acquire_in_conversation(self: &Arc<Self>, conversation: &ConversationId) -> SlotPermit {
        let ticket = QueueTicket::enter(self, Holder::Conversation(conversation.clone()));
        let permit = ticket.queue.slots.clone().acquire_owned().await.expect(NEVER_CLOSED);
        let front = ticket.queue.front.acquire().await.expect(NEVER_CLOSED);
        let total_permit = self.total.clone().acquire_owned().await.expect(NEVER_CLOSED);
        drop(front);
        SlotPermit { _total: total_permit, _conversation: (permit, ticket), _person: None }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Holder, Arc<HolderQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A script that waits for or has a slot. Dropping the last one of a holder removes its queue.
struct QueueTicket {
    pool: Arc<SlotPool>,
    holder: Holder,
    queue: Arc<HolderQueue>,
}

impl QueueTicket {
    fn enter(pool: &Arc<SlotPool>, holder: Holder) -> Self {
        let queue = Arc::clone(pool.queues().entry(holder.clone()).or_insert_with(|| {
            Arc::new(HolderQueue { slots: Arc::new(Semaphore::new(pool.max_per_holder)), front: Semaphore::new(1) })
        }));
        Self { pool: Arc::clone(pool), holder, queue }
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut queues = self.pool.queues();
        // The map's own and this one. No other is added meanwhile: that takes the lock.
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
    fn script_in(key: &str) -> ScriptRequest {
        ScriptRequest {
            source: String::new(),
            globals: serde_json::Map::new(),
            conversation: ConversationId::new(ChannelName::new("web").unwrap(), key).unwrap(),
            person: None,
            time_limit: Duration::from_secs(1),
        }
    }

    fn script_by(person: &str, key: &str) -> ScriptRequest {
        ScriptRequest { person: Some(person.to_owned()), ..script_in(key) }
    }

    #[tokio::test]
    async fn slots_are_limited_per_conversation_and_in_total() {
        let places = SlotPool::new(3, 2);
        let (a, b) = (script_in("a"), script_in("b"));
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
        let (busy, new) = (script_in("busy"), script_in("new"));
        let mut running = Some(places.acquire(&script_in("third")).await);
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
            (0..20).filter_map(|n| places.acquire(&script_by("busy", &n.to_string())).now_or_never()).collect();
        assert_eq!(taken.len(), 2, "as many as one conversation has");
        assert!(places.acquire(&script_by("new", "20")).now_or_never().is_some());
        assert!(places.acquire(&script_by("new", "0")).now_or_never().is_some(), "also where the busy one is");
        assert!(places.acquire(&script_in("21")).now_or_never().is_some());
    }

    /// All places are taken by others; the new one's turn comes right after the one that the busy person waits with.
    #[tokio::test]
    async fn person_queues_with_only_one_conversation() {
        let places = SlotPool::new(1, 2);
        let mut running = Some(places.acquire(&script_in("third")).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let busy = (0..50).map(|n| script_by("busy", &n.to_string()));
        for script in busy.chain([script_by("new", "new")]) {
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
        let _busy = [places.acquire(&script_by("busy", "a")).await, places.acquire(&script_by("busy", "b")).await];
        let third = script_by("busy", "group");
        let mut waiting = Box::pin(places.acquire(&third));
        assert!(matches!(poll!(&mut waiting), Poll::Pending));
        assert!(places.acquire(&script_by("other", "group")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn whoever_gives_up_waiting_is_in_nobodys_way() {
        let places = SlotPool::new(1, 1);
        let (a, b) = (script_in("a"), script_in("b"));
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
            let conversation = script_by("somebody", &number.to_string());
            let place = places.acquire(&conversation).await;
            assert!(places.acquire(&conversation).now_or_never().is_none());
            assert_eq!(places.queues().len(), 2, "they are kept while there is a place");
            drop(place);
            assert_eq!(places.queues().len(), 0);
        }
    }
}
