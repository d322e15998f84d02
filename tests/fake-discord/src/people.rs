//! What people do: they write, send files, answer, forward, press buttons, use commands, and take rights away.

use std::time::Duration;

use imagesize::blob_size;
use satchel_fake_kit::FakeFile;
use serde_json::{Value, json};

use crate::{
    FakeDiscord, State,
    guilds::{self, bot_role},
    message::{DiscordFile, DiscordMessage, Mention, MessageVersion, PersonMessage, VOICE_MESSAGE},
    methods, objects,
    platform_state::{
        APPLICATION, BOT, ChannelKind, FakeGuild, FakeGuildChannel, InteractionKind, Permission, PlatformState,
        SentInteraction, Tier, direct_id, mentioned,
    },
};

impl FakeDiscord {
    /// A person with this id. Returns the id.
    pub fn person(&self, id: u64, name: &str) -> u64 {
        self.state().platform.people.insert(id, name.to_owned());
        id
    }

    /// The person's DM channel with the bot. Its id depends on the person's alone.
    pub fn direct(&self, person: u64) -> u64 {
        let id = direct_id(person);
        let channel = FakeGuildChannel::new(ChannelKind::Direct { person }, "");
        self.state().platform.channels.entry(id).or_insert(channel);
        id
    }

    /// A guild with the bot in it, of which sessions are told. Returns its id.
    pub fn guild(&self, id: u64, name: &str, tier: Tier) -> u64 {
        self.act(|platform| {
            platform.guilds.insert(id, FakeGuild { name: name.to_owned(), tier });
            platform.events.push(("GUILD_CREATE", guilds::with_channels(platform, id, &platform.guilds[&id])));
        });
        id
    }

    /// Changes a guild's boosts, of which sessions are told.
    ///
    /// # Panics
    /// When there is no such guild.
    pub fn boost(&self, guild: u64, tier: Tier) {
        self.act(|platform| {
            platform.guilds.get_mut(&guild).expect("a test names guilds that it made").tier = tier;
            let told = guilds::alone(guild, &platform.guilds[&guild]);
            platform.events.push(("GUILD_UPDATE", told));
        });
    }

    /// A text channel of a guild. Returns its id.
    pub fn channel(&self, guild: u64, id: u64, name: &str) -> u64 {
        self.new_channel(id, FakeGuildChannel::new(ChannelKind::Text { guild }, name), "CHANNEL_CREATE")
    }

    /// A public thread of a text channel. Returns its id.
    ///
    /// # Panics
    /// When the parent is in no guild.
    pub fn thread(&self, parent: u64, id: u64, name: &str) -> u64 {
        let guild = self.state().platform.channel(parent).kind.guild().expect("DMs have no threads");
        self.new_channel(id, FakeGuildChannel::new(ChannelKind::Thread { guild, parent }, name), "THREAD_CREATE")
    }

    /// Lets a person start a thread from a message of a text channel, whose id it has: "The created thread and the message it
    /// was started from will share the same id" (Threads). Returns the id.
    ///
    /// # Panics
    /// When there is no such message, or it is in no guild.
    pub fn thread_from(&self, person: u64, message: u64, name: &str) -> u64 {
        self.act(|platform| {
            let parent = platform.messages.get(&message).expect("a test starts threads from what is there").channel;
            let guild = platform.channel(parent).kind.guild().expect("DMs have no threads");
            let made_us = platform.now_us();
            let thread = FakeGuildChannel::new(ChannelKind::Thread { guild, parent }, name);
            platform.channels.insert(message, FakeGuildChannel { made_us: Some(made_us), ..thread });
            platform.events.push(("THREAD_CREATE", objects::channel(platform, message)));
            let first = DiscordMessage {
                channel: message,
                author: person,
                thread_starter: Some(message),
                ..DiscordMessage::default()
            };
            let id = platform.add(first);
            platform.events.push(("MESSAGE_CREATE", objects::event(platform, &platform.messages[&id])));
        });
        message
    }

    fn new_channel(&self, id: u64, channel: FakeGuildChannel, event: &'static str) -> u64 {
        self.act(|platform| {
            platform.channels.insert(id, channel);
            platform.events.push((event, objects::channel(platform, id)));
        });
        id
    }

