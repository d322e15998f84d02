//! The hosts and origins under which the page is served: what a browser sends as `Host` and `Origin`.

use std::net::{IpAddr, SocketAddr};

use axum::http::{Uri, uri::Authority};
use secrecy::{ExposeSecret, SecretString};

use crate::WebError;

/// The public address from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// Whether it is `https`.
    pub(crate) secure: bool,
    /// Host and, unless it is the scheme's own, port.
    authority: String,
}

impl PublicUrl {
    pub(crate) fn parse(url: &SecretString) -> Result<Self, WebError> {
        let invalid = |why: &str| WebError::Settings(format!("`web.public_url` {why}"));
        let uri: Uri = url
            .expose_secret()
            .trim()
            .parse()
            .map_err(|_| invalid("must be an address such as https://satchel.example.org"))?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("must start with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("must contain a host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("must not contain a user name or password"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("must be only a host: the page can't be served under a path"));
        }
        Ok(Self { secure, authority: normalize_authority(authority, secure) })
    }

    /// Whether it is a loopback address.
    pub(crate) fn is_local(&self) -> bool {
        let authority: Option<Authority> = self.authority.parse().ok();
        let host = authority.as_ref().map(|authority| authority.host().trim_matches(['[', ']'])).unwrap_or_default();
        // A final dot only marks an absolute name. Names ending in `.localhost` are loopback names (RFC 6761).
        let host = host.trim_end_matches('.');
        let is_own_machine = |address: IpAddr| address.is_loopback() || address.is_unspecified();
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse().map(|ip: IpAddr| ip.to_canonical()).is_ok_and(is_own_machine)
    }

    /// Returns the origin as a browser sends it.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

/// Whether a `web.public_url` is a loopback address; `false` if it is invalid.
#[must_use]
pub fn is_local_url(url: &SecretString) -> bool {
    PublicUrl::parse(url).is_ok_and(|url| url.is_local())
}

/// The address by which a client reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnOrigin {
    /// The origin as a browser sends it.
    pub(crate) origin: String,
    /// The port to which the client connected. Where a port is published or tunnelled, the server's own is another one.
    pub(crate) port: u16,
}

/// The hosts for which requests are accepted.
#[derive(Debug, Clone)]
pub(crate) struct HostAllowList {
    listen: SocketAddr,
    public: Option<PublicUrl>,
}

impl HostAllowList {
    pub(crate) fn new(listen: SocketAddr, public: Option<PublicUrl>) -> Self {
        Self { listen, public }
    }

    /// Returns the public origin, if one is configured.
    pub(crate) fn public_origin(&self) -> Option<String> {
        self.public.as_ref().map(PublicUrl::origin)
    }

    /// Returns the origin for a `Host` header, or `None` if the host isn't allowed.
    ///
    /// Another site can point its name to this machine (DNS rebinding), but then the header has that name. IP addresses and
    /// `localhost` can't be rebound. Their port isn't compared: a container's published port or a tunnel is another one than
    /// that on which the server listens, and a client that reaches the server has used the right one. The loopback names are
    /// allowed wherever the server listens, because they are the client's end of a tunnel. All other addresses
    /// are allowed if the server listens on all.
    pub(crate) fn find_origin(&self, host: &str) -> Option<OwnOrigin> {
        let authority: Authority = host.parse().ok()?;
        let after_host = authority.as_str().strip_prefix(authority.host())?;
        let has_port = after_host.starts_with(':') && authority.port_u16().is_some();
        if !after_host.is_empty() && !has_port {
            return None;
        }
        if let Some(public) =
            self.public.as_ref().filter(|public| normalize_authority(&authority, public.secure) == public.authority)
        {
            let default_port = if public.secure { 443 } else { 80 };
            return Some(OwnOrigin { origin: public.origin(), port: authority.port_u16().unwrap_or(default_port) });
        }
        let host_name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let listen_ip = self.listen.ip();
        let is_own = match host_name.parse().map(|address: IpAddr| address.to_canonical()) {
            Ok(address) if address.is_unspecified() => false,
            Ok(address) => address.is_loopback() || listen_ip.is_unspecified() || address == listen_ip.to_canonical(),
            Err(_) => host_name.eq_ignore_ascii_case("localhost"),
        };
        is_own.then(|| OwnOrigin {
            origin: format!("http://{}", normalize_authority(&authority, false)),
            port: authority.port_u16().unwrap_or(80),
        })
    }
}

