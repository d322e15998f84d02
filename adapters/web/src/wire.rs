//! The types of the HTTP API, for the page and other clients. Doc comments are descriptions in the OpenAPI document.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The session of a client.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    /// Whether the caller may use the rest of the API.
    pub(crate) authorized: bool,
    /// Whether the caller may use `/api/system`.
    pub(crate) owner: bool,
    /// Whether a token is required.
    pub(crate) token_required: bool,
    /// The model that answers; only for authorized clients.
    pub(crate) model: Option<String>,
    /// Whether that is the built-in model, which understands a few phrases; only for authorized clients.
    pub(crate) model_is_offline: Option<bool>,
    /// Whether it takes images; only for authorized clients.
    pub(crate) model_takes_images: Option<bool>,
    /// The version of Satchel.
    pub(crate) version: String,
    pub(crate) limits: Limits,
}

/// The limits of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Limits {
    /// The maximum size of a file in bytes.
    pub(crate) file_bytes: u64,
    /// The maximum number of files in a message.
    pub(crate) files_per_message: usize,
}

/// The token, or the secret of a login link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Login {
    /// The token from the file `web-token` or from `web.token`.
    Token(String),
    /// The secret after `#login=` in a login link; it works once.
    Link(String),
}

/// The half of a new login that is no cookie.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoginProof {
    /// Goes along with the cookie of each request, as the header `X-Satchel-Login`.
    pub(crate) proof: String,
}

/// The logins of browsers, the most recently used first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Logins {
    pub(crate) logins: Vec<ListedLogin>,
}

/// A login of a browser.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedLogin {
    pub(crate) id: String,
    /// The browser, in a few words.
    pub(crate) client: String,
    /// When it was made, in milliseconds since 1970.
    pub(crate) created_at: i64,
    /// When it was used last, to ten minutes, in milliseconds since 1970.
    pub(crate) used_at: i64,
    /// When it ends at the latest, in milliseconds since 1970.
    pub(crate) expires_at: i64,
    /// Whether it is that of this request.
    pub(crate) current: bool,
}

/// The commands for a message field that completes them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Commands {
    pub(crate) commands: Vec<Command>,
}

/// A command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Command {
    /// Its name, without the slash.
    pub(crate) name: String,
    /// What it does, in a line.
    pub(crate) description: String,
    /// The names that can follow it: those of agents or tasks.
    pub(crate) choices: Vec<CommandChoice>,
}

/// A name that can follow a command.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommandChoice {
    pub(crate) name: String,
    /// What it is for, in a line; may be empty.
    pub(crate) description: String,
    /// The names of the inputs that can follow it, each as `input=value`.
    pub(crate) inputs: Vec<String>,
}

/// The conversations: the pinned ones, then the others, each most recently used first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversations {
    pub(crate) conversations: Vec<Conversation>,
    /// Whether there are older ones.
    pub(crate) more: bool,
}

/// A conversation in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// `web:` and the key that is used in paths.
    pub(crate) id: String,
    /// Its name, or the beginning of its first text; empty if only files were sent.
    pub(crate) title: String,
    /// Whether the title is a name that somebody gave it.
    pub(crate) named: bool,
    /// Whether it is listed before the others.
    pub(crate) pinned: bool,
    /// Whether it is listed apart, until its next message.
    pub(crate) archived: bool,
    /// The id of its last turn.
    pub(crate) last_turn: String,
    /// The time of its last message, in milliseconds since 1970.
    pub(crate) last_at: i64,
    /// The model that an owner chose for it, which may have been removed since; `null` if the usual one answers.
    pub(crate) model: Option<String>,
    /// The URL of its archive. It has a signature, with which an element of a page can load it.
    pub(crate) export: String,
}

/// How a conversation is to be listed; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationChange {
    /// Its name, at most 100 characters; an empty one takes the name away.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Whether it is listed before the others; what is pinned isn't archived.
    #[serde(default)]
    pub(crate) pinned: Option<bool>,
    /// Whether it is listed apart, until its next message; what is archived isn't pinned.
    #[serde(default)]
    pub(crate) archived: Option<bool>,
}

