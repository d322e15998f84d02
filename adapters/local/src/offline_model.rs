//! The model that needs no network and no key: it knows a few phrases about files and really drives the tools.
//!
//! It is no AI and says so. What it does follows from the request alone (the person's last message and the tools'
//! answers since), so a turn that was interrupted goes on where it stood, and the same request is always answered in
//! the same way.
//!
//! The pure core is [`reply_events`]: the message is parsed into intents (`intent`); each intent names what it needs
//! next (`step`), and intents that need something at the same time request it in one message.

mod files;
mod intent;
mod phrase;
mod replies;
mod step;

use std::{ops::Range, time::Duration};

use async_trait::async_trait;
use futures::stream;
use satchel_domain::{Attachment, AttachmentSource, Visibility};
use satchel_ports::{
    LanguageModel, ModelError, ModelEvent, ModelMessage, ModelRequest,
    language_model::{ModelStream, ModelToolCall},
};
use tokio::time::sleep;

use self::{
    files::{ListedFile, mentioned_last, without_references},
    step::{IntentContext, IntentStep, ToolAnswer, ToolRequest},
};

/// How many pieces a text comes in at most, so that a long one doesn't take for ever.
const MAX_CHUNKS: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfflineModel {
    /// How long it waits before each piece of text, to show streaming and to try `/stop`.
    pub piece_delay: Duration,
}

#[async_trait]
impl LanguageModel for OfflineModel {
    fn name(&self) -> String {
        "offline".to_owned()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let delay = self.piece_delay;
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

/// Answers a request: tool calls, or a text in word-sized pieces, and the end.
#[must_use]
pub fn reply_events(request: &ModelRequest) -> Vec<ModelEvent> {
    let mut events = match next(request) {
        OfflineReply::Calls { round, asks } => {
            let call = |(at, ask): (usize, ToolRequest)| ModelToolCall {
                id: format!("offline-{round}-{at}"),
                name: ask.tool,
                arguments: ask.arguments,
            };
            asks.into_iter().enumerate().map(|numbered| ModelEvent::Call(call(numbered))).collect()
        }
        OfflineReply::Text(text) => {
            word_chunks(&text).map(|piece| ModelEvent::Text(piece.to_owned())).collect::<Vec<_>>()
        }
    };
    events.push(ModelEvent::Done);
    events
}

/// What the whole message needs next.
enum OfflineReply {
    Calls { round: usize, asks: Vec<ToolRequest> },
    Text(String),
}

/// The person's last messages: those that were typed before the model could answer stand side by side.
fn user_messages(messages: &[ModelMessage]) -> Option<Range<usize>> {
    let last = messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }))?;
    let is_asking = |message: &ModelMessage| matches!(message, ModelMessage::User { .. } | ModelMessage::Note { .. });
    let before = messages[..last].iter().rposition(|message| !is_asking(message));
    Some(before.map_or(0, |at| at + 1)..last + 1)
}

/// Replays the calls that were made since the person's last message and finds what comes after them.
fn next(request: &ModelRequest) -> OfflineReply {
    let Some(asked) = user_messages(&request.messages) else { return OfflineReply::Text(replies::help()) };
    let said = || {
        request.messages[asked.clone()].iter().filter_map(|message| match message {
            ModelMessage::User { text, attachments } => Some((text, attachments)),
            _ => None,
        })
    };
    let situation = IntentContext {
        tools: &request.tools,
        here: said().flat_map(|(_, attachments)| attachments).map(ListedFile::from).collect::<Vec<_>>(),
        mentioned: mentioned_last(&request.messages[..asked.start]),
    };
    let has_files = !situation.here.is_empty();
    let mut wishes: Vec<_> = said()
        .filter(|(text, attachments)| !text.trim().is_empty() || !attachments.is_empty())
        .flat_map(|(text, attachments)| intent::parse_intents(text, !attachments.is_empty() || has_files))
        .collect();
    if wishes.len() > intent::MAX_INTENTS {
        wishes.truncate(intent::MAX_INTENTS);
        wishes.push(intent::Intent::TooMuch);
    }
    if wishes.is_empty() {
        return OfflineReply::Text(replies::help());
    }
    let mut progress: Vec<Vec<Vec<ToolAnswer<'_>>>> = vec![Vec::new(); wishes.len()];
    let mut rounds = rounds(&request.messages[asked.end..]).into_iter();
    for round in 0.. {
        let steps: Vec<IntentStep> =
            wishes.iter().zip(&progress).map(|(wish, progress)| step::step(wish, progress, &situation)).collect();
        if steps.iter().all(|step| matches!(step, IntentStep::Reply(_))) {
            return OfflineReply::Text(combine_replies(steps));
        }
        let Some(answered) = rounds.next() else {
            let asks = steps
                .into_iter()
                .flat_map(|step| if let IntentStep::RequestTools(asks) = step { asks } else { vec![] });
            return OfflineReply::Calls { round, asks: asks.collect() };
        };
        let mut answered = answered.into_iter();
        for (step, progress) in steps.iter().zip(&mut progress) {
            let IntentStep::RequestTools(asks) = step else { continue };
            let mine: Vec<ToolAnswer<'_>> = answered.by_ref().take(asks.len()).collect();
            let fits = mine.len() == asks.len() && mine.iter().zip(asks).all(|(made, ask)| made.tool == ask.tool);
            if !fits {
                return OfflineReply::Text(replies::lost_track());
            }
            progress.push(mine);
        }
    }
    OfflineReply::Text(replies::lost_track())
}

/// The calls of each of the model's messages, with their answers.
fn rounds(since: &[ModelMessage]) -> Vec<Vec<ToolAnswer<'_>>> {
    let answer_to = |id: &str| {
        since.iter().find_map(|message| match message {
            ModelMessage::Tool { call, text, .. } if call == id => Some(without_references(text)),
            _ => None,
        })
    };
    let calls = since.iter().filter_map(|message| match message {
        ModelMessage::Assistant { calls, .. } if !calls.is_empty() => Some(calls),
        _ => None,
    });
    let answered = |call: &'_ ModelToolCall| answer_to(&call.id).unwrap_or("error: the tool gave no answer");
    calls
        .map(|calls| calls.iter().map(|call| ToolAnswer { tool: &call.name, text: answered(call) }).collect())
        .collect()
}

fn combine_replies(steps: Vec<IntentStep>) -> String {
    let said = steps.into_iter().filter_map(|step| if let IntentStep::Reply(text) = step { Some(text) } else { None });
    said.collect::<Vec<_>>().join("\n\n")
}

/// Cuts a text into word-sized pieces, larger ones when it is long.
fn word_chunks(text: &str) -> impl Iterator<Item = &str> {
    let least = text.len() / MAX_CHUNKS + 1;
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(least.min(rest.len()));
        // A word that never ends is cut, so that a wall of text still comes in pieces.
        let to = rest.ceil_char_boundary((from + 64).min(rest.len()));
        let end = rest[from..to].find(char::is_whitespace).map_or(to, |at| from + at);
        let spaces = rest[end..].chars().next().filter(|c| c.is_whitespace()).map_or(0, char::len_utf8);
        let (piece, later) = rest.split_at(end + spaces);
        rest = later;
        Some(piece)
    })
}

impl From<&Attachment> for ListedFile {
    fn from(attachment: &Attachment) -> Self {
        Self {
            id: attachment.id.to_string(),
            number: attachment.number,
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
