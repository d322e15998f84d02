//! The loop that waits for what is due and brings it in.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    sync::Arc,
    time::Duration,
};

use satchel_domain::{ChannelName, Timestamp};
use satchel_intake::InternalInbound;
use satchel_ports::Ledger;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Schedule, cron::DueTimes, progress::ScheduleProgress};
use crate::config::Config;

/// How long it sleeps at most: the clock may be set, and the machine may sleep too.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How soon the ledger is asked again after it failed; twice as late each time, up to [`LOOK`].
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long it sleeps at least while the clock shows no more than it has shown before: such a clock may stand still.
const CATCHING_UP: Duration = Duration::from_millis(100);

/// What shows the time on the wall, which may go back. The ledger's never does: once it was days ahead nothing would be
/// due for days.
pub type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Everything that happens at a time of its own.
pub struct Scheduler {
    all: Vec<ScheduleState>,
    clock: WallClock,
    /// The latest that the clock has shown.
    shown: Timestamp,
    /// What the ledger has as the bookmark.
    kept: ScheduleCheckpoint,
}

/// How far each schedule has come, by its name.
type ScheduleCheckpoint = BTreeMap<String, ScheduleProgress>;

/// A schedule, and how far it has come.
#[derive(Debug)]
struct ScheduleState {
    schedule: Schedule,
    progress: ScheduleProgress,
    /// What has come and is not stored yet: it is not lost when the ledger fails, however late it gets by that.
    come: VecDeque<Timestamp>,
    /// The last time that has come.
    reached: Timestamp,
    /// When it is due next.
    next: Option<Timestamp>,
}

/// Prepares everything that is configured and not switched off.
#[must_use]
pub fn open(config: &Config) -> Scheduler {
    let enabled = config.schedules.iter().filter(|schedule| schedule.enabled);
    Scheduler::new(enabled.cloned(), wall_clock())
}

impl Scheduler {
    pub(crate) fn new(schedules: impl IntoIterator<Item = Schedule>, clock: WallClock) -> Self {
        let now = clock();
        let all = schedules.into_iter().map(|schedule| ScheduleState::new(schedule, now)).collect();
        Self { all, clock, shown: Timestamp(0), kept: ScheduleCheckpoint::new() }
    }

    /// Brings in whatever is due, until `stop` is cancelled. How far that has come is kept in the ledger.
    pub async fn run(self, door: InternalInbound, ledger: Arc<dyn Ledger>, stop: CancellationToken) {
        // To be cut off anywhere does no harm: that is what being killed is.
        stop.run_until_cancelled(self.run_loop(&door, &*ledger)).await;
    }

    async fn run_loop(mut self, door: &InternalInbound, ledger: &dyn Ledger) {
        let mut again = RETRY_DELAY;
        while let Err(error) = self.load_progress(ledger).await {
            log_failure(&error, "reading the schedules' progress failed; retrying");
            sleep(again).await;
            again = (again * 2).min(POLL_INTERVAL);
        }
        if self.all.is_empty() {
            return pending().await;
        }
        loop {
            match self.step(door, ledger).await {
                Ok(()) => {
                    again = RETRY_DELAY;
                    sleep(self.pause()).await;
                }
                Err(error) => {
                    log_failure(&error, "storing a due run failed; retrying");
                    sleep(again).await;
                    again = (again * 2).min(POLL_INTERVAL);
                }
            }
        }
    }

    /// Takes up where the last process was. What was never seen begins now.
    async fn load_progress(&mut self, ledger: &dyn Ledger) -> anyhow::Result<()> {
        let kept = ledger.load_checkpoint(&source()).await?;
        self.kept = match kept.map(serde_json::from_value) {
            None => ScheduleCheckpoint::new(),
            Some(Ok(kept)) => kept,
            Some(Err(error)) => {
                tracing::warn!(error = %error, "the schedules' stored progress is invalid; they start from now");
                ScheduleCheckpoint::new()
            }
        };
        for waiting in &mut self.all {
            let kept = self.kept.get(&waiting.schedule.name);
            if let Some(progress) = kept.filter(|progress| progress.rhythm == waiting.progress.rhythm) {
                waiting.go_on_from(progress.clone());
            }
        }
        self.save_progress(ledger).await
    }

