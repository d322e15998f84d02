//! Agents and tasks: `agents` and `tasks` of the configuration file, and of the files in the folder `playbooks` beside
//! it.

mod schema;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use satchel_attachments::{
    AgentConfig, Playbook,
    order::Playbooks,
    parse::read_playbook,
    problem::{DeclarationProblem, SourcePosition},
};
use satchel_tools::{path_fields, tool_selection::select_tools};
use satchel_yaml::{YamlNode, YamlPosition, YamlValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    leaf::{LeafValue, list::Texts},
    models::{BUILT_IN, ModelsConfig},
    origin::{ConfigProblem, SettingOrigin},
    read_file,
    resolver::Resolver,
    tools::suggest_tool,
    tree,
    tree::ConfigValue,
};

pub(super) use self::schema::{DeclaredAgents, DeclaredTasks, KIND};

/// The folder beside the configuration file.
const FOLDER: &str = "playbooks";

/// The keys of a file in that folder.
const KEYS: [&str; 2] = ["agents", "tasks"];

/// What templates of agents and tasks may name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TemplatesConfig {
    /// The environment variables that templates may name, as `env.NAME`. No others can be named.
    pub env: Texts,
    /// Those of them that are set.
    #[serde(skip)]
    pub values: Map<String, Json>,
}

impl TemplatesConfig {
    pub(super) fn resolve(&mut self, resolver: &Resolver<'_>) {
        let variables = resolver.environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let allowed = variables.filter(|(name, _)| self.env.0.iter().any(|allowed| allowed == name));
        self.values = allowed.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    }
}

/// The agents and tasks of all files.
#[derive(Default)]
pub(super) struct DeclaredPlaybooks {
    /// What could be read, mistakes or not.
    pub(super) readable: Vec<Playbook>,
    /// All of them; `None` where there are mistakes, so that nothing can be said about what isn't there.
    pub(super) complete: Option<Playbooks>,
}

impl DeclaredPlaybooks {
    /// The agents that could be read.
    pub(super) fn agents(&self) -> impl Iterator<Item = &AgentConfig> {
        self.readable.iter().flat_map(|playbook| &playbook.agents)
    }
}

/// Reads the agents and tasks of the configuration file and of the folder beside it, and reports every mistake.
pub(super) fn load(
    file: &Arc<Path>,
    yaml: &YamlNode,
    cwd: &Path,
    problems: &mut Vec<ConfigProblem>,
) -> DeclaredPlaybooks {
    let mut mistakes = Vec::new();
    let (own, own_problems) = read_playbook(file, &owning_directory(file, cwd), yaml);
    mistakes.extend(to_problems(own_problems));
    let mut readable = vec![own];
    let folder = file.parent().map_or_else(|| PathBuf::from(FOLDER), |directory| directory.join(FOLDER));
    let files = list_files(&folder, cwd).unwrap_or_else(|problem| {
        mistakes.push(problem);
        Vec::new()
    });
    for path in files {
        let (playbook, found) = read_with_mistakes(&path, cwd);
        readable.extend(playbook);
        mistakes.extend(found);
    }
    let complete = match mistakes.is_empty() {
        true => Playbooks::new(readable.clone()).map_err(|found| mistakes.extend(to_problems(found))).ok(),
        false => None,
    };
    problems.extend(mistakes);
    DeclaredPlaybooks { readable, complete }
}

/// Reads one file that holds agents and tasks alone.
///
/// # Errors
/// With every mistake.
pub fn read(path: &Path, cwd: &Path) -> Result<Playbook, Vec<ConfigProblem>> {
    match read_with_mistakes(path, cwd) {
        (Some(playbook), problems) if problems.is_empty() => Ok(playbook),
        (_, problems) => Err(problems),
    }
}

/// Reads what can be read of a file, and every mistake in it.
fn read_with_mistakes(path: &Path, cwd: &Path) -> (Option<Playbook>, Vec<ConfigProblem>) {
    let path: Arc<Path> = Arc::from(path);
    let yaml = read_file(&path, cwd).and_then(|text| tree::parse(&path, &text));
    let yaml = match yaml {
        Ok(yaml) => yaml,
        Err(problem) => return (None, vec![problem]),
    };
    let mut problems = foreign_keys(&path, &yaml);
    let (playbook, mistakes) = read_playbook(&path, &owning_directory(&path, cwd), &yaml);
    problems.extend(to_problems(mistakes));
    (Some(playbook), problems)
}

