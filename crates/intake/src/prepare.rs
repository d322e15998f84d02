//! Prepares a queued turn before it starts: stores or refuses each file and transcribes voice notes.

mod transcribe;

use std::time::Duration;

use futures::{StreamExt, stream};
use satchel_domain::{
    AttachmentId, AttachmentSource, DiskFull, FileReference, InboxId, NewAttachment, RefusedFile, Sender, Timestamp,
    TurnId, delivery::SendError, size,
};
use satchel_ports::{
    BlobError, BlobHint, Blobs, ByteStream, Channel, Clock, FetchedFile, FileFetchError, Ids, Lease, LedgerError,
    Speech, StoredBlob, Turns,
    ledger::{InboundFileState, QueuedTurn},
};

use crate::access::AccessPolicy;

/// How many files of one turn are fetched at once.
const MAX_CONCURRENT_FETCHES: usize = 3;

/// How many attempts a file gets before it is refused. Attempts while its platform can't be reached don't count before a
/// message's [`OUTAGE_GRACE`] is over: they say nothing about the file.
const MAX_ATTEMPTS: u32 = 5;

/// The longest delay between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// How long after a message an unreachable platform is retried: 24 h, the default of `delivery.max_age`; not
/// configurable.
const OUTAGE_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits for inbound files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboundLimits {
    /// The largest file in bytes.
    pub max_file_bytes: u64,
    /// The most files of one turn.
    pub max_files_per_turn: usize,
    /// How long one attempt at one file may take.
    pub fetch_timeout: Duration,
}

impl Default for InboundLimits {
    fn default() -> Self {
        Self { max_file_bytes: 2 << 30, max_files_per_turn: 20, fetch_timeout: Duration::from_secs(30 * 60) }
    }
}

#[derive(Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Where the files come from.
    pub channel: &'a dyn Channel,
    /// Where their bytes go.
    pub blobs: &'a dyn Blobs,
    /// Where they are recorded.
    pub turns: &'a dyn Turns,
    /// When files are stored, and how long an outage is waited for.
    pub clock: &'a dyn Clock,
    /// The ids of new files.
    pub ids: &'a dyn Ids,
    /// The right to record them.
    pub lease: &'a Lease,
    /// Transcribes voice notes; `None` where speech is not configured.
    pub speech: Option<&'a dyn Speech>,
    /// The limits for inbound files.
    pub limits: InboundLimits,
    /// Who owns this Satchel, and so reads what can be done about a refusal.
    pub access: &'a AccessPolicy,
}

/// Fetches every file of the turn that still waits, and returns the turn with each stored or refused, and with the
/// transcriptions of its voice notes.
///
/// Each file and each transcription is recorded by itself, so a crash repeats at most what is in flight.
///
/// # Errors
/// When the ledger fails or the lane is lost. A file that can't be fetched is no error: it is refused; nor is a
/// voice note that can't be transcribed.
pub async fn prepare_turn(context: PrepareContext<'_>, mut turn: QueuedTurn) -> Result<QueuedTurn, LedgerError> {
    adopt_quoted_files(context, &mut turn).await?;
    let mut waiting = Vec::new();
    let mut nth = 0;
    for (message_index, message) in turn.messages.iter().enumerate() {
        for (index, file) in message.files.iter().enumerate() {
            if let InboundFileState::Waiting(reference) = file {
                let (give_up_at, sender) =
                    (message.received_at.saturating_add(OUTAGE_GRACE), message.message.sender.clone());
                waiting.push((message_index, index, nth, message.id, give_up_at, sender, reference.clone()));
            }
            nth += 1;
        }
    }
    let id = turn.id;
    let mut fetched = stream::iter(waiting)
        .map(|(message_index, index, nth, message, give_up_at, sender, reference)| async move {
            let outcome = if nth < context.limits.max_files_per_turn {
                fetch_file(context, &reference, &sender, give_up_at).await
            } else {
                Err(format!("at most {} files are accepted at once", context.limits.max_files_per_turn))
            };
            (message_index, index, message, reference, outcome)
        })
        .buffered(MAX_CONCURRENT_FETCHES);
    // Recorded in the sender's order, in which they are numbered.
    while let Some((message_index, index, message, reference, outcome)) = fetched.next().await {
        turn.messages[message_index].files[index] =
            record_file(context, id, message, index, reference, outcome).await?;
    }
    drop(fetched);
    transcribe::transcribe_voice_notes(context, turn).await
}

