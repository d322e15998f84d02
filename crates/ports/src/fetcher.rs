//! Bytes from addresses that others have named: the one guarded way out.

use async_trait::async_trait;

use crate::ByteStream;

/// Which hosts may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPolicy {
    /// Whichever leads to the public internet.
    Public,
    /// Only these, by their exact names, whatever redirects say.
    Only(Vec<String>),
}

/// What is to be fetched, and how much of it at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// The address, `http` or `https`.
    pub url: String,
    /// Which hosts may be asked, by redirects too.
    pub hosts: HostPolicy,
    /// The most bytes that are taken, after decompression.
    pub max_bytes: u64,
}

/// An answer whose bytes are still to be read.
pub struct FetchResponse {
    /// The address that answered after all redirects, without credentials, query and fragment.
    pub url: String,
    /// The type that the server claims, without parameters, in lower case; a hint, never believed.
    pub mime: Option<String>,
    /// The size that the server claims.
    pub bytes: Option<u64>,
    /// The bytes. More than were asked for end in an error of [`std::io::ErrorKind::FileTooLarge`].
    pub content: ByteStream,
}

/// Why nothing was fetched. No address in these words holds credentials or a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetcherError {
    /// A later attempt may succeed: no connection, a timeout, an overloaded or failing server.
    #[error("not fetched: {reason}")]
    Retryable {
        /// What went wrong, in words for the person.
        reason: String,
    },
    /// The server says that there is nothing for us at this address: 401, 403, 404, 410.
    #[error("not there: {reason}")]
    NotFound {
        /// What it says, in words for the person.
        reason: String,
    },
    /// Not requested, or not accepted: a forbidden address, too many redirects, too large.
    #[error("refused: {reason}")]
    Rejected {
        /// Why, in words for the person.
        reason: String,
    },
}

/// Fetches what an address leads to, without ever being led into the operator's own network.
///
/// # Contract
/// - An address that leads to this machine, a private network or any other that isn't the public internet is `Rejected`,
///   unless the operator allows it. The address that was checked is the one that is connected to.
/// - Each redirect is checked like the first address; three are followed, unless the operator allows another number,
///   and the next is `Rejected`.
/// - A body is never cut short: one that is larger than asked for, or ends early, ends in an error.
/// - What the server claims about the size is checked before a byte is read, and the bytes are counted all the same.
/// - Every fetch ends: one that makes no progress, or takes longer than the adapter's limit, is an error.
/// - No word of an error or a log line holds credentials or a query.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Asks for a file.
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError>;
}
