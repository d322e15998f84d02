//! What a script can reach: the tools of its conversation, its files, and nothing else.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::lock;
use satchel_domain::{OutcomeFile, RecordedOutcome, ToolOutcome};
use satchel_ports::{
    ByteStream, HostFunctions, LedgerError, ToolCaller, ToolContext, ToolSpec,
    script_host::{FunctionCall, NewScriptFile},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    files,
    functions::{self, BuiltinFunction, ScriptFunction},
    results::{self, FileQuota, ScriptResults},
};
use crate::{ToolServices, error};

/// The host functions of one script run.
pub(super) struct TurnHostFunctions<'a> {
    pub(super) services: &'a ToolServices,
    pub(super) context: &'a ToolContext,
    tools: &'a dyn ToolCaller,
    /// The tools that the script may call.
    allowed: Vec<ToolSpec>,
    quota: FileQuota,
    /// The lock under which a file of this turn is made.
    turn_lock: Arc<lock::Mutex<()>>,
    results: Mutex<ScriptResults>,
    /// When the script was submitted: it ends its time limit after that, or later if it had to wait for a worker.
    started_at: Instant,
    time_limit: Duration,
}

impl<'a> TurnHostFunctions<'a> {
    pub(super) fn new(
        services: &'a ToolServices,
        context: &'a ToolContext,
        tools: &'a dyn ToolCaller,
        allowed: Vec<ToolSpec>,
        quota: FileQuota,
        turn_lock: Arc<lock::Mutex<()>>,
        time_limit: Duration,
    ) -> Self {
        Self {
            services,
            context,
            tools,
            allowed,
            quota,
            turn_lock,
            results: Mutex::default(),
            started_at: Instant::now(),
            time_limit,
        }
    }

