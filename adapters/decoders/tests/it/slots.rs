//! Whose file is next: one person's files leave workers to others, and images don't wait for documents.

use std::time::Duration;

use futures::future::join_all;
use satchel_decoders::DecoderSettings;
use satchel_domain::WorkShare;
use satchel_ports::{DocumentError, DocumentRequest, ImageError, ImageRequest, ImageScaler, Recording};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stub_worker::{StubWorker, decode_with, image_request, read_with, recording, request, workers};

fn work_share(person: &str) -> Option<WorkShare> {
    let conversation = format!("web:of-{person}").parse().unwrap();
    Some(WorkShare { conversation, person: Some(person.to_owned()) })
}

/// A worker that never ends with files whose request has `slow` in it, and does this with others.
fn stub(slow: &str, body: &str) -> StubWorker {
    StubWorker::new(&format!("ready; request; document; case \"$request\" in *{slow}*) exec sleep 1000;; esac; {body}"))
}

#[tokio::test]
async fn documents_of_one_person_leave_a_worker_to_others() {
    let stub = stub("pdf", "page 1 x; done_with 1 1");
    let settings = DecoderSettings { max_concurrent: 3, queue_timeout: Duration::from_secs(1), ..stub.settings() };
    let (workers, never) = (workers(settings), CancellationToken::new());
    let slow = DocumentRequest { work_share: work_share("busy"), ..request() };
    let quick = DocumentRequest { mime: "text/html".to_owned(), work_share: work_share("other"), ..request() };
    let busy = join_all((0..6).map(|_| read_with(&workers, &slow, &never)));
    let other = async {
        wait_until("two are being read", || stub.noted("numbers").lines().count() >= 2).await;
        read_with(&workers, &quick, &never).await
    };
    tokio::select! {
        read = busy => panic!("{read:?}"),
        read = other => assert_eq!(read.unwrap().pages[0].text, "x"),
    }
    wait_until("the workers are killed", || stub.is_gone()).await;
}

#[tokio::test]
async fn recordings_of_one_person_leave_a_worker_to_others() {
    let stub = stub("ogg", "audio; content YWJjZA==; audio_end 2; exec sleep 1000");
    let settings = DecoderSettings { max_concurrent: 4, queue_timeout: Duration::from_secs(1), ..stub.settings() };
    let workers = workers(settings);
    let slow = || Recording { work_share: work_share("busy"), ..recording() };
    let quick = Recording { mime: "audio/wav".to_owned(), work_share: work_share("other"), ..recording() };
    let busy = join_all((0..3).map(|_| decode_with(&workers, slow())));
    let other = async {
        wait_until("one is being decoded", || !stub.noted("numbers").is_empty()).await;
        decode_with(&workers, quick).await
    };
    tokio::select! {
        decoded = busy => panic!("{decoded:?}"),
        decoded = other => assert_eq!(decoded.unwrap(), b"abcd"),
    }
    wait_until("the workers are killed", || stub.is_gone()).await;
}

/// The page and the model wait for an image, for seconds at most; a document may take all its time.
#[tokio::test]
async fn image_does_not_wait_for_documents() {
    let stub = stub("'\"text\"'", "image png 40 1 12; content iVBORw0K; content GgphYmNk; exec sleep 1000");
    let settings = DecoderSettings { max_concurrent: 1, queue_timeout: Duration::from_millis(200), ..stub.settings() };
    let (workers, document, cancel) = (workers(settings), request(), CancellationToken::new());
    let others = async {
        wait_until("the document arrives", || !stub.noted("document").is_empty()).await;
        let never = CancellationToken::new();
        let image = workers.scale(&image_request(), &never).await;
        let page = workers.scale(&ImageRequest { page: Some(1), ..image_request() }, &never).await;
        cancel.cancel();
        (image, page)
    };
    let (read, (image, page)) = tokio::join!(read_with(&workers, &document, &cancel), others);
    assert_eq!(image.unwrap().width, 40);
    let reason = "too many files are being decoded; try again in a moment".to_owned();
    assert_eq!(page, Err(ImageError::Unavailable { reason }), "a page counts as a document");
    assert_eq!(read, Err(DocumentError::Cancelled));
    wait_until("the workers are killed", || stub.is_gone()).await;
}
