//! Prepares a queued turn: each of its files is stored or refused, and its voice notes are listened to, before it begins.

mod transcribe;

use std::time::Duration;

use futures::{StreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, DiskFull, FileReference, InboxId, RefusedFile, Sender, Timestamp,
    TurnId, delivery::SendError, size,
};
use satchel_ports::{
    BlobError, BlobHint, Blobs, ByteStream, Channel, FetchedFile, FileFetchError, Lease, Ledger, LedgerError, Speech,
    StoredBlob,
    ledger::{InboundFileState, QueuedTurn},
};

use crate::access::AccessPolicy;

/// How many files of one turn are fetched at once.
const AT_ONCE: usize = 3;

/// How often a file is tried before it is refused. Tries while its platform can't be reached don't count before a
/// message's [`OUTAGE`] is over: they say nothing about the file.
const TRIES: u32 = 5;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long after a message an unreachable platform is retried: 24 h, the default of `delivery.max_age`; not
/// configurable.
const OUTAGE: Duration = Duration::from_secs(24 * 60 * 60);

/// What may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboundLimits {
    /// The largest file in bytes.
    pub file_bytes: u64,
    /// The most files of one turn.
    pub files_per_turn: usize,
    /// How long one attempt at one file may take.
    pub fetch_time: Duration,
}

impl Default for InboundLimits {
    fn default() -> Self {
        Self { file_bytes: 2 << 30, files_per_turn: 20, fetch_time: Duration::from_secs(30 * 60) }
    }
}

#[derive(Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Where the files come from.
    pub channel: &'a dyn Channel,
    /// Where their bytes go.
    pub blobs: &'a dyn Blobs,
    /// Where they are recorded.
    pub ledger: &'a dyn Ledger,
    /// The right to record them.
    pub lease: &'a Lease,
    /// Who listens to voice notes; `None` where nobody does.
    pub speech: Option<&'a dyn Speech>,
    /// What may come in.
    pub limits: InboundLimits,
    /// Who owns this Satchel, and so reads what can be done about a refusal.
    pub access: &'a AccessPolicy,
}

/// Fetches every file of the turn that still waits, and returns the turn with each stored or refused, and with the words
/// of its voice notes.
///
/// Each file is recorded by itself, and so are the words of each voice note: a crash repeats at most what is in flight.
///
/// # Errors
/// When the ledger fails or the lane is lost. A file that can't be had is no error: it is refused; nor is a voice note
/// that nobody understands.
pub async fn fetch_files(fetching: PrepareContext<'_>, mut turn: QueuedTurn) -> Result<QueuedTurn, LedgerError> {
    let mut waiting = Vec::new();
    let mut nth = 0;
    for (at, message) in turn.messages.iter().enumerate() {
        for (index, file) in message.files.iter().enumerate() {
            if let InboundFileState::Waiting(reference) = file {
                let (given_up, sender) = (message.received_at.saturating_add(OUTAGE), message.message.sender.clone());
                waiting.push((at, index, nth, message.id, given_up, sender, reference.clone()));
            }
            nth += 1;
        }
    }
    let id = turn.id;
    let mut fetched = stream::iter(waiting)
        .map(|(at, index, nth, message, given_up, sender, reference)| async move {
            let outcome = if nth < fetching.limits.files_per_turn {
                fetch_file(fetching, &reference, &sender, given_up).await
            } else {
                Err(format!("at most {} files are accepted at once", fetching.limits.files_per_turn))
            };
            (at, index, message, reference, outcome)
        })
        .buffered(AT_ONCE);
    // Recorded in the sender's order, in which they are numbered.
    while let Some((at, index, message, reference, outcome)) = fetched.next().await {
        turn.messages[at].files[index] = record_file(fetching, id, message, index, reference, outcome).await?;
    }
    drop(fetched);
    transcribe::transcribe_voice_notes(fetching, turn).await
}

/// Refuses every file of the turn that still waits, for a turn that is given up.
///
/// # Errors
/// When the ledger fails or the lane is lost.
pub async fn refuse_files(
    fetching: PrepareContext<'_>,
    mut turn: QueuedTurn,
    reason: &str,
) -> Result<QueuedTurn, LedgerError> {
    let id = turn.id;
    for message in &mut turn.messages {
        for (index, file) in message.files.iter_mut().enumerate() {
            if let InboundFileState::Waiting(reference) = file {
                let refused = Err(reason.to_owned());
                *file = record_file(fetching, id, message.id, index, reference.clone(), refused).await?;
            }
        }
    }
    Ok(turn)
}

