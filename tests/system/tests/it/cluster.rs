//! Several machines: gateways, agents and delivery workers on PostgreSQL, S3 and NATS, killed at random while people
//! write.

mod clock;
mod harness;
mod outages;

use std::{
    env,
    time::{Duration, Instant},
};

use satchel_fake_model::{ModelReply, ReplyPiece};
use satchel_requirements::{
    exclusion::{alone, shared},
    find_programs, required,
    sample::{Frequency, Sample},
};

use self::harness::{Cluster, LABEL, POLL_INTERVAL, Received, TIMEOUT};

/// How many turns there are in the gate and in `cargo xtask nightly`, and the environment variable that says otherwise; half
/// of them on each platform.
const TURNS: i64 = 160;
const NIGHTLY_TURNS: i64 = 500;
const TURNS_VARIABLE: &str = "SATCHEL_CLUSTER_TURNS";

/// The environment variable that sets the number by which processes and moments are chosen; otherwise the sample does.
const SEED_VARIABLE: &str = "SATCHEL_CLUSTER_SEED";

/// How many messages each person writes.
const MESSAGES: usize = 10;

/// The messages that bring a file.
const WITH_FILE: [usize; 2] = [0, 6];

/// The message whose answer is the file that the person sent first.
const RESEND: usize = 4;

/// After how many answers a process is killed, on average: of the gate's few turns, and of many.
const ANSWERS_PER_KILL: u64 = 20;
const NIGHTLY_ANSWERS_PER_KILL: u64 = 40;

/// The same where few people write.
const ANSWERS_PER_EARLY_KILL: u64 = 8;

/// How many people write on each platform to machines whose clocks differ.
const PEOPLE_AMID_CLOCKS: i64 = 3;

/// Longer than any test.
const WRITING_TIME: Duration = Duration::from_secs(3_600);

/// Two gateways, three agents and two delivery workers.
const ROLES: [&str; 7] = ["gateway", "gateway", "agent", "agent", "agent", "delivery", "delivery"];

/// The roles of which a process is killed, in turn.
const KILLED_ROLES: [&str; 3] = ["gateway", "delivery", "agent"];

/// How far the clocks of their machines are off: a minute apart within a role at least, and an hour in all.
const CLOCK_OFFSETS: [&str; 7] = ["+30s", "-30s", "+30m", "-30m", "+1m", "-30m", "+30m"];

fn question(person: i64, number: usize) -> String {
    format!("question {person}-{number:02}")
}

fn answer(person: i64, number: usize) -> String {
    format!("answer {person}-{number:02}")
}

fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("the variables of this test are numbers"))
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a length")
    }
}

/// People who write, each the next message when the last one is answered.
struct Writers<'a> {
    cluster: &'a Cluster,
    /// How many messages each has written.
    written: Vec<(i64, usize)>,
}

impl Writers<'_> {
    /// Lets everybody write whose last message is answered. Returns how many messages are answered.
    fn write(&mut self) -> usize {
        let received = self.cluster.received();
        let mut answered = 0;
        for (person, written) in &mut self.written {
            let is_answered = *written == 0 || is_answered(&received[person], *person, *written - 1);
            answered += if is_answered { *written } else { *written - 1 };
            if is_answered && *written < MESSAGES {
                write_message(self.cluster, *person, *written);
                *written += 1;
            }
        }
        answered
    }
}

fn write_message(cluster: &Cluster, person: i64, number: usize) {
    match number {
        RESEND => cluster.send(person, "/resend 1"),
        _ if WITH_FILE.contains(&number) => {
            cluster.send_file(person, &question(person, number), &format!("{person}-{number}.txt"));
        }
        _ => cluster.send(person, &question(person, number)),
    }
}

fn is_answered(received: &Received, person: i64, number: usize) -> bool {
    match number {
        RESEND => !received.files.is_empty(),
        _ => received.texts.iter().any(|text| without_label(text) == answer(person, number)),
    }
}

fn without_label(text: &str) -> &str {
    text.strip_prefix(LABEL).map_or(text, str::trim_start)
}

/// What was killed.
#[derive(Default)]
struct Kills {
    processes: usize,
    /// The messages that were being sent when the delivery workers were killed.
    sends: u64,
}

