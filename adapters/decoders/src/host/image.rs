//! A scaled image, collected chunk by chunk; implements [`ImageScaler`].

use async_trait::async_trait;
use bytes::Bytes;
use satchel_ports::{ImageError, ImageRequest, ImageScaler, ScaledImage};
use tokio_util::sync::CancellationToken;

use super::{
    DecoderWorkers,
    exchange::{DecoderInput, OutputCollector},
};
use crate::protocol::{
    EncodedFormat, FromWorker, ImageBounds, ImageHeader, MAX_CHUNK_LINE_BYTES, MAX_IMAGE_BYTES, PageBounds,
    RequestedOutput,
};

#[async_trait]
impl ImageScaler for DecoderWorkers {
    async fn scale(&self, request: &ImageRequest, cancel: &CancellationToken) -> Result<ScaledImage, ImageError> {
        let ImageRequest { sha256, bytes, mime, page, max_side, max_bytes, work_share } = request;
        let bounds = ImageBounds { max_side: (*max_side).max(1), max_bytes: (*max_bytes).min(MAX_IMAGE_BYTES) };
        let input = DecoderInput { sha256, bytes: *bytes, mime, work_share: work_share.as_ref() };
        let collector = ImageCollector { bounds, page: *page, header: None, content: Vec::new() };
        // Drawing a page may take as long as reading it.
        let slots = if page.is_some() { &self.document_slots } else { &self.image_slots };
        Ok(self.decode(slots, input, collector, cancel).await?)
    }
}

/// What has arrived of an image.
struct ImageCollector {
    bounds: ImageBounds,
    page: Option<u32>,
    header: Option<ImageHeader>,
    content: Vec<u8>,
}

impl ImageCollector {
    fn set_header(&mut self, header: ImageHeader) -> Result<(), &'static str> {
        let ImageHeader { width, height, bytes, .. } = header;
        let is_within =
            |side: u32| (1..=self.bounds.max_side).contains(&side) && (1..=self.bounds.max_bytes).contains(&bytes);
        if self.header.is_some() || !is_within(width) || !is_within(height) {
            return Err("the image is not as requested");
        }
        // Exactly, so that growing never takes twice the room.
        self.content.reserve_exact(usize::try_from(bytes).unwrap_or_default());
        self.header = Some(header);
        Ok(())
    }

    /// Adds bytes, and returns the image if they are its last.
    fn add_content(&mut self, chunk: &[u8]) -> Result<Option<ScaledImage>, &'static str> {
        let header = self.header.ok_or("content comes before its image")?;
        let total = self.content.len() as u64 + chunk.len() as u64;
        if chunk.is_empty() || total > header.bytes {
            return Err("the content has another size than its image");
        }
        self.content.extend_from_slice(chunk);
        if total < header.bytes {
            return Ok(None);
        }
        let (mime, magic): (_, &[u8]) = match header.format {
            EncodedFormat::Png => ("image/png", b"\x89PNG\r\n\x1a\n"),
            EncodedFormat::Jpeg => ("image/jpeg", b"\xff\xd8\xff"),
        };
        if !self.content.starts_with(magic) {
            return Err("the content has another format than its image");
        }
        Ok(Some(ScaledImage {
            mime: mime.to_owned(),
            width: header.width,
            height: header.height,
            content: Bytes::from(std::mem::take(&mut self.content)),
        }))
    }
}

impl OutputCollector for ImageCollector {
    type Output = ScaledImage;

    const ACTIVITY: &'static str = "scaling";
    const MAX_LINE_BYTES: usize = MAX_CHUNK_LINE_BYTES;

    fn size_reason(limit: &str) -> String {
        format!("an image of at most {limit} can be scaled")
    }

    fn requested_output(&self) -> RequestedOutput {
        match self.page {
            None => RequestedOutput::Image(self.bounds),
            Some(page) => RequestedOutput::PageImage(PageBounds { page, image: self.bounds }),
        }
    }

    fn add_message(&mut self, message: FromWorker) -> Result<Option<ScaledImage>, &'static str> {
        match message {
            FromWorker::Image(header) => self.set_header(header).map(|()| None),
            FromWorker::Content(chunk) => self.add_content(&chunk),
            _ => Err("a message is not about an image"),
        }
    }
}
