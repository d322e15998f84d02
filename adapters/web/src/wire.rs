//! The shapes of the HTTP API; what a front end of one's own is written against.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a page must know first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// Whether the caller may use the rest of the API.
    pub(crate) authorized: bool,
    /// Whether a token must be given at all.
    pub(crate) token_required: bool,
    /// The model that answers, for those who are let in.
    pub(crate) model: Option<String>,
    /// Whether that is the built-in model, which knows a handful of phrases; for those who are let in.
    pub(crate) model_is_offline: Option<bool>,
    /// The version of Satchel.
    pub(crate) version: String,
    pub(crate) limits: Limits,
}

/// What may be sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Limits {
    /// The largest file in bytes.
    pub(crate) file_bytes: u64,
    /// The most files of one message.
    pub(crate) files_per_message: usize,
}

/// The token, or the secret of a login link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Login {
    /// What stands in the file `web-token`, or at `web.token`.
    Token(String),
    /// What stands behind `#login=` in a link; it works once.
    Link(String),
}

/// The conversations, the one last used first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversations {
    pub(crate) conversations: Vec<Conversation>,
}

/// A conversation as a list shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// `web:` and the part that stands in paths.
    pub(crate) id: String,
    /// The first words that were said in it; empty when only files were sent.
    pub(crate) title: String,
    /// When something was last said in it, in milliseconds since 1970.
    pub(crate) last_at: i64,
}

/// Turns of a conversation, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turns {
    pub(crate) turns: Vec<Turn>,
    /// Whether there are older ones.
    pub(crate) more: bool,
}

/// What is sent first on a stream of events: everything that a page shows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshot {
    /// The last turns, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// Whether there are older ones.
    pub(crate) more: bool,
    /// What is being written right now.
    pub(crate) live: Option<Live>,
}

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnState {
    /// Others come before it.
    Waiting,
    /// It is the next to be answered, or being answered.
    Running,
    /// It is answered; parts of the answer may still be on their way.
    Done,
}

/// What a person said and what came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) state: TurnState,
    /// How it ended: `done`, `budget`, `cancelled`, `model_failed`, `crashed`.
    pub(crate) ending: Option<String>,
    /// What was said, in the order of arrival; words that came while it ran are among them.
    pub(crate) messages: Vec<Message>,
    /// The answer, in order.
    pub(crate) parts: Vec<Part>,
}

/// What a person said at once.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    pub(crate) id: String,
    /// The words as they were typed.
    pub(crate) text: String,
    /// The name of who said it.
    pub(crate) sender: String,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) received_at: i64,
    pub(crate) files: Vec<MessageFile>,
}

/// Where a person's file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageFileState {
    /// It lies here and is not numbered yet.
    Waiting,
    /// It is kept.
    Stored,
    /// It was not taken.
    Refused,
}

/// A file that a person sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageFile {
    pub(crate) state: MessageFileState,
    pub(crate) filename: String,
    pub(crate) bytes: Option<u64>,
    /// Why it was not taken, in words for the person.
    pub(crate) reason: Option<String>,
    /// The file, once it is kept.
    pub(crate) file: Option<File>,
}

/// One piece of the answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Part {
    pub(crate) id: String,
    /// `text`, `voice`, `file`, `album`, `notice`.
    pub(crate) kind: String,
    /// `pending`, `sending`, `waiting`, `in_doubt`, `sent`, `failed`.
    pub(crate) state: String,
    /// Why it waits or failed, in words for the person.
    pub(crate) reason: Option<String>,
    /// The words as safe HTML.
    pub(crate) html: Option<String>,
    /// The words in Markdown.
    pub(crate) text: Option<String>,
    pub(crate) files: Vec<File>,
    /// What to say so that its files are sent again.
    pub(crate) resend: Option<String>,
    /// When it was planned, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// How a file may be shown in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inline {
    Image,
    Audio,
    Video,
    /// As a card to download.
    None,
}

/// A file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct File {
    pub(crate) id: String,
    /// Its number in the conversation, for people: `#17`. Zero for a voice, which has none.
    pub(crate) number: u64,
    pub(crate) filename: String,
    /// Its type, detected from its bytes.
    pub(crate) mime: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// What it shows, for alternative text.
    pub(crate) description: String,
    /// In pixels.
    pub(crate) width: Option<u32>,
    /// In pixels.
    pub(crate) height: Option<u32>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) inline: Inline,
    /// Where its bytes are.
    pub(crate) url: String,
    /// Whether it was removed for good: its number is all that is left of it.
    pub(crate) forgotten: bool,
}

/// What the model is writing and which tools it uses.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Live {
    pub(crate) turn: String,
    /// The text so far as safe HTML, one piece for each paragraph, list, table or block of code.
    pub(crate) blocks: Vec<String>,
    pub(crate) tools: Vec<LiveTool>,
}

/// A tool that was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LiveTool {
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) state: ToolState,
    /// What a person is asked before it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Question>,
}

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Question {
    /// The words as safe HTML.
    pub(crate) html: String,
    pub(crate) buttons: Vec<QuestionButton>,
}

/// What can be pressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct QuestionButton {
    pub(crate) label: String,
    /// What pressing it says: a message of this text.
    pub(crate) command: String,
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolState {
    Started,
    Finished,
    Failed,
}

/// Takes the place of the live blocks from `from` on; none are left after them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Blocks<'a> {
    pub(crate) turn: &'a str,
    pub(crate) from: usize,
    pub(crate) blocks: &'a [String],
}

/// A tool's call was started or ended, or a person is asked about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolChange<'a> {
    pub(crate) turn: &'a str,
    #[serde(flatten)]
    pub(crate) tool: &'a LiveTool,
}

/// A turn whose words were said into another one that was running; they stand there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gone<'a> {
    pub(crate) turn: &'a str,
}

/// A message to the assistant. Commands such as `/stop` are messages too.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// Made by the client, new for each message: 1 to 64 letters, digits, `-`, `_`. Sent again with the same key it is
    /// the same message.
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) text: String,
    /// What the uploads of its files were answered with, in order.
    #[serde(default)]
    pub(crate) uploads: Vec<String>,
    /// The key of the message that this one replaces while that still waits.
    #[serde(default)]
    pub(crate) edit_of: Option<String>,
}

/// The message is stored and will be answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    pub(crate) turn: String,
}

/// A file that is stored and waits for the message that names it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Uploaded {
    /// What a message names it by, for half an hour.
    pub(crate) upload: String,
    pub(crate) filename: String,
    pub(crate) bytes: u64,
    /// Its type, detected from its bytes.
    pub(crate) mime: String,
    pub(crate) inline: Inline,
    /// Where it can be looked at before it is sent.
    pub(crate) preview: Option<String>,
}

/// How long a link is to work.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLink {
    /// From 1 to 720.
    pub(crate) hours: u32,
}

/// A link that opens one file without logging in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Link {
    pub(crate) url: String,
    /// In milliseconds since 1970.
    pub(crate) expires_at: i64,
}
