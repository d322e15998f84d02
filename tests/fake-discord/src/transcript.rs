//! What stands in the channels, as a person reads it, for programs and for snapshots.

use std::{collections::BTreeMap, fmt};

use satchel_domain::{ConversationId, MessageRef, part::FileForm, size};
use satchel_fake_kit::{Contents, MessageKind, Transcript, TranscriptFile, TranscriptMessage};

use crate::{
    message::{DiscordFile, DiscordMessage, EPHEMERAL, Mention},
    platform_state::{BOT, ChannelKind, InteractionKind, PlatformState, SentInteraction},
};

#[derive(Debug, Clone, Default)]
pub struct DiscordTranscript {
    /// The channels by their id.
    pub channels: BTreeMap<u64, TranscriptChannel>,
    people: BTreeMap<u64, String>,
    guilds: BTreeMap<u64, String>,
    /// What a person would call the first, the second message: their places in the order of time.
    places: BTreeMap<u64, usize>,
}

#[derive(Debug, Clone)]
pub struct TranscriptChannel {
    /// What sort of channel it is.
    pub kind: ChannelKind,
    /// What it is called; DMs are not.
    pub name: String,
    /// Its messages in the order in which they came, deleted ones too.
    pub messages: Vec<DiscordMessage>,
    /// How often the bot was seen typing.
    pub typed: usize,
    /// The buttons that were pressed and the commands that were used, in order.
    pub interactions: Vec<SentInteraction>,
}

impl DiscordMessage {
    /// Whether the bot sent it.
    #[must_use]
    pub fn own(&self) -> bool {
        self.author == BOT
    }
}

impl DiscordTranscript {
    pub(crate) fn from_state(platform: &PlatformState) -> Self {
        let channels = platform.channels.iter().map(|(id, channel)| {
            let messages = platform.messages.values().filter(|message| message.channel == *id).cloned().collect();
            let interactions = platform.interactions.values().filter(|done| done.channel == *id).cloned().collect();
            let (name, typed) = (channel.name.clone(), channel.typed);
            (*id, TranscriptChannel { kind: channel.kind, name, messages, typed, interactions })
        });
        Self {
            channels: channels.collect(),
            people: platform.people.clone(),
            guilds: platform.guilds.iter().map(|(id, guild)| (*id, guild.name.clone())).collect(),
            places: platform.messages.keys().enumerate().map(|(place, id)| (*id, place + 1)).collect(),
        }
    }

    /// All messages of a channel, deleted ones too.
    #[must_use]
    pub fn messages(&self, channel: u64) -> &[DiscordMessage] {
        self.channels.get(&channel).map_or(&[], |channel| &channel.messages)
    }

    #[must_use]
    pub fn message(&self, id: u64) -> Option<&DiscordMessage> {
        self.channels.values().flat_map(|channel| &channel.messages).find(|message| message.id == id)
    }

    /// The bot's messages that a person sees now.
    pub fn visible(&self, channel: u64) -> impl Iterator<Item = &DiscordMessage> {
        self.messages(channel).iter().filter(|message| message.own() && !message.deleted)
    }

