//! What events and answers have taught about guilds, channels and people, for as long as the process lives.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    iter,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::Notify, time::Instant};

use crate::snowflake;

const MIB: u64 = 1 << 20;

/// The sizes that Discord has let pass, now or before, by who may upload what. Below a file that was refused for its
/// size, the next of them is tried. Less than the last has never been the limit of a place.
const SIZES: [u64; 6] = [500 * MIB, 100 * MIB, 50 * MIB, 25 * MIB, 10 * MIB, SMALLEST];
const SMALLEST: u64 = 8 * MIB;

/// What is left of a request for all that it holds beside its files: words, names, descriptions and the form around them
/// count against its limit too (Create Message). The fullest message has less than this.
pub(crate) const FORM: u64 = 128 << 10;

/// How many of a guild's oldest channels the next process is told of, and how many of the newest. The oldest are no
/// threads: Discord lets a guild have 500 others. Of threads the newest are in use.
const MAX_BOOSTED_GUILDS: usize = 500;

/// How long a channel that refused a voice is sent none. Permissions change.
const VOICE_REFUSED_TTL: Duration = Duration::from_secs(60 * 60);

/// How many places are remembered at most for what they have refused, and how many direct channels.
const CHANNEL_CACHE_SIZE: usize = 10_000;

/// From which boost on a guild takes larger files than others (Uploading Files).
const BOOSTED: u64 = 2;

#[derive(Debug, Default)]
pub(crate) struct GuildCache {
    state: Mutex<State>,
    /// Told when a direct channel has become known.
    opened: Notify,
}

/// A guild that takes larger files than others, as the next process is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoostedGuild {
    /// Its boosts (Guild object, Premium Tier).
    pub(crate) tier: u64,
    /// Its channels and threads.
    pub(crate) channels: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct State {
    guilds: HashMap<u64, CachedGuild>,
    channels: HashMap<u64, CachedChannel>,
    /// The guilds of channels that an earlier process knew. Nothing else is known of these.
    recalled: HashMap<u64, u64>,
    /// The guilds of channels that are gone: what was on its way from there is no private word.
    gone: BTreeMap<u64, u64>,
    /// The direct channels by the person.
    direct: HashMap<u64, u64>,
    /// Those of them that nobody has heard of yet.
    opened: Vec<u64>,
    /// The files and the requests that are the largest where larger ones were refused, by the guild, or by the channel
    /// where it has none; none is smaller than [`SMALLEST`].
    lowered: HashMap<LimitScope, LearnedLimits>,
    no_voice: HashMap<u64, Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct LearnedLimits {
    file: Option<u64>,
    request: Option<u64>,
}

#[derive(Debug, Default)]
struct CachedGuild {
    /// Whether it has told of itself, and not only one of its channels.
    is_whole: bool,
    premium_tier: u64,
    /// The id before which nobody there can have written to us, since we were not there; 0 where it isn't known.
    joined: u64,
    /// The roles that were made for bots, by their users.
    roles: HashMap<u64, u64>,
}

#[derive(Debug, Default)]
struct CachedChannel {
    name: Option<String>,
    guild: Option<u64>,
    parent: Option<u64>,
}

/// Where a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LimitScope {
    Guild(u64),
    Channel(u64),
}

impl GuildCache {
    /// Learns from a guild as GUILD_CREATE and GUILD_UPDATE show it; what is missing stays as it was.
    pub(crate) fn learn_guild(&self, data: &Value) {
        let Some(guild) = snowflake::read(data, "id") else { return };
        let mut state = self.state();
        let state = &mut *state;
        let known = state.guilds.entry(guild).or_default();
        if let Some(tier) = data.get("premium_tier").and_then(Value::as_u64)
            && tier != known.premium_tier
        {
            known.premium_tier = tier;
            // What was too large before it need not be so after it.
            state.lowered.remove(&LimitScope::Guild(guild));
        }
        if let Some(time) = data.get("joined_at").and_then(Value::as_str) {
            known.joined = snowflake::from_second(time).unwrap_or(known.joined);
        }
        known.is_whole |= data.get("roles").is_some_and(Value::is_array);
        for role in data.get("roles").and_then(Value::as_array).into_iter().flatten() {
            let bot = role.get("tags").and_then(|tags| snowflake::read(tags, "bot_id"));
            if let (Some(bot), Some(role)) = (bot, snowflake::read(role, "id")) {
                known.roles.insert(bot, role);
            }
        }
        for list in ["channels", "threads"] {
            for channel in data.get(list).and_then(Value::as_array).into_iter().flatten() {
                state.learn_channel(channel, Some(guild));
            }
        }
    }

