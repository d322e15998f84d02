//! The configuration: one file, the environment and `--set`, read into one [`Config`] in which every value is checked.
//!
//! Each part of Satchel has its own section in a file of its own; [`load`] puts them together. Precedence, weakest
//! first: default, file, environment, `--set`. A value that wins replaces the other whole, lists too.

pub mod attachments;
pub mod channels;
mod check;
pub mod delivery;
pub mod leaf;
mod limits;
pub mod models;
pub mod origin;
mod overrides;
pub(crate) mod paths;
mod resolve;
pub mod schedules;
pub mod schema;
pub mod speech;
pub mod storage;
mod suggest;
mod text_file;
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

use satchel_domain::ChannelName;
use satchel_intake::access::AccessPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::{
    check::Checked,
    leaf::{list::Declared, secret::Instructions},
    origin::{ConfigProblem, ConfigProblems, SettingOrigin},
    resolve::Resolver,
    schedules::ScheduleConfig,
    tree::ConfigNode,
};
use crate::schedules::Schedule;

/// The variable that names the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "SATCHEL_CONFIG";

/// The longest configuration file that is read.
const LONGEST_FILE: u64 = 4_000_000;

/// Everything that can be configured. A field is the one definition of its setting: its doc comment, type and default are
/// what the schema, `config show` and the guide say.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Config {
    /// What is logged to standard error: a filter such as `info` or `satchel=debug`. By default `warn,satchel=info`, in `chat`
    /// `error,satchel=warn`. `--log` comes first.
    pub log: Option<String>,
    /// Who the assistant is and how it should answer, in words for the model; added to what Satchel itself tells it. At
    /// most 100 KB.
    pub instructions: Option<Instructions>,
    #[serde(flatten)]
    pub models: models::ModelsConfig,
    pub storage: storage::StorageConfig,
    pub workspace: storage::WorkspaceConfig,
    pub bus: storage::BusConfig,
    pub delivery: delivery::DeliveryConfig,
    pub turn: turn::TurnConfig,
    pub tools: tools::ToolsConfig,
    pub attachments: attachments::AttachmentsConfig,
    pub speech: speech::SpeechConfig,
    pub telegram: channels::TelegramConfig,
    pub discord: channels::DiscordConfig,
    pub web: web::WebConfig,
    pub metrics: web::MetricsConfig,
    /// Scheduled tasks, each under a name you choose.
    #[serde(rename = "schedules")]
    #[schemars(
        with = "std::collections::BTreeMap<String, ScheduleConfig>",
        extend("propertyNames" = json!({ "pattern": r"^[A-Za-z0-9_-]{1,64}$" }))
    )]
    declared_schedules: Vec<ScheduleConfig>,
    /// The schedules as they run, switched off or on.
    #[serde(skip)]
    pub schedules: Vec<Schedule>,
    /// Agents of your own. Not built yet.
    #[schemars(extend("x-default" = "0 declared", "x-next" = "agents of your own"))]
    agents: Declared,
    /// Tasks. Not built yet.
    #[schemars(extend("x-default" = "0 declared", "x-next" = "tasks"))]
    tasks: Declared,
    /// MCP servers whose tools the model may use. Not built yet.
    #[schemars(extend("x-default" = "0 declared", "x-next" = "MCP servers"))]
    mcp: Declared,
}

impl Config {
    /// Who may talk on which platform. The page and the terminal have other ways to know their people: whoever gets
    /// through to them owns this Satchel.
    #[must_use]
    pub fn access(&self) -> AccessPolicy {
        let own = ["console", "web"].map(|name| ChannelName::new(name).expect("the names are lower-case letters"));
        AccessPolicy::new([self.telegram.access(), self.discord.access()]).with_owner_on(own)
    }

    /// Finds out what depends on the machine and on several settings, and reports what they contradict.
    fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        self.models.resolve(resolver);
        self.storage.resolve(resolver);
        self.tools.resolve(resolver);
        self.attachments.resolve(resolver);
        self.speech.resolve(resolver);
        self.telegram.resolve(resolver);
        self.discord.resolve(resolver);
        self.web.resolve(resolver);
        let hosted = schedules::hosted_channels(resolver, &self.web);
        let schedules = self.declared_schedules.iter();
        self.schedules = schedules.filter_map(|schedule| schedule.resolve(resolver, &hosted)).collect();
    }
}

