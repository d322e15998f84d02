//! What no single setting says: defaults that depend on the machine or on other settings, and mistakes that only
//! several of them show together.

use std::{ffi::OsString, path::Path};

use serde_json::Value as Json;

use super::{
    ConfigSetting,
    origin::{ConfigProblem, SettingOrigin},
    paths,
    tree::{ConfigNode, ConfigValue},
};

/// What sections are resolved with.
pub(super) struct Resolver<'a> {
    pub(super) root: &'a ConfigNode,
    pub(super) environment: &'a [(OsString, OsString)],
    pub(super) cwd: &'a Path,
    pub(super) settings: &'a mut Vec<ConfigSetting>,
    pub(super) problems: &'a mut Vec<ConfigProblem>,
}

impl Resolver<'_> {
    /// Whether a key was given at all, rightly or wrongly.
    pub(super) fn is_given(&self, key: &str) -> bool {
        self.root.find(key).is_some()
    }

    /// The value of an environment variable that is set to something readable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        paths::variable(self.environment, name)?.to_str()
    }

    /// Reports a mistake where `key` was given; `key[2]` is the third item of a list.
    pub(super) fn report(&mut self, key: &str, message: String) {
        let origin = self.origin_of(key);
        self.problems.push(ConfigProblem { origin, message });
    }

    /// Says what counts for a setting that wasn't given.
    pub(super) fn show_default(&mut self, key: &str, shown: Json) {
        self.show_instead(key, shown, SettingOrigin::Default);
    }

    /// Says what counts for a setting that wasn't given and has a value from elsewhere.
    pub(super) fn show_instead(&mut self, key: &str, shown: Json, origin: SettingOrigin) {
        let unset = |setting: &&mut ConfigSetting| setting.key == key && setting.origin == SettingOrigin::Default;
        if let Some(setting) = self.settings.iter_mut().find(unset) {
            (setting.value, setting.origin) = (shown, origin);
        }
    }

    /// Where a key was given; for a secret the place of its file's name.
    fn origin_of(&self, key: &str) -> SettingOrigin {
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