/// Kills processes at random and starts them anew, until everything is answered.
async fn kill_processes(cluster: &Cluster, random: &mut Random, answers_per_kill: u64) -> Kills {
    let people = cluster.people().map(|person| (person, 0)).collect::<Vec<_>>();
    let (all, mut writers) = (people.len() * MESSAGES, Writers { cluster, written: people });
    let mut next_kill = answers_per_kill;
    let (mut kills, mut last, mut progressed_at) = (Kills::default(), 0, Instant::now());
    loop {
        let answered = writers.write();
        if answered == all {
            return kills;
        }
        if answered > last {
            (last, progressed_at) = (answered, Instant::now());
        }
        assert!(progressed_at.elapsed() < TIMEOUT, "{answered} of {all} are answered\n{}", cluster.report());
        if answered as u64 >= next_kill {
            match KILLED_ROLES[kills.processes % KILLED_ROLES.len()] {
                "delivery" => kills.sends += kill_while_sending(&mut writers, random.below(2) == 1).await,
                role => {
                    let of_role: Vec<usize> = (0..ROLES.len()).filter(|index| ROLES[*index] == role).collect();
                    let index = of_role[random.index(of_role.len())];
                    cluster.kill(index).await;
                    cluster.start(index);
                }
            }
            kills.processes += 1;
            next_kill = answered as u64 + 1 + random.below(2 * answers_per_kill);
        }
        // Nothing announces an answer.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Kills the delivery workers while messages are being sent, which the platforms have accepted or not, and starts them
/// anew. Returns how many messages that were.
async fn kill_while_sending(writers: &mut Writers<'_>, performed: bool) -> u64 {
    let cluster = writers.cluster;
    let sends = cluster.sends();
    cluster.hang_sends(performed);
    let began = Instant::now();
    while cluster.sends() == sends {
        assert!(began.elapsed() < TIMEOUT, "nothing is sent\n{}", cluster.report());
        writers.write();
        // Nothing announces a message that is not answered.
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let workers = (0..ROLES.len()).filter(|index| ROLES[*index] == "delivery");
    for index in workers.clone() {
        cluster.kill(index).await;
    }
    cluster.answer_sends();
    let cut_off = cluster.sends() - sends;
    workers.for_each(|index| cluster.start(index));
    cut_off
}

/// Messages and files with a label.
#[derive(Default)]
struct Labels {
    all: u64,
    /// The files that came with a label only.
    only_files: u64,
}

/// Asserts that a person got everything in order, and nothing twice without a label. Returns what has a label.
fn check_received(received: &Received, person: i64) -> Labels {
    let unlabelled: Vec<&String> = received.texts.iter().filter(|text| !text.starts_with(LABEL)).collect();
    let mut seen: Vec<&str> = Vec::new();
    for text in received.texts.iter().map(|text| without_label(text)) {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    let expected = (0..MESSAGES).filter(|number| *number != RESEND).map(|number| answer(person, number));
    assert_eq!(seen, expected.collect::<Vec<_>>(), "each and in order: {received:?}");
    assert!(
        unlabelled.iter().all(|text| unlabelled.iter().filter(|other| other == &text).count() == 1),
        "{received:?}"
    );
    assert!(received.files.iter().all(|sent| sent.filename == format!("{person}-0.txt")), "{received:?}");
    let unlabelled_files = received.files.iter().filter(|sent| !sent.is_labelled).count();
    assert!(!received.files.is_empty() && unlabelled_files <= 1, "{received:?}");
    let labels = received.texts.len() - unlabelled.len() + received.files.len() - unlabelled_files;
    Labels { all: labels as u64, only_files: u64::from(unlabelled_files == 0) }
}

/// Asserts that whatever is written to these processes is answered once and in order while they are killed.
async fn assert_kills_lose_and_repeat_nothing(cluster: &Cluster, sample: Sample, answers_per_kill: u64) {
    let seed = number_from(SEED_VARIABLE).unwrap_or_else(|| sample.seed());
    let turns = cluster.people().count() * MESSAGES;
    eprintln!("{SEED_VARIABLE}={seed} {TURNS_VARIABLE}={turns}");
    for person in cluster.people() {
        for number in 0..MESSAGES {
            let reply = ModelReply::text(&answer(person, number)).when(&question(person, number));
            cluster.model.reply(reply.every_time());
        }
    }
    cluster.wait_until("a gateway is connected", || cluster.is_connected()).await;
    let started = Instant::now();
    let kills = kill_processes(cluster, &mut Random(seed), answers_per_kill).await;
    let received = cluster.received();
    let mut labels = Labels::default();
    for person in cluster.people() {
        let Labels { all, only_files } = check_received(&received[&person], person);
        labels = Labels { all: labels.all + all, only_files: labels.only_files + only_files };
    }
    let (Labels { all: labels, only_files }, Kills { processes, sends }) = (labels, kills);
    let elapsed = started.elapsed();
    eprintln!("{turns} turns, {processes} kills amid {sends} messages, {labels} labels in {elapsed:.0?}");
    let is_long_enough = turns as u64 >= KILLED_ROLES.len() as u64 * 2 * answers_per_kill;
    assert!(processes >= KILLED_ROLES.len() || !is_long_enough, "a role of which no process was killed");
    assert!(sends > 0 || !is_long_enough, "no message was being sent when its process was killed");
    // A process that is killed leaves what it was sending in doubt, and each doubt may be labelled.
    assert!(labels <= 3 * processes as u64, "{labels} labels after {processes} kills amid {sends} messages");
    assert!(only_files <= sends, "{only_files} files came with a label only, after {sends} messages were cut off");
    assert!(cluster.logs_with("Conflict").is_empty(), "Telegram saw two connections of the bot");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_and_repeat_nothing() {
    let sample = Sample::from_environment();
    if !sample.is_turn_of(Frequency::EveryRun, 0) {
        return;
    }
    let (turns, answers_per_kill) = match sample.is_nightly() {
        true => (NIGHTLY_TURNS, NIGHTLY_ANSWERS_PER_KILL),
        false => (TURNS, ANSWERS_PER_KILL),
    };
    let turns = number_from(TURNS_VARIABLE).map_or(turns, |turns| i64::try_from(turns).expect("a small number"));
    let people = (turns / (2 * MESSAGES as i64)).max(1);
    let Some(cluster) = required(Cluster::open_on_both(people, people).await) else { return };
    let _machine = shared("machine");
    for role in ROLES {
        cluster.add(&["--role", role]);
    }
    assert_kills_lose_and_repeat_nothing(&cluster, sample, answers_per_kill).await;
}

/// Whoever takes a lane over compares what happened on a machine whose clock says something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_an_hour_apart_lose_and_repeat_nothing() {
    let sample = Sample::from_environment();
    if !sample.is_turn_of(Frequency::EveryRun, 1) {
        return;
    }
    let Some(()) = required(find_programs(&["faketime"])) else { return };
    let Some(cluster) = required(Cluster::open_on_both(PEOPLE_AMID_CLOCKS, PEOPLE_AMID_CLOCKS).await) else { return };
    let _machine = shared("machine");
    for (role, offset) in ROLES.into_iter().zip(CLOCK_OFFSETS) {
        cluster.add_with_clock(offset, &["--role", role]);
    }
    assert_kills_lose_and_repeat_nothing(&cluster, sample, ANSWERS_PER_EARLY_KILL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_process_sends_nothing_once_its_lease_is_lost() {
    if !Sample::from_environment().is_turn_of(Frequency::EveryRun, 2) {
        return;
    }
    let Some(cluster) = required(Cluster::open(1).await) else { return };
    let _machine = shared("machine");
    let person = cluster.people().next().expect("one");
    cluster.add(&["--role", "gateway"]);
    let frozen = cluster.add(&["--role", "agent"]);
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("from the frozen one".to_owned())];
    cluster.model.reply(ModelReply::pieces(pieces));
    cluster.send(person, "hello");
    cluster.wait_until("the first request", || cluster.model.requests().len() == 1).await;
    cluster.signal(frozen, "-STOP").await;
    cluster.model.reply(ModelReply::text("from the other"));
    cluster.add(&["--role", "agent"]);
    cluster.wait_until("the lease expires", || cluster.texts(person) == ["from the other"]).await;

    cluster.signal(frozen, "-CONT").await;
    cluster.model.clock().advance(WRITING_TIME);
    cluster.wait_until("the frozen one sees it", || !cluster.logs_with("leases expired").is_empty()).await;
    cluster.model.reply(ModelReply::text("good bye"));
    cluster.send(person, "bye");
    cluster.wait_until("an answer", || cluster.texts(person).contains(&"good bye".to_owned())).await;
    assert_eq!(cluster.texts(person), ["from the other", "good bye"]);
    assert_eq!(cluster.model.requests().len(), 3, "the turn was asked for once more, and no other");
}

/// What the documentation promises.
const MAX_TAKEOVER: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_that_waits_takes_over_within_ten_seconds() {
    if !Sample::from_environment().is_turn_of(Frequency::EveryRun, 3) {
        return;
    }
    let Some(cluster) = required(Cluster::open_on_both(1, 1).await) else { return };
    // It measures ten seconds, of which eight are a lease's.
    let _machine = alone("machine");
    let holder = cluster.add(&["--role", "gateway"]);
    cluster.wait_until("the first connects", || cluster.is_connected()).await;
    let other = cluster.add(&["--role", "gateway"]);
    let waiting = "another process receives the channel's messages; this one takes over";
    cluster.wait_until("the second waits", || cluster.logs_with(waiting) == [other]).await;
    cluster.kill(holder).await;
    let (killed_at, (polls, connections)) = (Instant::now(), cluster.connections());
    let is_taken_over = || {
        let (new_polls, new_connections) = cluster.connections();
        new_polls > polls && new_connections > connections
    };
    cluster.wait_within(MAX_TAKEOVER, "the takeover of both platforms", is_taken_over).await;
    eprintln!("taken over in {:.1?}", killed_at.elapsed());
}