    /// Deletes a channel, or a thread, with all that is in it. Of a guild's channels sessions are told.
    ///
    /// # Panics
    /// When there is no such channel.
    pub fn delete_channel(&self, channel: u64) {
        self.act(|platform| {
            let told = objects::channel(platform, channel);
            let gone = platform.channels.remove(&channel).expect("a test names channels that it made");
            platform.messages.retain(|_, message| message.channel != channel);
            match gone.kind {
                ChannelKind::Direct { .. } => {}
                ChannelKind::Text { .. } => platform.events.push(("CHANNEL_DELETE", told)),
                ChannelKind::Thread { .. } => platform.events.push(("THREAD_DELETE", told)),
            }
        });
    }

    /// Takes a right away from the bot. Without the right to view a channel, sessions are told nothing of it any more.
    pub fn forbid(&self, channel: u64, permission: Permission) {
        self.state().platform.channel_mut(channel).missing.insert(permission);
    }

    /// Gives a right back.
    pub fn allow(&self, channel: u64, permission: Permission) {
        self.state().platform.channel_mut(channel).missing.remove(&permission);
    }

    /// Lets a person take no DMs of the bot, as their privacy settings do.
    pub fn person_blocks(&self, person: u64) {
        self.state().platform.channel_mut(direct_id(person)).blocked = true;
    }

    /// Lets a person write. Returns the message's id.
    pub fn person_says(&self, channel: u64, person: u64, text: &str) -> u64 {
        self.person_composes(channel, person, PersonMessage::text(text))
    }

    /// Lets a person send files. Returns the message's id.
    pub fn person_sends(&self, channel: u64, person: u64, text: &str, files: Vec<FakeFile>) -> u64 {
        self.person_composes(channel, person, PersonMessage::text(text).with_files(files))
    }

    /// Lets a person answer a message, whose author is mentioned. Returns the message's id.
    pub fn person_replies(&self, channel: u64, person: u64, answered: u64, text: &str) -> u64 {
        self.person_composes(channel, person, PersonMessage::text(text).replying_to(answered))
    }

    /// Lets a person forward a message of any channel. Returns the message's id.
    pub fn person_forwards(&self, channel: u64, person: u64, message: u64) -> u64 {
        self.person_composes(channel, person, PersonMessage::forwarding(message))
    }

    /// Lets a person send whatever they have composed. Returns the message's id.
    pub fn person_composes(&self, channel: u64, person: u64, composed: impl Into<PersonMessage>) -> u64 {
        let composed = composed.into();
        self.act(|platform| compose(platform, channel, person, composed))
    }

    /// Lets a person change the words of their message.
    ///
    /// # Panics
    /// When there is no such message of theirs.
    pub fn person_edits(&self, channel: u64, person: u64, message: u64, text: &str) {
        self.act(|platform| {
            let (people, roles, everyone) = mentioned(text);
            let edited = platform.messages.get_mut(&message).expect("a test edits what is there");
            assert!(edited.channel == channel && edited.author == person, "people edit their own messages");
            let content = std::mem::replace(&mut edited.content, text.to_owned());
            edited.edits.push(MessageVersion { content, files: edited.files.clone() });
            (edited.mentions, edited.role_mentions, edited.mentions_everyone) = (people, roles, everyone);
            platform.touch(message);
            platform.events.push(("MESSAGE_UPDATE", objects::event(platform, &platform.messages[&message])));
        });
    }

