//! Gateways: which process receives the messages of a channel.
//!
//! All processes on the database share this machine, so a lease lasts as long as its holder's process, and renewing it
//! writes nothing.

use rusqlite::{OptionalExtension, params};
use satchel_domain::ChannelName;
use satchel_ports::ledger::{GatewayLease, HolderId};
use uuid::Uuid;

use crate::{
    database::{Database, Query},
    error::Result,
};

/// Returns whether a gateway seems free. Only a hint, so that a process that waits writes nothing; [`claim`] looks again.
pub(crate) fn is_free(db: &Database, channel: &ChannelName) -> Result<bool> {
    Ok(find(db, channel)?.is_none_or(|(holder, _)| is_claimable(db, holder)))
}

pub(crate) fn claim(db: &Database, channel: &ChannelName) -> Result<Option<GatewayLease>> {
    let last_token = match find(db, channel)? {
        Some((holder, _)) if !is_claimable(db, holder) => return Ok(None),
        found => found.map_or(0, |(_, token)| token),
    };
    let (holder, token) = (db.process.holder, last_token + 1);
    db.run(
        "INSERT INTO gateways (channel, holder, token) VALUES (?1, ?2, ?3) \
         ON CONFLICT (channel) DO UPDATE SET holder = excluded.holder, token = excluded.token",
        params![channel.as_str(), holder.0, token],
    )?;
    Ok(Some(GatewayLease { channel: channel.clone(), holder, token: token.cast_unsigned() }))
}

pub(crate) fn is_held(db: &Database, channel: &ChannelName) -> Result<bool> {
    let holder = find(db, channel)?.and_then(|(holder, _)| holder);
    Ok(holder.is_some_and(|holder| !db.process.owners.is_gone(holder)))
}

pub(crate) fn is_lease_valid(db: &Database, lease: &GatewayLease) -> Result<bool> {
    Ok(find(db, &lease.channel)? == Some((Some(lease.holder), lease.token.cast_signed())))
}

pub(crate) fn release(db: &Database, lease: &GatewayLease) -> Result<()> {
    db.run(
        "UPDATE gateways SET holder = NULL WHERE channel = ?1 AND holder = ?2 AND token = ?3",
        params![lease.channel.as_str(), lease.holder.0, lease.token.cast_signed()],
    )?;
    Ok(())
}

/// Finds the holder and the last token of a gateway.
fn find(db: &Database, channel: &ChannelName) -> Result<Option<(Option<HolderId>, i64)>> {
    let mut statement = db.prepare_cached("SELECT holder, token FROM gateways WHERE channel = ?1")?;
    let found =
        statement.query_row([channel.as_str()], |row| Ok((row.get::<_, Option<Uuid>>(0)?.map(HolderId), row.get(1)?)));
    Ok(found.optional()?)
}

fn is_claimable(db: &Database, holder: Option<HolderId>) -> bool {
    holder.is_none_or(|holder| holder == db.process.holder || db.process.owners.is_gone(holder))
}
