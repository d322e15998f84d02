//! The vault of one call: reads secrets, and masks them in whatever the call returns.
//!
//! It guards against a secret that is passed on by mistake, in an error or an echo. A tool that encodes a secret before it
//! returns it gets past it: a tool that declares `/vault` is trusted with what it reads.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use satchel_domain::{
    ConversationId, Filename, OutcomeFile, OutcomeNotice, Picture, ToolOutcome, ViewedFile, VoiceRequest, WakeRequest,
    WorkspacePath,
};
use satchel_ports::{Vault, WorkspaceError};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::AuditedWorkspace;

/// Lines shorter than this, in bytes, are masked only as part of the whole secret: they would occur by chance.
const MIN_LINE_BYTES: usize = 8;

/// Reads the secrets of a conversation and remembers them.
pub(crate) struct ConversationVault {
    workspace: AuditedWorkspace,
    conversation: ConversationId,
    read: Mutex<Vec<(WorkspacePath, SecretString)>>,
}

impl ConversationVault {
    pub(crate) fn new(workspace: AuditedWorkspace, conversation: ConversationId) -> Self {
        Self { workspace, conversation, read: Mutex::default() }
    }

    /// What was read so far, to mask it.
    pub(crate) fn secrets_read(&self) -> SecretMask {
        let mut patterns = Vec::new();
        for (path, secret) in self.read.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let whole = secret.expose_secret();
            let lines = whole.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE_BYTES);
            for part in [whole].into_iter().chain(lines).filter(|part| !part.is_empty()) {
                patterns.push((SecretString::from(part), format!("[secret {path}]")));
                // As it stands in a JSON text.
                let quoted = Value::from(part).to_string();
                patterns.push((SecretString::from(&quoted[1..quoted.len() - 1]), format!("[secret {path}]")));
            }
        }
        // The longest first, so that no part of one is left.
        patterns.sort_by_key(|(part, _)| std::cmp::Reverse(part.expose_secret().len()));
        SecretMask(patterns)
    }
}

#[async_trait]
impl Vault for ConversationVault {
    async fn read(&self, path: &WorkspacePath) -> Result<SecretString, WorkspaceError> {
        let secret = self.workspace.read_secret(&self.conversation, path).await?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), secret.clone()));
        Ok(secret)
    }
}

/// Replaces secrets by the names of their files.
pub(crate) struct SecretMask(Vec<(SecretString, String)>);

impl SecretMask {
    pub(crate) fn mask_text(&self, text: &str) -> String {
        let mask = |text: String, (secret, name): &(SecretString, String)| text.replace(secret.expose_secret(), name);
        self.0.iter().fold(text.to_owned(), mask)
    }

    /// Masks every text of an outcome; the bytes of its files are stored already.
    pub(crate) fn mask_outcome(&self, outcome: ToolOutcome) -> ToolOutcome {
        let ToolOutcome { text, data, attachments, viewed_files, voice, selection, wakes, notices, failed, unknown } =
            outcome;
        let mask_files = |files: Vec<OutcomeFile>| files.into_iter().map(|file| self.mask_file(file)).collect();
        let mask_viewed = |ViewedFile { file, picture }| ViewedFile {
            file: self.mask_file(file),
            picture: picture.map(|picture| Picture { filename: self.mask_name(&picture.filename), ..picture }),
        };
        ToolOutcome {
            text: text.map(|text| self.mask_text(&text)),
            data: data.map(|data| self.mask_value(data)),
            attachments: mask_files(attachments),
            viewed_files: viewed_files.into_iter().map(mask_viewed).collect(),
            voice: voice.map(|voice| VoiceRequest { text: voice.text.map(|text| self.mask_text(&text)) }),
            selection: selection.map(mask_files),
            wakes: wakes
                .into_iter()
                .map(|wake| WakeRequest { context: self.mask_value(wake.context), ..wake })
                .collect(),
            notices: notices
                .into_iter()
                .map(|notice| OutcomeNotice { text: self.mask_text(&notice.text), ..notice })
                .collect(),
            failed,
            unknown,
        }
    }

    fn mask_file(&self, mut file: OutcomeFile) -> OutcomeFile {
        let (filename, description) = match &mut file {
            OutcomeFile::New(file) => (&mut file.filename, &mut file.description),
            OutcomeFile::Stored(file) => (&mut file.filename, &mut file.description),
        };
        *filename = self.mask_name(filename);
        *description = self.mask_text(description);
        file
    }

    fn mask_name(&self, filename: &Filename) -> Filename {
        Filename::from_untrusted(&self.mask_text(filename.as_str()))
    }

    fn mask_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.mask_text(&name), self.mask_value(value))).collect()
            }
            // A secret of digits may be a number.
            Value::Number(number) => match self.mask_text(&number.to_string()) {
                masked if masked == number.to_string() => Value::Number(number),
                masked => Value::String(masked),
            },
            Value::Null | Value::Bool(_) => value,
        }
    }
}