/// Takes what the conversation has already for the files that the messages only quote: who replies to a photo brings no
/// second one.
async fn adopt_quoted_files(context: PrepareContext<'_>, turn: &mut QueuedTurn) -> Result<(), LedgerError> {
    for message in &mut turn.messages {
        for (index, file) in (0_u32..).zip(&mut message.files) {
            let is_quoted = matches!(file, InboundFileState::Waiting(reference) if reference.quoted.is_some());
            if is_quoted && let Some(known) = context.turns.adopt_file(context.lease, message.id, index).await? {
                *file = InboundFileState::Stored(known);
            }
        }
    }
    Ok(())
}

/// Refuses every file of the turn that still waits, for a turn that is given up.
///
/// # Errors
/// When the ledger fails or the lane is lost.
pub async fn refuse_files(
    context: PrepareContext<'_>,
    mut turn: QueuedTurn,
    reason: &str,
) -> Result<QueuedTurn, LedgerError> {
    let id = turn.id;
    for message in &mut turn.messages {
        for (index, file) in message.files.iter_mut().enumerate() {
            if let InboundFileState::Waiting(reference) = file {
                let refused = Err(reason.to_owned());
                *file = record_file(context, id, message.id, index, reference.clone(), refused).await?;
            }
        }
    }
    Ok(turn)
}

/// Fetches one file, with retries; from `give_up_at` on, attempts count even if the platform is unreachable. The error
/// is the reason for the person.
async fn fetch_file(
    context: PrepareContext<'_>,
    reference: &FileReference,
    sender: &Sender,
    give_up_at: Timestamp,
) -> Result<NewAttachment, String> {
    let mut delay = Duration::from_secs(1);
    let mut attempts = 0;
    loop {
        let attempt = tokio::time::timeout(context.limits.fetch_timeout, try_fetch_file(context, reference)).await;
        let for_sender = |reason: &str, remedy: &str| {
            context.access.reason_for_sender(context.lease.conversation.channel(), sender, reason, Some(remedy))
        };
        let reason = match attempt {
            Ok(Ok(attachment)) => return Ok(attachment),
            Ok(Err(AttemptError::Permanent(reason))) => return Err(reason),
            Ok(Err(AttemptError::NotConfigured { reason, remedy })) => return Err(for_sender(&reason, &remedy)),
            Ok(Err(AttemptError::DiskFull(full))) => {
                for_sender(&format!("it could not be stored ({full})"), full.remedy())
            }
            Ok(Err(AttemptError::Retryable(reason))) => format!("it could not be fetched ({reason})"),
            Err(_) => {
                let seconds = context.limits.fetch_timeout.as_secs();
                format!("it could not be fetched (it took longer than {seconds} s)")
            }
        };
        attempts += u32::from(is_reachable(context.channel).await || context.clock.now() >= give_up_at);
        if attempts == MAX_ATTEMPTS {
            return Err(reason);
        }
        tracing::info!(chat.id = %context.lease.conversation, attempts, reason, "fetching a file failed; retrying");
        tokio::time::sleep(delay).await;
        delay = MAX_BACKOFF.min(delay * 2);
    }
}

/// Returns whether the platform responds, if only with a refusal. One that refuses the account says nothing about a file.
async fn is_reachable(channel: &dyn Channel) -> bool {
    let probed = channel.probe().await;
    let is_away =
        matches!(probed, Err(SendError::NotSent { .. } | SendError::InDoubt { .. } | SendError::AccountRefused { .. }));
    !is_away
}

enum AttemptError {
    Permanent(String),
    NotConfigured { reason: String, remedy: String },
    DiskFull(DiskFull),
    Retryable(String),
}

