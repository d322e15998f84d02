//! What the fake knows: people, guilds, channels, messages, files, interactions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use satchel_fake_kit::TestClock;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    message::{DiscordFile, DiscordMessage, EPHEMERAL},
    refusal::{ApiRefusal, missing_access, unknown_channel, unknown_message},
};

/// The bot's own user id.
pub const BOT: u64 = 765_432_109_876_543_210;

/// The id of the bot's application.
pub const APPLICATION: u64 = 765_432_109_876_500_000;

pub(crate) const BOT_NAME: &str = "satchel";

/// Reference, Snowflakes: the first millisecond of 2015.
pub const EPOCH_MS: u64 = 1_420_070_400_000;

/// The DM channel of the person with id `n` has the id `DIRECT + n`.
const DIRECT: u64 = 800_000_000_000_000_000;

/// A guild's boosts (Guild object, Premium Tier).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Tier {
    #[default]
    None,
    /// Level 1.
    One,
    /// Level 2.
    Two,
    /// Level 3.
    Three,
}

/// Something that a bot may or may not do in a channel (Permissions).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// `VIEW_CHANNEL`.
    View,
    /// `SEND_MESSAGES`, `SEND_MESSAGES_IN_THREADS`.
    Send,
    /// `ATTACH_FILES`.
    Attach,
    /// `READ_MESSAGE_HISTORY`.
    ReadHistory,
    /// `SEND_VOICE_MESSAGES`.
    SendVoice,
}

/// What sort of channel one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    /// A person's DM with the bot.
    Direct { person: u64 },
    /// A text channel of a guild.
    Text { guild: u64 },
    Thread {
        guild: u64,
        /// The text channel that it belongs to.
        parent: u64,
    },
}

/// Something that a person did with a button or a slash command.
#[derive(Debug, Clone, PartialEq)]
pub struct SentInteraction {
    pub id: u64,
    pub person: u64,
    pub channel: u64,
    pub kind: InteractionKind,
    /// How the bot answered it.
    pub answer: Option<InteractionResponse>,
    pub(crate) token: String,
    pub(crate) began: Instant,
    pub(crate) expired: bool,
}

/// What a person did.
#[derive(Debug, Clone, PartialEq)]
pub enum InteractionKind {
    /// A press of a button.
    Press {
        message: u64,
        custom_id: String,
        /// What stood on it.
        label: String,
    },
    Command {
        name: String,
        /// Its options, by name.
        options: Vec<(String, Value)>,
    },
}

/// The bot's answer to an interaction (Interaction Callback).
#[derive(Debug, Clone, PartialEq)]
pub struct InteractionResponse {
    /// Its `type`.
    pub kind: u64,
    /// The words that it shows, if any.
    pub text: String,
    /// Whether only the person sees them.
    pub ephemeral: bool,
}

#[derive(Debug)]
pub(crate) struct PlatformState {
    pub(crate) clock: TestClock,
    /// Where links to files lead.
    pub(crate) base: String,
    pub(crate) people: BTreeMap<u64, String>,
    pub(crate) guilds: BTreeMap<u64, FakeGuild>,
    pub(crate) channels: BTreeMap<u64, FakeGuildChannel>,
    pub(crate) messages: BTreeMap<u64, DiscordMessage>,
    pub(crate) files: HashMap<u64, DiscordFile>,
    pub(crate) interactions: BTreeMap<u64, SentInteraction>,
    pub(crate) commands: Vec<Value>,
    /// The nonces of the bot's messages, and when each was used.
    pub(crate) nonces: HashMap<String, (u64, Instant)>,
    /// What the gateway is to tell, in order.
    pub(crate) events: Vec<(&'static str, Value)>,
    pub(crate) keep_bytes: bool,
    pub(crate) link_life: Duration,
    /// How often all links have been made to expire.
    pub(crate) link_age: u32,
    last_id: u64,
}

#[derive(Debug)]
pub(crate) struct FakeGuild {
    pub(crate) name: String,
    pub(crate) tier: Tier,
}

#[derive(Debug)]
pub(crate) struct FakeGuildChannel {
    pub(crate) kind: ChannelKind,
    pub(crate) name: String,
    pub(crate) missing: BTreeSet<Permission>,
    /// Whether the person of a DM doesn't take the bot's messages.
    pub(crate) blocked: bool,
    pub(crate) last_message: Option<u64>,
    /// How often the bot was seen typing.
    pub(crate) typed: usize,
    /// When it was made, in microseconds since 1970, if that isn't the time in its id.
    pub(crate) made_us: Option<i64>,
}

impl ChannelKind {
    /// The guild, if it is in one.
    #[must_use]
    pub fn guild(self) -> Option<u64> {
        match self {
            Self::Direct { .. } => None,
            Self::Text { guild } | Self::Thread { guild, .. } => Some(guild),
        }
    }
}

impl FakeGuildChannel {
    pub(crate) fn new(kind: ChannelKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            missing: BTreeSet::new(),
            blocked: false,
            last_message: None,
            typed: 0,
            made_us: None,
        }
    }
}

/// The id of a person's DM channel.
pub(crate) fn direct_id(person: u64) -> u64 {
    DIRECT + person
}

