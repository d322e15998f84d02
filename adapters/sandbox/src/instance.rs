//! One instance of a guest: how the host calls it, and gives and takes bytes.

use std::{io, sync::Arc};

use wasmtime::{InstancePre, Memory, Store, Trap, WasmParams, WasmResults};

use crate::{
    deadline,
    engine::GuestEngine,
    wasi::{GuestState, Violation},
};

/// Where a guest takes its first path from.
const FIRST_PATH: usize = 4096;
/// Where it takes its second path from.
const SECOND_PATH: usize = 16384;
/// The longest path in bytes, as systems limit it.
const MAX_PATH_BYTES: usize = 4096;
/// Where a guest puts a file's description.
const STAT: usize = 64;
/// Where a guest's buffer begins.
const BUFFER: usize = 65536;
/// The size of a guest's buffer in bytes.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// A running guest.
pub(crate) struct GuestInstance {
    store: Store<GuestState>,
    instance: wasmtime::Instance,
    memory: Memory,
    engine: Arc<GuestEngine>,
}

/// Why a guest was stopped.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox stopped the operation: {0}")]
struct GuestStopped(String);

impl GuestInstance {
    pub(crate) fn start(
        mut store: Store<GuestState>,
        guest: &InstancePre<GuestState>,
        engine: Arc<GuestEngine>,
    ) -> io::Result<Self> {
        prepare_call(&mut store, &engine, 0)?;
        let instance = {
            let _running = engine.clock.run();
            guest.instantiate(&mut store).map_err(stopped)?
        };
        let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| missing("memory"))?;
        store.data_mut().memory = Some(memory);
        Ok(Self { store, instance, memory, engine })
    }

    /// Calls a function of the guest that returns an errno; it may write at most `bytes` bytes to files.
    pub(crate) fn call(&mut self, name: &str, parameters: impl WasmParams, bytes: usize) -> io::Result<()> {
        let errno: i32 = self.call_function(name, parameters, bytes)?;
        self.check(errno)
    }

    /// Calls a function of the guest that returns an errno and a number.
    pub(crate) fn call_for_number(&mut self, name: &str, parameters: impl WasmParams) -> io::Result<u32> {
        let (errno, number): (i32, u32) = self.call_function(name, parameters, 0)?;
        self.check(errno).map(|()| number)
    }

    fn call_function<R: WasmResults>(
        &mut self,
        name: &str,
        parameters: impl WasmParams,
        bytes: usize,
    ) -> io::Result<R> {
        let function = self.instance.get_typed_func(&mut self.store, name).map_err(|_| missing(name))?;
        prepare_call(&mut self.store, &self.engine, bytes)?;
        let _running = self.engine.clock.run();
        function.call(&mut self.store, parameters).map_err(stopped)
    }

    /// The host knows more of an error than a guest.
    fn check(&mut self, errno: i32) -> io::Result<()> {
        match (errno, self.store.data_mut().last_error.take()) {
            (0, _) => Ok(()),
            (_, Some(error)) => Err(error),
            (errno, None) => Err(io::Error::other(format!("the sandbox's guest failed with {errno}"))),
        }
    }

    /// Hands a path to the guest and returns its length.
    pub(crate) fn put_path(&mut self, path: &[u8]) -> io::Result<u32> {
        self.put_path_at(FIRST_PATH, path)
    }

    /// Hands two paths to the guest and returns their lengths.
    pub(crate) fn put_paths(&mut self, first: &[u8], second: &[u8]) -> io::Result<(u32, u32)> {
        Ok((self.put_path_at(FIRST_PATH, first)?, self.put_path_at(SECOND_PATH, second)?))
    }

    fn put_path_at(&mut self, start: usize, path: &[u8]) -> io::Result<u32> {
        if path.len() > MAX_PATH_BYTES {
            return Err(rustix::io::Errno::NAMETOOLONG.into());
        }
        self.memory.write(&mut self.store, start, path).map_err(io::Error::other)?;
        u32::try_from(path.len()).map_err(io::Error::other)
    }

    /// Fills the start of the guest's buffer.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.memory.write(&mut self.store, BUFFER, bytes).map_err(io::Error::other)
    }

    /// The first bytes of the guest's buffer.
    pub(crate) fn buffer(&self, length: u32) -> io::Result<&[u8]> {
        self.slice(BUFFER, length as usize)
    }

    /// The description that the guest was given last.
    pub(crate) fn stat(&self) -> io::Result<&[u8]> {
        self.slice(STAT, 64)
    }

    pub(crate) fn state(&self) -> &GuestState {
        self.store.data()
    }

    fn slice(&self, start: usize, length: usize) -> io::Result<&[u8]> {
        let memory = self.memory.data(&self.store).get(start..).and_then(|rest| rest.get(..length));
        memory.ok_or_else(|| io::Error::other(GuestStopped("it returned more than it has".to_owned())))
    }
}

/// Gives the guest what one call may use.
fn prepare_call(store: &mut Store<GuestState>, engine: &GuestEngine, bytes: usize) -> io::Result<()> {
    store.set_fuel(engine.limits.fuel).map_err(io::Error::other)?;
    store.set_epoch_deadline(deadline::ticks(engine.limits.deadline));
    let state = store.data_mut();
    (state.calls_left, state.bytes_left, state.last_error) = (engine.limits.host_calls, bytes as u64, None);
    Ok(())
}

fn stopped(error: wasmtime::Error) -> io::Error {
    let reason = match (error.downcast_ref::<Trap>(), error.downcast_ref::<Violation>()) {
        (Some(Trap::OutOfFuel), _) => "it computed for too long".to_owned(),
        (Some(Trap::Interrupt), _) => "it took too long".to_owned(),
        (Some(Trap::StackOverflow), _) => "it called itself too deeply".to_owned(),
        (Some(trap), _) => trap.to_string(),
        (None, Some(violation)) => violation.to_string(),
        (None, None) => error.root_cause().to_string(),
    };
    io::Error::other(GuestStopped(reason))
}

fn missing(name: &str) -> io::Error {
    io::Error::other(format!("the sandbox's guest has no `{name}`"))
}
