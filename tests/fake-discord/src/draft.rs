//! What a bot wants a message to be: the fields of a form, each held against its limit.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    DiscordRules,
    message::{DiscordButton, Mention, VOICE_MESSAGE},
    platform_state::{id_in, mentioned},
    refusal::{ApiRefusal, FormErrors},
};

/// Create Message: flags, "only SUPPRESS_EMBEDS, SUPPRESS_NOTIFICATIONS, IS_VOICE_MESSAGE, and IS_COMPONENTS_V2 can be
/// set". The fake knows no second version of components.
const SETTABLE_FLAGS: u64 = 1 << 2 | 1 << 12 | VOICE_MESSAGE;

/// A form that is right in itself. What isn't given is `None`.
#[derive(Debug, Default)]
pub(crate) struct MessageDraft {
    pub(crate) content: Option<String>,
    pub(crate) attachments: Option<Vec<AttachmentDescription>>,
    pub(crate) buttons: Option<Vec<Vec<DiscordButton>>>,
    pub(crate) flags: u64,
    pub(crate) nonce: Option<String>,
    pub(crate) allowed: Option<Value>,
}

/// What a form says of a file (Attachment object, Attachment Request Structure).
#[derive(Debug, Default)]
pub(crate) struct AttachmentDescription {
    /// The `n` of `files[n]`, or the id of a file that is there already.
    pub(crate) id: String,
    pub(crate) filename: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) duration_secs: Option<f64>,
    pub(crate) waveform: Option<String>,
}

impl MessageDraft {
    pub(crate) fn read(rules: &DiscordRules, fields: &Map<String, Value>) -> Result<Self, ApiRefusal> {
        let mut form = FormErrors::default();
        let given = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let draft = Self {
            content: given("content").and_then(|content| read_content(rules, &mut form, content)),
            attachments: given("attachments").map(|list| read_attachments(rules, &mut form, list)),
            buttons: given("components").map(|rows| read_rows(rules, &mut form, rows)),
            flags: given("flags").and_then(Value::as_u64).unwrap_or(0) & SETTABLE_FLAGS,
            nonce: given("nonce").and_then(|nonce| read_nonce(rules, &mut form, nonce)),
            allowed: given("allowed_mentions").cloned(),
        };
        if let Some(allowed) = &draft.allowed {
            check_allowed_mentions(&mut form, allowed);
        }
        for unknown in ["embeds", "poll", "sticker_ids"] {
            if given(unknown).and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
                form.add_error(&[unknown], "UNKNOWN_FIELD", "the fake doesn't know how to show these");
            }
        }
        form.check()?;
        Ok(draft)
    }

    /// Whom the words and the answer notify (Allowed Mentions object), each once.
    pub(crate) fn pings(&self, content: &str, answered: Option<u64>) -> Vec<Mention> {
        let (mut people, mut roles, mut everyone) = mentioned(content);
        let mut answered = answered;
        // "If allowed_mentions is not passed in", all that the content mentions is notified, and who is answered.
        if let Some(allowed) = &self.allowed {
            let has = |list: &str, wanted: &str| {
                allowed[list].as_array().is_some_and(|list| list.iter().any(|one| one.as_str() == Some(wanted)))
            };
            people.retain(|id| has("parse", "users") || has("users", &id.to_string()));
            roles.retain(|id| has("parse", "roles") || has("roles", &id.to_string()));
            everyone = everyone && has("parse", "everyone");
            answered = answered.filter(|_| allowed["replied_user"] == true);
        }
        people.extend(answered.filter(|author| !people.contains(author)));
        let people = people.into_iter().map(Mention::Person);
        everyone
            .then_some(Mention::Everyone)
            .into_iter()
            .chain(people)
            .chain(roles.into_iter().map(Mention::Role))
            .collect()
    }
}

/// A text field that is a string no longer than this; `None` once it has been complained about.
fn read_string(form: &mut FormErrors, path: &[&str], value: &Value, longest: usize) -> Option<String> {
    let Some(words) = value.as_str() else {
        form.add_error(path, "STRING_TYPE_CONVERT", format!("Could not interpret \"{value}\" as string."));
        return None;
    };
    if words.chars().count() > longest {
        form.add_error(path, "BASE_TYPE_MAX_LENGTH", format!("Must be {longest} or fewer in length."));
        return None;
    }
    Some(words.to_owned())
}

/// Create Message: "Discord may strip certain characters from message content"; blanks at its ends are always stripped.
fn read_content(rules: &DiscordRules, form: &mut FormErrors, content: &Value) -> Option<String> {
    let stripped = content.as_str().map_or_else(|| content.clone(), |content| json!(content.trim()));
    read_string(form, &["content"], &stripped, rules.content_chars)
}

fn read_nonce(rules: &DiscordRules, form: &mut FormErrors, nonce: &Value) -> Option<String> {
    let nonce = nonce.as_str().map_or_else(|| nonce.to_string(), str::to_owned);
    if nonce.chars().count() > rules.nonce_chars {
        let most = rules.nonce_chars;
        form.add_error(&["nonce"], "NONCE_TYPE_TOO_LONG", format!("Must be {most} or fewer characters long."));
        return None;
    }
    Some(nonce)
}

