//! Checks the tree against the schema: every value by its kind, and every mistake is reported with its position.
//!
//! serde stops at the first mistake, so it only reads values that were checked here.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use super::{
    ConfigSetting, NamedPath, leaf,
    leaf::{LeafKind, LeafValue},
    origin::{ConfigProblem, SettingOrigin},
    schema, suggestions,
    tree::{ConfigNode, ConfigValue},
};

/// The result of the check.
#[derive(Default)]
pub(super) struct CheckReport {
    /// The valid values, for serde; a section with keys of the owner's choice is a list.
    pub(super) values: Json,
    pub(super) settings: Vec<ConfigSetting>,
    /// The paths of settings and of `…_file` keys, also of those that a stronger value replaces.
    pub(super) named_paths: Vec<NamedPath>,
    pub(super) problems: Vec<ConfigProblem>,
    /// Unknown keys, and values in place of a section; reported after all other mistakes at the same position.
    pub(super) structure_problems: Vec<ConfigProblem>,
    pub(super) not_built: Vec<ConfigProblem>,
    /// Every known key, with the names of declared entries filled in.
    pub(super) known_keys: Vec<String>,
}

/// Checks the whole tree.
pub(super) fn check_tree(root: &ConfigNode, schema: &Json, cwd: &Path) -> CheckReport {
    let mut walk =
        SchemaWalk { cwd, report: CheckReport::default(), unknown_keys: Vec::new(), invalid_sections: Vec::new() };
    walk.report.values = walk.check_section(schema, Some(root), "");
    let SchemaWalk { mut report, unknown_keys, invalid_sections, .. } = walk;
    let known_keys = &report.known_keys;
    report.structure_problems.extend(invalid_sections.into_iter().map(|(key, origin)| {
        let message =
            format!("`{key}` must be a section with {}", suggestions::child_names(known_keys, &key).join(", "));
        ConfigProblem { origin: origin.clone(), message }
    }));
    report.structure_problems.extend(
        unknown_keys.into_iter().map(|(key, origin)| suggestions::describe_unknown_key(origin, &key, known_keys)),
    );
    report
}

/// The base directory of a relative path from this origin.
pub(super) fn base_directory(origin: &SettingOrigin, cwd: &Path) -> PathBuf {
    match origin {
        SettingOrigin::File { path, .. } => path.parent().map_or_else(|| cwd.into(), |dir| cwd.join(dir)),
        _ => cwd.to_owned(),
    }
}

