//! One evaluation: measures a worker's messages, collects its output, and calls the host's functions for it.

use satchel_domain::{WakeRequest, size::format_bytes};
use satchel_ports::{
    HostFunctions, ScriptError, ScriptEvaluation, ScriptRequest,
    script_host::{FunctionCall, NewScriptFile},
};
use satchel_worker_process::{LineRead, WorkerExit, WorkerProcess};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    error,
    file::{self, FileChunk},
    measure::{self, MAX_VALUES},
};
use crate::{
    names,
    protocol::{
        self, FromWorker, HostCall, MAX_ARGUMENTS_BYTES, MAX_CALL_RESULT_BYTES, MAX_FILE_HEADER_BYTES, MAX_LINE_BYTES,
        MAX_PRINTED_BYTES, MAX_VALUE_BYTES, MAX_VALUE_DEPTH, RunRequest, ToWorker,
    },
};

/// The most bytes of a line besides its values: the names of its fields and of a function.
const MAX_ENVELOPE_BYTES: usize = 1 << 10;

/// The largest file, in bytes: as much as a worker's memory.
const MAX_FILE_BYTES: usize = 512 << 20;

/// The longest error message of a host function, in characters.
const MAX_ERROR_CHARS: usize = 64 << 10;

/// A script that is ready to be handed to a worker.
pub(crate) struct EvaluationTask<'a> {
    script: &'a ScriptRequest,
    host_functions: &'a dyn HostFunctions,
    functions: Vec<String>,
    run_line: Vec<u8>,
}

/// The outcome of a task.
pub(crate) enum EvaluationOutcome {
    /// The script has ended.
    Ended(ScriptEvaluation),
    /// The worker exited before it had received the whole script, so another one may run it.
    NotStarted(ScriptEvaluation),
}

/// Why an evaluation stops without a value.
enum EvaluationStop {
    /// The script failed, by the worker's report or by a limit of the host.
    Failed(ScriptError),
    /// The worker sent a message that breaks the protocol.
    ProtocolBroken(&'static str),
    /// The worker closed its output.
    Closed,
    /// The worker did not receive the script.
    NotDelivered,
}

impl<'a> EvaluationTask<'a> {
    pub(crate) fn new(script: &'a ScriptRequest, host_functions: &'a dyn HostFunctions) -> Result<Self, ScriptError> {
        let script_failed = |message: String| ScriptError::Failed { message };
        if let Some(name) = script.globals.keys().find(|name| !names::is_name(name)) {
            return Err(script_failed(names::invalid_name_reason(name)));
        }
        if script.globals.values().any(|value| !measure::is_shallow(value)) {
            return Err(script_failed(format!("its variables are nested deeper than {MAX_VALUE_DEPTH} levels")));
        }
        let functions = host_functions.functions();
        // More than the deadline, so that the deadline comes first: the worker's start uses processor time, too.
        let processor_seconds = script.time_limit.as_secs().saturating_add(2);
        let run = ToWorker::Run(RunRequest {
            script: script.source.clone(),
            globals: script.globals.clone(),
            functions: functions.clone(),
            processor_seconds,
        });
        let line = measure::to_line(&run).ok_or_else(|| {
            script_failed(format!(
                "the script and its variables are larger than {}",
                format_bytes(MAX_LINE_BYTES as u64)
            ))
        })?;
        Ok(Self { script, host_functions, functions, run_line: line })
    }

