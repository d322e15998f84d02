//! A model's answer as it comes: the vendor's events become the port's, and what is missing at its end is noticed.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
};

use futures::{StreamExt, future};
use genai::chat::{
    ChatFrameSink, ChatStream, ChatStreamEvent, ContentPart, FrameCtx, RawFrameRef, StopReason, StreamEnd, ToolCall,
};
use satchel_ports::language_model::{ModelEvent, ModelToolCall, TokenUsage};
use serde_json::Value;
use tracing::{Dispatch, instrument::WithSubscriber};

use crate::{
    conversation,
    failure::{Failure, Kind, Teller},
    names::ToolNames,
    settings::Provider,
    thoughts::{Calls, Thought},
};

/// The longest arguments of one call, in bytes; a model that goes on beyond them would go on for ever.
const LONGEST_ARGUMENTS: usize = 4 << 20;

/// The longest name of a tool, in bytes. The longest that a provider takes has 128.
const LONGEST_NAME: usize = 256;

/// The longest thoughts of one answer, in bytes.
const LONGEST_THOUGHTS: usize = 8 << 20;

/// The most that one answer may bring over the wire, in bytes, whatever of it is made use of.
const LONGEST_ANSWER: usize = 64 << 20;

/// How much of the last frame is kept for the case that it tells what went wrong.
const LONGEST_FRAME: usize = 16 << 10;

/// The last frame that came over the wire. The vendor's client drops parts of what providers say about a failure.
#[derive(Debug, Default)]
pub(crate) struct LastFrame {
    text: Mutex<String>,
    /// Whether a frame that the client skips could not be read.
    lost: AtomicBool,
    /// Whether the client skips such frames.
    skips: bool,
    /// How many bytes all frames had.
    bytes: AtomicUsize,
}

impl LastFrame {
    pub(crate) fn new(provider: Provider) -> Self {
        Self { skips: matches!(provider, Provider::OpenAiResponses | Provider::Anthropic), ..Self::default() }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_too_much(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > LONGEST_ANSWER
    }
}

impl ChatFrameSink for LastFrame {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        self.bytes.fetch_add(frame.data.len() + frame.event.map_or(0, str::len), Ordering::Relaxed);
        if self.skips && !frame.data.is_empty() && frame.json().is_none() {
            self.lost.store(true, Ordering::Relaxed);
        }
        let mut last = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        last.clear();
        last.push_str(&frame.data[..frame.data.floor_char_boundary(LONGEST_FRAME)]);
    }
}

/// One step of an answer.
#[derive(Debug)]
pub(crate) enum Step {
    /// A little more text.
    Text(String),
    /// The end, with all that comes there, in its order.
    End { events: Vec<ModelEvent>, thought: Option<(Calls, Thought)> },
}

/// An answer that is coming in. Dropping it ends the request.
pub(crate) struct Answering {
    stream: ChatStream,
    provider: Provider,
    names: Arc<ToolNames>,
    last_frame: Arc<LastFrame>,
    teller: Teller,
    /// How many bytes the thoughts had so far.
    thought_bytes: usize,
}

impl Answering {
    pub(crate) fn new(
        stream: ChatStream,
        provider: Provider,
        names: Arc<ToolNames>,
        last_frame: Arc<LastFrame>,
        teller: Teller,
    ) -> Self {
        Self { stream, provider, names, last_frame, teller, thought_bytes: 0 }
    }

