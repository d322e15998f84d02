//! Who is at the other end: what a connection says, what a proxy adds, and how strangers are told apart.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The headers by which proxies give themselves away.
const OF_PROXIES: [HeaderName; 4] =
    [X_FORWARDED_FOR, header::FORWARDED, HeaderName::from_static("x-real-ip"), header::VIA];

/// The address at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Whether a request says that a proxy has passed it on.
pub(crate) fn was_passed_on(headers: &HeaderMap) -> bool {
    OF_PROXIES.iter().any(|name| headers.contains_key(name))
}

/// For whom our own proxy has passed a request on: the last address, since all before it are the sender's own words.
pub(crate) fn passed_on_for(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(X_FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    let last = last.rsplit(',').next().unwrap_or_default().trim();
    let with_port = || last.parse().map(|address: SocketAddr| address.ip());
    last.trim_start_matches('[').trim_end_matches(']').parse().or_else(|_| with_port()).ok()
}

/// What strangers are told apart by: an address, or of version 6 the network, in which anybody has all addresses.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_network_of_version_6_is_one_stranger() {
        for (address, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ] {
            assert_eq!(network(address.parse().unwrap()), expected.parse::<IpAddr>().unwrap(), "{address}");
        }
    }

    #[test]
    fn of_a_forwarded_address_the_last_counts() {
        for (lines, expected) in [
            (&["203.0.113.7"][..], Some("203.0.113.7")),
            (&["198.51.100.1, 203.0.113.7"], Some("203.0.113.7")),
            (&["198.51.100.1,203.0.113.7 "], Some("203.0.113.7")),
            (&["198.51.100.1", "203.0.113.7"], Some("203.0.113.7")),
            (&["203.0.113.7:4711"], Some("203.0.113.7")),
            (&["2001:db8::1"], Some("2001:db8::1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["[2001:db8::1]:4711"], Some("2001:db8::1")),
            (&["203.0.113.7, unknown"], None),
            (&["203.0.113.7,"], None),
            (&[""], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            lines.iter().for_each(|line| {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_static(line));
            });
            let expected = expected.map(|address| address.parse::<IpAddr>().unwrap());
            assert_eq!(passed_on_for(&headers), expected, "{lines:?}");
        }
    }
}
