//! `satchel config …`: what is configured, and whether it is right.

use std::io::Write;

use serde_json::json;

use crate::{
    config::{
        Config, ConfigSetting, LoadedConfig,
        models::ModelChoice,
        origin::{ConfigProblems, SettingOrigin},
    },
    models::ModelSelection,
};

/// Prints every setting with its value and where it comes from; `decision` says which model that is. What isn't built yet is told on standard error, but
/// doesn't keep the rest from being shown.
///
/// # Errors
/// When the output can't be written.
pub fn show(loaded: &LoadedConfig, decision: &ModelSelection, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    // Where nobody said which model answers, what was found out is what counts.
    let found_out = |setting: &ConfigSetting| {
        setting.key == "model" && matches!(loaded.config().models.choice, ModelChoice::Default)
    };
    let value = |setting: &ConfigSetting| match found_out(setting) {
        true => decision.candidates.first().map_or_else(|| setting.value.clone(), |candidate| json!(candidate.name())),
        false => setting.value.clone(),
    };
    let origin = |setting: &ConfigSetting| match found_out(setting) {
        true => format!("{}: {}", setting.origin, decision.why),
        false => setting.origin.to_string(),
    };
    if json {
        let entry = |setting: &ConfigSetting| {
            (setting.key.clone(), json!({ "value": value(setting), "origin": origin(setting) }))
        };
        let entries: serde_json::Map<_, _> = loaded.settings.iter().map(entry).collect();
        return Ok(super::write_json(out, &entries)?);
    }
    let row = |setting: &ConfigSetting| vec![setting.key.clone(), format_setting(&value(setting)), origin(setting)];
    let rows: Vec<_> = loaded.settings.iter().map(row).collect();
    super::write_table(out, &rows)?;
    Ok(())
}

/// Tells that the configuration is right, and how much of it was given by whom.
///
/// # Errors
/// When it switches on something that isn't built yet, or the output can't be written.
pub fn check(loaded: LoadedConfig, out: &mut dyn Write) -> anyhow::Result<Config> {
    let line = sentence(&loaded);
    let config = loaded.ready().map_err(|problems: ConfigProblems| anyhow::Error::new(problems))?;
    writeln!(out, "{line}")?;
    Ok(config)
}

/// Prints the JSON Schema of the configuration file.
///
/// # Errors
/// When the output can't be written.
pub fn schema(out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(super::write_json(out, crate::config::schema::schema())?)
}

fn sentence(loaded: &LoadedConfig) -> String {
    let count = |from: fn(&SettingOrigin) -> bool| {
        let given = |setting: &&ConfigSetting| match &setting.origin {
            SettingOrigin::SecretFile { named_by, .. } => from(named_by),
            origin => from(origin),
        };
        loaded.settings.iter().filter(given).count()
    };
    let file = match &loaded.file {
        Some(path) => {
            format!("{} from {}", count(|origin| matches!(origin, SettingOrigin::File { .. })), path.display())
        }
        None => "no configuration file".to_owned(),
    };
    let environment = count(|origin| matches!(origin, SettingOrigin::Environment(_)));
    let command_line = count(|origin| matches!(origin, SettingOrigin::CommandLine));
    let all = loaded.settings.len();
    format!("ok: {all} settings, {file}, {environment} from the environment, {command_line} from --set")
}

fn format_setting(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => super::one_line(text, 120),
        value => super::one_line(&value.to_string(), 120),
    }
}
