//! What a model gets of the attachments that were declared for it: parts of a message.

use std::{borrow::Cow, sync::Arc};

use futures::{TryStreamExt, stream};
use satchel_domain::{Filename, MediaInfo, StoredBlob, WorkShare, filename::is_unsafe_char, size};
use satchel_ports::{
    BlobHint, Blobs, DeclaredFiles, DocumentReader, DocumentText, Fetcher, ImageRequest, ImageScaler, OpenedFile,
    Recording, ScaledImage, Speech, SpeechError,
    language_model::{ContentPart, InputSupport, ModelFile},
};
use tokio_util::sync::CancellationToken;

use crate::{
    document,
    effective::EffectiveEntry,
    item::{Item, ItemSource, Scope},
    kind::AttachmentKind,
    resolve::{ResolutionError, ResolutionPolicy, Resolved, resolve},
};

/// The most text of one file that a model gets, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// The largest file that is stored for a model, in bytes: more than any takes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The largest copy of an image, in bytes.
const MAX_SCALED_BYTES: u64 = 16 << 20;

/// How many characters of a name, a source or metadata are shown.
const MAX_LABEL_CHARS: usize = 300;

/// What attachments are resolved with.
#[derive(Clone)]
pub struct ContentServices {
    pub files: Arc<dyn DeclaredFiles>,
    pub fetcher: Arc<dyn Fetcher>,
    /// Where models read files.
    pub blobs: Arc<dyn Blobs>,
    /// Reads documents that a model doesn't take; `None` leaves text files only.
    pub documents: Option<Arc<dyn DocumentReader>>,
    /// Transcribes recordings that a model doesn't take; `None` where nothing does.
    pub speech: Option<Arc<dyn Speech>>,
    /// Makes images smaller; `None` where nothing does.
    pub images: Option<Arc<dyn ImageScaler>>,
    /// For whom workers do this; `None` where nobody knows.
    pub work_share: Option<WorkShare>,
    pub policy: ResolutionPolicy,
}

/// A part of a message, and where it was declared.
#[derive(Debug, Clone, PartialEq)]
pub struct ScopedPart {
    pub scope: Scope,
    pub part: ContentPart,
}

/// Makes a model's file of stored bytes; the ledger doesn't know it.
pub type RecordFile<'a> = &'a (dyn Fn(Filename, StoredBlob) -> ModelFile + Send + Sync);

/// Resolves the entries of a list, in their order, to what a model gets of them.
///
/// # Errors
/// With the first attachment that can't be had and isn't optional.
pub async fn to_content_parts(
    entries: &[EffectiveEntry],
    support: &InputSupport,
    services: &ContentServices,
    record: RecordFile<'_>,
) -> Result<Vec<ScopedPart>, ResolutionError> {
    let mut parts = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry {
            EffectiveEntry::Item(item) => {
                let resolved = item_parts(item, support, services, record).await;
                let item_parts = match resolved {
                    Ok(item_parts) => item_parts,
                    Err(error) if item.optional => {
                        let reason = one_line(&error.reason);
                        vec![ContentPart::Text(format!("{} can't be had: {reason}.", describe(item)))]
                    }
                    Err(error) => return Err(error),
                };
                parts.extend(item_parts.into_iter().map(|part| ScopedPart { scope: item.scope, part }));
            }
            EffectiveEntry::Unmatched(unmatched) => {
                let text = format!("There is no file that matches {}.", one_line(&unmatched.pattern));
                parts.push(ScopedPart { scope: unmatched.scope, part: ContentPart::Text(text) });
            }
            EffectiveEntry::Deferred(deferred) => {
                let item = &deferred.declaration.item;
                let reason = format!("{item} needs the output of a task that doesn't run here");
                return Err(ResolutionError { reason, retryable: false });
            }
        }
    }
    Ok(parts)
}

