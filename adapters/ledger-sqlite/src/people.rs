//! Who may talk: people who were approved, the codes by which they are, and the wrong codes that were sent.

use satchel_domain::{ChannelName, InboundMessage, PairingCode, Sender, SystemTask, Timestamp};
use satchel_ledger::{
    CodeState, FailedAttempts, FoundCode, PairingStep, StrangerAnswer, StrangerCodes, answer_stranger, attempts_left,
    decide_pairing,
};
use satchel_ports::ledger::{
    ClaimMode, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person,
};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    batch::Batch,
    error::{Error, Result},
    process::Process,
    receive, rows,
    session::Session,
};

/// The sender of what Satchel itself has to say.
const SATCHEL: &str = "satchel";

#[derive(sqlx::FromRow)]
struct PairingRow {
    code: String,
    person: Json<Sender>,
    conversation: String,
    state: String,
    issued_at: i64,
    expires_at: i64,
}

impl PairingRow {
    fn code(&self) -> Result<PairingCode> {
        self.code.parse().map_err(|_| Error::Row { what: "pairing code" })
    }

    fn state(&self) -> Result<CodeState> {
        match self.state.as_str() {
            "open" => Ok(CodeState::Open),
            "approved" => Ok(CodeState::Approved),
            "refused" => Ok(CodeState::Refused),
            _ => Err(Error::Row { what: "state of a pairing" }),
        }
    }

    fn found(&self) -> Result<FoundCode> {
        let (state, expires_at) = (self.state()?, Timestamp(self.expires_at));
        Ok(FoundCode { state, expires_at, person: self.person.0.clone() })
    }

    fn pairing(self) -> Result<Pairing> {
        Ok(Pairing {
            code: self.code()?,
            person: self.person.0,
            conversation: rows::conversation(&self.conversation)?,
            issued_at: Timestamp(self.issued_at),
            expires_at: Timestamp(self.expires_at),
        })
    }
}