    /// Brings in what has come. One schedule that fails keeps no other from its time.
    async fn step(&mut self, door: &InternalInbound, ledger: &dyn Ledger) -> anyhow::Result<()> {
        let mut stepped = Ok(());
        for waiting in &mut self.all {
            stepped = stepped.and(waiting.step(door, (self.clock)()).await);
        }
        // Only now: a kill between the two repeats what the ledger knows already.
        stepped.and(self.save_progress(ledger).await)
    }

    /// Keeps how far all have come, if that is news. Who is not configured any more is forgotten.
    async fn save_progress(&mut self, ledger: &dyn Ledger) -> anyhow::Result<()> {
        let progress: ScheduleCheckpoint = self.all.iter().map(ScheduleState::progress).collect();
        if progress != self.kept {
            ledger.save_checkpoint(&source(), &json!(progress)).await?;
            self.kept = progress;
        }
        Ok(())
    }

    /// How long to sleep until something is due, or the clock is looked at again.
    fn pause(&mut self) -> Duration {
        let now = (self.clock)();
        let least = if now > self.shown { Duration::ZERO } else { CATCHING_UP };
        self.shown = self.shown.max(now);
        let next = self.all.iter().filter_map(|waiting| waiting.next).min();
        next.map_or(POLL_INTERVAL, |next| next.saturating_duration_since(now)).clamp(least, POLL_INTERVAL)
    }
}

impl ScheduleState {
    /// A schedule that begins now.
    fn new(schedule: Schedule, now: Timestamp) -> Self {
        let progress = ScheduleProgress::new(schedule.rhythm.to_string(), now);
        let next = schedule.rhythm.next(now);
        Self { schedule, progress, come: VecDeque::new(), reached: now, next }
    }

    fn progress(&self) -> (String, ScheduleProgress) {
        (self.schedule.name.clone(), self.progress.clone())
    }

    fn go_on_from(&mut self, progress: ScheduleProgress) {
        self.next = self.schedule.rhythm.next(progress.done);
        self.progress = progress;
    }

    fn done_until(&mut self, done: Timestamp) {
        self.progress.reach(done);
        self.next = self.schedule.rhythm.next(self.progress.done);
    }

    async fn step(&mut self, door: &InternalInbound, now: Timestamp) -> anyhow::Result<()> {
        let mut progress = self.progress.clone();
        if progress.on_clock(now) {
            tracing::warn!(schedule = self.schedule.name, "the clock went back by days; the schedule starts from now");
        }
        if progress != self.progress {
            self.go_on_from(progress);
        }
        if self.come.is_empty() && self.next.is_some_and(|next| next <= now) {
            self.notice(now);
        }
        while let Some(due) = self.come.front().copied() {
            door.accept(self.schedule.system_task(due), self.schedule.message(due)).await?;
            self.come.pop_front();
            self.done_until(if self.come.is_empty() { self.reached } else { due });
        }
        Ok(())
    }

    /// Notes what has come, and says so where it was missed.
    fn notice(&mut self, now: Timestamp) {
        let Schedule { name, rhythm, missed, .. } = &self.schedule;
        let Some(DueTimes { run, reached }) = rhythm.due_between(self.progress.done, now, *missed) else { return };
        if now.saturating_duration_since(reached) > POLL_INTERVAL {
            let (due, runs) = (rhythm.format_local(reached), run.len());
            tracing::info!(
                schedule = name,
                due,
                runs,
                "a scheduled run was missed; the setting `missed` decides whether it runs now"
            );
        }
        self.reached = reached;
        self.come.extend(run);
        if self.come.is_empty() {
            self.done_until(reached);
        }
    }
}

fn wall_clock() -> WallClock {
    Arc::new(|| Timestamp(jiff::Timestamp::now().as_millisecond()))
}

fn log_failure(error: &anyhow::Error, what: &str) {
    tracing::warn!(error = format!("{error:#}"), "{what}");
}

/// The name under which the ledger keeps how far the schedules have come: they are a source as a channel is.
fn source() -> ChannelName {
    ChannelName::new("schedules").expect("it is made of small letters")
}

#[cfg(test)]
mod tests;
