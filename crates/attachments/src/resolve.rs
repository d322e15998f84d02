//! Resolution: an item becomes bytes whose type was checked, or an address that is never fetched.

use satchel_domain::{Filename, Sha256};
use satchel_ports::{
    BlobHint, ByteStream, DeclaredFileError, DeclaredFiles, FetchRequest, Fetcher, FetcherError, HostPolicy, OpenedFile,
};
use url::Url;

use crate::{
    item::{Item, ItemSource},
    kind::AttachmentKind,
};

/// A type that models take for an image nowhere: it is a program that draws one.
const SVG: &str = "image/svg+xml";

/// What may be resolved.
#[derive(Debug, Clone)]
pub struct ResolutionPolicy {
    /// The largest file behind a URL.
    pub max_download_bytes: u64,
    /// The detected types that each kind may have, such as `image/*`.
    pub allowed_types: AllowedTypes,
}

/// Patterns of types, by kind.
#[derive(Debug, Clone)]
pub struct AllowedTypes {
    pub image: Vec<String>,
    pub pdf: Vec<String>,
    pub audio: Vec<String>,
    pub video: Vec<String>,
    pub file: Vec<String>,
}

/// An item that can be read. Its temporary file, if it has one, is gone when this is dropped.
#[derive(Debug, Clone)]
pub struct Resolved {
    url: Option<Url>,
    file: Option<OpenedFile>,
}

/// Why an item can't be resolved, for the person who runs the task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ResolutionError {
    /// Names the source, without credentials and query.
    pub reason: String,
    /// Whether a retry may help.
    pub retryable: bool,
}

impl Resolved {
    /// The URL that it was declared with.
    #[must_use]
    pub fn as_url(&self) -> Option<&Url> {
        self.url.as_ref()
    }

    /// Where its bytes are on this machine.
    #[must_use]
    pub fn as_path(&self) -> Option<&std::path::Path> {
        self.file.as_ref()?.content.path()
    }

    /// Its bytes from the beginning; `None` for a URL that is never fetched.
    #[must_use]
    pub fn open(&self) -> Option<ByteStream> {
        self.file.as_ref().map(|file| file.content.read())
    }

    /// The file with what was detected of it; `None` for a URL that is never fetched.
    #[must_use]
    pub fn file(&self) -> Option<&OpenedFile> {
        self.file.as_ref()
    }

    /// The detected type.
    #[must_use]
    pub fn mime(&self) -> Option<&str> {
        self.file.as_ref().map(|file| file.mime.as_str())
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.bytes)
    }

    /// The digest of its bytes.
    #[must_use]
    pub fn sha256(&self) -> Option<Sha256> {
        self.file.as_ref().map(|file| file.sha256)
    }
}

impl AllowedTypes {
    fn for_kind(&self, kind: AttachmentKind) -> &[String] {
        match kind {
            AttachmentKind::Image => &self.image,
            AttachmentKind::Pdf => &self.pdf,
            AttachmentKind::Audio => &self.audio,
            AttachmentKind::Video => &self.video,
            AttachmentKind::File => &self.file,
            AttachmentKind::Url => &[],
        }
    }
}

/// Opens a file, or downloads a URL to a temporary file, and checks the detected type.
///
/// # Errors
/// When it can't be read, is too large, or isn't of its kind.
pub async fn resolve(
    item: &Item,
    policy: &ResolutionPolicy,
    files: &dyn DeclaredFiles,
    fetcher: &dyn Fetcher,
) -> Result<Resolved, ResolutionError> {
    let (url, file) = match &item.source {
        ItemSource::Url(url) if item.kind == AttachmentKind::Url => {
            return Ok(Resolved { url: Some(url.clone()), file: None });
        }
        ItemSource::Url(url) => (Some(url.clone()), download(item, url, policy, files, fetcher).await?),
        ItemSource::File { root, path, .. } => {
            (None, files.open(root, path).await.map_err(|error| file_error(&error))?)
        }
    };
    check_type(item, &file.mime, policy)?;
    Ok(Resolved { url, file: Some(file) })
}

async fn download(
    item: &Item,
    url: &Url,
    policy: &ResolutionPolicy,
    files: &dyn DeclaredFiles,
    fetcher: &dyn Fetcher,
) -> Result<OpenedFile, ResolutionError> {
    let request =
        FetchRequest { url: url.as_str().to_owned(), hosts: HostPolicy::Public, max_bytes: policy.max_download_bytes };
    let response = fetcher.fetch(&request).await.map_err(|error| ResolutionError {
        retryable: matches!(error, FetcherError::Retryable { .. }),
        reason: error.to_string(),
    })?;
    let last_segment = url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
    let hint = BlobHint {
        filename: Some(Filename::from_untrusted(last_segment)),
        mime: item.mime.clone().or(response.mime),
        bytes: response.bytes,
    };
    files.store(response.content, &hint).await.map_err(|error| match error {
        DeclaredFileError::Source(source) => ResolutionError {
            reason: format!("{}: {source}", item.source),
            retryable: source.kind() != std::io::ErrorKind::FileTooLarge,
        },
        other => file_error(&other),
    })
}

fn file_error(error: &DeclaredFileError) -> ResolutionError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    ResolutionError {
        reason: format!("{error}{cause}"),
        retryable: matches!(error, DeclaredFileError::QuotaExceeded { .. }),
    }
}

/// Checks that bytes are of the kind that was declared, by their detected type.
fn check_type(item: &Item, mime: &str, policy: &ResolutionPolicy) -> Result<(), ResolutionError> {
    let refused = |why: String| ResolutionError { reason: format!("{}: {why}", item.source), retryable: false };
    if item.kind == AttachmentKind::Image && mime == SVG {
        return Err(refused("it is SVG, which models don't take as an image; declare it with `type: file`".to_owned()));
    }
    let allowed = policy.allowed_types.for_kind(item.kind);
    match allowed.iter().any(|pattern| matches_type(pattern, mime)) {
        true => Ok(()),
        false => Err(refused(format!(
            "it is {mime}, and `type: {}` takes {} (`attachments.allowed_mime_types.{0}`)",
            item.kind,
            allowed.join(", ")
        ))),
    }
}

/// Whether a type is that of a pattern, such as `image/png`, `image/*` or `*/*`.
fn matches_type(pattern: &str, mime: &str) -> bool {
    let (pattern_kind, pattern_subtype) = pattern.split_once('/').unwrap_or((pattern, "*"));
    let (kind, subtype) = mime.split_once('/').unwrap_or((mime, ""));
    let matches = |pattern: &str, given: &str| pattern == "*" || pattern.eq_ignore_ascii_case(given);
    matches(pattern_kind, kind) && matches(pattern_subtype, subtype)
}
