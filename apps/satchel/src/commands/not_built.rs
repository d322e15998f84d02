//! Commands that are not built yet.

use super::UsageError;

/// Fails for a command that isn't built yet.
///
/// # Errors
/// Always.
pub fn not_built(command: &str) -> anyhow::Result<()> {
    Err(UsageError(format!("`satchel {command}` is not built yet")).into())
}
