//! Questions and answers at a terminal, or line by line from a pipe. Secrets are not shown while they are typed.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::{Context, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};
use secrecy::SecretString;

/// A dialogue with the owner.
pub(super) struct Dialogue<'a> {
    input: Box<dyn BufRead + 'a>,
    out: &'a mut dyn Write,
    /// The terminal's modes, which are changed while a secret is typed; `None` without a terminal.
    terminal: Option<Termios>,
}

impl<'a> Dialogue<'a> {
    /// Asks on `out` and reads standard input.
    pub(super) fn with_stdin(out: &'a mut dyn Write) -> Self {
        let stdin = io::stdin();
        let terminal = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten();
        Self { input: Box::new(stdin.lock()), out, terminal }
    }

    pub(super) fn print_line(&mut self, text: &str) -> anyhow::Result<()> {
        writeln!(self.out, "{text}")?;
        Ok(())
    }

    /// Asks for a line; an empty one is `default`.
    pub(super) fn prompt(&mut self, question: &str, default: &str) -> anyhow::Result<String> {
        match default {
            "" => write!(self.out, "{question}: ")?,
            default => write!(self.out, "{question} [{default}]: ")?,
        }
        self.out.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line).context("failed to read the answer")? == 0 {
            writeln!(self.out)?;
            bail!("no answer; nothing was written");
        }
        let line = line.trim();
        Ok(if line.is_empty() { default } else { line }.to_owned())
    }

    /// Asks for yes or no, until it is one of them.
    pub(super) fn confirm(&mut self, question: &str) -> anyhow::Result<bool> {
        loop {
            match self.prompt(&format!("{question} (y/n)"), "n")?.to_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => self.print_line("Please answer y or n.")?,
            }
        }
    }

    /// Whether Enter was pressed meanwhile, or the input has ended. Text typed before it is dropped.
    pub(super) fn take_enter(&mut self) -> anyhow::Result<bool> {
        let stdin = io::stdin();
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut waiting, Some(&Timespec::default())).context("failed to look for an answer")? == 0 {
            return Ok(false);
        }
        self.input.read_line(&mut String::new()).context("failed to read the answer")?;
        Ok(true)
    }

    /// Asks for a secret; an empty line is none.
    pub(super) fn prompt_secret(&mut self, question: &str) -> anyhow::Result<Option<SecretString>> {
        write!(self.out, "{question}: ")?;
        self.out.flush()?;
        let typed = match self.terminal.clone() {
            Some(modes) => {
                let typed = self.read_hidden_line(modes);
                writeln!(self.out)?;
                typed?
            }
            None => {
                let mut line = String::new();
                if self.input.read_line(&mut line).context("failed to read the answer")? == 0 {
                    bail!("no answer; nothing was written");
                }
                line
            }
        };
        let secret = typed.trim();
        Ok((!secret.is_empty()).then(|| SecretString::from(secret)))
    }

    /// Reads a line without echo. Signal keys are read as characters, so that the terminal never stays without echo.
    fn read_hidden_line(&mut self, original: Termios) -> anyhow::Result<String> {
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        const ERASE: [u8; 2] = [8, 127];
        let mut hidden_modes = original.clone();
        hidden_modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        let _guard = TermiosGuard::restore_after(original, &hidden_modes)?;
        let mut typed = Vec::new();
        loop {
            let mut key = [0];
            if self.input.read(&mut key).context("failed to read the answer")? == 0 {
                bail!("no answer; nothing was written");
            }
            match key[0] {
                b'\r' | b'\n' => break,
                CTRL_C | CTRL_D => bail!("stopped; nothing was written"),
                key if ERASE.contains(&key) => drop(typed.pop()),
                key => typed.push(key),
            }
        }
        String::from_utf8(typed).ok().context("a secret consists of letters, digits and punctuation")
    }
}

/// Restores the terminal's modes when dropped.
struct TermiosGuard(Termios);

impl TermiosGuard {
    fn restore_after(original: Termios, changed: &Termios) -> anyhow::Result<Self> {
        tcsetattr(io::stdin(), OptionalActions::Now, changed)
            .context("failed to hide the typed text on this terminal")?;
        Ok(Self(original))
    }
}

impl Drop for TermiosGuard {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _gone = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}
