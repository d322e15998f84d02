//! `satchel run` before its servers: a clear error for each, or `--wait`, which waits for them.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
};

use satchel_requirements::required;
use satchel_servers::{
    S3Server, TcpProxy,
    nats::NatsServer,
    postgres::{PostgresServer, TestDatabase},
};
use satchel_system::real_binary::{TestHome, wait_for_exit};
use satchel_wait::wait_until;

/// What stands in the URLs and nowhere else.
const PASSWORDS: [&str; 3] = ["correct-horse", "s3-canary", "nats-canary"];

/// A process whose log and whose output go to files. It is killed where a test leaves it running.
struct StartingProcess {
    child: Option<Child>,
    log: PathBuf,
    output: PathBuf,
}

impl StartingProcess {
    fn spawn(home: &TestHome, arguments: &[&str]) -> Self {
        let (log, output) = (home.root().join("log"), home.root().join("output"));
        let mut command = home.satchel_command(&["run"]);
        command.args(arguments).stderr(File::create(&log).expect("a new file"));
        command.stdout(File::create(&output).expect("a new file"));
        Self { child: Some(command.spawn().expect("the binary starts")), log, output }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn wait_for_log(&self, text: &str) {
        wait_until(text, || self.log().contains(text)).await;
    }

    /// Sends a signal and returns the exit code.
    fn end_with(&mut self, signal: &str) -> Option<i32> {
        let child = self.child.take().expect("it runs");
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
        wait_for_exit(child).exit_code()
    }
}

impl Drop for StartingProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// A home whose configuration names these servers.
fn home_with(database: &str, bucket: &str, bus: &str) -> TestHome {
    let home = TestHome::new();
    let storage = format!("storage: {{ database_url: '{database}', blobs_url: '{bucket}' }}\n");
    let config = format!("model: offline\nweb: {{ listen: '127.0.0.1:0' }}\n{storage}bus: {{ url: '{bus}' }}\n");
    home.write_file("satchel.yaml", config);
    home
}

/// The same where nobody listens.
fn home_without_servers() -> TestHome {
    home_with(
        "postgres://satchel:correct-horse@127.0.0.1:1/satchel",
        "s3://key:s3-canary@files?endpoint=http://127.0.0.1:1",
        "nats://satchel:nats-canary@127.0.0.1:1",
    )
}

/// The three servers, none of which can be reached.
struct AbsentServers {
    postgres: PostgresServer,
    database: TestDatabase,
    s3: S3Server,
    way_to_s3: TcpProxy,
    nats: NatsServer,
}

impl AbsentServers {
    async fn prepare() -> Result<Self, String> {
        let postgres = PostgresServer::start_private().await?;
        let database = postgres.create_database().await?;
        let (s3, mut nats) = (S3Server::start().await?, NatsServer::start().await?);
        let way_to_s3 = TcpProxy::start(s3.port()).await.map_err(|error| error.to_string())?;
        postgres.stop().await?;
        way_to_s3.cut();
        nats.stop();
        Ok(Self { postgres, database, s3, way_to_s3, nats })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_goes_on_as_each_server_appears() {
    let Some(mut servers) = required(AbsentServers::prepare().await) else { return };
    let AbsentServers { s3, way_to_s3, .. } = &servers;
    let bucket = s3.url_of(s3.bucket(), "", &s3.writer, way_to_s3.port());
    let home = home_with(&servers.database.url(), &bucket, &servers.nats.url());
    let mut process = StartingProcess::spawn(&home, &["--wait"]);
    process.wait_for_log("waiting for PostgreSQL").await;
    servers.postgres.start().await.expect("it has run before");
    process.wait_for_log("waiting for the bucket").await;
    servers.way_to_s3.mend();
    process.wait_for_log("waiting for NATS").await;
    assert_eq!(fs::read_to_string(&process.output).expect("it is there"), "", "it doesn't serve yet");
    servers.nats.restart().await;
    wait_until("a greeting", || fs::read_to_string(&process.output).is_ok_and(|text| text.contains("http://"))).await;

    let log = process.log();
    for server in ["PostgreSQL", "the bucket", "NATS"] {
        for text in [format!("waiting for {server}"), format!("{server} can be reached; the start goes on")] {
            assert_eq!(log.matches(&text).count(), 1, "{text}: {log}");
        }
    }
    for secret in ["correct-horse", &servers.s3.writer.secret] {
        assert!(!log.contains(secret), "{log}");
    }
    assert_eq!(process.end_with("-TERM"), Some(0), "{}", process.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_ends_the_wait_at_once() {
    for signal in ["-TERM", "-INT"] {
        let home = home_without_servers();
        let mut process = StartingProcess::spawn(&home, &["--wait"]);
        process.wait_for_log("waiting for PostgreSQL").await;
        assert_eq!(process.end_with(signal), Some(0), "{}", process.log());
    }
}

#[test]
fn absent_server_is_named_with_what_to_do() {
    let home = home_without_servers();
    let only = |kept: &str| {
        let settings =
            [("storage.database_url", "sqlite:satchel.db"), ("storage.blobs_url", "file:files"), ("bus.url", "local:")];
        let others = settings.into_iter().filter(move |(key, _)| *key != kept);
        others.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect::<Vec<_>>()
    };
    for (key, server, reason) in [
        ("storage.database_url", "PostgreSQL", "PostgreSQL can't be reached at 127.0.0.1:1; check that it runs there"),
        ("storage.blobs_url", "the bucket", "the bucket `files` at http://127.0.0.1:1 can't be reached"),
        ("bus.url", "NATS", "NATS can't be reached at 127.0.0.1:1; check that it runs there"),
    ] {
        for (wait, advice) in [
            (None, "is not there; start it first, or wait for it with `satchel run --wait`"),
            (Some("--wait=1ms"), "was not there within the time of `--wait`"),
        ] {
            let arguments = only(key);
            let arguments = ["run"].into_iter().chain(wait).chain(arguments.iter().map(String::as_str));
            let output = home.run(&arguments.collect::<Vec<_>>());
            assert_eq!(output.exit_code(), Some(1), "{output:#?}");
            for text in [&format!("{server} {advice}"), reason] {
                assert!(output.stderr.contains(text), "{text}: {output:#?}");
            }
            assert!(PASSWORDS.iter().all(|secret| !format!("{output:?}").contains(secret)), "{output:#?}");
        }
    }
    let output = home.run(&["run", "--wait=soon"]);
    assert_eq!(output.exit_code(), Some(2), "{output:#?}");
    assert!(output.stderr.contains("a duration such as 30s"), "{output:#?}");
}
