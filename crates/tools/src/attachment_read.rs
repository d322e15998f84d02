//! `attachment.read`: reads an attachment's text, page by page; of a document that a worker decodes, too.

use async_trait::async_trait;
use satchel_domain::{Attachment, ToolOutcome};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    document_text::{self, DocumentReadError, PageSelection},
    error, lookup,
    paging::{self, PageError},
};

/// The largest file that is tried as text in another encoding than UTF-8, in bytes.
const MAX_ENCODED_TEXT_BYTES: u64 = 16 << 20;

pub(crate) struct AttachmentRead(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The attachment's id.
    id: String,
    /// The first page to read of a document, from 1. HTML is read as its source without it, as text with it.
    page: Option<u32>,
    /// Where to begin, in bytes from the start of the file, or of the text of the document's page.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read at most; a page of usual size if it is not given.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for AttachmentRead {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.read",
            SafetyTier::ReadOnly,
            "Reads the text of one file of this conversation, also from earlier turns: of text files, and of documents \
             (PDF, DOCX, XLSX, PPTX, ODT, ODS, ODP, RTF, EPUB, EML). A long text comes in pages; the last line of \
             each tells how to read on. The answer names the pages without text, such as pictures that nothing recognises.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { id, page, offset, limit } = parse_arguments(arguments)?;
        let max_bytes = paging::max_page_bytes(context.reader, self.0.limits.page_bytes);
        let page_bytes = paging::page_limit(limit, max_bytes)?;
        let attachment = lookup::find_attachment(&self.0, context, &id).await?;
        let selection = PageSelection {
            page: page.unwrap_or(1),
            last_page: None,
            offset,
            max_bytes: page_bytes,
            is_limited: limit.is_some(),
        };
        let is_document = document_text::is_document(&attachment);
        if self.0.documents.is_none() && page.is_some() && !is_document && !is_surely_binary(&attachment) {
            return Err(error::tool_error("argument `page`: only text files are read here, by `offset`; leave it out"));
        }
        let is_source_enough = self.0.documents.is_none() && is_readable_source(&attachment);
        if is_document && !is_source_enough || page.is_some() && !is_surely_binary(&attachment) {
            return self.read_document(&attachment, &selection, context).await;
        }
        if is_surely_binary(&attachment) {
            return Err(binary_file_error(&attachment));
        }
        paging::check_offset(offset, attachment.bytes)?;
        paging::check_program_limit(context.reader, attachment.filename.as_str(), limit, attachment.bytes - offset)?;
        let unreadable = format!("the bytes of {} could not be read", attachment.filename);
        // One byte more than the page, which `paging::read_page` needs.
        let range = offset..offset.saturating_add(page_bytes).saturating_add(1);
        let content = self.0.blobs.open(&attachment.sha256, Some(range)).await;
        let content = content.map_err(|error| error::tool_error_with_cause(&unreadable, &error))?;
        let page = match paging::read_page(content, offset, offset, page_bytes).await {
            Ok(page) => page,
            // An offset in the bytes is none in the text of a page.
            Err(PageError::Binary { .. }) if is_perhaps_encoded_text(&attachment) && offset > 0 => {
                return Err(error::tool_error(format!(
                    "{} is not UTF-8 from byte {offset} on; read it by pages instead: attachment.read {}",
                    attachment.filename,
                    json!({ "id": attachment.id, "page": 1 })
                )));
            }
            // Text in another encoding than UTF-8, unless it is no text at all.
            Err(PageError::Binary { .. }) if is_perhaps_encoded_text(&attachment) => {
                return self.read_document(&attachment, &selection, context).await;
            }
            Err(PageError::Binary { .. }) => return Err(binary_file_error(&attachment)),
            Err(PageError::Interrupted(reason)) => return Err(error::tool_error(format!("{unreadable}: {reason}"))),
        };
        let next = |offset: u64| format!("attachment.read {}", json!({ "id": attachment.id, "offset": offset }));
        Ok(ToolOutcome::from_text(paging::format_page(&page, attachment.bytes, context.reader, next)))
    }
}

