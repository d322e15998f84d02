//! `file_list`: lists a directory of the workspace.

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, WorkspacePath, path::Mount};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse, spec_of},
    failure,
};

pub(crate) struct FileList(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory, beneath /shared or /tmp; /shared if it is not given.
    #[schemars(with = "Option<String>")]
    path: Option<WorkspacePath>,
}

#[async_trait]
impl Tool for FileList {
    fn spec(&self) -> ToolSpec {
        spec_of::<Arguments>(
            "file_list",
            SafetyTier::ReadOnly,
            "Lists the files and directories in one directory of the workspace, sorted by path, with their sizes. `more` \
             tells how many were left out.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { path } = parse(arguments)?;
        let path = path.unwrap_or_else(|| WorkspacePath::root(Mount::Shared));
        let entries = match self.0.workspace.list(&context.conversation, &path).await {
            Ok(entries) => entries,
            // A mount that nothing was written to yet is empty, whether or not its directory has been made.
            Err(WorkspaceError::NotFound(_)) if path.file_name().is_none() => vec![],
            Err(error) => return Err(failure::because("nothing was listed", &error)),
        };
        let shown: Vec<Value> = entries
            .iter()
            .take(self.0.limits.list_entries)
            .map(|entry| {
                json!({
                    "path": entry.path, "kind": entry.kind, "bytes": entry.bytes,
                    "modified_at_ms": entry.modified_at.0,
                })
            })
            .collect();
        let more = entries.len() - shown.len();
        Ok(ToolOutcome::of_data(json!({ "path": path, "entries": shown, "more": more })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::World;

    #[tokio::test]
    async fn a_directory_is_listed_and_what_is_left_out_is_counted() {
        let mut world = World::new();
        world.put_file("/shared/b.txt", b"12");
        world.put_file("/shared/a/x", b"1");
        world.put_file("/tmp/t", b"");
        let entry = |path: &str, kind: &str, bytes: u64| json!({"path": path, "kind": kind, "bytes": bytes, "modified_at_ms": 5000});
        assert_eq!(
            world.data("file_list", json!({})).await,
            json!({
                "path": "/shared", "more": 0,
                "entries": [entry("/shared/a", "directory", 0), entry("/shared/b.txt", "file", 2)],
            })
        );
        assert_eq!(
            world.data("file_list", json!({"path": "~/a/"})).await["entries"],
            json!([entry("/shared/a/x", "file", 1)])
        );
        world.limits.list_entries = 1;
        assert_eq!(world.data("file_list", json!({})).await["more"], json!(1));
        let empty = World::new().data("file_list", json!({"path": "/tmp"})).await;
        assert_eq!(empty, json!({"path": "/tmp", "entries": [], "more": 0}));
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let world = World::new();
        world.put_file("/shared/a.txt", b"text");
        for (arguments, says) in [
            (json!({"path": "/vault"}), "expected a path beneath /shared or /tmp, but `/vault"),
            (json!({"path": "/"}), "outside the workspace"),
            (json!({"path": "/shared/none"}), "nothing was listed: `/shared/none` does not exist"),
            (json!({"path": "/shared/a.txt"}), "nothing was listed: `/shared/a.txt` is not a directory"),
            (json!({"dir": "/shared"}), "unknown field `dir`"),
        ] {
            let error = world.error("file_list", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
