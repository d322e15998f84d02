//! `execute_script`: runs a script, and passes on every file that it makes or that a tool made for it.
//!
//! It is offered only where there is something to evaluate scripts with, so it isn't one of [`crate::built_in`].

mod files;
mod functions;
mod host_functions;
mod outcome;
mod results;
mod value_ids;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    ToolOutcome, WorkspacePath,
    script::{MAX_SCRIPT_BYTES, SCRIPT_TOOL},
};
use satchel_ports::{SafetyTier, ScriptHost, ScriptRequest, Tool, ToolContext, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::{
    host_functions::TurnHostFunctions,
    results::{FileQuota, TurnLocks},
};
use crate::{
    ToolServices,
    arguments::{parse_arguments, tool_spec},
    error,
};

/// The extra time of a call beyond its script: for waiting for a worker, and for looking up files at the end.
const EXTRA_TIME: Duration = Duration::from_secs(90);

/// What scripts may do, as the operator sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptRules {
    /// How long one may run.
    pub time_limit: Duration,
    /// The tools that scripts may call, by name; `None` for all that the conversation has.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether scripts may call no tool at all.
    pub deny_all_tools: bool,
    /// The most files that one script yields.
    pub files: usize,
    /// The most bytes of all its files.
    pub files_bytes: u64,
}

impl Default for ScriptRules {
    fn default() -> Self {
        Self {
            time_limit: Duration::from_secs(600),
            allowed_tools: None,
            deny_all_tools: false,
            files: 50,
            files_bytes: 100 << 20,
        }
    }
}

#[must_use]
pub fn execute_script(services: ToolServices, host: Arc<dyn ScriptHost>, rules: ScriptRules) -> Arc<dyn Tool> {
    Arc::new(ExecuteScript { services, host, rules, turn_locks: TurnLocks::default() })
}

struct ExecuteScript {
    services: ToolServices,
    host: Arc<dyn ScriptHost>,
    rules: ScriptRules,
    turn_locks: TurnLocks,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The script.
    script: String,
    /// Variables that the script finds set, by name.
    #[serde(default)]
    globals: Map<String, Value>,
}

const DESCRIPTION: &str = "\
Runs a Starlark script (like Python: def, for, if, f-strings, comprehensions, top-level return; no while, import, try or \
class). Example:
made = attachment_create(content=\"# Report\\n\" + time_now(), filename=\"report.md\")
return \"Report made\"
In scope: every other tool as a function, with _ for dots and arguments by name, such as file_read(path=\"/shared/a.txt\"); \
tools_list(), tools_get(name), tools_execute(name, **arguments); attachment_create(content, filename, description, \
mime_type, visibility=\"deliver\" or \"internal\", encoding=\"utf-8\" or \"base64\") gives the new file's id; \
attachment_get(id), attachment_read(id); json_encode, json_decode; time_now, time_parse, time_format, time_add; \
wake_llm(context); print. No disk, no network, nothing else. A tool gives its whole text, or the id of the one file that \
it made, or {text, data, attachment_ids}. Every file that the script or one of its tools makes goes with the answer by \
itself; return {\"attachment_ids\": [...]} to add files that were there before.";

#[async_trait]
impl Tool for ExecuteScript {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            time_limit: Some(self.rules.time_limit.saturating_add(EXTRA_TIME)),
            ..tool_spec::<Arguments>(SCRIPT_TOOL, SafetyTier::SideEffecting, DESCRIPTION)
        }
    }

    fn changed_paths(&self, _: &Value) -> Vec<Option<WorkspacePath>> {
        // Those of the tools that it calls.
        vec![None]
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let Arguments { script, globals } = parse_arguments(arguments)?;
        let Some(tools) = &context.tools else {
            return Err(error::tool_error("a script can't run scripts: define a function instead"));
        };
        if script.len() > MAX_SCRIPT_BYTES {
            let bytes = script.len();
            return Err(error::tool_error(format!(
                "the script has {bytes} bytes; at most {MAX_SCRIPT_BYTES} are allowed"
            )));
        }
        let remaining_bytes = results::remaining_turn_bytes(&self.services, context).await;
        let remaining_bytes =
            remaining_bytes.map_err(|error| error::tool_error(format!("the script was not run: {error}")))?;
        let quota = FileQuota { files: self.rules.files, bytes: self.rules.files_bytes.min(remaining_bytes) };
        let permitted = functions::permitted_tools(&tools.specs(), &self.rules);
        let turn_lock = self.turn_locks.lock_for(context.call.turn);
        let functions = TurnHostFunctions::new(
            &self.services,
            context,
            tools.as_ref(),
            permitted,
            quota,
            turn_lock,
            self.rules.time_limit,
        );
        let request = ScriptRequest {
            source: script,
            globals,
            work_share: context.work_share.clone(),
            time_limit: self.rules.time_limit,
        };
        let evaluation = self.host.run(&request, &functions, &context.cancel).await;
        let results = functions.into_results();
        Ok(outcome::script_outcome(evaluation, results, self.rules.files, &self.services, context).await)
    }
}

#[cfg(test)]
mod tests;