/// What a search found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchResults {
    /// Conversations with such a name, then turns, each newest first.
    pub(crate) hits: Vec<SearchHit>,
    /// Whether there are older ones.
    pub(crate) more: bool,
    /// The number of turns that were not searched, because they are still being indexed.
    pub(crate) unindexed: u64,
}

/// A turn that has the words, or a conversation whose name has them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchHit {
    /// The id of the conversation.
    pub(crate) conversation: String,
    /// Its name, or the beginning of its first text.
    pub(crate) title: String,
    /// The id of the turn; none if the name has the words.
    pub(crate) turn: Option<String>,
    /// The time, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The words among those around them, in order.
    pub(crate) excerpt: Vec<ExcerptPiece>,
}

/// A piece of an excerpt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExcerptPiece {
    pub(crate) text: String,
    /// Whether it is one of the words.
    pub(crate) matched: bool,
}

/// Turns of a conversation, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turns {
    pub(crate) turns: Vec<Turn>,
    /// Whether there are older ones.
    pub(crate) more: bool,
}

/// The first event of a stream: the current state of the conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshot {
    /// The last turns, oldest first.
    pub(crate) turns: Vec<Turn>,
    /// Whether there are older ones.
    pub(crate) more: bool,
    /// The running turn.
    pub(crate) live: Option<Live>,
}

/// The state of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnState {
    /// It is queued behind others.
    Waiting,
    /// It is running, or next.
    Running,
    /// It has ended; parts of the reply may still be in delivery.
    Done,
}

/// One or more messages and the reply to them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    pub(crate) id: String,
    pub(crate) state: TurnState,
    /// How it ended: `done`, `budget`, `cancelled`, `model_failed`, `failed`, `crashed`.
    pub(crate) ending: Option<String>,
    /// The messages in the order of arrival, including those that arrived while it ran.
    pub(crate) messages: Vec<Message>,
    /// The parts of the reply, in order.
    pub(crate) parts: Vec<Part>,
    /// The tools that the model called, in order.
    pub(crate) tools: Vec<UsedTool>,
    /// The id of the turn that answered its messages once more.
    pub(crate) replaced_by: Option<String>,
}

/// A tool that was called in a turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsedTool {
    pub(crate) tool: String,
    /// The arguments, in short.
    pub(crate) arguments: String,
    /// How many sections of the reply's texts stand before it, over all text parts; 0 if it was used before all text.
    pub(crate) after: usize,
    /// `started` if the turn ended before the call did.
    pub(crate) state: ToolState,
    /// Why it failed, in short.
    pub(crate) reason: Option<String>,
    /// How long it ran; `null` if it may have waited before, for another tool or a person.
    pub(crate) took_ms: Option<u64>,
}

/// A message of a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    pub(crate) id: String,
    /// The text as it was typed.
    pub(crate) text: String,
    /// The name of the sender.
    pub(crate) sender: String,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) received_at: i64,
    pub(crate) files: Vec<MessageFile>,
}

/// The state of a person's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageFileState {
    /// It is uploaded and has no number yet.
    Waiting,
    /// It is stored.
    Stored,
    /// It was refused.
    Refused,
}

/// A file that a person sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageFile {
    pub(crate) state: MessageFileState,
    pub(crate) filename: String,
    pub(crate) bytes: Option<u64>,
    /// Why it was refused, in words for the person.
    pub(crate) reason: Option<String>,
    /// The file, once it is stored.
    pub(crate) file: Option<File>,
}

