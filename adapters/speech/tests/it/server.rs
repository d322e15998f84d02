//! Servers: what they are asked, what becomes of each of their answers, and that the key stays where it belongs.

use std::time::Duration;

use rstest::rstest;
use satchel_fake_model::speech::{FakeSpeechServer, RecordedSpeechRequest, SpeechFault};
use satchel_ports::Speech;
use satchel_speech::{EngineSettings, ServerEngine, SpeechEngine, SpeechSettings, SpeechSetupError};
use secrecy::SecretString;

use crate::stage::{environment, program, recording, speak, tone, voice};

fn server(base_url: &str, key: Option<&str>) -> ServerEngine {
    ServerEngine {
        base_url: Some(SecretString::from(base_url)),
        api_key: key.map(SecretString::from),
        model: None,
        voice: None,
        language: None,
        timeout: Duration::from_secs(20),
    }
}

fn both(fake: &FakeSpeechServer, timeout: Duration) -> SpeechEngine {
    let server = ServerEngine { timeout, ..server(&fake.base_url(), Some(FakeSpeechServer::KEY)) };
    voice(
        Some(EngineSettings::Server(server.clone())),
        Some(EngineSettings::Server(server)),
        std::path::Path::new("unused"),
    )
}

#[tokio::test]
async fn long_text_becomes_one_voice_from_wav_pieces() {
    let fake = FakeSpeechServer::start().await.unwrap();
    let voice = both(&fake, Duration::from_secs(20));
    let heard = speak(&voice, "Good night.").await.unwrap();
    assert_eq!(heard.duration_ms, 220, "11 characters of 20 ms");
    let asked = |input: &str| RecordedSpeechRequest::Speak {
        input: input.into(),
        model: "gpt-4o-mini-tts".into(),
        voice: "alloy".into(),
    };
    assert_eq!(fake.requests(), [asked("Good night.")]);

    let long = "Good night. ".repeat(300);
    let heard = speak(&voice, &long).await.unwrap();
    let pieces: Vec<usize> = fake.requests()[1..]
        .iter()
        .map(|asked| match asked {
            RecordedSpeechRequest::Speak { input, .. } => input.chars().count(),
            RecordedSpeechRequest::Transcribe { .. } => 0,
        })
        .collect();
    assert_eq!(pieces, [1_895, 1_703]);
    assert_eq!(heard.duration_ms, (1_895 + 1_703) * 20);
    assert_eq!((heard.waveform.len(), fake.refused()), (256, vec![]));
}

#[tokio::test]
async fn chosen_settings_are_sent_and_key_is_optional() {
    let fake = FakeSpeechServer::start().await.unwrap();
    fake.open_to_all();
    fake.hears(" bring bread\n");
    let chosen = ServerEngine {
        model: Some("tts-1".into()),
        voice: Some("nova".into()),
        ..server(&format!("{}/", fake.base_url()), None)
    };
    let listens =
        ServerEngine { model: Some("whisper-1".into()), language: Some("de".into()), ..server(&fake.base_url(), None) };
    let voice = voice(
        Some(EngineSettings::Server(chosen)),
        Some(EngineSettings::Server(listens)),
        std::path::Path::new("unused"),
    );
    speak(&voice, "hi").await.unwrap();
    let sound = tone(8_000, 700);
    assert_eq!(voice.transcribe(recording(&sound, "audio/x-wav")).await.unwrap(), "bring bread");
    assert_eq!(
        fake.requests(),
        [
            RecordedSpeechRequest::Speak { input: "hi".into(), model: "tts-1".into(), voice: "nova".into() },
            RecordedSpeechRequest::Transcribe {
                file: sound.into(),
                filename: "recording.wav".into(),
                model: "whisper-1".into(),
                language: Some("de".into())
            },
        ]
    );
}

