//! The crash matrix: a turn with every kind of content survives a crash of its process at any point.
//!
//! The process aborts before or after every call of every port, and is killed with SIGKILL during every request that
//! the platform receives. It is then restarted on the same data, and the final messages on the platform are checked.

mod disk;
mod records;
mod report;
mod run;
mod short_scenario;
mod storage;
mod table;
mod turn_scenario;
mod verbs;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use satchel_fake_kit::RequestPhase;
use satchel_requirements::required;
use satchel_system::crash::points::{CrashPoint, Side};

use self::{
    run::{KillPoint, KillResult, RunOutcome, Scenario, run},
    short_scenario::{ShortScenario, ShortScenarioKind},
    storage::MatrixStorage,
    table::MatrixTable,
    turn_scenario::{MatrixPlatform, TurnScenario},
    verbs::{killed_verbs, short_scenario_verbs},
};
use crate::test_platform::Operation;

/// Most processes that run at once.
const MAX_CONCURRENT_PROCESSES: usize = 2;

/// Number of undisturbed runs, and most attempts for a kill point that a run does not reach: how often a growing reply
/// is edited depends on the clock.
const UNDISTURBED_RUNS: usize = 3;
const MAX_ATTEMPTS: usize = 4;

/// One of so many runs may miss its kill point, because none of its attempts edited the reply often enough.
const MIN_RUNS_PER_UNREACHED: usize = 10;

/// Most second kills at a call that only a recovering process makes.
const MAX_SECOND_KILLS: usize = 3;

/// The operations during which the process is killed.
const KILLED_OPERATIONS: [Operation; 3] = [Operation::Send, Operation::Edit, Operation::Fetch];

