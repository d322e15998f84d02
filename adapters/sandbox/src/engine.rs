//! The compiled guests, and a fresh instance for each piece of work.

use std::{borrow::Cow, io, sync::Arc};

use satchel_ports::file_runner::MountDirectory;
use wasmtime::{Config, Engine, InstancePre, Module, OptLevel, Store, StoreLimitsBuilder, Strategy};

use crate::{
    deadline::EpochClock,
    descriptors::Descriptors,
    instance::GuestInstance,
    limits::Limits,
    wasi::{self, GuestState},
};

/// The guests as text: modules of WebAssembly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSource {
    /// The guest that reads.
    pub reader: Cow<'static, str>,
    /// The guest that changes files.
    pub writer: Cow<'static, str>,
}

/// What a guest is for, and with it what it may import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestRole {
    Reader,
    Writer,
}

/// The guests, compiled and linked.
pub(crate) struct GuestEngine {
    engine: Engine,
    reader: InstancePre<GuestState>,
    writer: InstancePre<GuestState>,
    pub(crate) clock: EpochClock,
    pub(crate) limits: Limits,
}

impl GuestEngine {
    pub(crate) fn compile(source: &GuestSource, limits: Limits) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(limits)?)?;
        let (reader, writer) = (Module::new(&engine, &*source.reader)?, Module::new(&engine, &*source.writer)?);
        let link = |role, module| wasi::linker(&engine, role)?.instantiate_pre(module);
        Ok(Self {
            reader: link(GuestRole::Reader, &reader)?,
            writer: link(GuestRole::Writer, &writer)?,
            clock: EpochClock::start(engine.clone())?,
            engine,
            limits,
        })
    }

    /// Makes a fresh instance of a guest, which gets the directory.
    pub(crate) fn instantiate(self: &Arc<Self>, mount: MountDirectory, role: GuestRole) -> io::Result<GuestInstance> {
        let guest = match role {
            GuestRole::Reader => &self.reader,
            GuestRole::Writer => &self.writer,
        };
        let limits = StoreLimitsBuilder::new()
            .memory_size(self.limits.memory_bytes)
            .memories(1)
            .tables(1)
            .table_elements(16)
            .instances(1)
            .trap_on_grow_failure(true)
            .build();
        let state = GuestState {
            descriptors: Descriptors::new(mount.directory, mount.access, role == GuestRole::Writer),
            memory: None,
            calls_left: 0,
            bytes_left: 0,
            last_error: None,
            limits,
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limits);
        GuestInstance::start(store, guest, self.clone())
    }
}

/// Small, fresh and without any help of signals: a guest needs no reserved address space, and a crash of Satchel's own
/// stays a crash.
fn config(limits: Limits) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::None)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        .memory_reservation(limits.memory_bytes as u64)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .signals_based_traps(false);
    Ok(config)
}
