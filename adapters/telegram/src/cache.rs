//! What answers have taught about chats, for as long as the process lives: it is learned again after a restart.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use teloxide::types::ChatId;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::address::ConversationAddress;

/// How long a chat that refused a voice is sent none. People change their minds, and their settings.
const VOICE_REFUSED_TTL: Duration = Duration::from_secs(60 * 60);

/// How long no call must have been made for a chat before it is told that it moved. The conversation's new name takes it
/// from whoever works on it: a part that was sent and isn't settled by then would be in doubt, and be sent twice.
const QUIET_PERIOD: Duration = Duration::from_secs(3);

/// How many chats are remembered at most.
const REMEMBERED: usize = 10_000;

/// What is known of chats.
#[derive(Debug, Default)]
pub(crate) struct ChatCache {
    state: Mutex<State>,
    /// Told when there may be a move to tell, or one may be told sooner or later than it was.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    moved: HashMap<ChatId, Migration>,
    no_voice: HashMap<ChatId, Instant>,
    /// How many calls are under way for a chat, where there are any.
    calls: HashMap<ChatId, usize>,
}

/// What is known of a chat that became another one.
#[derive(Debug)]
struct Migration {
    to: ChatId,
    /// When the last call for it ended.
    quiet_since: Instant,
    /// Whether the way in has heard of it.
    is_told: bool,
}

/// A call for a chat, for as long as it is made.
pub(crate) struct CallGuard<'a> {
    known: &'a ChatCache,
    chat: ChatId,
}

impl ChatCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a chat is now. A group that became a supergroup has another number, and had no topics before.
    pub(crate) fn current_address(&self, place: ConversationAddress) -> ConversationAddress {
        match self.state().moved.get(&place.chat) {
            Some(moved) => ConversationAddress { chat: moved.to, topic: None },
            None => place,
        }
    }

    /// Remembers that a chat has become another one.
    pub(crate) fn record_migration(&self, from: ChatId, to: ChatId) {
        let mut state = self.state();
        if state.moved.len() < REMEMBERED {
            state.moved.insert(from, Migration { to, quiet_since: Instant::now(), is_told: false });
            self.changed.notify_one();
        }
    }

    /// Notes that a call is made for a chat, by the name that its conversation has.
    pub(crate) fn begin_call(&self, chat: ChatId) -> CallGuard<'_> {
        *self.state().calls.entry(chat).or_default() += 1;
        CallGuard { known: self, chat }
    }

    /// Waits for the next unreported migration whose chat is idle. Supports one waiter.
    pub(crate) async fn next_unreported_migration(&self) -> (ChatId, ChatId) {
        loop {
            let next = {
                let State { moved, calls, .. } = &*self.state();
                let untold = moved.iter().filter(|(from, moved)| !moved.is_told && !calls.contains_key(from));
                let next = untold.min_by_key(|(_, moved)| moved.quiet_since);
                next.map(|(from, moved)| (*from, moved.to, moved.quiet_since + QUIET_PERIOD))
            };
            match next {
                Some((from, to, at)) if at <= Instant::now() => return (from, to),
                Some((.., at)) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Remembers that the way in has heard of a move.
    pub(crate) fn mark_reported(&self, from: ChatId) {
        if let Some(moved) = self.state().moved.get_mut(&from) {
            moved.is_told = true;
        }
    }

    /// Remembers that a chat takes no voice.
    pub(crate) fn mark_voice_refused(&self, chat: ChatId) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.no_voice.len() >= REMEMBERED {
            state.no_voice.retain(|_, until| *until > now);
        }
        if state.no_voice.len() < REMEMBERED {
            state.no_voice.insert(chat, now + VOICE_REFUSED_TTL);
        }
    }

    /// Whether a chat takes voices, as far as is known.
    pub(crate) fn accepts_voice(&self, chat: ChatId) -> bool {
        self.state().no_voice.get(&chat).is_none_or(|until| *until <= Instant::now())
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let State { moved, calls, .. } = &mut *self.known.state();
        if let Some(others) = calls.get_mut(&self.chat).filter(|calls| **calls > 1) {
            *others -= 1;
            return;
        }
        calls.remove(&self.chat);
        if let Some(moved) = moved.get_mut(&self.chat) {
            moved.quiet_since = Instant::now();
            self.known.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn chat_refusing_voice_is_retried_after_one_hour() {
        let (known, chat) = (ChatCache::default(), ChatId(1));
        assert!(known.accepts_voice(chat));
        known.mark_voice_refused(chat);
        assert!(!known.accepts_voice(chat) && known.accepts_voice(ChatId(2)));
        sleep(VOICE_REFUSED_TTL).await;
        assert!(known.accepts_voice(chat));
    }

    #[test]
    fn moved_chat_resolves_to_new_address() {
        let (known, place) = (ChatCache::default(), ConversationAddress { chat: ChatId(-5), topic: None });
        assert_eq!(known.current_address(place), place);
        known.record_migration(ChatId(-5), ChatId(-1_005));
        assert_eq!(known.current_address(place).chat, ChatId(-1_005));
    }

    #[tokio::test(start_paused = true)]
    async fn chat_move_is_reported_once_when_quiet() {
        let known = ChatCache::default();
        let told_within = |time: Duration| {
            let known = &known;
            async move { timeout(time, known.next_unreported_migration()).await.ok() }
        };
        let (one, other) = (known.begin_call(ChatId(-5)), known.begin_call(ChatId(-5)));
        let _of_another = known.begin_call(ChatId(-6));
        known.record_migration(ChatId(-5), ChatId(-1_005));
        sleep(QUIET_PERIOD).await;
        drop(one);
        assert_eq!(told_within(QUIET_PERIOD).await, None, "another part is on its way");
        drop(other);
        assert_eq!(told_within(QUIET_PERIOD / 2).await, None, "what was sent may not be settled yet");
        drop(known.begin_call(ChatId(-5)));
        assert_eq!(told_within(QUIET_PERIOD - Duration::from_millis(1)).await, None, "it was not quiet");
        let moved = Some((ChatId(-5), ChatId(-1_005)));
        assert_eq!(told_within(QUIET_PERIOD).await, moved);
        assert_eq!(told_within(QUIET_PERIOD).await, moved, "until it is told");
        known.mark_reported(ChatId(-5));
        drop(known.begin_call(ChatId(-5)));
        assert_eq!(told_within(QUIET_PERIOD * 10).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn move_waiter_is_notified_of_later_move() {
        let known = ChatCache::default();
        let learned = async {
            sleep(QUIET_PERIOD).await;
            let _under_way = known.begin_call(ChatId(-5));
            known.record_migration(ChatId(-5), ChatId(-1_005));
            sleep(QUIET_PERIOD).await;
        };
        let told = timeout(QUIET_PERIOD * 4, known.next_unreported_migration());
        let (told, ()) = tokio::join!(told, learned);
        assert_eq!(told, Ok((ChatId(-5), ChatId(-1_005))));
    }
}
