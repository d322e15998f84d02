//! Keeps root out of another user's data: the Satchel of that user couldn't use the files that root would leave there.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::UsageError;
use crate::config::{
    LoadedConfig, leaf::secret::MASK, origin::SettingOrigin, paths::user_data_dir, storage::BlobBackend,
};

/// The users of this machine.
const USERS_FILE: &str = "/etc/passwd";

/// How the process was started.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The program and its arguments.
    pub arguments: &'a [OsString],
    pub environment: &'a [(OsString, OsString)],
    pub cwd: &'a Path,
}

/// Checks, before a file is opened, that none of the directories that a command writes belongs to another user while it runs
/// as root, or would be created in one that does. The process doesn't become that user: what root has inherited, such as its
/// home and its groups, would come along.
///
/// # Errors
/// When one does; the message has the command to run instead.
pub fn check(directories: &[PathBuf], loaded: &LoadedConfig, invocation: Invocation<'_>) -> Result<(), UsageError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let with_owner = |directory: &PathBuf| Some((directory.clone(), find_owner(&invocation.cwd.join(directory))?));
    let foreign = directories.iter().filter_map(with_owner).find(|(_, owner)| owner.uid != 0);
    let Some((directory, owner)) = foreign else { return Ok(()) };
    let users = fs::read_to_string(USERS_FILE).unwrap_or_default();
    let (person, user, container) = match user_name(&users, owner.uid) {
        Some(name) => (format!("user {name}"), name.to_owned(), String::new()),
        None => {
            let uid = owner.uid;
            (format!("user id {uid}"), format!("#{uid}"), format!(" (in a container: `--user {uid}`)"))
        }
    };
    let what = match owner.directory == invocation.cwd.join(&directory) {
        true => format!("the data in {}", directory.display()),
        false => format!("{}, in which {} would be created,", owner.directory.display(), directory.display()),
    };
    let command = UserCommand {
        user: &user,
        variables: used_variables(loaded, invocation),
        options: needed_options(loaded, invocation),
    };
    let is_secret = |key: &str| {
        let setting = loaded.settings.iter().find(|setting| setting.key == key);
        setting.is_none_or(|setting| setting.value.as_str().is_some_and(|text| text.contains(MASK)))
    };
    Err(UsageError(format!(
        "{what} belongs to {person}, who couldn't use what root writes there; run this as that user: `{}`{container}",
        command.render(invocation.arguments, is_secret)
    )))
}

/// Who owns a directory.
struct DirectoryOwner {
    uid: u32,
    /// That directory, or the nearest one above it that exists.
    directory: PathBuf,
}

fn find_owner(directory: &Path) -> Option<DirectoryOwner> {
    directory.ancestors().find_map(|directory| {
        let metadata = fs::metadata(directory).ok()?;
        Some(DirectoryOwner { uid: metadata.uid(), directory: directory.to_owned() })
    })
}

/// The variables of Satchel, and those of others from which settings came.
fn used_variables(loaded: &LoadedConfig, Invocation { environment, .. }: Invocation<'_>) -> BTreeSet<String> {
    let is_bucket = matches!(loaded.config().storage.blobs_url, Some(BlobBackend::S3(_)));
    let is_read = |name: &&str| name.starts_with("SATCHEL_") || is_bucket && name.starts_with("AWS_");
    let names = environment.iter().filter_map(|(name, _)| name.to_str()).filter(is_read);
    let origins = loaded.settings.iter().filter_map(|setting| origin_variable(&setting.origin));
    names.chain(origins).map(str::to_owned).collect()
}

/// The variable in which a setting, or the name of its file, was given.
fn origin_variable(origin: &SettingOrigin) -> Option<&str> {
    match origin {
        SettingOrigin::Environment(name) => Some(name),
        SettingOrigin::ValueFile { named_by, .. } => origin_variable(named_by),
        SettingOrigin::Default | SettingOrigin::File { .. } | SettingOrigin::CommandLine => None,
    }
}

/// The options that another user needs for the same configuration and data: what was found in root's home isn't in theirs.
fn needed_options(loaded: &LoadedConfig, Invocation { environment, .. }: Invocation<'_>) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(file) = &loaded.found_file {
        options.extend(["--config".to_owned(), file.display().to_string()]);
    }
    let data_dir = loaded.config().storage.data_dir();
    let is_default = |key: &str, origin: &SettingOrigin| key == "storage.data_dir" && *origin == SettingOrigin::Default;
    if loaded.settings.iter().any(|setting| is_default(&setting.key, &setting.origin))
        && user_data_dir(environment).is_some_and(|directory| directory == data_dir)
    {
        options.extend(["--set".to_owned(), format!("storage.data_dir={}", data_dir.display())]);
    }
    options
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

/// The same command as another user.
struct UserCommand<'a> {
    user: &'a str,
    /// The variables that it keeps.
    variables: BTreeSet<String>,
    /// What it needs besides its own arguments.
    options: Vec<String>,
}

