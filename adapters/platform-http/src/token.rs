//! The token of a bot, and the file from which a new one is read while the process runs.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use secrecy::SecretString;
use tokio::task::spawn_blocking;

/// Reads the secret in a file.
pub type ReadSecretFn = fn(&Path) -> Result<String, String>;

/// The token of a bot, as it is configured.
#[derive(Clone)]
pub struct BotToken {
    text: SecretString,
    file: Option<TokenFile>,
}

/// The file that holds a token.
#[derive(Clone)]
pub(crate) struct TokenFile {
    pub(crate) path: PathBuf,
    read: ReadSecretFn,
}

impl BotToken {
    /// The token that was read from this file. Once the platform refuses it, the file is read again.
    #[must_use]
    pub fn from_file(text: SecretString, path: PathBuf, read: ReadSecretFn) -> Self {
        Self { text, file: Some(TokenFile { path, read }) }
    }

    #[must_use]
    pub fn text(&self) -> &SecretString {
        &self.text
    }

    pub(crate) fn file(&self) -> Option<&TokenFile> {
        self.file.as_ref()
    }
}

impl TokenFile {
    /// Reads the file again; `None` if it can't be read.
    pub(crate) async fn read(&self) -> Option<SecretString> {
        let Self { path, read } = self.clone();
        let text = spawn_blocking(move || read(&path)).await;
        text.ok()?.ok().map(SecretString::from)
    }
}

/// A token that only a restart replaces.
impl From<SecretString> for BotToken {
    fn from(text: SecretString) -> Self {
        Self { text, file: None }
    }
}

impl From<String> for BotToken {
    fn from(text: String) -> Self {
        SecretString::from(text).into()
    }
}

impl From<&str> for BotToken {
    fn from(text: &str) -> Self {
        SecretString::from(text).into()
    }
}

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BotToken").field("file", &self.file.as_ref().map(|file| &file.path)).finish_non_exhaustive()
    }
}
