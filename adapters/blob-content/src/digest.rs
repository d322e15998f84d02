//! Hashes a stream concurrently: while some blocks are hashed, others are read and written.

use std::{convert::Infallible, io};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, ByteStream};
use sha2::Digest;
use tokio::sync::oneshot;

use crate::copy::{BlockSink, BlockStream, CopyError, SinkTask};

/// The same blocks, and their digest once all of them have been read.
pub fn hash_blocks(blocks: BlockStream) -> (BlockStream, oneshot::Receiver<Sha256>) {
    let (digest_tx, digest_rx) = oneshot::channel();
    let state = (blocks, StreamHasher::new(), digest_tx);
    let hashed = stream::try_unfold(Some(state), |state| async {
        let Some((mut blocks, hasher, digest_tx)) = state else { return Ok(None) };
        match blocks.next().await.transpose()? {
            Some(block) => {
                let hasher = hasher.update(block.clone()).await?;
                Ok(Some((block, Some((blocks, hasher, digest_tx)))))
            }
            None => {
                // A dropped receiver needs no digest.
                let _ = digest_tx.send(hasher.finish().await?);
                Ok(None)
            }
        }
    });
    (Box::pin(hashed), digest_rx)
}

/// The same blocks if their digest is `expected`. The last block is returned only after the check, so that a damaged
/// file is never forwarded completely.
pub fn verify_blocks(blocks: ByteStream, expected: Sha256) -> ByteStream {
    let state = VerifyingStream { blocks, hasher: StreamHasher::new(), pending_block: None, expected };
    Box::pin(stream::try_unfold(Some(state), |state| async {
        match state {
            Some(state) => state.next().await,
            None => Ok(None),
        }
    }))
}

struct VerifyingStream {
    blocks: ByteStream,
    hasher: StreamHasher,
    /// The newest block, which may be the last.
    pending_block: Option<Bytes>,
    expected: Sha256,
}

impl VerifyingStream {
    /// The next block that may be returned, and the rest of the stream.
    async fn next(mut self) -> io::Result<Option<(Bytes, Option<Self>)>> {
        while let Some(block) = self.blocks.next().await {
            let block = block.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => damaged_error(self.expected),
                _ => error,
            })?;
            self.hasher = self.hasher.update(block.clone()).await?;
            if let Some(previous) = self.pending_block.replace(block) {
                return Ok(Some((previous, Some(self))));
            }
        }
        match self.hasher.finish().await? {
            digest if digest == self.expected => Ok(self.pending_block.map(|last| (last, None))),
            _ => Err(damaged_error(self.expected)),
        }
    }
}

fn damaged_error(sha256: Sha256) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, BlobError::Damaged(sha256))
}

/// A digest in progress.
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
