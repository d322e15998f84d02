//! What stands on the screen after streams, answers and progress, seen through a tiny terminal.

use std::sync::{Arc, Mutex};

use uuid::Uuid;

use super::*;
use crate::markdown::render;

const LOOK: ScreenStyle = ScreenStyle { terminal: true, colour: false, width: Some(40) };

const WIPE: &str = "\x1b[1A\r\x1b[2K";

/// Keeps what is written, and fails as it is told.
#[derive(Clone, Default)]
pub(crate) struct RecordingOutput {
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
    /// How many bytes are taken before the pipe breaks.
    pub(crate) room: Option<usize>,
}

impl RecordingOutput {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }

    /// The lines that are seen: the screen's own "up one line and wipe" is obeyed, and nothing else is an escape.
    pub(crate) fn seen(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for line in self.text().lines() {
            let (wipes, mut rest) = (line.matches(WIPE).count(), line.replace(WIPE, ""));
            lines.truncate(lines.len() - wipes);
            if rest.ends_with("\x1b[1A") {
                rest.truncate(rest.len() - "\x1b[1A".len());
                assert_eq!(rest, "", "only a frame that wipes goes up again");
                continue;
            }
            assert!(!rest.contains('\x1b'), "{line:?}");
            lines.push(rest);
        }
        lines
    }
}

impl Write for RecordingOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.bytes.lock().unwrap();
        let taken = self.room.map_or(bytes.len(), |room| room.saturating_sub(kept.len()).min(bytes.len()));
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        kept.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn screen(look: ScreenStyle) -> (Screen, RecordingOutput) {
    let recorded = RecordingOutput::default();
    (Screen::new(recorded.clone(), look), recorded)
}

fn turn(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(number))
}

fn grow(screen: &Screen, number: u128, message: u32, text: &str) {
    for delta in text.chars().collect::<Vec<_>>().chunks(3) {
        screen.push_delta(turn(number), message, &delta.iter().collect::<String>());
    }
}

const TEXT: &str = "Hello, this is a **long** answer that fills more than one line.\n\nAnd it goes on.";

#[test]
fn a_streamed_text_is_seen_once() {
    let (screen, recorded) = screen(LOOK);
    grow(&screen, 1, 0, TEXT);
    assert!(recorded.seen().join("\n").contains("And it goes on."), "it is seen while it grows");
    screen.print_reply(turn(1), &render(TEXT, LOOK)).unwrap();
    let mut expected = vec!["satchel ›".to_owned()];
    expected.extend(render(TEXT, LOOK));
    expected.push(String::new());
    assert_eq!(recorded.seen(), expected);
}

#[test]
fn screen_prints_text_differing_from_stream_whole() {
    let (screen, recorded) = screen(LOOK);
    grow(&screen, 1, 0, TEXT);
    let labelled = render(&format!("(possible duplicate)\n\n{TEXT}"), LOOK);
    screen.print_reply(turn(1), &labelled).unwrap();
    let seen = recorded.seen();
    assert!(seen.windows(labelled.len()).any(|window| window == labelled), "{seen:#?}");
}

#[test]
fn second_text_of_turn_is_printed_whole() {
    let (screen, recorded) = screen(LOOK);
    grow(&screen, 1, 0, TEXT);
    let lines = render(TEXT, LOOK);
    screen.print_reply(turn(1), &lines).unwrap();
    screen.print_reply(turn(1), &lines).unwrap();
    let seen = recorded.seen();
    assert_eq!(seen.iter().filter(|line| *line == lines.last().unwrap()).count(), 2, "{seen:#?}");
}

#[test]
fn late_and_foreign_deltas_change_nothing() {
    let (screen, recorded) = screen(LOOK);
    grow(&screen, 1, 1, "Second message.\n\nDone.");
    screen.push_delta(turn(1), 0, "late words of the first message");
    screen.print_reply(turn(1), &render("Second message.\n\nDone.", LOOK)).unwrap();
    let before = recorded.seen();
    screen.push_delta(turn(1), 1, "after the end");
    assert_eq!(recorded.seen(), before);
    assert!(!before.join("\n").contains("late"));
}

#[test]
fn progress_between_tools_stays_and_tools_are_told() {
    let (screen, recorded) = screen(LOOK);
    grow(&screen, 1, 0, "I'll save it.");
    screen.on_tool_started("attachment_save\x1b[2J");
    assert_eq!(recorded.seen().last().unwrap(), "  · attachment_save␛[2J …");
    screen.on_tool_finished("attachment_save", false);
    grow(&screen, 1, 1, "Saved.");
    screen.print_reply(turn(1), &render("Saved.", LOOK)).unwrap();
    assert_eq!(recorded.seen(), ["satchel ›", "I'll save it.", "  · attachment_save done", "satchel ›", "Saved.", ""]);
}

/// The reply has the texts before the tools, too.
#[test]
fn texts_before_tools_are_printed_once() {
    let seen = |messages: &[&str], reply: &str| {
        let (screen, recorded) = screen(LOOK);
        for (number, message) in (0..).zip(messages) {
            if number > 0 {
                screen.on_tool_started("file_write");
                screen.on_tool_finished("file_write", false);
            }
            grow(&screen, 1, number, message);
        }
        screen.print_reply(turn(1), &render(reply, LOOK)).unwrap();
        recorded.seen()
    };
    let (heading, tool) = ("satchel ›", "  · file_write done");
    let expected = [heading, "Milk.", "", "Bread.", tool, heading, "Looking.", tool, heading, "Saved.", ""];
    assert_eq!(seen(&["Milk.\n\nBread. ", "Looking.", "Saved."], "Milk.\n\nBread.\n\nLooking.\n\nSaved."), expected);
    let repeated = [heading, "Milk.", tool, heading, "Milk.", "", "Saved.", ""];
    assert_eq!(seen(&["Milk.", "Milk.\n\nSaved."], "Milk.\n\nSaved."), repeated, "what was printed stays");
    assert_eq!(seen(&["Milk.", ""], "Milk."), [heading, "Milk.", tool, ""], "nothing came after the tool");
    assert_eq!(seen(&["Milk.", " "], "Milk.\n\nSaved."), [heading, "Milk.", tool, heading, "Saved.", ""]);
}

#[test]
fn off_a_terminal_only_final_texts_are_written() {
    let (screen, recorded) = screen(ScreenStyle::default());
    grow(&screen, 1, 0, TEXT);
    screen.on_tool_started("x");
    screen.on_tool_finished("x", true);
    screen.set_status_line(Some("50 %"));
    assert_eq!(recorded.text(), "");
    screen.print_reply(turn(1), &["Hi.".to_owned()]).unwrap();
    assert_eq!(recorded.text(), "Hi.\n");
}

#[test]
fn a_broken_pipe_tells_whether_anything_was_written() {
    for (room, nothing) in [(0, true), (2, false)] {
        let screen =
            Screen::new(RecordingOutput { room: Some(room), ..RecordingOutput::default() }, ScreenStyle::default());
        let error = screen.print_reply(turn(1), &["Hello".to_owned()]).unwrap_err();
        assert_eq!(matches!(error, PrintError::NotWritten(_)), nothing, "{room}: {error:?}");
        assert!(screen.is_closed());
    }
}

#[test]
fn banner_has_two_harmless_lines() {
    assert_eq!(
        banner("offline\x1b[2J", "/data/\nsatchel", false),
        "Satchel · offline␛[2J\ndata in /data/ satchel · /attach FILE, /help, Ctrl-D to quit"
    );
    assert!(banner("offline", "/data", true).starts_with("\x1b[1mSatchel\x1b[0m"));
}
