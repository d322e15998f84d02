//! What stands in the platform's conversations, as a person would see it, and the checks that a crash matrix makes.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use bytes::Bytes;
use satchel_domain::{ConversationId, MessageRef, Sha256, part::FileForm, size};

/// The words with which a message admits that it may be a second one.
pub const DUPLICATE_LABEL: &str = "(possible duplicate)";

/// What sort of message one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Words, and on Discord the files beside them.
    Text,
    /// A file, or on Discord several.
    File,
    /// One of an album's files.
    Album,
    Voice,
}

/// A file as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptFile {
    pub filename: String,
    /// Its type as it was sent.
    pub mime: String,
    /// How many bytes arrived.
    pub bytes: u64,
    pub sha256: Sha256,
    /// The form in which it stands there; `None` for a person's file.
    pub form: Option<FileForm>,
    /// The words under it.
    pub caption: String,
    /// The bytes themselves, where the platform was asked to keep them.
    pub content: Option<Bytes>,
}

/// A message's words and files at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    pub text: String,
    /// Its files, in order.
    pub files: Vec<TranscriptFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptMessage {
    pub id: MessageRef,
    /// Whether Satchel sent it; otherwise a person did.
    pub own: bool,
    /// What sort it is.
    pub kind: MessageKind,
    /// What it shows now.
    pub contents: Contents,
    /// What it showed before each edit, oldest first.
    pub edits: Vec<Contents>,
    /// Whether it was deleted since.
    pub deleted: bool,
    /// The message that it answers.
    pub reply_to: Option<MessageRef>,
    /// The nonce that it came with.
    pub nonce: Option<String>,
    /// The first message of the album that it belongs to.
    pub album: Option<MessageRef>,
    /// A voice's playing time in milliseconds.
    pub duration_ms: Option<u64>,
}

/// Something that a person sees: a message's words, or a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VisibleItem {
    /// Words, without the label of a possible duplicate.
    Text(String),
    File(Sha256),
}

/// Something that stands there more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    pub shown: VisibleItem,
    pub message: MessageRef,
    /// Whether the repeat says that it may be one.
    pub labelled: bool,
}

/// All conversations, in the order in which messages came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    pub conversations: BTreeMap<ConversationId, Vec<TranscriptMessage>>,
}

impl TranscriptMessage {
    /// Whether it says that it may be a second one.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        let captions = self.contents.files.iter().map(|file| file.caption.as_str());
        captions.chain([self.contents.text.as_str()]).any(|words| words.trim_start().starts_with(DUPLICATE_LABEL))
    }
}

impl Transcript {
    /// All messages of a conversation, deleted ones too.
    #[must_use]
    pub fn messages(&self, conversation: &ConversationId) -> &[TranscriptMessage] {
        self.conversations.get(conversation).map_or(&[], Vec::as_slice)
    }

    /// Satchel's messages that a person sees now.
    pub fn visible(&self, conversation: &ConversationId) -> impl Iterator<Item = &TranscriptMessage> {
        self.messages(conversation).iter().filter(|message| message.own && !message.deleted)
    }

    /// The words of Satchel's messages, as they stand.
    #[must_use]
    pub fn visible_texts(&self, conversation: &ConversationId) -> Vec<&str> {
        let texts = self.visible(conversation).map(|message| message.contents.text.as_str());
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// Satchel's files, in order.
    #[must_use]
    pub fn visible_files(&self, conversation: &ConversationId) -> Vec<&TranscriptFile> {
        self.visible(conversation).flat_map(|message| &message.contents.files).collect()
    }

    /// What stands there more than once, repeats only.
    #[must_use]
    pub fn duplicates(&self, conversation: &ConversationId) -> Vec<Duplicate> {
        let messages: Vec<&TranscriptMessage> = self.visible(conversation).collect();
        let mut seen = HashSet::new();
        let mut duplicates = Vec::new();
        // An album is labelled by the caption of one of its files, and inside it nothing repeats another: two equal
        // files of one album were asked for.
        for together in messages.chunk_by(|one, next| one.album.is_some() && one.album == next.album) {
            let labelled = together.iter().any(|message| message.is_labelled());
            for message in together {
                let repeated = shown_by(message).into_iter().filter(|shown| seen.contains(shown));
                duplicates.extend(repeated.map(|shown| Duplicate { shown, message: message.id.clone(), labelled }));
            }
            seen.extend(together.iter().flat_map(|message| shown_by(message)));
        }
        duplicates
    }

    /// What of `expected` a person doesn't see.
    #[must_use]
    pub fn missing(&self, conversation: &ConversationId, expected: &[VisibleItem]) -> Vec<VisibleItem> {
        let shown: HashSet<VisibleItem> = self.visible(conversation).flat_map(shown_by).collect();
        expected.iter().filter(|expected| !shown.contains(*expected)).cloned().collect()
    }

    /// What of `expected` first appears before something that stands ahead of it there.
    #[must_use]
    pub fn out_of_order(&self, conversation: &ConversationId, expected: &[VisibleItem]) -> Vec<VisibleItem> {
        let shown: Vec<VisibleItem> = self.visible(conversation).flat_map(shown_by).collect();
        let mut latest = 0;
        let mut violations = Vec::new();
        for expected in expected {
            match shown.iter().position(|shown| shown == expected) {
                Some(place) if place < latest => violations.push(expected.clone()),
                Some(place) => latest = place,
                None => {}
            }
        }
        violations
    }
}

fn shown_by(message: &TranscriptMessage) -> Vec<VisibleItem> {
    let text = message.contents.text.trim_start();
    let text = text.strip_prefix(DUPLICATE_LABEL).unwrap_or(text).trim();
    let words = (!text.is_empty()).then(|| VisibleItem::Text(text.to_owned()));
    let files = message.contents.files.iter().map(|file| VisibleItem::File(file.sha256));
    words.into_iter().chain(files).collect()
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (conversation, messages) in &self.conversations {
            writeln!(f, "== {conversation} ==")?;
            messages.iter().try_for_each(|message| write_message(f, message))?;
        }
        Ok(())
    }
}

