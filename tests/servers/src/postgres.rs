//! PostgreSQL for tests: one server that all test processes of a machine share, with a schema for each test, and servers
//! that a test has to itself, so that it can stop them.
//!
//! Starting a server takes seconds and most tests run in a process of their own, so the first one starts it for all. A
//! watcher stops it once no process uses it, however they end.

mod cluster;

use std::{
    fs::File,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use self::cluster::{Cluster, find_programs};
use crate::TestCertificate;

/// The database in which tests have schemas of their own.
const DATABASE: &str = "tests";

/// The role whose members must show their password; all others are trusted.
const PASSWORD_ROLE: &str = "must_show_password";

/// The password of each test's role.
const PASSWORD: &str = "correct-horse";

/// A role, and what of a server it may use.
#[derive(Debug)]
pub struct TestDatabase {
    role: String,
    database: String,
    port: u16,
    cluster: Cluster,
}

impl TestDatabase {
    /// Creates a role that owns an empty schema and nothing else, on the server that all tests share. Its URL chooses the
    /// schema.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn create() -> Result<Self, String> {
        blocking(|| Self::create_on(shared_cluster()?)).await
    }

    /// Creates a role that owns an empty database, on the server that all tests share.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn create_whole() -> Result<Self, String> {
        blocking(|| {
            let (cluster, role) = (shared_cluster()?, new_name());
            cluster.psql("postgres", &create_role(&role))?;
            cluster.psql("postgres", &format!("CREATE DATABASE {role} OWNER {role}"))?;
            Ok(Self { database: role.clone(), role, port: cluster.port, cluster })
        })
        .await
    }

    fn create_on(cluster: Cluster) -> Result<Self, String> {
        let role = new_name();
        let schema = format!("{}; CREATE SCHEMA {role} AUTHORIZATION {role}", create_role(&role));
        cluster.psql(DATABASE, &schema)?;
        Ok(Self { role, database: DATABASE.to_owned(), port: cluster.port, cluster })
    }

    /// The URL of the database for the role, which chooses its schema.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_over(self.port)
    }

    /// The same, reached over another port of this machine.
    #[must_use]
    pub fn url_over(&self, port: u16) -> String {
        let schema = if self.database == DATABASE { self.schema_option() } else { String::new() };
        format!("postgres://{}:{PASSWORD}@127.0.0.1:{port}/{}{schema}", self.role, self.database)
    }

    fn schema_option(&self) -> String {
        format!("?options=-c%20search_path%3D{}", self.role)
    }

    /// The role's name, which is that of its schema or its database.
    #[must_use]
    pub fn role(&self) -> &str {
        &self.role
    }

    /// The port of the server on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes the server check the role's password from now on.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn require_password(&self) -> Result<(), String> {
        self.run_as_superuser(&format!("GRANT {PASSWORD_ROLE} TO {}", self.role)).await
    }

    /// Runs statements as the superuser, in the role's schema where it has one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn run_as_superuser(&self, sql: &str) -> Result<(), String> {
        let sql = match self.database == DATABASE {
            true => format!("SET search_path TO {}; {sql}", self.role),
            false => sql.to_owned(),
        };
        let (cluster, database) = (self.cluster.clone(), self.database.clone());
        blocking(move || cluster.psql(&database, &sql)).await
    }
}

/// A server that a test has to itself. It is stopped with the test's process at the latest.
#[derive(Debug)]
pub struct PostgresServer {
    cluster: Cluster,
    _lock: File,
}

impl PostgresServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_private() -> Result<Self, String> {
        blocking(|| {
            let bin = find_programs()?;
            let (cluster, lock) = Cluster::create_private(bin, new_name())?;
            prepare(&cluster)?;
            Ok(Self { cluster, _lock: lock })
        })
        .await
    }

    /// Creates a role that owns an empty schema and nothing else.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn create_database(&self) -> Result<TestDatabase, String> {
        let cluster = self.cluster.clone();
        blocking(move || TestDatabase::create_on(cluster)).await
    }

    /// Sets the server up as one that keeps data: a commit is on the disk, and tables are vacuumed. Measurements are of such a
    /// one.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn turn_on_durability(&self) -> Result<(), String> {
        let cluster = self.cluster.clone();
        blocking(move || {
            for setting in ["fsync", "full_page_writes", "autovacuum"] {
                cluster.psql("postgres", &format!("ALTER SYSTEM SET {setting} = on"))?;
            }
            cluster.psql("postgres", "SELECT FROM pg_reload_conf()")
        })
        .await
    }

    /// Restarts the server with this certificate; connections may be encrypted from then on.
    ///
    /// # Errors
    /// When it can't be restarted.
    pub async fn turn_on_tls(&self, certificate: &TestCertificate) -> Result<(), String> {
        let (cluster, certificate) = (self.cluster.clone(), certificate.clone());
        blocking(move || {
            cluster.stop("fast")?;
            cluster.install_certificate(&certificate)?;
            cluster.start()
        })
        .await
    }

    /// Stops the server at once, as a crash does: no connection is told and nothing is written first.
    ///
    /// # Errors
    /// When it isn't running.
    pub async fn crash(&self) -> Result<(), String> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.stop("immediate")).await
    }

    /// Stops the server in order: what runs is rolled back and its connections are closed.
    ///
    /// # Errors
    /// When it isn't running.
    pub async fn stop(&self) -> Result<(), String> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.stop("fast")).await
    }

    /// Starts it again, on the same port and with the same data.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn start(&self) -> Result<(), String> {
        let cluster = self.cluster.clone();
        blocking(move || cluster.start()).await
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The watcher removes what is left, and stops the server where this fails.
        let _stopped = self.cluster.stop("immediate");
    }
}

/// The server that all processes share. This one uses it until it ends.
fn shared_cluster() -> Result<Cluster, String> {
    static SHARED: OnceLock<Result<(Cluster, File), String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Cluster::join_shared(find_programs()?, prepare));
    shared.as_ref().map(|(cluster, _)| cluster.clone()).map_err(Clone::clone)
}

/// Gives a new server what all tests need.
fn prepare(cluster: &Cluster) -> Result<(), String> {
    cluster.psql("postgres", &format!("CREATE ROLE {PASSWORD_ROLE}"))?;
    cluster.psql("postgres", &format!("CREATE DATABASE {DATABASE}"))
}

fn create_role(role: &str) -> String {
    format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
}

/// A name that no other test uses.
fn new_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let nanoseconds = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("t_{}_{}_{nanoseconds}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests;
