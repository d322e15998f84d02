//! The transcriptions of a turn's voice notes, for the model and the person. Pure.

use std::fmt::Write;

use satchel_domain::{OutgoingResponse, filename::is_unsafe_char, markdown::append_paragraph};
use satchel_ports::ledger::{InboundFileState, QueuedMessage, QueuedTurn, Transcription};

use crate::rounds;

/// Marks transcribed text, because its mistakes differ from those of typed text.
const TRANSCRIPT_PREFIX: &str = "[voice message, transcribed]";

/// The longest reason, in characters.
const MAX_REASON_CHARS: usize = 150;

/// The transcribed text of a message's voice notes, marked as such.
pub(crate) fn transcripts(queued: &QueuedMessage) -> impl Iterator<Item = String> + '_ {
    queued.transcriptions.values().filter_map(|transcription| match transcription {
        Transcription::Text(text) if !text.trim().is_empty() => Some(format!("{TRANSCRIPT_PREFIX} {}", text.trim())),
        Transcription::Text(_) | Transcription::Failed(_) => None,
    })
}

/// Tells the model about voice notes without text, by their index among the turn's files; `None` when there are none.
pub(crate) fn model_note(turn: &QueuedTurn) -> Option<String> {
    let follow_up = if is_only_failed_voice(turn) { "The person is told." } else { "Say so where it matters." };
    let mut text = String::new();
    for (index, transcription) in transcriptions_by_index(turn) {
        let _ = match transcription {
            Transcription::Failed(reason) => {
                writeln!(
                    text,
                    "The voice message [{index}] could not be transcribed ({}). {follow_up}",
                    sanitize_reason(reason)
                )
            }
            Transcription::Text(speech) if speech.trim().is_empty() => {
                writeln!(text, "The voice message [{index}] contains no speech.")
            }
            Transcription::Text(_) => Ok(()),
        };
    }
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Tells the person that the transcription failed, whatever the model says, if they sent nothing else.
pub(crate) fn append_transcription_failure(response: OutgoingResponse, turn: &QueuedTurn) -> OutgoingResponse {
    let reason = transcriptions_by_index(turn).into_iter().find_map(|(_, transcription)| match transcription {
        Transcription::Failed(reason) => Some(sanitize_reason(reason)),
        Transcription::Text(_) => None,
    });
    let Some(reason) = reason.filter(|_| is_only_failed_voice(turn)) else { return response };
    let notice = format!("I couldn't understand your voice message: {reason}. The recording is saved; see `/files`.");
    let text = append_paragraph(response.text.as_deref().unwrap_or_default(), &notice);
    OutgoingResponse { text: Some(text), ..response }
}

/// Whether the turn has nothing but voice notes whose transcription failed.
fn is_only_failed_voice(turn: &QueuedTurn) -> bool {
    let failed_count = transcriptions_by_index(turn)
        .iter()
        .filter(|(_, transcription)| matches!(transcription, Transcription::Failed(_)))
        .count();
    failed_count > 0
        && failed_count == rounds::turn_attachments(turn).len()
        && rounds::user_text(turn).trim().is_empty()
}

/// The transcriptions by the index that the model and its tools use: the position among the stored files.
fn transcriptions_by_index(turn: &QueuedTurn) -> Vec<(usize, &Transcription)> {
    let mut found = Vec::new();
    let mut index = 0;
    for queued in &turn.messages {
        for (position, file) in (0u32..).zip(&queued.files) {
            if matches!(file, InboundFileState::Stored(_)) {
                found.extend(queued.transcriptions.get(&position).map(|transcription| (index, transcription)));
                index += 1;
            }
        }
    }
    found
}

/// An engine's reason on one line, truncated, without Markdown characters.
fn sanitize_reason(reason: &str) -> String {
    let one_line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|c| !is_unsafe_char(*c) && !"`[]<>|".contains(*c)).take(MAX_REASON_CHARS).collect()
}
