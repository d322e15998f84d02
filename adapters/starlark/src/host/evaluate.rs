//! One evaluation: what a worker says is measured, noted, or asked of the world.

use satchel_domain::{WakeRequest, size::format_bytes};
use satchel_ports::{
    HostFunctions, ScriptError, ScriptEvaluation, ScriptRequest,
    script_host::{FunctionCall, NewScriptFile},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    failure,
    file::{self, Piece},
    framing::Heard,
    measure::{self, MOST_VALUES},
    worker::{Ending, Worker},
};
use crate::{
    names,
    protocol::{
        self, Call, DEEPEST_VALUE, FromWorker, LARGEST_ARGUMENTS, LARGEST_NEW_FILE, LARGEST_VALUE, LONGEST_LINE,
        MAX_CALL_RESULT_BYTES, MOST_PRINTED, Run, ToWorker,
    },
};

/// What a line has besides the values that it carries, at most: the names of its fields, and that of a function.
const FRAME: usize = 1 << 10;

/// The largest file: as much as a worker's memory.
const LARGEST_FILE: usize = 512 << 20;

/// The most that the world may say of a failure, in characters.
const LONGEST_REFUSAL: usize = 64 << 10;

/// A script that is ready to be handed to a worker.
pub(crate) struct Task<'a> {
    script: &'a ScriptRequest,
    world: &'a dyn HostFunctions,
    functions: Vec<String>,
    line: Vec<u8>,
}

/// What came of a task.
pub(crate) enum Outcome {
    /// The script has ended.
    Ended(ScriptEvaluation),
    /// The worker was gone before it had heard the whole script, so another one may be asked.
    NeverBegun(ScriptEvaluation),
}

/// Why an evaluation stops without a value.
enum Stop {
    /// Something failed that the worker has told, or that the script is to be told.
    Failed(ScriptError),
    /// The worker said what no worker says.
    Broken(&'static str),
    /// The worker says no more.
    Closed,
    /// The worker did not hear the script.
    Unheard,
}

impl<'a> Task<'a> {
    pub(crate) fn new(script: &'a ScriptRequest, world: &'a dyn HostFunctions) -> Result<Self, ScriptError> {
        let refused = |message: String| ScriptError::Failed { message };
        if let Some(name) = script.globals.keys().find(|name| !names::is_name(name)) {
            return Err(refused(names::describe_refusal(name)));
        }
        if script.globals.values().any(|value| !measure::is_shallow(value)) {
            return Err(refused(format!("its variables are nested deeper than {DEEPEST_VALUE} levels")));
        }
        let functions = world.functions();
        // More than the deadline, which so comes first: the processor time of the worker's start counts too.
        let processor_seconds = script.time_limit.as_secs().saturating_add(2);
        let run = ToWorker::Run(Run {
            script: script.source.clone(),
            globals: script.globals.clone(),
            functions: functions.clone(),
            processor_seconds,
        });
        let line = measure::line_of(&run).ok_or_else(|| {
            refused(format!("the script and its variables are larger than {}", format_bytes(LONGEST_LINE as u64)))
        })?;
        Ok(Self { script, world, functions, line })
    }

