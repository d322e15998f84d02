//! Satchel's side: a limited number of workers, each of which decodes one file.

mod audio;
mod error;
mod exchange;
mod file_worker;
mod image;
mod media;
mod pages;
mod text;

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
    time::Duration,
};

use satchel_domain::size::format_bytes;
use satchel_ports::Blobs;
use satchel_worker_process::{WorkerProgram, WorkerStartError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use self::text::{CachedDocumentReader, RecognitionSettings, TextCache, TextEvictingBlobs};
use self::{
    error::DecoderError,
    exchange::{DecoderInput, Exchange, OutputCollector},
    file_worker::FileWorker,
};
use crate::protocol::{
    MAX_MESSAGE_CHARS, MAX_TEXT_LINE_BYTES, MEMORY_OPTION, PROTOCOL_VERSION, RequestedOutput, WorkerRequest,
};

/// The part of a worker's memory that the bytes of the file may take; decoding needs the rest.
const INPUT_MEMORY_DIVISOR: u64 = 4;

/// How files are decoded.
#[derive(Debug, Clone)]
pub struct DecoderSettings {
    pub worker: PathBuf,
    /// Whether files wait for a worker program that doesn't exist yet: one that is still being built. Otherwise they
    /// fail at once.
    pub wait_for_program: bool,
    /// How many pages of a document are read.
    pub max_pages: u32,
    /// How long decoding a file may take.
    pub time_limit: Duration,
    /// The memory of a worker in bytes.
    pub memory_bytes: u64,
    /// How many files are decoded at a time. Recordings have places of their own: half as many, and at least one.
    pub max_concurrent: usize,
    /// How long a file waits for the worker program and a free worker.
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

    fn program(&self, max_line_bytes: usize) -> WorkerProgram {
        worker_program(&self.worker, self.memory_bytes, max_line_bytes)
    }

    fn request(&self, mime: &str, bytes: u64, time_limit: Duration, output: RequestedOutput) -> WorkerRequest {
        WorkerRequest {
            mime: mime.chars().take(MAX_MESSAGE_CHARS).collect(),
            bytes,
            // More than the deadline, so that the deadline comes first.
            processor_seconds: time_limit.as_secs().saturating_add(2),
            output,
        }
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
    worker_program(worker, memory_bytes, MAX_TEXT_LINE_BYTES).probe().await
}

fn worker_program(path: &Path, memory_bytes: u64, max_line_bytes: usize) -> WorkerProgram {
    WorkerProgram {
        path: path.to_owned(),
        arguments: vec![MEMORY_OPTION.to_owned(), memory_bytes.to_string()],
        name: "decoder worker",
        protocol_version: PROTOCOL_VERSION,
        max_line_bytes,
    }
}

/// Decodes each file in a worker process of its own.
pub struct DecoderWorkers {
    settings: DecoderSettings,
    blobs: Arc<dyn Blobs>,
    slots: WorkerSlots,
    /// Recordings take long, and would keep everything else waiting.
    sound_slots: WorkerSlots,
}

/// How many workers run at a time.
struct WorkerSlots {
    semaphore: Arc<Semaphore>,
    /// Why a file had to wait too long.
    busy_reason: &'static str,
}

impl WorkerSlots {
    fn new(count: usize, busy_reason: &'static str) -> Self {
        Self { semaphore: Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS))), busy_reason }
    }
}

impl DecoderWorkers {
    /// Sets up the workers for files in this store. None is started before the first file.
    #[must_use]
    pub fn new(settings: DecoderSettings, blobs: Arc<dyn Blobs>) -> Self {
        let count = settings.max_concurrent;
        let slots = WorkerSlots::new(count, "too many files are being decoded; try again in a moment");
        let sound_slots = WorkerSlots::new(count / 2, "other recordings are being decoded; try again in a moment");
        Self { settings, blobs, slots, sound_slots }
    }

    async fn decode<C: OutputCollector>(
        &self,
        input: DecoderInput<'_>,
        collector: C,
        cancel: &CancellationToken,
    ) -> Result<C::Output, DecoderError> {
        // A worker that is dropped is killed.
        let decoding = self.decode_in_worker(input, collector);
        cancel.run_until_cancelled(decoding).await.unwrap_or(Err(DecoderError::Cancelled))
    }

    async fn decode_in_worker<C: OutputCollector>(
        &self,
        input: DecoderInput<'_>,
        collector: C,
    ) -> Result<C::Output, DecoderError> {
        let (worker, _slot) =
            self.start_worker(&self.slots, input.bytes, C::ACTIVITY, C::MAX_LINE_BYTES, C::size_reason).await?;
        let worker = FileWorker { sha256: Some(*input.sha256), ..worker };
        Exchange { input, collector, settings: &self.settings, blobs: self.blobs.as_ref() }.run(worker).await
    }

    /// Waits for a free one of the slots, and starts a worker for a file of this size.
    async fn start_worker(
        &self,
        slots: &WorkerSlots,
        bytes: u64,
        activity: &'static str,
        max_line_bytes: usize,
        size_reason: impl FnOnce(&str) -> String,
    ) -> Result<(FileWorker, OwnedSemaphorePermit), DecoderError> {
        let memory_bytes = self.settings.memory_bytes;
        let max_bytes = memory_bytes / INPUT_MEMORY_DIVISOR;
        if bytes > max_bytes {
            let (bytes, limit) = (format_bytes(bytes), size_reason(&format_bytes(max_bytes)));
            return Err(DecoderError::unreadable(format!("it has {bytes}; {limit}")));
        }
        let program = self.settings.program(max_line_bytes);
        let slot = self.acquire_slot(slots, &program).await?;
        let process = program.start().await.map_err(|error| {
            tracing::warn!(%error, "no file can be decoded");
            DecoderError::Unavailable { reason: error.to_string() }
        })?;
        Ok((FileWorker { process, activity, sha256: None, memory_bytes }, slot))
    }

    async fn acquire_slot(
        &self,
        slots: &WorkerSlots,
        program: &WorkerProgram,
    ) -> Result<OwnedSemaphorePermit, DecoderError> {
        let acquire = async {
            // Before it takes a slot, which others may need as soon as there is a program.
            if self.settings.is_program_pending() {
                program.wait_until_exists().await;
            }
            Arc::clone(&slots.semaphore).acquire_owned().await.expect("the semaphore is never closed")
        };
        timeout(self.settings.queue_timeout, acquire).await.map_err(|_| {
            let reason = match self.settings.is_program_pending() {
                true => "the decoder worker is not built yet; try again in a minute",
                false => slots.busy_reason,
            };
            DecoderError::Busy { reason: reason.to_owned() }
        })
    }
}
