//! Each promise of the port that reads documents.

use std::time::Duration;

use rstest::rstest;
use satchel_decoders::{DecoderSettings, probe};
use satchel_ports::{DocumentError, DocumentPage, DocumentRequest, DocumentText};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stub_worker::{DOCUMENT, StubWorker, read_with, request, workers, workers_for};

fn reason(result: Result<DocumentText, DocumentError>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn document_reaches_worker_and_text_returns() {
    let stub = StubWorker::new("ready; request; document; page 2 'two'; page 3 ''; done_with 9 8 3,5; exec sleep 1000");
    let request = DocumentRequest { first_page: 2, ..request() };
    let text = read_with(&workers(stub.settings()), &request, &CancellationToken::new()).await.unwrap();
    let page = |number, text: &str| DocumentPage { number, offset: 0, bytes: text.len() as u64, text: text.to_owned() };
    let pages = vec![page(2, "two"), page(3, "")];
    let expected = DocumentText {
        pages,
        total_pages: 9,
        read_pages: 8,
        empty_pages: vec![3, 5],
        is_truncated: false,
        recognition_problem: None,
    };
    assert_eq!(text, expected);
    assert_eq!(stub.noted("document").as_bytes(), DOCUMENT);
    assert_eq!(stub.noted("arguments"), "--memory 536870912\n");
    assert_eq!(
        stub.noted("request"),
        "{\"mime\":\"application/pdf\",\"bytes\":10,\"processor_seconds\":22,\"output\":{\"text\":{\"first_page\":2,\"last_page\":4294967295,\
         \"offset\":0,\"max_text_bytes\":100,\"max_pages\":200}}}"
    );
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case::page_out_of_order("page 2 x; done_with 2 2", "a page is not the next one")]
#[case::page_twice("page 1 x; page 1 x; done_with 2 2", "a page is not the next one")]
#[case::page_beyond_the_document("page 1 x; page 2 y; done_with 1 1", "its numbers of pages contradict each other")]
#[case::more_read_than_there_are("page 1 x; done_with 1 2", "its numbers of pages contradict each other")]
#[case::wrong_empty_pages("page 1 x; done_with 2 2 2,1", "its numbers of pages contradict each other")]
#[case::too_much_text(
    "page 1 \"$(head -c 105 /dev/zero | tr '\\0' x)\"; done_with 1 1",
    "the pages hold more text than was requested"
)]
#[case::no_json("echo nonsense", "a line can't be parsed")]
#[case::unknown_message("echo '{\"write\":\"/etc/passwd\"}'", "a line can't be parsed")]
#[case::image("image png 1 1 9", "a message is not about text")]
#[case::ready_twice("ready", "it was ready twice")]
#[case::endless_line("exec tr '\\0' x < /dev/zero", "a line is too long")]
#[tokio::test]
async fn protocol_violation_is_an_error(#[case] body: &str, #[case] expected: &str) {
    let stub = StubWorker::new(&format!("ready; request; document; {body}; exec sleep 1000"));
    assert_eq!(reason(stub.read().await), format!("its worker broke the protocol ({expected})"));
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case("exit 3", "it ended the worker that was reading it (code 3)")]
#[case("kill -SEGV $$", "it ended the worker that was reading it (signal 11)")]
#[case("kill -XCPU $$", "reading it takes too much processor time")]
#[case("echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$", "reading it takes more memory than 536 MB")]
#[case("echo \"thread 'decoder' (7) has overflowed its stack\" >&2; kill -ABRT $$", "it is nested too deeply")]
#[tokio::test]
async fn death_of_worker_is_explained(
    #[case] death: &str,
    #[case] expected: &str,
    #[values("ready", "ready; request; document", "ready; request; document; page 1 x")] before: &str,
) {
    assert_eq!(reason(StubWorker::new(&format!("{before}; {death}")).read().await), expected);
}

#[tokio::test]
async fn failures_of_the_worker_keep_their_kind() {
    let failed = |kind: &str| {
        let message = format!("{{\"failed\":{{\"kind\":\"{kind}\",\"message\":\"it is \\u0007odd\"}}}}");
        StubWorker::new(&format!("ready; request; document; printf '%s\\n' '{message}'; exec sleep 1000"))
    };
    let reason = "it is  odd".to_owned();
    assert_eq!(failed("unsupported").read().await, Err(DocumentError::Unsupported { reason: reason.clone() }));
    assert_eq!(failed("unreadable").read().await, Err(DocumentError::Unreadable { reason }));
}

