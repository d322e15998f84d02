//! Checks whether the models answer, and speech: a sample text is synthesized, and the recording is transcribed.

use std::time::Instant;

use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use satchel_models::RemoteModel;
use satchel_ports::{Recording, Speech, SpeechError, SynthesizedSpeech};

use super::Finding;
use crate::{
    adapters::{open_decoders, open_speech},
    config::Config,
    models::{ModelCandidate, ModelSelection, empty_blobs},
};

const MODEL_CHECK: &str = "model";
const SPEAK_CHECK: &str = "speech";
const TRANSCRIBE_CHECK: &str = "transcription";

const SAMPLE_TEXT: &str = "One, two, three.";

/// Probes all models concurrently.
pub(super) async fn check_model(selection: &ModelSelection) -> Vec<Finding> {
    join_all(selection.candidates.iter().map(|candidate| check_answer(candidate, selection))).await
}

async fn check_answer(candidate: &ModelCandidate, selection: &ModelSelection) -> Finding {
    let settings = match candidate.settings() {
        Ok(Some(settings)) => settings,
        Ok(None) => return Finding::ok(MODEL_CHECK, format!("{} ({})", candidate.title(), selection.reason)),
        Err(error) => {
            return Finding::problem(MODEL_CHECK, error.to_string(), "set it; `satchel init` asks for it and tests it");
        }
    };
    let title = format!("{:?} is {}", settings.name, candidate.title());
    let name = settings.name.clone();
    let result = match RemoteModel::new(settings, empty_blobs()) {
        Ok(model) => model.check().await,
        Err(error) => {
            return Finding::problem(MODEL_CHECK, error.to_string(), "correct the setting named in the message");
        }
    };
    match result {
        Ok(()) => Finding::ok(MODEL_CHECK, format!("{title} answers")),
        Err(error) if error.retryable => {
            let advice =
                format!("try again later; if the problem stays, check `models.{name}.base_url` and the network");
            Finding::problem(MODEL_CHECK, format!("{title}: {error}"), advice)
        }
        Err(error) => {
            let advice = format!("check `models.{name}`: the key, the model's name, the address");
            Finding::problem(MODEL_CHECK, format!("{title}: {error}"), advice)
        }
    }
}

/// Tests the configured engines.
pub(super) async fn check_speech(config: &Config) -> Vec<Finding> {
    // What is decoded here is no stored file.
    let decoder = open_decoders(config, &empty_blobs(), false).audio;
    let speech = match open_speech(config, decoder) {
        Ok(Some(speech)) => speech,
        Ok(None) => return Vec::new(),
        Err(error) => {
            return vec![Finding::problem(SPEAK_CHECK, error.to_string(), "correct the setting named in the message")];
        }
    };
    let mut findings = Vec::new();
    let mut voice = None;
    if speech.can_speak() {
        match synthesize_sample(speech.as_ref()).await {
            Ok((found, bytes)) => {
                findings.push(Finding::ok(SPEAK_CHECK, found));
                voice = Some(bytes);
            }
            Err(error) => findings.push(failure_finding(SPEAK_CHECK, &error, "speech.speak")),
        }
    }
    if speech.can_transcribe() {
        findings.push(match voice {
            Some(voice) => check_transcription(speech.as_ref(), voice).await,
            None => Finding::ok(TRANSCRIBE_CHECK, "configured, not tested: testing needs `speech.speak` as well"),
        });
    }
    findings
}

async fn synthesize_sample(speech: &dyn Speech) -> Result<(String, Vec<u8>), SpeechError> {
    let started_at = Instant::now();
    let SynthesizedSpeech { content, duration_ms, .. } = speech.speak(SAMPLE_TEXT).await?;
    let voice = content.map_ok(|chunk| chunk.to_vec()).try_concat().await;
    let voice = voice.map_err(|error| SpeechError { reason: error.to_string(), remedy: None, retryable: true })?;
    let found = format!("synthesised {duration_ms} ms of speech in {} ms", started_at.elapsed().as_millis());
    Ok((found, voice))
}

async fn check_transcription(speech: &dyn Speech, voice: Vec<u8>) -> Finding {
    let bytes = voice.len() as u64;
    let content = stream::iter([Ok(voice.into())]).boxed();
    match speech.transcribe(Recording { content, bytes, mime: "audio/ogg".to_owned(), work_share: None }).await {
        Ok(text) => Finding::ok(TRANSCRIBE_CHECK, format!("{SAMPLE_TEXT:?} was transcribed as {text:?}")),
        Err(error) => failure_finding(TRANSCRIBE_CHECK, &error, "speech.transcribe"),
    }
}

fn failure_finding(check: &'static str, error: &SpeechError, section: &str) -> Finding {
    Finding::problem(check, error.to_string(), format!("check `{section}`; docs/guide/voice.md has examples"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::doctor::FindingLevel,
        config::{ConfigSources, load_text},
    };

    async fn findings(yaml: &str) -> Vec<Finding> {
        let directory = tempfile::tempdir().unwrap();
        let environment = [("PATH".into(), "/usr/bin:/bin".into())];
        let sources = ConfigSources { file: None, set: &[], environment: &environment, cwd: directory.path() };
        let loaded = load_text(&directory.path().join("satchel.yaml"), yaml, &sources).unwrap();
        check_speech(loaded.config()).await
    }

    #[tokio::test]
    async fn only_configured_speech_is_tried_and_reported() {
        assert_eq!(findings("log: info").await, []);

        let failing = findings("speech: { speak: { command: [sh, -c, 'echo no voice >&2; exit 1'] } }").await;
        let [Finding { level: FindingLevel::Problem, found, advice, .. }] = failing.as_slice() else {
            panic!("{failing:?}")
        };
        assert_eq!(found, "`sh` ended with 1: no voice");
        assert!(advice.as_ref().is_some_and(|advice| advice.contains("`speech.speak`")));

        let deaf = findings("speech: { transcribe: { command: [cat] } }").await;
        let [Finding { level: FindingLevel::Ok, found, .. }] = deaf.as_slice() else { panic!("{deaf:?}") };
        assert!(found.contains("not tested"), "{found}");

        let beep = r#"printf 'RIFF....WAVEfmt \020\0\0\0\001\0\001\0\100\037\0\0\100\037\0\0\001\0\010\0data\0\0\0\0'; head -c 8000 /dev/zero"#;
        let both = format!(
            "speech:\n  speak: {{ command: [sh, -c, \"{}\"] }}\n  transcribe: {{ command: [sh, -c, 'echo one two'] }}",
            beep.replace('\\', "\\\\")
        );
        let both = findings(&both).await;
        assert!(both.iter().all(|finding| finding.level == FindingLevel::Ok), "{both:?}");
        assert!(both[0].found.starts_with("synthesised 1000 ms of speech in"), "{both:?}");
        assert_eq!(both[1].found, "\"One, two, three.\" was transcribed as \"one two\"");
    }
}