#[tokio::test]
async fn opus_is_taken_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let wav = directory.path().join("tone.wav");
    std::fs::write(&wav, tone(24_000, 1_000)).unwrap();
    let made = voice(Some(program(&["cat", wav.to_str().unwrap()])), None, directory.path());
    let ogg = speak(&made, "x").await.unwrap();
    let fake = FakeSpeechServer::start().await.unwrap();
    fake.fail_next(SpeechFault::Bytes(ogg.ogg.clone()));
    let heard = speak(&both(&fake, Duration::from_secs(20)), "x").await.unwrap();
    assert_eq!((heard.ogg == ogg.ogg, heard.duration_ms), (true, 1_000), "not a bit is changed");
    assert!((50..80).contains(&heard.waveform[38]) && heard.waveform.len() == 50, "{:?}", heard.waveform);
    // Of several pieces one is made.
    for _ in 0..2 {
        fake.fail_next(SpeechFault::Bytes(ogg.ogg.clone()));
    }
    let heard = speak(&both(&fake, Duration::from_secs(20)), &"Good night. ".repeat(300)).await.unwrap();
    assert_eq!(heard.duration_ms, 2_000);
}

fn refused(status: u16, code: &'static str, message: &'static str) -> SpeechFault {
    SpeechFault::Refused(status, code, message)
}

#[rstest]
#[case::another_fault(
    refused(400, "x", "the voice at https://secret.example is sk-hidden."),
    "refused it (400): the voice at … is …",
    false
)]
#[case::no_key(
    refused(401, "invalid_api_key", "sk-fake-91d3speechcanary"),
    "does not accept the key: check speech.speak.api_key",
    false
)]
#[case::no_credit(refused(402, "", ""), "no credit left", false)]
#[case::not_allowed(refused(403, "", ""), "this key has no permission for it", false)]
#[case::no_model(refused(404, "model_not_found", ""), "check speech.speak.model and base_url", false)]
#[case::moved(refused(307, "", ""), "set speech.speak.base_url to that address", false)]
#[case::too_large(refused(413, "", ""), "it is too large", false)]
#[case::too_often(refused(429, "rate_limit_exceeded", ""), "has rate-limited your requests", true)]
#[case::quota(refused(429, "insufficient_quota", ""), "no credit left", false)]
#[case::slow_itself(refused(408, "", ""), "returned a server error (408)", true)]
#[case::down(refused(503, "", ""), "returned a server error (503)", true)]
#[case::cut(SpeechFault::BrokenOff, "was interrupted", true)]
#[case::silent(SpeechFault::Hang, "took longer than 2 s", true)]
#[case::a_page(SpeechFault::Bytes(b"<html>".to_vec()), "produced something that is neither WAV nor OGG/Opus", false)]
#[case::nothing(SpeechFault::Bytes(Vec::new()), "produced no sound", false)]
#[tokio::test]
async fn every_answer_has_its_words(#[case] fault: SpeechFault, #[case] reason: &str, #[case] retryable: bool) {
    let fake = FakeSpeechServer::start().await.unwrap();
    let patience = Duration::from_secs(if fault == SpeechFault::Hang { 2 } else { 20 });
    let voice = both(&fake, patience);
    fake.fail_next(fault.clone());
    let error = speak(&voice, "Good night.").await.unwrap_err();
    assert!(error.owner_message().contains(reason), "`{reason}` is not in `{error}`");
    assert!(!error.public_message().contains("speech."), "{error:?}");
    assert_eq!(error.retryable, retryable, "{error}");
    assert!(error.reason.contains("127.0.0.1:") && !error.reason.contains("canary"), "{error}");

    // The same of a server that listens, where the answer is not sound.
    if !matches!(fault, SpeechFault::Bytes(_)) {
        fake.fail_next(fault);
        let error = voice.transcribe(recording(&tone(8_000, 100), "audio/wav")).await.unwrap_err();
        let reason = reason.replace("speech.speak", "speech.transcribe");
        assert!(error.owner_message().contains(&reason) && error.retryable == retryable, "{error:?}");
        assert!(!error.public_message().contains("speech."), "{error:?}");
    }
    assert!(speak(&voice, "Good night.").await.is_ok(), "the next one is answered as ever");
}

