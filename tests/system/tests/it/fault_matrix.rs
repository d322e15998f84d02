//! The fault matrix: whatever a platform does to one request, nothing is lost silently, the order is kept, and the
//! person reads about every failure.
//!
//! The built product talks to a fake platform in this process through its real adapter. Each cell is a conversation of
//! two turns; one request of the first goes wrong.

mod harness;

use std::{fmt::Write, time::Duration};

use futures::{StreamExt, stream};
use satchel_domain::capabilities::LookupRule;
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_requirements::{
    exclusion::shared,
    sample::{Frequency, Sample},
};
use satchel_system::crash::ChannelAdapter;

use self::harness::{CellResult, Column, MatrixCell, run_cell};

/// Most cells that run at once; most of the time they wait.
const MAX_CONCURRENT_CELLS: usize = 12;

/// An outage that the rules outlast, and the age at which parts are given up where they don't. In the world these are
/// minutes and a day.
const SHORT_OUTAGE_MS: u64 = 60;
const LONG_OUTAGE_MS: u64 = 900;

/// How long keys are remembered where they are forgotten in the long outage.
const SHORT_KEY_TTL: Duration = Duration::from_millis(400);

/// An outage of one sort of call: longer than the three labelled tries of a part, shorter than those of its notice
/// behind them, as 5 min are.
const LONG_RESET_MS: u64 = 350;

const OUTAGE_BEYOND_AGE_MS: u64 = 3_500;
const SHORT_MAX_AGE: Duration = Duration::from_secs(3);
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// What a fault may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedResult {
    /// Everything arrives once and without a label.
    Everything,
    /// Everything arrives; where nothing tells whether it did, at most one message twice or with a label.
    OneInDoubt,
    /// Everything arrives; where nothing tells whether it did, one message at most three times more, each with a label,
    /// or it is told that it may have arrived.
    LabelledRetries,
    /// What can't arrive in any form is named in the notice.
    Reported,
}

struct DeliveryFate {
    name: &'static str,
    fault: Fault,
    /// For how many milliseconds all requests of the sort meet it, while others are answered.
    lasts_ms: Option<u64>,
    /// What the next request of the same sort meets.
    next_fault: Option<Fault>,
    allowed: AllowedResult,
    max_age: Duration,
    /// How long the platform's keys are remembered, where that is not as long as it says by itself.
    key_ttl: Option<Duration>,
}

impl DeliveryFate {
    /// Whether the fault can meet the request of a column at all.
    fn is_applicable(&self, column: Column, platform: FaultPlatform) -> bool {
        let has_keys = platform.has_keys();
        // Discord has no previews.
        if column == Column::Preview && has_keys {
            return false;
        }
        if !has_keys && (self.key_ttl.is_some() || column == Column::Bundle) {
            return false;
        }
        if column.is_rich() && platform.adapter != ChannelAdapter::Telegram {
            return false;
        }
        match self.fault {
            // An edit's repeat is no repeat under a key.
            _ if self.next_fault.is_some() => !matches!(column, Column::Edit | Column::RichEdit) && has_keys,
            // Discord takes whatever is written for Markdown.
            Fault::BadMarkup => {
                let has_no_markup = matches!(column, Column::Voice | Column::File | Column::Album);
                !has_no_markup && platform.adapter != ChannelAdapter::Discord
            }
            // The others have one item at most.
            Fault::BadItem { .. } => matches!(column, Column::Album | Column::Bundle),
            Fault::VoiceForbidden => column == Column::Voice,
            // Where it is sent again with a label, the one without may come behind it.
            Fault::AcceptLate { .. } => !platform.has_undetectable_repeats(),
            _ => true,
        }
    }
}

