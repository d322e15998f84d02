//! Support for worker processes: small programs that do what could harm the process that needs it (ADR 0006).
//!
//! A [`WorkerProgram`] is started as a [`WorkerProcess`], which gets no environment and none of Satchel's own files, is
//! read line by line, and is killed with everything that it has started. A worker confines itself with [`confine`],
//! before it reports that it is ready. A [`SlotPool`] shares a number of workers fairly between people.
//!
//! With the feature `user-program` also the programs of the operator, such as a speech synthesiser: `run_user_program`.

/// The exit code of a worker that the system forbids to confine itself; it then does no work.
pub const EXIT_UNCONFINED: u8 = 3;

#[cfg(feature = "confine")]
pub mod confine;
#[cfg(feature = "host")]
mod framing;
#[cfg(feature = "host")]
mod process;
#[cfg(feature = "host")]
mod program;
#[cfg(feature = "host")]
mod slots;
#[cfg(feature = "user-program")]
mod user_program;

#[cfg(feature = "host")]
pub use framing::{LineRead, LineReader};
#[cfg(feature = "host")]
pub use process::{WorkerExit, WorkerProcess};
#[cfg(feature = "host")]
pub use program::{WorkerProgram, WorkerStartError};
#[cfg(feature = "host")]
pub use slots::{SlotPermit, SlotPool};
#[cfg(feature = "user-program")]
pub use user_program::{OutputChunk, UserProgramError, collect_output, program_name, run_user_program};
