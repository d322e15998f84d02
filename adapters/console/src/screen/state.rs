//! The state of the screen, and the frames that change it.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use satchel_domain::{PartId, TurnId};

use super::{PrintError, ScreenStyle};
use crate::{
    markdown::{paint, truncate_line},
    stream::StreamingText,
};

/// How many turns and parts are remembered, to recognise late events and repeated sends.
const PRINTED_CACHE_SIZE: usize = 256;

/// Moves to the start of the line above and erases it.
const ERASE_LINE_ABOVE: &str = "\x1b[1A\r\x1b[2K";

pub(super) struct ScreenState {
    pub(super) out: Box<dyn Write + Send>,
    pub(super) style: ScreenStyle,
    pub(super) is_closed: bool,
    /// The last line, if the next output replaces it.
    pub(super) status_line: Option<String>,
    pub(super) printed_parts: VecDeque<(PartId, u64)>,
    live_text: Option<StreamingText>,
    finished_turns: VecDeque<TurnId>,
}

impl ScreenState {
    pub(super) fn new(out: Box<dyn Write + Send>, style: ScreenStyle) -> Self {
        Self {
            out,
            style,
            is_closed: false,
            status_line: None,
            printed_parts: VecDeque::new(),
            live_text: None,
            finished_turns: VecDeque::new(),
        }
    }

    pub(super) fn print_lines(&mut self, lines: &[String]) -> Result<(), PrintError> {
        self.write_frame(lines, None)
    }

    pub(super) fn set_status_line(&mut self, line: Option<&str>) {
        if self.style.terminal && self.status_line.as_deref() != line {
            // A failed status line is ignored.
            let _ = self.write_frame(&[], line);
        }
    }

    pub(super) fn push_delta(&mut self, turn: TurnId, message: u32, deltas: &str) {
        let current = self.live_text.as_ref().map(|live| (live.turn, live.message));
        let is_late = current.is_some_and(|(live_turn, live_message)| live_turn == turn && live_message > message)
            || self.finished_turns.contains(&turn);
        if !self.style.terminal || is_late {
            return;
        }
        if current != Some((turn, message)) {
            self.commit_progress();
            let before = self.live_text.take_if(|live| live.turn == turn);
            self.live_text = Some(match before {
                Some(before) => before.into_next(message),
                None => StreamingText::new(turn, message),
            });
        }
        let style = self.style;
        let Some(live) = &mut self.live_text else { return };
        let is_new = !live.has_text();
        live.push(deltas);
        let update = live.update(style);
        let mut lines = update.lines;
        if is_new && !lines.is_empty() {
            lines.insert(0, reply_heading(style));
        }
        if !lines.is_empty() || (update.live_line.is_some() && update.live_line != self.status_line) {
            let _ = self.write_frame(&lines, update.live_line.as_deref());
        }
    }

    pub(super) fn on_task_started(&mut self, task: &str, number: u32, total: u32) {
        if self.style.terminal {
            self.commit_progress();
            let line = paint(&format!("  task {number} of {total}: {task}"), Style::new().dimmed(), self.style);
            let _ = self.print_lines(&[line]);
        }
    }

    pub(super) fn on_tool_started(&mut self, tool: &str) {
        if self.style.terminal {
            self.commit_progress();
            let line = paint(&format!("  · {tool} …"), Style::new().dimmed(), self.style);
            self.set_status_line(Some(&line));
        }
    }

    pub(super) fn on_tool_finished(&mut self, tool: &str, failed: bool) {
        if self.style.terminal {
            let end = if failed { "failed" } else { "done" };
            let line = paint(&format!("  · {tool} {end}"), Style::new().dimmed(), self.style);
            let _ = self.print_lines(&[line]);
        }
    }

    pub(super) fn print_reply(&mut self, turn: TurnId, lines: &[String]) -> Result<(), PrintError> {
        let live_text = self.live_text.take_if(|live| live.turn == turn);
        let rest = live_text.as_ref().map_or(lines, |live| live.remaining_lines(lines));
        let mut new_lines = Vec::with_capacity(rest.len() + 2);
        // Nothing of the text has a heading yet, or nothing of its last message.
        let is_new =
            rest.len() == lines.len() || (!rest.is_empty() && live_text.as_ref().is_some_and(|live| !live.has_text()));
        if self.style.terminal && is_new {
            new_lines.push(reply_heading(self.style));
        }
        new_lines.extend_from_slice(rest);
        if self.style.terminal {
            new_lines.push(String::new());
        }
        let printed = self.write_frame(&new_lines, None);
        match &printed {
            Ok(()) => push_bounded(&mut self.finished_turns, turn),
            Err(_) => self.live_text = live_text,
        }
        printed
    }

    pub(super) fn mark_printed(&mut self, part: PartId, content: u64) {
        push_bounded(&mut self.printed_parts, (part, content));
    }

    /// Prints the rest of a streamed message that is complete and not the end of the reply.
    fn commit_progress(&mut self) {
        let style = self.style;
        let Some(live) = &mut self.live_text else { return };
        let is_new = !live.has_text();
        let mut lines = live.finish(style);
        if !lines.is_empty() {
            if is_new {
                lines.insert(0, reply_heading(style));
            }
            let _ = self.write_frame(&lines, None);
        }
    }

    fn write_frame(&mut self, lines: &[String], last: Option<&str>) -> Result<(), PrintError> {
        let mut frame = String::new();
        if self.status_line.is_some() {
            frame.push_str(ERASE_LINE_ABOVE);
        }
        for line in lines {
            frame.push_str(line);
            frame.push('\n');
        }
        if lines.is_empty() && last.is_none() && !frame.is_empty() {
            // The prompt adds a line break to a frame without one, which would leave an empty line here.
            frame.push_str("\x1b[1A\n");
        }
        if let Some(last) = last {
            frame.push_str(&truncate_line(last, self.style.width.unwrap_or(80).saturating_sub(1)));
            frame.push('\n');
        }
        self.write(frame.as_bytes())?;
        self.status_line = last.map(str::to_owned);
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PrintError> {
        let total = bytes.len();
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(self.on_write_error(io::ErrorKind::WriteZero.into(), bytes.len() == total)),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.on_write_error(error, bytes.len() == total)),
            }
        }
        self.out.flush().map_err(|error| self.on_write_error(error, false))
    }

    fn on_write_error(&mut self, error: io::Error, nothing_written: bool) -> PrintError {
        self.is_closed |= matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if nothing_written { PrintError::NotWritten(error) } else { PrintError::PartlyWritten(error) }
    }
}

fn reply_heading(style: ScreenStyle) -> String {
    paint("satchel ›", Style::new().bold().fg_color(Some(AnsiColor::Cyan.into())), style)
}

fn push_bounded<T: PartialEq>(queue: &mut VecDeque<T>, item: T) {
    if queue.contains(&item) {
        return;
    }
    if queue.len() == PRINTED_CACHE_SIZE {
        queue.pop_front();
    }
    queue.push_back(item);
}
