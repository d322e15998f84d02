//! `attachment.list`: lists the conversation's attachments.

use async_trait::async_trait;
use satchel_domain::{AttachmentSource, ToolOutcome};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, ledger::AttachmentQuery};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error,
    listing::ListPage,
    lookup,
};

pub(crate) struct AttachmentList(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Only files whose type begins with this, such as image or application/pdf.
    mime: Option<String>,
    /// Only files whose name contains this, in upper or lower case.
    filename: Option<String>,
    /// Only files that a person sent, or that a tool or script made, or that the configuration declares.
    #[schemars(with = "Option<String>", extend("enum" = ["user", "tool", "script", "config"]))]
    source: Option<AttachmentSource>,
    /// How many to pass over.
    #[serde(default)]
    offset: u64,
    /// How many to list at most; 100 if it is not given.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for AttachmentList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.list",
            SafetyTier::ReadOnly,
            "Lists the files of this conversation, those of earlier turns too, newest first, with their ids. A long list \
             comes in pages: `total` is its length, `next` the call that reads on.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let next_arguments = arguments.as_object().cloned().unwrap_or_default();
        let arguments: Arguments = parse_arguments(arguments)?;
        let page = ListPage::from_arguments(arguments.offset, arguments.limit, self.0.limits.list_entries, context)?;
        let query = AttachmentQuery {
            conversation: Some(context.conversation.clone()),
            mime_prefix: arguments.mime.map(|mime| mime.to_lowercase()),
            name_contains: arguments.filename,
            source: arguments.source,
            ..AttachmentQuery::default()
        };
        let failed = |error| error::tool_error_with_cause("the attachments could not be listed", &error);
        let total = self.0.archive.count_attachments(&query).await.map_err(failed)?;
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        let query = AttachmentQuery { offset: page.offset(), limit: Some(page.limit()), ..query };
        let records = self.0.archive.attachments(&query).await.map_err(failed)?;
        let entries: Vec<lookup::AttachmentMetadata> = records.into_iter().map(Into::into).collect();
        let more = page.entries_after(total)? > 0;
        // How to read on stands first: it outlives a preview.
        let mut response = json!({ "total": total, "more": more });
        if more {
            response["next"] = page.next_call("attachment.list", next_arguments);
        }
        response["attachments"] = json!(entries);
        Ok(ToolOutcome::from_data(response))
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::Attachment;

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    fn names(answer: &Value) -> Vec<&str> {
        answer["attachments"].as_array().into_iter().flatten().filter_map(|file| file["filename"].as_str()).collect()
    }

    fn world() -> ToolHarness {
        let world = ToolHarness::new();
        world.add_record(attachment(1, "Sea.JPG", "image/jpeg", b"1"));
        world.add_record(Attachment {
            source: AttachmentSource::Tool,
            ..attachment(2, "seal.pdf", "application/pdf", b"2")
        });
        world.add_record(Attachment {
            conversation: "console:other".parse().unwrap(),
            ..attachment(3, "foreign.jpg", "image/jpeg", b"3")
        });
        world.add_record(attachment(4, "notes.txt", "text/plain", b"4"));
        world
    }

    #[tokio::test]
    async fn conversation_files_are_listed_newest_first_and_filtered() {
        let world = world();
        for (arguments, expected, more) in [
            (json!({}), vec!["notes.txt", "seal.pdf", "Sea.JPG"], false),
            (json!(null), vec!["notes.txt", "seal.pdf", "Sea.JPG"], false),
            (json!({"mime": "image"}), vec!["Sea.JPG"], false),
            (json!({"filename": "sea"}), vec!["seal.pdf", "Sea.JPG"], false),
            (json!({"source": "tool"}), vec!["seal.pdf"], false),
            (json!({"source": "script"}), vec![], false),
            (json!({"limit": 2}), vec!["notes.txt", "seal.pdf"], true),
            (json!({"limit": 3}), vec!["notes.txt", "seal.pdf", "Sea.JPG"], false),
            (json!({"filename": "sea", "limit": 1}), vec!["seal.pdf"], true),
        ] {
            let answer = world.data("attachment.list", arguments.clone()).await;
            assert_eq!((names(&answer), &answer["more"]), (expected, &json!(more)), "{arguments}");
        }
        let empty = ToolHarness::new().data("attachment.list", json!({})).await;
        assert_eq!(empty, json!({"total": 0, "more": false, "attachments": []}));
    }

    #[tokio::test]
    async fn many_files_are_listed_in_pages() {
        let world = ToolHarness::new();
        for number in 1..=1_250 {
            let mime = if number % 5 == 0 { "image/png" } else { "text/plain" };
            world.add_record(attachment(number, &format!("{number}.txt"), mime, b"1"));
        }
        let first = world.data("attachment.list", json!({})).await;
        assert_eq!((&first["total"], &first["more"]), (&json!(1_250), &json!(true)));
        assert_eq!((&names(&first)[0], names(&first).len()), (&"1250.txt", 100));
        assert_eq!(first["next"], json!("attachment.list {\"offset\":100}"));
        let all = world.list_page_lengths("attachment.list", json!({"limit": 200}), "attachments").await;
        assert_eq!(all, [200, 200, 200, 200, 200, 200, 50]);
        let images = world.data("attachment.list", json!({"mime": "image", "limit": 60})).await;
        assert_eq!((&images["total"], names(&images)[1]), (&json!(250), "1245.txt"));
        assert_eq!(images["next"], json!("attachment.list {\"mime\":\"image\",\"limit\":60,\"offset\":60}"));
        let images = world.list_page_lengths("attachment.list", json!({"mime": "image"}), "attachments").await;
        assert_eq!(images, [100, 100, 50]);
        let last = world.data("attachment.list", json!({"offset": 1_249})).await;
        assert_eq!((names(&last), &last["more"], last.get("next")), (vec!["1.txt"], &json!(false), None));
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        for (arguments, says) in [
            (json!({"limit": 0}), "argument `limit`: 0 is not allowed; allowed are 1 to 200"),
            (json!({"limit": 201}), "argument `limit`: 201 is not allowed; allowed are 1 to 200"),
            (json!({"source": "me"}), "argument `source`: unknown variant `me`, expected one of `user`, `tool`"),
            (json!({"kind": "image"}), "unknown field `kind`"),
            (json!({"offset": 3}), "argument `offset`: 3 is behind the end; there are 3 entries"),
            (json!({"offset": 1, "source": "tool"}), "argument `offset`: 1 is behind the end; there is 1 entry"),
        ] {
            let error = world().error("attachment.list", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
