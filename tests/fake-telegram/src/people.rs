//! What people do: they write, send files, press buttons, block the bot, and turn groups into larger ones.

use serde_json::{Value, json};

use crate::{
    FakeTelegram, State,
    message::{ChatKind, FileKind, PersonContent, PersonMessage, TelegramContent, TelegramFile, TelegramMessage},
    objects,
    platform_state::{BOT, BotMembership, BotRole, ButtonPress, FakeChat},
    text,
};

impl FakeTelegram {
    /// A person with this id. Returns the id.
    pub fn person(&self, id: i64, name: &str) -> i64 {
        self.state().platform.people.insert(id, name.to_owned());
        id
    }

    /// The person's chat with the bot, in which they have pressed Start. Its id is the person's.
    pub fn private_chat(&self, person: i64) -> i64 {
        let mut state = self.state();
        let name = state.platform.people.get(&person).cloned().unwrap_or_default();
        let mut chat = FakeChat::new(ChatKind::Private, &name);
        chat.members.insert(person);
        state.platform.chats.entry(person).or_insert(chat);
        person
    }

    /// A small group with these people and the bot. Returns its id.
    pub fn group(&self, title: &str, members: &[i64]) -> i64 {
        self.new_chat(ChatKind::Group, title, members)
    }

    /// A large group with these people and the bot. Returns its id.
    pub fn supergroup(&self, title: &str, members: &[i64]) -> i64 {
        self.new_chat(ChatKind::Supergroup, title, members)
    }

    /// A large group with topics. Returns its id.
    pub fn forum(&self, title: &str, members: &[i64]) -> i64 {
        self.new_chat(ChatKind::Forum, title, members)
    }

    /// A channel that this person has made, in which the bot may post and not edit what others have posted. Returns its
    /// id. [`Self::person_sends`] posts in it.
    pub fn channel(&self, title: &str, owner: i64) -> i64 {
        let channel = self.new_chat(ChatKind::Channel, title, &[owner]);
        self.state().platform.chat_mut(channel).role = BotRole::Administrator { edits_posts: false };
        channel
    }

    fn new_chat(&self, kind: ChatKind, title: &str, members: &[i64]) -> i64 {
        let mut state = self.state();
        let number = state.platform.new_chat_number();
        // A supergroup's id has -100 before its number.
        let id = if kind == ChatKind::Group { -4_000 - number } else { -1_001_000_000_000 - number };
        let mut chat = FakeChat::new(kind, title);
        chat.members.extend(members);
        chat.owner = members.first().copied().unwrap_or_default();
        state.platform.chats.insert(id, chat);
        id
    }

    /// Lets a person write. Returns the message's id.
    pub fn person_says(&self, chat: i64, person: i64, text: &str) -> i64 {
        self.person_sends(chat, person, PersonMessage::text(text))
    }

    /// Lets a person send whatever they have composed. Returns the message's id.
    pub fn person_sends(&self, chat: i64, person: i64, composed: impl Into<PersonMessage>) -> i64 {
        let id = self.state().compose(chat, person, composed.into(), None);
        self.shared.arrived.notify_waiters();
        id
    }

    /// Lets a person send an album: one message and one update an item, all with one `media_group_id`.
    pub fn person_sends_album(&self, chat: i64, person: i64, items: Vec<PersonMessage>) -> Vec<i64> {
        let mut state = self.state();
        let album = state.platform.new_album();
        let sent = items.into_iter().map(|item| state.compose(chat, person, item, Some(album.clone()))).collect();
        drop(state);
        self.shared.arrived.notify_waiters();
        sent
    }

