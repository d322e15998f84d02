//! `file_list`: lists a directory of the workspace.

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, WorkspacePath, path::Mount};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, WorkspaceError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error,
    listing::ListPage,
};

pub(crate) struct FileList(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The directory, beneath /shared or /tmp (docs is /shared/docs); /shared if it is not given.
    #[schemars(with = "Option<String>")]
    path: Option<WorkspacePath>,
    /// How many entries to pass over.
    #[serde(default)]
    offset: u64,
    /// How many to list at most; 100 if it is not given.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for FileList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_list",
            SafetyTier::ReadOnly,
            "Lists the files and directories in one directory of the workspace, sorted by path, with their sizes. A long \
             list comes in pages: `total` is its length, `next` the call that reads on.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { path, offset, limit } = parse_arguments(arguments)?;
        let page = ListPage::from_arguments(offset, limit, self.0.limits.list_entries, context)?;
        let path = path.unwrap_or_else(|| WorkspacePath::root(Mount::Shared));
        let entries = match self.0.workspace.list(&context.conversation, &path).await {
            Ok(entries) => entries,
            // A mount that nothing was written to yet is empty, whether or not its directory has been made.
            Err(WorkspaceError::NotFound(_)) if path.file_name().is_none() => vec![],
            Err(error) => return Err(error::tool_error_with_cause("nothing was listed", &error)),
        };
        let total = entries.len();
        let more = page.entries_after(total)?;
        let page_entries = entries.iter().enumerate().filter(|(index, _)| page.contains(*index)).map(|(_, entry)| {
            json!({
                "path": entry.path, "kind": entry.kind, "bytes": entry.bytes,
                "modified_at_ms": entry.modified_at.0,
            })
        });
        // How to read on stands first: it outlives a preview.
        let mut response = json!({ "path": path, "total": total, "more": more });
        if more > 0 {
            let next_arguments = Map::from_iter([("path".to_owned(), json!(path)), ("limit".to_owned(), json!(limit))]);
            response["next"] = page.next_call("file_list", next_arguments);
        }
        response["entries"] = page_entries.collect();
        Ok(ToolOutcome::from_data(response))
    }
}

#[cfg(test)]
mod tests {
    use satchel_ports::OutcomeReader;

    use super::*;
    use crate::fakes::ToolHarness;

    #[tokio::test]
    async fn directory_is_listed_and_omitted_entries_are_counted() {
        let mut world = ToolHarness::new();
        world.put_file("/shared/b.txt", b"12");
        world.put_file("/shared/a/x", b"1");
        world.put_file("/tmp/t", b"");
        let entry = |path: &str, kind: &str, bytes: u64| json!({"path": path, "kind": kind, "bytes": bytes, "modified_at_ms": 5000});
        assert_eq!(
            world.data("file_list", json!({})).await,
            json!({
                "path": "/shared", "total": 2, "more": 0,
                "entries": [entry("/shared/a", "directory", 0), entry("/shared/b.txt", "file", 2)],
            })
        );
        assert_eq!(
            world.data("file_list", json!({"path": "~/a/"})).await["entries"],
            json!([entry("/shared/a/x", "file", 1)])
        );
        world.limits.list_entries = 1;
        assert_eq!(world.data("file_list", json!({})).await["more"], json!(1));
        let empty = ToolHarness::new().data("file_list", json!({"path": "/tmp"})).await;
        assert_eq!(empty, json!({"path": "/tmp", "total": 0, "more": 0, "entries": []}));
    }

    fn world_with_files(count: usize) -> ToolHarness {
        let world = ToolHarness::new();
        (0..count).for_each(|at| world.put_file(&format!("/tmp/many/{at:04}"), b"1"));
        world
    }

    #[tokio::test]
    async fn a_long_directory_is_listed_in_pages() {
        let world = world_with_files(250);
        let first = world.data("file_list", json!({"path": "/tmp/many"})).await;
        assert_eq!((&first["total"], &first["more"]), (&json!(250), &json!(150)));
        assert_eq!(first["next"], json!("file_list {\"path\":\"/tmp/many\",\"offset\":100}"));
        assert_eq!(world.list_page_lengths("file_list", json!({"path": "/tmp/many"}), "entries").await, [100, 100, 50]);
        assert_eq!(
            world.list_page_lengths("file_list", json!({"path": "/tmp/many", "limit": 120}), "entries").await,
            [120, 120, 10]
        );
        let page = world.data("file_list", json!({"path": "/tmp/many", "offset": 248, "limit": 1})).await;
        assert_eq!(page["entries"][0]["path"], "/tmp/many/0248");
        let last = world.data("file_list", json!({"path": "/tmp/many", "offset": 249})).await;
        assert_eq!((&last["more"], last.get("next")), (&json!(0), None));
    }

    #[tokio::test]
    async fn a_nested_call_lists_a_directory_whole() {
        let world = world_with_files(250);
        let mut context = world.context();
        context.reader = OutcomeReader::Program;
        let tool = FileList(world.services());
        let whole = tool.call(json!({"path": "/tmp/many"}), &context).await.unwrap().data.unwrap();
        assert_eq!((whole["entries"].as_array().map(Vec::len), whole.get("next")), (Some(250), None));
        let limited = tool.call(json!({"path": "/tmp/many", "limit": 240}), &context).await.unwrap().data.unwrap();
        assert_eq!(limited["more"], 10);
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let world = ToolHarness::new();
        world.put_file("/shared/a.txt", b"text");
        for (arguments, says) in [
            (json!({"path": "/vault"}), "expected a path beneath /shared or /tmp, but `/vault"),
            (json!({"path": "/"}), "outside the workspace"),
            (json!({"path": "/shared/none"}), "nothing was listed: `/shared/none` does not exist"),
            (json!({"path": "/shared/a.txt"}), "nothing was listed: `/shared/a.txt` is not a directory"),
            (json!({"dir": "/shared"}), "unknown field `dir`"),
            (json!({"limit": 0}), "argument `limit`: 0 is not allowed; allowed are 1 to 200"),
            (json!({"limit": 201}), "argument `limit`: 201 is not allowed; allowed are 1 to 200"),
            (json!({"offset": 1}), "argument `offset`: 1 is behind the end; there is 1 entry"),
            (json!({"offset": -1}), "argument `offset`"),
        ] {
            let error = world.error("file_list", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