/// The absolute directory of a file.
fn owning_directory(file: &Path, cwd: &Path) -> Arc<Path> {
    Arc::from(cwd.join(file).parent().unwrap_or(cwd))
}

/// The files of the folder, sorted by name; none if there is no such folder.
fn list_files(folder: &Path, cwd: &Path) -> Result<Vec<PathBuf>, ConfigProblem> {
    let problem = |error: std::io::Error| ConfigProblem {
        origin: SettingOrigin::Default,
        message: format!("failed to list the folder {}: {error}", folder.display()),
    };
    let entries = match std::fs::read_dir(cwd.join(folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(problem)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(problem)?;
        let name = PathBuf::from(entry.file_name());
        // Editors leave hidden files beside the one that is edited, which may be links to nowhere.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_file = std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
        if !is_hidden && is_file && name.extension().is_some_and(|extension| extension == "yaml") {
            files.push(folder.join(name));
        }
    }
    files.sort();
    Ok(files)
}

fn foreign_keys(path: &Arc<Path>, yaml: &YamlNode) -> Vec<ConfigProblem> {
    let problem = |YamlPosition { line, column }: YamlPosition, message: String| ConfigProblem {
        origin: SettingOrigin::File { path: Arc::clone(path), line, column },
        message,
    };
    match &yaml.value {
        YamlValue::Null => Vec::new(),
        YamlValue::Map(entries) => entries
            .iter()
            .filter(|entry| !KEYS.contains(&entry.key.as_str()))
            .map(|entry| {
                let message = format!(
                    "`{}` can't be set here: a file of agents and tasks holds {}; settings belong in satchel.yaml",
                    entry.key,
                    KEYS.join(" and ")
                );
                problem(entry.key_position, message)
            })
            .collect(),
        _ => vec![problem(yaml.position, format!("expected {}", KEYS.join(" and ")))],
    }
}

/// Reports agents whose tools are named by what no tool is called and no tool matches.
pub(super) fn check_tools(playbooks: &DeclaredPlaybooks, problems: &mut Vec<ConfigProblem>) {
    let tools: Vec<&str> = path_fields::tool_names().collect();
    for agent in playbooks.agents() {
        for (pattern, position) in agent.tools.iter().flatten() {
            if select_tools(std::slice::from_ref(pattern), &tools).is_err() {
                let expected = suggest_tool(pattern);
                let message =
                    format!("agents.{}: `tools` holds {pattern:?}, which matches no tool: {expected}", agent.id);
                problems.push(ConfigProblem { origin: file_origin(position), message });
            }
        }
    }
}

/// Reports agents whose model isn't one of the configuration's.
pub(super) fn check_models(playbooks: &DeclaredPlaybooks, models: &ModelsConfig, problems: &mut Vec<ConfigProblem>) {
    let known: Vec<&str> = models.declared.iter().map(|model| model.name.as_str()).chain([BUILT_IN]).collect();
    for agent in playbooks.agents() {
        if let Some((model, position)) = &agent.model
            && !known.contains(&model.as_str())
        {
            let message = format!("agents.{}: `model` is {model:?}; there is {}", agent.id, known.join(", "));
            problems.push(ConfigProblem { origin: file_origin(position), message });
        }
    }
}

fn file_origin(position: &SourcePosition) -> SettingOrigin {
    SettingOrigin::File { path: Arc::clone(&position.file), line: position.line, column: position.column }
}

pub(crate) fn to_problems(problems: Vec<DeclarationProblem>) -> Vec<ConfigProblem> {
    let convert = |DeclarationProblem { position, item, message }: DeclarationProblem| ConfigProblem {
        origin: file_origin(&position),
        message: format!("{item}: {message}"),
    };
    problems.into_iter().map(convert).collect()
}

/// Counts the entries, which are read with their own positions.
pub(super) fn count(input: &ConfigValue) -> Result<LeafValue, String> {
    let count = match input {
        ConfigValue::Untyped(_) => return Err("a list in the configuration file, each item with an `id`".to_owned()),
        ConfigValue::List(items) => items.len(),
        // What is wrong with it is reported where the entries are read.
        _ => 0,
    };
    Ok(LeafValue { value: Json::Null, display: json!(format!("{count} declared")) })
}
