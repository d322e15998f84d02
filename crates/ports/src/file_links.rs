//! Addresses under which people open kept files that no message brings them.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{AttachmentId, ConversationId, Timestamp};

/// How long a link works.
pub const LINK_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Why links could not be ended. They may go on working.
#[derive(Debug, thiserror::Error)]
#[error("the links could not be revoked")]
pub struct LinkError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Gives single files away. There is one only where people elsewhere can open what it gives.
///
/// # Contract
/// - A link opens its one file for [`LINK_TTL`] from when it was made, and nothing else; whoever has it needs no login.
/// - `revoke` returns `Ok` only after every link of the file that was made until then has ended, durably.
/// - What was planned before a file's last revocation, or in its millisecond, gets no link to it; what was planned later
///   gets one that works.
/// - No link that `link` has made is left in words that `hidden` gives back.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait FileLinks: Send + Sync {
    /// Makes a new link to a file of the conversation, as an absolute URL without white space or angle brackets, for what
    /// was planned at that time; `None` where the file's links were ended since.
    fn create_link(
        &self,
        conversation: &ConversationId,
        attachment: AttachmentId,
        planned_at: Timestamp,
    ) -> Option<String>;

    /// The words with `(a link)` in the place of each link, for whoever may pass on what they read.
    fn redact_links(&self, words: &str) -> String;

    /// Ends all links to a file, whoever made them.
    async fn revoke_links(&self, attachment: AttachmentId) -> Result<(), LinkError>;
}
