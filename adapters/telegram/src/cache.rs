//! What responses have revealed about chats. Kept in memory only, and learned again after a restart.

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

/// How long no voice messages are sent to a chat that refused one. People may change their settings.
const VOICE_REFUSED_TTL: Duration = Duration::from_secs(60 * 60);

/// How long a chat must have had no calls before its migration is reported. Renaming the conversation takes its lane
/// from the holder: a part that was sent but not settled by then would be in doubt, and be sent twice.
const QUIET_PERIOD: Duration = Duration::from_secs(3);

/// How many chats are cached.
const CHAT_CACHE_SIZE: usize = 10_000;

/// Cache of migrations, voice refusals and open calls of chats.
#[derive(Debug, Default)]
pub(crate) struct ChatCache {
    state: Mutex<State>,
    /// Notified when a migration is recorded, or the time to report one has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    migrations: HashMap<ChatId, Migration>,
    voice_refused_until: HashMap<ChatId, Instant>,
    /// How many calls are in flight for a chat, if any.
    calls: HashMap<ChatId, usize>,
}

/// A group that was migrated to a supergroup.
#[derive(Debug)]
struct Migration {
    to: ChatId,
    /// When the last call for it ended.
    quiet_since: Instant,
    /// Whether the conversation has been renamed.
    is_reported: bool,
}

/// Counts a call as in flight until dropped.
pub(crate) struct CallGuard<'a> {
    cache: &'a ChatCache,
    chat: ChatId,
}

impl ChatCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current address of a chat. A group that became a supergroup has a new id, and had no topics before.
    pub(crate) fn current_address(&self, address: ConversationAddress) -> ConversationAddress {
        match self.state().migrations.get(&address.chat) {
            Some(migration) => ConversationAddress { chat: migration.to, topic: None },
            None => address,
        }
    }

    /// Records that a chat was migrated.
    pub(crate) fn record_migration(&self, from: ChatId, to: ChatId) {
        let mut state = self.state();
        if state.migrations.len() < CHAT_CACHE_SIZE {
            state.migrations.insert(from, Migration { to, quiet_since: Instant::now(), is_reported: false });
            self.changed.notify_one();
        }
    }

    /// Counts a call as in flight for a chat, by the id in its conversation's name.
    pub(crate) fn begin_call(&self, chat: ChatId) -> CallGuard<'_> {
        *self.state().calls.entry(chat).or_default() += 1;
        CallGuard { cache: self, chat }
    }

    /// Waits for the next unreported migration whose chat is idle. Supports one waiter.
    pub(crate) async fn next_unreported_migration(&self) -> (ChatId, ChatId) {
        loop {
            let next = {
                let State { migrations, calls, .. } = &*self.state();
                let unreported =
                    migrations.iter().filter(|(from, migration)| !migration.is_reported && !calls.contains_key(from));
                let next = unreported.min_by_key(|(_, migration)| migration.quiet_since);
                next.map(|(from, migration)| (*from, migration.to, migration.quiet_since + QUIET_PERIOD))
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

    /// Records that a migration was reported.
    pub(crate) fn mark_reported(&self, from: ChatId) {
        if let Some(migration) = self.state().migrations.get_mut(&from) {
            migration.is_reported = true;
        }
    }

    /// Records that a chat refuses voice messages.
    pub(crate) fn mark_voice_refused(&self, chat: ChatId) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.voice_refused_until.len() >= CHAT_CACHE_SIZE {
            state.voice_refused_until.retain(|_, until| *until > now);
        }
        if state.voice_refused_until.len() < CHAT_CACHE_SIZE {
            state.voice_refused_until.insert(chat, now + VOICE_REFUSED_TTL);
        }
    }

    /// Whether a chat accepts voice messages, as far as is known.
    pub(crate) fn accepts_voice(&self, chat: ChatId) -> bool {
        self.state().voice_refused_until.get(&chat).is_none_or(|until| *until <= Instant::now())
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let State { migrations, calls, .. } = &mut *self.cache.state();
        if let Some(open_calls) = calls.get_mut(&self.chat).filter(|calls| **calls > 1) {
            *open_calls -= 1;
            return;
        }
        calls.remove(&self.chat);
        if let Some(migration) = migrations.get_mut(&self.chat) {
            migration.quiet_since = Instant::now();
            self.cache.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn chat_refusing_voice_is_retried_after_one_hour() {
        let (cache, chat) = (ChatCache::default(), ChatId(1));
        assert!(cache.accepts_voice(chat));
        cache.mark_voice_refused(chat);
        assert!(!cache.accepts_voice(chat) && cache.accepts_voice(ChatId(2)));
        sleep(VOICE_REFUSED_TTL).await;
        assert!(cache.accepts_voice(chat));
    }

    #[test]
    fn moved_chat_resolves_to_new_address() {
        let (cache, address) = (ChatCache::default(), ConversationAddress { chat: ChatId(-5), topic: None });
        assert_eq!(cache.current_address(address), address);
        cache.record_migration(ChatId(-5), ChatId(-1_005));
        assert_eq!(cache.current_address(address).chat, ChatId(-1_005));
    }

    #[tokio::test(start_paused = true)]
    async fn chat_move_is_reported_once_when_quiet() {
        let cache = ChatCache::default();
        let reported_within = |time: Duration| {
            let cache = &cache;
            async move { timeout(time, cache.next_unreported_migration()).await.ok() }
        };
        let (one, other) = (cache.begin_call(ChatId(-5)), cache.begin_call(ChatId(-5)));
        let _of_another = cache.begin_call(ChatId(-6));
        cache.record_migration(ChatId(-5), ChatId(-1_005));
        sleep(QUIET_PERIOD).await;
        drop(one);
        assert_eq!(reported_within(QUIET_PERIOD).await, None, "another part is on its way");
        drop(other);
        assert_eq!(reported_within(QUIET_PERIOD / 2).await, None, "what was sent may not be settled yet");
        drop(cache.begin_call(ChatId(-5)));
        assert_eq!(reported_within(QUIET_PERIOD - Duration::from_millis(1)).await, None, "it was not quiet");
        let migration = Some((ChatId(-5), ChatId(-1_005)));
        assert_eq!(reported_within(QUIET_PERIOD).await, migration);
        assert_eq!(reported_within(QUIET_PERIOD).await, migration, "until it is told");
        cache.mark_reported(ChatId(-5));
        drop(cache.begin_call(ChatId(-5)));
        assert_eq!(reported_within(QUIET_PERIOD * 10).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn move_waiter_is_notified_of_later_move() {
        let cache = ChatCache::default();
        let migration = async {
            sleep(QUIET_PERIOD).await;
            let _under_way = cache.begin_call(ChatId(-5));
            cache.record_migration(ChatId(-5), ChatId(-1_005));
            sleep(QUIET_PERIOD).await;
        };
        let reported = timeout(QUIET_PERIOD * 4, cache.next_unreported_migration());
        let (reported, ()) = tokio::join!(reported, migration);
        assert_eq!(reported, Ok((ChatId(-5), ChatId(-1_005))));
    }
}
