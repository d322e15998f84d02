//! The settings of a conversation. One that nobody has changed anything for has no row.

use rusqlite::{Row, params};
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
    db.run("INSERT INTO conversation_settings (lane) VALUES (?1) ON CONFLICT DO NOTHING", [lane])?;
    match setting {
        ConversationSetting::VoiceReplies(on) => {
            db.run("UPDATE conversation_settings SET voice = ?2 WHERE lane = ?1", params![lane, on])?
        }
        ConversationSetting::Agent(agent) => {
            db.run("UPDATE conversation_settings SET agent = ?2 WHERE lane = ?1", params![lane, agent])?
        }
        ConversationSetting::Persona(persona) => {
            db.run("UPDATE conversation_settings SET persona = ?2 WHERE lane = ?1", params![lane, persona])?
        }
        ConversationSetting::Model(model) => {
            db.run("UPDATE conversation_settings SET model = ?2 WHERE lane = ?1", params![lane, model])?
        }
    };
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
