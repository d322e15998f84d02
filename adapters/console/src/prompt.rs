//! The prompt: line editing and history with rustyline on its own thread, or plain lines without a terminal.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufRead, IsTerminal, Write},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
};

use futures::Stream;
use rustyline::{Config, Editor, ExternalPrinter, error::ReadlineError, history::FileHistory};
use tokio::sync::mpsc;

use crate::{ConsoleError, InputEvent, Screen, completion::CommandCompleter};

/// The prompt before the person's input.
const PROMPT: &str = "you › ";

/// The stream of typed lines. Dropping it restores the terminal.
#[derive(Debug)]
pub struct Prompt {
    events: mpsc::Receiver<InputEvent>,
    screen: Arc<Screen>,
    initial_termios: Option<rustix::termios::Termios>,
}

impl Prompt {
    /// Starts to read standard input: with editing and a history in the file `history`, private to its owner, if input
    /// and output are a terminal; else line by line. The tab key completes `commands`, which are whole beginnings of lines
    /// such as `/agent cook`.
    ///
    /// # Errors
    /// When the terminal or the history file can't be used.
    pub fn open(screen: Arc<Screen>, history: &Path, commands: Vec<String>) -> Result<Self, ConsoleError> {
        let (sender, events) = mpsc::channel(1);
        let is_terminal = io::stdin().is_terminal() && screen.style().terminal;
        let initial_termios = is_terminal.then(|| rustix::termios::tcgetattr(io::stdin()).ok()).flatten();
        let read: Box<dyn FnOnce() + Send> = if is_terminal {
            let mut editor = open_editor(history)?;
            editor.set_helper(Some(CommandCompleter::new(commands)));
            let printer =
                editor.create_external_printer().map_err(|error| terminal_error("use the terminal", error))?;
            screen.set_output(Box::new(AbovePrompt(printer)));
            let (screen, history) = (Arc::clone(&screen), history.to_owned());
            Box::new(move || edit_lines(editor, &screen, &history, &sender))
        } else {
            Box::new(move || read_lines(&sender))
        };
        thread::Builder::new().name("prompt".to_owned()).spawn(read).map_err(|source| ConsoleError::Terminal {
            doing: "start the thread that reads lines".to_owned(),
            source,
        })?;
        Ok(Self { events, screen, initial_termios })
    }
}

impl Stream for Prompt {
    type Item = InputEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<InputEvent>> {
        self.events.poll_recv(context)
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // The thread may be reading a line with the terminal in raw mode, and can't be stopped.
        if let Some(termios) = &self.initial_termios {
            self.screen.set_output(Box::new(io::stdout()));
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Drain, termios);
            // Bracketed paste off, and the shell's prompt on a line of its own.
            let _ = io::stdout().write_all(b"\x1b[?2004l\r\n").and_then(|()| io::stdout().flush());
        }
    }
}

fn open_editor(history: &Path) -> Result<Editor<CommandCompleter, FileHistory>, ConsoleError> {
    make_file_private(history).map_err(|source| ConsoleError::Terminal {
        doing: format!("open the history `{}`", history.display()),
        source,
    })?;
    let config = Config::builder().auto_add_history(true).history_ignore_space(true).build();
    let mut editor = Editor::with_config(config).map_err(|error| terminal_error("use the terminal", error))?;
    // An unreadable history must not prevent the chat.
    if let Err(error) = editor.load_history(history) {
        tracing::warn!(error = &error as &dyn std::error::Error, "failed to read the line history");
    }
    Ok(editor)
}

/// Creates the history file if it is missing and makes it private to its owner.
fn make_file_private(history: &Path) -> io::Result<()> {
    if let Some(directory) = history.parent() {
        std::os::unix::fs::DirBuilderExt::mode(fs::DirBuilder::new().recursive(true), 0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(history)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    drop(file);
    Ok(())
}

fn edit_lines(
    mut editor: Editor<CommandCompleter, FileHistory>,
    screen: &Screen,
    history: &Path,
    sender: &mpsc::Sender<InputEvent>,
) {
    loop {
        let event = match editor.readline(PROMPT) {
            Ok(line) => {
                let _ = editor.append_history(history);
                InputEvent::Line(line)
            }
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => InputEvent::Interrupt,
            Err(_) => InputEvent::Eof,
        };
        screen.on_line_entered();
        let is_last = event == InputEvent::Eof;
        if sender.blocking_send(event).is_err() || is_last {
            return;
        }
    }
}

fn read_lines(sender: &mpsc::Sender<InputEvent>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if sender.blocking_send(InputEvent::Line(line)).is_err() {
            return;
        }
    }
}

/// Prints above the line that is being edited, or directly to the terminal after the editor has ended.
struct AbovePrompt<P>(P);

impl<P: ExternalPrinter> Write for AbovePrompt<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self.0.print(text) {
            Ok(()) => Ok(bytes.len()),
            // The editor has ended because the person quits; the terminal still works.
            Err(_) => io::stdout().write_all(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

fn terminal_error(doing: &str, error: ReadlineError) -> ConsoleError {
    ConsoleError::Terminal { doing: doing.to_owned(), source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_history_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("data").join("history");
        make_file_private(&history).unwrap();
        fs::set_permissions(&history, PermissionsExt::from_mode(0o644)).unwrap();
        make_file_private(&history).unwrap();
        assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
