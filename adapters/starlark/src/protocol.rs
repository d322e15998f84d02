//! What host and worker say to one another: one JSON value a line, on the worker's standard input and output.
//!
//! A worker says [`FromWorker::Ready`] and waits. The host sends one [`ToWorker::Run`]; the worker evaluates, says what
//! it prints and asks for what it needs, and ends with [`FromWorker::Done`] or [`FromWorker::Failed`]. Each
//! [`FromWorker::Call`] and each [`FromWorker::End`] waits for one [`ToWorker::Value`] or [`ToWorker::Error`]. A worker
//! serves one script. The host believes nothing of this: whatever else it reads ends the worker.
//!
//! No float stands in a tagged or flattened type here: the worker's build of `serde_json` could not read it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of these words; a worker of another one is not used.
pub const VERSION: u32 = 2;

/// The longest line of a worker in bytes, and of the host's [`ToWorker::Run`], without its end.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The most bytes that a value may have which a script is given: of a text its own, of anything else its JSON's.
pub const MAX_CALL_RESULT_BYTES: usize = 8 << 20;

/// The longest line of the host in bytes, without its end. JSON writes quotes and line ends as two bytes, and a text of
/// nothing else is still given whole.
pub const MAX_HOST_LINE_BYTES: usize = 2 * MAX_CALL_RESULT_BYTES + (1 << 10);

/// The most bytes of a file that one [`Chunk`] carries.
pub const CHUNK: usize = 48 << 10;

/// The memory of a worker's process in bytes.
pub const WORKER_MEMORY_BYTES: u64 = 512 << 20;

/// The most bytes that a script may print, lines' ends included.
pub const MAX_PRINTED_BYTES: usize = 1 << 20;

/// The most bytes that the value of a script may have as JSON, and its wake contexts together.
pub const LARGEST_VALUE: usize = 1 << 20;

/// The most bytes that the arguments of one call may have as JSON.
pub const LARGEST_ARGUMENTS: usize = 4 << 20;

/// The most bytes that what a script says of one file, its [`FileHeader`], may have as JSON.
pub const LARGEST_NEW_FILE: usize = 16 << 10;

/// How deep a value may be nested, going out of a script and into it.
pub const MAX_VALUE_DEPTH: usize = 64;

/// What the host says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToWorker {
    Run(RunRequest),
    /// What the call yielded.
    Value(Value),
    /// Why the call failed, in words for the script's author; the script ends with them at the place of the call.
    Error(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    pub script: String,
    /// Variables that it finds set.
    pub globals: Map<String, Value>,
    /// The host's functions, by the names under which the script finds them.
    pub functions: Vec<String>,
    /// How many seconds of processor time it may use, rounded up: the last wall, behind the host's own clock.
    pub processor_seconds: u64,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// It waits for a script.
    Ready {
        /// Its [`VERSION`].
        version: u32,
    },
    /// The script printed a line; without its end.
    Print(String),
    /// The script asks that a model look at this.
    Wake(WakeMessage),
    /// The script calls one of the host's functions.
    Call(HostCall),
    /// The script makes a file. Its bytes follow as chunks up to the end.
    Create(FileHeader),
    /// Bytes of the file that is being made.
    Chunk(Chunk),
    /// The file that is being made is complete; what follows is the host's answer.
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
    /// The arguments without a name.
    pub positional: Vec<Value>,
    /// The arguments with one.
    pub named: Map<String, Value>,
}

/// What a script says of a file that it makes.
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

/// Bytes of a file, at most [`CHUNK`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Chunk {
    /// Text, as UTF-8.
    Text(String),
    /// Any bytes, in standard base64 with padding, complete in itself.
    Base64(String),
}

/// Something that a model shall look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeMessage {
    pub context: Value,
    /// Whether it shall also know what ran the script.
    pub include_event: bool,
}

/// Why a script failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReport {
    pub kind: ErrorKind,
    /// What is wrong, in one line if that can be.
    pub message: String,
    /// Where in the script, counted from 1; `None` when no place is to blame.
    pub line: Option<u32>,
    /// Which character of that line, counted from 1.
    pub column: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// It could not be read, or names what is not there; nothing of it has run.
    Syntax,
    /// It failed while it ran.
    Execution,
}
