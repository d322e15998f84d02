//! The webhook: registers it, and serves Telegram's calls, which are confirmed only once an update is stored.

mod health;
mod server;

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use satchel_http_server::ServerSettings;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{
    health::{HealthChange, WebhookHealth},
    server::{WebhookHandler, WebhookOwnership},
};
use super::{
    ListenEnd,
    processor::InboundProcessor,
    reader::kinds::ALLOWED_UPDATES,
    retry::{self, RetryAction, new_retry_tracker, url_host, wait_before_retry},
    wire::WebhookInfo,
};
use crate::{
    TelegramError, WebhookSettings,
    bot::{ApiError, BotClient, CallError},
};

/// Delay before the first check that the webhook is still set and reachable. It doubles with each check, so that a
/// wrong set-up is reported while the operator is still there.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(2);

/// Longest interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Shortest interval between resets that are caused by calls without the secret, which anyone can make.
const SUSPECT_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// How soon an address that is taken is tried again.
const BIND_INTERVAL: Duration = Duration::from_secs(1);

/// For how long an address that is taken is tried before the channel is left to other processes.
const BIND_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets the webhook and serves it until `stop`. `has_listened` says whether this process has listened before. It stays set
/// afterwards, and Telegram keeps updates until the next start.
pub(super) async fn run_webhook(
    client: &BotClient,
    webhook: &WebhookSettings,
    has_listened: &AtomicBool,
    processor: Arc<InboundProcessor>,
    stop: &CancellationToken,
) -> Result<ListenEnd, TelegramError> {
    let binding = stop.run_until_cancelled(bind(webhook.listen, has_listened)).await;
    let Some(bound) = binding.transpose()? else { return Ok(ListenEnd::Stopped) };
    let Some(listener) = bound else { return Ok(ListenEnd::AddressTaken) };
    let secret = new_secret()?;
    let path = url_path(webhook.url.expose_secret());
    let ownership = watch::Sender::new(WebhookOwnership::Unknown);
    let handler = WebhookHandler::new(path, secret.clone(), processor, ownership.clone());
    let cancelled = stop.child_token();
    // The same limits as for the web page, since both are reachable from the internet.
    let settings = ServerSettings { trusted_proxies: webhook.trusted_proxies.clone(), ..ServerSettings::default() };
    let router = server::router(Arc::new(handler));
    let serving = satchel_http_server::serve(listener, router, settings, cancelled.clone());
    let maintaining = async {
        let result = maintain_webhook(client, &webhook.url, &secret, &ownership, stop).await;
        // A refused webhook stops the server, too.
        cancelled.cancel();
        result
    };
    let ((), result) = tokio::join!(serving, maintaining);
    result.map(|()| ListenEnd::Stopped)
}

/// Binds the address. Where this process has listened before, the address is right and may become free again: while the
/// channel was closed or another process received its messages, others could take it. `None` if it stays taken.
async fn bind(address: SocketAddr, has_listened: &AtomicBool) -> Result<Option<TcpListener>, TelegramError> {
    let mut has_failed = false;
    let last_try_at = Instant::now() + BIND_TIMEOUT;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                has_listened.store(true, Ordering::Relaxed);
                return Ok(Some(listener));
            }
            Err(source) if !has_listened.load(Ordering::Relaxed) => {
                return Err(TelegramError::Listen { address, source });
            }
            Err(error) if !has_failed => {
                has_failed = true;
                let error: &(dyn Error + 'static) = &error;
                tracing::warn!(error, "listening for the webhook at {address} failed; retrying");
            }
            Err(_) if Instant::now() >= last_try_at => return Ok(None),
            Err(_) => {}
        }
        tokio::time::sleep(BIND_INTERVAL).await;
    }
}

/// Sets the webhook, and sets it again when another process has changed its URL or its secret. A changed secret shows
/// only in the calls, since Telegram doesn't return it.
async fn maintain_webhook(
    client: &BotClient,
    url: &SecretString,
    secret: &SecretString,
    ownership: &watch::Sender<WebhookOwnership>,
    stop: &CancellationToken,
) -> Result<(), TelegramError> {
    let mut next_suspect_check = Instant::now();
    let mut health = WebhookHealth::default();
    loop {
        set_webhook(client, url, secret, stop).await?;
        ownership.send_replace(WebhookOwnership::Unknown);
        let webhook_lost = async {
            tokio::select! {
                () = wait_until_replaced(client, url, secret, &mut health) => {
                    tracing::warn!("another process changed this bot's webhook; setting it again");
                }
                () = wait_until_suspect(ownership, next_suspect_check) => next_suspect_check = Instant::now() + SUSPECT_CHECK_INTERVAL,
            }
        };
        if stop.run_until_cancelled(webhook_lost).await.is_none() {
            return Ok(());
        }
    }
}

/// Waits until the webhook has another URL. Meanwhile logs whether Telegram can reach it.
async fn wait_until_replaced(
    client: &BotClient,
    url: &SecretString,
    secret: &SecretString,
    health: &mut WebhookHealth,
) {
    if let Some(info) = retry::get_webhook_info(client).await {
        health.set_baseline(&info);
    }
    let mut delay = FIRST_CHECK_DELAY;
    loop {
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(CHECK_INTERVAL);
        let Some(info) = retry::get_webhook_info(client).await else { continue };
        if !is_same_url(&info.url, url.expose_secret()) {
            return;
        }
        log_health(client, info, url, secret, health);
    }
}

