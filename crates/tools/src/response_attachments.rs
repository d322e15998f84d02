//! `response_attachments`: sets exactly which files the reply brings, and in which order.

use async_trait::async_trait;
use satchel_domain::ToolOutcome;
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error, lookup,
};

pub(crate) struct ResponseAttachments(pub(crate) ToolServices);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The ids of the files, in the order in which the person gets them. An empty list withholds all.
    ids: Vec<String>,
}

#[async_trait]
impl Tool for ResponseAttachments {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "response_attachments",
            SafetyTier::ReadOnly,
            "Sets exactly which files go with your reply, in this order: any of this conversation, also from earlier \
             turns, also internal ones. An empty list withholds all. Files that are made later in the turn are added. \
             The files are queued and go out with the reply after this turn; they are not sent yet.",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { ids } = parse_arguments(arguments)?;
        let mut selection = Vec::with_capacity(ids.len());
        let mut errors = Vec::new();
        for id in &ids {
            match lookup::find_attachment(&self.0, context, id).await {
                Ok(attachment) if selection.contains(&attachment) => {}
                Ok(attachment) => selection.push(attachment),
                Err(error) => errors.push(error.0),
            }
        }
        if !errors.is_empty() {
            return Err(error::tool_error(format!("the reply's files are as they were: {}", errors.join("; "))));
        }
        let queued: Vec<lookup::QueuedAttachment> = selection.iter().map(lookup::QueuedAttachment::from).collect();
        let selection = Some(selection.into_iter().map(Into::into).collect());
        Ok(ToolOutcome { selection, ..ToolOutcome::from_data(json!({ "queued": queued })) })
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{Attachment, Visibility};

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    fn world() -> (ToolHarness, [Attachment; 3]) {
        let world = ToolHarness::new();
        let files = [
            attachment(1, "old.pdf", "application/pdf", b"old"),
            Attachment { visibility: Visibility::Internal, ..attachment(2, "draft.txt", "text/plain", b"draft") },
            Attachment {
                conversation: "console:other".parse().unwrap(),
                ..attachment(3, "foreign.txt", "text/plain", b"foreign")
            },
        ];
        for file in &files {
            world.add_record(file.clone());
        }
        (world, files)
    }

    #[tokio::test]
    async fn selection_is_resolved_in_order_and_only_queued() {
        let (world, [old, draft, _]) = world();
        let ids = [draft.id, old.id, draft.id];
        let outcome = world.call("response_attachments", json!({ "ids": ids })).await.unwrap();
        assert_eq!(outcome.selection, Some(vec![draft.clone().into(), old.clone().into()]), "each once");
        assert!(outcome.attachments.is_empty() && outcome.text.is_none());
        assert_eq!(
            outcome.data.unwrap(),
            json!({"queued": [
                {"id": draft.id, "number": 2, "filename": "draft.txt", "mimeType": "text/plain", "bytes": 5},
                {"id": old.id, "number": 1, "filename": "old.pdf", "mimeType": "application/pdf", "bytes": 3},
            ]})
        );
    }

    #[tokio::test]
    async fn an_empty_list_withholds_all() {
        let outcome = world().0.call("response_attachments", json!({"ids": []})).await.unwrap();
        assert_eq!((outcome.selection, outcome.data), (Some(vec![]), Some(json!({"queued": []}))));
    }

    #[tokio::test]
    async fn invalid_ids_are_all_named_and_change_nothing() {
        let (world, [old, _, foreign]) = world();
        let error = world.error("response_attachments", json!({"ids": [old.id, foreign.id, "17"]})).await;
        assert!(error.starts_with("the reply's files are as they were"), "{error}");
        assert!(error.contains(&foreign.id.to_string()) && error.contains("`17`"), "{error}");
        assert!(!error.contains(&old.id.to_string()), "{error}");
        for (arguments, says) in [
            (json!({}), "missing field `ids`"),
            (json!({"ids": old.id}), "argument `ids`: invalid type: string"),
            (json!({"ids": [17]}), "argument `ids[0]`: invalid type: integer `17`"),
        ] {
            let error = world.error("response_attachments", arguments.clone()).await;
            assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
        }
    }
}
