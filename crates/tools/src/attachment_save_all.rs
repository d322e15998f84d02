//! `attachment.save_all`: writes every file that came with this turn into one directory.

use std::collections::HashSet;

use async_trait::async_trait;
use satchel_domain::{Attachment, Filename, ToolOutcome, WorkspacePath};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError, WriteMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    attachment_save::{SaveError, SaveResult, save_attachment},
    error,
};

/// How many numbers are tried for a name that others keep taking.
const MAX_NUMBERS: u32 = 10_000;

pub(crate) struct AttachmentSaveAll(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory to write to, beneath /shared (kept) or /tmp; docs is /shared/docs. It is created if it is missing.
    #[schemars(with = "String")]
    dir: WorkspacePath,
    /// Whether to replace files of the same names. If not, a number is added: photo-2.jpg.
    #[serde(default)]
    overwrite: bool,
}

#[async_trait]
impl Tool for AttachmentSaveAll {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.save_all",
            SafetyTier::SideEffecting,
            "Saves all files that came with this turn's message to one directory of the workspace, under their own \
             names. Answers with a list: one entry a file, in order.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { dir, overwrite } = parse_arguments(arguments)?;
        if context.inbound.is_empty() {
            return Err(error::tool_error(
                "no attachments came with this turn: save a file of an earlier turn with attachment_save and its \
                 `attachment_id` (attachment.list shows them)",
            ));
        }
        let mut used_names = match overwrite {
            true => HashSet::new(),
            false => list_names(&self.0, context, &dir).await?,
        };
        let mode = if overwrite { WriteMode::Replace } else { WriteMode::CreateNew };
        let mut results = Vec::new();
        let (mut saved_files, mut failures) = (Vec::new(), Vec::new());
        let mut saved_nothing = true;
        for (index, attachment) in context.inbound.iter().enumerate() {
            let filename = &attachment.filename;
            match save_numbered(&self.0, context, (index, attachment), &dir, mode, &mut used_names).await {
                Ok(result) => {
                    saved_nothing = false;
                    saved_files.push(format!("[{index}] {filename} as {}", result.path));
                    results.push(json!(result));
                }
                Err(error) => {
                    saved_nothing &= !matches!(error, SaveError::Write(WorkspaceError::Unconfirmed { .. }));
                    let reason = match error {
                        SaveError::Exists => error::tool_error(format!(
                            "{MAX_NUMBERS} files of this name are in `{dir}` already: choose another directory"
                        )),
                        SaveError::Write(error) => error::write_error("the write failed", &error),
                        SaveError::Other(error) => error,
                    };
                    failures.push(format!("[{index}] {filename}: {reason}"));
                    results.push(json!({
                        "saved": false, "source_index": index, "filename": filename, "error": reason.0,
                    }));
                }
            }
        }
        let results = Value::Array(results);
        if failures.is_empty() {
            return Ok(ToolOutcome::from_data(results));
        }
        let saved_text = match saved_files.as_slice() {
            [] if saved_nothing => "; nothing was saved".to_owned(),
            [] => String::new(),
            saved => format!("; saved: {}", saved.join(", ")),
        };
        let text = format!(
            "{} of {} files could not be saved: {}{saved_text}\n{results}",
            failures.len(),
            context.inbound.len(),
            failures.join("; ")
        );
        // A call that did nothing has failed as a whole, not in part.
        let data = (!saved_nothing).then_some(results);
        Ok(ToolOutcome { data, ..ToolOutcome::from_failure(text) })
    }
}

/// Returns the names in a directory, folded by [`fold_case`]; none if it doesn't exist yet.
async fn list_names(
    services: &ToolServices,
    context: &ToolContext,
    dir: &WorkspacePath,
) -> Result<HashSet<String>, ToolError> {
    match services.workspace.list(&context.conversation, dir).await {
        Ok(entries) => Ok(entries.iter().filter_map(|entry| entry.path.file_name()).map(fold_case).collect()),
        Err(WorkspaceError::NotFound(_)) => Ok(HashSet::new()),
        Err(error) => Err(error::tool_error_with_cause("nothing was saved", &error)),
    }
}

/// Names that differ only in case are one name, since a workspace may lie on a disk that takes them for one.
fn fold_case(name: &str) -> String {
    name.to_lowercase()
}

