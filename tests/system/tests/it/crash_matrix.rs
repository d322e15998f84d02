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
    run::{Death, Ending, Outcome, run},
    scene::{Platform, Scene},
    table::Table,
    verdict::Verdict,
};

/// How many processes run at once.
const AT_ONCE: usize = 2;

/// How many turns nobody disturbs, and how often a death is tried that does not come: how often a reply is edited while
/// it grows depends on the clock.
const UNDISTURBED: usize = 3;
const TRIES: usize = 4;

/// Of how many deaths one may not come all the same, since none of its runs edited the reply as often.
const ONE_UNREACHED_IN: usize = 10;

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
async fn a_turn_on_discord_survives_its_process() {
    matrix(Platform::Discord).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_on_discord_survives_its_process_when_its_keys_are_forgotten() {
    matrix(Platform::DiscordForgotten).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_on_the_message_of_their_text_survive_their_process_on_discord() {
    matrix(Platform::DiscordBundle).await;
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
    let undisturbed = stream::iter(0..UNDISTURBED).map(|_| run(scene, Death::Never)).buffer_unordered(AT_ONCE);
    let undisturbed: Vec<Outcome> = undisturbed.collect().await;
    for outcome in &undisturbed {
        let verdict = Verdict::on(scene, outcome);
        assert!(verdict.is_flawless(), "{verdict:#?}\n{}", outcome.told());
        for (operation, least) in scene.least_requests() {
            let made = outcome.requests[&operation];
            assert!(made >= least, "{made} of {least} requests in the midst of which it is to die: {operation:?}");
        }
        let messages = outcome.transcript.visible(&scene.conversation).count();
        assert!(scene.has_everything || messages == 2, "all files stand on their text's message, of {messages}");
    }
    let (all, least) = (ways(&deaths(&undisturbed)), scene.least_deaths());
    assert!(all.len() > least, "a turn with all this in it has more than {} points", all.len());
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
    let mut unreached = Vec::new();
    let mut runs = stream::iter(tried)
        .map(|death| async move {
            let outcome = run_to_its_death(scene, &death).await;
            (death, outcome)
        })
        .buffer_unordered(AT_ONCE);
    while let Some((death, outcome)) = runs.next().await {
        let verdict = Verdict::on(scene, &outcome);
        slowest = slowest.max(outcome.took);
        match outcome.ending {
            Ending::Died => {}
            Ending::NotReached => unreached.push(death.to_string()),
            Ending::Survived => failures.push(format!("{death}: nobody died of it\n{}", outcome.told())),
        }
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
    let are_few = unreached.len() * ONE_UNREACHED_IN <= table.runs();
    assert!(are_few, "deaths that undisturbed turns showed did not come: {unreached:#?}");
}

/// Runs until the process has died as it was to, or has come past that place every time.
async fn run_to_its_death(scene: &Scene, death: &Death) -> Outcome {
    let mut outcome = run(scene, death.clone()).await;
    for _ in 1..TRIES {
        if outcome.ending == Ending::Died {
            break;
        }
        outcome = run(scene, death.clone()).await;
    }
    outcome
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
        Platform::Discord | Platform::DiscordBundle => {
            let taken_in = ["inbound.", "fetcher.", "ledger.bookmark", "ledger.keep_bookmark"];
            is_kill || is_around("channel.") || taken_in.into_iter().any(is_around) || is_around("ledger.settle_part")
        }
        Platform::WithKeys => is_kill || is_around("ledger.") || is_around("channel.") || index.is_multiple_of(3),
        Platform::WithKeysForgotten | Platform::DiscordForgotten => {
            is_kill || is_around("channel.") || is_around("ledger.settle_part")
        }
    }
}

/// Every way to die that all undisturbed turns showed.
fn deaths(undisturbed: &[Outcome]) -> Vec<Death> {
    let points = |outcome: &Outcome| outcome.points.iter().cloned().collect::<BTreeSet<Point>>();
    let points = undisturbed.iter().map(points).reduce(|known, other| &known & &other).unwrap_or_default();
    let mut deaths: Vec<Death> = points.into_iter().map(Death::At).collect();
    for operation in KILLED_DURING {
        let requests = undisturbed.iter().map(|outcome| outcome.requests[&operation]).min().unwrap_or(0);
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
