//! Bytes between streams and files: a few blocks at a time, all that blocks on tokio's blocking threads.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read},
    ops::Range,
};

use bytes::{Bytes, BytesMut};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use satchel_ports::ByteStream;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// Large enough that a change of thread costs little beside it. A file on its way has four or so of them in memory.
const BLOCK: usize = 512 * 1024;

/// What takes the bytes of a stream, on a blocking thread.
pub(crate) trait BlockSink: Send + 'static {
    /// Why it can't.
    type Error: Send + 'static;

    /// Takes the next bytes.
    fn write_block(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Why a stream could not be taken whole.
pub(crate) enum CopyError<E = Infallible> {
    /// It has more bytes than are allowed.
    TooLarge,
    Source(io::Error),
    Sink(E),
    /// The thread was stopped or panicked.
    Stopped(JoinError),
}

impl CopyError {
    /// The same where a sink may fail.
    fn anywhere<E>(self) -> CopyError<E> {
        match self {
            Self::TooLarge => CopyError::TooLarge,
            Self::Source(error) => CopyError::Source(error),
            Self::Stopped(error) => CopyError::Stopped(error),
        }
    }
}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::TooLarge => io::ErrorKind::FileTooLarge.into(),
            CopyError::Source(error) => error,
            CopyError::Stopped(error) => io::Error::other(error),
        }
    }
}

/// Bytes on their way to a sink.
pub(crate) type BlockStream = BoxStream<'static, Result<Bytes, CopyError>>;

/// The stream's bytes in blocks, however small the pieces are in which they come, and an error once there are more than
/// `limit`. What comes in large pieces isn't copied.
pub(crate) fn blocks(content: ByteStream, limit: u64) -> BlockStream {
    let joining = BlockBuffer { content: Some(content), left: limit, piece: Bytes::new(), filling: BytesMut::new() };
    Box::pin(stream::unfold(joining, |mut joining| async { joining.next().await.map(|block| (block, joining)) }))
}

struct BlockBuffer {
    content: Option<ByteStream>,
    /// How many more bytes are allowed.
    left: u64,
    /// What of the last piece is in no block yet.
    piece: Bytes,
    filling: BytesMut,
}

impl BlockBuffer {
    async fn next(&mut self) -> Option<Result<Bytes, CopyError>> {
        loop {
            if self.filling.is_empty() && self.piece.len() >= BLOCK {
                return Some(Ok(self.piece.split_to(BLOCK)));
            }
            let missing = BLOCK - self.filling.len();
            let part = self.piece.split_to(self.piece.len().min(missing));
            if !part.is_empty() {
                self.filling.reserve(missing);
                self.filling.extend_from_slice(&part);
            }
            if self.filling.len() == BLOCK {
                return Some(Ok(self.filling.split().freeze()));
            }
            self.piece = match self.content.as_mut()?.next().await {
                Some(piece) => match self.allowed(piece) {
                    Ok(piece) => piece,
                    Err(error) => {
                        self.content = None;
                        return Some(Err(error));
                    }
                },
                None => {
                    self.content = None;
                    return (!self.filling.is_empty()).then(|| Ok(self.filling.split().freeze()));
                }
            };
        }
    }

    fn allowed(&mut self, piece: io::Result<Bytes>) -> Result<Bytes, CopyError> {
        let piece = piece.map_err(CopyError::Source)?;
        self.left = self.left.checked_sub(piece.len() as u64).ok_or(CopyError::TooLarge)?;
        Ok(piece)
    }
}

/// Hands all blocks to the sink and gives the sink back. One comes while another is written.
///
/// When this fails or is dropped, the sink is dropped as soon as the block that it has in hand is written.
pub(crate) async fn pump<S: BlockSink>(mut blocks: BlockStream, sink: S) -> Result<S, CopyError<S::Error>> {
    // Nothing, to begin with: a sink that may take no more says so of an empty file too.
    let mut stage = SinkTask::Idle(sink).write_block(Bytes::new()).await?;
    while let Some(block) = blocks.next().await {
        match block {
            Ok(block) => stage = stage.write_block(block).await?,
            Err(error) => {
                stage.finish().await?;
                return Err(error.anywhere());
            }
        }
    }
    stage.finish().await
}

/// A sink that has a block in hand on a blocking thread, or nothing to do.
pub(crate) enum SinkTask<S: BlockSink> {
    Idle(S),
    Busy(JoinHandle<Result<S, S::Error>>),
}

