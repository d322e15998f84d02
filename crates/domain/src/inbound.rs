//! Inbound messages as channels pass them in, before any file is fetched.

use serde::{Deserialize, Serialize};

use crate::{
    ChannelName, ConversationId, Filename, HistoryMessage, InboxId, MessageRef, Sha256, StoredBlob, SystemTask,
    Timestamp, attachment::FORGOTTEN_NAME, quoting, reference_block::AttachmentReference,
};

/// The id of the sender of Satchel's own messages, such as the start of a task that nobody requested; their keys start with it.
/// A person of a channel can have the same id: a message is Satchel's own if it has a [`SystemTask`].
pub const SATCHEL_SENDER_ID: &str = "satchel";

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sender {
    /// The channel's own id of the person.
    pub id: String,
    /// The name that others see. Anybody may call themselves so.
    pub name: String,
    /// The name that nobody else on the channel has at the same time, without an `@`, where the platform knows one and
    /// vouches for it. It can change hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

impl Sender {
    /// Makes a sender without a handle.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), handle: None }
    }

    /// Makes the sender of Satchel's own messages.
    #[must_use]
    pub fn satchel() -> Self {
        Self::new(SATCHEL_SENDER_ID, "Satchel")
    }

    /// Returns whether both are the same person, on one channel. Nobody is the same as somebody without an id.
    #[must_use]
    pub fn is_same_person(&self, other: &Self) -> bool {
        !self.id.is_empty() && self.id == other.id
    }
}

/// A file that came with a message and that the channel can fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReference {
    /// What the channel needs to fetch it: a file id, a URL, a path. Opaque to everyone else, never shown or logged.
    pub locator: String,
    /// Its name, made harmless by the adapter.
    pub filename: Filename,
    /// The type that the sender claims; a hint, never believed.
    #[serde(default)]
    pub mime: Option<String>,
    /// The size that the platform claims.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Where anybody can fetch it for now, if the platform has such links and they hold no secret of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
    /// What the sender wrote beneath it.
    #[serde(default)]
    pub caption: String,
    /// The address of its bytes, where the channel has put them into the blob store before the message was sent. They
    /// are kept for as long as the message waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Sha256>,
    /// Whether it is a voice note: its transcription counts as the sender's text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub voice_note: bool,
    /// The platform's name of the file, where it is the same in every message that has the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_id: Option<String>,
    /// Where the message only quotes it, or is the edit of one that had it: the conversation may have the file already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<QuotedFile>,
    /// Of a file that was forgotten the digest of its `platform_id`: an edit that still has it brings it back no more. The
    /// ledger fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_id: Option<Sha256>,
    /// Why the channel can't read it, where that is known already. It is refused with this reason, and never fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// A file of a message that its sender replies to, forwards or edits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QuotedFile {
    /// The message that shows it, where that is the bot's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_in: Option<MessageRef>,
    /// Which of the files of that message it is, from 0.
    pub index: u32,
}

impl FileReference {
    /// A file of which nothing else is known.
    #[must_use]
    pub fn new(locator: String, filename: Filename) -> Self {
        Self {
            locator,
            filename,
            mime: None,
            bytes: None,
            source_url: None,
            caption: String::new(),
            stored: None,
            voice_note: false,
            platform_id: None,
            quoted: None,
            forgotten_id: None,
            unreadable: None,
        }
    }

    /// Something in a message that the channel can't read, under a name that says what it is. The person and the model are
    /// told so, as of a file that is refused.
    #[must_use]
    pub fn unreadable(name: &str, reason: &str) -> Self {
        Self { unreadable: Some(reason.to_owned()), ..Self::new(name.to_owned(), Filename::from_untrusted(name)) }
    }

    /// A file whose bytes are in the blob store already. They are kept for as long as the message waits, and the channel
    /// is not asked for them.
    #[must_use]
    pub fn stored(blob: &StoredBlob, filename: Filename) -> Self {
        let locator = serde_json::to_string(blob).expect("it has keys that are strings");
        Self {
            mime: Some(blob.mime.clone()),
            bytes: Some(blob.bytes),
            stored: Some(blob.sha256),
            ..Self::new(locator, filename)
        }
    }

    /// Marks a file that the conversation may have already.
    #[must_use]
    pub fn into_quoted(self) -> Self {
        let quoted = self.quoted.or_else(|| Some(QuotedFile::default()));
        Self { quoted, ..self }
    }

    /// Returns what stays of it once it is forgotten: nothing that says what it was or where it is.
    #[must_use]
    pub fn into_forgotten(self) -> Self {
        let Self { voice_note, platform_id, quoted, forgotten_id, .. } = self;
        let forgotten_id = platform_id.map(Sha256::digest).or(forgotten_id);
        let name = Filename::from_untrusted(FORGOTTEN_NAME);
        Self { voice_note, quoted, forgotten_id, ..Self::new(String::new(), name) }
    }

