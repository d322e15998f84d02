//! `file_read`: reads a text file of the workspace, page by page.

use async_trait::async_trait;
use satchel_domain::ToolOutcome;
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, parse_arguments, tool_spec},
    error,
    paging::{self, PageError},
};

pub(crate) struct FileRead(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, beneath /shared or /tmp; a.txt is /shared/a.txt.
    #[schemars(with = "String")]
    path: WorkspaceFilePath,
    /// Where to begin, in bytes from the start of the file.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read at most; a page of usual size if it is not given.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for FileRead {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "file_read",
            SafetyTier::ReadOnly,
            "Reads a text file (UTF-8) of the workspace. A long text comes in pages; the last line of each tells how to \
             read on.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { path: WorkspaceFilePath(path), offset, limit } = parse_arguments(arguments)?;
        let max_bytes = paging::max_page_bytes(context.reader, self.0.limits.page_bytes);
        let page_bytes = paging::page_limit(limit, max_bytes)?;
        let file = self.0.workspace.read(&context.conversation, &path).await;
        let file = file.map_err(|error| error::tool_error_with_cause("nothing was read", &error))?;
        paging::check_offset(offset, file.bytes)?;
        paging::check_program_limit(context.reader, &format!("`{path}`"), limit, file.bytes - offset)?;
        // The port opens a file at its beginning, so what lies before the offset is read past, a chunk at a time.
        let page = paging::read_page(file.content, 0, offset, page_bytes).await.map_err(|error| match error {
            PageError::Binary { at } => error::tool_error(format!(
                "`{path}` is not text (byte {at} of {}): attachment.add attaches it to the reply as it is",
                file.bytes
            )),
            PageError::Interrupted(reason) => error::tool_error(format!("`{path}` could not be read: {reason}")),
        })?;
        let next = |offset: u64| format!("file_read {}", json!({ "path": path, "offset": offset }));
        Ok(ToolOutcome::from_text(paging::format_page(&page, file.bytes, context.reader, next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::ToolHarness;

    #[tokio::test]
    async fn file_text_is_returned_whole_or_in_pages() {
        let world = ToolHarness::new();
        world.put_file("/shared/a.txt", "один два".as_bytes());
        let read = async |arguments| world.call("file_read", arguments).await.unwrap().text.unwrap();
        assert_eq!(read(json!({"path": "~/a.txt"})).await, "один два");
        assert_eq!(
            read(json!({"path": "/shared/a.txt", "offset": 9, "limit": 5})).await,
            "дв\n[bytes 9 to 13 of 15; read on with file_read {\"path\":\"/shared/a.txt\",\"offset\":13}]"
        );
        assert_eq!(read(json!({"path": "/shared/a.txt", "offset": 13})).await, "а\n[bytes 13 to 15 of 15: the end]");
    }

    #[tokio::test]
    async fn program_gets_whole_text_without_notes() {
        let world = ToolHarness::new();
        let long = "0123456789,äbc\n".repeat(20_000);
        world.put_file("/shared/long.csv", long.as_bytes());
        world.put_file("/shared/empty.txt", b"");
        world.put_file("/shared/huge.txt", &vec![b'x'; (8 << 20) + 1]);
        let read =
            async |arguments| world.call_for_program("file_read", arguments).await.map(|read| read.text.unwrap());
        assert_eq!(read(json!({"path": "/shared/long.csv"})).await, Ok(long.clone()));
        assert_eq!(
            read(json!({"path": "/shared/long.csv", "offset": 16, "limit": 16})).await.as_deref(),
            Ok(&long[16..32])
        );
        assert_eq!(read(json!({"path": "/shared/empty.txt"})).await.as_deref(), Ok(""));
        let refused = read(json!({"path": "/shared/huge.txt"})).await.unwrap_err().0;
        let says = "`/shared/huge.txt` has 8388609 bytes (8.3 MB); a script is given at most 8.3 MB at once";
        assert!(refused.contains(says), "{refused}");
        let part = read(json!({"path": "/shared/huge.txt", "offset": 1})).await.unwrap();
        assert_eq!(part.len(), 8 << 20);
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let world = ToolHarness::new();
        world.put_file("/shared/a.txt", b"text");
        world.put_file("/shared/a.bin", b"ab\xff\xfe");
        world.put_file("/vault/key", b"secret");
        for (arguments, says) in [
            (json!({}), "missing field `path`"),
            (json!({"path": "/vault/key"}), "expected a path beneath /shared or /tmp, but `/vault"),
            (json!({"path": "/shared/none"}), "nothing was read: `/shared/none` does not exist"),
            (json!({"path": "/shared"}), "names a directory"),
            (json!({"path": "/shared/a.bin"}), "`/shared/a.bin` is not text (byte 2 of 4)"),
            (json!({"path": "/shared/a.txt", "offset": 99}), "argument `offset`: 99 is behind the end"),
            (json!({"path": "/shared/a.txt", "limit": 1}), "argument `limit`: 1 is not allowed"),
            (json!({"path": "/shared/a.txt", "lines": 1}), "unknown field `lines`"),
        ] {
            let error = world.error("file_read", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
            assert!(!error.contains("secret"));
        }
    }
}
