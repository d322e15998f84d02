//! A model's answer as it streams in: maps the vendor's events to the port's and detects an incomplete end.

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use futures::{
    StreamExt,
    future::{self, BoxFuture},
    stream::CatchUnwind,
};
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

/// The longest arguments of one call, in bytes; longer ones are taken to be endless.
const MAX_ARGUMENT_BYTES: usize = 4 << 20;

/// The most bytes of arguments that the client joins for one answer. It copies all that it has of a call with each chunk, so
/// that 512 KB in chunks of four bytes add up to 32 GB: more than a model writes in one answer.
const MAX_JOINED_BYTES: u64 = 40 << 30;

/// The longest name of a tool, in bytes. Providers accept at most 128.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// The longest reasoning of one answer, in bytes.
const MAX_REASONING_BYTES: usize = 8 << 20;

/// How much of the last frame is kept in case it reports an error.
const MAX_FRAME_BYTES: usize = 16 << 10;

/// The last frame on the wire. The vendor's client drops parts of providers' error messages.
#[derive(Debug, Default)]
pub(crate) struct LastFrame {
    text: Mutex<String>,
    /// Whether an unparsable frame was skipped by the client.
    is_lost: AtomicBool,
    /// Whether the client skips such frames.
    skips_unparsable: bool,
}

impl LastFrame {
    pub(crate) fn new(provider: ModelProvider) -> Self {
        Self {
            skips_unparsable: matches!(provider, ModelProvider::OpenAiResponses | ModelProvider::Anthropic),
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ChatFrameSink for LastFrame {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        if self.skips_unparsable && !frame.data.is_empty() && frame.json().is_none() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        let mut last = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        last.clear();
        last.push_str(&frame.data[..frame.data.floor_char_boundary(MAX_FRAME_BYTES)]);
    }
}

/// One step of an answer.
#[derive(Debug)]
pub(crate) enum ResponseStep {
    /// A little more text.
    Text(String),
    /// The end, with its events in order.
    End { events: Vec<ModelEvent>, reasoning: Option<(CallList, ReasoningBlock)> },
}

/// An answer that is coming in. Dropping it ends the request.
pub(crate) struct ResponseStream {
    /// A provider that makes the vendor's client panic gives no answer; nothing else is lost.
    stream: CatchUnwind<AssertUnwindSafe<ChatStream>>,
    /// Passes the answer on to the client; `None` once it has ended.
    relay: Option<BoxFuture<'static, Result<(), ProviderError>>>,
    /// Why the relay ended early. The client only sees an end.
    failure: Option<ProviderError>,
    provider: ModelProvider,
    names: Arc<ToolNames>,
    last_frame: Arc<LastFrame>,
    error_mapper: ErrorMapper,
    /// How many bytes of reasoning have arrived so far.
    reasoning_bytes: usize,
    arguments: JoinedArguments,
}

/// What the client has joined of the arguments of calls so far.
#[derive(Debug, Default)]
struct JoinedArguments {
    bytes: u64,
}

impl JoinedArguments {
    /// Adds a call with all of its arguments so far. Returns whether they are within the limits.
    fn add(&mut self, argument_bytes: usize) -> bool {
        self.bytes += argument_bytes as u64;
        argument_bytes <= MAX_ARGUMENT_BYTES && self.bytes <= MAX_JOINED_BYTES
    }
}

impl ResponseStream {
    /// An answer that `relay` passes on to `stream`.
    pub(crate) fn new(
        stream: ChatStream,
        relay: BoxFuture<'static, Result<(), ProviderError>>,
        provider: ModelProvider,
        names: Arc<ToolNames>,
        last_frame: Arc<LastFrame>,
        error_mapper: ErrorMapper,
    ) -> Self {
        let stream = AssertUnwindSafe(stream).catch_unwind();
        let (relay, failure) = (Some(relay), None);
        let arguments = JoinedArguments::default();
        Self { stream, relay, failure, provider, names, last_frame, error_mapper, reasoning_bytes: 0, arguments }
    }

    /// The next step. Nothing follows an end or an error.
    pub(crate) async fn next(&mut self) -> Result<ResponseStep, ProviderError> {
        loop {
            // The vendor's client would log whole bodies and addresses.
            let event = self.next_event().with_subscriber(Dispatch::none()).await?;
            match event {
                Some(Ok(ChatStreamEvent::Chunk(chunk))) if !chunk.content.is_empty() => {
                    return Ok(ResponseStep::Text(chunk.content));
                }
                Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                    let argument_bytes = chunk.tool_call.fn_arguments.as_str().map_or(0, str::len);
                    if !self.arguments.add(argument_bytes) || chunk.tool_call.fn_name.len() > MAX_TOOL_NAME_BYTES {
                        return Err(self.error_mapper.provider_error(ProviderErrorKind::ResponseTooLong));
                    }
                }
                Some(Ok(ChatStreamEvent::ReasoningChunk(chunk) | ChatStreamEvent::ThoughtSignatureChunk(chunk))) => {
                    self.reasoning_bytes += chunk.content.len();
                    if self.reasoning_bytes > MAX_REASONING_BYTES {
                        return Err(self.error_mapper.provider_error(ProviderErrorKind::ResponseTooLong));
                    }
                }
                Some(Ok(ChatStreamEvent::End(end))) => return self.finish(end),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let is_transport_error = matches!(error, genai::Error::WebStream { .. });
                    let failure = self.failure.take().filter(|_| is_transport_error);
                    let mapped = || self.error_mapper.map_client_error(&error, &self.last_frame.text());
                    return Err(failure.unwrap_or_else(mapped));
                }
                None => {
                    let truncated = || self.error_mapper.provider_error(ProviderErrorKind::Truncated);
                    return Err(self.failure.take().unwrap_or_else(truncated));
                }
            }
        }
    }

