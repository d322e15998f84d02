//! The known message ids, kept in memory: the newest of each counter, and the bot's own in each chat.
//!
//! Telegram numbers the messages of each supergroup or channel separately, and those of all private chats and basic
//! groups of a bot together (<https://core.telegram.org/api/updates#message-related-event-sequences>). A look-up
//! queries unknown ids, so nothing else is sent to its chat while it runs.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_domain::PartId;
use teloxide::types::ChatId;
use tokio::{sync::Notify, time::Instant};

/// How many chats are cached, and how many sent messages in each. Sent messages are soon in the ledger, too.
const MAX_CHATS: usize = 1_000;
const MAX_SENT: usize = 1_000;

/// How long a doubt that was never resolved makes others in its chat uncertain.
const DOUBT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The sequence that a chat's message ids come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// All private chats and basic groups of the bot.
    Mailbox,
    /// A supergroup or channel by itself.
    Chat(ChatId),
}

impl Counter {
    pub(crate) fn new(chat: ChatId) -> Self {
        if chat.is_channel_or_supergroup() { Self::Chat(chat) } else { Self::Mailbox }
    }
}

/// The known message ids of all chats.
#[derive(Debug, Default)]
pub(crate) struct MessageIds {
    state: Mutex<State>,
    /// Signalled when a send has ended.
    send_ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    newest: HashMap<Counter, i64>,
    chats: HashMap<ChatId, ChatMessageIds>,
}

#[derive(Debug, Default)]
struct ChatMessageIds {
    sent: VecDeque<(PartId, i64)>,
    in_flight: usize,
    in_doubt: HashMap<PartId, Instant>,
    is_searched: bool,
}

impl ChatMessageIds {
    fn add_sent(&mut self, part: PartId, ids: &[i64]) {
        self.sent.extend(ids.iter().map(|id| (part, *id)));
        self.sent.drain(..self.sent.len().saturating_sub(MAX_SENT));
    }

    /// Whether it can be evicted.
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.is_searched && self.in_doubt.values().all(|since| since.elapsed() > DOUBT_TTL)
    }
}

/// An open attempt to send a part. If it is dropped unsettled, the part is in doubt.
pub(crate) struct OpenAttempt<'a> {
    ids: &'a MessageIds,
    chat: ChatId,
    part: PartId,
    is_settled: bool,
}

/// A look-up in a chat, during which nothing is sent there.
pub(crate) struct Search<'a> {
    ids: &'a MessageIds,
    chat: ChatId,
}

impl MessageIds {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a message exists.
    pub(crate) fn observe_message(&self, chat: ChatId, id: i64) {
        self.state().observe(chat, id);
    }

    /// The newest known message id of the chat's counter.
    pub(crate) fn newest_id(&self, chat: ChatId) -> Option<i64> {
        self.state().newest.get(&Counter::new(chat)).copied()
    }

    /// The bot's messages in all chats of this chat's counter, except those of one part: an earlier attempt of it may
    /// have arrived without being recorded.
    pub(crate) fn sent_ids(&self, chat: ChatId, except: PartId) -> BTreeSet<i64> {
        let (state, counter) = (self.state(), Counter::new(chat));
        let chats = state.chats.iter().filter(|(chat, _)| Counter::new(**chat) == counter);
        let sent = chats.flat_map(|(_, chat)| &chat.sent);
        sent.filter(|(part, _)| *part != except).map(|(_, id)| *id).collect()
    }

    /// Whether another part than this one is in doubt in the chat.
    pub(crate) fn has_other_doubt(&self, chat: ChatId, part: PartId) -> bool {
        let state = self.state();
        let is_other = |(doubted, since): (&PartId, &Instant)| *doubted != part && since.elapsed() <= DOUBT_TTL;
        state.chats.get(&chat).is_some_and(|chat| chat.in_doubt.iter().any(is_other))
    }

    /// Starts an attempt; `None` while a look-up runs in the chat.
    pub(crate) fn begin_send(&self, chat: ChatId, part: PartId) -> Option<OpenAttempt<'_>> {
        let mut state = self.state();
        let chat_ids = state.chat(chat);
        if chat_ids.is_searched {
            return None;
        }
        chat_ids.in_flight += 1;
        Some(OpenAttempt { ids: self, chat, part, is_settled: false })
    }

    /// Starts a look-up once no attempt is in flight in the chat; `None` while another look-up runs.
    pub(crate) async fn begin_search(&self, chat: ChatId) -> Option<Search<'_>> {
        {
            let mut state = self.state();
            let chat_ids = state.chat(chat);
            if std::mem::replace(&mut chat_ids.is_searched, true) {
                return None;
            }
        }
        let search = Search { ids: self, chat };
        loop {
            let send_ended = self.send_ended.notified();
            if self.state().chat(chat).in_flight == 0 {
                return Some(search);
            }
            send_ended.await;
        }
    }
}

