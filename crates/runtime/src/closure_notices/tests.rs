//! Which owners are told of a closed channel, where, and how often, on a real ledger.

use satchel_intake::{InboundService, access::ChannelAccess};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox, Ledger, MockWorkspace,
    ledger::{ClaimMode, TurnQuery},
};
use satchel_wait::wait_until_async;
use tokio::sync::mpsc;

use super::*;
use crate::stub_channel::StubChannel;

/// Owner 7 of two platforms, and a page on which somebody has written.
struct NoticeHarness {
    telegram: Arc<StubChannel>,
    discord: Arc<StubChannel>,
    ledger: Arc<SqliteLedger>,
    _directory: tempfile::TempDir,
}

impl NoticeHarness {
    async fn start(stop: &CancellationToken) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let ids = Arc::new(UuidV7);
        let ledger = SqliteLedger::open(directory.path(), Settings::default(), Arc::clone(&clock) as _, ids).await;
        let ledger = Arc::new(ledger.unwrap());
        let message = InboundMessage::new("web:chat".parse().unwrap(), "1".into(), Sender::new("owner", "Ada"));
        ledger.receive(&message, ClaimMode::Never).await.unwrap();
        let (telegram, discord, web) =
            (StubChannel::new("telegram"), StubChannel::new("discord"), StubChannel::new("web"));
        let rules = |channel: &StubChannel, chat: &str| {
            let owner_chats = vec![chat.parse().unwrap()];
            (channel.name(), ChannelAccess { owner_chats, owners: vec!["7".into()], ..ChannelAccess::default() })
        };
        let access = AccessPolicy::new([rules(&telegram, "telegram:7"), rules(&discord, "discord:@7")]);
        let access = Arc::new(access.with_owner_on([web.name()]));
        let ports: Ledger = Arc::clone(&ledger).into();
        let (lanes, _) = mpsc::channel(1);
        let (bus, workspace) = (Arc::new(LocalBus::new()), Arc::new(MockWorkspace::new()));
        let intake = InboundService::new(&ports, clock, bus, lanes, Arc::clone(&access), workspace, None);
        let notices = ClosureNotices {
            channels: vec![Arc::clone(&telegram) as _, Arc::clone(&discord) as _, Arc::clone(&web) as _],
            access,
            owner_page: Some(web.name()),
            conversations: ports.conversations,
            inbound: intake.internal_inbound(),
        };
        tokio::spawn(notices.run(stop.clone()));
        Self { telegram, discord, ledger, _directory: directory }
    }

    /// The platforms whose closures were told in a chat, in their order.
    async fn notices(&self, chat: &str) -> Vec<String> {
        let query = TurnQuery { conversation: chat.parse().unwrap(), limit: 9, before: None };
        let turns = self.ledger.turns(&query).await.unwrap();
        let tasks = turns.iter().rev().flat_map(|turn| &turn.messages);
        let platform = |task: SystemTask| match task {
            SystemTask::ChannelClosed { platform, .. } => platform,
            other => unreachable!("{other:?}"),
        };
        tasks.filter_map(|queued| queued.message.system_task.clone()).map(platform).collect()
    }

    async fn wait_for_notices(&self, chat: &str, expected: &[&str]) {
        wait_until_async(chat, async || self.notices(chat).await == expected).await;
    }
}

#[tokio::test]
async fn owners_are_told_once_on_each_open_channel() {
    let stop = CancellationToken::new();
    let harness = NoticeHarness::start(&stop).await;
    harness.telegram.close("a");
    harness.wait_for_notices("discord:@7", &["telegram"]).await;
    harness.wait_for_notices("web:chat", &["telegram"]).await;

    harness.discord.close("b");
    harness.wait_for_notices("web:chat", &["telegram", "discord"]).await;
    harness.discord.open();
    harness.telegram.open();
    harness.telegram.close("c");
    harness.wait_for_notices("web:chat", &["telegram", "discord", "telegram"]).await;
    harness.wait_for_notices("discord:@7", &["telegram", "telegram"]).await;
    assert_eq!(harness.notices("telegram:7").await, [""; 0], "a closed channel tells nobody");
    stop.cancel();
}

/// Catches: owners who are never told because everything was closed at first.
#[tokio::test]
async fn owners_are_told_once_another_channel_opens() {
    let stop = CancellationToken::new();
    let harness = NoticeHarness::start(&stop).await;
    harness.discord.close("b");
    harness.wait_for_notices("web:chat", &["discord"]).await;
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["discord", "telegram"]).await;
    assert_eq!(harness.notices("discord:@7").await, [""; 0]);
    harness.discord.open();
    harness.wait_for_notices("discord:@7", &["telegram"]).await;
    stop.cancel();
}
