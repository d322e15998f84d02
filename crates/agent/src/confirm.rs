//! Asks a person before a tool runs: the question with its buttons, the wait for the word, and the record of it.
//!
//! A question is no part of a reply: repeating it costs a look and nothing else, so it goes to the channel straight away,
//! where `question` has it in hand. What matters is journalled: a word that was given survives a crash, and
//! without one nothing runs. The code in the buttons is made of the call itself, so that a button of the same call still
//! works after a restart and never allows any other.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use satchel_domain::{
    Button, ConversationId, InboxId, Sender, ToolCall,
    filename::{is_unsafe_char, to_inline_code},
    pairing::ALPHABET,
};
use satchel_ports::{
    LedgerError, ToolSpec,
    ledger::{JournalEntry, ToolDecision},
};
use satchel_routing::retry::retry_until_stored;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};

use crate::{
    AgentServices, LaneHandle,
    calls::CallScope,
    question::{Asked, Question},
};

/// How much of the arguments the question shows, in characters, each argument having its share.
const MAX_ARGUMENT_CHARS: usize = 2_000;

/// The least that is shown of an argument, and the most arguments that can be shown so.
const LEAST: usize = 40;
const MOST_ARGUMENTS: usize = MAX_ARGUMENT_CHARS / LEAST;

/// Less time than this is none to read a question in and to answer it.
const ENOUGH: Duration = Duration::from_secs(5);

const NO_TIME: &str = "not run: the turn's time limit left no time to ask for confirmation";

/// How many questions of a turn stand at once.
const AT_ONCE: usize = 3;

/// What people have said about the calls of a turn.
#[derive(Debug, Clone)]
pub struct Confirmations {
    heard: watch::Receiver<Vec<ToolDecision>>,
    /// The messages that were taken as an answer; the turn consumes them.
    taken: Arc<Mutex<Vec<InboxId>>>,
    places: Arc<Semaphore>,
    /// How many questions stand.
    asked: watch::Sender<usize>,
    /// Set when a question ran out: whoever didn't answer one isn't asked the rest.
    timed_out: Arc<AtomicBool>,
}

impl Confirmations {
    /// Takes words as whoever reads the messages behind the turn hears them.
    #[must_use]
    pub fn new(heard: watch::Receiver<Vec<ToolDecision>>) -> Self {
        Self {
            heard,
            taken: Arc::default(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            asked: watch::Sender::default(),
            timed_out: Arc::default(),
        }
    }

    /// The messages that were taken as an answer.
    #[must_use]
    pub fn consumed_messages(&self) -> Vec<InboxId> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until no question stands.
    pub async fn wait_until_idle(&self) {
        let mut asked = self.asked.subscribe();
        // The sender is ours, so that waiting can't fail.
        let _none = asked.wait_for(|asked| *asked == 0).await;
    }

    fn mark_consumed(&self, message: InboxId) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    fn track_question(&self) -> OpenQuestionGuard<'_> {
        self.asked.send_modify(|asked| *asked += 1);
        OpenQuestionGuard(&self.asked)
    }
}

/// Counts a question as open until dropped.
struct OpenQuestionGuard<'a>(&'a watch::Sender<usize>);

impl Drop for OpenQuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|asked| *asked -= 1);
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// The call may run.
    Allowed,
    /// It may not; in words for the model.
    Refused(String),
}

/// For how long the answer to a question is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerDeadline {
    /// As long as people are given to answer; after a restart too, when the call is taken up again.
    ConfirmTime,
    /// While what the call is made within still runs, for no longer than this.
    Within(Duration),
}