    /// Learns from a channel or a thread as events and answers show it.
    pub(crate) fn learn_channel(&self, data: &Value) {
        self.state().learn_channel(data, None);
    }

    /// The guilds that are known.
    pub(crate) fn guilds(&self) -> BTreeSet<u64> {
        self.state().guilds.keys().copied().collect()
    }

    /// Forgets a guild that the bot has left, with its channels.
    pub(crate) fn forget_guild(&self, guild: u64) {
        let mut state = self.state();
        state.guilds.remove(&guild);
        state.lowered.remove(&LimitScope::Guild(guild));
        for channel in state.channels_of(guild) {
            state.forget_channel(channel);
        }
    }

    /// Forgets a channel or a thread that is gone.
    pub(crate) fn forget_channel(&self, channel: u64) {
        let mut state = self.state();
        state.forget_channel(channel);
        state.lowered.remove(&LimitScope::Channel(channel));
        state.no_voice.remove(&channel);
    }

    /// Remembers the direct channel with a person.
    pub(crate) fn learn_direct(&self, person: u64, channel: u64) {
        let mut state = self.state();
        if state.direct.len() < CHANNEL_CACHE_SIZE && state.direct.insert(person, channel) != Some(channel) {
            state.opened.push(channel);
            self.opened.notify_one();
        }
    }

    /// Waits until direct channels have become known since this was asked last, and tells which.
    pub(crate) async fn wait_for_opened(&self) -> Vec<u64> {
        loop {
            let opened = std::mem::take(&mut self.state().opened);
            if !opened.is_empty() {
                return opened;
            }
            self.opened.notified().await;
        }
    }

    /// The direct channel with a person, where it is open.
    pub(crate) fn direct_of(&self, person: u64) -> Option<u64> {
        self.state().direct.get(&person).copied()
    }

    /// The guild of a channel, or the one that it was of before it was gone.
    pub(crate) fn guild_of(&self, channel: u64) -> Option<u64> {
        let state = self.state();
        state.guild(channel).or_else(|| state.gone.get(&channel).copied())
    }

    /// Whether all is known that decides what is said to us in a guild's channel: its guild, and what it belongs to.
    pub(crate) fn is_complete(&self, channel: u64) -> bool {
        let state = self.state();
        let guild = state.guild(channel).and_then(|guild| state.guilds.get(&guild));
        // A thread, its channel, and the category of that.
        let mut around = iter::successors(Some(channel), |inner| state.channels.get(inner)?.parent).take(3);
        guild.is_some_and(|guild| guild.is_whole) && around.all(|around| state.channels.contains_key(&around))
    }

    /// The channel of a thread, or the category of a channel.
    pub(crate) fn parent_of(&self, thread: u64) -> Option<u64> {
        self.state().channels.get(&thread)?.parent
    }

    /// The name of a guild's channel or thread.
    pub(crate) fn name_of(&self, channel: u64) -> Option<String> {
        self.state().channels.get(&channel)?.name.clone()
    }

    /// The role that a guild has made for a bot.
    pub(crate) fn role_of(&self, guild: u64, bot: u64) -> Option<u64> {
        self.state().guilds.get(&guild)?.roles.get(&bot).copied()
    }

    /// The id before which nobody in a guild can have written to us, as far as it is known.
    pub(crate) fn first_visible_id(&self, guild: u64) -> u64 {
        self.state().guilds.get(&guild).map_or(0, |guild| guild.joined)
    }

    /// The largest file that a place takes, where `usual` is what one takes of which nothing is known.
    pub(crate) fn file_limit(&self, channel: u64, usual: u64) -> u64 {
        let state = self.state();
        let tier = state.guild(channel).and_then(|guild| state.guilds.get(&guild)).map(|guild| guild.premium_tier);
        // Uploading Files: 10 MiB, and more where the guild is boosted: 50 MiB at tier 2, 100 MiB at tier 3.
        let limit = match tier {
            Some(BOOSTED) => usual.max(50 * MIB),
            Some(tier) if tier > BOOSTED => usual.max(100 * MIB),
            _ => usual,
        };
        state.lowered(channel).file.map_or(limit, |lowered| limit.min(lowered))
    }

    /// The guilds that take larger files than others, for the next process.
    pub(crate) fn boosted(&self) -> BTreeMap<u64, BoostedGuild> {
        let state = self.state();
        let boosted = state.guilds.iter().filter(|(_, guild)| guild.premium_tier >= BOOSTED);
        let told = |(id, guild): (&u64, &CachedGuild)| {
            (*id, BoostedGuild { tier: guild.premium_tier, channels: recalled(&state.channels_of(*id)) })
        };
        boosted.map(told).collect()
    }

