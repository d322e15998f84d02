//! Gateways: which process does a duty of a channel. The column `channel` has the text of the gateway.

use satchel_domain::ChannelName;
use satchel_ports::ledger::{GATEWAY_TAKEOVER, GatewayDuty, GatewayId, GatewayLease, HolderId};

use satchel_ledger_sql::{Session, params};

use crate::{error::Result, session::Database};

/// Returns whether a gateway seems free. Only a hint, so that a process that waits writes nothing; [`claim`] looks again.
pub(crate) async fn is_free(db: &Database, gateway: &GatewayId) -> Result<bool> {
    db.value(
        "SELECT NOT EXISTS (SELECT 1 FROM gateways WHERE channel = $1 AND holder <> $2 AND expires_at > ledger_now())",
        params![gateway.to_string(), db.process.holder.0],
    )
    .await
}

pub(crate) async fn claim(db: &Database, gateway: &GatewayId) -> Result<Option<GatewayLease>> {
    let holder = db.process.holder;
    let claimed: Option<(i64,)> = db
        .find(
            "INSERT INTO gateways (channel, holder, token, expires_at) VALUES ($1, $2, 1, ledger_now() + $3) \
             ON CONFLICT (channel) DO UPDATE \
             SET holder = excluded.holder, token = gateways.token + 1, expires_at = excluded.expires_at \
             WHERE gateways.holder IS NULL OR gateways.holder = $2 OR gateways.expires_at <= ledger_now() \
             RETURNING token",
            params![gateway.to_string(), holder.0, lease_ms()],
        )
        .await?;
    Ok(claimed.map(|(token,)| GatewayLease { gateway: gateway.clone(), holder, token: token.cast_unsigned() }))
}

/// Lists the channels whose gateway for a duty is held. There are few gateways, so they are told apart here.
pub(crate) async fn list_held(db: &Database, duty: GatewayDuty) -> Result<Vec<ChannelName>> {
    let held: Vec<(String,)> = db
        .all("SELECT channel FROM gateways WHERE holder IS NOT NULL AND expires_at > ledger_now()", params![])
        .await?;
    let gateways = held.iter().filter_map(|(text,)| GatewayId::parse(text));
    Ok(gateways.filter(|gateway| gateway.duty == duty).map(|gateway| gateway.channel).collect())
}

/// Renews a lease, also an expired one that nobody has claimed since; `false` if it is lost.
pub(crate) async fn renew(db: &Database, lease: &GatewayLease) -> Result<bool> {
    let GatewayLease { gateway, holder: HolderId(holder), token } = lease;
    let renewed = db
        .run(
            "UPDATE gateways SET expires_at = ledger_now() + $4 WHERE channel = $1 AND holder = $2 AND token = $3",
            params![gateway.to_string(), *holder, token.cast_signed(), lease_ms()],
        )
        .await?;
    Ok(renewed > 0)
}

pub(crate) async fn release(db: &Database, lease: &GatewayLease) -> Result<()> {
    let GatewayLease { gateway, holder: HolderId(holder), token } = lease;
    db.run(
        "UPDATE gateways SET holder = NULL WHERE channel = $1 AND holder = $2 AND token = $3",
        params![gateway.to_string(), *holder, token.cast_signed()],
    )
    .await?;
    Ok(())
}

fn lease_ms() -> i64 {
    i64::try_from(GATEWAY_TAKEOVER.as_millis()).unwrap_or(i64::MAX)
}
