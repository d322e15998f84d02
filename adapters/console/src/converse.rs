//! The conversation at the terminal: lines in, messages out. Answers come through the channel.

use std::path::PathBuf;

use futures::{Stream, StreamExt};
use satchel_domain::TurnId;

use crate::{
    ConsoleClient, ConsoleError,
    attach::Pending,
    line::{Line, interpret},
    once::completed,
};

/// What the person did at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// They ended a line.
    Line(String),
    Interrupt,
    Leave,
}

/// What the conversation needs to know.
#[derive(Debug, Clone)]
pub struct ConverseSettings {
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The largest file that may be attached, in bytes.
    pub file_bytes: u64,
}

/// Sends what is typed until the person leaves or the process stops. A stream that ends without [`Typed::Leave`] was
/// piped in: then the answers are waited for.
///
/// # Errors
/// When the ledger can't be read any more. A message that isn't taken is told, and its files stay attached.
pub async fn converse(
    client: &ConsoleClient,
    settings: &ConverseSettings,
    mut typed: impl Stream<Item = Typed> + Unpin,
) -> Result<(), ConsoleError> {
    let mut talk = Talk { client, settings, pending: Pending::default(), turns: Vec::new() };
    loop {
        match client.shutdown.run_until_cancelled(typed.next()).await {
            None | Some(Some(Typed::Leave)) => return Ok(()),
            Some(Some(Typed::Interrupt)) => talk.interrupt().await?,
            Some(Some(Typed::Line(line))) => {
                if talk.take(&line).await == Next::Leave {
                    return Ok(());
                }
            }
            Some(None) => {
                if talk.pending.len() > 0 {
                    talk.send("").await;
                }
                return talk.wait().await;
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Next {
    Stay,
    Leave,
}

struct Talk<'a> {
    client: &'a ConsoleClient,
    settings: &'a ConverseSettings,
    pending: Pending,
    /// The turns that may still run.
    turns: Vec<TurnId>,
}

impl Talk<'_> {
    async fn take(&mut self, line: &str) -> Next {
        let screen = &self.client.screen;
        match interpret(line, self.settings.home.as_deref(), &|path| path.exists()) {
            Line::Empty if self.pending.len() == 0 => {}
            Line::Empty => self.send("").await,
            Line::Say(text) => self.send(&text).await,
            Line::Attach(paths) => self.attach(&paths).await,
            Line::Detach => {
                let dropped = self.pending.take().len();
                screen.remark(&format!("no longer attached: {dropped}"));
            }
            Line::Help => {
                for line in HELP {
                    screen.remark(line);
                }
                self.send_with("/help", Vec::new()).await;
            }
            Line::Leave => return Next::Leave,
            Line::Wrong(words) => screen.complain(&words),
        }
        Next::Stay
    }

    async fn attach(&mut self, paths: &[PathBuf]) {
        let screen = &self.client.screen;
        for path in paths {
            match self.pending.attach(path, self.settings.file_bytes).await {
                Ok(told) => screen.remark(&format!("+ {told}")),
                Err(reason) => screen.complain(&reason),
            }
        }
        let goes = match self.pending.len() {
            0 => return,
            1 => "1 file goes".to_owned(),
            n => format!("{n} files go"),
        };
        screen.remark(&format!(
            "{goes} with your next message. Press Enter on an empty line to send now, or type /detach to remove."
        ));
    }

    async fn send(&mut self, text: &str) {
        let files = self.pending.take();
        self.send_with(text, files).await;
    }

    async fn send_with(&mut self, text: &str, files: Vec<satchel_domain::FileReference>) {
        match self.client.submit(text, files.clone()).await {
            Ok(turn) => self.turns.push(turn),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "storing a message failed");
                let kept = if files.is_empty() { "" } else { "; its files stay attached" };
                self.client.screen.complain(&format!("{error}{kept}. Please send it again."));
                if !files.is_empty() {
                    self.pending.put_back(files);
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
            self.client.screen.remark("press Ctrl-D to quit");
        }
        Ok(())
    }

    /// Waits for the answers to everything that was sent.
    async fn wait(&self) -> Result<(), ConsoleError> {
        for turn in &self.turns {
            let events = self.client.bus.subscribe().await.map_err(ConsoleError::Bus)?;
            match self.client.shutdown.run_until_cancelled(completed(self.client, *turn, events)).await {
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
