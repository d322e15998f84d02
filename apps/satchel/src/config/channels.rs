//! The platforms, `telegram` and `discord`, and other programs: `nats`.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId,
    capabilities::{BlockOffer, BlockRule, LookupRule, StreamRule},
};
use satchel_intake::access::ChannelAccess;
use satchel_nats::{NatsGroups, is_sender_id};
use satchel_routing::tables;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{
    leaf::{
        address::{FilePath, HttpUrl, ListenAddress},
        list::{ChatAgent, ChatAgents, GroupMembers, OnOff, Texts},
        secret::Secret,
    },
    limits::{DiscordLimits, TelegramLimits},
    resolver::Resolver,
    storage::{BusBackend, BusConfig},
};

/// The default address for Telegram's updates, behind a proxy that handles TLS.
const WEBHOOK_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8788);

/// The section of conversations that several programs share.
const GROUPS: &str = "nats.groups";

/// How a platform's conversations are called.
#[derive(Clone, Copy)]
pub(super) struct ConversationKeys {
    pub(super) channel: &'static str,
    /// The form of the keys, for messages.
    pub(super) format: &'static str,
    pub(super) is_valid: fn(&str) -> bool,
}

pub(super) const TELEGRAM: ConversationKeys = ConversationKeys {
    channel: "telegram",
    format: "numbers: telegram:123456789 is a person, telegram:-100123 a group, telegram:-100123/42 a topic of one",
    is_valid: |key| {
        let (chat, topic) = key.split_once('/').map_or((key, None), |(chat, topic)| (chat, Some(topic)));
        // Another spelling of a number would never be equal to a chat's id.
        let is_number = |text: &str| text.parse::<i64>().is_ok_and(|number| number.to_string() == text);
        is_number(chat) && topic.is_none_or(|topic| is_number(topic) && topic.parse::<i32>().is_ok())
    },
};

pub(super) const DISCORD: ConversationKeys = ConversationKeys {
    channel: "discord",
    format: "numbers: discord:81384788765712384 is a channel, discord:@80351110224678912 a person",
    is_valid: |key| {
        let number = key.strip_prefix('@').unwrap_or(key);
        number.parse::<u64>().is_ok_and(|id| id != 0 && id.to_string() == number)
    },
};

/// Telegram.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TelegramConfig {
    /// The bot's token, as @BotFather gave it. Without one Telegram is off.
    pub token: Option<Secret>,
    /// Another Bot API server than Telegram's own.
    pub api_url: Option<HttpUrl>,
    /// Where a Bot API server of your own, started with --local, keeps its files.
    pub local_files: Option<FilePath>,
    /// People who may talk to it: ids or @names; `*` for everybody.
    pub allow_users: Texts,
    /// People who may approve others and confirm tools: ids.
    pub owners: Texts,
    /// Ids of the groups where it answers without being mentioned; `*` for all.
    pub groups: Texts,
    /// The agents of chats, by the chat's id: each answers there until somebody chooses another one with `/agent`; with
    /// `{ agent: NAME, locked: true }` nobody can.
    pub agents: ChatAgents,
    /// The https address to which Telegram sends updates. Without one Satchel polls for them.
    pub webhook: Option<HttpUrl>,
    /// Where these updates arrive on this machine, behind the proxy that handles TLS.
    webhook_listen: ListenAddress,
    /// Whether a message that may have arrived is looked for before it is sent again. `off`: it is sent again with a
    /// label.
    look_up: LookUpMode,
    /// Whether tables, formulas and lists are shown as such, as rich messages. `ask`: in each chat a person decides, who is
    /// shown a sample; `auto`: they are, unless a person turns them off; `off`: never. Some apps show nothing of rich messages.
    rich_messages: RichMessagesMode,
    /// How a reply is shown while the model writes it. `edits`: in a message that is edited. `drafts`: in private chats as
    /// a draft of Telegram's own, which is no message until the reply is complete; in groups as with `edits`. `off`: not.
    streaming: StreamingMode,
    limits: TelegramLimits,
}

