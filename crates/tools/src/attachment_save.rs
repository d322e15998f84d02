//! `attachment_save`: writes one attachment to a path of the workspace.

use async_trait::async_trait;
use satchel_domain::{Attachment, ToolOutcome, WorkspacePath, size::format_bytes};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError, WriteMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error, lookup,
};

pub(crate) struct AttachmentSave(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Which file that came with this turn's message, counted from 0. Give either this or attachment_id.
    index: Option<u64>,
    /// The id of any file of this conversation, also from earlier turns. Give either this or index.
    attachment_id: Option<String>,
    /// Where to write it, filename included, beneath /shared (kept) or /tmp; a.jpg is /shared/a.jpg. Nothing is added
    /// to it, no extension either. Missing directories are created.
    #[schemars(with = "String")]
    path: WorkspaceFilePath,
    /// Whether to replace a file that is there already.
    #[serde(default)]
    overwrite: bool,
}

/// The answer for one saved file, in `attachment.save_all` too.
#[derive(Debug, Serialize)]
pub(crate) struct SaveResult {
    saved: bool,
    pub(crate) path: String,
    mime_type: String,
    bytes_written: u64,
    source_index: Option<usize>,
    sha256: String,
}

/// Why a file was not saved; told apart because `attachment.save_all` takes another name for what exists.
pub(crate) enum SaveError {
    /// Something is there.
    Exists,
    Write(WorkspaceError),
    /// Anything else, in words.
    Other(ToolError),
}

#[async_trait]
impl Tool for AttachmentSave {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment_save",
            SafetyTier::SideEffecting,
            "Saves one file to the workspace: one that came with this turn's message (by index) or any other of this \
             conversation (by attachment_id). Fails if the path exists, unless overwrite is true.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { index, attachment_id, path: WorkspaceFilePath(path), overwrite } = parse_arguments(arguments)?;
        let (attachment, source_index) = match (index, attachment_id) {
            (Some(index), None) => {
                let (attachment, index) = inbound_file(context, index)?;
                (attachment, Some(index))
            }
            (None, Some(id)) => (lookup::find_attachment(&self.0, context, &id).await?, None),
            (Some(_), Some(_)) => {
                return Err(error::tool_error(
                    "both `index` and `attachment_id` are given: exactly one of them is allowed",
                ));
            }
            (None, None) => {
                return Err(error::tool_error(
                    "neither `index` nor `attachment_id` is given: exactly one of them is needed",
                ));
            }
        };
        let mode = if overwrite { WriteMode::Replace } else { WriteMode::CreateNew };
        let saved = save_attachment(&self.0, context, &attachment, source_index, &path, mode).await.map_err(
            |error| match error {
                SaveError::Exists => error::tool_error(format!(
                    "`{path}` exists already: choose another path, or set `overwrite` to true to replace it"
                )),
                SaveError::Write(error) => error::write_error("the write failed and nothing was saved", &error),
                SaveError::Other(error) => error,
            },
        )?;
        Ok(ToolOutcome::from_data(serde_json::json!(saved)))
    }
}

fn inbound_file(context: &ToolContext, index: u64) -> Result<(Attachment, usize), ToolError> {
    let count = context.inbound.len();
    let found = usize::try_from(index).ok().and_then(|at| Some((context.inbound.get(at)?.clone(), at)));
    found.ok_or_else(|| {
        error::tool_error(match count {
            0 => "no attachments came with this turn: name a file of an earlier turn by `attachment_id` \
                  (attachment.list shows them)"
                .to_owned(),
            1 => format!("index {index} is out of bounds: 1 attachment came with this turn, and its index is 0"),
            _ => format!(
                "index {index} is out of bounds: {count} attachments came with this turn, with indexes 0 to {}",
                count - 1
            ),
        })
    })
}

