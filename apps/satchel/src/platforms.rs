//! Verifies tokens with one read-only request to the platform, for `init` and `doctor`.

pub mod telegram_owner;

use std::time::Duration;

use anyhow::Context;
use reqwest::{Client, ClientBuilder, Response, redirect::Policy};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// Telegram's own API server.
const TELEGRAM_URL: &str = "https://api.telegram.org";

/// Discord's own API server.
const DISCORD_URL: &str = "https://discord.com";

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// The largest response body that is read.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Why a token could not be verified, as text for the owner. Never contains the token or a URL that holds it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The platform rejects it.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Unverified(String),
}

/// A client for short requests: no redirects, short timeouts.
///
/// # Errors
/// When the system's certificates can't be read.
pub fn client() -> anyhow::Result<Client> {
    client_builder().build().context("failed to set up the HTTP client")
}

/// A client for short requests to this machine: no proxy, no TLS.
///
/// # Errors
/// When the client can't be built.
pub(crate) fn local_client() -> reqwest::Result<Client> {
    client_builder().no_proxy().tls_certs_only([]).build()
}

fn client_builder() -> ClientBuilder {
    // The first provider that is installed counts for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(REQUEST_TIMEOUT).connect_timeout(REQUEST_TIMEOUT / 3).redirect(Policy::none())
}

/// Returns the name of the bot that a Telegram token belongs to.
///
/// # Errors
/// When the token is invalid, or the request fails.
pub async fn identify_telegram_bot(
    http: &Client,
    api_url: Option<&SecretString>,
    token: &SecretString,
) -> Result<String, TokenError> {
    #[derive(Deserialize)]
    struct BotResponse {
        ok: bool,
        result: Option<Bot>,
        description: Option<String>,
    }
    #[derive(Deserialize)]
    struct Bot {
        username: String,
    }
    let url = telegram_url(api_url, token)?;
    let token = token.expose_secret().trim();
    let (status, body) = get_json("Telegram", http.get(format!("{url}/getMe"))).await?;
    match serde_json::from_slice::<BotResponse>(&body) {
        Ok(BotResponse { ok: true, result: Some(bot), .. }) => Ok(format!("@{}", redact(&bot.username))),
        // An unknown token is "Not Found" to Telegram, a revoked one "Unauthorized".
        Ok(BotResponse { ok: false, .. }) if status == 401 || status == 404 => {
            let message = "Telegram doesn't accept this token; get the current one from @BotFather";
            Err(TokenError::Invalid(message.to_owned()))
        }
        Ok(BotResponse { description: Some(description), .. }) => {
            // Another server than Telegram's may repeat the path.
            let description = description.replace(token, "<token>");
            Err(TokenError::Unverified(format!("Telegram answered {status}: {}", redact(&description))))
        }
        Ok(_) | Err(_) => {
            Err(TokenError::Unverified(format!("the server did not answer like Telegram (status {status})")))
        }
    }
}

/// The address of a bot's methods, without a slash at its end. It holds the token.
fn telegram_url(api_url: Option<&SecretString>, token: &SecretString) -> Result<String, TokenError> {
    // The token becomes a part of the path, so only a token's own characters are allowed.
    let token = token.expose_secret().trim();
    let has_token_form = |(id, secret): (&str, &str)| {
        let is_token_char = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !id.is_empty()
            && id.chars().all(|c| c.is_ascii_digit())
            && !secret.is_empty()
            && secret.chars().all(is_token_char)
    };
    if !token.split_once(':').is_some_and(has_token_form) {
        let message = "this is not a Telegram token: a token looks like 123456789:AbC-dEf… and comes from @BotFather";
        return Err(TokenError::Invalid(message.to_owned()));
    }
    let base = api_url.map_or(TELEGRAM_URL, |url| url.expose_secret().trim_end_matches('/'));
    Ok(format!("{base}/bot{token}"))
}

/// Returns the name of the bot that a Discord token belongs to.
///
/// # Errors
/// When the token is invalid, or the request fails.
pub async fn identify_discord_bot(
    http: &Client,
    api_url: Option<&SecretString>,
    token: &SecretString,
) -> Result<String, TokenError> {
    #[derive(Deserialize)]
    struct User {
        username: String,
        #[serde(default)]
        bot: bool,
    }
    let (status, body) = get_discord(http, api_url, token, "users/@me").await?;
    match (status, serde_json::from_slice::<User>(&body)) {
        (200, Ok(user)) if user.bot => Ok(redact(&user.username)),
        (200, Ok(_)) => Err(TokenError::Invalid(
            "this is a user token; Satchel needs a bot token from the developer portal".to_owned(),
        )),
        (401, _) => {
            let message =
                "Discord doesn't accept this token; reset it in the developer portal, under Bot, and use the new one";
            Err(TokenError::Invalid(message.to_owned()))
        }
        (status, _) => Err(TokenError::Unverified(format!("Discord answered {status}"))),
    }
}

