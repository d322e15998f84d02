//! Guilds that take larger files: a session that goes on in another process doesn't tell of them again.

use std::{sync::Arc, time::Duration};

use satchel_discord::{DiscordChannel, DiscordListener, GatewayTimeouts};
use satchel_domain::PartContent;
use satchel_fake_discord::Tier;
use satchel_fake_kit::FakeFile;
use satchel_ports::Channel;

use super::bench::{Listening, Taker};
use crate::outbound::{Stage, conversation, settings, unpaced};

const MIB: u64 = 1 << 20;
const WORK: u64 = 72;

fn listen(stage: &Stage, channel: &Arc<DiscordChannel>, taker: &Arc<Taker>) -> Listening {
    let waits = GatewayTimeouts { checkpoint_interval: Duration::from_millis(10), ..GatewayTimeouts::default() };
    let settings = settings(&stage.discord, unpaced());
    Listening::begin(DiscordListener::with_timeouts(settings, Arc::clone(channel), waits), taker)
}

#[tokio::test]
async fn resuming_process_remembers_boosted_guild_limits() {
    let stage = Stage::new().await;
    stage.discord.guild(WORK, "Work", Tier::Two);
    let general = stage.discord.channel(WORK, 200, "general");
    let places = [general, stage.discord.thread(general, 201, "a thread")];
    let taker = Taker::new();
    let listening = listen(&stage, &stage.channel, &taker);
    let is_kept = |kept: &serde_json::Value| kept["boosted"][WORK.to_string()]["channels"].is_array();
    taker.keeps("the boost", |kept| is_kept(kept) && kept["session_id"].is_string()).await;
    listening.stop().await;
    stage.discord.gateway().wait_connected(0).await.unwrap();

    let channel = Arc::new(stage.restarted());
    let listening = listen(&stage, &channel, &taker);
    stage.discord.gateway().wait_until(|report| report.resumes == 1).await.unwrap();
    assert_eq!(stage.discord.identifies(), 1, "nothing is told of the guild");
    let film = stage.item(&FakeFile::generated("film.bin", "application/octet-stream", 7, 30 * MIB)).await;
    for place in places {
        let limit = channel.capabilities(&conversation(&place.to_string())).file_bytes;
        assert_eq!(limit, 50 * MIB);
        channel.send(&stage.part_in(place, PartContent::File(film.clone()))).await.unwrap();
        let sent =
            stage.discord.transcript().visible(place).flat_map(|message| message.files.clone()).collect::<Vec<_>>();
        assert_eq!(sent.iter().map(|file| file.bytes).collect::<Vec<_>>(), [30 * MIB]);
    }
    assert_eq!(channel.capabilities(&conversation(&stage.place.to_string())).file_bytes, 10 * MIB);
    listening.stop().await;
    assert!(is_kept(&taker.bookmark()), "and to the one after it");
}