/// Logs changes of the webhook's health.
fn log_health(
    client: &BotClient,
    info: WebhookInfo,
    url: &SecretString,
    secret: &SecretString,
    health: &mut WebhookHealth,
) {
    let last_error_message = info.last_error_message.map(|text| client.redact_token(&text));
    let info = WebhookInfo { last_error_message, ..info };
    let (url, path) = (url.expose_secret(), url_path(url.expose_secret()));
    match health.update(&info, &[url, &path, secret.expose_secret()]) {
        HealthChange::None => {}
        HealthChange::Failing { reason, waiting } => {
            tracing::warn!(reason, waiting, "Telegram can't reach this bot's webhook; Telegram keeps retrying");
        }
        HealthChange::Recovered => tracing::info!("Telegram reaches this bot's webhook again"),
    }
}

/// Waits until all calls since the webhook was set lacked the secret, but not before `earliest`.
async fn wait_until_suspect(ownership: &watch::Sender<WebhookOwnership>, earliest: Instant) {
    tokio::time::sleep_until(earliest).await;
    let is_suspect = |ownership: &WebhookOwnership| *ownership == WebhookOwnership::Suspect;
    ownership.subscribe().wait_for(is_suspect).await.expect("its sender is borrowed");
}

/// Sets the webhook, with retries until Telegram can be reached or `stop`.
async fn set_webhook(
    client: &BotClient,
    url: &SecretString,
    secret: &SecretString,
    stop: &CancellationToken,
) -> Result<(), TelegramError> {
    let body = json!({
        "url": url.expose_secret(),
        "secret_token": secret.expose_secret(),
        "allowed_updates": ALLOWED_UPDATES,
    });
    let body = body.to_string().into_bytes();
    let mut retries = new_retry_tracker();
    loop {
        let request = client.request_json::<bool>("setWebhook", body.clone(), Duration::ZERO);
        let Some(result) = stop.run_until_cancelled(request).await else { return Ok(()) };
        let error = match result {
            Ok(_) => {
                retries.reset();
                tracing::info!("the webhook is set to {}", url_host(url.expose_secret()));
                return Ok(());
            }
            Err(error) => error,
        };
        if let CallError::Refused(ApiError { code: 400, description, .. }) = &error
            && !description.contains("resolve host")
        {
            return Err(TelegramError::Refused { reason: format!("failed to set the webhook ({description})") });
        }
        if wait_before_retry(&mut retries, client, &error, stop).await == RetryAction::Stop {
            return Ok(());
        }
    }
}

/// Returns 256 random bits in hexadecimal, which Telegram accepts.
fn new_secret() -> Result<SecretString, TelegramError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|_| TelegramError::Refused { reason: "failed to get random numbers for a secret".to_owned() })?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

/// Whether two URLs are equivalent. Telegram may return one in another spelling than it was set.
fn is_same_url(one: &str, other: &str) -> bool {
    url_host(one) == url_host(other) && url_path(one) == url_path(other)
}

/// The path of a URL, at which Telegram's calls arrive.
fn url_path(url: &str) -> String {
    let uri: Option<axum::http::Uri> = url.parse().ok();
    uri.map_or_else(|| "/".to_owned(), |uri| uri.path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a process that keeps the channel from others for as long as another program has its address.
    #[tokio::test(start_paused = true)]
    async fn address_that_stays_taken_is_left_after_a_while() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let has_listened = AtomicBool::new(false);
        let first = bind(address, &has_listened).await.unwrap_err();
        assert!(matches!(first, TelegramError::Listen { .. }), "it may be a wrong one: {first}");
        has_listened.store(true, Ordering::Relaxed);
        let started = Instant::now();
        assert!(bind(address, &has_listened).await.unwrap().is_none());
        assert_eq!(started.elapsed().as_secs(), BIND_TIMEOUT.as_secs());
        drop(taken);
        assert!(bind(address, &has_listened).await.unwrap().is_some());
    }

    #[test]
    fn url_path_excludes_query_and_fragment() {
        for (url, expected) in [
            ("https://bot.example", "/"),
            ("https://bot.example/", "/"),
            ("https://bot.example:8443/telegram/x?y=1#z", "/telegram/x"),
        ] {
            assert_eq!(url_path(url), expected, "{url}");
        }
    }

    #[test]
    fn equivalent_urls_are_the_same() {
        for (url, same) in [
            ("https://bot.example:443/x", true),
            ("https://bot.example/x?", true),
            ("https://bot.example/y", false),
            ("https://evil.example/x", false),
            ("", false),
        ] {
            assert_eq!(is_same_url(url, "https://bot.example/x"), same, "{url}");
        }
    }

    #[test]
    fn secrets_are_long_plain_and_new() {
        let (one, other) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one.expose_secret(), other.expose_secret());
        assert_eq!(one.expose_secret().len(), 64);
        assert!(one.expose_secret().bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
