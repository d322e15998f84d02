//! The loop on a real ledger, by a clock that is set: killed, failing, late, beside others, and with a clock that jumps.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use futures::StreamExt;
use jiff::tz::TimeZone;
use satchel_calendar::cron::{CronSchedule, MissedPolicy};
use satchel_domain::{InboundMessage, SystemTask};
use satchel_intake::InboundService;
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, BusEvent, EventBus, Ledger, LedgerError, ManualClock, MockLedger, MockWorkspace,
    ledger::{ClaimedLane, TurnQuery},
};
use satchel_wait::wait_until_async;
use tempfile::TempDir;
use tokio::{runtime::Handle, sync::mpsc, task::block_in_place, time::timeout};

use super::*;

/// A conversation on a disk, and the clock on the wall.
struct Stage {
    directory: TempDir,
    clock: Arc<ManualClock>,
    bus: Arc<LocalBus>,
}

/// What a process calls its ledger: a real one that fails where it is told to.
struct Process {
    ledger: Ledger,
    inbound: InternalInbound,
    /// The lanes that nobody works on here.
    claimed: mpsc::Receiver<ClaimedLane>,
    real: Arc<SqliteLedger>,
    /// The verb that fails; of `receive` only for keys that hold the second word.
    trouble: Arc<Mutex<Option<(&'static str, &'static str)>>>,
}

impl Stage {
    /// It is eight o'clock and a second.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(at("2026-11-02T08:00:01Z")));
        Self { directory: tempfile::tempdir().unwrap(), clock, bus: Arc::default() }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    fn set(&self, moment: &str) {
        self.clock.set(at(moment));
    }

    async fn process(&self) -> Process {
        let real = Arc::new(
            SqliteLedger::open(
                self.directory.path(),
                Settings::default(),
                Arc::new(SystemClock::new()),
                Arc::new(UuidV7),
            )
            .await
            .unwrap(),
        );
        let trouble = Arc::new(Mutex::new(None));
        let fails = {
            let trouble = Arc::clone(&trouble);
            move |verb: &str, about: &str| {
                let trouble: Option<(&str, &str)> = *trouble.lock().unwrap();
                trouble.is_some_and(|(failing, word)| failing == verb && about.contains(word))
            }
        };
        let mut ledger = MockLedger::default();
        let (inner, failing) = (Arc::clone(&real), fails.clone());
        ledger.inbox.expect_receive().returning(move |message, claim| match failing("receive", &message.key) {
            true => Err(LedgerError::Full),
            false => at_once(inner.receive(message, claim)),
        });
        let (inner, failing) = (Arc::clone(&real), fails.clone());
        ledger.inbox.expect_load_checkpoint().returning(move |channel| match failing("load_checkpoint", "") {
            true => Err(LedgerError::Full),
            false => at_once(inner.load_checkpoint(channel)),
        });
        let (inner, failing) = (Arc::clone(&real), fails);
        ledger.inbox.expect_save_checkpoint().returning(move |channel, checkpoint| {
            match failing("save_checkpoint", "") {
                true => Err(LedgerError::Full),
                false => at_once(inner.save_checkpoint(channel, checkpoint)),
            }
        });
        let ledger = Ledger::from(ledger);
        let (inbound, claimed) = self.inbound(&ledger);
        Process { ledger, inbound, claimed, real, trouble }
    }

    /// What stores messages in a ledger, and the lanes that it claims.
    fn inbound(&self, ledger: &Ledger) -> (InternalInbound, mpsc::Receiver<ClaimedLane>) {
        let (lanes, claimed) = mpsc::channel(64);
        let (bus, workspace) = (Arc::clone(&self.bus) as _, Arc::new(MockWorkspace::new()));
        (
            InboundService::new(ledger, self.clock(), bus, lanes, Arc::default(), workspace, None).internal_inbound(),
            claimed,
        )
    }

    /// A process that has begun and looked once.
    async fn started(&self, schedules: &[Schedule]) -> (Process, Scheduler) {
        let process = self.process().await;
        let mut schedules = Scheduler::new(schedules.iter().cloned(), self.clock());
        schedules.load_progress(&*process.ledger.inbox).await.unwrap();
        self.look(&mut schedules, &process).await.unwrap();
        (process, schedules)
    }

