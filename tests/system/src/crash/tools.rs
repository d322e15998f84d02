//! Tools of the crash matrix: one counts its runs, one requests a voice note, and one waits for the person.

use std::{fs::OpenOptions, io::Write, path::PathBuf, time::Duration};

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, VoiceRequest};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};

/// The spoken text. It is not part of the reply's text.
pub const SPOKEN_TEXT: &str = "All files are on their way.";

/// Leaves a line in a file each time that it runs, as a tool that books a flight would leave a booking.
#[derive(Debug, Clone)]
pub struct CountingTool {
    pub file: PathBuf,
}

#[async_trait]
impl Tool for CountingTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "tally".to_owned(),
            description: "Counts.".to_owned(),
            parameters: json!({"type": "object"}),
            tier: SafetyTier::SideEffecting,
            time_limit: None,
        }
    }

    async fn call(&self, _arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let add = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
            writeln!(file, "{}", context.call)?;
            file.sync_all()
        };
        add().map_err(|error: std::io::Error| ToolError(error.to_string()))?;
        Ok(ToolOutcome::from_text("counted"))
    }
}

/// Asks that the reply be spoken.
#[derive(Debug, Clone, Copy)]
pub struct RequestVoiceTool;

#[async_trait]
impl Tool for RequestVoiceTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "request_voice".to_owned(),
            description: "Speaks.".to_owned(),
            parameters: json!({"type": "object"}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, _arguments: Value, _context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let voice = Some(VoiceRequest { text: Some(SPOKEN_TEXT.to_owned()) });
        Ok(ToolOutcome { voice, ..ToolOutcome::from_text("queued") })
    }
}

/// Waits until the test releases it, so that no scenario depends on timing.
#[derive(Debug, Clone)]
pub struct WaitingTool {
    /// The file that it makes when it begins to wait.
    pub reached: PathBuf,
    /// The file that it waits for.
    pub released: PathBuf,
}

#[async_trait]
impl Tool for WaitingTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "wait_for_person".to_owned(),
            description: "Waits.".to_owned(),
            parameters: json!({"type": "object"}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, _arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        std::fs::write(&self.reached, "").map_err(|error| ToolError(error.to_string()))?;
        while !self.released.exists() {
            if context.cancel.is_cancelled() {
                return Err(ToolError("cancelled".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(ToolOutcome::from_text("the person is done"))
    }
}
