//! One page of a document as a picture, and as text for a model that doesn't see.

use futures::stream;
use satchel_domain::{Attachment, Filename, MediaInfo, Picture, ToolOutcome, ViewedFile};
use satchel_ports::{BlobHint, ImageRequest, ImageScaler, ScaledImage, StoredBlob, ToolContext, ToolError};

use crate::{
    ToolServices,
    document_text::{self, DocumentReadError, PageSelection},
    error,
};

/// The longest side of a picture in pixels: more of it is scaled down by most models.
const MAX_SIDE: u32 = 1_600;

/// The largest picture in bytes: less than any model refuses.
const MAX_PICTURE_BYTES: u64 = 3 << 20;

/// Shows a page as a picture with its text; either alone if the other can't be had.
pub(super) async fn view_page(
    services: &ToolServices,
    images: &dyn ImageScaler,
    attachment: &Attachment,
    page: u32,
    context: &ToolContext,
) -> Result<ToolOutcome, ToolError> {
    let text = read_page(services, attachment, page, context).await;
    match draw_page(services, images, attachment, page, context).await {
        Ok(picture) => {
            let heading = format!("#{} {}: page {page} is shown as a picture", attachment.number, attachment.filename);
            let text = match text {
                Ok(text) => format!("{heading}; its text:\n{text}"),
                Err(error) => format!("{heading}; {}", error.0),
            };
            let page = ViewedFile { file: attachment.clone().into(), picture: Some(picture) };
            Ok(ToolOutcome { viewed_files: vec![page], ..ToolOutcome::from_text(text) })
        }
        Err(reason) => text
            .map(|text| ToolOutcome::from_text(format!("{text}\n[page {page} can't be shown as a picture: {reason}]"))),
    }
}

async fn read_page(
    services: &ToolServices,
    attachment: &Attachment,
    page: u32,
    context: &ToolContext,
) -> Result<String, ToolError> {
    let unread = || error::tool_error("no text of it can be read");
    let reader = services.documents.as_ref().ok_or_else(unread)?;
    let max_bytes = services.limits.page_bytes;
    let selection = PageSelection { page, last_page: Some(page), offset: 0, max_bytes, is_limited: false };
    let read = document_text::read_pages(reader.as_ref(), attachment, &selection, context).await;
    let outcome = read.map_err(|error| match error {
        DocumentReadError::Unsupported => unread(),
        DocumentReadError::Tool(error) => error,
    })?;
    outcome.text.ok_or_else(unread)
}

/// The picture of a page, or why there is none. Nothing refers to its bytes, which the store
/// keeps for an hour: a turn that waits longer is told that they could not be read.
async fn draw_page(
    services: &ToolServices,
    images: &dyn ImageScaler,
    attachment: &Attachment,
    page: u32,
    context: &ToolContext,
) -> Result<Picture, String> {
    let request = ImageRequest {
        sha256: attachment.sha256,
        bytes: attachment.bytes,
        mime: attachment.mime.clone(),
        page: Some(page),
        max_side: MAX_SIDE,
        max_bytes: MAX_PICTURE_BYTES,
        work_share: Some(context.work_share.clone()),
    };
    let drawn = images.scale(&request, &context.cancel).await.map_err(|error| error.to_string())?;
    let ScaledImage { mime, width, height, content } = drawn;
    let extension = mime.strip_prefix("image/").unwrap_or_default();
    let filename = Filename::from_untrusted(&format!("page {page} of {}.{extension}", attachment.filename));
    let bytes = content.len() as u64;
    let hint = BlobHint { filename: Some(filename.clone()), mime: Some(mime.clone()), bytes: Some(bytes) };
    let stored = services.blobs.put(Box::pin(stream::iter([Ok(content)])), &hint, bytes).await;
    let stored = stored.map_err(|error| format!("it can't be stored: {error}"))?;
    let media = MediaInfo { width: Some(width), height: Some(height), ..MediaInfo::default() };
    Ok(Picture { filename, stored: StoredBlob { mime, media, ..stored } })
}

#[cfg(test)]
mod tests {
    use satchel_domain::OutcomeFile;

    use std::sync::Arc;

    use bytes::Bytes;
    use satchel_ports::{DocumentError, DocumentPage, DocumentText, ImageError, MockDocumentReader, MockImageScaler};
    use serde_json::json;

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    const PNG: &[u8] = b"\x89PNG of a page";

