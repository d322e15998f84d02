//! Checks the platforms: their tokens, the bot's settings, and whether anybody may talk there.

use std::path::Path;

use reqwest::Client;

use super::Finding;
use crate::{
    config::{Config, LoadedConfig, leaf::list::OnOff},
    platforms::{self, DiscordApplication, TokenError},
};

/// Checks the tokens with the platforms.
pub(super) async fn check_platforms(loaded: &LoadedConfig, http: &Client) -> Vec<Finding> {
    let config = loaded.config();
    let mut findings = Vec::new();
    if let Some(token) = &config.telegram.token {
        let bot = platforms::identify_telegram_bot(http, config.telegram.api_url.as_deref(), token).await;
        findings.push(token_finding("telegram", bot, loaded.secret_file("telegram.token")));
    }
    if let Some(token) = &config.discord.token {
        let url = config.discord.api_url.as_deref();
        let bot = platforms::identify_discord_bot(http, url, token).await;
        let is_known = bot.is_ok();
        findings.push(token_finding("discord", bot, loaded.secret_file("discord.token")));
        if is_known {
            findings.extend(check_discord_application(platforms::fetch_discord_application(http, url, token).await));
        }
    }
    findings
}

/// Checks the bot's settings on Discord.
fn check_discord_application(application: Result<DiscordApplication, TokenError>) -> Vec<Finding> {
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
    let mut findings = vec![Finding::ok(CHECK, format!("invite the bot with {}", application.invite_url))];
    if !application.has_message_content {
        let found = "the bot can't read messages that don't mention it";
        let advice = "turn on the Message Content Intent in the developer portal, under Bot; then restart Satchel";
        findings.push(Finding::warning(CHECK, found, advice));
    }
    findings
}

/// The result of a token's check; `file` is the one that it was read from.
fn token_finding(check: &'static str, bot: Result<String, TokenError>, file: Option<&Path>) -> Finding {
    match bot {
        Ok(name) => Finding::ok(check, format!("the token belongs to {name}")),
        Err(TokenError::Invalid(reason)) => {
            let advice = match file {
                Some(file) => format!(
                    "put a valid token into {}; a running Satchel reads it again by itself and sends what has waited",
                    file.display()
                ),
                None => format!(
                    "set `{check}.token` to a valid token and restart Satchel, which sends what has waited; from a file \
                     that `{check}.token_file` names it is read again without a restart"
                ),
            };
            Finding::problem(check, reason, advice)
        }
        Err(TokenError::Unverified(reason)) => {
            Finding::problem(check, reason, format!("check the network, and `{check}.api_url` if it is set"))
        }
    }
}

/// Checks the allowed users and the owners of every platform with a token.
pub(super) fn check_people(config: &Config) -> Vec<Finding> {
    let (telegram, discord) = (&config.telegram, &config.discord);
    let platforms = [
        ("telegram", telegram.token.is_some(), &telegram.allow_users.0, &telegram.owners.0),
        ("discord", discord.token.is_some(), &discord.allow_users.0, &discord.owners.0),
    ];
    let set_up = platforms.into_iter().filter(|(_, set_up, ..)| *set_up);
    set_up
        .filter_map(|(platform, _, allowed, owners)| check_anyone_allowed(platform, allowed, owners))
        .chain(check_group_members(config))
        .collect()
}

/// A member who is no allowed sender is rejected until somebody approves it.
fn check_group_members(config: &Config) -> Vec<Finding> {
    if config.nats.requests == OnOff::Off {
        return Vec::new();
    }
    let finding = |(group, member): (&str, &str)| {
        let found = format!("`nats.groups.{group}` lists {member}, who is not in `nats.allow_users`");
        let advice = format!("add {member} to `nats.allow_users`, unless an owner has approved it with a pairing code");
        Finding::warning("nats", found, advice)
    };
    config.nats.unlisted_members().into_iter().map(finding).collect()
}

/// A bot without owners answers everybody with a pairing code, which only the command line can approve.
fn check_anyone_allowed(platform: &'static str, allowed: &[String], owners: &[String]) -> Option<Finding> {
    if !owners.is_empty() {
        return None;
    }
    let found = match allowed.is_empty() {
        true => format!("no owner is set and `{platform}.allow_users` is empty, so nobody can talk to it"),
        false => "no owner is set, so nobody can approve people from a chat".to_owned(),
    };
    let advice = format!(
        "write to the bot, see your id with `satchel pair list`, and put it into `{platform}.owners`; or approve people \
         with `satchel pair approve CODE`"
    );
    Some(Finding::warning(platform, found, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_a_refused_token_names_where_a_new_one_is_read_from() {
        let refused = || Err(TokenError::Invalid("Telegram doesn't accept this token".to_owned()));
        let in_file = token_finding("telegram", refused(), Some(Path::new("/run/token"))).advice.unwrap();
        assert!(
            in_file.starts_with("put a valid token into /run/token; a running Satchel reads it again"),
            "{in_file}"
        );
        let elsewhere = token_finding("telegram", refused(), None).advice.unwrap();
        assert!(elsewhere.contains("`telegram.token`") && elsewhere.contains("restart Satchel"), "{elsewhere}");
    }
}
