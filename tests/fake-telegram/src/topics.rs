//! Topics of a forum and of a private chat: people open, close and delete them, and a message goes into one of them or into none.

use serde_json::json;

use crate::{
    FakeTelegram,
    call::ReceivedCall,
    drafts,
    message::ChatKind,
    platform_state::PlatformState,
    refusal::{ApiRefusal, bad},
};

/// ForumTopicCreated, icon_color: one of the six that createForumTopic allows.
const TOPIC_COLOR: u32 = 7_322_096;

impl FakeTelegram {
    /// Lets people open topics in their private chats, as BotFather does (User, has_topics_enabled: "forum topic mode enabled in
    /// private chats").
    pub fn enable_private_topics(&self) {
        self.state().platform.has_private_topics = true;
    }

    /// A topic that the person of a private chat opens, of which the bot is told. Returns its `message_thread_id`, which is the id
    /// of the service message that opens it.
    ///
    /// # Panics
    /// When the bot has no topics in private chats.
    pub fn private_topic(&self, person: i64, name: &str) -> i64 {
        let mut state = self.state();
        assert!(state.platform.has_private_topics, "its apps offer no topics in a chat with this bot");
        let created = json!({ "name": name, "icon_color": TOPIC_COLOR });
        let thread = state.platform.add_service(person, person, "forum_topic_created", created);
        let opening = state.platform.messages.get_mut(&(person, thread)).expect("it was added");
        opening.thread = Some(thread);
        state.platform.chat_mut(person).topics.insert(thread, name.to_owned());
        state.tell(person, thread);
        drop(state);
        self.shared.arrived.notify_waiters();
        thread
    }

    /// Lets a person give a topic of their private chat another name, of which a service message tells in it.
    pub fn rename_private_topic(&self, person: i64, topic: i64, name: &str) {
        let mut state = self.state();
        state
            .platform
            .chat_mut(person)
            .topics
            .insert(topic, name.to_owned())
            .expect("a test renames a topic that it made");
        let id = state.platform.add_service(person, person, "forum_topic_edited", json!({ "name": name }));
        state.platform.messages.get_mut(&(person, id)).expect("it was added").thread = Some(topic);
        state.tell(person, id);
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// A topic of a forum. Returns its `message_thread_id`, which is the id of the service message that opens it.
    pub fn topic(&self, forum: i64, name: &str) -> i64 {
        let mut state = self.state();
        let created = json!({ "name": name, "icon_color": TOPIC_COLOR });
        let owner = state.platform.chat(forum).owner;
        let thread = state.platform.add_service(forum, owner, "forum_topic_created", created);
        let opening = state.platform.messages.get_mut(&(forum, thread)).expect("it was added");
        opening.thread = Some(thread);
        state.platform.chat_mut(forum).topics.insert(thread, name.to_owned());
        thread
    }

    /// Lets the forum's owner, or the person of a private chat, delete a topic with all of its messages (deleteForumTopic: "delete a forum topic along with
    /// all its messages"). Bots aren't told of it.
    pub fn delete_topic(&self, forum: i64, topic: i64) {
        let mut state = self.state();
        let chat = state.platform.chat_mut(forum);
        chat.topics.remove(&topic).expect("a test deletes a topic that it made");
        chat.closed_topics.remove(&topic);
        drafts::end(&mut chat.drafts, Some(topic));
        let messages = state.platform.messages.range_mut((forum, 0)..=(forum, i64::MAX));
        messages.filter(|(_, message)| message.thread == Some(topic)).for_each(|(_, message)| message.deleted = true);
    }

    /// Lets the forum's owner close a topic, of which a service message tells in it. The bot may manage no topics, and so
    /// may not write there any more.
    ///
    /// # Panics
    /// In a private chat: its topics can't be closed (closeForumTopic: "in a forum supergroup chat").
    pub fn close_topic(&self, forum: i64, topic: i64) {
        {
            let mut state = self.state();
            let chat = state.platform.chat_mut(forum);
            assert_eq!(chat.kind, ChatKind::Forum, "only the topics of a forum can be closed");
            chat.closed_topics.insert(topic);
        }
        self.announce_in_topic(forum, topic, "forum_topic_closed");
    }

    /// Lets the forum's owner open a closed topic again, of which a service message tells in it.
    pub fn reopen_topic(&self, forum: i64, topic: i64) {
        self.state().platform.chat_mut(forum).closed_topics.remove(&topic);
        self.announce_in_topic(forum, topic, "forum_topic_reopened");
    }

    fn announce_in_topic(&self, forum: i64, topic: i64, field: &str) {
        let mut state = self.state();
        let owner = state.platform.chat(forum).owner;
        let id = state.platform.add_service(forum, owner, field, json!({}));
        state.platform.messages.get_mut(&(forum, id)).expect("it was added").thread = Some(topic);
        state.tell(forum, id);
        drop(state);
        self.shared.arrived.notify_waiters();
    }
}

/// The topic that a request names. tdlib/telegram-bot-api, `Client.cpp`, `check_message_topic`: it is asked for before
/// anything is sent, and whatever is answered for one that isn't there becomes these words.
pub(crate) fn named_topic(platform: &PlatformState, call: &ReceivedCall, chat: i64) -> Result<Option<i64>, ApiRefusal> {
    match call.integer("message_thread_id") {
        Some(topic) if !platform.chat(chat).topics.contains_key(&topic) => Err(bad("message thread not found")),
        topic => Ok(topic),
    }
}

/// The topic into which a message goes: the named one, or that of the message which it answers (tdlib/telegram-bot-api,
/// `Client.cpp`, `is_reply_in_same_topic`: "if topic isn't specified explicitly, then it is definitely the same").
///
/// Of a closed one Telegram itself says so, in the words of its API (messages.sendMessage, Possible errors: "400
/// TOPIC_CLOSED This topic was closed, you can't send messages to it anymore").
pub(crate) fn open_topic(
    platform: &PlatformState,
    chat: i64,
    named: Option<i64>,
    answered: Option<i64>,
) -> Result<Option<i64>, ApiRefusal> {
    let topic = named.or_else(|| platform.message(chat, answered?)?.thread);
    match topic {
        Some(topic) if platform.chat(chat).closed_topics.contains(&topic) => Err(bad("TOPIC_CLOSED")),
        topic => Ok(topic),
    }
}
