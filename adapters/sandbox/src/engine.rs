//! The compiled guests, and a fresh instance for each piece of work.

use std::{borrow::Cow, io, sync::Arc};

use satchel_ports::{FileProfile, file_runner::MountDirectory};
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

/// The guests, compiled and linked.
pub(crate) struct GuestEngine {
    engine: Engine,
    reader: InstancePre<GuestState>,
    vault_reader: InstancePre<GuestState>,
    writer: InstancePre<GuestState>,
    pub(crate) clock: EpochClock,
    pub(crate) limits: Limits,
}

impl GuestEngine {
    pub(crate) fn compile(source: &GuestSource, limits: Limits) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(limits)?)?;
        let (reader, writer) = (Module::new(&engine, &*source.reader)?, Module::new(&engine, &*source.writer)?);
        let link = |profile, module| wasi::linker(&engine, profile)?.instantiate_pre(module);
        Ok(Self {
            reader: link(FileProfile::FileReadOnly, &reader)?,
            vault_reader: link(FileProfile::VaultRead, &reader)?,
            writer: link(FileProfile::FileReadWrite, &writer)?,
            clock: EpochClock::start(engine.clone())?,
            engine,
            limits,
        })
    }

    /// Makes a fresh instance of the profile's guest, which gets the directory.
    pub(crate) fn instantiate(
        self: &Arc<Self>,
        mount: MountDirectory,
        profile: FileProfile,
    ) -> io::Result<GuestInstance> {
        profile.check(mount.mount)?;
        let (guest, can_write) = match profile {
            FileProfile::FileReadOnly => (&self.reader, false),
            FileProfile::VaultRead => (&self.vault_reader, false),
            FileProfile::FileReadWrite => (&self.writer, true),
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
            descriptors: Descriptors::new(mount.directory, mount.access, can_write),
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
