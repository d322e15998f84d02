//! How documents are read: `documents`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    leaf::{
        address::FilePath,
        amount::{ConfigDuration, Count, Size},
    },
    resolver::Resolver,
};

/// The least memory with which a worker can start and read something, in bytes.
const MIN_MEMORY_BYTES: u64 = 128 << 20;

/// Scaling images, and reading documents: PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, EPUB, EML, HTML, and text in any encoding.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DocumentsConfig {
    /// How many pages of a document are read. Slides and sheets are pages; other texts have pages of some 3,000
    /// characters.
    pub max_pages: Count<1, 10_000>,
    /// How long reading a document, or scaling an image, may take.
    pub timeout: ConfigDuration,
    /// The memory of the worker that reads a document or scales an image; at least `128MiB`. The document itself may have
    /// a quarter of it, the pixels of an image half.
    pub memory: Size,
    /// The program `satchel-decoder`, which reads documents and scales images; by default the one next to the program
    /// `satchel`. Without it only text files are read.
    pub worker: Option<FilePath>,
}

impl Default for DocumentsConfig {
    fn default() -> Self {
        Self {
            max_pages: Count(200),
            timeout: ConfigDuration(Duration::from_secs(30)),
            memory: Size(512 << 20),
            worker: None,
        }
    }
}

impl DocumentsConfig {
    /// Checks that a worker can start.
    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>) {
        if self.memory.0 < MIN_MEMORY_BYTES {
            let message = format!("`documents.memory` must be at least 128MiB, not {} bytes", self.memory.0);
            resolver.report("documents.memory", message);
        }
    }
}
