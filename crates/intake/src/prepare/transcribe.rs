//! Transcribes the voice notes of a turn for the model; the recordings stay available as files.

use std::{convert::Infallible, time::Duration};

use satchel_domain::{Attachment, Sender, TurnId, WorkShare, filename::is_unsafe_char, size};
use satchel_ports::{
    Activity, LedgerError, Recording, Speech, SpeechError,
    ledger::{InboundFileState, QueuedMessage, QueuedTurn, Transcription},
};

use super::PrepareContext;

/// The largest recording that is transcribed: more than an hour of speech.
const MAX_RECORDING_BYTES: u64 = 25_000_000;

/// The longest transcription of one recording, in characters: several hours of speech.
const MAX_TRANSCRIPT_CHARS: usize = 200_000;

/// How long one try may take; an engine has a limit of its own, which is to be hit before.
const TRANSCRIBE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How often it is tried.
const MAX_ATTEMPTS: u32 = 3;

/// The wait before the second try; it doubles.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// How long it may take before the person is shown that something is being done, and how often they are then; platforms
/// let the sign fade after five seconds.
const ACTIVITY_DELAY: Duration = Duration::from_millis(300);
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// The reason where transcription is not configured, and what the owner can do about it.
const NOT_CONFIGURED_TEXT: &str = "voice messages are not set up here";
const NOT_CONFIGURED_REMEDY: &str = "set `speech.transcribe`";

/// Transcribes every stored voice note of the turn that has no transcription yet, and returns the turn with them.
///
/// Each is recorded by itself, so that a crash repeats at most the one in flight. That transcription is not set up is
/// not recorded: an owner may set it up before the next attempt.
pub(super) async fn transcribe_voice_notes(
    context: PrepareContext<'_>,
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
            let transcription = match context.speech.filter(|speech| speech.can_transcribe()) {
                Some(speech) => tokio::select! {
                    biased;
                    transcription = transcribe_note(context, speech, recording, id, queued, index) => transcription?,
                    never = show_activity(context) => match never {},
                },
                None => {
                    let (channel, sender) = (queued.message.conversation.channel(), &queued.message.sender);
                    Transcription::Failed(context.access.reason_for_sender(
                        channel,
                        sender,
                        NOT_CONFIGURED_TEXT,
                        Some(NOT_CONFIGURED_REMEDY),
                    ))
                }
            };
            queued.transcriptions.insert(index, transcription);
        }
    }
    Ok(turn)
}

/// Shows that something is being done: until the transcription is there, nothing else can be seen of it.
async fn show_activity(context: PrepareContext<'_>) -> Infallible {
    tokio::time::sleep(ACTIVITY_DELAY).await;
    loop {
        context.channel.show_activity(&context.lease.conversation, Activity::Writing).await;
        tokio::time::sleep(ACTIVITY_INTERVAL).await;
    }
}

/// Transcribes one recording, with retries, and records the result.
async fn transcribe_note(
    context: PrepareContext<'_>,
    speech: &dyn Speech,
    recording: &Attachment,
    turn: TurnId,
    queued: &QueuedMessage,
    index: u32,
) -> Result<Transcription, LedgerError> {
    let mut delay = RETRY_DELAY;
    let mut attempts = 0;
    let transcription = loop {
        attempts += 1;
        let attempt = tokio::time::timeout(
            TRANSCRIBE_TIMEOUT,
            try_transcribe(context, speech, recording, &queued.message.sender),
        )
        .await;
        let error = match attempt {
            Ok(Ok(text)) => break Transcription::Text(text),
            Ok(Err(error)) => error,
            Err(_) => speech_error(format!("it took longer than {} minutes", TRANSCRIBE_TIMEOUT.as_secs() / 60), true),
        };
        if !error.retryable || attempts == MAX_ATTEMPTS {
            tracing::warn!(
                chat.id = %context.lease.conversation, turn.id = %turn, attachment.id = %recording.id, attempts,
                error = %error, "transcribing a voice note failed; the person is told"
            );
            let (channel, sender) = (queued.message.conversation.channel(), &queued.message.sender);
            let reason = context.access.reason_for_sender(channel, sender, &error.reason, error.remedy.as_deref());
            break Transcription::Failed(reason);
        }
        tracing::info!(
            chat.id = %context.lease.conversation, attempts, error = %error, "transcribing a voice note failed; retrying"
        );
        tokio::time::sleep(delay).await;
        delay *= 2;
    };
    context.turns.record_transcription(context.lease, queued.id, index, &transcription).await?;
    Ok(transcription)
}

fn speech_error(reason: String, retryable: bool) -> SpeechError {
    SpeechError { reason, remedy: None, retryable }
}

async fn try_transcribe(
    context: PrepareContext<'_>,
    speech: &dyn Speech,
    recording: &Attachment,
    sender: &Sender,
) -> Result<String, SpeechError> {
    if recording.bytes > MAX_RECORDING_BYTES {
        let (bytes, limit) = (size::format_bytes(recording.bytes), size::format_bytes(MAX_RECORDING_BYTES));
        return Err(speech_error(format!("it is {bytes}, the limit for voice messages is {limit}"), false));
    }
    let content = context.blobs.open(&recording.sha256, None).await.map_err(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "the file store failed");
        speech_error("the recording can't be read".to_owned(), true)
    })?;
    let work_share = Some(WorkShare::from_sender(recording.conversation.clone(), sender));
    let recording = Recording { content, bytes: recording.bytes, mime: recording.mime.clone(), work_share };
    speech.transcribe(recording).await.map(|text| sanitize_transcript(&text))
}

/// Removes invisible characters and truncates.
fn sanitize_transcript(text: &str) -> String {
    let is_visible = |c: &char| matches!(c, '\n' | '\t') || !is_unsafe_char(*c);
    let mut characters = text.trim().chars().filter(is_visible);
    let mut transcript: String = characters.by_ref().take(MAX_TRANSCRIPT_CHARS).collect();
    if characters.next().is_some() {
        transcript.push('…');
    }
    transcript
}

#[cfg(test)]
mod tests;
