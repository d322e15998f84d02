//! Describes content that is neither text nor a file. Pure.

use std::fmt::Write;

use crate::inbound::wire::{Embed, MessageContent, PollMedia};

/// Describes stickers and polls; `None` if the message has none.
pub(super) fn describe_content(content: &MessageContent) -> Option<String> {
    let mut text = String::new();
    for sticker in &content.sticker_items {
        push_line(&mut text, &format!("[sticker: {}]", sticker.name));
    }
    if let Some(poll) = &content.poll {
        let media_text = |media: &PollMedia| media.text.clone().unwrap_or_default();
        push_line(&mut text, &format!("[poll: {}]", media_text(&poll.question)));
        for answer in &poll.answers {
            push_line(&mut text, &format!("- {}", media_text(&answer.poll_media)));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the text of a message's embeds, the only content of some bots' messages, without links that repeat its text.
pub(super) fn embed_text(content: &MessageContent) -> String {
    let mut text = String::new();
    for Embed { title, description, url, fields } in &content.embeds {
        let mut embed_lines = String::new();
        let url = url.as_deref().filter(|url| !content.text.contains(url.trim_end_matches('/')));
        match (title, url) {
            (Some(title), Some(url)) => push_line(&mut embed_lines, &format!("[{title}]({url})")),
            (Some(title), None) => push_line(&mut embed_lines, title),
            (None, Some(url)) => push_line(&mut embed_lines, url),
            (None, None) => {}
        }
        if let Some(description) = description {
            push_line(&mut embed_lines, description);
        }
        for field in fields {
            push_line(&mut embed_lines, &format!("{}: {}", field.name, field.value));
        }
        push_line(&mut text, &embed_lines);
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    if !line.is_empty() {
        let _ = write!(text, "{}{line}", if text.is_empty() { "" } else { "\n" });
    }
}