    /// The words of the bot's messages that have any.
    #[must_use]
    pub fn texts(&self, channel: u64) -> Vec<&str> {
        let texts = self.visible(channel).map(|message| message.content.as_str());
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// The bot's files, in order.
    #[must_use]
    pub fn files(&self, channel: u64) -> Vec<&DiscordFile> {
        self.visible(channel).flat_map(|message| &message.files).collect()
    }

    /// Whom the bot has notified, in all channels.
    #[must_use]
    pub fn pings(&self) -> Vec<Mention> {
        let own = self.channels.values().flat_map(|channel| &channel.messages).filter(|message| message.own());
        own.flat_map(|message| message.pings.iter().copied()).collect()
    }

    /// The same in the form that all platforms share, with its checks for what is missing, repeated or out of order.
    /// What only one person saw in answer to a button or a command is no part of it.
    #[must_use]
    pub fn shared(&self) -> Transcript {
        let mut transcript = Transcript::default();
        let messages = self.channels.values().flat_map(|channel| &channel.messages);
        for message in messages.filter(|message| message.flags & EPHEMERAL == 0) {
            let conversation: ConversationId =
                format!("discord:{}", message.channel).parse().expect("a channel's id makes a conversation");
            transcript.conversations.entry(conversation).or_default().push(as_shared(message));
        }
        transcript
    }

    fn name(&self, id: u64) -> &str {
        if id == BOT { "satchel" } else { self.people.get(&id).map_or("somebody", String::as_str) }
    }

    fn place(&self, message: u64) -> usize {
        self.places.get(&message).copied().unwrap_or(0)
    }

    fn write_message(&self, f: &mut fmt::Formatter<'_>, message: &DiscordMessage) -> fmt::Result {
        write!(f, "[{}] {}", self.place(message.id), self.name(message.author))?;
        if let Some(forwarded) = &message.forwarded {
            write!(f, " forwarded from {}", self.name(forwarded.author))?;
        }
        if let Some(answered) = message.reply_to {
            write!(f, " to [{}]", self.place(answered))?;
        }
        if let Some(starter) = message.thread_starter {
            write!(f, " started the thread from [{}]", self.place(starter))?;
        }
        if message.flags & EPHEMERAL != 0 {
            write!(f, " (only for one person)")?;
        }
        match message.edits.len() {
            0 => {}
            1 => write!(f, " (edited once)")?,
            times => write!(f, " (edited {times} times)")?,
        }
        if message.deleted {
            write!(f, " (deleted)")?;
        }
        writeln!(f, ":")?;
        let shown = message.forwarded.as_deref().unwrap_or(message);
        shown.content.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        shown.files.iter().try_for_each(|file| write_file(f, message, file))?;
        shown.stickers.iter().try_for_each(|(_, name)| writeln!(f, "    + sticker {name}"))?;
        for row in &message.buttons {
            let labels: Vec<_> = row.iter().map(|button| format!("[{}]", button.label)).collect();
            writeln!(f, "    {}", labels.join(" "))?;
        }
        if message.own() && !message.pings.is_empty() {
            writeln!(f, "    (notifies {})", self.pinged(&message.pings))?;
        }
        Ok(())
    }

    fn pinged(&self, pings: &[Mention]) -> String {
        let named = pings.iter().map(|ping| match ping {
            Mention::Everyone => "everyone".to_owned(),
            Mention::Person(id) => self.name(*id).to_owned(),
            Mention::Role(id) => format!("role {id}"),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    fn write_interaction(&self, f: &mut fmt::Formatter<'_>, done: &SentInteraction) -> fmt::Result {
        let person = self.name(done.person);
        match &done.kind {
            InteractionKind::Press { message, label, .. } => {
                write!(f, "({person} pressed [{label}] of [{}]", self.place(*message))?;
            }
            InteractionKind::Command { name, options } => {
                write!(f, "({person} used /{name}")?;
                options.iter().try_for_each(|(name, value)| write!(f, " {name}:{value}"))?;
            }
        }
        match &done.answer {
            None => writeln!(f, "; no answer yet)"),
            Some(answer) if answer.text.is_empty() => writeln!(f, ")"),
            Some(answer) => writeln!(f, " and read: {})", answer.text),
        }
    }
}

fn as_shared(message: &DiscordMessage) -> TranscriptMessage {
    let contents = |text: &str, files: &[DiscordFile]| Contents {
        text: text.to_owned(),
        files: files.iter().map(|file| shared_file(message, file)).collect(),
    };
    let voice = message.files.first().filter(|_| message.is_voice());
    let duration = voice.and_then(|voice| voice.duration_secs).map(std::time::Duration::from_secs_f64);
    TranscriptMessage {
        id: MessageRef(message.id.to_string()),
        own: message.own(),
        kind: match (voice, message.content.is_empty() && !message.files.is_empty()) {
            (Some(_), _) => MessageKind::Voice,
            (None, true) => MessageKind::File,
            (None, false) => MessageKind::Text,
        },
        contents: contents(&message.content, &message.files),
        edits: message.edits.iter().map(|before| contents(&before.content, &before.files)).collect(),
        deleted: message.deleted,
        reply_to: message.reply_to.map(|id| MessageRef(id.to_string())),
        nonce: message.nonce.clone(),
        album: None,
        duration_ms: duration.and_then(|duration| u64::try_from(duration.as_millis()).ok()),
    }
}

fn shared_file(message: &DiscordMessage, file: &DiscordFile) -> TranscriptFile {
    TranscriptFile {
        filename: file.shown_name(),
        mime: file.mime.clone(),
        bytes: file.bytes,
        sha256: file.sha256,
        form: (message.own() && !message.is_voice()).then_some(FileForm::Document),
        caption: file.description.clone().unwrap_or_default(),
        content: file.content.as_ref().map(|content| content.blocks().collect::<Vec<_>>().concat().into()),
    }
}

fn write_file(f: &mut fmt::Formatter<'_>, message: &DiscordMessage, file: &DiscordFile) -> fmt::Result {
    let kind = if message.is_voice() { "voice" } else { "file" };
    write!(f, "    + {kind} {} ({}, {}", file.shown_name(), file.mime, size::format_bytes(file.bytes))?;
    if let Some((width, height)) = file.sides {
        write!(f, ", {width}×{height}")?;
    }
    if let Some(seconds) = file.duration_secs {
        write!(f, ", {seconds:.1} s")?;
    }
    writeln!(f, ", sha256 {}…)", &file.sha256.to_string()[..12])?;
    file.description.iter().flat_map(|words| words.lines()).try_for_each(|line| writeln!(f, "        {line}"))
}

impl fmt::Display for DiscordTranscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for channel in self.channels.values() {
            let guild = channel.kind.guild().and_then(|guild| self.guilds.get(&guild)).map_or("", String::as_str);
            match channel.kind {
                ChannelKind::Direct { person } => writeln!(f, "== DM: {} ==", self.name(person))?,
                ChannelKind::Text { .. } => writeln!(f, "== {guild}, #{} ==", channel.name)?,
                ChannelKind::Thread { .. } => writeln!(f, "== {guild}, thread: {} ==", channel.name)?,
            }
            channel.messages.iter().try_for_each(|message| self.write_message(f, message))?;
            channel.interactions.iter().try_for_each(|done| self.write_interaction(f, done))?;
        }
        Ok(())
    }
}
