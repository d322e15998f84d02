//! Bounds how many turns of one person run at once, so that somebody with many conversations leaves room to others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use satchel_domain::InboundMessage;
use satchel_ports::ledger::PersonKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::DEFAULT_MAX_LANES;

/// How many lanes may run turns of the same person unless it is set; that person's further turns wait.
const MAX_TURNS_PER_PERSON: usize = DEFAULT_MAX_LANES / 4;

/// The slots for turns of this process, as many for each person.
#[derive(Debug)]
pub struct TurnSlots {
    per_person: usize,
    people: Mutex<HashMap<PersonKey, Arc<Semaphore>>>,
    waiting: AtomicUsize,
}

impl Default for TurnSlots {
    fn default() -> Self {
        Self::new(MAX_TURNS_PER_PERSON)
    }
}

/// The right to run a turn; dropping it returns the slot.
#[derive(Debug)]
pub(super) struct TurnPermit {
    slots: Arc<TurnSlots>,
    person: PersonKey,
    permit: Option<OwnedSemaphorePermit>,
    /// Whether the turn had to wait for it.
    pub(super) has_waited: bool,
}

impl TurnSlots {
    /// Gives each person so many slots.
    #[must_use]
    pub fn new(per_person: usize) -> Self {
        Self { per_person, people: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Waits until the turn of a message may run; a person's turns get their slots in order. What no person requested
    /// needs none: its conversation has one turn at a time.
    pub(super) async fn acquire(self: &Arc<Self>, message: &InboundMessage) -> Option<TurnPermit> {
        if message.system_task.as_ref().is_some_and(|task| !task.runs_for_sender()) {
            return None;
        }
        let person = PersonKey::new(message.conversation.channel(), &message.sender);
        let semaphore = {
            let mut people = self.people();
            let slots = people.entry(person.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_person)));
            Arc::clone(slots)
        };
        let (permit, has_waited) = match Arc::clone(&semaphore).try_acquire_owned() {
            Ok(permit) => (permit, false),
            Err(_) => {
                let _waiting = Waiting::new(self, &person);
                (semaphore.acquire_owned().await.expect("it is never closed"), true)
            }
        };
        Some(TurnPermit { slots: Arc::clone(self), person, permit: Some(permit), has_waited })
    }

    /// How many turns wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Removes the slots of a person who neither runs nor waits. Every use of them begins under the lock.
    fn remove_unused(&self, person: &PersonKey) {
        let mut people = self.people();
        if people.get(person).is_some_and(|slots| Arc::strong_count(slots) == 1) {
            people.remove(person);
        }
    }

    fn people(&self) -> MutexGuard<'_, HashMap<PersonKey, Arc<Semaphore>>> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.permit = None;
        self.slots.remove_unused(&self.person);
    }
}

/// A turn that waits for a slot, until it is dropped.
struct Waiting<'a> {
    slots: &'a TurnSlots,
    person: &'a PersonKey,
}

impl<'a> Waiting<'a> {
    fn new(slots: &'a TurnSlots, person: &'a PersonKey) -> Self {
        slots.waiting.fetch_add(1, Ordering::Relaxed);
        Self { slots, person }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.slots.waiting.fetch_sub(1, Ordering::Relaxed);
        // One that was cancelled may have been the last to use them.
        self.slots.remove_unused(self.person);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use satchel_domain::{Sender, SystemTask};

    use super::*;

    fn message(channel: &str, sender: &str) -> InboundMessage {
        let conversation = format!("{channel}:1").parse().unwrap();
        InboundMessage::new(conversation, "1".into(), Sender::new(sender, "Ada"))
    }

    #[tokio::test]
    async fn each_person_has_own_slots() {
        let slots = Arc::new(TurnSlots::new(2));
        let ada = message("telegram", "7");
        let first = slots.acquire(&ada).await;
        let _second = slots.acquire(&ada).await;
        let mut third = Box::pin(slots.acquire(&ada));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(slots.waiting(), 1);
        assert!(slots.acquire(&message("telegram", "8")).now_or_never().is_some(), "another person");
        assert!(slots.acquire(&message("discord", "7")).now_or_never().is_some(), "another channel's id");
        let errand = InboundMessage { system_task: Some(SystemTask::ConfirmPairing), ..ada.clone() };
        assert!(matches!(slots.acquire(&errand).now_or_never(), Some(None)));
        drop(first);
        assert!(third.await.is_some());
        assert_eq!(slots.waiting(), 0);
    }

    #[tokio::test]
    async fn unused_slots_are_removed() {
        let slots = Arc::new(TurnSlots::new(1));
        for sender in 0..100 {
            drop(slots.acquire(&message("telegram", &sender.to_string())).await);
        }
        assert_eq!(slots.people().len(), 0);
        let ada = message("telegram", "7");
        let held = slots.acquire(&ada).await;
        let mut waits = Box::pin(slots.acquire(&ada));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(waits);
        assert_eq!((slots.waiting(), slots.people().len()), (0, 1), "one who gave up waits no more");
        drop(held);
        assert_eq!(slots.people().len(), 0);

        let held = slots.acquire(&ada).await;
        let mut waits = Box::pin(slots.acquire(&ada));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(held);
        drop(waits);
        assert_eq!((slots.waiting(), slots.people().len()), (0, 0), "cancelled when its slot was free");
    }
}
