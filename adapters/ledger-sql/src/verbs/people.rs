//! Who may talk: people who were approved, the codes by which they are, and the wrong codes that were sent.

use std::time::Duration;

use satchel_domain::{
    ChannelName, InboundMessage, PairingCode, SATCHEL_SENDER_ID, Sender, SystemTask, Timestamp,
    pairing::offer_key_prefix,
};
use satchel_ledger::{
    CodeState, FailedAttempts, FoundCode, PairingStep, StrangerAnswer, StrangerCodes, answer_stranger, attempts_left,
};
use satchel_ports::ledger::{
    ClaimMode, IssuedCode, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person,
};
use uuid::Uuid;

use crate::{
    error::VerbError,
    parameters::Json,
    params, row_struct, rows,
    session::{Session, VerbResult},
    verbs::{
        receive::receive,
        reply_questions::{RequestEnd, close_requests, end_of_prefix},
    },
};

/// The lock behind which codes are made and decided about, so that their limits hold. They are few.
pub(crate) const CODES: &str = "pairing codes";

row_struct! {
    struct PairingRow {
        code: String,
        person: Json<Sender>,
        conversation: String,
        state: String,
        issued_at: i64,
        expires_at: i64,
    }
}

impl PairingRow {
    fn code(&self) -> Result<PairingCode, VerbError> {
        self.code.parse().map_err(|_| VerbError::Row { what: "pairing code" })
    }

    fn state(&self) -> Result<CodeState, VerbError> {
        match self.state.as_str() {
            "open" => Ok(CodeState::Open),
            "approved" => Ok(CodeState::Approved),
            "refused" => Ok(CodeState::Refused),
            _ => Err(VerbError::Row { what: "state of a pairing" }),
        }
    }

    fn found(&self) -> Result<FoundCode, VerbError> {
        let (state, expires_at) = (self.state()?, Timestamp(self.expires_at));
        Ok(FoundCode { state, expires_at, person: self.person.0.clone() })
    }

