//! Certificates for tests of TLS, made by `openssl`: an authority and what it vouches for.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use satchel_requirements::find_programs;
use tempfile::TempDir;

/// What all certificates have in common, but for the name, which comes last.
const CONFIGURATION: &str = "[req]\nprompt = no\ndistinguished_name = name\n[authority]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\n";

/// How a new key is made.
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// An authority of one test.
#[derive(Debug)]
pub struct TestAuthority {
    directory: TempDir,
}

/// A certificate and its key, each a PEM file.
#[derive(Debug, Clone)]
pub struct TestCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TestAuthority {
    /// Makes an authority that nobody knows.
    ///
    /// # Errors
    /// What a test would need.
    pub fn create() -> Result<Self, String> {
        find_programs(&["openssl"])?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let authority = Self { directory };
        // Two authorities of the same name would be taken for one that signs wrongly.
        let name = authority.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        authority.write("openssl.cnf", &format!("{CONFIGURATION}[name]\nCN = Satchel tests {name}\n"))?;
        authority.openssl(["req", "-x509", "-days", "2", "-extensions", "authority"], |command| {
            command.args(NEW_KEY).args(["-config", "openssl.cnf", "-keyout", "ca.key", "-out", "ca.pem"]);
        })?;
        Ok(authority)
    }

    /// The certificate to trust, a PEM file.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    /// Issues a certificate for a server or a client, such as `IP:127.0.0.1` or `DNS:example.org`.
    ///
    /// # Errors
    /// What a test would need.
    pub fn issue(&self, subject: &str) -> Result<TestCertificate, String> {
        let name: String = subject.chars().filter(char::is_ascii_alphanumeric).collect();
        let (request, key, certificate) = (format!("{name}.csr"), format!("{name}.key"), format!("{name}.pem"));
        self.write("issued.cnf", &format!("subjectAltName = {subject}\nextendedKeyUsage = serverAuth,clientAuth\n"))?;
        self.openssl(["req", "-new", "-config", "openssl.cnf"], |command| {
            command.args(NEW_KEY).args(["-keyout", &key, "-out", &request]);
        })?;
        self.openssl(
            ["x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
            |command| {
                command.args(["-extfile", "issued.cnf", "-in", &request, "-out", &certificate]);
            },
        )?;
        Ok(TestCertificate { certificate: self.path().join(certificate), key: self.path().join(key) })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, content: &str) -> Result<(), String> {
        fs::write(self.path().join(name), content).map_err(|error| error.to_string())
    }

    fn openssl<const N: usize>(&self, arguments: [&str; N], more: impl FnOnce(&mut Command)) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        more(&mut command);
        let output = command.output().map_err(|error| format!("openssl can't be run: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("openssl, but it failed: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
