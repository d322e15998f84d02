//! Shuts the process in: what a script might make of the interpreter, it can do with memory and its own pipes only.
//!
//! Two walls, either of which is meant to hold alone. The limits of the process let it open nothing, write no file and
//! grow no further than [`MAX_MEMORY_BYTES`]. On Linux, a filter lets it ask the kernel for nothing but memory, time and its three
//! standard streams; every other call is refused, which the interpreter never notices, since it makes none.

use std::{error::Error, fmt, io};

use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

#[cfg(target_os = "linux")]
mod filter;

/// How much of its address space the process may use, in bytes: the heap of a script, its stack, and the rest.
#[cfg(target_os = "linux")]
const MAX_MEMORY_BYTES: u64 = satchel_starlark::protocol::WORKER_MEMORY_BYTES;

/// Why the process is not shut in. It must then evaluate nothing.
#[derive(Debug)]
pub struct ConfineError {
    what: &'static str,
    source: io::Error,
}

impl fmt::Display for ConfineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is printed alone, at the end of the process, so it tells its source too.
        write!(formatter, "failed to {}: {}", self.what, self.source)
    }
}

impl Error for ConfineError {}

/// Shuts the whole process in, for good. Every thread that it needs must have been started.
///
/// # Errors
/// [`ConfineError`] when the system refuses one of the walls.
pub fn confine() -> Result<(), ConfineError> {
    limit(Resource::Nofile, 0, "forbid opening files")?;
    limit(Resource::Fsize, 0, "forbid writing files")?;
    limit(Resource::Core, 0, "forbid memory dumps")?;
    limit(Resource::Nproc, 0, "forbid other processes")?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        limit(Resource::As, MAX_MEMORY_BYTES, "limit the memory")?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| ConfineError { what: "forbid being looked at", source: error.into() })?;
        filter::install().map_err(|error| ConfineError {
            what: "filter the calls to the system",
            source: io::Error::other(error),
        })?;
    }
    Ok(())
}

/// Lets everything else on the machine go before the calling thread, and before those that it starts.
///
/// # Errors
/// [`ConfineError`] when the system refuses.
pub(crate) fn lower_priority() -> Result<(), ConfineError> {
    nice(19).map(drop).map_err(|error| ConfineError { what: "lower the priority", source: error.into() })
}

/// Lets the process use so much more processor time and no more; the system ends it then.
///
/// # Errors
/// [`ConfineError`] when the system refuses.
pub fn limit_processor(seconds: u64) -> Result<(), ConfineError> {
    // A second between the two, so that the first signal is the one that says what happened.
    let seconds = seconds.max(1);
    set_limit(Resource::Cpu, seconds, seconds.saturating_add(1), "limit the processor time")
}

fn limit(resource: Resource, most: u64, what: &'static str) -> Result<(), ConfineError> {
    set_limit(resource, most, most, what)
}

/// Sets a limit, or keeps what whoever started us allows where that is less: it can't be raised.
fn set_limit(resource: Resource, current: u64, maximum: u64, what: &'static str) -> Result<(), ConfineError> {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(current.min(allowed)), maximum: Some(maximum.min(allowed)) };
    setrlimit(resource, limit).map_err(|error| ConfineError { what, source: error.into() })
}
