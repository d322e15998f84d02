//! Expansion: each URL, path and match of a glob becomes an item of its own, in the author's order.
//!
//! Which directories have to be listed is decided first, then all globs that begin in a directory are matched in one pass
//! over its files, so that a thousand declarations read a directory once.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::{Glob, GlobBuilder, GlobSetBuilder};
use satchel_ports::{DeclaredFiles, FileEntry};

use crate::{
    declaration::Declaration,
    item::{Item, ItemSource, Scope},
    problem::{DeclarationProblem, SourcePosition},
    render::{RenderedDeclaration, RenderedSource},
};

/// What a declaration expands to.
#[derive(Debug, Clone, PartialEq)]
pub enum Expanded {
    Item(Box<Item>),
    /// An optional declaration whose glob matches nothing.
    Unmatched(UnmatchedGlob),
}

/// An optional glob without a match, of which the model is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedGlob {
    pub pattern: String,
    pub scope: Scope,
    /// The path of the declaration, such as `tasks.classify.attachments[0]`.
    pub item: String,
    pub position: SourcePosition,
}

/// A rendered declaration and where it stands.
pub struct ExpansionInput<'a> {
    pub declaration: &'a Declaration,
    pub scope: Scope,
    pub rendered: RenderedDeclaration,
}

/// Expands declarations, each to its own list.
///
/// # Errors
/// With every glob that is malformed, leaves its root, or matches nothing though it isn't optional.
pub async fn expand(
    inputs: Vec<ExpansionInput<'_>>,
    files: &dyn DeclaredFiles,
) -> Result<Vec<Vec<Expanded>>, Vec<DeclarationProblem>> {
    let mut globs = GlobTable::default();
    let mut problems = Vec::new();
    for input in &inputs {
        for source in &input.rendered.sources {
            if let RenderedSource::Pattern(pattern, position) = source
                && is_glob(pattern)
                && let Err(message) = globs.add(&input.declaration.root, pattern)
            {
                problems.push(input.declaration.problem(position, message));
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let matches = globs.match_files(files).await;
    let mut expanded = Vec::with_capacity(inputs.len());
    for input in inputs {
        match expand_one(input, &matches, files).await {
            Ok(items) => expanded.push(items),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(expanded) } else { Err(problems) }
}

async fn expand_one(
    input: ExpansionInput<'_>,
    matches: &GlobMatches,
    files: &dyn DeclaredFiles,
) -> Result<Vec<Expanded>, DeclarationProblem> {
    let ExpansionInput { declaration, scope, rendered: RenderedDeclaration { kind, sources, name, mime, meta } } =
        input;
    let (root, meta) = (Arc::clone(&declaration.root), Arc::new(meta));
    let item = |source: ItemSource| {
        Expanded::Item(Box::new(Item {
            kind,
            source,
            name: name.clone(),
            mime: mime.clone(),
            meta: Arc::clone(&meta),
            optional: declaration.optional,
            bounds: declaration.bounds,
            scope,
            item: declaration.item.clone(),
            position: declaration.position.clone(),
        }))
    };
    let mut expanded = Vec::new();
    for source in sources {
        match source {
            RenderedSource::Url(url) => expanded.push(item(ItemSource::Url(url))),
            RenderedSource::Pattern(pattern, position) if is_glob(&pattern) => {
                let found = match matches.find(&root, &pattern) {
                    Ok(found) => found,
                    Err(_) if declaration.optional => &[],
                    Err(reason) => return Err(declaration.problem(&position, reason.to_owned())),
                };
                expanded.extend(found.iter().map(|file| {
                    let (path, canonical) = (PathBuf::from(&file.path), file.canonical.clone());
                    item(ItemSource::File { root: Arc::clone(&root), path, canonical })
                }));
                match (found.is_empty(), declaration.optional) {
                    (false, _) => {}
                    (true, true) => expanded.push(Expanded::Unmatched(UnmatchedGlob {
                        pattern,
                        scope,
                        item: declaration.item.clone(),
                        position,
                    })),
                    (true, false) => {
                        let message = format!(
                            "no file matches {pattern:?} beneath {}; `optional: true` allows that",
                            root.display()
                        );
                        return Err(declaration.problem(&position, message));
                    }
                }
            }
            RenderedSource::Path(path, _) | RenderedSource::Pattern(path, _) => {
                let path = PathBuf::from(path);
                let canonical = files.canonical_path(&root, &path).await.unwrap_or_else(|| root.join(&path));
                expanded.push(item(ItemSource::File { root: Arc::clone(&root), path, canonical }));
            }
        }
    }
    Ok(expanded)
}

/// Whether an entry of `paths` is a glob; all others are paths.
#[must_use]
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// Checks a glob, before any file is read.
///
/// # Errors
/// When it is malformed or could leave its root.
pub fn check_glob(pattern: &str) -> Result<(), String> {
    parse_glob(pattern).map(drop)
}

/// A glob with the directory in which all of its matches are.
struct ParsedGlob {
    glob: Glob,
    /// The part before the first segment with a wildcard, without a slash at its end.
    directory: String,
    /// Whether matches can be in directories beneath that one.
    is_recursive: bool,
}

fn parse_glob(pattern: &str) -> Result<ParsedGlob, String> {
    if pattern.starts_with('/') {
        return Err(format!("{pattern:?} begins at the root of the file system: globs are relative to their file"));
    }
    // As in the listing of files, whose paths hold none of these.
    let segments = pattern.split('/').filter(|segment| !matches!(*segment, "" | "."));
    let relative = segments.collect::<Vec<_>>().join("/");
    if relative.split(['/', '{', ',', '}']).any(|segment| segment == "..") {
        return Err(format!("{pattern:?} goes up with `..`: globs stay beneath the directory of their file"));
    }
    let glob = GlobBuilder::new(&relative)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| format!("{pattern:?} is not a glob: {}", error.kind()))?;
    let literal_end = relative.find(['*', '?', '[', '{', '\\']).unwrap_or(relative.len());
    let directory = relative[..literal_end].rfind('/').map_or("", |slash| &relative[..slash]);
    let beneath = &relative[directory.len()..];
    let is_recursive = beneath.trim_start_matches('/').contains('/') || beneath.contains("**");
    Ok(ParsedGlob { glob, directory: directory.to_owned(), is_recursive })
}

/// The globs of all declarations, by root.
#[derive(Default)]
struct GlobTable(BTreeMap<PathBuf, BTreeMap<String, ParsedGlob>>);

impl GlobTable {
    fn add(&mut self, root: &Path, pattern: &str) -> Result<(), String> {
        let patterns = self.0.entry(root.to_owned()).or_default();
        if !patterns.contains_key(pattern) {
            patterns.insert(pattern.to_owned(), parse_glob(pattern)?);
        }
        Ok(())
    }

    async fn match_files(self, files: &dyn DeclaredFiles) -> GlobMatches {
        let mut matches = GlobMatches::default();
        for (root, patterns) in self.0 {
            let found = match_root(&root, patterns, files).await;
            matches.0.insert(root, found);
        }
        matches
    }
}

/// Lists each directory that a glob begins in once, and matches every glob against the files beneath its directory. A
/// directory that can't be listed fails the globs that begin in it.
async fn match_root(
    root: &Path,
    patterns: BTreeMap<String, ParsedGlob>,
    files: &dyn DeclaredFiles,
) -> BTreeMap<String, PatternMatches> {
    let mut listed = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    for (directory, is_recursive) in directories_to_list(&patterns) {
        match files.list(root, &directory, is_recursive).await {
            Ok(files) => listed.extend(files.into_iter().map(|file| (file.path.clone(), file))),
            Err(error) => drop(failures.insert(directory, describe_error(&error))),
        }
    }
    let mut groups: BTreeMap<String, Vec<(String, Glob)>> = BTreeMap::new();
    for (name, ParsedGlob { glob, directory, .. }) in patterns {
        groups.entry(directory).or_default().push((name, glob));
    }
    let mut matches = BTreeMap::new();
    for (directory, globs) in groups {
        let found = match failures.get(&directory) {
            Some(failure) => Err(failure.clone()),
            None => match_globs(&globs, files_beneath(&listed, &directory)),
        };
        let names = globs.into_iter().map(|(name, _)| name);
        match found {
            Ok(found) => matches.extend(names.zip(found.into_iter().map(Ok))),
            Err(reason) => matches.extend(names.map(|name| (name, Err(reason.clone())))),
        }
    }
    matches
}

/// The files in a directory and beneath it, in the order of their paths.
fn files_beneath<'a>(listed: &'a BTreeMap<String, FileEntry>, directory: &str) -> impl Iterator<Item = &'a FileEntry> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    listed.range(prefix.clone()..).take_while(move |(path, _)| path.starts_with(&prefix)).map(|(_, file)| file)
}

/// The matches of each glob, in the order of the files. All globs begin in one directory: with those of many the matcher
/// would have states of its own for each of them.
fn match_globs<'a>(
    globs: &[(String, Glob)],
    files: impl Iterator<Item = &'a FileEntry>,
) -> Result<Vec<Vec<FileEntry>>, String> {
    let mut builder = GlobSetBuilder::new();
    for (_, glob) in globs {
        builder.add(glob.clone());
    }
    let set = builder.build().map_err(|error| format!("the globs are too complicated: {}", error.kind()))?;
    let mut matches = vec![Vec::new(); globs.len()];
    let mut indexes = Vec::new();
    for file in files {
        set.matches_into(&file.path, &mut indexes);
        for index in &indexes {
            matches[*index].push(file.clone());
        }
    }
    Ok(matches)
}

/// An error with its causes.
fn describe_error(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// The directories that globs begin in, and whether their subdirectories are needed.
fn directories_to_list(patterns: &BTreeMap<String, ParsedGlob>) -> BTreeMap<String, bool> {
    let mut directories = BTreeMap::new();
    for parsed in patterns.values() {
        *directories.entry(parsed.directory.clone()).or_default() |= parsed.is_recursive;
    }
    directories
}

/// The matches of one pattern, or why its directory can't be listed.
type PatternMatches = Result<Vec<FileEntry>, String>;

/// What each glob matches, by root and pattern.
#[derive(Default)]
struct GlobMatches(BTreeMap<PathBuf, BTreeMap<String, PatternMatches>>);

impl GlobMatches {
    fn find(&self, root: &Path, pattern: &str) -> Result<&[FileEntry], &str> {
        match self.0.get(root).and_then(|patterns| patterns.get(pattern)) {
            Some(Ok(files)) => Ok(files),
            Some(Err(reason)) => Err(reason),
            None => Ok(&[]),
        }
    }
}