#[tokio::test]
async fn undecodable_transcription_is_an_error() {
    let fake = FakeSpeechServer::start().await.unwrap();
    let voice = both(&fake, Duration::from_secs(20));
    for answer in [b"{}".to_vec(), b"<html>".to_vec(), b"{\"text\": 7}".to_vec()] {
        fake.fail_next(SpeechFault::Bytes(answer));
        let error = voice.transcribe(recording(&tone(8_000, 100), "audio/wav")).await.unwrap_err();
        assert!(error.reason.contains("sent an answer that could not be understood"), "{error}");
    }
    fake.fail_next(SpeechFault::Bytes(vec![b' '; 2 << 20]));
    let error = voice.transcribe(recording(&tone(8_000, 100), "audio/wav")).await.unwrap_err();
    assert!(error.reason.contains("does not end"), "{error}");
    assert_eq!(voice.transcribe(recording(&tone(8_000, 100), "audio/wav")).await.unwrap(), "", "silence is no error");
}

#[tokio::test]
async fn unreachable_server_and_rejected_key_are_distinguished() {
    // It has a port and does not listen.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let place = deaf.local_addr().unwrap();
    let gone = EngineSettings::Server(server(&format!("http://{place}/v1"), None));
    let error = speak(&voice(Some(gone), None, std::path::Path::new("unused")), "x").await.unwrap_err();
    assert_eq!((error.reason, error.retryable), (format!("{place} can't be reached"), true));

    let fake = FakeSpeechServer::start().await.unwrap();
    for (key, says) in
        [(None, "requires an API key: set speech.speak.api_key"), (Some("sk-wrongcanary"), "does not accept")]
    {
        let engine = EngineSettings::Server(server(&fake.base_url(), key));
        let error = speak(&voice(Some(engine), None, std::path::Path::new("unused")), "x").await.unwrap_err();
        let told = error.owner_message();
        assert!(told.contains(says) && !told.contains("canary") && !error.retryable, "{error}");
    }
}

#[rstest]
#[case("not an address")]
#[case("ftp://example.org/v1")]
#[case("file:///etc/passwd")]
fn invalid_server_url_is_rejected_at_start(#[case] base_url: &str) {
    let transcribe = Some(EngineSettings::Server(server(base_url, None)));
    let settings = SpeechSettings { speak: None, transcribe, environment: environment(), recordings: "unused".into() };
    assert_eq!(SpeechEngine::new(settings).err(), Some(SpeechSetupError::Address { section: "speech.transcribe" }));
}

#[tokio::test]
async fn server_side_refusal_is_reported_as_permanent() {
    let fake = FakeSpeechServer::start().await.unwrap();
    let wrong = |model: Option<&str>, voice: Option<&str>, language: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let server = server(&fake.base_url(), Some(FakeSpeechServer::KEY));
        let engine = EngineSettings::Server(ServerEngine {
            model: owned(model),
            voice: owned(voice),
            language: owned(language),
            ..server
        });
        crate::stage::voice(Some(engine.clone()), Some(engine), std::path::Path::new("unused"))
    };
    let sound = tone(8_000, 100);
    let spoken = |voice: SpeechEngine| async move { speak(&voice, "Good night.").await.unwrap_err() };
    let heard = |voice: SpeechEngine, sound: Vec<u8>| async move {
        voice.transcribe(recording(&sound, "audio/wav")).await.unwrap_err()
    };
    for (error, says) in [
        (spoken(wrong(Some("gpt-9"), None, None)).await, "check speech.speak.model"),
        (spoken(wrong(None, Some("grandma"), None)).await, "refused it (400)"),
        (heard(wrong(Some("gpt-9"), None, None), sound.clone()).await, "check speech.transcribe.model"),
        (heard(wrong(None, None, Some("German")), sound).await, "ISO-639-1"),
        (heard(wrong(None, None, None), Vec::new()).await, "Unrecognized file format"),
    ] {
        assert!(error.owner_message().contains(says) && !error.retryable, "`{says}` is not in `{error}`");
    }
    assert_eq!((fake.refused().len(), fake.requests().len()), (5, 0));
}
