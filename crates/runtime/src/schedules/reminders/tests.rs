//! The loop on a real ledger, by a clock that is set: killed, late, over changes of the clock, and without access.

use std::collections::HashMap;

use satchel_domain::{
    AgentDirectory, AgentSummary, ConversationId, ReminderAuthor, ReminderId, Sender, TurnId, agent::AgentChat,
    delivery::SendError,
};
use satchel_intake::{
    InboundService,
    access::{AccessPolicy, ChannelAccess},
};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, Channel, Inbox, ManualClock, MockChannel, MockReminders, MockWorkspace,
    ledger::{ClaimMode, CreateReminderOutcome, Ledger, NewReminder, ReminderLimits, TurnQuery},
};
use satchel_wait::wait_until_async;
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::mpsc, task::block_in_place};
use uuid::Uuid;

use super::*;

const CONVERSATION: &str = "telegram:7";
const PARENT: &str = "telegram:-9";

/// A conversation on a disk, and the clock on the wall.
struct ReminderHarness {
    directory: TempDir,
    clock: Arc<ManualClock>,
    allowed: Vec<String>,
    /// Who can write in the conversation.
    members: Vec<String>,
    /// The channel that the conversation is a thread of; `None` while its platform can't be reached.
    parent: Option<ConversationId>,
    /// Another channel, whose platform can't be reached.
    unreachable: Option<ChannelName>,
}

/// Children's channel, and the agent that always answers there.
fn agents() -> AgentDirectory {
    let chats = [PARENT, "discord:9"].map(|chat| (chat.parse().unwrap(), "kids".to_owned()));
    let kids = AgentSummary { name: "kids".to_owned(), ..AgentSummary::default_agent() };
    AgentDirectory::new([kids], HashMap::from(chats)).unwrap().with_locked_chats([PARENT.parse().unwrap()])
}

impl ReminderHarness {
    async fn new(now: &str) -> Self {
        let clock = Arc::new(ManualClock::at(at(now)));
        let people = vec!["7".to_owned(), "8".to_owned()];
        let directory = tempfile::tempdir().unwrap();
        let parent = Some(PARENT.parse().unwrap());
        let harness = Self { directory, clock, allowed: people.clone(), members: people, parent, unreachable: None };
        let first = InboundMessage::new(CONVERSATION.parse().unwrap(), "1".into(), Sender::new("7", "Ada"));
        harness.open().await.receive(&first, ClaimMode::Never).await.unwrap();
        harness
    }

    async fn open(&self) -> Arc<SqliteLedger> {
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        Arc::new(SqliteLedger::open(self.directory.path(), Settings::default(), clock, ids).await.unwrap())
    }

    /// A process whose reminders are these, or those of the real ledger.
    async fn process(&self, reminders: Option<MockReminders>) -> ReminderScheduler {
        let ledger = Ledger::from(self.open().await);
        let (lanes, _) = mpsc::channel(1);
        let rules = ChannelAccess { allow_users: self.allowed.clone(), ..ChannelAccess::default() };
        let channel = ChannelName::new("telegram").unwrap();
        let access = Arc::new(AccessPolicy::new([(channel.clone(), rules)]));
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let (bus, workspace) = (Arc::new(LocalBus::new()), Arc::new(MockWorkspace::new()));
        let inbound = InboundService::new(&ledger, Arc::clone(&clock), bus, lanes, access, workspace, None);
        let mut members = MockChannel::new();
        let ids = self.members.clone();
        members.expect_can_write().returning(move |_, sender| ids.contains(&sender.id));
        let parent = self.parent.clone();
        members.expect_find_parents().returning(move |_| Ok(vec![parent.clone().ok_or_else(unreachable)?]));
        let mut hosted = HashMap::from([(channel, Arc::new(members) as Arc<dyn Channel>)]);
        if let Some(name) = &self.unreachable {
            let mut away = MockChannel::new();
            away.expect_can_write().return_const(true);
            away.expect_find_parents().returning(|_| Err(unreachable()));
            hosted.insert(name.clone(), Arc::new(away));
        }
        let channels = hosted.keys().cloned().collect();
        let inbound = inbound.with_channels(hosted).with_agents(Arc::new(agents()));
        ReminderScheduler {
            reminders: reminders.map_or(ledger.reminders, |reminders| Arc::new(reminders)),
            inbound: inbound.internal_inbound(),
            clock,
            default_zone: Zone::find("Europe/Berlin").unwrap(),
            channels,
        }
    }

