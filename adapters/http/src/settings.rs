//! How far fetches go: what else may be asked, how many redirects, how long.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use ipnet::IpNet;

/// How far fetches go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// What may be asked although it isn't the public internet.
    pub allowed: Vec<AllowedTarget>,
    /// How many redirects are followed.
    pub max_redirects: u32,
    /// How long a fetch may take, redirects included, on top of the time that its bytes need on a slow line (64 KiB a
    /// second): what trickles ends, and a large file on a slow line still comes.
    pub time_limit: Duration,
    /// How long a server may say nothing: before it answers, and between two pieces of a body.
    pub silence: Duration,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            max_redirects: 3,
            time_limit: Duration::from_secs(30),
            silence: Duration::from_secs(15),
        }
    }
}

/// Something that the operator lets be asked although it isn't the public internet.
///
/// Written as `10.0.0.0/8`, `fd12::/48`, `192.168.1.7`, `files.lan`, `files.lan:8080` or `[fd12::1]:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedTarget {
    /// Every address of this network, whatever name leads to it.
    Range(IpNet),
    /// This host wherever its name leads to, by exactly this name or address.
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
        let no_host = || ParseAllowedTargetError(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| no_host())?)),
            None => (text, None),
        };
        // The same reading as of an address that is to be fetched, so that the two compare.
        let url = reqwest::Url::parse(&format!("http://{host}/")).map_err(|_| no_host())?;
        match url.host_str() {
            Some(name) if !host.is_empty() && host.chars().all(is_of_a_host) => {
                Ok(Self::Host { name: name.to_owned(), port })
            }
            _ => Err(no_host()),
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

fn is_of_a_host(c: char) -> bool {
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
    fn what_names_no_host_is_refused() {
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