/// Streams an attachment's bytes into the workspace.
pub(crate) async fn save_attachment(
    services: &ToolServices,
    context: &ToolContext,
    attachment: &Attachment,
    source_index: Option<usize>,
    path: &WorkspacePath,
    mode: WriteMode,
) -> Result<SaveResult, SaveError> {
    let limit = services.limits.save_bytes;
    if attachment.bytes > limit {
        return Err(SaveError::Other(error::tool_error(format!(
            "{} is too large to save: it has {} bytes ({}), the maximum is {limit} bytes ({})",
            attachment.filename,
            attachment.bytes,
            format_bytes(attachment.bytes),
            format_bytes(limit)
        ))));
    }
    let content = services.blobs.open(&attachment.sha256, None).await.map_err(|error| {
        let message = format!("the bytes of {} could not be read", attachment.filename);
        SaveError::Other(error::tool_error_with_cause(&message, &error))
    })?;
    let written = services.workspace.write(context, path, content, mode, attachment.bytes).await;
    let bytes_written = written.map_err(|error| match error {
        WorkspaceError::Exists(_) => SaveError::Exists,
        error => SaveError::Write(error),
    })?;
    Ok(SaveResult {
        saved: true,
        path: path.to_string(),
        mime_type: attachment.mime.clone(),
        bytes_written,
        source_index,
        sha256: attachment.sha256.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::{BlobError, MockBlobs, MockWorkspace};
    use serde_json::json;

    use super::*;
    use crate::{
        AuditedWorkspace,
        fakes::{ToolHarness, attachment, digest},
    };

    fn world_with_two_files() -> ToolHarness {
        let world = ToolHarness::new();
        world.receive_bytes(1, "photo.jpg", "image/jpeg", b"a photo of the sea");
        world.receive_bytes(2, "letter.pdf", "application/pdf", b"%PDF letter");
        world
    }

    #[tokio::test]
    async fn file_of_this_turn_is_saved_by_index() {
        let world = world_with_two_files();
        let answer = world.data("attachment_save", json!({"index": 1, "path": "~/post/letter"})).await;
        assert_eq!(
            answer,
            json!({
                "saved": true, "path": "/shared/post/letter", "mime_type": "application/pdf", "bytes_written": 11,
                "source_index": 1, "sha256": digest(b"%PDF letter"),
            })
        );
        assert_eq!(world.file("/shared/post/letter").as_deref(), Some(&b"%PDF letter"[..]), "no extension is added");
    }

    #[tokio::test]
    async fn file_of_earlier_turn_is_saved_by_id() {
        let world = ToolHarness::new();
        let old = attachment(17, "old.txt", "text/plain", b"old");
        world.store(b"old");
        world.add_record(old.clone());
        let answer = world.data("attachment_save", json!({"attachment_id": old.id, "path": "/tmp/old.txt"})).await;
        assert_eq!((&answer["source_index"], &answer["bytes_written"]), (&Value::Null, &json!(3)));
    }

    #[tokio::test]
    async fn a_file_is_replaced_only_on_request() {
        let world = world_with_two_files();
        world.put_file("/shared/a", b"mine");
        let error = world.error("attachment_save", json!({"index": 0, "path": "/shared/a"})).await;
        assert!(error.contains("`/shared/a` exists already") && error.contains("`overwrite` to true"), "{error}");
        assert_eq!(world.file("/shared/a").as_deref(), Some(&b"mine"[..]));
        world.data("attachment_save", json!({"index": 0, "path": "/shared/a", "overwrite": true})).await;
        assert_eq!(world.file("/shared/a").as_deref(), Some(&b"a photo of the sea"[..]));
    }

    #[tokio::test]
    async fn every_invalid_save_call_has_distinct_error() {
        let world = world_with_two_files();
        let id = attachment(1, "", "", b"").id;
        let stranger = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
        let mut errors = Vec::new();
        for (arguments, says) in [
            (json!({"path": "/shared/a"}), "neither `index` nor `attachment_id` is given"),
            (json!({"path": "/shared/a", "index": 0, "attachment_id": id}), "both `index` and `attachment_id`"),
            (json!({"index": 0}), "missing field `path`"),
            (json!({"index": 2, "path": "/shared/a"}), "index 2 is out of bounds: 2 attachments came"),
            (
                json!({"index": u64::MAX, "path": "/shared/a"}),
                "out of bounds: 2 attachments came with this turn, with indexes 0 to 1",
            ),
            (json!({"index": 1.5, "path": "/shared/a"}), "argument `index`: invalid type: floating point `1.5`"),
            (json!({"index": 0, "path": "/vault/a"}), "expected a path beneath /shared or /tmp"),
            (json!({"index": 0, "path": "/shared/../../etc/passwd"}), "climbs"),
            (json!({"index": 0, "path": "/shared/dir/"}), "names a directory"),
            (json!({"attachment_id": stranger, "path": "/shared/a"}), "is no attachment of this conversation"),
            (json!({"index": 0, "path": "/shared/a", "force": true}), "unknown field `force`"),
        ] {
            let error = world.error("attachment_save", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
            errors.push(error);
        }
        errors.sort();
        errors.dedup();
        assert_eq!(errors.len(), 11, "each error is distinct");
        assert!(world.touched().is_empty(), "no wrong call reaches the workspace");

        let error = ToolHarness::new().error("attachment_save", json!({"index": 0, "path": "/shared/a"})).await;
        assert!(error.contains("no attachments came with this turn"), "{error}");
        let one = ToolHarness::new();
        one.receive_bytes(1, "a", "text/plain", b"a");
        let error = one.error("attachment_save", json!({"index": 1, "path": "/shared/a"})).await;
        assert!(error.contains("1 attachment came with this turn"), "{error}");
    }

    #[tokio::test]
    async fn oversized_save_is_refused_with_both_numbers() {
        let mut world = world_with_two_files();
        world.limits.save_bytes = 17;
        let error = world.error("attachment_save", json!({"index": 0, "path": "/shared/a"})).await;
        assert!(error.contains("18 bytes") && error.contains("17 bytes"), "{error}");
        assert!(world.touched().is_empty());
        world.data("attachment_save", json!({"index": 1, "path": "/shared/a"})).await;
    }

    #[tokio::test]
    async fn a_failed_write_or_read_says_why() {
        let world = world_with_two_files();
        let mut workspace = MockWorkspace::new();
        workspace.expect_write().times(1).returning(|_, path, _, mode, limit| {
            assert_eq!((mode, limit), (WriteMode::CreateNew, 18), "no more room is taken than it needs");
            Err(WorkspaceError::Failed { path: path.clone(), reason: "the disk is on fire".to_owned() })
        });
        let tool =
            AttachmentSave(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
        let error = tool.call(json!({"index": 0, "path": "/shared/a"}), &world.context()).await.unwrap_err().0;
        assert_eq!(error, "the write failed and nothing was saved: `/shared/a` failed: the disk is on fire");

        let mut workspace = MockWorkspace::new();
        workspace.expect_write().returning(|_, path, _, _, _| {
            Err(WorkspaceError::Unconfirmed { path: path.clone(), reason: "input/output error".to_owned() })
        });
        let tool =
            AttachmentSave(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
        let error = tool.call(json!({"index": 0, "path": "/shared/a"}), &world.context()).await.unwrap_err().0;
        let unconfirmed = "`/shared/a` was written, but the disk did not confirm that it will stay: input/output error";
        assert_eq!(error, unconfirmed);

        let mut blobs = MockBlobs::new();
        blobs.expect_open().returning(|sha256, _| Err(BlobError::Damaged(*sha256)));
        let mut untouched = MockWorkspace::new();
        untouched.expect_write().never();
        let services = world.services();
        let tool = AttachmentSave(ToolServices {
            blobs: Arc::new(blobs),
            workspace: AuditedWorkspace::new(Arc::new(untouched)),
            ..services
        });
        let error = tool.call(json!({"index": 0, "path": "/shared/a"}), &world.context()).await.unwrap_err().0;
        assert!(error.contains("the bytes of photo.jpg could not be read") && error.contains("damaged"), "{error}");
    }

    #[test]
    fn debug_context_has_file_count_without_contents() {
        let shown = format!("{:?}", world_with_two_files().context());
        assert!(shown.contains("inbound: 2"), "{shown}");
        assert!(!shown.contains("photo") && !shown.contains(&digest(b"a photo of the sea").to_string()), "{shown}");
    }
}
