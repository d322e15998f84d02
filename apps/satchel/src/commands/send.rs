//! `satchel send`: a message to the people of a conversation, from a script or another program.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use futures::StreamExt;
use satchel_domain::{ConversationId, Filename, TurnId, size};
use satchel_intake::{InboundService, NotificationService};
use satchel_local::LocalBus;
use satchel_ports::{
    BlobError, BlobHint, Blobs, ByteStream, Notification, NotificationError, NotificationFile, Notifications,
};
use serde::Serialize;
use tokio::{io::AsyncRead, sync::mpsc};
use tokio_util::io::ReaderStream;

use super::{UsageError, print_error, stdin, write_json};
use crate::{cli::SendOptions, config::Config, stores::Stores};

/// The name of a file that comes from standard input.
const STDIN_NAME: &str = "stdin";

/// A call of `satchel send`.
pub struct SendRequest<'a> {
    pub options: &'a SendOptions,
    pub text: String,
    pub cwd: &'a Path,
}

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct SentJson<'a> {
    turn: TurnId,
    conversation: &'a ConversationId,
    /// Whether a process has the data open. It may host other channels than the conversation's.
    running: bool,
}

/// Checks that standard input is used once.
///
/// # Errors
/// When it is both the text and a file, or more than one file.
pub fn check(options: &SendOptions) -> Result<(), UsageError> {
    let files = options.attach.iter().filter(|file| stdin::is_standard_input(file)).count();
    match files + usize::from(options.text.as_deref() == Some("-")) {
        0 | 1 => Ok(()),
        _ => Err(UsageError("`-` can be used once: standard input is the text or one file".to_owned())),
    }
}

/// Returns the text, from standard input if the command line says so.
///
/// # Errors
/// When standard input can't be read, is too long or is no text.
pub fn read_text(options: &SendOptions) -> anyhow::Result<String> {
    match options.text.as_deref() {
        Some("-") => stdin::read_whole_text(),
        text => Ok(text.unwrap_or_default().to_owned()),
    }
}

/// Stores the files and the message, for whoever works on the conversation to deliver.
///
/// # Errors
/// When the conversation doesn't exist, something in the message is not allowed, or a store fails.
pub async fn run(
    request: SendRequest<'_>,
    config: &Config,
    stores: &Stores,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let SendRequest { options, text, cwd } = request;
    let SendOptions { conversation, attach, key, json, .. } = options;
    let service = notification_service(config, stores);
    // Before the files are copied.
    service.check_conversation(conversation).await.map_err(into_cli_error)?;
    let limit = config.attachments.max_inbound_file_bytes.0;
    let mut files = Vec::new();
    for file in attach {
        files.push(store_file(file, cwd, &*stores.blobs, limit).await?);
    }
    let is_served = stores.ledger.archive.count_processes().await? > 1;
    let notification = Notification { conversation: conversation.clone(), key: key.clone(), text, files };
    let turn = service.send(notification).await.map_err(into_cli_error)?;
    match json {
        true => write_json(out, &SentJson { turn, conversation, running: is_served })?,
        false => writeln!(out, "queued for {conversation}: {turn}")?,
    }
    if !is_served {
        print_error(&not_running_note(conversation));
    }
    Ok(())
}

/// A service that stores notifications for another process: in this one nobody works on a lane.
fn notification_service(config: &Config, stores: &Stores) -> NotificationService {
    let (lanes, _) = mpsc::channel(1);
    let inbound = InboundService::new(
        &stores.ledger,
        Arc::clone(&stores.clock),
        Arc::new(LocalBus::new()),
        lanes,
        Arc::new(config.access()),
        Arc::clone(&stores.metered_workspace),
        None,
    );
    NotificationService {
        inbound: inbound.internal_inbound(),
        conversations: Arc::clone(&stores.ledger.conversations),
        archive: Arc::clone(&stores.ledger.archive),
        ids: Arc::clone(&stores.ids),
        max_files: config.attachments.max_inbound_files_per_turn.as_usize(),
    }
}

fn not_running_note(conversation: &ConversationId) -> String {
    let command = match conversation.channel().as_str() {
        "console" => format!("satchel chat --conversation {}", conversation.key()),
        _ => "satchel run".to_owned(),
    };
    format!("note: Satchel is not running with this data; the message is delivered once `{command}` is")
}

/// A message that is refused before it is stored is wrong usage.
fn into_cli_error(error: NotificationError) -> anyhow::Error {
    match error {
        NotificationError::Inbound(_) | NotificationError::Ledger(_) | NotificationError::NotDelivered { .. } => {
            error.into()
        }
        error => UsageError(error.to_string()).into(),
    }
}

/// Copies a file into the blob store, without the whole of it in memory.
async fn store_file(file: &Path, cwd: &Path, blobs: &dyn Blobs, limit: u64) -> anyhow::Result<NotificationFile> {
    let shown = file.display();
    let (content, filename, bytes) = match stdin::is_standard_input(file) {
        true => (byte_stream(tokio::io::stdin()), Filename::from_untrusted(STDIN_NAME), None),
        false => {
            let (content, bytes) =
                open_file(&cwd.join(file)).await.with_context(|| format!("failed to read `{shown}`"))?;
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (content, Filename::from_untrusted(&name), bytes)
        }
    };
    let too_large = || UsageError(format!("`{shown}` is larger than the limit of {}", size::format_bytes(limit)));
    if bytes.is_some_and(|bytes| bytes > limit) {
        return Err(too_large().into());
    }
    let hint = BlobHint { filename: Some(filename.clone()), mime: None, bytes };
    match blobs.put(content, &hint, limit).await {
        Ok(blob) => Ok(NotificationFile { blob, filename }),
        Err(BlobError::TooLarge { .. }) => Err(too_large().into()),
        Err(error) => Err(anyhow::Error::new(error).context(format!("failed to store `{shown}`"))),
    }
}

/// Opens a file, with its size where it has one: a pipe has none.
async fn open_file(path: &PathBuf) -> std::io::Result<(ByteStream, Option<u64>)> {
    let file = tokio::fs::File::open(path).await?;
    let metadata = file.metadata().await?;
    if metadata.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok((byte_stream(file), metadata.is_file().then_some(metadata.len())))
}

fn byte_stream(reader: impl AsyncRead + Send + 'static) -> ByteStream {
    ReaderStream::new(reader).boxed()
}
