//! What the web needs to be told, and why it can't start.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use satchel_domain::ChannelCapabilities;
use satchel_http_server::ProxyRange;
use secrecy::SecretString;

/// How the page is served.
#[derive(Clone)]
pub struct WebSettings {
    /// Where it listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The address under which others reach it, without a path: `https://satchel.example.org`.
    pub public_url: Option<SecretString>,
    /// What a visitor must know. Without one, whoever on this machine can connect is taken for the owner.
    pub token: Option<SecretString>,
    /// The proxies that are believed when they say for whom they pass a request on. Wrong tokens count for that address.
    pub trusted_proxies: Vec<ProxyRange>,
    /// What the channel can do, as the operator may have changed it.
    pub capabilities: ChannelCapabilities,
    /// The largest file that a person may send, in bytes.
    pub file_bytes: u64,
    /// The most files of one message.
    pub files_per_message: usize,
    /// Where the key lies with which uploads, links and visits are signed; made when it is missing, for the owner only.
    /// Revoked links and login links are stored beside it.
    pub key_file: PathBuf,
    /// The model that answers, as the page shows it.
    pub model: String,
    /// Whether that is the built-in model, which understands a handful of phrases: the page suggests those then.
    pub model_is_offline: bool,
    /// Writes the figures that `/metrics` shows; without it there is no such page.
    pub metrics: Option<Arc<dyn Fn() -> String + Send + Sync>>,
}

impl fmt::Debug for WebSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSettings")
            .field("listen", &self.listen)
            .field("key_file", &self.key_file)
            .finish_non_exhaustive()
    }
}

/// Why the web can't be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The settings can't be followed; nothing was started.
    #[error("{0}")]
    Settings(String),
    /// Something that they ask for did not work.
    #[error("failed to {doing}")]
    Failed {
        /// What was being done, and to what.
        doing: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl WebError {
    pub(crate) fn from_io(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Failed { doing: doing.into(), source: source.into() }
    }
}
