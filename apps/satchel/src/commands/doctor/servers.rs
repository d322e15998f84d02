//! Checks the servers that several machines share: the database, the bucket and the bus. Nothing that stays is written.

use satchel_ledger_postgres::{ConnectError, DatabaseInspection, Settings};
use satchel_nats::{BusInspection, NatsError};
use secrecy::SecretString;

use super::{Finding, storage::notifications_finding};
use crate::{
    config::{Config, storage::BlobBackend},
    server_wait::ServerWait,
    stores,
};

/// Checks the database on a server, and returns how many processes work with it.
pub(super) async fn check_postgres(url: &SecretString, findings: &mut Vec<Finding>) -> Option<usize> {
    const CHECK: &str = "database";
    let inspection = match DatabaseInspection::read(&Settings::new(url.clone())).await {
        Ok(inspection) => inspection,
        Err(error) => {
            let advice = match &error {
                ConnectError::Unreachable { .. } => "start the server, or correct `storage.database_url`",
                _ => "correct `storage.database_url`, or what its server allows",
            };
            findings.push(Finding::problem(CHECK, format!("{:#}", anyhow::Error::new(error)), advice));
            return None;
        }
    };
    let DatabaseInspection { server, database, schema, role, known, processes, .. } = &inspection;
    let address = format!("schema `{schema}` of the database `{database}` at {server}");
    findings.push(match inspection.version {
        None if inspection.is_foreign => Finding::problem(
            CHECK,
            format!("{address} holds other tables"),
            "choose an empty one with `?options=-c search_path=NAME` in `storage.database_url`",
        ),
        None if !inspection.can_create => Finding::problem(
            CHECK,
            format!("{address} has no tables yet, and the role `{role}` may not create them"),
            format!("run `CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {role}` as an administrator"),
        ),
        None => Finding::ok(CHECK, format!("{address} has no tables yet; the first start creates them")),
        Some(version) if version > *known => Finding::problem(
            CHECK,
            format!("{address} was written by a newer Satchel: schema version {version}, this one knows up to {known}"),
            "update this Satchel; an older version can't use a newer version's data",
        ),
        Some(version) if version < *known && *processes > 0 => Finding::problem(
            CHECK,
            format!(
                "{address} has schema version {version}, this Satchel needs {known}; processes connected: {processes}"
            ),
            "stop all processes of the older version, then start one of this version first, which converts the schema",
        ),
        Some(version) if version < *known => {
            Finding::ok(CHECK, format!("{address}: schema version {version}, converted to {known} at the next start"))
        }
        Some(version) => Finding::ok(CHECK, format!("{address}: schema version {version}")),
    });
    findings.extend(notifications_finding(&inspection.notifications));
    if inspection.is_superuser {
        let found = format!("the role `{role}` may do everything on the database server");
        let advice =
            format!("give Satchel a role of its own: `CREATE SCHEMA {schema} AUTHORIZATION that_role` is all it needs");
        findings.push(Finding::warning(CHECK, found, advice));
    }
    Some(inspection.processes)
}

/// Checks the bucket for the bytes of files, if they are in one.
pub(super) async fn check_bucket(config: &Config) -> Option<Finding> {
    const CHECK: &str = "bucket";
    let Some(BlobBackend::S3(_)) = &config.storage.blobs_url else { return None };
    Some(match stores::open_bucket(config, ServerWait::Never).await {
        Ok(blobs) => Finding::ok(CHECK, format!("{} can be listed, read and written", blobs.address())),
        Err(error) => {
            let advice =
                "`docs/guide/scaling.md` has the permissions that it takes; check the URL, the keys and the network";
            Finding::problem(CHECK, format!("{error:#}"), advice)
        }
    })
}

/// Checks the server that carries events, if there is one.
pub(super) async fn check_bus(config: &Config) -> Option<Finding> {
    const CHECK: &str = "bus";
    let settings = config.bus.nats()?;
    let inspection = match BusInspection::read(&settings).await {
        Ok(inspection) => inspection,
        Err(error) => {
            let advice = match &error {
                NatsError::Unreachable { .. } => "start the server, or correct `bus.url`",
                _ => "`docs/guide/events.md` has what the server needs; correct the settings of `bus` or the server",
            };
            return Some(Finding::problem(CHECK, format!("{:#}", anyhow::Error::new(error)), advice));
        }
    };
    let BusInspection { hosts, server_version, is_encrypted, has_streams, newest_event_version, known_event_version } =
        inspection;
    let streams = if has_streams { "its streams are there" } else { "the first start makes its streams" };
    let encryption = if is_encrypted { "encrypted" } else { "not encrypted" };
    let server = format!("NATS {server_version} at {hosts} has JetStream, {streams}; the connection is {encryption}");
    Some(match newest_event_version {
        Some(version) if version > known_event_version => Finding::warning(
            CHECK,
            format!(
                "{server}; another Satchel writes events of version {version}, this one reads up to {known_event_version}"
            ),
            "update this Satchel; until then its page doesn't show at once what the others do",
        ),
        _ => Finding::ok(CHECK, format!("{server}; events have version {known_event_version}")),
    })
}
