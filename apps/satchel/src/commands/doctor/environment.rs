//! The configuration itself, the platforms, and the clock against those that others have.

use std::{net::IpAddr, os::unix::fs::PermissionsExt, time::SystemTime};

use jiff::Timestamp;
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};

use super::Finding;
use crate::{
    config::{Config, LoadedConfig, leaf::secret::MASK, models::ProviderConfig, origin::SettingOrigin},
    models::{ModelCandidate, ModelSelection},
    platforms::{self, DiscordApplication, TokenError},
};

/// A clock that is wrong by more seconds than this makes waits wrong.
const CLOCK_SKEW_WARNING_SECS: u64 = 30;

/// By more than this certificates and signatures are refused.
const CLOCK_SKEW_FAILURE_SECS: u64 = 300;

/// No machine can be running this before the moment at which it was written.
const EARLIEST_TIME: &str = "2026-11-01T00:00:00Z";

/// Which file was read, whether others can read its secrets, what it switches on that isn't built yet, and which
/// variables have no effect.
pub(super) fn configuration(loaded: &LoadedConfig) -> Vec<Finding> {
    const CHECK: &str = "configuration";
    let from_file = |origin: &SettingOrigin| matches!(origin, SettingOrigin::File { .. });
    let mut findings = match &loaded.file {
        None => vec![Finding::ok(CHECK, "no configuration file; the defaults apply")],
        Some(path) => {
            let given = loaded.settings.iter().filter(|setting| from_file(&setting.origin)).count();
            vec![Finding::ok(CHECK, format!("{given} settings from {}", path.display()))]
        }
    };
    let is_secret = |value: &serde_json::Value| value.as_str().is_some_and(|text| text.contains(MASK));
    let holds_secrets = loaded.settings.iter().any(|setting| from_file(&setting.origin) && is_secret(&setting.value));
    if let Some(path) = loaded.file.as_ref().filter(|_| holds_secrets)
        && let Ok(metadata) = std::fs::metadata(path)
        && metadata.permissions().mode() & 0o077 != 0
    {
        let shown = path.display();
        let found = format!("other users of this machine can read the secrets in {shown}");
        findings.push(Finding::warning("permissions", found, format!("chmod 600 {shown}")));
    }
    let not_built = |problem: &crate::config::origin::ConfigProblem| {
        Finding::problem(CHECK, problem.to_string(), "remove it; until then Satchel does not start")
    };
    findings.extend(loaded.not_built().map(not_built));
    let without_effect = |problem: &crate::config::origin::ConfigProblem| {
        Finding::warning(CHECK, problem.to_string(), "rename the variable, or remove it from the environment")
    };
    findings.extend(loaded.warnings.iter().map(without_effect));
    findings
}

/// Whether the platforms know the tokens.
pub(super) async fn platforms(config: &Config, http: &Client) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(token) = &config.telegram.token {
        let bot = platforms::telegram_bot(http, config.telegram.api_url.as_deref(), token).await;
        findings.push(platform("telegram", bot));
    }
    if let Some(token) = &config.discord.token {
        let url = config.discord.api_url.as_deref();
        let bot = platforms::discord_bot(http, url, token).await;
        let is_known = bot.is_ok();
        findings.push(platform("discord", bot));
        if is_known {
            findings.extend(discord_set_up(platforms::discord_application(http, url, token).await));
        }
    }
    findings
}

/// How the bot is set up on Discord, beyond its token.
fn discord_set_up(application: Result<DiscordApplication, TokenError>) -> Vec<Finding> {
    const CHECK: &str = "discord";
    let application = match application {
        Ok(application) => application,
        Err(error) => {
            let found = format!("failed to read the bot's settings: {error}");
            return vec![Finding::warning(
                CHECK,
                found,
                "try again; the developer portal shows the invitation under OAuth2",
            )];
        }
    };
    let mut findings = vec![Finding::ok(CHECK, format!("invite the bot with {}", application.invitation))];
    if !application.reads_messages {
        let found = "the bot can't read messages that don't mention it";
        let advice = "turn on the Message Content Intent in the developer portal, under Bot; then restart Satchel";
        findings.push(Finding::warning(CHECK, found, advice));
    }
    findings
}

fn platform(check: &'static str, bot: Result<String, TokenError>) -> Finding {
    match bot {
        Ok(name) => Finding::ok(check, format!("the token belongs to {name}")),
        Err(TokenError::Invalid(words)) => {
            Finding::problem(check, words, format!("set `{check}.token` to a valid token"))
        }
        Err(TokenError::Unverified(words)) => {
            Finding::problem(check, words, format!("check the network, and `{check}.api_url` if it is set"))
        }
    }
}

