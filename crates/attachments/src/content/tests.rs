//! What a model gets of each kind of attachment, with what it takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use satchel_domain::{AttachmentId, AttachmentSource, MediaInfo, NewAttachment, Sha256, Timestamp};
use satchel_ports::{
    ByteStream, DeclaredFileError, DocumentError, DocumentPage, FetcherError, FileEntry, MockBlobs, MockDocumentReader,
    MockFetcher, MockImageScaler, MockSpeech, ReadableFile, SpeechError,
};
use serde_json::json;
use url::Url;
use uuid::Uuid;

use super::*;
use crate::{declaration::AttachmentBounds, expand::UnmatchedGlob, problem::SourcePosition, resolve::AllowedTypes};

/// Files of a machine: their types and bytes.
#[derive(Default)]
struct MachineFiles(BTreeMap<&'static str, (&'static str, Vec<u8>)>);

#[derive(Debug)]
struct MemoryFile(Vec<u8>);

impl ReadableFile for MemoryFile {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn read(&self) -> ByteStream {
        let chunks: Vec<_> = self.0.chunks(1 << 16).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        stream::iter(chunks).boxed()
    }
}

#[async_trait]
impl DeclaredFiles for MachineFiles {
    async fn list(&self, _: &Path, _: &str, _: bool) -> Result<Vec<FileEntry>, DeclaredFileError> {
        panic!("nothing is listed")
    }

    async fn canonical_path(&self, _: &Path, _: &Path) -> Option<PathBuf> {
        panic!("nothing is merged")
    }

    async fn open(&self, _: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        let found = path.to_str().and_then(|path| self.0.get(path));
        let (mime, bytes) = found.ok_or_else(|| DeclaredFileError::Missing(path.to_owned()))?;
        Ok(OpenedFile {
            mime: (*mime).to_owned(),
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(bytes),
            media: MediaInfo::default(),
            content: Arc::new(MemoryFile(bytes.clone())),
        })
    }

    async fn store(&self, _: ByteStream, _: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        panic!("nothing is downloaded")
    }
}

/// One photo of this size, as its header tells.
struct MeasuredFiles {
    width: u32,
    height: u32,
}

#[async_trait]
impl DeclaredFiles for MeasuredFiles {
    async fn list(&self, _: &Path, _: &str, _: bool) -> Result<Vec<FileEntry>, DeclaredFileError> {
        panic!("nothing is listed")
    }

    async fn canonical_path(&self, _: &Path, _: &Path) -> Option<PathBuf> {
        panic!("nothing is merged")
    }

    async fn open(&self, _: &Path, _: &Path) -> Result<OpenedFile, DeclaredFileError> {
        let media = MediaInfo { width: Some(self.width), height: Some(self.height), ..MediaInfo::default() };
        let (mime, content) = ("image/jpeg".to_owned(), Arc::new(MemoryFile(b"jpg".to_vec())));
        Ok(OpenedFile { mime, bytes: 3, sha256: Sha256::digest("jpg"), media, content })
    }

    async fn store(&self, _: ByteStream, _: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        panic!("nothing is downloaded")
    }
}

fn item(kind: AttachmentKind, source: &str) -> Item {
    let source = match source.contains("://") {
        true => ItemSource::Url(Url::parse(source).unwrap()),
        false => ItemSource::File { root: Path::new("/etc").into(), path: source.into(), canonical: source.into() },
    };
    Item {
        kind,
        source,
        name: None,
        mime: None,
        meta: Arc::default(),
        optional: false,
        bounds: AttachmentBounds::default(),
        scope: Scope::Task,
        item: "tasks.t.attachments[0]".to_owned(),
        position: SourcePosition { file: Path::new("a.yaml").into(), line: 1, column: 1 },
    }
}

