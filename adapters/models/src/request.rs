//! The vendor's request, made of an arranged conversation. Files are read here, and only those that were chosen.

use genai::chat::{ChatMessage, ChatRequest, ChatRole, ContentPart, MessageContent, Tool, ToolCall, ToolResponse};
use satchel_domain::Attachment;
use satchel_ports::{Blobs, ToolSpec};
use serde_json::{Value, json};

use crate::{
    files,
    provider_messages::{self, ContentPiece, ProviderTurn, WireToolResult},
    reasoning::{CallList, ReasoningBlock},
    settings::ModelProvider,
    tool_names::ToolNames,
};

/// Makes the request. It is made anew for every attempt, so that no file is kept in memory while a server thinks.
pub(crate) async fn build(
    provider: ModelProvider,
    system: &str,
    turns: &[ProviderTurn],
    tools: Vec<Tool>,
    blobs: &dyn Blobs,
    thought_of: impl Fn(&CallList) -> Option<ReasoningBlock>,
) -> ChatRequest {
    let mut messages = Vec::with_capacity(turns.len());
    for turn in turns {
        match turn {
            ProviderTurn::Person(pieces) => messages.push(ChatMessage::user(user_content(pieces, blobs).await)),
            ProviderTurn::Model { text, calls } => {
                let asked: CallList = calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect();
                let thought = thought_of(&asked).unwrap_or_default();
                let mut parts = thought.leading;
                parts.extend((!text.is_empty()).then(|| ContentPart::from_text(text.as_str())));
                parts.extend(calls.iter().enumerate().map(|(index, call)| {
                    ContentPart::ToolCall(ToolCall {
                        call_id: call.id.clone(),
                        fn_name: call.name.clone(),
                        fn_arguments: call.arguments.clone(),
                        thought_signatures: thought.signatures.get(index).cloned().flatten(),
                    })
                }));
                messages.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
            }
            ProviderTurn::Answers(answers) => {
                let mut parts = Vec::with_capacity(answers.len());
                for answer in answers {
                    parts.push(tool_result_part(answer, blobs).await);
                }
                // Ollama takes one answer a message; the others want all of a turn together.
                let apart = provider == ModelProvider::Ollama;
                let grouped: Vec<Vec<ContentPart>> =
                    if apart { parts.into_iter().map(|part| vec![part]).collect() } else { vec![parts] };
                let message = |parts: Vec<_>| ChatMessage::new(ChatRole::Tool, MessageContent::from_parts(parts));
                messages.extend(grouped.into_iter().map(message));
            }
        }
    }
    let mut request = ChatRequest::new(messages);
    request.system = Some(system.trim().to_owned()).filter(|system| !system.is_empty());
    request.tools = (!tools.is_empty()).then_some(tools);
    request
}

/// The tools as they are offered.
pub(crate) fn tool_definitions(provider: ModelProvider, tools: &[ToolSpec], names: &ToolNames) -> Vec<Tool> {
    let is_openai = matches!(provider, ModelProvider::OpenAi | ModelProvider::OpenAiResponses);
    let offered = tools.iter().map(|tool| {
        let offered = Tool::new(names.to_wire(&tool.name))
            .with_description(tool.description.clone())
            .with_schema(tool.parameters.clone());
        // Unset, OpenAI makes every argument required; the others don't know the word.
        if is_openai { offered.with_strict(false) } else { offered }
    });
    offered.collect()
}

/// The person's turn: neighbouring words as one text, files in their places.
async fn user_content(pieces: &[ContentPiece], blobs: &dyn Blobs) -> MessageContent {
    let mut parts = Vec::new();
    let mut words = String::new();
    for piece in pieces {
        match piece {
            ContentPiece::Text(text) => append_text(&mut words, text),
            ContentPiece::File(file) => match files::encoded(blobs, file).await {
                Ok(encoded) => {
                    parts.extend(flush_text(&mut words));
                    parts.push(ContentPart::from_binary_base64(&file.mime, encoded, Some(file.filename.to_string())));
                }
                Err(reason) => append_text(
                    &mut words,
                    &provider_messages::format_note(&provider_messages::omitted_file_note(file, &reason)),
                ),
            },
        }
    }
    parts.extend(flush_text(&mut words));
    if parts.is_empty() {
        parts.push(ContentPart::from_text(provider_messages::format_note("A message without text or files.")));
    }
    MessageContent::from_parts(parts)
}

fn append_text(words: &mut String, text: &str) {
    if !words.is_empty() {
        words.push_str("\n\n");
    }
    words.push_str(text);
}

fn flush_text(words: &mut String) -> Option<ContentPart> {
    (!words.is_empty()).then(|| ContentPart::Text(std::mem::take(words)))
}

/// A tool's answer; with files, in the form of the one provider that takes them there.
async fn tool_result_part(answer: &WireToolResult, blobs: &dyn Blobs) -> ContentPart {
    let mut text = answer.text.clone();
    let mut shown = Vec::new();
    for file in &answer.files {
        match files::encoded(blobs, file).await {
            Ok(encoded) => shown.push(anthropic_block(file, encoded)),
            Err(reason) => {
                provider_messages::append_line(&mut text, &provider_messages::omitted_file_note(file, &reason))
            }
        }
    }
    if shown.is_empty() {
        let response = ToolResponse::new(answer.id.as_str(), text);
        return ContentPart::ToolResponse(response.with_fn_name(answer.name.as_str()));
    }
    let content: Vec<Value> = std::iter::once(json!({ "type": "text", "text": text })).chain(shown).collect();
    ContentPart::from_custom(json!({ "type": "tool_result", "tool_use_id": answer.id, "content": content }), None)
}

fn anthropic_block(file: &Attachment, encoded: String) -> Value {
    let kind = if file.kind() == "image" { "image" } else { "document" };
    let mut block = json!({ "type": kind, "source": { "type": "base64", "media_type": file.mime } });
    // Moved, not copied: it may be large.
    block["source"]["data"] = Value::String(encoded);
    block
}