/// Normalizes host and port as a browser does: lower case, without the scheme's default port.
fn normalize_authority(authority: &Authority, secure: bool) -> String {
    let host = authority.host().to_ascii_lowercase();
    match authority.port_u16() {
        Some(port) if port != if secure { 443 } else { 80 } => format!("{host}:{port}"),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, public: Option<&str>) -> HostAllowList {
        let public = public.map(|url| PublicUrl::parse(&SecretString::from(url)).unwrap());
        HostAllowList::new(listen.parse().unwrap(), public)
    }

    #[test]
    fn only_our_own_addresses_are_ours() {
        let local = hosts("127.0.0.1:8787", None);
        let named = hosts("127.0.0.1:8787", Some("https://Satchel.example.org/"));
        let open = hosts("0.0.0.0:8787", None);
        let lan = hosts("192.168.1.5:8787", None);
        for (hosts, host, origin) in [
            (&local, "127.0.0.1:8787", Some("http://127.0.0.1:8787")),
            (&local, "localhost:8787", Some("http://localhost:8787")),
            (&local, "LOCALHOST:8787", Some("http://localhost:8787")),
            (&local, "[::1]:8787", Some("http://[::1]:8787")),
            (&local, "localhost", Some("http://localhost")),
            (&local, "localhost:80", Some("http://localhost")),
            (&local, "localhost:9000", Some("http://localhost:9000")),
            (&local, "127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            (&local, "[::1]:9000", Some("http://[::1]:9000")),
            (&local, "[::1]", Some("http://[::1]")),
            (&local, "localhost:", None),
            (&local, "localhost:99999", None),
            (&local, "localhost.", None),
            (&local, "[::1]x:8787", None),
            (&local, "[::1", None),
            (&local, "evil.example", None),
            (&local, "evil.example:8787", None),
            (&local, "127.0.0.1.nip.io:8787", None),
            (&local, "localhost.evil.example:8787", None),
            (&local, "127.0.0.1:8787@evil.example", None),
            (&local, "192.168.1.5:8787", None),
            (&local, "0.0.0.0:8787", None),
            (&local, "", None),
            (&local, "a b", None),
            (&named, "satchel.example.org", Some("https://satchel.example.org")),
            (&named, "satchel.example.org:443", Some("https://satchel.example.org")),
            (&named, "satchel.example.org:80", None),
            (&named, "satchel.example.org:9000", None),
            (&named, "satchel.example.org:99999", None),
            (&named, "satchel.example.org.", None),
            (&named, "x.satchel.example.org", None),
            (&named, "localhost:8787", Some("http://localhost:8787")),
            (&open, "192.168.1.5:8787", Some("http://192.168.1.5:8787")),
            (&open, "[fe80::1]:8787", Some("http://[fe80::1]:8787")),
            (&open, "192.168.1.5:9000", Some("http://192.168.1.5:9000")),
            (&open, "192.168.1.5:80", Some("http://192.168.1.5")),
            (&open, "[::ffff:192.168.1.5]:9000", Some("http://[::ffff:192.168.1.5]:9000")),
            (&open, "0.0.0.0:8787", None),
            (&open, "[::]:8787", None),
            (&open, "printer.lan:8787", None),
            (&lan, "192.168.1.5:9000", Some("http://192.168.1.5:9000")),
            (&lan, "localhost:9000", Some("http://localhost:9000")),
            (&lan, "127.0.0.1:9000", Some("http://127.0.0.1:9000")),
            (&lan, "192.168.1.6:8787", None),
            (&lan, "printer.lan:9000", None),
        ] {
            let found = hosts.find_origin(host).map(|own| own.origin);
            assert_eq!(found.as_deref(), origin, "{host}");
        }
    }

    #[test]
    fn port_is_the_one_to_which_the_client_connected() {
        let behind_proxy = hosts("127.0.0.1:8787", Some("https://satchel.example.org"));
        let published = hosts("0.0.0.0:8787", Some("http://127.0.0.1:9000"));
        for (hosts, host, port) in [
            (&behind_proxy, "satchel.example.org", 443),
            (&behind_proxy, "localhost", 80),
            (&behind_proxy, "localhost:8787", 8787),
            (&published, "127.0.0.1:9000", 9000),
            (&published, "127.0.0.1:9001", 9001),
        ] {
            assert_eq!(hosts.find_origin(host).map(|own| own.port), Some(port), "{host}");
        }
    }

    #[test]
    fn a_public_address_is_a_host_alone() {
        for wrong in
            ["", "satchel.example.org", "ftp://a", "https://a/satchel", "https://me:pw@a", "https://a/?x", "https://"]
        {
            assert!(PublicUrl::parse(&SecretString::from(wrong)).is_err(), "{wrong}");
        }
        let url = PublicUrl::parse(&SecretString::from("http://a.example:8080")).unwrap();
        assert_eq!((url.origin().as_str(), url.secure), ("http://a.example:8080", false));
    }
}
