//! `satchel doctor` on servers that several machines share, and the real binary on servers that are reached with TLS.

use std::fs;

use satchel_requirements::required;
use satchel_servers::{
    S3Server, TestAuthority,
    nats::NatsServer,
    postgres::{PostgresServer, TestDatabase},
};
use satchel_system::real_binary::TestHome;

use super::{doctor::assert_found, server_process::ServerProcess};

/// The database of a role that owns one schema alone, and a bus.
async fn start() -> Result<(TestDatabase, NatsServer), String> {
    Ok((TestDatabase::create().await?, NatsServer::start().await?))
}

fn home_with(database: &str, bus: &str) -> TestHome {
    let home = TestHome::new();
    let config = format!(
        "model: offline\nweb: {{ listen: '127.0.0.1:0' }}\nstorage: {{ database_url: '{database}', reserve: 0 }}\nbus: {{ url: '{bus}' }}\n"
    );
    home.write_file("satchel.yaml", config);
    home
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_checks_database_and_bus() {
    let Some((database, nats)) = required(start().await) else { return };
    let home = home_with(&database.url(), &nats.url());
    let run_doctor = || home.run(&["doctor", "--json"]);
    let before = run_doctor();
    assert_found(&before, "database", "ok", &["127.0.0.1:", "the first start creates them"]);
    assert_found(&before, "bus", "ok", &["has JetStream, the first start makes its streams", "events have version 1"]);
    assert_found(&run_doctor(), "database", "ok", &["the first start creates them"]);

    let server = ServerProcess::start(&home, &[]);
    let beside = run_doctor();
    assert_found(&beside, "database", "ok", &["schema version 7"]);
    assert_found(&beside, "bus", "ok", &["its streams are there"]);
    assert_found(&beside, "processes", "ok", &["one other process"]);

    let set_version = |version: u32| format!("UPDATE schema_version SET version = {version}");
    database.run_as_superuser(&set_version(0)).await.expect("there is a version");
    let older = run_doctor();
    let advice = "stop all processes of the older version, then start one of this version first";
    assert_found(&older, "database", "problem", &["schema version 0, this Satchel needs 7", advice]);
    database.run_as_superuser(&set_version(99)).await.expect("there is a version");
    assert_found(
        &run_doctor(),
        "database",
        "problem",
        &["by a newer Satchel: schema version 99", "update this Satchel"],
    );
    drop(server);

    let elsewhere = home_with(&database.url().replace("/tests?", "/nowhere?"), "nats://ada:canary@127.0.0.1:1");
    let elsewhere = elsewhere.run(&["doctor", "--json"]);
    assert_found(&elsewhere, "database", "problem", &["has no database `nowhere`", "`storage.database_url`"]);
    assert_found(&elsewhere, "bus", "problem", &["NATS can't be reached at 127.0.0.1:1", "start the server"]);
    for secret in ["canary", "correct-horse"] {
        assert!(!format!("{elsewhere:?}").contains(secret), "{elsewhere:#?}");
    }
}

/// Servers whose certificates come from an authority that the machine doesn't know.
struct EncryptedServers {
    authority: TestAuthority,
    _postgres: PostgresServer,
    database: TestDatabase,
    s3: S3Server,
    nats: NatsServer,
}

impl EncryptedServers {
    async fn start(user: &str) -> Result<Self, String> {
        let authority = TestAuthority::create()?;
        let certificate = authority.issue("IP:127.0.0.1")?;
        let postgres = PostgresServer::start_private().await?;
        postgres.turn_on_tls(&certificate).await?;
        let database = postgres.create_database().await?;
        let users = format!("authorization {{ users: [{{ nkey: {user} }}] }}");
        let nats = NatsServer::start_with_tls(&certificate, &users).await?;
        let s3 = S3Server::start_with_tls(&certificate).await?;
        Ok(Self { authority, _postgres: postgres, database, s3, nats })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn satchel_runs_on_servers_of_an_own_authority() {
    let user = nkeys::KeyPair::new_user();
    let Some(servers) = required(EncryptedServers::start(&user.public_key()).await) else { return };
    let home = TestHome::new();
    let seed = home.write_file("nats.nk", format!("{}\n", user.seed().expect("a seed")));
    let known = servers.authority.certificate();
    let config = |ca_file: &str| {
        let postgres = format!("{}&sslmode=verify-full&sslrootcert={ca_file}", servers.database.url());
        format!(
            "model: offline\nweb: {{ listen: '127.0.0.1:0' }}\n\
             storage: {{ database_url: '{postgres}', blobs_url: '{}', blobs_ca_file: '{ca_file}', reserve: 0 }}\n\
             bus: {{ url: 'tls://{}', ca_file: '{ca_file}', nkey_file: '{}' }}\n",
            servers.s3.url("tls"),
            servers.nats.address(),
            seed.display()
        )
    };
    home.write_file("satchel.yaml", config(&known.display().to_string()));
    let server = ServerProcess::start(&home, &[]);
    server.send_and_wait("hello").await;
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    let checked = home.run(&["doctor", "--json"]);
    assert_found(&checked, "bus", "ok", &["the connection is encrypted"]);
    assert_found(&checked, "bucket", "ok", &["https://127.0.0.1:"]);

    let other = TestAuthority::create().expect("openssl is there");
    home.write_file("satchel.yaml", config(&other.certificate().display().to_string()));
    let refused = home.run(&["doctor", "--json"]);
    for check in ["database", "bucket", "bus"] {
        assert_found(&refused, check, "problem", &["no encrypted connection to", "UnknownIssuer"]);
    }
    let shown = home.run(&["config", "show"]);
    let seed = fs::read_to_string(seed).expect("it is there");
    for output in [&checked, &refused, &shown] {
        for secret in [seed.trim(), &servers.s3.writer.secret, "correct-horse"] {
            assert!(!format!("{output:?}").contains(secret), "{output:#?}");
        }
    }
}
