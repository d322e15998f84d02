//! Limits of fetches: additional targets, redirects, timeouts.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use ipnet::IpNet;

/// Limits of fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// Targets that may be requested although they are not on the public internet.
    pub allowed: Vec<AllowedTarget>,
    /// How many redirects are followed.
    pub max_redirects: u32,
    /// Timeout of a fetch, redirects included. Received bytes extend it at the rate of a slow line (64 KiB a second),
    /// so that a large file still arrives and a trickle ends.
    pub timeout: Duration,
    /// Longest pause: until the connection, until the response, and between two chunks of a body.
    pub idle_timeout: Duration,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            max_redirects: 3,
            timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(15),
        }
    }
}

/// A target that the operator allows although it is not on the public internet.
///
/// Written as `10.0.0.0/8`, `fd12::/48`, `192.168.1.7`, `files.lan`, `files.lan:8080` or `[fd12::1]:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedTarget {
    /// Every address of this network, whatever name resolves to it.
    Range(IpNet),
    /// This host by exactly this name, whatever address it resolves to.
    Host {
        /// The name in lower case, or the address, in brackets where it is one of IPv6.
        name: String,
        /// Its only port; any where there is none.
        port: Option<u16>,
    },
}

/// A text that names neither a host nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a host (files.lan, files.lan:8080) nor a range of addresses (10.0.0.0/8)")]
pub struct ParseAllowedTargetError(String);

impl FromStr for AllowedTarget {
    type Err = ParseAllowedTargetError;

    fn from_str(text: &str) -> Result<Self, ParseAllowedTargetError> {
        if let Ok(range) = text.parse::<IpNet>() {
            return Ok(Self::Range(range.trunc()));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Range(address.into()));
        }
        let parse_error = || ParseAllowedTargetError(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| parse_error())?)),
            None => (text, None),
        };
        // Parsed like a URL to fetch, so that the two compare equal.
        let url = reqwest::Url::parse(&format!("http://{host}/")).map_err(|_| parse_error())?;
        match url.host_str() {
            Some(name) if !host.is_empty() && host.chars().all(is_host_char) => {
                Ok(Self::Host { name: name.to_owned(), port })
            }
            _ => Err(parse_error()),
        }
    }
}

impl fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) if range.prefix_len() == range.max_prefix_len() => range.addr().fmt(f),
            Self::Range(range) => range.fmt(f),
            Self::Host { name, port: None } => name.fmt(f),
            Self::Host { name, port: Some(port) } => write!(f, "{name}:{port}"),
        }
    }
}

fn is_host_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_targets_parse_as_written() {
        for (written, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.168.1.7", "192.168.1.7"),
            ("fd12::/48", "fd12::/48"),
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("Files.LAN", "files.lan"),
            ("files.lan:8080", "files.lan:8080"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[fd12:0::1]:8080", "[fd12::1]:8080"),
            ("bücher.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(
                written.parse::<AllowedTarget>().map(|allowed| allowed.to_string()).as_deref(),
                Ok(shown),
                "{written}"
            );
        }
    }

    #[test]
    fn invalid_target_is_refused() {
        for wrong in [
            "",
            ":80",
            "10.0.0.0/33",
            "http://files.lan",
            "files.lan/x",
            "a b",
            "*.lan",
            "files.lan:99999",
            "u@h",
            "a:b:1",
        ] {
            assert_eq!(wrong.parse::<AllowedTarget>(), Err(ParseAllowedTargetError(wrong.to_owned())), "{wrong}");
        }
    }
}