/// How a reply is shown while the model writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StreamingMode {
    Edits,
    Drafts,
    Off,
}

/// Whether messages that may have arrived are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LookUpMode {
    On,
    Off,
}

/// Whether replies are sent as rich messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RichMessagesMode {
    Off,
    Ask,
    Auto,
}

/// Discord.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiscordConfig {
    /// The bot's token, as the developer portal gave it. Without one Discord is off.
    pub token: Option<Secret>,
    /// Another server than Discord's own that offers its API; the address holds no name and no password.
    pub api_url: Option<HttpUrl>,
    /// People who may talk to it: ids; `*` for everybody.
    pub allow_users: Texts,
    /// People who may approve others and confirm tools: ids.
    pub owners: Texts,
    /// Ids of the channels where it answers without a mention, threads included; `*` for all.
    pub channels: Texts,
    /// The agents of channels, by the channel's id, or of private chats, by `@` and the person's id: each answers there
    /// until somebody chooses another one with `/agent`; with `{ agent: NAME, locked: true }` nobody can.
    pub agents: ChatAgents,
    limits: DiscordLimits,
}

/// Other programs that send requests over the bus.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NatsConfig {
    /// Whether requests of other programs are taken from the NATS server that `bus.url` names.
    pub requests: OnOff,
    /// Senders whose requests are answered: the last token of the request's subject; `*` for everybody.
    pub allow_users: Texts,
    /// Senders who may approve others and confirm tools.
    pub owners: Texts,
    /// Conversations that several senders share, by the name behind `nats:`, each with the list of its members. They
    /// alone may write there, and it counts as a group. Every other conversation is its sender's: `nats:<sender>` or
    /// below it.
    groups: GroupMembers,
}

impl Default for NatsConfig {
    fn default() -> Self {
        let (allow_users, owners) = (Texts::default(), Texts::default());
        Self { requests: OnOff::Off, allow_users, owners, groups: GroupMembers::default() }
    }
}

impl NatsConfig {
    /// Who may send requests.
    pub(super) fn access(&self) -> (ChannelName, ChannelAccess) {
        channel_access("nats", &self.allow_users, &self.owners, |id| id.to_owned())
    }

    /// The conversations that several senders share, and their members.
    #[must_use]
    pub fn group_members(&self) -> NatsGroups {
        let group = |(name, members): (&String, &Vec<String>)| Some((nats_conversation(name)?, members.clone()));
        NatsGroups::new(self.groups.0.iter().filter_map(group).collect())
    }

    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>, bus: &BusConfig) {
        if self.requests == OnOff::On && !matches!(bus.url, Some(BusBackend::Nats(_))) {
            let message = "`nats.requests: on` needs the NATS server that brings the requests: name it with `bus.url`";
            resolver.report("nats.requests", message.to_owned());
        }
        check_owners(&self.owners, "nats.owners", resolver);
        check_groups(&self.groups, resolver);
        self.check_group_names(resolver);
    }

    /// Checks that no group has the name of a program that is no member, or one below it: permissions of the server let the
    /// program read it.
    fn check_group_names(&self, resolver: &mut Resolver<'_>) {
        let groups = &self.groups.0;
        let programs: BTreeSet<&String> =
            self.allow_users.0.iter().chain(&self.owners.0).chain(groups.values().flatten()).collect();
        for (name, members) in groups {
            let Some(program) = nats_conversation(name).map(|conversation| conversation.chat().key().to_owned()) else {
                continue;
            };
            if programs.contains(&program) && !members.contains(&program) {
                let key = format!("{GROUPS}.{name}");
                let place = find_group_key(&key, resolver);
                let message = format!(
                    "`{key}` has the name of the program {program}, or one below it, so that {program} reads it without \
                     being a member: list {program}, or choose another name"
                );
                resolver.report(place, message);
            }
        }
    }

    /// Lists the members of groups who are not named as allowed senders, each with its group.
    pub(crate) fn unlisted_members(&self) -> Vec<(&str, &str)> {
        let is_listed = |member: &&String| {
            let mut listed = self.allow_users.0.iter().chain(&self.owners.0);
            listed.any(|sender| sender == *member || sender == "*")
        };
        let members = self.groups.0.iter().flat_map(|(name, members)| members.iter().map(move |member| (name, member)));
        let unlisted = members.filter(|(_, member)| !is_listed(member));
        unlisted.map(|(name, member)| (name.as_str(), member.as_str())).collect()
    }
}