    /// Lets Discord look up the links of a message, after which it tells of the message again though nobody edited it.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn resolves_embeds(&self, message: u64) {
        self.act(|platform| {
            let mut told = objects::event(platform, platform.messages.get(&message).expect("the message is there"));
            told["embeds"] = json!([{ "type": "link", "url": "https://example.org/", "title": "Example" }]);
            platform.events.push(("MESSAGE_UPDATE", told));
        });
    }

    /// Lets a moderator pin a message. Gateway Events, Message Update: "Sent when a message is updated"; its time of the last
    /// edit stays, or there is none.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn pins_message(&self, message: u64) {
        self.act(|platform| {
            let mut told = objects::event(platform, platform.messages.get(&message).expect("the message is there"));
            told["pinned"] = json!(true);
            platform.events.push(("MESSAGE_UPDATE", told));
        });
    }

    /// Lets a person edit their message and leave its words as they were (Edit Message with the same content): it has the time of
    /// a new edit, and nothing else changed.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn person_saves_unchanged(&self, message: u64) {
        self.act(|platform| {
            platform.touch(message);
            platform.events.push(("MESSAGE_UPDATE", objects::event(platform, &platform.messages[&message])));
        });
    }

    /// Lets a person or a moderator delete a message.
    ///
    /// # Panics
    /// When there is no such message.
    pub fn person_deletes(&self, message: u64) {
        self.act(|platform| {
            assert!(platform.messages.contains_key(&message), "a test deletes what is there");
            methods::remove(platform, message);
        });
    }

    /// Lets a person press a button of a message. Returns the id of the interaction.
    ///
    /// # Panics
    /// When there is no such button, or it can't be pressed.
    pub fn person_presses(&self, person: u64, message: u64, custom_id: &str) -> u64 {
        self.act(|platform| {
            let shown =
                platform.messages.get(&message).filter(|message| !message.deleted).expect("the message is there");
            let mut buttons = shown.buttons.iter().flatten();
            let button =
                buttons.find(|button| button.custom_id.as_deref() == Some(custom_id)).expect("the button is there");
            assert!(!button.disabled, "it can be pressed");
            let data = json!({ "component_type": 2, "custom_id": custom_id, "id": 2 });
            let (channel, told) = (shown.channel, objects::message(platform, shown));
            let kind = InteractionKind::Press { message, custom_id: custom_id.to_owned(), label: button.label.clone() };
            interact(platform, (channel, person), kind, &json!({ "type": 3, "data": data, "message": told }))
        })
    }

    /// Lets a person use a slash command with these options, all of type string or integer. Returns the id of the
    /// interaction.
    ///
    /// # Panics
    /// When the bot has told of no such command, or of other choices for it.
    pub fn person_commands(&self, channel: u64, person: u64, name: &str, options: &[(&str, Value)]) -> u64 {
        self.act(|platform| {
            let known = platform.commands.iter().find(|command| command["name"] == name).expect("the command is there");
            for (name, value) in options {
                let option = known["options"].as_array().into_iter().flatten().find(|option| option["name"] == *name);
                let choices = option.and_then(|option| option["choices"].as_array()).filter(|all| !all.is_empty());
                let is_choice = choices.is_none_or(|all| all.iter().any(|choice| choice["value"] == *value));
                assert!(is_choice, "{value} is none of {choices:?}");
            }
            let option = |(name, value): &(&str, Value)| {
                json!({ "name": name, "type": if value.is_string() { 3 } else { 4 }, "value": value })
            };
            let given: Vec<_> = options.iter().map(option).collect();
            let data = json!({ "id": known["id"], "name": name, "type": 1, "options": given });
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let kind = InteractionKind::Command { name: name.to_owned(), options };
            interact(platform, (channel, person), kind, &json!({ "type": 2, "data": data }))
        })
    }

    /// Lets all interactions wait so long that their answers come too late.
    pub fn expire_interactions(&self) {
        self.state().platform.interactions.values_mut().for_each(|interaction| interaction.expired = true);
    }

    /// Lets all links that were given so far expire. Those that are given from now on work.
    pub fn expire_links(&self) {
        self.state().platform.link_age += 1;
    }

    /// Lets links that are given from now on work so long.
    pub fn links_live(&self, life: Duration) {
        self.state().platform.link_life = life;
    }

    /// Lets all nonces be forgotten at once, as after their window.
    pub fn expire_nonces(&self) {
        self.state().platform.nonces.clear();
    }

    /// Changes something on the platform, and lets the gateway tell of it.
    fn act<T>(&self, kind: impl FnOnce(&mut PlatformState) -> T) -> T {
        let mut state = self.state();
        let State { platform, .. } = &mut *state;
        let done = kind(platform);
        self.shared.notify(&mut state);
        drop(state);
        self.shared.changed.notify_waiters();
        done
    }
}

