//! One evaluation: what a worker says is measured, noted, or asked of the world.

use satchel_domain::{WakeRequest, size::format_bytes};
use satchel_ports::{
    HostFunctions, ScriptError, ScriptEvaluation, ScriptRequest,
    script_host::{FunctionCall, NewScriptFile},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    error,
    file::{self, FileChunk},
    framing::LineRead,
    measure::{self, MOST_VALUES},
    worker::{ScriptWorker, WorkerExit},
};
use crate::{
    names,
    protocol::{
        self, FromWorker, HostCall, LARGEST_ARGUMENTS, LARGEST_NEW_FILE, LARGEST_VALUE, MAX_CALL_RESULT_BYTES,
        MAX_LINE_BYTES, MAX_PRINTED_BYTES, MAX_VALUE_DEPTH, RunRequest, ToWorker,
    },
};

/// What a line has besides the values that it carries, at most: the names of its fields, and that of a function.
const FRAME: usize = 1 << 10;

/// The largest file: as much as a worker's memory.
const LARGEST_FILE: usize = 512 << 20;

/// The most that the world may say of a failure, in characters.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A script that is ready to be handed to a worker.
pub(crate) struct EvaluationTask<'a> {
    script: &'a ScriptRequest,
    world: &'a dyn HostFunctions,
    functions: Vec<String>,
    line: Vec<u8>,
}

/// What came of a task.
pub(crate) enum EvaluationOutcome {
    /// The script has ended.
    Ended(ScriptEvaluation),
    /// The worker was gone before it had heard the whole script, so another one may be asked.
    NotStarted(ScriptEvaluation),
}

/// Why an evaluation stops without a value.
enum EvaluationStop {
    /// Something failed that the worker has told, or that the script is to be told.
    Failed(ScriptError),
    /// The worker said what no worker says.
    ProtocolBroken(&'static str),
    /// The worker says no more.
    Closed,
    /// The worker did not hear the script.
    NotDelivered,
}

impl<'a> EvaluationTask<'a> {
    pub(crate) fn new(script: &'a ScriptRequest, world: &'a dyn HostFunctions) -> Result<Self, ScriptError> {
        let refused = |message: String| ScriptError::Failed { message };
        if let Some(name) = script.globals.keys().find(|name| !names::is_name(name)) {
            return Err(refused(names::describe_refusal(name)));
        }
        if script.globals.values().any(|value| !measure::is_shallow(value)) {
            return Err(refused(format!("its variables are nested deeper than {MAX_VALUE_DEPTH} levels")));
        }
        let functions = world.functions();
        // More than the deadline, which so comes first: the processor time of the worker's start counts too.
        let processor_seconds = script.time_limit.as_secs().saturating_add(2);
        let run = ToWorker::Run(RunRequest {
            script: script.source.clone(),
            globals: script.globals.clone(),
            functions: functions.clone(),
            processor_seconds,
        });
        let line = measure::line_of(&run).ok_or_else(|| {
            refused(format!("the script and its variables are larger than {}", format_bytes(MAX_LINE_BYTES as u64)))
        })?;
        Ok(Self { script, world, functions, line })
    }

