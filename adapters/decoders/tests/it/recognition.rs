//! Pages that are only pictures: a program recognises their text, page by page.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use satchel_decoders::{CachedDocumentReader, RecognitionSettings, TextCache};
use satchel_ports::{
    DocumentError, DocumentPage, DocumentReader, DocumentRequest, DocumentText, ImageError, MockBlobs,
    MockDocumentReader, MockImageScaler, ScaledImage,
};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stub_worker::request;

fn page(number: u32, text: &str) -> DocumentPage {
    DocumentPage { number, offset: 0, bytes: text.len() as u64, text: text.to_owned() }
}

/// Four pages, the second and the third of which are pictures.
fn scanned_document() -> DocumentText {
    let pages = vec![page(1, "Cover"), page(2, ""), page(3, ""), page(4, "End")];
    DocumentText {
        pages,
        total_pages: 4,
        read_pages: 4,
        empty_pages: vec![2, 3],
        is_truncated: false,
        recognition_problem: None,
    }
}

/// Draws a page as bytes that name it.
fn page_drawer() -> MockImageScaler {
    let mut images = MockImageScaler::new();
    images.expect_scale().returning(|request, _| {
        let content = Bytes::from(format!("picture of page {} within {}", request.page.unwrap(), request.max_side));
        Ok(ScaledImage { mime: "image/png".to_owned(), width: 1, height: 1, content })
    });
    images
}

/// A reader whose recognising program is this script.
fn reader(script: &str, images: MockImageScaler, directory: &Path) -> CachedDocumentReader {
    reader_of(scanned_document(), script, images, directory)
}

fn reader_of(document: DocumentText, script: &str, images: MockImageScaler, directory: &Path) -> CachedDocumentReader {
    let mut documents = MockDocumentReader::new();
    documents.expect_read_text().returning(move |_, _| Ok(document.clone()));
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(|_, _| Ok(Box::pin(futures::stream::empty())));
    let log = directory.join("log").display().to_string();
    let script = format!("echo run >> {log}; {script}");
    let settings = RecognitionSettings {
        command: ["/bin/sh", "-c", &script].map(Into::into).to_vec(),
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        time_limit: Duration::from_secs(20),
    };
    let texts = TextCache::new(directory.join("text"), 1 << 20);
    CachedDocumentReader::new(Arc::new(documents), Arc::new(blobs), texts, 200)
        .with_recognition(settings, Arc::new(images))
}

fn runs(directory: &Path) -> usize {
    std::fs::read_to_string(directory.join("log")).unwrap_or_default().lines().count()
}

async fn read(reader: &CachedDocumentReader, request: &DocumentRequest) -> DocumentText {
    reader.read_text(request, &CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn scanned_pages_are_recognised_once() {
    let directory = tempfile::tempdir().unwrap();
    let script = "read -r picture; printf '\\014 Text in the %s \\007\\n\\n' \"$picture\"";
    let first = reader(script, page_drawer(), directory.path());
    let second = reader(script, page_drawer(), directory.path());
    for reader in [first, second] {
        let text = read(&reader, &DocumentRequest { max_text_bytes: 1_000, ..request() }).await;
        let texts: Vec<&str> = text.pages.iter().map(|page| page.text.as_str()).collect();
        let expected =
            ["Cover", "Text in the picture of page 2 within 3508", "Text in the picture of page 3 within 3508"];
        assert_eq!(texts, [&expected[..], &["End"]].concat());
        assert_eq!((text.empty_pages, text.recognition_problem), (Vec::<u32>::new(), None));
        assert_eq!(runs(directory.path()), 2);
    }
}

#[tokio::test]
async fn only_the_pages_that_are_wanted_are_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let reader = reader("cat", page_drawer(), directory.path());
    let last = read(&reader, &DocumentRequest { first_page: 4, ..request() }).await;
    // Nobody knows yet whether there is text on the pages before.
    assert_eq!((last.pages, last.empty_pages, runs(directory.path())), (vec![page(4, "End")], Vec::new(), 0));
    let cover = read(&reader, &DocumentRequest { last_page: Some(1), ..request() }).await;
    assert_eq!((cover.pages, runs(directory.path())), (vec![page(1, "Cover")], 0));
    // There is room for the cover and one picture; the next page waits, and is not one without text.
    let some = read(&reader, &DocumentRequest { max_text_bytes: 20, ..request() }).await;
    let numbers: Vec<u32> = some.pages.iter().map(|page| page.number).collect();
    assert_eq!((numbers, some.empty_pages, runs(directory.path())), (vec![1], Vec::new(), 1));
    let next = read(&reader, &DocumentRequest { first_page: 2, max_text_bytes: 20, ..request() }).await;
    assert_eq!((next.pages[0].number, runs(directory.path())), (2, 1));
}

#[tokio::test]
async fn page_without_text_in_its_picture_is_not_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let reader = reader("cat > /dev/null", page_drawer(), directory.path());
    for _ in 0..2 {
        let text = read(&reader, &request()).await;
        assert_eq!((text.empty_pages, text.pages.len(), runs(directory.path())), (vec![2, 3], 4, 2));
    }
}

