//! Copies of images that a model doesn't take as they are: too large, moving, or of another type. A worker makes them.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::stream;
use satchel_domain::{MediaInfo, Sha256, WorkShare};
use satchel_ports::{
    BlobHint, Blobs, ImageError, ImageRequest, ImageScaler, ModelFile, ModelMessage, ScaledImage, StoredBlob,
    language_model::ContentPart,
};
use tokio_util::sync::CancellationToken;

use crate::capabilities::{FileRules, ImageLimits};

/// How many copies are remembered: as many as the requests of a few turns need.
const MAX_REMEMBERED: usize = 64;

/// How long a request waits for copies: a part of what a model may take until it answers, fallbacks included.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// How long a copy is used without being stored again. The store keeps bytes that nothing refers to for an hour.
const MAX_AGE: Duration = Duration::from_secs(20 * 60);

/// How long an image that can't be copied isn't tried again: the worker may only have had too little time.
const FAILURE_AGE: Duration = Duration::from_secs(60);

/// The copies of a model's images.
pub(crate) struct ImageCopies {
    scaler: Arc<dyn ImageScaler>,
    blobs: Arc<dyn Blobs>,
    /// The latest last. A turn sends its images with each of its requests.
    made: Mutex<VecDeque<ImageCopy>>,
}

struct ImageCopy {
    of: Sha256,
    limits: ImageLimits,
    /// `None` if it could not be made.
    copy: Option<StoredBlob>,
    made_at: Instant,
}

impl ImageCopies {
    pub(crate) fn new(scaler: Arc<dyn ImageScaler>, blobs: Arc<dyn Blobs>) -> Self {
        Self { scaler, blobs, made: Mutex::default() }
    }

    /// Puts copies in the place of images that the model doesn't take. One that can't be copied stays, and the model is
    /// told why it isn't sent.
    /// After [`MAX_WAIT`] the request goes without the others; the copies that were made by then are used by the next one.
    pub(crate) async fn replace<'a>(
        &self,
        messages: &'a [ModelMessage],
        rules: &FileRules,
        work_share: Option<&WorkShare>,
    ) -> Cow<'a, [ModelMessage]> {
        if !messages.iter().flat_map(message_files).any(|file| rules.copy_limits(file).is_some()) {
            return Cow::Borrowed(messages);
        }
        let mut messages = messages.to_vec();
        let deadline = tokio::time::Instant::now() + MAX_WAIT;
        // The newest first: the turn is about them, and a model takes only so many.
        let files: Vec<&mut ModelFile> = messages.iter_mut().flat_map(message_files_mut).collect();
        let images = files.into_iter().rev().filter(|file| file.kind() == "image").take(rules.max_images());
        for file in images {
            let Some(limits) = rules.copy_limits(file) else { continue };
            let copy = tokio::time::timeout_at(deadline, self.copy(file, limits, work_share)).await;
            if let Ok(Some(StoredBlob { sha256, bytes, mime, media })) = copy {
                (file.sha256, file.bytes, file.mime, file.media) = (sha256, bytes, mime, media);
            }
        }
        Cow::Owned(messages)
    }

    /// The copy of an image, made now unless it was made lately.
    async fn copy(&self, file: &ModelFile, limits: ImageLimits, work_share: Option<&WorkShare>) -> Option<StoredBlob> {
        if let Some(remembered) = self.find(file.sha256, limits) {
            return remembered;
        }
        let request = ImageRequest {
            sha256: file.sha256,
            bytes: file.bytes,
            mime: file.mime.clone(),
            page: None,
            max_side: limits.max_side,
            max_bytes: limits.max_bytes,
            work_share: work_share.cloned(),
        };
        // Dropping the future stops the worker, so nothing else needs to cancel it.
        let copy = match self.scaler.scale(&request, &CancellationToken::new()).await {
            Ok(scaled) => Some(self.store(scaled).await?),
            Err(error) => {
                tracing::info!(attachment.id = %file.id, %error, "an image can't be scaled for the model; it isn't sent");
                // A worker may be there for the next request.
                if matches!(error, ImageError::Unavailable { .. } | ImageError::Cancelled) {
                    return None;
                }
                None
            }
        };
        let entry = ImageCopy { of: file.sha256, limits, copy: copy.clone(), made_at: Instant::now() };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.push_back(entry);
        if made.len() > MAX_REMEMBERED {
            made.pop_front();
        }
        copy
    }

    fn find(&self, of: Sha256, limits: ImageLimits) -> Option<Option<StoredBlob>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|entry| entry.made_at.elapsed() < if entry.copy.is_some() { MAX_AGE } else { FAILURE_AGE });
        let place = made.iter().position(|entry| entry.of == of && entry.limits == limits)?;
        // What is used stays longest.
        let entry = made.remove(place)?;
        let copy = entry.copy.clone();
        made.push_back(entry);
        Some(copy)
    }

    async fn store(&self, scaled: ScaledImage) -> Option<StoredBlob> {
        let ScaledImage { mime, width, height, content } = scaled;
        let bytes = content.len() as u64;
        let hint = BlobHint { filename: None, mime: Some(mime.clone()), bytes: Some(bytes) };
        let content = Box::pin(stream::iter([Ok(content)]));
        match self.blobs.put(content, &hint, bytes).await {
            Ok(stored) => {
                let media = MediaInfo { width: Some(width), height: Some(height), ..MediaInfo::default() };
                Some(StoredBlob { mime, media, ..stored })
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "storing a scaled image failed; it isn't sent"
                );
                None
            }
        }
    }
}

fn message_files(message: &ModelMessage) -> Vec<&ModelFile> {
    match message {
        ModelMessage::User { attachments, .. } | ModelMessage::Tool { attachments, .. } => attachments.iter().collect(),
        ModelMessage::Context { parts } => parts
            .iter()
            .filter_map(|part| match part {
                ContentPart::File(file) => Some(&**file),
                ContentPart::Text(_) | ContentPart::ImageUrl(_) => None,
            })
            .collect(),
        ModelMessage::Note { .. } | ModelMessage::Assistant { .. } => Vec::new(),
    }
}

fn message_files_mut(message: &mut ModelMessage) -> Vec<&mut ModelFile> {
    match message {
        ModelMessage::User { attachments, .. } | ModelMessage::Tool { attachments, .. } => {
            attachments.iter_mut().collect()
        }
        ModelMessage::Context { parts } => parts
            .iter_mut()
            .filter_map(|part| match part {
                ContentPart::File(file) => Some(&mut **file),
                ContentPart::Text(_) | ContentPart::ImageUrl(_) => None,
            })
            .collect(),
        ModelMessage::Note { .. } | ModelMessage::Assistant { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