/// Fetches one file, trying again while that may help; from `given_up` on, a platform that can't be reached is no reason to
/// wait longer. The error says in words why it is refused.
async fn fetch_file(
    fetching: PrepareContext<'_>,
    reference: &FileReference,
    sender: &Sender,
    given_up: Timestamp,
) -> Result<Attachment, String> {
    let mut pause = Duration::from_secs(1);
    let mut tried = 0;
    loop {
        let attempt = tokio::time::timeout(fetching.limits.fetch_time, try_fetch_file(fetching, reference)).await;
        let for_sender = |reason: &str, remedy: &str| {
            fetching.access.reason_for(fetching.lease.conversation.channel(), sender, reason, Some(remedy))
        };
        let reason = match attempt {
            Ok(Ok(attachment)) => return Ok(attachment),
            Ok(Err(AttemptError::Permanent(reason))) => return Err(reason),
            Ok(Err(AttemptError::NotSetUp { reason, remedy })) => return Err(for_sender(&reason, &remedy)),
            Ok(Err(AttemptError::NoRoom(full))) => {
                for_sender(&format!("it could not be stored ({full})"), full.remedy())
            }
            Ok(Err(AttemptError::Retryable(reason))) => format!("it could not be fetched ({reason})"),
            Err(_) => {
                let seconds = fetching.limits.fetch_time.as_secs();
                format!("it could not be fetched (it took longer than {seconds} s)")
            }
        };
        tried += u32::from(is_reachable(fetching.channel).await || fetching.ledger.now() >= given_up);
        if tried == TRIES {
            return Err(reason);
        }
        tracing::info!(chat.id = %fetching.lease.conversation, tried, reason, "fetching a file failed; retrying");
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// Whether the platform answers, if only with a refusal.
async fn is_reachable(channel: &dyn Channel) -> bool {
    !matches!(channel.probe().await, Err(SendError::NotSent { .. } | SendError::InDoubt { .. }))
}

enum AttemptError {
    Permanent(String),
    NotSetUp { reason: String, remedy: String },
    NoRoom(DiskFull),
    Retryable(String),
}

async fn try_fetch_file(fetching: PrepareContext<'_>, reference: &FileReference) -> Result<Attachment, AttemptError> {
    let limit = fetching.limits.file_bytes;
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
    let incoming = fetching.channel.fetch(reference).await.map_err(|error| match error {
        FileFetchError::Retryable { reason } => AttemptError::Retryable(reason),
        FileFetchError::Permanent { reason } => AttemptError::Permanent(reason),
        FileFetchError::NotSetUp { reason, remedy } => AttemptError::NotSetUp { reason, remedy },
    })?;
    let stored = match incoming {
        FetchedFile::Bytes { bytes: Some(bytes), .. } if bytes > limit => return Err(too_large(bytes)),
        FetchedFile::Stored(stored) if stored.bytes > limit => return Err(too_large(stored.bytes)),
        FetchedFile::Stored(stored) => stored,
        FetchedFile::Bytes { bytes, content } => {
            store_blob(fetching.blobs, reference, bytes.or(reference.bytes), content, limit).await?
        }
    };
    let (id, conversation) = (AttachmentId(fetching.ledger.new_id()), fetching.lease.conversation.clone());
    let (source, filename) = (AttachmentSource::User, reference.filename.clone());
    let file = Attachment::new(id, conversation, source, filename, stored, fetching.ledger.now());
    Ok(Attachment { description: reference.caption.clone(), ..file })
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
        BlobError::Full(full) => AttemptError::NoRoom(full),
        other => {
            tracing::warn!(error = &other as &dyn std::error::Error, "the file store failed");
            AttemptError::Retryable("the file store failed".to_owned())
        }
    })
}

async fn record_file(
    fetching: PrepareContext<'_>,
    turn: TurnId,
    message: InboxId,
    index: usize,
    reference: FileReference,
    outcome: Result<Attachment, String>,
) -> Result<InboundFileState, LedgerError> {
    let index = u32::try_from(index).expect("a message has fewer files than fit a u32");
    let reason = match outcome {
        Ok(attachment) => match fetching.ledger.store_file(fetching.lease, message, index, &attachment).await {
            Err(LedgerError::QuotaExceeded(exceeded)) => exceeded.to_string(),
            stored => return Ok(InboundFileState::Stored(stored?)),
        },
        Err(reason) => reason,
    };
    tracing::info!(chat.id = %fetching.lease.conversation, turn.id = %turn, reason, "a file was refused; the person is told why");
    let refused = RefusedFile { filename: reference.filename, bytes: reference.bytes, reason };
    fetching.ledger.refuse_file(fetching.lease, message, index, &refused).await?;
    Ok(InboundFileState::Refused(refused))
}

#[cfg(test)]
mod tests;
