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
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    provider_messages,
    reasoning::{CallList, ReasoningBlock},
    settings::ModelProvider,
    tool_names::ToolNames,
};

/// The longest arguments of one call, in bytes; a model that goes on beyond them would go on for ever.
const LONGEST_ARGUMENTS: usize = 4 << 20;

/// The longest name of a tool, in bytes. The longest that a provider takes has 128.
const LONGEST_NAME: usize = 256;

/// The longest thoughts of one answer, in bytes.
const MAX_REASONING_BYTES: usize = 8 << 20;

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
    pub(crate) fn new(provider: ModelProvider) -> Self {
        Self { skips: matches!(provider, ModelProvider::OpenAiResponses | ModelProvider::Anthropic), ..Self::default() }
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
pub(crate) enum ResponseStep {
    /// A little more text.
    Text(String),
    /// The end, with all that comes there, in its order.
    End { events: Vec<ModelEvent>, thought: Option<(CallList, ReasoningBlock)> },
}

/// An answer that is coming in. Dropping it ends the request.
pub(crate) struct ResponseStream {
    stream: ChatStream,
    provider: ModelProvider,
    names: Arc<ToolNames>,
    last_frame: Arc<LastFrame>,
    teller: ErrorMapper,
    /// How many bytes the thoughts had so far.
    thought_bytes: usize,
}

impl ResponseStream {
    pub(crate) fn new(
        stream: ChatStream,
        provider: ModelProvider,
        names: Arc<ToolNames>,
        last_frame: Arc<LastFrame>,
        teller: ErrorMapper,
    ) -> Self {
        Self { stream, provider, names, last_frame, teller, thought_bytes: 0 }
    }

    /// The next step. After an end or a failure nothing comes.
    pub(crate) async fn next(&mut self) -> Result<ResponseStep, ProviderError> {
        loop {
            // The vendor's client logs whole bodies and addresses; what is worth logging is logged by us.
            let event = self.next_event().with_subscriber(Dispatch::none()).await?;
            match event {
                Some(Ok(ChatStreamEvent::Chunk(chunk))) if !chunk.content.is_empty() => {
                    return Ok(ResponseStep::Text(chunk.content));
                }
                Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                    let written = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                    if written > LONGEST_ARGUMENTS || chunk.tool_call.fn_name.len() > LONGEST_NAME {
                        return Err(self.teller.failure(ProviderErrorKind::ResponseTooLong));
                    }
                }
                Some(Ok(ChatStreamEvent::ReasoningChunk(chunk) | ChatStreamEvent::ThoughtSignatureChunk(chunk))) => {
                    self.thought_bytes += chunk.content.len();
                    if self.thought_bytes > MAX_REASONING_BYTES {
                        return Err(self.teller.failure(ProviderErrorKind::ResponseTooLong));
                    }
                }
                Some(Ok(ChatStreamEvent::End(end))) => return self.finish(end),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.teller.map_client_error(&error, &self.last_frame.text())),
                None => return Err(self.teller.failure(ProviderErrorKind::Truncated)),
            }
        }
    }

    /// The client's next event, unless too much has come by then. It is looked at where the client waits, too, because
    /// of many frames it makes no event.
    async fn next_event(&mut self) -> Result<Option<Result<ChatStreamEvent, genai::Error>>, ProviderError> {
        let polled = future::poll_fn(|context| match self.stream.poll_next_unpin(context) {
            _ if self.last_frame.is_too_much() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        polled.await.ok_or_else(|| self.teller.failure(ProviderErrorKind::ResponseTooLong))
    }

    fn finish(&self, end: StreamEnd) -> Result<ResponseStep, ProviderError> {
        let mut cut_short = false;
        if self.last_frame.lost.load(Ordering::Relaxed) {
            return Err(self.teller.failure(ProviderErrorKind::InvalidResponse));
        }
        match &end.captured_stop_reason {
            // These three providers say why they end, and the vendor's client makes an end of a cut connection. The
            // others have a closing frame, without which there is no end.
            None if matches!(
                self.provider,
                ModelProvider::OpenAiResponses | ModelProvider::Gemini | ModelProvider::Ollama
            ) =>
            {
                let told = self.teller.map_frame(&self.last_frame.text());
                return Err(told.unwrap_or_else(|| self.teller.failure(ProviderErrorKind::Truncated)));
            }
            Some(StopReason::ContentFilter(_)) => return Err(self.teller.failure(ProviderErrorKind::ContentFiltered)),
            Some(StopReason::MaxTokens(_)) => cut_short = true,
            Some(StopReason::Other(reason)) if is_failure(reason) => {
                return Err(self.teller.failure(ProviderErrorKind::InvalidResponse));
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
        if self.provider == ModelProvider::OpenAi {
            // Caught only from those who want it back.
            leading.extend(end.captured_reasoning_content.map(ContentPart::ReasoningContent));
        }
        let mut seen = HashSet::new();
        let calls: Vec<ToolCall> = calls
            .into_iter()
            .filter_map(ContentPart::into_tool_call)
            // A server that counts its calls from 1 makes the vendor's client double the first. Elsewhere equal ids
            // mean nothing: Gemini gives none, and the client's own begin anew with every frame.
            .filter(|call| self.provider != ModelProvider::OpenAi || seen.insert(call.call_id.clone()))
            .collect();
        let thought = (!calls.is_empty()).then(|| reasoning_block(leading, &calls));
        let mut events = Vec::with_capacity(calls.len() + 3);
        if cut_short && calls.is_empty() {
            let note = "\n\n(The answer ends here: the model reached its output limit.)";
            events.push(ModelEvent::Text(note.to_owned()));
        }
        events.extend(calls.into_iter().map(|call| {
            ModelEvent::Call(ModelToolCall {
                name: self.names.restore_name(call.fn_name),
                arguments: arguments(call.fn_arguments),
                id: call.call_id,
            })
        }));
        events.extend(usage.map(ModelEvent::Usage));
        events.push(ModelEvent::Done);
        Ok(ResponseStep::End { events, thought })
    }
}

/// Ends that are failures although the connection was fine.
fn is_failure(reason: &str) -> bool {
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "failed", "error", "ERROR"]
        .contains(&reason)
}

/// What stands before the calls, by the calls as they will come back.
fn reasoning_block(leading: Vec<ContentPart>, calls: &[ToolCall]) -> (CallList, ReasoningBlock) {
    let is_thought =
        |part: &ContentPart| part.is_thought_signature() || part.is_reasoning_content() || part.is_custom();
    let asked = calls
        .iter()
        .map(|call| (call.fn_name.clone(), provider_messages::object(&arguments(call.fn_arguments.clone()))))
        .collect();
    let leading = leading.into_iter().filter(is_thought).collect();
    let signatures = calls.iter().map(|call| call.thought_signatures.clone()).collect();
    (asked, ReasoningBlock { leading, signatures })
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
    fn tool_arguments_are_json_or_original_text() {
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
