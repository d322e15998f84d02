//! Signed links. All of them are created and revoked here, so that a revocation covers all links of a file.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{AttachmentId, ConversationId, Timestamp};
use satchel_ports::{Clock, FileLinks, LINK_TTL, LinkError};
use serde::{Deserialize, Serialize};

use crate::{
    WebChannel, WebError, WebSettings,
    public_url::PublicUrl,
    revocations::RevokedLinks,
    signing::{Purpose, SigningKey},
};

/// The signed content of a link.
#[derive(Debug, Serialize, Deserialize)]
struct LinkClaims {
    conversation: ConversationId,
    attachment: AttachmentId,
    /// How often the file's links had been revoked when this one was made.
    behind: u32,
    expires_at: Timestamp,
}

/// The links of this server.
#[derive(Debug, Clone)]
pub(crate) struct SignedLinks {
    key: SigningKey,
    revoked: RevokedLinks,
}

#[derive(Debug)]
pub(crate) struct SignedLink {
    pub(crate) url: String,
    pub(crate) expires_at: Timestamp,
}

/// The result of checking a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkCheck {
    /// It opens this file.
    Valid(ConversationId, AttachmentId),
    /// It has expired or was revoked.
    Revoked,
    /// It was not created by this server.
    Unknown,
}

impl SignedLinks {
    pub(crate) fn new(key: SigningKey, revoked: RevokedLinks) -> Self {
        Self { key, revoked }
    }

    /// Creates a link under an origin such as `https://satchel.example.org`.
    pub(crate) fn create(
        &self,
        origin: &str,
        conversation: &ConversationId,
        attachment: AttachmentId,
        now: Timestamp,
        ttl: Duration,
    ) -> SignedLink {
        let (behind, expires_at) = (self.revocation_count(attachment), now.saturating_add(ttl));
        let claims = LinkClaims { conversation: conversation.clone(), attachment, behind, expires_at };
        SignedLink { url: format!("{}{}", link_prefix(origin), self.key.sign(Purpose::Link, &claims)), expires_at }
    }

    /// Checks the path segment after `/links/`.
    pub(crate) fn check(&self, link: &str, now: Timestamp) -> LinkCheck {
        let Some(claims) = self.key.verify::<LinkClaims>(Purpose::Link, link) else { return LinkCheck::Unknown };
        if claims.behind != self.revocation_count(claims.attachment) || claims.expires_at <= now {
            return LinkCheck::Revoked;
        }
        LinkCheck::Valid(claims.conversation, claims.attachment)
    }

    /// Whether all links to a file were revoked at this time or later.
    fn is_revoked_since(&self, attachment: AttachmentId, time: Timestamp) -> bool {
        self.revoked.get(attachment).is_some_and(|revoked| revoked.at >= time)
    }

    fn revocation_count(&self, attachment: AttachmentId) -> u32 {
        self.revoked.get(attachment).map_or(0, |revoked| revoked.times)
    }

    /// Revokes all existing links to a file. Returns once that is durable.
    pub(crate) async fn revoke(&self, attachment: AttachmentId, now: Timestamp) -> io::Result<()> {
        self.revoked.revoke(attachment, now).await
    }
}

/// Links to the files of every channel, under the public address.
#[derive(Clone)]
pub struct WebLinks {
    links: SignedLinks,
    origin: String,
    clock: Arc<dyn Clock>,
}

impl WebLinks {
    /// Creates links that the server of this channel opens; `None` if it has no public address or only a loopback one.
    ///
    /// # Errors
    /// When `public_url` can't be read.
    pub fn new(settings: &WebSettings, channel: &WebChannel, clock: Arc<dyn Clock>) -> Result<Option<Self>, WebError> {
        let public = settings.public_url.as_ref().map(PublicUrl::parse).transpose()?;
        let public = public.filter(|public| !public.is_local());
        Ok(public.map(|public| Self { links: channel.links().clone(), origin: public.origin(), clock }))
    }
}

#[async_trait]
impl FileLinks for WebLinks {
    fn create_link(
        &self,
        conversation: &ConversationId,
        attachment: AttachmentId,
        planned_at: Timestamp,
    ) -> Option<String> {
        if self.links.is_revoked_since(attachment, planned_at) {
            return None;
        }
        Some(self.links.create(&self.origin, conversation, attachment, self.clock.now(), LINK_TTL).url)
    }