    /// The client's next event. The relay, on which it depends, is polled with it.
    async fn next_event(&mut self) -> Result<Option<Result<ChatStreamEvent, genai::Error>>, ProviderError> {
        let event = future::poll_fn(|context| {
            if let Some(relay) = &mut self.relay
                && let Poll::Ready(ended) = relay.as_mut().poll(context)
            {
                self.relay = None;
                self.failure = ended.err();
            }
            self.stream.poll_next_unpin(context)
        });
        let event = event.await.transpose();
        event.map_err(|_panic| self.error_mapper.provider_error(ProviderErrorKind::InvalidResponse))
    }

    fn finish(&mut self, end: StreamEnd) -> Result<ResponseStep, ProviderError> {
        let mut is_truncated = false;
        if self.last_frame.is_lost.load(Ordering::Relaxed) {
            return Err(self.error_mapper.provider_error(ProviderErrorKind::InvalidResponse));
        }
        match &end.captured_stop_reason {
            // These three providers send a stop reason, and the vendor's client turns a cut connection into an end. The
            // others have a closing frame, without which there is no end.
            None if matches!(
                self.provider,
                ModelProvider::OpenAiResponses | ModelProvider::Gemini | ModelProvider::Ollama
            ) =>
            {
                let reported = self.error_mapper.map_frame(&self.last_frame.text()).or_else(|| self.failure.take());
                return Err(reported.unwrap_or_else(|| self.error_mapper.provider_error(ProviderErrorKind::Truncated)));
            }
            Some(StopReason::ContentFilter(_)) => {
                return Err(self.error_mapper.provider_error(ProviderErrorKind::ContentFiltered));
            }
            Some(StopReason::MaxTokens(_)) => is_truncated = true,
            Some(StopReason::Other(reason)) if is_failed_stop_reason(reason) => {
                return Err(self.error_mapper.provider_error(ProviderErrorKind::InvalidResponse));
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
            // Captured only from servers that require it back.
            leading.extend(end.captured_reasoning_content.map(ContentPart::ReasoningContent));
        }
        let mut calls: Vec<ToolCall> = calls.into_iter().filter_map(ContentPart::into_tool_call).collect();
        if self.provider == ModelProvider::OpenAi {
            // Where a server doesn't count its calls from 0, the vendor's client fills the gap with copies of the first
            // chunk of a call. The call itself is the last of them. Elsewhere equal ids mean nothing: Gemini sends none,
            // and the client's own restart with every frame.
            let mut seen = HashSet::new();
            calls.reverse();
            calls.retain(|call| seen.insert(call.call_id.clone()));
            calls.reverse();
        }
        let block = (!calls.is_empty()).then(|| reasoning_block(leading, &calls));
        let mut events = Vec::with_capacity(calls.len() + 3);
        if is_truncated && calls.is_empty() {
            let note = "\n\n(The answer ends here: the model reached its output limit.)";
            events.push(ModelEvent::Text(note.to_owned()));
        }
        events.extend(calls.into_iter().map(|call| {
            ModelEvent::Call(ModelToolCall {
                name: self.names.restore_name(call.fn_name),
                arguments: parse_arguments(call.fn_arguments),
                id: call.call_id,
            })
        }));
        events.extend(usage.map(ModelEvent::Usage));
        events.push(ModelEvent::Done);
        Ok(ResponseStep::End { events, reasoning: block })
    }
}

/// Whether a stop reason means a failure although the connection was fine.
fn is_failed_stop_reason(reason: &str) -> bool {
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "failed", "error", "ERROR"]
        .contains(&reason)
}

