//! A host for tests: starts the program, talks to it, and never waits for long.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use satchel_starlark::protocol::{ErrorReport, FromWorker, HostCall, PROTOCOL_VERSION, RunRequest, ToWorker};
use serde_json::{Map, Value, json};

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program, and what it has said.
pub(crate) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<FromWorker>,
    errors: Receiver<String>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _is_there = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// How a script ended.
pub(crate) struct Told {
    /// All that the worker said before.
    pub(crate) said: Vec<FromWorker>,
    /// The value of the script, or why it has none.
    pub(crate) outcome: Result<Value, ErrorReport>,
}

impl Worker {
    /// Starts the program and waits until it is ready.
    pub(crate) fn start() -> Self {
        let worker = Self::start_unready();
        assert_eq!(worker.next(), Some(FromWorker::Ready { version: PROTOCOL_VERSION }));
        worker
    }

    /// Starts the program where the shell allows only this, and waits until it is ready.
    pub(crate) fn start_within(limits: &str) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{limits}; exec \"$0\""), env!("CARGO_BIN_EXE_satchel-script")]);
        let worker = Self::start_as(shell);
        assert_eq!(worker.next(), Some(FromWorker::Ready { version: PROTOCOL_VERSION }));
        worker
    }

    pub(crate) fn start_unready() -> Self {
        Self::start_as(Command::new(env!("CARGO_BIN_EXE_satchel-script")))
    }

    fn start_as(mut command: Command) -> Self {
        let mut child =
            command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, said) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines() {
                // A line that is cut off by the end of the program is no line.
                let Ok(message) = serde_json::from_str(&line.unwrap()) else { break };
                if tell.send(message).is_err() {
                    break;
                }
            }
        });
        let (tell_errors, errors) = channel();
        let mut stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            let mut text = Vec::new();
            let _read = stderr.read_to_end(&mut text);
            let _is_heard = tell_errors.send(String::from_utf8_lossy(&text).into_owned());
        });
        let input = child.stdin.take();
        Self { child, input, said, errors }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &ToWorker) {
        self.send_line(&serde_json::to_string(message).unwrap());
    }

    /// Sends a line as it is. A worker that has ended hears it no more, which its end shows.
    pub(crate) fn send_line(&mut self, line: &str) {
        let _is_heard = self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes());
    }

    /// Sends bytes without an end of line, then hangs up.
    pub(crate) fn hang_up(&mut self, last: &[u8]) {
        let _is_heard = self.input.take().unwrap().write_all(last);
    }

    /// What it says next; `None` when it says no more.
    pub(crate) fn next(&self) -> Option<FromWorker> {
        match self.said.recv_timeout(PATIENCE) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the worker said nothing in {PATIENCE:?}"),
        }
    }

    /// What it says next in so long; `Err` when that is nothing and it has not ended.
    pub(crate) fn next_within(&self, time: Duration) -> Result<Option<FromWorker>, ()> {
        match self.said.recv_timeout(time) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(()),
        }
    }

    /// Waits for its end: how it ended and what it wrote to standard error.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        (self.wait_for_exit(), self.errors.recv_timeout(PATIENCE).unwrap())
    }

    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "the worker did not end in {PATIENCE:?}");
            // Polls: the standard library can't wait for a child with a time limit.
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Goes on with a script that has been sent, answering its calls, to its end.
    pub(crate) fn finish(&mut self, mut answer: impl FnMut(&HostCall) -> ToWorker) -> Told {
        let mut said = Vec::new();
        let mut files = 0;
        loop {
            match self.next() {
                Some(FromWorker::Done(value)) => return Told { said, outcome: Ok(value) },
                Some(FromWorker::Failed(failure)) => return Told { said, outcome: Err(failure) },
                Some(message) => {
                    if let FromWorker::Call(call) = &message {
                        self.send(&answer(call));
                    }
                    if message == FromWorker::End {
                        files += 1;
                        self.send(&ToWorker::Value(json!(format!("file-{files}"))));
                    }
                    said.push(message);
                }
                None => panic!("the worker ended: {:?}", self.end()),
            }
        }
    }
}

/// A run of a script with the host's usual functions.
pub(crate) fn run(script: &str) -> RunRequest {
    let functions = ["search_notes", "tools_execute", "attachment_get", "echo", "refuse", "generate_chart_data"];
    RunRequest {
        script: script.to_owned(),
        globals: Map::new(),
        functions: functions.map(str::to_owned).to_vec(),
        processor_seconds: 10,
    }
}

/// What the usual functions answer.
pub(crate) fn answer(call: &HostCall) -> ToWorker {
    match call.function.as_str() {
        "search_notes" => ToWorker::Value(json!("[{\"title\": \"TODO\"}, {\"title\": \"milk\"}]")),
        "tools_execute" => ToWorker::Value(json!(format!("made-by-{}", call.positional[0].as_str().unwrap()))),
        "refuse" => ToWorker::Error("the host refuses: \"no\"".to_owned()),
        "generate_chart_data" => ToWorker::Value(json!("data")),
        _ => ToWorker::Value(json!({"positional": call.positional, "named": call.named})),
    }
}

/// Evaluates a script in a worker of its own.
pub(crate) fn evaluate(script: &str) -> Told {
    evaluate_run(run(script))
}

pub(crate) fn evaluate_run(run: RunRequest) -> Told {
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(run));
    worker.finish(answer)
}

/// The value of a script that must have one.
pub(crate) fn value(script: &str) -> Value {
    evaluate(script).outcome.unwrap_or_else(|failure| panic!("{script}\n{failure:?}"))
}

/// Why a script failed that must fail.
pub(crate) fn failure(script: &str) -> ErrorReport {
    match evaluate(script).outcome {
        Ok(value) => panic!("{script}\nhad the value {value}"),
        Err(failure) => failure,
    }
}

/// The calls that a script made.
pub(crate) fn calls(told: &Told) -> Vec<&HostCall> {
    let calls = told.said.iter().filter_map(|message| match message {
        FromWorker::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}