    fn redact_links(&self, text: &str) -> String {
        redact_links(text, &self.origin)
    }

    async fn revoke_links(&self, attachment: AttachmentId) -> Result<(), LinkError> {
        let revoked = self.links.revoke(attachment, self.clock.now()).await;
        revoked.map_err(|error| LinkError(Box::new(error)))
    }
}

impl std::fmt::Debug for WebLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebLinks").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Replaces all links under an origin by `(a link)`.
pub(crate) fn redact_links(text: &str, origin: &str) -> String {
    redact(text, &link_prefix(origin))
}

/// Returns the prefix of all links under an origin.
fn link_prefix(origin: &str) -> String {
    format!("{origin}/links/")
}

/// Replaces all links with a prefix by `(a link)`, ignoring case.
fn redact(text: &str, prefix: &str) -> String {
    let is_link_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (lower, prefix) = (text.to_ascii_lowercase(), prefix.to_ascii_lowercase());
    let mut redacted = String::with_capacity(text.len());
    let mut rest = 0;
    for (start, _) in lower.match_indices(&prefix) {
        // A link may start within the characters that seem to belong to the previous one.
        redacted.push_str(text.get(rest..start).unwrap_or_default());
        redacted.push_str("(a link)");
        let after_prefix = &text[start + prefix.len()..];
        rest = text.len() - after_prefix.trim_start_matches(is_link_char).len();
    }
    redacted.push_str(&text[rest..]);
    redacted
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn links_are_hidden_wherever_they_stand_in_words() {
        let opening = link_prefix("https://a.example");
        for (words, expected) in [
            ("", ""),
            (
                "see https://a.example/ and https://b.example/links/x.y",
                "see https://a.example/ and https://b.example/links/x.y",
            ),
            ("https://a.example/links/aB-_9.zZ", "(a link)"),
            (
                "> #1: https://a.example/links/a.b, #2: <https://a.example/links/c.d> (for 7 days)",
                "> #1: (a link), #2: <(a link)> (for 7 days)",
            ),
            ("Ж[x](HTTPS://A.Example/links/a.b)Ж", "Ж[x]((a link))Ж"),
            ("https://a.example/links/https://a.example/links/a.b", "(a link)(a link)"),
            ("https://a.example/links/", "(a link)"),
        ] {
            assert_eq!(redact(words, &opening), expected, "{words}");
        }
    }

    /// The clock stands still, and then goes back by days.
    #[tokio::test]
    async fn link_opens_until_revoked_regardless_of_clock() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("key");
        let key = SigningKey::load_or_create(&key_file).unwrap();
        let links = SignedLinks::new(key, RevokedLinks::load(&key_file).unwrap());
        let (now, file) = (Timestamp(1_000), AttachmentId(Uuid::from_u128(1)));
        let conversation: ConversationId = "telegram:41".parse().unwrap();
        let made_at = |now| {
            let made = links.create("https://a.example", &conversation, file, now, Duration::from_secs(1));
            made.url.strip_prefix("https://a.example/links/").unwrap().to_owned()
        };
        let made = || made_at(now);
        let opens = LinkCheck::Valid(conversation.clone(), file);
        let first = made();
        assert_eq!(links.check(&first, now), opens);
        links.revoke(file, now).await.unwrap();
        let second = made();
        assert_eq!(links.check(&first, now), LinkCheck::Revoked);
        assert_eq!(links.check(&second, now), opens);
        links.revoke(file, now).await.unwrap();
        assert_eq!(links.check(&second, now), LinkCheck::Revoked, "the second revocation comes after the second link");
        assert_eq!(
            links.check(&made(), now.saturating_add(Duration::from_secs(1))),
            LinkCheck::Revoked,
            "it has expired"
        );
        let ahead = made_at(Timestamp(900_000_000));
        assert_eq!(links.check(&ahead, now), opens);
        links.revoke(file, now).await.unwrap();
        assert_eq!(links.check(&ahead, now), LinkCheck::Revoked, "it was made while the clock was days ahead");
        assert_eq!(links.check("a.b", now), LinkCheck::Unknown);
    }
}