    /// The next step. After an end or a failure nothing comes.
    pub(crate) async fn next(&mut self) -> Result<Step, Failure> {
        loop {
            // The vendor's client logs whole bodies and addresses; what is worth logging is logged by us.
            let event = self.event().with_subscriber(Dispatch::none()).await?;
            match event {
                Some(Ok(ChatStreamEvent::Chunk(chunk))) if !chunk.content.is_empty() => {
                    return Ok(Step::Text(chunk.content));
                }
                Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                    let written = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                    if written > LONGEST_ARGUMENTS || chunk.tool_call.fn_name.len() > LONGEST_NAME {
                        return Err(self.teller.failure(Kind::Endless));
                    }
                }
                Some(Ok(ChatStreamEvent::ReasoningChunk(chunk) | ChatStreamEvent::ThoughtSignatureChunk(chunk))) => {
                    self.thought_bytes += chunk.content.len();
                    if self.thought_bytes > LONGEST_THOUGHTS {
                        return Err(self.teller.failure(Kind::Endless));
                    }
                }
                Some(Ok(ChatStreamEvent::End(end))) => return self.ended(end),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.teller.of(&error, &self.last_frame.text())),
                None => return Err(self.teller.failure(Kind::BrokenOff)),
            }
        }
    }

    /// The client's next event, unless too much has come by then. It is looked at where the client waits, too, because
    /// of many frames it makes no event.
    async fn event(&mut self) -> Result<Option<Result<ChatStreamEvent, genai::Error>>, Failure> {
        let polled = future::poll_fn(|context| match self.stream.poll_next_unpin(context) {
            _ if self.last_frame.is_too_much() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        polled.await.ok_or_else(|| self.teller.failure(Kind::Endless))
    }

    fn ended(&self, end: StreamEnd) -> Result<Step, Failure> {
        let mut cut_short = false;
        if self.last_frame.lost.load(Ordering::Relaxed) {
            return Err(self.teller.failure(Kind::Garbage));
        }
        match &end.captured_stop_reason {
            // These three providers say why they end, and the vendor's client makes an end of a cut connection. The
            // others have a closing frame, without which there is no end.
            None if matches!(self.provider, Provider::OpenAiResponses | Provider::Gemini | Provider::Ollama) => {
                let told = self.teller.of_frame(&self.last_frame.text());
                return Err(told.unwrap_or_else(|| self.teller.failure(Kind::BrokenOff)));
            }
            Some(StopReason::ContentFilter(_)) => return Err(self.teller.failure(Kind::Withheld)),
            Some(StopReason::MaxTokens(_)) => cut_short = true,
            Some(StopReason::Other(reason)) if is_failure(reason) => {
                return Err(self.teller.failure(Kind::Garbage));
            }
            _ => {}
        }
        let usage = end.captured_usage.as_ref().and_then(|usage| {
            let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
            let (input, output) = (tokens(usage.prompt_tokens), tokens(usage.completion_tokens));
            (input.is_some() || output.is_some()).then(|| TokenUsage {
                input_tokens: input.unwrap_or_default(),
                output_tokens: output.unwrap_or_default(),
            })
        });
        let parts = end.captured_content.map(genai::chat::MessageContent::into_parts).unwrap_or_default();
        let (calls, mut leading): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| matches!(part, ContentPart::ToolCall(_)));
        if self.provider == Provider::OpenAi {
            // Caught only from those who want it back.
            leading.extend(end.captured_reasoning_content.map(ContentPart::ReasoningContent));
        }
        let mut seen = HashSet::new();
        let calls: Vec<ToolCall> = calls
            .into_iter()
            .filter_map(ContentPart::into_tool_call)
            // A server that counts its calls from 1 makes the vendor's client double the first. Elsewhere equal ids
            // mean nothing: Gemini gives none, and the client's own begin anew with every frame.
            .filter(|call| self.provider != Provider::OpenAi || seen.insert(call.call_id.clone()))
            .collect();
        let thought = (!calls.is_empty()).then(|| thought(leading, &calls));
        let mut events = Vec::with_capacity(calls.len() + 3);
        if cut_short && calls.is_empty() {
            let note = "\n\n(The answer ends here: the model reached its output limit.)";
            events.push(ModelEvent::Text(note.to_owned()));
        }
        events.extend(calls.into_iter().map(|call| {
            ModelEvent::Call(ModelToolCall {
                name: self.names.inward(call.fn_name),
                arguments: arguments(call.fn_arguments),
                id: call.call_id,
            })
        }));
        events.extend(usage.map(ModelEvent::Usage));
        events.push(ModelEvent::Done);
        Ok(Step::End { events, thought })
    }
}

/// Ends that are failures although the connection was fine.
fn is_failure(reason: &str) -> bool {
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "failed", "error", "ERROR"]
        .contains(&reason)
}

/// What stands before the calls, by the calls as they will come back.
fn thought(leading: Vec<ContentPart>, calls: &[ToolCall]) -> (Calls, Thought) {
    let is_thought =
        |part: &ContentPart| part.is_thought_signature() || part.is_reasoning_content() || part.is_custom();
    let asked = calls
        .iter()
        .map(|call| (call.fn_name.clone(), conversation::object(&arguments(call.fn_arguments.clone()))))
        .collect();
    let leading = leading.into_iter().filter(is_thought).collect();
    let signatures = calls.iter().map(|call| call.thought_signatures.clone()).collect();
    (asked, Thought { leading, signatures })
}

/// The arguments as the port wants them: a value, or the text itself when it is no JSON. Nothing at all means none.
fn arguments(given: Value) -> Value {
    match given {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        // Some models write the object as a text.
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(text),
        },
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_a_value_or_the_text_that_was_written() {
        for (given, wanted) in [
            (json!({"a": 1}), json!({"a": 1})),
            (Value::Null, json!({})),
            (json!(""), json!({})),
            (json!(" \n"), json!({})),
            (json!(r#"{"a": 1}"#), json!({"a": 1})),
            (json!(r#"{"a": "#), json!(r#"{"a": "#)),
            (json!("[1]"), json!("[1]")),
            (json!([1]), json!([1])),
        ] {
            assert_eq!(arguments(given), wanted);
        }
    }
}