fn write_message(f: &mut fmt::Formatter<'_>, message: &TranscriptMessage) -> fmt::Result {
    let author = if message.own { "satchel" } else { "person" };
    write!(f, "[{}] {author}", message.id)?;
    if let Some(answered) = &message.reply_to {
        write!(f, " to [{answered}]")?;
    }
    match &message.album {
        Some(first) if *first != message.id => write!(f, " (album of [{first}])")?,
        Some(_) => write!(f, " (album)")?,
        None => {}
    }
    if !message.edits.is_empty() {
        write!(f, " (edited {} times)", message.edits.len())?;
    }
    if message.deleted {
        write!(f, " (deleted)")?;
    }
    if let Some(duration_ms) = message.duration_ms {
        write!(f, " (voice, {duration_ms} ms)")?;
    }
    writeln!(f, ":")?;
    message.contents.text.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
    for file in &message.contents.files {
        let form = file.form.map_or_else(|| "file".to_owned(), |form| format!("{form:?}").to_lowercase());
        writeln!(f, "    + {form} {} ({}, {})", file.filename, file.mime, size::format_bytes(file.bytes))?;
        file.caption.lines().try_for_each(|line| writeln!(f, "        {line}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(texts: &[&str]) -> (ConversationId, Transcript) {
        let conversation: ConversationId = "telegram:5".parse().expect("a conversation");
        let message = |(index, text): (usize, &&str)| TranscriptMessage {
            id: MessageRef(index.to_string()),
            own: true,
            kind: MessageKind::Text,
            contents: Contents { text: (*text).to_owned(), files: Vec::new() },
            edits: Vec::new(),
            deleted: false,
            reply_to: None,
            nonce: None,
            album: None,
            duration_ms: None,
        };
        let messages = texts.iter().enumerate().map(message).collect();
        (conversation.clone(), Transcript { conversations: BTreeMap::from([(conversation, messages)]) })
    }

    fn texts(texts: &[&str]) -> Vec<VisibleItem> {
        texts.iter().map(|text| VisibleItem::Text((*text).to_owned())).collect()
    }

    #[test]
    fn transcript_checks_find_loss_duplicates_and_disorder() {
        let (conversation, chat) = chat(&["a", "c", "b", "(possible duplicate) c", "a"]);
        let expected = texts(&["a", "b", "c", "d"]);
        assert_eq!(chat.missing(&conversation, &expected), texts(&["d"]));
        assert_eq!(chat.out_of_order(&conversation, &expected), texts(&["c"]));
        let duplicates = chat.duplicates(&conversation);
        let found: Vec<_> = duplicates.iter().map(|found| (found.message.0.as_str(), found.labelled)).collect();
        assert_eq!(found, [("3", true), ("4", false)]);
    }

    #[test]
    fn deleted_messages_are_not_seen_but_are_written() {
        let (conversation, mut chat) = chat(&["a", "b"]);
        chat.conversations.get_mut(&conversation).expect("there")[0].deleted = true;
        assert_eq!(chat.visible_texts(&conversation), ["b"]);
        assert_eq!(chat.to_string(), "== telegram:5 ==\n[0] satchel (deleted):\n    a\n[1] satchel:\n    b\n");
    }
    #[test]
    fn transcript_reads_as_a_person_sees_it() {
        let (conversation, mut chat) = chat(&["send it", "here it is", "", ""]);
        let messages = chat.conversations.get_mut(&conversation).expect("there");
        let file = |filename: &str, form, caption: &str| TranscriptFile {
            filename: filename.to_owned(),
            mime: "text/plain".to_owned(),
            bytes: 18,
            sha256: Sha256([7; 32]),
            form,
            caption: caption.to_owned(),
            content: None,
        };
        messages[0].own = false;
        messages[0].contents.files = vec![file("a.txt", None, "")];
        messages[1].reply_to = Some(MessageRef("0".to_owned()));
        messages[1].edits = vec![Contents::default()];
        messages[2].contents.files = vec![file("b.txt", Some(FileForm::Document), "the b")];
        messages[2].album = Some(MessageRef("2".to_owned()));
        messages[3].contents.files = vec![file("voice.ogg", Some(FileForm::Audio), "")];
        messages[3].duration_ms = Some(900);
        assert_eq!(
            chat.to_string(),
            "== telegram:5 ==\n\
             [0] person:\n    send it\n    + file a.txt (text/plain, 18 B)\n\
             [1] satchel to [0] (edited 1 times):\n    here it is\n\
             [2] satchel (album):\n    + document b.txt (text/plain, 18 B)\n        the b\n\
             [3] satchel (voice, 900 ms):\n    + audio voice.ogg (text/plain, 18 B)\n"
        );
    }
}