    /// Learns of the guilds that took larger files than others when an earlier process ended.
    pub(crate) fn restore_boosted(&self, boosted: &BTreeMap<u64, BoostedGuild>) {
        let mut state = self.state();
        for (guild, BoostedGuild { tier, channels }) in boosted {
            state.guilds.entry(*guild).or_default().premium_tier = *tier;
            state.recalled.extend(channels.iter().map(|channel| (*channel, *guild)));
        }
    }

    /// How many bytes the files of a request may have together, where `usual` is what they may have in a place of which
    /// nothing is known, and a file there may have `file`. It may be less than a file may have: that one goes alone.
    pub(crate) fn request_limit(&self, channel: u64, usual: u64, file: u64) -> u64 {
        // Uploading Files: the cap of a request, or the limit of a file where that is larger; but no more than was
        // refused, whatever should have been taken.
        let raised = usual.max(file.saturating_sub(FORM));
        self.state().lowered(channel).request.map_or(raised, |lowered| raised.min(lowered - FORM))
    }

    /// Remembers that a place has not taken a file of so many bytes. Returns what it may take then, where that is less.
    pub(crate) fn lower_file(&self, channel: u64, refused: u64) -> Option<u64> {
        self.lower(channel, refused, |lowered| &mut lowered.file)
    }

    /// Remembers that a place has not taken files of so many bytes together.
    pub(crate) fn lower_request(&self, channel: u64, refused: u64) {
        self.lower(channel, refused, |lowered| &mut lowered.request);
    }

    fn lower(&self, channel: u64, refused: u64, which: impl Fn(&mut LearnedLimits) -> &mut Option<u64>) -> Option<u64> {
        let below = SIZES.into_iter().find(|size| *size < refused)?;
        let mut state = self.state();
        let scope = state.scope(channel);
        if state.lowered.len() >= CHANNEL_CACHE_SIZE && !state.lowered.contains_key(&scope) {
            return Some(below);
        }
        let lowered = which(state.lowered.entry(scope).or_default());
        Some(*lowered.insert(lowered.map_or(below, |known| known.min(below))))
    }

    /// Remembers that a channel takes no voice.
    pub(crate) fn mark_voice_refused(&self, channel: u64) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.no_voice.len() >= CHANNEL_CACHE_SIZE {
            state.no_voice.retain(|_, until| *until > now);
        }
        if state.no_voice.len() < CHANNEL_CACHE_SIZE {
            state.no_voice.insert(channel, now + VOICE_REFUSED_TTL);
        }
    }

    /// Whether a channel takes voices, as far as is known.
    pub(crate) fn accepts_voice(&self, channel: u64) -> bool {
        self.state().no_voice.get(&channel).is_none_or(|until| *until <= Instant::now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn learn_channel(&mut self, data: &Value, guild: Option<u64>) {
        let Some(channel) = snowflake::read(data, "id") else { return };
        let known = self.channels.entry(channel).or_default();
        known.guild = snowflake::read(data, "guild_id").or(guild).or(known.guild);
        if data.get("parent_id").is_some() {
            known.parent = snowflake::read(data, "parent_id");
        }
        if let Some(name) = data.get("name").and_then(Value::as_str) {
            known.name = Some(name.to_owned());
        }
    }

    fn forget_channel(&mut self, channel: u64) {
        if let Some(guild) = self.guild(channel) {
            self.gone.insert(channel, guild);
        }
        self.channels.remove(&channel);
        self.recalled.remove(&channel);
        if self.gone.len() > CHANNEL_CACHE_SIZE {
            self.gone.pop_first();
        }
    }

    fn guild(&self, channel: u64) -> Option<u64> {
        let known = self.channels.get(&channel).and_then(|channel| channel.guild);
        known.or_else(|| self.recalled.get(&channel).copied())
    }

    fn channels_of(&self, guild: u64) -> BTreeSet<u64> {
        let channels = self.channels.keys().chain(self.recalled.keys()).copied();
        channels.filter(|channel| self.guild(*channel) == Some(guild)).collect()
    }

    fn lowered(&self, channel: u64) -> LearnedLimits {
        self.lowered.get(&self.scope(channel)).copied().unwrap_or_default()
    }

    fn scope(&self, channel: u64) -> LimitScope {
        self.guild(channel).map_or(LimitScope::Channel(channel), LimitScope::Guild)
    }
}

/// Those of a guild's channels that the next process is told of.
fn recalled(channels: &BTreeSet<u64>) -> BTreeSet<u64> {
    channels.iter().take(MAX_BOOSTED_GUILDS).chain(channels.iter().rev().take(MAX_BOOSTED_GUILDS)).copied().collect()
}

#[cfg(test)]
mod tests;
