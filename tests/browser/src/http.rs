//! Plain requests beside the browser.

use std::sync::LazyLock;

use reqwest::{Client, Response};

/// The one client. It never speaks TLS, but can't be made without somebody who could.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    // Somebody else in the process may have been quicker.
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    // A server that was killed leaves connections behind, on which the next request would fail.
    let client = Client::builder().pool_max_idle_per_host(0).build();
    client.expect("a client can be made")
});

#[must_use]
pub fn client() -> &'static Client {
    &CLIENT
}

/// Asks with a token for what is at an address; `None` when nobody answers.
pub async fn get_with_token(url: &str, token: &str) -> Option<Response> {
    CLIENT.get(url).bearer_auth(token).send().await.ok()
}

/// Sends JSON with a token; `None` when nobody answers.
pub async fn post_with_token(url: &str, token: &str, body: &serde_json::Value) -> Option<Response> {
    CLIENT.post(url).bearer_auth(token).json(body).send().await.ok()
}

/// Asks for what is at an address; `None` when nobody answers.
pub async fn get(url: &str) -> Option<Response> {
    CLIENT.get(url).send().await.ok()
}
