//! Listens to the voice notes of a turn: their words are written down for the model, and the recordings are kept as files.

use std::{convert::Infallible, time::Duration};

use satchel_domain::{Attachment, TurnId, filename::is_unsafe_char, size};
use satchel_ports::{
    Activity, LedgerError, Recording, Speech, SpeechError,
    ledger::{InboundFileState, QueuedMessage, QueuedTurn, Transcription},
};

use super::PrepareContext;

/// The largest recording that is listened to: more than an hour of speech.
const LARGEST: u64 = 25_000_000;

/// The longest words of one recording, in characters: several hours of speech.
const LONGEST: usize = 200_000;

/// How long one try may take; an engine has a limit of its own, which is to be hit before.
const TIME: Duration = Duration::from_secs(30 * 60);

/// How often it is tried.
const TRIES: u32 = 3;

/// The wait before the second try; it doubles.
const PAUSE: Duration = Duration::from_secs(2);

/// How long it may take before the person is shown that something is being done, and how often they are then; platforms
/// let the sign fade after five seconds.
const BEFORE_A_SIGN: Duration = Duration::from_millis(300);
const BETWEEN_SIGNS: Duration = Duration::from_millis(4_500);

/// Why nothing is listened to where nobody has set up how, and what the owner can do about it.
const NOT_SET_UP: &str = "voice messages are not set up here";
const REMEDY: &str = "set `speech.transcribe`";

/// Listens to every stored voice note of the turn that was not listened to yet, and returns the turn with their words.
///
/// Each is recorded by itself, so that a crash repeats at most the one that was being listened to. That nothing is set
/// up is not recorded: it is true only for as long as it is.
pub(super) async fn transcribe_voice_notes(
    fetching: PrepareContext<'_>,
    mut turn: QueuedTurn,
) -> Result<QueuedTurn, LedgerError> {
    let id = turn.id;
    for queued in &mut turn.messages {
        for (index, reference) in (0u32..).zip(&queued.message.files) {
            let stored = queued.files.get(index as usize);
            let Some(InboundFileState::Stored(recording)) = stored.filter(|_| reference.voice_note) else { continue };
            if queued.transcriptions.contains_key(&index) {
                continue;
            }
            let heard = match fetching.speech.filter(|speech| speech.can_transcribe()) {
                Some(speech) => tokio::select! {
                    biased;
                    heard = transcribe_note(fetching, speech, recording, id, queued, index) => heard?,
                    never = show_activity(fetching) => match never {},
                },
                None => {
                    let (channel, sender) = (queued.message.conversation.channel(), &queued.message.sender);
                    Transcription::Failed(fetching.access.reason_for(channel, sender, NOT_SET_UP, Some(REMEDY)))
                }
            };
            queued.transcriptions.insert(index, heard);
        }
    }
    Ok(turn)
}

/// Shows that something is being done: nothing else can be seen of it until the words are there.
async fn show_activity(fetching: PrepareContext<'_>) -> Infallible {
    tokio::time::sleep(BEFORE_A_SIGN).await;
    loop {
        fetching.channel.show_activity(&fetching.lease.conversation, Activity::Writing).await;
        tokio::time::sleep(BETWEEN_SIGNS).await;
    }
}

/// Listens to one recording, trying again while that may help, and records what came of it.
async fn transcribe_note(
    fetching: PrepareContext<'_>,
    speech: &dyn Speech,
    recording: &Attachment,
    turn: TurnId,
    queued: &QueuedMessage,
    index: u32,
) -> Result<Transcription, LedgerError> {
    let mut wait = PAUSE;
    let mut tried = 0;
    let heard = loop {
        tried += 1;
        let attempt = tokio::time::timeout(TIME, try_transcribe(fetching, speech, recording)).await;
        let error = match attempt {
            Ok(Ok(words)) => break Transcription::Text(words),
            Ok(Err(error)) => error,
            Err(_) => failed(format!("it took longer than {} minutes", TIME.as_secs() / 60), true),
        };
        if !error.retryable || tried == TRIES {
            tracing::warn!(
                chat.id = %fetching.lease.conversation, turn.id = %turn, attachment.id = %recording.id, tried,
                error = %error, "transcribing a voice note failed; the person is told"
            );
            let (channel, sender) = (queued.message.conversation.channel(), &queued.message.sender);
            let reason = fetching.access.reason_for(channel, sender, &error.reason, error.remedy.as_deref());
            break Transcription::Failed(reason);
        }
        tracing::info!(
            chat.id = %fetching.lease.conversation, tried, error = %error, "transcribing a voice note failed; retrying"
        );
        tokio::time::sleep(wait).await;
        wait *= 2;
    };
    fetching.ledger.record_transcription(fetching.lease, queued.id, index, &heard).await?;
    Ok(heard)
}

fn failed(reason: String, retryable: bool) -> SpeechError {
    SpeechError { reason, remedy: None, retryable }
}

async fn try_transcribe(
    fetching: PrepareContext<'_>,
    speech: &dyn Speech,
    recording: &Attachment,
) -> Result<String, SpeechError> {
    if recording.bytes > LARGEST {
        let (bytes, largest) = (size::format_bytes(recording.bytes), size::format_bytes(LARGEST));
        return Err(failed(format!("it is {bytes}, the limit for voice messages is {largest}"), false));
    }
    let content = fetching.blobs.open(&recording.sha256, None).await.map_err(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "the file store failed");
        failed("the recording can't be read".to_owned(), true)
    })?;
    let recording = Recording { content, bytes: recording.bytes, mime: recording.mime.clone() };
    speech.transcribe(recording).await.map(|words| sanitize_transcript(&words))
}

/// Words without what can't be seen, cut where they are endless.
fn sanitize_transcript(words: &str) -> String {
    let seen = |c: &char| matches!(c, '\n' | '\t') || !is_unsafe_char(*c);
    let mut characters = words.trim().chars().filter(seen);
    let mut tidy: String = characters.by_ref().take(LONGEST).collect();
    if characters.next().is_some() {
        tidy.push('…');
    }
    tidy
}

#[cfg(test)]
mod tests;
