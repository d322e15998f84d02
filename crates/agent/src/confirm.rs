//! Asks a person before a tool runs: the question with its buttons, the wait for the word, and the record of it.
//!
//! A question is no part of a reply: losing or repeating it costs a look and nothing else, so it goes to the channel
//! straight away. What matters is journalled: a word that was given survives a crash, and without one nothing runs. The
//! code in the buttons is made of the call itself, so that a button of the same call still works after a restart and
//! never allows any other.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use satchel_domain::{
    Button, ConversationId, InboxId, MessageRef, PartContent, PartId, Sender, ToolCall, filename::is_hidden,
};
use satchel_ports::{
    Event, LedgerError, PartToSend, ToolSpec,
    ledger::{Decision, JournalEntry},
};
use satchel_routing::insist::insist;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{sync::watch, time::timeout};

use crate::{Lane, Services, run::publish};

/// The letters of a code: none that looks like another.
const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// How much of a call's arguments the question shows, in characters.
const SHOWN: usize = 800;

/// How long the question may take to be sent or changed.
const SENDING: Duration = Duration::from_secs(20);

/// What people have said about the calls of a turn.
#[derive(Debug, Clone)]
pub struct Words {
    heard: watch::Receiver<Vec<Decision>>,
    /// The messages that were taken as an answer; the turn consumes them.
    taken: Arc<Mutex<Vec<InboxId>>>,
}

impl Words {
    /// Takes words as whoever reads the messages behind the turn hears them.
    #[must_use]
    pub fn new(heard: watch::Receiver<Vec<Decision>>) -> Self {
        Self { heard, taken: Arc::default() }
    }

    /// The messages that were taken as an answer.
    #[must_use]
    pub fn taken(&self) -> Vec<InboxId> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self, message: InboxId) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call may run.
    Allowed,
    /// It may not; in words for the model.
    Refused(String),
}

/// Asks whoever asked for the turn, or an owner, and records the answer.
///
/// # Errors
/// When the answer can't be recorded.
pub async fn confirm(
    services: &Services,
    lane: &Lane,
    words: &Words,
    asker: &Sender,
    call: &ToolCall,
    spec: &ToolSpec,
) -> Result<Verdict, LedgerError> {
    let code = code(call);
    let question = Question { services, lane, call, title: format!("`{}`", spec.name) };
    let patience = services.settings.confirm_time;
    let asked = question.ask(&code, patience).await;
    let conversation = &lane.lease.conversation;
    let waited = timeout(patience, word(services, conversation, words, asker, &code)).await;
    let Ok(decision) = waited else {
        question.close(asked, "Nobody answered, so I left it", false).await;
        let minutes = patience.as_secs().div_ceil(60);
        return Ok(Verdict::Refused(format!("nobody allowed this call within {minutes} min, so it was not made")));
    };
    let entry = JournalEntry::Decided { ordinal: call.id.ordinal, allowed: decision.allow, message: decision.id };
    insist(&lane.stop, || services.ledger.journal_message(&lane.lease, call.id.turn, &entry)).await?;
    words.take(decision.id);
    let who = name_of(&decision.sender);
    let (told, verdict) = match decision.allow {
        true => (format!("Allowed by {who}"), Verdict::Allowed),
        false => (
            format!("Refused by {who}"),
            Verdict::Refused("the person refused this call; don't ask for it again unless they want it".to_owned()),
        ),
    };
    question.close(asked, &told, decision.allow).await;
    Ok(verdict)
}

/// Waits for the word of somebody who may give it.
async fn word(
    services: &Services,
    conversation: &ConversationId,
    words: &Words,
    asker: &Sender,
    code: &str,
) -> Decision {
    let counts = |decision: &&Decision| {
        let may = decision.sender.id == asker.id || (services.is_owner)(conversation.channel(), &decision.sender);
        may && decision.code.eq_ignore_ascii_case(code)
    };
    let mut heard = words.heard.clone();
    loop {
        let found = heard.borrow_and_update().iter().find(counts).cloned();
        if let Some(decision) = found {
            return decision;
        }
        if heard.changed().await.is_err() {
            // Nobody listens any more: the turn ends, and this is dropped with it.
            std::future::pending::<()>().await;
        }
    }
}

struct Question<'a> {
    services: &'a Services,
    lane: &'a Lane,
    call: &'a ToolCall,
    title: String,
}