    fn pairing(self) -> Result<Pairing, VerbError> {
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
pub async fn find_pairing_answer<S: Session>(
    db: &S,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> VerbResult<Option<Option<IssuedCode>>, S> {
    let now = db.now();
    let channel = stranger.conversation.channel().as_str();
    let found: Option<PairingRow> = db
        .find(
            "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE channel = $1 AND id = $2 \
           AND (state = 'open' AND expires_at > $3 OR state = 'refused' AND issued_at > $4) \
         ORDER BY state = 'refused' DESC LIMIT 1",
            params![channel, stranger.person.id, now.0, before(now, rules.refusal_cooldown)],
        )
        .await?;
    let open: i64 = db
        .value(
            "SELECT COUNT(*) FROM pairings WHERE channel = $1 AND state = 'open' AND expires_at > $2",
            params![channel, now.0],
        )
        .await?;
    let state = found.as_ref().map(PairingRow::state).transpose()?;
    let codes = StrangerCodes {
        is_refused: state == Some(CodeState::Refused),
        has_code: state == Some(CodeState::Open),
        open_codes: rows::number(open, "number of codes")?,
    };
    Ok(match (answer_stranger(codes, rules), found) {
        (StrangerAnswer::New, _) => None,
        (StrangerAnswer::Same, Some(row)) => {
            let pairing = row.pairing()?;
            let offers = count_offers(db, &pairing).await?;
            Some(Some(IssuedCode { pairing, offers }))
        }
        (StrangerAnswer::Same, None) | (StrangerAnswer::Nothing, _) => Some(None),
    })
}

/// Counts the messages that have told a stranger of their code.
async fn count_offers<S: Session>(db: &S, pairing: &Pairing) -> VerbResult<u32, S> {
    let prefix = offer_key_prefix(pairing.code);
    let offers: i64 = db
        .value(
            "SELECT COUNT(*) FROM inbox_keys WHERE channel = $1 AND key >= $2 AND key < $3",
            params![pairing.conversation.channel().as_str(), prefix, end_of_prefix(&prefix)],
        )
        .await?;
    Ok(rows::number(offers, "number of offers")?)
}

/// Finds or makes the code of somebody unknown; `None` when they get none.
pub async fn issue_pairing_code<S: Session>(
    db: &S,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> VerbResult<Option<IssuedCode>, S> {
    db.lock(CODES).await?;
    if let Some(known) = find_pairing_answer(db, stranger, rules).await? {
        return Ok(known);
    }
    let now = db.now();
    close_expired(db, stranger, now).await?;
    let pairing = Pairing {
        // All bits of its lower half but the topmost two are random.
        code: PairingCode::from_random_bits(Uuid::new_v4().as_u64_pair().1),
        person: stranger.person.clone(),
        conversation: stranger.conversation.clone(),
        issued_at: now,
        expires_at: now.saturating_add(rules.code_ttl),
    };
    db.run(
        "DELETE FROM pairings WHERE expires_at <= $1",
        params![before(now, rules.refusal_cooldown.max(rules.code_ttl))],
    )
    .await?;
    db.run(
        "INSERT INTO pairings (code, channel, id, person, conversation, state, issued_at, expires_at) \
         VALUES ($1, $2, $3, $4, $5, 'open', $6, $7)",
        params![
            pairing.code.to_string(),
            pairing.conversation.channel().as_str(),
            pairing.person.id,
            Json(&pairing.person),
            pairing.conversation.to_string(),
            pairing.issued_at.0,
            pairing.expires_at.0,
        ],
    )
    .await?;
    Ok(Some(IssuedCode { pairing, offers: 0 }))
}

/// Approves the person of a code, or refuses them.
pub async fn decide_pairing<S: Session>(
    db: &S,
    decision: &PairingDecision,
    rules: &PairingRules,
) -> VerbResult<PairingOutcome, S> {
    db.lock(CODES).await?;
    let now = db.now();
    let failed = failed_attempts(db, &decision.decided_by, now).await?;
    let row = find(db, decision).await?;
    let found = row.as_ref().map(PairingRow::found).transpose()?;
    let row = match (satchel_ledger::decide_pairing(failed, found, rules, now), row) {
        (PairingStep::Decide, Some(row)) => row,
        (PairingStep::Answer(outcome), row) => {
            // A button that is pressed later goes, too.
            let end = match &outcome {
                PairingOutcome::AlreadyUsed { approved: true, .. } => Some(RequestEnd::Approved),
                PairingOutcome::AlreadyUsed { approved: false, .. } => Some(RequestEnd::Refused),
                PairingOutcome::Expired => Some(RequestEnd::Expired),
                _ => None,
            };
            if let (Some(end), Some(row)) = (end, row) {
                close_requests(db, &row.pairing()?, end).await?;
            }
            return Ok(outcome);
        }
        (PairingStep::RecordFailure(failed), _) => {
            record_failed_attempt(db, decision, failed, now).await?;
            return Ok(PairingOutcome::UnknownCode { tries_left: attempts_left(failed, rules) });
        }
        (PairingStep::Decide, None) => return Err(VerbError::Row { what: "pairing code" }.into()),
    };
    let pairing = row.pairing()?;
    db.run(
        "UPDATE pairings SET state = $2 WHERE code = $1",
        params![pairing.code.to_string(), if decision.approve { "approved" } else { "refused" }],
    )
    .await?;
    let end = if decision.approve { RequestEnd::Approved } else { RequestEnd::Refused };
    close_requests(db, &pairing, end).await?;
    if !decision.approve {
        report(db, &pairing, "refusal", SystemTask::ReportRefusal).await?;
        return Ok(PairingOutcome::Refused(pairing));
    }
    db.run(
        "INSERT INTO paired_people (channel, id, person, approved_at, approved_by) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (channel, id) DO UPDATE SET person = $3, approved_at = $4, approved_by = $5",
        params![
            pairing.conversation.channel().as_str(),
            pairing.person.id,
            Json(&pairing.person),
            now.0,
            decision.decided_by,
        ],
    )
    .await?;
    report(db, &pairing, "welcome", SystemTask::ConfirmPairing).await?;
    Ok(PairingOutcome::Approved(pairing))
}

/// Closes the requests about a stranger whose code has expired: the owners are asked about the next one. Those of the codes
/// before it were closed when it was made.
async fn close_expired<S: Session>(db: &S, stranger: &PairingRequest, now: Timestamp) -> VerbResult<(), S> {
    let expired: Option<PairingRow> = db
        .find(
            "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE channel = $1 AND id = $2 AND state = 'open' AND expires_at <= $3 \
         ORDER BY issued_at DESC, sequence DESC LIMIT 1",
            params![stranger.conversation.channel().as_str(), stranger.person.id, now.0],
        )
        .await?;
    match expired {
        Some(row) => close_requests(db, &row.pairing()?, RequestEnd::Expired).await,
        None => Ok(()),
    }
}

/// Queues the message that tells a person what was decided about their code.
async fn report<S: Session>(db: &S, pairing: &Pairing, kind: &str, system_task: SystemTask) -> VerbResult<(), S> {
    let key = format!("{SATCHEL_SENDER_ID}:{kind}:{}", pairing.code);
    let message = InboundMessage {
        system_task: Some(system_task),
        ..InboundMessage::new(pairing.conversation.clone(), key, Sender::satchel())
    };
    receive(db, &message, ClaimMode::Never).await?;
    Ok(())
}

/// The code that is meant. All codes are compared, each in the same time whatever was said.
async fn find<S: Session>(db: &S, decision: &PairingDecision) -> VerbResult<Option<PairingRow>, S> {
    let rows: Vec<PairingRow> = db
        .all(
            "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE $1 IS NULL OR channel = $1",
            params![decision.channel.as_ref().map(ChannelName::as_str)],
        )
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
async fn failed_attempts<S: Session>(db: &S, sender: &str, now: Timestamp) -> VerbResult<FailedAttempts, S> {
    let row: Option<(i64, i64)> = db
        .find(
            "SELECT attempts, expires_at FROM wrong_codes WHERE sender = $1 AND expires_at > $2",
            params![sender, now.0],
        )
        .await?;
    let Some((attempts, until)) = row else { return Ok(FailedAttempts { count: 0, until: now }) };
    Ok(FailedAttempts { count: rows::number(attempts, "number of attempts")?, until: Timestamp(until) })
}

async fn record_failed_attempt<S: Session>(
    db: &S,
    decision: &PairingDecision,
    failed: FailedAttempts,
    now: Timestamp,
) -> VerbResult<(), S> {
    db.run("DELETE FROM wrong_codes WHERE expires_at <= $1", params![now.0]).await?;
    db.run(
        "INSERT INTO wrong_codes (sender, attempts, expires_at) VALUES ($1, $2, $3) \
         ON CONFLICT (sender) DO UPDATE SET attempts = $2, expires_at = $3",
        params![decision.decided_by, failed.count, failed.until.0],
    )
    .await?;
    Ok(())
}

/// Reads the codes that can still be used, the oldest first.
pub async fn list_pairings<S: Session>(db: &S) -> VerbResult<Vec<Pairing>, S> {
    let rows: Vec<PairingRow> = db
        .all(
            "SELECT code, person, conversation, state, issued_at, expires_at FROM pairings \
         WHERE state = 'open' AND expires_at > $1 ORDER BY sequence",
            params![db.now().0],
        )
        .await?;
    Ok(rows.into_iter().map(PairingRow::pairing).collect::<Result<_, _>>()?)
}

pub async fn is_approved<S: Session>(db: &S, channel: &ChannelName, id: &str) -> VerbResult<bool, S> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM paired_people WHERE channel = $1 AND id = $2)",
        params![channel.as_str(), id],
    )
    .await
}

/// Reads who was approved, by channel.
pub async fn list_people<S: Session>(db: &S) -> VerbResult<Vec<Person>, S> {
    let rows: Vec<(String, Json<Sender>, i64, String)> = db
        .all(
            "SELECT channel, person, approved_at, approved_by FROM paired_people ORDER BY channel, approved_at, id",
            params![],
        )
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
pub async fn revoke_person<S: Session>(db: &S, channel: &ChannelName, id: &str) -> VerbResult<bool, S> {
    let removed =
        db.run("DELETE FROM paired_people WHERE channel = $1 AND id = $2", params![channel.as_str(), id]).await?;
    Ok(removed > 0)
}

fn before(now: Timestamp, by: Duration) -> i64 {
    now.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX))
}
