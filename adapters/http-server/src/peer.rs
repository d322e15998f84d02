//! The peer of a connection, proxy headers, and how peers are grouped by network.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

/// Headers that proxies add.
const PROXY_HEADERS: [HeaderName; 4] =
    [HeaderName::from_static("x-forwarded-for"), header::FORWARDED, HeaderName::from_static("x-real-ip"), header::VIA];

/// The address at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Whether a request was forwarded by a proxy.
pub fn is_forwarded(headers: &HeaderMap) -> bool {
    PROXY_HEADERS.iter().any(|name| headers.contains_key(name))
}

/// Returns the unit that limits apply to: an IPv4 address, or the `/64` network of an IPv6 address, since one person
/// usually has all of its addresses.
pub fn network(address: IpAddr) -> IpAddr {
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
}
