//! The configuration: one file, the environment and `--set`, read into one [`Config`] in which every value is checked.
//!
//! Each section has its own file here; [`load`] combines them. Precedence, weakest first: default, file, environment,
//! `--set`. The stronger value replaces the weaker one completely, lists too.

pub mod attachments;
pub mod backup;
pub mod channels;
pub mod delivery;
pub mod documents;
pub mod leaf;
mod limits;
pub mod models;
pub mod origin;
pub(crate) mod overrides;
pub(crate) mod paths;
pub mod playbooks;
mod resolver;
pub mod schedules;
pub mod schema;
mod schema_walk;
pub mod speech;
pub mod storage;
pub(crate) mod suggestions;
pub mod tools;
mod tree;
pub mod turn;
pub mod web;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use satchel_attachments::order::Playbooks;
use satchel_domain::{ChannelName, agent::DEFAULT_AGENT};
use satchel_intake::access::AccessPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::{
    leaf::{list::UnbuiltEntries, secret::Instructions},
    origin::{ConfigProblem, ConfigProblems, SettingOrigin},
    paths::{DefaultPaths, ServicePaths},
    playbooks::DeclaredPlaybooks,
    resolver::Resolver,
    schedules::ScheduleConfig,
    schema_walk::CheckReport,
    tree::{ConfigNode, ConfigValue},
};
use crate::own_paths::find_shared_path;
use satchel_runtime::schedules::Schedule;

/// The variable that names the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "SATCHEL_CONFIG";

/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 4_000_000;

/// Everything that can be configured. A field is the one definition of its setting: its doc comment, type and default
/// are what the schema, `config show` and the guide say.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// What is logged to standard error: a filter such as `info` or `satchel=debug`. By default `warn,satchel=info`, in
    /// `chat` `error,satchel=warn`. `--log` comes first.
    pub log: Option<String>,
    /// Who the assistant is and how it should answer, in words for the model; added to what Satchel itself tells it. At
    /// most 100 KB.
    pub instructions: Option<Instructions>,
    #[serde(flatten)]
    pub models: models::ModelsConfig,
    pub storage: storage::StorageConfig,
    pub backup: backup::BackupConfig,
    pub workspace: storage::WorkspaceConfig,
    pub bus: storage::BusConfig,
    pub delivery: delivery::DeliveryConfig,
    pub turn: turn::TurnConfig,
    pub tools: tools::ToolsConfig,
    pub attachments: attachments::AttachmentsConfig,
    pub documents: documents::DocumentsConfig,
    pub speech: speech::SpeechConfig,
    pub telegram: channels::TelegramConfig,
    pub discord: channels::DiscordConfig,
    pub nats: channels::NatsConfig,
    pub web: web::WebConfig,
    pub metrics: web::MetricsConfig,
    /// Scheduled tasks, each under a name you choose.
    #[serde(rename = "schedules")]
    #[schemars(
        with = "std::collections::BTreeMap<String, ScheduleConfig>",
        extend("propertyNames" = json!({ "pattern": r"^[A-Za-z0-9_-]{1,64}$" }))
    )]
    declared_schedules: Vec<ScheduleConfig>,
    /// The resolved schedules, including disabled ones.
    #[serde(skip)]
    pub schedules: Vec<Schedule>,
    /// Agents of your own, a list: each with an `id` and `instructions`, and if you like a `description`, a `model`,
    /// `tools`, and `allow: everyone`. `/agent` chooses one. Its `actions` are prompts for tasks. More agents may be in the
    /// files of the folder `playbooks`. Their `attachments` are given to their model before each conversation.
    #[schemars(extend("x-default" = "0 declared"))]
    agents: playbooks::DeclaredAgents,
    /// Tasks, a list: each with an `id`, an `agent`, one of its actions, and `attachments`. More may be in the files of the
    /// folder `playbooks`. `satchel task run`, `/task` and schedules run them.
    #[schemars(extend("x-default" = "0 declared"))]
    tasks: playbooks::DeclaredTasks,
    pub templates: playbooks::TemplatesConfig,
    /// The agents and tasks of all files.
    #[serde(skip)]
    pub playbooks: Playbooks,
    /// The files that it was read from.
    #[serde(skip)]
    pub(crate) source_files: Vec<PathBuf>,
    /// The paths that settings name, such as those of secrets.
    #[serde(skip)]
    pub(crate) named_paths: Vec<NamedPath>,
    /// MCP servers whose tools the model may use. Not built yet.
    #[schemars(extend("x-default" = "0 declared", "x-next" = "MCP servers"))]
    mcp: UnbuiltEntries,
}

