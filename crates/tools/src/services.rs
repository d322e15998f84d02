//! The ports that the tools use, and their limits.

use std::sync::Arc;

use satchel_ports::{Archive, Blobs, DocumentReader, Fetcher, ImageScaler, Turns};
use serde::{Deserialize, Serialize};

use crate::AuditedWorkspace;

const MIB: u64 = 1024 * 1024;

/// The limits of the tools, as the operator may set them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolLimits {
    /// The largest file in bytes that a tool writes into the workspace.
    pub save_bytes: u64,
    /// The most files that one `attachment.add` takes.
    pub add_files: usize,
    /// The largest file in bytes that `attachment.add` takes.
    pub add_file_bytes: u64,
    /// The most bytes that one `attachment.add` takes.
    pub add_call_bytes: u64,
    /// The most bytes that the tools of one turn make into attachments.
    pub add_turn_bytes: u64,
    /// The largest file in bytes that is taken from a person; `attachment.download` fetches no larger one either.
    pub inbound_file_bytes: u64,
    /// The largest file in bytes that `attachment.download` takes.
    pub download_file_bytes: u64,
    /// The most bytes that one `attachment.download` takes.
    pub download_call_bytes: u64,
    /// An answer with more bytes than this becomes an internal attachment and a preview.
    pub preview_over_bytes: u64,
    /// The most bytes of text that one `attachment.read` or `file_read` answers with; below `preview_over_bytes`, or
    /// reading on would itself be shortened.
    pub page_bytes: u64,
    /// The most entries that one list answers with.
    pub list_entries: usize,
    /// The largest file in bytes that `file_edit` edits.
    pub edit_bytes: u64,
    /// The most files and directories that one `file_search` looks at.
    pub search_files: usize,
    /// The largest file in bytes that `file_search` reads; larger ones are skipped.
    pub search_file_bytes: u64,
    /// The most bytes that one `file_search` reads.
    pub search_bytes: u64,
    /// The most matches that one `file_search` finds.
    pub search_matches: usize,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            save_bytes: 50 * MIB,
            add_files: 20,
            add_file_bytes: 100 * MIB,
            add_call_bytes: 200 * MIB,
            add_turn_bytes: 500 * MIB,
            inbound_file_bytes: 2 * 1024 * MIB,
            download_file_bytes: 50 * MIB,
            download_call_bytes: 200 * MIB,
            preview_over_bytes: 100 * 1024,
            page_bytes: 64 * 1024,
            list_entries: 200,
            edit_bytes: MIB,
            search_files: 10_000,
            search_file_bytes: 16 * MIB,
            search_bytes: 256 * MIB,
            search_matches: 1_000,
        }
    }
}

/// What the tools work with. Cheap to clone.
#[derive(Clone)]
pub struct ToolServices {
    /// Where files' records are.
    pub archive: Arc<dyn Archive>,
    /// Where the files of a running script are recorded.
    pub turns: Arc<dyn Turns>,
    /// Where files' bytes are.
    pub blobs: Arc<dyn Blobs>,
    /// Where the conversations' own files are.
    pub workspace: AuditedWorkspace,
    /// What fetches files that aren't stored.
    pub fetcher: Arc<dyn Fetcher>,
    /// The hosts that `attachment.download` may ask besides Discord's, by their exact names.
    pub download_hosts: Vec<String>,
    /// What reads documents; `None` where only text files are read.
    pub documents: Option<Arc<dyn DocumentReader>>,
    /// What draws pages of documents; `None` where nothing does.
    pub images: Option<Arc<dyn ImageScaler>>,
    pub limits: ToolLimits,
}