impl State {
    fn chat(&mut self, chat: ChatId) -> &mut ChatMessageIds {
        if self.chats.len() >= MAX_CHATS && !self.chats.contains_key(&chat) {
            self.chats.retain(|_, chat| !chat.is_idle());
        }
        self.chats.entry(chat).or_default()
    }

    fn observe(&mut self, chat: ChatId, id: i64) {
        if self.newest.len() >= MAX_CHATS {
            self.newest.retain(|counter, _| *counter == Counter::Mailbox);
        }
        let newest = self.newest.entry(Counter::new(chat)).or_insert(id);
        *newest = id.max(*newest);
    }
}

impl OpenAttempt<'_> {
    /// Settles the attempt: it arrived as these messages. `chat` differs from the initial one after a migration.
    pub(crate) fn mark_arrived(mut self, chat: ChatId, ids: &[i64]) {
        self.is_settled = true;
        let mut state = self.ids.state();
        ids.iter().for_each(|id| state.observe(chat, *id));
        state.chat(self.chat).in_doubt.remove(&self.part);
        state.chat(chat).add_sent(self.part, ids);
    }

    /// Settles the attempt: it did not arrive.
    pub(crate) fn mark_failed(mut self) {
        self.is_settled = true;
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        let mut state = self.ids.state();
        let chat = state.chat(self.chat);
        chat.in_flight -= 1;
        if !self.is_settled {
            chat.in_doubt.insert(self.part, Instant::now());
        }
        self.ids.send_ended.notify_waiters();
    }
}

impl Search<'_> {
    /// Records that a part is no longer in doubt: it arrived as these messages, or not at all.
    pub(crate) fn resolve(&self, part: PartId, messages: &[i64]) {
        let mut state = self.ids.state();
        let chat = state.chat(self.chat);
        chat.in_doubt.remove(&part);
        chat.add_sent(part, messages);
    }
}

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.ids.state().chat(self.chat).is_searched = false;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use uuid::Uuid;

    use super::*;

    const ONE: PartId = PartId(Uuid::from_u128(1));
    const OTHER: PartId = PartId(Uuid::from_u128(2));
    const PERSON: ChatId = ChatId(4711);
    const GROUP: ChatId = ChatId(-5);
    const SUPERGROUP: ChatId = ChatId(-1_001_234_567_890);

    #[test]
    fn private_chats_and_basic_groups_share_a_counter() {
        let ids = MessageIds::default();
        ids.observe_message(PERSON, 7);
        ids.observe_message(SUPERGROUP, 900);
        ids.observe_message(GROUP, 6);
        assert_eq!(
            (ids.newest_id(GROUP), ids.newest_id(PERSON), ids.newest_id(SUPERGROUP)),
            (Some(7), Some(7), Some(900))
        );
        ids.begin_send(PERSON, ONE).unwrap().mark_arrived(PERSON, &[8, 9]);
        assert_eq!((ids.newest_id(GROUP), ids.sent_ids(GROUP, OTHER)), (Some(9), [8, 9].into()));
        assert_eq!(ids.sent_ids(GROUP, ONE), [].into(), "its own are not known to be recorded");
        assert_eq!(ids.sent_ids(SUPERGROUP, OTHER), [].into());
    }

    #[test]
    fn searched_chat_accepts_no_send() {
        let ids = MessageIds::default();
        let search = ids.begin_search(PERSON).now_or_never().flatten().unwrap();
        assert!(ids.begin_send(PERSON, ONE).is_none());
        assert!(ids.begin_send(GROUP, ONE).is_some(), "another chat");
        assert!(ids.begin_search(PERSON).now_or_never().flatten().is_none(), "one at a time");
        drop(search);
        assert!(ids.begin_send(PERSON, ONE).is_some());
    }

    #[tokio::test]
    async fn search_waits_for_open_sends() {
        let ids = MessageIds::default();
        let send = ids.begin_send(PERSON, ONE).unwrap();
        let search = ids.begin_search(PERSON);
        tokio::pin!(search);
        assert!(search.as_mut().now_or_never().is_none());
        assert!(ids.begin_send(PERSON, OTHER).is_none(), "what comes later waits for it");
        send.mark_failed();
        assert!(search.await.is_some());
    }

    #[test]
    fn unfinished_send_is_in_doubt_until_resolved() {
        let ids = MessageIds::default();
        drop(ids.begin_send(PERSON, ONE));
        assert!(ids.has_other_doubt(PERSON, OTHER) && !ids.has_other_doubt(PERSON, ONE));
        assert!(!ids.has_other_doubt(GROUP, OTHER));
        let search = ids.begin_search(PERSON).now_or_never().flatten().unwrap();
        search.resolve(ONE, &[5]);
        assert!(!ids.has_other_doubt(PERSON, OTHER) && ids.sent_ids(PERSON, OTHER).contains(&5));
    }
}
