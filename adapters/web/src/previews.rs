//! Previews of images: smaller copies that a worker makes when the page wants them, remembered for a while.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use satchel_domain::{Attachment, Sha256, WorkShare};
use satchel_ports::{ImageError, ImageRequest, ImageScaler, ScaledImage};
use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{problem::Problem, view, wire::Inline};

/// The longest side of a preview in pixels: twice what the page shows, for screens with two pixels where others have one.
pub(crate) const MAX_PREVIEW_SIDE: u32 = 960;

/// The size of a preview in bytes.
pub(crate) const MAX_PREVIEW_BYTES: u64 = 256 << 10;

/// How many previews are remembered. Browsers keep theirs; these are for the next browser and for a reload.
const MAX_REMEMBERED: usize = 48;

/// How long a request waits for its preview. A browser has few connections, and the file itself is there meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How long a preview is remembered: no longer than somebody who removes a file expects of a picture on a screen.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// How long an image without a preview isn't tried again: the worker may only have had too little time.
const FAILURE_AGE: Duration = Duration::from_secs(60);

/// Makes the previews.
pub(crate) struct Previews {
    scaler: Arc<dyn ImageScaler>,
    /// The latest last.
    entries: Mutex<VecDeque<PreviewEntry>>,
    /// One at a time: the images of models wait for the same workers, and not behind a gallery.
    worker: Semaphore,
}

#[derive(Clone)]
struct PreviewEntry {
    of: Sha256,
    /// Filled by the first of all requests that want it; `None` if it can't be made.
    image: Arc<OnceCell<Option<ScaledImage>>>,
    created_at: Instant,
}

impl Previews {
    pub(crate) fn new(scaler: Arc<dyn ImageScaler>) -> Self {
        Self { scaler, entries: Mutex::default(), worker: Semaphore::new(1) }
    }

    /// Returns the preview of an image. However many requests want it, one of them makes it; if that one goes away,
    /// the next one does.
    ///
    /// # Errors
    /// When the image has no preview, or no worker is free in time.
    pub(crate) async fn get(&self, file: &Attachment) -> Result<ScaledImage, Problem> {
        let entry = self.entry(file.sha256);
        let image = entry.image.get_or_try_init(|| self.scale(file));
        match timeout(MAX_WAIT, image).await {
            Ok(Ok(Some(image))) => Ok(image.clone()),
            Ok(Ok(None)) => Err(Problem::no_preview()),
            Ok(Err(Unavailable)) | Err(_) => Err(Problem::unavailable("There is no preview now; please try again.")),
        }
    }

    /// Removes the preview of an image that is forgotten.
    pub(crate) fn remove(&self, of: Sha256) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).retain(|entry| entry.of != of);
    }

    async fn scale(&self, file: &Attachment) -> Result<Option<ScaledImage>, Unavailable> {
        let request = ImageRequest {
            sha256: file.sha256,
            bytes: file.bytes,
            mime: file.mime.clone(),
            page: None,
            max_side: MAX_PREVIEW_SIDE,
            max_bytes: MAX_PREVIEW_BYTES,
            work_share: Some(WorkShare::from_conversation(file.conversation.clone())),
        };
        let _permit = self.worker.acquire().await.map_err(|_closed| Unavailable)?;
        // Dropping the future stops the worker, so nothing else needs to cancel it.
        match self.scaler.scale(&request, &CancellationToken::new()).await {
            Ok(image) if view::inline_kind(&image.mime) == Inline::Image => Ok(Some(image)),
            Ok(image) => {
                tracing::warn!(attachment.id = %file.id, image.mime, "a preview is no image; the page shows the file");
                Ok(None)
            }
            Err(error @ (ImageError::Unavailable { .. } | ImageError::Cancelled)) => {
                tracing::debug!(attachment.id = %file.id, %error, "no preview; the page shows the file");
                Err(Unavailable)
            }
            Err(error) => {
                tracing::info!(attachment.id = %file.id, %error, "an image has no preview; the page shows the file");
                Ok(None)
            }
        }
    }

    /// The entry of an image, a new one unless it is remembered.
    fn entry(&self, of: Sha256) -> PreviewEntry {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let max_age = |entry: &PreviewEntry| match entry.image.get() {
            Some(None) => FAILURE_AGE,
            _ => MAX_AGE,
        };
        entries.retain(|entry| entry.created_at.elapsed() < max_age(entry));
        let position = entries.iter().position(|entry| entry.of == of);
        // What is used stays longest.
        let entry = position.and_then(|position| entries.remove(position));
        let entry = entry.unwrap_or_else(|| PreviewEntry { of, image: Arc::default(), created_at: Instant::now() });
        entries.push_back(entry.clone());
        if entries.len() > MAX_REMEMBERED {
            entries.pop_front();
        }
        entry
    }
}

/// No worker can make it now.
struct Unavailable;
