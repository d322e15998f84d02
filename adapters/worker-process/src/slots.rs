//! Slots for workers: limited in total, per person and per conversation, and shared fairly between people.
//!
//! Each person has at most one piece of work in the queue of a conversation, and each conversation has at most one in the
//! total queue; the others wait behind it. So new work waits behind one piece of each person, however much they have
//! queued. Tokio's semaphores are fair (first in, first out), which is all the queueing that is needed.
//!
//! The person's slot is acquired first: a person who waits for their own work blocks no one else in a group. While the
//! piece at the front of a person's queue waits for a busy group, their work in other conversations waits behind it, even
//! if slots are free: it keeps one queue for each person instead of one for each person and conversation.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{ChannelName, ConversationId, WorkShare};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shares a number of workers between those who request work.
pub struct SlotPool {
    total: Arc<Semaphore>,
    max_per_holder: usize,
    queues: Mutex<HashMap<Holder, CountedQueue>>,
}

/// Whose work shares a limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    Person(ChannelName, String),
    Conversation(ConversationId),
    /// All work whose requester is unknown.
    Unnamed,
}

/// The queue of one holder's work.
struct HolderQueue {
    slots: Arc<Semaphore>,
    /// Held by the work at the front, which waits for the next slot.
    front: Semaphore,
}

/// A queue, and how many tickets lead to it. They are counted under the lock: two that are dropped at the same time would
/// each see the other's reference to the queue, and both would leave it.
struct CountedQueue {
    queue: Arc<HolderQueue>,
    tickets: usize,
}

/// A slot. Dropping it frees it.
pub struct SlotPermit {
    _total: OwnedSemaphorePermit,
    _holder: (OwnedSemaphorePermit, QueueTicket),
    _person: Option<(OwnedSemaphorePermit, QueueTicket)>,
}

const NEVER_CLOSED: &str = "the semaphores of slots are never closed";

impl SlotPool {
    /// A pool of `max_total` slots, of which at most `max_per_holder` belong to one person, and to one conversation.
    #[must_use]
    pub fn new(max_total: usize, max_per_holder: usize) -> Arc<Self> {
        let all = Arc::new(Semaphore::new(max_total.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            total: all,
            max_per_holder: max_per_holder.clamp(1, Semaphore::MAX_PERMITS),
            queues: Mutex::default(),
        })
    }

    /// Waits for a slot. Dropping the call leaves the queue.
    pub async fn acquire(self: &Arc<Self>, work_share: Option<&WorkShare>) -> SlotPermit {
        let Some(WorkShare { conversation, person }) = work_share else {
            return self.acquire_as(Holder::Unnamed).await;
        };
        let holder = Holder::Conversation(conversation.clone());
        let Some(person) = person else { return self.acquire_as(holder).await };
        let ticket = QueueTicket::enter(self, Holder::Person(conversation.channel().clone(), person.clone()));
        let permit = ticket.queue.slots.clone().acquire_owned().await.expect(NEVER_CLOSED);
        let front = ticket.queue.front.acquire().await.expect(NEVER_CLOSED);
        let mut slot = self.acquire_as(holder).await;
        drop(front);
        slot._person = Some((permit, ticket));
        slot
    }

