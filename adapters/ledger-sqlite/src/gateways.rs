//! Gateways: which process receives the messages of a channel.
//!
//! All processes on the database share this machine, so a gateway is a file with an OS lock: it falls with its process,
//! however that ends, and a process on a full disk can claim it.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayLease, HolderId};

use crate::owners::OWNER_ONLY;

/// The gateways of a data directory, and the locks of those that this process holds.
#[derive(Debug)]
pub(crate) struct GatewayLocks {
    holder: HolderId,
    directory: PathBuf,
    locks: Mutex<HashMap<ChannelName, GatewayLock>>,
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
    pub(crate) fn claim(&self, channel: &ChannelName) -> io::Result<Option<GatewayLease>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let token = match locks.get_mut(channel) {
            Some(gateway) => {
                gateway.token = raise_token(&gateway.file)?;
                gateway.token
            }
            None => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false).mode(OWNER_ONLY);
                let file = options.open(self.directory.join(format!("{channel}.gateway")))?;
                match file.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                let token = raise_token(&file)?;
                locks.insert(channel.clone(), GatewayLock { file, token });
                token
            }
        };
        Ok(Some(GatewayLease { channel: channel.clone(), holder: self.holder, token }))
    }

    /// Whether a process holds a gateway.
    pub(crate) fn is_held(&self, channel: &ChannelName) -> io::Result<bool> {
        if self.locks.lock().unwrap_or_else(PoisonError::into_inner).contains_key(channel) {
            return Ok(true);
        }
        match File::open(self.directory.join(format!("{channel}.gateway"))) {
            // A shared lock, so that processes that look don't take each other for the holder. It falls with the file.
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a lease is valid: as long as its process lives and hasn't claimed the gateway once more.
    pub(crate) fn is_lease_valid(&self, lease: &GatewayLease) -> bool {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(&lease.channel).is_some_and(|gateway| self.is_of(lease, gateway))
    }

    pub(crate) fn release(&self, lease: &GatewayLease) {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|channel, gateway| {
            let is_released = *channel == lease.channel && self.is_of(lease, gateway);
            if is_released {
                // The lock falls with the file, too, but for a program that is just being started and has it open still.
                let _unlocked = gateway.file.unlock();
            }
            !is_released
        });
    }

    fn is_of(&self, lease: &GatewayLease, gateway: &GatewayLock) -> bool {
        lease.holder == self.holder && lease.token == gateway.token
    }
}

/// Returns the next fencing token. It is the length of the file, which has no bytes: the one number that can be stored on
/// a disk without room.
fn raise_token(file: &File) -> io::Result<u64> {
    let token = file.metadata()?.len() + 1;
    file.set_len(token)?;
    Ok(token)
}
