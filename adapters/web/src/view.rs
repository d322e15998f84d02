//! Converts the ledger's records to the types of the API.

mod sections;

use satchel_domain::{
    Attachment, AttachmentSource, ConversationId, PartContent, PartState, SystemTask, TurnId,
    filename::Filename,
    part::{FailureReason, FileItem, Markup, Part, PreparedVoice},
    reference_block,
};
use satchel_ports::ledger::{
    CallRecord, ConversationSummary, ExcerptPiece, FinishedCall, InboundFileState, QueuedMessage, SearchHit,
    SearchResults, TurnRecord,
};
use serde_json::Value;

use crate::{
    markdown,
    previews::{MAX_PREVIEW_BYTES, MAX_PREVIEW_SIDE},
    url_signer::{PREVIEW_SUFFIX, UrlSigner},
    wire::{self, FileSender, Inline, MessageFileState, ToolState, TurnState},
};

/// Converts an entry of the list of conversations.
pub(crate) fn to_wire_conversation(summary: ConversationSummary, urls: &UrlSigner) -> wire::Conversation {
    wire::Conversation {
        export: urls.sign_url(&format!("{}/export", conversation_path(&summary.conversation))),
        id: summary.conversation.to_string(),
        named: summary.name.is_some(),
        title: summary.name.unwrap_or_else(|| reference_block::text_before_block(&summary.title).to_owned()),
        pinned: summary.pinned,
        archived: summary.archived,
        last_turn: summary.last_turn.to_string(),
        last_at: summary.last_at.0,
        model: summary.model,
    }
}

/// Converts what a search found.
pub(crate) fn to_wire_results(results: SearchResults, more: bool) -> wire::SearchResults {
    let SearchResults { hits, unindexed } = results;
    wire::SearchResults { hits: hits.into_iter().map(to_wire_hit).collect(), more, unindexed }
}

fn to_wire_hit(hit: SearchHit) -> wire::SearchHit {
    let piece = |ExcerptPiece { text, matched }| wire::ExcerptPiece { text, matched };
    wire::SearchHit {
        conversation: hit.conversation.to_string(),
        title: hit.name.unwrap_or_else(|| reference_block::text_before_block(&hit.title).to_owned()),
        turn: hit.turn.map(|turn| turn.to_string()),
        at: hit.at.0,
        excerpt: hit.excerpt.into_iter().map(piece).collect(),
    }
}

/// Converts the turns of a conversation, oldest first.
pub(crate) fn to_wire_turns(records: &[TurnRecord], urls: &UrlSigner) -> Vec<wire::Turn> {
    let next = records.iter().find(|record| record.ending.is_none()).map(|record| record.id);
    records.iter().map(|record| to_wire_turn(record, next, urls)).collect()
}

/// Converts a turn. `next` is the one that is running, or will run next.
pub(crate) fn to_wire_turn(record: &TurnRecord, next: Option<TurnId>, urls: &UrlSigner) -> wire::Turn {
    let messages = record.messages.iter().filter(|queued| !is_notification(queued));
    let visible = record.parts.iter().filter_map(|part| Some((part, to_wire_part(part, urls)?)));
    let (contents, mut parts): (Vec<&Part>, Vec<wire::Part>) = visible.unzip();
    let mut tools: Vec<wire::UsedTool> = record.calls.iter().map(to_wire_tool).collect();
    let texts = contents.iter().zip(&mut parts).filter_map(|(part, shown)| match part.content() {
        Some(PartContent::Text { markup, .. }) => Some((*markup, shown)),
        _ => None,
    });
    position_tools(texts.collect(), &mut tools, &record.calls);
    let state = match &record.ending {
        Some(_) => TurnState::Done,
        None if next == Some(record.id) => TurnState::Running,
        None => TurnState::Waiting,
    };
    wire::Turn {
        id: record.id.to_string(),
        state,
        ending: record.ending.as_ref().map(|ending| ending.as_str().to_owned()),
        messages: messages.map(|queued| to_wire_message(queued, urls)).collect(),
        parts,
        tools,
        replaced_by: record.replaced_by.map(|turn| turn.to_string()),
    }
}

/// Divides the texts of a reply, which are its visible parts of text, at the tools that were used between the model's texts.
fn position_tools(texts: Vec<(Markup, &mut wire::Part)>, tools: &mut [wire::UsedTool], calls: &[CallRecord]) {
    let interim: Vec<&str> = calls.iter().map(|call| call.text.as_str()).collect();
    let whole: Vec<&str> = texts.iter().map(|(_, part)| part.text.as_deref().unwrap_or_default()).collect();
    let (sections, places) = sections::divide(&whole, &interim);
    for (tool, after) in tools.iter_mut().zip(places) {
        tool.after = after;
    }
    let texts_and_sections = texts.iter().zip(&sections);
    let sections: Vec<_> = texts_and_sections.map(|((markup, _), sections)| to_sections(sections, *markup)).collect();
    for ((_, part), sections) in texts.into_iter().zip(sections).filter(|(_, sections)| !sections.is_empty()) {
        let html: Vec<&str> = sections.iter().map(|section| section.html.as_str()).collect();
        part.html = Some(html.join("\n"));
        part.sections = sections;
    }
}

