//! Secrets and texts, which can also be read from a file, and the mask for secrets.

use std::{fs::File, io::Read, ops::Deref, path::Path};

use satchel_domain::size::format_bytes;
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::{Leaf, ReadFile, leaf};

/// Stands for a secret that is set.
pub(crate) const MASK: &str = "********";

/// The largest secret that is read from a file.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The longest instructions; they are a part of every request.
const MAX_INSTRUCTIONS_BYTES: u64 = 100_000;

/// A secret, given as text or as a file.
#[derive(Debug, Clone)]
pub struct Secret(pub SecretString);

/// Non-blank instructions for the model, given as text or as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions(pub String);

impl Deref for Secret {
    type Target = SecretString;

    fn deref(&self) -> &SecretString {
        &self.0
    }
}

leaf!(Secret);
leaf!(Instructions);

impl Leaf for Secret {
    const KIND: &'static str = "secret";
    const EXPECTED: &'static str = "text, in quotes";
    const IS_SECRET: bool = true;
    const READ_FILE: Option<ReadFile> = Some(read_secret);

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"\S" })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        (!text.trim().is_empty()).then(|| Self(SecretString::from(text)))
    }

    fn show(&self) -> Json {
        json!(MASK)
    }
}

impl Leaf for Instructions {
    const KIND: &'static str = "text-or-file";
    const EXPECTED: &'static str = "text of at most 100 KB";
    const READ_FILE: Option<ReadFile> = Some(|path| read_text_file(path, MAX_INSTRUCTIONS_BYTES));

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"\S" })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        let fits = !text.trim().is_empty() && text.len() as u64 <= MAX_INSTRUCTIONS_BYTES;
        fits.then(|| Self(text.to_owned()))
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

/// Reads a secret from a file, without the line break at the end.
pub(crate) fn read_secret(path: &Path) -> Result<String, String> {
    let read_error = |error: std::io::Error| format!("can't be read: {error}");
    let mut text = String::new();
    File::open(path).map_err(read_error)?.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(read_error)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    match secret.trim().is_empty() {
        _ if secret.len() as u64 > MAX_SECRET_BYTES => Err("is too long for a secret".to_owned()),
        true => Err("is empty".to_owned()),
        false => Ok(secret.to_owned()),
    }
}

/// Reads a text of at most `max_bytes`.
///
/// # Errors
/// The reason, as text that follows the file's name.
pub(in crate::config) fn read_text_file(path: &Path, max_bytes: u64) -> Result<String, String> {
    let read_error = |error: std::io::Error| format!("can't be read: {error}");
    let mut bytes = Vec::new();
    File::open(path).map_err(read_error)?.take(max_bytes + 1).read_to_end(&mut bytes).map_err(read_error)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(format!("is larger than {}", format_bytes(max_bytes))),
        false if bytes.trim_ascii().is_empty() => Err("is blank".to_owned()),
        false => String::from_utf8(bytes).map_err(|_| "is no text in UTF-8".to_owned()),
    }
}

/// Masks the user, the password and the query of a URL, which may be secrets.
pub(crate) fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return MASK.to_owned() };
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    // A password may hold an unescaped slash, `?` or `#`, so the last `@` ends the credentials. An `@` after a `?` may
    // be inside a secret in the query; then everything is masked.
    let (credentials, address) = match rest.rsplit_once('@') {
        Some((credentials, _)) if credentials.contains(['?', '#']) => return format!("{scheme}:{slashes}{MASK}"),
        Some((_, address)) => (format!("{MASK}@"), address),
        None => (String::new(), rest),
    };
    let (address, query) = match address.split_once(['?', '#']) {
        Some((address, _)) => (address, format!("?{MASK}")),
        None => (address, String::new()),
    };
    format!("{scheme}:{slashes}{credentials}{address}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_host_and_lose_their_secrets() {
        for (url, shown) in [
            ("postgres://me:canary@db/satchel", "postgres://********@db/satchel"),
            ("postgres://me:can/ary@db:5432/x", "postgres://********@db:5432/x"),
            ("postgres://db/x?password=canary", "postgres://db/x?********"),
            ("sqlite:/var/lib/a.db", "sqlite:/var/lib/a.db"),
            ("postgres://me:can?ary@db/x", "postgres://********"),
            ("postgres://me:can#ary@db/x?a=canary", "postgres://********"),
            ("postgres://db/x?password=can@ary", "postgres://********"),
            ("postgres://me:can@ary@db/x?password=canary#canary", "postgres://********@db/x?********"),
            ("canary", MASK),
        ] {
            assert_eq!(mask_url(url), shown);
        }
    }
}