impl Default for TelegramConfig {
    fn default() -> Self {
        Self {
            token: None,
            api_url: None,
            local_files: None,
            allow_users: Texts::default(),
            owners: Texts::default(),
            groups: Texts::default(),
            agents: ChatAgents::default(),
            webhook: None,
            webhook_listen: ListenAddress(Some(WEBHOOK_LISTEN)),
            look_up: LookUpMode::On,
            rich_messages: RichMessagesMode::Ask,
            streaming: StreamingMode::Edits,
            limits: TelegramLimits::default(),
        }
    }
}

impl TelegramConfig {
    /// Where updates of the webhook arrive on this machine.
    #[must_use]
    pub fn webhook_listen(&self) -> SocketAddr {
        self.webhook_listen.0.unwrap_or(WEBHOOK_LISTEN)
    }

    /// Telegram's limits; with `local_files` those of a Bot API server of one's own.
    #[must_use]
    pub fn limits(&self) -> ChannelCapabilities {
        match self.local_files {
            Some(_) => self.own_server_limits(),
            None => self.apply_limits(tables::telegram()),
        }
    }

    /// The limits of a Bot API server of one's own.
    #[must_use]
    pub fn own_server_limits(&self) -> ChannelCapabilities {
        self.apply_limits(tables::telegram_local_server())
    }

    fn apply_limits(&self, table: ChannelCapabilities) -> ChannelCapabilities {
        let look_up = match self.look_up {
            LookUpMode::On => LookupRule::MessageIds,
            LookUpMode::Off => LookupRule::None,
        };
        let offer = match self.rich_messages {
            RichMessagesMode::Off => BlockOffer::Never,
            RichMessagesMode::Ask => BlockOffer::Ask,
            RichMessagesMode::Auto => BlockOffer::Auto,
        };
        let blocks = table.blocks.map(|rule| BlockRule { offer, ..rule });
        let stream = match self.streaming {
            StreamingMode::Edits => table.stream,
            StreamingMode::Drafts => tables::TELEGRAM_DRAFTS,
            StreamingMode::Off => StreamRule::None,
        };
        self.limits.apply(ChannelCapabilities { look_up, blocks, stream, ..table })
    }

    /// Whether people choose if they get rich messages.
    #[must_use]
    pub fn offers_rich_messages(&self) -> bool {
        self.rich_messages != RichMessagesMode::Off
    }

    /// Who may talk. An owner's private chat has the owner's id, and so have its topics, in which nobody else reads either.
    pub(super) fn access(&self) -> (ChannelName, ChannelAccess) {
        let (channel, access) = channel_access("telegram", &self.allow_users, &self.owners, |id| id.to_owned());
        (channel, ChannelAccess { has_private_topics: true, ..access })
    }

    /// The agents of chats.
    #[must_use]
    pub fn chat_agents(&self) -> HashMap<ConversationId, String> {
        chat_agents(TELEGRAM, &self.agents)
    }