impl UserCommand<'_> {
    /// The command for a shell. Values of secret settings are left out.
    fn render(&self, arguments: &[OsString], is_secret: impl Fn(&str) -> bool) -> String {
        let mut words = vec!["sudo".to_owned()];
        if !self.variables.is_empty() {
            let variables: Vec<&str> = self.variables.iter().map(String::as_str).collect();
            words.push(format!("--preserve-env={}", variables.join(",")));
        }
        words.extend(["-u".to_owned(), quote(self.user)]);
        let mut is_setting = false;
        for (index, argument) in arguments.iter().enumerate() {
            let text = argument.to_string_lossy();
            let (option, pair) = match text.strip_prefix("--set=") {
                Some(pair) => ("--set=", Some(pair)),
                None => ("", Some(&*text).filter(|_| is_setting)),
            };
            words.push(match pair.and_then(|pair| pair.split_once('=')) {
                Some((key, _)) if is_secret(key) => quote(&format!("{option}{key}=…")),
                _ => quote(&text),
            });
            if index == 0 {
                // Behind the program: an argument `--` ends the options.
                words.extend(self.options.iter().map(|option| quote(option)));
            }
            is_setting = text == "--set";
        }
        words.join(" ")
    }
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
    use crate::config::{ConfigSources, load};

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nsatchel:x:999:998::/var/lib/satchel:/usr/sbin/nologin\nodd\n";

    #[test]
    fn users_are_found_by_their_ids() {
        for (uid, name) in [(0, Some("root")), (999, Some("satchel")), (998, None)] {
            assert_eq!(user_name(USERS, uid), name);
        }
    }

    fn command(arguments: &[&str], variables: &[&str], options: &[&str]) -> String {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let variables = texts(variables).into_iter().collect();
        let command = UserCommand { user: "satchel", variables, options: texts(options) };
        command.render(&arguments, |key| key.ends_with("token"))
    }

    #[test]
    fn command_is_the_same_as_another_user() {
        assert_eq!(command(&["satchel", "web", "link"], &[], &[]), "sudo -u satchel satchel web link");
        let arguments = ["satchel", "send", "web:a", "it's here", "--set", "web.listen=off"];
        let expected = [
            "sudo --preserve-env=AWS_REGION,SATCHEL_CONFIG -u satchel",
            r"satchel --config '/srv/a b.yaml' send web:a 'it'\''s here' --set web.listen=off",
        ];
        let variables = ["SATCHEL_CONFIG", "AWS_REGION"];
        assert_eq!(command(&arguments, &variables, &["--config", "/srv/a b.yaml"]), expected.join(" "));
        for arguments in [&["satchel", "run", "--set", "web.token=canary"][..], &["satchel", "--set=web.token=canary"]]
        {
            let command = command(arguments, &[], &[]);
            assert!(command.contains("web.token=…") && !command.contains("canary"), "{command}");
        }
    }

    #[test]
    fn command_keeps_the_configuration_and_the_data_that_root_has() {
        let home = tempfile::tempdir().unwrap();
        let (cwd, user_directory) = (home.path().join("cwd"), home.path().join(".config/satchel"));
        for directory in [&cwd, &user_directory] {
            fs::create_dir_all(directory).unwrap();
        }
        let user_file = user_directory.join("satchel.yaml");
        fs::write(&user_file, "storage: { blobs_url: 's3://files' }\n").unwrap();
        let variable = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let environment = [
            variable("HOME", home.path()),
            variable("OPENAI_API_KEY", Path::new("key")),
            variable("AWS_REGION", Path::new("eu-west-1")),
            variable("SATCHEL_LOG", Path::new("warn")),
            variable("TERM", Path::new("xterm")),
        ];
        let needed = |file: Option<&Path>, set: &[String]| {
            let loaded = load(&ConfigSources { file, set, environment: &environment, cwd: &cwd }).unwrap();
            let invocation = Invocation { arguments: &[], environment: &environment, cwd: &cwd };
            let variables: Vec<String> = used_variables(&loaded, invocation).into_iter().collect();
            (needed_options(&loaded, invocation).join(" "), variables.join(" "))
        };
        let (config, data) = (format!("--config {}", user_file.display()), home.path().join(".local/share/satchel"));
        let data = format!("--set storage.data_dir={}", data.display());
        let (options, variables) = needed(None, &[]);
        assert_eq!(options, format!("{config} {data}"));
        assert_eq!(variables, "AWS_REGION OPENAI_API_KEY SATCHEL_LOG");
        assert_eq!(needed(None, &["storage.data_dir=/srv/data".to_owned()]).0, config, "the arguments say it");
        assert_eq!(needed(Some(user_file.as_path()), &[]).0, data, "the arguments have the file");
        fs::write(cwd.join("satchel.yaml"), "{}\n").unwrap();
        assert_eq!(needed(None, &[]).0, format!("--config {}", cwd.join("satchel.yaml").display()));
    }

    #[test]
    fn missing_directory_is_of_the_nearest_one_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let own = fs::metadata(directory.path()).unwrap().uid();
        for path in [directory.path().to_owned(), directory.path().join("a/b")] {
            let owner = find_owner(&path).unwrap();
            assert_eq!((owner.uid, owner.directory.as_path()), (own, directory.path()), "{}", path.display());
        }
    }
}
