//! `attachment.list`: lists the conversation's attachments.

use async_trait::async_trait;
use satchel_domain::{Attachment, Source, ToolOutcome};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, ledger::AttachmentQuery};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse, spec_of},
    failure, lookup,
};

/// How many of the newest records a filter looks through.
const MOST_SCANNED: u32 = 5_000;

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
    source: Option<Source>,
    /// How many to list at most.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for AttachmentList {
    fn spec(&self) -> ToolSpec {
        spec_of::<Arguments>(
            "attachment.list",
            SafetyTier::ReadOnly,
            "Lists the files of this conversation, those of earlier turns too, newest first, with their ids. `more` \
             tells whether older ones were left out.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = parse(arguments)?;
        let most = self.0.limits.list_entries;
        let limit = match arguments.limit.map(usize::try_from) {
            None => most,
            Some(Ok(limit)) if (1..=most).contains(&limit) => limit,
            _ => {
                let given = arguments.limit.unwrap_or_default();
                return Err(failure::error(format!(
                    "argument `limit`: {given} is not allowed; allowed are 1 to {most}"
                )));
            }
        };
        let filtered = arguments.mime.is_some() || arguments.filename.is_some() || arguments.source.is_some();
        // One more than is shown tells whether there are more.
        let scanned = if filtered { MOST_SCANNED } else { u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1) };
        let query =
            AttachmentQuery { conversation: Some(context.conversation.clone()), turn: None, limit: Some(scanned) };
        let known = self.0.ledger.attachments(&query).await;
        let known = known.map_err(|error| failure::because("the attachments could not be listed", &error))?;
        let all_scanned = known.len() < scanned as usize;
        let mut found: Vec<Attachment> = known.into_iter().filter(|file| matches(&arguments, file)).collect();
        let more = found.len() > limit || !all_scanned;
        found.truncate(limit);
        let found: Vec<lookup::Metadata> = found.into_iter().map(lookup::Metadata::from).collect();
        Ok(ToolOutcome::of_data(json!({ "attachments": found, "more": more })))
    }
}

fn matches(arguments: &Arguments, attachment: &Attachment) -> bool {
    let Arguments { mime, filename, source, limit: _ } = arguments;
    mime.as_ref().is_none_or(|mime| attachment.mime.starts_with(&mime.to_lowercase()))
        && filename
            .as_ref()
            .is_none_or(|name| attachment.filename.as_str().to_lowercase().contains(&name.to_lowercase()))
        && source.is_none_or(|source| attachment.source == source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{World, attachment};

    fn names(answer: &Value) -> Vec<&str> {
        answer["attachments"].as_array().into_iter().flatten().filter_map(|file| file["filename"].as_str()).collect()
    }

    fn world() -> World {
        let world = World::new();
        world.know(attachment(1, "Sea.JPG", "image/jpeg", b"1"));
        world.know(Attachment { source: Source::Tool, ..attachment(2, "seal.pdf", "application/pdf", b"2") });
        world.know(Attachment {
            conversation: "console:other".parse().unwrap(),
            ..attachment(3, "foreign.jpg", "image/jpeg", b"3")
        });
        world.know(attachment(4, "notes.txt", "text/plain", b"4"));
        world
    }

    #[tokio::test]
    async fn files_of_this_conversation_are_listed_newest_first_and_filtered() {
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
        assert_eq!(World::new().data("attachment.list", json!({})).await, json!({"attachments": [], "more": false}));
    }

    #[tokio::test]
    async fn wrong_calls_say_what_is_wrong() {
        for (arguments, says) in [
            (json!({"limit": 0}), "argument `limit`: 0 is not allowed; allowed are 1 to 200"),
            (json!({"limit": 201}), "argument `limit`: 201 is not allowed; allowed are 1 to 200"),
            (json!({"source": "me"}), "argument `source`: unknown variant `me`, expected one of `user`, `tool`"),
            (json!({"kind": "image"}), "unknown field `kind`"),
        ] {
            let error = world().error("attachment.list", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
