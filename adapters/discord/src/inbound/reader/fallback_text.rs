//! What a message carries that is neither words nor a file, as words. Pure.

use std::fmt::Write;

use crate::inbound::wire::{Embed, MessageContent, PollMedia};

/// Says what a person put into the message; `None` when words and files are all of it.
pub(super) fn describe_content(content: &MessageContent) -> Option<String> {
    let mut text = String::new();
    for sticker in &content.sticker_items {
        line(&mut text, &format!("[sticker: {}]", sticker.name));
    }
    if let Some(poll) = &content.poll {
        let words = |media: &PollMedia| media.text.clone().unwrap_or_default();
        line(&mut text, &format!("[poll: {}]", words(&poll.question)));
        for answer in &poll.answers {
            line(&mut text, &format!("- {}", words(&answer.poll_media)));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Says what stands in the boxes beneath a message, which is all that some programs write; nothing that its own words
/// say already.
pub(super) fn embed_text(content: &MessageContent) -> String {
    let mut text = String::new();
    for Embed { title, description, url, fields } in &content.embeds {
        let mut said = String::new();
        let url = url.as_deref().filter(|url| !content.text.contains(url.trim_end_matches('/')));
        match (title, url) {
            (Some(title), Some(url)) => line(&mut said, &format!("[{title}]({url})")),
            (Some(words), None) => line(&mut said, words),
            (None, Some(url)) => line(&mut said, url),
            (None, None) => {}
        }
        if let Some(description) = description {
            line(&mut said, description);
        }
        for field in fields {
            line(&mut said, &format!("{}: {}", field.name, field.value));
        }
        line(&mut text, &said);
    }
    text
}

fn line(text: &mut String, words: &str) {
    if !words.is_empty() {
        let _ = write!(text, "{}{words}", if text.is_empty() { "" } else { "\n" });
    }
}
