//! The settings of a conversation. One that nobody has changed anything for has no row.

use satchel_ports::ledger::{ConversationSetting, ConversationSettings};
use sqlx::{FromRow, Row, postgres::PgRow};

use crate::{
    database::{Database, params},
    error::Result,
    lanes::LaneId,
};

struct SettingsRow(ConversationSettings);

impl FromRow<'_, PgRow> for SettingsRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self(ConversationSettings {
            voice_replies: row.try_get("voice")?,
            agent: row.try_get("agent")?,
            persona: row.try_get("persona")?,
            model: row.try_get("model")?,
        }))
    }
}

pub(crate) async fn read(db: &Database, lane: LaneId) -> Result<ConversationSettings> {
    let row: Option<SettingsRow> = db
        .find("SELECT voice, agent, persona, model FROM conversation_settings WHERE lane = $1", params![lane])
        .await?;
    Ok(row.map(|row| row.0).unwrap_or_default())
}

pub(crate) async fn change(db: &Database, lane: LaneId, setting: &ConversationSetting) -> Result<()> {
    let (column, parameters) = match setting {
        ConversationSetting::VoiceReplies(on) => ("voice", params![lane, on]),
        ConversationSetting::Agent(agent) => ("agent", params![lane, agent]),
        ConversationSetting::Persona(persona) => ("persona", params![lane, persona]),
        ConversationSetting::Model(model) => ("model", params![lane, model]),
    };
    let sql = format!(
        "INSERT INTO conversation_settings (lane, {column}) VALUES ($1, $2) \
         ON CONFLICT (lane) DO UPDATE SET {column} = excluded.{column}"
    );
    db.run(&sql, parameters).await?;
    Ok(())
}

/// Gives a lane without settings those of another one.
pub(crate) async fn copy(db: &Database, from: LaneId, to: LaneId) -> Result<()> {
    db.run(
        "INSERT INTO conversation_settings (lane, voice, agent, persona, model) \
         SELECT $2, voice, agent, persona, model FROM conversation_settings WHERE lane = $1",
        params![from, to],
    )
    .await?;
    Ok(())
}

/// Removes the settings of a lane that is removed.
pub(crate) async fn remove(db: &Database, lane: LaneId) -> Result<()> {
    db.run("DELETE FROM conversation_settings WHERE lane = $1", params![lane]).await?;
    Ok(())
}
