//! Signed links to stored files that no message can carry.

use std::time::Duration;

use satchel_domain::Attachment;

/// How long a link works.
pub const LINK_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Creates links to single files. Configured only where people can open the links.
///
/// # Contract
/// - A link opens its one file for [`LINK_TTL`] from when it was made, and nothing else; anyone with the link can open
///   it without a login, until the links to the file are [revoked](crate::ledger::Storage::revoke_links). It doesn't matter
///   what the file's conversation is called by then.
/// - A response that was planned before a file's last revocation gets no link to it that opens, even if a part of it fails
///   later; one that was planned after it gets one that does. The file tells both, by counts and not by a clock, so it
///   should be read just before.
/// - A text returned by `redact_links` contains no link that `create_link` made.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait FileLinks: Send + Sync {
    /// Makes a new link to a file, as its record or a stored part names it, as an absolute URL without white space or angle
    /// brackets; `None` if the file's links were revoked [after that part was
    /// planned](satchel_domain::LinkRevocation::is_after_plan).
    fn create_link(&self, file: &Attachment) -> Option<String>;

    /// Replaces each link in a text by `(a link)`, for readers who may pass it on.
    fn redact_links(&self, text: &str) -> String;
}
