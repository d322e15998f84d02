//! Keeps root out of another user's data: the Satchel of that user couldn't use the files that root would leave there.

use std::{ffi::OsString, fs, os::unix::fs::MetadataExt, path::PathBuf};

use rustix::process::geteuid;

use super::UsageError;
use crate::config::{LoadedConfig, leaf::secret::MASK};

/// The users of this machine.
const USERS_FILE: &str = "/etc/passwd";

/// How the process was started.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The program and its arguments.
    pub arguments: &'a [OsString],
    pub environment: &'a [(OsString, OsString)],
}

/// Checks, before a file is opened, that none of the directories that a command writes belongs to another user while it runs
/// as root. It doesn't become that user: what root has inherited, such as its home and its groups, would come along.
///
/// # Errors
/// When one does; the message has the command to run instead.
pub fn check(directories: &[PathBuf], loaded: &LoadedConfig, invocation: Invocation<'_>) -> Result<(), UsageError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = |directory: &PathBuf| fs::metadata(directory).ok().map(|metadata| metadata.uid());
    let foreign = directories.iter().find_map(|directory| Some((directory, owner(directory).filter(|uid| *uid != 0)?)));
    let Some((directory, uid)) = foreign else { return Ok(()) };
    let users = fs::read_to_string(USERS_FILE).unwrap_or_default();
    let (person, user, container) = match user_name(&users, uid) {
        Some(name) => (format!("user {name}"), name.to_owned(), String::new()),
        None => (format!("user id {uid}"), format!("#{uid}"), format!(" (in a container: `--user {uid}`)")),
    };
    let is_secret = |key: &str| {
        let setting = loaded.settings.iter().find(|setting| setting.key == key);
        setting.is_none_or(|setting| setting.value.as_str().is_some_and(|text| text.contains(MASK)))
    };
    let command = command_as_user(&user, invocation, is_secret);
    Err(UsageError(format!(
        "the data in {} belongs to {person}, who couldn't use what root writes there; run this as that user: \
         `{command}`{container}",
        directory.display()
    )))
}

/// The name of the user as whom this process runs, or the id in the form that `sudo -u` takes.
pub(super) fn own_user() -> String {
    let uid = geteuid().as_raw();
    let users = fs::read_to_string(USERS_FILE).unwrap_or_default();
    user_name(&users, uid).map_or_else(|| format!("#{uid}"), str::to_owned)
}

/// The name of a user in the text of [`USERS_FILE`].
fn user_name(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse::<u32>() == Ok(uid)).then_some(name)
    })
}

/// The same command as another user, with the same variables of Satchel. Values of secret settings are left out.
fn command_as_user(user: &str, invocation: Invocation<'_>, is_secret: impl Fn(&str) -> bool) -> String {
    let mut words = vec!["sudo".to_owned(), "-u".to_owned(), quote(user)];
    let variables = invocation.environment.iter().filter_map(|(name, _)| name.to_str());
    let variables: Vec<&str> = variables.filter(|name| name.starts_with("SATCHEL_")).collect();
    if !variables.is_empty() {
        words.insert(1, format!("--preserve-env={}", variables.join(",")));
    }
    let mut is_setting = false;
    for argument in invocation.arguments {
        let text = argument.to_string_lossy();
        let (option, pair) = match text.strip_prefix("--set=") {
            Some(pair) => ("--set=", Some(pair)),
            None => ("", Some(&*text).filter(|_| is_setting)),
        };
        words.push(match pair.and_then(|pair| pair.split_once('=')) {
            Some((key, _)) if is_secret(key) => quote(&format!("{option}{key}=…")),
            _ => quote(&text),
        });
        is_setting = text == "--set";
    }
    words.join(" ")
}

/// A word as a shell reads it.
pub(super) fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=.,:/@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nsatchel:x:999:998::/var/lib/satchel:/usr/sbin/nologin\nodd\n";

    #[test]
    fn users_are_found_by_their_ids() {
        for (uid, name) in [(0, Some("root")), (999, Some("satchel")), (998, None)] {
            assert_eq!(user_name(USERS, uid), name);
        }
    }

    fn command(arguments: &[&str], variables: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let environment: Vec<_> = variables.iter().map(|name| (OsString::from(name), OsString::from("x"))).collect();
        let invocation = Invocation { arguments: &arguments, environment: &environment };
        command_as_user("satchel", invocation, |key| key.ends_with("token"))
    }

    #[test]
    fn command_is_the_same_as_another_user() {
        assert_eq!(command(&["satchel", "web", "link"], &["HOME"]), "sudo -u satchel satchel web link");
        assert_eq!(
            command(&["satchel", "send", "web:a", "it's here", "--set", "web.listen=off"], &["SATCHEL_CONFIG", "TERM"]),
            r"sudo --preserve-env=SATCHEL_CONFIG -u satchel satchel send web:a 'it'\''s here' --set web.listen=off"
        );
        for arguments in [&["satchel", "run", "--set", "web.token=canary"][..], &["satchel", "--set=web.token=canary"]]
        {
            let command = command(arguments, &[]);
            assert!(command.contains("web.token=…") && !command.contains("canary"), "{command}");
        }
    }
}
