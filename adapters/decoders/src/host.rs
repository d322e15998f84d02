//! Satchel's side: a limited number of workers, each of which reads one document.

mod exchange;

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::size::format_bytes;
use satchel_ports::{Blobs, DocumentError, DocumentReader, DocumentRequest, DocumentText};
use satchel_worker_process::{WorkerProgram, WorkerStartError};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::exchange::Exchange;
use crate::protocol::{MAX_LINE_BYTES, MEMORY_OPTION, PROTOCOL_VERSION};

/// The part of a worker's memory that the bytes of the document may take; decoding needs the rest.
const DOCUMENT_MEMORY_DIVISOR: u64 = 4;

/// How documents are read.
#[derive(Debug, Clone)]
pub struct DecoderSettings {
    pub worker: PathBuf,
    /// Whether documents wait for a worker program that doesn't exist yet: one that is still being built. Otherwise
    /// they fail at once.
    pub wait_for_program: bool,
    /// How many pages of a document are read.
    pub max_pages: u32,
    /// How long reading a document may take.
    pub time_limit: Duration,
    /// The memory of a worker in bytes.
    pub memory_bytes: u64,
    /// How many documents are read at a time.
    pub max_concurrent: usize,
    /// How long a document waits for the worker program and a free worker.
    pub queue_timeout: Duration,
}

impl DecoderSettings {
    /// The defaults for this machine: half of the cores.
    #[must_use]
    pub fn new(worker: PathBuf) -> Self {
        Self {
            worker,
            wait_for_program: false,
            max_pages: 200,
            time_limit: Duration::from_secs(30),
            memory_bytes: 512 << 20,
            max_concurrent: available_parallelism().map_or(1, NonZero::get).div_ceil(2),
            queue_timeout: Duration::from_secs(60),
        }
    }

    fn program(&self) -> WorkerProgram {
        worker_program(&self.worker, self.memory_bytes)
    }

    fn is_program_pending(&self) -> bool {
        self.wait_for_program && !self.worker.is_file()
    }
}

/// Starts one worker, kills it, and returns how long it took to get ready.
///
/// # Errors
/// When it can't be started, or doesn't speak the protocol.
pub async fn probe(worker: &Path, memory_bytes: u64) -> Result<Duration, WorkerStartError> {
    worker_program(worker, memory_bytes).probe().await
}

fn worker_program(path: &Path, memory_bytes: u64) -> WorkerProgram {
    WorkerProgram {
        path: path.to_owned(),
        arguments: vec![MEMORY_OPTION.to_owned(), memory_bytes.to_string()],
        name: "decoder worker",
        protocol_version: PROTOCOL_VERSION,
        max_line_bytes: MAX_LINE_BYTES,
    }
}

/// Reads each document in a worker process of its own.
pub struct DecoderWorkers {
    settings: DecoderSettings,
    blobs: Arc<dyn Blobs>,
    slots: Semaphore,
}

impl DecoderWorkers {
    /// Sets up the workers for documents in this store. None is started before the first document.
    #[must_use]
    pub fn new(settings: DecoderSettings, blobs: Arc<dyn Blobs>) -> Self {
        let slots = Semaphore::new(settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS));
        Self { settings, blobs, slots }
    }

    async fn read_document(&self, request: &DocumentRequest) -> Result<DocumentText, DocumentError> {
        let max_bytes = self.settings.memory_bytes / DOCUMENT_MEMORY_DIVISOR;
        if request.bytes > max_bytes {
            let (bytes, limit) = (format_bytes(request.bytes), format_bytes(max_bytes));
            let reason = format!("it has {bytes}; a document of at most {limit} can be read as text");
            return Err(DocumentError::Unreadable { reason });
        }
        let _slot = self.acquire_slot().await?;
        let worker = self.settings.program().start().await.map_err(|error| {
            tracing::warn!(%error, "no document can be read");
            DocumentError::Unavailable { reason: error.to_string() }
        })?;
        Exchange { request, settings: &self.settings, blobs: self.blobs.as_ref() }.run(worker).await
    }

    async fn acquire_slot(&self) -> Result<SemaphorePermit<'_>, DocumentError> {
        let acquire = async {
            // Before it takes a slot, which others may need as soon as there is a program.
            if self.settings.is_program_pending() {
                self.settings.program().wait_until_exists().await;
            }
            self.slots.acquire().await.expect("the semaphore is never closed")
        };
        timeout(self.settings.queue_timeout, acquire).await.map_err(|_| {
            let reason = match self.settings.is_program_pending() {
                true => "the decoder worker is not built yet; try again in a minute",
                false => "too many documents are being read; try again in a moment",
            };
            DocumentError::Unavailable { reason: reason.to_owned() }
        })
    }
}

#[async_trait]
impl DocumentReader for DecoderWorkers {
    async fn read_text(
        &self,
        request: &DocumentRequest,
        cancel: &CancellationToken,
    ) -> Result<DocumentText, DocumentError> {
        // A worker that is dropped is killed.
        cancel.run_until_cancelled(self.read_document(request)).await.unwrap_or(Err(DocumentError::Cancelled))
    }
}
