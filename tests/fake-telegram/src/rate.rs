//! How fast the bot sends: counted always, refused where the rules have a pace.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use satchel_fake_kit::TestClock;
use tokio::time::Instant;

use crate::{TelegramRates, call::ReceivedCall, message::ChatKind, platform_state::PlatformState, refusal::ApiRefusal};

/// A request that was spaced well when it left may arrive this much too early.
const JITTER: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct RateCounter {
    clock: TestClock,
    rules: Option<TelegramRates>,
    report: RateReport,
    /// What was let through in the last minute; what puts nothing into a chat has none.
    recent: VecDeque<(Instant, Option<i64>)>,
    /// When each chat's burst is whole again.
    whole_again: BTreeMap<i64, Instant>,
}

/// How fast the bot has been.
#[derive(Debug, Clone, Default)]
pub struct RateReport {
    /// Sends and edits that were let through.
    pub accepted: u64,
    /// Those that earned a 429 for their haste; a script's are not counted.
    pub refused: u64,
    /// From the first that was let through to the last.
    pub span: Duration,
    /// The same by chat.
    pub chats: BTreeMap<i64, ChatRate>,
    began: Option<Instant>,
}

/// How fast the bot has been in one chat.
#[derive(Debug, Clone, Copy)]
pub struct ChatRate {
    /// Sends and edits that were let through.
    pub accepted: u64,
    /// From the first that was let through to the last.
    pub span: Duration,
    /// Whether it is a group.
    pub group: bool,
    began: Instant,
}

impl RateCounter {
    pub(crate) fn new(rules: Option<TelegramRates>, clock: TestClock) -> Self {
        let report = RateReport::default();
        Self { clock, rules, report, recent: VecDeque::new(), whole_again: BTreeMap::new() }
    }

    /// Lets a request through, or says when to come again. An album counts as one.
    pub(crate) fn allow(&mut self, platform: &PlatformState, call: &ReceivedCall) -> Result<(), ApiRefusal> {
        let sends = call.method.starts_with("send") && call.method != "sendchataction";
        // It is refused before Telegram is asked to edit (tdlib/td, `MessagesManager.cpp`,
        // `edit_message_live_location`): a request like any other, and no edit in a chat.
        let looks_up = call.method == "stopmessagelivelocation";
        if !sends && !looks_up && !call.method.starts_with("edit") {
            return Ok(());
        }
        let Some(named) = call.text("chat_id").and_then(|id| id.parse().ok()) else { return Ok(()) };
        let chat = Some(named).filter(|_| !looks_up);
        let group = platform.chats.get(&named).is_some_and(|chat| chat.kind != ChatKind::Private);
        let now = self.clock.now();
        while self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > Duration::from_secs(60)) {
            self.recent.pop_front();
        }
        if let Some(wait) = self.rules.and_then(|rules| self.wait(rules, now, chat, group)) {
            self.report.refused += 1;
            return Err(ApiRefusal::too_many_requests(wait.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(60)));
        }
        self.recent.push_back((now, chat));
        if let Some(chat) = chat {
            let whole = self.whole_again.entry(chat).or_insert(now);
            *whole = (*whole).max(now) + Duration::from_secs(1);
            self.report.record(now, chat, group);
        }
        Ok(())
    }

    /// How long a request would have to wait: for all chats together, and for its own, if it puts something there.
    fn wait(&self, rules: TelegramRates, now: Instant, chat: Option<i64>, group: bool) -> Option<Duration> {
        let in_window = |window: Duration, of: Option<i64>, most: u32| {
            let window = window - JITTER;
            let since = |at: Instant| now.duration_since(at);
            let met = self.recent.iter().filter(|(at, to)| since(*at) < window && (of.is_none() || of == *to));
            let times: Vec<Instant> = met.map(|(at, _)| *at).collect();
            // The window is free again when the oldest of its last `most` has left it.
            let oldest = times.len().checked_sub(most as usize).map(|place| times[place])?;
            Some(window - since(oldest))
        };
        let everywhere = in_window(Duration::from_secs(1), None, rules.per_second);
        let Some(chat) = chat else { return everywhere };
        let burst = Duration::from_secs(rules.chat_burst.into());
        let whole = self.whole_again.get(&chat).map_or(Duration::ZERO, |whole| whole.saturating_duration_since(now));
        // One more second is owed for the message that is to be let through.
        let chat_wait = (whole + Duration::from_secs(1)).checked_sub(burst).filter(|wait| *wait > JITTER);
        let group_wait =
            group.then(|| in_window(Duration::from_secs(60), Some(chat), rules.per_group_minute)).flatten();
        chat_wait.max(group_wait).max(everywhere)
    }

    pub(crate) fn report(&self) -> RateReport {
        self.report.clone()
    }
}

impl RateReport {
    fn record(&mut self, now: Instant, chat: i64, group: bool) {
        self.accepted += 1;
        self.span = now.duration_since(*self.began.get_or_insert(now));
        let chat = self.chats.entry(chat).or_insert(ChatRate { accepted: 0, span: Duration::ZERO, group, began: now });
        chat.accepted += 1;
        chat.span = now.duration_since(chat.began);
    }

    /// Which share of what a pace allows in all chats together was used, 1 being all of it.
    #[must_use]
    pub fn share(&self, pace: TelegramRates) -> f64 {
        share(self.accepted, 1.0 + f64::from(pace.per_second) * self.span.as_secs_f64())
    }
}

impl ChatRate {
    /// Which share of what a pace allows in one chat was used, 1 being all of it.
    #[must_use]
    pub fn share(&self, pace: TelegramRates) -> f64 {
        let seconds = self.span.as_secs_f64();
        let one_a_second = f64::from(pace.chat_burst) + seconds;
        if self.group {
            let minutes = 1.0 + f64::from(pace.per_group_minute) * seconds / 60.0;
            return share(self.accepted, one_a_second.min(minutes));
        }
        share(self.accepted, one_a_second)
    }
}

fn share(accepted: u64, allowed: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "no test sends so much")]
    let accepted = accepted as f64;
    (accepted / allowed).min(1.0)
}
