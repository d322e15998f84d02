//! The only writer to the terminal, so that streamed text, replies, progress and prompt don't overwrite each other.
//!
//! At most one line is redrawn: the last one, while text is streamed or a file is copied. The cursor moves up one line
//! for that, which also works above an active prompt, where the cursor position is unknown.

mod state;

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anstyle::{AnsiColor, Style};
use satchel_domain::{PartId, TurnId};

use crate::{markdown, sanitizer::clean_line};
use state::ScreenState;

/// The properties of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScreenStyle {
    /// Whether it is a terminal: streamed text, tools and progress are shown only then.
    pub terminal: bool,
    /// Whether styles and colours are written.
    pub colour: bool,
    /// The number of columns; lines are wrapped only if it is known.
    pub width: Option<usize>,
}

/// The error of a failed print.
#[derive(Debug)]
pub(crate) enum PrintError {
    /// Nothing was written.
    NotWritten(io::Error),
    /// Some of it may have been written.
    PartlyWritten(io::Error),
}

/// The output that the person sees, shared by everything in this crate.
pub struct Screen {
    state: Mutex<ScreenState>,
    silent: bool,
}

impl Screen {
    /// Creates a screen that writes to `out`.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static, style: ScreenStyle) -> Self {
        Self { state: Mutex::new(ScreenState::new(Box::new(out), style)), silent: false }
    }

    /// Creates a screen on standard output: plain unless that is a terminal, and without colours if `no_color` is set
    /// (by a non-empty `NO_COLOR` or `TERM=dumb`).
    #[must_use]
    pub fn stdout(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let style =
            ScreenStyle { terminal, colour: terminal && !no_color, width: terminal.then(terminal_width).flatten() };
        Self::new(io::stdout(), style)
    }

    /// Creates a screen that shows nothing, for `--json`, whose output is the record of the turn. Errors are logged.
    #[must_use]
    pub fn silent() -> Self {
        Self { silent: true, ..Self::new(io::sink(), ScreenStyle::default()) }
    }

    /// Returns the properties of the output.
    #[must_use]
    pub fn style(&self) -> ScreenStyle {
        self.lock_state().style
    }

    /// Whether the output was closed by its reader.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock_state().is_closed
    }

    /// Prints lines about the terminal itself; errors are ignored.
    pub(crate) fn print_info(&self, lines: &[String]) {
        let _ = self.lock_state().print_lines(lines);
    }

    /// Prints a dimmed hint, sanitized.
    pub(crate) fn print_hint(&self, text: &str) {
        let line = markdown::paint(&clean_line(text), Style::new().dimmed(), self.style());
        self.print_info(&[line]);
    }

    /// Prints an error, sanitized.
    pub(crate) fn print_error(&self, text: &str) {
        let text = clean_line(text);
        if self.silent {
            return tracing::warn!("{text}");
        }
        let style = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
        let line = markdown::paint(&format!("! {text}"), style, self.style());
        self.print_info(&[line]);
    }

    /// Shows a status line, which the next output replaces; `None` removes it.
    pub(crate) fn set_status_line(&self, line: Option<&str>) {
        self.lock_state().set_status_line(line);
    }

    /// Shows a delta of the streamed text.
    pub(crate) fn push_delta(&self, turn: TurnId, message: u32, deltas: &str) {
        self.lock_state().push_delta(turn, message, deltas);
    }

    /// Shows that a task of a run begins.
    pub(crate) fn on_task_started(&self, task: &str, number: u32, total: u32) {
        self.lock_state().on_task_started(&clean_line(task), number, total);
    }

    /// Shows that a tool runs.
    pub(crate) fn on_tool_started(&self, tool: &str) {
        self.lock_state().on_tool_started(&clean_line(tool));
    }

    /// Shows how a tool ended.
    pub(crate) fn on_tool_finished(&self, tool: &str, failed: bool) {
        self.lock_state().on_tool_finished(&clean_line(tool), failed);
    }

    /// Prints a text of a turn, without the lines that were streamed already.
    pub(crate) fn print_reply(&self, turn: TurnId, lines: &[String]) -> Result<(), PrintError> {
        self.lock_state().print_reply(turn, lines)
    }

    /// Prints lines of a part.
    pub(crate) fn print_lines(&self, lines: &[String]) -> Result<(), PrintError> {
        self.lock_state().print_lines(lines)
    }

    /// Whether a part with this content has been printed already.
    pub(crate) fn has_printed(&self, part: PartId, content: u64) -> bool {
        self.lock_state().printed_parts.contains(&(part, content))
    }

    /// Records that a part was printed.
    pub(crate) fn mark_printed(&self, part: PartId, content: u64) {
        self.lock_state().mark_printed(part, content);
    }

    /// Redirects the output, for example above a prompt.
    pub(crate) fn set_output(&self, out: Box<dyn Write + Send>) {
        self.lock_state().out = out;
    }

    /// Must be called when the person completes a line: the line above the cursor is theirs and must not be redrawn.
    pub(crate) fn on_line_entered(&self) {
        let mut state = self.lock_state();
        state.status_line = None;
        state.style.width = state.style.width.and_then(|current| terminal_width().or(Some(current)));
    }

    fn lock_state(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the two lines of the greeting: name and model, then the data directory and how to get help. The caller
/// prints them to standard error, because they are not part of a reply.
#[must_use]
pub fn banner(model: &str, data: &str, colour: bool) -> String {
    let style = ScreenStyle { colour, ..ScreenStyle::default() };
    let first = format!("{} · {}", markdown::paint("Satchel", Style::new().bold(), style), clean_line(model));
    let second = format!("data in {} · /attach FILE, /help, Ctrl-D to quit", clean_line(data));
    format!("{first}\n{}", markdown::paint(&second, Style::new().dimmed(), style))
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= 20)
}

#[cfg(test)]
pub(crate) mod tests;
