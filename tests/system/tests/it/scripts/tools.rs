//! The tools that the design's examples call.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use satchel::ports::ExtraTool;
use satchel_domain::{Filename, NewAttachment, ToolOutcome};
use satchel_ports::{Blobs, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};

pub(super) fn script_tools(blobs: &Arc<dyn Blobs>) -> Vec<ExtraTool> {
    let file_tool = |name, stem| -> Arc<dyn Tool> { Arc::new(FileTool { name, stem, blobs: Arc::clone(blobs) }) };
    let tools = [
        file_tool("generate_report", "report"),
        file_tool("generate_chart", "chart"),
        file_tool("create_chart", "chart"),
        Arc::new(SearchNotesTool),
    ];
    tools.into_iter().map(ExtraTool::without_paths).collect()
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
struct FileTool {
    name: &'static str,
    stem: &'static str,
    blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Tool for FileTool {
    fn spec(&self) -> ToolSpec {
        spec(self.name)
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let subject = arguments["metric"].as_str().or(arguments["data"].as_str()).unwrap_or("data");
        let extension = if self.stem == "report" { "md" } else { "txt" };
        let content = Bytes::from(format!("{} {arguments}", self.name));
        let filename = Filename::from_untrusted(&format!("{}-{subject}.{extension}", self.stem));
        let stored = context.store_file(&*self.blobs, filename, content).await;
        let stored = stored.map_err(|error| ToolError(error.to_string()))?;
        let file = NewAttachment { mime: "text/plain".to_owned(), ..stored };
        Ok(ToolOutcome { attachments: vec![file.into()], ..ToolOutcome::default() })
    }
}

struct SearchNotesTool;

#[async_trait]
impl Tool for SearchNotesTool {
    fn spec(&self) -> ToolSpec {
        spec("search_notes")
    }

    async fn call(&self, arguments: Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let note = |n: u32| json!({"id": format!("note-{n}"), "title": arguments["query"], "score": 0.5});
        Ok(ToolOutcome::from_data(json!([note(1), note(2)])))
    }
}
