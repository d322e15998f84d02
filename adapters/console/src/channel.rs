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
use satchel_ports::{Activity, Blobs, Channel, FetchedFile, FileFetchError, PostRequest};
use tokio_util::io::ReaderStream;

use crate::{
    Screen,
    delivered_file::{open_blob, save_file},
    markdown::{paint, plain_lines, render},
    progress, regular_file,
    sanitizer::clean_line,
    screen::PrintError,
};

/// The settings of the channel.
#[derive(Debug, Clone)]
pub struct ConsoleSettings {
    /// The directory of a reply's files; created with the first file.
    pub files_dir: PathBuf,
    /// The capabilities of the channel, as configured.
    pub capabilities: ChannelCapabilities,
}

/// Prints replies and writes their files.
///
/// - The message id of a text is its part's id; that of a file or voice message is the path of the written file.
/// - A part that this process has printed with the same content is not printed again.
/// - If the terminal is closed, a text of which nothing was written is `NotSent`, so that the next process prints it;
///   a partly written one is in doubt.
#[derive(Debug)]
pub struct ConsoleChannel {
    settings: ConsoleSettings,
    blobs: DebugBlobs,
    screen: Arc<Screen>,
    /// The parts whose delay was already announced to the person.
    announced: Mutex<HashSet<PartId>>,
}

impl ConsoleChannel {
    /// Creates a channel that prints to `screen` and reads files from `blobs`.
    #[must_use]
    pub fn new(settings: ConsoleSettings, blobs: Arc<dyn Blobs>, screen: Arc<Screen>) -> Self {
        let settings = ConsoleSettings { files_dir: regular_file::to_absolute(&settings.files_dir), ..settings };
        Self { settings, blobs: DebugBlobs(blobs), screen, announced: Mutex::default() }
    }

    /// Returns the directory of a conversation's files: the configured one for `console:main`, a subdirectory of it for
    /// others, because file numbers are unique only within a conversation.
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

    async fn deliver(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let part_ref = MessageRef(request.part_id.to_string());
        let screen_style = self.screen.style();
        match &request.content {
            PartContent::Text { text, markup, files } => {
                let lines = match markup {
                    Markup::Rich | Markup::Blocks => render(text, screen_style),
                    Markup::Plain => plain_lines(text),
                };
                self.print_text(request, lines).await?;
                let mut messages = vec![part_ref];
                messages.extend(self.write_files(request, files).await?);
                Ok(messages)
            }
            PartContent::Notice { text } | PartContent::Question { text, .. } => {
                self.print_text(request, render(text, screen_style)).await?;
                Ok(vec![part_ref])
            }
            PartContent::File(item) => self.write_files(request, std::slice::from_ref(item)).await,
            PartContent::Album { items } => self.write_files(request, items).await,
            PartContent::Voice { text, prepared: Some(voice), .. } => {
                let name = voice_filename(request.part_id);
                let filename = Filename::from_untrusted(&name);
                let duration = format!("{} s", voice.duration_ms.div_ceil(1000));
                let path = self.write_file(request, 0, &filename, &name, &voice.sha256, voice.bytes).await?;
                self.announce_file(
                    format!("♪ voice message, {duration}: {}", display_path(&path)),
                    text,
                    Some("play it with: ffplay"),
                )
                .await?;
                Ok(vec![MessageRef(display_absolute_path(&path))])
            }
            PartContent::Voice { text, prepared: None, .. } => {
                self.print_text(request, render(text, screen_style)).await?;
                Ok(vec![part_ref])
            }
        }
    }

