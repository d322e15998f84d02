//! `GET /gateway/bot`: where the gateway is, when it accepts a new session, and which gateways may receive the token.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use super::{ApiRequest, CallError, RestClient, retry::MAX_RETRY_AFTER};

/// The domains of Discord's own gateways.
const DISCORD_HOSTS: [&str; 2] = ["discord.gg", "discord.com"];

/// The response.
#[derive(Debug, Deserialize)]
pub(crate) struct GatewayBot {
    pub(crate) url: String,
    #[serde(default)]
    session_start_limit: Option<SessionStartLimit>,
}

#[derive(Debug, Deserialize)]
struct SessionStartLimit {
    remaining: u64,
    /// In milliseconds.
    reset_after: u64,
}

pub(crate) async fn get_gateway_bot(rest: &RestClient) -> Result<GatewayBot, CallError> {
    rest.request(ApiRequest::get("/gateway/bot")).await
}

impl GatewayBot {
    /// How long no new session may be started, at most a day.
    pub(crate) fn wait_until_reset(&self) -> Option<Duration> {
        let limit = self.session_start_limit.as_ref().filter(|limit| limit.remaining == 0)?;
        Some(Duration::from_millis(limit.reset_after).min(MAX_RETRY_AFTER))
    }
}

/// Which gateways may receive the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrustedHosts {
    /// Only if REST calls, which carry the token too, are unencrypted as well.
    allows_unencrypted: bool,
    only_discord: bool,
}

impl TrustedHosts {
    /// Derives the rules from the origin of the API server.
    pub(crate) fn for_api_server(server: &str) -> Self {
        let server = Url::parse(server).ok();
        Self {
            allows_unencrypted: server.as_ref().is_some_and(|server| server.scheme() == "http"),
            only_discord: server.as_ref().is_none_or(is_discord_host),
        }
    }

    /// Returns the URL of a trusted gateway, with our protocol version and encoding.
    pub(crate) fn gateway_url(self, url: &str) -> Option<Url> {
        let mut url = Url::parse(url).ok()?;
        let is_allowed_scheme = url.scheme() == "wss" || (self.allows_unencrypted && url.scheme() == "ws");
        if !is_allowed_scheme || (self.only_discord && !is_discord_host(&url)) {
            return None;
        }
        url.set_query(Some("v=10&encoding=json"));
        Some(url)
    }
}

fn is_discord_host(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_within = |domain| host.strip_suffix(domain).is_some_and(|rest: &str| rest.is_empty() || rest.ends_with('.'));
    DISCORD_HOSTS.into_iter().any(is_within)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn gateway_url_names_version_and_encoding() {
        let gateway_url =
            |url| TrustedHosts::for_api_server("http://[::1]:9").gateway_url(url).map(|url| url.to_string());
        assert_eq!(
            gateway_url("wss://gateway.discord.gg").as_deref(),
            Some("wss://gateway.discord.gg/?v=10&encoding=json")
        );
        assert_eq!(gateway_url("ws://[::1]:9/x?v=6").as_deref(), Some("ws://[::1]:9/x?v=10&encoding=json"));
        assert_eq!((gateway_url("https://gateway.discord.gg"), gateway_url("gateway")), (None, None));
    }

    #[rstest]
    #[case::discord("https://discord.com", "wss://gateway-us-east1-b.discord.gg", true)]
    #[case::bare_domain("https://discord.com", "wss://discord.com:443/gateway", true)]
    #[case::capitals("https://discord.com", "wss://GATEWAY.DISCORD.GG", true)]
    #[case::unencrypted("https://discord.com", "ws://gateway.discord.gg", false)]
    #[case::foreign_host("https://discord.com", "wss://gateway.example", false)]
    #[case::similar_name("https://discord.com", "wss://evildiscord.gg", false)]
    #[case::name_as_subdomain("https://discord.com", "wss://discord.gg.example", false)]
    #[case::name_as_user("https://discord.com", "wss://gateway.discord.gg@gateway.example", false)]
    #[case::no_host("https://discord.com", "wss://", false)]
    #[case::foreign_host_of_custom_server("https://server.example", "wss://gateway.example", true)]
    #[case::unencrypted_beside_encrypted("https://server.example", "ws://server.example", false)]
    #[case::unencrypted_beside_unencrypted("http://127.0.0.1:9", "ws://127.0.0.1:9/gateway", true)]
    #[case::no_server("", "wss://gateway.example", false)]
    fn token_is_sent_only_to_trusted_hosts(#[case] server: &str, #[case] url: &str, #[case] is_trusted: bool) {
        assert_eq!(TrustedHosts::for_api_server(server).gateway_url(url).is_some(), is_trusted);
    }

    #[test]
    fn session_limit_is_awaited_at_most_one_day() {
        let response = |limit: &str| -> GatewayBot {
            serde_json::from_str(&format!(r#"{{"url":"wss://x","shards":1{limit}}}"#)).unwrap()
        };
        let limit = |remaining: u64, reset_after: u64| {
            let limit = json!({ "total": 1_000, "remaining": remaining, "reset_after": reset_after });
            format!(r#","session_start_limit":{limit}"#)
        };
        let wait = |remaining, reset_after| response(&limit(remaining, reset_after)).wait_until_reset();
        assert_eq!(wait(0, 5_000), Some(Duration::from_secs(5)));
        assert_eq!(wait(0, u64::MAX), Some(Duration::from_secs(24 * 3_600)), "no longer than a day");
        assert_eq!((wait(1, 5_000), response("").wait_until_reset()), (None, None));
    }
}
