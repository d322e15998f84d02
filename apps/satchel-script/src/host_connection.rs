//! The connection to the host: one thread reads, another evaluates, and the process exits when either ends.
//!
//! The reading thread does nothing else, so that it notices when the host is gone even while a script loops.

use std::{
    cell::RefCell,
    io::{BufRead, Read, Write, sink, stdin, stdout},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{ExitCode, exit},
    rc::Rc,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use satchel_starlark::protocol::{
    ErrorKind, ErrorReport, FromWorker, MAX_HOST_LINE_BYTES, PROTOCOL_VERSION, RunRequest, ToWorker,
};
use satchel_worker_process::{
    EXIT_UNCONFINED,
    confine::{limit_processor, lower_priority},
};
use serde_json::{Map, Value as Json};
use starlark::environment::Globals;

use crate::{builtins, confine, evaluate::evaluate_script};

/// The exit code after an invalid message from the host.
pub(crate) const EXIT_PROTOCOL_ERROR: u8 = 2;

/// The stack for a script, in bytes. It is only reserved; deep nesting uses it.
const STACK_BYTES: usize = 64 << 20;

/// The evaluating thread's end of the connection.
pub(crate) struct HostConnection {
    messages: Receiver<ToWorker>,
    out: RefCell<Box<dyn Write>>,
}

impl HostConnection {
    /// A connection that receives messages from the channel and writes its lines to `out`.
    pub(crate) fn new(messages: Receiver<ToWorker>, out: impl Write + 'static) -> Self {
        Self { messages, out: RefCell::new(Box::new(out)) }
    }

    /// Sends a message that needs no response.
    pub(crate) fn send(&self, message: &FromWorker) {
        let mut line = serde_json::to_vec(message).expect("a message of the protocol can be written as JSON");
        line.push(b'\n');
        let mut out = self.out.borrow_mut();
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            exit_protocol_error(&format!("the host can't be told anything: {error}"));
        }
    }

    /// Sends a message and waits for the response: a value, or an error.
    pub(crate) fn request(&self, message: &FromWorker) -> Result<Json, String> {
        if self.messages.try_recv().is_ok() {
            exit_protocol_error("the host answered before it was asked");
        }
        self.send(message);
        match self.messages.recv() {
            Ok(ToWorker::Value(value)) => Ok(value),
            Ok(ToWorker::Error(why)) => Err(why),
            Ok(ToWorker::Run(_)) => exit_protocol_error("the host sent a second script"),
            Err(_) => park_forever(),
        }
    }
}

