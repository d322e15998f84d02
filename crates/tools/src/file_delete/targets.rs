//! What a call of `file_delete` is about: named paths, or the files that match a pattern.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};
use satchel_domain::{ConversationId, WorkspacePath};
use satchel_ports::{ToolError, WorkspaceError};

use crate::{
    ToolServices, error,
    file_walk::{FileWalk, TooManyEntries},
};

/// The most files that one call deletes.
const MAX_FILES: usize = 1_000;

/// What a call asks for.
pub(super) enum DeleteRequest {
    /// These, each as named.
    Paths {
        paths: BTreeSet<WorkspacePath>,
        /// Directories with everything in them.
        recursive: bool,
    },
    /// The files beneath a directory whose paths match.
    Pattern { directory: WorkspacePath, pattern: GlobMatcher, given: WorkspacePath },
}

/// A file or directory to move.
#[derive(Debug)]
pub(super) struct DeleteEntry {
    pub(super) path: WorkspacePath,
    /// The bytes of the file, or of all files in the directory; `None` where they were not all counted.
    pub(super) bytes: Option<u64>,
}

/// What a call deletes.
#[derive(Debug, Default)]
pub(super) struct DeleteTargets {
    /// The files and directories to move.
    pub(super) entries: Vec<DeleteEntry>,
    /// The first files that this deletes, those in directories included.
    pub(super) files: Vec<WorkspacePath>,
    /// How many there are in all.
    pub(super) file_count: usize,
    pub(super) bytes: u64,
    /// Whether there are even more, which were not counted.
    pub(super) has_more: bool,
}

impl DeleteRequest {
    pub(super) fn new(
        path: Option<WorkspacePath>,
        paths: Vec<WorkspacePath>,
        recursive: bool,
    ) -> Result<Self, ToolError> {
        let path = match (path, paths.is_empty()) {
            (Some(path), true) => path,
            (None, false) => return Ok(Self::Paths { paths: without_nested(paths, recursive), recursive }),
            (Some(_), false) => return Err(error::tool_error("both `path` and `paths` are given: give one of them")),
            (None, true) => return Err(error::tool_error("neither `path` nor `paths` is given: name what to delete")),
        };
        match split_pattern(&path) {
            None => Ok(Self::Paths { paths: BTreeSet::from([path]), recursive }),
            Some(_) if recursive => Err(error::tool_error(
                "`recursive` is for a directory, but `path` is a pattern: `**` in it matches in all directories",
            )),
            Some((directory, pattern)) => {
                Ok(Self::Pattern { directory, pattern: parse_pattern(&pattern)?, given: path })
            }
        }
    }

    /// Whether it can be about more than one file.
    pub(super) fn can_match_several(&self) -> bool {
        match self {
            Self::Paths { paths, recursive } => *recursive || paths.len() > 1,
            Self::Pattern { .. } => true,
        }
    }

    pub(super) fn is_recursive(&self) -> bool {
        matches!(self, Self::Paths { recursive: true, .. })
    }
}

/// Leaves out what is deleted with a directory anyway.
fn without_nested(paths: Vec<WorkspacePath>, recursive: bool) -> BTreeSet<WorkspacePath> {
    let paths: BTreeSet<WorkspacePath> = paths.into_iter().collect();
    let is_nested = |path: &WorkspacePath| {
        paths
            .iter()
            .any(|other| path.to_string().strip_prefix(&other.to_string()).is_some_and(|rest| rest.starts_with('/')))
    };
    paths.iter().filter(|path| !(recursive && is_nested(path))).cloned().collect()
}

/// Splits a path at its first component that is a pattern.
fn split_pattern(path: &WorkspacePath) -> Option<(WorkspacePath, String)> {
    let components: Vec<&str> = path.relative().split('/').collect();
    let first = components.iter().position(|component| component.contains(['*', '?', '[', '{']))?;
    let directory = format!("{}/{}", path.mount(), components[..first].join("/")).parse().ok()?;
    Some((directory, components[first..].join("/")))
}

fn parse_pattern(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| {
        error::tool_error(format!(
            "argument `path`: `{pattern}` is not a pattern ({}); name a file that is called so with `paths`",
            error.kind()
        ))
    })
}

/// Finds what a call is about.
///
/// # Errors
/// When a pattern matches nothing, or there are too many files.
pub(super) async fn find_targets(
    services: &ToolServices,
    conversation: &ConversationId,
    request: &DeleteRequest,
) -> Result<DeleteTargets, ToolError> {
    let mut targets = DeleteTargets::default();
    match request {
        DeleteRequest::Paths { paths, .. } => {
            for path in paths {
                let bytes_before = targets.bytes;
                targets.add_tree(services, conversation, path, |_| true).await;
                let bytes = (!targets.has_more).then_some(targets.bytes - bytes_before);
                targets.entries.push(DeleteEntry { path: path.clone(), bytes });
            }
        }
        DeleteRequest::Pattern { directory, pattern, given } => {
            let beneath = directory.relative();
            let is_match = |path: &WorkspacePath| {
                if path == given {
                    return true;
                }
                let relative = path.relative().strip_prefix(beneath).unwrap_or_default();
                pattern.is_match(relative.trim_start_matches('/'))
            };
            targets.add_tree(services, conversation, directory, is_match).await;
            if targets.files.is_empty() && !targets.has_more {
                return Err(error::tool_error(format!("nothing was deleted: no file matches `{given}`")));
            }
            if targets.file_count > targets.files.len() {
                return Err(error::tool_error(format!(
                    "nothing was deleted: more than {MAX_FILES} files match `{given}`; delete them in smaller groups"
                )));
            }
            if targets.has_more {
                return Err(error::tool_error(format!(
                    "nothing was deleted: `{directory}` holds more than {} files and directories, so that not all of them \
                     could be compared with `{given}`; give a pattern for a smaller directory",
                    services.limits.search_files
                )));
            }
            // A file that is called so, such as `photo [1].jpg`, is meant alone.
            if targets.files.contains(given) {
                targets = DeleteTargets::default();
                targets.add_tree(services, conversation, given, |_| true).await;
            }
            let entry = |path: &WorkspacePath| DeleteEntry { path: path.clone(), bytes: None };
            targets.entries = targets.files.iter().map(entry).collect();
        }
    }
    Ok(targets)
}

impl DeleteTargets {
    fn add_file(&mut self, path: WorkspacePath, bytes: u64) {
        self.file_count += 1;
        self.bytes += bytes;
        if self.files.len() < MAX_FILES {
            self.files.push(path);
        }
    }

    /// Adds the file at a path, or the matching ones beneath it.
    async fn add_tree(
        &mut self,
        services: &ToolServices,
        conversation: &ConversationId,
        path: &WorkspacePath,
        is_match: impl Fn(&WorkspacePath) -> bool,
    ) {
        let workspace = &services.workspace;
        let mut walk = match FileWalk::start(workspace, conversation, path, services.limits.search_files).await {
            // A file. One that can't be opened is still deleted.
            Err(WorkspaceError::NotADirectory(_)) => {
                let opened = workspace.read(conversation, path).await;
                return self.add_file(path.clone(), opened.map_or(0, |file| file.bytes));
            }
            // What is missing is reported where it can't be deleted.
            Err(_) => return,
            Ok(walk) => walk,
        };
        loop {
            match walk.next().await {
                Ok(Some(file)) if is_match(&file.path) => self.add_file(file.path, file.bytes),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(TooManyEntries) => {
                    self.has_more = true;
                    return;
                }
            }
        }
    }
}
