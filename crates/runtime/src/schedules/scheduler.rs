//! The loop that waits for due runs and stores their messages.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    sync::Arc,
    time::Duration,
};

use satchel_calendar::cron::DueTimes;
use satchel_domain::{ChannelName, Timestamp, error_chain};
use satchel_intake::InternalInbound;
use satchel_ports::{Clock, InboundError, Inbox, LedgerError};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Schedule, progress::ScheduleProgress};

/// How long it sleeps at most: the clock may be set, and the machine may be suspended.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The delay after the first failure of the ledger; doubled each time, up to [`POLL_INTERVAL`].
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long it sleeps at least while the clock does not advance.
const MIN_POLL_DELAY: Duration = Duration::from_millis(100);

pub struct Scheduler {
    schedules: Vec<ScheduleState>,
    /// Read as the wall clock, which may go back. [`Clock::now`] never does: once the machine's clock was days ahead,
    /// nothing would be due for days.
    clock: Arc<dyn Clock>,
    /// The latest time that the clock has shown.
    latest_clock: Timestamp,
    /// The checkpoint in the ledger.
    stored: ScheduleCheckpoint,
}

/// Why a run or the progress could not be stored.
#[derive(Debug, thiserror::Error)]
enum StoreRunError {
    #[error(transparent)]
    Inbound(#[from] InboundError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The progress of each schedule, by its name.
pub(super) type ScheduleCheckpoint = BTreeMap<String, ScheduleProgress>;

/// A schedule and its progress.
#[derive(Debug)]
struct ScheduleState {
    schedule: Schedule,
    progress: ScheduleProgress,
    /// Due runs that are not stored yet; they are retried while the ledger fails.
    due_runs: VecDeque<Timestamp>,
    /// The latest due time.
    latest: Timestamp,
    /// The next due time.
    next: Option<Timestamp>,
}

impl Scheduler {
    /// Prepares those of the schedules that are enabled.
    #[must_use]
    pub fn new(schedules: impl IntoIterator<Item = Schedule>, clock: Arc<dyn Clock>) -> Self {
        let now = clock.wall();
        let enabled = schedules.into_iter().filter(|schedule| schedule.enabled);
        let schedules = enabled.map(|schedule| ScheduleState::new(schedule, now)).collect();
        Self { schedules, clock, latest_clock: Timestamp(0), stored: ScheduleCheckpoint::new() }
    }

    /// Stores due runs until `stop` is cancelled. The progress is stored in the ledger.
    pub async fn run(self, inbound: InternalInbound, inbox: Arc<dyn Inbox>, stop: CancellationToken) {
        // Cancelling it anywhere is as safe as a crash.
        stop.run_until_cancelled(self.run_loop(&inbound, &*inbox)).await;
    }

    async fn run_loop(mut self, inbound: &InternalInbound, inbox: &dyn Inbox) {
        let mut delay = RETRY_DELAY;
        while let Err(error) = self.load_progress(inbox).await {
            log_failure(&error, "reading the schedules' progress failed; retrying");
            sleep(delay).await;
            delay = (delay * 2).min(POLL_INTERVAL);
        }
        if self.schedules.is_empty() {
            return pending().await;
        }
        loop {
            match self.run_due(inbound, inbox).await {
                Ok(()) => {
                    delay = RETRY_DELAY;
                    sleep(self.next_delay()).await;
                }
                Err(error) => {
                    log_failure(&error, "storing a due run failed; retrying");
                    sleep(delay).await;
                    delay = (delay * 2).min(POLL_INTERVAL);
                }
            }
        }
    }

    /// Resumes from the last process. New schedules start now.
    async fn load_progress(&mut self, inbox: &dyn Inbox) -> Result<(), LedgerError> {
        let stored = inbox.load_checkpoint(&checkpoint_channel()).await?;
        self.stored = match stored.map(serde_json::from_value) {
            None => ScheduleCheckpoint::new(),
            Some(Ok(checkpoint)) => checkpoint,
            Some(Err(error)) => {
                tracing::warn!(error = %error, "the schedules' stored progress is invalid; they start from now");
                ScheduleCheckpoint::new()
            }
        };
        for state in &mut self.schedules {
            let stored = self.stored.get(&state.schedule.name);
            if let Some(progress) = stored.filter(|progress| progress.cron == state.progress.cron) {
                state.resume_from(progress.clone());
            }
        }
        self.save_progress(inbox).await
    }

    /// Stores the due runs. A schedule that fails does not stop the others.
    async fn run_due(&mut self, inbound: &InternalInbound, inbox: &dyn Inbox) -> Result<(), StoreRunError> {
        let mut result = Ok(());
        for state in &mut self.schedules {
            result = result.and(state.run_due(inbound, self.clock.wall()).await.map_err(StoreRunError::from));
        }
        // After the runs: a crash in between repeats runs that the ledger drops by their keys.
        result.and(self.save_progress(inbox).await.map_err(StoreRunError::from))
    }

    /// Saves the progress if it has changed. Schedules that are no longer configured are dropped.
    async fn save_progress(&mut self, inbox: &dyn Inbox) -> Result<(), LedgerError> {
        let progress: ScheduleCheckpoint = self.schedules.iter().map(ScheduleState::progress).collect();
        if progress != self.stored {
            inbox.save_checkpoint(&checkpoint_channel(), &json!(progress)).await?;
            self.stored = progress;
        }
        Ok(())
    }

    /// How long to sleep until something is due, or the clock is checked again.
    fn next_delay(&mut self) -> Duration {
        let now = self.clock.wall();
        let min_delay = if now > self.latest_clock { Duration::ZERO } else { MIN_POLL_DELAY };
        self.latest_clock = self.latest_clock.max(now);
        let next = self.schedules.iter().filter_map(|state| state.next).min();
        next.map_or(POLL_INTERVAL, |next| next.saturating_duration_since(now)).clamp(min_delay, POLL_INTERVAL)
    }
}

impl ScheduleState {
    /// A schedule that starts now.
    fn new(schedule: Schedule, now: Timestamp) -> Self {
        let progress = ScheduleProgress::new(schedule.cron.to_string(), now);
        let next = schedule.cron.next(now);
        Self { schedule, progress, due_runs: VecDeque::new(), latest: now, next }
    }

    fn progress(&self) -> (String, ScheduleProgress) {
        (self.schedule.name.clone(), self.progress.clone())
    }

    fn resume_from(&mut self, progress: ScheduleProgress) {
        self.next = self.schedule.cron.next(progress.done);
        self.progress = progress;
    }

    fn mark_done(&mut self, done: Timestamp) {
        self.progress.advance_to(done);
        self.next = self.schedule.cron.next(self.progress.done);
    }

    async fn run_due(&mut self, inbound: &InternalInbound, now: Timestamp) -> Result<(), InboundError> {
        let mut progress = self.progress.clone();
        if progress.on_clock(now) {
            tracing::warn!(schedule = self.schedule.name, "the clock went back by days; the schedule starts from now");
        }
        if progress != self.progress {
            self.resume_from(progress);
        }
        if self.due_runs.is_empty() && self.next.is_some_and(|next| next <= now) {
            self.collect_due(now);
        }
        while let Some(due) = self.due_runs.front().copied() {
            inbound.accept(self.schedule.system_task(due), self.schedule.inbound_message(due)).await?;
            self.due_runs.pop_front();
            self.mark_done(if self.due_runs.is_empty() { self.latest } else { due });
        }
        Ok(())
    }

    /// Collects the due runs, and logs missed ones.
    fn collect_due(&mut self, now: Timestamp) {
        let Schedule { name, cron, missed, .. } = &self.schedule;
        let Some(DueTimes { run, latest }) = cron.due_between(self.progress.done, now, *missed) else { return };
        if now.saturating_duration_since(latest) > POLL_INTERVAL {
            let (due, runs) = (cron.format_local(latest), run.len());
            tracing::info!(
                schedule = name,
                due,
                runs,
                "a scheduled run was missed; the setting `missed` decides whether it runs now"
            );
        }
        self.latest = latest;
        self.due_runs.extend(run);
        if self.due_runs.is_empty() {
            self.mark_done(latest);
        }
    }
}

pub(super) fn log_failure(error: &(dyn std::error::Error + 'static), message: &str) {
    tracing::warn!(error = error_chain(error), "{message}");
}

/// The name of the checkpoint in the ledger: schedules are a source of messages, like a channel.
pub(super) fn checkpoint_channel() -> ChannelName {
    ChannelName::new("schedules").expect("it is made of small letters")
}

#[cfg(test)]
mod tests;