/// Runs the worker: confines the process and serves one script.
pub(crate) fn run_worker() -> ExitCode {
    let globals = builtins::globals();
    let (message_tx, message_rx) = channel();
    let (ready_tx, ready_rx) = channel();
    let builder = thread::Builder::new().name("script".to_owned()).stack_size(STACK_BYTES);
    let script_thread = builder.spawn(move || {
        warm_up(&globals);
        // Not earlier: on a busy machine the host would give up before the worker is ready.
        let _listened_to = ready_tx.send(lower_priority());
        serve_request(Rc::new(HostConnection::new(message_rx, stdout())), &globals);
    });
    if let Err(error) = script_thread {
        eprintln!("no thread for the script: {error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    // A starting thread makes system calls that are refused later.
    let priority_result = ready_rx.recv().unwrap_or(Ok(()));
    if let Err(error) = priority_result.and_then(|()| lower_priority()).and_then(|()| confine()) {
        eprintln!("{error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    HostConnection::new(channel().1, stdout()).send(&FromWorker::Ready { version: PROTOCOL_VERSION });
    forward_messages(stdin().lock(), &message_tx)
}

/// Evaluates a script that uses what most scripts need, so that the host's script doesn't wait for its setup.
fn warm_up(globals: &Globals) {
    let script =
        "def f(x):\n    return [x for x in range(2)]\nreturn f'{f(1)} {1:>2}' + json_encode({'a': 1})".to_owned();
    let request = RunRequest { script, globals: Map::new(), functions: vec!["warm".to_owned()], processor_seconds: 1 };
    let _value = evaluate_script(&request, globals, Rc::new(HostConnection::new(channel().1, sink())));
}

/// Waits for the one script, evaluates it, sends its result, and exits.
fn serve_request(host: Rc<HostConnection>, globals: &Globals) {
    match host.messages.recv() {
        Ok(ToWorker::Run(request)) => {
            host.send(&final_message(|| evaluate_script(&request, globals, Rc::clone(&host))));
            exit(0);
        }
        Ok(_) => exit_protocol_error("the host answered before it sent a script"),
        Err(_) => park_forever(),
    }
}

/// The message about an evaluation's result, also after a panic, whose message is on standard error.
fn final_message(evaluate: impl FnOnce() -> Result<Json, ErrorReport>) -> FromWorker {
    match catch_unwind(AssertUnwindSafe(evaluate)) {
        Ok(Ok(value)) => FromWorker::Done(value),
        Ok(Err(failure)) => FromWorker::Failed(failure),
        Err(_) => FromWorker::Failed(ErrorReport {
            kind: ErrorKind::Execution,
            message: "the interpreter broke down".to_owned(),
            line: None,
            column: None,
        }),
    }
}

/// Forwards the host's messages until it closes the connection.
fn forward_messages(mut input: impl BufRead, message_tx: &Sender<ToWorker>) -> ExitCode {
    loop {
        let message = match read_line(&mut input).and_then(|line| line.map(|line| parse_message(&line)).transpose()) {
            Ok(Some(message)) => message,
            Ok(None) => return ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(EXIT_PROTOCOL_ERROR);
            }
        };
        if let ToWorker::Run(request) = &message
            && let Err(error) = limit_processor(request.processor_seconds)
        {
            eprintln!("{error}");
            return ExitCode::from(EXIT_UNCONFINED);
        }
        // The other thread runs until the process exits, so sending can't fail.
        let _heard = message_tx.send(message);
    }
}

/// Reads the next line without its end; `None` when there are no more.
fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    let max_bytes = u64::try_from(MAX_HOST_LINE_BYTES + 1).expect("the longest line's length is a small number");
    input.take(max_bytes).read_until(b'\n', &mut line).map_err(|error| format!("the host can't be heard: {error}"))?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= MAX_HOST_LINE_BYTES => {
            Err(format!("a line from the host is longer than {MAX_HOST_LINE_BYTES} bytes"))
        }
        Some(_) => Err("the host stopped in the middle of a line".to_owned()),
    }
}

/// Parses a message.
fn parse_message(line: &[u8]) -> Result<ToWorker, String> {
    serde_json::from_slice(line).map_err(|error| format!("a line from the host was not understood: {error}"))
}

/// Waits for the exit of the process, which the reading thread is about to cause.
fn park_forever() -> ! {
    loop {
        thread::park();
    }
}

/// Exits because the host broke the protocol.
fn exit_protocol_error(reason: &str) -> ! {
    eprintln!("{reason}");
    exit(i32::from(EXIT_PROTOCOL_ERROR))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A panic that is not caught ends the thread, and the host would wait for its own deadline.
    #[test]
    fn a_panic_is_a_failed_script() {
        let FromWorker::Failed(failure) = final_message(|| panic!("a bug")) else {
            unreachable!("it did not end well")
        };
        assert_eq!(failure.message, "the interpreter broke down");
        assert_eq!(final_message(|| Ok(json!(1))), FromWorker::Done(json!(1)));
    }

    #[test]
    fn line_length_is_limited_exactly() {
        let mut text = vec![b'x'; MAX_HOST_LINE_BYTES];
        text.push(b'\n');
        let line = read_line(&mut Cursor::new(&text));
        assert_eq!(line.map(|line| line.map(|line| line.len())), Ok(Some(MAX_HOST_LINE_BYTES)));
        text.insert(0, b'x');
        assert!(read_line(&mut Cursor::new(&text)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_sent_is_read_line_by_line(lines in prop::collection::vec("[^\n]{0,40}", 0..10)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut input = Cursor::new(text);
            for line in lines {
                prop_assert_eq!(read_line(&mut input), Ok(Some(line.into_bytes())));
            }
            prop_assert_eq!(read_line(&mut input), Ok(None));
        }

        #[test]
        fn whatever_a_line_holds_is_understood_or_refused(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _understood = parse_message(&line);
        }
    }
}
