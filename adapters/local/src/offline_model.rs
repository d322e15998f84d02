//! The model that needs no network and no key: it understands a few phrases about files and calls the real tools.
//!
//! It is not an AI and says so. Its answer depends on the request alone (the person's last message and the tool results
//! since), so an interrupted turn continues where it stopped, and the same request always gets the same answer.
//!
//! The pure core is [`reply_events`]: the message is parsed into intents (`intent`); each intent returns its next step
//! (`step`), and the tool calls of all intents are requested in one message.

mod files;
mod intent;
mod phrase;
mod replies;
mod step;

use std::{num::NonZeroU64, ops::Range, time::Duration};

use async_trait::async_trait;
use futures::stream;
use satchel_domain::{AttachmentSource, Visibility};
use satchel_ports::{
    LanguageModel, ModelError, ModelEvent, ModelFile, ModelMessage, ModelRequest,
    language_model::{ModelStream, ModelToolCall},
};
use tokio::time::sleep;

use self::{
    files::{ListedFile, last_mentioned_ids, strip_references},
    step::{IntentContext, IntentStep, ToolAnswer, ToolRequest},
};

/// The most deltas of a text, so that a long one doesn't take for ever.
const MAX_CHUNKS: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineModel {
    /// Its name in the configuration.
    pub name: String,
    /// How long it waits before each delta, to show streaming and to try `/stop`.
    pub delta_delay: Duration,
}

impl Default for OfflineModel {
    fn default() -> Self {
        Self { name: "offline".to_owned(), delta_delay: Duration::ZERO }
    }
}

#[async_trait]
impl LanguageModel for OfflineModel {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let delay = self.delta_delay;
        let events = reply_events(request).into_iter();
        Ok(Box::pin(stream::unfold((events, delay), async |(mut events, delay)| {
            let event = events.next()?;
            if matches!(event, ModelEvent::Text(_)) && !delay.is_zero() {
                sleep(delay).await;
            }
            Some((Ok(event), (events, delay)))
        })))
    }
}

/// Answers a request: tool calls, or a text in word-sized deltas, and the end.
#[must_use]
pub fn reply_events(request: &ModelRequest) -> Vec<ModelEvent> {
    let mut events = match next_reply(request) {
        OfflineReply::Calls { round, requests } => {
            let call = |(index, request): (usize, ToolRequest)| ModelToolCall {
                id: format!("offline-{round}-{index}"),
                name: request.tool,
                arguments: request.arguments,
            };
            requests.into_iter().enumerate().map(|numbered| ModelEvent::Call(call(numbered))).collect()
        }
        OfflineReply::Text(text) => {
            word_chunks(&text).map(|piece| ModelEvent::Text(piece.to_owned())).collect::<Vec<_>>()
        }
    };
    events.push(ModelEvent::Done);
    events
}

/// The next answer for the whole message.
enum OfflineReply {
    Calls { round: usize, requests: Vec<ToolRequest> },
    Text(String),
}

/// The range of the person's last messages: several if they were sent before the model could answer.
fn user_messages(messages: &[ModelMessage]) -> Option<Range<usize>> {
    let last = messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }))?;
    let is_user_input =
        |message: &ModelMessage| matches!(message, ModelMessage::User { .. } | ModelMessage::Note { .. });
    let before = messages[..last].iter().rposition(|message| !is_user_input(message));
    Some(before.map_or(0, |at| at + 1)..last + 1)
}

