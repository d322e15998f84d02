//! Reads the agents and tasks of a file.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use satchel_domain::{AllowedPeople, agent::DEFAULT_AGENT};
use satchel_yaml::{YamlNode, YamlPosition, YamlValue};

use super::reader::{DeclarationReader, Fields, excerpt};
use crate::{
    playbook::{ActionConfig, AgentConfig, Playbook, TaskConfig},
    problem::{DeclarationProblem, SourcePosition},
};

const AGENT_FIELDS: [&str; 8] =
    ["id", "description", "instructions", "model", "tools", "allow", "attachments", "actions"];
const ACTION_FIELDS: [&str; 3] = ["id", "prompt", "attachments"];
const TASK_FIELDS: [&str; 8] = ["id", "type", "description", "agent", "action", "allow", "input", "attachments"];

/// The longest id, in characters.
const MAX_ID_CHARS: usize = 64;

/// Reads `agents` and `tasks` of a file; what else is in it is not looked at. `file` is its path as it is shown, and
/// `directory` the absolute path of its directory.
///
/// # Errors
/// With every mistake.
pub fn parse_playbook(
    file: &Arc<Path>,
    directory: &Arc<Path>,
    root: &YamlNode,
) -> Result<Playbook, Vec<DeclarationProblem>> {
    let (playbook, problems) = read_playbook(file, directory, root);
    if problems.is_empty() { Ok(playbook) } else { Err(problems) }
}

/// As [`parse_playbook`], but beside the mistakes returns what could be read, to be looked at for others.
#[must_use]
pub fn read_playbook(file: &Arc<Path>, directory: &Arc<Path>, root: &YamlNode) -> (Playbook, Vec<DeclarationProblem>) {
    let mut reader = DeclarationReader { file, directory, problems: Vec::new() };
    let entry = |key: &str| match &root.value {
        YamlValue::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
        _ => None,
    };
    let agents = reader.declared(entry("agents"), "agents", DeclarationReader::agent);
    let tasks = reader.declared(entry("tasks"), "tasks", DeclarationReader::task);
    let id = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    (Playbook { file: Arc::clone(file), id, agents, tasks }, reader.problems)
}

/// An entry that has an id.
trait Identified {
    fn id(&self) -> &str;
    fn position(&self) -> &SourcePosition;
}

impl Identified for AgentConfig {
    fn id(&self) -> &str {
        &self.id
    }
    fn position(&self) -> &SourcePosition {
        &self.position
    }
}

impl Identified for TaskConfig {
    fn id(&self) -> &str {
        &self.id
    }
    fn position(&self) -> &SourcePosition {
        &self.position
    }
}

