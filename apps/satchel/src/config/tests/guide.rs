//! The guide's tables of settings, which are what the definitions say; `cargo xtask docs` writes them.

use std::fmt::Write;

use serde_json::Value;

const BEGIN: &str = "<!-- settings: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of settings -->\n";

/// Set by `cargo xtask docs`.
const WRITE: &str = "SATCHEL_WRITE_DOCS";

fn code(value: &Value) -> String {
    format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn codes(values: &Value) -> String {
    let values: Vec<String> = values.as_array().unwrap().iter().map(code).collect();
    values.join(", ")
}

/// What can be given for a setting.
fn value(setting: &Value) -> String {
    match setting["x-kind"].as_str() {
        Some("size" | "size-or-zero") => return "size".to_owned(),
        Some("duration" | "path") => return setting["x-kind"].as_str().unwrap().to_owned(),
        Some("secret" | "secret-or-off") => return "secret, or `…_file`".to_owned(),
        Some("text-or-file") => return "text, or `…_file`".to_owned(),
        Some("listen") => return "address, or `off`".to_owned(),
        Some("names") => return "name, or list of names".to_owned(),
        Some("texts" | "playbook") => return "list".to_owned(),
        Some("declared" | "chat-agents" | "group-members") => return "section".to_owned(),
        Some(kind) if kind.ends_with("url") => return "URL".to_owned(),
        _ => {}
    }
    match setting["type"].as_str() {
        _ if setting["enum"].is_array() => codes(&setting["enum"]),
        Some("integer") if setting["maximum"] == u32::MAX => format!("number from {}", setting["minimum"]),
        Some("integer") => format!("{}–{}", setting["minimum"], setting["maximum"]),
        Some("array") => format!("list of {}", codes(&setting["items"]["enum"])),
        _ => "text".to_owned(),
    }
}

/// A setting's size is written as in the file, which marks it as code: people read other units.
fn with_sizes_as_code(words: &str) -> String {
    let is_size = |word: &str| ["KiB", "MiB", "GiB"].iter().any(|unit| word.ends_with(unit));
    let written = words.split(' ').map(|word| if is_size(word) { format!("`{word}`") } else { word.to_owned() });
    written.collect::<Vec<_>>().join(" ")
}

fn row(key: &str, setting: &Value, is_required: bool) -> String {
    let default = match (setting.get("default"), setting.get("x-default")) {
        _ if is_required => "required".to_owned(),
        (Some(Value::Array(items)), _) => {
            format!("`[{}]`", items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
        }
        (Some(default), _) => code(default),
        (None, Some(words)) => with_sizes_as_code(words.as_str().unwrap()),
        (None, None) => "–".to_owned(),
    };
    format!("| `{key}` | {} | {default} | {} |\n", value(setting), setting["description"].as_str().unwrap())
}

/// The rows of a section and of those in it.
fn rows(section: &Value, at: &str, text: &mut String) {
    let required = section["required"].as_array().cloned().unwrap_or_default();
    for (name, setting) in section["properties"].as_object().unwrap() {
        let key = format!("{at}{name}");
        if setting["properties"].is_object() {
            rows(setting, &format!("{key}."), text);
        } else if setting["x-kind"] != "file-of" {
            text.push_str(&row(&key, setting, required.contains(&Value::from(name.as_str()))));
        }
    }
}

/// All tables: what stands in no section, then section by section.
fn tables() -> String {
    const HEAD: &str = "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    let (mut plain, mut sections) = (String::new(), String::new());
    for (name, setting) in super::schema::schema()["properties"].as_object().unwrap() {
        let (each, at) = match &setting["additionalProperties"] {
            each if each.is_object() => (each, format!("{name}.NAME.")),
            _ => (setting, format!("{name}.")),
        };
        if each["properties"].is_object() {
            let words = setting["description"].as_str().unwrap();
            write!(sections, "\n### `{name}`\n\n{words}\n\n{HEAD}").unwrap();
            rows(each, &at, &mut sections);
        } else if setting["x-kind"] != "file-of" {
            plain.push_str(&row(name, setting, false));
        }
    }
    format!("\n{HEAD}{plain}{sections}\n")
}

#[test]
fn the_guide_lists_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/configuration.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (before, rest) = guide.split_once(BEGIN).expect("the guide has a place for the settings");
    let (_, after) = rest.split_once(END).expect("the settings end somewhere");
    let written = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, &written).unwrap();
    } else {
        assert!(guide == written, "the guide differs from the definitions: run `cargo xtask docs`");
    }
}

/// The settings that switch on what isn't built yet, and no others.
#[test]
fn guide_lists_what_is_not_built_yet() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/configuration.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (_, section) = guide.split_once("| key | switches on |\n").expect("the guide has their table");
    let listed: Vec<&str> =
        section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect();
    let schema = super::schema::schema();
    let settings = schema["properties"].as_object().unwrap().iter();
    let unbuilt: Vec<&str> =
        settings.filter(|(_, setting)| setting["x-next"].is_string()).map(|(name, _)| name.as_str()).collect();
    assert_eq!(listed, unbuilt);
}