    /// The chats among them in which nobody chooses another agent.
    #[must_use]
    pub fn locked_chats(&self) -> HashSet<ConversationId> {
        locked_chats(TELEGRAM, &self.agents)
    }

    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>, agents: &[String]) {
        if self.local_files.is_some() && !resolver.is_given("telegram.api_url") {
            let message = "`telegram.local_files` is the directory of a Bot API server of your own: say where that \
                           server is with `telegram.api_url`";
            resolver.report("telegram.local_files", message.to_owned());
        }
        check_owner_ids(&self.owners, "telegram.owners", resolver);
        let expected = "the id of the group, such as -1001234567890, its public @name, or \"*\" for all groups";
        check_entries(&self.groups, "telegram.groups", is_group_entry, expected, resolver);
        check_chat_agents(TELEGRAM, &self.agents, agents, resolver);
        let limits = serde_json::to_value(TelegramLimits::from_capabilities(&self.limits())).unwrap_or(Json::Null);
        for (name, limit) in limits.as_object().into_iter().flatten() {
            resolver.show_default(&format!("telegram.limits.{name}"), limit.clone());
        }
    }
}

impl DiscordConfig {
    /// Discord's limits in a server without boosts.
    #[must_use]
    pub fn limits(&self) -> ChannelCapabilities {
        self.limits.apply(tables::discord())
    }

    /// Who may talk. An owner's private channel is opened by the owner's id.
    pub(super) fn access(&self) -> (ChannelName, ChannelAccess) {
        channel_access("discord", &self.allow_users, &self.owners, |id| format!("@{id}"))
    }

    /// The agents of channels and private chats.
    #[must_use]
    pub fn chat_agents(&self) -> HashMap<ConversationId, String> {
        chat_agents(DISCORD, &self.agents)
    }

    /// The chats among them in which nobody chooses another agent.
    #[must_use]
    pub fn locked_chats(&self) -> HashSet<ConversationId> {
        locked_chats(DISCORD, &self.agents)
    }

    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>, agents: &[String]) {
        check_owner_ids(&self.owners, "discord.owners", resolver);
        let expected = "the id of the channel, such as 81384788765712384, or \"*\" for all channels";
        check_entries(&self.channels, "discord.channels", is_channel_entry, expected, resolver);
        check_chat_agents(DISCORD, &self.agents, agents, resolver);
    }
}

/// Who may talk on a channel. Owners with an id can be reached in their private chat, which `chat` names.
fn channel_access(
    channel: &str,
    allow_users: &Texts,
    owners: &Texts,
    chat: impl Fn(&str) -> String,
) -> (ChannelName, ChannelAccess) {
    let channel = ChannelName::new(channel).expect("it is made of small letters");
    let owner_chat = |owner: &String| {
        let is_number = !owner.is_empty() && owner.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| ConversationId::new(channel.clone(), chat(owner)).ok()).flatten()
    };
    let owner_chats = owners.0.iter().filter_map(owner_chat).collect();
    let (allow_users, owners) = (allow_users.0.clone(), owners.0.clone());
    (channel, ChannelAccess { allow_users, owners, owner_chats, has_private_topics: false })
}

fn chat_agents(keys: ConversationKeys, agents: &ChatAgents) -> HashMap<ConversationId, String> {
    declared_chats(keys, agents).map(|(chat, agent)| (chat, agent.name().to_owned())).collect()
}

fn locked_chats(keys: ConversationKeys, agents: &ChatAgents) -> HashSet<ConversationId> {
    declared_chats(keys, agents).filter(|(_, agent)| agent.is_locked()).map(|(chat, _)| chat).collect()
}

fn declared_chats(keys: ConversationKeys, agents: &ChatAgents) -> impl Iterator<Item = (ConversationId, &ChatAgent)> {
    let channel = ChannelName::new(keys.channel).expect("it is made of small letters");
    agents
        .0
        .iter()
        .filter_map(move |(chat, agent)| Some((ConversationId::new(channel.clone(), chat.clone()).ok()?, agent)))
}

/// The conversation of this name on NATS.
fn nats_conversation(name: &str) -> Option<ConversationId> {
    ConversationId::new(ChannelName::new("nats").ok()?, name).ok()
}

