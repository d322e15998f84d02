//! The functions of WASI preview 1 that a guest may import, and one more that WASI lacks. There are no others: no
//! clock, no randomness, no environment, no arguments, no standard streams, no sockets.
//!
//! The layouts are those of `wasi_snapshot_preview1.witx`.

use std::io;

use wasmtime::{Caller, Engine, Error, Linker, Memory};

use crate::{
    descriptors::{Descriptors, OpenMode, PathAt, WasiStat},
    engine::GuestRole,
};

/// The module of WASI's functions.
const WASI: &str = "wasi_snapshot_preview1";

/// The module of our own.
const SATCHEL: &str = "satchel";

/// The size of an entry of a directory before its name (`dirent`).
pub(crate) const ENTRY_HEADER_BYTES: usize = 24;

/// What belongs to one guest.
pub(crate) struct GuestState {
    pub(crate) descriptors: Descriptors,
    /// The guest's memory; none before it is instantiated.
    pub(crate) memory: Option<Memory>,
    /// How many more calls of the host it may make.
    pub(crate) calls_left: u32,
    /// How many more bytes it may write.
    pub(crate) bytes_left: u64,
    /// Why the last failed call of the host failed.
    pub(crate) last_error: Option<io::Error>,
    pub(crate) limits: wasmtime::StoreLimits,
}

/// Why a guest is stopped by the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Violation {
    #[error("it made too many calls")]
    TooManyCalls,
    #[error("it wrote more than it was given")]
    TooManyBytes,
    #[error("it pointed outside its memory")]
    BadPointer,
}

/// The functions that a guest may import.
pub(crate) fn linker(engine: &Engine, role: GuestRole) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    link_reading(&mut linker)?;
    if role == GuestRole::Writer {
        link_writing(&mut linker)?;
    }
    Ok(linker)
}

fn link_reading(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, "path_open", path_open)?;
    linker.func_wrap(
        WASI,
        "path_filestat_get",
        |caller: Caller<'_, GuestState>, directory: u32, flags: u32, path: u32, length: u32, out: u32| {
            host_call(caller, |memory, state| {
                let stat = state.descriptors.stat_path(directory, bytes(memory, path, length)?, follows(flags));
                Ok(stat.and_then(|stat| write_stat(memory, out, &stat)))
            })
        },
    )?;
    linker.func_wrap(WASI, "fd_filestat_get", |caller: Caller<'_, GuestState>, descriptor: u32, out: u32| {
        host_call(caller, |memory, state| {
            Ok(state.descriptors.stat(descriptor).and_then(|stat| write_stat(memory, out, &stat)))
        })
    })?;
    linker.func_wrap(
        WASI,
        "fd_read",
        |caller: Caller<'_, GuestState>, descriptor: u32, vectors: u32, count: u32, out: u32| {
            host_call(caller, |memory, state| {
                let (start, length) = first_vector(memory, vectors, count)?;
                let read = state.descriptors.read(descriptor, bytes_mut(memory, start, length)?);
                Ok(read.and_then(|read| write_u32(memory, out, read)))
            })
        },
    )?;
    linker.func_wrap(
        WASI,
        "fd_readdir",
        |caller: Caller<'_, GuestState>, descriptor: u32, buffer: u32, capacity: u32, cookie: u64, out: u32| {
            host_call(caller, |memory, state| {
                let used =
                    read_entries(&mut state.descriptors, descriptor, cookie, bytes_mut(memory, buffer, capacity)?);
                Ok(used.and_then(|used| write_u32(memory, out, used)))
            })
        },
    )?;
    linker.func_wrap(WASI, "fd_close", |caller: Caller<'_, GuestState>, descriptor: u32| {
        host_call(caller, |_, state| Ok(state.descriptors.close(descriptor)))
    })?;
    Ok(())
}

