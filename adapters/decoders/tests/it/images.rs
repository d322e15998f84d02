//! Each promise of the port that scales images, as far as it differs from that of documents.

use std::time::Duration;

use bytes::Bytes;
use rstest::rstest;
use satchel_decoders::DecoderSettings;
use satchel_ports::{ImageError, ImageRequest, ImageScaler, ScaledImage};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stub_worker::{DOCUMENT, StubWorker, image_request, workers};

fn reason(result: Result<ScaledImage, ImageError>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, ImageError::Unreadable { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn image_reaches_worker_and_result_returns() {
    // The magic of PNG and four letters, in two chunks.
    let body = "image png 40 1 12; content iVBORw0K; content GgphYmNk; exec sleep 1000";
    let stub = StubWorker::new(&format!("ready; request; document; {body}"));
    let content = Bytes::from_static(b"\x89PNG\r\n\x1a\nabcd");
    let expected = ScaledImage { mime: "image/png".to_owned(), width: 40, height: 1, content };
    assert_eq!(stub.scale().await, Ok(expected));
    assert_eq!(stub.noted("document").as_bytes(), DOCUMENT);
    assert_eq!(
        stub.noted("request"),
        "{\"mime\":\"image/webp\",\"bytes\":10,\"processor_seconds\":22,\"output\":{\"image\":{\"max_side\":40,\
         \"max_bytes\":20}}}"
    );
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case::too_wide("image png 41 1 9", "the image is not as requested")]
#[case::too_high("image png 1 41 9", "the image is not as requested")]
#[case::no_width("image png 0 1 9", "the image is not as requested")]
#[case::no_height("image png 1 0 9", "the image is not as requested")]
#[case::too_many_bytes("image png 1 1 21", "the image is not as requested")]
#[case::no_bytes("image png 1 1 0", "the image is not as requested")]
#[case::second_image("image png 1 1 9; image png 1 1 9", "the image is not as requested")]
#[case::content_first("content iVBORw0K", "content comes before its image")]
#[case::more_content("image png 1 1 5; content iVBORw0K", "the content has another size than its image")]
#[case::empty_chunk("image png 1 1 5; content ''", "the content has another size than its image")]
#[case::other_format("image jpeg 1 1 6; content iVBORw0K", "the content has another format than its image")]
#[case::no_magic("image png 1 1 6; content abcdefgh", "the content has another format than its image")]
#[case::unknown_format("image svg 1 1 6", "a line can't be parsed")]
#[case::no_base64("image png 1 1 5; content '!!!!'", "a line can't be parsed")]
#[case::long_chunk("image png 1 1 5; head -c 80000 /dev/zero | tr '\\0' x", "a line is too long")]
#[case::page("page 1 x", "a message is not about an image")]
#[case::done("done_with 1 1", "a message is not about an image")]
#[case::ready_twice("ready", "it was ready twice")]
#[tokio::test]
async fn protocol_violation_in_image_is_error(#[case] body: &str, #[case] expected: &str) {
    let stub = StubWorker::new(&format!("ready; request; document; {body}; exec sleep 1000"));
    assert_eq!(reason(stub.scale().await), format!("its worker broke the protocol ({expected})"));
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case("exit 3", "it ended the worker that was scaling it (code 3)")]
#[case("kill -XCPU $$", "scaling it takes too much processor time")]
#[case("echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$", "scaling it takes more memory than 536 MB")]
#[tokio::test]
async fn death_while_scaling_is_explained(
    #[case] death: &str,
    #[case] expected: &str,
    #[values("ready", "ready; request; document; image png 1 1 9; content iVBORw0K")] before: &str,
) {
    assert_eq!(reason(StubWorker::new(&format!("{before}; {death}")).scale().await), expected);
}

#[tokio::test]
async fn image_failures_keep_their_kind() {
    let failed = |kind: &str| {
        let message = format!("{{\"failed\":{{\"kind\":\"{kind}\",\"message\":\"it is \\u0007odd\"}}}}");
        StubWorker::new(&format!("ready; request; document; printf '%s\\n' '{message}'; exec sleep 1000"))
    };
    let reason = "it is  odd".to_owned();
    assert_eq!(failed("unsupported").scale().await, Err(ImageError::Unsupported { reason: reason.clone() }));
    assert_eq!(failed("unreadable").scale().await, Err(ImageError::Unreadable { reason }));
    let missing = workers(DecoderSettings::new("/missing/satchel-decoder".into()));
    let reason = "the decoder worker `/missing/satchel-decoder` is not there".to_owned();
    let result = missing.scale(&image_request(), &CancellationToken::new()).await;
    assert_eq!(result, Err(ImageError::Unavailable { reason }));
}

#[tokio::test]
async fn endless_and_oversized_images_are_refused() {
    let stub = StubWorker::new("ready; request; document; image png 1 1 9; while :; do :; done");
    let settings = DecoderSettings { time_limit: Duration::from_millis(300), ..stub.settings() };
    let result = workers(settings).scale(&image_request(), &CancellationToken::new()).await;
    assert_eq!(reason(result), "scaling it took longer than 0.3 s");
    wait_until("the worker is killed", || stub.is_gone()).await;
    let stub = StubWorker::new("ready");
    let large = ImageRequest { bytes: (128 << 20) + 1, ..image_request() };
    let result = workers(stub.settings()).scale(&large, &CancellationToken::new()).await;
    assert_eq!(reason(result), "it has 134 MB; an image of at most 134 MB can be scaled");
    assert_eq!(stub.noted("numbers"), "");
}