impl Question<'_> {
    /// Puts the question. That it could not be put is told by the time-out, since a later one may have arrived.
    async fn ask(&self, code: &str, patience: Duration) -> Option<(PartToSend, MessageRef)> {
        let (text, buttons) = wording(&self.title, self.call, code, patience);
        let asked = Event::ToolQuestion {
            conversation: self.lane.lease.conversation.clone(),
            call: self.call.id,
            text: text.clone(),
            buttons: buttons.clone(),
        };
        publish(self.services, asked).await;
        let part = PartToSend {
            part: PartId(self.services.ledger.new_id()),
            turn: self.call.id.turn,
            conversation: self.lane.lease.conversation.clone(),
            content: PartContent::Question { text, buttons },
            reply_to: None,
        };
        match timeout(SENDING, self.lane.channel.send(&part)).await {
            Ok(Ok(messages)) => messages.into_iter().next().map(|message| (part, message)),
            Ok(Err(error)) => {
                tracing::warn!(call.id = %self.call.id, error = %error, "the question about a call was not sent");
                None
            }
            Err(_) => {
                tracing::warn!(call.id = %self.call.id, "the question about a call took too long to be sent");
                None
            }
        }
    }

    /// Lets the question say how it ended, without its buttons. A question that keeps them answers no press any more.
    async fn close(&self, asked: Option<(PartToSend, MessageRef)>, words: &str, allowed: bool) {
        let closed = Event::ToolDecided {
            conversation: self.lane.lease.conversation.clone(),
            call: self.call.id,
            allowed,
            words: words.to_owned(),
        };
        publish(self.services, closed).await;
        let Some((part, message)) = asked else { return };
        let part = PartToSend { content: PartContent::of_text(format!("{words}: {}", self.title)), ..part };
        match timeout(SENDING, self.lane.channel.edit(&message, &part)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(call.id = %self.call.id, error = %error, "a question was not closed"),
            Err(_) => tracing::debug!(call.id = %self.call.id, "a question took too long to be closed"),
        }
    }
}

/// The question in Markdown and its buttons.
fn wording(title: &str, call: &ToolCall, code: &str, patience: Duration) -> (String, Vec<Button>) {
    let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
    // A fence in the arguments must not end the block that shows them.
    let arguments = beginning(&arguments, SHOWN).replace("```", "'''");
    let minutes = patience.as_secs().div_ceil(60);
    let text = format!(
        "May I use {title}?\n\n```json\n{arguments}\n```\n\nPress a button, or write `/allow {code}` or \
         `/refuse {code}`. Without an answer in {minutes} min I leave it."
    );
    let button = |label: &str, verb: &str| Button { label: label.to_owned(), command: format!("/{verb} {code}") };
    (text, vec![button("Allow", "allow"), button("Refuse", "refuse")])
}

/// A name as code, so that nothing in it is read as Markdown.
fn name_of(sender: &Sender) -> String {
    let name: String = sender.name.chars().filter(|c| !is_hidden(*c) && *c != '`').take(60).collect();
    format!("`{name}`")
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// The word for one call: the same whenever it is asked about, and another for any other call or arguments.
#[must_use]
pub fn code(call: &ToolCall) -> String {
    let mut hash = Sha256::new();
    hash.update(call.id.to_string());
    hash.update([0]);
    hash.update(&call.name);
    hash.update([0]);
    feed(&mut hash, &call.arguments);
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    hash.finalize().iter().take(8).map(letter).collect()
}

/// Hashes arguments whatever the order of their keys, which a database may change.
fn feed(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hash.update(b"{");
            for (name, value) in fields {
                hash.update(Value::from(name.as_str()).to_string());
                feed(hash, value);
            }
            hash.update(b"}");
        }
        Value::Array(values) => {
            hash.update(b"[");
            for value in values {
                feed(hash, value);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        plain => hash.update(plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{CallId, TurnId};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn call(ordinal: u32, arguments: Value) -> ToolCall {
        let id = CallId { turn: TurnId(Uuid::from_u128(1)), ordinal };
        ToolCall { id, name: "file_write".into(), arguments }
    }

    #[test]
    fn a_code_is_bound_to_the_call_and_its_arguments() {
        let code_of = |ordinal, arguments| code(&call(ordinal, arguments));
        let code = code_of(0, json!({"path": "/shared/a", "text": "x"}));
        assert_eq!(code, code_of(0, json!({"text": "x", "path": "/shared/a"})), "the order of keys says nothing");
        for other in [
            code_of(1, json!({"path": "/shared/a", "text": "x"})),
            code_of(0, json!({"path": "/shared/b", "text": "x"})),
            code_of(0, json!({"path": "/shared/a", "text": ["x"]})),
            code_of(0, json!({"path": "/shared/a", "text": "x", "overwrite": true})),
        ] {
            assert_ne!(code, other);
        }
        assert!(code.len() == 8 && code.bytes().all(|byte| LETTERS.contains(&byte)), "{code}");
    }

    #[test]
    fn the_question_shows_the_call_and_its_commands_fit_a_button() {
        let call = call(0, json!({"text": "```\nend of the block", "path": "/shared/a"}));
        let (text, buttons) = wording("`file_write`", &call, "ABCD2345", Duration::from_secs(600));
        assert!(text.starts_with("May I use `file_write`?") && text.contains("in 10 min"), "{text}");
        assert_eq!(text.matches("```").count(), 2, "{text}");
        let commands: Vec<_> = buttons.iter().map(|button| button.command.as_str()).collect();
        assert_eq!(commands, ["/allow ABCD2345", "/refuse ABCD2345"]);
        assert!(commands.iter().all(|command| text.contains(*command)));
    }
}
