//! An in-memory cache of guilds, channels and learned limits, filled from gateway events and API responses.

pub(crate) mod threads;

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

/// The file size limits that Discord uses or has used, largest first. After a file was refused for its size, the next
/// smaller limit is assumed. Discord has never had a limit below the last one.
const SIZE_LIMITS: [u64; 6] = [500 * MIB, 100 * MIB, 50 * MIB, 25 * MIB, 10 * MIB, MIN_SIZE_LIMIT];
const MIN_SIZE_LIMIT: u64 = 8 * MIB;

/// The part of a request's size limit that is reserved for everything but the files: text, names, descriptions and the
/// multipart form count too (Create Message). The largest message needs less than this.
pub(crate) const MESSAGE_OVERHEAD_BYTES: u64 = 128 << 10;

/// How many of a guild's oldest channels are saved in the checkpoint, and how many of the newest. The oldest ones are
/// not threads: a guild can have 500 other channels. Of the threads, the newest are in use.
const MAX_RESTORED_CHANNELS: usize = 500;

/// How long a channel that refused a voice message is sent none. Permissions can change.
const VOICE_REFUSED_TTL: Duration = Duration::from_secs(60 * 60);

/// The maximum number of channels with learned limits, and of direct channels.
const CHANNEL_CACHE_SIZE: usize = 10_000;

/// The lowest premium tier at which a guild accepts larger files (Uploading Files).
const MIN_BOOSTED_TIER: u64 = 2;

#[derive(Debug, Default)]
pub(crate) struct GuildCache {
    state: Mutex<State>,
    /// Notified when a direct channel was recorded.
    opened_notify: Notify,
}

/// A guild that accepts larger files, as it is saved in the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoostedGuild {
    /// Its premium tier (Guild object).
    pub(crate) tier: u64,
    /// Its channels and threads.
    pub(crate) channels: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct State {
    guilds: HashMap<u64, CachedGuild>,
    channels: HashMap<u64, CachedChannel>,
    /// The guilds of channels that were restored from the checkpoint; only their guild is known.
    restored: HashMap<u64, u64>,
    /// The guilds of removed channels, so that a late message from one is not taken for a direct message.
    removed: BTreeMap<u64, u64>,
    /// The direct channels by user id.
    direct_channels: HashMap<u64, u64>,
    /// Direct channels that [`GuildCache::wait_for_opened`] has not returned yet.
    newly_opened: Vec<u64>,
    /// The limits learned from refusals, by guild, or by channel where there is no guild.
    learned_limits: HashMap<LimitScope, LearnedLimits>,
    voice_refused_until: HashMap<u64, Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct LearnedLimits {
    file: Option<u64>,
    request: Option<u64>,
}

#[derive(Debug, Default)]
struct CachedGuild {
    /// Whether the guild itself was received, and not only one of its channels.
    is_complete: bool,
    premium_tier: u64,
    /// The lowest id of a message that the bot can have seen, from the time when it joined; 0 if unknown.
    first_visible_id: u64,
    /// The roles that were made for bots, by the bot's user id.
    bot_roles: HashMap<u64, u64>,
    role_names: HashMap<u64, String>,
}

#[derive(Debug, Default)]
struct CachedChannel {
    name: Option<String>,
    guild: Option<u64>,
    parent: Option<u64>,
    kind: Option<u64>,
    /// Of a thread the least id of the second in which it was made.
    made_at: Option<u64>,
}

/// What a learned limit applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LimitScope {
    Guild(u64),
    Channel(u64),
}

