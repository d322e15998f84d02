//! The first wall: every path in a call's arguments lies beneath a mount that the tool may use, or the call ends here.
//!
//! Lexical and pure: it knows the table of [`crate::path_fields`] and the arguments, and no disk. The second wall is
//! the `Workspace` port, which resolves beneath a directory handle. It can't be skipped: [`crate::ToolRegistry`]
//! wraps every tool that is registered, and hands out nothing but wrapped tools.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ConversationId, ToolOutcome, WorkspacePath};
use satchel_ports::{SafetyTier, Tool, ToolContext, ToolError, ToolSpec, Vault};
use serde_json::Value;

use crate::{
    AuditedWorkspace,
    conversation_vault::ConversationVault,
    error,
    path_fields::{PathAccess, PathField, PathFields},
};

/// The longest path in bytes; systems stop at 4096 with their own directories before it.
const MAX_PATH_BYTES: usize = 1024;

/// Checks the paths in a call's arguments. What is not a path at all, such as a missing argument, is the tool's affair.
///
/// # Errors
/// When an argument that the table names holds anything but paths beneath its mounts; the words name the argument,
/// the path, and the mounts that were expected.
pub fn check_paths(fields: PathFields, arguments: &Value) -> Result<(), ToolError> {
    let PathFields::Some(fields) = fields else { return Ok(()) };
    for field in fields {
        match &arguments[field.name] {
            Value::Null => {}
            Value::Array(paths) => {
                paths.iter().filter(|path| !path.is_null()).try_for_each(|path| check_path(field, path))?
            }
            path => check_path(field, path)?,
        }
    }
    Ok(())
}

fn check_path(field: &PathField, given: &Value) -> Result<(), ToolError> {
    let mounts: Vec<String> = field.mounts.iter().map(ToString::to_string).collect();
    let path_error = |reason: String| {
        let expected = format!("expected a path beneath {}", mounts.join(" or "));
        Err(error::tool_error(format!("argument `{}`: {expected}, but {reason}", field.name)))
    };
    let Value::String(given) = given else {
        let excerpt: String = given.to_string().chars().take(100).collect();
        return path_error(format!("{excerpt} is not a path"));
    };
    if given.len() > MAX_PATH_BYTES {
        return path_error(format!("it has {} bytes, and at most {MAX_PATH_BYTES} are allowed", given.len()));
    }
    match given.parse::<WorkspacePath>() {
        Err(error) => path_error(error.to_string()),
        Ok(path) if field.mounts.contains(&path.mount()) => Ok(()),
        Ok(path) => {
            let verb = match field.access {
                PathAccess::Read => "read",
                PathAccess::Write => "written",
            };
            path_error(format!("`{path}` can't be {verb} by this tool"))
        }
    }
}

/// Puts a tool behind the policy.
pub(crate) fn guard(tool: Arc<dyn Tool>, fields: PathFields, secrets: Option<AuditedWorkspace>) -> Arc<dyn Tool> {
    Arc::new(GuardedTool { tool, fields, secrets })
}

struct GuardedTool {
    tool: Arc<dyn Tool>,
    fields: PathFields,
    /// Holds the secrets that the tool may read; `None` where it may read none.
    secrets: Option<AuditedWorkspace>,
}

#[async_trait]
impl Tool for GuardedTool {
    fn spec(&self) -> ToolSpec {
        let spec = self.tool.spec();
        ToolSpec { tier: spec.tier.max(self.fields.lowest_tier()), ..spec }
    }

    fn tier(&self, arguments: &Value) -> SafetyTier {
        self.tool.tier(arguments).max(self.fields.lowest_tier())
    }

    async fn preview(&self, arguments: &Value, conversation: &ConversationId) -> Option<String> {
        check_paths(self.fields, arguments).ok()?;
        self.tool.preview(arguments, conversation).await
    }

    fn changed_paths(&self, arguments: &Value) -> Vec<Option<WorkspacePath>> {
        self.fields.changed_paths(arguments).into_iter().chain(self.tool.changed_paths(arguments)).collect()
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        check_paths(self.fields, &arguments)?;
        let Some(secrets) = &self.secrets else { return self.tool.call(arguments, context).await };
        let vault = Arc::new(ConversationVault::new(secrets.clone(), context.conversation.clone()));
        let context = ToolContext { vault: Some(Arc::clone(&vault) as Arc<dyn Vault>), ..context.clone() };
        let result = self.tool.call(arguments, &context).await;
        let mask = vault.secrets_read();
        match result {
            Ok(outcome) => Ok(mask.mask_outcome(outcome)),
            Err(ToolError(text)) => Err(ToolError(mask.mask_text(&text))),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vault_tests;