impl Config {
    /// Who may talk on which platform. The page and the terminal authenticate people themselves: anyone with access to
    /// them is an owner.
    #[must_use]
    pub fn access(&self) -> AccessPolicy {
        let owner_channels =
            ["console", "web", "api"].map(|name| ChannelName::new(name).expect("the names are lower-case letters"));
        AccessPolicy::new([self.telegram.access(), self.discord.access(), self.nats.access()])
            .with_owner_on(owner_channels)
    }

    /// Resolves what depends on the machine or on several settings, and reports contradictions.
    fn resolve(&mut self, resolver: &mut Resolver<'_>, playbooks: &DeclaredPlaybooks) {
        self.models.resolve(resolver);
        self.storage.resolve(resolver);
        self.backup.resolve(&self.storage, resolver);
        self.tools.resolve(resolver);
        self.attachments.resolve(resolver);
        self.documents.resolve(resolver);
        self.speech.resolve(resolver);
        self.templates.resolve(resolver);
        let agents = agent_names(resolver, playbooks);
        playbooks::check_models(playbooks, &self.models, resolver.problems);
        playbooks::check_tools(playbooks, resolver.problems);
        self.telegram.resolve(resolver, &agents);
        self.discord.resolve(resolver, &agents);
        self.bus.resolve(resolver);
        self.nats.resolve(resolver, &self.bus);
        self.web.resolve(resolver);
        self.check_shared_directory(resolver);
        let hosted = schedules::hosted_channels(resolver, &self.web);
        let schedules = self.declared_schedules.iter();
        self.schedules =
            schedules.filter_map(|schedule| schedule.resolve(resolver, &hosted, playbooks.complete.as_ref())).collect();
    }

    /// Reports a directory that gives every conversation what is Satchel's own.
    fn check_shared_directory(&self, resolver: &mut Resolver<'_>) {
        if let Some(path) = find_shared_path(self) {
            let message = format!(
                "`workspace.shared_dir` must be a directory apart from {}: every conversation can read and change what is in \
                 /shared",
                path.display()
            );
            resolver.report("workspace.shared_dir", message);
        }
    }
}

/// The names of all agents, the default one first. Those of the configuration file count also where something else in it
/// is wrong.
fn agent_names(resolver: &Resolver<'_>, playbooks: &DeclaredPlaybooks) -> Vec<String> {
    let id = |agent: &ConfigNode| agent.find("id").and_then(|id| leaf::list::to_text(&id.value));
    let declared = match resolver.root.find("agents").map(|agents| &agents.value) {
        Some(ConfigValue::List(agents)) => agents.iter().filter_map(id).collect(),
        _ => Vec::new(),
    };
    let mut names = vec![DEFAULT_AGENT.to_owned()];
    for name in declared.into_iter().chain(playbooks.agents().map(|agent| agent.id.clone())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Everything that the configuration is read from.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSources<'a> {
    /// The file that `--config` names.
    pub file: Option<&'a Path>,
    /// The `KEY=VALUE` pairs of `--set`.
    pub set: &'a [String],
    pub environment: &'a [(OsString, OsString)],
    pub cwd: &'a Path,
}

impl ConfigSources<'_> {
    /// What the default paths depend on, on this machine.
    pub(crate) fn default_paths(&self) -> DefaultPaths<'_> {
        let Self { file, environment, cwd, .. } = *self;
        DefaultPaths { option: file, environment, cwd, service: ServicePaths::of_machine() }
    }
}

/// A path that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// The key of the setting.
    pub(crate) key: String,
    pub(crate) path: PathBuf,
}

/// One setting as `config show` prints it. Secrets are already masked.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSetting {
    pub key: String,
    /// The effective value; null when there is none.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub origin: SettingOrigin,
}

/// A configuration without mistakes.
#[derive(Debug)]
pub struct LoadedConfig {
    config: Config,
    not_built: Vec<ConfigProblem>,
    /// Input without any effect, such as a variable that names no setting.
    pub warnings: Vec<ConfigProblem>,
    /// Every setting, by its key.
    pub settings: Vec<ConfigSetting>,
    /// The file that was read, as it was found.
    pub file: Option<PathBuf>,
    /// The absolute path of that file where another user may not find it: it wasn't named and isn't the service's.
    pub(crate) found_file: Option<PathBuf>,
}

impl LoadedConfig {
    /// The configuration to run with.
    ///
    /// # Errors
    /// When it enables something that isn't built yet.
    pub fn into_config(self) -> Result<Config, ConfigProblems> {
        self.check_built()?;
        Ok(self.config)
    }

    /// Checks that everything that it enables is built.
    ///
    /// # Errors
    /// When something isn't.
    pub fn check_built(&self) -> Result<(), ConfigProblems> {
        match self.not_built.is_empty() {
            true => Ok(()),
            false => Err(ConfigProblems(self.not_built.clone())),
        }
    }