fn services(files: MachineFiles, documents: Option<MockDocumentReader>) -> ContentServices {
    let mut blobs = MockBlobs::new();
    blobs.expect_put().returning(|mut content, hint, limit| {
        assert_eq!(hint.bytes, Some(limit));
        let mut bytes = Vec::new();
        while let Some(Some(chunk)) = content.next().now_or_never() {
            bytes.extend_from_slice(&chunk.unwrap());
        }
        let mime = "application/octet-stream".to_owned();
        Ok(StoredBlob { sha256: Sha256::digest(&bytes), bytes: limit, mime, media: MediaInfo::default() })
    });
    let any = || vec!["*/*".to_owned()];
    let allowed_types = AllowedTypes { image: any(), pdf: any(), audio: any(), video: any(), file: any() };
    ContentServices {
        files: Arc::new(files),
        fetcher: Arc::new(MockFetcher::new()),
        blobs: Arc::new(blobs),
        images: None,
        work_share: None,
        speech: None,
        documents: documents.map(|documents| Arc::new(documents) as _),
        policy: ResolutionPolicy { max_download_bytes: 1_000, allowed_types },
    }
}

fn support(image_urls: bool, types: &[&str]) -> InputSupport {
    let types: BTreeSet<String> = types.iter().map(|mime| (*mime).to_owned()).collect();
    InputSupport { image_urls, partial_types: types.clone(), types, max_document_bytes: 1_000, document_text: true }
}

async fn content(
    item: Item,
    support: &InputSupport,
    services: &ContentServices,
) -> Result<Vec<ContentPart>, ResolutionError> {
    let record = |filename: Filename, stored: StoredBlob| {
        let id = AttachmentId(Uuid::nil());
        NewAttachment::new(id, AttachmentSource::Config, filename, stored, Timestamp(0)).into()
    };
    let entries = [EffectiveEntry::Item(Box::new(item))];
    let parts = to_content_parts(&entries, support, services, &record).await?;
    Ok(parts.into_iter().map(|scoped| scoped.part).collect())
}

