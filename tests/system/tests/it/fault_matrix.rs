//! The fault matrix: whatever a platform does to one request, nothing is lost silently, the order is kept, and the
//! person is told.
//!
//! The built product talks to a fake platform in this process through its real adapter. Each cell is a conversation of two turns; one request
//! of the first goes wrong.

mod stage;

use std::{fmt::Write, time::Duration};

use futures::{StreamExt, stream};
use satchel_domain::capabilities::LookupRule;
use satchel_fake_kit::{Fault, FaultTiming};
use satchel_system::crash::ChannelAdapter;

use self::stage::{Cell, Column, Played, play};

/// How many cells are played at once; most of the time they wait.
const AT_ONCE: usize = 12;

/// An outage that the rules outlast, and the age at which parts are given up where they don't. In the world these are
/// minutes and a day.
const SHORT_OUTAGE: u64 = 60;
const LONG_OUTAGE: u64 = 900;

/// How long keys are remembered where they are forgotten in the long outage.
const SHORT_LIVED: Duration = Duration::from_millis(400);

/// An outage of one sort of call: longer than the three labelled tries of a part, shorter than those of its notice behind
/// them, as 5 min are.
const LONG_RESET: u64 = 350;

const OUTAGE_BEYOND_AGE: u64 = 1_200;
const AGE: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a fault may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    /// Everything arrives once and without a label.
    Everything,
    /// Everything arrives; where nothing tells whether it did, at most one message twice or with a label.
    OneInDoubt,
    /// Everything arrives; where nothing tells whether it did, one message at most three times more, each with a label, or
    /// it is told that it may have arrived.
    LabelledTries,
    /// What can't arrive in any form is named in the notice.
    Told,
}

struct Fate {
    name: &'static str,
    fault: Fault,
    /// For how many milliseconds all requests of the sort meet it, while others are answered.
    lasts: Option<u64>,
    /// What the next request of the same sort meets.
    then: Option<Fault>,
    allowed: Allowed,
    max_age: Duration,
    /// How long the platform's keys are remembered, where that is not as long as it says by itself.
    keys_live: Option<Duration>,
}

impl Fate {
    /// Whether the fault can meet the request of a column at all.
    fn fits(&self, column: Column, platform: Platform) -> bool {
        let has_keys = platform.has_keys();
        if !has_keys && (self.keys_live.is_some() || column == Column::Bundle) {
            return false;
        }
        match self.fault {
            // An edit's repeat is no repeat under a key.
            _ if self.then.is_some() => column != Column::Edit && has_keys,
            // Discord takes whatever is written for Markdown.
            Fault::BadMarkup => {
                let is_text = matches!(column, Column::Text | Column::Bundle | Column::Stream | Column::Edit);
                is_text && platform.adapter != ChannelAdapter::Discord
            }
            // The others have one item at most.
            Fault::BadItem { .. } => matches!(column, Column::Album | Column::Bundle),
            Fault::VoiceForbidden => column == Column::Voice,
            // Where it is sent again with a label, the one without may come behind it.
            Fault::AcceptLate { .. } => !platform.repeats(),
            _ => true,
        }
    }
}