    /// Has it evaluated by this worker. When the call returns or is dropped, the worker is no more.
    pub(crate) async fn run(&self, mut worker: Worker, cancel: &CancellationToken) -> Outcome {
        let mut noted = Noted::default();
        let limit = self.script.time_limit;
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Err(ScriptError::Cancelled)),
            ended = tokio::time::timeout(limit, self.evaluate(&mut worker, &mut noted)) => {
                ended.unwrap_or(Ok(Err(ScriptError::TimedOut { after: limit })))
            }
        };
        worker.end().await;
        let Noted { printed, wakes, .. } = noted;
        match ended {
            Ok(value) => Outcome::Ended(ScriptEvaluation { value, printed, wakes }),
            Err(Unheard(failure)) => Outcome::NeverBegun(ScriptEvaluation::from_error(failure)),
        }
    }

    async fn evaluate(&self, worker: &mut Worker, noted: &mut Noted) -> Result<Result<Value, ScriptError>, Unheard> {
        let stop = match self.converse(worker, noted).await {
            Ok(value) => return Ok(Ok(value)),
            Err(stop) => stop,
        };
        let unheard = matches!(stop, Stop::Unheard);
        let failure = match stop {
            Stop::Failed(failure) => failure,
            Stop::Broken(why) => self.broken(why),
            Stop::Closed | Stop::Unheard => match worker.ending().await {
                Ending::GoesOn => self.broken("it closed a pipe and went on"),
                Ending::Died { status, complaint } => {
                    let conversation = &self.script.conversation;
                    tracing::warn!(%conversation, %status, complaint, "a script's worker died");
                    failure::of_death(status, &complaint)
                }
            },
        };
        if unheard { Err(Unheard(failure)) } else { Ok(Err(failure)) }
    }

    fn broken(&self, why: &str) -> ScriptError {
        tracing::warn!(conversation = %self.script.conversation, why, "a script's worker broke the protocol");
        ScriptError::Failed { message: format!("the script's worker broke the protocol ({why})") }
    }

    /// Talks with the worker until it has a value.
    async fn converse(&self, worker: &mut Worker, noted: &mut Noted) -> Result<Value, Stop> {
        if !worker.tell(&self.line).await {
            return Err(Stop::Unheard);
        }
        loop {
            let (said, length) = hear(worker).await?;
            match said {
                FromWorker::Print(line) => noted.print(&line)?,
                FromWorker::Wake(wake) => noted.wake(wake, length)?,
                FromWorker::Call(call) => {
                    let answer = self.call(worker, call, length).await?;
                    tell(worker, &answer).await?;
                }
                FromWorker::Create(new_file) => {
                    let answer = self.create(worker, new_file, length).await?;
                    tell(worker, &answer).await?;
                }
                FromWorker::Done(value) => {
                    let value = bounded(value, length, LARGEST_VALUE)?;
                    return if worker.has_more() { Err(Stop::Broken("it went on after the end")) } else { Ok(value) };
                }
                FromWorker::Failed(failure) => return Err(Stop::Failed(failure::told(failure))),
                FromWorker::Ready { .. } => return Err(Stop::Broken("it was ready twice")),
                FromWorker::Chunk(_) | FromWorker::End => return Err(Stop::Broken("it told of a file that is none")),
            }
        }
    }

    async fn call(&self, worker: &mut Worker, call: Call, length: usize) -> Result<Vec<u8>, Stop> {
        let Call { function, positional, named } = call;
        if length > LARGEST_ARGUMENTS + FRAME {
            return Err(Stop::Broken("the arguments of a call are too large"));
        }
        if !positional.iter().chain(named.values()).all(measure::is_shallow) {
            return Err(Stop::Broken("the arguments of a call are nested too deeply"));
        }
        if !self.functions.contains(&function) {
            return Ok(refusal(&format!("there is no function `{}`", failure::cut(&function, 60))));
        }
        let call = FunctionCall { function: function.clone(), positional, named };
        tokio::select! {
            answer = self.world.call(call) => Ok(answer_of(answer, &function)),
            () = worker.dead() => Err(Stop::Closed),
        }
    }

    async fn create(&self, worker: &mut Worker, new_file: protocol::NewFile, length: usize) -> Result<Vec<u8>, Stop> {
        if length > LARGEST_NEW_FILE + FRAME {
            return Err(Stop::Broken("what it says of a file is too large"));
        }
        let protocol::NewFile { filename, description, mime_type, visibility } = new_file;
        let visibility = match file::visibility_of(&visibility) {
            Ok(visibility) => visibility,
            Err(words) => {
                receive(worker, None).await?;
                return Ok(refusal(&words));
            }
        };
        let (pieces, content) = file::flow();
        let creating = self.world.create(NewScriptFile { filename, description, mime_type, visibility }, content);
        // The world is waited for also when the worker fails: it is told by its stream, and puts away what it has.
        let (answer, received) = tokio::join!(creating, receive(worker, Some(pieces)));
        received?;
        Ok(answer_of(answer, "attachment_create"))
    }
}

