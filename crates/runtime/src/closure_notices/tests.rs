//! Which owners are told of a closed channel, where, and how often, on a real ledger.

use std::{collections::HashMap, path::Path};

use satchel_domain::{AgentDirectory, AgentSummary};
use satchel_intake::{InboundService, access::ChannelAccess};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox, Ledger, MockWorkspace,
    ledger::{ClaimMode, GatewayId, TurnQuery},
};
use satchel_wait::{wait_until, wait_until_async};
use tokio::sync::mpsc;

use super::*;
use crate::stub_channel::StubChannel;

/// Owner 7 of two platforms, and a page on which somebody has written.
struct NoticeHarness {
    telegram: Arc<StubChannel>,
    discord: Arc<StubChannel>,
    ledger: Arc<SqliteLedger>,
    directory: tempfile::TempDir,
}

/// The ledger of a process.
async fn open_ledger(directory: &Path) -> SqliteLedger {
    let clock = Arc::new(SystemClock::new());
    SqliteLedger::open(directory, Settings::default(), clock, Arc::new(UuidV7)).await.unwrap()
}

impl NoticeHarness {
    async fn start(stop: &CancellationToken) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Arc::new(open_ledger(directory.path()).await);
        let message = InboundMessage::new("web:chat".parse().unwrap(), "1".into(), Sender::new("owner", "Ada"));
        ledger.receive(&message, ClaimMode::Never).await.unwrap();
        let (telegram, discord) = (StubChannel::new("telegram"), StubChannel::new("discord"));
        let harness = Self { telegram, discord, ledger, directory };
        harness.start_process(stop, &harness.telegram, &harness.discord);
        harness
    }

    /// Starts a process with these channels on the same ledger.
    fn start_process(&self, stop: &CancellationToken, telegram: &Arc<StubChannel>, discord: &Arc<StubChannel>) {
        let web = StubChannel::new("web");
        let rules = |channel: &StubChannel, chat: &str| {
            let owner_chats = vec![chat.parse().unwrap()];
            (channel.name(), ChannelAccess { owner_chats, owners: vec!["7".into()], ..ChannelAccess::default() })
        };
        let access = AccessPolicy::new([rules(telegram, "telegram:7"), rules(discord, "discord:@7")]);
        let access = Arc::new(access.with_owner_on([web.name()]));
        let ports: Ledger = Arc::clone(&self.ledger).into();
        let clock = Arc::new(SystemClock::new());
        let (lanes, _) = mpsc::channel(1);
        let (bus, workspace) = (Arc::new(LocalBus::new()), Arc::new(MockWorkspace::new()));
        // A chat of Discord has an agent, so it is looked up whose agent answers there.
        let kids = AgentSummary { name: "kids".to_owned(), ..AgentSummary::default_agent() };
        let chats = HashMap::from([("discord:9".parse().unwrap(), "kids".to_owned())]);
        let agents = Arc::new(AgentDirectory::new([kids], chats).unwrap());
        let looked_up = HashMap::from([(discord.name(), Arc::clone(discord) as Arc<dyn Channel>)]);
        let intake = InboundService::new(&ports, clock, bus, lanes, Arc::clone(&access), workspace, None)
            .with_channels(looked_up)
            .with_agents(agents);
        let notices = ClosureNotices {
            channels: vec![Arc::clone(telegram) as _, Arc::clone(discord) as _, Arc::clone(&web) as _],
            access,
            owner_page: Some(web.name()),
            conversations: ports.conversations,
            inbox: ports.inbox,
            gateways: ports.gateways,
            inbound: intake.internal_inbound(),
            retry_interval: Duration::from_millis(10),
        };
        tokio::spawn(notices.run(stop.clone()));
    }

    /// Starts a process after the others have ended. Telegram refuses these credentials at its first call, if any.
    fn restart(&mut self, refused: Option<&str>) -> CancellationToken {
        let stop = CancellationToken::new();
        (self.telegram, self.discord) = (StubChannel::new("telegram"), StubChannel::new("discord"));
        if let Some(credentials) = refused {
            self.telegram.refuse(credentials);
        }
        self.start_process(&stop, &self.telegram, &self.discord);
        stop
    }

    /// Waits until it is stored whether Telegram is closed.
    async fn wait_for_record(&self, is_closed: bool) {
        let name = ChannelName::new("closure-of-telegram").unwrap();
        wait_until_async("the record", async || {
            let stored = self.ledger.load_checkpoint(&name).await.unwrap();
            stored.is_some_and(|stored| stored["is_closed"] == is_closed)
        })
        .await;
    }

    /// The platforms whose closures were told in a chat, in their order.
    async fn notices(&self, chat: &str) -> Vec<String> {
        let query = TurnQuery { conversation: chat.parse().unwrap(), limit: 9, before: None };
        let turns = self.ledger.turns(&query).await.unwrap();
        let tasks = turns.iter().flat_map(|turn| &turn.messages);
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

/// Catches: owners who are never told on the page because another platform is away, too.
#[tokio::test]
async fn platform_that_cannot_be_reached_holds_up_no_other_notice() {
    let stop = CancellationToken::new();
    let harness = NoticeHarness::start(&stop).await;
    harness.discord.cut_off();
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram"]).await;
    assert_eq!(harness.notices("discord:@7").await, [""; 0]);
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

/// Catches: owners who are never told although another process reaches them, since the channel is closed in this one.
#[tokio::test]
async fn owners_are_told_on_channels_that_another_process_can_use() {
    let stop = CancellationToken::new();
    let harness = NoticeHarness::start(&stop).await;
    harness.discord.close("b");
    harness.wait_for_notices("web:chat", &["discord"]).await;
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["discord", "telegram"]).await;
    assert_eq!(harness.notices("discord:@7").await, [""; 0]);
    assert_eq!(harness.notices("telegram:7").await, ["discord"], "it was open then");

    let other = open_ledger(harness.directory.path()).await;
    let receive = |channel: &StubChannel| GatewayId { channel: channel.name(), duty: GatewayDuty::Receive };
    other.claim_gateway(&receive(&harness.discord)).await.unwrap().expect("nobody holds it");
    harness.wait_for_notices("discord:@7", &["telegram"]).await;
    harness.wait_for_notices("telegram:7", &["discord"]).await;
    stop.cancel();
}

/// Catches: a closure that ends with the process or the day, and a token that is refused once more of which nobody hears.
#[tokio::test]
async fn closures_are_told_once_across_restarts() {
    let mut stop = CancellationToken::new();
    let mut harness = NoticeHarness::start(&stop).await;
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram"]).await;
    harness.wait_for_record(true).await;

    // It is still closed: nothing more is told of it.
    stop.cancel();
    stop = harness.restart(Some("a"));
    wait_until("Telegram refuses", || harness.telegram.state().closure().is_some()).await;
    harness.discord.close("d");
    harness.wait_for_notices("web:chat", &["telegram", "discord"]).await;

    // It is opened, and refused after a restart.
    harness.telegram.open();
    harness.wait_for_record(false).await;
    stop.cancel();
    stop = harness.restart(None);
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram", "discord", "telegram"]).await;
    harness.wait_for_record(true).await;

    // It is accepted after a restart, and refused later.
    stop.cancel();
    stop = harness.restart(None);
    harness.wait_for_record(false).await;
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram", "discord", "telegram", "telegram"]).await;
    stop.cancel();
}

/// Catches: a notice by each process of a cluster, and a token of which nobody hears because another one was refused before.
#[tokio::test]
async fn processes_with_one_token_tell_of_one_closure() {
    let stop = CancellationToken::new();
    let harness = NoticeHarness::start(&stop).await;
    let (telegram, discord) = (StubChannel::new("telegram"), StubChannel::new("discord"));
    harness.start_process(&stop, &telegram, &discord);
    harness.telegram.close("a");
    telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram"]).await;
    harness.discord.close("d");
    discord.close("d");
    harness.wait_for_notices("web:chat", &["telegram", "discord"]).await;
    // The second process gets another token, which is refused as well.
    telegram.open();
    harness.wait_for_record(false).await;
    telegram.close("b");
    harness.wait_for_notices("web:chat", &["telegram", "discord", "telegram"]).await;
    stop.cancel();
}

/// Catches: processes with different tokens, both of which are refused, that tell of each other's closure as a new one.
#[tokio::test]
async fn tokens_that_are_refused_by_turns_are_told_of_once_each() {
    let mut stop = CancellationToken::new();
    let mut harness = NoticeHarness::start(&stop).await;
    harness.telegram.close("a");
    harness.wait_for_notices("web:chat", &["telegram"]).await;
    stop.cancel();
    stop = harness.restart(Some("b"));
    let mut expected = vec!["telegram", "telegram"];
    harness.wait_for_notices("web:chat", &expected).await;
    for (refused, later) in [("a", "d"), ("b", "e")] {
        stop.cancel();
        stop = harness.restart(Some(refused));
        wait_until("Telegram refuses", || harness.telegram.state().closure().is_some()).await;
        // Its notice would come behind one of Telegram.
        harness.discord.close(later);
        expected.push("discord");
        harness.wait_for_notices("web:chat", &expected).await;
    }
    stop.cancel();
}