impl PlatformState {
    pub(crate) fn new(base: String, link_life: Duration, clock: TestClock) -> Self {
        Self {
            clock,
            base,
            people: BTreeMap::new(),
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            messages: BTreeMap::new(),
            files: HashMap::new(),
            interactions: BTreeMap::new(),
            commands: Vec::new(),
            nonces: HashMap::new(),
            events: Vec::new(),
            keep_bytes: false,
            link_life,
            link_age: 0,
            last_id: 0,
        }
    }

    /// Microseconds since 1970.
    pub(crate) fn now_us(&self) -> i64 {
        i64::try_from(self.clock.unix_time().as_micros()).expect("it is for a long time")
    }

    /// A new id: of this millisecond, and above all that were given before.
    pub(crate) fn snowflake(&mut self) -> u64 {
        let now_ms = u64::try_from(self.now_us() / 1000).expect("the clock is after 1970");
        self.last_id = ((now_ms - EPOCH_MS) << 22).max(self.last_id + 1);
        self.last_id
    }

    pub(crate) fn channel(&self, id: u64) -> &FakeGuildChannel {
        self.channels.get(&id).expect("a test names channels that it made")
    }

    pub(crate) fn channel_mut(&mut self, id: u64) -> &mut FakeGuildChannel {
        self.channels.get_mut(&id).expect("a test names channels that it made")
    }

    /// The channel of a request, if the bot can see it.
    pub(crate) fn visible_channel(&self, id: &str) -> Result<u64, ApiRefusal> {
        let number = snowflake(id, "channel_id")?;
        let channel = self.channels.get(&number).ok_or_else(unknown_channel)?;
        if channel.missing.contains(&Permission::View) { Err(missing_access()) } else { Ok(number) }
    }

    pub(crate) fn may(&self, channel: u64, permission: Permission) -> bool {
        !self.channel(channel).missing.contains(&permission)
    }

    /// A message that stands in a channel and has not been deleted; nobody but one person sees an ephemeral one.
    pub(crate) fn existing_message(&self, channel: u64, id: u64) -> Option<&DiscordMessage> {
        let stands = |message: &&DiscordMessage| {
            message.channel == channel && !message.deleted && message.flags & EPHEMERAL == 0
        };
        self.messages.get(&id).filter(stands)
    }

    /// The message of a request.
    pub(crate) fn message_of(&self, channel: u64, id: &str) -> Result<&DiscordMessage, ApiRefusal> {
        self.existing_message(channel, snowflake(id, "message_id")?).ok_or_else(unknown_message)
    }

    pub(crate) fn tier_of(&self, channel: u64) -> Tier {
        let guild = self.channel(channel).kind.guild();
        guild.and_then(|guild| self.guilds.get(&guild)).map_or(Tier::None, |guild| guild.tier)
    }

    /// Keeps a new message and its files under ids of their own. Returns the message's id.
    pub(crate) fn add(&mut self, message: DiscordMessage) -> u64 {
        let id = self.snowflake();
        if message.flags & EPHEMERAL == 0 {
            self.channel_mut(message.channel).last_message = Some(id);
        }
        self.messages.insert(id, DiscordMessage { id, ..message });
        id
    }

    /// Keeps a file under an id of its own.
    pub(crate) fn keep_file(&mut self, file: DiscordFile) -> DiscordFile {
        let file = DiscordFile { id: self.snowflake(), ..file };
        self.files.insert(file.id, file.clone());
        file
    }

    /// Notes when a message was edited; two edits of one microsecond still have two times.
    pub(crate) fn touch(&mut self, message: u64) {
        let now_us = self.now_us();
        let message = self.messages.get_mut(&message).expect("it was looked up before");
        message.edited_us = Some(message.edited_us.map_or(now_us, |before| now_us.max(before + 1)));
    }
}

/// An id as it stands in a path or a form (Reference, Snowflakes: strings of digits).
pub(crate) fn snowflake(id: &str, field: &str) -> Result<u64, ApiRefusal> {
    let wrong = |_| {
        let words = format!("Value \"{id}\" is not snowflake.");
        ApiRefusal::invalid_field(&[field], "NUMBER_TYPE_COERCE", words)
    };
    id.parse().map_err(wrong)
}

/// An id as it stands in a form: as a string, or as the number that some clients write.
pub(crate) fn id_in(form: &Value, field: &str) -> Option<String> {
    let given = form.get(field).filter(|given| !given.is_null())?;
    Some(given.as_str().map_or_else(|| given.to_string(), str::to_owned))
}

/// Which people and roles a text mentions, in order, and whether it calls everybody (Reference, Message Formatting).
pub(crate) fn mentioned(content: &str) -> (Vec<u64>, Vec<u64>, bool) {
    let (mut people, mut roles) = (Vec::new(), Vec::new());
    for piece in content.split("<@").skip(1) {
        let Some((inner, _)) = piece.split_once('>') else { continue };
        let (list, digits) = match inner.strip_prefix('&') {
            Some(role) => (&mut roles, role),
            None => (&mut people, inner.strip_prefix('!').unwrap_or(inner)),
        };
        if let Ok(id) = digits.parse()
            && !list.contains(&id)
        {
            list.push(id);
        }
    }
    (people, roles, content.contains("@everyone") || content.contains("@here"))
}
