//! Links to files: signed, and only for a while (Reference, Signed Attachment CDN URLs).

use std::fmt::Write as _;

use reqwest::Url;
use sha2::Digest;

use crate::{message::DiscordFile, platform_state::PlatformState};

/// What the signatures are made with.
const SECRET: &str = "the CDN's own";

/// What a link is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    /// The file with this id.
    File(u64),
    /// It was good once.
    Expired,
    /// It never was.
    Forged,
}

/// Where a file is, and where Discord's proxy for media has it.
pub(crate) fn signed_links(platform: &PlatformState, channel: u64, file: &DiscordFile) -> (String, String) {
    let path = format!("/attachments/{channel}/{}/{}", file.id, file.filename);
    let issued = platform.now_us() / 1_000_000;
    let expires = issued + i64::try_from(platform.link_life.as_secs()).unwrap_or(i64::MAX / 2);
    let signature = sign(&path, expires, issued, platform.link_age);
    let query = format!("ex={expires:x}&is={issued:x}&hm={signature}&");
    (format!("{}{path}?{query}", platform.base), format!("{}/media{path}?{query}", platform.base))
}

/// What a link that somebody follows is worth. `path` is without the proxy's prefix.
pub(crate) fn link_status(platform: &PlatformState, path: &str, query: &str) -> LinkStatus {
    let mut url = Url::parse("http://cdn.invalid/").expect("it is one");
    url.set_query(Some(query));
    let value = |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
    let seconds = |name: &str| value(name).and_then(|hex| i64::from_str_radix(&hex, 16).ok());
    let (Some(expires), Some(issued), Some(signature)) = (seconds("ex"), seconds("is"), value("hm")) else {
        return LinkStatus::Forged;
    };
    let Some(age) = (0..=platform.link_age).find(|age| sign(path, expires, issued, *age) == signature) else {
        return LinkStatus::Forged;
    };
    if age < platform.link_age || expires <= platform.now_us() / 1_000_000 {
        return LinkStatus::Expired;
    }
    file_of(path).map_or(LinkStatus::Forged, LinkStatus::File)
}

/// The id of the file that a link or its path names, whatever its signature says.
pub(crate) fn file_of(path: &str) -> Option<u64> {
    let mut steps = path.strip_prefix("/attachments/")?.split('/');
    let _channel = steps.next()?;
    steps.next()?.parse().ok()
}

fn sign(path: &str, expires: i64, issued: i64, age: u32) -> String {
    let digest = sha2::Sha256::digest(format!("{SECRET} {path} {expires:x} {issued:x} {age}"));
    digest.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes everything");
        hex
    })
}