fn text(parts: &[ContentPart]) -> &str {
    match parts {
        [ContentPart::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn image_url_stays_an_address_where_it_is_fetched() {
    let image = item(AttachmentKind::Image, "https://a.example/cat.png?token=s3cret");
    let parts = content(image, &support(true, &[]), &services(MachineFiles::default(), None)).await.unwrap();
    let [ContentPart::Text(label), ContentPart::ImageUrl(url)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(
        (label.as_str(), url.as_str()),
        ("The image https://a.example/cat.png?…:", "https://a.example/cat.png?token=s3cret")
    );
}

#[tokio::test]
async fn file_of_accepted_type_is_sent_with_its_detected_type() {
    let files = MachineFiles(BTreeMap::from([("pics/cat.png", ("image/png", b"png".to_vec()))]));
    let named = Item {
        name: Some("source:pictures".to_owned()),
        meta: Arc::new(json!({ "source": "local" }).as_object().unwrap().clone()),
        ..item(AttachmentKind::Image, "pics/cat.png")
    };
    let parts = content(named, &support(false, &["image/png"]), &services(files, None)).await.unwrap();
    let [ContentPart::Text(label), ContentPart::File(file)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(label, r#"The image "source:pictures" (pics/cat.png) {"source":"local"}:"#);
    assert_eq!((file.filename.as_str(), file.mime.as_str(), file.bytes), ("cat.png", "image/png", 3));
    assert_eq!(file.source, AttachmentSource::Config);
}

#[tokio::test]
async fn text_file_becomes_text_with_note_where_truncated() {
    let long = "строка\n".repeat(30_000);
    let files = MachineFiles(BTreeMap::from([
        ("data.csv", ("text/csv", b"a,b\n1,2\n".to_vec())),
        ("long.txt", ("text/plain", long.clone().into_bytes())),
        ("data.bin", ("application/octet-stream", b"a\0b".to_vec())),
    ]));
    let services = services(files, None);
    let takes_all = support(true, &["text/csv", "application/octet-stream"]);
    let parts = content(item(AttachmentKind::File, "data.csv"), &takes_all, &services).await.unwrap();
    assert_eq!(text(&parts), "The file data.csv (text/csv, 8 B), as text:\na,b\n1,2\n");
    let parts = content(item(AttachmentKind::File, "long.txt"), &takes_all, &services).await.unwrap();
    let (heading, body) = text(&parts).split_once('\n').unwrap();
    let (body, note) = body.rsplit_once('\n').unwrap();
    assert_eq!(
        (heading, note),
        ("The file long.txt (text/plain, 390 KB), as text:", "[cut: the first 262 KB of 390 KB]")
    );
    assert!(long.starts_with(body) && body.len() > MAX_TEXT_BYTES - 4, "{}", body.len());
    let parts = content(item(AttachmentKind::File, "data.bin"), &takes_all, &services).await.unwrap();
    assert!(matches!(parts.as_slice(), [_, ContentPart::File(_)]), "it isn't text: {parts:?}");
}

fn document_reader(result: Result<DocumentText, DocumentError>) -> MockDocumentReader {
    let mut reader = MockDocumentReader::new();
    reader.expect_read_text().returning(move |request, _| {
        assert_eq!((request.sha256, request.first_page), (Sha256::digest("%PDF"), 1));
        result.clone()
    });
    reader
}

fn page(number: u32, text: &str, bytes: usize) -> DocumentPage {
    DocumentPage { number, offset: 0, bytes: bytes as u64, text: text.to_owned() }
}

#[tokio::test]
async fn document_that_is_not_taken_becomes_text_with_what_is_missing() {
    let files = || MachineFiles(BTreeMap::from([("spec.pdf", ("application/pdf", b"%PDF".to_vec()))]));
    let spec = || item(AttachmentKind::Pdf, "spec.pdf");
    let read = DocumentText {
        pages: vec![page(1, "One", 3), page(2, "", 0), page(3, "Thr", 900)],
        total_pages: 40,
        read_pages: 40,
        empty_pages: vec![2, 17],
        is_truncated: false,
        recognition_problem: None,
    };
    let with_text = services(files(), Some(document_reader(Ok(read))));
    let parts = content(spec(), &support(true, &["image/png"]), &with_text).await.unwrap();
    let expected = "The pdf spec.pdf (application/pdf, 4 B), as text, because you can't take the file itself; pages 1–3 of \
                    40; the last of them is cut; no text on page 2:\n[page 1]\nOne\n[page 2]\n\n[page 3]\nThr";
    assert_eq!(text(&parts), expected);
    let parts = content(spec(), &support(true, &["application/pdf"]), &with_text).await.unwrap();
    assert!(matches!(parts.as_slice(), [_, ContentPart::File(_)]), "a model that takes it gets the file: {parts:?}");
    let reason = "it is protected by a password".to_owned();
    let unreadable = services(files(), Some(document_reader(Err(DocumentError::Unreadable { reason }))));
    let parts = content(spec(), &support(true, &[]), &unreadable).await.unwrap();
    assert!(matches!(parts.as_slice(), [_, ContentPart::File(_)]), "its adapter says that it can't see it: {parts:?}");
}

/// Files with a recording, and something that hears this in it.
fn transcribing_services(transcription: Result<&str, SpeechError>) -> ContentServices {
    let file = |mime| (mime, b"sound".to_vec());
    let files = [("call.mp3", file("audio/mpeg")), ("film.mp4", file("video/mp4"))];
    let mut speech = MockSpeech::new();
    speech.expect_can_transcribe().return_const(true);
    let transcription = transcription.map(str::to_owned);
    speech.expect_transcribe().returning(move |recording| {
        let read = recording.content.try_collect::<Vec<_>>().now_or_never().unwrap().unwrap().concat();
        assert_eq!((read, recording.bytes), (b"sound".to_vec(), 5));
        transcription.clone()
    });
    ContentServices { speech: Some(Arc::new(speech)), ..services(MachineFiles(BTreeMap::from(files)), None) }
}

fn failure(retryable: bool) -> Result<&'static str, SpeechError> {
    Err(SpeechError { reason: "the server\u{202e} is down".to_owned(), remedy: Some("start it".to_owned()), retryable })
}

#[tokio::test]
async fn recording_that_is_not_taken_becomes_its_transcription() {
    let call = || item(AttachmentKind::Audio, "call.mp3");
    let hears = transcribing_services(Ok("bring\u{202e} bread\nand milk"));
    let parts = content(call(), &support(true, &["image/png"]), &hears).await.unwrap();
    let expected = "The audio call.mp3 (audio/mpeg, 5 B), transcribed because you can't take the file itself; what is \
                    said in it may be misheard:\nbring bread\nand milk";
    assert_eq!(text(&parts), expected);
    let film = item(AttachmentKind::Video, "film.mp4");
    let parts = content(film, &support(true, &[]), &hears).await.unwrap();
    assert!(text(&parts).starts_with("The video film.mp4 (video/mp4, 5 B), transcribed"), "{parts:?}");
    let parts = content(call(), &support(true, &["audio/mpeg"]), &hears).await.unwrap();
    assert!(matches!(parts.as_slice(), [_, ContentPart::File(_)]), "a model that takes it hears it: {parts:?}");
    let parts = content(call(), &support(true, &[]), &transcribing_services(Ok(""))).await.unwrap();
    assert!(text(&parts).ends_with(": nothing is said in it."), "{parts:?}");
    let long = "ж".repeat(MAX_TEXT_BYTES);
    let parts = content(call(), &support(true, &[]), &transcribing_services(Ok(&long))).await.unwrap();
    assert!(text(&parts).ends_with("ж\n[cut: the first 262 KB of 524 KB]"), "{}", text(&parts).len());
}

#[tokio::test]
async fn recording_that_is_not_transcribed_is_explained() {
    let call = || item(AttachmentKind::Audio, "call.mp3");
    let parts = content(call(), &support(true, &[]), &transcribing_services(failure(false))).await.unwrap();
    let [ContentPart::Text(label), ContentPart::File(_)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(label, "The audio call.mp3 can't be transcribed (the server is down):");
    let error = content(call(), &support(true, &[]), &transcribing_services(failure(true))).await.unwrap_err();
    assert!(error.retryable && error.reason.starts_with("call.mp3 can't be transcribed: the server"), "{error:?}");
    let optional = Item { optional: true, ..call() };
    let parts = content(optional, &support(true, &[]), &transcribing_services(failure(true))).await.unwrap();
    assert!(text(&parts).contains("can't be had: call.mp3 can't be transcribed: the server is down"), "{parts:?}");
    let mut deaf = MockSpeech::new();
    deaf.expect_can_transcribe().return_const(false);
    let deaf = ContentServices { speech: Some(Arc::new(deaf)), ..transcribing_services(Ok("")) };
    let parts = content(call(), &support(true, &[]), &deaf).await.unwrap();
    let [ContentPart::Text(label), ContentPart::File(_)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!(label, "The audio call.mp3:");
}

/// The attack: a recording of gigabytes that is copied for each message, though no model takes it.
#[tokio::test]
async fn what_nobody_reads_is_not_copied() {
    let large = usize::try_from(MAX_FILE_BYTES).unwrap() + 1;
    for (bytes, types) in [(2_000, vec![]), (large, vec!["video/mp4"])] {
        let files = MachineFiles(BTreeMap::from([("film.mp4", ("video/mp4", vec![0; bytes]))]));
        let services = ContentServices { blobs: Arc::new(MockBlobs::new()), ..services(files, None) };
        let parts = content(item(AttachmentKind::Video, "film.mp4"), &support(true, &types), &services).await.unwrap();
        assert!(
            matches!(parts.as_slice(), [_, ContentPart::File(_)]),
            "its adapter says that it can't see it: {parts:?}"
        );
    }
}

#[tokio::test]
async fn address_is_a_line_and_never_fetched() {
    let site = item(AttachmentKind::Url, "https://a.example/page?q=1");
    let parts = content(site, &support(true, &[]), &services(MachineFiles::default(), None)).await.unwrap();
    assert_eq!(text(&parts), "The url https://a.example/page?q=1.");
}

#[tokio::test]
async fn missing_file_fails_unless_it_is_optional() {
    let services = services(MachineFiles::default(), None);
    let missing = || item(AttachmentKind::File, "gone.csv");
    let error = content(missing(), &support(true, &[]), &services).await.unwrap_err();
    assert_eq!(error.reason, "there is no file gone.csv");
    let optional = Item { optional: true, ..missing() };
    let parts = content(optional, &support(true, &[]), &services).await.unwrap();
    assert_eq!(text(&parts), "The file gone.csv can't be had: there is no file gone.csv.");
}

#[tokio::test]
async fn optional_glob_without_match_is_reported() {
    let unmatched = UnmatchedGlob {
        pattern: "*.png".to_owned(),
        scope: Scope::Agent,
        item: "agents.a.attachments[0]".to_owned(),
        position: SourcePosition { file: Path::new("a.yaml").into(), line: 1, column: 1 },
    };
    let record = |_: Filename, _: StoredBlob| panic!("nothing is stored");
    let entries = [EffectiveEntry::Unmatched(unmatched)];
    let parts = to_content_parts(&entries, &support(true, &[]), &services(MachineFiles::default(), None), &record)
        .await
        .unwrap();
    let part = ContentPart::Text("There is no file that matches *.png.".to_owned());
    assert_eq!(parts, [ScopedPart { scope: Scope::Agent, part }]);
}

#[tokio::test]
async fn image_is_scaled_to_its_bounds() {
    let files = || MachineFiles(BTreeMap::from([("cat.png", ("image/png", b"png".to_vec()))]));
    let bounded = |max_width| Item {
        bounds: AttachmentBounds { max_width, ..AttachmentBounds::default() },
        ..item(AttachmentKind::Image, "cat.png")
    };
    let mut scaler = MockImageScaler::new();
    scaler.expect_scale().once().returning(|request, _| {
        assert_eq!((request.sha256, request.max_side), (Sha256::digest("png"), 300));
        let content = Bytes::from_static(b"small");
        Ok(ScaledImage { mime: "image/jpeg".to_owned(), width: 300, height: 200, content })
    });
    let services = ContentServices { images: Some(Arc::new(scaler)), ..services(files(), None) };
    let sees = support(true, &["image/png", "image/jpeg"]);
    let parts = content(bounded(Some(300)), &sees, &services).await.unwrap();
    let [_, ContentPart::File(file)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((file.sha256, file.mime.as_str(), file.bytes), (Sha256::digest("small"), "image/jpeg", 5));
    assert_eq!((file.media.width, file.filename.as_str()), (Some(300), "cat.png"));
    // Without bounds, and for a model that sees nothing, nothing is scaled.
    for (bounds, support) in [(None, &sees), (Some(300), &support(false, &[]))] {
        let parts = content(bounded(bounds), support, &services).await.unwrap();
        assert!(matches!(&parts[1], ContentPart::File(file) if file.mime == "image/png"), "{parts:?}");
    }
    let without = ContentServices { images: None, ..services };
    let error = content(bounded(Some(300)), &sees, &without).await.unwrap_err();
    assert_eq!(error.reason, "cat.png: `max_width` and `max_height` need something that scales");
}

#[tokio::test]
async fn first_pages_are_text_for_every_model() {
    let files = MachineFiles(BTreeMap::from([("spec.pdf", ("application/pdf", b"%PDF".to_vec()))]));
    let read = DocumentText {
        pages: vec![page(1, "One", 3), page(2, "Two", 3)],
        total_pages: 3,
        read_pages: 3,
        empty_pages: Vec::new(),
        is_truncated: false,
        recognition_problem: None,
    };
    let bounded = Item {
        bounds: AttachmentBounds { max_pages: Some(2), ..AttachmentBounds::default() },
        ..item(AttachmentKind::Pdf, "spec.pdf")
    };
    let mut reader = MockDocumentReader::new();
    reader.expect_read_text().times(1).returning(move |request, _| {
        assert_eq!(request.page_numbers(), 1..=2, "no picture behind them is recognised in vain");
        Ok(read.clone())
    });
    let services = services(files, Some(reader));
    let parts = content(bounded, &support(true, &["application/pdf"]), &services).await.unwrap();
    let expected = "The pdf spec.pdf (application/pdf, 4 B), as text, because you are given its first pages alone; pages 1–2 \
                    of 3:\n[page 1]\nOne\n[page 2]\nTwo";
    assert_eq!(text(&parts), expected);
}

/// A photo that was taken upright is stored lying on its side.
#[tokio::test]
async fn rotated_photo_stays_within_bounds() {
    let files = || MachineFiles(BTreeMap::from([("cat.jpg", ("image/jpeg", b"jpg".to_vec()))]));
    let mut scaler = MockImageScaler::new();
    let scaled = |width, height| ScaledImage {
        mime: "image/jpeg".to_owned(),
        width,
        height,
        content: Bytes::from_static(b"small"),
    };
    scaler.expect_scale().times(2).returning(move |request, _| match request.max_side {
        // As high as wide is too high for it: it is turned.
        300 => Ok(scaled(225, 300)),
        200 => Ok(scaled(150, 200)),
        side => panic!("{side}"),
    });
    let services = ContentServices { images: Some(Arc::new(scaler)), ..services(files(), None) };
    let bounds = AttachmentBounds { max_width: Some(300), max_height: Some(200), max_pages: None };
    let photo = Item { bounds, ..item(AttachmentKind::Image, "cat.jpg") };
    let services = ContentServices { files: Arc::new(MeasuredFiles { width: 300, height: 100 }), ..services };
    let parts = content(photo, &support(true, &["image/jpeg"]), &services).await.unwrap();
    let [_, ContentPart::File(file)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((file.media.width, file.media.height), (Some(150), Some(200)));
}

/// The attack of one's own configuration: an optional image that is gone must not fail the whole request.
#[tokio::test]
async fn optional_image_address_is_fetched_here() {
    let mut fetcher = MockFetcher::new();
    fetcher.expect_fetch().once().returning(|_| Err(FetcherError::NotFound { reason: "404".to_owned() }));
    let services = ContentServices { fetcher: Arc::new(fetcher), ..services(MachineFiles::default(), None) };
    let gone = Item { optional: true, ..item(AttachmentKind::Image, "https://a.example/gone.png") };
    let parts = content(gone, &support(true, &["image/png"]), &services).await.unwrap();
    assert!(text(&parts).contains("can't be had: not there: 404"), "{parts:?}");
}

/// What one of several models takes is stored, though another one doesn't take it.
#[tokio::test]
async fn file_is_stored_for_any_fallback_model() {
    let files = MachineFiles(BTreeMap::from([("cat.png", ("image/png", b"png".to_vec()))]));
    let mut services = services(files, None);
    let mut blobs = MockBlobs::new();
    blobs.expect_put().once().returning(|_, _, limit| {
        let (mime, media) = ("image/png".to_owned(), MediaInfo::default());
        Ok(StoredBlob { sha256: Sha256::digest("png"), bytes: limit, mime, media })
    });
    services.blobs = Arc::new(blobs);
    let mixed = InputSupport { types: BTreeSet::new(), ..support(false, &["image/png"]) };
    let parts = content(item(AttachmentKind::Image, "cat.png"), &mixed, &services).await.unwrap();
    assert!(matches!(parts.as_slice(), [_, ContentPart::File(_)]), "{parts:?}");
}