/// Checks that each group has the name of a conversation, and members that are named one by one.
fn check_groups(groups: &GroupMembers, resolver: &mut Resolver<'_>) {
    for (name, members) in &groups.0 {
        let key = format!("{GROUPS}.{name}");
        let place = find_group_key(&key, resolver);
        if nats_conversation(name).is_none() {
            let message = format!(
                "`{GROUPS}` names the conversation {name:?}: write what follows `nats:`, at most 200 letters, digits \
                 and `-_./@`"
            );
            resolver.report(place, message);
        }
        if members.is_empty() || !members.iter().all(|member| is_sender_id(member)) {
            let message = format!(
                "`{key}` must list each member, as the last token of its requests' subject: 1 to 64 letters, digits, \
                 `-` and `_`"
            );
            resolver.report(place, message);
        }
    }
}

/// Returns the key under which a group is given: the environment gives all of them in one value.
fn find_group_key<'a>(key: &'a str, resolver: &Resolver<'_>) -> &'a str {
    if resolver.is_given(key) { key } else { GROUPS }
}

/// Checks that each key is a chat's and each value the name of an agent; `agents` are all names.
fn check_chat_agents(keys: ConversationKeys, given: &ChatAgents, agents: &[String], resolver: &mut Resolver<'_>) {
    for (chat, agent) in &given.0 {
        let section = format!("{}.agents", keys.channel);
        let key = format!("{section}.{chat}");
        // The environment gives all of them in one value.
        let place = if resolver.is_given(&key) { &key } else { &section };
        if !(keys.is_valid)(chat) {
            let message = format!(
                "`{section}` names the chat {chat:?}: write the id alone, as behind the colon. Conversations are {}",
                keys.format
            );
            resolver.report(place, message);
        }
        let agent = agent.name();
        if !agents.iter().any(|name| name.eq_ignore_ascii_case(agent)) {
            let message = format!("`{key}` names the agent {agent:?}, known are {}", agents.join(", "));
            resolver.report(place, message);
        }
    }
}

/// Checks that each owner of a platform is given by id: a name can change hands, and its new holder would be the owner.
fn check_owner_ids(owners: &Texts, key: &str, resolver: &mut Resolver<'_>) {
    check_owners(owners, key, resolver);
    let is_id = |owner: &str| owner == "*" || owner.parse::<u64>().is_ok_and(|id| id != 0 && id.to_string() == owner);
    let expected = "the person's id, a number, because a name can change hands; `satchel pair list` shows the id once the \
                    person has written to the bot";
    check_entries(owners, key, is_id, expected, resolver);
}

/// Reports each entry of a list that can never match anything, where it stands.
fn check_entries(
    entries: &Texts,
    key: &str,
    is_valid: impl Fn(&str) -> bool,
    expected: &str,
    resolver: &mut Resolver<'_>,
) {
    for (index, entry) in entries.0.iter().enumerate().filter(|(_, entry)| !is_valid(entry)) {
        resolver.report(&format!("{key}[{index}]"), format!("`{key}` holds {entry:?}: write {expected}"));
    }
}

/// Whether an entry is that of groups on Telegram: all of them, one by its id or its public name, or a topic of one.
fn is_group_entry(entry: &str) -> bool {
    let entry = entry.trim();
    let key = entry.strip_prefix("telegram:").unwrap_or(entry);
    let is_public_name =
        |name: &str| name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    key == "*"
        || key.strip_prefix('@').is_some_and(is_public_name)
        || (key.starts_with('-') && (TELEGRAM.is_valid)(key))
}

/// Whether an entry is that of channels on Discord: all of them, or one by its id.
fn is_channel_entry(entry: &str) -> bool {
    let entry = entry.trim();
    let key = entry.strip_prefix("discord:").unwrap_or(entry);
    key == "*" || (!key.starts_with('@') && (DISCORD.is_valid)(key))
}

/// Owners must be named one by one, because they decide about others.
fn check_owners(owners: &Texts, key: &str, resolver: &mut Resolver<'_>) {
    if owners.0.iter().any(|owner| owner == "*") {
        let message = format!("`{key}` must name each owner: an owner lets others in and allows tool calls");
        resolver.report(key, message);
    }
}

#[cfg(test)]
mod tests;