fn link_writing(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(
        WASI,
        "fd_write",
        |caller: Caller<'_, GuestState>, descriptor: u32, vectors: u32, count: u32, out: u32| {
            host_call(caller, |memory, state| {
                let (start, length) = first_vector(memory, vectors, count)?;
                let after = state.bytes_left.checked_sub(u64::from(length)).ok_or(Violation::TooManyBytes)?;
                let written = state.descriptors.write(descriptor, bytes(memory, start, length)?);
                if let Ok(written) = &written {
                    // A full disk may take a part of them; the guest then asks for the rest.
                    state.bytes_left = after + (length as usize - written) as u64;
                }
                Ok(written.and_then(|written| write_u32(memory, out, written)))
            })
        },
    )?;
    linker.func_wrap(WASI, "fd_sync", |caller: Caller<'_, GuestState>, descriptor: u32| {
        host_call(caller, |_, state| Ok(state.descriptors.sync(descriptor)))
    })?;
    link_on_path(linker, "path_create_directory", Descriptors::create_directory)?;
    link_on_path(linker, "path_unlink_file", Descriptors::unlink)?;
    link_on_path(linker, "path_remove_directory", Descriptors::remove_directory)?;
    linker.func_wrap(
        WASI,
        "path_link",
        |caller: Caller<'_, GuestState>,
         from: u32,
         _flags: u32,
         from_path: u32,
         from_length: u32,
         to: u32,
         to_path: u32,
         to_length: u32| {
            host_call(caller, |memory, state| {
                let from = (from, bytes(memory, from_path, from_length)?);
                Ok(state.descriptors.link(from, (to, bytes(memory, to_path, to_length)?)))
            })
        },
    )?;
    link_on_paths(linker, WASI, "path_rename", Descriptors::rename)?;
    link_on_paths(linker, SATCHEL, "path_rename_new", Descriptors::rename_new)
}

/// Links a function of a directory and a path beneath it.
fn link_on_path(
    linker: &mut Linker<GuestState>,
    name: &str,
    operation: fn(&Descriptors, u32, &[u8]) -> io::Result<()>,
) -> wasmtime::Result<()> {
    linker.func_wrap(WASI, name, move |caller: Caller<'_, GuestState>, directory: u32, path: u32, length: u32| {
        host_call(caller, |memory, state| Ok(operation(&state.descriptors, directory, bytes(memory, path, length)?)))
    })?;
    Ok(())
}

/// Links a function of two directories and a path beneath each.
fn link_on_paths(
    linker: &mut Linker<GuestState>,
    module: &str,
    name: &str,
    operation: fn(&Descriptors, PathAt<'_>, PathAt<'_>) -> io::Result<()>,
) -> wasmtime::Result<()> {
    linker.func_wrap(
        module,
        name,
        move |caller: Caller<'_, GuestState>,
              from: u32,
              from_path: u32,
              from_length: u32,
              to: u32,
              to_path: u32,
              to_length: u32| {
            host_call(caller, |memory, state| {
                let from = (from, bytes(memory, from_path, from_length)?);
                Ok(operation(&state.descriptors, from, (to, bytes(memory, to_path, to_length)?)))
            })
        },
    )?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "WASI's signature")]
fn path_open(
    caller: Caller<'_, GuestState>,
    directory: u32,
    lookup_flags: u32,
    path: u32,
    length: u32,
    open_flags: u32,
    rights: u64,
    _inheriting_rights: u64,
    _descriptor_flags: u32,
    out: u32,
) -> Result<i32, Error> {
    host_call(caller, |memory, state| {
        let path = bytes(memory, path, length)?;
        let opened = open_mode(open_flags, rights)
            .and_then(|mode| state.descriptors.open(directory, path, follows(lookup_flags), mode));
        Ok(opened.and_then(|descriptor| write_u32(memory, out, descriptor as usize)))
    })
}

/// The ways of opening that guests have: a directory, a file for reading, a new file.
fn open_mode(flags: u32, rights: u64) -> io::Result<OpenMode> {
    const CREATE_NEW: u32 = 0b101;
    const DIRECTORY: u32 = 0b10;
    const WRITE: u64 = 1 << 6;
    match (flags, rights & WRITE != 0) {
        (CREATE_NEW, true) => Ok(OpenMode::CreateNew),
        (DIRECTORY, false) => Ok(OpenMode::Directory),
        (0, false) => Ok(OpenMode::Read),
        _ => Err(rustix::io::Errno::NOTSUP.into()),
    }
}

