//! The table of path arguments: what each tool may do with a path, and beneath which mounts.
//!
//! A tool that isn't in the table can't be registered, so that none escapes the policy by being forgotten.

use satchel_domain::{WorkspacePath, path::Mount};
use satchel_ports::SafetyTier;
use serde_json::Value;

/// What a tool does with what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAccess {
    Read,
    Write,
}

/// One argument that holds a path or a list of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathField {
    pub name: &'static str,
    /// What the tool does with what it names.
    pub access: PathAccess,
    /// The mounts beneath which it may lie.
    pub mounts: &'static [Mount],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFields {
    /// No argument of the tool holds a path.
    None,
    Some(&'static [PathField]),
}

impl PathFields {
    /// The least that a tool with these paths may do to the world: one that reads secrets is privileged.
    pub(crate) fn lowest_tier(self) -> SafetyTier {
        if self.reads_secrets() { SafetyTier::Privileged } else { SafetyTier::ReadOnly }
    }

    /// Whether an argument may name a secret.
    pub(crate) fn reads_secrets(self) -> bool {
        self.fields().iter().any(|field| field.mounts.contains(&Mount::Vault))
    }

    /// Whether an argument may name a secret that is to be changed.
    pub(crate) fn writes_secrets(self) -> bool {
        let writes = |field: &PathField| field.access == PathAccess::Write && field.mounts.contains(&Mount::Vault);
        self.fields().iter().any(writes)
    }

    /// The paths in a call's arguments at which the tool may change files; one `None` where they name none and the tool
    /// chooses a path itself.
    pub(crate) fn changed_paths(self, arguments: &Value) -> Vec<Option<WorkspacePath>> {
        let mut written = self.fields().iter().filter(|field| field.access == PathAccess::Write).peekable();
        let changes_files = written.peek().is_some();
        let paths = written.flat_map(|field| {
            let given = match &arguments[field.name] {
                Value::Array(paths) => paths.as_slice(),
                path => std::slice::from_ref(path),
            };
            let parsed = given.iter().filter_map(|path| path.as_str()?.parse::<WorkspacePath>().ok());
            parsed.filter(|path| field.mounts.contains(&path.mount())).map(Some)
        });
        let mut paths: Vec<_> = paths.collect();
        if paths.is_empty() && changes_files {
            paths.push(None);
        }
        paths
    }

    fn fields(self) -> &'static [PathField] {
        match self {
            Self::None => &[],
            Self::Some(fields) => fields,
        }
    }
}

const SHARED_AND_TMP: &[Mount] = &[Mount::Shared, Mount::Tmp];

const fn read_field(name: &'static str) -> PathField {
    PathField { name, access: PathAccess::Read, mounts: SHARED_AND_TMP }
}

const fn write_field(name: &'static str) -> PathField {
    PathField { name, access: PathAccess::Write, mounts: SHARED_AND_TMP }
}

const PATH_FIELDS: &[(&str, PathFields)] = &[
    ("attachment.add", PathFields::Some(&[read_field("paths"), read_field("path")])),
    ("attachment.download", PathFields::Some(&[write_field("downloadDir")])),
    ("attachment.get", PathFields::None),
    ("attachment.list", PathFields::None),
    ("attachment.read", PathFields::None),
    ("attachment.save_all", PathFields::Some(&[write_field("dir")])),
    ("attachment.view", PathFields::None),
    ("attachment_save", PathFields::Some(&[write_field("path")])),
    ("execute_script", PathFields::None),
    ("file_delete", PathFields::Some(&[write_field("path"), write_field("paths")])),
    ("file_edit", PathFields::Some(&[write_field("path")])),
    ("file_list", PathFields::Some(&[read_field("path")])),
    ("file_read", PathFields::Some(&[read_field("path")])),
    ("file_search", PathFields::Some(&[read_field("path")])),
    ("file_write", PathFields::Some(&[write_field("path")])),
    ("response_attachments", PathFields::None),
    ("schedule.cancel", PathFields::None),
    ("schedule.create", PathFields::None),
    ("schedule.list", PathFields::None),
    ("send_voice", PathFields::None),
];