    async fn look(&self, schedules: &mut Scheduler, process: &Process) -> Result<(), StoreRunError> {
        schedules.run_due(&process.inbound, &*process.ledger.inbox).await
    }

    /// When what came in was due, by the names of the schedules.
    async fn runs(&self, name: &str) -> Vec<String> {
        let ledger = SqliteLedger::open(
            self.directory.path(),
            Settings::default(),
            Arc::new(SystemClock::new()),
            Arc::new(UuidV7),
        )
        .await
        .unwrap();
        let all = TurnQuery { conversation: "telegram:7".parse().unwrap(), before: None, limit: 100 };
        let turns = ledger.turns(&all).await.unwrap();
        let due = |message: InboundMessage| match message.system_task {
            Some(SystemTask::RunSchedule { name: whose, due }) if whose == name => Some(due[8..].replace(" UTC", "")),
            _ => None,
        };
        turns.into_iter().flat_map(|turn| turn.messages).filter_map(|queued| due(queued.message)).collect()
    }
}

impl Process {
    fn fails(&self, verb: &'static str, about: &'static str) {
        *self.trouble.lock().unwrap() = Some((verb, about));
    }

    fn works(&self) {
        *self.trouble.lock().unwrap() = None;
    }

    async fn checkpoint(&self) -> serde_json::Value {
        self.real.load_checkpoint(&checkpoint_channel()).await.unwrap().unwrap_or_default()
    }
}

/// On a thread of its own: one that waits for two things takes the call that wakes it for the other.
fn at_once<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let runtime = Handle::current();
    block_in_place(|| thread::scope(|scope| scope.spawn(move || runtime.block_on(work)).join().unwrap()))
}

