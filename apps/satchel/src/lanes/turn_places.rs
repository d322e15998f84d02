//! Bounds how many turns of one person run at once, so that somebody with many conversations leaves room to others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use satchel_domain::InboundMessage;
use satchel_ports::ledger::usage::PersonKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places for turns of this process, as many for each person.
#[derive(Debug)]
pub struct TurnPlaces {
    per_person: usize,
    people: Mutex<HashMap<PersonKey, Arc<Semaphore>>>,
    waiting: AtomicUsize,
}

/// A place that is given back when it is dropped.
#[derive(Debug)]
pub(super) struct TurnPlace {
    places: Arc<TurnPlaces>,
    person: PersonKey,
    permit: Option<OwnedSemaphorePermit>,
}

impl TurnPlaces {
    /// So many places for each person.
    #[must_use]
    pub fn new(per_person: usize) -> Arc<Self> {
        Arc::new(Self { per_person, people: Mutex::default(), waiting: AtomicUsize::new(0) })
    }

    /// Waits for a place for the turn of a message; those who wait get one in their order. What no person asked for needs
    /// none: its conversation has one turn at a time.
    pub(super) async fn enter(self: &Arc<Self>, message: &InboundMessage) -> Option<TurnPlace> {
        if message.errand.is_some() {
            return None;
        }
        let person = PersonKey::of(message.conversation.channel(), &message.sender);
        let semaphore = {
            let mut people = self.people();
            let places = people.entry(person.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.per_person)));
            Arc::clone(places)
        };
        let permit = match Arc::clone(&semaphore).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::new(&self.waiting);
                semaphore.acquire_owned().await.expect("it is never closed")
            }
        };
        Some(TurnPlace { places: Arc::clone(self), person, permit: Some(permit) })
    }

    /// How many turns wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn people(&self) -> MutexGuard<'_, HashMap<PersonKey, Arc<Semaphore>>> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        let mut people = self.places.people();
        self.permit = None;
        // Whoever enters takes hold of it under the lock.
        if people.get(&self.person).is_some_and(|places| Arc::strong_count(places) == 1) {
            people.remove(&self.person);
        }
    }
}

/// Counts somebody who waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use satchel_domain::{Errand, Sender};

    use super::*;

    fn message(channel: &str, sender: &str) -> InboundMessage {
        let conversation = format!("{channel}:1").parse().unwrap();
        InboundMessage::new(conversation, "1".into(), Sender::new(sender, "Ada"))
    }

    #[tokio::test]
    async fn each_person_has_places_of_their_own() {
        let places = TurnPlaces::new(2);
        let ada = message("telegram", "7");
        let first = places.enter(&ada).await;
        let _second = places.enter(&ada).await;
        let mut third = Box::pin(places.enter(&ada));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(places.waiting(), 1);
        assert!(places.enter(&message("telegram", "8")).now_or_never().is_some(), "another person");
        assert!(places.enter(&message("discord", "7")).now_or_never().is_some(), "another channel's id");
        let errand = InboundMessage { errand: Some(Errand::Welcome), ..ada.clone() };
        assert!(matches!(places.enter(&errand).now_or_never(), Some(None)));
        drop(first);
        assert!(third.await.is_some());
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn places_that_nobody_uses_are_forgotten() {
        let places = TurnPlaces::new(1);
        for sender in 0..100 {
            drop(places.enter(&message("telegram", &sender.to_string())).await);
        }
        assert_eq!(places.people().len(), 0);
        let ada = message("telegram", "7");
        let held = places.enter(&ada).await;
        let mut waits = Box::pin(places.enter(&ada));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(waits);
        assert_eq!((places.waiting(), places.people().len()), (0, 1), "one who gave up waits no more");
        drop(held);
        assert_eq!(places.people().len(), 0);
    }
}
