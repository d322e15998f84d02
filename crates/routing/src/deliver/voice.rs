//! The prepare step of a voice: spoken once, stored, and then sent as these bytes however often.

use std::{convert::Infallible, time::Duration};

use satchel_domain::{Part, PartContent, part::PreparedVoice};
use satchel_ports::{Activity, BlobError, BlobHint, SpeechError};

use super::DeliveryContext;
use crate::speech_text::to_speech_text;

/// The largest spoken reply, in bytes of OGG/Opus: some three hours.
const LARGEST_VOICE: u64 = 50 << 20;

/// How long one try to speak may take; an engine has a limit of its own, which is to be hit before.
const VOICE_TIME: Duration = Duration::from_secs(10 * 60);

/// How long it may take before the person is shown that a voice is being made.
const ACTIVITY_DELAY: Duration = Duration::from_millis(300);

/// How often a person is shown that a voice is being made; platforms let the sign fade after five seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// How often words are tried to be spoken before they are written instead.
const VOICE_TRIES: u32 = 3;

/// Prepares a part, and shows the person meanwhile that something is being made for them.
pub(super) async fn prepare_with_activity(delivery: &DeliveryContext, part: &Part) -> Result<PartContent, String> {
    tokio::select! {
        biased;
        prepared = synthesize_voice(delivery, part) => prepared,
        never = show_activity(delivery, part) => match never {},
    }
}

async fn show_activity(delivery: &DeliveryContext, part: &Part) -> Infallible {
    tokio::time::sleep(ACTIVITY_DELAY).await;
    loop {
        delivery.channel.show_activity(&part.conversation, Activity::Speaking).await;
        tokio::time::sleep(ACTIVITY_INTERVAL).await;
    }
}

/// Makes the bytes of a voice, which every attempt then sends. The error says why the words can't be spoken.
async fn synthesize_voice(delivery: &DeliveryContext, part: &Part) -> Result<PartContent, String> {
    let PartContent::Voice { words, in_text, as_file, caption, .. } = &part.content else {
        return Ok(part.content.clone());
    };
    let Some(speech) = &delivery.speech else {
        return Err("no voice is configured".to_owned());
    };
    let speakable = to_speech_text(words, *in_text)?;
    let mut tried = 0;
    loop {
        tried += 1;
        let spoken = tokio::time::timeout(VOICE_TIME, speech.speak(&speakable)).await.unwrap_or_else(|_| {
            Err(SpeechError {
                reason: format!("it took longer than {} s", VOICE_TIME.as_secs()),
                remedy: None,
                retryable: true,
            })
        });
        let reason = match spoken {
            Ok(spoken) => {
                let hint = BlobHint { filename: None, mime: Some("audio/ogg".to_owned()), bytes: None };
                match delivery.blobs.put(spoken.content, &hint, LARGEST_VOICE).await {
                    Ok(stored) => {
                        let prepared = PreparedVoice {
                            sha256: stored.sha256,
                            bytes: stored.bytes,
                            duration_ms: spoken.duration_ms,
                            waveform: spoken.waveform,
                        };
                        return Ok(PartContent::Voice {
                            words: words.clone(),
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
                let reason = if delivery.owner_reads { error.for_owner() } else { error.for_others() };
                if !error.retryable || tried == VOICE_TRIES {
                    tracing::warn!(part.id = %part.id, error = %error, tried, "synthesising a voice message failed; the person is told");
                    return Err(reason);
                }
                reason
            }
        };
        if tried == VOICE_TRIES {
            return Err(reason);
        }
        tokio::time::sleep(delivery.rules.backoff * tried).await;
    }
}