/// Asks whoever asked for the turn, or an owner, and records the answer.
///
/// # Errors
/// When the answer can't be recorded.
pub async fn confirm(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    spec: &ToolSpec,
    needed: AnswerDeadline,
) -> Result<ConfirmOutcome, LedgerError> {
    let CallScope { words, requester: asker, .. } = scope;
    let usual = services.settings.confirm_time;
    let (begun, left) = match needed {
        AnswerDeadline::ConfirmTime => (Instant::now(), Duration::MAX),
        AnswerDeadline::Within(left) => (Instant::now(), left),
    };
    // Whoever waits for a place has waited long enough when another question ran out.
    let Ok(place) = timeout(left, words.places.acquire()).await else {
        return Ok(ConfirmOutcome::Refused(NO_TIME.to_owned()));
    };
    let _place = place.expect("the places are never closed");
    if words.timed_out.load(Ordering::Relaxed) {
        return Ok(ConfirmOutcome::Refused(
            "not run: an earlier question got no answer, so no one was asked".to_owned(),
        ));
    }
    let left = left.saturating_sub(begun.elapsed());
    if left < ENOUGH {
        return Ok(ConfirmOutcome::Refused(NO_TIME.to_owned()));
    }
    let patience = usual.min(left);
    let code = confirmation_code(call);
    let Some((text, buttons)) = format_question(&spec.name, call, &code, patience) else {
        let words = format!("not run: a question can show at most {MOST_ARGUMENTS} arguments");
        return Ok(ConfirmOutcome::Refused(words));
    };
    let _stands = words.track_question();
    let asked = Asked {
        call,
        title: format!("`{}`", spec.name),
        text,
        buttons,
        patience,
        taken_up_again: (needed == AnswerDeadline::ConfirmTime).then(|| scope.completed.clone()),
    };
    let mut question = Question::ask(services, lane, asked).await;
    let answer = async {
        let heard = wait_for_decision(services, &lane.lease.conversation, words, asker, &code);
        tokio::pin!(heard);
        tokio::select! {
            biased;
            decision = &mut heard => Ok(Some(decision)),
            stands = question.stands() => match stands {
                Ok(()) => Ok(timeout(usual, heard).await.ok()),
                Err(reason) => Err(reason),
            },
        }
    };
    let decision = match timeout(left, answer).await.unwrap_or(Ok(None)) {
        Ok(decision) => decision,
        Err(reason) => {
            question.end("I couldn't ask, so I did not do it", false).await;
            return Ok(ConfirmOutcome::Refused(format!("not run: the question could not be shown ({reason})")));
        }
    };
    let Some(decision) = decision else {
        // Whoever had less time than usual may well be there for the next one.
        if patience == usual {
            words.timed_out.store(true, Ordering::Relaxed);
        }
        question.end("No answer in time, so I did not do it", false).await;
        let minutes = patience.as_secs().div_ceil(60);
        return Ok(ConfirmOutcome::Refused(format!("not run: nobody allowed this call within {minutes} min")));
    };
    let entry = JournalEntry::Decided { ordinal: call.id.ordinal, allowed: decision.allow, message: decision.id };
    retry_until_stored(&lane.stop, || services.ledger.journal_message(&lane.lease, call.id.turn, &entry)).await?;
    words.mark_consumed(decision.id);
    let who = to_inline_code(&decision.sender.name, 60);
    let (told, verdict) = match decision.allow {
        true => (format!("Allowed by {who}"), ConfirmOutcome::Allowed),
        false => (
            format!("Refused by {who}"),
            ConfirmOutcome::Refused(
                "the person refused this call; don't request it again unless they want it".to_owned(),
            ),
        ),
    };
    question.end(&told, decision.allow).await;
    Ok(verdict)
}