fn compose(platform: &mut PlatformState, channel: u64, person: u64, composed: PersonMessage) -> u64 {
    let (mut people, roles, everyone) = mentioned(&composed.text);
    let answered = composed.reply_to.filter(|_| !composed.silent_reply);
    // A reply mentions whom it answers, unless that was switched off.
    let answered = answered.and_then(|id| platform.messages.get(&id)).map(|message| message.author);
    people.extend(answered.filter(|author| !people.contains(author)));
    let voice = composed.voice_seconds;
    let files = composed.files.into_iter().map(|file| platform.keep_file(sent(file, voice))).collect();
    let forwarded = composed.forwarding.map(|id| {
        let forwarded = platform.messages.get(&id).expect("a test forwards what is there").clone();
        Box::new(DiscordMessage { reply_to: None, forwarded: None, ..forwarded })
    });
    let stickers = composed.stickers.into_iter().map(|name| (platform.snowflake(), name)).collect();
    let message = DiscordMessage {
        channel,
        author: person,
        content: composed.text,
        files,
        flags: if voice.is_some() { VOICE_MESSAGE } else { u64::from(forwarded.is_some()) << 14 },
        reply_to: composed.reply_to,
        forwarded,
        hides_forwarded: composed.hides_forwarded,
        pings: people.iter().copied().map(Mention::Person).collect(),
        mentions: people,
        role_mentions: roles,
        mentions_everyone: everyone,
        stickers,
        ..DiscordMessage::default()
    };
    let id = platform.add(message);
    platform.events.push(("MESSAGE_CREATE", objects::event(platform, &platform.messages[&id])));
    id
}

fn sent(file: FakeFile, voice_seconds: Option<f64>) -> DiscordFile {
    let (filename, title) = methods::sanitised(&file.filename);
    let head = file.blocks().next().unwrap_or_default();
    DiscordFile {
        id: 0,
        filename,
        title,
        mime: file.mime.clone(),
        bytes: file.bytes(),
        sha256: file.sha256(),
        description: None,
        duration_secs: voice_seconds,
        waveform: voice_seconds.map(|_| "AAgQGCAo".to_owned()),
        sides: blob_size(&head).ok().map(|size| (size.width as u64, size.height as u64)),
        content: Some(file),
    }
}

/// Interaction object, told as INTERACTION_CREATE.
fn interact(platform: &mut PlatformState, (channel, person): (u64, u64), kind: InteractionKind, told: &Value) -> u64 {
    let id = platform.snowflake();
    let token = format!("aW50ZXJhY3Rpb246{id}:fake");
    let mut event = json!({
        "id": id.to_string(), "application_id": APPLICATION.to_string(), "token": token, "version": 1,
        "channel_id": channel.to_string(), "channel": objects::channel(platform, channel),
        "app_permissions": "2248473465835073", "locale": "en-US", "entitlements": [],
        "authorizing_integration_owners": {}, "attachment_size_limit": 10 * 1024 * 1024,
    });
    let fields = event.as_object_mut().expect("it is one");
    fields.extend(told.as_object().expect("it is one").clone());
    match platform.channel(channel).kind.guild() {
        Some(guild) => {
            fields.insert("guild_id".to_owned(), json!(guild.to_string()));
            fields.insert("guild".to_owned(), json!({ "id": guild.to_string(), "locale": "en-US", "features": [] }));
            fields.insert("member".to_owned(), objects::full_member(platform, person));
            fields.insert("guild_locale".to_owned(), json!("en-US"));
            fields.insert("context".to_owned(), json!(0));
        }
        None => {
            fields.insert("user".to_owned(), objects::user(platform, person));
            fields.insert("context".to_owned(), json!(1));
        }
    }
    let began = platform.clock.now();
    platform
        .interactions
        .insert(id, SentInteraction { id, person, channel, kind, answer: None, token, began, expired: false });
    platform.events.push(("INTERACTION_CREATE", event));
    id
}

impl FakeDiscord {
    /// How to mention the bot.
    #[must_use]
    pub fn mention(&self) -> String {
        format!("<@{BOT}>")
    }

    /// How to mention the role that a guild gave the bot.
    #[must_use]
    pub fn role_mention(&self, guild: u64) -> String {
        format!("<@&{}>", bot_role(guild))
    }
}
