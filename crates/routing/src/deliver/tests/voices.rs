//! Voices: made once, sent as the same bytes, and written where they can't be spoken.

use super::*;

fn voice(in_text: bool) -> Part {
    part(
        1,
        PartContent::Voice { text: "hello".into(), in_text, prepared: None, as_file: false, caption: String::new() },
    )
}

#[tokio::test(start_paused = true)]
async fn voice_is_synthesized_once_for_all_attempts() {
    let mut speech = MockSpeech::new();
    speech.expect_speak().times(1).returning(|_| {
        Ok(SynthesizedSpeech { content: Box::pin(futures::stream::empty()), duration_ms: 900, waveform: vec![1] })
    });
    let stage =
        DeliveryHarness { speech: Some(speech), ..DeliveryHarness::new(vec![voice(false)], vec![not_sent(1), sent()]) };
    assert_eq!(
        stage.log().await,
        [
            "save sending with its bytes",
            "send voice",
            "save waiting with its bytes",
            "save sending with its bytes",
            "send voice",
            "settle sent"
        ]
    );
}

#[rstest]
#[case::its_own_words(false, "settle replaced by text, voice! with notice")]
#[case::the_words_of_the_reply(true, "settle failed with notice")]
#[tokio::test(start_paused = true)]
async fn failed_synthesis_writes_text_unless_already_written(#[case] in_text: bool, #[case] expected: &str) {
    assert_eq!(DeliveryHarness::new(vec![voice(in_text)], vec![]).log().await, [expected]);
}

/// An engine that gives these answers one after the other, each after some time.
fn engine(answers: Vec<Result<(), SpeechError>>) -> MockSpeech {
    let answers = Mutex::new(VecDeque::from(answers));
    let mut speech = MockSpeech::new();
    speech.expect_speak().returning(move |_| {
        let answer = answers.lock().unwrap().pop_front().expect("an answer is left");
        answer.map(|()| SynthesizedSpeech {
            content: Box::pin(futures::stream::empty()),
            duration_ms: 900,
            waveform: vec![1],
        })
    });
    speech
}

fn speech_error(retryable: bool) -> SpeechError {
    SpeechError { reason: "the engine is hoarse".into(), remedy: None, retryable }
}

#[rstest]
#[case::once(vec![Err(speech_error(true)), Ok(())], true)]
#[case::twice(vec![Err(speech_error(true)), Err(speech_error(true)), Ok(())], true)]
#[case::always(vec![Err(speech_error(true)), Err(speech_error(true)), Err(speech_error(true))], false)]
#[case::for_good(vec![Err(speech_error(false))], false)]
#[tokio::test(start_paused = true)]
async fn retryable_synthesis_error_is_retried(#[case] answers: Vec<Result<(), SpeechError>>, #[case] spoken: bool) {
    let stage =
        DeliveryHarness { speech: Some(engine(answers)), ..DeliveryHarness::new(vec![voice(true)], vec![sent()]) };
    let (log, _) = stage.play(DeliveryStart::TakenOver).await;
    let log: Vec<&str> = log.iter().map(String::as_str).filter(|line| !line.starts_with("show")).collect();
    match spoken {
        true => assert_eq!(log, ["save sending with its bytes", "send voice", "settle sent"]),
        false => {
            assert_eq!(log, ["settle failed with notice"], "the words stand in the text, so they are not repeated")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_owners_read_what_makes_me_speak() {
    for (owner_reads, expected) in
        [(true, "no key: set `speech.speak.api_key`"), (false, "no key; ask the person who runs this bot")]
    {
        let remedy = Some("set `speech.speak.api_key`".to_owned());
        let failed = SpeechError { reason: "no key".into(), remedy, retryable: false };
        let speech = Some(engine(vec![Err(failed)]));
        let stage = DeliveryHarness { speech, owner_reads, ..DeliveryHarness::new(vec![voice(true)], vec![]) };
        let ends = Arc::clone(&stage.ends);
        stage.log().await;
        let PartState::Failed { reason } = &ends.lock().unwrap()[0] else { panic!("it is not spoken") };
        assert_eq!(reason.to_string(), format!("could not be turned into speech: {expected}"));
    }
}

#[tokio::test(start_paused = true)]
async fn broken_voice_is_resynthesized_with_activity() {
    let speech = engine(vec![Ok(()), Ok(())]);
    let stage = DeliveryHarness {
        speech: Some(speech),
        breaks_off: true,
        ..DeliveryHarness::new(vec![voice(true)], vec![sent()])
    };
    let log = stage.log().await;
    assert_eq!(log, ["voice breaks off", "show Speaking", "save sending with its bytes", "send voice", "settle sent"]);
}

#[tokio::test(start_paused = true)]
async fn text_is_synthesized_plain_and_written_with_markup() {
    let marked = |words: &str| {
        let content = PartContent::Voice {
            text: words.into(),
            in_text: false,
            prepared: None,
            as_file: false,
            caption: String::new(),
        };
        part(1, content)
    };
    let mut speech = MockSpeech::new();
    speech.expect_speak().withf(|words| words == "Bring bread.").times(1).returning(|_| {
        Ok(SynthesizedSpeech { content: Box::pin(futures::stream::empty()), duration_ms: 900, waveform: vec![1] })
    });
    let stage =
        DeliveryHarness { speech: Some(speech), ..DeliveryHarness::new(vec![marked("Bring **bread**")], vec![sent()]) };
    assert_eq!(stage.log().await.last().map(String::as_str), Some("settle sent"));

    // The mock expects no call: what is too long and stands nowhere else is written, not cut.
    let too_long = "word ".repeat(900);
    let stage =
        DeliveryHarness { speech: Some(MockSpeech::new()), ..DeliveryHarness::new(vec![marked(&too_long)], vec![]) };
    let log = stage.log().await;
    assert_eq!(log, ["settle replaced by text, text, voice! with notice"]);
}

#[tokio::test(start_paused = true)]
async fn written_fallback_leaves_room_for_label() {
    let words = "w".repeat(4_090);
    assert!(words.len() + crate::label::LABEL_UNITS > 4_096, "they fill a message of Telegram without the label");
    let content =
        PartContent::Voice { text: words, in_text: false, prepared: None, as_file: false, caption: String::new() };
    let stage =
        DeliveryHarness { speech: Some(MockSpeech::new()), ..DeliveryHarness::new(vec![part(1, content)], vec![]) };
    assert_eq!(stage.log().await, ["settle replaced by text, text, voice! with notice"]);
}

#[tokio::test(start_paused = true)]
async fn fully_refused_voice_is_written_and_reported() {
    let prepared = PreparedVoice { sha256: Sha256([1; 32]), bytes: 3, duration_ms: 1, waveform: vec![] };
    let file = PartContent::Voice {
        text: "hello".into(),
        in_text: false,
        prepared: Some(prepared),
        as_file: true,
        caption: String::new(),
    };
    let log = DeliveryHarness::new(vec![part(1, file)], vec![refused(Refusal::UnsupportedKind)]).log().await;
    assert_eq!(log, ["save sending with its bytes", "send voice", "settle replaced by text, voice! with notice"]);
}
