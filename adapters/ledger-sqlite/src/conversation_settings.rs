//! The settings of a conversation. One that nobody has changed anything for has no row.

use rusqlite::{Row, ToSql, params};
use satchel_ports::ledger::{ConversationSetting, ConversationSettings};

use crate::{
    database::{Database, Query},
    error::Result,
    lanes::LaneId,
};

struct SettingsRow(ConversationSettings);

impl TryFrom<&Row<'_>> for SettingsRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(ConversationSettings {
            voice_replies: row.get("voice")?,
            agent: row.get("agent")?,
            persona: row.get("persona")?,
            model: row.get("model")?,
        }))
    }
}

pub(crate) fn read(db: &Database, lane: LaneId) -> Result<ConversationSettings> {
    let row: Option<SettingsRow> =
        db.find("SELECT voice, agent, persona, model FROM conversation_settings WHERE lane = ?1", [lane])?;
    Ok(row.map(|row| row.0).unwrap_or_default())
}

pub(crate) fn change(db: &Database, lane: LaneId, setting: &ConversationSetting) -> Result<()> {
    let (column, value): (&str, &dyn ToSql) = match setting {
        ConversationSetting::VoiceReplies(on) => ("voice", on),
        ConversationSetting::Agent(agent) => ("agent", agent),
        ConversationSetting::Persona(persona) => ("persona", persona),
        ConversationSetting::Model(model) => ("model", model),
    };
    db.run(
        &format!(
            "INSERT INTO conversation_settings (lane, {column}) VALUES (?1, ?2) \
             ON CONFLICT (lane) DO UPDATE SET {column} = excluded.{column}"
        ),
        params![lane, value],
    )?;
    Ok(())
}

/// Gives a lane without settings those of another one.
pub(crate) fn copy(db: &Database, from: LaneId, to: LaneId) -> Result<()> {
    db.run(
        "INSERT INTO conversation_settings (lane, voice, agent, persona, model) \
         SELECT ?2, voice, agent, persona, model FROM conversation_settings WHERE lane = ?1",
        params![from, to],
    )?;
    Ok(())
}

/// Removes the settings of a lane that is removed.
pub(crate) fn remove(db: &Database, lane: LaneId) -> Result<()> {
    db.run("DELETE FROM conversation_settings WHERE lane = ?1", [lane])?;
    Ok(())
}