    /// Returns the blob of a reference that [`stored`](Self::stored) made.
    #[must_use]
    pub fn stored_blob(&self) -> Option<StoredBlob> {
        let blob: StoredBlob = serde_json::from_str(&self.locator).ok()?;
        (self.stored == Some(blob.sha256)).then_some(blob)
    }
}

/// What a client says of a conversation that only it keeps: it sends all of it with each message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientContext {
    /// Who the assistant is, in place of the configured instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The model that answers, in place of the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The messages before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryMessage>,
}

/// A message as a channel hands it over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboundMessage {
    /// Where it was written.
    pub conversation: ConversationId,
    /// The chats that its conversation is part of and whose ids that doesn't name, the nearest first: of a thread on
    /// Discord its channel and the category of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<ConversationId>,
    /// What makes it unique within its channel, across all conversations; a second one with the same key is the same
    /// message.
    pub key: String,
    /// The key of the message that this one replaces while that is still queued.
    #[serde(default)]
    pub edit_of: Option<String>,
    /// What that message said before, where it was no longer in time to replace it. The ledger fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_text: Option<String>,
    /// What the versions before that one said which may have been read and look like commands, the oldest first. The ledger
    /// fills it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_commands: Vec<String>,
    /// Whether what it said before was forgotten with its conversation: that may have been a command that was run. The ledger
    /// fills it in.
    #[serde(default, skip_serializing_if = "is_false")]
    pub edits_forgotten: bool,
    /// The ids of the messages whose place it has taken in the queue: one may have been read just before. The ledger fills it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_ids: Vec<InboxId>,
    /// Who wrote it.
    pub sender: Sender,
    /// The name of the time zone that the sender has chosen for themselves. The ledger reads it with the message.
    #[serde(skip)]
    pub timezone: Option<String>,
    /// Whether several people write under the sender's id, such as the anonymous administrators of a group: which of them wrote
    /// it is unknown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anonymous: bool,
    /// Whether others can read along and write too: a group, a forum topic, a guild's channel.
    #[serde(default, skip_serializing_if = "is_false")]
    pub group: bool,
    /// When they sent it, or edited it if it is an edit, where the platform tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// The text.
    #[serde(default)]
    pub text: String,
    /// The files that came with it, in the sender's order.
    #[serde(default)]
    pub files: Vec<FileReference>,
    /// The digest of what the sender wrote and attached, as the platform has it, where the adapter tells: without what `text` and
    /// `files` repeat of other messages, and the names that it puts in place of ids. An edit with the same digest is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<Sha256>,
    /// Files that a program in front of the channel names by address, in its order. A person can't write one: markers in
    /// `text` are plain text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<AttachmentReference>,
    /// What came before it, where the client keeps the conversation; it takes the place of the recorded history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<ClientContext>>,
    /// The album that it belongs to; messages of one album become one turn after half a second of quiet.
    #[serde(default)]
    pub album: Option<String>,
    /// Whether its text is so long that it [may be cut](may_be_cut): then its rest comes in a message of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub may_continue: bool,
    /// The platform's own id of the message, so that the answer can refer to it.
    #[serde(default)]
    pub message: Option<MessageRef>,
    /// Whether it is the press of a button: then `message` is the bot's own, which has the button.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pressed: bool,
    /// The message from which its conversation was started, such as that of a thread. The ledger puts it before the first
    /// message of the conversation that has one, and drops it from all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Box<ConversationOpening>>,
    /// The update as the platform sent it.
    #[serde(default)]
    pub raw: serde_json::Value,
    /// The turn that Satchel starts itself with this message; a message from a channel has none.
    #[serde(rename = "errand", default, skip_serializing_if = "Option::is_none")]
    pub system_task: Option<SystemTask>,
    /// What it becomes where other people whom it quotes or names may not talk to Satchel. Never stored.
    #[serde(skip)]
    pub redacted_forms: Vec<RedactedForm>,
}

/// A message from which a conversation was started, and which is no message of that conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConversationOpening {
    /// The person who wrote it; `None` if it was a program, or can't be read.
    #[serde(skip)]
    pub author: Option<Sender>,
    /// Its quotation.
    pub text: String,
    /// What takes the place of text and files if its author may not talk to Satchel.
    #[serde(skip)]
    pub redacted_text: String,
    /// Its files. They become files of the message that it is put before.
    #[serde(skip)]
    pub files: Vec<FileReference>,
    /// How many of the last files of that message are its own.
    #[serde(default)]
    pub file_count: usize,
    /// The key that it has if it was written to Satchel in the same conversation; then it isn't quoted.
    #[serde(skip)]
    pub key: Option<String>,
}

