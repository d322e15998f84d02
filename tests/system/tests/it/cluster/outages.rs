//! Outages under a cluster: the database, the bucket or the bus is away, the database is restarted, and a machine is cut off.

use std::time::Duration;

use satchel_fake_kit::Fault;
use satchel_fake_model::{ModelReply, ReplyPiece};
use satchel_requirements::{
    exclusion::shared,
    required,
    sample::{Frequency, Sample},
};
use satchel_servers::{
    TcpProxy,
    postgres::{PostgresServer, TestDatabase},
};
use satchel_wait::wait_until_async;

use super::{
    MESSAGES, RESEND, WRITING_TIME, answer,
    harness::{Cluster, ClusterServers, FILES},
    question,
};

/// Long enough that turns are under way at any time, and short beside an outage.
const ANSWER_TIME: Duration = Duration::from_millis(300);

const GATEWAY: &[&str] = &["--role", "gateway"];
const AGENT: &[&str] = &["--role", "agent"];

/// Of the outages, every other is tried in a run of the gate.
const RUNS_PER_OUTAGE: Frequency = Frequency::OneIn(2);

/// What an agent logs that can't renew its leases for so long that others may have its lanes.
const LEASES_LOST: &str = "leases expired before renewal";

/// The ways of a process to the servers.
struct ServerProxies {
    database: TcpProxy,
    bucket: TcpProxy,
    nats: TcpProxy,
    settings: [String; 3],
}

impl ServerProxies {
    async fn open(servers: &ClusterServers) -> Self {
        let proxy = async |port: u16| TcpProxy::start(port).await.expect("a loopback port");
        let nats_port = servers.nats.address().rsplit(':').next().and_then(|port| port.parse().ok());
        let database = proxy(servers.database.port()).await;
        let bucket = proxy(servers.bucket.port()).await;
        let nats = proxy(nats_port.expect("an address with a port")).await;
        let s3 = &servers.bucket;
        let blobs_url = s3.url_of(s3.bucket(), FILES, &s3.writer, bucket.port());
        let settings = [
            format!("storage.database_url={}", servers.database.url_over(database.port())),
            format!("storage.blobs_url={blobs_url}"),
            format!("bus.url=nats://127.0.0.1:{}", nats.port()),
        ];
        Self { database, bucket, nats, settings }
    }

    /// Adds a process that reaches the servers by these ways alone.
    fn add(&self, cluster: &Cluster, arguments: &[&str]) -> usize {
        let settings = self.settings.iter().flat_map(|setting| ["--set", setting]);
        cluster.add(&arguments.iter().copied().chain(settings).collect::<Vec<_>>())
    }
}

/// A cluster in which every question has its answer.
async fn open_cluster(servers: ClusterServers, people: i64) -> Cluster {
    let cluster = Cluster::open_on(servers, people).await;
    for person in cluster.people() {
        for number in 0..MESSAGES {
            let pieces = [ReplyPiece::Wait(ANSWER_TIME), ReplyPiece::Text(answer(person, number))];
            cluster.model.reply(ModelReply::pieces(pieces).when(&question(person, number)).every_time());
        }
    }
    cluster
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

/// They have every answer once, in order and without a label, and the file.
fn assert_everything_arrived_once(cluster: &Cluster, people: impl Iterator<Item = i64>) {
    for person in people {
        let expected = (0..MESSAGES).filter(|number| *number != RESEND).map(|number| answer(person, number));
        assert_eq!(cluster.texts(person), expected.collect::<Vec<_>>(), "each once and in order");
        assert_eq!(cluster.files(person), [format!("{person}.txt")]);
    }
    assert!(cluster.logs_with("Conflict").is_empty(), "Telegram saw two connections of the bot");
}

/// The database is away until agents don't trust their leases any more, which a longer outage does not change: 25 seconds, and
/// the 15 and 20 seconds that a statement and a verb may take have passed. To the processes it is a failover that
/// loses every connection to a server that has every commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_away_past_all_leases_loses_and_repeats_nothing() {
    if !Sample::from_environment().is_turn_of(RUNS_PER_OUTAGE, 4) {
        return;
    }
    let Some(database) = required(TestDatabase::create().await) else { return };
    let Some(servers) = required(ClusterServers::start(database).await) else { return };
    let _machine = shared("machine");
    let cluster = open_cluster(servers, 4).await;
    let proxies = ServerProxies::open(&cluster.servers).await;
    for arguments in [GATEWAY, GATEWAY, AGENT, AGENT] {
        proxies.add(&cluster, arguments);
    }
    // One turn runs whatever the others do.
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("never written".to_owned())];
    cluster.model.reply(ModelReply::pieces(pieces).when("a long story"));
    cluster.model.reply(ModelReply::text("the story").when("a long story"));
    let listener = cluster.people().next().expect("four people");
    cluster.send(listener, "a long story");
    let has_begun = || cluster.model.requests().iter().any(|request| request.user_text().contains("a long story"));
    cluster.wait_until("the story begins", has_begun).await;
    let writers = || cluster.people().skip(1);
    let writing = futures::future::join_all(writers().map(|person| write_messages(&cluster, person)));
    let outage = async {
        cluster.wait_until("some answers", || cluster.answers() >= 6).await;
        proxies.database.cut();
        cluster.wait_until("the leases expire", || !cluster.logs_with(LEASES_LOST).is_empty()).await;
        proxies.database.mend();
    };
    tokio::join!(writing, outage);
    cluster.wait_until("the story", || !cluster.texts(listener).is_empty()).await;
    assert_eq!(cluster.texts(listener), ["the story"]);
    assert_everything_arrived_once(&cluster, writers());
}

