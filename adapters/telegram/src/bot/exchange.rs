//! One request and its answer, waited for as long as something moves.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{RequestBuilder, Response};
use satchel_ports::ByteStream;

use super::{CallError, Patience};

/// The longest answer that is read: a hundred updates of the longest texts are a tenth of it.
const LONGEST_ANSWER: usize = 16 << 20;

/// Bytes a second at which a server passes an upload on at the slowest, before it answers.
const SLOWEST: u64 = 500_000;

/// The most that is handed over at once: a slow line must be seen to move, however large the blocks of a store are.
const PIECE: usize = 64 * 1024;

/// What has become of an upload so far.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<State>);

#[derive(Default)]
struct State {
    bytes: u64,
    taken: AtomicU64,
    unreadable: Mutex<Option<String>>,
}

impl Progress {
    /// Of a request without files.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Of an upload of so many bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        Self(Arc::new(State { bytes, ..State::default() }))
    }

    /// The stream, watched. It fails at its end where it was not `bytes` long: the request would be taken for whole.
    pub(crate) fn watch(&self, content: ByteStream, bytes: u64) -> ByteStream {
        let content = content.map_ok(|block| stream::iter(pieces(block))).try_flatten().boxed();
        let start = (content, self.clone(), bytes);
        let watched = stream::try_unfold(start, |(mut content, progress, left)| async move {
            let failure = match content.next().await {
                Some(Ok(piece)) if piece.len() as u64 <= left => {
                    progress.0.taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
                    let left = left - piece.len() as u64;
                    return Ok(Some((piece, (content, progress, left))));
                }
                None if left == 0 => return Ok(None),
                Some(Ok(_)) | None => io::Error::other("they are more or fewer than was stored"),
                Some(Err(error)) => error,
            };
            *progress.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
            Err(failure)
        });
        watched.boxed()
    }

    fn unreadable(&self) -> Option<String> {
        self.0.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when nothing has moved for too long.
    async fn stalled(&self, patience: Patience) {
        // Looked at four times in each time limit, so that it is kept to a quarter.
        const LOOKS: u32 = 4;
        let (mut before, mut quiet) = (u64::MAX, 0);
        let passing_on = Duration::from_secs(self.0.bytes / SLOWEST);
        loop {
            let taken = self.0.taken.load(Ordering::Relaxed);
            quiet = if taken == before { quiet + 1 } else { 0 };
            before = taken;
            if quiet == LOOKS {
                return;
            }
            let all_taken = taken >= self.0.bytes;
            tokio::time::sleep(if all_taken { patience.answer + passing_on } else { patience.silence } / LOOKS).await;
        }
    }
}

fn pieces(block: Bytes) -> impl Iterator<Item = io::Result<Bytes>> {
    (0..block.len()).step_by(PIECE).map(move |at| Ok(block.slice(at..block.len().min(at + PIECE))))
}

/// Sends a request and reads the whole answer.
pub(super) async fn exchange(
    request: RequestBuilder,
    progress: &Progress,
    patience: Patience,
) -> Result<(u16, Vec<u8>), CallError> {
    let exchanged = async {
        let response = request.send().await.map_err(CallError::unanswered)?;
        read(response, patience.silence).await
    };
    let answered = tokio::select! {
        answered = exchanged => answered,
        () = progress.stalled(patience) => Err(CallError::Lost { reason: "no response in time".to_owned() }),
    };
    match (answered, progress.unreadable()) {
        // The request can't have been complete, so nobody can have taken it; but a server may have said no already.
        (Err(_), Some(reason)) => Err(CallError::Unreadable { reason }),
        (answered, _) => answered,
    }
}

/// Reads an answer to its end.
pub(super) async fn read(mut response: Response, silence: Duration) -> Result<(u16, Vec<u8>), CallError> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    loop {
        let piece = tokio::time::timeout(silence, response.chunk()).await;
        let piece = piece.map_err(|_| CallError::Lost { reason: "the answer stopped half-way".to_owned() })?;
        match piece.map_err(CallError::unanswered)? {
            None => return Ok((status, body)),
            Some(piece) if body.len() + piece.len() > LONGEST_ANSWER => {
                return Err(CallError::NotAnAnswer { status, reason: "the answer has no end".to_owned() });
            }
            Some(piece) => body.extend_from_slice(&piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_block_goes_in_pieces_and_whole() {
        let content: Vec<u8> = (0..2 * PIECE + 5).map(|n| (n % 251) as u8).collect();
        let blocks = [Ok(Bytes::from(content.clone())), Ok(Bytes::from_static(b"end"))];
        let progress = Progress::of(content.len() as u64 + 3);
        let watched = progress.watch(stream::iter(blocks).boxed(), content.len() as u64 + 3);
        let went: Vec<Bytes> = watched.try_collect().await.unwrap();
        assert_eq!(went.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 5, 3]);
        assert!(went.concat() == [&content[..], b"end"].concat(), "the bytes are others");
    }
}
