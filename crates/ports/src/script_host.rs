//! The port of the script evaluator, and the host functions that a script can call.

#![cfg_attr(feature = "mocks", expect(unused_parens, reason = "the mock repeats a type that needs them in the trait"))]

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{Visibility, WakeRequest, WorkShare};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::ByteStream;

/// A script to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptRequest {
    /// Its text.
    pub source: String,
    /// Variables that it finds set.
    pub globals: Map<String, Value>,
    /// For whom it runs; waiting scripts are scheduled fairly between conversations, and between people.
    pub work_share: WorkShare,
    /// How long it may run.
    pub time_limit: Duration,
}

/// A call of a function that isn't the interpreter's own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FunctionCall {
    /// The function.
    pub function: String,
    /// The arguments without a name.
    pub positional: Vec<Value>,
    /// The arguments with one.
    pub named: Map<String, Value>,
}

/// What a script says of a file that it makes. Nothing of it is checked but the visibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewScriptFile {
    /// Its name.
    pub filename: String,
    /// What it shows.
    pub description: String,
    /// Its type, as the script claims it.
    pub mime_type: String,
    /// Who gets it.
    pub visibility: Visibility,
}

/// What a script can reach; nothing else is within its reach.
///
/// An error is words for the script's author, and ends the script at the place of the call.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait HostFunctions: Send + Sync {
    /// The names of its functions, as the script calls them.
    fn functions(&self) -> Vec<String>;

    /// Performs a call.
    async fn call(&self, call: FunctionCall) -> Result<Value, String>;

    /// Makes a file of these bytes and returns what the script gets for it. A stream that fails makes none.
    async fn create(&self, file: NewScriptFile, content: ByteStream) -> Result<Value, String>;
}

/// Why a script yielded no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It can't be read, or names a variable that is not there; nothing of it has run.
    #[error("Syntax error in script at line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// What is wrong there.
        message: String,
    },
    /// It did not end in time and was stopped.
    #[error("Script execution timed out after {} seconds", after.as_secs_f32())]
    TimedOut {
        /// How long it had.
        after: Duration,
    },
    /// It failed while it ran, or broke a limit.
    #[error("Script execution failed: {message}")]
    Failed {
        /// Why, and where in the script if a place is to blame.
        message: String,
    },
    /// It was cancelled.
    #[error("Script execution was cancelled")]
    Cancelled,
    /// It was never started: no worker was free, or there is no evaluator.
    #[error("Script execution failed: {reason}")]
    Unavailable {
        /// Why, in words for the model and the operator.
        reason: String,
    },
}

/// What came of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptEvaluation {
    /// Its value, `null` for none, or why it has none.
    pub value: Result<Value, ScriptError>,
    /// What it printed until it ended.
    pub printed: String,
    /// What it wants a model to look at.
    pub wakes: Vec<WakeRequest>,
}

impl ScriptEvaluation {
    /// A script that yielded nothing for this reason, before it could do anything.
    #[must_use]
    pub fn from_error(error: ScriptError) -> Self {
        Self { value: Err(error), printed: String::new(), wakes: Vec::new() }
    }
}

/// Evaluates scripts, none of which can harm the calling process.
///
/// # Contract
/// - Whatever a script does, `run` ends within its time limit and a tenth of a second after the start, and the caller's
///   memory stays flat. Waiting for a free worker comes before that, and is bounded.
/// - `run` returns after the script's last effect: nothing of it goes on. One that is dropped is stopped.
/// - Host functions are called one at a time, in the order of the script's calls.
/// - A script can reach nothing but `functions`: no disk, no network, no environment, no other process.
/// - A call that a host function refuses ends the script with its error and the line of the call.
/// - What was printed before the end is returned, whatever the end.
/// - Scripts of one conversation don't block those of another.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ScriptHost: Send + Sync {
    /// Evaluates a script.
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        functions: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation;
}
