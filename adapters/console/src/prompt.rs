//! The prompt: line editing and history by rustyline on a thread of its own, or plain lines where nobody edits.

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

use crate::{ConsoleError, InputEvent, Screen};

/// What stands before the person's words.
const PROMPT: &str = "you › ";

/// The lines that a person types, one after the other. Dropping it gives the terminal back as it was found.
#[derive(Debug)]
pub struct Prompt {
    typed: mpsc::Receiver<InputEvent>,
    screen: Arc<Screen>,
    before: Option<rustix::termios::Termios>,
}

impl Prompt {
    /// Begins to read standard input: with editing and the history kept in `history` (only for its owner's eyes) when
    /// input and output are a terminal, else line by line.
    ///
    /// # Errors
    /// When the terminal or the history file can't be used.
    pub fn open(screen: Arc<Screen>, history: &Path) -> Result<Self, ConsoleError> {
        let (sender, typed) = mpsc::channel(1);
        let is_terminal = io::stdin().is_terminal() && screen.style().terminal;
        let before = is_terminal.then(|| rustix::termios::tcgetattr(io::stdin()).ok()).flatten();
        let read: Box<dyn FnOnce() + Send> = if is_terminal {
            let mut editor = editor(history)?;
            let printer = editor.create_external_printer().map_err(|error| terminal("use the terminal", error))?;
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
        Ok(Self { typed, screen, before })
    }
}

impl Stream for Prompt {
    type Item = InputEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<InputEvent>> {
        self.typed.poll_recv(context)
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // The thread may be in the middle of a line and has the terminal in raw mode then; nothing else ends its read.
        if let Some(before) = &self.before {
            self.screen.set_output(Box::new(io::stdout()));
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Drain, before);
            // Bracketed paste off, and the shell's prompt on a line of its own.
            let _ = io::stdout().write_all(b"\x1b[?2004l\r\n").and_then(|()| io::stdout().flush());
        }
    }
}

fn editor(history: &Path) -> Result<Editor<(), FileHistory>, ConsoleError> {
    make_private(history).map_err(|source| ConsoleError::Terminal {
        doing: format!("open the history `{}`", history.display()),
        source,
    })?;
    let config = Config::builder().auto_add_history(true).history_ignore_space(true).build();
    let mut editor = Editor::with_config(config).map_err(|error| terminal("use the terminal", error))?;
    // An unreadable history is an inconvenience, and no reason to keep somebody from talking.
    if let Err(error) = editor.load_history(history) {
        tracing::warn!(error = &error as &dyn std::error::Error, "failed to read the line history");
    }
    Ok(editor)
}

/// Makes sure that nobody else reads what was typed.
fn make_private(history: &Path) -> io::Result<()> {
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

fn edit_lines(mut editor: Editor<(), FileHistory>, screen: &Screen, history: &Path, sender: &mpsc::Sender<InputEvent>) {
    loop {
        let typed = match editor.readline(PROMPT) {
            Ok(line) => {
                let _ = editor.append_history(history);
                InputEvent::Line(line)
            }
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => InputEvent::Interrupt,
            Err(_) => InputEvent::Eof,
        };
        screen.on_line_entered();
        let is_last = typed == InputEvent::Eof;
        if sender.blocking_send(typed).is_err() || is_last {
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

/// Prints above the line that is being edited; straight to the terminal when there is none.
struct AbovePrompt<P>(P);

impl<P: ExternalPrinter> Write for AbovePrompt<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self.0.print(text) {
            Ok(()) => Ok(bytes.len()),
            // The editor is gone because the person leaves: the terminal itself is still there.
            Err(_) => io::stdout().write_all(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

fn terminal(doing: &str, error: ReadlineError) -> ConsoleError {
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
        make_private(&history).unwrap();
        fs::set_permissions(&history, PermissionsExt::from_mode(0o644)).unwrap();
        make_private(&history).unwrap();
        assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
