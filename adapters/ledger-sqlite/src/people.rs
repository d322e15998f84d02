//! Who may talk: people who were approved, the codes by which they are, and the wrong codes that were sent.

use std::time::Duration;

use rusqlite::{Row, params};
use satchel_domain::{ChannelName, InboundMessage, PairingCode, Sender, SystemTask, Timestamp};
use satchel_ledger::{
    CodeState, FailedAttempts, FoundCode, PairingStep, StrangerAnswer, StrangerCodes, answer_stranger, attempts_left,
    decide_pairing,
};
use satchel_ports::ledger::{
    ClaimMode, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person,
};
use uuid::Uuid;

use crate::{
    database::{Database, Json, Query},
    error::{Error, Result},
    receive, rows,
};

/// The sender of what Satchel itself has to say.
const SATCHEL: &str = "satchel";

struct PairingRow {
    code: String,
    person: Sender,
    conversation: String,
    state: String,
    issued_at: i64,
    expires_at: i64,
}

impl TryFrom<&Row<'_>> for PairingRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            code: row.get("code")?,
            person: row.get::<_, Json<_>>("person")?.0,
            conversation: row.get("conversation")?,
            state: row.get("state")?,
            issued_at: row.get("issued_at")?,
            expires_at: row.get("expires_at")?,
        })
    }
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
        Ok(FoundCode { state, expires_at, person: self.person.clone() })
    }

    fn pairing(self) -> Result<Pairing> {
        Ok(Pairing {
            code: self.code()?,
            person: self.person,
            conversation: rows::conversation(&self.conversation)?,
            issued_at: Timestamp(self.issued_at),
            expires_at: Timestamp(self.expires_at),
        })
    }
}

