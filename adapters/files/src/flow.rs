//! Bytes between streams and files: a few buffers at a time, all that blocks on tokio's blocking threads.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    ops::Range,
};

use bytes::{Buf, Bytes};
use futures::{StreamExt, stream};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, ByteStream};
use sha2::Digest;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// Large enough that a change of thread costs nothing beside it, small enough that ten files at once are few megabytes.
const BUFFER: usize = 256 * 1024;

/// What takes the bytes of a stream, on a blocking thread.
pub(crate) trait Sink: Send + 'static {
    /// Why it can't.
    type Error: Send + 'static;

    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Why a stream could not be taken whole.
pub(crate) enum FlowError<E> {
    /// It has more bytes than are allowed.
    TooLarge,
    /// It broke off.
    Source(io::Error),
    /// The sink failed.
    Sink(E),
    /// The thread was stopped or panicked.
    Stopped(JoinError),
}

/// Hands the whole stream to the sink and gives the sink back. One buffer is filled while another is written.
///
/// When this fails or is dropped, the sink is dropped as soon as the buffer that it has in hand is written.
pub(crate) async fn pump<S: Sink>(
    mut content: ByteStream,
    limit: u64,
    sink: S,
) -> Result<S, FlowError<<S as Sink>::Error>> {
    let mut total: u64 = 0;
    let mut filling = Vec::new();
    let mut writing = Writing::Idle(sink, Vec::new());
    while let Some(chunk) = content.next().await {
        let mut chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => {
                writing.settled().await?;
                return Err(FlowError::Source(error));
            }
        };
        total = total.saturating_add(chunk.len() as u64);
        if total > limit {
            writing.settled().await?;
            return Err(FlowError::TooLarge);
        }
        while !chunk.is_empty() {
            let fits = chunk.len().min(BUFFER - filling.len());
            filling.extend_from_slice(&chunk[..fits]);
            chunk.advance(fits);
            if filling.len() == BUFFER {
                let (sink, spare) = writing.settled().await?;
                writing = Writing::start(sink, mem::replace(&mut filling, spare));
            }
        }
    }
    let (sink, _) = writing.settled().await?;
    let (sink, _) = Writing::start(sink, filling).settled().await?;
    Ok(sink)
}

/// The sink and its buffer, to be used again.
type Written<S> = Result<(S, Vec<u8>), <S as Sink>::Error>;

enum Writing<S: Sink> {
    Idle(S, Vec<u8>),
    Busy(JoinHandle<Written<S>>),
}

impl<S: Sink> Writing<S> {
    fn start(mut sink: S, mut bytes: Vec<u8>) -> Self {
        Self::Busy(spawn_blocking(move || {
            sink.take(&bytes)?;
            bytes.clear();
            Ok((sink, bytes))
        }))
    }

    async fn settled(self) -> Result<(S, Vec<u8>), FlowError<S::Error>> {
        match self {
            Self::Idle(sink, spare) => Ok((sink, spare)),
            Self::Busy(task) => task.await.map_err(FlowError::Stopped)?.map_err(FlowError::Sink),
        }
    }
}

/// Streams a range of the file, whose position is at the range's start; one buffer is read ahead.
///
/// With `verify`, the last bytes are given out only when the digest of all of them is right, so that whoever passes the
/// stream on never ends with a whole file that is wrong.
pub(crate) fn stream_file(file: File, range: Range<u64>, verify: Option<Sha256>) -> ByteStream {
    let reader =
        Reader { file, left: range.end - range.start, verify: verify.map(|sha256| (sha256, sha2::Sha256::new())) };
    Box::pin(stream::unfold(Some(read_ahead(reader)), |reading| async {
        match reading?.await {
            Ok((reader, Ok(bytes))) if reader.left > 0 => Some((Ok(bytes), Some(read_ahead(reader)))),
            Ok((_, Ok(bytes))) if bytes.is_empty() => None,
            Ok((_, read)) => Some((read, None)),
            Err(stopped) => Some((Err(io::Error::other(stopped)), None)),
        }
    }))
}

fn read_ahead(mut reader: Reader) -> JoinHandle<(Reader, io::Result<Bytes>)> {
    spawn_blocking(move || {
        let read = reader.read();
        (reader, read)
    })
}

struct Reader {
    file: File,
    left: u64,
    verify: Option<(Sha256, sha2::Sha256)>,
}

impl Reader {
    fn read(&mut self) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(self.left).unwrap_or(BUFFER).min(BUFFER)];
        let read = self.file.read_exact(&mut bytes);
        match (read, &self.verify) {
            (Err(error), Some((sha256, _))) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged(*sha256));
            }
            (read, _) => read?,
        }
        self.left -= bytes.len() as u64;
        if let Some((_, hasher)) = &mut self.verify {
            hasher.update(&bytes);
        }
        if self.left == 0
            && let Some((sha256, hasher)) = self.verify.take()
            && <[u8; 32]>::from(hasher.finalize()) != sha256.0
        {
            return Err(damaged(sha256));
        }
        Ok(Bytes::from(bytes))
    }
}

fn damaged(sha256: Sha256) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, BlobError::Damaged(sha256))
}
