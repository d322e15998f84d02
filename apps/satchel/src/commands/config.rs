//! `satchel config …`: shows and checks the configuration.

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

/// Prints every setting with its value and its origin; the model is the one of `selection`.
///
/// # Errors
/// When the output can't be written.
pub fn show(loaded: &LoadedConfig, selection: &ModelSelection, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let settings = effective_settings(loaded, selection);
    if json {
        let entry = |EffectiveSetting { setting, value, origin }| {
            (setting.key.clone(), json!({ "value": value, "origin": origin }))
        };
        let entries: serde_json::Map<_, _> = settings.map(entry).collect();
        return Ok(super::write_json(out, &entries)?);
    }
    let row = |EffectiveSetting { setting, value, origin }| vec![setting.key.clone(), format_setting(&value), origin];
    let rows: Vec<_> = settings.map(row).collect();
    super::write_table(out, &rows)?;
    Ok(())
}

/// A setting with what is shown of it.
pub(crate) struct EffectiveSetting<'a> {
    pub(crate) setting: &'a ConfigSetting,
    pub(crate) value: serde_json::Value,
    pub(crate) origin: String,
}

/// Every setting as it takes effect: without a configured model, the selected one is shown.
pub(crate) fn effective_settings<'a>(
    loaded: &'a LoadedConfig,
    selection: &'a ModelSelection,
) -> impl Iterator<Item = EffectiveSetting<'a>> {
    let is_detected = matches!(loaded.config().models.choice, ModelChoice::Default);
    loaded.settings.iter().map(move |setting| {
        let (mut value, mut origin) = (setting.value.clone(), setting.origin.to_string());
        if is_detected && setting.key == "model" {
            value = selection.candidates.first().map_or(value, |candidate| json!(candidate.name()));
            origin = format!("{origin}: {}", selection.reason);
        }
        EffectiveSetting { setting, value, origin }
    })
}

/// Prints that the configuration is valid, and how many settings come from each source.
///
/// # Errors
/// When it enables something that isn't built yet, or the output can't be written.
pub fn check(loaded: LoadedConfig, out: &mut dyn Write) -> anyhow::Result<Config> {
    let line = summary_line(&loaded);
    let config = loaded.into_config().map_err(|problems: ConfigProblems| anyhow::Error::new(problems))?;
    writeln!(out, "{line}")?;
    Ok(config)
}

/// Prints the JSON Schema of the configuration file.
///
/// # Errors
/// When the output can't be written.
pub fn print_schema(out: &mut dyn Write) -> anyhow::Result<()> {
    Ok(super::write_json(out, crate::config::schema::schema())?)
}

fn summary_line(loaded: &LoadedConfig) -> String {
    let count = |from: fn(&SettingOrigin) -> bool| {
        let given = |setting: &&ConfigSetting| match &setting.origin {
            SettingOrigin::ValueFile { named_by, .. } => from(named_by),
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
    let total = loaded.settings.len();
    format!("ok: {total} settings, {file}, {environment} from the environment, {command_line} from --set")
}

fn format_setting(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => super::one_line(text, 120),
        value => super::one_line(&value.to_string(), 120),
    }
}