impl GuildCache {
    /// Records a guild from GUILD_CREATE or GUILD_UPDATE; missing fields keep their values.
    pub(crate) fn record_guild(&self, data: &Value) {
        let Some(guild) = snowflake::read(data, "id") else { return };
        let mut state = self.state();
        let state = &mut *state;
        let cached = state.guilds.entry(guild).or_default();
        if let Some(tier) = data.get("premium_tier").and_then(Value::as_u64)
            && tier != cached.premium_tier
        {
            cached.premium_tier = tier;
            // A new tier has new limits.
            state.learned_limits.remove(&LimitScope::Guild(guild));
        }
        if let Some(time) = data.get("joined_at").and_then(Value::as_str) {
            cached.first_visible_id = snowflake::from_second(time).unwrap_or(cached.first_visible_id);
        }
        cached.is_complete |= data.get("roles").is_some_and(Value::is_array);
        if let Some(roles) = data.get("roles").and_then(Value::as_array) {
            let named = |role: &Value| Some((snowflake::read(role, "id")?, role.get("name")?.as_str()?.to_owned()));
            cached.role_names = roles.iter().filter_map(named).collect();
        }
        for role in data.get("roles").and_then(Value::as_array).into_iter().flatten() {
            let bot = role.get("tags").and_then(|tags| snowflake::read(tags, "bot_id"));
            if let (Some(bot), Some(role)) = (bot, snowflake::read(role, "id")) {
                cached.bot_roles.insert(bot, role);
            }
        }
        for list in ["channels", "threads"] {
            for channel in data.get(list).and_then(Value::as_array).into_iter().flatten() {
                state.record_channel(channel, Some(guild));
            }
        }
    }

    /// Records a channel or a thread from an event or a response.
    pub(crate) fn record_channel(&self, data: &Value) {
        self.state().record_channel(data, None);
    }

    /// Returns the ids of all cached guilds.
    pub(crate) fn guild_ids(&self) -> BTreeSet<u64> {
        self.state().guilds.keys().copied().collect()
    }

    /// Removes a guild that the bot has left, with its channels.
    pub(crate) fn remove_guild(&self, guild: u64) {
        let mut state = self.state();
        state.guilds.remove(&guild);
        state.learned_limits.remove(&LimitScope::Guild(guild));
        for channel in state.channel_ids(guild) {
            state.remove_channel(channel);
        }
    }

    /// Removes a deleted channel or thread.
    pub(crate) fn remove_channel(&self, channel_id: u64) {
        let mut state = self.state();
        state.remove_channel(channel_id);
        state.learned_limits.remove(&LimitScope::Channel(channel_id));
        state.voice_refused_until.remove(&channel_id);
    }

    /// Records the direct channel with a person.
    pub(crate) fn record_direct_channel(&self, person: u64, channel_id: u64) {
        let mut state = self.state();
        if state.direct_channels.len() < CHANNEL_CACHE_SIZE
            && state.direct_channels.insert(person, channel_id) != Some(channel_id)
        {
            state.newly_opened.push(channel_id);
            self.opened_notify.notify_one();
        }
    }

    /// Waits for direct channels that were recorded since the last call and returns them.
    pub(crate) async fn wait_for_opened(&self) -> Vec<u64> {
        loop {
            let opened = std::mem::take(&mut self.state().newly_opened);
            if !opened.is_empty() {
                return opened;
            }
            self.opened_notify.notified().await;
        }
    }

    /// Returns the direct channel with a person, if it is open.
    pub(crate) fn direct_channel(&self, person: u64) -> Option<u64> {
        self.state().direct_channels.get(&person).copied()
    }

    /// Returns the guild of a channel, also of a removed one.
    pub(crate) fn guild_id(&self, channel_id: u64) -> Option<u64> {
        let state = self.state();
        state.guild_id(channel_id).or_else(|| state.removed.get(&channel_id).copied())
    }

    /// Whether the channel's guild and all its parents are cached, which decide whether a message is for the bot.
    pub(crate) fn is_complete(&self, channel_id: u64) -> bool {
        let state = self.state();
        let guild = state.guild_id(channel_id).and_then(|guild| state.guilds.get(&guild));
        // A thread, its channel, and the category of that.
        let mut ancestors = iter::successors(Some(channel_id), |inner| state.channels.get(inner)?.parent).take(3);
        guild.is_some_and(|guild| guild.is_complete) && ancestors.all(|id| state.channels.contains_key(&id))
    }