/// What a stranger gets for whom no code must be made: the one that they have, or none. `None` when one must be made.
pub(crate) fn find_answer(
    db: &Database,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> Result<Option<Option<Pairing>>> {
    let now = db.now();
    let channel = stranger.conversation.channel().as_str();
    let found: Option<PairingRow> = db.find(
        "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE channel = ?1 AND id = ?2 \
           AND (state = 'open' AND expires_at > ?3 OR state = 'refused' AND issued_at > ?4) \
         ORDER BY state = 'refused' DESC LIMIT 1",
        params![channel, stranger.person.id, now.0, before(now, rules.refusal_cooldown)],
    )?;
    let open: i64 = db.value(
        "SELECT COUNT(*) FROM pairings WHERE channel = ?1 AND state = 'open' AND expires_at > ?2",
        params![channel, now.0],
    )?;
    let state = found.as_ref().map(PairingRow::state).transpose()?;
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
pub(crate) fn introduce(db: &Database, stranger: &PairingRequest, rules: &PairingRules) -> Result<Option<Pairing>> {
    if let Some(known) = find_answer(db, stranger, rules)? {
        return Ok(known);
    }
    let now = db.now();
    let pairing = Pairing {
        // All bits of its lower half but the topmost two are random.
        code: PairingCode::from_random_bits(Uuid::new_v4().as_u64_pair().1),
        person: stranger.person.clone(),
        conversation: stranger.conversation.clone(),
        issued_at: now,
        expires_at: now.saturating_add(rules.code_ttl),
    };
    db.run("DELETE FROM pairings WHERE expires_at <= ?1", [before(now, rules.refusal_cooldown.max(rules.code_ttl))])?;
    db.run(
        "INSERT INTO pairings (code, channel, id, person, conversation, state, issued_at, expires_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7)",
        params![
            pairing.code.to_string(),
            pairing.conversation.channel().as_str(),
            pairing.person.id,
            Json(&pairing.person),
            pairing.conversation.to_string(),
            pairing.issued_at.0,
            pairing.expires_at.0,
        ],
    )?;
    Ok(Some(pairing))
}

/// Approves the person of a code, or refuses them.
pub(crate) fn decide(db: &Database, decision: &PairingDecision, rules: &PairingRules) -> Result<PairingOutcome> {
    let now = db.now();
    let failed = failed_attempts(db, &decision.decided_by, now)?;
    let row = find(db, decision)?;
    let found = row.as_ref().map(PairingRow::found).transpose()?;
    let row = match (decide_pairing(failed, found, rules, now), row) {
        (PairingStep::Decide, Some(row)) => row,
        (PairingStep::Answer(outcome), _) => return Ok(outcome),
        (PairingStep::RecordFailure(failed), _) => {
            record_failed_attempt(db, decision, failed, now)?;
            return Ok(PairingOutcome::UnknownCode { tries_left: attempts_left(failed, rules) });
        }
        (PairingStep::Decide, None) => return Err(Error::Row { what: "pairing code" }),
    };
    let pairing = row.pairing()?;
    db.run(
        "UPDATE pairings SET state = ?2 WHERE code = ?1",
        params![pairing.code.to_string(), if decision.approve { "approved" } else { "refused" }],
    )?;
    if !decision.approve {
        return Ok(PairingOutcome::Refused(pairing));
    }
    db.run(
        "INSERT INTO paired_people (channel, id, person, approved_at, approved_by) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (channel, id) DO UPDATE SET person = ?3, approved_at = ?4, approved_by = ?5",
        params![
            pairing.conversation.channel().as_str(),
            pairing.person.id,
            Json(&pairing.person),
            now.0,
            decision.decided_by,
        ],
    )?;
    let welcome = InboundMessage {
        system_task: Some(SystemTask::ConfirmPairing),
        ..InboundMessage::new(
            pairing.conversation.clone(),
            format!("{SATCHEL}:welcome:{}", pairing.code),
            Sender::new(SATCHEL, "Satchel"),
        )
    };
    receive::receive(db, &welcome, ClaimMode::Never)?;
    Ok(PairingOutcome::Approved(pairing))
}

/// The code that is meant. All codes are compared, each in the same time whatever was said.
fn find(db: &Database, decision: &PairingDecision) -> Result<Option<PairingRow>> {
    let rows: Vec<PairingRow> = db.all(
        "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE ?1 IS NULL OR channel = ?1",
        [decision.channel.as_ref().map(ChannelName::as_str)],
    )?;
    let mut found = None;
    for row in rows {
        if row.code()?.ct_eq(&decision.code) {
            found = Some(row);
        }
    }
    Ok(found)
}

/// Reads how many wrong codes somebody sent not long ago.
fn failed_attempts(db: &Database, sender: &str, now: Timestamp) -> Result<FailedAttempts> {
    let row: Option<(i64, i64)> = db.find(
        "SELECT attempts, expires_at FROM wrong_codes WHERE sender = ?1 AND expires_at > ?2",
        params![sender, now.0],
    )?;
    let Some((attempts, until)) = row else { return Ok(FailedAttempts { count: 0, until: now }) };
    Ok(FailedAttempts { count: rows::number(attempts, "number of attempts")?, until: Timestamp(until) })
}

fn record_failed_attempt(
    db: &Database,
    decision: &PairingDecision,
    failed: FailedAttempts,
    now: Timestamp,
) -> Result<()> {
    db.run("DELETE FROM wrong_codes WHERE expires_at <= ?1", [now.0])?;
    db.run(
        "INSERT INTO wrong_codes (sender, attempts, expires_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (sender) DO UPDATE SET attempts = ?2, expires_at = ?3",
        params![decision.decided_by, failed.count, failed.until.0],
    )?;
    Ok(())
}

/// Reads the codes that can still be used, the oldest first.
pub(crate) fn pairings(db: &Database) -> Result<Vec<Pairing>> {
    let rows: Vec<PairingRow> = db.all(
        "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE state = 'open' AND expires_at > ?1 ORDER BY sequence",
        [db.now().0],
    )?;
    rows.into_iter().map(PairingRow::pairing).collect()
}

pub(crate) fn is_approved(db: &Database, channel: &ChannelName, id: &str) -> Result<bool> {
    db.value("SELECT EXISTS (SELECT 1 FROM paired_people WHERE channel = ?1 AND id = ?2)", [channel.as_str(), id])
}

/// Reads who was approved, by channel.
pub(crate) fn people(db: &Database) -> Result<Vec<Person>> {
    let rows: Vec<(String, Json<Sender>, i64, String)> = db.all(
        "SELECT channel, person, approved_at, approved_by FROM paired_people ORDER BY channel, approved_at, id",
        [],
    )?;
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
pub(crate) fn revoke(db: &Database, channel: &ChannelName, id: &str) -> Result<bool> {
    let removed = db.run("DELETE FROM paired_people WHERE channel = ?1 AND id = ?2", [channel.as_str(), id])?;
    Ok(removed > 0)
}

fn before(now: Timestamp, by: Duration) -> i64 {
    now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}
