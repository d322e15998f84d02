//! A file that a script makes, as bytes that flow from its worker to whoever stores them.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::Visibility;
use satchel_ports::ByteStream;
use tokio::sync::mpsc;

use crate::protocol::{CHUNK, Chunk};

/// How many chunks wait to be stored.
const CHANNEL_CAPACITY: usize = 4;

pub(crate) enum FileChunk {
    /// Bytes of the file.
    Bytes(Bytes),
    End,
}

/// A way for the pieces of a file. A file whose [`Piece::End`] never comes ends with an error, so that nobody takes a
/// part of it for the whole.
pub(crate) fn file_channel() -> (mpsc::Sender<FileChunk>, ByteStream) {
    let (pieces, coming) = mpsc::channel(CHANNEL_CAPACITY);
    let stream = stream::unfold(Some(coming), |coming| async {
        let mut coming = coming?;
        match coming.recv().await {
            Some(FileChunk::Bytes(bytes)) => Some((Ok(bytes), Some(coming))),
            Some(FileChunk::End) => None,
            None => {
                let broken_off = io::Error::new(io::ErrorKind::UnexpectedEof, "the script broke off in the file");
                Some((Err(broken_off), None))
            }
        }
    });
    (pieces, stream.fuse().boxed())
}

/// The bytes of a chunk; `None` for one that is too large or can't be read.
pub(crate) fn bytes_of(chunk: Chunk) -> Option<Bytes> {
    let bytes = match chunk {
        Chunk::Text(text) => text.into_bytes(),
        Chunk::Base64(text) => STANDARD.decode(text).ok()?,
    };
    (bytes.len() <= CHUNK).then(|| bytes.into())
}

/// Who gets the file, or what to tell the script's author.
pub(crate) fn visibility_of(word: &str) -> Result<Visibility, String> {
    match word {
        "deliver" => Ok(Visibility::Deliver),
        "internal" => Ok(Visibility::Internal),
        other => Err(format!("visibility must be `deliver` or `internal`, not `{}`", super::error::cut(other, 60))),
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
        assert_eq!(bytes_of(text(CHUNK)).unwrap().len(), CHUNK);
        assert_eq!(bytes_of(text(CHUNK + 1)), None);
        assert_eq!(bytes_of(Chunk::Base64("AP8=".to_owned())).unwrap(), [0, 255].as_slice());
        assert_eq!(bytes_of(Chunk::Base64(STANDARD.encode(vec![1; CHUNK]))).unwrap().len(), CHUNK);
        assert_eq!(bytes_of(Chunk::Base64(STANDARD.encode(vec![1; CHUNK + 1]))), None);
        for wrong in ["AP8", "AP8 =", "A", "AP8=\n", "ёж"] {
            assert_eq!(bytes_of(Chunk::Base64(wrong.to_owned())), None, "{wrong}");
        }
    }

    #[test]
    fn a_visibility_is_one_of_two_words() {
        assert_eq!(visibility_of("deliver"), Ok(Visibility::Deliver));
        assert_eq!(visibility_of("internal"), Ok(Visibility::Internal));
        let wrong = visibility_of("Deliver").unwrap_err();
        assert_eq!(wrong, "visibility must be `deliver` or `internal`, not `Deliver`");
        assert!(visibility_of(&"x".repeat(10_000)).unwrap_err().len() < 200);
    }
}