async fn item_parts(
    item: &Item,
    support: &InputSupport,
    services: &ContentServices,
    record: RecordFile<'_>,
) -> Result<Vec<ContentPart>, ResolutionError> {
    let label = ContentPart::Text(format!("{}:", describe(item)));
    // A provider refuses the whole request for an image that it can't fetch.
    let is_passed_on = support.image_urls && !item.optional && !item.bounds.bounds_image();
    if let (AttachmentKind::Image, ItemSource::Url(url), true) = (item.kind, &item.source, is_passed_on) {
        return Ok(vec![label, ContentPart::ImageUrl(url.to_string())]);
    }
    let resolved = resolve(item, &services.policy, services.files.as_ref(), services.fetcher.as_ref()).await?;
    let Some(file) = resolved.file() else {
        // Nothing but the address: it stands in the label.
        return Ok(vec![ContentPart::Text(format!("{}.", describe(item)))]);
    };
    let filename = filename(item);
    // A text file is text to every model, whatever types it takes.
    if item.kind == AttachmentKind::File
        && let Some(text) = read_text(&resolved, file).await?
    {
        return Ok(vec![ContentPart::Text(text_of_file(&label_of(item, file), &text))]);
    }
    if let (AttachmentKind::Pdf, Some(max_pages)) = (item.kind, item.bounds.max_pages) {
        return first_pages(item, file, max_pages, services).await;
    }
    let is_small = file.bytes <= MAX_FILE_BYTES;
    let is_taken = is_small && support.accepts(&file.mime, file.bytes);
    let may_be_sent = is_small && support.may_be_sent(&file.mime);
    let is_recording = matches!(item.kind, AttachmentKind::Audio | AttachmentKind::Video);
    let transcription = if is_recording && !is_taken { transcribe(file, services).await } else { None };
    let label = match transcription {
        Some(Ok(transcription)) => {
            let text = text_of_recording(&label_of(item, file), &transcription);
            return Ok(vec![ContentPart::Text(text)]);
        }
        Some(Err(error)) if error.retryable => {
            let reason = format!("{} can't be transcribed: {}", item.source, error.reason);
            return Err(ResolutionError { reason, retryable: true });
        }
        Some(Err(error)) => {
            ContentPart::Text(format!("{} can't be transcribed ({}):", describe(item), one_line(&error.reason)))
        }
        None => label,
    };
    // Its type was checked when it was opened.
    let stored = StoredBlob { sha256: file.sha256, bytes: file.bytes, mime: file.mime.clone(), media: file.media };
    let may_be_read = services.documents.is_some() && document::may_have_text(&file.mime, file.bytes) && is_small;
    // What nobody will read isn't copied.
    if may_be_sent || may_be_read {
        store(file, filename.clone(), item, services).await?;
    }
    if !is_taken
        && may_be_read
        && let Some(text) = document_text(&stored, services).await
    {
        return Ok(vec![ContentPart::Text(text_of_document(&label_of(item, file), &text))]);
    }
    let model_file = record(filename, stored);
    if item.kind == AttachmentKind::Image && may_be_sent {
        let within = keep_within(model_file, item, services).await?;
        return Ok(vec![label, ContentPart::File(Box::new(within))]);
    }
    // A model that doesn't take it is told why by its adapter, which knows all limits.
    Ok(vec![label, ContentPart::File(Box::new(model_file))])
}

/// The text of the first pages of a PDF.
async fn first_pages(
    item: &Item,
    file: &OpenedFile,
    max_pages: u32,
    services: &ContentServices,
) -> Result<Vec<ContentPart>, ResolutionError> {
    let failed = |reason: &str| ResolutionError { reason: format!("{}: {reason}", item.source), retryable: false };
    let Some(reader) = &services.documents else { return Err(failed("`max_pages` needs something that reads PDFs")) };
    let OpenedFile { mime, bytes, sha256, media, .. } = file;
    let stored = StoredBlob { sha256: *sha256, bytes: *bytes, mime: mime.clone(), media: *media };
    store(file, filename(item), item, services).await?;
    let read = document::read_document(
        reader.as_ref(),
        &stored,
        services.work_share.as_ref(),
        Some(max_pages),
        MAX_TEXT_BYTES,
    )
    .await;
    let text = read.map_err(|error| failed(&error.to_string()))?;
    let heading = document::describe_pages(&label_of(item, file), &text, "because you are given its first pages alone");
    Ok(vec![ContentPart::Text(format!("{heading}:{}", document::join_pages(&text)))])
}

