//! Which proxies are trusted to name the client of a request.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The addresses of proxies: one, or a network.
///
/// Written as `192.0.2.1`, `10.0.0.0/8` or `fd12::/48`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyRange(IpNet);

/// A text that names no addresses of proxies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseProxyRangeError {
    /// It is neither an address nor a network.
    #[error("{0:?} is neither an address (192.0.2.1) nor a network (10.0.0.0/8)")]
    Syntax(String),
    /// It covers every address, so that any client could forge the header.
    #[error("{0:?} is every address, so anyone could pretend to be anyone: name your proxies alone")]
    EveryAddress(String),
}

impl FromStr for ProxyRange {
    type Err = ParseProxyRangeError;

    fn from_str(text: &str) -> Result<Self, ParseProxyRangeError> {
        let text = text.trim();
        let address = || text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        match text.parse::<IpNet>().or_else(|_| address()) {
            Ok(range) if range.prefix_len() == 0 => Err(ParseProxyRangeError::EveryAddress(text.to_owned())),
            Ok(range) => Ok(Self(range.trunc())),
            Err(_) => Err(ParseProxyRangeError::Syntax(text.to_owned())),
        }
    }
}

impl fmt::Display for ProxyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(range) = self;
        if range.prefix_len() == range.max_prefix_len() { range.addr().fmt(f) } else { range.fmt(f) }
    }
}

/// Whether one of `trusted` is at this address.
pub(crate) fn is_trusted(trusted: &[ProxyRange], address: IpAddr) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|ProxyRange(range)| range.contains(&address))
}

/// Returns the address of the client that sent a request, as far as its proxies are trusted.
///
/// Each proxy appends the address that it was called from, so the header is read from its end, for as long as the
/// address that wrote the entry is trusted. Everything before that is the client's own claim.
pub fn client_address(trusted: &[ProxyRange], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().map(|line| line.to_str().unwrap_or_default());
    let entries: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
    let mut client = peer;
    for entry in entries.into_iter().rev() {
        if !is_trusted(trusted, client) {
            break;
        }
        let Some(address) = forwarded_address(entry) else { break };
        client = address;
    }
    client
}

/// The address of an entry, which some proxies write with a port.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let with_port = || entry.parse().map(|address: std::net::SocketAddr| address.ip());
    entry.trim_start_matches('[').trim_end_matches(']').parse().or_else(|_| with_port()).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn ranges(written: &[&str]) -> Vec<ProxyRange> {
        written.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn proxies_are_read_as_they_are_written() {
        for (written, shown) in [
            ("192.0.2.1", "192.0.2.1"),
            (" 192.0.2.1 ", "192.0.2.1"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("::1", "::1"),
            ("fd12::/48", "fd12::/48"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(written.parse().map(|range: ProxyRange| range.to_string()).as_deref(), Ok(shown), "{written}");
        }
        for wrong in ["", "proxy.lan", "10.0.0.0/33", "10.0.0", "192.0.2.1:80", "*", "loopback"] {
            let error = wrong.parse::<ProxyRange>().unwrap_err();
            assert_eq!(error, ParseProxyRangeError::Syntax(wrong.to_owned()));
        }
        for wrong in ["0.0.0.0/0", "::/0", "10.0.0.0/0"] {
            let error = wrong.parse::<ProxyRange>().unwrap_err();
            assert_eq!(error, ParseProxyRangeError::EveryAddress(wrong.to_owned()));
        }
    }

    #[test]
    fn client_is_rightmost_untrusted_address() {
        let trusted = ranges(&["127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48"]);
        for (peer, lines, expected) in [
            ("203.0.113.1", &["198.51.100.1"][..], "203.0.113.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            ("::ffff:127.0.0.1", &["203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["198.51.100.1, 203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["198.51.100.1,203.0.113.7 "], "203.0.113.7"),
            ("127.0.0.1", &["198.51.100.1", "203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &["198.51.100.1, 203.0.113.7, 10.1.2.3"], "203.0.113.7"),
            ("127.0.0.1", &["198.51.100.1, 203.0.113.7", "10.1.2.3, 2001:db8:1::5"], "203.0.113.7"),
            ("127.0.0.1", &["10.1.2.3, 10.4.5.6"], "10.1.2.3"),
            ("127.0.0.1", &["203.0.113.7:4711"], "203.0.113.7"),
            ("127.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["203.0.113.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.7, unknown, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &["203.0.113.7,"], "127.0.0.1"),
            ("127.0.0.1", &[""], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            lines.iter().for_each(|line| {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_static(line));
            });
            let client = client_address(&trusted, peer.parse().unwrap(), &headers);
            assert_eq!(client, expected.parse::<IpAddr>().unwrap(), "{peer} {lines:?}");
        }
    }
}