/// Waits for the word of somebody who may give it.
async fn wait_for_decision(
    services: &AgentServices,
    conversation: &ConversationId,
    words: &Confirmations,
    asker: &Sender,
    code: &str,
) -> ToolDecision {
    let counts = |decision: &&ToolDecision| {
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

/// The question in Markdown and its buttons; `None` where there are more arguments than a person can be shown.
fn format_question(tool: &str, call: &ToolCall, code: &str, patience: Duration) -> Option<(String, Vec<Button>)> {
    let arguments = format_arguments(&call.arguments)?;
    let minutes = patience.as_secs().div_ceil(60);
    let text = format!(
        "May I use `{tool}`?\n\n```\n{arguments}\n```\n\nPress a button, or send `/allow {code}` or \
         `/refuse {code}`. Without an answer within {minutes} min I won't do it."
    );
    let button = |label: &str, verb: &str| Button { label: label.to_owned(), command: format!("/{verb} {code}") };
    Some((text, vec![button("Allow", "allow"), button("Refuse", "refuse")]))
}

/// Every argument on a line of its own, however long the others are: what comes first must not push out of sight what a
/// person has to know.
fn format_arguments(arguments: &Value) -> Option<String> {
    let Value::Object(fields) = arguments else { return Some(format_value(arguments, MAX_ARGUMENT_CHARS)) };
    if fields.len() > MOST_ARGUMENTS {
        return None;
    }
    let share = MAX_ARGUMENT_CHARS / fields.len().max(1);
    let line = |(name, given): (&String, &Value)| {
        let name = format_value(&Value::from(name.as_str()), LEAST);
        format!("{}: {}", name.trim_matches('"'), format_value(given, share))
    };
    Some(fields.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// A value as JSON on one line, without what can't be seen or would end the block that it stands in; of one that is too
/// long its beginning, and how long it is.
fn format_value(given: &Value, most: usize) -> String {
    let whole: String =
        given.to_string().chars().filter(|c| !is_unsafe_char(*c)).map(|c| if c == '`' { '\'' } else { c }).collect();
    match whole.char_indices().nth(most) {
        Some((cut, _)) => format!("{}… ({} characters)", &whole[..cut], whole.chars().count()),
        None => whole,
    }
}

/// The word for one call: the same whenever it is asked about, and another for any other call or arguments.
#[must_use]
pub fn confirmation_code(call: &ToolCall) -> String {
    let mut hash = Sha256::new();
    hash.update(call.id.to_string());
    hash.update([0]);
    hash.update(&call.name);
    hash.update([0]);
    hash_value(&mut hash, &call.arguments);
    let letter = |byte: &u8| char::from(ALPHABET[usize::from(byte % 32)]);
    hash.finalize().iter().take(8).map(letter).collect()
}

/// Hashes arguments whatever the order of their keys, which a database may change.
fn hash_value(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hash.update(b"{");
            for (name, value) in fields {
                hash.update(Value::from(name.as_str()).to_string());
                hash_value(hash, value);
            }
            hash.update(b"}");
        }
        Value::Array(values) => {
            hash.update(b"[");
            for value in values {
                hash_value(hash, value);
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
    fn code_is_bound_to_call_arguments() {
        let code_of = |ordinal, arguments| confirmation_code(&call(ordinal, arguments));
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
        assert!(code.len() == 8 && code.bytes().all(|byte| ALPHABET.contains(&byte)), "{code}");
    }

    #[test]
    fn question_lists_all_arguments_and_commands_fit_buttons() {
        let long = format!("```\nend of the block \u{202e}{}", "x".repeat(5_000));
        let call = call(0, json!({"content": long, "path": "/shared/a"}));
        let (text, buttons) = format_question("file_write", &call, "ABCD2345", Duration::from_secs(600)).unwrap();
        assert!(text.starts_with("May I use `file_write`?") && text.contains("in 10 min"), "{text}");
        assert!(text.contains("\npath: \"/shared/a\"\n") && text.contains("… (50"), "{text}");
        assert!(text.matches("```").count() == 2 && !text.contains('\u{202e}') && text.len() < 4_000, "{text}");
        let commands: Vec<_> = buttons.iter().map(|button| button.command.as_str()).collect();
        assert_eq!(commands, ["/allow ABCD2345", "/refuse ABCD2345"]);
        assert!(commands.iter().all(|command| text.contains(*command)));
    }

    #[test]
    fn what_cannot_be_shown_is_not_asked() {
        let many: serde_json::Map<String, Value> = (0..=MOST_ARGUMENTS).map(|n| (format!("a{n}"), json!(1))).collect();
        assert_eq!(format_question("t", &call(0, Value::Object(many)), "ABCD2345", Duration::from_secs(600)), None);
        assert_eq!(format_arguments(&json!({})), Some(String::new()));
    }
}
