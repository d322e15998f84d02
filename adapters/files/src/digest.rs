//! The digest of a stream, taken beside it: while some blocks are hashed, others are read and written.

use std::{convert::Infallible, io};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, ByteStream};
use sha2::Digest;
use tokio::sync::oneshot;

use crate::copy::{BlockSink, BlockStream, CopyError, SinkTask};

/// The same blocks, and their digest once all of them have been taken.
pub(crate) fn hashed(blocks: BlockStream) -> (BlockStream, oneshot::Receiver<Sha256>) {
    let (answer, digest) = oneshot::channel();
    let state = (blocks, StreamHasher::new(), answer);
    let hashed = stream::try_unfold(Some(state), |state| async {
        let Some((mut blocks, hashing, answer)) = state else { return Ok(None) };
        match blocks.next().await.transpose()? {
            Some(block) => {
                let hashing = hashing.update(block.clone()).await?;
                Ok(Some((block, Some((blocks, hashing, answer)))))
            }
            None => {
                // Whoever dropped its other end wants no digest.
                let _ = answer.send(hashing.finish().await?);
                Ok(None)
            }
        }
    });
    (Box::pin(hashed), digest)
}

/// The same blocks if their digest is this one. The last of them is given out only when it is right, so that whoever
/// passes the stream on never ends with a whole file that is wrong.
pub(crate) fn verified(blocks: ByteStream, expected: Sha256) -> ByteStream {
    let state = VerifyingStream { blocks, hashing: StreamHasher::new(), held: None, expected };
    Box::pin(stream::try_unfold(Some(state), |state| async {
        match state {
            Some(state) => state.next().await,
            None => Ok(None),
        }
    }))
}

struct VerifyingStream {
    blocks: ByteStream,
    hashing: StreamHasher,
    /// The newest block, which may be the last.
    held: Option<Bytes>,
    expected: Sha256,
}

impl VerifyingStream {
    /// The next block that may be given out, and what goes on behind it.
    async fn next(mut self) -> io::Result<Option<(Bytes, Option<Self>)>> {
        while let Some(block) = self.blocks.next().await {
            let block = block.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => damaged(self.expected),
                _ => error,
            })?;
            self.hashing = self.hashing.update(block.clone()).await?;
            if let Some(before) = self.held.replace(block) {
                return Ok(Some((before, Some(self))));
            }
        }
        match self.hashing.finish().await? {
            digest if digest == self.expected => Ok(self.held.map(|last| (last, None))),
            _ => Err(damaged(self.expected)),
        }
    }
}

fn damaged(sha256: Sha256) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, BlobError::Damaged(sha256))
}

/// A digest under way.
struct StreamHasher(SinkTask<HashSink>);

struct HashSink(sha2::Sha256);

impl BlockSink for HashSink {
    type Error = Infallible;

    fn write_block(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.update(bytes);
        Ok(())
    }
}

impl StreamHasher {
    fn new() -> Self {
        Self(SinkTask::Idle(HashSink(sha2::Sha256::new())))
    }

    async fn update(self, block: Bytes) -> Result<Self, CopyError> {
        Ok(Self(self.0.write_block(block).await?))
    }

    async fn finish(self) -> Result<Sha256, CopyError> {
        Ok(Sha256(self.0.finish().await?.0.finalize().into()))
    }
}