/// Without the bus everything goes on, and without the bucket everything but files. Requests to the bucket are tried again
/// for 40 seconds, so that one outage is like another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bus_and_bucket_away_delay_files_alone() {
    if !Sample::from_environment().is_turn_of(RUNS_PER_OUTAGE, 5) {
        return;
    }
    let Some(database) = required(TestDatabase::create().await) else { return };
    let Some(servers) = required(ClusterServers::start(database).await) else { return };
    let _machine = shared("machine");
    let cluster = open_cluster(servers, 2).await;
    let proxies = ServerProxies::open(&cluster.servers).await;
    for arguments in [GATEWAY, AGENT, AGENT] {
        proxies.add(&cluster, arguments);
    }
    let [one, two] = [0, 1].map(|index| cluster.people().nth(index).expect("two people"));
    let ask = async |person: i64, number: usize| {
        cluster.send(person, &question(person, number));
        let answer = answer(person, number);
        cluster.wait_until(&answer, || cluster.texts(person).contains(&answer)).await;
    };
    ask(one, 0).await;
    proxies.nats.cut();
    cluster.wait_until("the bus is missed", || !cluster.logs_with("lost the connection to NATS").is_empty()).await;
    ask(one, 1).await;
    ask(two, 0).await;
    proxies.nats.mend();
    cluster.wait_until("the bus is back", || !cluster.logs_with("connected to NATS again").is_empty()).await;

    proxies.bucket.cut();
    cluster.send_file(one, &question(one, 2), "kept.txt");
    ask(two, 1).await;
    let is_notice = |text: &String| text.contains("storing your files takes longer than usual");
    cluster.wait_until("the person is told", || cluster.texts(one).last().is_some_and(is_notice)).await;
    proxies.bucket.mend();
    // It takes the notice's place.
    cluster.wait_until("the file is stored", || cluster.texts(one).last() == Some(&answer(one, 2))).await;
    proxies.bucket.block();
    cluster.send(one, "/resend 1");
    ask(two, 2).await;
    proxies.bucket.mend();
    cluster.wait_until("the file", || !cluster.files(one).is_empty()).await;
    for person in [one, two] {
        assert_eq!(cluster.texts(person), (0..3).map(|number| answer(person, number)).collect::<Vec<_>>());
    }
    assert_eq!(cluster.files(one), ["kept.txt"]);
}

