//! Signed links. Each says how often the links to its file had been revoked when it was made, as the ledger counts it.

use std::{sync::Arc, time::Duration};

use satchel_domain::{Attachment, AttachmentId, LinkRevocation, Timestamp};
use satchel_ports::{Clock, FileLinks, LINK_TTL};
use serde::{Deserialize, Serialize};

use crate::{
    WebChannel, WebError, WebSettings,
    public_url::PublicUrl,
    signing::{Purpose, SigningKey},
};

/// The signed content of a link.
#[derive(Debug, Serialize, Deserialize)]
struct LinkClaims {
    attachment: AttachmentId,
    /// How often the file's links had been revoked when this one was made.
    behind: u32,
    expires_at: Timestamp,
}

/// The links of this server.
#[derive(Debug, Clone)]
pub(crate) struct SignedLinks {
    key: SigningKey,
}

/// The content of a link with a valid signature that has not expired. It opens its file unless it
/// [was revoked](Self::is_revoked).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VerifiedLink {
    pub(crate) attachment: AttachmentId,
    revocations: u32,
}

impl VerifiedLink {
    /// Whether the links to the file have been revoked since this one was made.
    pub(crate) fn is_revoked(&self, file: &Attachment) -> bool {
        self.revocations != revocation_count(file)
    }
}

#[derive(Debug)]
pub(crate) struct SignedLink {
    pub(crate) url: String,
    pub(crate) expires_at: Timestamp,
}

/// The result of checking a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkCheck {
    Valid(VerifiedLink),
    Expired,
    /// It was not created by this server.
    Unknown,
}

impl SignedLinks {
    pub(crate) fn new(key: SigningKey) -> Self {
        Self { key }
    }

    /// Creates a link to a file, by its record, under an origin such as `https://satchel.example.org`.
    pub(crate) fn create(&self, origin: &str, file: &Attachment, now: Timestamp, ttl: Duration) -> SignedLink {
        let (behind, expires_at) = (revocation_count(file), now.saturating_add(ttl));
        let claims = LinkClaims { attachment: file.id, behind, expires_at };
        SignedLink { url: format!("{}{}", link_prefix(origin), self.key.sign(Purpose::Link, &claims)), expires_at }
    }

    /// Checks the path segment after `/links/`.
    pub(crate) fn check(&self, link: &str, now: Timestamp) -> LinkCheck {
        let Some(claims) = self.key.verify::<LinkClaims>(Purpose::Link, link) else { return LinkCheck::Unknown };
        if claims.expires_at <= now {
            return LinkCheck::Expired;
        }
        LinkCheck::Valid(VerifiedLink { attachment: claims.attachment, revocations: claims.behind })
    }
}

fn revocation_count(file: &Attachment) -> u32 {
    file.link_revocation.map_or(0, |LinkRevocation { count, .. }| count)
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

impl FileLinks for WebLinks {
    fn create_link(&self, file: &Attachment) -> Option<String> {
        if file.link_revocation.is_some_and(|last| last.is_after_plan()) {
            return None;
        }
        Some(self.links.create(&self.origin, file, self.clock.now(), LINK_TTL).url)
    }

    fn redact_links(&self, text: &str) -> String {
        redact_links(text, &self.origin)
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
    use std::num::NonZeroU64;

    use satchel_domain::{AttachmentSource, Filename, MediaInfo, Sha256, Visibility};
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
    #[test]
    fn link_opens_until_revoked_regardless_of_clock() {
        let dir = tempfile::tempdir().unwrap();
        let links = SignedLinks::new(SigningKey::load_or_create(&dir.path().join("key")).unwrap());
        let now = Timestamp(1_000);
        let revoked =
            |count| Attachment { link_revocation: Some(LinkRevocation { count, planned_count: count }), ..file() };
        let link = |file: &Attachment, now| {
            let link = links.create("https://a.example", file, now, Duration::from_secs(1));
            link.url.strip_prefix("https://a.example/links/").unwrap().to_owned()
        };
        let opens = |link: &str, file: &Attachment| match links.check(link, now) {
            LinkCheck::Valid(target) => {
                assert_eq!(target.attachment, file.id);
                !target.is_revoked(file)
            }
            _ => false,
        };
        let (once, twice) = (revoked(1), revoked(2));
        let (first, second, ahead) = (link(&file(), now), link(&once, now), link(&twice, Timestamp(900_000_000)));
        assert_eq!([file(), once, twice.clone()].map(|file| opens(&first, &file)), [true, false, false]);
        assert!(opens(&second, &revoked(1)) && !opens(&second, &twice));
        assert!(opens(&ahead, &twice) && !opens(&ahead, &revoked(3)), "it was made while the clock was days ahead");
        assert_eq!(links.check(&first, now.saturating_add(Duration::from_secs(1))), LinkCheck::Expired);
        assert_eq!(links.check("a.b", now), LinkCheck::Unknown);
    }

    fn file() -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(1)),
            number: NonZeroU64::MIN,
            conversation: "telegram:41".parse().unwrap(),
            source: AttachmentSource::User,
            filename: Filename::from_untrusted("a.txt"),
            mime: "text/plain".to_owned(),
            bytes: 1,
            sha256: Sha256([1; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        }
    }
}
