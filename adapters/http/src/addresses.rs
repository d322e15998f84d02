//! Which IP addresses are not on the public internet. Pure.
//!
//! After IANA's registries of special-purpose addresses (<https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>), read strictly: whole blocks are refused even where
//! some address in them is public, since nobody keeps files there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const PRIVATE: &str = "an address in a private network";
const PROTOCOLS: &str = "an address of network protocols";
const DOCUMENTATION: &str = "an address that stands in examples only";
const EMBEDS_IPV4: &str = "an address that hides another one";

const NON_PUBLIC_IPV4: [(Ipv4Net, &str); 18] = [
    (v4([0, 0, 0, 0], 8), "this machine"),
    (v4([10, 0, 0, 0], 8), PRIVATE),
    (v4([100, 64, 0, 0], 10), "a provider's own network"),
    (v4([127, 0, 0, 0], 8), "this machine"),
    // Azure hands machines their secrets from this one, which looks public and is not.
    (v4([168, 63, 129, 16], 32), "a cloud's own services"),
    // Where clouds hand machines their secrets: 169.254.169.254.
    (v4([169, 254, 0, 0], 16), "the local link"),
    (v4([172, 16, 0, 0], 12), PRIVATE),
    (v4([192, 0, 0, 0], 24), PROTOCOLS),
    (v4([192, 0, 2, 0], 24), DOCUMENTATION),
    (v4([192, 88, 99, 0], 24), PROTOCOLS),
    (v4([192, 168, 0, 0], 16), PRIVATE),
    (v4([198, 18, 0, 0], 15), "a network for measurements"),
    (v4([198, 51, 100, 0], 24), DOCUMENTATION),
    (v4([203, 0, 113, 0], 24), DOCUMENTATION),
    (v4([224, 0, 0, 0], 4), "many machines at once"),
    (v4([233, 252, 0, 0], 24), DOCUMENTATION),
    (v4([255, 255, 255, 255], 32), "many machines at once"),
    (v4([240, 0, 0, 0], 4), "an address that nobody has"),
];

/// The part of IPv6 from which public addresses are given out; all else is refused without being listed.
const PUBLIC_IPV6: Ipv6Net = v6([0x2000, 0, 0], 3);

const NON_PUBLIC_IPV6: [(Ipv6Net, &str); 11] = [
    // `::` and `::1`, and ::a.b.c.d, which some systems connect to as a.b.c.d.
    (v6([0, 0, 0], 96), "this machine or an address that hides another one"),
    // ::ffff:a.b.c.d is a.b.c.d, ::ffff:0:a.b.c.d is translated to it.
    (v6([0, 0, 0], 64), EMBEDS_IPV4),
    // NAT64: 64:ff9b::a.b.c.d, and the prefix for networks' own use.
    (v6([0x64, 0xff9b, 0], 16 + 16), EMBEDS_IPV4),
    // IETF's own, among them Teredo (2001::/32), measurements (2001:2::/48) and ORCHID (2001:10::/28, 2001:20::/28).
    (v6([0x2001, 0, 0], 23), PROTOCOLS),
    (v6([0x2001, 0xdb8, 0], 32), DOCUMENTATION),
    // 6to4: 2002:a.b:c.d::.
    (v6([0x2002, 0, 0], 16), EMBEDS_IPV4),
    (v6([0x3fff, 0, 0], 20), DOCUMENTATION),
    (v6([0xfc00, 0, 0], 7), PRIVATE),
    (v6([0xfe80, 0, 0], 10), "the local link"),
    (v6([0xfec0, 0, 0], 10), PRIVATE),
    (v6([0xff00, 0, 0], 8), "many machines at once"),
];

/// Describes why an address is not public; `None` for a public one.
pub(crate) fn non_public_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            NON_PUBLIC_IPV4.iter().find(|(net, _)| net.contains(&address)).map(|(_, reason)| *reason)
        }
        IpAddr::V6(address) => {
            let listed = NON_PUBLIC_IPV6.iter().find(|(net, _)| net.contains(&address)).map(|(_, reason)| *reason);
            listed.or_else(|| (!PUBLIC_IPV6.contains(&address)).then_some("an address that nobody has"))
        }
    }
}