/// Converts the sections of a part; one alone is its whole text.
fn to_sections(sections: &[&str], markup: Markup) -> Vec<wire::TextSection> {
    if sections.len() < 2 {
        return Vec::new();
    }
    let section = |text: &&str| wire::TextSection { html: to_html(text, markup), text: (*text).to_owned() };
    sections.iter().map(section).collect()
}

fn to_html(text: &str, markup: Markup) -> String {
    match markup {
        Markup::Rich | Markup::Blocks => markdown::to_html(text),
        Markup::Plain => markdown::escape_text(text),
    }
}

/// Whether nobody wrote a message: another program or Satchel itself sent it, and its text and files are those of the reply.
fn is_notification(queued: &QueuedMessage) -> bool {
    matches!(
        queued.message.system_task,
        Some(SystemTask::DeliverNotification { .. } | SystemTask::ChannelClosed { .. } | SystemTask::ResendText { .. })
    )
}

fn to_wire_tool(call: &CallRecord) -> wire::UsedTool {
    let state = match &call.outcome {
        None => ToolState::Started,
        Some(FinishedCall { failed: true, .. }) => ToolState::Failed,
        Some(_) => ToolState::Finished,
    };
    let outcome = call.outcome.as_ref();
    let reason = outcome.filter(|outcome| outcome.failed).map(|outcome| outcome.text.clone());
    let took = outcome.and_then(|outcome| outcome.took);
    wire::UsedTool {
        tool: call.tool.clone(),
        arguments: summarize_arguments(&call.arguments),
        after: 0,
        state,
        reason: reason.filter(|reason| !reason.is_empty()),
        took_ms: took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// Says the arguments of a call on one line: the first few, and the beginning of each.
fn summarize_arguments(arguments: &Value) -> String {
    const MAX_CHARS: usize = 60;
    const MAX_FIELDS: usize = 8;
    let shorten = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = words.char_indices().nth(MAX_CHARS) {
            words.truncate(end);
            words.push('…');
        }
        words
    };
    match arguments {
        Value::Object(fields) => {
            let shown = fields.iter().take(MAX_FIELDS).map(|(name, value)| format!("{name}: {}", shorten(value)));
            let rest = (fields.len() > MAX_FIELDS).then(|| "…".to_owned());
            shown.chain(rest).collect::<Vec<_>>().join(", ")
        }
        other => shorten(other),
    }
}

/// Whether a turn and its parts can no longer change.
pub(crate) fn is_final(record: &TurnRecord) -> bool {
    record.ending.is_some() && record.parts.iter().all(|part| part.state.is_settled())
}

fn to_wire_message(queued: &QueuedMessage, urls: &UrlSigner) -> wire::Message {
    wire::Message {
        id: queued.id.to_string(),
        // Addresses of files that a program names are for tools.
        text: reference_block::split(&queued.message.text).0.to_owned(),
        sender: queued.message.sender.name.clone(),
        received_at: queued.received_at.0,
        files: queued.files.iter().map(|file| to_wire_message_file(file, urls)).collect(),
    }
}

fn to_wire_message_file(file_state: &InboundFileState, urls: &UrlSigner) -> wire::MessageFile {
    let (state, filename, bytes, reason, stored) = match file_state {
        InboundFileState::Waiting(reference) => {
            (MessageFileState::Waiting, &reference.filename, reference.bytes, None, None)
        }
        InboundFileState::Stored(attachment) => (
            MessageFileState::Stored,
            &attachment.filename,
            Some(attachment.bytes),
            None,
            Some(to_wire_file(attachment, urls)),
        ),
        InboundFileState::Refused(refused) => {
            (MessageFileState::Refused, &refused.filename, refused.bytes, Some(refused.reason.clone()), None)
        }
    };
    wire::MessageFile { state, filename: filename.to_string(), bytes, reason, file: stored }
}

fn to_wire_part(part: &Part, urls: &UrlSigner) -> Option<wire::Part> {
    let reason = match &part.state {
        // Nobody has seen a question that was closed before it was sent.
        PartState::Replaced { .. } | PartState::Failed { reason: FailureReason::NotNeeded } => return None,
        PartState::Failed { reason } => Some(reason.to_string()),
        PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => Some(reason.clone()),
        PartState::Pending | PartState::Sending | PartState::Open { .. } | PartState::Sent { .. } => None,
    };
    // Nobody misses a draft that was deleted.
    let content = part.content()?;
    let (text, html) = match content {
        PartContent::Text { text, markup, .. } => (Some(text), Some(to_html(text, *markup))),
        PartContent::Notice { text } | PartContent::Question { text, .. } => {
            (Some(text), Some(to_html(text, Markup::Rich)))
        }
        PartContent::Voice { text, .. } => (Some(text), Some(markdown::escape_text(text))),
        PartContent::File(_) | PartContent::Album { .. } => (None, None),
    };
    let files = match content {
        PartContent::Voice { prepared: Some(voice), .. } => vec![to_wire_voice_file(part, voice, urls)],
        content => content.files().iter().map(|item| to_wire_file(&item.attachment, urls)).collect(),
    };
    let failed = matches!(part.state, PartState::Failed { .. });
    Some(wire::Part {
        id: part.id.to_string(),
        kind: content.kind().to_owned(),
        state: part.state.as_str().to_owned(),
        reason,
        html,
        text: text.cloned(),
        sections: Vec::new(),
        files,
        resend: failed.then(|| resend_command(content.files())).flatten(),
        at: part.created_at.0,
    })
}

/// Returns the command that sends the files again.
fn resend_command(files: &[FileItem]) -> Option<String> {
    let numbers: Vec<String> = files.iter().map(|item| item.attachment.number.to_string()).collect();
    (!numbers.is_empty()).then(|| format!("/resend {}", numbers.join(" ")))
}

pub(crate) fn to_wire_file(attachment: &Attachment, urls: &UrlSigner) -> wire::File {
    let url = format!("{}/files/{}", conversation_path(&attachment.conversation), attachment.id);
    wire::File {
        id: attachment.id.to_string(),
        number: attachment.number.get(),
        filename: attachment.filename.to_string(),
        mime: attachment.mime.clone(),
        bytes: attachment.bytes,
        sha256: attachment.sha256.to_string(),
        description: attachment.description.clone(),
        width: attachment.media.width,
        height: attachment.media.height,
        duration_ms: attachment.media.duration_ms,
        inline: inline_kind(&attachment.mime),
        preview: has_preview(attachment).then(|| format!("{url}{PREVIEW_SUFFIX}")),
        signature: urls.sign(&url),
        url,
        forgotten: attachment.is_forgotten(),
    }
}

/// Converts an entry of the list of a conversation's files.
pub(crate) fn to_wire_conversation_file(attachment: &Attachment, urls: &UrlSigner) -> wire::ConversationFile {
    let sender = match attachment.source {
        AttachmentSource::User => FileSender::Person,
        AttachmentSource::Tool | AttachmentSource::Script | AttachmentSource::Config => FileSender::Assistant,
    };
    wire::ConversationFile { file: to_wire_file(attachment, urls), sender, at: attachment.created_at.0 }
}

fn to_wire_voice_file(part: &Part, voice: &PreparedVoice, urls: &UrlSigner) -> wire::File {
    let url = format!("{}/voices/{}", conversation_path(&part.conversation), part.id);
    wire::File {
        id: part.id.to_string(),
        number: 0,
        filename: voice_filename(part).to_string(),
        mime: VOICE_MIME.to_owned(),
        bytes: voice.bytes,
        sha256: voice.sha256.to_string(),
        description: String::new(),
        width: None,
        height: None,
        duration_ms: Some(voice.duration_ms),
        inline: Inline::Audio,
        signature: urls.sign(&url),
        url,
        preview: None,
        forgotten: false,
    }
}

/// The type of every prepared voice.
pub(crate) const VOICE_MIME: &str = "audio/ogg";

/// Returns the name of a downloaded voice message.
pub(crate) fn voice_filename(part: &Part) -> Filename {
    Filename::from_untrusted(&format!("voice-{}.ogg", part.id))
}

/// Returns the path of a conversation in the API.
pub(crate) fn conversation_path(conversation: &ConversationId) -> String {
    format!("/api/conversations/{}", conversation.key())
}

/// Returns how files of a type may be shown. Types that can contain scripts, such as SVG, and all types not listed here
/// are never shown inline.
pub(crate) fn inline_kind(mime: &str) -> Inline {
    match mime {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/avif" | "image/apng" => Inline::Image,
        "audio/mpeg" | "audio/mp4" | "audio/x-m4a" | "audio/aac" | "audio/ogg" | "audio/opus" | "audio/flac"
        | "audio/wav" | "audio/webm" => Inline::Audio,
        "video/mp4" | "video/webm" | "video/ogg" | "video/quicktime" | "video/x-m4v" => Inline::Video,
        _ => Inline::None,
    }
}

/// Whether a page shows a copy of an image first. Small ones are shown as they are, and so are those that move, because
/// a copy stands still. Workers don't decode other types.
pub(crate) fn has_preview(attachment: &Attachment) -> bool {
    let Attachment { mime, bytes, media, .. } = attachment;
    let is_decoded = matches!(
        mime.as_str(),
        "image/png"
            | "image/jpeg"
            | "image/webp"
            | "image/gif"
            | "image/bmp"
            | "image/tiff"
            | "image/heic"
            | "image/heif"
    );
    let fits = |side: Option<u32>| side.is_some_and(|side| side <= MAX_PREVIEW_SIDE);
    let is_small = *bytes <= MAX_PREVIEW_BYTES && fits(media.width) && fits(media.height);
    let is_shown = inline_kind(mime) == Inline::Image && (is_small || media.animated);
    is_decoded && !is_shown && !attachment.is_forgotten()
}

#[cfg(test)]
mod tests;
