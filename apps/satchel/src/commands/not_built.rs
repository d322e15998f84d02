//! The commands that come later: known, and honest about it.

use super::UsageError;

/// Answers for a command that isn't built yet.
///
/// # Errors
/// Always.
pub fn not_built(command: &str) -> anyhow::Result<()> {
    Err(UsageError(format!("`satchel {command}` is not built yet")).into())
}
