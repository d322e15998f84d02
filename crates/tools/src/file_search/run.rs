//! Runs a search: file after file, as streams, up to the limits.

use futures::StreamExt;
use regex::Regex;
use satchel_domain::{WorkspacePath, size::format_bytes};
use satchel_ports::{ToolContext, WorkspaceError};
use serde::Serialize;

use super::{
    excerpt::line_excerpt,
    lines::{LineSplitter, NotTextError},
    query::SearchQuery,
};
use crate::{
    ToolLimits, ToolServices,
    file_walk::{FileWalk, FoundFile, TooManyEntries},
};

/// How much of a file is searched before other tasks run, in bytes.
const SLICE_BYTES: usize = 64 << 10;

/// What a search found.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum SearchMatch {
    /// A line, once however often it matches.
    Line { path: WorkspacePath, line: u64, text: String },
    /// A file, by its name.
    File { path: WorkspacePath, bytes: u64 },
}

/// How many files a search left out.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct SkippedFiles {
    /// They are not text.
    pub(super) binary: u64,
    pub(super) too_large: u64,
    /// They, or directories, could not be read.
    pub(super) unreadable: u64,
}

/// The limit that ended a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchLimit {
    Files,
    Bytes,
    Matches,
}

impl SearchLimit {
    /// Says which limit it is, and how to stay below it.
    pub(super) fn describe(self, limits: &ToolLimits) -> String {
        let (limit, advice) = match self {
            Self::Files => {
                (format!("{} files and directories", limits.search_files), "set `path` to a directory further down")
            }
            Self::Bytes => (format_bytes(limits.search_bytes), "set `path` to a directory further down, or `glob`"),
            Self::Matches => {
                (format!("{} matches", limits.search_matches), "set `path` or `glob`, or a longer `query`")
            }
        };
        format!("the search ended at its limit of {limit}; there may be more: {advice}")
    }
}

/// What a search found, and what it left out.
#[derive(Debug, Default)]
pub(super) struct SearchReport {
    pub(super) matches: Vec<SearchMatch>,
    /// How many files were searched, or compared by name.
    pub(super) files: u64,
    pub(super) skipped: SkippedFiles,
    /// How many lines were so long that only their beginning was searched.
    pub(super) cut_lines: u64,
    pub(super) limit: Option<SearchLimit>,
    bytes: u64,
}

/// Searches a directory and all beneath it, or one file.
///
/// # Errors
/// When there is neither at `base`. A file or directory further down that can't be read is counted instead.
pub(super) async fn search(
    services: &ToolServices,
    context: &ToolContext,
    base: &WorkspacePath,
    query: &SearchQuery,
) -> Result<SearchReport, WorkspaceError> {
    let mut search = SearchRun { services, context, base, query, report: SearchReport::default() };
    let workspace = &services.workspace;
    let mut walk = match FileWalk::start(workspace, &context.conversation, base, services.limits.search_files).await {
        Err(WorkspaceError::NotADirectory(path)) => {
            let bytes = workspace.read(&context.conversation, &path).await?.bytes;
            search.report.limit = search.search_file(FoundFile { path, bytes }).await.err();
            return Ok(search.report);
        }
        walk => walk?,
    };
    search.report.limit = loop {
        let searched = match walk.next().await {
            Ok(Some(file)) => search.search_file(file).await,
            Ok(None) => break None,
            Err(TooManyEntries) => break Some(SearchLimit::Files),
        };
        if let Err(limit) = searched {
            break Some(limit);
        }
        // A cancelled call ends here.
        tokio::task::yield_now().await;
    };
    search.report.skipped.unreadable += walk.unreadable;
    Ok(search.report)
}

struct SearchRun<'s> {
    services: &'s ToolServices,
    context: &'s ToolContext,
    base: &'s WorkspacePath,
    query: &'s SearchQuery,
    report: SearchReport,
}

/// Why nothing of a file counts.
enum FileError {
    Binary,
    TooLarge,
    Unreadable,
    /// It would exceed the limit of the whole search.
    Limit(SearchLimit),
}

impl SearchRun<'_> {
    async fn search_file(&mut self, file: FoundFile) -> Result<(), SearchLimit> {
        if self.query.glob.as_ref().is_some_and(|glob| !glob.matches(path_beneath(self.base, &file.path))) {
            return Ok(());
        }
        let room = self.services.limits.search_matches - self.report.matches.len();
        let found = match &self.query.pattern {
            None => Ok(vec![SearchMatch::File { path: file.path, bytes: file.bytes }]),
            Some(pattern) => self.search_lines(pattern, &file.path, room).await,
        };
        let skipped = &mut self.report.skipped;
        match found {
            Ok(found) => {
                self.report.files += 1;
                let is_too_many = found.len() > room;
                self.report.matches.extend(found.into_iter().take(room));
                return if is_too_many { Err(SearchLimit::Matches) } else { Ok(()) };
            }
            Err(FileError::Binary) => skipped.binary += 1,
            Err(FileError::TooLarge) => skipped.too_large += 1,
            Err(FileError::Unreadable) => skipped.unreadable += 1,
            Err(FileError::Limit(limit)) => return Err(limit),
        }
        Ok(())
    }

    /// The matching lines of a file: all of them, or one more than there is room for.
    async fn search_lines(
        &mut self,
        pattern: &Regex,
        path: &WorkspacePath,
        room: usize,
    ) -> Result<Vec<SearchMatch>, FileError> {
        let ToolServices { workspace, limits, .. } = self.services;
        let file = workspace.read(&self.context.conversation, path).await.map_err(|_| FileError::Unreadable)?;
        if file.bytes > limits.search_file_bytes {
            return Err(FileError::TooLarge);
        }
        if self.report.bytes.saturating_add(file.bytes) > limits.search_bytes {
            return Err(FileError::Limit(SearchLimit::Bytes));
        }
        let (mut content, mut file_bytes) = (file.content, 0);
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        let mut on_line = |line, text: &str| {
            // One match more than there is room for tells that the search ends at its limit.
            if found.len() <= room
                && let Some(matched) = pattern.find(text)
            {
                found.push(SearchMatch::Line { path: path.clone(), line, text: line_excerpt(text, matched.start()) });
            }
        };
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|_| FileError::Unreadable)?;
            (file_bytes, self.report.bytes) = (file_bytes + chunk.len() as u64, self.report.bytes + chunk.len() as u64);
            // It may have grown since it was opened.
            if file_bytes > limits.search_file_bytes {
                return Err(FileError::TooLarge);
            }
            for slice in chunk.chunks(SLICE_BYTES) {
                lines.read_chunk(slice, &mut on_line).map_err(|NotTextError| FileError::Binary)?;
                tokio::task::yield_now().await;
            }
        }
        lines.finish(&mut on_line).map_err(|NotTextError| FileError::Binary)?;
        self.report.cut_lines += lines.cut_lines;
        Ok(found)
    }
}

/// The path of a file beneath a directory; its name if it is the file itself.
fn path_beneath<'p>(base: &WorkspacePath, path: &'p WorkspacePath) -> &'p str {
    let rest = path.relative().strip_prefix(base.relative()).unwrap_or_default();
    match rest.trim_start_matches('/') {
        "" => path.file_name().unwrap_or_default(),
        beneath => beneath,
    }
}
