//! A call that makes files and says which of them go with the reply, as a script may.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use satchel::ports::ExtraTool;
use satchel_domain::{Filename, NewAttachment, ToolOutcome};
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::{Blobs, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use satchel_system::crash::ChannelAdapter;
use serde_json::{Value, json};

use crate::product::{Product, ProductSetup};

/// Makes the files that it is told to make, and selects those that it is told to send.
struct AssembleTool {
    blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Tool for AssembleTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "assemble".to_owned(),
            description: "Makes files, for the tests".to_owned(),
            parameters: json!({ "type": "object", "properties": {} }),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let mut attachments = Vec::new();
        for name in arguments["make"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let content = Bytes::from(format!("the bytes of {name}"));
            let filename = Filename::from_untrusted(name);
            let stored = context.store_file(&*self.blobs, filename, content).await;
            let stored = stored.map_err(|error| ToolError(error.to_string()))?;
            attachments.push(NewAttachment { mime: "text/plain".to_owned(), ..stored });
        }
        let selection = arguments["send"].as_array().map(|names| {
            let is_sent = |file: &&NewAttachment| names.iter().any(|name| name == file.filename.as_str());
            attachments.iter().filter(is_sent).cloned().map(Into::into).collect()
        });
        let attachments = attachments.into_iter().map(Into::into).collect();
        Ok(ToolOutcome { attachments, selection, ..ToolOutcome::from_text("made") })
    }
}

fn assemble_tools(blobs: &Arc<dyn Blobs>) -> Vec<ExtraTool> {
    let tool = Arc::new(AssembleTool { blobs: Arc::clone(blobs) });
    vec![ExtraTool::without_paths(tool)]
}

/// What a call withheld stays withheld, and what a later call makes goes along.
#[tokio::test(flavor = "multi_thread")]
async fn call_sends_only_selected_files() {
    let call = |arguments| ScriptedPiece::Call { name: "assemble".to_owned(), arguments };
    let answer = |pieces| ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    let answers = vec![
        answer(vec![
            call(json!({ "make": ["early.txt"] })),
            call(json!({ "make": ["draft.txt", "final.txt"], "send": ["final.txt"] })),
        ]),
        answer(vec![call(json!({ "make": ["appendix.txt"] }))]),
        answer(vec![ScriptedPiece::Text("Here it is.".to_owned())]),
    ];
    let setup = ProductSetup { tools: assemble_tools, ..ProductSetup::for_platform(ChannelAdapter::Discord) };
    let product =
        Product::start(setup, Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }))).await;
    let record = product.send("go", Vec::new()).await;
    assert_eq!(record.routing_errors(), []);
    let transcript = product.platform.transcript();
    let files = transcript.visible_files(&product.conversation);
    let sent: Vec<_> = files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(sent, ["final.txt", "appendix.txt"], "{transcript}");
    product.stop().await;
}
