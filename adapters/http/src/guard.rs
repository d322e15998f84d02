//! Which addresses are asked, by the first request and by each redirect. Pure.

use std::net::IpAddr;

use reqwest::Url;
use satchel_ports::{FetcherError, HostPolicy};

use crate::{
    addresses::{embedded_ipv4, non_public_reason},
    error::{redact_url_short, rejected},
    settings::AllowedTarget,
};

/// The longest address that is read.
const LONGEST: usize = 8 * 1024;

/// Decides what is asked.
#[derive(Debug, Clone)]
pub(crate) struct UrlGuard {
    pub(crate) allowed: Vec<AllowedTarget>,
}

/// An address that may be asked.
#[derive(Debug)]
pub(crate) struct CheckedUrl {
    pub(crate) url: Url,
    /// Whether the operator allows this host wherever its name leads to.
    pub(crate) anywhere: bool,
}

impl UrlGuard {
    pub(crate) fn check_first(&self, address: &str, hosts: &HostPolicy) -> Result<CheckedUrl, FetcherError> {
        if address.len() > LONGEST {
            return Err(rejected("the address is too long"));
        }
        let url = Url::parse(address).map_err(|_| rejected("this is not the address of a file on the web"))?;
        self.check(url, hosts)
    }

    /// Where a redirect leads to.
    pub(crate) fn check_redirect(
        &self,
        from: &Url,
        location: &[u8],
        hosts: &HostPolicy,
    ) -> Result<CheckedUrl, FetcherError> {
        let nowhere = || rejected(format!("{} redirects to an invalid address", redact_url_short(from)));
        if location.len() > LONGEST {
            return Err(nowhere());
        }
        let location = std::str::from_utf8(location).map_err(|_| nowhere())?;
        let url = from.join(location).map_err(|_| nowhere())?;
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
        let anywhere = self.allowed.iter().any(|allowed| match allowed {
            AllowedTarget::Host { name, port } => {
                name == host && port.is_none_or(|port| url.port_or_known_default() == Some(port))
            }
            AllowedTarget::Range(_) => false,
        });
        // The connector doesn't ask the resolver about these. Other ways to write an address, `2130706433` or `0x7f.1`,
        // have become the usual one when the text was parsed.
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if let Ok(address) = literal
            && !anywhere
            && let Some(what) = self.blocked_reason(address)
        {
            return Err(rejected(format!("{} is not requested: it is {what}", redact_url_short(&url))));
        }
        Ok(CheckedUrl { anywhere, url })
    }

    /// What an address is that may not be asked, in words.
    pub(crate) fn blocked_reason(&self, address: IpAddr) -> Option<&'static str> {
        let what = non_public_reason(address)?;
        let address = address.to_canonical();
        let is_allowed =
            |allowed: &AllowedTarget| matches!(allowed, AllowedTarget::Range(range) if range.contains(&address));
        if !self.allowed.iter().any(is_allowed) {
            return Some(what);
        }
        // Who allows a translator's range (NAT64) wants the public internet behind it, not the network that it stands in.
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

    /// The operator allows the whole dress; what is inside is checked all the same.
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
    fn what_is_public_or_allowed_inside_is_asked(#[case] allowed: &[&str], #[case] address: &str) {
        let address: IpAddr = address.parse().expect("an address");
        assert_eq!(guard(allowed).blocked_reason(address), None, "{address}");
    }
}
