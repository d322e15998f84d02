//! The prepare step of a voice: spoken once, stored, and then sent as these bytes however often.

use std::{convert::Infallible, time::Duration};

use satchel_domain::{Part, PartContent, part::PreparedVoice};
use satchel_ports::{Activity, BlobError, BlobHint, SpeechError};

use super::DeliveryContext;
use crate::speech_text::to_speech_text;

/// The largest spoken reply, in bytes of OGG/Opus: some three hours.
const MAX_VOICE_BYTES: u64 = 50 << 20;

/// The longest duration of one attempt; the engine's own, shorter limit normally applies first.
const SYNTHESIS_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long it may take before the person is shown that a voice is being made.
const ACTIVITY_DELAY: Duration = Duration::from_millis(300);

/// How often a person is shown that a voice is being made; platforms let the sign fade after five seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// The attempts at synthesis before the text is sent instead.
const MAX_ATTEMPTS: u32 = 3;

/// Prepares a part, and shows the person meanwhile that something is being made for them.
pub(super) async fn prepare_with_activity(context: &DeliveryContext, part: &Part) -> Result<PartContent, String> {
    tokio::select! {
        biased;
        prepared = synthesize_voice(context, part) => prepared,
        never = show_activity(context, part) => match never {},
    }
}

async fn show_activity(context: &DeliveryContext, part: &Part) -> Infallible {
    tokio::time::sleep(ACTIVITY_DELAY).await;
    loop {
        context.channel.show_activity(&part.conversation, Activity::Speaking).await;
        tokio::time::sleep(ACTIVITY_INTERVAL).await;
    }
}

/// Makes the bytes of a voice, which every attempt then sends. The error says why the words can't be spoken.
async fn synthesize_voice(context: &DeliveryContext, part: &Part) -> Result<PartContent, String> {
    let Some(PartContent::Voice { text, in_text, as_file, caption, .. }) = part.content() else {
        return Err(format!("a {} needs no voice", part.operation.kind()));
    };
    let Some(speech) = &context.speech else {
        return Err("no voice is configured".to_owned());
    };
    let speech_text = to_speech_text(text, *in_text)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let synthesized =
            tokio::time::timeout(SYNTHESIS_TIMEOUT, speech.speak(&speech_text)).await.unwrap_or_else(|_| {
                Err(SpeechError {
                    reason: format!("it took longer than {} s", SYNTHESIS_TIMEOUT.as_secs()),
                    remedy: None,
                    retryable: true,
                })
            });
        let reason = match synthesized {
            Ok(synthesized) => {
                let hint = BlobHint { filename: None, mime: Some("audio/ogg".to_owned()), bytes: None };
                match context.blobs.put(synthesized.content, &hint, MAX_VOICE_BYTES).await {
                    Ok(stored) => {
                        let prepared = PreparedVoice {
                            sha256: stored.sha256,
                            bytes: stored.bytes,
                            duration_ms: synthesized.duration_ms,
                            waveform: synthesized.waveform,
                        };
                        return Ok(PartContent::Voice {
                            text: text.clone(),
                            in_text: *in_text,
                            prepared: Some(prepared),
                            as_file: *as_file,
                            caption: caption.clone(),
                        });
                    }
                    Err(BlobError::Source(source)) => source.to_string(),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Err(error) => {
                let reason = if context.owner_reads { error.owner_message() } else { error.public_message() };
                if !error.retryable || attempts == MAX_ATTEMPTS {
                    tracing::warn!(part.id = %part.id, error = %error, attempts, "synthesising a voice message failed; the person is told");
                    return Err(reason);
                }
                reason
            }
        };
        if attempts == MAX_ATTEMPTS {
            return Err(reason);
        }
        tokio::time::sleep(context.rules.backoff * attempts).await;
    }
}
