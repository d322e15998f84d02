//! Several machines: gateways and agents on PostgreSQL, S3 and NATS, killed at random while people write.

mod harness;
mod outages;

use std::time::Duration;

use satchel_fake_model::{ModelReply, ReplyPiece};
use satchel_requirements::required;

use self::harness::Cluster;

/// How many people write, and how many messages each.
const PEOPLE: i64 = 6;
const MESSAGES: usize = 10;

/// After how many answers the next process is killed.
const ANSWERS_PER_KILL: usize = 9;

/// The message whose answer is a file that the person sent before.
const RESEND: usize = 5;

/// Longer than any test.
const WRITING_TIME: Duration = Duration::from_secs(3_600);

fn question(person: i64, number: usize) -> String {
    format!("question {person}-{number:02}")
}

fn answer(person: i64, number: usize) -> String {
    format!("answer {person}-{number:02}")
}

/// A person who waits for each answer before the next message.
async fn write_messages(cluster: &Cluster, person: i64) {
    for number in 0..MESSAGES {
        match number {
            0 => cluster.send_file(person, &question(person, number), &format!("{person}.txt")),
            RESEND => {
                cluster.send(person, "/resend 1");
                cluster.wait_until("the file", || cluster.files(person).len() == 1).await;
                continue;
            }
            _ => cluster.send(person, &question(person, number)),
        }
        let answer = answer(person, number);
        cluster.wait_until(&answer, || cluster.texts(person).contains(&answer)).await;
    }
}

/// Kills one process after the other, and starts it anew each time.
async fn kill_processes(cluster: &Cluster) {
    // The gateway that has the lease, an agent, the other gateway, and so on.
    for (kill, index) in [0, 2, 1, 3, 0].into_iter().enumerate() {
        let answers = (kill + 1) * ANSWERS_PER_KILL;
        cluster.wait_until("more answers", || cluster.answers() >= answers).await;
        cluster.kill(index).await;
        cluster.start(index);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_and_repeat_nothing() {
    let Some(cluster) = required(Cluster::open(PEOPLE).await) else { return };
    for person in cluster.people() {
        for number in 0..MESSAGES {
            let reply = ModelReply::text(&answer(person, number)).when(&question(person, number));
            cluster.model.reply(reply.every_time());
        }
    }
    for arguments in [["--role", "gateway"], ["--role", "gateway"], ["--role", "agent"], ["--role", "agent"]] {
        cluster.add(&arguments);
    }
    let writing = futures::future::join_all(cluster.people().map(|person| write_messages(&cluster, person)));
    tokio::join!(writing, kill_processes(&cluster));

    for person in cluster.people() {
        let expected = (0..MESSAGES).filter(|number| *number != RESEND).map(|number| answer(person, number));
        assert_eq!(cluster.texts(person), expected.collect::<Vec<_>>(), "each once and in order");
        assert_eq!(cluster.files(person), [format!("{person}.txt")]);
    }
    assert!(cluster.logs_with("Conflict").is_empty(), "Telegram saw two connections of the bot");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_process_sends_nothing_once_its_lease_is_lost() {
    let Some(cluster) = required(Cluster::open(1).await) else { return };
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