    async fn create(&self, reminder: NewReminder) -> ReminderId {
        match self.open().await.create_reminder(&reminder, &ReminderLimits::default()).await.unwrap() {
            CreateReminderOutcome::Created(reminder) => reminder.id,
            other => panic!("there is room: {other:?}"),
        }
    }

    /// What came in for reminders: who sent it, the task, and the text for the model.
    async fn delivered(&self) -> Vec<(String, SystemTask, String)> {
        let query = TurnQuery { conversation: CONVERSATION.parse().unwrap(), before: None, limit: 100 };
        let turns = self.open().await.turns(&query).await.unwrap();
        let messages = turns.into_iter().flat_map(|turn| turn.messages).map(|queued| queued.message);
        messages.filter_map(|message| Some((message.sender.id, message.system_task?, message.text))).collect()
    }

    /// When each delivered prompt was due.
    async fn prompts_due(&self) -> Vec<String> {
        let delivered = self.delivered().await.into_iter();
        delivered
            .filter_map(|(_, task, _)| match task {
                SystemTask::RunReminder { due, .. } => Some(due),
                _ => None,
            })
            .collect()
    }

    async fn look(&self) -> Duration {
        run_due(&self.process(None).await).await.unwrap()
    }
}

fn unreachable() -> SendError {
    SendError::NotSent { retry_after_ms: None, reason: "it can't be reached".to_owned() }
}

/// Stores what is due in the conversation's channel.
async fn run_due(process: &ReminderScheduler) -> Result<Duration, DeliverReminderError> {
    process.run_due(&ChannelName::new("telegram").unwrap(), &mut None).await
}

