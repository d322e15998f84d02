//! The settings of a conversation. One that nobody has changed anything for has no row.

use satchel_domain::Timestamp;
use satchel_ports::ledger::{ConversationSetting, ConversationSettings};

use crate::{
    columns::{FromRow, Row},
    lanes::LaneId,
    parameters::ToParameter,
    params,
    session::{Session, VerbResult},
};

struct SettingsRow(ConversationSettings);

impl FromRow for SettingsRow {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        let blocks_offered_at: Option<i64> = row.get("blocks_offered_at")?;
        Ok(Self(ConversationSettings {
            voice_replies: row.get("voice")?,
            agent: row.get("agent")?,
            persona: row.get("persona")?,
            model: row.get("model")?,
            blocks: row.get("blocks")?,
            blocks_offered_at: blocks_offered_at.map(Timestamp),
        }))
    }
}

pub(crate) async fn read<S: Session>(db: &S, lane: LaneId) -> VerbResult<ConversationSettings, S> {
    let row: Option<SettingsRow> = db
        .find(
            "SELECT voice, agent, persona, model, blocks, blocks_offered_at FROM conversation_settings WHERE lane = $1",
            params![lane],
        )
        .await?;
    Ok(row.map(|row| row.0).unwrap_or_default())
}

pub(crate) async fn change<S: Session>(db: &S, lane: LaneId, setting: &ConversationSetting) -> VerbResult<(), S> {
    let (column, value) = match setting {
        ConversationSetting::VoiceReplies(on) => ("voice", on.to_parameter()),
        ConversationSetting::Agent(agent) => ("agent", agent.to_parameter()),
        ConversationSetting::Persona(persona) => ("persona", persona.to_parameter()),
        ConversationSetting::Model(model) => ("model", model.to_parameter()),
        ConversationSetting::Blocks(choice) => ("blocks", choice.to_parameter()),
        ConversationSetting::BlocksOffered(at) => ("blocks_offered_at", at.0.to_parameter()),
    };
    let sql = format!(
        "INSERT INTO conversation_settings (lane, {column}) VALUES ($1, $2) \
         ON CONFLICT (lane) DO UPDATE SET {column} = excluded.{column}"
    );
    db.run(&sql, &[lane.to_parameter(), value]).await?;
    Ok(())
}

/// Gives a lane without settings those of another one.
pub(crate) async fn copy<S: Session>(db: &S, from: LaneId, to: LaneId) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO conversation_settings (lane, voice, agent, persona, model, blocks, blocks_offered_at) \
         SELECT $2, voice, agent, persona, model, blocks, blocks_offered_at FROM conversation_settings WHERE lane = $1",
        params![from, to],
    )
    .await?;
    Ok(())
}

/// Removes the settings of a lane that is removed.
pub(crate) async fn remove<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run("DELETE FROM conversation_settings WHERE lane = $1", params![lane]).await?;
    Ok(())
}

/// Removes what people who aren't owners can set: whether replies are spoken or in blocks, and an agent that they can
/// leave.
pub(crate) async fn remove_own<S: Session>(db: &S, lane: LaneId, keeps_agent: bool) -> VerbResult<(), S> {
    let sql = match keeps_agent {
        true => {
            "UPDATE conversation_settings SET voice = FALSE, blocks = NULL, blocks_offered_at = NULL WHERE lane = $1"
        }
        false => {
            "UPDATE conversation_settings SET voice = FALSE, blocks = NULL, blocks_offered_at = NULL, agent = NULL \
             WHERE lane = $1"
        }
    };
    db.run(sql, params![lane]).await?;
    Ok(())
}
