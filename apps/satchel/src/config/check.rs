//! Walks the tree along the schema: every value is checked by its kind, every mistake gathered with its place.
//!
//! serde stops at the first mistake, so it reads only what has passed here.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use super::{
    ConfigSetting, leaf,
    leaf::{Kind, LeafValue},
    origin::{ConfigProblem, SettingOrigin},
    schema, suggest,
    tree::{ConfigNode, ConfigValue},
};

/// What the walk has brought up.
#[derive(Default)]
pub(super) struct Checked {
    /// What was given and is right, for serde; a section whose keys the owner names is a list there.
    pub(super) values: Json,
    pub(super) settings: Vec<ConfigSetting>,
    pub(super) problems: Vec<ConfigProblem>,
    /// Keys that nobody knows, and values where a section belongs; reported behind all other mistakes of their place.
    pub(super) misplaced: Vec<ConfigProblem>,
    pub(super) not_built: Vec<ConfigProblem>,
    /// Every key there is, with the names of declared things filled in.
    pub(super) known: Vec<String>,
}

/// Checks all that stands in the tree.
pub(super) fn check(root: &ConfigNode, schema: &Json, cwd: &Path) -> Checked {
    let mut check = Check { cwd, checked: Checked::default(), unknown: Vec::new(), no_sections: Vec::new() };
    check.checked.values = check.section(schema, Some(root), "");
    let Check { mut checked, unknown, no_sections, .. } = check;
    let known = &checked.known;
    checked.misplaced.extend(no_sections.into_iter().map(|(key, origin)| {
        let message = format!("`{key}` must be a section with {}", suggest::names_below(known, &key).join(", "));
        ConfigProblem { origin: origin.clone(), message }
    }));
    checked.misplaced.extend(unknown.into_iter().map(|(key, origin)| suggest::unknown(origin, &key, known)));
    checked
}

/// The directory from which a relative path counts that was given there.
pub(super) fn base_of(origin: &SettingOrigin, cwd: &Path) -> PathBuf {
    match origin {
        SettingOrigin::File { path, .. } => path.parent().map_or_else(|| cwd.into(), |dir| cwd.join(dir)),
        _ => cwd.to_owned(),
    }
}