    async fn write_files(&self, request: &PostRequest, items: &[FileItem]) -> Result<Vec<MessageRef>, SendError> {
        let mut messages = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let file = &item.attachment;
            let path = self
                .write_file(request, index, &file.filename, &numbered_filename(file), &file.sha256, file.bytes)
                .await?;
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

    async fn write_file(
        &self,
        request: &PostRequest,
        index: usize,
        filename: &Filename,
        name: &str,
        sha256: &Sha256,
        bytes: u64,
    ) -> Result<PathBuf, SendError> {
        let content = open_blob(&*self.blobs.0, sha256).await?;
        let mut content = progress::with_progress(content, &self.screen, filename, Some(bytes));
        let directory = self.directory(&request.conversation);
        let saved = save_file(&mut content, &directory, name, &format!("{}-{index}", request.part_id)).await;
        let is_delayed = matches!(saved, Err(SendError::NotSent { .. }));
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let was_announced =
            if is_delayed { !announced.insert(request.part_id) } else { announced.remove(&request.part_id) };
        if let Err(SendError::NotSent { reason, .. }) = &saved
            && !was_announced
        {
            self.screen.print_error(&format!("{filename} could not be written yet; I'll retry: {reason}"));
        }
        saved
    }

    /// Prints that a file was written. The file is delivered, so a closed terminal is no error.
    async fn announce_file(&self, line: String, caption: &str, hint: Option<&str>) -> Result<(), SendError> {
        let screen_style = self.screen.style();
        let mut lines = vec![line];
        if !caption.trim().is_empty() {
            lines.extend(plain_lines(caption).iter().map(|line| format!("  {line}")));
        }
        if let Some(hint) = hint.filter(|_| screen_style.terminal) {
            lines.push(paint(&format!("  {hint}"), Style::new().dimmed(), screen_style));
        }
        let _ = self.write_blocking(move |screen| screen.print_lines(&lines)).await?;
        Ok(())
    }

    async fn print_text(&self, request: &PostRequest, lines: Vec<String>) -> Result<(), SendError> {
        let turn = request.turn;
        self.write_blocking(move |screen| screen.print_reply(turn, &lines)).await?.map_err(|error| match error {
            PrintError::NotWritten(error) => {
                SendError::NotSent { retry_after_ms: None, reason: format!("failed to write to the terminal: {error}") }
            }
            PrintError::PartlyWritten(error) => {
                SendError::InDoubt { reason: format!("writing to the terminal was interrupted: {error}") }
            }
        })
    }

    /// Writes on a blocking thread: a terminal can be stopped, a pipe can be full.
    async fn write_blocking<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Screen) -> T + Send + 'static,
    ) -> Result<T, SendError> {
        let screen = Arc::clone(&self.screen);
        let joined = tokio::task::spawn_blocking(move || write(&screen)).await;
        joined.map_err(|error| SendError::InDoubt { reason: format!("printing was interrupted: {error}") })
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

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let content = fingerprint(&request.content);
        if self.screen.has_printed(request.part_id, content) {
            return Ok(self.message_refs(request));
        }
        let messages = self.deliver(request).await?;
        self.screen.mark_printed(request.part_id, content);
        Ok(messages)
    }

    /// Always refused, because a printed line can't be edited: the part is sent again and printed below.
    async fn edit(&self, _: &MessageRef, _: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let reason = "what is printed can't be changed".to_owned();
        Err(SendError::Refused { refusal: Refusal::TargetGone, reason })
    }

    /// Does nothing, because a printed line can't be removed.
    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), SendError> {
        if self.screen.is_closed() {
            return Err(SendError::NotSent { retry_after_ms: None, reason: "the terminal is closed".to_owned() });
        }
        // Text works even if files can't be written; sending a file reports that problem.
        Ok(())
    }

    /// Does nothing, because the terminal shows the events of the bus.
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
    /// Returns the ids that sending this part returned.
    fn message_refs(&self, request: &PostRequest) -> Vec<MessageRef> {
        let directory = self.directory(&request.conversation);
        let part_ref = MessageRef(request.part_id.to_string());
        let path_ref = |name: String| MessageRef(display_absolute_path(&directory.join(name)));
        let files = request.content.files().iter().map(|item| numbered_filename(&item.attachment)).map(path_ref);
        match &request.content {
            PartContent::File(_) | PartContent::Album { .. } => files.collect(),
            PartContent::Voice { prepared: Some(_), .. } => vec![path_ref(voice_filename(request.part_id))],
            PartContent::Text { .. }
            | PartContent::Notice { .. }
            | PartContent::Question { .. }
            | PartContent::Voice { .. } => std::iter::once(part_ref).chain(files).collect(),
        }
    }
}

/// Adds a `Debug` implementation to `Blobs`.
struct DebugBlobs(Arc<dyn Blobs>);

impl std::fmt::Debug for DebugBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blobs")
    }
}

fn fingerprint(content: &PartContent) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The debug output has every field, and fingerprints are compared only within this process.
    format!("{content:?}").hash(&mut hasher);
    hasher.finish()
}

fn numbered_filename(attachment: &Attachment) -> String {
    // `Filename` truncates a name that the number makes too long for the file system.
    Filename::from_untrusted(&format!("{}-{}", attachment.number, attachment.filename)).to_string()
}

fn voice_filename(part: PartId) -> String {
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
