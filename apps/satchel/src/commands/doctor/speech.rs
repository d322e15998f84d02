//! Whether what speaks and listens does: a few words are spoken, and what was spoken is listened to.

use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use satchel_ports::{Recording, Speech, SpeechError, Spoken};

use super::Finding;
use crate::{config::Config, speech};

const SPEAKS: &str = "speech";
const LISTENS: &str = "transcription";

/// What is spoken.
const WORDS: &str = "One, two, three.";

/// Tries out what is configured.
pub(super) async fn speech(config: &Config) -> Vec<Finding> {
    let speech = match speech::open(config) {
        Ok(Some(speech)) => speech,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![Finding::problem(SPEAKS, error.to_string(), "correct the setting that is named")],
    };
    let mut findings = Vec::new();
    let mut voice = None;
    if speech.speaks() {
        match speaks(speech.as_ref()).await {
            Ok((found, bytes)) => {
                findings.push(Finding::ok(SPEAKS, found));
                voice = Some(bytes);
            }
            Err(error) => findings.push(failed(SPEAKS, &error, "speech.speak")),
        }
    }
    if speech.hears() {
        findings.push(match voice {
            Some(voice) => listens(speech.as_ref(), voice).await,
            None => Finding::ok(LISTENS, "it is set up, and was not tried: there is no voice to listen to"),
        });
    }
    findings
}

async fn speaks(speech: &dyn Speech) -> Result<(String, Vec<u8>), SpeechError> {
    let began = Instant::now();
    let Spoken { content, duration_ms, .. } = speech.speak(WORDS).await?;
    let voice = content.map_ok(|piece| piece.to_vec()).try_concat().await;
    let voice = voice.map_err(|error| SpeechError { reason: error.to_string(), retryable: true })?;
    let found = format!("it speaks: {duration_ms} ms of voice after {} ms", began.elapsed().as_millis());
    Ok((found, voice))
}

async fn listens(speech: &dyn Speech, voice: Vec<u8>) -> Finding {
    let bytes = voice.len() as u64;
    let content = stream::iter([Ok(voice.into())]).boxed();
    match speech.transcribe(Recording { content, bytes, mime: "audio/ogg".to_owned() }).await {
        Ok(words) => Finding::ok(LISTENS, format!("it listens: {WORDS:?} was understood as {words:?}")),
        Err(error) => failed(LISTENS, &error, "speech.transcribe"),
    }
}

fn failed(check: &'static str, error: &SpeechError, section: &str) -> Finding {
    Finding::problem(check, error.to_string(), format!("look at `{section}`; docs/guide/voice.md has examples"))
}