/// Environment variable that selects all kill points when set to `all`; by default a selection is tried.
const SCOPE_VARIABLE: &str = "SATCHEL_CRASH_MATRIX";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_turn_survives_crash() {
    run_matrix(MatrixPlatform::Telegram, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_turn_without_look_up_survives_crash() {
    run_matrix(MatrixPlatform::TelegramWithoutLookUp, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_turn_survives_crash() {
    run_matrix(MatrixPlatform::Discord, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_turn_survives_crash_with_forgotten_keys() {
    run_matrix(MatrixPlatform::DiscordForgotten, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_text_with_files_survives_crash() {
    run_matrix(MatrixPlatform::DiscordBundle, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrivals_survive_crash() {
    run_short_matrix(ShortScenarioKind::Arrivals, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrated_group_survives_crash() {
    run_short_matrix(ShortScenarioKind::Moved, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmed_call_survives_crash() {
    run_short_matrix(ShortScenarioKind::Confirmed, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_script_survives_crash() {
    run_short_matrix(ShortScenarioKind::Stopped, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_chain_survives_crash() {
    run_short_matrix(ShortScenarioKind::Task, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reminder_survives_crash() {
    run_short_matrix(ShortScenarioKind::Reminded, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notification_survives_crash() {
    run_short_matrix(ShortScenarioKind::Notified, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turn_on_servers_survives_crash() {
    let Some(storage) = required(MatrixStorage::start_servers().await) else { return };
    run_matrix(MatrixPlatform::Telegram, Arc::new(storage)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_turns_on_servers_survive_crash() {
    let Some(storage) = required(MatrixStorage::start_servers().await) else { return };
    let storage = Arc::new(storage);
    for kind in ShortScenarioKind::ALL {
        run_short_matrix(kind, Arc::clone(&storage)).await;
    }
}

/// Kills a short scenario at every call of its own verbs, and once around every other; on servers see
/// [`is_first_store_call`].
async fn run_short_matrix(kind: ShortScenarioKind, storage: Arc<MatrixStorage>) {
    let (scenario, verbs) = (&ShortScenario::new(kind, storage), short_scenario_verbs(kind));
    let undisturbed = run_undisturbed(scenario).await;
    let is_own = |point: &CrashPoint| verbs.contains(&point.call.as_str());
    let is_selected = |_: usize, kill_point: &KillPoint| match (scenario.storage(), kill_point) {
        (_, KillPoint::Never | KillPoint::Twice { .. }) | (MatrixStorage::Servers { .. }, KillPoint::During { .. }) => {
            false
        }
        (MatrixStorage::Servers { .. }, KillPoint::At(point)) => is_own(point) && is_first_store_call(kill_point),
        (MatrixStorage::Disk, KillPoint::At(point)) => point.nth == 1 || is_own(point),
        (MatrixStorage::Disk, KillPoint::During { .. }) => true,
    };
    run_kills(scenario, &undisturbed, &is_selected, verbs).await;
}

async fn run_matrix(platform: MatrixPlatform, storage: Arc<MatrixStorage>) {
    let started_at = Instant::now();
    let scenario = &TurnScenario::new(platform, storage).await;
    let undisturbed = run_undisturbed(scenario).await;
    for outcome in &undisturbed {
        for (operation, min_requests) in scenario.min_requests() {
            let made = outcome.requests[&operation];
            assert!(
                made >= min_requests,
                "{made} of {min_requests} requests in the midst of which it is to die: {operation:?}"
            );
        }
        let messages = outcome.transcript.visible(&scenario.conversation).count();
        assert!(scenario.has_everything || messages == 2, "all files stand on their text's message, of {messages}");
    }
    let all = kill_points(&undisturbed);
    assert!(all.len() > scenario.min_kill_points(), "a turn with all this in it has more than {} points", all.len());
    let is_selected = |index: usize, kill_point: &KillPoint| match scenario.storage() {
        MatrixStorage::Disk => is_worth_trying(platform, index, kill_point),
        MatrixStorage::Servers { .. } => is_first_store_call(kill_point),
    };
    run_kills(scenario, &undisturbed, &is_selected, &killed_verbs(platform)).await;
    println!("{platform:?}: {:.1?} in all", started_at.elapsed());
}

/// Runs undisturbed turns and asserts that they are flawless.
async fn run_undisturbed(scenario: &impl Scenario) -> Vec<RunOutcome> {
    let undisturbed = stream::iter(0..UNDISTURBED_RUNS)
        .map(|_| run(scenario, KillPoint::Never))
        .buffer_unordered(MAX_CONCURRENT_PROCESSES);
    let undisturbed: Vec<RunOutcome> = undisturbed.collect().await;
    for outcome in &undisturbed {
        let report = scenario.check(outcome, &undisturbed[0]);
        assert!(report.is_flawless(), "{report:#?}\n{}", outcome.summary());
    }
    undisturbed
}

/// Runs the selected kill points that undisturbed runs passed, then second kills during recovery. Processes must have
/// been killed around each of the `verbs`.
async fn run_kills<S: Scenario>(
    scenario: &S,
    undisturbed: &[RunOutcome],
    is_selected: &dyn Fn(usize, &KillPoint) -> bool,
    verbs: &[&str],
) {
    let started_at = Instant::now();
    let is_exhaustive = std::env::var(SCOPE_VARIABLE).is_ok_and(|how_many| how_many == "all");
    let all = kill_points(undisturbed);
    let selected: Vec<KillPoint> = all
        .iter()
        .enumerate()
        .filter(|(index, death)| is_exhaustive || is_selected(*index, death))
        .map(|(_, death)| death.clone())
        .collect();

    let mut kill_runs = KillRuns::new(scenario, &undisturbed[0]);
    let recoveries = kill_runs.run_all(selected).await;
    let (second_kills, verbs) = match scenario.storage() {
        MatrixStorage::Servers { .. } if !is_exhaustive => {
            (Vec::new(), verbs.iter().copied().filter(|verb| is_store_call(verb)).collect())
        }
        _ => (second_kill_points(&recoveries, undisturbed, is_exhaustive), verbs.to_vec()),
    };
    let once = kill_runs.table.runs();
    kill_runs.run_all(second_kills.clone()).await;
    // A recovery doesn't pass all of the points that it passed before, so that a pair may be missed.
    let missed: Vec<&str> = verbs.iter().copied().filter(|verb| !kill_runs.killed.contains(*verb)).collect();
    kill_runs.run_all(other_second_kill_points(&recoveries, &second_kills, &missed)).await;
    let twice = kill_runs.table.runs() - once;
    println!("{}", kill_runs.table);
    println!(
        "{once} of {} deaths and {twice} second ones in {:.1?} ({SCOPE_VARIABLE}=all tries all), the slowest run took {:.1?}",
        all.len(),
        started_at.elapsed(),
        kill_runs.slowest
    );
    let (failures, runs) = (kill_runs.failures, kill_runs.table.runs());
    assert!(failures.is_empty(), "{} of {runs} deaths:\n{}", failures.len(), failures.join("\n\n"));
    let is_acceptable = kill_runs.unreached.len() * MIN_RUNS_PER_UNREACHED <= runs;
    assert!(is_acceptable, "deaths that other turns showed did not come: {:#?}", kill_runs.unreached);
    println!("died around: {}", kill_runs.killed.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    let unkilled: Vec<&&str> = verbs.iter().filter(|verb| !kill_runs.killed.contains(**verb)).collect();
    assert!(unkilled.is_empty(), "no process died around {unkilled:?}");
}

/// The kill points that were run, and their results.
struct KillRuns<'a, S> {
    scenario: &'a S,
    undisturbed: &'a RunOutcome,
    table: MatrixTable,
    failures: Vec<String>,
    unreached: Vec<String>,
    /// The calls around which processes died.
    killed: BTreeSet<String>,
    slowest: Duration,
}

impl<'a, S: Scenario> KillRuns<'a, S> {
    fn new(scenario: &'a S, undisturbed: &'a RunOutcome) -> Self {
        let (table, killed) = (MatrixTable::default(), BTreeSet::new());
        let (failures, unreached, slowest) = (Vec::new(), Vec::new(), Duration::ZERO);
        Self { scenario, undisturbed, table, failures, unreached, killed, slowest }
    }

    /// Runs these kill points, and returns the points that the recovering process passed after each.
    async fn run_all(&mut self, kill_points: Vec<KillPoint>) -> Vec<(KillPoint, Vec<CrashPoint>)> {
        let (scenario, platform) = (self.scenario, self.scenario.platform());
        let mut recoveries = Vec::new();
        let mut runs = stream::iter(kill_points)
            .map(|kill_point| async move {
                let outcome = run_until_killed(scenario, &kill_point).await;
                (kill_point, outcome)
            })
            // In the order of the kill points, so that each run samples the same second ones.
            .buffered(MAX_CONCURRENT_PROCESSES);
        while let Some((death, outcome)) = runs.next().await {
            let report = scenario.check(&outcome, self.undisturbed);
            self.slowest = self.slowest.max(outcome.took);
            match outcome.kill_result {
                KillResult::Died => self.killed.extend(death.single_kill_points().iter().filter_map(KillPoint::call)),
                KillResult::NotReached => self.unreached.push(death.to_string()),
                KillResult::Survived => {
                    self.failures.push(format!("{death}: the process survived it\n{}", outcome.summary()))
                }
            }
            for problem in report.problems(platform) {
                self.failures.push(format!("{death}: {problem}\n{}", outcome.summary()));
            }
            self.table.add(&death, &outcome, &report, platform);
            recoveries.push((death, outcome.recovery_points));
        }
        recoveries
    }
}

/// Returns second kill points, at points that processes passed during recovery: one on each side of each call, a few
/// where only a recovering process makes it. Each follows one first kill, unless the matrix is exhaustive.
fn second_kill_points(
    recoveries: &[(KillPoint, Vec<CrashPoint>)],
    undisturbed: &[RunOutcome],
    is_exhaustive: bool,
) -> Vec<KillPoint> {
    let usual: BTreeSet<&str> =
        undisturbed.iter().flat_map(|outcome| &outcome.points).map(|point| point.call.as_str()).collect();
    let mut by_point: BTreeMap<CrashPoint, Vec<KillPoint>> = BTreeMap::new();
    for (first, points) in recoveries {
        for point in points {
            by_point.entry(point.clone()).or_default().push(first.clone());
        }
    }
    let mut tried: HashMap<(String, Side), usize> = HashMap::new();
    let mut kill_points = Vec::new();
    for (index, (second, firsts)) in by_point.into_iter().enumerate() {
        let call_kills = tried.entry((second.call.clone(), second.side)).or_default();
        let max_kills = if usual.contains(second.call.as_str()) { 1 } else { MAX_SECOND_KILLS };
        if is_exhaustive || *call_kills < max_kills {
            *call_kills += 1;
            // Which first death goes before it changes from point to point, so that many are met.
            let first = firsts[index % firsts.len()].clone();
            kill_points.push(KillPoint::Twice { first: Box::new(first), second });
        }
    }
    kill_points
}

/// Returns further second kills around the calls that were missed, each after another first one.
fn other_second_kill_points(
    recoveries: &[(KillPoint, Vec<CrashPoint>)],
    tried: &[KillPoint],
    missed: &[&str],
) -> Vec<KillPoint> {
    let around = |call: &str| {
        let pairs = recoveries.iter().filter_map(|(first, points)| {
            let second = points.iter().find(|point| point.call == call)?.clone();
            Some(KillPoint::Twice { first: Box::new(first.clone()), second })
        });
        pairs.filter(|pair| !tried.contains(pair)).take(MAX_SECOND_KILLS).collect::<Vec<_>>()
    };
    missed.iter().flat_map(|call| around(call)).collect()
}

/// Runs until the process was killed at its kill point, or has missed it in every attempt.
async fn run_until_killed(scenario: &impl Scenario, kill_point: &KillPoint) -> RunOutcome {
    let mut outcome = run(scenario, kill_point.clone()).await;
    for _ in 1..MAX_ATTEMPTS {
        if outcome.kill_result == KillResult::Died {
            break;
        }
        outcome = run(scenario, kill_point.clone()).await;
    }
    outcome
}

/// Whether a death is tried unless all are: everything where most can go wrong; where keys help, every point around the
/// ledger, the channel and what comes in, and a third of the rest; elsewhere what leaves a send in doubt, and what is
/// the adapter's or the reply's alone.
fn is_worth_trying(platform: MatrixPlatform, index: usize, kill_point: &KillPoint) -> bool {
    let is_around = |port: &str| matches!(kill_point, KillPoint::At(point) if point.call.starts_with(port));
    let is_kill = matches!(kill_point, KillPoint::During { .. });
    match platform {
        MatrixPlatform::TelegramWithoutLookUp => true,
        MatrixPlatform::Telegram => {
            is_kill || is_around("channel.") || is_around("inbound.") || is_around("ledger.settle_part")
        }
        MatrixPlatform::Discord => {
            let ports = ["ledger.", "channel.", "inbound.", "fetcher."];
            is_kill || ports.into_iter().any(is_around) || index.is_multiple_of(3)
        }
        MatrixPlatform::DiscordBundle => {
            let inbound_calls = ["inbound.", "fetcher.", "ledger.load_checkpoint", "ledger.save_checkpoint"];
            is_kill
                || is_around("channel.")
                || inbound_calls.into_iter().any(is_around)
                || is_around("ledger.settle_part")
        }
        MatrixPlatform::DiscordForgotten => is_kill || is_around("channel.") || is_around("ledger.settle_part"),
    }
}

/// Whether a death is tried on servers unless all are: one on each side of every call of the ledger and of the blobs. What
/// a commit on PostgreSQL or an upload to S3 leaves behind is theirs; what is made of it, the runs on the disk try out.
fn is_first_store_call(kill_point: &KillPoint) -> bool {
    matches!(kill_point, KillPoint::At(point) if point.nth == 1 && is_store_call(&point.call))
}

fn is_store_call(call: &str) -> bool {
    call.starts_with("ledger.") || call.starts_with("blobs.")
}

/// Returns every kill point that all undisturbed runs passed.
fn kill_points(undisturbed: &[RunOutcome]) -> Vec<KillPoint> {
    let points = |outcome: &RunOutcome| outcome.points.iter().cloned().collect::<BTreeSet<CrashPoint>>();
    let points = undisturbed.iter().map(points).reduce(|known, other| &known & &other).unwrap_or_default();
    let mut kill_points: Vec<KillPoint> = points.into_iter().map(KillPoint::At).collect();
    for operation in KILLED_OPERATIONS {
        let requests = undisturbed.iter().map(|outcome| outcome.requests[&operation]).min().unwrap_or(0);
        for number in 1..=requests {
            kill_points.extend([RequestPhase::Arrived, RequestPhase::Performed].map(|moment| KillPoint::During {
                operation,
                number,
                moment,
            }));
        }
    }
    kill_points
}