    /// Returns the channel of a thread, or the category of a channel.
    pub(crate) fn parent_id(&self, thread_id: u64) -> Option<u64> {
        self.state().channels.get(&thread_id)?.parent
    }

    /// Returns the name of a guild's channel or thread.
    pub(crate) fn channel_name(&self, channel_id: u64) -> Option<String> {
        self.state().channels.get(&channel_id)?.name.clone()
    }

    /// Returns the role that a guild has made for a bot.
    pub(crate) fn bot_role(&self, guild: u64, bot: u64) -> Option<u64> {
        self.state().guilds.get(&guild)?.bot_roles.get(&bot).copied()
    }

    /// Returns the name of a role.
    pub(crate) fn role_name(&self, role: u64) -> Option<String> {
        self.state().guilds.values().find_map(|guild| guild.role_names.get(&role).cloned())
    }

    /// Returns the lowest id of a message in a guild that the bot can have seen; 0 if unknown.
    pub(crate) fn first_visible_id(&self, guild: u64) -> u64 {
        self.state().guilds.get(&guild).map_or(0, |guild| guild.first_visible_id)
    }

    /// Returns the largest file that a channel accepts; `default_limit` applies where nothing is known.
    pub(crate) fn file_limit(&self, channel_id: u64, default_limit: u64) -> u64 {
        let state = self.state();
        let tier =
            state.guild_id(channel_id).and_then(|guild| state.guilds.get(&guild)).map(|guild| guild.premium_tier);
        // Uploading Files: 10 MiB, and more where the guild is boosted: 50 MiB at tier 2, 100 MiB at tier 3.
        let limit = match tier {
            Some(MIN_BOOSTED_TIER) => default_limit.max(50 * MIB),
            Some(tier) if tier > MIN_BOOSTED_TIER => default_limit.max(100 * MIB),
            _ => default_limit,
        };
        state.learned_limits(channel_id).file.map_or(limit, |learned| limit.min(learned))
    }

    /// Returns the guilds that accept larger files, for the checkpoint.
    pub(crate) fn boosted_guilds(&self) -> BTreeMap<u64, BoostedGuild> {
        let state = self.state();
        let boosted = state.guilds.iter().filter(|(_, guild)| guild.premium_tier >= MIN_BOOSTED_TIER);
        let to_boosted = |(id, guild): (&u64, &CachedGuild)| {
            (*id, BoostedGuild { tier: guild.premium_tier, channels: oldest_and_newest(&state.channel_ids(*id)) })
        };
        boosted.map(to_boosted).collect()
    }

    /// Restores the guilds that accept larger files from the checkpoint.
    pub(crate) fn restore_boosted(&self, boosted: &BTreeMap<u64, BoostedGuild>) {
        let mut state = self.state();
        for (guild, BoostedGuild { tier, channels }) in boosted {
            state.guilds.entry(*guild).or_default().premium_tier = *tier;
            state.restored.extend(channels.iter().map(|channel| (*channel, *guild)));
        }
    }

    /// Returns how many bytes the files of a request may have together; `default_limit` applies where nothing is known,
    /// and `file` is the limit of one file. The result can be below `file`: the largest files are then sent alone.
    pub(crate) fn request_limit(&self, channel_id: u64, default_limit: u64, file: u64) -> u64 {
        // Uploading Files: the limit of a request, or the limit of a file if that is larger; but less than what was
        // refused.
        let base_limit = default_limit.max(file.saturating_sub(MESSAGE_OVERHEAD_BYTES));
        self.state()
            .learned_limits(channel_id)
            .request
            .map_or(base_limit, |learned| base_limit.min(learned - MESSAGE_OVERHEAD_BYTES))
    }