/// What takes the place of a message's content where a person whom it quotes or names may not talk to Satchel. If
/// several people may not, the last form counts.
#[derive(Debug, Clone, PartialEq)]
pub struct RedactedForm {
    /// The person.
    pub author: Sender,
    /// The text without what is theirs.
    pub text: String,
    /// The files without theirs.
    pub files: Vec<FileReference>,
    /// The update without what is theirs.
    pub raw: serde_json::Value,
}

impl InboundMessage {
    /// Puts the message from which the conversation was started before this one, and its files behind this one's.
    #[must_use]
    pub fn opened_by(mut self, opening: ConversationOpening) -> Self {
        let ConversationOpening { text, files, .. } = opening;
        let file_count = files.len();
        self.text = quoting::prepend_opening(&text, &self.text);
        self.files.extend(files);
        self.opening = Some(Box::new(ConversationOpening { text, file_count, ..ConversationOpening::default() }));
        self
    }

    /// Marks its files as those that the conversation may have already, whichever form it takes.
    #[must_use]
    pub fn with_quoted_files(mut self) -> Self {
        let forms = self.redacted_forms.iter_mut().map(|form| &mut form.files);
        for files in std::iter::once(&mut self.files).chain(forms) {
            *files = std::mem::take(files).into_iter().map(FileReference::into_quoted).collect();
        }
        self
    }

    /// Makes a message without text and files.
    #[must_use]
    pub fn new(conversation: ConversationId, key: String, sender: Sender) -> Self {
        Self {
            conversation,
            parents: Vec::new(),
            key,
            edit_of: None,
            earlier_text: None,
            earlier_commands: Vec::new(),
            edits_forgotten: false,
            replaced_ids: Vec::new(),
            sender,
            timezone: None,
            anonymous: false,
            group: false,
            sent_at: None,
            text: String::new(),
            files: Vec::new(),
            content_digest: None,
            references: Vec::new(),
            context: None,
            album: None,
            may_continue: false,
            message: None,
            pressed: false,
            opening: None,
            raw: serde_json::Value::Null,
            system_task: None,
            redacted_forms: Vec::new(),
        }
    }
}

/// Which share of the longest text of a platform is near its end: an eighth. Clients cut a text that is too long at a blank
/// or at the end of a line in front of the limit. Telegram Desktop looks for the end of a paragraph even in the whole second
/// half; so early a cut is rare, and who sends a message of half the length must not wait for nothing.
const CUT_SHARE: usize = 8;

/// Returns whether a text of this length may be the beginning of a longer one that was cut at one of the platform's limits.
#[must_use]
pub fn may_be_cut(units: usize, limits: &[usize]) -> bool {
    limits.iter().any(|limit| units <= *limit && units > limit - limit / CUT_SHARE)
}

/// An update that its adapter can't parse: stored unchanged for debugging if its sender is allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UndecodableUpdate {
    /// The channel that it came on.
    pub channel: ChannelName,
    /// What makes it unique within its channel, such as the platform's number of the update.
    pub key: String,
    /// Who sent it, where that can be told.
    pub sender: Option<Sender>,
    /// The update as the platform sent it; `null` where its sender may not talk or can't be told.
    pub raw: serde_json::Value,
    /// Why it can't be read, without anything of its content.
    pub reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A file that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFile {
    /// Its name.
    pub filename: Filename,
    /// Its size as far as it is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Why, in words for the person and the model.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MediaInfo;

    /// Catches: a long text that is answered without its rest, and a shorter one that waits for a rest which never comes.
    #[test]
    fn text_in_front_of_a_limit_may_be_cut() {
        for (units, expected) in [(4_096, true), (3_585, true), (3_584, false), (4_097, false), (0, false)] {
            assert_eq!(may_be_cut(units, &[4_096]), expected, "{units}");
        }
        for (units, expected) in [(2_000, true), (1_751, true), (2_001, false), (3_500, false), (3_990, true)] {
            assert_eq!(may_be_cut(units, &[2_000, 4_000]), expected, "{units}, where some may write more");
        }
        assert!(!may_be_cut(5_000, &[]), "a platform without a limit");
    }

    #[test]
    fn stored_reference_leads_back_to_its_blob() {
        let media = MediaInfo { width: Some(3), ..MediaInfo::default() };
        let blob = StoredBlob { sha256: Sha256::digest("plan"), bytes: 4, mime: "text/plain".to_owned(), media };
        let reference = FileReference::stored(&blob, Filename::from_untrusted("plan.txt"));
        assert_eq!(
            (reference.stored, reference.bytes),
            (Some(blob.sha256), Some(4)),
            "it is kept while the message waits"
        );
        assert_eq!(reference.stored_blob(), Some(blob));
        let other = FileReference { stored: Some(Sha256::digest("other")), ..reference };
        assert_eq!(other.stored_blob(), None, "bytes that nobody keeps are not given out");
        assert_eq!(FileReference::new("/a/b".to_owned(), Filename::from_untrusted("b")).stored_blob(), None);
    }
}
