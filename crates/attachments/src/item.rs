//! One attachment after expansion: a single resource with its metadata.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use url::Url;

use crate::{declaration::AttachmentBounds, kind::AttachmentKind, problem::SourcePosition};

/// Where a declaration stands, from the most general place to the most special one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Agent,
    Task,
    Action,
}

/// A single resource that a task's model gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub kind: AttachmentKind,
    pub source: ItemSource,
    pub name: Option<String>,
    /// A hint; the detected type decides.
    pub mime: Option<String>,
    /// Shared, since a glob can have thousands of matches.
    pub meta: Arc<serde_json::Map<String, serde_json::Value>>,
    pub optional: bool,
    pub bounds: AttachmentBounds,
    pub scope: Scope,
    /// The path of the declaration, such as `tasks.classify.attachments[0]`.
    pub item: String,
    pub position: SourcePosition,
}

/// Where the bytes of an item are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemSource {
    Url(Url),
    /// A file beneath the directory of the configuration that owns the declaration.
    File {
        root: Arc<Path>,
        /// Relative to the root, or absolute where it was given so.
        path: PathBuf,
        /// Where it really is, all links followed; the path joined to the root where there is no such file.
        canonical: PathBuf,
    },
}

impl Scope {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Agent => "agent",
            Self::Action => "action",
        }
    }
}

/// What makes two items the same resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ResourceKey {
    Url(AttachmentKind, String),
    File(AttachmentKind, PathBuf),
}

impl Item {
    pub(crate) fn key(&self) -> ResourceKey {
        match &self.source {
            ItemSource::Url(url) => ResourceKey::Url(self.kind, normalize(url)),
            ItemSource::File { canonical, .. } => ResourceKey::File(self.kind, canonical.clone()),
        }
    }
}

/// A URL without what doesn't change its resource. Scheme, host and port were normalized when it was parsed.
fn normalize(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    // Both fail only for URLs without a host, which have none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

impl fmt::Display for ItemSource {
    /// The path, or the URL without credentials, query and fragment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "{}", path.display()),
            Self::Url(url) => {
                let mut shown = url.clone();
                let has_query = shown.query().is_some();
                shown.set_query(None);
                write!(f, "{}{}", normalize(&shown), if has_query { "?…" } else { "" })
            }
        }
    }
}
