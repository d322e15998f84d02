//! How documents are read: `documents`.

use std::{ffi::OsString, time::Duration};

use satchel_decoders::RecognitionSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    leaf::{
        address::FilePath,
        amount::{ConfigDuration, Count, Size, SizeOrZero},
        list::Texts,
    },
    resolver::Resolver,
    speech::has_no_program,
};

/// The least memory with which a worker can start and read something, in bytes.
const MIN_MEMORY_BYTES: u64 = 128 << 20;

/// Scaling images, decoding recordings, and reading documents: PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, EPUB, EML, HTML, and text in any encoding.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DocumentsConfig {
    /// How many pages of a document are read. Slides and sheets are pages; other texts have pages of some 3,000
    /// characters.
    pub max_pages: Count<1, 10_000>,
    /// How long reading a document, or scaling an image, may take; decoding a recording may take ten times as long.
    pub timeout: ConfigDuration,
    /// The memory of the worker that reads a document, scales an image or decodes a recording; at least `128MiB`. The file
    /// itself may have a quarter of it, the pixels of an image half.
    pub memory: Size,
    /// How much of the disk the text of documents that were read lately may take, so that reading on doesn't decode the
    /// document again. A text is removed with the last attachment that has the document's bytes; `0` keeps none.
    pub cache_quota: SizeOrZero,
    /// Recognises the text of scanned pages. Off by default.
    pub ocr: RecognitionConfig,
    /// The program `satchel-decoder`, which reads documents, scales images and decodes recordings; by default the one next
    /// to the program `satchel`. Without it only text files are read.
    pub worker: Option<FilePath>,
}

/// Recognising the text of scanned pages: a program of your own.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RecognitionConfig {
    /// The program and its arguments, such as `[tesseract, stdin, stdout, -l, eng]`. For each page it reads a PNG or JPEG
    /// file from standard input and writes the text to standard output.
    command: Texts,
    /// How long it may take for one page.
    timeout: ConfigDuration,
    /// The whole environment of the program.
    #[serde(skip)]
    environment: Vec<(OsString, OsString)>,
}

impl RecognitionConfig {
    /// The program; `None` if there is none.
    #[must_use]
    pub fn settings(&self) -> Option<RecognitionSettings> {
        let command: Vec<OsString> = self.command.0.iter().map(OsString::from).collect();
        let (environment, time_limit) = (self.environment.clone(), self.timeout.0);
        (!command.is_empty()).then_some(RecognitionSettings { command, environment, time_limit })
    }
}

impl Default for RecognitionConfig {
    fn default() -> Self {
        let timeout = ConfigDuration(Duration::from_secs(30));
        Self { command: Texts::default(), timeout, environment: Vec::new() }
    }
}

impl Default for DocumentsConfig {
    fn default() -> Self {
        Self {
            max_pages: Count(200),
            timeout: ConfigDuration(Duration::from_secs(30)),
            memory: Size(512 << 20),
            cache_quota: SizeOrZero(256 << 20),
            ocr: RecognitionConfig::default(),
            worker: None,
        }
    }
}

impl DocumentsConfig {
    /// Checks that programs can start.
    pub(super) fn resolve(&mut self, resolver: &mut Resolver<'_>) {
        self.ocr.environment = resolver.program_environment();
        resolver.locate_program("documents.ocr.command", &mut self.ocr.command);
        if !self.ocr.command.0.is_empty() && has_no_program(&self.ocr.command) {
            let message = "`documents.ocr.command` names no program: the program and its arguments, as a list";
            resolver.report("documents.ocr.command", message.to_owned());
        }
        if self.memory.0 < MIN_MEMORY_BYTES {
            let message = format!("`documents.memory` must be at least 128MiB, not {} bytes", self.memory.0);
            resolver.report("documents.memory", message);
        }
    }
}
