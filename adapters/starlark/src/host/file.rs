//! A file that a script creates, as a stream of bytes from its worker to the store.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::Visibility;
use satchel_ports::ByteStream;
use tokio::sync::mpsc;

use crate::protocol::{CHUNK_BYTES, Chunk};

/// How many chunks may wait to be stored.
const CHANNEL_CAPACITY: usize = 4;

pub(crate) enum FileChunk {
    /// Bytes of the file.
    Bytes(Bytes),
    End,
}

/// A channel for the chunks of a file. The stream of a file whose [`FileChunk::End`] never arrives ends with an error,
/// so that a part of it is never taken for the whole.
pub(crate) fn file_channel() -> (mpsc::Sender<FileChunk>, ByteStream) {
    let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let stream = stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(FileChunk::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(FileChunk::End) => None,
            None => {
                let interrupted = io::Error::new(io::ErrorKind::UnexpectedEof, "the script broke off in the file");
                Some((Err(interrupted), None))
            }
        }
    });
    (sender, stream.fuse().boxed())
}

/// Decodes the bytes of a chunk; `None` for one that is too large or invalid.
pub(crate) fn decode_chunk(chunk: Chunk) -> Option<Bytes> {
    let bytes = match chunk {
        Chunk::Text(text) => text.into_bytes(),
        Chunk::Base64(text) => STANDARD.decode(text).ok()?,
    };
    (bytes.len() <= CHUNK_BYTES).then(|| bytes.into())
}

/// Parses a file's visibility; the error is text for the script's author.
pub(crate) fn parse_visibility(name: &str) -> Result<Visibility, String> {
    match name {
        "deliver" => Ok(Visibility::Deliver),
        "internal" => Ok(Visibility::Internal),
        other => {
            Err(format!("visibility must be `deliver` or `internal`, not `{}`", super::error::truncate(other, 60)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn file_stream_ends_only_with_end_marker() {
        for whole in [true, false] {
            let (pieces, stream) = file_channel();
            pieces.send(FileChunk::Bytes(Bytes::from_static(b"one"))).await.unwrap();
            if whole {
                pieces.send(FileChunk::End).await.unwrap();
            }
            drop(pieces);
            let items: Vec<_> = stream.collect().await;
            assert_eq!(items.len(), if whole { 1 } else { 2 });
            assert_eq!(items[0].as_ref().unwrap(), "one".as_bytes());
            assert!(whole || items[1].is_err());
        }
    }

    #[test]
    fn chunk_is_bounded_text_or_base64() {
        let text = |length| Chunk::Text("x".repeat(length));
        assert_eq!(decode_chunk(text(CHUNK_BYTES)).unwrap().len(), CHUNK_BYTES);
        assert_eq!(decode_chunk(text(CHUNK_BYTES + 1)), None);
        assert_eq!(decode_chunk(Chunk::Base64("AP8=".to_owned())).unwrap(), [0, 255].as_slice());
        assert_eq!(decode_chunk(Chunk::Base64(STANDARD.encode(vec![1; CHUNK_BYTES]))).unwrap().len(), CHUNK_BYTES);
        assert_eq!(decode_chunk(Chunk::Base64(STANDARD.encode(vec![1; CHUNK_BYTES + 1]))), None);
        for wrong in ["AP8", "AP8 =", "A", "AP8=\n", "ёж"] {
            assert_eq!(decode_chunk(Chunk::Base64(wrong.to_owned())), None, "{wrong}");
        }
    }

    #[test]
    fn a_visibility_is_one_of_two_words() {
        assert_eq!(parse_visibility("deliver"), Ok(Visibility::Deliver));
        assert_eq!(parse_visibility("internal"), Ok(Visibility::Internal));
        let wrong = parse_visibility("Deliver").unwrap_err();
        assert_eq!(wrong, "visibility must be `deliver` or `internal`, not `Deliver`");
        assert!(parse_visibility(&"x".repeat(10_000)).unwrap_err().len() < 200);
    }
}