/// The entry of a tool; `None` for one that the table doesn't know.
#[must_use]
pub fn path_fields(tool: &str) -> Option<PathFields> {
    PATH_FIELDS.iter().find(|(name, _)| *name == tool).map(|(_, fields)| *fields)
}

/// The names of all tools that Satchel brings along, whether or not this installation offers them.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    PATH_FIELDS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_is_as_it_was_reviewed() {
        let line = |(tool, fields): &(&str, PathFields)| match fields {
            PathFields::None => format!("{tool}: none"),
            PathFields::Some(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| {
                        let mounts: Vec<String> = field.mounts.iter().map(ToString::to_string).collect();
                        format!("{} {:?} {}", field.name, field.access, mounts.join(" "))
                    })
                    .collect();
                format!("{tool}: {}", fields.join(", "))
            }
        };
        insta::assert_snapshot!(PATH_FIELDS.iter().map(line).collect::<Vec<_>>().join("\n"), @r#"
        attachment.add: paths Read /shared /tmp, path Read /shared /tmp
        attachment.download: downloadDir Write /shared /tmp
        attachment.get: none
        attachment.list: none
        attachment.read: none
        attachment.save_all: dir Write /shared /tmp
        attachment.view: none
        attachment_save: path Write /shared /tmp
        execute_script: none
        file_delete: path Write /shared /tmp, paths Write /shared /tmp
        file_edit: path Write /shared /tmp
        file_list: path Read /shared /tmp
        file_read: path Read /shared /tmp
        file_search: path Read /shared /tmp
        file_write: path Write /shared /tmp
        response_attachments: none
        schedule.cancel: none
        schedule.create: none
        schedule.list: none
        send_voice: none
        "#);
    }

    #[test]
    fn changed_paths_are_those_of_written_fields() {
        let paths = |tool: &str, arguments: Value| -> Vec<String> {
            let paths = path_fields(tool).unwrap().changed_paths(&arguments);
            paths.iter().map(|path| path.as_ref().map_or("?".to_owned(), ToString::to_string)).collect()
        };
        assert_eq!(paths("file_delete", json!({"paths": ["a", "/tmp/b"]})), ["/shared/a", "/tmp/b"]);
        assert_eq!(paths("file_delete", json!({"path": "notes/*.tmp"})), ["/shared/notes/*.tmp"]);
        assert_eq!(paths("attachment.save_all", json!({"dir": "/tmp"})), ["/tmp"]);
        assert_eq!(paths("attachment.download", json!({})), ["?"], "it has a directory of its own");
        assert_eq!(paths("file_write", json!({"path": "/vault/pin"})), ["?"], "what it can't write isn't named");
        assert!(paths("file_read", json!({"path": "a"})).is_empty() && paths("execute_script", json!({})).is_empty());
    }

    #[test]
    fn the_guide_lists_every_tool() {
        let guide = include_str!("../../../docs/guide/commands.md");
        let (_, table) = guide.split_once("\n## Tools of the model\n").expect("it has this section");
        let (table, _) = table.split_once("\n## ").expect("others follow");
        let first_cells =
            table.lines().filter(|line| line.starts_with("| `")).map(|row| row.split(" | ").next().unwrap());
        let mut listed: Vec<&str> = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        listed.sort_unstable();
        assert_eq!(listed, tool_names().collect::<Vec<_>>());
    }

    #[test]
    fn path_entries_are_unique_nonempty_without_vault_writes() {
        for (at, (tool, fields)) in PATH_FIELDS.iter().enumerate() {
            assert!(!PATH_FIELDS[at + 1..].iter().any(|(other, _)| other == tool), "{tool} stands in the table twice");
            let PathFields::Some(fields) = fields else { continue };
            assert!(!fields.is_empty(), "{tool}: no paths are written as `None`");
            for field in *fields {
                assert!(field.access == PathAccess::Read || !field.mounts.contains(&Mount::Vault), "{tool}");
            }
        }
    }
}