fn fates() -> Vec<Fate> {
    let fate =
        |name, fault, allowed| Fate { name, fault, lasts: None, then: None, allowed, max_age: DAY, keys_live: None };
    let lasting = |name, fault, ms| Fate { lasts: Some(ms), ..fate(name, fault, Allowed::LabelledTries) };
    vec![
        fate("429, retry after 120 ms", Fault::RateLimit { retry_after_ms: 120 }, Allowed::Everything),
        // Telegram's servers say so of what they perform, too.
        fate("500, readable", Fault::ServerError, Allowed::OneInDoubt),
        fate("500, performed all the same", Fault::Restart { performed: true }, Allowed::OneInDoubt),
        fate("502 as HTML, not performed", Fault::BadGateway { performed: false }, Allowed::OneInDoubt),
        fate("502 as HTML, performed", Fault::BadGateway { performed: true }, Allowed::OneInDoubt),
        fate("connection refused", Fault::RefuseConnection { for_ms: 50 }, Allowed::Everything),
        fate("reset in the middle", Fault::ResetMidTransfer, Allowed::OneInDoubt),
        fate("performed, answer lost", Fault::AcceptAndDrop, Allowed::OneInDoubt),
        Fate {
            then: Some(Fault::TooLarge),
            ..fate("answer lost, repeat 413", Fault::AcceptAndDrop, Allowed::OneInDoubt)
        },
        fate("no answer, not performed", Fault::Hang { performed: false }, Allowed::OneInDoubt),
        fate("no answer, performed", Fault::Hang { performed: true }, Allowed::OneInDoubt),
        fate("400, markup", Fault::BadMarkup, Allowed::Everything),
        fate("400, names an item", Fault::BadItem { index: 1 }, Allowed::Everything),
        fate("400, voice forbidden", Fault::VoiceForbidden, Allowed::Everything),
        fate("413", Fault::TooLarge, Allowed::Told),
        fate("403", Fault::Forbidden, Allowed::Told),
        fate("arrives late", Fault::AcceptLate { after_ms: 30 }, Allowed::OneInDoubt),
        lasting("sends reset for 20 s", Fault::ResetAfterRead, SHORT_OUTAGE),
        lasting("sends reset for 5 min", Fault::ResetAfterRead, LONG_RESET),
        lasting("answers lost for 20 s", Fault::AcceptAndDrop, SHORT_OUTAGE),
        lasting("answers lost for 5 min", Fault::AcceptAndDrop, LONG_RESET),
        fate("outage (20 s)", Fault::Outage { for_ms: SHORT_OUTAGE }, Allowed::OneInDoubt),
        fate("outage (5 min)", Fault::Outage { for_ms: LONG_OUTAGE }, Allowed::OneInDoubt),
        Fate {
            keys_live: Some(SHORT_LIVED),
            ..fate("outage, keys forgotten", Fault::Outage { for_ms: LONG_OUTAGE }, Allowed::OneInDoubt)
        },
        Fate {
            max_age: AGE,
            ..fate("outage beyond max_age", Fault::Outage { for_ms: OUTAGE_BEYOND_AGE }, Allowed::Told)
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_faults_lose_and_repeat_nothing() {
    matrix(Platform { adapter: ChannelAdapter::Telegram, look_up: LookupRule::MessageIds }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_faults_lose_nothing_unlabelled() {
    matrix(Platform { adapter: ChannelAdapter::Telegram, look_up: LookupRule::None }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_discord_loses_or_repeats_anything() {
    matrix(Platform { adapter: ChannelAdapter::Discord, look_up: LookupRule::History }).await;
}

/// A platform, and how a doubtful send is looked for there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Platform {
    pub(crate) adapter: ChannelAdapter,
    pub(crate) look_up: LookupRule,
}

impl Platform {
    /// Whether nothing tells a repeat from what it repeats, nor whether that arrived.
    fn repeats(self) -> bool {
        !self.has_keys() && self.look_up == LookupRule::None
    }

    /// Whether a repeat under a key is the same message, and files ride on the message of their text.
    fn has_keys(self) -> bool {
        self.adapter == ChannelAdapter::Discord
    }
}

async fn matrix(platform: Platform) {
    let fates = fates();
    let cells = fates.iter().flat_map(|fate| Column::ALL.map(|column| (fate, column)));
    let mut played: Vec<(usize, String, Vec<String>)> = stream::iter(cells.enumerate())
        .map(|(at, (fate, column))| async move {
            if !fate.fits(column, platform) {
                return (at, "-".to_owned(), Vec::new());
            }
            let Fate { fault, lasts, then, max_age, keys_live, .. } = *fate;
            let lasts = lasts.map(FaultTiming::ForMs);
            let cell = Cell { platform, column, fault, lasts, then, max_age, keys_live };
            let played = play(&cell).await;
            let problems = problems(fate, &played, platform);
            let problems =
                problems.iter().map(|problem| format!("{}, {column:?}: {problem}\n{}", fate.name, played.told()));
            (at, played.word(), problems.collect())
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    played.sort_by_key(|(at, ..)| *at);

    let mut table = format!("{platform:?}\n{:<28}", "");
    for column in Column::ALL {
        let _ = write!(table, "{:<23}", format!("{column:?}").to_lowercase());
    }
    for (fate, row) in fates.iter().zip(played.chunks(Column::ALL.len())) {
        let _ = write!(table, "\n{:<28}", fate.name);
        for (_, word, problems) in row {
            let _ = write!(table, "{:<23}", if problems.is_empty() { word } else { "WRONG" });
        }
    }
    println!("{table}");
    let problems: Vec<&str> = played.iter().flat_map(|(.., problems)| problems).map(String::as_str).collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n\n"));
}

fn problems(fate: &Fate, played: &Played, platform: Platform) -> Vec<String> {
    let mut problems = Vec::new();
    if !played.settled {
        problems.push("the turns did not end".to_owned());
    }
    if !played.met {
        problems.push("the request that was to go wrong was never made".to_owned());
    }
    if !played.out_of_order.is_empty() {
        problems.push(format!("out of order: {:?}", played.out_of_order));
    }
    if !played.untold.is_empty() {
        problems.push(format!("lost and not told: {:?}", played.untold));
    }
    let may_be_told = fate.allowed == Allowed::Told || fate.allowed == Allowed::LabelledTries && platform.repeats();
    if !may_be_told && !played.missing.is_empty() {
        problems.push(format!("missing: {:?}", played.missing));
    }
    let in_doubt = match fate.allowed {
        Allowed::OneInDoubt | Allowed::Told if platform.repeats() => 1,
        // Three times a part, and three times the notice of it.
        Allowed::LabelledTries if platform.repeats() => 6,
        Allowed::Everything | Allowed::OneInDoubt | Allowed::LabelledTries | Allowed::Told => 0,
    };
    // Where the keys are forgotten by then, and nothing is found in the history, what is sent again says so.
    let labels = in_doubt.max(usize::from(fate.keys_live.is_some()));
    if played.duplicates > in_doubt || played.labels > labels {
        problems.push(format!("{} duplicates and {} labels", played.duplicates, played.labels));
    }
    if played.unlabelled > 0 {
        problems.push(format!("{} duplicates without a label", played.unlabelled));
    }
    problems
}
