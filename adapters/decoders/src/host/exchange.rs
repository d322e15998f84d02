//! One file whose output is collected before it is returned: checks every message that comes back.

use satchel_domain::{Sha256, WorkShare};
use satchel_ports::Blobs;
use tokio::time::timeout;

use super::{
    DecoderSettings,
    error::DecoderError,
    file_worker::{FileWorker, WorkerStop, lost_content},
};
use crate::protocol::{FromWorker, RequestedOutput};

/// A stored file that is to be decoded.
#[derive(Clone, Copy)]
pub(super) struct DecoderInput<'a> {
    pub(super) sha256: &'a Sha256,
    pub(super) bytes: u64,
    pub(super) mime: &'a str,
    /// For whom.
    pub(super) work_share: Option<&'a WorkShare>,
}

/// Collects what a worker makes of a file, and checks each message of it.
pub(super) trait OutputCollector {
    type Output;

    /// What the worker does, for reasons such as "reading it takes too much processor time".
    const ACTIVITY: &'static str;

    /// The longest line of the worker in bytes.
    const MAX_LINE_BYTES: usize;

    fn requested_output(&self) -> RequestedOutput;

    /// Explains that only files up to this size are decoded.
    fn size_reason(limit: &str) -> String;

    /// Adds a message, and returns the output if it was the last. An error says how the worker broke the protocol.
    fn add_message(&mut self, message: FromWorker) -> Result<Option<Self::Output>, &'static str>;
}

/// A file on its way through a worker.
pub(super) struct Exchange<'a, C> {
    pub(super) input: DecoderInput<'a>,
    pub(super) collector: C,
    pub(super) settings: &'a DecoderSettings,
    pub(super) blobs: &'a dyn Blobs,
}

impl<C: OutputCollector> Exchange<'_, C> {
    /// Decodes the file with this worker, which is killed when the call returns or is dropped.
    pub(super) async fn run(mut self, mut worker: FileWorker) -> Result<C::Output, DecoderError> {
        let time_limit = self.settings.time_limit;
        let result = match timeout(time_limit, self.exchange(&mut worker)).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(sha256 = %self.input.sha256, ?time_limit, "a file took too long; its worker is killed");
                Err(DecoderError::too_slow(C::ACTIVITY, time_limit))
            }
        };
        worker.process.kill().await;
        result
    }

    async fn exchange(&mut self, worker: &mut FileWorker) -> Result<C::Output, DecoderError> {
        match self.run_protocol(worker).await {
            Ok(output) => Ok(output),
            Err(stop) => Err(worker.explain(stop).await),
        }
    }

    async fn run_protocol(&mut self, worker: &mut FileWorker) -> Result<C::Output, WorkerStop> {
        let DecoderInput { sha256, bytes, mime, .. } = self.input;
        let content = self.blobs.open(sha256, None).await.map_err(|error| lost_content(&error))?;
        let request = self.settings.request(mime, bytes, self.settings.time_limit, self.collector.requested_output());
        worker.send_file(&request, content).await?;
        loop {
            let message = worker.next_message().await?;
            if let Some(output) = self.collector.add_message(message).map_err(WorkerStop::ProtocolBroken)? {
                return Ok(output);
            }
        }
    }
}
