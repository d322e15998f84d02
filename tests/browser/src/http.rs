//! Plain requests beside the browser.

use std::sync::LazyLock;

use reqwest::{Client, Response};

/// The one client. It never speaks TLS, but can't be made without somebody who could.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    // Somebody else in the process may have been quicker.
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    Client::new()
});

#[must_use]
pub fn client() -> &'static Client {
    &CLIENT
}

/// Asks with a token for what is at an address; `None` when nobody answers.
pub async fn get_with_token(url: &str, token: &str) -> Option<Response> {
    CLIENT.get(url).bearer_auth(token).send().await.ok()
}

/// Asks for what is at an address; `None` when nobody answers.
pub async fn get(url: &str) -> Option<Response> {
    CLIENT.get(url).send().await.ok()
}