/// The reasoning before the calls, keyed by the calls as they will come back.
fn reasoning_block(leading: Vec<ContentPart>, calls: &[ToolCall]) -> (CallList, ReasoningBlock) {
    let is_thought =
        |part: &ContentPart| part.is_thought_signature() || part.is_reasoning_content() || part.is_custom();
    let call_list = calls
        .iter()
        .map(|call| (call.fn_name.clone(), provider_messages::to_object(&parse_arguments(call.fn_arguments.clone()))))
        .collect();
    let leading = leading.into_iter().filter(is_thought).collect();
    let signatures = calls.iter().map(|call| call.thought_signatures.clone()).collect();
    (call_list, ReasoningBlock { leading, signatures })
}

/// Parses arguments: a value, or the text itself when it isn't JSON. Nothing at all means an empty object.
fn parse_arguments(value: Value) -> Value {
    match value {
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

    /// Catches: an answer in tiny chunks that keeps a thread busy with joining them.
    #[test]
    fn arguments_are_limited_by_what_joining_them_copies() {
        let join = |chunk_bytes: usize, chunks: usize| {
            let mut arguments = JoinedArguments::default();
            (1..=chunks).all(|count| arguments.add(count * chunk_bytes))
        };
        assert!(join(6, 10_000), "60 KB in small chunks");
        assert!(join(4, 131_072), "512 KB in chunks of four bytes");
        assert!(join(MAX_ARGUMENT_BYTES, 1), "the longest arguments at once");
        assert!(!join(MAX_ARGUMENT_BYTES + 1, 1));
        assert!(!join(4, 160_000), "640 KB in chunks of four bytes");
        let mut arguments = JoinedArguments::default();
        let passed = (0..).take_while(|_| arguments.add(MAX_ARGUMENT_BYTES)).count();
        assert_eq!(passed, 10_240, "empty chunks of a long call");
    }

    #[test]
    fn tool_arguments_are_json_or_original_text() {
        for (value, expected) in [
            (json!({"a": 1}), json!({"a": 1})),
            (Value::Null, json!({})),
            (json!(""), json!({})),
            (json!(" \n"), json!({})),
            (json!(r#"{"a": 1}"#), json!({"a": 1})),
            (json!(r#"{"a": "#), json!(r#"{"a": "#)),
            (json!("[1]"), json!("[1]")),
            (json!([1]), json!([1])),
        ] {
            assert_eq!(parse_arguments(value), expected);
        }
    }
}
