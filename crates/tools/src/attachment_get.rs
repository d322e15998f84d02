//! `attachment.get`: tells what is known of one attachment.

use async_trait::async_trait;
use satchel_domain::ToolOutcome;
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    lookup,
};

pub(crate) struct AttachmentGet(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The attachment's id.
    id: String,
}

#[async_trait]
impl Tool for AttachmentGet {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.get",
            SafetyTier::ReadOnly,
            "Tells name, type, size and more of one file of this conversation, also from earlier turns. \
             attachment.read reads its text.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { id } = parse_arguments(arguments)?;
        let attachment = lookup::find_attachment(&self.0, context, &id).await?;
        Ok(ToolOutcome::from_data(json!(lookup::AttachmentMetadata::from(attachment))))
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{Attachment, MediaInfo};

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    #[tokio::test]
    async fn it_tells_what_is_known_and_no_bytes() {
        let world = ToolHarness::new();
        let media = MediaInfo { width: Some(40), height: Some(30), ..MediaInfo::default() };
        let photo =
            Attachment { media, description: "the sea".to_owned(), ..attachment(4, "a.jpg", "image/jpeg", b"x") };
        world.add_record(photo.clone());
        let answer = world.data("attachment.get", json!({"id": photo.id})).await;
        insta::assert_json_snapshot!(answer, @r#"
        {
          "id": "00000000-0000-0000-0000-000000000004",
          "number": 4,
          "filename": "a.jpg",
          "mime": "image/jpeg",
          "bytes": 1,
          "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
          "description": "the sea",
          "source": "user",
          "visibility": "deliver",
          "created_at_ms": 1000,
          "width": 40,
          "height": 30
        }
        "#);
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        let world = ToolHarness::new();
        for (arguments, says) in [
            (json!({}), "missing field `id`"),
            (json!({"id": 17}), "argument `id`: invalid type: integer `17`, expected a string"),
            (json!({"id": "17"}), "`17` is no attachment of this conversation"),
        ] {
            let error = world.error("attachment.get", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