fn at(moment: &str) -> Timestamp {
    Timestamp(moment.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn schedule(name: &str, cron: &str, missed: MissedPolicy) -> Schedule {
    Schedule {
        name: name.to_owned(),
        cron: CronSchedule::parse(cron, TimeZone::UTC).unwrap(),
        text: format!("do {name}"),
        conversation: "telegram:7".parse().unwrap(),
        missed,
        enabled: true,
    }
}

fn daily(name: &str) -> Schedule {
    schedule(name, "0 8 * * *", MissedPolicy::RunOnce)
}

#[tokio::test(flavor = "multi_thread")]
async fn due_run_is_received_once_and_wakes_worker() {
    let stage = Stage::new();
    let disabled = Schedule { enabled: false, ..daily("disabled") };
    let (mut process, mut schedules) = stage.started(&[daily("report"), disabled]).await;
    let mut events = stage.bus.subscribe().await.unwrap();
    assert_eq!(stage.runs("report").await, Vec::<String>::new(), "what was never seen makes up for nothing");
    stage.set("2026-11-03T07:59:59Z");
    assert_eq!(schedules.next_delay(), Duration::from_secs(1));
    stage.look(&mut schedules, &process).await.unwrap();
    stage.set("2026-11-03T08:00:00Z");
    for _ in 0..3 {
        stage.look(&mut schedules, &process).await.unwrap();
    }
    assert_eq!(stage.runs("report").await, ["03 08:00"]);
    assert_eq!(stage.runs("disabled").await, Vec::<String>::new());
    let all = TurnQuery { conversation: "telegram:7".parse().unwrap(), before: None, limit: 9 };
    let turn = process.real.turns(&all).await.unwrap().remove(0);
    let event = timeout(Duration::from_secs(5), events.next()).await.expect("nobody woke");
    let Some(BusEvent::MessageReceived { conversation, turn: woken }) = event else { panic!("{event:?}") };
    assert_eq!((conversation, woken), ("telegram:7".parse().unwrap(), turn.id));
    let handed_over = process.claimed.try_recv().unwrap().turn;
    assert_eq!(handed_over.map(|turn| turn.id), Some(turn.id), "its lane is claimed with it");
    let message = &turn.messages[0].message;
    assert_eq!(message.key, format!("satchel:schedule:report:{}", at("2026-11-03T08:00:00Z").0));
    assert_eq!((message.text.as_str(), message.sender.id.as_str()), ("do report", "satchel"));
    assert!(message.group, "what is privileged would be allowed as if its owner were alone");
    let due = SystemTask::RunSchedule { name: "report".into(), due: "2026-11-03 08:00 UTC".into() };
    assert_eq!(message.system_task, Some(due));
}

/// The mutation: the checkpoint is saved first, or the key is made of something else than the time.
#[tokio::test(flavor = "multi_thread")]
async fn kill_between_message_and_checkpoint_runs_exactly_once() {
    for missed in [MissedPolicy::RunOnce, MissedPolicy::RunAll] {
        for killed_at in ["receive", "save_checkpoint"] {
            let stage = Stage::new();
            let report = schedule("report", "0 8 * * *", missed);
            let (process, mut schedules) = stage.started(std::slice::from_ref(&report)).await;
            stage.set("2026-11-03T08:00:00Z");
            process.fails(killed_at, "");
            assert!(stage.look(&mut schedules, &process).await.is_err());
            drop((schedules, process));
            stage.set("2026-11-03T08:00:20Z");
            for _ in 0..2 {
                drop(stage.started(std::slice::from_ref(&report)).await);
                assert_eq!(stage.runs("report").await, ["03 08:00"], "{missed:?}, killed at {killed_at}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_runs_during_downtime_follow_their_policy() {
    let stage = Stage::new();
    let all = [
        schedule("once", "0 8 * * *", MissedPolicy::RunOnce),
        schedule("skip", "0 8 * * *", MissedPolicy::Skip),
        schedule("all", "0 8 * * *", MissedPolicy::RunAll),
        schedule("flood", "* * * * *", MissedPolicy::RunAll),
    ];
    drop(stage.started(&all).await);
    stage.set("2026-11-05T12:00:10Z");
    let (process, mut schedules) = stage.started(&all).await;
    assert_eq!(stage.runs("once").await, ["05 08:00"]);
    assert_eq!(stage.runs("skip").await, Vec::<String>::new());
    assert_eq!(stage.runs("all").await, ["03 08:00", "04 08:00", "05 08:00"]);
    let flood = stage.runs("flood").await;
    assert_eq!((flood.len(), flood[0].as_str(), flood[23].as_str()), (24, "05 11:37", "05 12:00"));
    // From here on all of them are on time, and what was forgotten stays forgotten.
    stage.set("2026-11-06T08:00:00Z");
    stage.look(&mut schedules, &process).await.unwrap();
    for name in ["once", "skip", "all"] {
        assert_eq!(stage.runs(name).await.last().map(String::as_str), Some("06 08:00"), "{name}");
    }
    assert_eq!(stage.runs("skip").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_at_once_make_one_run() {
    let stage = Stage::new();
    let schedules = [daily("report"), schedule("all", "*/10 * * * *", MissedPolicy::RunAll)];
    let (one, mut first) = stage.started(&schedules).await;
    let (other, mut second) = stage.started(&schedules).await;
    for hour in ["08", "09", "10"] {
        stage.set(&format!("2026-11-03T{hour}:00:00Z"));
        let (looked, looked_too) = tokio::join!(stage.look(&mut first, &one), stage.look(&mut second, &other));
        assert!(looked.is_ok() && looked_too.is_ok());
    }
    assert_eq!(stage.runs("report").await, ["03 08:00"]);
    let all = stage.runs("all").await;
    assert_eq!(all.len(), 24 + 12, "{all:?}");
}

/// The attack: the disk is full for ten minutes, and the schedule doesn't want what was missed.
#[tokio::test(flavor = "multi_thread")]
async fn failing_ledger_delays_runs_but_loses_none() {
    let stage = Stage::new();
    let all = [schedule("sick", "0 8 * * *", MissedPolicy::Skip), schedule("well", "0 8 * * *", MissedPolicy::Skip)];
    let (process, mut schedules) = stage.started(&all).await;
    stage.set("2026-11-03T08:00:00Z");
    process.fails("receive", "sick");
    assert!(stage.look(&mut schedules, &process).await.is_err());
    assert_eq!(stage.runs("well").await, ["03 08:00"], "one that fails keeps no other from its time");
    stage.set("2026-11-03T08:10:00Z");
    process.works();
    stage.look(&mut schedules, &process).await.unwrap();
    assert_eq!(stage.runs("sick").await, ["03 08:00"]);
    assert_eq!(stage.runs("well").await, ["03 08:00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn backward_clock_repeats_nothing_future_clock_blocks_nothing() {
    let stage = Stage::new();
    let hourly = [schedule("report", "0 * * * *", MissedPolicy::RunOnce)];
    let (process, mut schedules) = stage.started(&hourly).await;
    for moment in ["2026-11-03T12:00:00Z", "2026-11-03T09:30:00Z", "2026-11-03T12:00:00Z", "2026-11-03T12:59:59Z"] {
        stage.set(moment);
        stage.look(&mut schedules, &process).await.unwrap();
    }
    assert_eq!(stage.runs("report").await, ["03 12:00"]);
    stage.set("2099-01-01T00:00:00Z");
    stage.look(&mut schedules, &process).await.unwrap();
    drop((schedules, process));
    stage.set("2026-11-03T13:30:00Z");
    let (process, mut schedules) = stage.started(&hourly).await;
    stage.set("2026-11-03T14:00:00Z");
    stage.look(&mut schedules, &process).await.unwrap();
    assert_eq!(stage.runs("report").await, ["03 12:00", "01 00:00", "03 14:00"]);
}

/// The ledger's clock never goes back, so whatever went by it would stand still until a new start, or for years.
#[tokio::test(flavor = "multi_thread")]
async fn schedules_follow_corrected_clock_while_running() {
    let stage = Stage::new();
    let (process, mut schedules) = stage.started(&[schedule("report", "0 * * * *", MissedPolicy::RunOnce)]).await;
    stage.set("2099-01-01T00:00:00Z");
    stage.look(&mut schedules, &process).await.unwrap();
    for moment in ["2026-11-03T13:30:00Z", "2026-11-03T14:00:00Z", "2026-11-03T15:00:00Z"] {
        stage.set(moment);
        stage.look(&mut schedules, &process).await.unwrap();
    }
    assert_eq!(stage.runs("report").await, ["01 00:00", "03 14:00", "03 15:00"]);
}

/// The machine has no battery for its clock: it starts years behind and is set right a little later. What was due
/// before the schedule was there, or was dealt with, is not made up for.
#[tokio::test(flavor = "multi_thread")]
async fn machine_starting_years_behind_repeats_no_handled_runs() {
    for starts in [1, 2] {
        let stage = Stage::new();
        let all = [
            schedule("early", "0 7 * * *", MissedPolicy::RunAll),
            schedule("late", "0 9 * * *", MissedPolicy::RunOnce),
        ];
        drop(stage.started(&all).await);
        stage.set("2019-01-01T06:59:00Z");
        for _ in 1..starts {
            drop(stage.started(&all).await);
        }
        let (process, mut schedules) = stage.started(&all).await;
        stage.set("2019-01-01T07:00:00Z");
        stage.look(&mut schedules, &process).await.unwrap();
        stage.set("2026-11-02T08:30:00Z");
        stage.look(&mut schedules, &process).await.unwrap();
        assert_eq!(stage.runs("early").await, ["01 07:00"], "by the wrong clock, and nothing since");
        assert_eq!(stage.runs("late").await, Vec::<String>::new());
        stage.set("2026-11-03T10:00:00Z");
        stage.look(&mut schedules, &process).await.unwrap();
        assert_eq!(stage.runs("early").await, ["01 07:00", "03 07:00"]);
        assert_eq!(stage.runs("late").await, ["03 09:00"], "what is missed from then on is made up for");
    }
}

/// Counts how often it is read.
#[derive(Debug)]
struct CountingClock {
    clock: Arc<dyn Clock>,
    looks: Arc<AtomicUsize>,
}

impl Clock for CountingClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.clock.wall()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_clock_before_due_time_does_not_spin() {
    let stage = Stage::new();
    stage.set("2026-11-03T07:59:59.999Z");
    let looks = Arc::new(AtomicUsize::new(0));
    let clock = Arc::new(CountingClock { clock: stage.clock(), looks: Arc::clone(&looks) });
    let Process { ledger, inbound, .. } = stage.process().await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(Scheduler::new([daily("report")], clock).run(inbound, ledger.inbox, stop.clone()));
    // A loop that spins shows by how often it looks in a time.
    sleep(Duration::from_secs(1)).await;
    let looked = looks.load(Ordering::SeqCst);
    assert!(looked < 40, "{looked} times in a second");
    stage.set("2026-11-03T08:00:00Z");
    wait_until_async("it comes", async || !stage.runs("report").await.is_empty()).await;
    stop.cancel();
    timeout(Duration::from_secs(5), running).await.expect("it does not stop").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_schedule_is_forgotten_and_changed_one_restarts() {
    let stage = Stage::new();
    drop(stage.started(&[daily("kept"), daily("gone"), daily("changed")]).await);
    stage.set("2026-11-05T12:00:00Z");
    let changed = schedule("changed", "0 9 * * *", MissedPolicy::RunAll);
    let (process, _) = stage.started(&[daily("kept"), changed]).await;
    let checkpoint = process.checkpoint().await;
    let names: Vec<&String> = checkpoint.as_object().unwrap().keys().collect();
    assert_eq!(names, ["changed", "kept"]);
    assert_eq!(checkpoint["kept"]["done"], at("2026-11-05T08:00:00Z").0);
    assert_eq!(stage.runs("kept").await, ["05 08:00"]);
    assert_eq!(stage.runs("changed").await, Vec::<String>::new(), "of nine o'clock nothing was missed");
    stage.set("2026-11-06T12:00:00Z");
    let (process, _) = stage.started(&[daily("gone")]).await;
    assert_eq!(stage.runs("gone").await, Vec::<String>::new());
    drop(stage.started(&[]).await);
    assert_eq!(process.checkpoint().await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_checkpoint_stops_nothing() {
    let stage = Stage::new();
    stage.process().await.real.save_checkpoint(&checkpoint_channel(), &json!([1])).await.unwrap();
    let (process, _) = stage.started(&[daily("report")]).await;
    assert_eq!(process.checkpoint().await["report"]["done"], at("2026-11-02T08:00:01Z").0);
}

#[tokio::test(flavor = "multi_thread")]
async fn loop_survives_failed_start_fires_and_stops() {
    let stage = Stage::new();
    let Process { real, .. } = stage.process().await;
    let mut ledger = MockLedger::default();
    let mut answers = [Err(LedgerError::Full), Ok(None)].into_iter();
    ledger.inbox.expect_load_checkpoint().times(2).returning(move |_| answers.next().expect("it is asked twice"));
    ledger.inbox.expect_save_checkpoint().returning(|_, _| Ok(()));
    ledger.inbox.expect_receive().returning(move |message, claim| at_once(real.receive(message, claim)));
    let stop = CancellationToken::new();
    let schedules =
        Scheduler::new([schedule("tick", "* * * * * *", MissedPolicy::RunOnce)], Arc::new(SystemClock::new()));
    let mut events = stage.bus.subscribe().await.unwrap();
    let ledger = Ledger::from(ledger);
    let (inbound, _claimed) = stage.inbound(&ledger);
    let running = tokio::spawn(schedules.run(inbound, ledger.inbox, stop.clone()));
    for _ in 0..2 {
        let event = timeout(Duration::from_secs(20), events.next()).await.expect("nothing comes");
        assert!(matches!(event, Some(BusEvent::MessageReceived { .. })), "{event:?}");
    }
    stop.cancel();
    timeout(Duration::from_secs(5), running).await.expect("it does not stop").unwrap();
}

/// Whatever of a process ends unasked takes the rest along.
#[tokio::test(flavor = "multi_thread")]
async fn empty_schedules_clear_checkpoint_and_wait_for_stop() {
    let stage = Stage::new();
    drop(stage.started(&[daily("gone")]).await);
    let Process { ledger, inbound, real, .. } = stage.process().await;
    let stop = CancellationToken::new();
    let mut running = tokio::spawn(Scheduler::new([], stage.clock()).run(inbound, ledger.inbox, stop.clone()));
    assert!(timeout(Duration::from_millis(300), &mut running).await.is_err(), "it ended by itself");
    assert_eq!(real.load_checkpoint(&checkpoint_channel()).await.unwrap(), Some(json!({})));
    stop.cancel();
    timeout(Duration::from_secs(5), running).await.expect("it does not stop").unwrap();
}
