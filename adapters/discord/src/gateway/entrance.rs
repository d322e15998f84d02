//! Where the gateway is, and whether it takes another session.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use super::backoff::MAX_RETRY_AFTER;
use crate::rest::{ApiRequest, CallError, RestClient};

/// The domains where Discord's own gateways are.
const DISCORDS: [&str; 2] = ["discord.gg", "discord.com"];

/// What `GET /gateway/bot` tells.
#[derive(Debug, Deserialize)]
pub(super) struct Entrance {
    pub(super) url: String,
    #[serde(default)]
    session_start_limit: Option<Limit>,
}

/// How many sessions may be begun.
#[derive(Debug, Deserialize)]
struct Limit {
    remaining: u64,
    /// In milliseconds.
    reset_after: u64,
}

/// Asks where the gateway is.
pub(super) async fn ask(rest: &RestClient) -> Result<Entrance, CallError> {
    rest.request(ApiRequest::get("/gateway/bot")).await
}

impl Entrance {
    /// How long no session may be begun, as far as that is believed.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        let limit = self.session_start_limit.as_ref().filter(|limit| limit.remaining == 0)?;
        Some(Duration::from_millis(limit.reset_after).min(MAX_RETRY_AFTER))
    }
}

/// Which addresses a gateway may have: whoever is there is told the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trust {
    /// Whether the line may be in clear, as that of the calls is, which carry the token too.
    in_clear: bool,
    only_discords: bool,
}

impl Trust {
    /// What follows from the origin of the server that is called.
    pub(super) fn beside(server: &str) -> Self {
        let server = Url::parse(server).ok();
        Self {
            in_clear: server.as_ref().is_some_and(|server| server.scheme() == "http"),
            only_discords: server.as_ref().is_none_or(is_discords),
        }
    }

    /// A gateway's address, if it may have this one, with the version and the encoding that we speak.
    pub(super) fn address(self, url: &str) -> Option<Url> {
        let mut address = Url::parse(url).ok()?;
        let may_be_spoken = address.scheme() == "wss" || (self.in_clear && address.scheme() == "ws");
        if !may_be_spoken || (self.only_discords && !is_discords(&address)) {
            return None;
        }
        address.set_query(Some("v=10&encoding=json"));
        Some(address)
    }
}

fn is_discords(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let ends_in =
        |domain| host.strip_suffix(domain).is_some_and(|below: &str| below.is_empty() || below.ends_with('.'));
    DISCORDS.into_iter().any(ends_in)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_address_says_which_version_is_spoken() {
        let of = |url| Trust::beside("http://[::1]:9").address(url).map(|url| url.to_string());
        assert_eq!(of("wss://gateway.discord.gg").as_deref(), Some("wss://gateway.discord.gg/?v=10&encoding=json"));
        assert_eq!(of("ws://[::1]:9/x?v=6").as_deref(), Some("ws://[::1]:9/x?v=10&encoding=json"));
        assert_eq!((of("https://gateway.discord.gg"), of("gateway")), (None, None));
    }

    #[rstest]
    #[case::discords("https://discord.com", "wss://gateway-us-east1-b.discord.gg", true)]
    #[case::the_domain_itself("https://discord.com", "wss://discord.com:443/gateway", true)]
    #[case::in_capitals("https://discord.com", "wss://GATEWAY.DISCORD.GG", true)]
    #[case::in_clear("https://discord.com", "ws://gateway.discord.gg", false)]
    #[case::anybodys("https://discord.com", "wss://gateway.example", false)]
    #[case::with_a_similar_name("https://discord.com", "wss://evildiscord.gg", false)]
    #[case::with_the_name_in_front("https://discord.com", "wss://discord.gg.example", false)]
    #[case::with_the_name_as_a_users("https://discord.com", "wss://gateway.discord.gg@gateway.example", false)]
    #[case::nowhere("https://discord.com", "wss://", false)]
    #[case::anybodys_beside_another_server("https://server.example", "wss://gateway.example", true)]
    #[case::in_clear_beside_a_secret_one("https://server.example", "ws://server.example", false)]
    #[case::in_clear_beside_one_in_clear("http://127.0.0.1:9", "ws://127.0.0.1:9/gateway", true)]
    #[case::beside_nothing("", "wss://gateway.example", false)]
    fn token_is_sent_only_to_trusted_hosts(#[case] server: &str, #[case] url: &str, #[case] goes: bool) {
        assert_eq!(Trust::beside(server).address(url).is_some(), goes);
    }

    #[test]
    fn a_day_without_sessions_left_is_waited_for() {
        let entrance = |limit: &str| -> Entrance {
            serde_json::from_str(&format!(r#"{{"url":"wss://x","shards":1{limit}}}"#)).unwrap()
        };
        let limit = |remaining: u64, reset_after: u64| {
            let limit = json!({ "total": 1_000, "remaining": remaining, "reset_after": reset_after });
            format!(r#","session_start_limit":{limit}"#)
        };
        let closed_for = |remaining, reset_after| entrance(&limit(remaining, reset_after)).closed_for();
        assert_eq!(closed_for(0, 5_000), Some(Duration::from_secs(5)));
        assert_eq!(closed_for(0, u64::MAX), Some(Duration::from_secs(24 * 3_600)), "no longer than a day");
        assert_eq!((closed_for(1, 5_000), entrance("").closed_for()), (None, None));
    }
}
