//! `file_write`: writes a text file of the workspace.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use satchel_domain::{ToolOutcome, size::format_bytes};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError, WriteMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error,
};

pub(crate) struct FileWrite(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, beneath /shared (kept) or /tmp; a.txt is /shared/a.txt. Missing directories are created.
    #[schemars(with = "String")]
    path: WorkspaceFilePath,
    /// The whole text of the file.
    content: String,
    /// Whether to replace a file that is there already.
    #[serde(default)]
    overwrite: bool,
}

#[async_trait]
impl Tool for FileWrite {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_write",
            SafetyTier::SideEffecting,
            "Writes a text file to the workspace. Fails if the path exists, unless overwrite is true. The person gets the \
             file only if you attach it with attachment.add.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { path: WorkspaceFilePath(path), content, overwrite } = parse_arguments(arguments)?;
        let (bytes, limit) = (content.len() as u64, self.0.limits.save_bytes);
        if bytes > limit {
            return Err(error::tool_error(format!(
                "the text is too large to write: it has {bytes} bytes ({}), the maximum is {limit} bytes ({})",
                format_bytes(bytes),
                format_bytes(limit)
            )));
        }
        let mode = if overwrite { WriteMode::Replace } else { WriteMode::CreateNew };
        let content = Box::pin(stream::iter([Ok(Bytes::from(content))]));
        let written = self.0.workspace.write(context, &path, content, mode, bytes).await;
        let bytes_written = written.map_err(|error| match error {
            WorkspaceError::Exists(path) => error::tool_error(format!(
                "`{path}` exists already: choose another path, or set `overwrite` to true to replace it"
            )),
            error => error::write_error("the write failed and nothing was written", &error),
        })?;
        Ok(ToolOutcome::from_data(json!({ "written": true, "path": path, "bytes_written": bytes_written })))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::MockWorkspace;

    use super::*;
    use crate::{AuditedWorkspace, fakes::ToolHarness};

    #[tokio::test]
    async fn file_write_replaces_only_on_request() {
        let world = ToolHarness::new();
        let answer = world.data("file_write", json!({"path": "~/a/b.txt", "content": "привет"})).await;
        assert_eq!(answer, json!({"written": true, "path": "/shared/a/b.txt", "bytes_written": 12}));
        let error = world.error("file_write", json!({"path": "/shared/a/b.txt", "content": "x"})).await;
        assert!(error.contains("exists already") && error.contains("`overwrite` to true"), "{error}");
        assert_eq!(world.file("/shared/a/b.txt").as_deref(), Some("привет".as_bytes()));
        world.data("file_write", json!({"path": "/shared/a/b.txt", "content": "", "overwrite": true})).await;
        assert_eq!(world.file("/shared/a/b.txt").as_deref(), Some(&b""[..]));
    }

    #[tokio::test]
    async fn invalid_write_call_is_explained_and_writes_nothing() {
        let mut world = ToolHarness::new();
        world.limits.save_bytes = 5;
        for (arguments, says) in [
            (json!({"path": "/shared/a"}), "missing field `content`"),
            (json!({"content": "a"}), "missing field `path`"),
            (json!({"path": "/vault/a", "content": "a"}), "`/vault/a` can't be written by this tool"),
            (json!({"path": "/shared/a/", "content": "a"}), "names a directory"),
            (json!({"path": "/shared/a", "content": {"a": 1}}), "argument `content`: invalid type: map"),
            (json!({"path": "/shared/a", "content": "123456"}), "6 bytes (6 B), the maximum is 5 bytes"),
        ] {
            let error = world.error("file_write", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
        assert!(world.touched().is_empty());

        let mut workspace = MockWorkspace::new();
        workspace.expect_write().returning(|_, _, _, _, _| Err(WorkspaceError::QuotaExceeded { quota: 2_000_000_000 }));
        let tool =
            FileWrite(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
        let error = tool.call(json!({"path": "/tmp/a", "content": "a"}), &world.context()).await.unwrap_err().0;
        assert_eq!(
            error,
            "the write failed and nothing was written: the workspace is full: 2 GB is its quota; `/forget \
             workspace:PATH` removes a file of it"
        );

        let mut workspace = MockWorkspace::new();
        workspace.expect_write().returning(|_, path, _, _, _| {
            Err(WorkspaceError::Unconfirmed { path: path.clone(), reason: "input/output error".to_owned() })
        });
        let tool =
            FileWrite(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
        let error = tool.call(json!({"path": "/tmp/a", "content": "a"}), &world.context()).await.unwrap_err().0;
        assert!(error.starts_with("`/tmp/a` was written, but the disk did not confirm"), "{error}");
    }
}
