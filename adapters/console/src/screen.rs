//! The one place that writes to the terminal, so that stream, answers, progress and prompt don't write over each other.
//!
//! At most one line is drawn over: the last one, while a text grows or a file is copied. That is done by going up one
//! line, which works above a live prompt as well, where cursor positions can't be known.

mod state;

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anstyle::{AnsiColor, Style};
use satchel_domain::{PartId, TurnId};

use crate::{clean::clean_line, markdown};
use state::ScreenState;

/// How the screen may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScreenStyle {
    /// Whether somebody watches: growing text, tools and progress are shown only then.
    pub terminal: bool,
    /// Whether styles and colours are written.
    pub colour: bool,
    /// How many columns there are; lines are broken only where this is known.
    pub width: Option<usize>,
}

/// Why something was not printed.
#[derive(Debug)]
pub(crate) enum PrintError {
    /// Nothing of it was.
    NotWritten(io::Error),
    /// Some of it may have been.
    PartlyWritten(io::Error),
}

/// What the person sees. Shared by everything in this crate.
pub struct Screen {
    stage: Mutex<ScreenState>,
    silent: bool,
}

impl Screen {
    /// Writes to `out`.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static, look: ScreenStyle) -> Self {
        Self { stage: Mutex::new(ScreenState::new(Box::new(out), look)), silent: false }
    }

    /// Writes to standard output; plainly unless that is a terminal, and without colours if `no_color` says so
    /// (the environment's `NO_COLOR`, set and not empty, or `TERM=dumb`).
    #[must_use]
    pub fn stdout(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let look = ScreenStyle { terminal, colour: terminal && !no_color, width: terminal.then(width).flatten() };
        Self::new(io::stdout(), look)
    }

    /// Shows nothing: for `--json`, whose output is the record of the turn. What went wrong is logged.
    #[must_use]
    pub fn silent() -> Self {
        Self { silent: true, ..Self::new(io::sink(), ScreenStyle::default()) }
    }

    /// How it may be written to.
    #[must_use]
    pub fn style(&self) -> ScreenStyle {
        self.lock_state().look
    }

    /// Whether nobody reads what is written any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lock_state().gone
    }

    /// Prints lines that tell about the terminal itself; nothing is lost when they can't be printed.
    pub(crate) fn print_info(&self, lines: &[String]) {
        let _ = self.lock_state().print(lines);
    }

    /// Prints a dim remark, made harmless.
    pub(crate) fn print_hint(&self, text: &str) {
        let line = markdown::paint(&clean_line(text), Style::new().dimmed(), self.style());
        self.print_info(&[line]);
    }

    /// Prints what went wrong, made harmless.
    pub(crate) fn print_error(&self, text: &str) {
        let text = clean_line(text);
        if self.silent {
            return tracing::warn!("{text}");
        }
        let style = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
        let line = markdown::paint(&format!("! {text}"), style, self.style());
        self.print_info(&[line]);
    }

    /// Shows a line that the next one is written over; `None` takes it away.
    pub(crate) fn set_status_line(&self, line: Option<&str>) {
        self.lock_state().draw_over(line);
    }

    /// Shows a little more of what the model writes.
    pub(crate) fn push_delta(&self, turn: TurnId, message: u32, deltas: &str) {
        self.lock_state().push_delta(turn, message, deltas);
    }

    /// Shows that a tool runs.
    pub(crate) fn tool_started(&self, tool: &str) {
        self.lock_state().tool_started(&clean_line(tool));
    }

    /// Shows how a tool ended.
    pub(crate) fn tool_finished(&self, tool: &str, failed: bool) {
        self.lock_state().tool_finished(&clean_line(tool), failed);
    }

    /// Prints a text of a turn, less what was shown of it while it grew.
    pub(crate) fn text(&self, turn: TurnId, lines: &[String]) -> Result<(), PrintError> {
        self.lock_state().text(turn, lines)
    }

    /// Prints lines of a part.
    pub(crate) fn lines(&self, lines: &[String]) -> Result<(), PrintError> {
        self.lock_state().print(lines)
    }

    /// Whether a part with this content has been printed already.
    pub(crate) fn has_printed(&self, part: PartId, content: u64) -> bool {
        self.lock_state().known_parts.contains(&(part, content))
    }

    /// Remembers that a part was printed.
    pub(crate) fn mark_printed(&self, part: PartId, content: u64) {
        self.lock_state().remember(part, content);
    }

    /// Writes elsewhere from now on, such as above a prompt.
    pub(crate) fn set_output(&self, out: Box<dyn Write + Send>) {
        self.lock_state().out = out;
    }

    /// Takes note that the person has ended a line: what stands above the cursor is theirs, not ours.
    pub(crate) fn on_line_entered(&self) {
        let mut stage = self.lock_state();
        stage.drawn_over = None;
        stage.look.width = stage.look.width.and_then(|known| width().or(Some(known)));
    }

    fn lock_state(&self) -> MutexGuard<'_, ScreenState> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the two lines that greet: what this is and which model answers, where the data lies and how to get help.
/// They are no part of the answers, so they go to standard error.
#[must_use]
pub fn banner(model: &str, data: &str, colour: bool) -> String {
    let look = ScreenStyle { colour, ..ScreenStyle::default() };
    let first = format!("{} · {}", markdown::paint("Satchel", Style::new().bold(), look), clean_line(model));
    let second = format!("data in {} · /attach FILE, /help, Ctrl-D to quit", clean_line(data));
    format!("{first}\n{}", markdown::paint(&second, Style::new().dimmed(), look))
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= 20)
}

#[cfg(test)]
pub(crate) mod tests;
