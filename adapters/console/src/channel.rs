//! The terminal as a [`Channel`]: texts are printed, files are written into the person's directory.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anstyle::Style;
use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::{
    Attachment, ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent, PartId,
    Sha256,
    delivery::{Refusal, SendError},
    filename::Filename,
    part::{FileItem, Markup},
    size,
};
use satchel_ports::{Activity, Blobs, Channel, FetchedFile, FileFetchError, SendRequest};
use tokio_util::io::ReaderStream;

use crate::{
    Screen,
    clean::clean_line,
    markdown::{paint, plain_lines, render},
    progress, regular_file,
    save::{open_blob, save},
    screen::PrintError,
};

/// What the channel needs to know.
#[derive(Debug, Clone)]
pub struct ConsoleSettings {
    /// Where a reply's files are written; made when the first one is.
    pub files_dir: PathBuf,
    /// What the channel can do, as the operator may have changed it.
    pub capabilities: ChannelCapabilities,
}

/// Prints replies and writes their files.
///
/// - A text's message id is its part's id, a file's or a voice's is the path to which it was written.
/// - A part that this process has printed with the same content is not printed twice.
/// - When nobody reads the terminal any more, a text of which nothing was written is `NotSent`, so that the next
///   process prints it; one that broke off in the middle is in doubt.
#[derive(Debug)]
pub struct ConsoleChannel {
    settings: ConsoleSettings,
    blobs: DebugBlobs,
    screen: Arc<Screen>,
    /// The parts of which the person knows that they come later.
    announced: Mutex<HashSet<PartId>>,
}

impl ConsoleChannel {
    /// Prints to `screen` and reads files from `blobs`.
    #[must_use]
    pub fn new(settings: ConsoleSettings, blobs: Arc<dyn Blobs>, screen: Arc<Screen>) -> Self {
        let settings = ConsoleSettings { files_dir: regular_file::absolute(&settings.files_dir), ..settings };
        Self { settings, blobs: DebugBlobs(blobs), screen, announced: Mutex::default() }
    }

    /// Files of `console:main` lie in the directory itself; other conversations count their files anew, so that theirs
    /// lie beneath it.
    fn directory(&self, conversation: &ConversationId) -> PathBuf {
        match conversation.key() {
            "main" => self.settings.files_dir.clone(),
            key => {
                let key = key.replace('/', "%2F");
                let name = if key.starts_with('.') { format!("_{key}") } else { key };
                self.settings.files_dir.join(name)
            }
        }
    }

    async fn deliver(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let own = MessageRef(part.part.to_string());
        let look = self.screen.style();
        match &part.content {
            PartContent::Text { text, markup, files } => {
                let lines = match markup {
                    Markup::Rich => render(text, look),
                    Markup::Plain => plain_lines(text),
                };
                self.print_text(part, lines).await?;
                let mut messages = vec![own];
                messages.extend(self.write_files(part, files).await?);
                Ok(messages)
            }
            PartContent::Notice { text } | PartContent::Question { text, .. } => {
                self.print_text(part, render(text, look)).await?;
                Ok(vec![own])
            }
            PartContent::File(item) => self.write_files(part, std::slice::from_ref(item)).await,
            PartContent::Album { items } => self.write_files(part, items).await,
            PartContent::Voice { words, prepared: Some(voice), .. } => {
                let name = voice_name(part.part);
                let filename = Filename::from_untrusted(&name);
                let told = format!("{} s", voice.duration_ms.div_ceil(1000));
                let path = self.write(part, 0, &filename, &name, &voice.sha256, voice.bytes).await?;
                self.announce_file(
                    format!("♪ voice message, {told}: {}", display_path(&path)),
                    words,
                    Some("play it with: ffplay"),
                )
                .await?;
                Ok(vec![MessageRef(display_absolute_path(&path))])
            }
            PartContent::Voice { words, prepared: None, .. } => {
                self.print_text(part, render(words, look)).await?;
                Ok(vec![own])
            }
            PartContent::Withdraw => Ok(Vec::new()),
        }
    }