/// What the configuration is read from. Nothing else is looked at.
#[derive(Debug, Clone, Copy)]
pub struct ConfigSources<'a> {
    /// The file that `--config` names.
    pub file: Option<&'a Path>,
    /// The `KEY=VALUE` pairs of `--set`.
    pub set: &'a [String],
    /// The environment.
    pub environment: &'a [(OsString, OsString)],
    /// The working directory.
    pub cwd: &'a Path,
}

/// One setting as `config show` prints it. A secret is masked here already.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSetting {
    /// The dotted key.
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
    /// What was given without any effect, such as a variable that names no setting.
    pub warnings: Vec<ConfigProblem>,
    /// Every setting, by its key.
    pub settings: Vec<ConfigSetting>,
    /// The file that was read, as it was found.
    pub file: Option<PathBuf>,
}

impl LoadedConfig {
    /// The configuration to run with.
    ///
    /// # Errors
    /// When it switches on something that isn't built yet.
    pub fn ready(self) -> Result<Config, ConfigProblems> {
        self.check_built()?;
        Ok(self.config)
    }

    /// Checks that everything that it switches on is built.
    ///
    /// # Errors
    /// When something isn't.
    pub fn check_built(&self) -> Result<(), ConfigProblems> {
        match self.not_built.is_empty() {
            true => Ok(()),
            false => Err(ConfigProblems(self.not_built.clone())),
        }
    }

    /// The configuration as it is, for whoever looks at it without running with it.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the configuration switches on and isn't built yet.
    pub fn not_built(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.not_built.iter()
    }
}

/// Reads the configuration.
///
/// # Errors
/// With everything that is wrong, as far as it could be read.
pub fn load(sources: &ConfigSources<'_>) -> Result<LoadedConfig, ConfigProblems> {
    let file = paths::config_file(sources.file, sources.environment, sources.cwd);
    let root = match &file {
        Some(path) => read_file(path, sources.cwd).map_err(|problem| ConfigProblems(vec![problem]))?,
        None => ConfigNode::empty_section(),
    };
    apply_overrides(root, file, sources)
}

/// Reads a configuration that is about to be written to `path`, with the environment and the command line laid over it.
///
/// # Errors
/// With everything that is wrong.
pub fn load_text(path: &Path, text: &str, sources: &ConfigSources<'_>) -> Result<LoadedConfig, ConfigProblems> {
    let root = tree::parse(&Arc::from(path), text).map_err(|problem| ConfigProblems(vec![problem]))?;
    apply_overrides(root, Some(path.to_owned()), sources)
}

fn apply_overrides(
    mut root: ConfigNode,
    file: Option<PathBuf>,
    sources: &ConfigSources<'_>,
) -> Result<LoadedConfig, ConfigProblems> {
    let mut problems = Vec::new();
    let without_effect =
        overrides::apply_environment(&mut root, sources.environment, &schema::plain_keys(), &mut problems);
    overrides::apply_set_flags(&mut root, sources.set, &mut problems);
    let Checked { values, mut settings, problems: mistakes, misplaced, not_built, known } =
        check::check(&root, schema::schema(), sources.cwd);
    problems.extend(mistakes);
    let mut config: Config = serde_json::from_value(values).expect("the check lets through what can be read");
    let ConfigSources { environment, cwd, .. } = *sources;
    let (settings_shown, mistakes) = (&mut settings, &mut problems);
    config.resolve(&mut Resolver { root: &root, environment, cwd, settings: settings_shown, problems: mistakes });
    problems.extend(misplaced);
    let warnings = without_effect.iter().map(|variable| suggest::without_effect(variable, &known)).collect();
    problems.sort_by_key(|problem| problem.origin.sort_key());
    if !problems.is_empty() {
        return Err(ConfigProblems(problems));
    }
    Ok(LoadedConfig { config, not_built, warnings, settings, file })
}

fn read_file(path: &Path, cwd: &Path) -> Result<ConfigNode, ConfigProblem> {
    let problem = |reason: String| {
        let message = format!("the configuration file {} {reason}", path.display());
        ConfigProblem { origin: SettingOrigin::Default, message }
    };
    let failed = |error: std::io::Error| problem(format!("can't be read: {error}"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(cwd.join(path)).map_err(failed)?;
    file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(problem(format!("is larger than {}", satchel_domain::size::format_bytes(LONGEST_FILE))));
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| problem(format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))?;
    tree::parse(&Arc::from(path), &text)
}