    /// The configuration, for commands that inspect it without running with it.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file that a secret was read from, because a `…_file` key names it.
    pub(crate) fn secret_file(&self, key: &str) -> Option<&Path> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        match &setting.origin {
            SettingOrigin::ValueFile { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What the configuration enables that isn't built yet.
    pub fn not_built(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.not_built.iter()
    }
}

/// Reads the configuration.
///
/// # Errors
/// With everything that is wrong, as far as it could be read.
pub fn load(sources: &ConfigSources<'_>) -> Result<LoadedConfig, ConfigProblems> {
    load_at(&sources.default_paths(), sources.set)
}

/// As [`load`], where a service may have other paths.
fn load_at(paths: &DefaultPaths<'_>, set: &[String]) -> Result<LoadedConfig, ConfigProblems> {
    let file = paths.config_file();
    let text = match &file {
        Some(path) => read_file(path, paths.cwd).map_err(|problem| ConfigProblems(vec![problem]))?,
        None => String::new(),
    };
    apply_overrides(&text, file, paths, set)
}

/// Reads a configuration that will be written to `path`, with the overrides of the environment and the command line.
///
/// # Errors
/// With everything that is wrong.
pub fn load_text(path: &Path, text: &str, sources: &ConfigSources<'_>) -> Result<LoadedConfig, ConfigProblems> {
    apply_overrides(text, Some(path.to_owned()), &sources.default_paths(), sources.set)
}

fn apply_overrides(
    text: &str,
    file: Option<PathBuf>,
    default_paths: &DefaultPaths<'_>,
    set: &[String],
) -> Result<LoadedConfig, ConfigProblems> {
    let DefaultPaths { environment, cwd, .. } = *default_paths;
    let path: Arc<Path> = Arc::from(file.as_deref().unwrap_or(Path::new("satchel.yaml")));
    let parsed = tree::parse(&path, text).and_then(|yaml| Ok((tree::from_yaml(&path, &yaml)?, yaml)));
    let (mut root, yaml) = parsed.map_err(|problem| ConfigProblems(vec![problem]))?;
    let mut problems = Vec::new();
    let playbooks = match &file {
        Some(_) => playbooks::load(&path, &yaml, cwd, &mut problems),
        None => DeclaredPlaybooks { complete: Some(Playbooks::default()), ..DeclaredPlaybooks::default() },
    };
    let ignored_variables =
        overrides::apply_environment(&mut root, environment, &schema::top_level_keys(), &mut problems);
    overrides::apply_set_flags(&mut root, set, &mut problems);
    let CheckReport {
        values,
        mut settings,
        named_paths,
        problems: check_problems,
        structure_problems: misplaced,
        not_built,
        known_keys,
    } = schema_walk::check_tree(&root, schema::schema(), cwd);
    problems.extend(check_problems);
    let mut config: Config = serde_json::from_value(values).expect("checked values can be deserialized");
    config.playbooks = playbooks.complete.clone().unwrap_or_default();
    config.named_paths = named_paths;
    let files = config.playbooks.playbooks().iter().map(|playbook| &*playbook.file).chain(file.as_deref());
    config.source_files = files.map(|file| cwd.join(file)).collect();
    config.storage.set_default_dirs(default_paths, file.as_deref());
    let mut resolver = Resolver { root: &root, environment, cwd, settings: &mut settings, problems: &mut problems };
    config.resolve(&mut resolver, &playbooks);
    problems.extend(misplaced);
    let warnings = ignored_variables
        .iter()
        .map(|variable| suggestions::describe_ignored_variable(variable, &known_keys))
        .collect();
    problems.sort_by_key(|problem| problem.origin.sort_key());
    if !problems.is_empty() {
        return Err(ConfigProblems(problems));
    }
    let is_found = |file: &PathBuf| default_paths.named_file().is_none() && !default_paths.is_service_file(file);
    let found_file = file.as_ref().filter(|file| is_found(file)).map(|file| cwd.join(file));
    Ok(LoadedConfig { config, not_built, warnings, settings, file, found_file })
}

/// Reads the text of a file of the configuration.
fn read_file(path: &Path, cwd: &Path) -> Result<String, ConfigProblem> {
    let problem = |reason: String| {
        let message = format!("the configuration file {} {reason}", path.display());
        ConfigProblem { origin: SettingOrigin::Default, message }
    };
    let read_error = |error: std::io::Error| problem(format!("can't be read: {error}"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(cwd.join(path)).map_err(read_error)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(problem(format!("is larger than {}", satchel_domain::size::format_bytes(MAX_FILE_BYTES))));
    }
    String::from_utf8(bytes)
        .map_err(|error| problem(format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))
}
