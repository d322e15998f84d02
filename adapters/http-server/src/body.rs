//! Reads the body of a request into memory, with a size limit and a timeout.

use std::{error::Error, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use tokio::time::timeout;

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than it may be.
    #[error("the body is too large")]
    TooLarge,
    /// It did not come in time.
    #[error("the body did not arrive in time")]
    TimedOut,
    #[error("the request was interrupted")]
    Broken,
}

/// Reads a whole body.
///
/// # Errors
/// When it is larger than `max_bytes`, takes longer than the time limit, or is interrupted.
pub async fn read_body(body: Body, max_bytes: usize, time_limit: Duration) -> Result<Bytes, BodyError> {
    let read = timeout(time_limit, axum::body::to_bytes(body, max_bytes)).await.map_err(|_| BodyError::TimedOut)?;
    read.map_err(|error| {
        // axum offers no other way to distinguish the limit from an interrupted connection.
        let is_limit = error.source().is_some_and(|source| source.to_string().contains("length limit exceeded"));
        if is_limit { BodyError::TooLarge } else { BodyError::Broken }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;

    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn body_is_read_whole_or_not_at_all() {
        assert_eq!(read_body(Body::from("12345"), 5, TIME).await.as_deref(), Ok(&b"12345"[..]));
        assert_eq!(read_body(Body::from("123456"), 5, TIME).await, Err(BodyError::TooLarge));
        let pieces = || stream::iter([Ok(Bytes::from("123")), Err(io::Error::other("gone"))]);
        assert_eq!(read_body(Body::from_stream(pieces()), 5, TIME).await, Err(BodyError::Broken));
        let silent = stream::pending::<io::Result<Bytes>>();
        assert_eq!(read_body(Body::from_stream(silent), 5, TIME).await, Err(BodyError::TimedOut));
    }
}