/// A worker that was gone before it had heard the script, and what to say if there is no other.
struct Unheard(ScriptError);

/// What is kept of a script, whatever its end.
#[derive(Default)]
struct Noted {
    printed: String,
    wakes: Vec<WakeRequest>,
    wake_bytes: usize,
    wake_values: usize,
}

impl Noted {
    fn print(&mut self, line: &str) -> Result<(), Stop> {
        if self.printed.len() + line.len() + 1 > MOST_PRINTED {
            return Err(Stop::Broken("it printed too much"));
        }
        self.printed.push_str(line);
        self.printed.push('\n');
        Ok(())
    }

    fn wake(&mut self, wake: protocol::Wake, length: usize) -> Result<(), Stop> {
        let protocol::Wake { context, include_event } = wake;
        let context = bounded(context, length, LARGEST_VALUE)?;
        // A frame is counted too, or there could be a million of them.
        self.wake_bytes += length;
        self.wake_values += measure::values_of(&context);
        if self.wake_bytes > LARGEST_VALUE + 64 * FRAME || self.wake_values > MOST_VALUES {
            return Err(Stop::Failed(ScriptError::Failed {
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
async fn receive(worker: &mut Worker, mut pieces: Option<tokio::sync::mpsc::Sender<Piece>>) -> Result<(), Stop> {
    let mut received = 0;
    loop {
        let piece = match hear(worker).await?.0 {
            FromWorker::Chunk(chunk) => {
                let bytes = file::bytes_of(chunk).ok_or(Stop::Broken("a piece of a file is none"))?;
                received += bytes.len();
                if received > LARGEST_FILE {
                    return Err(Stop::Broken("a file has no end"));
                }
                Piece::Bytes(bytes)
            }
            FromWorker::End => Piece::End,
            _ => return Err(Stop::Broken("it said something else in the middle of a file")),
        };
        let ended = matches!(piece, Piece::End);
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
async fn hear(worker: &mut Worker) -> Result<(FromWorker, usize), Stop> {
    let line = match worker.hear().await {
        Heard::Line(line) => line,
        Heard::TooLong => return Err(Stop::Broken("a line has no end")),
        Heard::Closed => return Err(Stop::Closed),
    };
    if line.len() > MOST_VALUES && measure::values_in(&line) > MOST_VALUES {
        let message = format!("a value that leaves the script holds more than {} others", MOST_VALUES);
        return Err(Stop::Failed(ScriptError::Failed { message }));
    }
    let said = serde_json::from_slice(&line).map_err(|_| Stop::Broken("a line can't be read"))?;
    Ok((said, line.len()))
}

async fn tell(worker: &mut Worker, line: &[u8]) -> Result<(), Stop> {
    if worker.tell(line).await { Ok(()) } else { Err(Stop::Closed) }
}

/// The line by which the script gets what it has asked of the world.
fn answer_of(answer: Result<Value, String>, function: &str) -> Vec<u8> {
    match answer {
        Err(words) => refusal(&words),
        Ok(value) if !measure::is_shallow(&value) => {
            refusal(&format!("what `{function}` returned is nested deeper than {DEEPEST_VALUE} levels"))
        }
        Ok(value) => measure::value_line(value).unwrap_or_else(|| {
            let most = format_bytes(MAX_CALL_RESULT_BYTES as u64);
            refusal(&format!("what `{function}` returned is larger than {most}; ask it for a part of that"))
        }),
    }
}

/// The line by which the script is refused something.
fn refusal(words: &str) -> Vec<u8> {
    let refusal = ToWorker::Error(failure::cut(words, LONGEST_REFUSAL));
    measure::line_of(&refusal).expect("a refusal is short")
}

fn bounded(value: Value, length: usize, most: usize) -> Result<Value, Stop> {
    if length > most + FRAME {
        return Err(Stop::Broken("a value is too large"));
    }
    if !measure::is_shallow(&value) {
        return Err(Stop::Broken("a value is nested too deeply"));
    }
    Ok(value)
}