/// An image within the bounds of its declaration: itself, or a smaller copy.
async fn keep_within(image: ModelFile, item: &Item, services: &ContentServices) -> Result<ModelFile, ResolutionError> {
    let MediaInfo { width, height, .. } = image.media;
    // Whether a photo is turned is known once it is decoded; then its sides may have changed places.
    let is_perhaps_turned = image.mime == "image/jpeg" && item.bounds.longest_side(height, width).is_some();
    let upright = is_perhaps_turned.then_some(width.max(height)).flatten();
    let Some(max_side) = item.bounds.longest_side(width, height).or(upright) else { return Ok(image) };
    let mut copy = scale(&image, max_side, item, services).await?;
    if let Some(max_side) = item.bounds.longest_side(copy.media.width, copy.media.height) {
        copy = scale(&image, max_side, item, services).await?;
    }
    let StoredBlob { sha256, bytes, mime, media } = copy;
    Ok(ModelFile { sha256, bytes, mime, media, ..image })
}

/// Stores a smaller copy of an image.
async fn scale(
    image: &ModelFile,
    max_side: u32,
    item: &Item,
    services: &ContentServices,
) -> Result<StoredBlob, ResolutionError> {
    let failed = |reason: String| ResolutionError { reason: format!("{}: {reason}", item.source), retryable: false };
    let scaler = services.images.as_ref();
    let scaler = scaler.ok_or_else(|| failed("`max_width` and `max_height` need something that scales".to_owned()))?;
    let request = ImageRequest {
        sha256: image.sha256,
        bytes: image.bytes,
        mime: image.mime.clone(),
        page: None,
        max_side,
        max_bytes: MAX_SCALED_BYTES,
        work_share: services.work_share.clone(),
    };
    // Dropping the future stops the worker, so nothing else needs to cancel it.
    let scaled = scaler.scale(&request, &CancellationToken::new()).await.map_err(|error| failed(error.to_string()))?;
    let ScaledImage { mime, width, height, content } = scaled;
    let bytes = content.len() as u64;
    let hint = BlobHint { filename: None, mime: Some(mime.clone()), bytes: Some(bytes) };
    let stored = services.blobs.put(Box::pin(stream::iter([Ok(content)])), &hint, bytes).await;
    let media = MediaInfo { width: Some(width), height: Some(height), ..MediaInfo::default() };
    stored.map(|stored| StoredBlob { mime, media, ..stored }).map_err(|error| failed(error.to_string()))
}

/// Stores a file where models and workers read it.
async fn store(
    file: &OpenedFile,
    filename: Filename,
    item: &Item,
    services: &ContentServices,
) -> Result<(), ResolutionError> {
    let hint = BlobHint { filename: Some(filename), mime: Some(file.mime.clone()), bytes: Some(file.bytes) };
    let stored = services.blobs.put(file.content.read(), &hint, file.bytes).await;
    let stored =
        stored.map_err(|error| ResolutionError { reason: format!("{}: {error}", item.source), retryable: false })?;
    match stored.sha256 == file.sha256 {
        true => Ok(()),
        false => {
            Err(ResolutionError { reason: format!("{}: it changed while it was read", item.source), retryable: true })
        }
    }
}

