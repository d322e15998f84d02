//! Which servers, what proves who they are, and how a process logs in there.

use std::path::PathBuf;

use async_nats::ServerAddr;
use secrecy::{ExposeSecret, SecretString};

/// How NATS is reached.
#[derive(Debug, Clone)]
pub struct NatsSettings {
    /// `nats://USER:PASSWORD@HOST:PORT`, `nats://TOKEN@HOST`, or `tls://…`; further servers of a cluster follow after
    /// commas.
    pub url: SecretString,
    /// A PEM file with the certificates to trust, instead of those of the machine.
    pub ca_file: Option<PathBuf>,
    /// What proves to the server who this process is.
    pub client_certificate: Option<ClientCertificate>,
    /// How it logs in where the URL holds no login.
    pub login: Option<NatsLogin>,
}

/// A certificate and its key, each a PEM file.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

/// A login that stands in no URL.
#[derive(Debug, Clone)]
pub enum NatsLogin {
    /// The content of a credentials file: a JWT and the seed of its key.
    Credentials(SecretString),
    /// The seed of a user's key.
    Nkey(SecretString),
}

impl NatsSettings {
    /// The servers of a URL, with the certificates of the machine.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self { url, ca_file: None, client_certificate: None, login: None }
    }

    /// Whether a URL holds a login, which none beside it may contradict.
    #[must_use]
    pub fn has_login(&self) -> bool {
        Servers::parse(self.url.expose_secret()).is_some_and(|servers| servers.credentials.is_some())
    }

    /// The files that have to be there.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let certificate = self.client_certificate.iter();
        let certificate = certificate.flat_map(|files| [&files.certificate_file, &files.key_file]);
        self.ca_file.iter().chain(certificate)
    }
}

/// The servers of a URL, and how to log in there. Credentials are taken out of the URL before the library gets it, because
/// the library logs its URLs.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) addresses: Vec<ServerAddr>,
    pub(crate) credentials: Option<(String, Option<String>)>,
    /// For messages.
    pub(crate) hosts: String,
}

impl Servers {
    /// Reads the servers of a URL; the first credentials are those of all servers.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let mut servers = Self { addresses: Vec::new(), credentials: None, hosts: String::new() };
        let mut hosts = Vec::new();
        for server in rest.trim_end_matches('/').split(',') {
            // Further servers may repeat the scheme.
            let server = server.split_once("://").map_or(server, |(_, server)| server).trim_end_matches('/');
            let (login, host) = server.rsplit_once('@').map_or((None, server), |(login, host)| (Some(login), host));
            if let (Some(login), None) = (login, &servers.credentials) {
                servers.credentials = Some(match login.split_once(':') {
                    Some((user, password)) => (percent_decode(user)?, Some(percent_decode(password)?)),
                    None => (percent_decode(login)?, None),
                });
            }
            servers.addresses.push(format!("{scheme}://{host}").parse().ok()?);
            hosts.push(host);
        }
        servers.hosts = hosts.join(", ");
        let is_host = |address: &ServerAddr| !address.host().is_empty();
        servers.addresses.iter().all(is_host).then_some(servers)
    }
}

/// Decodes `%XX`, as URLs write what has a meaning in them.
fn percent_decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_the_url() {
        for (url, hosts, credentials) in [
            ("nats://h", "h", None),
            ("nats://ada:p%40ss@h:4222", "h:4222", Some(("ada", Some("p@ss")))),
            ("tls://t%2Fok@h/", "h", Some(("t/ok", None))),
            ("nats://a:b@h1:1,h2:2,nats://c:d@[::1]:3", "h1:1, h2:2, [::1]:3", Some(("a", Some("b")))),
        ] {
            let servers = Servers::parse(url).unwrap();
            let credentials = credentials.map(|(user, password)| (user.to_owned(), password.map(str::to_owned)));
            assert_eq!((servers.hosts.as_str(), servers.credentials), (hosts, credentials), "{url}");
            assert!(servers.addresses.iter().all(|address| !address.has_user_pass()), "{url}");
        }
        for wrong in ["h", "nats://", "nats://a:b@", "nats://%zz@h", "nats://h:port"] {
            assert!(Servers::parse(wrong).is_none(), "{wrong}");
        }
    }
}