    /// What the script has gathered, when it is over.
    pub(super) fn into_results(self) -> ScriptResults {
        self.results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an outcome and records its new files, so that the script's next call finds them. They are gathered first:
    /// a stop in between ends this future, and the files go with the reply whether the ledger has them by then or not.
    async fn record_outcome(&self, outcome: ToolOutcome) -> Result<RecordedOutcome, String> {
        let push_result = self.lock().push(outcome.clone(), self.quota);
        let recorded = self.register_new_files(outcome).await.map_err(|error| {
            self.lock().discard_unrecorded();
            error::tool_error_with_cause("the files could not be recorded", &error).0
        })?;
        self.lock().keep_recorded(&recorded);
        push_result?;
        Ok(recorded)
    }

    async fn register_new_files(&self, outcome: ToolOutcome) -> Result<RecordedOutcome, LedgerError> {
        let new_files = outcome.new_files();
        let registered = match new_files.is_empty() {
            true => Vec::new(),
            false => self.services.turns.register_files(self.context.call.turn, &new_files).await?,
        };
        outcome.try_map_files(|file| match file {
            OutcomeFile::Stored(file) => Ok(file),
            OutcomeFile::New(file) => {
                let registered = registered.iter().find(|registered| registered.id == file.id).cloned();
                registered.ok_or_else(|| LedgerError::Unknown { item: format!("attachment {}", file.id) })
            }
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ScriptResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call_tool(&self, spec: &ToolSpec, arguments: Value) -> Result<Value, String> {
        let time_left = self.time_limit.saturating_sub(self.started_at.elapsed());
        let outcome = self
            .tools
            .call(&spec.name, arguments, time_left)
            .await
            .map_err(|error| format!("{}: {error}", spec.name))?;
        Ok(outcome_value(&self.record_outcome(outcome).await?))
    }
}

#[async_trait]
impl HostFunctions for TurnHostFunctions<'_> {
    fn functions(&self) -> Vec<String> {
        functions::function_names(&self.allowed)
    }

    async fn call(&self, call: FunctionCall) -> Result<Value, String> {
        match functions::resolve_call(&self.allowed, call)? {
            ScriptFunction::Tool(spec, arguments) => self.call_tool(spec, arguments).await,
            ScriptFunction::Builtin(BuiltinFunction::List) => {
                Ok(self.allowed.iter().map(functions::summarize_tool).collect())
            }
            ScriptFunction::Builtin(BuiltinFunction::Describe(spec)) => {
                Ok(spec.map_or(Value::Null, functions::describe_tool))
            }
            ScriptFunction::Builtin(BuiltinFunction::Metadata(id)) => files::read_metadata(self, &id).await,
            ScriptFunction::Builtin(BuiltinFunction::Text(id)) => files::read_text(self, &id).await,
        }
    }

    async fn create(&self, file: NewScriptFile, content: ByteStream) -> Result<Value, String> {
        let _guard = self.turn_lock.lock().await;
        let turn_bytes = results::remaining_turn_bytes(self.services, self.context).await;
        let turn_bytes = turn_bytes.map_err(|error| format!("attachment_create: {error}"))?;
        let remaining_bytes = self.lock().remaining_bytes(self.quota)?.min(turn_bytes);
        let new_file = files::create_file(self, file, content, remaining_bytes).await?;
        let outcome = ToolOutcome { attachments: vec![new_file.into()], ..ToolOutcome::default() };
        let outcome = self.record_outcome(outcome).await?;
        Ok(outcome_value(&outcome))
    }
}

/// What a script gets of an outcome: the id of the one file that is all there is, or words, or everything. Of a call
/// that failed in part it gets data that lists what failed, if there is such, else everything and that it failed: the
/// words are for readers.
fn outcome_value(outcome: &RecordedOutcome) -> Value {
    let is_partial = outcome.has_failed_in_part();
    match (&outcome.text, outcome.attachments.as_slice(), &outcome.data) {
        (_, [], Some(data)) if is_partial && data.get("failed").is_some() => Value::from(data.to_string()),
        (_, [], _) if !is_partial => Value::from(outcome.to_model_text()),
        (None, [file], _) if !is_partial => Value::from(file.id.to_string()),
        (text, files, _) => {
            let mut value = json!({
                "text": text,
                "data": outcome.data,
                "attachment_ids": files.iter().map(|file| file.id.to_string()).collect::<Vec<_>>(),
            });
            if is_partial {
                value["failed"] = Value::Bool(true);
            }
            value
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures::{FutureExt, StreamExt, stream};
    use satchel_domain::{Attachment, Visibility};
    use satchel_ports::{MockLedger, MockToolCaller};

    use super::*;
    use crate::fakes::{self, attachment};

    /// What ends a future while its file is being recorded is here a panic; in a turn it is `/stop`.
    #[tokio::test]
    async fn interrupted_recording_leaves_the_file_gathered() {
        let fakes = fakes::ToolHarness::new();
        let mut ledger = MockLedger::default();
        ledger.archive.expect_attachments().returning(|_| Ok(Vec::new()));
        ledger.turns.expect_register_files().returning(|_, _| panic!("the turn is stopped"));
        let (services, context) = (
            ToolServices { archive: Arc::new(ledger.archive), turns: Arc::new(ledger.turns), ..fakes.services() },
            fakes.context(),
        );
        let tools = MockToolCaller::new();
        let room = FileQuota { files: 2, bytes: 100 };
        let world =
            TurnHostFunctions::new(&services, &context, &tools, Vec::new(), room, Arc::default(), Duration::MAX);
        let file = NewScriptFile {
            filename: "made.txt".into(),
            description: String::new(),
            mime_type: "text/plain".into(),
            visibility: Visibility::Deliver,
        };
        let content = stream::iter([Ok(b"made".to_vec().into())]).boxed();
        let interrupted = AssertUnwindSafe(world.create(file, content)).catch_unwind().await;
        assert!(interrupted.is_err(), "{interrupted:?}");
        let gathered = world.into_results().join(Vec::new(), &fakes::conversation());
        let names: Vec<String> = gathered.new_files().iter().map(|file| file.filename.to_string()).collect();
        assert_eq!(names, ["made.txt"]);
    }

    #[test]
    fn script_gets_text_id_or_full_outcome() {
        let file = |id| attachment(id, "a.txt", "text/plain", b"a");
        let one = file(1).id.to_string();
        let said = |text: Option<&str>, data: Option<Value>, attachments: Vec<Attachment>| {
            let text = text.map(str::to_owned);
            outcome_value(&RecordedOutcome { text, data, attachments, ..RecordedOutcome::default() })
        };
        assert_eq!(said(Some("words"), Some(json!({"a": 1})), vec![]), json!("words"));
        assert_eq!(said(None, Some(json!({"a": 1.5})), vec![]), json!(r#"{"a":1.5}"#));
        assert_eq!(said(None, None, vec![]), json!("done"));
        assert_eq!(said(None, Some(json!({"ok": true})), vec![file(1)]), json!(one));
        let all = json!({"text": "words", "data": null, "attachment_ids": [one]});
        assert_eq!(said(Some("words"), None, vec![file(1)]), all);
        let in_part = |attachments| {
            let outcome = RecordedOutcome {
                data: Some(json!({"failed": [2]})),
                attachments,
                ..RecordedOutcome::from_failure("1 of 2")
            };
            outcome_value(&outcome)
        };
        assert_eq!(in_part(vec![]), json!(r#"{"failed":[2]}"#));
        let saved = RecordedOutcome {
            data: Some(json!([{"saved": true}, {"saved": false}])),
            ..RecordedOutcome::from_failure("1 of 2")
        };
        let all = json!({
            "text": "1 of 2", "data": [{"saved": true}, {"saved": false}], "attachment_ids": [], "failed": true,
        });
        assert_eq!(outcome_value(&saved), all);
        let all = json!({"text": "1 of 2", "data": {"failed": [2]}, "attachment_ids": [one], "failed": true});
        assert_eq!(in_part(vec![file(1)]), all);
        let two = said(None, Some(json!([1])), vec![file(1), file(2)]);
        assert_eq!(two, json!({"text": null, "data": [1], "attachment_ids": [one, file(2).id.to_string()]}));
    }
}
