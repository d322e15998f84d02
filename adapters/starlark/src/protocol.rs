//! The messages between host and worker: one JSON value per line, on the worker's standard input and output.
//!
//! A worker sends [`FromWorker::Ready`] and waits. The host sends one [`ToWorker::Run`]; the worker evaluates it, sends
//! its output and its calls, and ends with [`FromWorker::Done`] or [`FromWorker::Failed`]. Each [`FromWorker::Call`]
//! and each [`FromWorker::End`] waits for one [`ToWorker::Value`] or [`ToWorker::Error`]. A worker serves one script.
//! The host doesn't trust the worker: any other message gets it killed.
//!
//! No tagged or flattened type here contains a float: the worker's build of `serde_json` could not parse it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the protocol; a worker with another one is not used.
pub const PROTOCOL_VERSION: u32 = 2;

/// The longest line of a worker in bytes, and of the host's [`ToWorker::Run`], without its end.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The largest value that a script can receive, in bytes: of the text itself, or of any other value's JSON.
pub const MAX_CALL_RESULT_BYTES: usize = 8 << 20;

/// The longest line of the host in bytes, without its end. JSON escapes quotes and line ends as two bytes, and a text
/// of nothing else must still fit.
pub const MAX_HOST_LINE_BYTES: usize = 2 * MAX_CALL_RESULT_BYTES + (1 << 10);

/// The largest [`Chunk`] of a file, in bytes.
pub const CHUNK_BYTES: usize = 48 << 10;

/// The memory of a worker's process in bytes.
pub const WORKER_MEMORY_BYTES: u64 = 512 << 20;

/// What to do about a script that ran out of memory, for its author. The interpreter frees unused values only between the
/// statements at the top level.
pub const MEMORY_ADVICE: &str = "values that it no longer uses are freed only between the statements at its top level: \
     split a long loop into several, one after another";

/// The most bytes that a script may print, line ends included.
pub const MAX_PRINTED_BYTES: usize = 1 << 20;

/// The most bytes that the value of a script may have as JSON, and its wake contexts together.
pub const MAX_VALUE_BYTES: usize = 1 << 20;

/// The most bytes that the arguments of one call may have as JSON.
pub const MAX_ARGUMENTS_BYTES: usize = 4 << 20;

/// The most bytes that the [`FileHeader`] of one file may have as JSON.
pub const MAX_FILE_HEADER_BYTES: usize = 16 << 10;

/// How deep a value may be nested, from a script and into it.
pub const MAX_VALUE_DEPTH: usize = 64;

/// A message of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToWorker {
    Run(RunRequest),
    /// The result of the call.
    Value(Value),
    /// Why the call failed, as text for the script's author; the script fails with it at the position of the call.
    Error(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    pub script: String,
    /// Variables that are set for it.
    pub globals: Map<String, Value>,
    /// The names of the host's functions.
    pub functions: Vec<String>,
    /// How many seconds of processor time it may use, rounded up: the last limit, after the host's own clock.
    pub processor_seconds: u64,
}

/// A message of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// It waits for a script.
    Ready {
        /// Its [`PROTOCOL_VERSION`].
        version: u32,
    },
    /// The script printed a line; without its end.
    Print(String),
    /// The script requests a model call with this context.
    Wake(WakeMessage),
    /// The script calls one of the host's functions.
    Call(HostCall),
    /// The script creates a file. Its bytes follow as chunks up to the end.
    Create(FileHeader),
    /// Bytes of the file that is being created.
    Chunk(Chunk),
    /// The file is complete; the host's response follows.
    End,
    /// The script ended with this value; `null` for none.
    Done(Value),
    Failed(ErrorReport),
}

/// A call of one of the host's functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCall {
    pub function: String,
    pub positional: Vec<Value>,
    pub named: Map<String, Value>,
}

/// The metadata of a file that a script creates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileHeader {
    /// Its name, as the script gave it.
    pub filename: String,
    pub description: String,
    /// Its type, as the script claims it.
    pub mime_type: String,
    /// Who gets it: `deliver` or `internal`, as the script gave it.
    pub visibility: String,
}

/// Bytes of a file, at most [`CHUNK_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Chunk {
    /// Text, as UTF-8.
    Text(String),
    /// Any bytes, in standard base64 with padding, complete in itself.
    Base64(String),
}

/// A request for a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeMessage {
    pub context: Value,
    /// Whether the model also gets the event that ran the script.
    pub include_event: bool,
}

/// Why a script failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReport {
    pub kind: ErrorKind,
    /// The message, on one line if possible.
    pub message: String,
    /// The line in the script, counted from 1; `None` when no position is known.
    pub line: Option<u32>,
    /// The character in that line, counted from 1.
    pub column: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// It could not be parsed, or uses an undefined name; nothing has run.
    Syntax,
    /// It failed while it ran.
    Execution,
}
