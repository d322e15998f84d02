//! Signed links to stored files that no message can carry.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{AttachmentId, ConversationId, Timestamp};

/// How long a link works.
pub const LINK_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Why links could not be revoked. They may still work.
#[derive(Debug, thiserror::Error)]
#[error("the links could not be revoked")]
pub struct LinkError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Creates and revokes links to single files. Configured only where people can open the links.
///
/// # Contract
/// - A link opens its one file for [`LINK_TTL`] from when it was made, and nothing else; anyone with the link can open
///   it without a login.
/// - `revoke_links` returns `Ok` only after every existing link of the file is revoked durably.
/// - A response that was planned before a file's last revocation, or in its millisecond, gets no link to it; a later
///   one gets a valid link.
/// - A text returned by `redact_links` contains no link that `create_link` made.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait FileLinks: Send + Sync {
    /// Makes a new link to a file of the conversation, as an absolute URL without white space or angle brackets, for
    /// what was planned at that time; `None` if the file's links were revoked since.
    fn create_link(
        &self,
        conversation: &ConversationId,
        attachment: AttachmentId,
        planned_at: Timestamp,
    ) -> Option<String>;

    /// Replaces each link in a text by `(a link)`, for readers who may pass it on.
    fn redact_links(&self, text: &str) -> String;

    /// Revokes all links to a file.
    async fn revoke_links(&self, attachment: AttachmentId) -> Result<(), LinkError>;
}
