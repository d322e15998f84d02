//! Which URLs may be requested, first and after each redirect. Pure.

use std::net::IpAddr;

use reqwest::Url;
use satchel_ports::{FetcherError, HostPolicy};

use crate::{
    addresses::{embedded_ipv4, non_public_reason},
    error::{redact_url_short, rejected},
    settings::AllowedTarget,
};

/// Longest URL that is parsed.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Decides which URLs may be requested.
#[derive(Debug, Clone)]
pub(crate) struct UrlGuard {
    pub(crate) allowed: Vec<AllowedTarget>,
}

/// A URL that may be requested.
#[derive(Debug)]
pub(crate) struct CheckedUrl {
    pub(crate) url: Url,
    /// Whether the operator allows this host by name, whatever address it resolves to.
    pub(crate) allowed_by_name: bool,
}

impl UrlGuard {
    pub(crate) fn check_first(&self, address: &str, hosts: &HostPolicy) -> Result<CheckedUrl, FetcherError> {
        if address.len() > MAX_URL_BYTES {
            return Err(rejected("the address is too long"));
        }
        let url = Url::parse(address).map_err(|_| rejected("this is not the address of a file on the web"))?;
        self.check(url, hosts)
    }

    /// Checks the target of a redirect.
    pub(crate) fn check_redirect(
        &self,
        from: &Url,
        location: &[u8],
        hosts: &HostPolicy,
    ) -> Result<CheckedUrl, FetcherError> {
        let invalid_target = || rejected(format!("{} redirects to an invalid address", redact_url_short(from)));
        if location.len() > MAX_URL_BYTES {
            return Err(invalid_target());
        }
        let location = std::str::from_utf8(location).map_err(|_| invalid_target())?;
        let url = from.join(location).map_err(|_| invalid_target())?;
        if from.scheme() == "https" && url.scheme() == "http" {
            return Err(rejected(format!("{} redirects from https to http", redact_url_short(from))));
        }
        self.check(url, hosts)
    }

    fn check(&self, url: Url, hosts: &HostPolicy) -> Result<CheckedUrl, FetcherError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(rejected(format!("only http and https are fetched, not {}", url.scheme())));
        }
        let Some(host) = url.host_str() else { return Err(rejected("the address has no host")) };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(rejected(format!("{} contains credentials, which are never sent", redact_url_short(&url))));
        }
        if let HostPolicy::Only(names) = hosts
            && !names.iter().any(|name| name.eq_ignore_ascii_case(host))
        {
            return Err(rejected(format!("files from {host} are not fetched here, only from {}", names.join(", "))));
        }
        let allowed_by_name = self.allowed.iter().any(|allowed| match allowed {
            AllowedTarget::Host { name, port } => {
                name == host && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            AllowedTarget::Range(_) => false,
        });
        // The connector doesn't use the resolver for these. Other spellings of an address, such as `2130706433` or
        // `0x7f.1`, were normalized when the URL was parsed.
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if let Ok(address) = literal
            && !allowed_by_name
            && let Some(reason) = self.blocked_reason(address)
        {
            return Err(rejected(format!("{} is not requested: it is {reason}", redact_url_short(&url))));
        }
        Ok(CheckedUrl { allowed_by_name, url })
    }

    /// Describes why an address may not be requested; `None` if it may.
    pub(crate) fn blocked_reason(&self, address: IpAddr) -> Option<&'static str> {
        let reason = non_public_reason(address)?;
        let address = address.to_canonical();
        let is_allowed =
            |allowed: &AllowedTarget| matches!(allowed, AllowedTarget::Range(range) if range.contains(&address));
        if !self.allowed.iter().any(is_allowed) {
            return Some(reason);
        }
        // Allowing a NAT64 range is meant for the public internet behind it, not for the network that it is in.
        match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => {
                embedded_ipv4(address).into_iter().find_map(|inner| self.blocked_reason(inner.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn guard(allowed: &[&str]) -> UrlGuard {
        UrlGuard { allowed: allowed.iter().map(|allowed| allowed.parse().expect("a range")).collect() }
    }

    /// The operator allows the whole range; embedded addresses are checked anyway.
    #[rstest]
    #[case::the_cloud_s_metadata("64:ff9b::/96", "64:ff9b::169.254.169.254")]
    #[case::a_private_network("64:ff9b::/96", "64:ff9b::10.0.0.1")]
    #[case::this_machine("64:ff9b::/96", "64:ff9b::127.0.0.1")]
    #[case::a_network_s_own_prefix_of_96("64:ff9b:1::/48", "64:ff9b:1::169.254.169.254")]
    #[case::of_64("64:ff9b:1::/48", "64:ff9b:1:7:a9:fea9:fe00:0")]
    #[case::of_56("64:ff9b:1::/48", "64:ff9b:1:7a9:fe:a9fe::")]
    #[case::of_48("64:ff9b:1::/48", "64:ff9b:1:a9fe:a9:fe00::")]
    #[case::private_within_48("64:ff9b:1::/48", "64:ff9b:1:a00:0:100::")]
    #[case::six_to_four("2002::/16", "2002:a9fe:a9fe::1")]
    #[case::compatible("::/0", "::169.254.169.254")]
    #[case::translated("::/0", "::ffff:0:169.254.169.254")]
    fn allowed_range_opens_no_embedded_private_address(#[case] range: &str, #[case] address: &str) {
        let address: IpAddr = address.parse().expect("an address");
        assert!(guard(&[range]).blocked_reason(address).is_some(), "{address} would be asked");
    }

    #[rstest]
    #[case(&["64:ff9b::/96"], "64:ff9b::8.8.8.8")]
    #[case(&["64:ff9b:1::/48"], "64:ff9b:1::8.8.8.8")]
    #[case(&["64:ff9b:1::/48"], "64:ff9b:1:808:8:800::")]
    #[case(&["64:ff9b::/96", "10.0.0.0/8"], "64:ff9b::10.0.0.1")]
    #[case(&["::1"], "::1")]
    #[case(&["fd12::/48"], "fd12::a00:1")]
    #[case(&["10.0.0.0/8"], "::ffff:10.0.0.1")]
    fn public_or_allowed_embedded_address_is_requested(#[case] allowed: &[&str], #[case] address: &str) {
        let address: IpAddr = address.parse().expect("an address");
        assert_eq!(guard(allowed).blocked_reason(address), None, "{address}");
    }
}