#[tokio::test]
async fn endless_document_is_stopped_at_the_deadline() {
    let stub = StubWorker::new("ready; request; document; while :; do :; done");
    let settings = DecoderSettings { time_limit: Duration::from_millis(300), ..stub.settings() };
    let result = read_with(&workers(settings), &request(), &CancellationToken::new()).await;
    assert_eq!(reason(result), "reading it took longer than 0.3 s");
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[tokio::test]
async fn cancelled_and_dropped_calls_end_their_workers() {
    let stub = StubWorker::new("ready; request; document; exec sleep 1000");
    let cancel = CancellationToken::new();
    let (workers, wanted) = (workers(stub.settings()), request());
    let reading = read_with(&workers, &wanted, &cancel);
    let cancelling = async {
        wait_until("the document arrives", || !stub.noted("document").is_empty()).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(reading, cancelling);
    assert_eq!(result, Err(DocumentError::Cancelled));
    wait_until("the worker is killed", || stub.is_gone()).await;
    let never = CancellationToken::new();
    let dropped = tokio::time::timeout(Duration::from_millis(300), read_with(&workers, &wanted, &never)).await;
    assert!(dropped.is_err());
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[tokio::test]
async fn document_that_is_too_large_starts_no_worker() {
    let stub = StubWorker::new("ready");
    let large = DocumentRequest { bytes: (128 << 20) + 1, ..request() };
    let result = read_with(&workers(stub.settings()), &large, &CancellationToken::new()).await;
    assert_eq!(reason(result), "it has 134 MB; a document of at most 134 MB can be read as text");
    assert_eq!(stub.noted("numbers"), "");
}

#[tokio::test]
async fn lost_bytes_are_an_error() {
    let stub = StubWorker::new("ready; request; document; exec sleep 1000");
    let longer = DocumentRequest { bytes: DOCUMENT.len() as u64 + 1, ..request() };
    let result = read_with(&workers(stub.settings()), &longer, &CancellationToken::new()).await;
    assert_eq!(reason(result), "its bytes can't be read: there are not 11 of them");
}

#[tokio::test]
async fn missing_program_is_named_and_waited_for() {
    let missing = DecoderSettings::new("/missing/satchel-decoder".into());
    let expected = "the decoder worker `/missing/satchel-decoder` is not there".to_owned();
    let result = read_with(&workers(missing.clone()), &request(), &CancellationToken::new()).await;
    assert_eq!(result, Err(DocumentError::Unavailable { reason: expected.clone() }));
    assert_eq!(probe(&missing.worker, 1 << 29).await.unwrap_err().to_string(), expected);
    let pending = DecoderSettings { wait_for_program: true, queue_timeout: Duration::from_millis(100), ..missing };
    let result = read_with(&workers(pending), &request(), &CancellationToken::new()).await;
    assert_eq!(reason(result), "the decoder worker is not built yet; try again in a minute");
    let stub = StubWorker::new("ready; request; document; page 1 x; done_with 1 1");
    let later = stub.path().with_file_name("later");
    let settings = DecoderSettings { worker: later.clone(), wait_for_program: true, ..stub.settings() };
    let (workers, wanted, cancel) = (workers(settings), request(), CancellationToken::new());
    let building = async { std::fs::rename(stub.path(), later).unwrap() };
    let (result, ()) = tokio::join!(read_with(&workers, &wanted, &cancel), building);
    assert_eq!(result.unwrap().pages[0].text, "x");
}

#[tokio::test]
async fn unknown_binary_file_starts_no_worker() {
    let stub = StubWorker::new("ready; request; document; page 1 x; done_with 1 1");
    for (content, mime, expected) in [
        (&b"\x00\x01\x02\x03"[..], "application/octet-stream", "it can't be read as text"),
        (b"\x1f\x8b\x08\x00\x01\x02", "application/gzip", "application/gzip can't be read as text"),
    ] {
        let wanted = DocumentRequest { bytes: content.len() as u64, mime: mime.to_owned(), ..request() };
        let read = read_with(&workers_for(stub.settings(), content), &wanted, &CancellationToken::new()).await;
        assert_eq!(read, Err(DocumentError::Unsupported { reason: expected.to_owned() }));
    }
    assert_eq!(stub.noted("numbers"), "", "the worker notes its number when it is started");
    let text = DocumentRequest { mime: "application/octet-stream".to_owned(), ..request() };
    read_with(&workers(stub.settings()), &text, &CancellationToken::new()).await.unwrap();
    assert_eq!(stub.noted("numbers").lines().count(), 1);
}

#[tokio::test]
async fn documents_wait_for_a_free_worker() {
    let stub = StubWorker::new(
        "ready; request; document; until [ -e \"$HERE/go\" ]; do sleep 0.02; done; page 1 x; done_with 1 1",
    );
    let settings = DecoderSettings { max_concurrent: 1, queue_timeout: Duration::from_millis(200), ..stub.settings() };
    let (workers, wanted, cancel) = (workers(settings), request(), CancellationToken::new());
    let second = async {
        wait_until("the first is being read", || !stub.noted("document").is_empty()).await;
        let result = read_with(&workers, &wanted, &cancel).await;
        std::fs::write(stub.path().with_file_name("go"), "").unwrap();
        result
    };
    let (first, second) = tokio::join!(read_with(&workers, &wanted, &cancel), second);
    assert_eq!(reason(second), "too many files are being decoded; try again in a moment");
    assert!(first.is_ok());
}