impl AttachmentRead {
    async fn read_document(
        &self,
        attachment: &Attachment,
        selection: &PageSelection,
        context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let Some(reader) = &self.0.documents else { return Err(binary_file_error(attachment)) };
        let read = document_text::read_pages(reader.as_ref(), attachment, selection, context).await;
        read.map_err(|error| match error {
            DocumentReadError::Unsupported => binary_file_error(attachment),
            DocumentReadError::Tool(error) => error,
        })
    }
}

/// Whether the type alone tells that there is no text; all others are judged by their bytes.
fn is_surely_binary(attachment: &Attachment) -> bool {
    match attachment.kind() {
        "image" => attachment.mime != "image/svg+xml",
        "audio" | "video" | "font" => true,
        _ => ["application/zip", "application/gzip"].contains(&attachment.mime.as_str()),
    }
}

/// Whether a document can be read as it is written, where nothing decodes it.
fn is_readable_source(attachment: &Attachment) -> bool {
    ["message/rfc822", "application/rtf", "text/rtf"].contains(&attachment.mime.as_str())
}

/// Whether bytes that are no UTF-8 may be text in another encoding.
fn is_perhaps_encoded_text(attachment: &Attachment) -> bool {
    let is_possible = attachment.kind() == "text" || attachment.mime == "application/octet-stream";
    is_possible && attachment.bytes <= MAX_ENCODED_TEXT_BYTES
}

