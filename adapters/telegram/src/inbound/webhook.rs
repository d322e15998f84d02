//! Is told of updates: a small server that Telegram calls, and that answers only once an update is stored.

mod health;
mod server;

use std::{sync::Arc, time::Duration};

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
    processor::InboundProcessor,
    reader::kinds::ALLOWED_UPDATES,
    retry::{self, RetryAction, host, new_retry_tracker, wait_before_retry},
    wire::WebhookInfo,
};
use crate::{
    TelegramError, WebhookSettings,
    bot::{ApiError, BotClient, CallError},
};

/// How soon it is looked whether the webhook is still ours and Telegram gets through to it. Each look is made after
/// twice the time of the one before: who has just set it up wrong hears of it while they look.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(2);

/// How often at least.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// How often it is set again at most because of calls without the secret, which anybody can make.
const SUSPECT_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Sets the webhook and serves it until `stop`. It stays set then, and Telegram keeps what comes until we are back.
pub(super) async fn run_webhook(
    client: &BotClient,
    webhook: &WebhookSettings,
    desk: Arc<InboundProcessor>,
    stop: &CancellationToken,
) -> Result<(), TelegramError> {
    let address = webhook.listen;
    let listener = TcpListener::bind(address).await.map_err(|source| TelegramError::Listen { address, source })?;
    let secret = new_secret()?;
    let path = path(webhook.url.expose_secret());
    let standing = watch::Sender::new(WebhookOwnership::Unknown);
    let door = WebhookHandler::new(path, secret.clone(), desk, standing.clone());
    let over = stop.child_token();
    // The page's limits: what can be reached from everywhere is the same door twice.
    let settings = ServerSettings { trusted_proxies: webhook.trusted_proxies.clone(), ..ServerSettings::default() };
    let router = server::router(Arc::new(door));
    let serving = satchel_http_server::serve(listener, router, settings, over.clone());
    let keeping = async {
        let kept = keep_set(client, &webhook.url, &secret, &standing, stop).await;
        // A webhook that is refused ends the serving too.
        over.cancel();
        kept
    };
    let ((), kept) = tokio::join!(serving, keeping);
    kept
}

/// Sets the webhook, and sets it again when somebody has taken it away: to another address, or to ours with a secret of
/// their own. The latter only the calls tell, for Telegram doesn't say which secret it was told.
async fn keep_set(
    client: &BotClient,
    url: &SecretString,
    secret: &SecretString,
    standing: &watch::Sender<WebhookOwnership>,
    stop: &CancellationToken,
) -> Result<(), TelegramError> {
    let mut doubted_from = Instant::now();
    let mut reached = WebhookHealth::default();
    loop {
        set_webhook(client, url, secret, stop).await?;
        standing.send_replace(WebhookOwnership::Unknown);
        let is_lost = async {
            tokio::select! {
                () = wait_until_replaced(client, url, secret, &mut reached) => {
                    tracing::warn!("another process changed this bot's webhook; setting it again");
                }
                () = wait_until_suspect(standing, doubted_from) => doubted_from = Instant::now() + SUSPECT_CHECK_INTERVAL,
            }
        };
        if stop.run_until_cancelled(is_lost).await.is_none() {
            return Ok(());
        }
    }
}

/// Returns once the webhook leads to another address. Until then it tells whether Telegram gets through to ours.
async fn wait_until_replaced(
    client: &BotClient,
    url: &SecretString,
    secret: &SecretString,
    reached: &mut WebhookHealth,
) {
    if let Some(info) = retry::webhook(client).await {
        reached.set_baseline(&info);
    }
    let mut looks = FIRST_CHECK_DELAY;
    loop {
        tokio::time::sleep(looks).await;
        looks = (looks * 2).min(CHECK_INTERVAL);
        let Some(info) = retry::webhook(client).await else { continue };
        if !is_same_url(&info.url, url.expose_secret()) {
            return;
        }
        log_health(client, info, url, secret, reached);
    }
}

/// Tells what is new of how Telegram fares with the webhook.
fn log_health(
    client: &BotClient,
    info: WebhookInfo,
    url: &SecretString,
    secret: &SecretString,
    reached: &mut WebhookHealth,
) {
    let last_error_message = info.last_error_message.map(|words| client.without_token(&words));
    let info = WebhookInfo { last_error_message, ..info };
    let (url, path) = (url.expose_secret(), path(url.expose_secret()));
    match reached.update(&info, &[url, &path, secret.expose_secret()]) {
        HealthChange::None => {}
        HealthChange::Failing { words: reason, waiting } => {
            tracing::warn!(reason, waiting, "Telegram can't reach this bot's webhook; Telegram keeps retrying");
        }
        HealthChange::Recovered => tracing::info!("Telegram reaches this bot's webhook again"),
    }
}

/// Returns once only strangers have called, but not before `earliest`.
async fn wait_until_suspect(standing: &watch::Sender<WebhookOwnership>, earliest: Instant) {
    tokio::time::sleep_until(earliest).await;
    let in_doubt = |standing: &WebhookOwnership| *standing == WebhookOwnership::Suspect;
    standing.subscribe().wait_for(in_doubt).await.expect("its sender is borrowed");
}

/// Sets the webhook, however long it takes until Telegram can be reached.
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
        let asked = client.request_json::<bool>("setWebhook", body.clone(), Duration::ZERO);
        let Some(answered) = stop.run_until_cancelled(asked).await else { return Ok(()) };
        let error = match answered {
            Ok(_) => {
                retries.reset();
                tracing::info!("the webhook is set to {}", host(url.expose_secret()));
                return Ok(());
            }
            Err(error) => error,
        };
        if let CallError::Refused(ApiError { code: 400, description, .. }) = &error
            && !description.contains("resolve host")
        {
            return Err(TelegramError::Refused { reason: format!("failed to set the webhook ({description})") });
        }
        if wait_before_retry(&mut retries, client, &error, stop).await? == RetryAction::Stop {
            return Ok(());
        }
    }
}

/// 256 random bits, as Telegram takes them: letters and digits.
fn new_secret() -> Result<SecretString, TelegramError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|_| TelegramError::Refused { reason: "failed to get random numbers for a secret".to_owned() })?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

/// Whether two addresses lead to the same place. Telegram may write one differently than it was told it.
fn is_same_url(one: &str, other: &str) -> bool {
    host(one) == host(other) && path(one) == path(other)
}

/// The path of an address, which is where Telegram's calls arrive.
fn path(url: &str) -> String {
    let uri: Option<axum::http::Uri> = url.parse().ok();
    uri.map_or_else(|| "/".to_owned(), |uri| uri.path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_addresss_own() {
        for (url, expected) in [
            ("https://bot.example", "/"),
            ("https://bot.example/", "/"),
            ("https://bot.example:8443/telegram/x?y=1#z", "/telegram/x"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn a_place_can_be_written_differently() {
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
