//! Paths, URLs and addresses to listen on.

use std::{
    net::SocketAddr,
    ops::Deref,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value as Json, json};

use super::{Leaf, leaf, secret::mask_url};

/// A path; a relative one counts from the file that gives it, or else from the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath(pub PathBuf);

/// An address on the web, which may hold a password.
#[derive(Debug, Clone)]
pub struct HttpUrl(pub SecretString);

/// An address and port to listen on; `None` for `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub Option<SocketAddr>);

impl Deref for HttpUrl {
    type Target = SecretString;

    fn deref(&self) -> &SecretString {
        &self.0
    }
}

leaf!(FilePath);
leaf!(HttpUrl);
leaf!(ListenAddress);

impl Leaf for FilePath {
    const KIND: &'static str = "path";
    const EXPECTED: &'static str = "a path";
    const PATH_SCHEME: Option<&'static str> = Some("");

    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }

    fn parse(text: &str, base: &Path) -> Option<Self> {
        (!text.is_empty()).then(|| Self(base.join(text)))
    }

    fn show(&self) -> Json {
        json!(self.0.display().to_string())
    }
}

impl Leaf for HttpUrl {
    const KIND: &'static str = "http-url";
    const EXPECTED: &'static str = "a URL that begins with http:// or https://";
    const IS_SECRET: bool = true;

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"^https?://[^/\s]\S*$" })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
        let has_host = !rest.is_empty() && !rest.starts_with('/') && !rest.contains(char::is_whitespace);
        has_host.then(|| Self(SecretString::from(text)))
    }

    fn show(&self) -> Json {
        json!(mask_url(self.0.expose_secret()))
    }
}

impl Leaf for ListenAddress {
    const KIND: &'static str = "listen";
    const EXPECTED: &'static str = "an address and port such as 127.0.0.1:8787, or off";

    fn schema() -> Json {
        json!({
            "type": "string", "pattern": r"^(off|[0-9.]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5})$",
            "examples": ["127.0.0.1:8787", "off"]
        })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        match text {
            "off" => Some(Self(None)),
            address => address.parse().ok().map(|address| Self(Some(address))),
        }
    }

    fn show(&self) -> Json {
        json!(self.0.map_or_else(|| "off".to_owned(), |address| address.to_string()))
    }
}
