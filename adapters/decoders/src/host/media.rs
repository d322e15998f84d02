//! What a container tells of its media; implements [`MediaMeter`].

use async_trait::async_trait;
use satchel_domain::MediaInfo;
use satchel_ports::{MediaError, MediaMeter, MediaRequest};
use tokio_util::sync::CancellationToken;

use super::{
    DecoderWorkers,
    exchange::{DecoderInput, OutputCollector},
};
use crate::protocol::{
    FromWorker, MAX_DURATION_MS, MAX_MEDIA_LINE_BYTES, MAX_VIDEO_SIDE, MediaSummary, RequestedOutput,
};

#[async_trait]
impl MediaMeter for DecoderWorkers {
    async fn measure(&self, request: &MediaRequest) -> Result<MediaInfo, MediaError> {
        let MediaRequest { sha256, bytes, mime } = request;
        if self.settings.is_program_pending() {
            return Err(MediaError { reason: "the decoder worker is not built yet".to_owned() });
        }
        // A store doesn't know for whom it stores.
        let input = DecoderInput { sha256, bytes: *bytes, mime, work_share: None };
        // A call that is dropped is stopped, so that there is nothing to cancel.
        Ok(self.decode(&self.image_slots, input, MediaCollector, &CancellationToken::new()).await?)
    }
}

/// Takes the one message that there is.
struct MediaCollector;

impl OutputCollector for MediaCollector {
    type Output = MediaInfo;

    const ACTIVITY: &'static str = "measuring";
    const MAX_LINE_BYTES: usize = MAX_MEDIA_LINE_BYTES;

    fn size_reason(limit: &str) -> String {
        format!("a file of at most {limit} can be measured")
    }

    fn requested_output(&self) -> RequestedOutput {
        RequestedOutput::Media
    }

    fn add_message(&mut self, message: FromWorker) -> Result<Option<MediaInfo>, &'static str> {
        let FromWorker::Media(MediaSummary { width, height, duration_ms }) = message else {
            return Err("a message is not about media");
        };
        let is_side = |side: Option<u32>| side.is_none_or(|side| (1..=MAX_VIDEO_SIDE).contains(&side));
        let is_duration = duration_ms.is_none_or(|duration| (1..=MAX_DURATION_MS).contains(&duration));
        match is_side(width) && is_side(height) && width.is_some() == height.is_some() && is_duration {
            true => Ok(Some(MediaInfo { width, height, duration_ms, animated: false })),
            false => Err("the measures are impossible"),
        }
    }
}