    async fn acquire_as(self: &Arc<Self>, holder: Holder) -> SlotPermit {
        let ticket = QueueTicket::enter(self, holder);
        let permit = ticket.queue.slots.clone().acquire_owned().await.expect(NEVER_CLOSED);
        let front = ticket.queue.front.acquire().await.expect(NEVER_CLOSED);
        let total_permit = self.total.clone().acquire_owned().await.expect(NEVER_CLOSED);
        drop(front);
        SlotPermit { _total: total_permit, _holder: (permit, ticket), _person: None }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Holder, CountedQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that waits for or has a slot. Dropping the last one of a holder removes its queue.
struct QueueTicket {
    pool: Arc<SlotPool>,
    holder: Holder,
    queue: Arc<HolderQueue>,
}

impl QueueTicket {
    fn enter(pool: &Arc<SlotPool>, holder: Holder) -> Self {
        let mut queues = pool.queues();
        let counted = queues.entry(holder.clone()).or_insert_with(|| {
            let slots = Arc::new(Semaphore::new(pool.max_per_holder));
            CountedQueue { queue: Arc::new(HolderQueue { slots, front: Semaphore::new(1) }), tickets: 0 }
        });
        counted.tickets += 1;
        Self { pool: Arc::clone(pool), holder, queue: Arc::clone(&counted.queue) }
    }
}

impl Drop for QueueTicket {
    fn drop(&mut self) {
        let mut queues = self.pool.queues();
        if let Some(counted) = queues.get_mut(&self.holder) {
            counted.tickets -= 1;
            if counted.tickets == 0 {
                queues.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{task::Poll, time::Duration};

    use futures::{FutureExt, poll};

    use super::*;

    fn share_in(key: &str) -> WorkShare {
        WorkShare::from_conversation(ConversationId::new(ChannelName::new("web").unwrap(), key).unwrap())
    }

    fn share_by(person: &str, key: &str) -> WorkShare {
        WorkShare { person: Some(person.to_owned()), ..share_in(key) }
    }

    #[tokio::test]
    async fn slots_are_limited_per_conversation_and_in_total() {
        let pool = SlotPool::new(3, 2);
        let (a, b) = (share_in("a"), share_in("b"));
        let first = pool.acquire(Some(&a)).now_or_never().unwrap();
        let _second = pool.acquire(Some(&a)).now_or_never().unwrap();
        assert!(pool.acquire(Some(&a)).now_or_never().is_none(), "a third of one conversation");
        let _third = pool.acquire(Some(&b)).now_or_never().unwrap();
        assert!(pool.acquire(Some(&b)).now_or_never().is_none(), "a fourth of all");
        drop(first);
        assert!(pool.acquire(Some(&b)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn work_without_requester_leaves_slots_to_people() {
        let pool = SlotPool::new(2, 1);
        let unnamed = pool.acquire(None).now_or_never().unwrap();
        assert!(pool.acquire(None).now_or_never().is_none(), "all of it shares one limit");
        assert!(pool.acquire(Some(&share_in("a"))).now_or_never().is_some());
        drop(unnamed);
        assert!(pool.acquire(None).now_or_never().is_some());
    }

    /// Without the front of a queue, two pieces of work of a busy conversation would come before a newcomer's.
    #[tokio::test]
    async fn newcomer_is_served_after_one_slot_despite_queue() {
        let pool = SlotPool::new(1, 2);
        let (busy, new) = (share_in("busy"), share_in("new"));
        let mut running = Some(pool.acquire(Some(&share_in("third"))).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (who, number) in (0..200).map(|number| (&busy, number)).chain([(&new, 0)]) {
            let (pool, who, order) = (Arc::clone(&pool), WorkShare::clone(who), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let slot = pool.acquire(Some(&who)).await;
                order.lock().unwrap().push((who, number));
                tokio::task::yield_now().await;
                drop(slot);
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
        let pool = SlotPool::new(3, 2);
        let taken: Vec<_> =
            (0..20).filter_map(|n| pool.acquire(Some(&share_by("busy", &n.to_string()))).now_or_never()).collect();
        assert_eq!(taken.len(), 2, "as many as one conversation has");
        assert!(pool.acquire(Some(&share_by("new", "20"))).now_or_never().is_some());
        assert!(pool.acquire(Some(&share_by("new", "0"))).now_or_never().is_some(), "also where the busy one is");
        assert!(pool.acquire(Some(&share_in("21"))).now_or_never().is_some());
    }

    /// All slots are taken by others; the new one's turn comes right after the one that the busy person waits with.
    #[tokio::test]
    async fn person_queues_with_only_one_conversation() {
        let pool = SlotPool::new(1, 2);
        let mut running = Some(pool.acquire(Some(&share_in("third"))).await);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let busy = (0..50).map(|n| share_by("busy", &n.to_string()));
        for requester in busy.chain([share_by("new", "new")]) {
            let (pool, order) = (Arc::clone(&pool), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let slot = pool.acquire(Some(&requester)).await;
                order.lock().unwrap().push(requester.person.unwrap());
                tokio::task::yield_now().await;
                drop(slot);
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
        let pool = SlotPool::new(4, 2);
        let _busy =
            [pool.acquire(Some(&share_by("busy", "a"))).await, pool.acquire(Some(&share_by("busy", "b"))).await];
        let third = share_by("busy", "group");
        let mut waiting = Box::pin(pool.acquire(Some(&third)));
        assert!(matches!(poll!(&mut waiting), Poll::Pending));
        assert!(pool.acquire(Some(&share_by("other", "group"))).now_or_never().is_some());
    }

    #[tokio::test]
    async fn abandoned_wait_blocks_nobody() {
        let pool = SlotPool::new(1, 1);
        let (a, b) = (share_in("a"), share_in("b"));
        let slot = pool.acquire(Some(&a)).await;
        let mut waiting: Vec<_> = [&a, &b, &b].into_iter().map(|who| Box::pin(pool.acquire(Some(who)))).collect();
        for future in &mut waiting {
            assert!(matches!(poll!(future), Poll::Pending));
        }
        let last = waiting.pop().unwrap();
        drop(waiting);
        drop(slot);
        tokio::time::timeout(Duration::from_secs(5), last).await.expect("the one that still waits gets it");
    }

    #[tokio::test]
    async fn released_conversation_leaves_nothing_behind() {
        let pool = SlotPool::new(2, 1);
        for number in 0..100 {
            let conversation = share_by("somebody", &number.to_string());
            let slot = pool.acquire(Some(&conversation)).await;
            assert!(pool.acquire(Some(&conversation)).now_or_never().is_none());
            assert_eq!(pool.queues().len(), 2, "they are kept while there is a slot");
            drop(slot);
            assert_eq!(pool.queues().len(), 0);
        }
    }

    /// Catches: two tickets of one holder that are dropped on two threads, of which neither removes the queue.
    #[test]
    fn slots_released_at_once_leave_nothing_behind() {
        let pool = SlotPool::new(2, 2);
        let requester = share_by("somebody", "a");
        for round in 0..5_000 {
            let slots = [(); 2].map(|()| pool.acquire(Some(&requester)).now_or_never().unwrap());
            let start = std::sync::Barrier::new(slots.len());
            std::thread::scope(|scope| {
                for slot in slots {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        drop(slot);
                    });
                }
            });
            assert_eq!(pool.queues().len(), 0, "round {round}");
        }
    }
}
