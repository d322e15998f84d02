//! `satchel config …`: what is configured, and whether it is right.

use std::io::Write;

use serde_json::json;

use crate::{
    config::{
        Config, Loaded, Setting,
        models::ModelChoice,
        origin::{Origin, Problems},
    },
    models::Decision,
};

/// Prints every setting with its value and where it comes from; `decision` says which model that is. What isn't built yet is told on standard error, but
/// doesn't keep the rest from being shown.
///
/// # Errors
/// When the output can't be written.
pub fn show(loaded: &Loaded, decision: &Decision, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    // Where nobody said which model answers, what was found out is what counts.
    let found_out =
        |setting: &Setting| setting.key == "model" && matches!(loaded.config().models.choice, ModelChoice::Default);
    let value = |setting: &Setting| match found_out(setting) {
        true => decision.candidates.first().map_or_else(|| setting.value.clone(), |candidate| json!(candidate.name())),
        false => setting.value.clone(),
    };
    let origin = |setting: &Setting| match found_out(setting) {
        true => format!("{}: {}", setting.origin, decision.why),
        false => setting.origin.to_string(),
    };
    if json {
        let entry =
            |setting: &Setting| (setting.key.clone(), json!({ "value": value(setting), "origin": origin(setting) }));
        let entries: serde_json::Map<_, _> = loaded.settings.iter().map(entry).collect();
        return Ok(super::write_json(out, &entries)?);
    }
    let row = |setting: &Setting| vec![setting.key.clone(), shown(&value(setting)), origin(setting)];
    let rows: Vec<_> = loaded.settings.iter().map(row).collect();
    super::write_table(out, &rows)?;
    Ok(())
}

/// Tells that the configuration is right, and how much of it was given by whom.
///
/// # Errors
/// When it switches on something that isn't built yet, or the output can't be written.
pub fn check(loaded: Loaded, out: &mut dyn Write) -> anyhow::Result<Config> {
    let line = sentence(&loaded);
    let config = loaded.ready().map_err(|problems: Problems| anyhow::Error::new(problems))?;
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

fn sentence(loaded: &Loaded) -> String {
    let count = |from: fn(&Origin) -> bool| {
        let given = |setting: &&Setting| match &setting.origin {
            Origin::SecretFile { named_by, .. } => from(named_by),
            origin => from(origin),
        };
        loaded.settings.iter().filter(given).count()
    };
    let file = match &loaded.file {
        Some(path) => format!("{} from {}", count(|origin| matches!(origin, Origin::File { .. })), path.display()),
        None => "no configuration file".to_owned(),
    };
    let environment = count(|origin| matches!(origin, Origin::Environment(_)));
    let command_line = count(|origin| matches!(origin, Origin::CommandLine));
    let all = loaded.settings.len();
    format!("ok: {all} settings, {file}, {environment} from the environment, {command_line} from --set")
}

fn shown(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => super::one_line(text, 120),
        value => super::one_line(&value.to_string(), 120),
    }
}