/// What a stranger gets for whom no code must be made: the one that they have, or none. `None` when one must be made.
pub(crate) async fn find_answer(
    session: &mut Session<'_>,
    process: &Process,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> Result<Option<Option<Pairing>>> {
    let now = process.now();
    let channel = stranger.conversation.channel().as_str();
    let mut batch = Batch::default();
    let code = batch
        .add(
            "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
             WHERE channel = $1 AND id = $2 \
               AND (state = 'open' AND expires_at > $3 OR state = 'refused' AND issued_at > $4) \
             ORDER BY state = 'refused' DESC LIMIT 1",
        )
        .bind(channel)
        .bind(&stranger.person.id)
        .bind(now.0)
        .bind(before(now, rules.refusal_cooldown))
        .id();
    let open = batch
        .add("SELECT COUNT(*) FROM pairings WHERE channel = $1 AND state = 'open' AND expires_at > $2")
        .bind(channel)
        .bind(now.0)
        .id();
    let answers = session.run(batch).await?;
    let found: Option<PairingRow> = answers.first_row(code)?;
    let state = found.as_ref().map(PairingRow::state).transpose()?;
    let open = answers.first_row::<(i64,)>(open)?.map_or(0, |(open,)| open);
    let codes = StrangerCodes {
        is_refused: state == Some(CodeState::Refused),
        has_code: state == Some(CodeState::Open),
        open_codes: rows::number(open, "number of codes")?,
    };
    Ok(match answer_stranger(codes, rules) {
        StrangerAnswer::New => None,
        StrangerAnswer::Nothing => Some(None),
        StrangerAnswer::Same => Some(found.map(PairingRow::pairing).transpose()?),
    })
}

/// Finds or makes the code of somebody unknown; `None` when they get none.
pub(crate) async fn introduce(
    session: &mut Session<'_>,
    process: &Process,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> Result<Option<Pairing>> {
    if let Some(known) = find_answer(session, process, stranger, rules).await? {
        return Ok(known);
    }
    let now = process.now();
    let pairing = Pairing {
        // All bits of its lower half but the topmost two are random.
        code: PairingCode::from_random_bits(Uuid::new_v4().as_u64_pair().1),
        person: stranger.person.clone(),
        conversation: stranger.conversation.clone(),
        issued_at: now,
        expires_at: now.saturating_add(rules.code_ttl),
    };
    let mut batch = Batch::default();
    batch
        .add("DELETE FROM pairings WHERE expires_at <= $1")
        .bind(before(now, rules.refusal_cooldown.max(rules.code_ttl)));
    batch
        .add(
            "INSERT INTO pairings (code, channel, id, person, conversation, state, issued_at, expires_at) \
             VALUES ($1, $2, $3, $4, $5, 'open', $6, $7)",
        )
        .bind(pairing.code.to_string())
        .bind(pairing.conversation.channel().as_str())
        .bind(&pairing.person.id)
        .bind(Json(&pairing.person))
        .bind(pairing.conversation.to_string())
        .bind(pairing.issued_at.0)
        .bind(pairing.expires_at.0);
    session.run(batch).await?;
    Ok(Some(pairing))
}

/// Lets the person of a code in, or refuses them.
pub(crate) async fn decide(
    session: &mut Session<'_>,
    process: &Process,
    decision: &PairingDecision,
    rules: &PairingRules,
) -> Result<PairingOutcome> {
    let now = process.now();
    let failed = failed_attempts(session, &decision.decided_by, now).await?;
    let row = find(session, decision).await?;
    let found = row.as_ref().map(PairingRow::found).transpose()?;
    let row = match (decide_pairing(failed, found, rules, now), row) {
        (PairingStep::Decide, Some(row)) => row,
        (PairingStep::Answer(outcome), _) => return Ok(outcome),
        (PairingStep::RecordFailure(failed), _) => {
            record_failed_attempt(session, decision, failed, now).await?;
            return Ok(PairingOutcome::UnknownCode { tries_left: attempts_left(failed, rules) });
        }
        (PairingStep::Decide, None) => return Err(Error::Row { what: "pairing code" }),
    };
    let pairing = row.pairing()?;
    sqlx::query("UPDATE pairings SET state = $2 WHERE code = $1")
        .bind(pairing.code.to_string())
        .bind(if decision.approve { "approved" } else { "refused" })
        .execute(session.connection().await?)
        .await?;
    if !decision.approve {
        return Ok(PairingOutcome::Refused(pairing));
    }
    sqlx::query(
        "INSERT INTO paired_people (channel, id, person, approved_at, approved_by) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (channel, id) DO UPDATE SET person = $3, approved_at = $4, approved_by = $5",
    )
    .bind(pairing.conversation.channel().as_str())
    .bind(&pairing.person.id)
    .bind(Json(&pairing.person))
    .bind(now.0)
    .bind(&decision.decided_by)
    .execute(session.connection().await?)
    .await?;
    let welcome = InboundMessage {
        system_task: Some(SystemTask::ConfirmPairing),
        ..InboundMessage::new(
            pairing.conversation.clone(),
            format!("{SATCHEL}:welcome:{}", pairing.code),
            Sender::new(SATCHEL, "Satchel"),
        )
    };
    receive::receive(session, process, &welcome, ClaimMode::Never).await?;
    Ok(PairingOutcome::Approved(pairing))
}

/// The code that is meant. All codes are compared, each in the same time whatever was said.
async fn find(session: &mut Session<'_>, decision: &PairingDecision) -> Result<Option<PairingRow>> {
    let rows: Vec<PairingRow> = sqlx::query_as(
        "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE $1 IS NULL OR channel = $1",
    )
    .bind(decision.channel.as_ref().map(ChannelName::as_str))
    .fetch_all(session.connection().await?)
    .await?;
    let mut found = None;
    for row in rows {
        if row.code()?.ct_eq(&decision.code) {
            found = Some(row);
        }
    }
    Ok(found)
}

/// Reads how many wrong codes somebody sent not long ago.
async fn failed_attempts(session: &mut Session<'_>, by: &str, now: Timestamp) -> Result<FailedAttempts> {
    let row: Option<(i64, i64)> =
        sqlx::query_as("SELECT attempts, expires_at FROM wrong_codes WHERE sender = $1 AND expires_at > $2")
            .bind(by)
            .bind(now.0)
            .fetch_optional(session.connection().await?)
            .await?;
    let Some((attempts, until)) = row else { return Ok(FailedAttempts { count: 0, until: now }) };
    Ok(FailedAttempts { count: rows::number(attempts, "number of attempts")?, until: Timestamp(until) })
}

async fn record_failed_attempt(
    session: &mut Session<'_>,
    decision: &PairingDecision,
    failed: FailedAttempts,
    now: Timestamp,
) -> Result<()> {
    let mut batch = Batch::default();
    batch.add("DELETE FROM wrong_codes WHERE expires_at <= $1").bind(now.0);
    batch
        .add(
            "INSERT INTO wrong_codes (sender, attempts, expires_at) VALUES ($1, $2, $3) \
             ON CONFLICT (sender) DO UPDATE SET attempts = $2, expires_at = $3",
        )
        .bind(decision.decided_by.as_str())
        .bind(i64::from(failed.count))
        .bind(failed.until.0);
    session.run(batch).await?;
    Ok(())
}

/// Reads the codes that can still be used, the oldest first.
pub(crate) async fn pairings(session: &mut Session<'_>, process: &Process) -> Result<Vec<Pairing>> {
    let rows: Vec<PairingRow> = sqlx::query_as(
        "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE state = 'open' AND expires_at > $1 ORDER BY sequence",
    )
    .bind(process.now().0)
    .fetch_all(session.connection().await?)
    .await?;
    rows.into_iter().map(PairingRow::pairing).collect()
}

pub(crate) async fn is_approved(session: &mut Session<'_>, channel: &ChannelName, id: &str) -> Result<bool> {
    let found = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM paired_people WHERE channel = $1 AND id = $2)")
        .bind(channel.as_str())
        .bind(id)
        .fetch_one(session.connection().await?)
        .await?;
    Ok(found)
}

/// Reads who was let in, by channel.
pub(crate) async fn people(session: &mut Session<'_>) -> Result<Vec<Person>> {
    let rows: Vec<(String, Json<Sender>, i64, String)> = sqlx::query_as(
        "SELECT channel, person, approved_at, approved_by FROM paired_people ORDER BY channel, approved_at, id",
    )
    .fetch_all(session.connection().await?)
    .await?;
    let person = |(channel, person, approved_at, approved_by): (String, Json<Sender>, i64, String)| {
        Ok(Person {
            channel: rows::channel(channel)?,
            person: person.0,
            approved_at: Timestamp(approved_at),
            approved_by,
        })
    };
    rows.into_iter().map(person).collect()
}

/// Revokes an approval. Returns `false` if no approval exists for this id.
pub(crate) async fn revoke(session: &mut Session<'_>, channel: &ChannelName, id: &str) -> Result<bool> {
    let gone = sqlx::query("DELETE FROM paired_people WHERE channel = $1 AND id = $2")
        .bind(channel.as_str())
        .bind(id)
        .execute(session.connection().await?)
        .await?;
    Ok(gone.rows_affected() > 0)
}

fn before(now: Timestamp, by: std::time::Duration) -> i64 {
    now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}
