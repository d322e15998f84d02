//! The port for fetching URLs that people, models or platforms name: the one guarded way out.

use async_trait::async_trait;

use crate::ByteStream;

/// The hosts that a fetch may contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPolicy {
    /// Every host on the public internet.
    Public,
    /// Only these, by their exact names, redirects included.
    Only(Vec<String>),
}

/// A request for the bytes of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// The address, `http` or `https`.
    pub url: String,
    /// The hosts that may be contacted, redirects included.
    pub hosts: HostPolicy,
    /// The limit in bytes, after decompression.
    pub max_bytes: u64,
}

/// A response whose body has yet to be read.
pub struct FetchResponse {
    /// The URL after all redirects, without credentials, query and fragment.
    pub url: String,
    /// The server's media type, without parameters, in lower case; an untrusted hint.
    pub mime: Option<String>,
    /// The server's `Content-Length`; an untrusted hint.
    pub bytes: Option<u64>,
    /// The body. More bytes than the limit end in an error of [`std::io::ErrorKind::FileTooLarge`].
    pub content: ByteStream,
}

/// Why a fetch failed. No URL in a reason has credentials or a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetcherError {
    /// A later attempt may succeed: no connection, a timeout, an overloaded or failing server.
    #[error("not fetched: {reason}")]
    Retryable {
        /// The reason, written for the person.
        reason: String,
    },
    /// The server has nothing for the bot at this URL: 401, 403, 404, 410.
    #[error("not there: {reason}")]
    NotFound {
        /// The reason, written for the person.
        reason: String,
    },
    /// Not requested, or not accepted: a forbidden address, too many redirects, too large.
    #[error("refused: {reason}")]
    Rejected {
        /// The reason, written for the person.
        reason: String,
    },
}

/// Fetches URLs without reaching into the operator's own network.
///
/// # Contract
/// - An address that leads to this machine, a private network or any other that isn't the public internet is
///   `Rejected`, unless the operator allows it. The address that was checked is the one that is connected to.
/// - Each redirect is checked like the first address; three are followed, unless the operator allows another number,
///   and the next is `Rejected`.
/// - A body is never truncated: one that exceeds the limit or ends early ends in an error.
/// - `Content-Length` is checked before the first byte is read, and the bytes are counted anyway.
/// - Every fetch ends: one that makes no progress or exceeds the adapter's timeout is an error.
/// - No error and no log line has credentials or a query.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Requests a URL.
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError>;
}
