//! Programs of one's own: what they are given, what is taken of what they make, and how they end.

use std::time::{Duration, Instant};

use rstest::rstest;
use satchel_ports::Speech;
use satchel_speech::{CommandEngine, EngineSettings, SpeechEngine, SpeechSettings, SpeechSetupError};
use satchel_wait::wait_until;

use crate::stage::{environment, program, recording, script, speak, timed, tone, voice};

#[tokio::test]
async fn command_reads_text_on_stdin_and_yields_opus() {
    let directory = tempfile::tempdir().unwrap();
    let wav = directory.path().join("tone.wav");
    std::fs::write(&wav, tone(22_050, 2_000)).unwrap();
    let told = directory.path().join("told");
    let speaks = script(&format!("cat > {}; cat {}", told.display(), wav.display()));
    let words = "Ёж; $(touch /tmp/never) `id` \"'\n-v";
    let heard = speak(&voice(Some(speaks), None, directory.path()), words).await.unwrap();
    assert_eq!(std::fs::read_to_string(told).unwrap(), words, "no shell has seen them");
    assert!(heard.ogg.starts_with(b"OggS") && heard.ogg.windows(8).any(|bytes| bytes == b"OpusHead"));
    assert_eq!((heard.duration_ms, heard.waveform.len()), (2_000, 100));
    assert!(heard.ogg.len() < 16_000, "{} bytes", heard.ogg.len());
    let (loud, soft) = (heard.waveform[25], heard.waveform[75]);
    assert!(loud > 240 && (50..80).contains(&soft), "{loud} {soft}");
}

#[tokio::test]
async fn command_gets_minimal_environment() {
    let directory = tempfile::tempdir().unwrap();
    let hears = script("env | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort");
    let words = voice(None, Some(hears), directory.path()).transcribe(recording(b"x", "audio/ogg")).await.unwrap();
    assert_eq!(words, "LANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin");
}

#[rstest]
#[case::no_such_program(program(&["satchel-has-no-such-program"]), "failed to start `satchel-has-no-such-program`: there is no such program", false)]
#[case::it_fails(script("echo >&2; cat >&2; echo >&2; echo >&2 later; exit 3"), "`sh` ended with 3: good night", false)]
#[case::it_fails_in_silence(script("exit 4"), "`sh` ended with 4", false)]
#[case::it_is_killed(script("kill -9 $$"), "`sh` was killed", true)]
#[case::it_says_nothing(script("true"), "`sh` produced no sound", false)]
#[case::it_makes_words(script("echo hello"), "`sh` produced something that is neither WAV nor OGG/Opus", false)]
#[case::it_makes_words_without_end(
    script("exec yes"),
    "`sh` produced something that is neither WAV nor OGG/Opus",
    false
)]
#[case::it_makes_mp3(script("printf 'ID3....'"), "`sh` produced MP3 or AAC, and WAV or OGG/Opus is needed", false)]
#[case::it_breaks_off(
    script(
        "printf 'RIFF....WAVEfmt \\20\\0\\0\\0\\1\\0\\1\\0\\100\\37\\0\\0\\100\\37\\0\\0\\1\\0\\10\\0data\\377\\0\\0\\0xxx'"
    ),
    "`sh` stopped in the middle of its output",
    true
)]
#[case::it_makes_silence_of_no_length(
    script(
        "printf 'RIFF....WAVEfmt \\20\\0\\0\\0\\1\\0\\1\\0\\100\\37\\0\\0\\100\\37\\0\\0\\1\\0\\10\\0data\\0\\0\\0\\0'"
    ),
    "`sh` produced no sound",
    false
)]
#[case::not_opus(script("printf 'OggS and so on'"), "`sh` produced OGG that isn't Opus, or is damaged", false)]
#[case::it_hangs(timed(&["sleep", "60"], Duration::from_millis(300)), "`sleep` took longer than 0 s", true)]
#[tokio::test]
async fn what_goes_wrong_is_told_in_words(
    #[case] engine: EngineSettings,
    #[case] reason: &str,
    #[case] retryable: bool,
) {
    let directory = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let error = speak(&voice(Some(engine), None, directory.path()), "good night").await.unwrap_err();
    assert_eq!((error.reason.as_str(), error.retryable), (reason, retryable));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn abandoned_command_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let numbers = directory.path().join("numbers");
    let line = format!("sleep 300 & echo $! > {0}; sleep 301 & echo $! >> {0}; wait", numbers.display());
    let engine = timed(&["sh", "-c", &line], Duration::from_secs(3));
    let error = speak(&voice(Some(engine), None, directory.path()), "x").await.unwrap_err();
    assert!(error.retryable, "{error}");
    let numbers = std::fs::read_to_string(numbers).unwrap();
    assert_eq!(numbers.lines().count(), 2);
    for number in numbers.lines() {
        let runs = || std::fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        wait_until(&format!("{number} has ended"), || !runs()).await;
    }
}

