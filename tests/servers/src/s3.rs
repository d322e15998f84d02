//! S3 as moto speaks it, a server in Python that others wrote: it checks signatures, permissions and the sizes of parts.

use std::{path::Path, process::Stdio, time::Duration};

use satchel_fake_kit::PythonPackages;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin},
    time::timeout,
};

use crate::TestCertificate;

/// The server's pinned packages and its script.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// The longest that a start may take, on a machine that is busy.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The one bucket.
const BUCKET: &str = "satchel-files";

/// A server with one bucket, in memory. It ends when this is dropped, and with the process.
#[derive(Debug)]
pub struct S3Server {
    /// May do everything.
    pub writer: S3Credentials,
    /// May list and read.
    pub reader: S3Credentials,
    scheme: &'static str,
    port: u16,
    _process: Child,
    /// The server ends with its standard input.
    _stdin: Option<ChildStdin>,
}

/// The keys of a user.
#[derive(Debug, Clone, Deserialize)]
pub struct S3Credentials {
    pub key_id: String,
    pub secret: String,
}

/// What the server's script prints.
#[derive(Deserialize)]
struct StartReport {
    port: u16,
    writer: S3Credentials,
    reader: S3Credentials,
}

impl S3Server {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start() -> Result<Self, String> {
        Self::start_with(None).await
    }

    /// Starts a server with this certificate, which speaks HTTPS.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn start_with_tls(certificate: &TestCertificate) -> Result<Self, String> {
        Self::start_with(Some(certificate)).await
    }

    async fn start_with(certificate: Option<&TestCertificate>) -> Result<Self, String> {
        let packages = PythonPackages::install(PYTHON, "moto").await?;
        let mut command = packages.command(&Path::new(PYTHON).join("s3_server.py"));
        command.arg(BUCKET);
        if let Some(TestCertificate { certificate, key }) = certificate {
            command.arg(certificate).arg(key);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|error| format!("python3 can't be run: {error}"))?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or("the server's output can't be read")?;
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        let read = timeout(START_TIMEOUT, stdout.read_line(&mut line)).await;
        read.map_err(|_| "the server took too long to start")?.map_err(|error| error.to_string())?;
        let report = serde_json::from_str(&line).map_err(|_| "the server did not start")?;
        let StartReport { port, writer, reader } = report;
        let scheme = if certificate.is_some() { "https" } else { "http" };
        Ok(Self { writer, reader, scheme, port, _process: process, _stdin: stdin })
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name of its bucket.
    #[must_use]
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// The address of a prefix of its bucket, with the credentials of the user who may do everything.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        self.url_of(BUCKET, prefix, &self.writer, self.port)
    }

    /// The address of a prefix of a bucket with credentials, reached over a port of this machine.
    #[must_use]
    pub fn url_of(&self, bucket: &str, prefix: &str, credentials: &S3Credentials, port: u16) -> String {
        let S3Credentials { key_id, secret } = credentials;
        let secret = secret.replace('%', "%25").replace('/', "%2F").replace('+', "%2B");
        format!("s3://{key_id}:{secret}@{bucket}/{prefix}?region=us-east-1&endpoint={}://127.0.0.1:{port}", self.scheme)
    }
}
