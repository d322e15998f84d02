//! Slash commands (Application Commands, Bulk Overwrite Global Application Commands).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    platform_state::{APPLICATION, PlatformState},
    refusal::{ApiRefusal, FormErrors},
};

/// The most choices of an option (Application Command Option Structure: "max 25").
const MAX_CHOICES: usize = 25;

/// The longest list (Application Commands: "100 global CHAT_INPUT commands").
const MAX_COMMANDS: usize = 100;

pub(crate) fn list(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    check_application(call)?;
    Ok(json!(platform.commands))
}

pub(crate) fn set(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    check_application(call)?;
    let Some(commands) = call.body.as_array() else {
        return Err(ApiRefusal::invalid_field(&[], "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType"));
    };
    let mut form = FormErrors::default();
    if commands.len() > MAX_COMMANDS {
        form.add_error(&[], "BASE_TYPE_MAX_LENGTH", format!("Must be {MAX_COMMANDS} or fewer in length."));
    }
    let mut names = BTreeSet::new();
    for (index, command) in commands.iter().enumerate() {
        let place = index.to_string();
        check_named(&mut form, &[&place], command);
        if !names.insert(command["name"].as_str()) {
            let words = "Application command names must be unique";
            form.add_error(&[&place, "name"], "APPLICATION_COMMANDS_DUPLICATE_NAME", words);
        }
        for (index, option) in command["options"].as_array().into_iter().flatten().enumerate() {
            let inner = index.to_string();
            check_named(&mut form, &[&place, "options", &inner], option);
            if !option["type"].as_u64().is_some_and(|kind| (1..=11).contains(&kind)) {
                let path = [&place, "options", &inner, "type"];
                form.add_error(&path, "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}.");
            }
            check_choices(&mut form, &[&place, "options", &inner, "choices"], &option["choices"]);
        }
    }
    form.check()?;
    platform.commands = commands.iter().cloned().map(|command| stored(platform.snowflake(), command)).collect();
    Ok(json!(platform.commands))
}

/// Application Command Naming: "1-32 characters", lower case; a description has "1-100 characters".
fn check_named(form: &mut FormErrors, place: &[&str], named: &Value) {
    let name = named["name"].as_str().unwrap_or_default();
    let allowed = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '\'');
    if !(1..=32).contains(&name.chars().count()) || !name.chars().all(allowed) || name != name.to_lowercase() {
        let words = "Command name is invalid: a name has 1 to 32 letters, digits, - or _, in lower case";
        form.add_error(&[place, &["name"]].concat(), "APPLICATION_COMMAND_INVALID_NAME", words);
    }
    if !(1..=100).contains(&named["description"].as_str().unwrap_or_default().chars().count()) {
        let path = [place, &["description"]].concat();
        form.add_error(&path, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.");
    }
}

/// Application Command Option Choice Structure: "1-100 character choice name", a string's value up to 100 characters.
fn check_choices(form: &mut FormErrors, place: &[&str], choices: &Value) {
    let choices = choices.as_array().map(Vec::as_slice).unwrap_or_default();
    if choices.len() > MAX_CHOICES {
        form.add_error(place, "BASE_TYPE_MAX_LENGTH", format!("Must be {MAX_CHOICES} or fewer in length."));
    }
    for (index, choice) in choices.iter().enumerate() {
        let index = index.to_string();
        for field in ["name", "value"] {
            if !(1..=100).contains(&choice[field].as_str().unwrap_or_default().chars().count()) {
                let path = [place, &[&index, field]].concat();
                form.add_error(&path, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.");
            }
        }
    }
}

fn stored(id: u64, asked: Value) -> Value {
    let mut command = json!({
        "id": id.to_string(), "application_id": APPLICATION.to_string(), "version": id.to_string(), "type": 1,
        "default_member_permissions": null, "nsfw": false, "dm_permission": true, "integration_types": [0],
        "contexts": null,
    });
    let fields = command.as_object_mut().expect("it is one");
    for name in ["name", "description", "options", "type", "contexts", "integration_types", "nsfw"] {
        if let Some(given) = asked.get(name).filter(|given| !given.is_null()) {
            fields.insert(name.to_owned(), given.clone());
        }
    }
    command
}

fn check_application(call: &ReceivedCall) -> Result<(), ApiRefusal> {
    if call.id(0) == APPLICATION.to_string() {
        return Ok(());
    }
    Err(ApiRefusal::new(403, 20_012, "You are not authorized to perform this action on this application"))
}