    /// Records that a channel refused a file of this size. Returns the new limit if there is a smaller one.
    pub(crate) fn lower_file_limit(&self, channel_id: u64, refused: u64) -> Option<u64> {
        self.lower_limit(channel_id, refused, |lowered| &mut lowered.file)
    }

    /// Records that a channel refused files of this total size.
    pub(crate) fn lower_request_limit(&self, channel_id: u64, refused: u64) {
        self.lower_limit(channel_id, refused, |lowered| &mut lowered.request);
    }

    fn lower_limit(
        &self,
        channel_id: u64,
        refused: u64,
        limit_field: impl Fn(&mut LearnedLimits) -> &mut Option<u64>,
    ) -> Option<u64> {
        let next_smaller = SIZE_LIMITS.into_iter().find(|size| *size < refused)?;
        let mut state = self.state();
        let scope = state.limit_scope(channel_id);
        if state.learned_limits.len() >= CHANNEL_CACHE_SIZE && !state.learned_limits.contains_key(&scope) {
            return Some(next_smaller);
        }
        let limit = limit_field(state.learned_limits.entry(scope).or_default());
        Some(*limit.insert(limit.map_or(next_smaller, |current| current.min(next_smaller))))
    }

    /// Records that a channel refused a voice message.
    pub(crate) fn mark_voice_refused(&self, channel_id: u64) {
        let (mut state, now) = (self.state(), Instant::now());
        if state.voice_refused_until.len() >= CHANNEL_CACHE_SIZE {
            state.voice_refused_until.retain(|_, until| *until > now);
        }
        if state.voice_refused_until.len() < CHANNEL_CACHE_SIZE {
            state.voice_refused_until.insert(channel_id, now + VOICE_REFUSED_TTL);
        }
    }

