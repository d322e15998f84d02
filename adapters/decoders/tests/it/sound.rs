//! Each promise of the ports that decode sound and measure media, as far as it differs from that of documents.

use std::time::Duration;

use futures::StreamExt;
use rstest::rstest;
use satchel_decoders::DecoderSettings;
use satchel_domain::MediaInfo;
use satchel_ports::{AudioDecoder, AudioError, DocumentError, MediaMeter, Recording};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stub_worker::{DOCUMENT, StubWorker, decode_with, media_request, read_with, recording, request, workers};

fn reason<T: std::fmt::Debug>(result: Result<T, AudioError>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, AudioError::Unreadable { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn recording_reaches_worker_and_samples_return() {
    let body = "audio; content YWJjZA==; content ZWY=; audio_end 3; exec sleep 1000";
    let stub = StubWorker::new(&format!("ready; request; document; {body}"));
    assert_eq!(stub.decode().await.unwrap(), b"abcdef");
    assert_eq!(stub.noted("document").as_bytes(), DOCUMENT);
    assert_eq!(
        stub.noted("request"),
        "{\"mime\":\"audio/ogg\",\"bytes\":10,\"processor_seconds\":202,\"output\":{\"audio\":{\"sample_rate\":16000,\
         \"max_samples\":115200000}}}"
    );
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case::content_first("content YWJj", "a message comes before the sound")]
#[case::end_first("audio_end 0", "a message comes before the sound")]
#[case::image("image png 1 1 9", "a message comes before the sound")]
#[case::sound_twice("audio; audio", "a message is not about sound")]
#[case::page("audio; page 1 x", "a message is not about sound")]
#[case::media("audio; media 1 1 1", "a message is not about sound")]
#[case::half_a_sample("audio; content YWJj", "the sound is not as requested")]
#[case::empty_chunk("audio; content ''", "the sound is not as requested")]
#[case::more_claimed("audio; content YWJjZA==; audio_end 3", "the sound has another length than it says")]
#[case::less_claimed("audio; content YWJjZA==; audio_end 1", "the sound has another length than it says")]
#[case::absurd_claim("audio; audio_end 9223372036854775808", "the sound has another length than it says")]
#[case::no_base64("audio; content '!!!!'", "a line can't be parsed")]
#[case::long_chunk("audio; head -c 80000 /dev/zero | tr '\\0' x", "a line is too long")]
#[case::ready_twice("audio; ready", "it was ready twice")]
#[tokio::test]
async fn protocol_violation_in_sound_is_error(#[case] body: &str, #[case] expected: &str) {
    let stub = StubWorker::new(&format!("ready; request; document; {body}; exec sleep 1000"));
    assert_eq!(reason(stub.decode().await), format!("its worker broke the protocol ({expected})"));
    wait_until("the worker is killed", || stub.is_gone()).await;
}

#[rstest]
#[case("exit 3", "it ended the worker that was decoding it (code 3)")]
#[case("kill -XCPU $$", "decoding it takes too much processor time")]
#[case("echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$", "decoding it takes more memory than 536 MB")]
#[tokio::test]
async fn death_while_decoding_is_explained(
    #[case] death: &str,
    #[case] expected: &str,
    #[values("ready", "ready; request; document", "ready; request; document; audio; content YWJjZA==")] before: &str,
) {
    assert_eq!(reason(StubWorker::new(&format!("{before}; {death}")).decode().await), expected);
}

#[tokio::test]
async fn sound_failures_keep_their_kind_and_place() {
    let failed = |before: &str, kind: &str| {
        let message = format!("{{\"failed\":{{\"kind\":\"{kind}\",\"message\":\"it is \\u0007odd\"}}}}");
        StubWorker::new(&format!("ready; request; document; {before} printf '%s\\n' '{message}'; exec sleep 1000"))
    };
    let odd = "it is  odd".to_owned();
    assert_eq!(failed("", "unsupported").decode().await, Err(AudioError::Unsupported { reason: odd.clone() }));
    let stub = failed("audio; content YWJjZA==;", "unreadable");
    let mut samples = workers(stub.settings()).decode(recording()).await.unwrap();
    assert_eq!(samples.next().await.unwrap().unwrap(), "abcd", "what came before the failure is passed on");
    let error = samples.next().await.unwrap().unwrap_err().into_inner().unwrap();
    assert_eq!(error.downcast_ref(), Some(&AudioError::Unreadable { reason: odd }));
    assert!(samples.next().await.is_none(), "nothing follows a failure");
    let missing = workers(DecoderSettings::new("/missing/satchel-decoder".into()));
    let reason = "the decoder worker `/missing/satchel-decoder` is not there".to_owned();
    assert_eq!(decode_with(&missing, recording()).await, Err(AudioError::Unavailable { reason }));
}

#[tokio::test]
async fn endless_sound_is_stopped_at_the_deadline() {
    for body in ["while :; do :; done", "audio; while :; do content YWJjZA==; done"] {
        let stub = StubWorker::new(&format!("ready; request; document; {body}"));
        let settings = DecoderSettings { time_limit: Duration::from_millis(50), ..stub.settings() };
        assert_eq!(reason(decode_with(&workers(settings), recording()).await), "decoding it took longer than 0.5 s");
        wait_until("the worker is killed", || stub.is_gone()).await;
    }
}

#[tokio::test]
async fn broken_or_oversized_recording_is_refused() {
    let stub = StubWorker::new("ready; request; document; exec sleep 1000");
    let long = Recording { bytes: 9, ..recording() };
    let reason_of_long = "its bytes can't be read: there are not 9 of them".to_owned();
    let lost = decode_with(&workers(stub.settings()), long).await;
    assert_eq!(lost, Err(AudioError::Interrupted { reason: reason_of_long }));
    let large = Recording { bytes: (128 << 20) + 1, ..recording() };
    let expected = "it has 134 MB; a recording of at most 134 MB can be decoded";
    assert_eq!(reason(decode_with(&workers(stub.settings()), large).await), expected);
}

#[tokio::test]
async fn dropped_sound_frees_its_worker() {
    let stub = StubWorker::new("ready; request; document; audio; while :; do content YWJjZA==; done");
    let settings = DecoderSettings { max_concurrent: 1, queue_timeout: Duration::from_millis(200), ..stub.settings() };
    let workers = workers(settings);
    let mut samples = workers.decode(recording()).await.unwrap();
    samples.next().await.unwrap().unwrap();
    let reason = "other recordings are being decoded; try again in a moment".to_owned();
    let second = decode_with(&workers, recording()).await;
    assert_eq!(second, Err(AudioError::Interrupted { reason }), "a stream keeps its place");
    // Which is none of a document's, whose worker this stub is not.
    let read = read_with(&workers, &request(), &CancellationToken::new()).await;
    assert!(matches!(read, Err(DocumentError::Unreadable { .. })), "{read:?}");
    drop(samples);
    wait_until("the worker is killed", || stub.is_gone()).await;
    assert!(workers.decode(recording()).await.is_ok(), "the place is free");
}

#[tokio::test]
async fn media_is_measured() {
    let stub = StubWorker::new("ready; request; document; media 640 480 1500; exec sleep 1000");
    let expected = MediaInfo { width: Some(640), height: Some(480), duration_ms: Some(1_500), animated: false };
    assert_eq!(stub.measure().await, Ok(expected));
    assert!(stub.noted("request").ends_with("\"output\":\"media\"}"), "{}", stub.noted("request"));
    let stub = StubWorker::new("ready; request; document; media null null null; exec sleep 1000");
    assert_eq!(stub.measure().await, Ok(MediaInfo::default()));
}

#[rstest]
#[case::no_width("media 0 1 1", "the measures are impossible")]
#[case::no_height("media 1 0 1", "the measures are impossible")]
#[case::wide("media 65536 1 1", "the measures are impossible")]
#[case::one_side("media 1 null 1", "the measures are impossible")]
#[case::no_duration("media 1 1 0", "the measures are impossible")]
#[case::years("media 1 1 8640000001", "the measures are impossible")]
#[case::sound("audio", "a message is not about media")]
#[tokio::test]
async fn protocol_violation_in_measures_is_error(#[case] body: &str, #[case] expected: &str) {
    let stub = StubWorker::new(&format!("ready; request; document; {body}; exec sleep 1000"));
    let error = stub.measure().await.unwrap_err().to_string();
    assert_eq!(error, format!("its worker broke the protocol ({expected})"));
}

/// A message doesn't wait for a worker that is still being built.
#[tokio::test]
async fn media_is_not_measured_without_a_worker() {
    let settings = DecoderSettings {
        wait_for_program: true,
        queue_timeout: Duration::from_millis(200),
        ..DecoderSettings::new("/missing/satchel-decoder".into())
    };
    let error = workers(settings).measure(&media_request()).await.unwrap_err().to_string();
    assert_eq!(error, "the decoder worker is not built yet");
}
