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
use satchel_requirements::{
    exclusion::shared,
    required,
    sample::{Frequency, Sample, case_number},
};
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
/// is edited depends on the clock, and in which order two turns go on after a first kill.
const UNDISTURBED_RUNS: usize = 3;
const MAX_ATTEMPTS: usize = 4;
const MAX_SECOND_ATTEMPTS: usize = 8;

/// One of so many runs may miss its kill point, because none of its attempts passed it.
const MIN_RUNS_PER_UNREACHED: usize = 10;

/// A matrix ends after so many problems: what breaks one run often breaks most, and each may wait for a minute.
const MAX_FAILURES: usize = 10;

/// Most second kills at a call that only a recovering process makes, and most rounds of them around a call that was missed.
const MAX_SECOND_KILLS: usize = 3;

/// Of so many runs of the gate, one tries a kill point that no rule chooses for every run: a point of a turn without
/// look-up, a call that every turn makes, and a second kill at a call that other processes make, too.
const RUNS_PER_TURN_POINT: u64 = 4;
const RUNS_PER_COMMON_POINT: u64 = 8;
const RUNS_PER_SECOND_KILL: u64 = 4;

/// The operations during which the process is killed.
const KILLED_OPERATIONS: [Operation; 3] = [Operation::Send, Operation::Edit, Operation::Fetch];

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
async fn reply_to_a_deleted_topic_survives_crash() {
    run_short_matrix(ShortScenarioKind::TopicDeleted, Arc::new(MatrixStorage::Disk)).await;
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
async fn joined_messages_survive_crash() {
    run_short_matrix(ShortScenarioKind::Joined, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rich_messages_survive_crash() {
    run_short_matrix(ShortScenarioKind::Rich, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_rich_messages_survive_crash() {
    run_short_matrix(ShortScenarioKind::RichRefused, Arc::new(MatrixStorage::Disk)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn previewed_reply_survives_crash() {
    run_short_matrix(ShortScenarioKind::Previewed, Arc::new(MatrixStorage::Disk)).await;
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

/// Kills a short scenario at every call of its own verbs and every send, and around the others by turns; on servers see
/// [`is_first_store_call`].
async fn run_short_matrix(kind: ShortScenarioKind, storage: Arc<MatrixStorage>) {
    let _machine = shared("machine");
    let (scenario, verbs) = (&ShortScenario::new(kind, storage), short_scenario_verbs(kind));
    let undisturbed = run_undisturbed(scenario).await;
    let is_own = |point: &CrashPoint| verbs.contains(&point.call.as_str());
    let frequency = |kill_point: &KillPoint| match (scenario.storage(), kill_point) {
        (MatrixStorage::Servers { .. }, KillPoint::At(point)) if is_own(point) && is_first_store_call(kill_point) => {
            Frequency::EveryRun
        }
        (MatrixStorage::Servers { .. }, _) | (_, KillPoint::Never | KillPoint::Twice { .. }) => Frequency::Nightly,
        (MatrixStorage::Disk, KillPoint::At(point)) if is_own(point) => Frequency::EveryRun,
        (MatrixStorage::Disk, KillPoint::At(point)) if point.nth == 1 => Frequency::OneIn(RUNS_PER_COMMON_POINT),
        (MatrixStorage::Disk, KillPoint::At(_)) => Frequency::Nightly,
        (MatrixStorage::Disk, KillPoint::During { .. }) => Frequency::EveryRun,
    };
    run_kills(scenario, &undisturbed, &frequency, verbs).await;
}

async fn run_matrix(platform: MatrixPlatform, storage: Arc<MatrixStorage>) {
    let _machine = shared("machine");
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
    let frequency = |kill_point: &KillPoint| match scenario.storage() {
        MatrixStorage::Disk => turn_frequency(platform, kill_point),
        MatrixStorage::Servers { .. } if is_first_store_call(kill_point) => Frequency::EveryRun,
        MatrixStorage::Servers { .. } => Frequency::Nightly,
    };
    run_kills(scenario, &undisturbed, &frequency, &killed_verbs(platform)).await;
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

/// Runs the kill points of this sample that undisturbed runs passed, then second kills during recovery. Processes must have
/// been killed around each of the `verbs`, whatever the sample.
async fn run_kills<S: Scenario>(
    scenario: &S,
    undisturbed: &[RunOutcome],
    frequency: &dyn Fn(&KillPoint) -> Frequency,
    verbs: &[&str],
) {
    let started_at = Instant::now();
    let sample = Sample::from_environment();
    let all = kill_points(undisturbed);
    let is_selected = |kill_point: &&KillPoint| {
        let number = case_number(&kill_point.to_string());
        sample.includes(frequency(kill_point), number)
    };
    let selected = all.iter().filter(is_selected).map(|kill_point| vec![kill_point.clone()]).collect();

    let mut kill_runs = KillRuns::new(scenario, &undisturbed[0]);
    let recoveries = kill_runs.run_all(selected).await;
    let (second_kills, verbs) = match scenario.storage() {
        MatrixStorage::Servers { .. } if !sample.is_nightly() => {
            (Vec::new(), verbs.iter().copied().filter(|verb| is_store_call(verb)).collect())
        }
        _ => (second_kill_points(&recoveries, undisturbed, sample), verbs.to_vec()),
    };
    let once = kill_runs.table.runs();
    if !kill_runs.is_broken() {
        kill_runs.run_all(second_kills.clone()).await;
    }
    if sample.includes_core() && !kill_runs.is_broken() {
        kill_runs.run_missed(&recoveries, second_kills, &verbs).await;
    }
    let twice = kill_runs.table.runs() - once;
    println!("{}", kill_runs.table);
    println!(
        "{once} of {} deaths and {twice} second ones in {:.1?} ({sample}), the slowest run took {:.1?}",
        all.len(),
        started_at.elapsed(),
        kill_runs.slowest
    );
    let (failures, runs) = (kill_runs.failures, kill_runs.table.runs());
    assert!(failures.is_empty(), "{} of {runs} deaths:\n{}", failures.len(), failures.join("\n\n"));
    println!("deaths that did not come: {:#?}", kill_runs.unreached);
    let is_acceptable = kill_runs.unreached.len() * MIN_RUNS_PER_UNREACHED <= runs;
    assert!(is_acceptable, "deaths that other turns showed did not come: {:#?}", kill_runs.unreached);
    println!("died around: {}", kill_runs.killed.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    let unkilled: Vec<&&str> = verbs.iter().filter(|verb| !kill_runs.killed.contains(**verb)).collect();
    assert!(unkilled.is_empty() || !sample.includes_core(), "no process died around {unkilled:?}");
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
        Self {
            scenario,
            undisturbed,
            table: MatrixTable::default(),
            failures: Vec::new(),
            unreached: Vec::new(),
            killed: BTreeSet::new(),
            slowest: Duration::ZERO,
        }
    }

    /// Runs one of each of these alternatives, and returns the points that the recovering process passed after each.
    async fn run_all(&mut self, kill_points: Vec<Vec<KillPoint>>) -> Vec<(KillPoint, Vec<CrashPoint>)> {
        let (scenario, platform) = (self.scenario, self.scenario.platform());
        let mut recoveries = Vec::new();
        let mut runs = stream::iter(kill_points)
            .map(|alternatives| async move { run_until_killed(scenario, &alternatives).await })
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
            if self.is_broken() {
                break;
            }
        }
        recoveries
    }

    fn is_broken(&self) -> bool {
        self.failures.len() >= MAX_FAILURES
    }

    /// Runs further second kills, one a round around each of the `verbs` around which no process was killed yet. A recovery
    /// doesn't pass all of the points that it passed before, so that a pair may be missed.
    async fn run_missed(
        &mut self,
        recoveries: &[(KillPoint, Vec<CrashPoint>)],
        tried: Vec<Vec<KillPoint>>,
        verbs: &[&str],
    ) {
        let mut tried = tried.concat();
        for _ in 0..MAX_SECOND_KILLS {
            let missed = verbs.iter().filter(|verb| !self.killed.contains(**verb));
            let further: Vec<KillPoint> =
                missed.filter_map(|verb| other_second_kill_point(recoveries, &tried, verb)).collect();
            tried.extend(further.iter().cloned());
            self.run_all(further.into_iter().map(|kill_point| vec![kill_point]).collect()).await;
        }
    }
}

/// Returns second kill points, at points that processes passed during recovery: one on each side of each call by turns, a
/// few in every run where only a recovering process makes it. The alternatives differ in the first kill, after each of which
/// the point was passed.
fn second_kill_points(
    recoveries: &[(KillPoint, Vec<CrashPoint>)],
    undisturbed: &[RunOutcome],
    sample: Sample,
) -> Vec<Vec<KillPoint>> {
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
    for (second, firsts) in by_point {
        let calls = tried.entry((second.call.clone(), second.side)).or_default();
        *calls += 1;
        let is_usual = usual.contains(second.call.as_str());
        let frequency = match *calls {
            1 if is_usual => Frequency::OneIn(RUNS_PER_SECOND_KILL),
            1..=MAX_SECOND_KILLS if !is_usual => Frequency::EveryRun,
            _ => Frequency::Nightly,
        };
        let number = case_number(&format!("{:?} {}", second.side, second.call));
        if sample.includes(frequency, number) || sample.may_be_unknown_elsewhere(firsts.len()) {
            // Which first death goes before it changes from point to point, so that many are met.
            let from = kill_points.len() % firsts.len();
            let firsts = firsts.iter().cycle().skip(from).take(firsts.len()).cloned();
            let twice = |first| KillPoint::Twice { first: Box::new(first), second: second.clone() };
            kill_points.push(firsts.take(MAX_SECOND_ATTEMPTS).map(twice).collect());
        }
    }
    kill_points
}

/// Returns a second kill around a call that was not tried yet.
fn other_second_kill_point(
    recoveries: &[(KillPoint, Vec<CrashPoint>)],
    tried: &[KillPoint],
    call: &str,
) -> Option<KillPoint> {
    let mut pairs = recoveries.iter().filter_map(|(first, points)| {
        let second = points.iter().find(|point| point.call == call)?.clone();
        Some(KillPoint::Twice { first: Box::new(first.clone()), second })
    });
    pairs.find(|pair| !tried.contains(pair))
}

/// Runs one alternative after the other until the process was killed at its kill point, or has missed it in every attempt.
async fn run_until_killed(scenario: &impl Scenario, alternatives: &[KillPoint]) -> (KillPoint, RunOutcome) {
    let is_second = matches!(alternatives[0], KillPoint::Twice { .. });
    let attempts = if is_second { MAX_SECOND_ATTEMPTS } else { MAX_ATTEMPTS };
    let mut attempts = alternatives.iter().cycle().take(attempts);
    let mut kill_point = attempts.next().expect("there is one at least");
    let mut outcome = run(scenario, kill_point.clone()).await;
    while outcome.kill_result != KillResult::Died
        && let Some(next) = attempts.next()
    {
        kill_point = next;
        outcome = run(scenario, kill_point.clone()).await;
    }
    (kill_point.clone(), outcome)
}

/// How often a kill of a turn is tried: on every platform in every run what leaves a send in doubt, and what is the
/// adapter's or the reply's alone; where keys help, also every point around the ledger; by turns the rest where most can go
/// wrong, and where keys help.
fn turn_frequency(platform: MatrixPlatform, kill_point: &KillPoint) -> Frequency {
    let is_around = |ports: &[&str]| {
        let KillPoint::At(point) = kill_point else { return false };
        ports.iter().any(|port| point.call.starts_with(port))
    };
    let core: &[&str] = match platform {
        MatrixPlatform::Telegram | MatrixPlatform::TelegramWithoutLookUp => {
            &["channel.", "inbound.", "ledger.settle_part"]
        }
        MatrixPlatform::Discord => &["ledger.", "channel.", "inbound.", "fetcher."],
        MatrixPlatform::DiscordBundle => &[
            "channel.",
            "inbound.",
            "fetcher.",
            "ledger.load_checkpoint",
            "ledger.save_checkpoint",
            "ledger.settle_part",
        ],
        MatrixPlatform::DiscordForgotten => &["channel.", "ledger.settle_part"],
    };
    if matches!(kill_point, KillPoint::During { .. }) || is_around(core) {
        return Frequency::EveryRun;
    }
    match platform {
        MatrixPlatform::TelegramWithoutLookUp => Frequency::OneIn(RUNS_PER_TURN_POINT),
        MatrixPlatform::Discord => Frequency::OneIn(RUNS_PER_COMMON_POINT),
        MatrixPlatform::Telegram | MatrixPlatform::DiscordBundle | MatrixPlatform::DiscordForgotten => {
            Frequency::Nightly
        }
    }
}

/// Whether a death is tried on servers in every run: one on each side of every call of the ledger and of the blobs. What
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
