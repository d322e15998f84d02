//! What a place takes, as far as is known.

use satchel_domain::capabilities::Idempotency;
use satchel_fake_kit::FaultyBlobs;
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_routing::tables;

use super::*;
use crate::cache::MESSAGE_OVERHEAD_BYTES;

const MIB: u64 = 1 << 20;

fn channel() -> DiscordChannel {
    let settings = DiscordSettings {
        token: "token".into(),
        api_url: Some("http://127.0.0.1:9".into()),
        capabilities: tables::discord(),
        answers_in: Vec::new(),
        commands: Vec::new(),
    };
    let fetcher = Arc::new(HttpFetcher::new(FetchSettings::default()));
    DiscordChannel::new(&settings, Arc::new(FaultyBlobs::default()), fetcher).unwrap()
}

fn at(channel: &DiscordChannel, conversation: &str) -> ChannelCapabilities {
    channel.capabilities(&conversation.parse().unwrap())
}

#[test]
fn channel_limits_follow_its_guild() {
    let channel = channel();
    for (guild, tier, file, request) in [(1, 0, 10, 25), (2, 2, 50, 50), (3, 3, 100, 100)] {
        let data = json!({
            "id": guild.to_string(), "premium_tier": tier, "channels": [{ "id": format!("{guild}0") }],
        });
        channel.cache().record_guild(&data);
        let known = at(&channel, &format!("discord:{guild}0"));
        assert_eq!(
            (known.file_bytes, known.request_bytes),
            (file * MIB, Some(request * MIB - MESSAGE_OVERHEAD_BYTES)),
            "tier {tier}"
        );
    }
    channel.cache().lower_file_limit(30, 60 * MIB);
    channel.cache().lower_request_limit(30, 90 * MIB);
    let lowered = at(&channel, "discord:30");
    assert_eq!((lowered.file_bytes, lowered.request_bytes), (50 * MIB, Some(50 * MIB - MESSAGE_OVERHEAD_BYTES)));
    channel.cache().lower_request_limit(20, 16 * MIB);
    let lowered = at(&channel, "discord:20");
    assert_eq!(
        (lowered.file_bytes, lowered.request_bytes),
        (50 * MIB, Some(10 * MIB - MESSAGE_OVERHEAD_BYTES)),
        "a file goes alone"
    );
    for elsewhere in ["discord:20", "discord:99", "discord:@7", "discord:main"] {
        let usual = if elsewhere == "discord:20" { 50 } else { 10 };
        assert_eq!(at(&channel, elsewhere).file_bytes, usual * MIB, "{elsewhere}");
    }
}

#[test]
fn default_and_learned_limits_reserve_same_overhead() {
    assert_eq!(tables::discord().request_bytes, Some(25 * MIB - MESSAGE_OVERHEAD_BYTES));
}

#[test]
fn a_person_is_where_their_direct_channel_is() {
    let channel = channel();
    channel.cache().record_direct_channel(7, 70);
    channel.cache().mark_voice_refused(70);
    channel.cache().lower_file_limit(70, 10 * MIB);
    let known = at(&channel, "discord:@7");
    assert_eq!((known.voice, known.file_bytes), (VoiceRule::AudioFile, 8 * MIB));
    assert_eq!(known.idempotency, Idempotency::Key { window_ms: Some(180_000) });
}
