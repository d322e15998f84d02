//! The tools that the design's examples call.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use satchel::build::ExtraTool;
use satchel_domain::{Attachment, AttachmentId, AttachmentSource, Filename, ToolOutcome, Visibility};
use satchel_ports::{BlobHint, Blobs, Ledger, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use satchel_tools::path_fields::PathFields;
use serde_json::{Value, json};

pub(super) fn all(ledger: &Arc<dyn Ledger>, blobs: &Arc<dyn Blobs>) -> Vec<ExtraTool> {
    let makes = |name, stem| -> Arc<dyn Tool> {
        Arc::new(Makes { name, stem, ledger: Arc::clone(ledger), blobs: Arc::clone(blobs) })
    };
    let tools = [
        makes("generate_report", "report"),
        makes("generate_chart", "chart"),
        makes("create_chart", "chart"),
        Arc::new(SearchNotes),
    ];
    tools.into_iter().map(|tool| ExtraTool { tool, paths: PathFields::None }).collect()
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("{name}, for the tests"),
        parameters: json!({"type": "object", "properties": {}}),
        tier: SafetyTier::ReadOnly,
        time_limit: None,
    }
}

/// Makes a file that is named after what it is asked for, and says nothing.
struct Makes {
    name: &'static str,
    stem: &'static str,
    ledger: Arc<dyn Ledger>,
    blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Tool for Makes {
    fn spec(&self) -> ToolSpec {
        spec(self.name)
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let about = arguments["metric"].as_str().or(arguments["data"].as_str()).unwrap_or("data");
        let extension = if self.stem == "report" { "md" } else { "txt" };
        let content = Bytes::from(format!("{} {arguments}", self.name));
        let stored = self.blobs.put(Box::pin(stream::iter([Ok(content)])), &BlobHint::default(), 1 << 20).await;
        let stored = stored.map_err(|error| ToolError(error.to_string()))?;
        let file = Attachment {
            id: AttachmentId(self.ledger.new_id()),
            number: 0,
            conversation: context.conversation.clone(),
            source: AttachmentSource::Tool,
            filename: Filename::from_untrusted(&format!("{}-{about}.{extension}", self.stem)),
            mime: "text/plain".to_owned(),
            bytes: stored.bytes,
            sha256: stored.sha256,
            media: stored.media,
            description: String::new(),
            created_at: self.ledger.now(),
            visibility: Visibility::Deliver,
        };
        Ok(ToolOutcome { attachments: vec![file], ..ToolOutcome::default() })
    }
}

struct SearchNotes;

#[async_trait]
impl Tool for SearchNotes {
    fn spec(&self) -> ToolSpec {
        spec("search_notes")
    }

    async fn call(&self, arguments: Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let note = |n: u32| json!({"id": format!("note-{n}"), "title": arguments["query"], "score": 0.5});
        Ok(ToolOutcome::from_data(json!([note(1), note(2)])))
    }
}