    fn page_text(text: &str) -> DocumentText {
        DocumentText {
            pages: vec![DocumentPage { number: 3, offset: 0, bytes: text.len() as u64, text: text.to_owned() }],
            total_pages: 3,
            read_pages: 3,
            empty_pages: Vec::new(),
            is_truncated: false,
            recognition_problem: None,
        }
    }

    /// A conversation with a PDF whose page 3 is drawn and read with these results.
    fn world_with(
        drawn: Result<(), ImageError>,
        read: Result<DocumentText, DocumentError>,
    ) -> (ToolHarness, Attachment) {
        let file = attachment(5, "plan.pdf", "application/pdf", b"%PDF");
        let (mut images, mut documents) = (MockImageScaler::new(), MockDocumentReader::new());
        let sha256 = file.sha256;
        images.expect_scale().times(1).returning(move |request, _| {
            assert_eq!((request.sha256, request.page), (sha256, Some(3)));
            drawn.clone().map(|()| ScaledImage {
                mime: "image/png".to_owned(),
                width: 10,
                height: 14,
                content: Bytes::from_static(PNG),
            })
        });
        documents.expect_read_text().times(1).returning(move |request, _| {
            assert_eq!(request.page_numbers(), 3..=3);
            read.clone()
        });
        let mut world = ToolHarness::new();
        world.images = Some(Arc::new(images));
        world.documents = Some(Arc::new(documents));
        world.add_record(file.clone());
        (world, file)
    }

    async fn view(
        drawn: Result<(), ImageError>,
        read: Result<DocumentText, DocumentError>,
    ) -> (ToolHarness, ToolOutcome) {
        let (world, file) = world_with(drawn, read);
        let outcome = world.call("attachment.view", json!({"id": file.id, "page": 3})).await.unwrap();
        (world, outcome)
    }

    fn undrawn() -> Result<(), ImageError> {
        Err(ImageError::Unreadable { reason: "it takes too long".to_owned() })
    }

    fn unread() -> Result<DocumentText, DocumentError> {
        Err(DocumentError::Unreadable { reason: "it is damaged".to_owned() })
    }

    #[tokio::test]
    async fn page_is_a_picture_with_its_text() {
        let (world, outcome) = view(Ok(()), Ok(page_text("The end."))).await;
        let [ViewedFile { file: OutcomeFile::Stored(file), picture: Some(picture) }] = &outcome.viewed_files[..] else {
            panic!("{outcome:?}")
        };
        let Picture { filename, stored } = picture;
        assert_eq!((stored.mime.as_str(), filename.as_str()), ("image/png", "page 3 of plan.pdf.png"));
        assert_eq!((file.number.get(), stored.media.width, stored.media.height), (5, Some(10), Some(14)));
        assert_eq!(world.stored(&stored.sha256), PNG);
        assert_eq!(stored.bytes, PNG.len() as u64);
        let expected = "#5 plan.pdf: page 3 is shown as a picture; its text:\n\
                        #5 plan.pdf, page 3 of 3\n[page 3]\nThe end.";
        assert_eq!((outcome.text.as_deref(), outcome.attachments.len()), (Some(expected), 0), "nothing is delivered");
    }

    #[tokio::test]
    async fn picture_or_text_alone_is_enough() {
        let (_, outcome) = view(Ok(()), unread()).await;
        let expected = "#5 plan.pdf: page 3 is shown as a picture; the text of plan.pdf can't be read: it is damaged";
        assert_eq!((outcome.text.as_deref(), outcome.viewed_files.len()), (Some(expected), 1));
        let (_, outcome) = view(undrawn(), Ok(page_text("The end."))).await;
        let expected =
            "#5 plan.pdf, page 3 of 3\n[page 3]\nThe end.\n[page 3 can't be shown as a picture: it takes too long]";
        assert_eq!((outcome.text.as_deref(), outcome.viewed_files.len()), (Some(expected), 0));
    }

    #[tokio::test]
    async fn page_that_can_be_neither_is_an_error() {
        let (world, file) = world_with(undrawn(), unread());
        let error = world.error("attachment.view", json!({"id": file.id, "page": 3})).await;
        assert_eq!(error, "the text of plan.pdf can't be read: it is damaged");
        let (world, file) =
            world_with(undrawn(), Ok(DocumentText { pages: Vec::new(), total_pages: 2, ..page_text("") }));
        let error = world.error("attachment.view", json!({"id": file.id, "page": 3})).await;
        assert_eq!(error, "argument `page`: 3 is behind the end; plan.pdf has 2 pages");
    }
}
