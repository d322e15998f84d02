//! Keeps sends and edits within Telegram's rate limits, with priority for sends over edits and previews.
//!
//! Existing crates only have token buckets of one rate. Here a chat has a bucket and a window, all chats share another
//! bucket and window, a 429 closes either until its retry-after, and edits yield to sends. A call that would have to
//! wait long gets the delay as an error: a part that waits here counts as being sent, one that waits in the ledger
//! doesn't.

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

/// Longest wait for a permit here; longer ones are returned as an error.
const MAX_LOCAL_WAIT: Duration = Duration::from_secs(2);

/// How long an edit yields to sends. Any edit may be the last of a reply, so none waits forever.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(2);

/// How often a waiter checks again, since others may have left or a chat may have been closed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How many chat queues are kept before idle ones are evicted.
const MAX_CHAT_QUEUES: usize = 1_000;

/// How many chats must be closed at once for the limit to be taken as global.
const GLOBAL_LIMIT_AFTER: usize = 3;

/// What a call does in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// One call that posts this many messages.
    Send(usize),
    /// An edit of a message, usually of a streamed reply.
    Edit,
    /// A preview of a reply, which is worth no wait: the next one, or the reply itself, says all that it says.
    Preview,
}

impl CallKind {
    fn message_count(self) -> usize {
        match self {
            Self::Send(messages) => messages.max(1),
            Self::Edit | Self::Preview => 1,
        }
    }
}

/// What a waiter has to do next.
enum WaitAction {
    /// Make the call, which is counted already.
    Proceed,
    CheckAt(Instant),
    /// Come again at this time. The slot is reserved until then, unless it is that of a preview.
    ReturnAt(Instant),
}

/// The rate limiter of one bot.
pub(crate) struct RateLimiter {
    limits: Option<RateLimits>,
    queues: Mutex<WaitQueues>,
}

struct WaitQueues {
    global: FairQueue,
    chats: HashMap<ChatId, FairQueue>,
}

/// Removes a waiter from its queues on drop, unless its slot is reserved.
struct QueueGuard<'a> {
    rate_limiter: &'a RateLimiter,
    waiter: Waiter,
}

impl RateLimiter {
    /// Creates a limiter; `None` limits nothing.
    pub(crate) fn new(limits: Option<RateLimits>) -> Self {
        let budget = limits.map_or_else(RateBudget::unlimited, |limits| RateBudget::global(&limits));
        Self { limits, queues: Mutex::new(WaitQueues { global: FairQueue::new(budget), chats: HashMap::new() }) }
    }

    /// Waits until a part's call may be made, and counts it as made.
    ///
    /// # Errors
    /// The delay, if it is longer than [`MAX_LOCAL_WAIT`]: nothing is counted, and the part's slot is reserved until
    /// then. A preview never waits, and no slot is reserved for it.
    pub(crate) async fn acquire(
        &self,
        address: ConversationAddress,
        part: PartId,
        call: CallKind,
    ) -> Result<(), Duration> {
        let Some(limits) = &self.limits else { return Ok(()) };
        let guard = QueueGuard { rate_limiter: self, waiter: Waiter { chat: address.chat, part } };
        let is_send = matches!(call, CallKind::Send(_));
        let rank = Instant::now() + if is_send { Duration::ZERO } else { LOW_PRIORITY_DELAY };
        loop {
            let now = Instant::now();
            let action = self.lock().next_action(guard.waiter, address, call, limits, rank, now);
            match action {
                WaitAction::Proceed => return Ok(()),
                WaitAction::CheckAt(at) => sleep_until(at.min(now + RECHECK_INTERVAL)).await,
                WaitAction::ReturnAt(at) => return Err(at - now),
            }
        }
    }

    /// Applies a retry-after. Telegram doesn't say whether it is for the chat or the bot: the chat is closed, and all
    /// chats once several are closed at the same time. Two groups can easily exhaust their minutes together, but hardly
    /// a private chat and another one, or three chats.
    pub(crate) fn close_until(&self, address: ConversationAddress, retry_after: Duration) {
        let Some(limits) = &self.limits else { return };
        let (now, mut queues) = (Instant::now(), self.lock());
        queues.chat_queue(address, limits, now).budget.close_until(now + retry_after);
        let closed: Vec<_> = queues.chats.iter().filter(|(_, queue)| queue.budget.is_closed(now)).collect();
        let is_one_private =
            closed.iter().any(|(chat, _)| !ConversationAddress { chat: **chat, topic: None }.is_group());
        if closed.len() >= GLOBAL_LIMIT_AFTER || (closed.len() > 1 && is_one_private) {
            queues.global.budget.close_until(now + retry_after);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitQueues {
    /// Decides what a waiter has to do now. It waits for its chat first, and for the global limit only once its chat is
    /// ready.
    fn next_action(
        &mut self,
        waiter: Waiter,
        address: ConversationAddress,
        call: CallKind,
        limits: &RateLimits,
        rank: Instant,
        now: Instant,
    ) -> WaitAction {
        let messages = call.message_count();
        let queue = self.chat_queue(address, limits, now);
        let rank = queue.join(waiter, rank, messages, now);
        let mut at = queue.ready_at(waiter, now);
        let mut has_room = queue.budget.has_room_for_edit(now);
        if at <= now {
            self.global.join(waiter, rank, 1, now);
            at = self.global.ready_at(waiter, now);
            has_room &= self.global.budget.has_room_for_edit(now);
        } else {
            self.global.remove(waiter);
        }
        if call == CallKind::Preview && (at > now || !has_room) {
            // The reply would have to wait for it, and behind a slot that nobody may return to.
            self.chat_queue(address, limits, now).remove(waiter);
            self.global.remove(waiter);
            return WaitAction::ReturnAt(at.max(now + RECHECK_INTERVAL));
        }
        let is_deferred = call == CallKind::Edit && now < rank && !has_room;
        if at <= now && !is_deferred {
            self.chat_queue(address, limits, now).proceed(waiter, messages, now);
            self.global.proceed(waiter, 1, now);
            return WaitAction::Proceed;
        }
        if at > now + MAX_LOCAL_WAIT {
            self.chat_queue(address, limits, now).reserve_until(waiter, at);
            self.global.reserve_until(waiter, at);
            return WaitAction::ReturnAt(at);
        }
        WaitAction::CheckAt(if is_deferred { at.max(rank) } else { at })
    }

    fn chat_queue(&mut self, address: ConversationAddress, limits: &RateLimits, now: Instant) -> &mut FairQueue {
        if self.chats.len() >= MAX_CHAT_QUEUES && !self.chats.contains_key(&address.chat) {
            self.chats.retain(|_, queue| !queue.is_fresh(now));
        }
        self.chats
            .entry(address.chat)
            .or_insert_with(|| FairQueue::new(RateBudget::for_chat(limits, address.is_group())))
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut queues = self.rate_limiter.lock();
        queues.global.stop_waiting(self.waiter);
        if let Some(queue) = queues.chats.get_mut(&self.waiter.chat) {
            queue.stop_waiting(self.waiter);
        }
    }
}

#[cfg(test)]
mod tests;