fn at(time: &str) -> Timestamp {
    Timestamp(time.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn reminder(person: &str, content: ReminderContent, next_at: &str) -> NewReminder {
    NewReminder {
        key: format!("{person} {next_at}"),
        conversation: CONVERSATION.parse().unwrap(),
        person: Sender::new(person, "Ada"),
        group: true,
        content,
        next_at: at(next_at),
        cron: None,
        timezone: None,
        author: ReminderAuthor::Model,
        made_at: at("2026-12-03T09:00:00+01:00"),
        turn: TurnId(Uuid::from_u128(1)),
    }
}

fn text(text: &str) -> ReminderContent {
    ReminderContent::Message { text: text.to_owned(), files: Vec::new() }
}

fn prompt() -> ReminderContent {
    ReminderContent::Prompt("the news".to_owned())
}

#[tokio::test]
async fn due_reminder_is_delivered_once_for_its_person() {
    let harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    let id = harness.create(reminder("8", text("tea"), "2026-12-04T12:00:01.500+01:00")).await;
    let prompted = harness.create(reminder("7", prompt(), "2026-12-04T12:00:01.500+01:00")).await;
    assert_eq!(harness.look().await, Duration::from_millis(1_500), "it is on time");
    assert_eq!(harness.delivered().await, []);
    harness.clock.advance(Duration::from_millis(1_500));
    for _ in 0..3 {
        assert_eq!(harness.look().await, POLL_INTERVAL);
    }
    let made = Some("Thursday 2026-12-03 at 09:00 (Europe/Berlin)".to_owned());
    let origin = Some(ReminderOrigin { author: ReminderAuthor::Model, made, repeats: false });
    let (text, files, missed) = ("tea".to_owned(), vec![], None);
    let text = SystemTask::DeliverReminder { reminder: id, text, files, missed, origin: origin.clone() };
    let due = "Friday 2026-12-04 at 12:00:01 (Europe/Berlin)".to_owned();
    let prompt = SystemTask::RunReminder { reminder: prompted, due, origin };
    assert_eq!(
        harness.delivered().await,
        [("8".to_owned(), text, String::new()), ("7".to_owned(), prompt, "the news".to_owned())]
    );
}

#[tokio::test]
async fn origin_is_written_in_the_zone_of_its_person() {
    let harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    let person = "telegram:8".parse().unwrap();
    harness.open().await.save_timezone(&person, Some("Asia/Tokyo".to_owned())).await.unwrap();
    harness.create(reminder("8", text("tea"), "2026-12-04T12:00:00+01:00")).await;
    let in_own_zone =
        NewReminder { timezone: Some("UTC".to_owned()), ..reminder("8", prompt(), "2026-12-04T12:00:00+01:00") };
    harness.create(NewReminder { key: "own zone".to_owned(), ..in_own_zone }).await;
    harness.look().await;
    let made: Vec<String> = harness
        .delivered()
        .await
        .into_iter()
        .filter_map(|(_, task, _)| match task {
            SystemTask::DeliverReminder { origin, .. } | SystemTask::RunReminder { origin, .. } => origin?.made,
            _ => None,
        })
        .collect();
    assert_eq!(made, ["Thursday 2026-12-03 at 17:00 (Asia/Tokyo)", "Thursday 2026-12-03 at 08:00 (UTC)"]);
}

/// A kill between the message and the reminder's next time, as often as it likes.
#[tokio::test(flavor = "multi_thread")]
async fn killed_process_repeats_no_delivery() {
    let harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    harness.create(reminder("7", text("tea"), "2026-12-04T12:00:00+01:00")).await;
    let daily = NewReminder { cron: Some("0 12 * * *".into()), ..reminder("8", prompt(), "2026-12-04T12:00:00+01:00") };
    harness.create(daily).await;
    for _ in 0..2 {
        let real = harness.open().await;
        let mut dying = MockReminders::new();
        let inner = Arc::clone(&real);
        dying.expect_list_reminders().returning(move |query| at_once(inner.list_reminders(query)));
        dying.expect_list_reminder_people().returning(move |channels| at_once(real.list_reminder_people(channels)));
        dying.expect_load_timezone().returning(|_| Ok(None));
        dying.expect_advance_reminder().returning(|_, _, _| Err(LedgerError::Full));
        assert!(run_due(&harness.process(Some(dying)).await).await.is_err());
        assert_eq!(harness.delivered().await.len(), 2, "the one does not stop the other");
    }
    harness.look().await;
    assert_eq!(harness.delivered().await.len(), 2);
    harness.clock.set(at("2026-12-05T12:00:00+01:00"));
    harness.look().await;
    assert_eq!(harness.delivered().await.len(), 3, "the next day");
}

#[tokio::test]
async fn missed_times_are_one_late_delivery() {
    let harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    harness.create(reminder("7", text("tea"), "2026-12-04T12:30:00+01:00")).await;
    let hourly =
        NewReminder { cron: Some("0 * * * *".into()), ..reminder("8", text("look"), "2026-12-04T13:00:00+01:00") };
    harness.create(hourly).await;
    harness.clock.set(at("2026-12-06T08:20:00+01:00"));
    harness.look().await;
    let missed = |(_, task, _): &(String, SystemTask, String)| match task {
        SystemTask::DeliverReminder { missed, .. } => missed.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    let delivered: Vec<String> = harness.delivered().await.iter().map(missed).collect();
    assert_eq!(delivered, ["Friday 2026-12-04 at 12:30 (Europe/Berlin)", "Friday 2026-12-04 at 13:00 (Europe/Berlin)"]);
    harness.clock.set(at("2026-12-06T09:00:00+01:00"));
    harness.look().await;
    assert_eq!(missed(harness.delivered().await.last().unwrap()), "", "the next one is on time");
}

#[tokio::test]
async fn recurring_reminder_follows_changes_of_the_clock() {
    for (zone, now, expected) in [
        // 02:30 is skipped on the 28th and due at the end of the gap.
        ("Europe/Berlin", "2027-03-27T02:30:00+01:00", ["27 at 02:30", "28 at 03:00", "29 at 02:30"]),
        // 02:30 comes twice on the 31st and is due the first time.
        ("Europe/Berlin", "2026-10-24T02:30:00+02:00", ["24 at 02:30", "25 at 02:30", "26 at 02:30"]),
        ("UTC", "2027-03-27T02:30:00Z", ["27 at 02:30", "28 at 02:30", "29 at 02:30"]),
    ] {
        let harness = ReminderHarness::new(now).await;
        let timezone = Some(zone.to_owned());
        let nightly = NewReminder { cron: Some("30 2 * * *".into()), timezone, ..reminder("7", prompt(), now) };
        harness.create(nightly).await;
        for _ in 0..4 * 50 {
            harness.look().await;
            harness.clock.advance(Duration::from_secs(15 * 60));
        }
        let due = harness.prompts_due().await;
        assert_eq!(due.len(), 3, "{due:?}");
        assert!(due.iter().zip(expected).all(|(due, expected)| due.contains(expected)), "{due:?}");
    }
}

#[tokio::test]
async fn reminders_end_with_access() {
    let mut harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    harness.create(reminder("7", text("tea"), "2026-12-04T12:00:00+01:00")).await;
    harness.create(reminder("8", text("coffee"), "2026-12-04T12:00:00+01:00")).await;
    harness.create(reminder("8", text("later"), "2026-12-24T12:00:00+01:00")).await;
    harness.allowed = vec!["7".into()];
    harness.look().await;
    let people: Vec<String> = harness.delivered().await.into_iter().map(|(person, ..)| person).collect();
    assert_eq!(people, ["7"]);
    harness.allowed.push("8".into());
    harness.clock.set(at("2026-12-25T12:00:00+01:00"));
    harness.look().await;
    assert_eq!(harness.delivered().await.len(), 1, "they do not come back with it");
}

/// As of a program on NATS that has left a group.
#[tokio::test]
async fn reminder_ends_where_person_can_no_longer_write() {
    let mut harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    let daily = NewReminder { cron: Some("0 12 * * *".into()), ..reminder("8", prompt(), "2026-12-04T12:00:00+01:00") };
    harness.create(daily).await;
    harness.create(reminder("7", text("tea"), "2026-12-04T12:00:00+01:00")).await;
    harness.members = vec!["7".into()];
    harness.look().await;
    let people: Vec<String> = harness.delivered().await.into_iter().map(|(person, ..)| person).collect();
    assert_eq!(people, ["7"], "the other one is allowed, and can't write here");
    harness.members.push("8".into());
    harness.clock.set(at("2026-12-05T12:00:00+01:00"));
    harness.look().await;
    assert_eq!(harness.delivered().await.len(), 1, "it does not come back with its person");
}

/// Runs to its end what a mock can't await.
fn at_once<T>(running: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(running))
}

/// A copy of the data that was restored from a backup does nothing that was due before its owner decided.
#[tokio::test]
async fn missed_reminders_are_listed_and_skipped() {
    let harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    let once = harness.create(reminder("7", text("tea"), "2026-12-04T13:00:00+01:00")).await;
    let daily = NewReminder { cron: Some("0 9 * * *".into()), ..reminder("8", prompt(), "2026-12-05T09:00:00+01:00") };
    let daily = harness.create(daily).await;
    harness.create(reminder("7", text("later"), "2026-12-24T18:00:00+01:00")).await;
    let (ledger, zone, now) =
        (harness.open().await, Zone::find("Europe/Berlin").unwrap(), at("2026-12-07T12:00:00+01:00"));
    let missed = list_missed_reminders(&*ledger, &zone, now).await.unwrap();
    let listed: Vec<_> = missed.iter().map(|missed| (missed.schedule.as_str(), missed.latest.as_str())).collect();
    let (first, second) = (format!("reminder {once} in telegram:7"), format!("reminder {daily} in telegram:7"));
    let expected = [
        (first.as_str(), "Friday 2026-12-04 at 13:00 (Europe/Berlin)"),
        (second.as_str(), "Saturday 2026-12-05 at 09:00 (Europe/Berlin)"),
    ];
    assert_eq!(listed, expected);
    skip_missed_reminders(&*ledger, &zone, now).await.unwrap();
    assert_eq!(list_missed_reminders(&*ledger, &zone, now).await.unwrap(), []);
    harness.clock.advance(Duration::from_secs(4 * 24 * 60 * 60));
    harness.look().await;
    assert_eq!(harness.prompts_due().await, ["Tuesday 2026-12-08 at 09:00 (Europe/Berlin)"], "the daily one goes on");
    assert_eq!(harness.delivered().await.len(), 1, "nothing else was delivered");
}

/// The attack: a child in a thread of the children's channel lets the agent that may do everything answer later.
#[tokio::test]
async fn reminder_in_a_thread_of_a_locked_channel_is_answered_by_its_agent() {
    let mut harness = ReminderHarness::new("2026-12-03T10:00:00+01:00").await;
    harness.create(reminder("7", prompt(), "2026-12-03T09:59:00+01:00")).await;
    let parent = harness.parent.take();
    assert!(run_due(&harness.process(None).await).await.is_err(), "nobody knows who answers there");
    assert_eq!(harness.delivered().await, []);
    harness.parent = parent;
    harness.look().await;
    let query = TurnQuery { conversation: CONVERSATION.parse().unwrap(), before: None, limit: 100 };
    let turns = harness.open().await.turns(&query).await.unwrap();
    let mut messages = turns.iter().flat_map(|turn| &turn.messages).map(|queued| &queued.message);
    let due = messages.find(|message| message.system_task.is_some()).expect("it is delivered");
    assert_eq!(agents().current(&AgentChat::from_message(due), Some("default")).name, "kids");
}

/// Catches: reminders that never come, as there are a hundred older ones of a platform that is away.
#[tokio::test]
async fn channel_that_cannot_be_reached_holds_up_no_other_ones_reminders() {
    let mut harness = ReminderHarness::new("2026-12-04T12:00:00+01:00").await;
    harness.unreachable = Some(ChannelName::new("discord").unwrap());
    let ledger = harness.open().await;
    let away: ConversationId = "discord:7".parse().unwrap();
    let first = InboundMessage::new(away.clone(), "first".into(), Sender::new("7", "Ada"));
    ledger.receive(&first, ClaimMode::Never).await.unwrap();
    let limits = ReminderLimits { per_person: 2 * BATCH, per_turn: 2 * BATCH };
    for number in 0..=BATCH {
        let older = reminder("7", text("tea"), "2026-12-04T11:00:00+01:00");
        let older = NewReminder { key: format!("away {number}"), conversation: away.clone(), ..older };
        let outcome = ledger.create_reminder(&older, &limits).await.unwrap();
        assert!(matches!(outcome, CreateReminderOutcome::Created(_)), "{outcome:?}");
    }
    let newer = reminder("8", text("coffee"), "2026-12-04T11:59:00+01:00");
    let outcome = ledger.create_reminder(&newer, &limits).await.unwrap();
    assert!(matches!(outcome, CreateReminderOutcome::Created(_)), "{outcome:?}");
    let stop = CancellationToken::new();
    let running = tokio::spawn(harness.process(None).await.run(stop.clone()));
    wait_until_async("the one of the other channel is delivered", async || harness.delivered().await.len() == 1).await;
    stop.cancel();
    running.await.unwrap();
}
