//! How much a guest may use.

use std::time::Duration;

/// What one call of a guest may use. Each operation on a file is one call, or one for each chunk of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The memory of a guest in bytes.
    pub memory_bytes: usize,
    /// The stack of a guest in bytes.
    pub stack_bytes: usize,
    /// How much a call may compute; about one unit an instruction.
    pub fuel: u64,
    /// How often a call may call the host.
    pub host_calls: u32,
    /// How long a call may take. A call of the host that has begun, such as an fsync, is never cut off.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 20,
            stack_bytes: 64 << 10,
            fuel: 1_000_000,
            host_calls: 1_000,
            deadline: Duration::from_secs(60),
        }
    }
}
