//! The settings of the web adapter and its start-up errors.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use satchel_domain::ChannelCapabilities;
use satchel_http_server::ProxyRange;
use satchel_ports::ImageScaler;
use secrecy::SecretString;

/// The settings of the page and its server.
#[derive(Clone)]
pub struct WebSettings {
    /// The address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The address under which others reach it, without a path: `https://satchel.example.org`.
    pub public_url: Option<SecretString>,
    /// The token for logins. Without one, everyone who can connect from this machine counts as the owner.
    pub token: Option<SecretString>,
    /// The proxies whose forwarding headers are trusted. Failed logins count for the forwarded address.
    pub trusted_proxies: Vec<ProxyRange>,
    /// The capabilities of the channel, as configured.
    pub capabilities: ChannelCapabilities,
    /// The largest file that a person may send, in bytes.
    pub file_bytes: u64,
    /// The most files of one message.
    pub files_per_message: usize,
    /// The file of the key that signs uploads, links and logins; created if missing, private to its owner. Revoked
    /// links and login links are stored beside it.
    pub key_file: PathBuf,
    /// The model that answers, as the page shows it.
    pub model: String,
    /// Whether that is the built-in model, which understands a few phrases; the page suggests them.
    pub model_is_offline: bool,
    /// Whether it takes images; the page suggests to ask about one.
    pub model_takes_images: bool,
    /// The commands that the page completes, as its people may give them.
    pub commands: Vec<PageCommand>,
    /// Makes the previews of images; `None` shows the images themselves.
    pub images: Option<Arc<dyn ImageScaler>>,
    /// Renders the metrics for `/metrics`; without it the path doesn't exist.
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

/// A command that the page completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a line.
    pub description: String,
    /// The names that can follow it.
    pub choices: Vec<PageCommandChoice>,
}

/// A name that can follow a command: that of an agent or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCommandChoice {
    pub name: String,
    /// What it is for, in a line; may be empty.
    pub description: String,
    /// The names of the inputs that can follow it.
    pub inputs: Vec<String>,
}

/// Why the web can't be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The settings are invalid; nothing was started.
    #[error("{0}")]
    Settings(String),
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