fn binary_file_error(attachment: &Attachment) -> ToolError {
    error::tool_error(format!(
        "{} is not text: it is {} of {} bytes; attachment_save writes it to the workspace, and response_attachments sends \
         it with the reply",
        attachment.filename, attachment.mime, attachment.bytes
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use satchel_ports::MockBlobs;

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    fn world_with(filename: &str, mime: &str, content: &[u8]) -> (ToolHarness, Value) {
        let world = ToolHarness::new();
        let file = attachment(5, filename, mime, content);
        world.store(content);
        world.add_record(file.clone());
        (world, json!(file.id))
    }

    async fn text(world: &ToolHarness, arguments: Value) -> String {
        world.call("attachment.read", arguments).await.unwrap().text.unwrap()
    }

    #[tokio::test]
    async fn attachment_text_is_returned_whole_or_in_pages() {
        let (world, id) = world_with("a.txt", "text/plain", "привет, мир".as_bytes());
        assert_eq!(text(&world, json!({"id": id})).await, "привет, мир");
        let first = text(&world, json!({"id": id, "limit": 7})).await;
        assert_eq!(
            first,
            format!("при\n[bytes 0 to 6 of 20; read on with attachment.read {{\"id\":{id},\"offset\":6}}]")
        );
        assert_eq!(
            text(&world, json!({"id": id, "offset": 6, "limit": 40})).await,
            "вет, мир\n[bytes 6 to 20 of 20: the end]"
        );
        let (world, id) = world_with("empty.txt", "text/plain", b"");
        assert_eq!(text(&world, json!({"id": id})).await, "[the file is empty]");
    }

    #[tokio::test]
    async fn program_gets_whole_text_without_notes() {
        let long = "привет\n".repeat(20_000);
        let (world, id) = world_with("a.txt", "text/plain", long.as_bytes());
        let read = world.call_for_program("attachment.read", json!({"id": id})).await.unwrap();
        assert_eq!(read.text, Some(long));
        let (world, id) = world_with("empty.txt", "text/plain", b"");
        let read = world.call_for_program("attachment.read", json!({"id": id})).await.unwrap();
        assert_eq!(read.text.as_deref(), Some(""));
        let huge = Attachment { bytes: (8 << 20) + 1, ..attachment(7, "huge.log", "text/plain", b"") };
        world.add_record(huge.clone());
        let refused = world.call_for_program("attachment.read", json!({"id": huge.id})).await.unwrap_err().0;
        assert!(refused.contains("huge.log has 8388609 bytes (8.3 MB); a script is given at most 8.3 MB"), "{refused}");
    }

    #[tokio::test]
    async fn non_text_attachment_is_refused_with_its_type() {
        for (filename, mime, content) in [
            ("a.jpg", "image/jpeg", &b"only ascii"[..]),
            ("a.pdf", "application/pdf", b"%PDF-1.4"),
            ("a.bin", "application/octet-stream", b"ab\xff\xfe\x00"),
        ] {
            let (world, id) = world_with(filename, mime, content);
            let error = world.error("attachment.read", json!({"id": id})).await;
            assert!(error.contains(mime) && error.contains(filename) && error.contains("not text"), "{error}");
        }
        let (world, id) = world_with("a.svg", "image/svg+xml", b"<svg/>");
        assert_eq!(text(&world, json!({"id": id})).await, "<svg/>");
    }

    #[tokio::test]
    async fn mail_is_read_as_written_without_a_decoder() {
        let (world, id) = world_with("a.eml", "message/rfc822", b"Subject: hi\r\n\r\nhello");
        assert_eq!(text(&world, json!({"id": id})).await, "Subject: hi\r\n\r\nhello");
        let (world, id) = world_with("a.txt", "text/plain", b"text");
        let error = world.error("attachment.read", json!({"id": id, "page": 1})).await;
        assert_eq!(error, "argument `page`: only text files are read here, by `offset`; leave it out");
    }

    /// What follows an ASCII beginning may be in another encoding.
    #[tokio::test]
    async fn late_encoding_change_names_the_way_on() {
        let content = [b"a;b\n".repeat(10).as_slice(), b"caf\xe9\n"].concat();
        let (world, id) = world_with("a.csv", "text/csv", &content);
        let error = world.error("attachment.read", json!({"id": id, "offset": 40})).await;
        let way_on = format!(
            "a.csv is not UTF-8 from byte 40 on; read it by pages instead: attachment.read {{\"id\":{id},\"page\":1}}"
        );
        assert_eq!(error, way_on);
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let (world, id) = world_with("a.txt", "text/plain", b"text");
        let stranger = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
        for (arguments, says) in [
            (json!({}), "missing field `id`"),
            (json!({"id": stranger}), "is no attachment of this conversation"),
            (json!({"id": id, "offset": 4}), "argument `offset`: 4 is behind the end; the file has 4 bytes"),
            (json!({"id": id, "offset": -1}), "argument `offset`"),
            (json!({"id": id, "limit": 65_537}), "argument `limit`: 65537 is not allowed; allowed are 4 to 65536"),
        ] {
            let error = world.error("attachment.read", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
        let gone = attachment(6, "gone.txt", "text/plain", b"gone");
        world.add_record(gone.clone());
        let error = world.error("attachment.read", json!({"id": gone.id})).await;
        assert!(error.contains("the bytes of gone.txt could not be read: the file store doesn't have them"), "{error}");
    }

    #[tokio::test]
    async fn large_file_read_stops_at_page_end() {
        let world = ToolHarness::new();
        let huge = Attachment { bytes: 1 << 40, ..attachment(5, "huge.log", "text/plain", b"") };
        world.add_record(huge.clone());
        let pulled = Arc::new(AtomicU64::new(0));
        let counter = pulled.clone();
        let mut blobs = MockBlobs::new();
        blobs.expect_open().returning(move |_, range| {
            assert!(range.is_some_and(|range| range.end - range.start <= 65_537), "only a page is asked for");
            let counter = counter.clone();
            // A store that ignores the range would stream for ever.
            Ok(Box::pin(
                stream::repeat_with(move || {
                    counter.fetch_add(1000, Ordering::Relaxed);
                    Ok(Bytes::from_static(&[b'x'; 1000]))
                })
                .fuse(),
            ))
        });
        let tool = AttachmentRead(ToolServices { blobs: Arc::new(blobs), ..world.services() });
        tool.call(json!({"id": huge.id, "offset": 1_u64 << 30}), &world.context()).await.unwrap();
        assert!(pulled.load(Ordering::Relaxed) <= 67_000, "{pulled:?} bytes");
    }
}
