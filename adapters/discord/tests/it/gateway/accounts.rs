//! A token that Discord refuses: nothing comes until it accepts it, and then everything that was written meanwhile.

use std::sync::Arc;

use satchel_contracts::log_capture::LogCapture;
use satchel_discord::DiscordChannel;
use satchel_domain::{ChannelClosure, ChannelState};
use satchel_ports::Channel;
use satchel_wait::wait_until;

use crate::harness::{ANN, GENERAL, GatewayHarness, ListenerTask, RecordingInbound};

async fn wait_until_closed(channel: &DiscordChannel) -> ChannelClosure {
    wait_until("the channel is closed", || channel.state() != ChannelState::Open).await;
    channel.state().closure().expect("it is closed").clone()
}

async fn wait_until_connected(harness: &GatewayHarness, taker: &RecordingInbound) {
    harness.fake.gateway().wait_connected(1).await.expect("it connects");
    wait_until("the session is remembered", || taker.bookmark()["session_id"].is_string()).await;
}

/// The gateway closes the connection with 4004, and the HTTP API answers 401.
#[tokio::test]
async fn messages_written_while_the_token_is_revoked_arrive_later() {
    let harness = GatewayHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let (channel, taker) = (harness.channel(), RecordingInbound::new());
    let listening = ListenerTask::begin(harness.listener_of(Arc::clone(&channel)), &taker);
    wait_until_connected(&harness, &taker).await;
    harness.fake.person_says(GENERAL, ANN, "before");
    taker.takes(1).await;
    harness.fake.revoke_token(harness.fake.token());
    let closure = wait_until_closed(&channel).await;
    assert!(closure.remedy.contains("developer portal") && closure.remedy.contains("Reset Token"), "{closure:?}");
    harness.fake.person_says(GENERAL, ANN, "meanwhile");
    harness.fake.accept_token(harness.fake.token());
    taker.takes(2).await;
    assert_eq!(taker.texts(), ["before", "meanwhile"]);
    assert_eq!(log.lines_with("no longer accepts the bot's token"), 1, "{}", log.text());
    assert!(!log.text().contains(harness.fake.token()), "{}", log.text());
    listening.stop().await;
}

#[tokio::test]
async fn unknown_token_waits_until_discord_accepts_it() {
    let token = "NzY1.Nobodys.TokenCanary";
    let mut harness = GatewayHarness::start().await;
    harness.settings.token = token.into();
    let (channel, taker) = (harness.channel(), RecordingInbound::new());
    let listening = ListenerTask::begin(harness.listener_of(Arc::clone(&channel)), &taker);
    wait_until_closed(&channel).await;
    harness.fake.accept_token(token);
    wait_until_connected(&harness, &taker).await;
    harness.fake.person_says(GENERAL, ANN, "hello");
    taker.takes(1).await;
    harness.fake.revoke_token(token);
    wait_until_closed(&channel).await;
    listening.stop().await;
}
