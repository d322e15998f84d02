//! The samples of a recording, passed on chunk by chunk; implements [`AudioDecoder`].

use std::{io, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use satchel_ports::{AudioDecoder, AudioError, ByteStream, DECODED_SAMPLE_RATE, MAX_DECODED_SAMPLES, Recording};
use satchel_worker_process::SlotPermit;
use tokio::time::{Instant, timeout_at};

use super::{
    DecoderWorkers, WorkerKind,
    error::DecoderError,
    file_worker::{FileWorker, WorkerStop},
};
use crate::protocol::{AudioBounds, FromWorker, MAX_CHUNK_LINE_BYTES, RequestedOutput, SAMPLE_BYTES};

/// What the worker does, in reasons.
const ACTIVITY: &str = "decoding";

/// How many times as long as other files a recording may take: two hours of sound are more work than any page.
const TIME_FACTOR: u32 = 10;

#[async_trait]
impl AudioDecoder for DecoderWorkers {
    async fn decode(&self, recording: Recording) -> Result<ByteStream, AudioError> {
        let Recording { content, bytes, mime, work_share } = recording;
        let size_reason = |limit: &str| format!("a recording of at most {limit} can be decoded");
        let kind = WorkerKind { activity: ACTIVITY, max_line_bytes: MAX_CHUNK_LINE_BYTES, size_reason };
        let (worker, slot) = self.start_worker(&self.sound_slots, work_share.as_ref(), bytes, kind).await?;
        let time_limit = self.settings.time_limit * TIME_FACTOR;
        let mut samples =
            SampleReader { worker, _slot: slot, time_limit, deadline: Instant::now() + time_limit, bytes: 0 };
        let bounds = AudioBounds { sample_rate: DECODED_SAMPLE_RATE, max_samples: MAX_DECODED_SAMPLES };
        let request = self.settings.request(&mime, bytes, time_limit, RequestedOutput::Audio(bounds));
        let started = timeout_at(samples.deadline, async {
            samples.worker.send_file(&request, content).await?;
            match samples.worker.next_message().await? {
                FromWorker::Audio => Ok(()),
                _ => Err(WorkerStop::ProtocolBroken("a message comes before the sound")),
            }
        });
        let started = started.await;
        samples.check(started).await?;
        Ok(Box::pin(stream::try_unfold(Some(samples), read_chunk)))
    }
}

/// Reads the next chunk. The worker is killed with the reader: behind the last chunk, an error, or when it is dropped.
async fn read_chunk(samples: Option<SampleReader>) -> io::Result<Option<(Bytes, Option<SampleReader>)>> {
    let Some(mut samples) = samples else { return Ok(None) };
    match samples.next_chunk().await {
        Ok(Some(chunk)) => Ok(Some((chunk, Some(samples)))),
        Ok(None) => {
            samples.worker.process.kill().await;
            Ok(None)
        }
        Err(error) => Err(io::Error::other(AudioError::from(error))),
    }
}

/// The samples that a worker still has to send.
struct SampleReader {
    worker: FileWorker,
    /// Other recordings wait for their turn until the last chunk was read.
    _slot: SlotPermit,
    time_limit: Duration,
    deadline: Instant,
    /// How many bytes of samples came.
    bytes: u64,
}

impl SampleReader {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, DecoderError> {
        let message = timeout_at(self.deadline, self.worker.next_message()).await;
        let message = self.check(message).await?;
        match self.check_message(message) {
            Ok(chunk) => Ok(chunk),
            Err(reason) => Err(self.worker.explain(WorkerStop::ProtocolBroken(reason)).await),
        }
    }

    fn check_message(&mut self, message: FromWorker) -> Result<Option<Bytes>, &'static str> {
        match message {
            FromWorker::Content(chunk) => {
                self.bytes += chunk.len() as u64;
                let is_whole = !chunk.is_empty() && (chunk.len() as u64).is_multiple_of(SAMPLE_BYTES);
                match is_whole && self.bytes <= MAX_DECODED_SAMPLES * SAMPLE_BYTES {
                    true => Ok(Some(Bytes::from(chunk))),
                    false => Err("the sound is not as requested"),
                }
            }
            FromWorker::AudioEnd { samples } if samples.checked_mul(SAMPLE_BYTES) == Some(self.bytes) => Ok(None),
            FromWorker::AudioEnd { .. } => Err("the sound has another length than it says"),
            _ => Err("a message is not about sound"),
        }
    }

    /// Explains what stopped the worker, or that it has taken too long.
    async fn check<T>(
        &mut self,
        result: Result<Result<T, WorkerStop>, tokio::time::error::Elapsed>,
    ) -> Result<T, DecoderError> {
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(stop)) => Err(self.worker.explain(stop).await),
            Err(_) => {
                tracing::warn!(time_limit = ?self.time_limit, "a recording took too long; its worker is killed");
                Err(DecoderError::too_slow(ACTIVITY, self.time_limit))
            }
        }
    }
}
