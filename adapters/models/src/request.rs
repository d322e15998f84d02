//! Builds the vendor's request from the prepared turns. Only the chosen files are read, and only here.

use std::collections::BTreeSet;

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart, MessageContent, Tool, ToolCall, ToolResponse};
use satchel_ports::{Blobs, ModelFile, ToolSpec};
use serde_json::{Value, json};

use crate::{
    files,
    provider_messages::{self, ContentPiece, ProviderTurn, WireToolResult},
    reasoning::{CallList, ReasoningBlock},
    refused_files::SentFile,
    settings::ModelProvider,
    tool_names::ToolNames,
};

/// The files of one request: reads them, and records what is sent. A file that can't be read isn't.
struct RequestFiles<'a> {
    blobs: &'a dyn Blobs,
    sent: BTreeSet<SentFile>,
}

impl RequestFiles<'_> {
    /// Reads a file as base64.
    ///
    /// # Errors
    /// When it isn't sent, with the reason for the model.
    async fn encode(&mut self, file: &ModelFile) -> Result<String, String> {
        let encoded = files::encode_base64(self.blobs, file).await?;
        self.sent.extend(SentFile::from_file(file));
        Ok(encoded)
    }
}

/// Builds the request, and returns it with what it sends besides text. Every attempt builds a new one, so that no file stays
/// in memory while the server works.
pub(crate) async fn build_request(
    provider: ModelProvider,
    system: &str,
    turns: &[ProviderTurn],
    tools: Vec<Tool>,
    blobs: &dyn Blobs,
    find_reasoning: impl Fn(&CallList) -> Option<ReasoningBlock>,
) -> (ChatRequest, BTreeSet<SentFile>) {
    let mut files = RequestFiles { blobs, sent: BTreeSet::new() };
    let mut messages = Vec::with_capacity(turns.len());
    for turn in turns {
        match turn {
            ProviderTurn::Person(pieces) => {
                messages.push(ChatMessage::user(user_content(provider, pieces, &mut files).await));
            }
            ProviderTurn::Model { text, calls } => {
                let call_list: CallList =
                    calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
                let block = find_reasoning(&call_list).unwrap_or_default();
                let mut parts = block.leading;
                parts.extend((!text.is_empty()).then(|| ContentPart::from_text(text.as_str())));
                parts.extend(calls.iter().enumerate().map(|(index, call)| {
                    ContentPart::ToolCall(ToolCall {
                        call_id: call.id.clone(),
                        fn_name: call.name.clone(),
                        fn_arguments: call.arguments.clone(),
                        thought_signatures: block.signatures.get(index).cloned().flatten(),
                    })
                }));
                messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
            }
            ProviderTurn::ToolResults(results) => {
                let mut parts = Vec::with_capacity(results.len());
                for result in results {
                    parts.push(tool_result_part(result, &mut files).await);
                }
                // Ollama accepts one result per message; the others require all of a turn together.
                let is_ollama = provider == ModelProvider::Ollama;
                let grouped: Vec<Vec<ContentPart>> =
                    if is_ollama { parts.into_iter().map(|part| vec![part]).collect() } else { vec![parts] };
                let message = |parts: Vec<_>| ChatMessage::new(ChatRole::Tool, MessageContent::from_parts(parts));
                messages.extend(grouped.into_iter().map(message));
            }
        }
    }
    let mut request = ChatRequest::new(messages);
    request.system = Some(system.trim().to_owned()).filter(|system| !system.is_empty());
    request.tools = (!tools.is_empty()).then_some(tools);
    (request, files.sent)
}

/// The tools as they are offered.
pub(crate) fn tool_definitions(provider: ModelProvider, tools: &[ToolSpec], names: &ToolNames) -> Vec<Tool> {
    let is_openai = matches!(provider, ModelProvider::OpenAi | ModelProvider::OpenAiResponses);
    let definitions = tools.iter().map(|tool| {
        let definition = Tool::new(names.to_wire(&tool.name))
            .with_description(tool.description.clone())
            .with_schema(tool.parameters.clone());
        // Unset, OpenAI makes every argument required; the others don't know the field.
        if is_openai { definition.with_strict(false) } else { definition }
    });
    definitions.collect()
}

/// The person's turn: adjacent texts joined, files in their places.
async fn user_content(
    provider: ModelProvider,
    pieces: &[ContentPiece],
    files: &mut RequestFiles<'_>,
) -> MessageContent {
    let mut parts = Vec::new();
    let mut pending_text = String::new();
    for piece in pieces {
        match piece {
            ContentPiece::Text(text) => append_text(&mut pending_text, text),
            ContentPiece::ImageUrl(url) => {
                parts.extend(flush_text(&mut pending_text));
                parts.push(image_url_part(provider, url));
                files.sent.insert(SentFile::from_image_url(url));
            }
            ContentPiece::File(file) => match files.encode(file).await {
                Ok(encoded) => {
                    parts.extend(flush_text(&mut pending_text));
                    parts.push(ContentPart::from_binary_base64(&file.mime, encoded, Some(file.filename.to_string())));
                }
                Err(reason) => append_text(
                    &mut pending_text,
                    &provider_messages::format_note(&provider_messages::omitted_file_note(file, &reason)),
                ),
            },
        }
    }
    parts.extend(flush_text(&mut pending_text));
    if parts.is_empty() {
        parts.push(ContentPart::from_text(provider_messages::format_note("A message without text or files.")));
    }
    MessageContent::from_parts(parts)
}

/// An image that the provider fetches.
fn image_url_part(provider: ModelProvider, url: &str) -> ContentPart {
    match provider {
        // The vendor crate leaves it out for Anthropic.
        ModelProvider::Anthropic => {
            ContentPart::from_custom(json!({ "type": "image", "source": { "type": "url", "url": url } }), None)
        }
        // Its type is unknown; only that it is an image is read of it.
        _ => ContentPart::from_binary_url("image/*", url, None),
    }
}

fn append_text(pending: &mut String, text: &str) {
    if !pending.is_empty() {
        pending.push_str("\n\n");
    }
    pending.push_str(text);
}

fn flush_text(pending: &mut String) -> Option<ContentPart> {
    (!pending.is_empty()).then(|| ContentPart::Text(std::mem::take(pending)))
}

/// A tool result; with files, in the form of the one provider that accepts them there.
async fn tool_result_part(result: &WireToolResult, files: &mut RequestFiles<'_>) -> ContentPart {
    let mut text = result.text.clone();
    let mut blocks = Vec::new();
    for file in &result.files {
        match files.encode(file).await {
            Ok(encoded) => blocks.push(anthropic_block(file, encoded)),
            Err(reason) => {
                provider_messages::append_line(&mut text, &provider_messages::omitted_file_note(file, &reason))
            }
        }
    }
    if blocks.is_empty() {
        let response = ToolResponse::new(result.id.as_str(), text);
        return ContentPart::ToolResponse(response.with_fn_name(result.name.as_str()));
    }
    let content: Vec<Value> = std::iter::once(json!({ "type": "text", "text": text })).chain(blocks).collect();
    ContentPart::from_custom(json!({ "type": "tool_result", "tool_use_id": result.id, "content": content }), None)
}

fn anthropic_block(file: &ModelFile, encoded: String) -> Value {
    let kind = if file.kind() == "image" { "image" } else { "document" };
    let mut block = json!({ "type": kind, "source": { "type": "base64", "media_type": file.mime } });
    // Moved, not copied: it may be large.
    block["source"]["data"] = Value::String(encoded);
    block
}