fn delivery_fates() -> Vec<DeliveryFate> {
    let delivery_fate = |name, fault, allowed| DeliveryFate {
        name,
        fault,
        lasts_ms: None,
        next_fault: None,
        allowed,
        max_age: DEFAULT_MAX_AGE,
        key_ttl: None,
    };
    let lasting = |name, fault, ms| DeliveryFate {
        lasts_ms: Some(ms),
        ..delivery_fate(name, fault, AllowedResult::LabelledRetries)
    };
    vec![
        delivery_fate("429, retry after 120 ms", Fault::RateLimit { retry_after_ms: 120 }, AllowedResult::Everything),
        // Telegram's servers say so of what they perform, too.
        delivery_fate("500, readable", Fault::ServerError, AllowedResult::OneInDoubt),
        delivery_fate("500, performed all the same", Fault::Restart { performed: true }, AllowedResult::OneInDoubt),
        delivery_fate("502 as HTML, not performed", Fault::BadGateway { performed: false }, AllowedResult::OneInDoubt),
        delivery_fate("502 as HTML, performed", Fault::BadGateway { performed: true }, AllowedResult::OneInDoubt),
        delivery_fate("connection refused", Fault::RefuseConnection { for_ms: 50 }, AllowedResult::Everything),
        delivery_fate("reset in the middle", Fault::ResetMidTransfer, AllowedResult::OneInDoubt),
        delivery_fate("performed, answer lost", Fault::AcceptAndDrop, AllowedResult::OneInDoubt),
        DeliveryFate {
            next_fault: Some(Fault::TooLarge),
            ..delivery_fate("answer lost, repeat 413", Fault::AcceptAndDrop, AllowedResult::OneInDoubt)
        },
        delivery_fate("no answer, not performed", Fault::Hang { performed: false }, AllowedResult::OneInDoubt),
        delivery_fate("no answer, performed", Fault::Hang { performed: true }, AllowedResult::OneInDoubt),
        delivery_fate("400, markup", Fault::BadMarkup, AllowedResult::Everything),
        delivery_fate("400, names an item", Fault::BadItem { index: 1 }, AllowedResult::Everything),
        delivery_fate("400, voice forbidden", Fault::VoiceForbidden, AllowedResult::Everything),
        delivery_fate("413", Fault::TooLarge, AllowedResult::Reported),
        delivery_fate("403", Fault::Forbidden, AllowedResult::Reported),
        delivery_fate("arrives late", Fault::AcceptLate { after_ms: 30 }, AllowedResult::OneInDoubt),
        lasting("sends reset for 20 s", Fault::ResetAfterRead, SHORT_OUTAGE_MS),
        lasting("sends reset for 5 min", Fault::ResetAfterRead, LONG_RESET_MS),
        lasting("answers lost for 20 s", Fault::AcceptAndDrop, SHORT_OUTAGE_MS),
        lasting("answers lost for 5 min", Fault::AcceptAndDrop, LONG_RESET_MS),
        delivery_fate("outage (20 s)", Fault::Outage { for_ms: SHORT_OUTAGE_MS }, AllowedResult::OneInDoubt),
        delivery_fate("outage (5 min)", Fault::Outage { for_ms: LONG_OUTAGE_MS }, AllowedResult::OneInDoubt),
        DeliveryFate {
            key_ttl: Some(SHORT_KEY_TTL),
            ..delivery_fate(
                "outage, keys forgotten",
                Fault::Outage { for_ms: LONG_OUTAGE_MS },
                AllowedResult::OneInDoubt,
            )
        },
        DeliveryFate {
            max_age: SHORT_MAX_AGE,
            ..delivery_fate(
                "outage beyond max_age",
                Fault::Outage { for_ms: OUTAGE_BEYOND_AGE_MS },
                AllowedResult::Reported,
            )
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_faults_lose_and_repeat_nothing() {
    run_matrix(FaultPlatform { adapter: ChannelAdapter::Telegram, look_up: LookupRule::MessageIds }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_faults_lose_nothing_unlabelled() {
    run_matrix(FaultPlatform { adapter: ChannelAdapter::Telegram, look_up: LookupRule::None }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_faults_lose_and_repeat_nothing() {
    run_matrix(FaultPlatform { adapter: ChannelAdapter::Discord, look_up: LookupRule::History }).await;
}

/// A platform, and how a doubtful send is looked for there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultPlatform {
    pub(crate) adapter: ChannelAdapter,
    pub(crate) look_up: LookupRule,
}

impl FaultPlatform {
    /// Whether nothing tells a repeat from what it repeats, nor whether that arrived.
    fn has_undetectable_repeats(self) -> bool {
        !self.has_keys() && self.look_up == LookupRule::None
    }

    /// Whether a repeat under a key is the same message, and files ride on the message of their text.
    fn has_keys(self) -> bool {
        self.adapter == ChannelAdapter::Discord
    }
}

async fn run_matrix(platform: FaultPlatform) {
    let _machine = shared("machine");
    let (sample, delivery_fates) = (Sample::from_environment(), delivery_fates());
    let cells = delivery_fates.iter().flat_map(|delivery_fate| Column::ALL.map(|column| (delivery_fate, column)));
    let mut cells: Vec<_> = cells.enumerate().collect();
    // Those that wait longest begin first, so that the others are run beside them.
    cells.sort_by_key(|(_, (fate, _))| fate.max_age);
    let mut results: Vec<(usize, String, Vec<String>)> = stream::iter(cells)
        .map(|(at, (fate, column))| async move {
            if !fate.is_applicable(column, platform) || !sample.includes(Frequency::EveryRun, at) {
                return (at, "-".to_owned(), Vec::new());
            }
            let DeliveryFate { fault, lasts_ms, next_fault, max_age, key_ttl, .. } = *fate;
            let fault_timing = lasts_ms.map(FaultTiming::ForMs);
            let cell = MatrixCell { platform, column, fault, fault_timing, next_fault, max_age, key_ttl };
            let result = run_cell(&cell).await;
            let problems = find_problems(fate, &result, platform);
            let problems =
                problems.iter().map(|problem| format!("{}, {column:?}: {problem}\n{}", fate.name, result.summary()));
            (at, result.label(), problems.collect())
        })
        .buffer_unordered(MAX_CONCURRENT_CELLS)
        .collect()
        .await;
    results.sort_by_key(|(at, ..)| *at);

    let mut table = format!("{platform:?}\n{:<28}", "");
    for column in Column::ALL {
        let _ = write!(table, "{:<23}", format!("{column:?}").to_lowercase());
    }
    for (delivery_fate, row) in delivery_fates.iter().zip(results.chunks(Column::ALL.len())) {
        let _ = write!(table, "\n{:<28}", delivery_fate.name);
        for (_, word, problems) in row {
            let _ = write!(table, "{:<23}", if problems.is_empty() { word } else { "WRONG" });
        }
    }
    println!("{table}");
    let problems: Vec<&str> = results.iter().flat_map(|(.., problems)| problems).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n\n"));
}

fn find_problems(delivery_fate: &DeliveryFate, result: &CellResult, platform: FaultPlatform) -> Vec<String> {
    let mut problems = Vec::new();
    if !result.is_settled {
        problems.push("the turns did not end".to_owned());
    }
    if !result.was_requested {
        problems.push("the request that was to go wrong was never made".to_owned());
    }
    if !result.out_of_order.is_empty() {
        problems.push(format!("out of order: {:?}", result.out_of_order));
    }
    if !result.unreported.is_empty() {
        problems.push(format!("lost and not told: {:?}", result.unreported));
    }
    let may_be_reported = delivery_fate.allowed == AllowedResult::Reported
        || delivery_fate.allowed == AllowedResult::LabelledRetries && platform.has_undetectable_repeats();
    if !may_be_reported && !result.missing.is_empty() {
        problems.push(format!("missing: {:?}", result.missing));
    }
    let in_doubt = match delivery_fate.allowed {
        AllowedResult::OneInDoubt | AllowedResult::Reported if platform.has_undetectable_repeats() => 1,
        // Three times a part, and three times the notice of it.
        AllowedResult::LabelledRetries if platform.has_undetectable_repeats() => 6,
        AllowedResult::Everything
        | AllowedResult::OneInDoubt
        | AllowedResult::LabelledRetries
        | AllowedResult::Reported => 0,
    };
    // Where the keys are forgotten by then, and nothing is found in the history, what is sent again says so.
    let labels = in_doubt.max(usize::from(delivery_fate.key_ttl.is_some()));
    if result.duplicates > in_doubt || result.labels > labels {
        problems.push(format!("{} duplicates and {} labels", result.duplicates, result.labels));
    }
    if result.unlabelled > 0 {
        problems.push(format!("{} duplicates without a label", result.unlabelled));
    }
    problems
}