/// A part of the reply.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Part {
    pub(crate) id: String,
    /// `text`, `voice`, `file`, `album`, `notice`.
    pub(crate) kind: String,
    /// `pending`, `sending`, `waiting`, `in_doubt`, `sent`, `failed`.
    pub(crate) state: String,
    /// Why it waits or failed, in words for the person.
    pub(crate) reason: Option<String>,
    /// The text as safe HTML.
    pub(crate) html: Option<String>,
    /// The text in Markdown.
    pub(crate) text: Option<String>,
    /// The same text in sections, where tools were used between them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<TextSection>,
    pub(crate) files: Vec<File>,
    /// The command that sends its files again.
    pub(crate) resend: Option<String>,
    /// When it was planned, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// A section of a reply's text: what the model wrote until it used tools, or until the end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TextSection {
    /// The text as safe HTML.
    pub(crate) html: String,
    /// The text in Markdown.
    pub(crate) text: String,
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
    /// Its number in the conversation, for people: `#17`. Zero for a voice message, which has none.
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
    /// The path of its bytes.
    pub(crate) url: String,
    /// The path of a small copy of an image. It may turn out that none can be made; then show the file itself.
    pub(crate) preview: Option<String>,
    /// What an element of a page that loads `url` or `preview` appends as `?signature=`: it can't send the header of a login.
    pub(crate) signature: String,
    /// Whether it was removed for good; only its number is left.
    pub(crate) forgotten: bool,
}

/// The streamed text and the tool calls of a running turn.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Live {
    pub(crate) turn: String,
    /// The text so far as safe HTML, one item for each paragraph, list, table or code block.
    pub(crate) blocks: Vec<String>,
    pub(crate) tools: Vec<LiveTool>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LiveTool {
    pub(crate) call: String,
    pub(crate) tool: String,
    /// How many blocks of the text stand before it; 0 if it was used before all text.
    pub(crate) after: usize,
    pub(crate) state: ToolState,
    /// The open question to a person before it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Question>,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Question {
    /// The text as safe HTML.
    pub(crate) html: String,
    pub(crate) buttons: Vec<QuestionButton>,
}

/// A button of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct QuestionButton {
    pub(crate) label: String,
    /// The text of the message that pressing it sends.
    pub(crate) command: String,
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolState {
    Started,
    Finished,
    Failed,
}

/// Replaces all live blocks from index `from` on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Blocks<'a> {
    pub(crate) turn: &'a str,
    pub(crate) from: usize,
    pub(crate) blocks: &'a [String],
}

/// A tool call started, ended, or got a question.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolChange<'a> {
    pub(crate) turn: &'a str,
    #[serde(flatten)]
    pub(crate) tool: &'a LiveTool,
}

/// A turn whose message was merged into a running one and is shown there.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gone<'a> {
    pub(crate) turn: &'a str,
}

/// The files of a conversation, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationFiles {
    pub(crate) files: Vec<ConversationFile>,
    /// Whether there are older ones.
    pub(crate) more: bool,
}

/// A file, and where it comes from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationFile {
    #[serde(flatten)]
    pub(crate) file: File,
    pub(crate) sender: FileSender,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// Who brought a file into its conversation.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileSender {
    Person,
    Assistant,
}

/// A message to the assistant. Commands such as `/stop` are messages too.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// Created by the client, unique for each message: 1 to 64 letters, digits, `-`, `_`. A message that is sent again
    /// with the same key is stored once.
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) text: String,
    /// The upload handles of its files, in order.
    #[serde(default)]
    pub(crate) uploads: Vec<String>,
    /// The key of the message that this one replaces while that is still queued.
    #[serde(default)]
    pub(crate) edit_of: Option<String>,
}

/// How a turn is to be tried again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAttempt {
    /// The text in place of that of its last message; without it, the messages stay as they are.
    #[serde(default)]
    pub(crate) text: Option<String>,
}

/// The message is stored and will be answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    pub(crate) turn: String,
}

/// An uploaded file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Uploaded {
    /// The handle by which a message names it, valid for half an hour.
    pub(crate) upload: String,
    pub(crate) filename: String,
    pub(crate) bytes: u64,
    /// Its type, detected from its bytes.
    pub(crate) mime: String,
    pub(crate) inline: Inline,
    /// The path of its preview.
    pub(crate) preview: Option<String>,
}

/// The lifetime of a new link.
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
