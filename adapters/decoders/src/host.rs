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

use satchel_domain::{WorkShare, size::format_bytes};
use satchel_ports::Blobs;
use satchel_worker_process::{SlotPermit, SlotPool, WorkerProgram, WorkerStartError};
use tokio::time::timeout;
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
    /// How many documents are decoded at a time. Images and recordings have slots of their own: half as many for each, and
    /// at least one.
    pub max_concurrent: usize,
    /// How many of each may belong to one person, and to one conversation. Where there are more, one is left to others.
    pub max_concurrent_per_holder: usize,
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
            max_concurrent_per_holder: 2,
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
    document_slots: WorkerSlots,
    /// A page or a model waits for an image, which takes a moment. A document may take all its time.
    image_slots: WorkerSlots,
    /// Recordings take longest, and would keep everything else waiting.
    sound_slots: WorkerSlots,
}

/// What a worker does with its file, whatever the file is.
struct WorkerKind {
    /// For reasons such as "reading it takes too much processor time".
    activity: &'static str,
    /// The longest line of the worker in bytes.
    max_line_bytes: usize,
    /// Explains that only files up to this size are decoded.
    size_reason: fn(&str) -> String,
}

/// How many workers of a kind run at a time, and for whom.
struct WorkerSlots {
    pool: Arc<SlotPool>,
    /// Why a file had to wait too long.
    busy_reason: &'static str,
}

impl WorkerSlots {
    /// One slot is left to others, where there are several.
    fn new(count: usize, max_per_holder: usize, busy_reason: &'static str) -> Self {
        let max_per_holder = max_per_holder.min(count.saturating_sub(1));
        Self { pool: SlotPool::new(count, max_per_holder), busy_reason }
    }
}

impl DecoderWorkers {
    /// Sets up the workers for files in this store. None is started before the first file.
    #[must_use]
    pub fn new(settings: DecoderSettings, blobs: Arc<dyn Blobs>) -> Self {
        let slots = |count, busy_reason| WorkerSlots::new(count, settings.max_concurrent_per_holder, busy_reason);
        let count = settings.max_concurrent;
        Self {
            document_slots: slots(count, "too many files are being decoded; try again in a moment"),
            image_slots: slots(count / 2, "too many images and recordings are being read; try again in a moment"),
            sound_slots: slots(count / 2, "other recordings are being decoded; try again in a moment"),
            settings,
            blobs,
        }
    }

    async fn decode<C: OutputCollector>(
        &self,
        slots: &WorkerSlots,
        input: DecoderInput<'_>,
        collector: C,
        cancel: &CancellationToken,
    ) -> Result<C::Output, DecoderError> {
        // A worker that is dropped is killed.
        let decoding = self.decode_in_worker(slots, input, collector);
        cancel.run_until_cancelled(decoding).await.unwrap_or(Err(DecoderError::Cancelled))
    }

    async fn decode_in_worker<C: OutputCollector>(
        &self,
        slots: &WorkerSlots,
        input: DecoderInput<'_>,
        collector: C,
    ) -> Result<C::Output, DecoderError> {
        let kind = WorkerKind { activity: C::ACTIVITY, max_line_bytes: C::MAX_LINE_BYTES, size_reason: C::size_reason };
        let (worker, _slot) = self.start_worker(slots, input.work_share, input.bytes, kind).await?;
        let worker = FileWorker { sha256: Some(*input.sha256), ..worker };
        Exchange { input, collector, settings: &self.settings, blobs: self.blobs.as_ref() }.run(worker).await
    }

    /// Waits for a free one of the slots, and starts a worker for a file of this size.
    async fn start_worker(
        &self,
        slots: &WorkerSlots,
        work_share: Option<&WorkShare>,
        bytes: u64,
        kind: WorkerKind,
    ) -> Result<(FileWorker, SlotPermit), DecoderError> {
        let WorkerKind { activity, max_line_bytes, size_reason } = kind;
        let memory_bytes = self.settings.memory_bytes;
        let max_bytes = memory_bytes / INPUT_MEMORY_DIVISOR;
        if bytes > max_bytes {
            let (bytes, limit) = (format_bytes(bytes), size_reason(&format_bytes(max_bytes)));
            return Err(DecoderError::unreadable(format!("it has {bytes}; {limit}")));
        }
        let program = self.settings.program(max_line_bytes);
        let slot = self.acquire_slot(slots, work_share, &program).await?;
        let process = program.start().await.map_err(|error| {
            tracing::warn!(%error, "no file can be decoded");
            DecoderError::Unavailable { reason: error.to_string() }
        })?;
        Ok((FileWorker { process, activity, sha256: None, memory_bytes }, slot))
    }

    async fn acquire_slot(
        &self,
        slots: &WorkerSlots,
        work_share: Option<&WorkShare>,
        program: &WorkerProgram,
    ) -> Result<SlotPermit, DecoderError> {
        let acquire = async {
            // Before it takes a slot, which others may need as soon as there is a program.
            if self.settings.is_program_pending() {
                program.wait_until_exists().await;
            }
            slots.pool.acquire(work_share).await
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