/// The text of a file, as far as a model gets it; `None` if it isn't text.
async fn read_text(resolved: &Resolved, file: &OpenedFile) -> Result<Option<String>, ResolutionError> {
    let Some(mut content) = resolved.open() else { return Ok(None) };
    let kind = file.mime.split('/').next().unwrap_or_default();
    if ["image", "audio", "video", "font"].contains(&kind) && file.mime != "image/svg+xml" {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    while bytes.len() <= MAX_TEXT_BYTES {
        let chunk = content.try_next().await;
        let chunk = chunk.map_err(|error| ResolutionError { reason: error.to_string(), retryable: true })?;
        let Some(chunk) = chunk else { break };
        bytes.extend_from_slice(&chunk);
    }
    let is_cut = bytes.len() > MAX_TEXT_BYTES;
    bytes.truncate(MAX_TEXT_BYTES);
    if bytes.contains(&0) {
        return Ok(None);
    }
    match (std::str::from_utf8(&bytes), is_cut) {
        (Ok(text), false) => Ok(Some(text.to_owned())),
        // The cut may have split a character.
        (Err(error), true) if error.error_len().is_some() => Ok(None),
        (Err(_), false) => Ok(None),
        (text, true) => {
            let end = text.map_or_else(|error| error.valid_up_to(), str::len);
            let text = String::from_utf8_lossy(&bytes[..end]);
            let (shown, all) = (size::format_bytes(end as u64), size::format_bytes(file.bytes));
            Ok(Some(format!("{text}\n[cut: the first {shown} of {all}]")))
        }
    }
}

/// What is said in a recording; `None` where nothing transcribes.
async fn transcribe(file: &OpenedFile, services: &ContentServices) -> Option<Result<String, SpeechError>> {
    let speech = services.speech.as_ref().filter(|speech| speech.can_transcribe())?;
    let (content, mime, work_share) = (file.content.read(), file.mime.clone(), services.work_share.clone());
    let recording = Recording { content, bytes: file.bytes, mime, work_share };
    let transcribed = speech.transcribe(recording).await;
    Some(transcribed.inspect_err(|error| {
        tracing::warn!(mime = file.mime, %error, "a declared recording can't be transcribed; its model or task is told");
    }))
}

/// The text of a document; `None` where nothing reads it.
async fn document_text(file: &StoredBlob, services: &ContentServices) -> Option<DocumentText> {
    let reader = services.documents.as_ref()?;
    let read = document::read_document(reader.as_ref(), file, services.work_share.as_ref(), None, MAX_TEXT_BYTES).await;
    read.map_err(|error| tracing::info!(mime = file.mime, %error, "a declared document has no text; its model is told"))
        .ok()
}

fn text_of_file(label: &str, text: &str) -> String {
    format!("{label}, as text:\n{text}")
}

fn text_of_recording(label: &str, transcription: &str) -> String {
    let why = document::NOT_TAKEN;
    let is_visible = |c: &char| matches!(c, '\n' | '\t') || !is_unsafe_char(*c);
    let visible: String = transcription.chars().filter(is_visible).collect();
    match visible.as_str() {
        "" => format!("{label}, transcribed {why}: nothing is said in it."),
        text => format!("{label}, transcribed {why}; what is said in it may be misheard:\n{}", cut_text(text)),
    }
}

/// A text as far as a model gets it.
fn cut_text(text: &str) -> Cow<'_, str> {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    if end == text.len() {
        return Cow::Borrowed(text);
    }
    let (shown, all) = (size::format_bytes(end as u64), size::format_bytes(text.len() as u64));
    Cow::Owned(format!("{}\n[cut: the first {shown} of {all}]", &text[..end]))
}

fn text_of_document(label: &str, document: &DocumentText) -> String {
    format!("{}:{}", document::describe_pages(label, document, document::NOT_TAKEN), document::join_pages(document))
}

/// What an item is, for the model: kind, name, where it comes from, metadata.
fn describe(item: &Item) -> String {
    let mut label = format!("The {} ", item.kind);
    match &item.name {
        Some(name) => label.push_str(&format!("{:?} ({})", one_line(name), one_line(&source(item)))),
        None => label.push_str(&one_line(&source(item))),
    }
    if !item.meta.is_empty() {
        let meta = serde_json::Value::Object((*item.meta).clone()).to_string();
        label.push_str(&format!(" {}", one_line(&meta)));
    }
    label
}

/// An address that is meant for the model is shown whole, all others without what they may keep secret.
fn source(item: &Item) -> String {
    match &item.source {
        ItemSource::Url(url) if item.kind == AttachmentKind::Url => url.to_string(),
        source => source.to_string(),
    }
}

fn label_of(item: &Item, file: &OpenedFile) -> String {
    format!("{} ({}, {})", describe(item), file.mime, size::format_bytes(file.bytes))
}

/// The last segment of the path or the address.
fn filename(item: &Item) -> Filename {
    let name = match &item.source {
        ItemSource::File { path, .. } => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        ItemSource::Url(url) => url.path_segments().and_then(|mut segments| segments.next_back()).map(str::to_owned),
    };
    Filename::from_untrusted(&name.unwrap_or_default())
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_LABEL_CHARS).collect()
}

#[cfg(test)]
mod tests;