/// A Discord bot as its owner has set it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscordApplication {
    /// The URL that adds the bot to a server, with the permissions that it needs.
    pub invite_url: String,
    /// Whether it may read messages that don't mention it (the Message Content Intent).
    pub has_message_content: bool,
}

/// Returns how a bot is set up on Discord.
///
/// # Errors
/// When the token is invalid, or the request fails.
pub async fn fetch_discord_application(
    http: &Client,
    api_url: Option<&SecretString>,
    token: &SecretString,
) -> Result<DiscordApplication, TokenError> {
    #[derive(Deserialize)]
    struct Application {
        id: String,
        #[serde(default)]
        flags: u64,
    }
    // Application Flags: GATEWAY_MESSAGE_CONTENT, and GATEWAY_MESSAGE_CONTENT_LIMITED for bots in few guilds.
    const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;
    // Permissions: view channels, send messages, attach files, read the history, send in threads, send voice messages.
    const BOT_PERMISSIONS: u64 = 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16 | 1 << 38 | 1 << 46;
    let (status, body) = get_discord(http, api_url, token, "applications/@me").await?;
    match (status, serde_json::from_slice::<Application>(&body)) {
        (200, Ok(Application { id, flags })) if id.bytes().all(|byte| byte.is_ascii_digit()) => {
            let invitation = format!(
                "{DISCORD_URL}/oauth2/authorize?client_id={id}&scope=bot+applications.commands&permissions={BOT_PERMISSIONS}"
            );
            Ok(DiscordApplication { invite_url: invitation, has_message_content: flags & MESSAGE_CONTENT != 0 })
        }
        (status, _) => Err(TokenError::Unverified(format!("Discord answered {status}"))),
    }
}

async fn get_discord(
    http: &Client,
    api_url: Option<&SecretString>,
    token: &SecretString,
    path: &str,
) -> Result<(u16, Vec<u8>), TokenError> {
    let token = token.expose_secret().trim();
    if token.is_empty() || token.chars().any(|c| !c.is_ascii_graphic()) {
        let message = "this is not a Discord token: the developer portal shows it under Bot, without spaces";
        return Err(TokenError::Invalid(message.to_owned()));
    }
    let base = api_url.map_or(DISCORD_URL, |url| url.expose_secret().trim_end_matches('/'));
    let request = http.get(format!("{base}/api/v10/{path}"));
    // Discord requires a user agent and blocks clients without one.
    let agent = concat!("DiscordBot (satchel, ", env!("CARGO_PKG_VERSION"), ")");
    get_json("Discord", request.header("authorization", format!("Bot {token}")).header("user-agent", agent)).await
}

async fn get_json(platform: &str, request: reqwest::RequestBuilder) -> Result<(u16, Vec<u8>), TokenError> {
    // The URL may hold the token, so errors are reported without it.
    let to_token_error = |error: reqwest::Error| {
        let problem = match () {
            () if error.is_timeout() => "did not answer in time",
            () if error.is_connect() => "can't be reached; is this machine online?",
            () => "gave an unexpected answer",
        };
        TokenError::Unverified(format!("{platform} {problem}"))
    };
    let mut response = request.send().await.map_err(to_token_error)?;
    let status = response.status().as_u16();
    match read_body(&mut response, MAX_RESPONSE_BYTES).await.map_err(to_token_error)? {
        Some(body) => Ok((status, body)),
        None => Err(TokenError::Unverified(format!("{platform} sent an endless answer"))),
    }
}

/// A response's body; `None` when it is longer than `limit` bytes.
pub(crate) async fn read_body(response: &mut Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// A platform's text without characters that are unsafe on a terminal.
fn redact(text: &str) -> String {
    text.chars().filter(|c| !satchel_domain::filename::is_unsafe_char(*c)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn reflected_path_does_not_leak_token() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url: SecretString = format!("http://{}", listener.local_addr().unwrap()).into();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let read = socket.read(&mut asked).await.unwrap();
            let asked = String::from_utf8_lossy(&asked[..read]);
            let path = asked.split(' ').nth(1).unwrap();
            let body = format!(r#"{{"ok":false,"error_code":500,"description":"no method {path}"}}"#);
            let head = format!("HTTP/1.1 500 Oh\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.write_all((head + &body).as_bytes()).await.unwrap();
        });
        let told = identify_telegram_bot(&client().unwrap(), Some(&url), &"123:AbC-dEf".into()).await.unwrap_err();
        assert_eq!(told.to_string(), "Telegram answered 500: no method /bot<token>/getMe");
    }
}
