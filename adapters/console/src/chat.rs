//! The conversation at the terminal: lines in, messages out. Answers come through the channel.

use std::{ops::ControlFlow, path::PathBuf};

use futures::{Stream, StreamExt};
use satchel_domain::TurnId;

use crate::{
    ConsoleClient, ConsoleError,
    attachments::PendingAttachments,
    line::{LineCommand, parse_line},
    one_shot::wait_until_settled,
};

/// What the person did at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputEvent {
    /// They ended a line.
    Line(String),
    Interrupt,
    Eof,
}

/// What the conversation needs to know.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The largest file that may be attached, in bytes.
    pub file_bytes: u64,
}

/// Sends what is typed until the person leaves or the process stops. A stream that ends without [`InputEvent::Eof`] was
/// piped in: then the answers are waited for.
///
/// # Errors
/// When the ledger can't be read any more. A message that isn't taken is told, and its files stay attached.
pub async fn run_chat(
    client: &ConsoleClient,
    settings: &ChatSettings,
    mut typed: impl Stream<Item = InputEvent> + Unpin,
) -> Result<(), ConsoleError> {
    let mut talk = ChatSession { client, settings, pending: PendingAttachments::default(), turns: Vec::new() };
    loop {
        match client.shutdown.run_until_cancelled(typed.next()).await {
            None | Some(Some(InputEvent::Eof)) => return Ok(()),
            Some(Some(InputEvent::Interrupt)) => talk.interrupt().await?,
            Some(Some(InputEvent::Line(line))) => {
                if talk.handle_line(&line).await.is_break() {
                    return Ok(());
                }
            }
            Some(None) => {
                if talk.pending.len() > 0 {
                    talk.send("").await;
                }
                return talk.wait_for_replies().await;
            }
        }
    }
}

struct ChatSession<'a> {
    client: &'a ConsoleClient,
    settings: &'a ChatSettings,
    pending: PendingAttachments,
    /// The turns that may still run.
    turns: Vec<TurnId>,
}

impl ChatSession<'_> {
    async fn handle_line(&mut self, line: &str) -> ControlFlow<()> {
        let screen = &self.client.screen;
        match parse_line(line, self.settings.home.as_deref(), &|path| path.exists()) {
            LineCommand::Empty if self.pending.len() == 0 => {}
            LineCommand::Empty => self.send("").await,
            LineCommand::Send(text) => self.send(&text).await,
            LineCommand::Attach(paths) => self.attach(&paths).await,
            LineCommand::Detach => {
                let dropped = self.pending.drain().len();
                screen.print_hint(&format!("no longer attached: {dropped}"));
            }
            LineCommand::Help => {
                for line in HELP {
                    screen.print_hint(line);
                }
                self.send_with("/help", Vec::new()).await;
            }
            LineCommand::Quit => return ControlFlow::Break(()),
            LineCommand::Invalid(words) => screen.print_error(&words),
        }
        ControlFlow::Continue(())
    }

    async fn attach(&mut self, paths: &[PathBuf]) {
        let screen = &self.client.screen;
        for path in paths {
            match self.pending.attach(path, self.settings.file_bytes).await {
                Ok(told) => screen.print_hint(&format!("+ {told}")),
                Err(reason) => screen.print_error(&reason),
            }
        }
        let goes = match self.pending.len() {
            0 => return,
            1 => "1 file goes".to_owned(),
            n => format!("{n} files go"),
        };
        screen.print_hint(&format!(
            "{goes} with your next message. Press Enter on an empty line to send now, or type /detach to remove."
        ));
    }

    async fn send(&mut self, text: &str) {
        let files = self.pending.drain();
        self.send_with(text, files).await;
    }

    async fn send_with(&mut self, text: &str, files: Vec<satchel_domain::FileReference>) {
        match self.client.submit(text, files.clone()).await {
            Ok(turn) => self.turns.push(turn),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "storing a message failed");
                let kept = if files.is_empty() { "" } else { "; its files stay attached" };
                self.client.screen.print_error(&format!("{error}{kept}. Please send it again."));
                if !files.is_empty() {
                    self.pending.restore(files);
                }
            }
        }
    }

    /// Ctrl-C stops a running turn; without one it only says how to leave.
    async fn interrupt(&mut self) -> Result<(), ConsoleError> {
        let mut runs = false;
        for turn in std::mem::take(&mut self.turns) {
            let record = self.client.ledger.turn(turn).await.map_err(ConsoleError::Ledger)?;
            if record.is_some_and(|record| record.ending.is_none()) {
                self.turns.push(turn);
                runs = true;
            }
        }
        if runs {
            self.send_with("/stop", Vec::new()).await;
        } else {
            self.client.screen.print_hint("press Ctrl-D to quit");
        }
        Ok(())
    }

    /// Waits for the answers to everything that was sent.
    async fn wait_for_replies(&self) -> Result<(), ConsoleError> {
        for turn in &self.turns {
            let events = self.client.bus.subscribe().await.map_err(ConsoleError::Bus)?;
            match self.client.shutdown.run_until_cancelled(wait_until_settled(self.client, *turn, events)).await {
                None => break,
                Some(record) => drop(record?),
            }
        }
        Ok(())
    }
}

const HELP: [&str; 4] = [
    "/attach FILE…   attach files to your next message; dropping files on the line works too",
    "/detach         remove the attached files",
    "Ctrl-C          stop the current answer",
    "Ctrl-D, /quit   quit; unfinished work continues at the next start",
];

#[cfg(test)]
mod tests;