    /// Evaluates the script with this worker. The worker is killed when the call returns or is dropped.
    pub(crate) async fn run(&self, mut worker: WorkerProcess, cancel: &CancellationToken) -> EvaluationOutcome {
        let mut output = CollectedOutput::default();
        let limit = self.script.time_limit;
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Err(ScriptError::Cancelled)),
            result = tokio::time::timeout(limit, self.evaluate(&mut worker, &mut output)) => {
                result.unwrap_or(Ok(Err(ScriptError::TimedOut { after: limit })))
            }
        };
        worker.kill().await;
        let CollectedOutput { printed, wakes, .. } = output;
        match result {
            Ok(value) => EvaluationOutcome::Ended(ScriptEvaluation { value, printed, wakes }),
            Err(NotDelivered(failure)) => EvaluationOutcome::NotStarted(ScriptEvaluation::from_error(failure)),
        }
    }

    async fn evaluate(
        &self,
        worker: &mut WorkerProcess,
        output: &mut CollectedOutput,
    ) -> Result<Result<Value, ScriptError>, NotDelivered> {
        let stop = match self.run_protocol(worker, output).await {
            Ok(value) => return Ok(Ok(value)),
            Err(stop) => stop,
        };
        let is_not_delivered = matches!(stop, EvaluationStop::NotDelivered);
        let failure = match stop {
            EvaluationStop::Failed(failure) => failure,
            EvaluationStop::ProtocolBroken(why) => self.protocol_error(why),
            EvaluationStop::Closed | EvaluationStop::NotDelivered => match worker.exit_status().await {
                WorkerExit::StillRunning => self.protocol_error("it closed a pipe and went on"),
                WorkerExit::Exited { status, complaint } => {
                    let conversation = &self.script.work_share.conversation;
                    tracing::warn!(%conversation, %status, complaint, "a script's worker died");
                    error::worker_exit_error(status, &complaint)
                }
            },
        };
        if is_not_delivered { Err(NotDelivered(failure)) } else { Ok(Err(failure)) }
    }

    fn protocol_error(&self, why: &str) -> ScriptError {
        tracing::warn!(conversation = %self.script.work_share.conversation, why, "a script's worker broke the protocol");
        ScriptError::Failed { message: format!("the script's worker broke the protocol ({why})") }
    }

    /// Exchanges messages with the worker until it returns a value.
    async fn run_protocol(
        &self,
        worker: &mut WorkerProcess,
        output: &mut CollectedOutput,
    ) -> Result<Value, EvaluationStop> {
        if !worker.write(&self.run_line).await {
            return Err(EvaluationStop::NotDelivered);
        }
        loop {
            let (message, length) = read_message(worker).await?;
            match message {
                FromWorker::Print(line) => output.push_line(&line)?,
                FromWorker::Wake(wake) => output.push_wake(wake, length)?,
                FromWorker::Call(call) => {
                    let response = self.call_function(worker, call, length).await?;
                    write_message(worker, &response).await?;
                }
                FromWorker::Create(header) => {
                    let response = self.create_file(worker, header, length).await?;
                    write_message(worker, &response).await?;
                }
                FromWorker::Done(value) => {
                    let value = check_value(value, length, MAX_VALUE_BYTES)?;
                    return if worker.has_more() {
                        Err(EvaluationStop::ProtocolBroken("it went on after the end"))
                    } else {
                        Ok(value)
                    };
                }
                FromWorker::Failed(failure) => return Err(EvaluationStop::Failed(error::script_error(failure))),
                FromWorker::Ready { .. } => return Err(EvaluationStop::ProtocolBroken("it was ready twice")),
                FromWorker::Chunk(_) | FromWorker::End => {
                    return Err(EvaluationStop::ProtocolBroken("it told of a file that is none"));
                }
            }
        }
    }

    async fn call_function(
        &self,
        worker: &mut WorkerProcess,
        call: HostCall,
        length: usize,
    ) -> Result<Vec<u8>, EvaluationStop> {
        let HostCall { function, positional, named } = call;
        if length > MAX_ARGUMENTS_BYTES + MAX_ENVELOPE_BYTES {
            return Err(EvaluationStop::ProtocolBroken("the arguments of a call are too large"));
        }
        if !positional.iter().chain(named.values()).all(measure::is_shallow) {
            return Err(EvaluationStop::ProtocolBroken("the arguments of a call are nested too deeply"));
        }
        if !self.functions.contains(&function) {
            return Ok(error_line(&format!("there is no function `{}`", error::truncate(&function, 60))));
        }
        let call = FunctionCall { function: function.clone(), positional, named };
        tokio::select! {
            result = self.host_functions.call(call) => Ok(response_line(result, &function)),
            () = worker.wait_exited() => Err(EvaluationStop::Closed),
        }
    }

    async fn create_file(
        &self,
        worker: &mut WorkerProcess,
        header: protocol::FileHeader,
        length: usize,
    ) -> Result<Vec<u8>, EvaluationStop> {
        if length > MAX_FILE_HEADER_BYTES + MAX_ENVELOPE_BYTES {
            return Err(EvaluationStop::ProtocolBroken("what it says of a file is too large"));
        }
        let protocol::FileHeader { filename, description, mime_type, visibility } = header;
        let visibility = match file::parse_visibility(&visibility) {
            Ok(visibility) => visibility,
            Err(reason) => {
                receive_file(worker, None).await?;
                return Ok(error_line(&reason));
            }
        };
        let (chunks, content) = file::file_channel();
        let create_file =
            self.host_functions.create(NewScriptFile { filename, description, mime_type, visibility }, content);
        // The host function completes also when the worker fails: its stream ends with an error, and it cleans up.
        let (result, received) = tokio::join!(create_file, receive_file(worker, Some(chunks)));
        received?;
        Ok(response_line(result, "attachment_create"))
    }
}

/// The worker exited before it had received the script; holds the error for the case that no other worker runs it.
struct NotDelivered(ScriptError);

/// A script's output, which is kept whatever its result.
#[derive(Default)]
struct CollectedOutput {
    printed: String,
    wakes: Vec<WakeRequest>,
    wake_bytes: usize,
    wake_values: usize,
}

