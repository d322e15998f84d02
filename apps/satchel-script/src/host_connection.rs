//! The conversation with the host: one thread listens, another evaluates, and the end of the one is the end of both.
//!
//! The listening thread does nothing else, so that it notices when the host is gone even while a script loops.

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
    ErrorKind, ErrorReport, FromWorker, MAX_HOST_LINE_BYTES, RunRequest, ToWorker, VERSION,
};
use serde_json::{Map, Value as Json};
use starlark::environment::Globals;

use crate::{
    builtins,
    confine::{confine, limit_processor, lower_priority},
    evaluate::evaluate,
};

/// How the process ends when it was told something that it doesn't understand.
pub(crate) const EXIT_PROTOCOL_ERROR: u8 = 2;

/// How it ends when it couldn't shut itself in: it then evaluates nothing.
const EXIT_UNCONFINED: u8 = 3;

/// The stack for a script, in bytes. It is only reserved; a script that nests deeply uses it.
const STACK_BYTES: usize = 64 << 20;

/// The evaluating thread's end of the conversation.
pub(crate) struct HostConnection {
    heard: Receiver<ToWorker>,
    out: RefCell<Box<dyn Write>>,
}

impl HostConnection {
    /// A conversation that hears what comes through the channel and writes its lines to `out`.
    pub(crate) fn new(heard: Receiver<ToWorker>, out: impl Write + 'static) -> Self {
        Self { heard, out: RefCell::new(Box::new(out)) }
    }

    /// Says something that needs no answer.
    pub(crate) fn send(&self, message: &FromWorker) {
        let mut line = serde_json::to_vec(message).expect("the words of the protocol can be written as JSON");
        line.push(b'\n');
        let mut out = self.out.borrow_mut();
        if let Err(error) = out.write_all(&line).and_then(|()| out.flush()) {
            exit_protocol_error(&format!("the host can't be told anything: {error}"));
        }
    }

    /// Says something and waits for the answer: a value, or why there is none.
    pub(crate) fn request(&self, message: &FromWorker) -> Result<Json, String> {
        if self.heard.try_recv().is_ok() {
            exit_protocol_error("the host answered before it was asked");
        }
        self.send(message);
        match self.heard.recv() {
            Ok(ToWorker::Value(value)) => Ok(value),
            Ok(ToWorker::Error(why)) => Err(why),
            Ok(ToWorker::Run(_)) => exit_protocol_error("the host sent a second script"),
            Err(_) => park_forever(),
        }
    }
}

