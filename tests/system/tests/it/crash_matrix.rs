//! The crash matrix: a turn with everything in it survives the death of its process at any point.
//!
//! The process dies before or after every call of every port (an abort from within), and in the middle of every
//! request that the platform sees (SIGKILL from without). It is then started again on the same data, and what stands
//! on the platform in the end is looked at.

mod disk;
mod memory;
mod play;
mod run;
mod scene;
mod table;
mod verbs;
mod verdict;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use satchel_fake_kit::RequestPhase;
use satchel_system::crash::points::{Point, Side};

use self::{
    play::{Play, Plot},
    run::{Death, Ending, Outcome, Scenario, run},
    scene::{Platform, Scene},
    table::Table,
    verbs::{killed_verbs, verbs_of_plot},
};
use crate::test_platform::Operation;

/// How many processes run at once.
const AT_ONCE: usize = 2;

/// How many turns nobody disturbs, and how often a death is tried that does not come: how often a reply is edited while
/// it grows depends on the clock.
const UNDISTURBED: usize = 3;
const TRIES: usize = 4;

/// Of how many deaths one may not come all the same, since none of its runs edited the reply as often.
const ONE_UNREACHED_IN: usize = 10;

/// How many second deaths are tried at a call that only a process makes which takes up what another has left.
const SECOND_DEATHS: usize = 3;

/// The operations in the midst of which the process is killed.
const KILLED_DURING: [Operation; 3] = [Operation::Send, Operation::Edit, Operation::Fetch];

