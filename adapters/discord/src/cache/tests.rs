//! What is learnt of places, and what is made of it.

use serde_json::json;

use super::*;

fn with_a_guild(tier: u64) -> GuildCache {
    let known = GuildCache::default();
    known.record_guild(&json!({
        "id": "1", "premium_tier": tier,
        "channels": [{ "id": "10", "name": "general" }, { "id": "11", "name": null }, { "name": "odd" }],
        "threads": [{ "id": "20", "guild_id": "1", "parent_id": "10" }],
        "roles": [{ "id": "30", "tags": { "bot_id": "99" } }, { "id": "31" }],
    }));
    known
}

#[test]
fn places_are_known_from_what_a_guild_tells() {
    let known = with_a_guild(0);
    assert_eq!((known.guild_id(10), known.guild_id(20), known.guild_id(99)), (Some(1), Some(1), None));
    assert_eq!((known.parent_id(20), known.parent_id(10)), (Some(10), None));
    assert_eq!((known.bot_role(1, 99), known.bot_role(1, 98)), (Some(30), None));
    known.record_guild(&json!({ "id": "1", "joined_at": "2016-04-30T11:18:25.796000+00:00" }));
    known.record_guild(&json!({ "id": "1", "joined_at": "yesterday" }));
    assert_eq!((known.first_visible_id(1), known.first_visible_id(2)), (snowflake::at_unix_ms(1_462_015_105_000), 0));
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
    assert_eq!([10, 20, 12].map(|channel| known.file_limit(channel, 10 * MIB)), [50, 50, 10].map(|size| size * MIB));
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
async fn each_direct_channel_is_told_once() {
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
