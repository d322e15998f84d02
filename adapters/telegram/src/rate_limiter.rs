//! Keeps sends and edits within the platform's pace, final ones before those of a growing reply.
//!
//! A limiter of our own: the crates for this know buckets of one rate. Here a chat has a bucket and a window, all chats
//! share another window, a 429 closes either for a told time, and edits give way to sends. Whoever would have to wait
//! long is told how long instead: a part that waits here counts as being sent, one that waits in the ledger doesn't.

mod budget;
mod queue;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_domain::{PartId, capabilities::RateLimits};
use teloxide::types::ChatId;
use tokio::time::{Instant, sleep_until};

use crate::address::ConversationAddress;
use budget::RateBudget;
use queue::{FairQueue, Waiter};

/// How long is waited here for one's turn.
const MAX_LOCAL_WAIT: Duration = Duration::from_secs(2);

/// How long an edit gives way to sends. Which edit is a reply's last can't be told, so none waits for ever.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(2);

/// How soon whoever waits looks again, since others may have left, or a chat may have been closed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How many chats are remembered before those that have been quiet are forgotten.
const REMEMBERED: usize = 1_000;

/// How many chats that are closed at once mean that the bot is meant.
const GLOBAL_LIMIT_AFTER: usize = 3;

/// What a call is to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// So many new messages, made by one call.
    Send(usize),
    /// A change of a message, which most often is a reply that grows.
    Edit,
}

impl CallKind {
    fn messages(self) -> usize {
        match self {
            Self::Send(messages) => messages.max(1),
            Self::Edit => 1,
        }
    }
}

/// What whoever waits is to do.
enum WaitAction {
    /// Make the call: it is counted.
    Proceed,
    CheckAt(Instant),
    /// Come back then: the place is kept.
    ReturnAt(Instant),
}

/// The pace of a bot.
pub(crate) struct RateLimiter {
    pace: Option<RateLimits>,
    lines: Mutex<WaitQueues>,
}

struct WaitQueues {
    everyone: FairQueue,
    chats: HashMap<ChatId, FairQueue>,
}

/// Somebody who waits, and who leaves no gap when they stop waiting.
struct QueueGuard<'a> {
    pacer: &'a RateLimiter,
    caller: Waiter,
}

impl RateLimiter {
    /// Keeps to this pace; `None` is no pace.
    pub(crate) fn new(pace: Option<RateLimits>) -> Self {
        let everyone = pace.map_or_else(RateBudget::unlimited, |pace| RateBudget::global(&pace));
        Self { pace, lines: Mutex::new(WaitQueues { everyone: FairQueue::new(everyone), chats: HashMap::new() }) }
    }

    /// Waits until a part's call may be made, and counts it as made.
    ///
    /// # Errors
    /// How long it would take, where that is long: nothing is counted, and the part's place is kept until then.
    pub(crate) async fn acquire(
        &self,
        place: ConversationAddress,
        part: PartId,
        call: CallKind,
    ) -> Result<(), Duration> {
        let Some(pace) = &self.pace else { return Ok(()) };
        let waiting = QueueGuard { pacer: self, caller: Waiter { chat: place.chat, part } };
        let rank = Instant::now() + if call == CallKind::Edit { LOW_PRIORITY_DELAY } else { Duration::ZERO };
        loop {
            let now = Instant::now();
            let next = self.lines().next(waiting.caller, place, call, pace, rank, now);
            match next {
                WaitAction::Proceed => return Ok(()),
                WaitAction::CheckAt(at) => sleep_until(at.min(now + RECHECK_INTERVAL)).await,
                WaitAction::ReturnAt(at) => return Err(at - now),
            }
        }
    }

    /// Heeds that Telegram takes nothing for so long. It doesn't say whether it means the chat or the bot: the chat is
    /// closed, and everything once that can't be by chance. Two groups at a time have used up their minutes easily,
    /// but hardly a private chat and another one, or three chats.
    pub(crate) fn close_until(&self, place: ConversationAddress, retry_after: Duration) {
        let Some(pace) = &self.pace else { return };
        let (now, mut lines) = (Instant::now(), self.lines());
        lines.chat(place, pace, now).budget.close_until(now + retry_after);
        let closed: Vec<_> = lines.chats.iter().filter(|(_, line)| line.budget.is_closed(now)).collect();
        let is_one_private =
            closed.iter().any(|(chat, _)| !ConversationAddress { chat: **chat, topic: None }.is_group());
        if closed.len() >= GLOBAL_LIMIT_AFTER || (closed.len() > 1 && is_one_private) {
            lines.everyone.budget.close_until(now + retry_after);
        }
    }

    fn lines(&self) -> MutexGuard<'_, WaitQueues> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitQueues {
    /// What somebody is to do now. First they wait for their chat, and only then, when nothing else holds them up, for
    /// what all chats share.
    fn next(
        &mut self,
        caller: Waiter,
        place: ConversationAddress,
        call: CallKind,
        pace: &RateLimits,
        rank: Instant,
        now: Instant,
    ) -> WaitAction {
        let messages = call.messages();
        let chat = self.chat(place, pace, now);
        let rank = chat.join(caller, rank, messages, now);
        let mut at = chat.ready_at(caller, now);
        let mut has_room = chat.budget.has_room_for_an_edit(now);
        if at <= now {
            self.everyone.join(caller, rank, 1, now);
            at = self.everyone.ready_at(caller, now);
            has_room &= self.everyone.budget.has_room_for_an_edit(now);
        } else {
            self.everyone.remove(caller);
        }
        let gives_way = call == CallKind::Edit && now < rank && !has_room;
        if at <= now && !gives_way {
            self.chat(place, pace, now).proceed(caller, messages, now);
            self.everyone.proceed(caller, 1, now);
            return WaitAction::Proceed;
        }
        if at > now + MAX_LOCAL_WAIT {
            self.chat(place, pace, now).reserve_until(caller, at);
            self.everyone.reserve_until(caller, at);
            return WaitAction::ReturnAt(at);
        }
        WaitAction::CheckAt(if gives_way { at.max(rank) } else { at })
    }

    fn chat(&mut self, place: ConversationAddress, pace: &RateLimits, now: Instant) -> &mut FairQueue {
        if self.chats.len() >= REMEMBERED && !self.chats.contains_key(&place.chat) {
            self.chats.retain(|_, line| !line.is_fresh(now));
        }
        self.chats.entry(place.chat).or_insert_with(|| FairQueue::new(RateBudget::for_chat(pace, place.is_group())))
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut lines = self.pacer.lines();
        lines.everyone.stop_waiting(self.caller);
        if let Some(chat) = lines.chats.get_mut(&self.caller.chat) {
            chat.stop_waiting(self.caller);
        }
    }
}

#[cfg(test)]
mod tests;
