//! Removes the buttons of an answered question from every conversation that shows it. The question is part of a reply, and
//! each of its buttons starts a turn.

use satchel_domain::{
    Button, MessageRef, PairingCode, Part, PartContent, PartState, Timestamp, TurnId,
    pairing::{approval_code, approval_key_prefix},
};
use satchel_ledger::{answer_text, close_reply_question};
use satchel_ports::ledger::Pairing;
use uuid::Uuid;

use crate::{
    lanes::LaneId,
    params,
    rows::{self, PartRow, select_part},
    session::{Session, VerbResult},
    verbs::parts,
};

/// How far back an answered question is looked for, in parts.
const MAX_PARTS: i64 = 500;

/// How a request to approve somebody ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    Approved,
    Refused,
    Expired,
}

impl RequestEnd {
    fn label(self) -> &'static str {
        match self {
            Self::Approved => "Approved",
            Self::Refused => "Refused",
            Self::Expired => "Expired",
        }
    }
}

/// Behind all texts with this prefix, in the order of the databases, which is that of the bytes.
pub(crate) fn end_of_prefix(prefix: &str) -> String {
    format!("{prefix}{}", char::MAX)
}

/// Closes the requests to approve the person of a code, in the chats of all owners: they are on its channel. One that is
/// under way is closed when it is settled.
pub(crate) async fn close_requests<S: Session>(db: &S, pairing: &Pairing, end: RequestEnd) -> VerbResult<(), S> {
    let prefix = approval_key_prefix(pairing.code);
    let asked: Vec<(String, Uuid)> = db
        .all(
            "SELECT lanes.conversation, inbox.turn FROM inbox_keys \
             JOIN inbox ON inbox.sequence = inbox_keys.message JOIN lanes ON lanes.id = inbox.lane \
             WHERE inbox_keys.channel = $1 AND inbox_keys.key >= $2 AND inbox_keys.key < $3 \
             ORDER BY lanes.conversation",
            params![pairing.conversation.channel().as_str(), prefix, end_of_prefix(&prefix)],
        )
        .await?;
    for (conversation, turn) in asked {
        // The process that delivers the request has settled it by then, or finds then that the code is decided.
        db.find_lane(&rows::conversation(&conversation)?).await?;
        let rows: Vec<PartRow> = db
            .all(
                // The messages of a conversation that has got a new name are not known there.
                select_part!(
                    "WHERE turn = $1 AND kind = 'question' AND call IS NULL \
                     AND (state <> 'sent' OR last_message IS NOT NULL) ORDER BY position"
                ),
                params![turn],
            )
            .await?;
        for part in rows::parts(db, rows).await? {
            close(db, part, end.label()).await?;
        }
    }
    Ok(())
}

/// Closes a part that was just settled if it is the request to approve somebody about whom is decided already.
pub(crate) async fn close_late_request<S: Session>(db: &S, part: &Part) -> VerbResult<(), S> {
    let is_question = part.question.is_none() && matches!(part.content(), Some(PartContent::Question { .. }));
    if !is_question || !matches!(part.state, PartState::Sent { .. }) {
        return Ok(());
    }
    let Some(code) = find_code(db, part.turn).await? else { return Ok(()) };
    let found: Option<(String, i64)> =
        db.find("SELECT state, expires_at FROM pairings WHERE code = $1", params![code.to_string()]).await?;
    let end = match found.as_ref().map(|(state, expires_at)| (state.as_str(), Timestamp(*expires_at))) {
        Some(("approved", _)) => RequestEnd::Approved,
        Some(("refused", _)) => RequestEnd::Refused,
        Some((_, expires_at)) if expires_at > db.now() => return Ok(()),
        _ => RequestEnd::Expired,
    };
    close(db, part.clone(), end.label()).await?;
    Ok(())
}

/// The code about which a turn asks, if it asks an owner about somebody.
async fn find_code<S: Session>(db: &S, turn: TurnId) -> VerbResult<Option<PairingCode>, S> {
    let keys: Vec<(Option<String>,)> =
        db.all("SELECT json_extract(message, '$.key') FROM inbox WHERE turn = $1", params![turn.0]).await?;
    Ok(keys.iter().find_map(|(key,)| approval_code(key.as_deref()?)))
}

/// An answered question of a reply, and the label of the button that answered it.
pub(crate) struct Answered {
    part: Part,
    label: String,
}

/// Finds the questions of a lane's replies that have a button with this command.
pub(crate) async fn find_answered<S: Session>(db: &S, lane: LaneId, command: &str) -> VerbResult<Vec<Answered>, S> {
    let rows: Vec<PartRow> = db
        .all(
            select_part!(
                "WHERE parts.id IN (SELECT newest.id FROM parts AS newest WHERE newest.lane = $1 \
                    ORDER BY newest.turn_sequence DESC, newest.position DESC LIMIT $2 + 0) \
                 AND kind = 'question' AND call IS NULL AND state = 'sent' AND last_message IS NOT NULL \
                 ORDER BY turn_sequence, position"
            ),
            params![lane, MAX_PARTS],
        )
        .await?;
    let standing = rows::parts(db, rows).await?.into_iter();
    let answered = standing.filter_map(|part| {
        let label = buttons(&part).iter().find(|button| button.command == command)?.label.clone();
        Some(Answered { part, label })
    });
    Ok(answered.collect())
}

/// Closes the questions that were answered. Returns whether there is something to deliver for one.
pub(crate) async fn close_answered<S: Session>(db: &S, answered: Vec<Answered>) -> VerbResult<bool, S> {
    let mut is_closed = false;
    for Answered { part, label } in answered {
        is_closed |= close(db, part, &label).await?;
    }
    Ok(is_closed)
}

/// The messages of questions.
pub(crate) fn messages(answered: &[Answered]) -> Vec<MessageRef> {
    let message = |answered: &Answered| match &answered.part.state {
        PartState::Sent { messages } => messages.last().cloned(),
        _ => None,
    };
    answered.iter().filter_map(message).collect()
}

fn buttons(part: &Part) -> &[Button] {
    match part.content() {
        Some(PartContent::Question { buttons, .. }) => buttons,
        _ => &[],
    }
}

/// Closes the question of a reply. Returns whether that is to be delivered.
async fn close<S: Session>(db: &S, mut part: Part, answer: &str) -> VerbResult<bool, S> {
    let Some(PartContent::Question { text, .. }) = part.content() else { return Ok(false) };
    let closing = answer_text(text, answer);
    if !close_reply_question(&mut part, closing, db.now()) {
        return Ok(false);
    }
    if let Some(question) = &part.question {
        db.run(
            "UPDATE parts SET call = $2, unanswered = $3 WHERE id = $1",
            params![part.id.0, question.call.ordinal, question.unanswered.as_str()],
        )
        .await?;
    }
    parts::update(db, &part).await?;
    Ok(!part.state.is_settled())
}