/// The IPv4 addresses that a network may translate this address to; usually none.
pub(crate) fn embedded_ipv4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let read = |indexes: [usize; 4]| Ipv4Addr::from(indexes.map(|index| octets[index]));
    let last = read([12, 13, 14, 15]);
    let candidates = match address.segments() {
        [0, 0, 0, 0, 0 | 0xffff, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![last],
        // A network's own prefix of NAT64 has one of these lengths (RFC 6052: 48, 56, 64, 96), and only it knows which.
        [0x64, 0xff9b, 1, ..] => vec![read([6, 7, 9, 10]), read([7, 9, 10, 11]), read([9, 10, 11, 12]), last],
        [0x2002, ..] => vec![read([2, 3, 4, 5])],
        _ => Vec::new(),
    };
    // An address without an embedded one reads as zeros, and nothing is translated to those.
    candidates.into_iter().filter(|inner| inner.octets()[0] != 0).collect()
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c]: [u16; 3], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Both ends of every block, and its neighbours outside.
    #[rstest]
    #[case::this_network(&["0.0.0.0", "0.0.0.1", "0.255.255.255"])]
    #[case::private(&["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"])]
    #[case::cgnat(&["100.64.0.0", "100.100.100.200", "100.127.255.255"])]
    #[case::loopback(&["127.0.0.1", "127.255.255.255"])]
    #[case::link_local_and_metadata(&["169.254.0.0", "169.254.169.254", "169.254.255.255"])]
    #[case::metadata_that_looks_public(&["168.63.129.16"])]
    #[case::protocols(&["192.0.0.0", "192.0.0.192", "192.0.0.255", "192.88.99.1"])]
    #[case::documentation(&["192.0.2.1", "198.51.100.1", "203.0.113.255", "233.252.0.1"])]
    #[case::benchmarks(&["198.18.0.0", "198.19.255.255"])]
    #[case::multicast_reserved_broadcast(&["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"])]
    #[case::ipv6_this_machine(&["::", "::1"])]
    #[case::ipv4_compatible(&["::7f00:1", "::127.0.0.1", "::8.8.8.8"])]
    #[case::ipv4_mapped(&["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1"])]
    #[case::nat64(&["64:ff9b::127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::a00:1"])]
    #[case::six_to_four(&["2002:7f00:1::", "2002:a00:1::1", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"])]
    #[case::teredo(&["2001::1", "2001:0:ffff::1"])]
    #[case::ietf(&["2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1"])]
    #[case::ipv6_documentation(&["2001:db8::1", "2001:db8:ffff::1", "3fff::1", "3fff:fff::1"])]
    #[case::unique_local(&["fc00::1", "fd00:ec2::254", "fdff:ffff::1"])]
    #[case::ipv6_link_local(&["fe80::1", "febf::1", "fec0::1"])]
    #[case::ipv6_multicast(&["ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"])]
    #[case::given_out_to_nobody(&["100::1", "1fff:ffff::1", "4000::1", "5f00::1", "e000::1"])]
    fn refused(#[case] addresses: &[&str]) {
        for address in addresses {
            assert!(non_public_reason(address.parse().unwrap()).is_some(), "{address} would be asked");
        }
    }

    #[rstest]
    #[case(&["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"])]
    #[case(&["128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255"])]
    #[case(&["172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0"])]
    #[case(&["198.17.255.255", "198.20.0.0", "198.51.99.255", "203.0.112.255", "203.0.114.0", "223.255.255.255"])]
    #[case(&["2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111"])]
    #[case(&["2a00:1450::1", "3ffe:ffff::1", "3fff:1000::1"])]
    fn public(#[case] addresses: &[&str]) {
        for address in addresses {
            assert_eq!(non_public_reason(address.parse().unwrap()), None, "{address} would be refused");
        }
    }

    proptest! {
        /// No IPv6 form of an IPv4 address is requested.
        #[test]
        fn embedded_ipv4_is_unreachable_through_ipv6(bits: u32) {
            let inner = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = inner.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for address in [
                inner.to_ipv6_mapped(),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, high, 0, low, 0, 0),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, !high, !low),
            ] {
                prop_assert!(non_public_reason(address.into()).is_some(), "{} would be asked", address);
            }
        }

        /// The standard library's own opinion, where it has one that is stable, is never stricter.
        #[test]
        fn what_the_standard_library_calls_special_is_refused(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let special = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_broadcast() || address.is_documentation() || address.is_unspecified();
            prop_assert!(!special || non_public_reason(address.into()).is_some());
        }
    }
}
