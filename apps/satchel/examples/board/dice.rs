//! A tool: rolls dice, tells the model the sum, and gives the person the rolls as a file.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use async_trait::async_trait;
use satchel::embed::{
    domain::{Filename, ToolOutcome},
    ports::{Blobs, SafetyTier, Tool, ToolContext, ToolError, ToolSpec},
};
use serde_json::{Value, json};

pub(crate) struct Dice {
    pub blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Tool for Dice {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "dice".to_owned(),
            description: "Rolls dice. The person gets a file with each roll.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"count": {"type": "integer", "minimum": 1, "maximum": 100}},
                "required": ["count"],
            }),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        // Check the arguments here: a model may send anything.
        let count = arguments["count"].as_u64().filter(|count| (1..=100).contains(count));
        let count = count.ok_or_else(|| ToolError("`count` is a number from 1 to 100".to_owned()))?;
        let rolls: Vec<u64> = (0..count).map(|roll| 1 + RandomState::new().hash_one(roll) % 6).collect();
        let list: String = rolls.iter().map(|roll| format!("{roll}\n")).collect();
        let file = context.store_file(&*self.blobs, Filename::from_untrusted("rolls.txt"), list).await;
        let file = file.map_err(|error| ToolError(format!("the rolls could not be stored: {error}")))?;
        let text = format!("{count} dice, sum {}", rolls.iter().sum::<u64>());
        Ok(ToolOutcome { attachments: vec![file.into()], ..ToolOutcome::from_text(text) })
    }
}