    /// Lets a person change the words of their message.
    ///
    /// # Panics
    /// When there is no such message of theirs.
    pub fn person_edits(&self, chat: i64, person: i64, message: i64, text: &str) {
        let mut state = self.state();
        let edited = state.platform.messages.get_mut(&(chat, message)).expect("a test edits what is there");
        assert!(edited.from == person, "people edit their own messages");
        edited.edits.push(std::mem::replace(&mut edited.words, text::plain_text(text)));
        state.tell_edit(chat, message);
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Lets somebody be the first to react to a message, of which the bot is told as of an edit in which nothing changed:
    /// no Message has its reactions.
    ///
    /// Update, edited_message: "This update may at times be triggered by changes to message fields that are either
    /// unavailable or not actively used by your bot."
    ///
    /// # Panics
    /// When there is no such message.
    pub fn person_reacts(&self, chat: i64, message: i64) {
        self.state().tell_edit(chat, message);
        self.shared.arrived.notify_waiters();
    }

    /// Gives a member of a large group a tag, of which the bot is told by an edit of a message of theirs, as of a reaction.
    ///
    /// # Panics
    /// When there is no such message of theirs.
    pub fn tag_member(&self, chat: i64, member: i64, tag: &str, message: i64) {
        let mut state = self.state();
        assert_eq!(state.platform.messages[&(chat, message)].from, member, "it tells of the member's own message");
        state.platform.chat_mut(chat).tags.insert(member, tag.to_owned());
        state.tell_edit(chat, message);
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Lets a person press a button of a message. Returns the id of the callback query.
    ///
    /// # Panics
    /// When there is no such button, or more than one, since equal ids in two chats are two messages.
    pub fn person_presses(&self, person: i64, message: i64, label: &str) -> String {
        let mut state = self.state();
        let State { platform, inbox, .. } = &mut *state;
        let mut found =
            platform.messages.values().filter(|shown| shown.id == message && !shown.deleted).filter_map(|shown| {
                let button = shown.buttons.iter().flatten().find(|button| button.label == label)?;
                Some((shown, button))
            });
        let (shown, button) = found.next().expect("the button is there");
        assert!(found.next().is_none(), "one message of one chat has the button");
        let data = button.callback_data.clone().expect("the button tells the bot something");
        let id = format!("{}{:06}", 43_000_000_000_u64, platform.presses.len() + 1);
        let query = json!({
            "id": id, "from": objects::user(platform, person), "message": objects::message(platform, shown),
            "chat_instance": format!("{}", shown.chat.wrapping_mul(31)), "data": data,
        });
        let press =
            ButtonPress { person, chat: shown.chat, message, label: label.to_owned(), answer: None, expired: false };
        platform.presses.insert(id.clone(), press);
        inbox.queue("callback_query", query);
        drop(state);
        self.shared.arrived.notify_waiters();
        id
    }

    /// Lets a person or a moderator delete a message. Bots aren't told of it.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn person_deletes(&self, chat: i64, message: i64) {
        self.state().platform.messages.get_mut(&(chat, message)).expect("a test deletes what is there").deleted = true;
    }

    /// Lets a person block the bot, of which it is told.
    pub fn person_blocks(&self, person: i64) {
        self.change_bot(person, person, |chat| chat.membership = BotMembership::Blocked);
    }

    /// Lets a person unblock the bot, of which it is told.
    pub fn person_unblocks(&self, person: i64) {
        self.change_bot(person, person, |chat| chat.membership = BotMembership::Welcome);
    }

    /// Lets somebody throw the bot out of a group, of which it is told.
    pub fn kick(&self, group: i64, by: i64) {
        self.change_bot(group, by, |chat| chat.membership = BotMembership::Kicked);
    }

    /// Lets somebody make the bot an administrator of a group, of which it is told: it sees all that is written there.
    pub fn promote_bot(&self, group: i64, by: i64) {
        self.change_bot(group, by, |chat| chat.role = BotRole::Administrator { edits_posts: false });
    }

    /// Lets somebody take that away again, of which the bot is told.
    pub fn demote_bot(&self, group: i64, by: i64) {
        self.change_bot(group, by, |chat| chat.role = BotRole::Member);
    }

    /// Lets somebody allow the bot to edit what others have posted in a channel, of which it is told.
    pub fn allow_editing_posts(&self, channel: i64, by: i64) {
        self.change_bot(channel, by, |chat| chat.role = BotRole::Administrator { edits_posts: true });
    }

    /// Turns the bot's privacy mode on or off, as BotFather does. Where it is on, the bot sees of a group in which it
    /// is no administrator only what is meant for it; what it does not see is not found.
    pub fn set_privacy_mode(&self, on: bool) {
        self.state().platform.privacy_mode = on;
    }

    /// Lets a person set the time in seconds after which the messages of a chat are deleted, of which a service message
    /// tells in every sort of chat. Nothing is deleted. Returns the service message's id.
    pub fn person_sets_auto_delete(&self, chat: i64, person: i64, seconds: u32) -> i64 {
        let mut state = self.state();
        let timer = json!({ "message_auto_delete_time": seconds });
        let id = state.platform.add_service(chat, person, "message_auto_delete_timer_changed", timer);
        state.tell(chat, id);
        drop(state);
        self.shared.arrived.notify_waiters();
        id
    }

    fn change_bot(&self, chat: i64, by: i64, change: impl FnOnce(&mut FakeChat)) {
        let mut state = self.state();
        let State { platform, inbox, .. } = &mut *state;
        let before = objects::member(platform, chat, BOT);
        change(platform.chat_mut(chat));
        let changed = json!({
            "chat": objects::chat(platform, chat), "from": objects::user(platform, by), "date": platform.now(),
            "old_chat_member": before, "new_chat_member": objects::member(platform, chat, BOT),
        });
        inbox.queue("my_chat_member", changed);
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Turns a group into a supergroup, of which the bot is told in both. Returns the new id.
    pub fn migrate(&self, group: i64) -> i64 {
        let (title, owner, members) = {
            let state = self.state();
            let chat = state.platform.chat(group);
            let others = chat.members.iter().copied().filter(|member| *member != chat.owner);
            (chat.title.clone(), chat.owner, [chat.owner].into_iter().chain(others).collect::<Vec<_>>())
        };
        let supergroup = self.supergroup(&title, &members);
        let mut state = self.state();
        state.platform.chat_mut(group).membership = BotMembership::Migrated(supergroup);
        for (chat, field, other) in
            [(group, "migrate_to_chat_id", supergroup), (supergroup, "migrate_from_chat_id", group)]
        {
            let id = state.platform.add_service(chat, owner, field, json!(other));
            state.tell(chat, id);
        }
        drop(state);
        self.shared.arrived.notify_waiters();
        supergroup
    }

    /// Forbids voice messages in a chat, as a person's privacy settings do.
    pub fn forbid_voice(&self, chat: i64) {
        self.state().platform.chat_mut(chat).forbids_voice = true;
    }

    /// Makes a chat unknown, as if it had never been.
    pub fn forget_chat(&self, chat: i64) {
        self.state().platform.chats.remove(&chat);
    }

    /// Lets all pressed buttons wait so long that their answers come too late.
    pub fn expire_presses(&self) {
        self.state().platform.presses.values_mut().for_each(|press| press.expired = true);
    }

    /// Lets all files be gone from the server.
    pub fn expire_files(&self) {
        self.state().platform.files.clear();
    }

    /// Queues an update as it is, of a kind that nobody knows or that can't be read. Returns its `update_id`.
    pub fn queue_update(&self, update: Value) -> i64 {
        let number = self.state().inbox.queue_raw(update);
        self.shared.arrived.notify_waiters();
        number
    }

    /// How many updates the bot has not confirmed yet.
    #[must_use]
    pub fn unconfirmed_updates(&self) -> usize {
        self.state().inbox.updates.len()
    }
}

impl State {
    fn compose(&mut self, chat: i64, person: i64, composed: PersonMessage, album: Option<String>) -> i64 {
        let Self { platform, .. } = self;
        let content = match composed.content {
            PersonContent::Words => TelegramContent::Words,
            PersonContent::Other(content) => content,
            PersonContent::File { kind, file, seconds } => {
                let head = file.blocks().next().unwrap_or_default();
                let sides = match imagesize::blob_size(&head) {
                    Ok(size) => (u32::try_from(size.width).unwrap_or(0), u32::try_from(size.height).unwrap_or(0)),
                    Err(_) if kind == FileKind::VideoNote => (240, 240),
                    Err(_) => (640, 480),
                };
                let timed = matches!(
                    kind,
                    FileKind::Voice | FileKind::Audio | FileKind::Video | FileKind::VideoNote | FileKind::Animation
                );
                TelegramContent::File(platform.keep_file(TelegramFile {
                    file_id: String::new(),
                    file_unique_id: String::new(),
                    kind,
                    filename: file.filename.clone(),
                    mime: file.mime.clone(),
                    bytes: file.bytes(),
                    sha256: file.sha256(),
                    sides,
                    duration: if timed { seconds } else { 0 },
                    content: Some(file),
                }))
            }
        };
        let id = platform.add(TelegramMessage {
            chat,
            from: person,
            thread: composed.thread,
            words: if composed.is_html {
                text::formatted_text(&composed.text)
            } else {
                text::plain_text(&composed.text)
            },
            content,
            album,
            reply_to: composed.reply_to,
            quote: composed.quote.as_deref().map(text::quoted_text),
            forwarded_from: composed.forwarded_from,
            ..TelegramMessage::default()
        });
        self.tell(chat, id);
        id
    }

    /// Tells the bot of a message, if it can see it.
    pub(crate) fn tell(&mut self, chat: i64, id: i64) {
        let Self { platform, inbox, .. } = self;
        let message = &platform.messages[&(chat, id)];
        if platform.is_visible(message) {
            let kind = if platform.chat(chat).kind == ChatKind::Channel { "channel_post" } else { "message" };
            inbox.queue(kind, objects::message(platform, message));
        }
    }

    /// Tells the bot of a message as it is now, as of an edit, if it can see it.
    fn tell_edit(&mut self, chat: i64, id: i64) {
        let Self { platform, inbox, .. } = self;
        let now = platform.now();
        let edited = platform.messages.get_mut(&(chat, id)).expect("a test edits what is there");
        // Two edits of one second still have two dates.
        edited.edit_date = Some(edited.edit_date.map_or(now, |before| now.max(before + 1)));
        let edited = &platform.messages[&(chat, id)];
        if platform.is_visible(edited) {
            let kind =
                if platform.chat(chat).kind == ChatKind::Channel { "edited_channel_post" } else { "edited_message" };
            inbox.queue(kind, objects::message(platform, edited));
        }
    }
}
