//! A part as a multipart request: its files stream from the blob store, and what goes wrong with them is remembered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use reqwest::multipart::{Form, Part};
use satchel_domain::{
    PartContent, PartId, Sha256,
    delivery::SendError,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_ports::{BlobError, Blobs, ByteStream, SendRequest};

use crate::{
    transcript::MessageKind,
    wire::{Outgoing, OutgoingFile, VoiceTimes},
};

/// The name under which a voice is sent.
const VOICE_NAME: &str = "voice.ogg";

/// What has become of an upload so far.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    blocks: AtomicU64,
    unreadable: Mutex<Option<String>>,
}

impl Progress {
    /// Returns when nothing was uploaded for so long.
    pub(crate) async fn stalled(&self, longest_wait: Duration) {
        loop {
            let before = self.0.blocks.load(Ordering::Relaxed);
            tokio::time::sleep(longest_wait).await;
            if self.0.blocks.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Why a file could not be read, if one could not.
    pub(crate) fn unreadable(&self) -> Option<String> {
        self.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn watch(&self, content: ByteStream) -> ByteStream {
        let progress = self.clone();
        let watched = content.inspect(move |block| {
            progress.0.blocks.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = block {
                *progress.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        });
        watched.boxed()
    }
}

/// The request that sends a part.
pub(crate) async fn form(
    blobs: &Arc<dyn Blobs>,
    part: &SendRequest,
    nonce: Option<String>,
    progress: &Progress,
) -> Result<Form, SendError> {
    let payload = serde_json::to_string(&outgoing(part, nonce)).expect("a message of texts and numbers is JSON");
    let mut form = Form::new().text("payload", payload);
    for (index, (sha256, bytes)) in stored(&part.content).into_iter().enumerate() {
        let content = blobs.open(&sha256, None).await.map_err(|error| match error {
            BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
            other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
        })?;
        let body = reqwest::Body::wrap_stream(progress.watch(content));
        form = form.part(format!("file{index}"), Part::stream_with_length(body, bytes));
    }
    Ok(form)
}

/// A part in the platform's words.
pub(crate) fn outgoing(part: &SendRequest, nonce: Option<String>) -> Outgoing {
    let (kind, text, markup) = match &part.content {
        PartContent::Text { text, markup, .. } => (MessageKind::Text, text.clone(), *markup),
        PartContent::Notice { text } | PartContent::Question { text, .. } => {
            (MessageKind::Text, text.clone(), Markup::Rich)
        }
        PartContent::Voice { as_file: false, .. } => (MessageKind::Voice, String::new(), Markup::Plain),
        PartContent::Voice { .. } | PartContent::File(_) | PartContent::Withdraw => {
            (MessageKind::File, String::new(), Markup::Plain)
        }
        PartContent::Album { .. } => (MessageKind::Album, String::new(), Markup::Plain),
    };
    let mut files: Vec<OutgoingFile> = part.content.files().iter().map(outgoing_file).collect();
    let voice = voice(&part.content);
    if voice.is_some() {
        files.push(OutgoingFile {
            filename: VOICE_NAME.to_owned(),
            mime: "audio/ogg".to_owned(),
            form: FileForm::Audio,
            caption: match &part.content {
                PartContent::Voice { caption, .. } => caption.clone(),
                _ => String::new(),
            },
        });
    }
    let times = voice.filter(|_| kind == MessageKind::Voice);
    Outgoing {
        conversation: part.conversation.clone(),
        kind,
        text,
        markup,
        files,
        voice: times.map(|voice| VoiceTimes { duration_ms: voice.duration_ms, waveform: voice.waveform.clone() }),
        reply_to: part.reply_to.clone(),
        reply_even_if_gone: true,
        enforce_nonce: nonce.is_some(),
        nonce,
    }
}

/// The sizes of a part's files, in order.
pub(crate) fn sizes(part: &SendRequest) -> impl Iterator<Item = u64> {
    stored(&part.content).into_iter().map(|(_, bytes)| bytes)
}

/// 16 bytes as 22 characters of base64url: the form in which a nonce holds a part's id.
pub(crate) fn nonce(part: PartId) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = part.0.as_u128();
    // 22 digits hold 132 bits: the last one ends in four zeros.
    (0..22)
        .map(|digit| {
            let shifted = if digit == 21 { bits << 4 } else { bits >> (122 - 6 * digit) };
            let index = usize::try_from(shifted & 63).expect("six bits");
            char::from(DIGITS[index])
        })
        .collect()
}

fn outgoing_file(item: &FileItem) -> OutgoingFile {
    OutgoingFile {
        filename: item.attachment.filename.as_str().to_owned(),
        mime: item.attachment.mime.clone(),
        form: item.form,
        caption: item.caption.clone(),
    }
}

fn voice(content: &PartContent) -> Option<&PreparedVoice> {
    match content {
        PartContent::Voice { prepared, .. } => prepared.as_ref(),
        _ => None,
    }
}

/// The bytes that a part sends, in order.
fn stored(content: &PartContent) -> Vec<(Sha256, u64)> {
    let files = content.files().iter().map(|item| (item.attachment.sha256, item.attachment.bytes));
    files.chain(voice(content).map(|voice| (voice.sha256, voice.bytes))).collect()
}

#[cfg(test)]
mod tests {
    use satchel_domain::PartId;

    #[test]
    fn a_nonce_is_the_ids_bytes_in_base64url() {
        let id: PartId = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e".parse().expect("an id");
        // Python: base64.urlsafe_b64encode(uuid.UUID(…).bytes).rstrip(b"=")
        assert_eq!(super::nonce(id), "AZDFoH87fGKNXj8aK0xdbg");
    }
}
