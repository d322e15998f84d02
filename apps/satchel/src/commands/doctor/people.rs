//! Checks whether anybody may talk on the configured platforms, and whether owners are identified reliably.

use super::Finding;
use crate::config::Config;

/// Checks the allowed users and the owners of every platform with a token.
pub(super) fn check_people(config: &Config) -> Vec<Finding> {
    let (telegram, discord) = (&config.telegram, &config.discord);
    let platforms = [
        ("telegram", telegram.token.is_some(), &telegram.allow_users.0, &telegram.owners.0),
        ("discord", discord.token.is_some(), &discord.allow_users.0, &discord.owners.0),
    ];
    let set_up = platforms.into_iter().filter(|(_, set_up, ..)| *set_up);
    set_up
        .flat_map(|(platform, _, allowed, owners)| {
            [check_anyone_allowed(platform, allowed, owners), check_owner_names(platform, owners)]
        })
        .flatten()
        .collect()
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

fn check_owner_names(platform: &'static str, owners: &[String]) -> Option<Finding> {
    let name = owners.iter().find(|owner| owner.contains(|c: char| c.is_ascii_alphabetic()))?;
    let found = format!("the owner {name} is set by name; if the name changes hands, its new holder becomes owner");
    let advice = format!("put the person's id into `{platform}.owners` instead; `satchel pair list` shows ids");
    Some(Finding::warning(platform, found, advice))
}
