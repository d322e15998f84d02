//! Answers that are too large for who reads them: kept whole as a file, shown as a beginning.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{
    ConversationId, Filename, NewAttachment, OutcomeFile, ToolOutcome, Visibility, WorkspacePath, script::fenced_block,
    size::format_bytes,
};
use satchel_ports::{OutcomeReader, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::Value;

use crate::{ToolServices, error};

/// How much of a large answer a model is shown, in bytes.
const MAX_MODEL_PREVIEW_BYTES: u64 = 8 * 1024;

/// How much of one people are shown, in bytes: with the words around it, it fits one message of any channel.
const MAX_PERSON_PREVIEW_BYTES: usize = 1_500;

/// Replaces words or data of more than [`crate::ToolLimits::preview_over_bytes`] by their beginning, and adds the whole
/// as a file: for a model as an internal attachment and with how to read on, for people as a file that they get. If it
/// can't be kept, the words say so. A program gets all of it.
///
/// # Errors
/// When it is too large for a program.
pub async fn truncate_outcome(
    outcome: ToolOutcome,
    services: &ToolServices,
    context: &ToolContext,
) -> Result<ToolOutcome, ToolError> {
    match context.reader {
        OutcomeReader::Program => check_program_size(outcome),
        OutcomeReader::Person if outcome.wakes.is_empty() => Ok(shorten_for_people(outcome, services, context).await),
        OutcomeReader::Person | OutcomeReader::Model => Ok(shorten_for_model(outcome, services, context).await),
    }
}

fn check_program_size(outcome: ToolOutcome) -> Result<ToolOutcome, ToolError> {
    let text = outcome.text.as_ref().map_or(0, |text| text.len() as u64);
    let data = outcome.data.as_ref().map_or(0, |data| data.to_string().len() as u64);
    match text.max(data) {
        bytes if bytes > OutcomeReader::MAX_PROGRAM_BYTES => Err(error::too_large_for_program("the answer", bytes)),
        _ => Ok(outcome),
    }
}

async fn shorten_for_model(outcome: ToolOutcome, services: &ToolServices, context: &ToolContext) -> ToolOutcome {
    let max_bytes = services.limits.preview_over_bytes;
    let ToolOutcome {
        mut text,
        mut data,
        mut attachments,
        viewed_files,
        voice,
        selection,
        wakes,
        notices,
        failed,
        unknown,
    } = outcome;
    if let Some(full_text) = text.take_if(|text| text.len() as u64 > max_bytes) {
        text = Some(store_with_preview(full_text, "txt", services, context, &mut attachments).await);
    }
    if let Some(full_json) = data.as_ref().map(Value::to_string).filter(|json| json.len() as u64 > max_bytes) {
        data = None;
        let preview = store_with_preview(full_json, "json", services, context, &mut attachments).await;
        // Beside words, data is for scripts: the model reads the words and is told where the data are.
        text = Some(match text {
            Some(text) => format!("{text}\n\n{preview}"),
            None => preview,
        });
    }
    ToolOutcome { text, data, attachments, viewed_files, voice, selection, wakes, notices, failed, unknown }
}

/// People read words: what the words don't hold is no answer, so data beside words that are cut is left out.
async fn shorten_for_people(outcome: ToolOutcome, services: &ToolServices, context: &ToolContext) -> ToolOutcome {
    let ToolOutcome {
        mut text,
        mut data,
        mut attachments,
        viewed_files,
        voice,
        mut selection,
        wakes,
        notices,
        failed,
        unknown,
    } = outcome;
    if let Some(full_text) = text.take_if(|text| text.len() as u64 > services.limits.preview_over_bytes) {
        let preview = preview_text(&full_text, data.take().as_ref());
        let size = format_bytes(full_text.len() as u64);
        let filename = Filename::from_untrusted("answer.txt");
        let note = match store_full_result(full_text, filename, Visibility::Deliver, services, context).await {
            Ok(file) => {
                // A choice of files made before there was this one is none against it.
                if let Some(selection) = &mut selection {
                    selection.push(file.clone().into());
                }
                attachments.push(file.into());
                format!("This is the start of an answer of {size}; the whole answer is in `answer.txt`.")
            }
            Err(error) => format!("This is the start of an answer of {size}; the rest could not be stored: {error}."),
        };
        text = Some(format!("{preview}\n\n{note}"));
    }
    ToolOutcome { text, data, attachments, viewed_files, voice, selection, wakes, notices, failed, unknown }
}

/// The beginning of an answer as people read it: whole lines where there are any, and JSON in a block of its own.
fn preview_text(full_text: &str, data: Option<&Value>) -> String {
    let prefix = &full_text[..full_text.floor_char_boundary(MAX_PERSON_PREVIEW_BYTES)];
    let preview =
        prefix.rfind('\n').filter(|end| *end > MAX_PERSON_PREVIEW_BYTES / 2).map_or(prefix, |end| &prefix[..end]);
    let json = data.map(|data| format!("{data:#}"));
    let json_start =
        json.as_ref().and_then(|json| full_text.find(json.as_str())).filter(|start| *start < preview.len());
    match (json, json_start) {
        (Some(json), Some(json_start)) => {
            let json_end = preview.len().min(json_start + json.len());
            format!(
                "{}{}{}",
                &preview[..json_start],
                fenced_block("json", &preview[json_start..json_end]),
                &preview[json_end..]
            )
        }
        _ => preview.to_owned(),
    }
}

async fn store_with_preview(
    content: String,
    extension: &str,
    services: &ToolServices,
    context: &ToolContext,
    attachments: &mut Vec<OutcomeFile>,
) -> String {
    let bytes = content.len() as u64;
    let preview_bytes = MAX_MODEL_PREVIEW_BYTES.min(services.limits.preview_over_bytes);
    let preview =
        content[..content.floor_char_boundary(usize::try_from(preview_bytes).unwrap_or(usize::MAX))].to_owned();
    let filename = Filename::from_untrusted(&format!("answer-{}.{extension}", context.call.ordinal));
    let note = match store_full_result(content, filename, Visibility::Internal, services, context).await {
        Ok(attachment) => {
            let next = serde_json::json!({ "id": attachment.id, "offset": preview.len() });
            attachments.push(attachment.into());
            format!(
                "this is the beginning of an answer of {} ({bytes} bytes), which is kept as an internal attachment; \
                 read on with attachment.read {next}",
                format_bytes(bytes)
            )
        }
        Err(error) => format!(
            "this is the beginning of an answer of {} ({bytes} bytes); the rest is lost: {error}; ask for less at once",
            format_bytes(bytes)
        ),
    };
    format!("{preview}\n[{note}]")
}

async fn store_full_result(
    content: String,
    filename: Filename,
    visibility: Visibility,
    services: &ToolServices,
    context: &ToolContext,
) -> Result<NewAttachment, ToolError> {
    let stored = context.store_file(&*services.blobs, filename, content).await;
    let file = stored.map_err(|error| error::tool_error_with_cause("it could not be stored", &error))?;
    Ok(NewAttachment { visibility, ..file })
}

/// Makes a tool answer with no more than can be read.
pub(crate) fn with_preview(tool: Arc<dyn Tool>, services: ToolServices) -> Arc<dyn Tool> {
    Arc::new(PreviewingTool { tool, services })
}

struct PreviewingTool {
    tool: Arc<dyn Tool>,
    services: ToolServices,
}

#[async_trait]
impl Tool for PreviewingTool {
    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn tier(&self, arguments: &Value) -> SafetyTier {
        self.tool.tier(arguments)
    }

    fn changed_paths(&self, arguments: &Value) -> Vec<Option<WorkspacePath>> {
        self.tool.changed_paths(arguments)
    }

    async fn preview(&self, arguments: &Value, conversation: &ConversationId) -> Option<String> {
        self.tool.preview(arguments, conversation).await
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        truncate_outcome(self.tool.call(arguments, context).await?, &self.services, context).await
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use satchel_domain::WakeRequest;
    use satchel_ports::MockBlobs;
    use serde_json::json;

    use super::*;
    use crate::fakes::{ToolHarness, disk_full_error};

    #[tokio::test]
    async fn a_small_answer_stays_as_it_is() {
        let world = ToolHarness::new();
        let outcome = ToolOutcome { data: Some(json!({"a": 1})), ..ToolOutcome::from_text("x".repeat(100 * 1024)) };
        assert_eq!(truncate_outcome(outcome.clone(), &world.services(), &world.context()).await.unwrap(), outcome);
    }

    #[tokio::test]
    async fn large_text_is_stored_and_preview_continues_seamlessly() {
        let world = ToolHarness::new();
        let text = "йцукен ".repeat(20_000);
        let outcome = ToolOutcome { unknown: true, ..ToolOutcome::from_failure(text.clone()) };
        let short = truncate_outcome(outcome, &world.services(), &world.context()).await.unwrap();
        assert!(short.failed && short.unknown, "a failure stays one");
        let [kept] = short.new_files().try_into().expect("one file");
        assert_eq!((kept.visibility, kept.mime.as_str()), (Visibility::Internal, "text/plain"));
        assert_eq!(world.stored(&kept.sha256), text.as_bytes());

        let preview = short.text.expect("a preview");
        assert!(preview.len() < 10_000);
        let (beginning, note) = preview.split_once("\n[").expect("a note");
        assert!(text.starts_with(beginning));
        let call = note.split_once("attachment.read ").and_then(|(_, call)| call.strip_suffix(']')).expect("a call");
        let call: Value = serde_json::from_str(call).expect("arguments");
        assert_eq!(call, json!({"id": kept.id, "offset": beginning.len()}));

        world.add_record(kept.numbered(crate::fakes::conversation(), NonZeroU64::MIN));
        let next = world.call("attachment.read", call).await.expect("the rest can be read");
        assert!(
            next.text.is_some_and(|next| text[beginning.len()..].starts_with(&next[..next.floor_char_boundary(1000)]))
        );
    }

    #[tokio::test]
    async fn large_data_is_stored_as_json_beside_text() {
        let world = ToolHarness::new();
        let data = json!(vec!["entry"; 30_000]);
        let short =
            truncate_outcome(ToolOutcome::from_data(data.clone()), &world.services(), &world.context()).await.unwrap();
        assert_eq!(short.data, None);
        assert_eq!(world.stored(&short.new_files()[0].sha256), data.to_string().as_bytes());
        assert!(short.text.is_some_and(|text| text.starts_with("[\"entry\"") && text.contains("attachment.read")));

        let both = ToolOutcome { data: Some(data), ..ToolOutcome::from_text("thirty thousand entries") };
        let short = truncate_outcome(both, &world.services(), &world.context()).await.unwrap();
        assert!(short.text.is_some_and(|text| text.starts_with("thirty thousand entries\n\n[\"entry\"")));
    }

    #[tokio::test]
    async fn an_answer_that_cant_be_kept_says_so() {
        let world = ToolHarness::new();
        let mut blobs = MockBlobs::new();
        blobs.expect_put().returning(|_, _, _| Err(disk_full_error()));
        let services = ToolServices { blobs: Arc::new(blobs), ..world.services() };
        let short =
            truncate_outcome(ToolOutcome::from_text("x".repeat(200_000)), &services, &world.context()).await.unwrap();
        assert!(short.attachments.is_empty());
        assert!(short.text.is_some_and(|text| text.contains("the rest is lost") && text.contains("no space is left")));
    }

    fn for_people(world: &ToolHarness) -> ToolContext {
        ToolContext { reader: OutcomeReader::Person, ..world.context() }
    }

    #[tokio::test]
    async fn person_gets_preview_and_full_result_as_file() {
        let world = ToolHarness::new();
        let whole = format!("Script result: {}", "привет ".repeat(20_000));
        let outcome = ToolOutcome { selection: Some(Vec::new()), ..ToolOutcome::from_text(whole.clone()) };
        let short = truncate_outcome(outcome, &world.services(), &for_people(&world)).await.unwrap();
        let [file] = short.new_files().try_into().expect("one file");
        assert_eq!((file.filename.as_str(), file.visibility), ("answer.txt", Visibility::Deliver));
        assert_eq!(world.stored(&file.sha256), whole.as_bytes());
        assert_eq!(short.selection, Some(vec![file.into()]), "a choice of other files does not withhold the answer");
        let text = short.text.expect("a beginning");
        let (shown, note) = text.rsplit_once("\n\n").expect("a note");
        assert!(whole.starts_with(shown) && shown.len() > 1_000 && text.len() < 2_000, "{text}");
        assert!(note.contains("`answer.txt`") && !text.contains("attachment"), "in words for people: {note}");
    }

    #[tokio::test]
    async fn json_preview_has_complete_lines_and_closed_block() {
        let world = ToolHarness::new();
        let data = json!(vec!["*entry*"; 30_000]);
        let whole = format!("Script result:\n{data:#}\n--- Printed ---\nx");
        let outcome = ToolOutcome { data: Some(data), ..ToolOutcome::from_text(whole.clone()) };
        let short = truncate_outcome(outcome, &world.services(), &for_people(&world)).await.unwrap();
        let files = short.new_files();
        assert_eq!((short.data, short.attachments.len()), (None, 1));
        assert_eq!(world.stored(&files[0].sha256), whole.as_bytes());
        let text = short.text.expect("a beginning");
        let (block, note) = text.rsplit_once("\n\n").expect("a note");
        assert!(
            block.starts_with("Script result:\n```json\n[\n  \"*entry*\",\n") && block.ends_with("\n```"),
            "{text}"
        );
        assert!(note.starts_with("This is the start of"), "{note}");
    }

    #[tokio::test]
    async fn wake_result_is_truncated_and_loss_is_reported() {
        let world = ToolHarness::new();
        let wakes = vec![WakeRequest { context: json!("look"), include_event: true }];
        let woken = ToolOutcome { wakes, ..ToolOutcome::from_text("x".repeat(200_000)) };
        let short = truncate_outcome(woken, &world.services(), &for_people(&world)).await.unwrap();
        assert!(short.text.is_some_and(|text| text.contains("attachment.read")));

        let mut blobs = MockBlobs::new();
        blobs.expect_put().returning(|_, _, _| Err(disk_full_error()));
        let services = ToolServices { blobs: Arc::new(blobs), ..world.services() };
        let short = truncate_outcome(ToolOutcome::from_text("x".repeat(200_000)), &services, &for_people(&world))
            .await
            .unwrap();
        assert!(short.attachments.is_empty());
        let text = short.text.expect("words");
        assert!(
            text.contains("the rest could not be stored") && text.contains("no space is left") && text.len() < 2_000,
            "{text}"
        );
    }

    #[tokio::test]
    async fn program_gets_large_answer_whole() {
        let world = ToolHarness::new();
        let program = ToolContext { reader: OutcomeReader::Program, ..world.context() };
        let most = usize::try_from(OutcomeReader::MAX_PROGRAM_BYTES).unwrap();
        let largest = ToolOutcome { data: Some(json!({"a": 1})), ..ToolOutcome::from_text("x".repeat(most)) };
        assert_eq!(truncate_outcome(largest.clone(), &world.services(), &program).await, Ok(largest));
        let larger = [ToolOutcome::from_text("x".repeat(most + 1)), ToolOutcome::from_data(json!("x".repeat(most)))];
        for outcome in larger {
            let refused = truncate_outcome(outcome, &world.services(), &program).await.unwrap_err().0;
            assert!(refused.contains("a script is given at most 8.3 MB at once"), "{refused}");
        }
    }
}
