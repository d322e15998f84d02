//! A NATS server with JetStream for one test, on a port of its own, which can be stopped and started again on its data.

use std::{
    io,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use satchel_requirements::find_programs;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::TestCertificate;

/// The longest that a start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two looks at whether it has started.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The page of the guide that shows the users and permissions of a server.
const GUIDE: &str = include_str!("../../../docs/guide/events.md");

/// The password of every user of the guide.
pub const GUIDE_PASSWORD: &str = "pw";

/// By default the server takes what is free on the disk for its limit, which may be less than a test needs.
const JETSTREAM: &str = "jetstream { max_file_store: 8GB }";

/// A running server; dropping it kills it and removes its data.
#[derive(Debug)]
pub struct NatsServer {
    directory: TempDir,
    port: u16,
    server: Option<Child>,
}

impl NatsServer {
    /// Starts a server that anybody on this machine may use.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start() -> Result<Self, String> {
        Self::start_with("").await
    }

    /// Starts a server with further lines of configuration, such as users and their permissions.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_with(configuration: &str) -> Result<Self, String> {
        find_programs(&["nats-server"])?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let configuration = format!("{JETSTREAM}\n{configuration}");
        std::fs::write(directory.path().join("nats.conf"), configuration).map_err(|error| error.to_string())?;
        let mut server = Self { directory, port: 0, server: None };
        server.spawn().await.map_err(|error| format!("a nats-server that starts, but {error}"))?;
        Ok(server)
    }

    /// Starts a server with the users and permissions that the guide shows, each with [`GUIDE_PASSWORD`].
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_as_in_guide() -> Result<Self, String> {
        Self::start_with(&guide_block("authorization {")).await
    }

    /// Starts a server with an account for each user, as the guide shows them, each with [`GUIDE_PASSWORD`].
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_with_accounts_of_guide() -> Result<Self, String> {
        Self::start_with(&guide_block("accounts {")).await
    }

    /// Starts a server whose connections are encrypted, with further lines of configuration.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_with_tls(certificate: &TestCertificate, configuration: &str) -> Result<Self, String> {
        let TestCertificate { certificate, key } = certificate;
        let (certificate, key) = (certificate.display(), key.display());
        Self::start_with(&format!("tls {{ cert_file: \"{certificate}\", key_file: \"{key}\" }}\n{configuration}")).await
    }

    /// The server's address, `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a server without users.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Kills the server.
    ///
    /// # Panics
    /// When it can't be killed.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("our own server can be killed");
            server.wait().expect("it has ended");
        }
    }

    /// Starts a stopped server again, on the same port and with what it had stored.
    ///
    /// # Panics
    /// When it doesn't start.
    pub async fn restart(&mut self) {
        self.stop();
        self.spawn().await.expect("it has started before");
    }

    /// Removes what a stopped server has stored.
    ///
    /// # Panics
    /// When the files can't be removed.
    pub fn remove_data(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        std::fs::remove_dir_all(self.directory.path().join("data")).expect("our own files can be removed");
    }

    async fn spawn(&mut self) -> io::Result<()> {
        let directory = self.directory.path();
        // -1 lets the server choose.
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let server = Command::new("nats-server")
            .args(["-js", "-a", "127.0.0.1", "-p", &port])
            .arg("-c")
            .arg(directory.join("nats.conf"))
            .arg("-sd")
            .arg(directory.join("data"))
            .arg("--ports_file_dir")
            .arg(directory)
            .arg("--log")
            .arg(directory.join("nats.log"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let ports_file = directory.join(format!("nats-server_{}.ports", server.id()));
        self.server = Some(server);
        let ready = async {
            let port = loop {
                if let Some(port) = read_port(&ports_file) {
                    break port;
                }
                // Nothing announces the file.
                sleep(POLL_INTERVAL).await;
            };
            while !greets(port).await {
                // Nothing announces it.
                sleep(POLL_INTERVAL).await;
            }
            port
        };
        let started = timeout(START_TIMEOUT, ready).await;
        self.port = started.map_err(|_elapsed| {
            let log = std::fs::read_to_string(directory.join("nats.log")).unwrap_or_default();
            io::Error::other(format!("it was not ready in {START_TIMEOUT:?}: {log}"))
        })?;
        Ok(())
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The configuration of the guide that begins so. Passwords are variables there, such as `$SATCHEL_PASSWORD`.
fn guide_block(start: &str) -> String {
    let block = GUIDE.split("```text\n").find(|block| block.starts_with(start));
    let block = block.and_then(|block| block.split("```").next()).expect("the guide shows users and permissions");
    let is_variable = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let mut parts = block.split('$');
    let mut configuration = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(is_variable);
        match part[..part.len() - rest.len()].ends_with("_PASSWORD") {
            true => configuration.extend([GUIDE_PASSWORD, rest]),
            // A subject, such as `$JS.API.>`.
            false => configuration.extend(["$", part]),
        }
    }
    configuration
}

/// Reads the port of clients from the file that the server writes.
fn read_port(ports_file: &Path) -> Option<u16> {
    let ports = std::fs::read_to_string(ports_file).ok()?;
    // It may be half written: the number ends with a quote.
    let (_, rest) = ports.split_once("://127.0.0.1:")?;
    rest.split_once('"')?.0.parse().ok()
}

/// Whether the server greets a client, as it does once JetStream has read its data.
async fn greets(port: u16) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let mut greeting = String::new();
    BufReader::new(stream).read_line(&mut greeting).await.is_ok() && greeting.starts_with("INFO ")
}
