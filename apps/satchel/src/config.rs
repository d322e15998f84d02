//! The configuration: one file, the environment and `--set`, read into one [`Config`] in which every value is checked.
//!
//! Each part of Satchel has its own section in a file of its own; [`load`] puts them together. Precedence, weakest
//! first: default, file, environment, `--set`. A value that wins replaces the other whole, lists too.

pub mod attachments;
pub mod channels;
pub mod delivery;
mod descriptions;
mod fields;
mod later;
mod limits;
pub(crate) mod locate;
pub(crate) mod masking;
pub mod models;
pub mod origin;
mod overlay;
mod reader;
pub mod schedules;
pub mod schema;
pub mod speech;
pub mod storage;
mod text_file;
pub mod tools;
mod tree;
pub mod turn;
mod units;
mod unknown;
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
use satchel_intake::access::Access;

use self::{
    origin::{Origin, Problem, Problems},
    reader::Reader,
    tree::Node,
};
use crate::schedules::Schedule;

/// The variable that names the configuration file.
pub(crate) const CONFIG_VARIABLE: &str = "SATCHEL_CONFIG";

/// The longest instructions; they are a part of every request.
const MAX_INSTRUCTIONS_BYTES: u64 = 100_000;

/// The longest configuration file that is read.
const LONGEST_FILE: u64 = 4_000_000;

/// Everything that can be configured, checked and with its defaults.
#[derive(Debug)]
pub struct Config {
    /// What is logged: a filter such as `info` or `satchel=debug`.
    pub log: Option<String>,
    /// Who the assistant is; `None` for Satchel alone.
    pub instructions: Option<String>,
    /// Which model answers.
    pub models: models::Models,
    /// Where the ledger and the files are kept.
    pub storage: storage::Storage,
    /// The directories that tools work in.
    pub workspace: storage::WorkspaceSettings,
    /// What carries events.
    pub bus: storage::Bus,
    /// How replies go out.
    pub delivery: delivery::Delivery,
    /// How far one turn may go.
    pub turn: turn::TurnSettings,
    /// What tools may do.
    pub tools: tools::ToolSettings,
    /// How files come in.
    pub attachments: attachments::AttachmentSettings,
    /// What speaks and what listens.
    pub speech: speech::SpeechConfig,
    /// Telegram.
    pub telegram: channels::Telegram,
    /// Discord.
    pub discord: channels::Discord,
    /// The web page.
    pub web: web::Web,
    /// The figures.
    pub metrics: web::Metrics,
    /// What happens at a time of its own, switched off or on.
    pub schedules: Vec<Schedule>,
}

impl Config {
    /// Who may talk on which platform. The page and the terminal have other ways to know their people: whoever gets
    /// through to them owns this Satchel.
    #[must_use]
    pub fn access(&self) -> Access {
        let own = ["console", "web"].map(|name| ChannelName::new(name).expect("the names are lower-case letters"));
        Access::of([self.telegram.access(), self.discord.access()]).with_owner_on(own)
    }
}

/// What the configuration is read from. Nothing else is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
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
pub struct Setting {
    /// The dotted key.
    pub key: String,
    /// The effective value; null when there is none.
    pub value: serde_json::Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// A configuration without mistakes.
#[derive(Debug)]
pub struct Loaded {
    config: Config,
    not_built: Vec<Problem>,
    /// What was given without any effect, such as a variable that names no setting.
    pub warnings: Vec<Problem>,
    /// Every setting, by its key.
    pub settings: Vec<Setting>,
    /// The file that was read, as it was found.
    pub file: Option<PathBuf>,
}

impl Loaded {
    /// The configuration to run with.
    ///
    /// # Errors
    /// When it switches on something that isn't built yet.
    pub fn ready(self) -> Result<Config, Problems> {
        self.check_built()?;
        Ok(self.config)
    }

    /// Checks that everything that it switches on is built.
    ///
    /// # Errors
    /// When something isn't.
    pub fn check_built(&self) -> Result<(), Problems> {
        match self.not_built.is_empty() {
            true => Ok(()),
            false => Err(Problems(self.not_built.clone())),
        }
    }

    /// The configuration as it is, for whoever looks at it without running with it.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the configuration switches on and isn't built yet.
    pub fn not_built(&self) -> impl Iterator<Item = &Problem> {
        self.not_built.iter()
    }
}

/// Reads the configuration.
///
/// # Errors
/// With everything that is wrong, as far as it could be read.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let file = locate::config_file(sources.file, sources.environment, sources.cwd);
    let root = match &file {
        Some(path) => read_file(path, sources.cwd).map_err(|problem| Problems(vec![problem]))?,
        None => Node::empty_section(),
    };
    lay_over(root, file, sources)
}

/// Reads a configuration that is about to be written to `path`, with the environment and the command line laid over it.
///
/// # Errors
/// With everything that is wrong.
pub fn load_text(path: &Path, text: &str, sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let root = tree::parse(&Arc::from(path), text).map_err(|problem| Problems(vec![problem]))?;
    lay_over(root, Some(path.to_owned()), sources)
}

fn lay_over(mut root: Node, file: Option<PathBuf>, sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let mut problems = Vec::new();
    let plain_keys = schema::plain_keys();
    let without_effect = overlay::lay_environment(&mut root, sources.environment, &plain_keys, &mut problems);
    overlay::lay_command_line(&mut root, sources.set, &mut problems);
    let mut reader = Reader::new(root, sources.cwd, problems);
    let config = read(&mut reader, sources);
    let warnings = reader.warnings_of(&without_effect);
    let mut findings = reader.finish();
    findings.problems.sort_by_key(|problem| problem.origin.place());
    if !findings.problems.is_empty() {
        return Err(Problems(findings.problems));
    }
    Ok(Loaded { config, not_built: findings.not_built, warnings, settings: findings.settings, file })
}

/// Takes every section out of the tree.
fn read(reader: &mut Reader<'_>, sources: &Sources<'_>) -> Config {
    let default_data_dir = locate::data_dir(sources.environment, sources.cwd);
    let mut config = Config {
        log: reader.text("log"),
        instructions: reader.text_or_file("instructions", MAX_INSTRUCTIONS_BYTES),
        models: models::read(reader, sources.environment),
        storage: storage::read(reader, &default_data_dir),
        workspace: storage::read_workspace(reader),
        bus: storage::read_bus(reader),
        delivery: delivery::read(reader),
        turn: turn::read(reader),
        tools: tools::read(reader),
        attachments: attachments::read(reader),
        speech: speech::read(reader, sources.environment),
        telegram: channels::read_telegram(reader),
        discord: channels::read_discord(reader),
        web: web::read(reader),
        metrics: web::read_metrics(reader),
        schedules: Vec::new(),
    };
    config.schedules = schedules::read(reader, &config.web);
    later::read(reader);
    config
}

fn read_file(path: &Path, cwd: &Path) -> Result<Node, Problem> {
    let problem = |reason: String| {
        let message = format!("the configuration file {} {reason}", path.display());
        Problem { origin: Origin::Default, message }
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
