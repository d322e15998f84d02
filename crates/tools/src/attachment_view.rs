//! `attachment.view`: puts an image or a document of the conversation before the model's eyes again.

mod drawn_page;

use async_trait::async_trait;
use satchel_domain::{Attachment, OutcomeFile, ToolOutcome};
use satchel_ports::{OutcomeReader, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    attachment_read::AttachmentRead,
    document_text::is_document,
    error, lookup,
};

pub(crate) struct AttachmentView(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The attachment's id.
    id: String,
    /// The page of a document, from 1: of a PDF it is shown as a picture, with its text.
    page: Option<u64>,
}

#[async_trait]
impl Tool for AttachmentView {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.view",
            SafetyTier::ReadOnly,
            "Shows you one file of this conversation again, also from earlier turns: an image, a PDF or one page of it, \
             audio or video, as far as you can take it; if you can't, the answer says why. Of any other file it gives \
             the text, as attachment.read does.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { id, page } = parse_arguments(arguments)?;
        let attachment = lookup::find_attachment(&self.0, context, &id).await?;
        if let Some(page) = page {
            check_page(&attachment, page)?;
        }
        if !is_viewable(&attachment) {
            let mut arguments = json!({ "id": id });
            if let Some(page) = page {
                arguments["page"] = json!(page);
            }
            return AttachmentRead(self.0.clone()).call(arguments, context).await;
        }
        // The model sees what stands in the answers to its own calls; what a script is answered is only text.
        if context.reader == OutcomeReader::Program {
            return Err(error::tool_error(format!(
                "{} can only be shown to the model itself: a script can't see, and attachment_get tells it what is known",
                attachment.filename
            )));
        }
        if let (Some(page), Some(images)) = (page, &self.0.images) {
            let page = u32::try_from(page).unwrap_or(u32::MAX);
            return drawn_page::view_page(&self.0, images.as_ref(), &attachment, page, context).await;
        }
        let mut data = json!(lookup::AttachmentMetadata::from(attachment.clone()));
        if let Some(page) = page {
            data["page"] = json!(format!("no page can be shown alone: look for page {page} in the whole file"));
        }
        Ok(ToolOutcome { viewed_files: vec![OutcomeFile::from(attachment).into()], ..ToolOutcome::from_data(data) })
    }
}

/// Whether there is something to see or to hear. An SVG is text; no model takes it as an image.
fn is_viewable(attachment: &Attachment) -> bool {
    match attachment.kind() {
        "image" => attachment.mime != "image/svg+xml",
        "audio" | "video" => true,
        _ => attachment.mime == PDF_MIME,
    }
}

const PDF_MIME: &str = "application/pdf";

/// Checks that a file has pages of which one can be meant.
fn check_page(attachment: &Attachment, page: u64) -> Result<(), ToolError> {
    let Attachment { filename, mime, .. } = attachment;
    match page {
        0 if is_document(attachment) => {
            Err(error::tool_error("argument `page`: 0 is not allowed; pages are counted from 1"))
        }
        _ if is_document(attachment) => Ok(()),
        _ => Err(error::tool_error(format!("argument `page`: {filename} is {mime}, which has no pages; leave it out"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    fn world_with(filename: &str, mime: &str) -> (ToolHarness, Attachment) {
        let (world, file) = (ToolHarness::new(), attachment(5, filename, mime, b"content"));
        world.store(b"content");
        world.add_record(file.clone());
        (world, file)
    }

    #[tokio::test]
    async fn viewable_file_is_viewed_not_delivered() {
        for (filename, mime) in
            [("a.jpg", "image/jpeg"), ("a.pdf", "application/pdf"), ("a.ogg", "audio/ogg"), ("a.mp4", "video/mp4")]
        {
            let (world, file) = world_with(filename, mime);
            let outcome = world.call("attachment.view", json!({"id": file.id})).await.unwrap();
            assert_eq!(
                (outcome.viewed_files.as_slice(), outcome.attachments.len()),
                (&[OutcomeFile::from(file.clone()).into()][..], 0),
                "{mime}"
            );
            let data = outcome.data.unwrap();
            assert_eq!(
                (&data["id"], &data["filename"], &data["mime"]),
                (&json!(file.id), &json!(filename), &json!(mime))
            );
        }
    }

    #[tokio::test]
    async fn any_other_file_is_read_or_refused() {
        for (filename, mime) in
            [("a.svg", "image/svg+xml"), ("a.csv", "text/csv"), ("a.rs", "application/octet-stream")]
        {
            let (world, file) = world_with(filename, mime);
            let outcome = world.call("attachment.view", json!({"id": file.id})).await.unwrap();
            assert_eq!((outcome.text.as_deref(), outcome.viewed_files.len()), (Some("content"), 0), "{mime}");
        }
        let (world, file) = world_with("a.zip", "application/zip");
        let error = world.error("attachment.view", json!({"id": file.id})).await;
        assert!(error.contains("a.zip is not text: it is application/zip of 7 bytes"), "{error}");
    }

    #[tokio::test]
    async fn page_of_pdf_views_whole_document() {
        let (world, file) = world_with("a.pdf", "application/pdf");
        let outcome = world.call("attachment.view", json!({"id": file.id, "page": 3})).await.unwrap();
        assert_eq!(outcome.viewed_files, [OutcomeFile::from(file).into()]);
        let told = "no page can be shown alone: look for page 3 in the whole file";
        assert_eq!(outcome.data.unwrap()["page"], json!(told));
        for (filename, mime, page, says) in [
            ("a.pdf", "application/pdf", 0, "argument `page`: 0 is not allowed; pages are counted from 1"),
            ("a.jpg", "image/jpeg", 1, "argument `page`: a.jpg is image/jpeg, which has no pages; leave it out"),
            ("a.txt", "text/plain", 2, "argument `page`: a.txt is text/plain, which has no pages; leave it out"),
        ] {
            let (world, file) = world_with(filename, mime);
            assert_eq!(world.error("attachment.view", json!({"id": file.id, "page": page})).await, says);
        }
    }

    #[tokio::test]
    async fn foreign_and_missing_ids_are_the_same() {
        let world = ToolHarness::new();
        let foreign = Attachment {
            conversation: "console:other".parse().unwrap(),
            ..attachment(7, "secret.png", "image/png", b"secret")
        };
        world.add_record(foreign.clone());
        let missing = attachment(8, "x", "image/png", b"x").id;
        let error = async |id| world.error("attachment.view", json!({"id": id})).await.replace(&format!("{id}"), "ID");
        assert_eq!(error(foreign.id).await, error(missing).await);
        assert!(error(missing).await.starts_with("`ID` is no attachment of this conversation"));
    }

    #[tokio::test]
    async fn view_from_script_is_an_error() {
        let (world, file) = world_with("a.jpg", "image/jpeg");
        let tool = AttachmentView(world.services());
        let nested = ToolContext { reader: OutcomeReader::Program, ..world.context() };
        let error = tool.call(json!({"id": file.id}), &nested).await.unwrap_err().0;
        assert!(error.starts_with("a.jpg can only be shown to the model itself"), "{error}");
        assert_eq!(
            tool.call(json!({"id": file.id}), &world.context()).await.unwrap().viewed_files,
            [OutcomeFile::from(file).into()]
        );
    }
}
