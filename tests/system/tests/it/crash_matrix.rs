//! The crash matrix: a turn with everything in it survives the death of its process at any point.
//!
//! The process dies before or after every call of every port (an abort from within), and in the middle of every
//! request that the platform sees (SIGKILL from without). It is then started again on the same data, and what stands
//! on the platform in the end is looked at.

mod run;
mod scene;
mod table;
mod verdict;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use satchel_fakes::{Moment, Operation};
use satchel_system::crash::points::Point;

use self::{
    run::{Death, Outcome, run},
    scene::{Platform, Scene},
    table::Table,
    verdict::Verdict,
};

/// How many processes run at once.
const AT_ONCE: usize = 2;

/// The operations in the midst of which the process is killed.
const KILLED_DURING: [Operation; 3] = [Operation::Send, Operation::Edit, Operation::Fetch];

/// All points are tried on each platform when this is set to `all`; otherwise those that can tell most.
const HOW_MANY: &str = "SATCHEL_CRASH_MATRIX";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_its_process_where_only_one_message_may_be_doubtful() {
    matrix(Platform::WithoutKeys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_on_telegram_survives_its_process() {
    matrix(Platform::Telegram).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_its_process_where_a_repeat_cannot_arrive_twice() {
    matrix(Platform::WithKeys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_its_process_where_a_repeat_is_looked_up() {
    matrix(Platform::WithKeysForgotten).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_a_second_death_while_it_is_taken_up() {
    let twice = |death: &Death| match death {
        Death::At(point) => Some(Death::AtTwice(point.clone())),
        Death::Never | Death::AtTwice(_) | Death::During { .. } => None,
    };
    let chosen = |index: usize, _: &Death| index.is_multiple_of(4);
    die(Platform::WithKeys, |all| all.iter().filter_map(twice).collect(), chosen).await;
}

async fn matrix(platform: Platform) {
    die(platform, <[Death]>::to_vec, |index, death| is_telling(platform, index, death)).await;
}

/// Dies in each of the ways that `ways` makes of the points of an undisturbed turn; unless all are wanted, in those that
/// are `chosen`.
async fn die(platform: Platform, ways: impl Fn(&[Death]) -> Vec<Death>, chosen: impl Fn(usize, &Death) -> bool) {
    let began = Instant::now();
    let scene = &Scene::set(platform).await;
    let undisturbed = run(scene, Death::Never).await;
    let verdict = Verdict::on(scene, &undisturbed);
    assert!(verdict.is_flawless(), "{verdict:#?}\n{}", undisturbed.told());
    let all = ways(&deaths(&undisturbed));
    assert!(all.len() > 300, "a turn with everything in it has more than {} points", all.len());
    let all_are_wanted = std::env::var(HOW_MANY).is_ok_and(|how_many| how_many == "all");
    let tried: Vec<Death> = all
        .iter()
        .enumerate()
        .filter(|(index, death)| all_are_wanted || chosen(*index, death))
        .map(|(_, death)| death.clone())
        .collect();

    let mut table = Table::default();
    let mut failures = Vec::new();
    let mut slowest = Duration::ZERO;
    let mut runs = stream::iter(tried)
        .map(|death| async move {
            let outcome = run(scene, death.clone()).await;
            (death, outcome)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((death, outcome)) = runs.next().await {
        let verdict = Verdict::on(scene, &outcome);
        slowest = slowest.max(outcome.took);
        for problem in verdict.problems(platform) {
            failures.push(format!("{death}: {problem}\n{}", outcome.told()));
        }
        table.add(&death, &outcome, &verdict, platform);
    }
    println!("{table}");
    println!(
        "{platform:?}: {} of {} deaths in {:.1?} ({HOW_MANY}=all tries all), the slowest run took {slowest:.1?}",
        table.runs(),
        all.len(),
        began.elapsed()
    );
    assert!(failures.is_empty(), "{} of {} deaths:\n{}", failures.len(), table.runs(), failures.join("\n\n"));
}

/// Whether a death is tried unless all are: everything where most can go wrong; where keys help, every point around the
/// ledger and the channel and a third of the rest; where only the look-up is new, what leaves a send in doubt.
fn is_telling(platform: Platform, index: usize, death: &Death) -> bool {
    let is_around = |port: &str| matches!(death, Death::At(point) if point.call.starts_with(port));
    let is_kill = matches!(death, Death::During { .. });
    match platform {
        Platform::WithoutKeys => true,
        // What the port's promises make of any platform is tried above; here what the adapter makes of them.
        Platform::Telegram => {
            is_kill || is_around("channel.") || is_around("inbound.") || is_around("ledger.settle_part")
        }
        Platform::WithKeys => is_kill || is_around("ledger.") || is_around("channel.") || index.is_multiple_of(3),
        Platform::WithKeysForgotten => is_kill || is_around("channel.") || is_around("ledger.settle_part"),
    }
}

/// Every way to die that the undisturbed turn showed.
fn deaths(undisturbed: &Outcome) -> Vec<Death> {
    let points: BTreeSet<Point> = undisturbed.points.iter().cloned().collect();
    let mut deaths: Vec<Death> = points.into_iter().map(Death::At).collect();
    for operation in KILLED_DURING {
        let requests = undisturbed.requests.get(&operation).copied().unwrap_or(0);
        for number in 1..=requests {
            deaths.extend([Moment::Arrived, Moment::Performed].map(|moment| Death::During {
                operation,
                number,
                moment,
            }));
        }
    }
    deaths
}
