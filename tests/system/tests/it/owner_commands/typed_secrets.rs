//! `satchel init` on a real terminal, made by tmux: what is secret is not on the screen, however the typing ends.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use satchel_requirements::{find_programs, required};
use satchel_system::real_binary::{TestHome, satchel_binary};

/// A terminal with its own tmux server, which ends with it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Opens one that runs a line of the shell.
    fn running(home: &TestHome, line: &str) -> Result<Self, String> {
        find_programs(&["tmux"])?;
        let terminal = Self { socket: home.root().join("tmux") };
        let mut command = terminal.tmux();
        home.apply_to(&mut command);
        command.env("LC_ALL", "C.UTF-8");
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "sh", "-c", line]);
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

    /// All that was ever on the screen.
    fn screen_text(&self) -> String {
        let captured = self.tmux().args(["capture-pane", "-p", "-J", "-S", "-"]).output();
        String::from_utf8_lossy(&captured.expect("tmux shows the screen").stdout).into_owned()
    }

    fn wait_for_text(&self, words: &str) {
        let started_at = Instant::now();
        while !self.screen_text().contains(words) {
            assert!(started_at.elapsed() < Duration::from_secs(60), "never {words:?}:\n{}", self.screen_text());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.tmux().arg("kill-server").stderr(Stdio::null()).status();
    }
}

#[test]
fn typed_token_is_hidden_and_terminal_is_restored() {
    let home = TestHome::new();
    let line = format!("{} init; echo \"ended: $?\"; stty -a; exec sleep 100", satchel_binary().display());
    let Some(terminal) = required(Terminal::running(&home, &line)) else { return };
    terminal.wait_for_text("Model [6]:");
    terminal.press_keys(&["-l", "6"]);
    terminal.press_keys(&["Enter"]);
    terminal.wait_for_text("Enter for none):");
    // With a slip of the finger that is taken back: what is left is no token, and is told so.
    terminal.press_keys(&["-l", "canary-tokenX"]);
    terminal.press_keys(&["BSpace"]);
    terminal.press_keys(&["Enter"]);
    terminal.wait_for_text("this is not a Telegram token");
    terminal.press_keys(&["-l", "canary-again"]);
    terminal.press_keys(&["C-c"]);
    terminal.wait_for_text("ended: 1");
    terminal.wait_for_text("echoctl");
    let shown = terminal.screen_text();
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("stopped; nothing was written"), "{shown}");
    for mode in ["echo", "icanon", "isig"] {
        assert!(shown.split_whitespace().any(|set| set == mode), "{mode}: {shown}");
    }
    assert!(!home.work_directory().join("satchel.yaml").exists());
}