/// All points are tried on each platform when this is set to `all`; otherwise those that can tell most.
const HOW_MANY: &str = "SATCHEL_CRASH_MATRIX";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_on_telegram_survives_its_process() {
    matrix(Platform::Telegram).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_on_telegram_without_look_up_survives() {
    matrix(Platform::TelegramWithoutLookUp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_on_discord_survives_its_process() {
    matrix(Platform::Discord).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_turn_survives_crash_with_forgotten_keys() {
    matrix(Platform::DiscordForgotten).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_text_with_files_survives_crash() {
    matrix(Platform::DiscordBundle).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_arrives_survives_its_process() {
    play(Plot::Arrivals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_group_survives_its_process() {
    play(Plot::Moved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_call_survives_its_process() {
    play(Plot::Confirmed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_script_survives_its_process() {
    play(Plot::Stopped).await;
}

/// Dies in a short scene around the verbs that it is about, and once around every other.
async fn play(plot: Plot) {
    let (scenario, verbs) = (&Play::new(plot), verbs_of_plot(plot));
    let undisturbed = undisturbed(scenario).await;
    let chosen = |_: usize, death: &Death| match death {
        Death::At(point) => point.nth == 1 || verbs.contains(&point.call.as_str()),
        Death::During { .. } => true,
        Death::Never | Death::Twice { .. } => false,
    };
    die(scenario, &undisturbed, &chosen, verbs).await;
}

async fn matrix(platform: Platform) {
    let began = Instant::now();
    let scene = &Scene::set(platform).await;
    let undisturbed = undisturbed(scene).await;
    for outcome in &undisturbed {
        for (operation, least) in scene.least_requests() {
            let made = outcome.requests[&operation];
            assert!(made >= least, "{made} of {least} requests in the midst of which it is to die: {operation:?}");
        }
        let messages = outcome.transcript.visible(&scene.conversation).count();
        assert!(scene.has_everything || messages == 2, "all files stand on their text's message, of {messages}");
    }
    let all = deaths(&undisturbed);
    assert!(all.len() > scene.least_deaths(), "a turn with all this in it has more than {} points", all.len());
    die(scene, &undisturbed, &|index, death| is_telling(platform, index, death), &killed_verbs(platform)).await;
    println!("{platform:?}: {:.1?} in all", began.elapsed());
}

/// Turns that nobody disturbs, in which nothing is amiss.
async fn undisturbed(scenario: &impl Scenario) -> Vec<Outcome> {
    let undisturbed = stream::iter(0..UNDISTURBED).map(|_| run(scenario, Death::Never)).buffer_unordered(AT_ONCE);
    let undisturbed: Vec<Outcome> = undisturbed.collect().await;
    for outcome in &undisturbed {
        let verdict = scenario.judge(outcome, &undisturbed[0]);
        assert!(verdict.is_flawless(), "{verdict:#?}\n{}", outcome.told());
    }
    undisturbed
}

/// Dies in all ways that undisturbed turns showed, or in those that are `chosen`; then once more, while the next process
/// takes up what is left. Processes must have died around each of the `verbs`.
async fn die<S: Scenario>(
    scenario: &S,
    undisturbed: &[Outcome],
    chosen: &dyn Fn(usize, &Death) -> bool,
    verbs: &[&str],
) {
    let began = Instant::now();
    let all_are_wanted = std::env::var(HOW_MANY).is_ok_and(|how_many| how_many == "all");
    let all = deaths(undisturbed);
    let tried: Vec<Death> = all
        .iter()
        .enumerate()
        .filter(|(index, death)| all_are_wanted || chosen(*index, death))
        .map(|(_, death)| death.clone())
        .collect();

    let mut tries = Tries::new(scenario, &undisturbed[0]);
    let recoveries = tries.perform(tried).await;
    let again = second_deaths(recoveries, undisturbed, all_are_wanted);
    let (once, twice) = (tries.table.runs(), again.len());
    tries.perform(again).await;
    println!("{}", tries.table);
    println!(
        "{once} of {} deaths and {twice} second ones in {:.1?} ({HOW_MANY}=all tries all), the slowest run took {:.1?}",
        all.len(),
        began.elapsed(),
        tries.slowest
    );
    let (failures, runs) = (tries.failures, tries.table.runs());
    assert!(failures.is_empty(), "{} of {runs} deaths:\n{}", failures.len(), failures.join("\n\n"));
    let are_few = tries.unreached.len() * ONE_UNREACHED_IN <= runs;
    assert!(are_few, "deaths that other turns showed did not come: {:#?}", tries.unreached);
    println!("died around: {}", tries.killed.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    let spared: Vec<&&str> = verbs.iter().filter(|verb| !tries.killed.contains(**verb)).collect();
    assert!(spared.is_empty(), "no process died around {spared:?}");
}

/// The deaths that are tried, and what came of them.
struct Tries<'a, S> {
    scenario: &'a S,
    undisturbed: &'a Outcome,
    table: Table,
    failures: Vec<String>,
    unreached: Vec<String>,
    /// The calls around which processes died.
    killed: BTreeSet<String>,
    slowest: Duration,
}

impl<'a, S: Scenario> Tries<'a, S> {
    fn new(scenario: &'a S, undisturbed: &'a Outcome) -> Self {
        let (table, killed) = (Table::default(), BTreeSet::new());
        let (failures, unreached, slowest) = (Vec::new(), Vec::new(), Duration::ZERO);
        Self { scenario, undisturbed, table, failures, unreached, killed, slowest }
    }

    /// Tries these deaths, and returns the points that the next process passed after each.
    async fn perform(&mut self, deaths: Vec<Death>) -> Vec<(Death, Vec<Point>)> {
        let (scenario, platform) = (self.scenario, self.scenario.platform());
        let mut recoveries = Vec::new();
        let mut runs = stream::iter(deaths)
            .map(|death| async move {
                let outcome = run_to_its_death(scenario, &death).await;
                (death, outcome)
            })
            .buffer_unordered(AT_ONCE);
        while let Some((death, outcome)) = runs.next().await {
            let verdict = scenario.judge(&outcome, self.undisturbed);
            self.slowest = self.slowest.max(outcome.took);
            match outcome.ending {
                Ending::Died => self.killed.extend(death.deaths().iter().filter_map(Death::call)),
                Ending::NotReached => self.unreached.push(death.to_string()),
                Ending::Survived => self.failures.push(format!("{death}: nobody died of it\n{}", outcome.told())),
            }
            for problem in verdict.problems(platform) {
                self.failures.push(format!("{death}: {problem}\n{}", outcome.told()));
            }
            self.table.add(&death, &outcome, &verdict, platform);
            recoveries.push((death, outcome.recovery));
        }
        recoveries
    }
}

/// Second deaths, at points that processes passed while they took up what a first death had left: one on each side of each
/// call, a few where only such a process makes it; unless all points are wanted, each after one first death.
fn second_deaths(recoveries: Vec<(Death, Vec<Point>)>, undisturbed: &[Outcome], all_are_wanted: bool) -> Vec<Death> {
    let usual: BTreeSet<&str> =
        undisturbed.iter().flat_map(|outcome| &outcome.points).map(|point| point.call.as_str()).collect();
    let mut by_point: BTreeMap<Point, Vec<Death>> = BTreeMap::new();
    for (first, points) in recoveries {
        for point in points {
            by_point.entry(point).or_default().push(first.clone());
        }
    }
    let mut tried: HashMap<(String, Side), usize> = HashMap::new();
    let mut deaths = Vec::new();
    for (index, (second, firsts)) in by_point.into_iter().enumerate() {
        let of_this_call = tried.entry((second.call.clone(), second.side)).or_default();
        let most = if usual.contains(second.call.as_str()) { 1 } else { SECOND_DEATHS };
        if all_are_wanted || *of_this_call < most {
            *of_this_call += 1;
            // Which first death goes before it changes from point to point, so that many are met.
            let first = firsts[index % firsts.len()].clone();
            deaths.push(Death::Twice { first: Box::new(first), second });
        }
    }
    deaths
}

/// Runs until the process has died as it was to, or has come past that place every time.
async fn run_to_its_death(scene: &impl Scenario, death: &Death) -> Outcome {
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
/// ledger, the channel and what comes in, and a third of the rest; elsewhere what leaves a send in doubt, and what is the
/// adapter's or the reply's alone.
fn is_telling(platform: Platform, index: usize, death: &Death) -> bool {
    let is_around = |port: &str| matches!(death, Death::At(point) if point.call.starts_with(port));
    let is_kill = matches!(death, Death::During { .. });
    match platform {
        Platform::TelegramWithoutLookUp => true,
        Platform::Telegram => {
            is_kill || is_around("channel.") || is_around("inbound.") || is_around("ledger.settle_part")
        }
        Platform::Discord => {
            let all_of = ["ledger.", "channel.", "inbound.", "fetcher."];
            is_kill || all_of.into_iter().any(is_around) || index.is_multiple_of(3)
        }
        Platform::DiscordBundle => {
            let taken_in = ["inbound.", "fetcher.", "ledger.bookmark", "ledger.keep_bookmark"];
            is_kill || is_around("channel.") || taken_in.into_iter().any(is_around) || is_around("ledger.settle_part")
        }
        Platform::DiscordForgotten => is_kill || is_around("channel.") || is_around("ledger.settle_part"),
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
            deaths.extend([RequestPhase::Arrived, RequestPhase::Performed].map(|moment| Death::During {
                operation,
                number,
                moment,
            }));
        }
    }
    deaths
}
