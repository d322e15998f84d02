//! One conversation on a real terminal, made by tmux: what a person would see on the screen.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use satchel_requirements::{find_programs, required};
use satchel_system::real_binary::{Household, satchel_binary};

use super::{states, until};

/// What the long answer begins and ends with, and what is said when it is stopped.
const BEGINNING: &str = "Send me files, with or without";
const END: &str = "OPENAI_API_KEY";
const STOPPED: &str = "Stopped, as you asked.";

/// A terminal of its own with its own tmux server, which ends with it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(household: &Household, arguments: &str) -> Result<Self, String> {
        find_programs(&["tmux"])?;
        let terminal = Self { socket: household.root().join("tmux") };
        let run = format!("{} {arguments}; echo \"ended: $?\"; exec sleep 100", satchel_binary().display());
        let mut command = terminal.tmux();
        household.at_home(&mut command);
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

    fn press(&self, keys: &[&str]) {
        let pressed = self.tmux().arg("send-keys").args(keys).status();
        assert!(pressed.is_ok_and(|status| status.success()), "{keys:?}");
    }

    /// Types a line and ends it.
    fn enter(&self, line: &str) {
        self.press(&["-l", line]);
        self.press(&["Enter"]);
    }

    /// All that was ever on the screen.
    fn shown(&self) -> String {
        let captured = self.tmux().args(["capture-pane", "-p", "-J", "-S", "-"]).output();
        String::from_utf8_lossy(&captured.expect("tmux shows the screen").stdout).into_owned()
    }

    fn wait_for(&self, words: &str) {
        until(&format!("{words:?} on the screen"), || self.shown().contains(words));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.tmux().arg("kill-server").stderr(Stdio::null()).status();
    }
}

#[test]
fn a_person_attaches_saves_lists_stops_and_leaves() {
    let household = Household::new();
    household.file("a.txt", "zebra stripes");
    let Some(terminal) = required(Terminal::open(&household, "chat")) else { return };
    terminal.wait_for("offline model");
    terminal.enter("/attach a.txt");
    terminal.wait_for("+ a.txt (13 B)");
    terminal.enter("save this as notes/b.txt and send it back");
    terminal.wait_for("/shared/notes/b.txt");
    until("the file comes back", || household.work().join("files/1-a.txt").is_file());
    terminal.enter("list /shared/notes");
    terminal.wait_for("In /shared/notes");
    until("all of it is sent", || states(&household).iter().all(|state| state == "sent"));

    // A long answer grows while it is watched, and Ctrl-C stops it.
    // On a busy machine that may be too late: then it is asked for once more.
    let was_stopped = (0..5).any(|_| {
        let seen = |words| terminal.shown().matches(words).count();
        let (begun, stopped, ended) = (seen(BEGINNING), seen(STOPPED), seen(END));
        terminal.enter("help");
        until("the answer begins", || seen(BEGINNING) > begun);
        terminal.press(&["C-c"]);
        until("the answer ends", || seen(STOPPED) > stopped || seen(END) > ended);
        seen(STOPPED) > stopped && seen(END) == ended
    });
    assert!(was_stopped, "it was never stopped before its end:\n{}", terminal.shown());

    // The conversation goes on, and without an answer under way Ctrl-C only says how to leave.
    terminal.enter("read notes/b.txt");
    terminal.wait_for("zebra stripes");
    // What is written is seen a little before its turn is over; until then Ctrl-C would stop it.
    until("press Ctrl-D to quit", || {
        terminal.press(&["C-c"]);
        std::thread::sleep(std::time::Duration::from_millis(200));
        terminal.shown().contains("press Ctrl-D to quit")
    });
    until("all of it is sent", || states(&household).iter().all(|state| state == "sent" || state == "replaced"));
    terminal.press(&["C-d"]);
    terminal.wait_for("ended: 0");
    let shown = terminal.shown();
    assert!(!shown.contains("panicked"), "{shown}");
    assert!(states(&household).iter().all(|state| state == "sent" || state == "replaced"), "{shown}");
}
