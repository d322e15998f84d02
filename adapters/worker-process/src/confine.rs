//! Confines the process: even a compromised interpreter or decoder can use only memory and its own pipes.
//!
//! There are two layers, either of which is meant to hold alone. The resource limits let the process open nothing,
//! write no file and use no more than its memory. On Linux, a seccomp filter allows only system calls for memory, time
//! and its three standard streams; the workers make no others.

use std::{error::Error, fmt, io};

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

#[cfg(target_os = "linux")]
mod filter;

/// Why the process is not confined. It must then read nothing that others wrote.
#[derive(Debug)]
pub struct ConfineError {
    action: &'static str,
    source: io::Error,
}

impl fmt::Display for ConfineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is printed alone before the process exits, so it includes its source.
        write!(formatter, "failed to {}: {}", self.action, self.source)
    }
}

impl Error for ConfineError {}

/// Confines the whole process permanently. Every thread that it needs must have been started. On Linux its address
/// space ends at `memory_bytes`, stacks included.
///
/// # Errors
/// [`ConfineError`] when the system refuses one of the limits.
pub fn confine(memory_bytes: u64) -> Result<(), ConfineError> {
    set_hard_limit(Resource::Nofile, 0, "forbid opening files")?;
    set_hard_limit(Resource::Fsize, 0, "forbid writing files")?;
    set_hard_limit(Resource::Core, 0, "forbid memory dumps")?;
    set_hard_limit(Resource::Nproc, 0, "forbid other processes")?;
    #[cfg(not(target_os = "linux"))]
    let _unlimited = memory_bytes;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_hard_limit(Resource::As, memory_bytes, "limit the memory")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| ConfineError { action: "forbid being looked at", source: error.into() })?;
        filter::install().map_err(|error| ConfineError {
            action: "filter the calls to the system",
            source: io::Error::other(error),
        })?;
    }
    Ok(())
}

/// What is added to the nice value. On Linux a program of usual priority gets ten times as much of a processor that both
/// want. At 19 it would get seventy times as much, and next to other busy programs nothing would be decoded in time.
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread, and of those that it starts, below that of usual programs.
///
/// # Errors
/// [`ConfineError`] when the system refuses.
pub fn lower_priority() -> Result<(), ConfineError> {
    nice(NICENESS).map(drop).map_err(|error| ConfineError { action: "lower the priority", source: error.into() })
}

/// Limits the processor time of the process; the system kills it after that.
///
/// # Errors
/// [`ConfineError`] when the system refuses.
pub fn limit_processor(seconds: u64) -> Result<(), ConfineError> {
    // One second between the two, so that the first signal identifies the cause.
    let seconds = seconds.max(1);
    set_limit(Resource::Cpu, seconds, seconds.saturating_add(1), "limit the processor time")
}

fn set_hard_limit(resource: Resource, max: u64, action: &'static str) -> Result<(), ConfineError> {
    set_limit(resource, max, max, action)
}

/// Sets a limit, or keeps the inherited one where that is lower: it can't be raised.
fn set_limit(resource: Resource, current: u64, maximum: u64, action: &'static str) -> Result<(), ConfineError> {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(allowed)), maximum: Some(maximum.min(allowed)) };
    setrlimit(resource, limit).map_err(|error| ConfineError { action, source: error.into() })
}
