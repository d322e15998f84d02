//! `send_voice`: sends the reply's text, or another text, as a voice message.
//!
//! It is offered only where there is something to speak with, so it isn't one of [`crate::built_in`].

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ToolOutcome, VoiceRequest};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    arguments::{parse_arguments, tool_spec},
    error,
};

/// The longest text of one voice message, in characters: about five minutes.
const MAX_SPEECH_CHARS: usize = 4_000;

#[must_use]
pub fn send_voice() -> Arc<dyn Tool> {
    Arc::new(SendVoice)
}

struct SendVoice;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The words to speak instead of your reply's text, at most 4000 characters. They are not written besides.
    text: Option<String>,
}

#[async_trait]
impl Tool for SendVoice {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "send_voice",
            SafetyTier::ReadOnly,
            "Sends a voice message with your reply: your reply's text spoken, or the words of `text`. Your reply's text is \
             sent as well, before it. The last call of a turn counts. The voice message is queued and goes out with the \
             reply after this turn; it is not sent yet.",
        )
    }

    async fn call(&self, arguments: Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { text } = parse_arguments(arguments)?;
        // Some models fill in what they mean to leave out.
        let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let length = text.as_ref().map_or(0, |text| text.chars().count());
        if length > MAX_SPEECH_CHARS {
            return Err(error::tool_error(format!(
                "no voice message: `text` has {length} characters, the limit is {MAX_SPEECH_CHARS}"
            )));
        }
        let speaks = if text.is_some() { "the given text" } else { "the text of your reply" };
        let outcome = ToolOutcome::from_data(json!({ "queued": true, "speaks": speaks }));
        Ok(ToolOutcome { voice: Some(VoiceRequest { text }), ..outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToolRegistry, fakes::ToolHarness};

    async fn call(arguments: Value) -> Result<ToolOutcome, ToolError> {
        let mut registry = ToolRegistry::default();
        registry.register(send_voice()).expect("it has an entry in the table of path fields");
        registry.get("send_voice").unwrap().call(arguments, &ToolHarness::new().context()).await
    }

    #[tokio::test]
    async fn a_voice_is_asked_for_and_only_queued() {
        let own = call(json!({"text": " Good night. "})).await.unwrap();
        assert_eq!(own.voice, Some(VoiceRequest { text: Some("Good night.".into()) }));
        assert_eq!(own.data.unwrap(), json!({"queued": true, "speaks": "the given text"}));
        for arguments in [json!({}), json!({"text": null}), json!({"text": " \n"}), Value::Null] {
            let outcome = call(arguments.clone()).await.unwrap();
            assert_eq!(outcome.voice, Some(VoiceRequest { text: None }), "{arguments}");
            assert_eq!(outcome.data.unwrap()["speaks"], "the text of your reply");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_spoken_is_said_at_once() {
        let longest = "й".repeat(MAX_SPEECH_CHARS);
        assert!(call(json!({"text": longest})).await.is_ok());
        let error = call(json!({"text": longest + "й"})).await.unwrap_err().0;
        assert_eq!(error, "no voice message: `text` has 4001 characters, the limit is 4000");
        let error = call(json!({"words": "hi"})).await.unwrap_err().0;
        assert!(error.contains("unknown field `words`"), "{error}");
    }

    #[test]
    fn execute_script_spec_matches_snapshot() {
        insta::assert_json_snapshot!("send_voice", send_voice().spec());
    }
}