    /// Has it evaluated by this worker. When the call returns or is dropped, the worker is no more.
    pub(crate) async fn run(&self, mut worker: ScriptWorker, cancel: &CancellationToken) -> EvaluationOutcome {
        let mut noted = CollectedOutput::default();
        let limit = self.script.time_limit;
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Err(ScriptError::Cancelled)),
            ended = tokio::time::timeout(limit, self.evaluate(&mut worker, &mut noted)) => {
                ended.unwrap_or(Ok(Err(ScriptError::TimedOut { after: limit })))
            }
        };
        worker.kill().await;
        let CollectedOutput { printed, wakes, .. } = noted;
        match ended {
            Ok(value) => EvaluationOutcome::Ended(ScriptEvaluation { value, printed, wakes }),
            Err(NotDelivered(failure)) => EvaluationOutcome::NotStarted(ScriptEvaluation::from_error(failure)),
        }
    }

    async fn evaluate(
        &self,
        worker: &mut ScriptWorker,
        noted: &mut CollectedOutput,
    ) -> Result<Result<Value, ScriptError>, NotDelivered> {
        let stop = match self.run_protocol(worker, noted).await {
            Ok(value) => return Ok(Ok(value)),
            Err(stop) => stop,
        };
        let unheard = matches!(stop, EvaluationStop::NotDelivered);
        let failure = match stop {
            EvaluationStop::Failed(failure) => failure,
            EvaluationStop::ProtocolBroken(why) => self.broken(why),
            EvaluationStop::Closed | EvaluationStop::NotDelivered => match worker.exit_status().await {
                WorkerExit::StillRunning => self.broken("it closed a pipe and went on"),
                WorkerExit::Exited { status, complaint } => {
                    let conversation = &self.script.conversation;
                    tracing::warn!(%conversation, %status, complaint, "a script's worker died");
                    error::worker_died(status, &complaint)
                }
            },
        };
        if unheard { Err(NotDelivered(failure)) } else { Ok(Err(failure)) }
    }

    fn broken(&self, why: &str) -> ScriptError {
        tracing::warn!(conversation = %self.script.conversation, why, "a script's worker broke the protocol");
        ScriptError::Failed { message: format!("the script's worker broke the protocol ({why})") }
    }

    /// Talks with the worker until it has a value.
    async fn run_protocol(
        &self,
        worker: &mut ScriptWorker,
        noted: &mut CollectedOutput,
    ) -> Result<Value, EvaluationStop> {
        if !worker.write_line(&self.line).await {
            return Err(EvaluationStop::NotDelivered);
        }
        loop {
            let (said, length) = read_message(worker).await?;
            match said {
                FromWorker::Print(line) => noted.print(&line)?,
                FromWorker::Wake(wake) => noted.wake(wake, length)?,
                FromWorker::Call(call) => {
                    let answer = self.call(worker, call, length).await?;
                    write_message(worker, &answer).await?;
                }
                FromWorker::Create(new_file) => {
                    let answer = self.create(worker, new_file, length).await?;
                    write_message(worker, &answer).await?;
                }
                FromWorker::Done(value) => {
                    let value = bounded(value, length, LARGEST_VALUE)?;
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

    async fn call(&self, worker: &mut ScriptWorker, call: HostCall, length: usize) -> Result<Vec<u8>, EvaluationStop> {
        let HostCall { function, positional, named } = call;
        if length > LARGEST_ARGUMENTS + FRAME {
            return Err(EvaluationStop::ProtocolBroken("the arguments of a call are too large"));
        }
        if !positional.iter().chain(named.values()).all(measure::is_shallow) {
            return Err(EvaluationStop::ProtocolBroken("the arguments of a call are nested too deeply"));
        }
        if !self.functions.contains(&function) {
            return Ok(refusal(&format!("there is no function `{}`", error::cut(&function, 60))));
        }
        let call = FunctionCall { function: function.clone(), positional, named };
        tokio::select! {
            answer = self.world.call(call) => Ok(answer_of(answer, &function)),
            () = worker.wait_exited() => Err(EvaluationStop::Closed),
        }
    }

    async fn create(
        &self,
        worker: &mut ScriptWorker,
        new_file: protocol::FileHeader,
        length: usize,
    ) -> Result<Vec<u8>, EvaluationStop> {
        if length > LARGEST_NEW_FILE + FRAME {
            return Err(EvaluationStop::ProtocolBroken("what it says of a file is too large"));
        }
        let protocol::FileHeader { filename, description, mime_type, visibility } = new_file;
        let visibility = match file::visibility_of(&visibility) {
            Ok(visibility) => visibility,
            Err(words) => {
                receive(worker, None).await?;
                return Ok(refusal(&words));
            }
        };
        let (pieces, content) = file::file_channel();
        let creating = self.world.create(NewScriptFile { filename, description, mime_type, visibility }, content);
        // The world is waited for also when the worker fails: it is told by its stream, and puts away what it has.
        let (answer, received) = tokio::join!(creating, receive(worker, Some(pieces)));
        received?;
        Ok(answer_of(answer, "attachment_create"))
    }
}

/// A worker that was gone before it had heard the script, and what to say if there is no other.
struct NotDelivered(ScriptError);

/// What is kept of a script, whatever its end.
#[derive(Default)]
struct CollectedOutput {
    printed: String,
    wakes: Vec<WakeRequest>,
    wake_bytes: usize,
    wake_values: usize,
}

impl CollectedOutput {
    fn print(&mut self, line: &str) -> Result<(), EvaluationStop> {
        if self.printed.len() + line.len() + 1 > MAX_PRINTED_BYTES {
            return Err(EvaluationStop::ProtocolBroken("it printed too much"));
        }
        self.printed.push_str(line);
        self.printed.push('\n');
        Ok(())
    }

    fn wake(&mut self, wake: protocol::WakeMessage, length: usize) -> Result<(), EvaluationStop> {
        let protocol::WakeMessage { context, include_event } = wake;
        let context = bounded(context, length, LARGEST_VALUE)?;
        // A frame is counted too, or there could be a million of them.
        self.wake_bytes += length;
        self.wake_values += measure::values_of(&context);
        if self.wake_bytes > LARGEST_VALUE + 64 * FRAME || self.wake_values > MOST_VALUES {
            return Err(EvaluationStop::Failed(ScriptError::Failed {
                message: format!(
                    "what it wants a model to look at is larger than {}, or of too many parts",
                    format_bytes(LARGEST_VALUE as u64)
                ),
            }));
        }
        self.wakes.push(WakeRequest { context, include_event });
        Ok(())
    }
}

/// Takes in the pieces of a file up to its end, and hands them over while somebody wants them.
async fn receive(
    worker: &mut ScriptWorker,
    mut pieces: Option<tokio::sync::mpsc::Sender<FileChunk>>,
) -> Result<(), EvaluationStop> {
    let mut received = 0;
    loop {
        let piece = match read_message(worker).await?.0 {
            FromWorker::Chunk(chunk) => {
                let bytes = file::bytes_of(chunk).ok_or(EvaluationStop::ProtocolBroken("a piece of a file is none"))?;
                received += bytes.len();
                if received > LARGEST_FILE {
                    return Err(EvaluationStop::ProtocolBroken("a file has no end"));
                }
                FileChunk::Bytes(bytes)
            }
            FromWorker::End => FileChunk::End,
            _ => return Err(EvaluationStop::ProtocolBroken("it said something else in the middle of a file")),
        };
        let ended = matches!(piece, FileChunk::End);
        if let Some(open) = &pieces
            && open.send(piece).await.is_err()
        {
            // Nobody stores the rest; the worker gets its answer at the end.
            pieces = None;
        }
        if ended {
            return Ok(());
        }
    }
}

/// What the worker says next, and the length of that line.
async fn read_message(worker: &mut ScriptWorker) -> Result<(FromWorker, usize), EvaluationStop> {
    let line = match worker.read_line().await {
        LineRead::Line(line) => line,
        LineRead::TooLong => return Err(EvaluationStop::ProtocolBroken("a line has no end")),
        LineRead::Closed => return Err(EvaluationStop::Closed),
    };
    if line.len() > MOST_VALUES && measure::values_in(&line) > MOST_VALUES {
        let message = format!("a value that leaves the script holds more than {} others", MOST_VALUES);
        return Err(EvaluationStop::Failed(ScriptError::Failed { message }));
    }
    let said = serde_json::from_slice(&line).map_err(|_| EvaluationStop::ProtocolBroken("a line can't be read"))?;
    Ok((said, line.len()))
}

async fn write_message(worker: &mut ScriptWorker, line: &[u8]) -> Result<(), EvaluationStop> {
    if worker.write_line(line).await { Ok(()) } else { Err(EvaluationStop::Closed) }
}

/// The line by which the script gets what it has asked of the world.
fn answer_of(answer: Result<Value, String>, function: &str) -> Vec<u8> {
    match answer {
        Err(words) => refusal(&words),
        Ok(value) if !measure::is_shallow(&value) => {
            refusal(&format!("what `{function}` returned is nested deeper than {MAX_VALUE_DEPTH} levels"))
        }
        Ok(value) => measure::value_line(value).unwrap_or_else(|| {
            let most = format_bytes(MAX_CALL_RESULT_BYTES as u64);
            refusal(&format!("what `{function}` returned is larger than {most}; ask it for a part of that"))
        }),
    }
}

/// The line by which the script is refused something.
fn refusal(words: &str) -> Vec<u8> {
    let refusal = ToWorker::Error(error::cut(words, MAX_ERROR_BYTES));
    measure::line_of(&refusal).expect("a refusal is short")
}

fn bounded(value: Value, length: usize, most: usize) -> Result<Value, EvaluationStop> {
    if length > most + FRAME {
        return Err(EvaluationStop::ProtocolBroken("a value is too large"));
    }
    if !measure::is_shallow(&value) {
        return Err(EvaluationStop::ProtocolBroken("a value is nested too deeply"));
    }
    Ok(value)
}
