//! One conversation on a real terminal, made by tmux: what a person would see on the screen.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use satchel_requirements::{find_programs, required};
use satchel_system::real_binary::{TestHome, satchel_binary};

use super::{part_states, wait_until};

/// What the long answer begins and ends with, and what is said when it is stopped.
const REPLY_START: &str = "Send me files, with or without";
const REPLY_END: &str = "OPENAI_API_KEY";
const STOPPED_TEXT: &str = "Stopped, as you asked.";

/// A terminal of its own with its own tmux server, which ends with it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(home: &TestHome, arguments: &str) -> Result<Self, String> {
        find_programs(&["tmux"])?;
        let terminal = Self { socket: home.root().join("tmux") };
        let run = format!("{} {arguments}; echo \"ended: $?\"; exec sleep 100", satchel_binary().display());
        let mut command = terminal.tmux();
        home.apply_to(&mut command);
        command.env("LC_ALL", "C.UTF-8");
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "sh", "-c", &run]);
        assert!(command.status().is_ok_and(|status| status.success()), "tmux opens a terminal");
        Ok(terminal)
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket);
        command
    }

    fn press_keys(&self, keys: &[&str]) {
        let pressed = self.tmux().arg("send-keys").args(keys).status();
        assert!(pressed.is_ok_and(|status| status.success()), "{keys:?}");
    }

    /// Types a line and ends it.
    fn type_line(&self, line: &str) {
        self.press_keys(&["-l", line]);
        self.press_keys(&["Enter"]);
    }

    /// All that was ever on the screen.
    fn screen_text(&self) -> String {
        let captured = self.tmux().args(["capture-pane", "-p", "-J", "-S", "-"]).output();
        String::from_utf8_lossy(&captured.expect("tmux shows the screen").stdout).into_owned()
    }

    fn wait_for_text(&self, words: &str) {
        wait_until(&format!("{words:?} on the screen"), || self.screen_text().contains(words));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.tmux().arg("kill-server").stderr(Stdio::null()).status();
    }
}

#[test]
fn terminal_session_attaches_saves_stops_and_exits() {
    let home = TestHome::new();
    home.write_file("a.txt", "zebra stripes");
    let Some(terminal) = required(Terminal::open(&home, "chat")) else { return };
    terminal.wait_for_text("offline model");
    terminal.type_line("/attach a.txt");
    terminal.wait_for_text("+ a.txt (13 B)");
    terminal.type_line("save this as notes/b.txt and send it back");
    terminal.wait_for_text("/shared/notes/b.txt");
    wait_until("the file comes back", || home.work_directory().join("files/1-a.txt").is_file());
    terminal.type_line("list /shared/notes");
    terminal.wait_for_text("In /shared/notes");
    wait_until("all of it is sent", || part_states(&home).iter().all(|state| state == "sent"));

    // A long answer grows while it is watched, and Ctrl-C stops it.
    // On a busy machine that may be too late: then it is asked for once more.
    let was_stopped = (0..5).any(|_| {
        let count_on_screen = |words| terminal.screen_text().matches(words).count();
        let (begun, stopped, ended) =
            (count_on_screen(REPLY_START), count_on_screen(STOPPED_TEXT), count_on_screen(REPLY_END));
        terminal.type_line("help");
        wait_until("the answer begins", || count_on_screen(REPLY_START) > begun);
        terminal.press_keys(&["C-c"]);
        wait_until("the answer ends", || count_on_screen(STOPPED_TEXT) > stopped || count_on_screen(REPLY_END) > ended);
        count_on_screen(STOPPED_TEXT) > stopped && count_on_screen(REPLY_END) == ended
    });
    assert!(was_stopped, "it was never stopped before its end:\n{}", terminal.screen_text());

    // The conversation goes on, and without an answer under way Ctrl-C only says how to leave.
    terminal.type_line("read notes/b.txt");
    terminal.wait_for_text("zebra stripes");
    // What is written is seen a little before its turn is over; until then Ctrl-C would stop it.
    wait_until("press Ctrl-D to quit", || {
        terminal.press_keys(&["C-c"]);
        std::thread::sleep(std::time::Duration::from_millis(200));
        terminal.screen_text().contains("press Ctrl-D to quit")
    });
    wait_until("all of it is sent", || part_states(&home).iter().all(|state| state == "sent" || state == "replaced"));
    terminal.press_keys(&["C-d"]);
    terminal.wait_for_text("ended: 0");
    let shown = terminal.screen_text();
    assert!(!shown.contains("panicked"), "{shown}");
    assert!(part_states(&home).iter().all(|state| state == "sent" || state == "replaced"), "{shown}");
}
