//! What a turn's voice notes said, as the model and the person are told of it. Pure.

use std::fmt::Write;

use satchel_domain::{OutgoingResponse, filename::is_unsafe_char, markdown::append_paragraph};
use satchel_ports::ledger::{InboundFileState, QueuedMessage, QueuedTurn, Transcription};

use crate::rounds;

/// What stands before words that were spoken: what is written down of speech has other mistakes than what was typed.
const TRANSCRIPT_PREFIX: &str = "[voice message, transcribed]";

/// The longest that a reason may be, in characters.
const MAX_REASON_CHARS: usize = 150;

/// The words of a message's voice notes, marked as such.
pub(crate) fn transcripts(queued: &QueuedMessage) -> impl Iterator<Item = String> + '_ {
    queued.transcriptions.values().filter_map(|heard| match heard {
        Transcription::Text(words) if !words.trim().is_empty() => Some(format!("{TRANSCRIPT_PREFIX} {}", words.trim())),
        Transcription::Text(_) | Transcription::Failed(_) => None,
    })
}

/// Tells the model of voice notes without words, by their index among the turn's files; `None` when there is none.
pub(crate) fn model_note(turn: &QueuedTurn) -> Option<String> {
    let afterwards = if is_only_failed_voice(turn) { "The person is told." } else { "Say so where it matters." };
    let mut text = String::new();
    for (index, heard) in transcriptions_by_index(turn) {
        let _ = match heard {
            Transcription::Failed(reason) => {
                writeln!(
                    text,
                    "The voice message [{index}] could not be transcribed ({}). {afterwards}",
                    sanitize_reason(reason)
                )
            }
            Transcription::Text(words) if words.trim().is_empty() => {
                writeln!(text, "The voice message [{index}] contains no speech.")
            }
            Transcription::Text(_) => Ok(()),
        };
    }
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Tells the person that they were not heard, whatever the model says, if that was all they sent.
pub(crate) fn append_transcription_failure(response: OutgoingResponse, turn: &QueuedTurn) -> OutgoingResponse {
    let reason = transcriptions_by_index(turn).into_iter().find_map(|(_, heard)| match heard {
        Transcription::Failed(reason) => Some(sanitize_reason(reason)),
        Transcription::Text(_) => None,
    });
    let Some(reason) = reason.filter(|_| is_only_failed_voice(turn)) else { return response };
    let told = format!("I couldn't understand your voice message: {reason}. The recording is saved; see `/files`.");
    let text = append_paragraph(response.text.as_deref().unwrap_or_default(), &told);
    OutgoingResponse { text: Some(text), ..response }
}

/// Whether the turn brought nothing but voice notes that nobody understood.
fn is_only_failed_voice(turn: &QueuedTurn) -> bool {
    let unheard =
        transcriptions_by_index(turn).iter().filter(|(_, heard)| matches!(heard, Transcription::Failed(_))).count();
    unheard > 0 && unheard == rounds::turn_attachments(turn).len() && rounds::user_text(turn).trim().is_empty()
}

/// What was heard, by the index under which the model and its tools know the recording: its place among the stored files.
fn transcriptions_by_index(turn: &QueuedTurn) -> Vec<(usize, &Transcription)> {
    let mut found = Vec::new();
    let mut index = 0;
    for queued in &turn.messages {
        for (position, file) in (0u32..).zip(&queued.files) {
            if matches!(file, InboundFileState::Stored(_)) {
                found.extend(queued.transcriptions.get(&position).map(|heard| (index, heard)));
                index += 1;
            }
        }
    }
    found
}

/// An engine's words on one line, cut, and harmless in Markdown's eyes.
fn sanitize_reason(reason: &str) -> String {
    let one_line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|c| !is_unsafe_char(*c) && !"`[]<>|".contains(*c)).take(MAX_REASON_CHARS).collect()
}