#[tokio::test]
async fn failure_is_explained_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let failing = reader("echo 'no such language: xyz' >&2; exit 3", page_drawer(), directory.path());
    for attempt in 1..=2 {
        let text = read(&failing, &request()).await;
        assert_eq!((text.empty_pages, text.pages.len()), (vec![2, 3], 4));
        assert_eq!(text.recognition_problem.unwrap(), "page 2: `sh` ended with 3: no such language: xyz");
        assert_eq!(runs(directory.path()), 2 * attempt);
    }
    let mut undrawable = MockImageScaler::new();
    undrawable.expect_scale().returning(|_, _| Err(ImageError::Unreadable { reason: "it is damaged".to_owned() }));
    let text = read(&reader("cat", undrawable, directory.path()), &request()).await;
    assert_eq!(text.recognition_problem.unwrap(), "page 2 can't be drawn: it is damaged");
    let endless = reader("exec cat /dev/zero", page_drawer(), directory.path());
    let problem = read(&endless, &request()).await.recognition_problem.unwrap();
    assert_eq!(problem, "`sh` wrote more than 64 KB for page 2");
}

#[tokio::test]
async fn failed_page_does_not_stop_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let script = "read -r picture; case $picture in *'page 2'*) exit 3;; esac; echo recognised";
    let text = read(&reader(script, page_drawer(), directory.path()), &request()).await;
    assert_eq!((text.pages[2].text.as_str(), text.pages.len(), text.empty_pages), ("recognised", 4, vec![2]));
    assert_eq!(text.recognition_problem.unwrap(), "page 2: `sh` ended with 3");
}

#[tokio::test]
async fn pages_behind_three_failures_wait_and_are_not_called_empty() {
    let directory = tempfile::tempdir().unwrap();
    let pages: Vec<DocumentPage> = (1..=9).map(|number| page(number, "")).collect();
    let scan =
        DocumentText { pages, total_pages: 9, read_pages: 9, empty_pages: (1..=9).collect(), ..scanned_document() };
    let reader = reader_of(scan, "exit 3", page_drawer(), directory.path());
    let text = read(&reader, &request()).await;
    assert_eq!((text.pages.len(), text.empty_pages, runs(directory.path())), (3, vec![1, 2, 3], 3));
    let text = read(&reader, &DocumentRequest { first_page: 4, ..request() }).await;
    assert_eq!((text.pages[0].number, text.pages.len(), text.empty_pages), (4, 3, vec![4, 5, 6]));
}

/// The first page is recognised, and the next one waits until the call is cancelled.
#[tokio::test]
async fn cancelled_recognition_ends_the_program_and_keeps_its_pages() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let script = format!(
        "read -r picture; case $picture in *'page 2'*) echo first; exit;; esac; \
         echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
        pid.display()
    );
    let cancelled = reader(&script, page_drawer(), directory.path());
    let cancel = CancellationToken::new();
    let wait = async {
        wait_until("the program runs", || pid.exists()).await;
        cancel.cancel();
    };
    let all = DocumentRequest { max_text_bytes: 1_000, ..request() };
    let (result, ()) = tokio::join!(cancelled.read_text(&all, &cancel), wait);
    assert_eq!(result, Err(DocumentError::Cancelled));
    let process = format!("/proc/{}", std::fs::read_to_string(&pid).unwrap().trim());
    let is_gone = || std::fs::read_to_string(format!("{process}/stat")).map_or(true, |stat| stat.contains(") Z "));
    wait_until("the program is gone", is_gone).await;
    let small = DocumentRequest { first_page: 2, max_text_bytes: 1, ..request() };
    let kept = read(&reader(&script, page_drawer(), directory.path()), &small).await;
    assert_eq!((kept.pages[0].text.as_str(), runs(directory.path())), ("f", 2));
}