impl<S: BlockSink> SinkTask<S> {
    /// Hands over the next block once the one before it is taken, and doesn't wait until this one is.
    pub(crate) async fn write_block(self, block: Bytes) -> Result<Self, CopyError<S::Error>> {
        let mut sink = self.finish().await?;
        Ok(Self::Busy(spawn_blocking(move || sink.write_block(&block).map(|()| sink))))
    }

    /// Gives the sink back once it has taken everything.
    pub(crate) async fn finish(self) -> Result<S, CopyError<S::Error>> {
        match self {
            Self::Idle(sink) => Ok(sink),
            Self::Busy(task) => task.await.map_err(CopyError::Stopped)?.map_err(CopyError::Sink),
        }
    }
}

/// Streams a range of the file, whose position is at the range's start; one block is read ahead.
pub(crate) fn stream_file(file: File, range: Range<u64>) -> ByteStream {
    let first = ReadState::Next(BlockReader { file, left: range.end - range.start });
    Box::pin(stream::unfold(Some(first), |reading| async {
        match reading?.start_read().await {
            Ok((reader, Ok(block))) if reader.left > 0 => Some((Ok(block), Some(ReadState::Ahead(read_ahead(reader))))),
            Ok((_, Ok(block))) if block.is_empty() => None,
            Ok((_, read)) => Some((read, None)),
            Err(stopped) => Some((Err(io::Error::other(stopped)), None)),
        }
    }))
}

enum ReadState {
    Next(BlockReader),
    Ahead(JoinHandle<(BlockReader, io::Result<Bytes>)>),
}

impl ReadState {
    fn start_read(self) -> JoinHandle<(BlockReader, io::Result<Bytes>)> {
        match self {
            Self::Next(reader) => read_ahead(reader),
            Self::Ahead(reading) => reading,
        }
    }
}

fn read_ahead(mut reader: BlockReader) -> JoinHandle<(BlockReader, io::Result<Bytes>)> {
    // Taken here, by whoever asks, and not there: every one of the many blocking threads would keep memory of its own.
    let block = Vec::with_capacity(reader.next_block_size());
    spawn_blocking(move || {
        let read = reader.read(block);
        (reader, read)
    })
}

struct BlockReader {
    file: File,
    left: u64,
}

impl BlockReader {
    /// The size of the next block.
    fn next_block_size(&self) -> usize {
        usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK)
    }

    fn read(&mut self, mut block: Vec<u8>) -> io::Result<Bytes> {
        let wanted = self.next_block_size();
        (&self.file).take(wanted as u64).read_to_end(&mut block)?;
        if block.len() < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= wanted as u64;
        Ok(Bytes::from(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(pieces: Vec<io::Result<Bytes>>) -> ByteStream {
        Box::pin(stream::iter(pieces))
    }

    #[tokio::test]
    async fn chunks_of_any_size_become_lossless_blocks() {
        let sizes = [0, 1, BLOCK - 1, 7, BLOCK, BLOCK + 1, 3 * BLOCK, 5, 0, 2 * BLOCK + 9, 1];
        let pieces: Vec<Bytes> = (1..).zip(sizes).map(|(byte, size)| Bytes::from(vec![byte; size])).collect();
        let stream = content(pieces.iter().cloned().map(Ok).collect());
        let blocks: Vec<_> = blocks(stream, sizes.iter().sum::<usize>() as u64).collect().await;
        let blocks: Vec<Bytes> = blocks.into_iter().map(|block| block.ok().unwrap()).collect();
        assert!(blocks.concat() == pieces.concat(), "the bytes are others");
        let sizes: Vec<usize> = blocks.iter().map(Bytes::len).collect();
        let (last, whole) = sizes.split_last().unwrap();
        assert!(*last <= BLOCK && whole.iter().all(|size| *size == BLOCK), "{sizes:?}");
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_error() {
        let half = || Ok(Bytes::from_static(b"half"));
        let broken = blocks(content(vec![half(), Err(io::ErrorKind::ConnectionReset.into()), half()]), 100);
        let broken: Vec<_> = broken.collect().await;
        assert!(
            matches!(&broken[..], [Err(CopyError::Source(error))] if error.kind() == io::ErrorKind::ConnectionReset)
        );
        let long: Vec<_> = blocks(content(vec![half(), half(), half()]), 8).collect().await;
        assert!(matches!(&long[..], [Err(CopyError::TooLarge)]));
    }
}
