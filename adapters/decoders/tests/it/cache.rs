//! The text of a document is read once and kept as long as its bytes.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_decoders::{CachedDocumentReader, TextCache, TextEvictingBlobs};
use satchel_domain::Sha256;
use satchel_ports::{
    BlobError, Blobs, DocumentError, DocumentPage, DocumentReader, DocumentRequest, DocumentText, MockBlobs,
    MockDocumentReader,
};
use tokio_util::sync::CancellationToken;

use crate::stub_worker::request;

/// Counts how often documents are read.
type Readings = Arc<Mutex<Vec<DocumentRequest>>>;

fn page(number: u32, text: &str) -> DocumentPage {
    DocumentPage { number, offset: 0, bytes: text.len() as u64, text: text.to_owned() }
}

fn whole_document() -> DocumentText {
    let pages = vec![page(1, "first"), page(2, ""), page(3, "third\nline")];
    DocumentText {
        pages,
        total_pages: 9,
        read_pages: 3,
        empty_pages: vec![2],
        is_truncated: false,
        recognition_problem: None,
    }
}

fn reader_of_whole_documents() -> (MockDocumentReader, Readings) {
    let (mut reader, readings) = (MockDocumentReader::new(), Readings::default());
    let noted = Arc::clone(&readings);
    reader.expect_read_text().returning(move |request, _| {
        noted.lock().unwrap().push(request.clone());
        Ok(whole_document())
    });
    (reader, readings)
}

fn stored_blobs() -> MockBlobs {
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(|_, _| Ok(Box::pin(futures::stream::empty())));
    blobs.expect_mark().returning(|_, _| Ok(()));
    blobs.expect_sweep().returning(|| Ok(0));
    blobs
}

fn cached(reader: MockDocumentReader, blobs: MockBlobs, directory: &Path) -> CachedDocumentReader {
    CachedDocumentReader::new(Arc::new(reader), Arc::new(blobs), texts(directory), 3)
}

fn texts(directory: &Path) -> TextCache {
    TextCache::new(directory.join("text"), 1 << 20)
}

async fn read(reader: &CachedDocumentReader, request: &DocumentRequest) -> DocumentText {
    reader.read_text(request, &CancellationToken::new()).await.unwrap()
}

fn kept_files(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("text")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn document_is_read_once_for_all_pages() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, readings) = reader_of_whole_documents();
    let cached_reader = cached(reader, stored_blobs(), directory.path());
    let third = DocumentText { pages: vec![page(3, "third\nline")], ..whole_document() };
    assert_eq!(read(&cached_reader, &DocumentRequest { first_page: 3, ..request() }).await, third);
    assert_eq!(read(&cached_reader, &request()).await, whole_document());
    let small = DocumentRequest { first_page: 3, offset: 2, max_text_bytes: 5, ..request() };
    let part = DocumentPage { offset: 2, text: "ird\n".to_owned(), ..page(3, "third\nline") };
    assert_eq!(read(&cached_reader, &small).await.pages, [part]);
    let whole = DocumentRequest { first_page: 1, offset: 0, max_text_bytes: 8 << 20, ..request() };
    assert_eq!(*readings.lock().unwrap(), [whole]);
}

#[tokio::test]
async fn other_type_or_limit_is_read_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, readings) = reader_of_whole_documents();
    let cached_reader = cached(reader, stored_blobs(), directory.path());
    read(&cached_reader, &request()).await;
    read(&cached_reader, &DocumentRequest { mime: "text/html".to_owned(), ..request() }).await;
    let (other_reader, other_readings) = reader_of_whole_documents();
    let blobs = Arc::new(stored_blobs());
    let more_pages = CachedDocumentReader::new(Arc::new(other_reader), blobs, texts(directory.path()), 4);
    read(&more_pages, &request()).await;
    assert_eq!((readings.lock().unwrap().len(), other_readings.lock().unwrap().len()), (2, 1));
}

#[tokio::test]
async fn text_goes_with_the_last_attachment() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, readings) = reader_of_whole_documents();
    let cached_reader = cached(reader, stored_blobs(), directory.path());
    let other = DocumentRequest { sha256: Sha256([8; 32]), ..request() };
    for request in [&request(), &other] {
        read(&cached_reader, request).await;
    }
    let blobs = TextEvictingBlobs::new(Arc::new(stored_blobs()), texts(directory.path()));
    blobs.mark(&[request().sha256, Sha256([9; 32])], Duration::from_secs(3600)).await.unwrap();
    assert_eq!(kept_files(directory.path()), 1);
    read(&cached_reader, &other).await;
    assert_eq!(readings.lock().unwrap().len(), 2);
    read(&cached_reader, &request()).await;
    assert_eq!(readings.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn text_of_a_document_removed_while_it_is_read_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, _) = reader_of_whole_documents();
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(|sha256, _| Err(BlobError::Missing(*sha256)));
    read(&cached(reader, blobs, directory.path()), &request()).await;
    assert_eq!(kept_files(directory.path()), 0);
}

/// A reader may keep it between the mark and the sweep.
#[tokio::test]
async fn text_that_was_kept_too_late_goes_with_the_next_sweep() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, _) = reader_of_whole_documents();
    read(&cached(reader, stored_blobs(), directory.path()), &request()).await;
    let there = TextEvictingBlobs::new(Arc::new(stored_blobs()), texts(directory.path()));
    there.sweep().await.unwrap();
    assert_eq!(kept_files(directory.path()), 1);
    let mut gone = MockBlobs::new();
    gone.expect_open().returning(|sha256, _| Err(BlobError::Missing(*sha256)));
    gone.expect_sweep().returning(|| Ok(10));
    assert_eq!(TextEvictingBlobs::new(Arc::new(gone), texts(directory.path())).sweep().await.unwrap(), 10);
    assert_eq!(kept_files(directory.path()), 0);
}

#[tokio::test]
async fn failure_is_not_kept_and_a_broken_cache_is_only_slow() {
    let directory = tempfile::tempdir().unwrap();
    let mut failing = MockDocumentReader::new();
    failing.expect_read_text().returning(|_, _| Err(DocumentError::Unreadable { reason: "damaged".to_owned() }));
    let cached_reader = cached(failing, stored_blobs(), directory.path());
    let error = cached_reader.read_text(&request(), &CancellationToken::new()).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), kept_files(directory.path())), ("damaged", 0));
    // There is a file where the directory should be.
    std::fs::write(directory.path().join("text"), "").unwrap();
    let blobs = TextEvictingBlobs::new(Arc::new(stored_blobs()), texts(directory.path()));
    blobs.mark(&[request().sha256], Duration::from_secs(3600)).await.unwrap();
    blobs.sweep().await.unwrap();
    let (reader, readings) = reader_of_whole_documents();
    let cached_reader = cached(reader, stored_blobs(), directory.path());
    for _ in 0..2 {
        assert_eq!(read(&cached_reader, &request()).await, whole_document());
    }
    assert_eq!(readings.lock().unwrap().len(), 2);
}
