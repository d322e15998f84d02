//! The origin of a setting, and the problems of the configuration.

use std::{fmt, path::Path, path::PathBuf, sync::Arc};

/// Where a value was given. `rank` says which origin wins over which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    /// In the configuration file.
    File {
        /// The file, as it was found.
        path: Arc<Path>,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
    },
    /// In this environment variable.
    Environment(String),
    /// On the command line, with `--set`.
    CommandLine,
    /// In the file that a `…_file` key names.
    ValueFile {
        /// The file that was read.
        path: PathBuf,
        /// Where the `…_file` key was given.
        named_by: Box<SettingOrigin>,
    },
}

impl SettingOrigin {
    /// The precedence: a value of a higher rank replaces one of a lower rank.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::CommandLine => 3,
            Self::ValueFile { named_by, .. } => named_by.rank(),
        }
    }

    /// The sort key of problems: the file from top to bottom, then the rest.
    pub(crate) fn sort_key(&self) -> (u8, u64, u64) {
        match self {
            Self::File { line, column, .. } => (self.rank(), *line, *column),
            _ => (self.rank(), 0, 0),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::CommandLine => f.write_str("--set"),
            Self::ValueFile { path, named_by } => write!(f, "{} ({named_by})", path.display()),
        }
    }
}

/// One mistake in the configuration, or one enabled part that isn't built yet. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where the mistake was made.
    pub origin: SettingOrigin,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            SettingOrigin::Default => f.write_str(&self.message),
            SettingOrigin::File { path, line, column } => {
                write!(f, "{}:{line}:{column}: {}", path.display(), self.message)
            }
            SettingOrigin::Environment(name) => write!(f, "{name}: {}", self.message),
            SettingOrigin::CommandLine => write!(f, "--set: {}", self.message),
            SettingOrigin::ValueFile { named_by, .. } => {
                Self { origin: (**named_by).clone(), message: self.message.clone() }.fmt(f)
            }
        }
    }
}

/// Everything that is wrong with the configuration, as far as it could be read; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\nerror: ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}
