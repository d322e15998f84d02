//! The bytes of an answer: timed as they come, unpacked, counted, and never cut short.

use std::{io, time::Duration};

use async_compression::tokio::bufread::GzipDecoder;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::size;
use satchel_ports::ByteStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::io::{ReaderStream, StreamReader};

/// What a line carries at least; the time limit grows by what has come at this pace.
const MIN_BYTES_PER_SECOND: u64 = 64 * 1024;

/// How large the pieces are that unpacking makes.
const PIECE: usize = 64 * 1024;

/// How the body is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    Identity,
    Gzip,
}

/// What holds a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The most bytes, unpacked.
    pub(crate) max_bytes: u64,
    /// When it must have come, if nothing comes at all.
    pub(crate) deadline: Instant,
    /// How long nothing may come.
    pub(crate) silence: Duration,
}

impl BodyLimits {
    /// The most bytes that are read from the line. Honest packing makes nothing much larger; gzip without content does,
    /// and could go on for ever without adding a byte to the file.
    pub(crate) fn max_packed(&self, packed: ContentEncoding) -> u64 {
        match packed {
            ContentEncoding::Identity => self.max_bytes,
            ContentEncoding::Gzip => self.max_bytes.saturating_mul(2).saturating_add(PIECE as u64),
        }
    }
}

/// The file's bytes.
pub(crate) fn body(response: reqwest::Response, packed: ContentEncoding, bounds: BodyLimits) -> ByteStream {
    let raw = with_size_limit(with_timeout(response, bounds), bounds.max_packed(packed), bounds.max_bytes);
    match packed {
        ContentEncoding::Identity => raw,
        ContentEncoding::Gzip => {
            let mut unpacked = GzipDecoder::new(StreamReader::new(raw));
            // What follows the first member would be left out without a word.
            unpacked.multiple_members(true);
            let unpacked = ReaderStream::with_capacity(unpacked, PIECE);
            with_size_limit(unpacked.boxed(), bounds.max_bytes, bounds.max_bytes)
        }
    }
}

/// Ends in an error where nothing comes for too long, or too little in all that time.
fn with_timeout(response: reqwest::Response, bounds: BodyLimits) -> ByteStream {
    let pieces = response.bytes_stream().boxed();
    let timed = stream::try_unfold((pieces, 0_u64), move |(mut pieces, come)| async move {
        let earned = Duration::from_secs(come / MIN_BYTES_PER_SECOND);
        let until = (bounds.deadline + earned).min(Instant::now() + bounds.silence);
        match timeout_at(until, pieces.try_next()).await {
            Ok(Ok(Some(piece))) => {
                let come = come + piece.len() as u64;
                Ok(Some((piece, (pieces, come))))
            }
            Ok(Ok(None)) => Ok(None),
            // Its words hold the address with the query.
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the transfer was interrupted")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the file came too slowly")),
        }
    });
    timed.boxed()
}

/// Ends in an error at the first byte too many.
fn with_size_limit(pieces: ByteStream, limit: u64, told: u64) -> ByteStream {
    let counted = stream::try_unfold((pieces, 0_u64), move |(mut pieces, before)| async move {
        let Some(piece) = pieces.try_next().await? else { return Ok(None) };
        let come = before + piece.len() as u64;
        if come > limit {
            let words = format!("the file is larger than {}", size::format_bytes(told));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
        }
        Ok(Some((piece, (pieces, come))))
    });
    counted.boxed()
}
