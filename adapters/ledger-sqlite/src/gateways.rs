//! Gateways: which process does a duty of a channel.
//!
//! All processes on the database share this machine, so a gateway is a file with an OS lock: it falls with its process,
//! however that ends, and a process on a full disk can claim it.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayDuty, GatewayId, GatewayLease, HolderId};

use crate::owners::OWNER_ONLY;

/// The extension of a gateway's file.
const EXTENSION: &str = "gateway";

/// The gateways of a data directory, and the locks of those that this process holds.
#[derive(Debug)]
pub(crate) struct GatewayLocks {
    holder: HolderId,
    directory: PathBuf,
    locks: Mutex<HashMap<GatewayId, GatewayLock>>,
}

#[derive(Debug)]
struct GatewayLock {
    file: File,
    token: u64,
}

impl GatewayLocks {
    /// Knows the gateways of a holder; the directory is that of the owners' locks.
    pub(crate) fn new(holder: HolderId, directory: PathBuf) -> Self {
        Self { holder, directory, locks: Mutex::default() }
    }

    /// Claims a gateway, also one that this process holds.
    pub(crate) fn claim(&self, gateway: &GatewayId) -> io::Result<Option<GatewayLease>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let token = match locks.get_mut(gateway) {
            Some(lock) => {
                lock.token = raise_token(&lock.file)?;
                lock.token
            }
            None => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false).mode(OWNER_ONLY);
                let file = options.open(self.directory.join(format!("{gateway}.{EXTENSION}")))?;
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                let token = raise_token(&file)?;
                locks.insert(gateway.clone(), GatewayLock { file, token });
                token
            }
        };
        Ok(Some(GatewayLease { gateway: gateway.clone(), holder: self.holder, token }))
    }

    /// Lists the channels whose gateway for a duty is held by a process.
    pub(crate) fn list_held(&self, duty: GatewayDuty) -> io::Result<Vec<ChannelName>> {
        let mut channels = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some(gateway) = find_gateway(&path).filter(|gateway| gateway.duty == duty) else { continue };
            if self.is_held(&gateway, &path)? {
                channels.push(gateway.channel);
            }
        }
        Ok(channels)
    }

    fn is_held(&self, gateway: &GatewayId, path: &Path) -> io::Result<bool> {
        if self.locks.lock().unwrap_or_else(PoisonError::into_inner).contains_key(gateway) {
            return Ok(true);
        }
        // A shared lock, so that processes that look don't take each other for the holder. It falls with the file.
        match File::open(path)?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether a lease is valid: as long as its process lives and hasn't claimed the gateway once more.
    pub(crate) fn is_lease_valid(&self, lease: &GatewayLease) -> bool {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(&lease.gateway).is_some_and(|lock| self.is_of(lease, lock))
    }

    pub(crate) fn release(&self, lease: &GatewayLease) {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|gateway, lock| {
            let is_released = *gateway == lease.gateway && self.is_of(lease, lock);
            if is_released {
                // The lock falls with the file, too, but for a program that is just being started and has it open still.
                let _unlocked = lock.file.unlock();
            }
            !is_released
        });
    }

    fn is_of(&self, lease: &GatewayLease, lock: &GatewayLock) -> bool {
        lease.holder == self.holder && lease.token == lock.token
    }
}

/// The gateway whose file this is; `None` for other files.
fn find_gateway(path: &Path) -> Option<GatewayId> {
    let is_gateway = path.extension().is_some_and(|extension| extension == EXTENSION);
    GatewayId::parse(path.file_stem()?.to_str()?).filter(|_| is_gateway)
}

/// Returns the next fencing token. It is the length of the file, which has no bytes: the one number that can be stored on
/// a disk without room.
fn raise_token(file: &File) -> io::Result<u64> {
    let token = file.metadata()?.len() + 1;
    file.set_len(token)?;
    Ok(token)
}