/// Runs one call of a guest and returns its errno. What breaks a rule ends the guest.
fn host_call(
    mut caller: Caller<'_, GuestState>,
    operation: impl FnOnce(&mut [u8], &mut GuestState) -> Result<io::Result<()>, Violation>,
) -> Result<i32, Error> {
    let memory = caller.data().memory.ok_or(Violation::BadPointer)?;
    let (memory, state) = memory.data_and_store_mut(&mut caller);
    state.calls_left = state.calls_left.checked_sub(1).ok_or(Violation::TooManyCalls)?;
    Ok(match operation(memory, state)? {
        Ok(()) => 0,
        Err(error) => {
            let errno = errno(&error);
            state.last_error = Some(error);
            errno
        }
    })
}

/// The errors that guests tell apart; all others are the same to them, and the host keeps what they were.
fn errno(error: &io::Error) -> i32 {
    match error.kind() {
        io::ErrorKind::AlreadyExists => 20,
        io::ErrorKind::NotFound => 44,
        // ENOTCAPABLE: an attempt to leave the directory.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => 76,
        _ => 29,
    }
}

fn follows(lookup_flags: u32) -> bool {
    lookup_flags & 1 != 0
}

/// Writes as many entries as fit, the last one perhaps cut, and returns their bytes.
fn read_entries(descriptors: &mut Descriptors, descriptor: u32, cookie: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let (mut used, mut cookie) = (0, cookie);
    while used < buffer.len() {
        let Some(entry) = descriptors.peek_entry(descriptor, cookie)? else { break };
        cookie += 1;
        let mut header = [0; ENTRY_HEADER_BYTES];
        header[..8].copy_from_slice(&cookie.to_le_bytes());
        header[16..20].copy_from_slice(&u32::try_from(entry.name.len()).unwrap_or(u32::MAX).to_le_bytes());
        header[20] = entry.file_type;
        for part in [&header[..], &entry.name[..]] {
            let fitting = part.len().min(buffer.len() - used);
            buffer[used..used + fitting].copy_from_slice(&part[..fitting]);
            used += fitting;
        }
    }
    Ok(used)
}

fn bytes(memory: &[u8], start: u32, length: u32) -> Result<&[u8], Violation> {
    memory.get(start as usize..).and_then(|rest| rest.get(..length as usize)).ok_or(Violation::BadPointer)
}

fn bytes_mut(memory: &mut [u8], start: u32, length: u32) -> Result<&mut [u8], Violation> {
    memory.get_mut(start as usize..).and_then(|rest| rest.get_mut(..length as usize)).ok_or(Violation::BadPointer)
}

/// The first of some I/O vectors: its start and length.
fn first_vector(memory: &[u8], vectors: u32, count: u32) -> Result<(u32, u32), Violation> {
    if count == 0 {
        return Ok((0, 0));
    }
    let vector = bytes(memory, vectors, 8)?;
    let number = |at: usize| u32::from_le_bytes([vector[at], vector[at + 1], vector[at + 2], vector[at + 3]]);
    Ok((number(0), number(4)))
}

fn write_u32(memory: &mut [u8], start: u32, value: usize) -> io::Result<()> {
    let value = u32::try_from(value).map_err(io::Error::other)?;
    write_bytes(memory, start, &value.to_le_bytes())
}

/// Writes a `filestat`: device, inode, links and the times that no guest needs stay 0.
fn write_stat(memory: &mut [u8], start: u32, stat: &WasiStat) -> io::Result<()> {
    let mut filestat = [0; 64];
    filestat[16] = stat.file_type;
    filestat[32..40].copy_from_slice(&stat.bytes.to_le_bytes());
    filestat[48..56].copy_from_slice(&stat.modified_ns.to_le_bytes());
    write_bytes(memory, start, &filestat)
}

fn write_bytes(memory: &mut [u8], start: u32, value: &[u8]) -> io::Result<()> {
    let target = memory.get_mut(start as usize..).and_then(|rest| rest.get_mut(..value.len()));
    target.ok_or(rustix::io::Errno::FAULT)?.copy_from_slice(value);
    Ok(())
}
