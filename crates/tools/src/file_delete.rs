//! `file_delete`: removes a file, or an empty directory, of the workspace.

use async_trait::async_trait;
use satchel_domain::ToolOutcome;
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error,
};

pub(crate) struct FileDelete(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file or empty directory, beneath /shared or /tmp; a.txt is /shared/a.txt.
    #[schemars(with = "String")]
    path: WorkspaceFilePath,
}

#[async_trait]
impl Tool for FileDelete {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_delete",
            SafetyTier::SideEffecting,
            "Deletes one file, or one empty directory, of the workspace for good. Attachments stay, whether or not they \
             were saved to that path or attached from it.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { path: WorkspaceFilePath(path) } = parse_arguments(arguments)?;
        let deleted = self.0.workspace.remove(&context.conversation, &path).await;
        deleted.map_err(|error| match error {
            WorkspaceError::NotFound(path) => {
                error::tool_error(format!("nothing was deleted: there is no `{path}`; file_list shows what there is"))
            }
            error => error::tool_error_with_cause("nothing was deleted", &error),
        })?;
        Ok(ToolOutcome::from_data(json!({ "deleted": true, "path": path })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::MockWorkspace;

    use super::*;
    use crate::fakes::ToolHarness;

    #[tokio::test]
    async fn file_is_deleted_and_others_stay() {
        let world = ToolHarness::new();
        world.put_file("/shared/a/b.txt", b"b");
        world.put_file("/shared/a/c.txt", b"c");
        let answer = world.data("file_delete", json!({"path": "a/b.txt"})).await;
        assert_eq!(answer, json!({"deleted": true, "path": "/shared/a/b.txt"}));
        assert_eq!((world.file("/shared/a/b.txt"), world.file("/shared/a/c.txt")), (None, Some(b"c".to_vec())));
        let error = world.error("file_delete", json!({"path": "a/b.txt"})).await;
        assert_eq!(error, "nothing was deleted: there is no `/shared/a/b.txt`; file_list shows what there is");
    }

    #[tokio::test]
    async fn invalid_delete_call_is_explained_and_deletes_nothing() {
        let world = ToolHarness::new();
        for (arguments, says) in [
            (json!({}), "missing field `path`"),
            (json!({"path": "/vault/key"}), "`/vault/key` can't be written by this tool"),
            (json!({"path": "/shared"}), "names a directory"),
            (json!({"path": "/shared/../vault/key"}), "climbs"),
            (json!({"path": "/shared/a", "recursive": true}), "unknown field `recursive`"),
        ] {
            let error = world.error("file_delete", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
        assert!(world.touched().is_empty());

        let mut workspace = MockWorkspace::new();
        workspace.expect_remove().returning(|_, path| {
            Err(WorkspaceError::Failed { path: path.clone(), reason: "directory not empty".to_owned() })
        });
        let tool = FileDelete(ToolServices { workspace: Arc::new(workspace), ..world.services() });
        let error = tool.call(json!({"path": "/tmp/a"}), &world.context()).await.unwrap_err().0;
        assert_eq!(error, "nothing was deleted: `/tmp/a` failed: directory not empty");
    }
}