async fn try_fetch_file(context: PrepareContext<'_>, reference: &FileReference) -> Result<NewAttachment, AttemptError> {
    let limit = context.limits.max_file_bytes;
    let too_large = |bytes: u64| {
        AttemptError::Permanent(format!(
            "it is {}, the limit is {}",
            size::format_bytes(bytes),
            size::format_bytes(limit)
        ))
    };
    if let Some(bytes) = reference.bytes.filter(|bytes| *bytes > limit) {
        return Err(too_large(bytes));
    }
    let fetched = match reference.stored_blob() {
        Some(blob) => FetchedFile::Stored(check_stored(context.blobs, blob).await?),
        None => context.channel.fetch(reference).await.map_err(|error| match error {
            FileFetchError::Retryable { reason } => AttemptError::Retryable(reason),
            FileFetchError::Permanent { reason } => AttemptError::Permanent(reason),
            FileFetchError::NotConfigured { reason, remedy } => AttemptError::NotConfigured { reason, remedy },
        })?,
    };
    let stored = match fetched {
        FetchedFile::Bytes { bytes: Some(bytes), .. } if bytes > limit => return Err(too_large(bytes)),
        FetchedFile::Stored(stored) if stored.bytes > limit => return Err(too_large(stored.bytes)),
        FetchedFile::Stored(stored) => stored,
        FetchedFile::Bytes { bytes, content } => {
            store_blob(context.blobs, reference, bytes.or(reference.bytes), content, limit).await?
        }
    };
    let (id, source) = (AttachmentId(context.ids.next()), AttachmentSource::User);
    let file = NewAttachment::new(id, source, reference.filename.clone(), stored, context.clock.now());
    Ok(NewAttachment { description: reference.caption.clone(), ..file })
}

/// Checks that a blob can be opened that was stored before the message was.
async fn check_stored(blobs: &dyn Blobs, blob: StoredBlob) -> Result<StoredBlob, AttemptError> {
    match blobs.open(&blob.sha256, Some(0..1)).await {
        Ok(_) => Ok(blob),
        Err(error @ (BlobError::Missing(_) | BlobError::Damaged(_))) => Err(AttemptError::Permanent(error.to_string())),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the file store failed");
            Err(AttemptError::Retryable("the file store failed".to_owned()))
        }
    }
}

async fn store_blob(
    blobs: &dyn Blobs,
    reference: &FileReference,
    bytes: Option<u64>,
    content: ByteStream,
    limit: u64,
) -> Result<StoredBlob, AttemptError> {
    let hint = BlobHint { filename: Some(reference.filename.clone()), mime: reference.mime.clone(), bytes };
    blobs.put(content, &hint, limit).await.map_err(|error| match error {
        BlobError::TooLarge { limit } => {
            AttemptError::Permanent(format!("it is larger than the limit of {}", size::format_bytes(limit)))
        }
        BlobError::Source(source) => AttemptError::Retryable(format!("the transfer was interrupted: {source}")),
        BlobError::Full(full) => AttemptError::DiskFull(full),
        other => {
            tracing::warn!(error = &other as &dyn std::error::Error, "the file store failed");
            AttemptError::Retryable("the file store failed".to_owned())
        }
    })
}

async fn record_file(
    context: PrepareContext<'_>,
    turn: TurnId,
    message: InboxId,
    index: usize,
    reference: FileReference,
    outcome: Result<NewAttachment, String>,
) -> Result<InboundFileState, LedgerError> {
    let index = u32::try_from(index).expect("a message has fewer files than fit a u32");
    let reason = match outcome {
        Ok(file) => match context.turns.store_file(context.lease, message, index, &file).await {
            Err(LedgerError::QuotaExceeded(exceeded)) => exceeded.to_string(),
            stored => return Ok(InboundFileState::Stored(stored?)),
        },
        Err(reason) => reason,
    };
    tracing::info!(chat.id = %context.lease.conversation, turn.id = %turn, reason, "a file was refused; the person is told why");
    let refused = RefusedFile { filename: reference.filename, bytes: reference.bytes, reason };
    context.turns.refuse_file(context.lease, message, index, &refused).await?;
    Ok(InboundFileState::Refused(refused))
}

#[cfg(test)]
mod tests;
