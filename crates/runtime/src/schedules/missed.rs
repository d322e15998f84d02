//! The runs that fell due since the stored progress: listed, and skipped where nobody wants them.

use satchel_domain::Timestamp;
use satchel_ports::{Inbox, LedgerError};
use serde_json::json;

use super::{
    Schedule,
    scheduler::{ScheduleCheckpoint, checkpoint_channel},
};

/// A schedule or a reminder that fell due, and would run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedRun {
    /// The name of the schedule, or which reminder it is.
    pub schedule: String,
    /// How often it would run.
    pub runs: usize,
    /// The latest due time, in the zone of the schedule.
    pub latest: String,
}

/// Lists the schedules that fell due since their stored progress and would run now.
///
/// # Errors
/// When the ledger fails.
pub async fn list_missed(
    schedules: &[Schedule],
    inbox: &dyn Inbox,
    now: Timestamp,
) -> Result<Vec<MissedRun>, LedgerError> {
    let stored = load(inbox).await?;
    let missed = schedules.iter().filter(|schedule| schedule.enabled).filter_map(|schedule| {
        let progress = stored.get(&schedule.name).filter(|progress| progress.cron == schedule.cron.to_string())?;
        let due = schedule.cron.due_between(progress.done, now, schedule.missed)?;
        let latest = schedule.cron.format_local(due.latest);
        Some(MissedRun { schedule: schedule.name.clone(), runs: due.run.len(), latest })
            .filter(|missed| missed.runs > 0)
    });
    Ok(missed.collect())
}

/// Settles all due times up to now, without a run.
///
/// # Errors
/// When the ledger fails.
pub async fn skip_missed(inbox: &dyn Inbox, now: Timestamp) -> Result<(), LedgerError> {
    let mut stored = load(inbox).await?;
    if stored.is_empty() {
        return Ok(());
    }
    stored.values_mut().for_each(|progress| progress.advance_to(now));
    inbox.save_checkpoint(&checkpoint_channel(), &json!(stored)).await
}

/// What can't be read counts as none, as at a start.
async fn load(inbox: &dyn Inbox) -> Result<ScheduleCheckpoint, LedgerError> {
    let stored = inbox.load_checkpoint(&checkpoint_channel()).await?;
    Ok(stored.and_then(|stored| serde_json::from_value(stored).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use satchel_ports::ledger::MockInbox;

    use super::*;
    use satchel_calendar::cron::{CronSchedule, MissedPolicy};

    const DAY: i64 = 24 * 60 * 60 * 1_000;

    fn schedule(name: &str, missed: MissedPolicy) -> Schedule {
        let cron = CronSchedule::parse("0 0 * * *", TimeZone::UTC).unwrap();
        let conversation = "web:a".parse().unwrap();
        Schedule { name: name.to_owned(), cron, text: "hi".to_owned(), conversation, missed, enabled: true }
    }

    fn inbox(done: i64) -> MockInbox {
        let mut inbox = MockInbox::new();
        let cron = schedule("once", MissedPolicy::RunOnce).cron.to_string();
        let progress = json!({ "rhythm": cron, "done": done });
        let stored = json!({ "once": progress, "all": progress, "skip": progress });
        inbox.expect_load_checkpoint().returning(move |_| Ok(Some(stored.clone())));
        inbox
    }

    #[tokio::test]
    async fn runs_that_fell_due_are_listed() {
        let schedules = [
            schedule("once", MissedPolicy::RunOnce),
            schedule("all", MissedPolicy::RunAll),
            schedule("skip", MissedPolicy::Skip),
            schedule("new", MissedPolicy::RunOnce),
        ];
        let now = Timestamp(13 * DAY + DAY / 2);
        let missed = list_missed(&schedules, &inbox(10 * DAY), now).await.unwrap();
        let listed: Vec<_> = missed.iter().map(|missed| (missed.schedule.as_str(), missed.runs)).collect();
        assert_eq!(listed, [("once", 1), ("all", 3)]);
        assert_eq!(missed[0].latest, "1970-01-14 00:00 UTC");
    }

    #[tokio::test]
    async fn skipped_runs_are_settled() {
        let mut inbox = inbox(10 * DAY);
        let is_now = |_: &_, checkpoint: &serde_json::Value| checkpoint["all"]["done"] == json!(13 * DAY);
        inbox.expect_save_checkpoint().once().withf(is_now).returning(|_, _| Ok(()));
        skip_missed(&inbox, Timestamp(13 * DAY)).await.unwrap();
    }
}
