//! What people do: they write, send files, press buttons, block the bot, and turn groups into larger ones.

use serde_json::{Value, json};

use crate::telegram::{
    FakeTelegram, State,
    message::{ChatKind, Composed, ComposedContent, Content, FileKind, TelegramFile, TelegramMessage},
    objects, words,
    world::{BOT, Chat, Press, Standing, now},
};

impl FakeTelegram {
    /// A person with this id. Returns the id.
    pub fn person(&self, id: i64, name: &str) -> i64 {
        self.state().world.people.insert(id, name.to_owned());
        id
    }

    /// The person's chat with the bot, in which they have pressed Start. Its id is the person's.
    pub fn private_chat(&self, person: i64) -> i64 {
        let mut state = self.state();
        let name = state.world.people.get(&person).cloned().unwrap_or_default();
        let mut chat = Chat::new(ChatKind::Private, &name);
        chat.members.insert(person);
        state.world.chats.entry(person).or_insert(chat);
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

    fn new_chat(&self, kind: ChatKind, title: &str, members: &[i64]) -> i64 {
        let mut state = self.state();
        let number = state.world.new_number();
        // A supergroup's id has -100 before its number.
        let id = if kind == ChatKind::Group { -4_000 - number } else { -1_001_000_000_000 - number };
        let mut chat = Chat::new(kind, title);
        chat.members.extend(members);
        state.world.chats.insert(id, chat);
        id
    }

    /// A topic of a forum. Returns its `message_thread_id`.
    pub fn topic(&self, forum: i64, name: &str) -> i64 {
        let mut state = self.state();
        let thread = state.world.new_number();
        state.world.chat_mut(forum).topics.insert(thread, name.to_owned());
        thread
    }

    /// Lets a person write. Returns the message's id.
    pub fn person_says(&self, chat: i64, person: i64, text: &str) -> i64 {
        self.person_sends(chat, person, Composed::text(text))
    }

    /// Lets a person send whatever they have composed. Returns the message's id.
    pub fn person_sends(&self, chat: i64, person: i64, composed: impl Into<Composed>) -> i64 {
        let id = self.state().compose(chat, person, composed.into(), None);
        self.shared.arrived.notify_waiters();
        id
    }

    /// Lets a person send an album: one message and one update an item, all with one `media_group_id`.
    pub fn person_sends_album(&self, chat: i64, person: i64, items: Vec<Composed>) -> Vec<i64> {
        let mut state = self.state();
        let album = state.world.new_album();
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
        let State { world, inbox, .. } = &mut *state;
        let edited = world.messages.get_mut(&message).expect("a test edits what is there");
        assert!(edited.chat == chat && edited.from == person, "people edit their own messages");
        edited.edits.push(std::mem::replace(&mut edited.words, words::typed(text)));
        // Two edits of one second still have two dates.
        edited.edit_date = Some(edited.edit_date.map_or_else(now, |before| now().max(before + 1)));
        inbox.queue("edited_message", objects::message(world, &world.messages[&message]));
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Lets a person press a button of a message. Returns the id of the callback query.
    ///
    /// # Panics
    /// When there is no such button.
    pub fn person_presses(&self, person: i64, message: i64, label: &str) -> String {
        let mut state = self.state();
        let State { world, inbox, .. } = &mut *state;
        let shown = world.messages.get(&message).filter(|message| !message.deleted).expect("the message is there");
        let button = shown.buttons.iter().flatten().find(|button| button.label == label).expect("the button is there");
        let data = button.callback_data.clone().expect("the button tells the bot something");
        let id = format!("{}{:06}", 43_000_000_000_u64, world.presses.len() + 1);
        let query = json!({
            "id": id, "from": objects::user(world, person), "message": objects::message(world, shown),
            "chat_instance": format!("{}", shown.chat.wrapping_mul(31)), "data": data,
        });
        let press = Press { person, message, label: label.to_owned(), answer: None, expired: false };
        world.presses.insert(id.clone(), press);
        inbox.queue("callback_query", query);
        drop(state);
        self.shared.arrived.notify_waiters();
        id
    }

    /// Lets a person or a moderator delete a message. Bots aren't told of it.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn person_deletes(&self, message: i64) {
        self.state().world.messages.get_mut(&message).expect("a test deletes what is there").deleted = true;
    }

    /// Lets a person block the bot, of which it is told.
    pub fn person_blocks(&self, person: i64) {
        self.standing(person, person, Standing::Blocked, ("member", "kicked"));
    }

    /// Lets a person unblock the bot, of which it is told.
    pub fn person_unblocks(&self, person: i64) {
        self.standing(person, person, Standing::Welcome, ("kicked", "member"));
    }

    /// Lets somebody throw the bot out of a group, of which it is told.
    pub fn kick(&self, group: i64, by: i64) {
        self.standing(group, by, Standing::Kicked, ("member", "kicked"));
    }

    fn standing(&self, chat: i64, by: i64, standing: Standing, (before, after): (&str, &str)) {
        let mut state = self.state();
        let State { world, inbox, .. } = &mut *state;
        world.chat_mut(chat).standing = standing;
        let member = |status: &str| {
            let mut member = json!({ "status": status, "user": objects::user(world, BOT) });
            if status == "kicked" {
                member["until_date"] = json!(0);
            }
            member
        };
        let changed = json!({
            "chat": objects::chat(world, chat), "from": objects::user(world, by), "date": now(),
            "old_chat_member": member(before), "new_chat_member": member(after),
        });
        inbox.queue("my_chat_member", changed);
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Turns a group into a supergroup, of which the bot is told in both. Returns the new id.
    pub fn migrate(&self, group: i64) -> i64 {
        let (title, members) = {
            let state = self.state();
            let chat = state.world.chat(group);
            (chat.title.clone(), chat.members.iter().copied().collect::<Vec<_>>())
        };
        let supergroup = self.supergroup(&title, &members);
        let mut state = self.state();
        let State { world, inbox, .. } = &mut *state;
        world.chat_mut(group).standing = Standing::Migrated(supergroup);
        for (chat, field, other) in
            [(group, "migrate_to_chat_id", supergroup), (supergroup, "migrate_from_chat_id", group)]
        {
            let number = world.new_number();
            let mut told = json!({ "message_id": number, "date": now(), "chat": objects::chat(world, chat) });
            told[field] = json!(other);
            inbox.queue("message", told);
        }
        drop(state);
        self.shared.arrived.notify_waiters();
        supergroup
    }

    /// Forbids voice messages in a chat, as a person's privacy settings do.
    pub fn forbid_voice(&self, chat: i64) {
        self.state().world.chat_mut(chat).forbids_voice = true;
    }

    /// Makes a chat unknown, as if it had never been.
    pub fn forget_chat(&self, chat: i64) {
        self.state().world.chats.remove(&chat);
    }

    /// Lets all pressed buttons wait so long that their answers come too late.
    pub fn expire_presses(&self) {
        self.state().world.presses.values_mut().for_each(|press| press.expired = true);
    }

    /// Lets all files be gone from the server.
    pub fn expire_files(&self) {
        self.state().world.files.clear();
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
    fn compose(&mut self, chat: i64, person: i64, composed: Composed, album: Option<String>) -> i64 {
        let Self { world, inbox, .. } = self;
        let content = match composed.content {
            ComposedContent::Words => Content::Words,
            ComposedContent::Other(content) => content,
            ComposedContent::File { kind, file, seconds } => {
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
                Content::File(world.keep_file(TelegramFile {
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
        let id = world.add(TelegramMessage {
            chat,
            from: person,
            thread: composed.thread,
            words: words::typed(&composed.text),
            content,
            album,
            reply_to: composed.reply_to,
            forwarded_from: composed.forwarded_from,
            ..TelegramMessage::default()
        });
        inbox.queue("message", objects::message(world, &world.messages[&id]));
        id
    }
}