/// Saves a file under its own name or the first numbered one that is free; [`SaveError::Exists`] when none is.
async fn save_numbered(
    services: &ToolServices,
    context: &ToolContext,
    (index, attachment): (usize, &Attachment),
    dir: &WorkspacePath,
    mode: WriteMode,
    used_names: &mut HashSet<String>,
) -> Result<SaveResult, SaveError> {
    for number in 1..=MAX_NUMBERS {
        let (name, path) = numbered_path(dir, &attachment.filename, number).map_err(SaveError::Other)?;
        if !used_names.insert(fold_case(name.as_str())) {
            continue;
        }
        match save_attachment(services, context, attachment, Some(index), &path, mode).await {
            // Somebody made it since the directory was listed.
            Err(SaveError::Exists) => {}
            result => return result,
        }
    }
    Err(SaveError::Exists)
}

fn numbered_path(
    dir: &WorkspacePath,
    filename: &Filename,
    number: u32,
) -> Result<(Filename, WorkspacePath), ToolError> {
    let add_number = |name: Filename| if number == 1 { name } else { name.with_number(number) };
    let name = add_number(filename.clone());
    if let Ok(path) = dir.join(name.as_str()) {
        return Ok((name, path));
    }
    // A name that some system keeps for a device, such as `con.txt`.
    let name = add_number(Filename::from_untrusted(&format!("_{filename}")));
    let path =
        dir.join(name.as_str()).map_err(|error| error::tool_error_with_cause("it can't be named there", &error))?;
    Ok((name, path))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::MockWorkspace;

    use super::*;
    use crate::{AuditedWorkspace, fakes::ToolHarness};

    fn paths(answer: &Value) -> Vec<&str> {
        answer.as_array().into_iter().flatten().filter_map(|entry| entry["path"].as_str()).collect()
    }

    fn world_with(files: &[(&str, &[u8])]) -> ToolHarness {
        let world = ToolHarness::new();
        for (at, (name, content)) in files.iter().enumerate() {
            world.receive_bytes(at as u128 + 1, name, "text/plain", content);
        }
        world
    }

    #[tokio::test]
    async fn all_files_are_saved_and_equal_names_numbered() {
        let world = world_with(&[("a.txt", b"1"), ("A.TXT", b"2"), ("a.txt", b"3"), ("con.txt", b"4"), ("b", b"5")]);
        world.put_file("/shared/in/b", b"mine");
        let answer = world.data("attachment.save_all", json!({"dir": "/shared/in"})).await;
        assert_eq!(
            paths(&answer),
            ["/shared/in/a.txt", "/shared/in/A-2.TXT", "/shared/in/a-3.txt", "/shared/in/_con.txt", "/shared/in/b-2"]
        );
        assert_eq!(world.file("/shared/in/b").as_deref(), Some(&b"mine"[..]), "what is there stays");
        assert_eq!(world.file("/shared/in/a-3.txt").as_deref(), Some(&b"3"[..]));
        let keys: Vec<&String> = answer[0].as_object().expect("an entry").keys().collect();
        assert_eq!(keys, ["saved", "path", "mime_type", "bytes_written", "source_index", "sha256"]);
    }

    #[tokio::test]
    async fn overwrite_replaces_existing_files_but_not_its_own() {
        let world = world_with(&[("a.txt", b"1"), ("a.txt", b"2")]);
        world.put_file("/tmp/a.txt", b"mine");
        let answer = world.data("attachment.save_all", json!({"dir": "/tmp", "overwrite": true})).await;
        assert_eq!(paths(&answer), ["/tmp/a.txt", "/tmp/a-2.txt"]);
        assert_eq!(world.file("/tmp/a.txt").as_deref(), Some(&b"1"[..]));
    }

    #[tokio::test]
    async fn failed_save_is_reported_and_others_are_saved() {
        let mut world = world_with(&[("a.txt", b"1"), ("big.txt", b"12345"), ("c.txt", b"3")]);
        world.limits.save_bytes = 4;
        let outcome = world.call("attachment.save_all", json!({"dir": "/shared"})).await.unwrap();
        let text = outcome.text.unwrap();
        assert!(outcome.failed && text.starts_with("1 of 3 files could not be saved: [1] big.txt:"), "{text}");
        assert!(text.contains("5 bytes") && text.contains("4 bytes"), "{text}");
        assert!(text.contains("; saved: [0] a.txt as /shared/a.txt, [2] c.txt as /shared/c.txt\n["), "{text}");
        assert!(!text.contains("nothing was saved"), "{text}");
        let answer = outcome.data.unwrap();
        assert_eq!(paths(&answer), ["/shared/a.txt", "/shared/c.txt"]);
        assert_eq!((&answer[1]["saved"], &answer[1]["source_index"]), (&json!(false), &json!(1)));
        assert!(world.file("/shared/c.txt").is_some() && world.file("/shared/big.txt").is_none());
    }

    /// Saves two files to a workspace whose writes end like this, by the file's name.
    async fn outcome_of_writes(answer: fn(&WorkspacePath) -> Result<u64, WorkspaceError>) -> ToolOutcome {
        let world = world_with(&[("a.txt", b"1"), ("b.txt", b"2")]);
        let mut workspace = MockWorkspace::new();
        workspace.expect_list().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
        workspace.expect_write().times(2).returning(move |_, path, _, _, _| answer(path));
        let tool = AttachmentSaveAll(ToolServices {
            workspace: AuditedWorkspace::new(Arc::new(workspace)),
            ..world.services()
        });
        tool.call(json!({"dir": "/shared"}), &world.context()).await.unwrap()
    }

    fn broken(path: &WorkspacePath) -> WorkspaceError {
        WorkspaceError::Failed { path: path.clone(), reason: "the disk is on fire".to_owned() }
    }

    #[tokio::test]
    async fn nothing_was_saved_only_if_no_write_succeeded() {
        let all = outcome_of_writes(|path| Err(broken(path))).await.text.unwrap();
        assert!(all.starts_with("2 of 2 files could not be saved: [0] a.txt: the write failed: `/shared/a"), "{all}");
        assert!(all.contains("the disk is on fire; nothing was saved\n["), "{all}");
        let one = outcome_of_writes(|path| match path.file_name() {
            Some("a.txt") => Ok(1),
            _ => Err(broken(path)),
        });
        let one = one.await;
        let text = one.text.unwrap();
        assert!(text.starts_with("1 of 2 files could not be saved: [1] b.txt: the write failed: "), "{text}");
        assert!(text.contains("; saved: [0] a.txt as /shared/a.txt\n[") && !text.contains("nothing was"), "{text}");
        let data = one.data.unwrap();
        assert_eq!((&data[0]["path"], &data[1]["filename"]), (&json!("/shared/a.txt"), &json!("b.txt")));
        let unsure = outcome_of_writes(|path| match path.file_name() {
            Some("a.txt") => Err(WorkspaceError::Unconfirmed { path: path.clone(), reason: "EIO".to_owned() }),
            _ => Err(broken(path)),
        });
        let unsure = unsure.await.text.unwrap();
        assert!(unsure.contains("[0] a.txt: `/shared/a.txt` was written, but") && !unsure.contains("nothing was"));
    }

    #[tokio::test]
    async fn concurrently_created_name_gets_the_next_number() {
        let world = world_with(&[("a.txt", b"1")]);
        let mut workspace = MockWorkspace::new();
        workspace.expect_list().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
        workspace.expect_write().times(2).returning(|_, path, _, _, _| match path.file_name() {
            Some("a.txt") => Err(WorkspaceError::Exists(path.clone())),
            _ => Ok(1),
        });
        let tool = AttachmentSaveAll(ToolServices {
            workspace: AuditedWorkspace::new(Arc::new(workspace)),
            ..world.services()
        });
        let outcome = tool.call(json!({"dir": "/shared"}), &world.context()).await.unwrap();
        assert_eq!(paths(&outcome.data.unwrap()), ["/shared/a-2.txt"]);
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let world = world_with(&[("a.txt", b"1")]);
        world.put_file("/shared/file", b"x");
        for (arguments, says) in [
            (json!({}), "missing field `dir`"),
            (json!({"dir": "/vault"}), "expected a path beneath /shared or /tmp"),
            (json!({"dir": "/shared/file"}), "nothing was saved: `/shared/file` is not a directory"),
            (json!({"dir": "/shared", "overwrite": "yes"}), "argument `overwrite`"),
        ] {
            let error = world.error("attachment.save_all", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
        let error = ToolHarness::new().error("attachment.save_all", json!({"dir": "/shared"})).await;
        assert!(error.contains("no attachments came with this turn"), "{error}");
    }
}
