//! What stands on the screen, and the frames that change it.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use satchel_domain::{PartId, TurnId};

use super::{PrintError, ScreenStyle};
use crate::{
    markdown::{cut, paint},
    stream::StreamingText,
};

/// How many turns and parts are remembered, so that late events and repeated sends are known.
const PRINTED_CACHE_SIZE: usize = 256;

/// Up one line, to its beginning, and wipe it.
const ERASE_LINE_ABOVE: &str = "\x1b[1A\r\x1b[2K";

pub(super) struct ScreenState {
    pub(super) out: Box<dyn Write + Send>,
    pub(super) look: ScreenStyle,
    pub(super) gone: bool,
    /// The last line, when it may be written over.
    pub(super) drawn_over: Option<String>,
    pub(super) known_parts: VecDeque<(PartId, u64)>,
    growing: Option<StreamingText>,
    ended: VecDeque<TurnId>,
}

impl ScreenState {
    pub(super) fn new(out: Box<dyn Write + Send>, look: ScreenStyle) -> Self {
        Self {
            out,
            look,
            gone: false,
            drawn_over: None,
            known_parts: VecDeque::new(),
            growing: None,
            ended: VecDeque::new(),
        }
    }

    pub(super) fn print(&mut self, lines: &[String]) -> Result<(), PrintError> {
        self.frame(lines, None)
    }

    pub(super) fn draw_over(&mut self, line: Option<&str>) {
        if self.look.terminal && self.drawn_over.as_deref() != line {
            // A progress line that can't be shown is no loss.
            let _ = self.frame(&[], line);
        }
    }

    pub(super) fn push_delta(&mut self, turn: TurnId, message: u32, deltas: &str) {
        let known = self.growing.as_ref().map(|growing| (growing.turn, growing.message));
        let is_late = known.is_some_and(|(of, at)| of == turn && at > message) || self.ended.contains(&turn);
        if !self.look.terminal || is_late {
            return;
        }
        if known != Some((turn, message)) {
            self.commit_progress();
            self.growing = Some(StreamingText::new(turn, message));
        }
        let look = self.look;
        let Some(growing) = &mut self.growing else { return };
        let is_new = !growing.has_text();
        growing.push(deltas);
        let grown = growing.update(look);
        let mut lines = grown.lines;
        if is_new && !lines.is_empty() {
            lines.insert(0, heading(look));
        }
        if !lines.is_empty() || (grown.last.is_some() && grown.last != self.drawn_over) {
            let _ = self.frame(&lines, grown.last.as_deref());
        }
    }

    pub(super) fn tool_started(&mut self, tool: &str) {
        if self.look.terminal {
            self.commit_progress();
            let line = paint(&format!("  · {tool} …"), Style::new().dimmed(), self.look);
            self.draw_over(Some(&line));
        }
    }

    pub(super) fn tool_finished(&mut self, tool: &str, failed: bool) {
        if self.look.terminal {
            let end = if failed { "failed" } else { "done" };
            let line = paint(&format!("  · {tool} {end}"), Style::new().dimmed(), self.look);
            let _ = self.print(&[line]);
        }
    }

    pub(super) fn text(&mut self, turn: TurnId, lines: &[String]) -> Result<(), PrintError> {
        let shown = self.growing.take_if(|growing| growing.turn == turn);
        let rest = shown.as_ref().map_or(lines, |growing| growing.remaining_lines(lines));
        let mut fresh = Vec::with_capacity(rest.len() + 2);
        if self.look.terminal && rest.len() == lines.len() {
            fresh.push(heading(self.look));
        }
        fresh.extend_from_slice(rest);
        if self.look.terminal {
            fresh.push(String::new());
        }
        let printed = self.frame(&fresh, None);
        match &printed {
            Ok(()) => push_bounded(&mut self.ended, turn),
            Err(_) => self.growing = shown,
        }
        printed
    }

    pub(super) fn remember(&mut self, part: PartId, content: u64) {
        push_bounded(&mut self.known_parts, (part, content));
    }

    /// What grew is complete and isn't the reply: progress that stays.
    fn commit_progress(&mut self) {
        let look = self.look;
        let Some(growing) = &mut self.growing else { return };
        let is_new = !growing.has_text();
        let mut lines = growing.finish(look);
        if !lines.is_empty() {
            if is_new {
                lines.insert(0, heading(look));
            }
            let _ = self.frame(&lines, None);
        }
    }

    fn frame(&mut self, lines: &[String], last: Option<&str>) -> Result<(), PrintError> {
        let mut frame = String::new();
        if self.drawn_over.is_some() {
            frame.push_str(ERASE_LINE_ABOVE);
        }
        for line in lines {
            frame.push_str(line);
            frame.push('\n');
        }
        if lines.is_empty() && last.is_none() && !frame.is_empty() {
            // A prompt ends every frame with a line break of its own unless it has one, which would leave a gap here.
            frame.push_str("\x1b[1A\n");
        }
        if let Some(last) = last {
            frame.push_str(&cut(last, self.look.width.unwrap_or(80).saturating_sub(1)));
            frame.push('\n');
        }
        self.write(frame.as_bytes())?;
        self.drawn_over = last.map(str::to_owned);
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), PrintError> {
        let all = bytes.len();
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(self.broken(io::ErrorKind::WriteZero.into(), bytes.len() == all)),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error, bytes.len() == all)),
            }
        }
        self.out.flush().map_err(|error| self.broken(error, false))
    }

    fn broken(&mut self, error: io::Error, nothing_written: bool) -> PrintError {
        self.gone |= matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if nothing_written { PrintError::NotWritten(error) } else { PrintError::PartlyWritten(error) }
    }
}

fn heading(look: ScreenStyle) -> String {
    paint("satchel ›", Style::new().bold().fg_color(Some(AnsiColor::Cyan.into())), look)
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