fn read_attachments(rules: &DiscordRules, form: &mut FormErrors, list: &Value) -> Vec<AttachmentDescription> {
    let list = list.as_array().cloned().unwrap_or_default();
    if list.len() > rules.files {
        let most = rules.files;
        form.add_error(&["attachments"], "BASE_TYPE_MAX_LENGTH", format!("Must be {most} or fewer in length."));
        return Vec::new();
    }
    let read = |(index, given): (usize, &Value)| {
        let place = index.to_string();
        let field = |name: &str| given.get(name).filter(|value| !value.is_null());
        let id = id_in(given, "id");
        if id.is_none() {
            form.add_error(&["attachments", &place, "id"], "BASE_TYPE_REQUIRED", "This field is required");
        }
        let mut text = |name: &str, longest: usize| {
            field(name).and_then(|value| read_string(form, &["attachments", &place, name], value, longest))
        };
        // OpenAPI, MessageAttachmentRequest: filename and title, maxLength 1024.
        let (filename, title) = (text("filename", 1024), text("title", 1024));
        let description = text("description", rules.description_chars);
        let waveform = text("waveform", rules.waveform_chars);
        // Voice Messages: "no more than 256 datapoints are in the waveform".
        let points =
            waveform.as_ref().map(|waveform| STANDARD.decode(waveform).map_or(usize::MAX, |points| points.len()));
        if points.is_some_and(|points| points > 256) {
            let words = "a waveform is base64 of no more than 256 bytes";
            form.add_error(&["attachments", &place, "waveform"], "WAVEFORM_INVALID", words);
        }
        let duration_secs = field("duration_secs").and_then(Value::as_f64);
        AttachmentDescription { id: id.unwrap_or_default(), filename, title, description, duration_secs, waveform }
    };
    list.iter().enumerate().map(read).collect()
}

/// Components: Action Row and Button.
fn read_rows(rules: &DiscordRules, form: &mut FormErrors, rows: &Value) -> Vec<Vec<DiscordButton>> {
    let rows = rows.as_array().cloned().unwrap_or_default();
    let (most_rows, most_buttons) = rules.buttons;
    if rows.len() > most_rows {
        form.add_error(
            &["components"],
            "BASE_TYPE_BAD_LENGTH",
            format!("Must be between 1 and {most_rows} in length."),
        );
        return Vec::new();
    }
    let mut known = Vec::new();
    let mut read = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let place = index.to_string();
        let buttons = row["components"].as_array().cloned().unwrap_or_default();
        if row["type"] != 1 {
            form.add_error(&["components", &place, "type"], "UNION_TYPE_CHOICES", "the fake knows action rows only");
        }
        if buttons.is_empty() || buttons.len() > most_buttons {
            let words = format!("Must be between 1 and {most_buttons} in length.");
            form.add_error(&["components", &place, "components"], "BASE_TYPE_BAD_LENGTH", words);
        }
        let buttons = buttons
            .iter()
            .enumerate()
            .map(|(index, button)| read_button(rules, form, &mut known, (&place, &index.to_string()), button));
        read.push(buttons.collect());
    }
    read
}

fn read_button(
    rules: &DiscordRules,
    form: &mut FormErrors,
    known: &mut Vec<String>,
    (row, column): (&str, &str),
    button: &Value,
) -> DiscordButton {
    let path = |field| ["components", row, "components", column, field];
    if button["type"] != 2 {
        form.add_error(&path("type"), "UNION_TYPE_CHOICES", "the fake knows buttons only");
    }
    let field = |name: &str| button.get(name).filter(|value| !value.is_null());
    let label = field("label").and_then(|label| read_string(form, &path("label"), label, rules.label_chars));
    let custom_id = field("custom_id").and_then(|id| read_string(form, &path("custom_id"), id, rules.custom_id_chars));
    // Button Styles: 1 to 4 have a custom_id, 5 is a link.
    match button["style"].as_u64() {
        Some(1..=4) => match &custom_id {
            None if field("custom_id").is_none() => {
                form.add_error(&path("custom_id"), "BASE_TYPE_REQUIRED", "A custom id and/or url is required");
            }
            Some(id) if known.contains(id) => {
                let words = "Component custom id cannot be duplicated";
                form.add_error(&path("custom_id"), "COMPONENT_CUSTOM_ID_DUPLICATED", words);
            }
            Some(id) if id.is_empty() => {
                form.add_error(&path("custom_id"), "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.");
            }
            Some(id) => known.push(id.clone()),
            None => {}
        },
        Some(5) if field("url").is_some() && custom_id.is_none() => {}
        Some(5) => form.add_error(&path("url"), "BASE_TYPE_REQUIRED", "A url is required"),
        _ => form.add_error(&path("style"), "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4, 5}."),
    }
    if field("label").is_none_or(|label| label == "") && field("emoji").is_none() {
        form.add_error(&path("label"), "BUTTON_COMPONENT_INVALID_EMOJI_OR_LABEL", "A label or an emoji is required");
    }
    DiscordButton {
        label: label.unwrap_or_default(),
        custom_id,
        disabled: button["disabled"] == true,
        described: button.clone(),
    }
}

fn check_allowed_mentions(form: &mut FormErrors, allowed: &Value) {
    let list = |name: &str| allowed[name].as_array().cloned().unwrap_or_default();
    for kind in ["users", "roles"] {
        // "Because `parse: ["users"]` and `users: [123, 124]` are both present, we would throw a validation error."
        if list("parse").contains(&json!(kind)) && !list(kind).is_empty() {
            let words = format!("parse:[\"{kind}\"] and {kind}: [ids...] are mutually exclusive.");
            form.add_error(&["allowed_mentions"], "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", words);
        }
    }
    for (index, kind) in list("parse").iter().enumerate() {
        if !["users", "roles", "everyone"].iter().any(|known| kind == known) {
            let words = "Value must be one of ('users', 'roles', 'everyone').";
            form.add_error(&["allowed_mentions", "parse", &index.to_string()], "BASE_TYPE_CHOICES", words);
        }
    }
}