/// Replays the calls that were made since the person's last message, and returns the next reply.
fn next_reply(request: &ModelRequest) -> OfflineReply {
    let Some(user_range) = user_messages(&request.messages) else { return OfflineReply::Text(replies::help_text()) };
    let user_inputs = || {
        request.messages[user_range.clone()].iter().filter_map(|message| match message {
            ModelMessage::User { text, attachments } => Some((text, attachments)),
            _ => None,
        })
    };
    let context = IntentContext {
        tools: &request.tools,
        new_files: user_inputs().flat_map(|(_, attachments)| attachments).map(ListedFile::from).collect::<Vec<_>>(),
        mentioned_ids: last_mentioned_ids(&request.messages[..user_range.start]),
    };
    let has_files = !context.new_files.is_empty();
    let mut intents: Vec<_> = user_inputs()
        .filter(|(text, attachments)| !text.trim().is_empty() || !attachments.is_empty())
        .flat_map(|(text, attachments)| intent::parse_intents(text, !attachments.is_empty() || has_files))
        .collect();
    if intents.len() > intent::MAX_INTENTS {
        intents.truncate(intent::MAX_INTENTS);
        intents.push(intent::Intent::TooMany);
    }
    if intents.is_empty() {
        return OfflineReply::Text(replies::help_text());
    }
    let mut progress: Vec<Vec<Vec<ToolAnswer<'_>>>> = vec![Vec::new(); intents.len()];
    let mut rounds = answered_rounds(&request.messages[user_range.end..]).into_iter();
    for round in 0.. {
        let steps: Vec<IntentStep> = intents
            .iter()
            .zip(&progress)
            .map(|(intent, progress)| step::next_step(intent, progress, &context))
            .collect();
        if steps.iter().all(|step| matches!(step, IntentStep::Reply(_))) {
            return OfflineReply::Text(combine_replies(steps));
        }
        let Some(answers) = rounds.next() else {
            let requests = steps
                .into_iter()
                .flat_map(|step| if let IntentStep::RequestTools(requests) = step { requests } else { vec![] });
            return OfflineReply::Calls { round, requests: requests.collect() };
        };
        let mut answers = answers.into_iter();
        for (step, progress) in steps.iter().zip(&mut progress) {
            let IntentStep::RequestTools(requests) = step else { continue };
            let own_answers: Vec<ToolAnswer<'_>> = answers.by_ref().take(requests.len()).collect();
            let is_match = own_answers.len() == requests.len()
                && own_answers.iter().zip(requests).all(|(answer, request)| answer.tool == request.tool);
            if !is_match {
                return OfflineReply::Text(replies::internal_error_text());
            }
            progress.push(own_answers);
        }
    }
    OfflineReply::Text(replies::internal_error_text())
}

/// The calls of each of the model's messages, with their results.
fn answered_rounds(since: &[ModelMessage]) -> Vec<Vec<ToolAnswer<'_>>> {
    let find_answer = |id: &str| {
        since.iter().find_map(|message| match message {
            ModelMessage::Tool { call, text, .. } if call == id => Some(strip_references(text)),
            _ => None,
        })
    };
    let calls = since.iter().filter_map(|message| match message {
        ModelMessage::Assistant { calls, .. } if !calls.is_empty() => Some(calls),
        _ => None,
    });
    let answer_text = |call: &'_ ModelToolCall| find_answer(&call.id).unwrap_or("error: the tool gave no answer");
    calls
        .map(|calls| calls.iter().map(|call| ToolAnswer { tool: &call.name, text: answer_text(call) }).collect())
        .collect()
}

fn combine_replies(steps: Vec<IntentStep>) -> String {
    let replies =
        steps.into_iter().filter_map(|step| if let IntentStep::Reply(text) = step { Some(text) } else { None });
    replies.collect::<Vec<_>>().join("\n\n")
}

/// Splits a text into word-sized chunks, larger ones when it is long.
fn word_chunks(text: &str) -> impl Iterator<Item = &str> {
    let min_bytes = text.len() / MAX_CHUNKS + 1;
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(min_bytes.min(rest.len()));
        // A very long word is split, so that text without spaces still arrives in chunks.
        let to = rest.ceil_char_boundary((from + 64).min(rest.len()));
        let end = rest[from..to].find(char::is_whitespace).map_or(to, |at| from + at);
        let spaces = rest[end..].chars().next().filter(|c| c.is_whitespace()).map_or(0, char::len_utf8);
        let (chunk, tail) = rest.split_at(end + spaces);
        rest = tail;
        Some(chunk)
    })
}

impl From<&ModelFile> for ListedFile {
    fn from(attachment: &ModelFile) -> Self {
        Self {
            id: attachment.id.to_string(),
            number: attachment.number.map(NonZeroU64::get),
            filename: attachment.filename.to_string(),
            mime: attachment.mime.clone(),
            bytes: attachment.bytes,
            from_person: attachment.source == AttachmentSource::User,
            internal: attachment.visibility == Visibility::Internal,
        }
    }
}

#[cfg(test)]
mod tests;
