//! Paths in a conversation's workspace, as tools name them: `/shared/notes/a.txt`, or `notes/a.txt` for the same.
//!
//! The check is lexical: it knows no disk. What the path meets there, links included, is for the
//! `Workspace` port to resolve beneath a directory handle.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::filename::{is_unsafe_char, is_visually_empty};

/// A directory tree that a conversation's tools may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mount {
    /// `/shared`, also written `~`: kept.
    Shared,
    /// `/tmp`: emptied when the conversation has been idle for a day.
    Tmp,
    /// `/vault`: secrets, read only, for the tools that declare it.
    Vault,
}

impl Mount {
    /// The mount's name as the first component of a path.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Tmp => "tmp",
            Self::Vault => "vault",
        }
    }

    /// Returns the mount of that name.
    fn from_name(name: &str) -> Option<Self> {
        [Self::Shared, Self::Tmp, Self::Vault].into_iter().find(|mount| mount.name() == name)
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.name())
    }
}

/// A checked path beneath a mount: no `..`, no empty or hidden-character component, no name that a system refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath {
    mount: Mount,
    relative: String,
}

impl WorkspacePath {
    /// The mount's own directory.
    #[must_use]
    pub fn root(mount: Mount) -> Self {
        Self { mount, relative: String::new() }
    }

    /// The mount beneath which the path lies.
    #[must_use]
    pub fn mount(&self) -> Mount {
        self.mount
    }

    /// The path beneath the mount, with `/` between components; empty for the mount itself.
    #[must_use]
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// The last component; `None` for the mount itself.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.relative.rsplit('/').next().filter(|name| !name.is_empty())
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// When `name` is not one plain component.
    pub fn join(&self, name: &str) -> Result<Self, ParseWorkspacePathError> {
        format!("{self}/{name}").parse()
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.relative.as_str() {
            "" => write!(f, "{}", self.mount),
            relative => write!(f, "{}/{relative}", self.mount),
        }
    }
}

/// Why a text is no path in a workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseWorkspacePathError {
    /// The path lies beneath no mount, or it is unclear beneath which.
    #[error(
        "`{0}` is outside the workspace: paths begin with /shared (or ~) or /tmp, such as /shared/photo.jpg, for which \
         photo.jpg is enough"
    )]
    OutsideMounts(String),
    /// The path climbs with `..`.
    #[error("`{0}` climbs with `..`: give the path from /shared or /tmp down")]
    ParentDir(String),
    /// A component is something that a file can't be called.
    #[error("`{path}` has a part that no file can be called ({reason})")]
    InvalidName {
        /// The path as given, hidden characters escaped.
        path: String,
        /// What is wrong with the component.
        reason: &'static str,
    },
}

impl FromStr for WorkspacePath {
    type Err = ParseWorkspacePathError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let escaped = || given.escape_debug().to_string();
        let expanded = match given.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/shared{rest}"),
            _ => given.to_owned(),
        };
        let below_root = expanded.strip_prefix('/');
        let is_significant = |component: &&str| !component.is_empty() && *component != ".";
        let mut components = below_root.unwrap_or(&expanded).split('/').filter(is_significant).peekable();
        let named_mount = components.peek().copied().and_then(Mount::from_name);
        let mount = match (below_root, named_mount) {
            (Some(_), Some(mount)) => {
                components.next();
                mount
            }
            // `tmp/a` would be a kept file in /shared, although the writer most likely meant /tmp.
            (Some(_), None) | (None, Some(_)) => return Err(ParseWorkspacePathError::OutsideMounts(escaped())),
            (None, None) if expanded.is_empty() || expanded.starts_with('~') || is_windows_path(&expanded) => {
                return Err(ParseWorkspacePathError::OutsideMounts(escaped()));
            }
            (None, None) => Mount::Shared,
        };
        let components: Vec<&str> = components.collect();
        if components.contains(&"..") {
            return Err(ParseWorkspacePathError::ParentDir(escaped()));
        }
        if let Some(reason) = components.iter().find_map(|component| forbidden_name_reason(component)) {
            return Err(ParseWorkspacePathError::InvalidName { path: escaped(), reason });
        }
        Ok(Self { mount, relative: components.join("/") })
    }
}

/// Whether a path is absolute where directories are separated by backslashes.
fn is_windows_path(path: &str) -> bool {
    path.starts_with('\\') || matches!(path.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic())
}

/// Names that some system can't store or takes for a device; refused everywhere, so that a workspace can move.
fn forbidden_name_reason(component: &str) -> Option<&'static str> {
    const DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];
    let stem = component.split('.').next().unwrap_or_default();
    if component.len() > 255 {
        return Some("longer than 255 bytes");
    }
    if component.chars().any(is_unsafe_char) || component.split('.').all(is_visually_empty) {
        return Some("a control or invisible character");
    }
    if component.contains(['\\', ':']) {
        return Some("a backslash or a colon");
    }
    if component.ends_with(['.', ' ']) {
        return Some("a dot or a space at its end");
    }
    DEVICES.iter().any(|device| stem.eq_ignore_ascii_case(device)).then_some("the name of a device")
}

impl Serialize for WorkspacePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkspacePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_lie_beneath_a_mount() {
        for (given, path) in [
            ("/shared/a.txt", "/shared/a.txt"),
            ("~/Downloads", "/shared/Downloads"),
            ("~", "/shared"),
            ("/shared/می\u{200C}خواهم.pdf", "/shared/می\u{200C}خواهم.pdf"),
            ("/tmp//x/./y", "/tmp/x/y"),
            ("/vault/key", "/vault/key"),
            ("a.png", "/shared/a.png"),
            ("./notes//b c.txt", "/shared/notes/b c.txt"),
            (".", "/shared"),
            (".hidden", "/shared/.hidden"),
        ] {
            assert_eq!(given.parse::<WorkspacePath>().map(|path| path.to_string()), Ok(path.to_owned()));
        }
    }

    #[test]
    fn every_way_out_is_refused_with_its_reason() {
        for (given, reason) in [
            ("/etc/passwd", "outside the workspace"),
            ("shared/a", "outside the workspace"),
            ("", "outside the workspace"),
            ("~root/a", "outside the workspace"),
            ("tmp/a", "outside the workspace"),
            ("./vault/key", "outside the workspace"),
            ("C:\\a", "outside the workspace"),
            ("c:/a", "outside the workspace"),
            ("\\\\host\\a", "outside the workspace"),
            ("../a", "climbs"),
            ("..", "climbs"),
            ("a/../../b", "climbs"),
            ("file:///a", "colon"),
            ("/shared/../etc", "climbs"),
            ("/shared/a/..", "climbs"),
            ("/shared/a\0b", "invisible"),
            ("/shared/\u{200C}.\u{200D}", "invisible"),
            ("/shared/C:/x", "colon"),
            ("/shared/a\\b", "backslash"),
            ("/shared/nul.txt", "device"),
            ("/shared/a.", "dot"),
        ] {
            let error = given.parse::<WorkspacePath>().map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(reason)), "{given:?}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_stays_beneath_its_mount(given in "(/shared|/tmp|~|/vault)?(/|\\.|a|b|\\.\\.|\\\\|:|\u{202E}| ){0,12}") {
            if let Ok(path) = given.parse::<WorkspacePath>() {
                prop_assert!(!path.relative().split('/').any(|component| component == ".."));
                prop_assert!(!path.relative().starts_with('/'));
                prop_assert_eq!(path.to_string().parse(), Ok(path));
            }
        }
    }
}
