//! The commands that come later: known, and honest about it.

use super::WrongUsage;

/// Answers for a command that isn't built yet.
///
/// # Errors
/// Always.
pub fn not_built(command: &str) -> anyhow::Result<()> {
    Err(WrongUsage(format!("`satchel {command}` is not built yet")).into())
}