impl CollectedOutput {
    fn push_line(&mut self, line: &str) -> Result<(), EvaluationStop> {
        if self.printed.len() + line.len() + 1 > MAX_PRINTED_BYTES {
            return Err(EvaluationStop::ProtocolBroken("it printed too much"));
        }
        self.printed.push_str(line);
        self.printed.push('\n');
        Ok(())
    }

    fn push_wake(&mut self, wake: protocol::WakeMessage, length: usize) -> Result<(), EvaluationStop> {
        let protocol::WakeMessage { context, include_event } = wake;
        let context = check_value(context, length, MAX_VALUE_BYTES)?;
        // The whole line is counted, or a million empty ones would be free.
        self.wake_bytes += length;
        self.wake_values += measure::count_values(&context);
        if self.wake_bytes > MAX_VALUE_BYTES + 64 * MAX_ENVELOPE_BYTES || self.wake_values > MAX_VALUES {
            return Err(EvaluationStop::Failed(ScriptError::Failed {
                message: format!(
                    "what it wants a model to look at is larger than {}, or of too many parts",
                    format_bytes(MAX_VALUE_BYTES as u64)
                ),
            }));
        }
        self.wakes.push(WakeRequest { context, include_event });
        Ok(())
    }
}

/// Receives the chunks of a file up to its end, and forwards them while the receiver is open.
async fn receive_file(
    worker: &mut WorkerProcess,
    mut chunks: Option<tokio::sync::mpsc::Sender<FileChunk>>,
) -> Result<(), EvaluationStop> {
    let mut received = 0;
    loop {
        let chunk = match read_message(worker).await?.0 {
            FromWorker::Chunk(chunk) => {
                let bytes =
                    file::decode_chunk(chunk).ok_or(EvaluationStop::ProtocolBroken("a piece of a file is none"))?;
                received += bytes.len();
                if received > MAX_FILE_BYTES {
                    return Err(EvaluationStop::ProtocolBroken("a file has no end"));
                }
                FileChunk::Bytes(bytes)
            }
            FromWorker::End => FileChunk::End,
            _ => return Err(EvaluationStop::ProtocolBroken("it said something else in the middle of a file")),
        };
        let is_end = matches!(chunk, FileChunk::End);
        if let Some(sender) = &chunks
            && sender.send(chunk).await.is_err()
        {
            // The rest is discarded; the worker gets its response at the end.
            chunks = None;
        }
        if is_end {
            return Ok(());
        }
    }
}

/// Reads the worker's next message; returns the length of its line, too.
async fn read_message(worker: &mut WorkerProcess) -> Result<(FromWorker, usize), EvaluationStop> {
    let line = match worker.read_line().await {
        LineRead::Line(line) => line,
        LineRead::TooLong => return Err(EvaluationStop::ProtocolBroken("a line has no end")),
        LineRead::Closed => return Err(EvaluationStop::Closed),
    };
    if line.len() > MAX_VALUES && measure::estimate_values(&line) > MAX_VALUES {
        let message = format!("a value that leaves the script holds more than {} others", MAX_VALUES);
        return Err(EvaluationStop::Failed(ScriptError::Failed { message }));
    }
    let message = serde_json::from_slice(&line).map_err(|_| EvaluationStop::ProtocolBroken("a line can't be read"))?;
    Ok((message, line.len()))
}

async fn write_message(worker: &mut WorkerProcess, line: &[u8]) -> Result<(), EvaluationStop> {
    if worker.write(line).await { Ok(()) } else { Err(EvaluationStop::Closed) }
}

/// The response line with the result of a host function.
fn response_line(result: Result<Value, String>, function: &str) -> Vec<u8> {
    match result {
        Err(reason) => error_line(&reason),
        Ok(value) if !measure::is_shallow(&value) => {
            error_line(&format!("what `{function}` returned is nested deeper than {MAX_VALUE_DEPTH} levels"))
        }
        Ok(value) => measure::value_line(value).unwrap_or_else(|| {
            let limit = format_bytes(MAX_CALL_RESULT_BYTES as u64);
            error_line(&format!("what `{function}` returned is larger than {limit}; ask it for a part of that"))
        }),
    }
}

/// The response line with an error.
fn error_line(reason: &str) -> Vec<u8> {
    let refusal = ToWorker::Error(error::truncate(reason, MAX_ERROR_CHARS));
    measure::to_line(&refusal).expect("a refusal is short")
}

fn check_value(value: Value, length: usize, max_bytes: usize) -> Result<Value, EvaluationStop> {
    if length > max_bytes + MAX_ENVELOPE_BYTES {
        return Err(EvaluationStop::ProtocolBroken("a value is too large"));
    }
    if !measure::is_shallow(&value) {
        return Err(EvaluationStop::ProtocolBroken("a value is nested too deeply"));
    }
    Ok(value)
}