/// Holds the conversation, from shutting itself in to the end of the script.
pub(crate) fn run() -> ExitCode {
    let globals = builtins::globals();
    let (tell, heard) = channel();
    let (started, has_started) = channel();
    let evaluation = thread::Builder::new().name("script".to_owned()).stack_size(STACK_BYTES);
    let evaluation = evaluation.spawn(move || {
        warm_up(&globals);
        // Not before: on a busy machine nobody would wait until it is ready.
        let _listened_to = started.send(lower_priority());
        run_requests(Rc::new(HostConnection::new(heard, stdout())), &globals);
    });
    if let Err(error) = evaluation {
        eprintln!("no thread for the script: {error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    // A thread that is just starting makes calls that are refused later.
    let lowered = has_started.recv().unwrap_or(Ok(()));
    if let Err(error) = lowered.and_then(|()| lower_priority()).and_then(|()| confine()) {
        eprintln!("{error}");
        return ExitCode::from(EXIT_UNCONFINED);
    }
    HostConnection::new(channel().1, stdout()).send(&FromWorker::Ready { version: VERSION });
    read_messages(stdin().lock(), &tell)
}

/// Evaluates a script of its own that touches what most scripts need, so that the host's doesn't wait for it.
fn warm_up(globals: &Globals) {
    let script =
        "def f(x):\n    return [x for x in range(2)]\nreturn f'{f(1)} {1:>2}' + json_encode({'a': 1})".to_owned();
    let run = RunRequest { script, globals: Map::new(), functions: vec!["warm".to_owned()], processor_seconds: 1 };
    let _value = evaluate(&run, globals, Rc::new(HostConnection::new(channel().1, sink())));
}

/// Waits for the one script, evaluates it, says how that ended, and ends the process.
fn run_requests(conversation: Rc<HostConnection>, globals: &Globals) {
    match conversation.heard.recv() {
        Ok(ToWorker::Run(run)) => {
            conversation.send(&outcome(|| evaluate(&run, globals, Rc::clone(&conversation))));
            exit(0);
        }
        Ok(_) => exit_protocol_error("the host answered before it sent a script"),
        Err(_) => park_forever(),
    }
}

/// What is said of how an evaluation ended, even by a panic, whose own words are on standard error.
fn outcome(evaluate: impl FnOnce() -> Result<Json, ErrorReport>) -> FromWorker {
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

/// Passes on what the host says, until it says no more.
fn read_messages(mut input: impl BufRead, tell: &Sender<ToWorker>) -> ExitCode {
    loop {
        let message = match next_line(&mut input).and_then(|line| line.map(|line| parse_message(&line)).transpose()) {
            Ok(Some(message)) => message,
            Ok(None) => return ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(EXIT_PROTOCOL_ERROR);
            }
        };
        if let ToWorker::Run(run) = &message
            && let Err(error) = limit_processor(run.processor_seconds)
        {
            eprintln!("{error}");
            return ExitCode::from(EXIT_UNCONFINED);
        }
        // The other thread is there until the process ends, and it ends the process.
        let _heard = tell.send(message);
    }
}

/// The next line without its end; `None` when there are no more.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_HOST_LINE_BYTES + 1).expect("the longest line's length is a small number");
    input.take(most).read_until(b'\n', &mut line).map_err(|error| format!("the host can't be heard: {error}"))?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= MAX_HOST_LINE_BYTES => {
            Err(format!("a line from the host is longer than {MAX_HOST_LINE_BYTES} bytes"))
        }
        Some(_) => Err("the host stopped in the middle of a line".to_owned()),
    }
}

/// What a line says.
fn parse_message(line: &[u8]) -> Result<ToWorker, String> {
    serde_json::from_slice(line).map_err(|error| format!("a line from the host was not understood: {error}"))
}

/// The listening thread hears nobody any more: it is about to end the process, and how that is told is its affair.
fn park_forever() -> ! {
    loop {
        thread::park();
    }
}

/// Ends the process, since the host doesn't keep to the protocol.
fn exit_protocol_error(why: &str) -> ! {
    eprintln!("{why}");
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
        let FromWorker::Failed(failure) = outcome(|| panic!("a bug")) else { unreachable!("it did not end well") };
        assert_eq!(failure.message, "the interpreter broke down");
        assert_eq!(outcome(|| Ok(json!(1))), FromWorker::Done(json!(1)));
    }

    #[test]
    fn line_length_is_limited_exactly() {
        let mut text = vec![b'x'; MAX_HOST_LINE_BYTES];
        text.push(b'\n');
        let line = next_line(&mut Cursor::new(&text));
        assert_eq!(line.map(|line| line.map(|line| line.len())), Ok(Some(MAX_HOST_LINE_BYTES)));
        text.insert(0, b'x');
        assert!(next_line(&mut Cursor::new(&text)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_sent_is_read_line_by_line(lines in prop::collection::vec("[^\n]{0,40}", 0..10)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut input = Cursor::new(text);
            for line in lines {
                prop_assert_eq!(next_line(&mut input), Ok(Some(line.into_bytes())));
            }
            prop_assert_eq!(next_line(&mut input), Ok(None));
        }

        #[test]
        fn whatever_a_line_holds_is_understood_or_refused(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _understood = parse_message(&line);
        }
    }
}