    async fn write_files(&self, part: &SendRequest, items: &[FileItem]) -> Result<Vec<MessageRef>, SendError> {
        let mut messages = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let file = &item.attachment;
            let path = self.write(part, index, &file.filename, &file_name(file), &file.sha256, file.bytes).await?;
            let line = format!(
                "#{} {} ({}): {}",
                file.number,
                file.filename,
                size::format_bytes(file.bytes),
                display_path(&path)
            );
            self.announce_file(line, &item.caption, None).await?;
            messages.push(MessageRef(display_absolute_path(&path)));
        }
        Ok(messages)
    }

    async fn write(
        &self,
        part: &SendRequest,
        index: usize,
        filename: &Filename,
        name: &str,
        sha256: &Sha256,
        bytes: u64,
    ) -> Result<PathBuf, SendError> {
        let content = open_blob(&*self.blobs.0, sha256).await?;
        let mut content = progress::with_progress(content, &self.screen, filename, Some(bytes));
        let directory = self.directory(&part.conversation);
        let saved = save(&mut content, &directory, name, &format!("{}-{index}", part.part)).await;
        let is_late = matches!(saved, Err(SendError::NotSent { .. }));
        let mut late = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let was_late = if is_late { !late.insert(part.part) } else { late.remove(&part.part) };
        if let Err(SendError::NotSent { reason, .. }) = &saved
            && !was_late
        {
            self.screen.print_error(&format!("{filename} could not be written yet; I'll retry: {reason}"));
        }
        saved
    }

    /// Tells that a file was written. That it was is certain, so that a terminal which is gone changes nothing.
    async fn announce_file(&self, line: String, words: &str, hint: Option<&str>) -> Result<(), SendError> {
        let look = self.screen.style();
        let mut lines = vec![line];
        if !words.trim().is_empty() {
            lines.extend(plain_lines(words).iter().map(|line| format!("  {line}")));
        }
        if let Some(hint) = hint.filter(|_| look.terminal) {
            lines.push(paint(&format!("  {hint}"), Style::new().dimmed(), look));
        }
        let _ = self.write_blocking(move |screen| screen.lines(&lines)).await?;
        Ok(())
    }

    async fn print_text(&self, part: &SendRequest, lines: Vec<String>) -> Result<(), SendError> {
        let turn = part.turn;
        self.write_blocking(move |screen| screen.text(turn, &lines)).await?.map_err(|error| match error {
            PrintError::NotWritten(error) => {
                SendError::NotSent { retry_after_ms: None, reason: format!("failed to write to the terminal: {error}") }
            }
            PrintError::PartlyWritten(error) => {
                SendError::InDoubt { reason: format!("writing to the terminal was interrupted: {error}") }
            }
        })
    }

    /// Writes where it may block: a terminal can be stopped, a pipe can be full.
    async fn write_blocking<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Screen) -> T + Send + 'static,
    ) -> Result<T, SendError> {
        let screen = Arc::clone(&self.screen);
        let written = tokio::task::spawn_blocking(move || write(&screen)).await;
        written.map_err(|error| SendError::InDoubt { reason: format!("printing was interrupted: {error}") })
    }
}

#[async_trait]
impl Channel for ConsoleChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new("console").expect("the name is lower-case letters")
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        self.settings.capabilities.clone()
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let content = fingerprint(&part.content);
        if self.screen.has_printed(part.part, content) {
            return Ok(self.message_refs(part));
        }
        let messages = self.deliver(part).await?;
        self.screen.mark_printed(part.part, content);
        Ok(messages)
    }

    /// A line that was printed can't be changed: the part is to be sent anew, which prints it below.
    async fn edit(&self, _: &MessageRef, _: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let reason = "what is printed can't be changed".to_owned();
        Err(SendError::Refused { refusal: Refusal::TargetGone, reason })
    }

    /// Nothing that was printed can be taken back.
    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), SendError> {
        if self.screen.is_closed() {
            return Err(SendError::NotSent { retry_after_ms: None, reason: "the terminal is closed".to_owned() });
        }
        // Where files can't be written words can; a file's own send says what is wrong there.
        Ok(())
    }

    /// The terminal shows what the bus tells.
    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let opened = regular_file::open_regular_file(Path::new(&reference.locator)).await;
        let (file, bytes) = opened.map_err(|reason| FileFetchError::Permanent { reason: reason.to_string() })?;
        let content = ReaderStream::with_capacity(file, 512 * 1024).boxed();
        let content = progress::with_progress(content, &self.screen, &reference.filename, Some(bytes));
        Ok(FetchedFile::Bytes { bytes: Some(bytes), content })
    }
}

impl ConsoleChannel {
    /// The ids that a send of this part has answered with.
    fn message_refs(&self, part: &SendRequest) -> Vec<MessageRef> {
        let directory = self.directory(&part.conversation);
        let own = MessageRef(part.part.to_string());
        let path = |name: String| MessageRef(display_absolute_path(&directory.join(name)));
        let files = part.content.files().iter().map(|item| file_name(&item.attachment)).map(path);
        match &part.content {
            PartContent::Withdraw => Vec::new(),
            PartContent::File(_) | PartContent::Album { .. } => files.collect(),
            PartContent::Voice { prepared: Some(_), .. } => vec![path(voice_name(part.part))],
            PartContent::Text { .. }
            | PartContent::Notice { .. }
            | PartContent::Question { .. }
            | PartContent::Voice { .. } => std::iter::once(own).chain(files).collect(),
        }
    }
}

/// Blobs without a `Debug` of their own.
struct DebugBlobs(Arc<dyn Blobs>);

impl std::fmt::Debug for DebugBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blobs")
    }
}

fn fingerprint(content: &PartContent) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The debug form holds every field, and only equality within this process is asked for.
    format!("{content:?}").hash(&mut hasher);
    hasher.finish()
}

fn file_name(attachment: &Attachment) -> String {
    // With the number before it a long name would be too long for a disk.
    Filename::from_untrusted(&format!("{}-{}", attachment.number, attachment.filename)).to_string()
}

fn voice_name(part: PartId) -> String {
    format!("voice-{part}.ogg")
}

fn display_path(path: &Path) -> String {
    clean_line(&path.display().to_string())
}

fn display_absolute_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod tests;
