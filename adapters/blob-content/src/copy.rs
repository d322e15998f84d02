//! Copies bytes between streams and files: a few blocks at a time, blocking calls on tokio's blocking threads.

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

/// Large enough that a thread switch costs little in comparison. A copy keeps about four of them in memory.
const BLOCK_BYTES: usize = 512 * 1024;

/// Receives the bytes of a stream, on a blocking thread.
pub trait BlockSink: Send + 'static {
    /// Why writing failed.
    type Error: Send + 'static;

    /// Writes the next bytes.
    fn write_block(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Why a stream could not be copied completely.
pub enum CopyError<E = Infallible> {
    /// It has more bytes than are allowed.
    TooLarge,
    Source(io::Error),
    Sink(E),
    /// The thread was stopped or panicked.
    Stopped(JoinError),
}

impl CopyError {
    /// The same error as that of a fallible sink.
    fn with_sink_error<E>(self) -> CopyError<E> {
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
pub type BlockStream = BoxStream<'static, Result<Bytes, CopyError>>;

/// Joins the stream's chunks into blocks; fails once there are more than `limit` bytes. Large chunks are not copied.
pub fn into_blocks(content: ByteStream, limit: u64) -> BlockStream {
    let buffer = BlockBuffer { content: Some(content), remaining: limit, chunk: Bytes::new(), block: BytesMut::new() };
    Box::pin(stream::unfold(buffer, |mut buffer| async { buffer.next().await.map(|block| (block, buffer)) }))
}

struct BlockBuffer {
    content: Option<ByteStream>,
    /// How many more bytes are allowed by the limit.
    remaining: u64,
    /// The rest of the last chunk, which is in no block yet.
    chunk: Bytes,
    block: BytesMut,
}

impl BlockBuffer {
    async fn next(&mut self) -> Option<Result<Bytes, CopyError>> {
        loop {
            if self.block.is_empty() && self.chunk.len() >= BLOCK_BYTES {
                return Some(Ok(self.chunk.split_to(BLOCK_BYTES)));
            }
            let needed = BLOCK_BYTES - self.block.len();
            let part = self.chunk.split_to(self.chunk.len().min(needed));
            if !part.is_empty() {
                self.block.reserve(needed);
                self.block.extend_from_slice(&part);
            }
            if self.block.len() == BLOCK_BYTES {
                return Some(Ok(self.block.split().freeze()));
            }
            self.chunk = match self.content.as_mut()?.next().await {
                Some(chunk) => match self.check_limit(chunk) {
                    Ok(chunk) => chunk,
                    Err(error) => {
                        self.content = None;
                        return Some(Err(error));
                    }
                },
                None => {
                    self.content = None;
                    return (!self.block.is_empty()).then(|| Ok(self.block.split().freeze()));
                }
            };
        }
    }

    fn check_limit(&mut self, chunk: io::Result<Bytes>) -> Result<Bytes, CopyError> {
        let chunk = chunk.map_err(CopyError::Source)?;
        self.remaining = self.remaining.checked_sub(chunk.len() as u64).ok_or(CopyError::TooLarge)?;
        Ok(chunk)
    }
}

/// Writes all blocks to the sink and returns the sink. One block is read while another is written.
///
/// When this fails or is dropped, the sink is dropped as soon as its current block is written.
pub async fn copy_to_sink<S: BlockSink>(mut blocks: BlockStream, sink: S) -> Result<S, CopyError<S::Error>> {
    // An empty block first: a full sink must refuse an empty file, too.
    let mut task = SinkTask::Idle(sink).write_block(Bytes::new()).await?;
    while let Some(block) = blocks.next().await {
        match block {
            Ok(block) => task = task.write_block(block).await?,
            Err(error) => {
                task.finish().await?;
                return Err(error.with_sink_error());
            }
        }
    }
    task.finish().await
}

/// A sink that is idle or writes a block on a blocking thread.
pub enum SinkTask<S: BlockSink> {
    Idle(S),
    Busy(JoinHandle<Result<S, S::Error>>),
}

impl<S: BlockSink> SinkTask<S> {
    /// Starts writing the next block once the one before it is written, without waiting for this one.
    pub async fn write_block(self, block: Bytes) -> Result<Self, CopyError<S::Error>> {
        let mut sink = self.finish().await?;
        Ok(Self::Busy(spawn_blocking(move || sink.write_block(&block).map(|()| sink))))
    }

    /// Returns the sink once everything is written.
    pub async fn finish(self) -> Result<S, CopyError<S::Error>> {
        match self {
            Self::Idle(sink) => Ok(sink),
            Self::Busy(task) => task.await.map_err(CopyError::Stopped)?.map_err(CopyError::Sink),
        }
    }
}

/// Yields the bytes of a file, on a blocking thread.
pub trait BlockSource: Send + 'static {
    /// Reads the next bytes; fewer than `block` has only at the end.
    fn read_block(&mut self, block: &mut [u8]) -> io::Result<usize>;
}

impl BlockSource for File {
    fn read_block(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while length < block.len() {
            match self.read(&mut block[length..]) {
                Ok(0) => break,
                Ok(bytes) => length += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(length)
    }
}

/// Streams a range of the source, whose position is at the range's start; one block is read ahead.
pub fn stream_blocks(source: impl BlockSource, range: Range<u64>) -> ByteStream {
    let initial_state = ReadState::Idle(BlockReader { source, remaining: range.end - range.start });
    Box::pin(stream::unfold(Some(initial_state), |state| async {
        match state?.start_read().await {
            Ok((reader, Ok(block))) if reader.remaining > 0 => {
                Some((Ok(block), Some(ReadState::Reading(read_ahead(reader)))))
            }
            Ok((_, Ok(block))) if block.is_empty() => None,
            Ok((_, read)) => Some((read, None)),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    }))
}

enum ReadState<S> {
    Idle(BlockReader<S>),
    Reading(JoinHandle<(BlockReader<S>, io::Result<Bytes>)>),
}

impl<S: BlockSource> ReadState<S> {
    fn start_read(self) -> JoinHandle<(BlockReader<S>, io::Result<Bytes>)> {
        match self {
            Self::Idle(reader) => read_ahead(reader),
            Self::Reading(task) => task,
        }
    }
}

fn read_ahead<S: BlockSource>(mut reader: BlockReader<S>) -> JoinHandle<(BlockReader<S>, io::Result<Bytes>)> {
    // Allocated here and not on the blocking threads, each of which would keep its own memory.
    let block = vec![0; reader.next_block_size()];
    spawn_blocking(move || {
        let read = reader.read(block);
        (reader, read)
    })
}

struct BlockReader<S> {
    source: S,
    remaining: u64,
}

impl<S: BlockSource> BlockReader<S> {
    /// The size of the next block.
    fn next_block_size(&self) -> usize {
        usize::try_from(self.remaining).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES)
    }

    fn read(&mut self, mut block: Vec<u8>) -> io::Result<Bytes> {
        if self.source.read_block(&mut block)? < block.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= block.len() as u64;
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
        let sizes =
            [0, 1, BLOCK_BYTES - 1, 7, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 5, 0, 2 * BLOCK_BYTES + 9, 1];
        let pieces: Vec<Bytes> = (1..).zip(sizes).map(|(byte, size)| Bytes::from(vec![byte; size])).collect();
        let stream = content(pieces.iter().cloned().map(Ok).collect());
        let blocks: Vec<_> = into_blocks(stream, sizes.iter().sum::<usize>() as u64).collect().await;
        let blocks: Vec<Bytes> = blocks.into_iter().map(|block| block.ok().unwrap()).collect();
        assert!(blocks.concat() == pieces.concat(), "the bytes are others");
        let sizes: Vec<usize> = blocks.iter().map(Bytes::len).collect();
        let (last, whole) = sizes.split_last().unwrap();
        assert!(*last <= BLOCK_BYTES && whole.iter().all(|size| *size == BLOCK_BYTES), "{sizes:?}");
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_error() {
        let half = || Ok(Bytes::from_static(b"half"));
        let broken = into_blocks(content(vec![half(), Err(io::ErrorKind::ConnectionReset.into()), half()]), 100);
        let broken: Vec<_> = broken.collect().await;
        assert!(
            matches!(&broken[..], [Err(CopyError::Source(error))] if error.kind() == io::ErrorKind::ConnectionReset)
        );
        let long: Vec<_> = into_blocks(content(vec![half(), half(), half()]), 8).collect().await;
        assert!(matches!(&long[..], [Err(CopyError::TooLarge)]));
    }
}
