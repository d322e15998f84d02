//! The chat at the terminal: turns lines into messages. Replies are printed by the channel.

use std::{ops::ControlFlow, path::PathBuf};

use futures::{Stream, StreamExt};
use satchel_domain::TurnId;

use crate::{
    ConsoleClient, ConsoleError,
    attachments::PendingAttachments,
    line::{LineCommand, parse_line},
    one_shot::wait_until_settled,
};

/// An input at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputEvent {
    Line(String),
    Interrupt,
    Eof,
}

/// The settings of the chat.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The largest file that may be attached, in bytes.
    pub file_bytes: u64,
}

/// Sends what is typed until the person quits or the process stops. A stream that ends without [`InputEvent::Eof`] was
/// piped in; then this waits for the replies.
///
/// # Errors
/// When the ledger can't be read. A message that can't be stored is reported on screen, and its files stay attached.
pub async fn run_chat(
    client: &ConsoleClient,
    settings: &ChatSettings,
    mut input: impl Stream<Item = InputEvent> + Unpin,
) -> Result<(), ConsoleError> {
    let mut session = ChatSession { client, settings, pending: PendingAttachments::default(), turns: Vec::new() };
    loop {
        match client.shutdown.run_until_cancelled(input.next()).await {
            None | Some(Some(InputEvent::Eof)) => return Ok(()),
            Some(Some(InputEvent::Interrupt)) => session.on_interrupt().await?,
            Some(Some(InputEvent::Line(line))) => {
                if session.handle_line(&line).await.is_break() {
                    return Ok(());
                }
            }
            Some(None) => {
                if session.pending.len() > 0 {
                    session.send("").await;
                }
                return session.wait_for_replies().await;
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
                let detached = self.pending.drain().len();
                screen.print_hint(&format!("no longer attached: {detached}"));
            }
            LineCommand::Help => {
                for line in HELP {
                    screen.print_hint(line);
                }
                self.send_with_files("/help", Vec::new()).await;
            }
            LineCommand::Quit => return ControlFlow::Break(()),
            LineCommand::Invalid(reason) => screen.print_error(&reason),
        }
        ControlFlow::Continue(())
    }

    async fn attach(&mut self, paths: &[PathBuf]) {
        let screen = &self.client.screen;
        for path in paths {
            match self.pending.attach(path, self.settings.file_bytes).await {
                Ok(description) => screen.print_hint(&format!("+ {description}")),
                Err(reason) => screen.print_error(&reason),
            }
        }
        let files_go = match self.pending.len() {
            0 => return,
            1 => "1 file goes".to_owned(),
            n => format!("{n} files go"),
        };
        screen.print_hint(&format!(
            "{files_go} with your next message. Press Enter on an empty line to send now, or type /detach to remove."
        ));
    }

    async fn send(&mut self, text: &str) {
        let files = self.pending.drain();
        self.send_with_files(text, files).await;
    }

    async fn send_with_files(&mut self, text: &str, files: Vec<satchel_domain::FileReference>) {
        match self.client.submit(text, files.clone()).await {
            Ok(turn) => self.turns.push(turn),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "storing a message failed");
                let attached_hint = if files.is_empty() { "" } else { "; its files stay attached" };
                self.client.screen.print_error(&format!("{error}{attached_hint}. Please send it again."));
                if !files.is_empty() {
                    self.pending.restore(files);
                }
            }
        }
    }

    /// Stops the running turns; without any, prints how to quit.
    async fn on_interrupt(&mut self) -> Result<(), ConsoleError> {
        let mut has_running_turn = false;
        for turn in std::mem::take(&mut self.turns) {
            let record = self.client.archive.turn(turn).await.map_err(ConsoleError::Ledger)?;
            if record.is_some_and(|record| record.ending.is_none()) {
                self.turns.push(turn);
                has_running_turn = true;
            }
        }
        if has_running_turn {
            self.send_with_files("/stop", Vec::new()).await;
        } else {
            self.client.screen.print_hint("press Ctrl-D to quit");
        }
        Ok(())
    }

    /// Waits for the replies to all messages.
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