    /// Whether a channel accepts voice messages, as far as is known.
    pub(crate) fn accepts_voice(&self, channel_id: u64) -> bool {
        self.state().voice_refused_until.get(&channel_id).is_none_or(|until| *until <= Instant::now())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record_channel(&mut self, data: &Value, guild: Option<u64>) {
        let Some(channel_id) = snowflake::read(data, "id") else { return };
        let cached = self.channels.entry(channel_id).or_default();
        cached.guild = snowflake::read(data, "guild_id").or(guild).or(cached.guild);
        if data.get("parent_id").is_some() {
            cached.parent = snowflake::read(data, "parent_id");
        }
        if let Some(name) = data.get("name").and_then(Value::as_str) {
            cached.name = Some(name.to_owned());
        }
        cached.kind = data.get("type").and_then(Value::as_u64).or(cached.kind);
        let made_at = data.get("thread_metadata").and_then(|thread| thread.get("create_timestamp")?.as_str());
        cached.made_at = made_at.and_then(snowflake::from_second).or(cached.made_at);
    }

    fn remove_channel(&mut self, channel_id: u64) {
        if let Some(guild) = self.guild_id(channel_id) {
            self.removed.insert(channel_id, guild);
        }
        self.channels.remove(&channel_id);
        self.restored.remove(&channel_id);
        if self.removed.len() > CHANNEL_CACHE_SIZE {
            self.removed.pop_first();
        }
    }

    fn guild_id(&self, channel_id: u64) -> Option<u64> {
        let cached = self.channels.get(&channel_id).and_then(|channel| channel.guild);
        cached.or_else(|| self.restored.get(&channel_id).copied())
    }

    fn channel_ids(&self, guild: u64) -> BTreeSet<u64> {
        let channels = self.channels.keys().chain(self.restored.keys()).copied();
        channels.filter(|channel| self.guild_id(*channel) == Some(guild)).collect()
    }

    fn learned_limits(&self, channel_id: u64) -> LearnedLimits {
        self.learned_limits.get(&self.limit_scope(channel_id)).copied().unwrap_or_default()
    }

    fn limit_scope(&self, channel_id: u64) -> LimitScope {
        self.guild_id(channel_id).map_or(LimitScope::Channel(channel_id), LimitScope::Guild)
    }
}

/// Selects the channels of a guild that are saved in the checkpoint.
fn oldest_and_newest(channel_ids: &BTreeSet<u64>) -> BTreeSet<u64> {
    channel_ids
        .iter()
        .take(MAX_RESTORED_CHANNELS)
        .chain(channel_ids.iter().rev().take(MAX_RESTORED_CHANNELS))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_a_guild(tier: u64) -> GuildCache {
        let known = GuildCache::default();
        known.record_guild(&json!({
            "id": "1", "premium_tier": tier,
            "channels": [{ "id": "10", "name": "general" }, { "id": "11", "name": null }, { "name": "odd" }],
            "threads": [{ "id": "20", "guild_id": "1", "parent_id": "10" }],
            "roles": [{ "id": "30", "tags": { "bot_id": "99" } }, { "id": "31" }, { "id": "32", "name": "cooks" }],
        }));
        known
    }

    #[test]
    fn guild_event_fills_the_cache() {
        let known = with_a_guild(0);
        assert_eq!((known.guild_id(10), known.guild_id(20), known.guild_id(99)), (Some(1), Some(1), None));
        assert_eq!((known.parent_id(20), known.parent_id(10)), (Some(10), None));
        assert_eq!((known.bot_role(1, 99), known.bot_role(1, 98)), (Some(30), None));
        assert_eq!((known.role_name(32).as_deref(), known.role_name(31)), (Some("cooks"), None));
        known.record_guild(&json!({ "id": "1", "joined_at": "2016-04-30T11:18:25.796000+00:00" }));
        known.record_guild(&json!({ "id": "1", "joined_at": "yesterday" }));
        assert_eq!(
            (known.first_visible_id(1), known.first_visible_id(2)),
            (snowflake::at_unix_ms(1_462_015_105_000), 0)
        );
        known.record_channel(&json!({ "id": "10", "parent_id": "5" }));
        assert_eq!((known.guild_id(10), known.parent_id(10)), (Some(1), Some(5)), "what isn't told stays as it was");
        assert_eq!(known.channel_name(10).as_deref(), Some("general"));
        known.record_channel(&json!({ "id": "10" }));
        assert_eq!(known.parent_id(10), Some(5));
        known.record_channel(&json!({ "id": "10", "parent_id": null }));
        assert_eq!(known.parent_id(10), None, "it was taken out of its category");
        known.remove_channel(20);
        assert_eq!((known.guild_id(20), known.channel_name(20), known.is_complete(20)), (Some(1), None, false));
        known.remove_guild(1);
        assert_eq!((known.guild_id(10), known.channel_name(10), known.guild_id(99)), (Some(1), None, None));
        assert_eq!(known.role_name(32), None);
    }

    #[test]
    fn channel_is_complete_with_roles_and_parents_cached() {
        let known = GuildCache::default();
        known.record_channel(&json!({ "id": "20", "guild_id": "1", "parent_id": "10" }));
        assert!(!known.is_complete(20), "nothing is known but the thread");
        known.record_guild(&json!({ "id": "1", "premium_tier": 1 }));
        known.record_channel(&json!({ "id": "10", "guild_id": "1", "parent_id": "5" }));
        assert!(!known.is_complete(20), "neither the roles nor the category are");
        known.record_guild(&json!({ "id": "1", "roles": [] }));
        assert!(!known.is_complete(20), "the category is not");
        known.record_channel(&json!({ "id": "5", "guild_id": "1", "parent_id": null }));
        assert!(known.is_complete(20) && known.is_complete(5) && !known.is_complete(99));
    }

    #[test]
    fn a_boosted_guild_takes_larger_files() {
        for (tier, limit) in [(0, 10), (1, 10), (2, 50), (3, 100)] {
            assert_eq!(with_a_guild(tier).file_limit(20, 10 * MIB), limit * MIB, "tier {tier}");
        }
        let known = with_a_guild(2);
        assert_eq!(known.file_limit(99, 10 * MIB), 10 * MIB, "a channel of which nothing is known");
        assert_eq!(known.file_limit(10, 80 * MIB), 80 * MIB, "what is usual is more");
        known.record_guild(&json!({ "id": "1", "premium_tier": 3 }));
        assert_eq!(known.file_limit(10, 10 * MIB), 100 * MIB, "a guild is boosted while we look on");
    }

    #[test]
    fn next_process_restores_only_boosted_guild_limits() {
        let before = with_a_guild(2);
        before.record_guild(&json!({ "id": "2", "premium_tier": 1, "channels": [{ "id": "12" }] }));
        let boosted = before.boosted_guilds();
        assert_eq!(boosted, [(1, BoostedGuild { tier: 2, channels: [10, 11, 20].into() })].into());
        let known = GuildCache::default();
        known.restore_boosted(&boosted);
        assert_eq!(
            [10, 20, 12].map(|channel| known.file_limit(channel, 10 * MIB)),
            [50, 50, 10].map(|size| size * MIB)
        );
        assert_eq!(known.boosted_guilds(), boosted, "and the one after it");
        known.record_guild(&json!({ "id": "1", "roles": [] }));
        assert!(!known.is_complete(20), "what the thread belongs to is not known");
        known.remove_channel(20);
        assert_eq!((known.guild_id(20), known.boosted_guilds()[&1].channels.clone()), (Some(1), [10, 11].into()));
        known.record_guild(&json!({ "id": "1", "premium_tier": 3 }));
        assert_eq!(known.file_limit(10, 10 * MIB), 100 * MIB);
        known.remove_guild(1);
        assert_eq!((known.file_limit(10, 10 * MIB), known.boosted_guilds()), (10 * MIB, BTreeMap::new()));
    }

    #[test]
    fn oldest_and_newest_channels_are_restored_beyond_limit() {
        let most = u64::try_from(2 * MAX_RESTORED_CHANNELS).unwrap();
        let told = oldest_and_newest(&(0..most + 9).collect());
        assert_eq!((told.len(), told.contains(&499), told.contains(&500)), (2 * MAX_RESTORED_CHANNELS, true, false));
        assert!(told.contains(&(most + 8)));
        assert_eq!(oldest_and_newest(&[7].into()), [7].into());
    }

    #[tokio::test]
    async fn each_direct_channel_is_reported_once() {
        let known = GuildCache::default();
        for (person, channel) in [(1, 11), (2, 12), (1, 11)] {
            known.record_direct_channel(person, channel);
        }
        assert_eq!(known.wait_for_opened().await, [11, 12]);
        known.record_direct_channel(2, 12);
        let later = async { known.record_direct_channel(3, 13) };
        assert_eq!(tokio::join!(known.wait_for_opened(), later).0, [13], "the others are known");
    }

    #[test]
    fn size_refusal_lowers_limit_of_its_guild_only() {
        let known = with_a_guild(3);
        assert_eq!(known.lower_file_limit(10, 60 * MIB), Some(50 * MIB));
        assert_eq!(known.lower_file_limit(20, 90 * MIB), Some(50 * MIB), "what is larger is no news");
        assert_eq!(known.file_limit(11, 10 * MIB), 50 * MIB, "the guild is one");
        assert_eq!(known.file_limit(99, 10 * MIB), 10 * MIB);
        known.lower_request_limit(10, 24 * MIB);
        let request = |channel| known.request_limit(channel, 25 * MIB, 10 * MIB);
        assert_eq!((request(20), request(99)), (10 * MIB - MESSAGE_OVERHEAD_BYTES, 25 * MIB));
    }

    #[test]
    fn request_limit_follows_file_limit_until_refused() {
        let known = with_a_guild(2);
        let usual = 25 * MIB - MESSAGE_OVERHEAD_BYTES;
        assert_eq!(known.request_limit(10, usual, 10 * MIB), usual);
        assert_eq!(
            known.request_limit(10, usual, 50 * MIB),
            50 * MIB - MESSAGE_OVERHEAD_BYTES,
            "as much as a file, and what is around it"
        );
        known.lower_request_limit(10, 30 * MIB);
        assert_eq!(known.request_limit(10, usual, 50 * MIB), usual, "the words have room behind a refusal too");
        known.lower_request_limit(10, 16 * MIB);
        assert_eq!(
            known.request_limit(10, usual, 50 * MIB),
            10 * MIB - MESSAGE_OVERHEAD_BYTES,
            "though a file may be larger"
        );
    }

    #[test]
    fn refusal_never_lowers_limit_below_universal_minimum() {
        let known = with_a_guild(0);
        for refused in [MIN_SIZE_LIMIT, 1_000, 1, 0] {
            assert_eq!(known.lower_file_limit(99, refused), None, "it can't be the size of {refused}");
            known.lower_request_limit(99, refused);
        }
        let request = known.request_limit(99, 25 * MIB, 10 * MIB);
        assert_eq!((known.file_limit(99, 10 * MIB), request), (10 * MIB, 25 * MIB));
        assert_eq!(known.lower_file_limit(99, MIN_SIZE_LIMIT + 1), Some(MIN_SIZE_LIMIT));
        assert_eq!(known.file_limit(99, 10 * MIB), MIN_SIZE_LIMIT);
    }

    #[test]
    fn lowered_limit_lasts_until_boost_tier_changes() {
        let known = with_a_guild(2);
        let told = |tier: u64| known.record_guild(&json!({ "id": "1", "premium_tier": tier }));
        let limits = || (known.file_limit(10, 10 * MIB), known.request_limit(10, 50 * MIB, 10 * MIB));
        known.lower_file_limit(10, 40 * MIB);
        known.lower_request_limit(10, 40 * MIB);
        told(2);
        known.record_guild(&json!({ "id": "1", "name": "Home" }));
        assert_eq!(limits(), (25 * MIB, 25 * MIB - MESSAGE_OVERHEAD_BYTES), "nothing has changed");
        told(3);
        assert_eq!(limits(), (100 * MIB, 50 * MIB));
        known.lower_file_limit(10, 40 * MIB);
        told(2);
        assert_eq!(limits(), (50 * MIB, 50 * MIB));
    }

    #[test]
    fn learned_limits_cache_is_bounded() {
        let known = GuildCache::default();
        let many = u64::try_from(CHANNEL_CACHE_SIZE).unwrap();
        for channel in 0..many + 500 {
            assert_eq!(known.lower_file_limit(channel, 9 * MIB), Some(8 * MIB));
        }
        assert_eq!(known.state().learned_limits.len(), CHANNEL_CACHE_SIZE);
        known.lower_request_limit(0, 9 * MIB);
        assert_eq!(
            known.request_limit(0, 25 * MIB, 10 * MIB),
            8 * MIB - MESSAGE_OVERHEAD_BYTES,
            "one that is remembered learns more"
        );
        known.remove_channel(0);
        assert_eq!(known.lower_file_limit(many, 9 * MIB), Some(8 * MIB));
        assert_eq!(known.file_limit(many, 10 * MIB), 8 * MIB, "there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn channel_refusing_voice_is_retried_after_one_hour() {
        let known = GuildCache::default();
        known.mark_voice_refused(1);
        assert!(!known.accepts_voice(1) && known.accepts_voice(2));
        tokio::time::sleep(VOICE_REFUSED_TTL).await;
        assert!(known.accepts_voice(1));
    }
}
