//! Checks the configuration, the encryption of connections, the clock, the system's limits, the user, and other
//! processes.

use std::{net::IpAddr, os::unix::fs::MetadataExt, time::SystemTime};

use jiff::Timestamp;
use reqwest::{Client, Url};
use rustix::process::{Resource, getegid, geteuid, getrlimit};
use satchel_sandbox::SandboxRunner;
use secrecy::{ExposeSecret, SecretString};

use super::Finding;
use crate::{
    config::{Config, LoadedConfig, leaf::secret::MASK, models::ProviderConfig, origin::SettingOrigin},
    models::{ModelCandidate, ModelSelection},
};

/// A larger clock skew makes delays wrong.
const CLOCK_SKEW_WARNING_SECS: u64 = 30;

/// With a larger clock skew certificates and signatures are rejected.
const CLOCK_SKEW_FAILURE_SECS: u64 = 300;

/// A clock before the time when this was written is wrong.
const EARLIEST_TIME: &str = "2026-11-01T00:00:00Z";

/// Fewer open files than this may not be enough under load.
const LOW_FILE_LIMIT: u64 = 1024;

/// Fewer open files than this are not enough for the database, the page and a few uploads.
const MIN_FILE_LIMIT: u64 = 128;

/// Checks which file was read, whether others can read its secrets, what it enables that isn't built yet, and which
/// variables have no effect.
pub(super) fn check_configuration(loaded: &LoadedConfig) -> Vec<Finding> {
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
    let own = (geteuid().as_raw(), getegid().as_raw());
    if let Some(path) = loaded.file.as_ref().filter(|_| holds_secrets)
        && let Ok(metadata) = std::fs::metadata(path)
        && is_open_to_others(metadata.mode(), is_of_service((metadata.uid(), metadata.gid()), own))
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

/// Whether the mode of a file lets others in than its owner, and than readers of its group where that is a service's.
fn is_open_to_others(mode: u32, is_of_service: bool) -> bool {
    let group_readers = if is_of_service { 0o040 } else { 0 };
    mode & 0o077 & !group_readers != 0
}

/// Whether a file is one that a service reads by its group: it is the administrator's, with the group that Satchel itself runs
/// with (`root:satchel`, 0640). The group of a person's own file may be the first group of everybody (`users`).
fn is_of_service((owner, group): (u32, u32), (own_user, own_group): (u32, u32)) -> bool {
    owner != own_user && group == own_group
}

/// Finds keys and tokens that would be sent unencrypted over the network.
pub(super) fn check_encryption(config: &Config, selection: &ModelSelection) -> Vec<Finding> {
    let warning = |check, setting: String, secret: &str| {
        let found = format!("`{setting}` sends {secret} to another machine over unencrypted http");
        Finding::warning(check, found, format!("set `{setting}` to an address that starts with https://"))
    };
    let mut findings = Vec::new();
    for candidate in &selection.candidates {
        let ModelCandidate::Remote(model) = candidate else { continue };
        let Some(url) = model.base_url.as_deref().and_then(unencrypted_remote_url) else { continue };
        if model.api_key.is_some() || !url.username().is_empty() || url.password().is_some() {
            findings.push(warning("model", format!("models.{}.base_url", model.name), "the key"));
        }
    }
    for (check, token, url) in [
        ("telegram", &config.telegram.token, &config.telegram.api_url),
        ("discord", &config.discord.token, &config.discord.api_url),
    ] {
        if token.is_some() && url.as_deref().and_then(unencrypted_remote_url).is_some() {
            findings.push(warning(check, format!("{check}.api_url"), "the token"));
        }
    }
    findings
}

/// The URL, if it is unencrypted and leads to another machine.
fn unencrypted_remote_url(url: &SecretString) -> Option<Url> {
    let url = Url::parse(url.expose_secret()).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (!is_local).then_some(url)
}

/// Compares the clock with that of a configured server, and with the time when this program was built.
pub(super) async fn check_clock(config: &Config, selection: &ModelSelection, http: &Client) -> Finding {
    const CHECK: &str = "clock";
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH);
    let shown = now.strftime("%Y-%m-%d %H:%M:%SZ");
    if EARLIEST_TIME.parse::<Timestamp>().is_ok_and(|earliest| now < earliest) {
        let found = format!("{shown} is before this program was built");
        return Finding::problem(CHECK, found, "set the clock and keep it in sync (`timedatectl set-ntp true`)");
    }
    let Some(server) = reference_server(config, selection) else {
        return Finding::ok(CHECK, format!("{shown}, not compared: no server is configured to compare it with"));
    };
    let Some(server_time) = fetch_server_time(http, &server).await else {
        return Finding::ok(CHECK, format!("{shown}, not compared: no server could be reached"));
    };
    let skew = server_time
        .duration_since(Timestamp::try_from(SystemTime::now()).unwrap_or(now))
        .abs()
        .as_secs()
        .unsigned_abs();
    let advice = "set the clock and keep it in sync (`timedatectl set-ntp true`)";
    let found = format!("the clock is {skew} s off, compared with a server");
    match skew {
        skew if skew > CLOCK_SKEW_FAILURE_SECS => Finding::problem(CHECK, found, advice),
        skew if skew > CLOCK_SKEW_WARNING_SECS => Finding::warning(CHECK, found, advice),
        _ => Finding::ok(CHECK, format!("{shown}, in sync")),
    }
}

