//! The settings as `config show` prints them, with what changes each, and the people whom the configuration allows.

use satchel_web::{SystemPerson, SystemSetting};

use crate::{
    commands::config::{EffectiveSetting, effective_settings},
    config::{LoadedConfig, origin::SettingOrigin, overrides::variable_name, schema},
    models::ModelSelection,
};

/// Lists every setting.
pub(super) fn list(loaded: &LoadedConfig, selection: &ModelSelection) -> Vec<SystemSetting> {
    let to_setting = |EffectiveSetting { setting, value, origin }: EffectiveSetting<'_>| SystemSetting {
        key: setting.key.clone(),
        value,
        origin,
        is_default: setting.origin == SettingOrigin::Default,
        description: schema::describe(&setting.key).to_owned(),
        change: describe_change(loaded, &setting.key, &setting.origin),
    };
    effective_settings(loaded, selection).map(to_setting).collect()
}

/// How a setting is changed, as a sentence. The next start reads it.
fn describe_change(loaded: &LoadedConfig, key: &str, origin: &SettingOrigin) -> String {
    let variable = variable_name(key);
    match origin {
        SettingOrigin::Default => match &loaded.file {
            Some(file) => format!("Add `{key}` to {}, or set {variable}.", file.display()),
            None => format!("Write `{key}` into a file satchel.yaml, or set {variable}."),
        },
        SettingOrigin::File { path, line, .. } => format!("Edit line {line} of {}.", path.display()),
        SettingOrigin::Environment(name) => format!("Change the variable {name}; it wins over the file."),
        SettingOrigin::CommandLine => {
            format!("Change `--set {key}=…` where Satchel is started; it wins over the rest.")
        }
        SettingOrigin::ValueFile { path, .. } => format!("Edit the file {}.", path.display()),
    }
}

/// The people whom the configuration allows on the platforms that are set up.
pub(super) fn configured_people(loaded: &LoadedConfig) -> Vec<SystemPerson> {
    let (telegram, discord) = (&loaded.config().telegram, &loaded.config().discord);
    let platforms = [
        ("telegram", telegram.token.is_some(), &telegram.owners.0, &telegram.allow_users.0),
        ("discord", discord.token.is_some(), &discord.owners.0, &discord.allow_users.0),
    ];
    let mut people = Vec::new();
    for (channel, _, owners, allowed) in platforms.into_iter().filter(|(_, is_set_up, ..)| *is_set_up) {
        let mut add = |ids: &[String], role, key: &str| {
            let key = format!("{channel}.{key}");
            let setting = loaded.settings.iter().find(|setting| setting.key == key);
            let origin = setting.map(|setting| setting.origin.to_string()).unwrap_or_default();
            people.extend(ids.iter().map(|id| SystemPerson {
                channel: channel.to_owned(),
                id: id.clone(),
                name: String::new(),
                handle: None,
                role,
                configured_at: Some(format!("{key} ({origin})")),
                approved_at: None,
                approved_by: None,
            }));
        };
        add(owners, "owner", "owners");
        add(allowed, "user", "allow_users");
    }
    people
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{ConfigSources, load_text};

    const YAML: &str = "log: info\ntelegram:\n  token: 'canary:secret'\n  owners: [7]\n  allow_users: ['@ada']\n";

    fn load() -> LoadedConfig {
        let directory = tempfile::tempdir().unwrap();
        let environment = [("SATCHEL_DELIVERY__MAX_AGE".into(), "12h".into()), ("HOME".into(), "/root".into())];
        let set = ["web.token=canary-of-the-page".to_owned()];
        let sources = ConfigSources { file: None, set: &set, environment: &environment, cwd: directory.path() };
        load_text(Path::new("satchel.yaml"), YAML, &sources).unwrap()
    }

    fn selection() -> ModelSelection {
        ModelSelection { candidates: Vec::new(), reason: "nothing is configured".to_owned() }
    }

    #[test]
    fn each_setting_names_its_origin() {
        let settings = list(&load(), &selection());
        let find = |key: &str| settings.iter().find(|setting| setting.key == key).unwrap();
        let log = find("log");
        assert_eq!((log.origin.as_str(), log.is_default), ("satchel.yaml:1", false));
        assert_eq!(log.change, "Edit line 1 of satchel.yaml.");
        assert!(log.description.starts_with("What is logged"), "{}", log.description);
        assert_eq!(
            find("delivery.max_age").change,
            "Change the variable SATCHEL_DELIVERY__MAX_AGE; it wins over the file."
        );
        let default = find("web.listen");
        assert!(default.is_default);
        assert_eq!(default.change, "Add `web.listen` to satchel.yaml, or set SATCHEL_WEB__LISTEN.");
        assert!(find("web.token").change.starts_with("Change `--set web.token=…`"));
        let model = find("model");
        assert!(model.origin.ends_with(": nothing is configured"), "{}", model.origin);
        assert!(settings.iter().all(|setting| !setting.description.is_empty()), "each is described");
    }

    #[test]
    fn settings_and_people_have_no_secrets() {
        let loaded = load();
        let settings = serde_json::to_string(&list(&loaded, &selection())).unwrap();
        assert!(!settings.contains("canary"), "{settings}");
        let people = configured_people(&loaded);
        let people: Vec<_> = people.iter().map(|person| (person.id.as_str(), person.role)).collect();
        assert_eq!(people, [("7", "owner"), ("@ada", "user")]);
        assert_eq!(configured_people(&load())[0].configured_at.as_deref(), Some("telegram.owners (satchel.yaml:4)"));
    }
}