impl DeclarationReader<'_> {
    /// Reads a list of entries with ids, and reports ids that stand there twice.
    fn declared<T: Identified>(
        &mut self,
        node: Option<&YamlNode>,
        section: &str,
        read: fn(&mut Self, &YamlNode, &str) -> Option<T>,
    ) -> Vec<T> {
        let items = match node.map(|node| &node.value) {
            None | Some(YamlValue::Null) => return Vec::new(),
            Some(YamlValue::List(items)) => items,
            Some(_) => {
                let position = node.map_or(YamlPosition::START, |node| node.position);
                self.report(position, section, "must be a list, each item with an `id`");
                return Vec::new();
            }
        };
        let mut entries: Vec<T> = Vec::new();
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for (index, node) in items.iter().enumerate() {
            let Some(entry) = read(self, node, &item_path(section, index, node)) else { continue };
            match lines.insert(entry.id().to_owned(), entry.position().line) {
                None => entries.push(entry),
                Some(line) => {
                    let message = format!("`{}` is declared in line {line} already", entry.id());
                    self.report(node.position, &format!("{section}[{index}]"), message);
                }
            }
        }
        entries
    }

    fn agent(&mut self, node: &YamlNode, item: &str) -> Option<AgentConfig> {
        let fields = self.fields(node, item, &AGENT_FIELDS)?;
        let id = self.id(fields);
        if let (Some(id), Some(node)) = (&id, fields.find("id"))
            && id.eq_ignore_ascii_case(DEFAULT_AGENT)
        {
            self.report(node.position, item, format!("`id` is {id:?}, the name of the agent without a declaration"));
        }
        let instructions = self.required_text(fields, "instructions");
        let actions = self.list(fields, "actions");
        let actions: Vec<ActionConfig> = actions
            .iter()
            .enumerate()
            .filter_map(|(index, node)| self.action(node, &item_path(&format!("{item}.actions"), index, node)))
            .collect();
        let mut repeated = actions
            .iter()
            .enumerate()
            .filter(|(index, action)| actions[..*index].iter().any(|earlier| earlier.id == action.id));
        if let Some((_, action)) = repeated.next() {
            self.report(fields.key_position("actions"), item, format!("two actions are called `{}`", action.id));
        }
        let model = self.optional_text(fields, "model").map(|(name, at)| (name.to_owned(), self.position(at)));
        Some(AgentConfig {
            description: self.line(fields, "description"),
            model,
            tools: self.tools(fields),
            allow: self.allow(fields),
            attachments: self.attachments(fields),
            actions,
            position: self.position(node.position),
            id: id?,
            instructions: instructions?.0.to_owned(),
        })
    }

    fn action(&mut self, node: &YamlNode, item: &str) -> Option<ActionConfig> {
        let fields = self.fields(node, item, &ACTION_FIELDS)?;
        let id = self.id(fields);
        self.required_text(fields, "prompt")?;
        let prompt = self.optional_template(fields, "prompt");
        Some(ActionConfig { attachments: self.attachments(fields), id: id?, prompt: prompt? })
    }

    fn task(&mut self, node: &YamlNode, item: &str) -> Option<TaskConfig> {
        let fields = self.fields(node, item, &TASK_FIELDS)?;
        let id = self.id(fields);
        if let Some((kind, position)) = self.optional_text(fields, "type")
            && kind != "basic"
        {
            self.report(position, item, format!("`type` is {:?}; a task can only be basic", excerpt(kind)));
        }
        let agent = self.agent_reference(fields);
        let action = self.required_text(fields, "action");
        Some(TaskConfig {
            description: self.line(fields, "description"),
            allow: self.allow(fields),
            input: self.task_input(fields),
            attachments: self.attachments(fields),
            position: self.position(node.position),
            id: id?,
            agent: agent?.0.to_owned(),
            agent_position: self.position(agent?.1),
            action: action?.0.to_owned(),
            action_position: self.position(action?.1),
        })
    }

    /// The agent of a task: its id, or a map with it.
    fn agent_reference<'n>(&mut self, fields: Fields<'n>) -> Option<(&'n str, YamlPosition)> {
        match fields.find("agent") {
            Some(node @ YamlNode { value: YamlValue::Map(_), .. }) => {
                let item = format!("{}.agent", fields.item);
                let YamlValue::Map(entries) = &node.value else { return None };
                let _known = self.fields(node, &item, &["id"]);
                match entries.iter().find(|entry| entry.key == "id") {
                    Some(entry) => self.text(&entry.node, &item, "id"),
                    None => {
                        self.report(node.position, &item, "`id` is missing");
                        None
                    }
                }
            }
            _ => self.required_text(fields, "agent"),
        }
    }

    fn task_input(&mut self, fields: Fields<'_>) -> Vec<(String, crate::declaration::TemplateText)> {
        match fields.find("input") {
            None => Vec::new(),
            Some(YamlNode { value: YamlValue::Map(entries), .. }) => entries
                .iter()
                .filter_map(|entry| {
                    let text = self.template(&entry.node, fields.item, &format!("input.{}", entry.key))?;
                    Some((entry.key.clone(), text))
                })
                .collect(),
            Some(node) => {
                self.report_type(node, fields.item, "input", "a map of names and texts");
                Vec::new()
            }
        }
    }

    fn tools(&mut self, fields: Fields<'_>) -> Option<Vec<(String, SourcePosition)>> {
        fields.find("tools")?;
        let items = self.list(fields, "tools").iter().enumerate();
        let names = items.filter_map(|(index, node)| {
            let (name, position) = self.text(node, fields.item, &format!("tools[{index}]"))?;
            Some((name.to_owned(), self.position(position)))
        });
        Some(names.collect())
    }

    fn allow(&mut self, fields: Fields<'_>) -> AllowedPeople {
        match self.optional_text(fields, "allow") {
            None | Some(("owners", _)) => AllowedPeople::Owners,
            Some(("everyone", _)) => AllowedPeople::Everyone,
            Some((other, position)) => {
                let message = format!("`allow` is {:?}; allowed are owners and everyone", excerpt(other));
                self.report(position, fields.item, message);
                AllowedPeople::Owners
            }
        }
    }

    /// A text on one line.
    fn line(&mut self, fields: Fields<'_>, key: &str) -> String {
        let text = self.optional_text(fields, key).map_or("", |(text, _)| text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// An id, by which commands and templates name it.
    fn id(&mut self, fields: Fields<'_>) -> Option<String> {
        let (id, position) = self.required_text(fields, "id")?;
        if is_id(id) {
            return Some(id.to_owned());
        }
        let message = format!(
            "`id` is {:?}; an id has 1 to {MAX_ID_CHARS} letters, digits, `-` and `_`, and begins with a letter",
            excerpt(id)
        );
        self.report(position, fields.item, message);
        None
    }
}

fn is_id(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !id.ends_with('-')
        && id.len() <= MAX_ID_CHARS
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The path of an entry: by its id where it has one, else by its index.
fn item_path(section: &str, index: usize, node: &YamlNode) -> String {
    let id = match &node.value {
        YamlValue::Map(entries) => entries.iter().find(|entry| entry.key == "id").map(|entry| &entry.node.value),
        _ => None,
    };
    match id {
        Some(YamlValue::Text(id)) if is_id(id) => format!("{section}.{id}"),
        _ => format!("{section}[{index}]"),
    }
}