/// The address of a configured server whose clock is used for comparison.
fn reference_server(config: &Config, selection: &ModelSelection) -> Option<SecretString> {
    let model_server = |candidate: &ModelCandidate| {
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
    selection.candidates.iter().find_map(model_server).or(telegram).or(discord)
}

async fn fetch_server_time(http: &Client, server: &SecretString) -> Option<Timestamp> {
    let response = http.head(server.expose_secret()).send().await.ok()?;
    let date = response.headers().get("date")?.to_str().ok()?;
    Some(jiff::fmt::rfc2822::parse(date).ok()?.timestamp())
}

/// Checks how many files may be open at once.
pub(super) fn check_limits() -> Vec<Finding> {
    let limit = getrlimit(Resource::Nofile).current;
    let advice = "raise the limit: `ulimit -n 8192` in a shell, `LimitNOFILE=8192` in a systemd unit";
    let found = |limit: u64| format!("{limit} files may be open at once");
    vec![match limit {
        None => Finding::ok("limits", "any number of files may be open at once"),
        Some(limit) if limit < MIN_FILE_LIMIT => Finding::problem("limits", found(limit), advice),
        Some(limit) if limit < LOW_FILE_LIMIT => Finding::warning("limits", found(limit), advice),
        Some(limit) => Finding::ok("limits", found(limit)),
    }]
}

pub(super) fn check_user() -> Vec<Finding> {
    match geteuid().is_root() {
        true => vec![Finding::warning(
            "user",
            "Satchel runs as root",
            "run Satchel as its own user; it only needs access to its data directory",
        )],
        false => Vec::new(),
    }
}

/// Starts the sandbox of the workspace once.
pub(super) async fn check_sandbox(config: &Config) -> Finding {
    const CHECK: &str = "sandbox";
    if !config.tools.sandbox.is_on() {
        let found = "`tools.sandbox` is off: tools work on files without a sandbox";
        return Finding::warning(CHECK, found, "turn it on if this machine can run it: `tools.sandbox: on`");
    }
    let advice =
        "allow the process to compile code (systemd: `MemoryDenyWriteExecute=no`), or set `tools.sandbox: off`";
    match tokio::task::spawn_blocking(|| SandboxRunner::default().warm_up()).await {
        Ok(Ok(time)) => Finding::ok(CHECK, format!("the sandbox of the workspace starts in {} ms", time.as_millis())),
        Ok(Err(error)) => Finding::problem(CHECK, error.to_string(), advice),
        Err(error) => Finding::problem(CHECK, format!("the sandbox can't start: {error}"), advice),
    }
}

/// Reports the other processes that use the data directory; `None` if that is unknown.
pub(super) fn check_processes(running: Option<usize>) -> Finding {
    const CHECK: &str = "processes";
    match running {
        None => Finding::ok(CHECK, "failed to find out which processes have the database open"),
        Some(0) => Finding::ok(CHECK, "no other process has the data directory open"),
        Some(1) => Finding::ok(CHECK, "one other process has the data directory open"),
        Some(count) => Finding::ok(CHECK, format!("{count} other processes have the data directory open")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_group_of_a_service_may_read_secrets() {
        const OWN: (u32, u32) = (5, 7);
        for (mode, owner, is_open) in [
            (0o100_600, (5, 7), false),
            (0o100_600, (0, 7), false),
            (0o100_640, (0, 7), false),
            // On some systems it is the first group of everybody.
            (0o100_640, (5, 7), true),
            (0o100_640, (0, 8), true),
            (0o100_660, (0, 7), true),
            (0o100_644, (0, 7), true),
            (0o100_604, (0, 7), true),
        ] {
            assert_eq!(is_open_to_others(mode, is_of_service(owner, OWN)), is_open, "{mode:o} of {owner:?}");
        }
    }
}