struct Check<'a> {
    cwd: &'a Path,
    checked: Checked,
    /// Said at the end, when all keys are known.
    unknown: Vec<(String, &'a SettingOrigin)>,
    no_sections: Vec<(String, &'a SettingOrigin)>,
}

impl<'a> Check<'a> {
    /// Checks a section, which may not be given at all.
    fn section(&mut self, schema: &Json, node: Option<&'a ConfigNode>, at: &str) -> Json {
        let entries = match node.map(|node| (&node.value, &node.origin)) {
            Some((ConfigValue::Section(entries), _)) => entries.as_slice(),
            Some((ConfigValue::Null, _)) | None => &[],
            Some((_, origin)) => {
                self.no_sections.push((at.to_owned(), origin));
                &[]
            }
        };
        let mut known = Vec::new();
        for (name, entry) in entries {
            if name.contains('.') {
                let message = format!("`{name}` holds a dot: write sections, one beneath the other");
                self.checked.problems.push(ConfigProblem { origin: entry.origin.clone(), message });
            } else {
                known.push((name.as_str(), entry));
            }
        }
        if let Some(each) = schema::each_named(schema) {
            if known.is_empty() {
                self.checked.known.push(join(at, schema::NAME));
            }
            let named = known.into_iter().map(|(name, entry)| {
                let mut values = self.section(each, Some(entry), &join(at, name));
                values["name"] = json!(name);
                values
            });
            return named.collect();
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut values = Map::new();
        for (name, property) in properties.clone().filter(|(_, property)| !schema::names_a_file(property)) {
            let key = join(at, name);
            let find = |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, entry)| *entry);
            let value = match schema::is_section(property) {
                true => self.section(property, find(name), &key),
                false => self.leaf(property, find(name), find(&format!("{name}_file")), &key),
            };
            if !value.is_null() {
                values.insert(name.clone(), value);
            }
        }
        for (name, entry) in known {
            if !properties.clone().any(|(property, _)| property == name) {
                self.report_unknown(entry, join(at, name));
            }
        }
        Json::Object(values)
    }

    /// A section that only the environment or the command line made is reported by what they said.
    fn report_unknown(&mut self, entry: &'a ConfigNode, key: String) {
        match &entry.value {
            ConfigValue::Section(inner) if !matches!(entry.origin, SettingOrigin::File { .. }) => {
                self.unknown.extend(inner.iter().map(|(name, node)| (join(&key, name), &node.origin)));
            }
            _ => self.unknown.push((key, &entry.origin)),
        }
    }

    /// Checks one setting and remembers what is shown of it; null without a value.
    fn leaf(
        &mut self,
        schema: &Json,
        node: Option<&'a ConfigNode>,
        file_node: Option<&'a ConfigNode>,
        key: &str,
    ) -> Json {
        let is_given = |node: &&ConfigNode| node.value != ConfigValue::Null;
        let (node, file_node) = (node.filter(is_given), file_node.filter(is_given));
        self.checked.known.push(key.to_owned());
        let given = node.and_then(|node| {
            let read = leaf::read(schema, &node.value, &base_of(&node.origin, self.cwd));
            let reading = read.map_err(|expected| self.report_invalid(key, &expected, node, leaf::is_secret(schema)));
            Some((reading.ok()?, node.origin.clone()))
        });
        let given = match Kind::find(schema).filter(|kind| kind.read_file.is_some()) {
            Some(kind) => {
                let file_key = format!("{key}_file");
                self.checked.known.push(file_key.clone());
                match file_node.and_then(|node| self.file_path(node, &file_key)) {
                    Some(named) => self.stronger(given, named, kind, key),
                    None => given,
                }
            }
            None => given,
        };
        if let (Some((_, origin)), Some(what)) = (&given, node.and_then(|node| schema::not_built(schema, node))) {
            let message = format!("`{key}` switches on {what}: not built yet");
            self.checked.not_built.push(ConfigProblem { origin: origin.clone(), message });
        }
        let (value, shown, origin) = match given {
            Some((LeafValue { value, shown }, origin)) => (value, shown, origin),
            None => (Json::Null, schema::default_of(schema), SettingOrigin::Default),
        };
        self.checked.settings.push(ConfigSetting { key: key.to_owned(), value: shown, origin });
        value
    }

    /// The path that a `…_file` key gives, and where it was given.
    fn file_path(&mut self, node: &ConfigNode, key: &str) -> Option<(PathBuf, SettingOrigin)> {
        match leaf::list::as_text(&node.value).filter(|text| !text.is_empty()) {
            Some(text) => Some((base_of(&node.origin, self.cwd).join(text), node.origin.clone())),
            None => {
                self.report_invalid(key, "the path of a file", node, false);
                None
            }
        }
    }

    /// What `key` gives as it is, or the file that `{key}_file` names; the stronger of the two, and never both of the
    /// same strength.
    fn stronger(
        &mut self,
        given: Option<(LeafValue, SettingOrigin)>,
        (path, named_by): (PathBuf, SettingOrigin),
        kind: &Kind,
        key: &str,
    ) -> Option<(LeafValue, SettingOrigin)> {
        if let Some((reading, origin)) = given {
            if origin.rank() == named_by.rank() {
                let message = format!("both `{key}` and `{key}_file` are given: remove one");
                self.checked.problems.push(ConfigProblem { origin: named_by, message });
                return Some((reading, origin));
            }
            if origin.rank() > named_by.rank() {
                return Some((reading, origin));
            }
        }
        let read = kind.read_file.map(|read| read(&path).and_then(|text| kind.read_text(&text, self.cwd)))?;
        match read {
            Ok(reading) => Some((reading, SettingOrigin::SecretFile { path, named_by: Box::new(named_by) })),
            Err(reason) => {
                let message = format!("the file {} that `{key}_file` names {reason}", path.display());
                self.checked.problems.push(ConfigProblem { origin: named_by, message });
                None
            }
        }
    }

    fn report_invalid(&mut self, key: &str, expected: &str, node: &ConfigNode, is_secret: bool) {
        let message = format!("`{key}` must be {expected}, not {}", describe(&node.value, is_secret));
        self.checked.problems.push(ConfigProblem { origin: node.origin.clone(), message });
    }
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// What was written instead, without what may be a secret.
fn describe(value: &ConfigValue, is_secret: bool) -> String {
    match value {
        ConfigValue::Null => "nothing".to_owned(),
        ConfigValue::List(items) if !is_secret && !items.is_empty() => {
            let items: Vec<String> = items.iter().map(|item| describe(&item.value, is_secret)).collect();
            format!("a list of {}", truncate(&items.join(", ")))
        }
        ConfigValue::List(_) => "a list".to_owned(),
        ConfigValue::Section(_) => "a section".to_owned(),
        ConfigValue::Text(text) | ConfigValue::Given(text) if text.trim().is_empty() => "blank".to_owned(),
        ConfigValue::Text(_) | ConfigValue::Given(_) if is_secret => "this text".to_owned(),
        _ if is_secret => "a number or a truth value".to_owned(),
        ConfigValue::Boolean(value) => format!("{value} (quote it if text is meant)"),
        ConfigValue::Integer(value) => format!("the number {value}"),
        ConfigValue::Decimal(value) => format!("the number {value}"),
        ConfigValue::Text(text) | ConfigValue::Given(text) => format!("{:?}", truncate(text)),
    }
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