struct SchemaWalk<'a> {
    cwd: &'a Path,
    report: CheckReport,
    /// Reported at the end, when all keys are known.
    unknown_keys: Vec<(String, &'a SettingOrigin)>,
    invalid_sections: Vec<(String, &'a SettingOrigin)>,
}

impl<'a> SchemaWalk<'a> {
    /// Checks a section, which may be missing.
    fn check_section(&mut self, schema: &Json, node: Option<&'a ConfigNode>, path: &str) -> Json {
        let entries = match node.map(|node| (&node.value, &node.origin)) {
            Some((ConfigValue::Section(entries), _)) => entries.as_slice(),
            Some((ConfigValue::Null, _)) | None => &[],
            Some((_, origin)) => {
                self.invalid_sections.push((path.to_owned(), origin));
                &[]
            }
        };
        let mut valid_entries = Vec::new();
        for (name, entry) in entries {
            if name.contains('.') {
                let message = format!("`{name}` holds a dot: write sections, one beneath the other");
                self.report.problems.push(ConfigProblem { origin: entry.origin.clone(), message });
            } else {
                valid_entries.push((name.as_str(), entry));
            }
        }
        if let Some(entry_schema) = schema::entry_schema(schema) {
            if valid_entries.is_empty() {
                self.report.known_keys.push(join_key(path, schema::NAME_PLACEHOLDER));
            }
            let sections = valid_entries.into_iter().map(|(name, entry)| {
                let mut values = self.check_section(entry_schema, Some(entry), &join_key(path, name));
                values["name"] = json!(name);
                values
            });
            return sections.collect();
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut values = Map::new();
        for (name, property) in properties.clone().filter(|(_, property)| !schema::is_file_key(property)) {
            let key = join_key(path, name);
            let find =
                |name: &str| valid_entries.iter().find(|(entry_name, _)| *entry_name == name).map(|(_, entry)| *entry);
            let value = match schema::is_section(property) {
                true => self.check_section(property, find(name), &key),
                false => self.check_leaf(property, find(name), find(&format!("{name}_file")), &key),
            };
            if !value.is_null() {
                values.insert(name.clone(), value);
            }
        }
        for (name, entry) in valid_entries {
            if !properties.clone().any(|(property, _)| property == name) {
                self.report_unknown(entry, join_key(path, name));
            }
        }
        Json::Object(values)
    }

    /// Reports the keys of a section that exists only in the environment or on the command line.
    fn report_unknown(&mut self, entry: &'a ConfigNode, key: String) {
        match &entry.value {
            ConfigValue::Section(entries) if !matches!(entry.origin, SettingOrigin::File { .. }) => {
                self.unknown_keys.extend(entries.iter().map(|(name, node)| (join_key(&key, name), &node.origin)));
            }
            _ => self.unknown_keys.push((key, &entry.origin)),
        }
    }

    /// Checks one setting and records how it is displayed; returns null if it is not set.
    fn check_leaf(
        &mut self,
        schema: &Json,
        node: Option<&'a ConfigNode>,
        file_node: Option<&'a ConfigNode>,
        key: &str,
    ) -> Json {
        let is_given = |node: &&ConfigNode| node.value != ConfigValue::Null;
        let (node, file_node) = (node.filter(is_given), file_node.filter(is_given));
        self.report.known_keys.push(key.to_owned());
        let given = node.and_then(|node| {
            let result = leaf::read_value(schema, &node.value, &base_directory(&node.origin, self.cwd));
            let value = result.map_err(|expected| self.report_invalid(key, &expected, node, leaf::is_secret(schema)));
            Some((value.ok()?, node.origin.clone()))
        });
        if let Some(path) = given.as_ref().and_then(|(value, _)| leaf::named_path(schema, value)) {
            self.report.named_paths.push(NamedPath { key: key.to_owned(), path });
        }
        let given = match LeafKind::for_schema(schema).filter(|kind| kind.read_file.is_some()) {
            Some(kind) => {
                let file_key = format!("{key}_file");
                self.report.known_keys.push(file_key.clone());
                match file_node.and_then(|node| self.read_file_path(node, &file_key)) {
                    Some(file) => self.resolve_file_key(given, file, kind, key),
                    None => given,
                }
            }
            None => given,
        };
        if let (Some((_, origin)), Some(feature)) =
            (&given, node.and_then(|node| schema::unbuilt_feature(schema, node)))
        {
            let message = format!("`{key}` switches on {feature}: not built yet");
            self.report.not_built.push(ConfigProblem { origin: origin.clone(), message });
        }
        let (value, display, origin) = match given {
            Some((LeafValue { value, display }, origin)) => (value, display, origin),
            None => (Json::Null, schema::default_value(schema), SettingOrigin::Default),
        };
        self.report.settings.push(ConfigSetting { key: key.to_owned(), value: display, origin });
        value
    }

    /// The path in a `…_file` key, and its origin.
    fn read_file_path(&mut self, node: &ConfigNode, key: &str) -> Option<(PathBuf, SettingOrigin)> {
        match leaf::list::to_text(&node.value).filter(|text| !text.is_empty()) {
            Some(text) if leaf::is_in_home(&text) => {
                self.report_invalid(key, &format!("the path of a file {}", leaf::WITHOUT_HOME), node, false);
                None
            }
            Some(text) => {
                let path = base_directory(&node.origin, self.cwd).join(text);
                self.report.named_paths.push(NamedPath { key: key.to_owned(), path: path.clone() });
                Some((path, node.origin.clone()))
            }
            None => {
                self.report_invalid(key, "the path of a file", node, false);
                None
            }
        }
    }

    /// The value of `key` or the content of the file in `{key}_file`, whichever has the stronger origin; two of the
    /// same rank are an error.
    fn resolve_file_key(
        &mut self,
        given: Option<(LeafValue, SettingOrigin)>,
        (path, named_by): (PathBuf, SettingOrigin),
        kind: &LeafKind,
        key: &str,
    ) -> Option<(LeafValue, SettingOrigin)> {
        if let Some((value, origin)) = given {
            if origin.rank() == named_by.rank() {
                let message = format!("both `{key}` and `{key}_file` are given: remove one");
                self.report.problems.push(ConfigProblem { origin: named_by, message });
                return Some((value, origin));
            }
            if origin.rank() > named_by.rank() {
                return Some((value, origin));
            }
        }
        let result = kind.read_file.map(|read| read(&path).and_then(|text| kind.read_text(&text, self.cwd)))?;
        match result {
            Ok(value) => Some((value, SettingOrigin::ValueFile { path, named_by: Box::new(named_by) })),
            Err(reason) => {
                let message = format!("the file {} that `{key}_file` names {reason}", path.display());
                self.report.problems.push(ConfigProblem { origin: named_by, message });
                None
            }
        }
    }

    fn report_invalid(&mut self, key: &str, expected: &str, node: &ConfigNode, is_secret: bool) {
        let message = format!("`{key}` must be {expected}, not {}", describe_value(&node.value, is_secret));
        self.report.problems.push(ConfigProblem { origin: node.origin.clone(), message });
    }
}

fn join_key(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// Describes an invalid value without repeating what may be a secret.
fn describe_value(value: &ConfigValue, is_secret: bool) -> String {
    match value {
        ConfigValue::Null => "nothing".to_owned(),
        ConfigValue::List(items) if !is_secret && !items.is_empty() => {
            let items: Vec<String> = items.iter().map(|item| describe_value(&item.value, is_secret)).collect();
            format!("a list of {}", truncate(&items.join(", ")))
        }
        ConfigValue::List(_) => "a list".to_owned(),
        ConfigValue::Section(_) => "a section".to_owned(),
        ConfigValue::Text(text) | ConfigValue::Untyped(text) if text.trim().is_empty() => "blank".to_owned(),
        ConfigValue::Text(_) | ConfigValue::Untyped(_) if is_secret => "this text".to_owned(),
        _ if is_secret => "a number or a truth value".to_owned(),
        ConfigValue::Boolean(value) => format!("{value} (quote it if text is meant)"),
        ConfigValue::Integer(value) => format!("the number {value}"),
        ConfigValue::Decimal(value) => format!("the number {value}"),
        ConfigValue::Text(text) | ConfigValue::Untyped(text) => format!("{:?}", truncate(text)),
    }
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