#[tokio::test]
async fn command_gets_recording_as_file_removed_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let paths = directory.path().join("paths");
    let line = format!(r#"echo "$1" >> {}; printf '  '; cat "$1"; echo"#, paths.display());
    for command in [["sh", "-c", &line, "script"].to_vec(), ["sh", "-c", &line, "script", "{file}"].to_vec()] {
        let voice = voice(None, Some(program(&command)), directory.path());
        let words = voice.transcribe(recording("bring bread, ёж".as_bytes(), "audio/mpeg")).await.unwrap();
        assert_eq!(words, "bring bread, ёж", "trimmed");
    }
    let paths = std::fs::read_to_string(paths).unwrap();
    assert_eq!(paths.lines().filter(|path| path.ends_with(".mp3")).count(), 2, "{paths}");
    let left: Vec<_> = std::fs::read_dir(directory.path().join("recordings")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_program_that_reads_only_wav_gets_wav() {
    let directory = tempfile::tempdir().unwrap();
    let wav = directory.path().join("tone.wav");
    std::fs::write(&wav, tone(44_100, 1_500)).unwrap();
    let both = voice(
        Some(program(&["cat", wav.to_str().unwrap()])),
        Some(program(&["sh", "-c", "head -c 44 \"$1\" | od -An -v -tu4 -w4; wc -c < \"$1\"", "script", "{wav}"])),
        directory.path(),
    );
    let spoken = speak(&both, "x").await.unwrap();
    let words = both.transcribe(recording(&spoken.ogg, "audio/ogg")).await.unwrap();
    let numbers: Vec<u32> = words.split_whitespace().map(|number| number.parse().unwrap()).collect();
    // A second and a half at 16 kHz and 16 bits are 48000 bytes.
    assert_eq!((numbers[6], numbers[7], numbers[10], numbers[11]), (16_000, 32_000, 48_000, 48_044));
    let wav_itself = both.transcribe(recording(&tone(8_000, 10), "audio/wav")).await.unwrap();
    assert!(wav_itself.contains(" 8000"), "it is handed over as it is: {wav_itself}");
    let error = both.transcribe(recording(b"OggS but no more", "audio/ogg")).await.unwrap_err();
    assert!(error.reason.contains("it isn't whole OGG/Opus") && !error.retryable, "{error}");
    let left: Vec<_> = std::fs::read_dir(directory.path().join("recordings")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[rstest]
#[case::it_fails(script("echo 'no model' >&2; exit 1"), "`sh` ended with 1: no model", false)]
#[case::it_hangs(timed(&["sh", "-c", "sleep 60", "script"], Duration::from_millis(300)), "took longer than", true)]
#[case::it_writes_without_end(script("exec cat /dev/zero"), "`sh`'s output does not end", false)]
#[tokio::test]
async fn a_program_that_understands_nothing_says_why(
    #[case] engine: EngineSettings,
    #[case] reason: &str,
    #[case] again: bool,
) {
    let directory = tempfile::tempdir().unwrap();
    let voice = voice(None, Some(engine), directory.path());
    let error = voice.transcribe(recording(b"x", "audio/ogg")).await.unwrap_err();
    assert!(error.reason.contains(reason) && error.retryable == again, "{error:?}");
    let silence = crate::stage::voice(None, Some(script("echo")), directory.path());
    assert_eq!(silence.transcribe(recording(b"x", "audio/ogg")).await.unwrap(), "", "silence is no error");
}

#[tokio::test]
async fn missing_engine_names_setting_and_overlong_text_fails() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = voice(None, None, directory.path());
    assert!(!nothing.can_speak() && !nothing.can_transcribe());
    assert!(speak(&nothing, "x").await.unwrap_err().owner_message().contains("speech.speak"));
    let error = nothing.transcribe(recording(b"x", "audio/ogg")).await.unwrap_err();
    assert!(error.owner_message().contains("speech.transcribe") && !error.retryable);

    let never = voice(Some(program(&["false"])), Some(program(&["false"])), directory.path());
    assert!(never.can_speak() && never.can_transcribe());
    for (words, reason) in [(" \n".to_owned(), "no text"), ("й".repeat(20_001), "20000 characters")] {
        let error = speak(&never, &words).await.unwrap_err();
        assert!(error.reason.contains(reason) && !error.retryable, "{error}");
    }
}

#[test]
fn empty_command_is_rejected_at_start() {
    for command in [vec![], vec![" ".to_owned()]] {
        let speak = Some(EngineSettings::Program(CommandEngine { command, timeout: Duration::from_secs(1) }));
        let settings =
            SpeechSettings { speak, transcribe: None, environment: environment(), recordings: "unused".into() };
        assert_eq!(SpeechEngine::new(settings).err(), Some(SpeechSetupError::NoProgram { section: "speech.speak" }));
    }
}