/// Which keys and tokens would be sent over the network for everybody on the way to read.
pub(super) fn unencrypted(config: &Config, decision: &ModelSelection) -> Vec<Finding> {
    let warning = |check, setting: String, what: &str| {
        let found = format!("`{setting}` sends {what} to another machine over unencrypted http");
        Finding::warning(check, found, format!("set `{setting}` to an address that starts with https://"))
    };
    let mut findings = Vec::new();
    for candidate in &decision.candidates {
        let ModelCandidate::Remote(model) = candidate else { continue };
        let Some(url) = model.base_url.as_deref().and_then(plain_elsewhere) else { continue };
        if model.api_key.is_some() || !url.username().is_empty() || url.password().is_some() {
            findings.push(warning("model", format!("models.{}.base_url", model.name), "the key"));
        }
    }
    for (check, token, url) in [
        ("telegram", &config.telegram.token, &config.telegram.api_url),
        ("discord", &config.discord.token, &config.discord.api_url),
    ] {
        if token.is_some() && url.as_deref().and_then(plain_elsewhere).is_some() {
            findings.push(warning(check, format!("{check}.api_url"), "the token"));
        }
    }
    findings
}

/// The address, if it is not encrypted and leads to another machine.
fn plain_elsewhere(url: &SecretString) -> Option<Url> {
    let url = Url::parse(url.expose_secret()).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (!is_here).then_some(url)
}

/// Compares the clock with that of a server that is asked anyway; without one, with what can be true at all.
pub(super) async fn clock(config: &Config, decision: &ModelSelection, http: &Client) -> Finding {
    const CHECK: &str = "clock";
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
    let shown = now.strftime("%Y-%m-%d %H:%M:%SZ");
    if EARLIEST_TIME.parse::<Timestamp>().is_ok_and(|written| now < written) {
        let found = format!("{shown} is before this program was built");
        return Finding::problem(CHECK, found, "set the clock and keep it in sync (`timedatectl set-ntp true`)");
    }
    let Some(server) = server(config, decision) else {
        return Finding::ok(CHECK, format!("{shown}, not compared: no server is configured to compare it with"));
    };
    let Some(theirs) = their_time(http, &server).await else {
        return Finding::ok(CHECK, format!("{shown}, not compared: no server could be reached"));
    };
    let apart =
        theirs.duration_since(Timestamp::try_from(SystemTime::now()).unwrap_or(now)).abs().as_secs().unsigned_abs();
    let advice = "set the clock and keep it in sync (`timedatectl set-ntp true`)";
    let found = format!("the clock is {apart} s off, compared with a server");
    match apart {
        apart if apart > CLOCK_SKEW_FAILURE_SECS => Finding::problem(CHECK, found, advice),
        apart if apart > CLOCK_SKEW_WARNING_SECS => Finding::warning(CHECK, found, advice),
        _ => Finding::ok(CHECK, format!("{shown}, in sync")),
    }
}

/// The address of a server that is asked for something else too.
fn server(config: &Config, decision: &ModelSelection) -> Option<SecretString> {
    let of_model = |candidate: &ModelCandidate| {
        let ModelCandidate::Remote(model) = candidate else { return None };
        model.base_url.clone().map(|url| url.0).or_else(|| match model.provider {
            ProviderConfig::OpenAi | ProviderConfig::OpenAiResponses => Some("https://api.openai.com/".into()),
            ProviderConfig::Anthropic => Some("https://api.anthropic.com/".into()),
            ProviderConfig::Gemini => Some("https://generativelanguage.googleapis.com/".into()),
            // It runs here, on the same clock.
            ProviderConfig::Ollama | ProviderConfig::Offline => None,
        })
    };
    let telegram = config
        .telegram
        .token
        .as_ref()
        .map(|_| config.telegram.api_url.clone().map_or_else(|| "https://api.telegram.org/".into(), |url| url.0));
    let discord = config
        .discord
        .token
        .as_ref()
        .map(|_| config.discord.api_url.clone().map_or_else(|| "https://discord.com/".into(), |url| url.0));
    decision.candidates.iter().find_map(of_model).or(telegram).or(discord)
}

async fn their_time(http: &Client, server: &SecretString) -> Option<Timestamp> {
    let answer = http.head(server.expose_secret()).send().await.ok()?;
    let date = answer.headers().get("date")?.to_str().ok()?;
    Some(jiff::fmt::rfc2822::parse(date).ok()?.timestamp())
}