/// The server crashes and is started again, the first time with transactions open that wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_restarted_in_mid_transaction_loses_and_repeats_nothing() {
    if !Sample::from_environment().is_turn_of(RUNS_PER_OUTAGE, 6) {
        return;
    }
    let Some(server) = required(PostgresServer::start_private().await) else { return };
    let database = server.create_database().await.expect("the server runs");
    let Some(servers) = required(ClusterServers::start(database).await) else { return };
    let _machine = shared("machine");
    let cluster = open_cluster(servers, 3).await;
    for arguments in [GATEWAY, GATEWAY, AGENT, AGENT] {
        cluster.add(arguments);
    }
    let writing = futures::future::join_all(cluster.people().map(|person| write_messages(&cluster, person)));
    let restarts = async {
        for restart in 1..=4 {
            cluster.wait_until("more answers", || cluster.answers() >= restart * 5).await;
            if restart == 1 {
                crash_in_mid_transaction(&server, &cluster.servers.database).await;
            } else {
                server.crash().await.expect("it runs");
            }
            server.start().await.expect("it has run before");
        }
    };
    tokio::join!(writing, restarts);
    assert_everything_arrived_once(&cluster, cluster.people());
}

/// Lets transactions of the processes wait for another one, and crashes the server then.
async fn crash_in_mid_transaction(server: &PostgresServer, database: &TestDatabase) {
    let lock = database.run_as_superuser("LOCK TABLE parts, turns; SELECT pg_sleep(3600)");
    let crash = async {
        let is_waited_for = "DO $$ BEGIN ASSERT EXISTS (SELECT 1 FROM pg_stat_activity \
            WHERE wait_event_type = 'Lock' AND xact_start IS NOT NULL); END $$";
        let is_waiting = async || database.run_as_superuser(is_waited_for).await.is_ok();
        wait_until_async("a transaction waits", is_waiting).await;
        server.crash().await.expect("it runs");
    };
    let (locked, ()) = tokio::join!(lock, crash);
    assert!(locked.is_err(), "its own transaction has crashed, too");
}

/// A network that is divided: one agent reaches the platform and the model, and neither the database nor the bus. Others
/// take its lanes; what it had under way is not sent twice, and what it finishes is not committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_is_cut_off_commits_and_repeats_nothing() {
    if !Sample::from_environment().is_turn_of(RUNS_PER_OUTAGE, 7) {
        return;
    }
    let Some(database) = required(TestDatabase::create().await) else { return };
    let Some(servers) = required(ClusterServers::start(database).await) else { return };
    let _machine = shared("machine");
    let cluster = Cluster::open_on(servers, 2).await;
    let [one, two] = [0, 1].map(|index| cluster.people().nth(index).expect("two people"));
    let proxies = ServerProxies::open(&cluster.servers).await;
    cluster.add(GATEWAY);
    let cut_off = proxies.add(&cluster, AGENT);
    // The model still writes to one person, and the other one's reply has arrived, of which nobody is told.
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("from the one that is cut off".to_owned())];
    cluster.model.reply(ModelReply::pieces(pieces));
    cluster.send(one, "hello");
    cluster.wait_until("the first request", || cluster.model.requests().len() == 1).await;
    cluster.telegram.script_next("sendMessage", Fault::Hang { performed: true });
    cluster.model.reply(ModelReply::text("sent once"));
    cluster.send(two, "hello");
    cluster.wait_until("the reply arrives", || cluster.texts(two) == ["sent once"]).await;
    proxies.database.block();
    proxies.nats.block();
    cluster.model.reply(ModelReply::text("from another"));
    cluster.add(AGENT);
    cluster.wait_until("another takes the lane", || cluster.texts(one) == ["from another"]).await;

    // What it was asked for comes now, and it reaches the servers again.
    cluster.model.clock().advance(WRITING_TIME);
    cluster.wait_until("it gives its lanes up", || cluster.logs_with(LEASES_LOST) == [cut_off]).await;
    proxies.database.mend();
    proxies.nats.mend();
    for (person, before) in [(one, "from another"), (two, "sent once")] {
        cluster.model.reply(ModelReply::text("good bye"));
        cluster.send(person, "bye");
        cluster.wait_until("an answer", || cluster.texts(person).contains(&"good bye".to_owned())).await;
        assert_eq!(cluster.texts(person), [before, "good bye"]);
    }
    assert_eq!(cluster.model.requests().len(), 5, "one turn was asked for once more, and no other");
}
