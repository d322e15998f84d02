//! Defaults that depend on the machine or on other settings, and mistakes in the combination of settings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use super::{
    ConfigSetting,
    leaf::{is_in_home, list::Texts},
    origin::{ConfigProblem, SettingOrigin},
    paths, schema_walk,
    tree::{ConfigNode, ConfigValue},
};

/// The environment variables that a program of the operator gets, if they are set.
const PROGRAM_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "LC_ALL"];

/// The context in which sections are resolved.
pub(super) struct Resolver<'a> {
    pub(super) root: &'a ConfigNode,
    pub(super) environment: &'a [(OsString, OsString)],
    pub(super) cwd: &'a Path,
    pub(super) settings: &'a mut Vec<ConfigSetting>,
    pub(super) problems: &'a mut Vec<ConfigProblem>,
}

impl Resolver<'_> {
    /// Whether a key was given, valid or not.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.root.find(key).is_some()
    }

    /// The value of an environment variable, if it is not empty and UTF-8.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        paths::variable(self.environment, name)?.to_str()
    }

    /// The whole environment of a program that the operator has configured.
    pub(super) fn program_environment(&self) -> Vec<(OsString, OsString)> {
        let variable = |name: &&str| Some(((*name).into(), paths::variable(self.environment, name)?.to_owned()));
        PROGRAM_VARIABLES.iter().filter_map(variable).collect()
    }

    /// Lets the program of the command in `key` be found from anywhere: a relative path counts from where it was given. A
    /// name without a slash is looked for in `PATH`. One in `~` is a mistake: it is started without a shell.
    pub(super) fn locate_program(&mut self, key: &str, command: &mut Texts) {
        let Some(program) = command.0.first_mut().filter(|program| program.contains('/')) else { return };
        if is_in_home(program) {
            let message = format!("`{key}` names the program {program:?}: `~` isn't expanded, write the whole path");
            return self.report(&format!("{key}[0]"), message);
        }
        let located: PathBuf = schema_walk::base_directory(&self.find_origin(key), self.cwd).join(&*program);
        // A directory whose name is no text can't be written into a command.
        if let Some(located) = located.to_str() {
            *program = located.to_owned();
        }
    }

    /// Reports a mistake where `key` was given; `key[2]` is the third item of a list.
    pub(super) fn report(&mut self, key: &str, message: String) {
        let origin = self.find_origin(key);
        self.problems.push(ConfigProblem { origin, message });
    }

    /// Displays the default of a setting that wasn't given.
    pub(super) fn show_default(&mut self, key: &str, value: Json) {
        self.show_derived(key, value, SettingOrigin::Default);
    }

    /// Displays the value of a setting that wasn't given but was derived from another origin.
    pub(super) fn show_derived(&mut self, key: &str, value: Json, origin: SettingOrigin) {
        let is_default = |setting: &&mut ConfigSetting| setting.key == key && setting.origin == SettingOrigin::Default;
        if let Some(setting) = self.settings.iter_mut().find(is_default) {
            (setting.value, setting.origin) = (value, origin);
        }
    }

    /// Where a key was given; for a secret in a file, where the file was named.
    fn find_origin(&self, key: &str) -> SettingOrigin {
        let (key, item) = match key.strip_suffix(']').and_then(|key| key.split_once('[')) {
            Some((key, item)) => (key, item.parse::<usize>().ok()),
            None => (key, None),
        };
        let node = self.root.find(key).or_else(|| self.root.find(&format!("{key}_file")));
        match (node.map(|node| (&node.value, &node.origin)), item) {
            (Some((ConfigValue::List(items), origin)), Some(item)) => {
                items.get(item).map_or_else(|| origin.clone(), |item| item.origin.clone())
            }
            (Some((_, origin)), _) => origin.clone(),
            (None, _) => SettingOrigin::Default,
        }
    }
}
