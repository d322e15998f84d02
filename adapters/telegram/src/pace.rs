//! Keeps sends and edits within the platform's pace, final ones before those of a growing reply.
//!
//! A limiter of our own: the crates for this know buckets of one rate. Here a chat has a bucket and a window, all chats
//! share another window, a 429 closes either for a told time, and edits give way to sends.

mod budget;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_domain::capabilities::Pace;
use teloxide::types::ChatId;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use crate::place::Place;
use budget::Budget;

/// How long an edit gives way to sends. Which edit is a reply's last can't be told, so none waits for ever.
const GIVES_WAY: Duration = Duration::from_secs(3);

/// How soon an edit that gives way looks again.
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// How many chats are remembered before those that have been quiet are forgotten.
const REMEMBERED: usize = 1_000;

/// What a call is to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// So many new messages, made by one call.
    Send(usize),
    /// A change of a message, which most often is a reply that grows.
    Edit,
}

impl Call {
    fn messages(self) -> usize {
        match self {
            Self::Send(messages) => messages.max(1),
            Self::Edit => 1,
        }
    }
}

/// A place to wait in line at.
struct Gate {
    /// Semaphores are fair: whoever came first goes first, and whoever stops waiting leaves the line.
    line: Semaphore,
    budget: Mutex<Budget>,
}

/// The pace of a bot.
pub(crate) struct Pacer {
    pace: Option<Pace>,
    everyone: Gate,
    chats: Mutex<HashMap<ChatId, Arc<Gate>>>,
}

impl Pacer {
    /// Keeps to this pace; `None` is no pace.
    pub(crate) fn new(pace: Option<Pace>) -> Self {
        let everyone = pace.map_or_else(Budget::unlimited, |pace| Budget::of_everyone(&pace));
        Self { pace, everyone: Gate::new(everyone), chats: Mutex::default() }
    }

    /// Waits until a call may be made, and counts it as made.
    pub(crate) async fn wait(&self, place: Place, call: Call) {
        let Some(pace) = &self.pace else { return };
        let chat = self.chat(place, pace);
        if call == Call::Edit {
            let patience = Instant::now() + GIVES_WAY;
            while Instant::now() < patience {
                if self.try_edit(&chat) {
                    return;
                }
                tokio::time::sleep(LOOKS_AGAIN).await;
            }
        }
        chat.pass(call.messages()).await;
        self.everyone.pass(1).await;
    }

    /// Heeds that Telegram takes nothing for so long. It doesn't say whether it means the chat or the bot: the chat is
    /// closed, and everything when another chat is closed already.
    pub(crate) fn close(&self, place: Place, retry_after: Duration) {
        let Some(pace) = &self.pace else { return };
        let now = Instant::now();
        let this = self.chat(place, pace);
        let another = self.chats().iter().any(|(chat, gate)| *chat != place.chat && gate.budget().is_closed(now));
        this.budget().close(now + retry_after);
        if another {
            self.everyone.budget().close(now + retry_after);
        }
    }

    /// Makes an edit count if nobody waits and there is room for more than it.
    fn try_edit(&self, chat: &Gate) -> bool {
        if chat.line.available_permits() == 0 || self.everyone.line.available_permits() == 0 {
            return false;
        }
        let now = Instant::now();
        let (mut chat, mut everyone) = (chat.budget(), self.everyone.budget());
        let allowed = chat.has_room_for_an_edit(now) && everyone.has_room_for_an_edit(now);
        if allowed {
            // Both have room, as was just looked up under their locks.
            let _ = (chat.take(now, 1), everyone.take(now, 1));
        }
        allowed
    }

    fn chats(&self) -> MutexGuard<'_, HashMap<ChatId, Arc<Gate>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chat(&self, place: Place, pace: &Pace) -> Arc<Gate> {
        let mut chats = self.chats();
        if chats.len() >= REMEMBERED {
            let now = Instant::now();
            chats.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.budget().is_fresh(now));
        }
        let gate =
            chats.entry(place.chat).or_insert_with(|| Arc::new(Gate::new(Budget::of_chat(pace, place.is_group()))));
        Arc::clone(gate)
    }
}

impl Gate {
    fn new(budget: Budget) -> Self {
        Self { line: Semaphore::new(1), budget: Mutex::new(budget) }
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass(&self, messages: usize) {
        let _first_in_line = self.line.acquire().await.expect("the line is never closed");
        loop {
            let taken = self.budget().take(Instant::now(), messages);
            match taken {
                Ok(()) => return,
                Err(next) => sleep_until(next).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
