//! Signed links: made and ended here alone, whoever asks, so that a link of any origin ends with all others of its file.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{AttachmentId, ConversationId, Timestamp};
use satchel_ports::{FileLinks, LINK_TTL, Ledger, LinkError};
use serde::{Deserialize, Serialize};

use crate::{
    WebChannel, WebError, WebSettings,
    public_url::PublicUrl,
    revocations::RevokedLinks,
    signing::{Purpose, SigningKey},
};

/// What a link says.
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

/// A link that was made.
#[derive(Debug)]
pub(crate) struct SignedLink {
    pub(crate) url: String,
    pub(crate) expires_at: Timestamp,
}

/// What came of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkCheck {
    /// It opens this file.
    Valid(ConversationId, AttachmentId),
    /// It has expired or was revoked.
    Revoked,
    /// It is none of ours.
    Unknown,
}

impl SignedLinks {
    pub(crate) fn new(key: SigningKey, revoked: RevokedLinks) -> Self {
        Self { key, revoked }
    }

    /// Makes a link under an origin such as `https://satchel.example.org`.
    pub(crate) fn make(
        &self,
        origin: &str,
        conversation: &ConversationId,
        attachment: AttachmentId,
        now: Timestamp,
        life: Duration,
    ) -> SignedLink {
        let (behind, expires_at) = (self.revocations(attachment), now.saturating_add(life));
        let opens = LinkClaims { conversation: conversation.clone(), attachment, behind, expires_at };
        SignedLink { url: format!("{}{}", link_prefix(origin), self.key.sign(Purpose::Link, &opens)), expires_at }
    }

    /// Reads what stands behind `/links/`.
    pub(crate) fn check(&self, link: &str, now: Timestamp) -> LinkCheck {
        let Some(opens) = self.key.read::<LinkClaims>(Purpose::Link, link) else { return LinkCheck::Unknown };
        if opens.behind != self.revocations(opens.attachment) || opens.expires_at <= now {
            return LinkCheck::Revoked;
        }
        LinkCheck::Valid(opens.conversation, opens.attachment)
    }

    /// Whether all links to a file were ended at this time or later.
    fn ended_since(&self, attachment: AttachmentId, time: Timestamp) -> bool {
        self.revoked.get(attachment).is_some_and(|revoked| revoked.at >= time)
    }

    fn revocations(&self, attachment: AttachmentId) -> u32 {
        self.revoked.get(attachment).map_or(0, |revoked| revoked.times)
    }

    /// Ends all links to a file that were made until now. Returns once that is durable.
    pub(crate) async fn revoke(&self, attachment: AttachmentId, now: Timestamp) -> io::Result<()> {
        self.revoked.revoke(attachment, now).await
    }
}

/// Links to the files of every channel, under the address that others know.
#[derive(Clone)]
pub struct WebLinks {
    links: SignedLinks,
    origin: String,
    ledger: Arc<dyn Ledger>,
}

impl WebLinks {
    /// Links that the server of this channel opens; `None` where it has no public address, or one that leads everybody
    /// to their own machine.
    ///
    /// # Errors
    /// When `public_url` can't be read.
    pub fn new(
        settings: &WebSettings,
        channel: &WebChannel,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Option<Self>, WebError> {
        let public = settings.public_url.as_ref().map(PublicUrl::read).transpose()?;
        let public = public.filter(|public| !public.is_local());
        Ok(public.map(|public| Self { links: channel.links().clone(), origin: public.origin(), ledger }))
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
        if self.links.ended_since(attachment, planned_at) {
            return None;
        }
        Some(self.links.make(&self.origin, conversation, attachment, self.ledger.now(), LINK_TTL).url)
    }

    fn redact_links(&self, words: &str) -> String {
        redact(words, &link_prefix(&self.origin))
    }

    async fn revoke_links(&self, attachment: AttachmentId) -> Result<(), LinkError> {
        let revoked = self.links.revoke(attachment, self.ledger.now()).await;
        revoked.map_err(|error| LinkError(Box::new(error)))
    }
}

impl std::fmt::Debug for WebLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebLinks").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What all links under an origin begin with.
fn link_prefix(origin: &str) -> String {
    format!("{origin}/links/")
}

/// Words with `(a link)` in the place of whatever begins so; scheme and host are the same in capitals.
fn redact(words: &str, opening: &str) -> String {
    let of_link = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (lower, opening) = (words.to_ascii_lowercase(), opening.to_ascii_lowercase());
    let mut shown = String::with_capacity(words.len());
    let mut rest = 0;
    for (begin, _) in lower.match_indices(&opening) {
        // One may begin within what its neighbour seems to go on with.
        shown.push_str(words.get(rest..begin).unwrap_or_default());
        shown.push_str("(a link)");
        let behind = &words[begin + opening.len()..];
        rest = words.len() - behind.trim_start_matches(of_link).len();
    }
    shown.push_str(&words[rest..]);
    shown
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
        let key = SigningKey::load_or_make(&key_file).unwrap();
        let links = SignedLinks::new(key, RevokedLinks::load(&key_file).unwrap());
        let (now, file) = (Timestamp(1_000), AttachmentId(Uuid::from_u128(1)));
        let conversation: ConversationId = "telegram:41".parse().unwrap();
        let made_at = |now| {
            let made = links.make("https://a.example", &conversation, file, now, Duration::from_secs(1));
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
