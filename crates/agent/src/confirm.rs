//! Asks a person before a tool runs: posts a question with buttons, waits for the decision, and records it.
//!
//! The decision is journalled: one that was made survives a crash, and without one nothing runs. The code in the buttons
//! is derived from the call itself, so that a button still works after a restart and never allows any other call; and from
//! a secret of the installation, so that a model, which knows the call, can't tell its code.

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
    LedgerError, Tool,
    ledger::{CallDecision, QuestionKey, ToolDecision},
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};

use crate::{
    AgentServices, LaneHandle,
    call_tracker::retry_until_drained,
    calls::CallScope,
    question::{Question, QuestionText, format_closing, publish_decision},
};

/// How much of the arguments the question shows, in characters, each argument having its share.
const MAX_ARGUMENT_CHARS: usize = 2_000;

/// How many characters of an argument are shown at least, and the number of arguments that fit at that length.
const MIN_ARGUMENT_CHARS: usize = 40;
const MAX_ARGUMENTS: usize = MAX_ARGUMENT_CHARS / MIN_ARGUMENT_CHARS;

/// The shortest time in which a person can read and answer a question.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(5);

/// How long a question waits for a description of what the call would do.
const PREVIEW_TIME: Duration = Duration::from_secs(5);

const NO_TIME_REASON: &str = "not run: the turn's time limit left no time to ask for confirmation";

/// How many questions of a turn are open at a time.
const MAX_CONCURRENT_QUESTIONS: usize = 3;

/// People's decisions about the calls of a turn.
#[derive(Debug, Clone)]
pub struct Confirmations {
    decisions: watch::Receiver<Vec<ToolDecision>>,
    /// The messages that were decisions; the turn consumes them.
    consumed: Arc<Mutex<Vec<InboxId>>>,
    question_permits: Arc<Semaphore>,
    /// How many questions are open.
    open_questions: watch::Sender<usize>,
    /// Set when a question was asked, so that the end of its call may close it.
    asked: Arc<AtomicBool>,
    /// Set when a question expired: a person who didn't answer one is not asked the rest.
    timed_out: Arc<AtomicBool>,
}

impl Confirmations {
    /// Receives the decisions found in messages that arrive during the turn.
    #[must_use]
    pub fn new(decisions: watch::Receiver<Vec<ToolDecision>>) -> Self {
        Self {
            decisions,
            consumed: Arc::default(),
            question_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_QUESTIONS)),
            open_questions: watch::Sender::default(),
            asked: Arc::default(),
            timed_out: Arc::default(),
        }
    }

    /// The messages that were decisions.
    #[must_use]
    pub fn consumed_messages(&self) -> Vec<InboxId> {
        self.consumed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until no question is open.
    pub async fn wait_until_idle(&self) {
        let mut open_questions = self.open_questions.subscribe();
        // `self` holds the sender, so waiting can't fail.
        let _none = open_questions.wait_for(|count| *count == 0).await;
    }

    /// Returns whether anybody was asked during the turn.
    #[must_use]
    pub fn has_opened_questions(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn mark_consumed(&self, message: InboxId) {
        self.consumed.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    fn track_question(&self) -> OpenQuestionGuard<'_> {
        self.asked.store(true, Ordering::Relaxed);
        self.open_questions.send_modify(|count| *count += 1);
        OpenQuestionGuard(&self.open_questions)
    }
}

/// Counts a question as open until dropped.
struct OpenQuestionGuard<'a>(&'a watch::Sender<usize>);

impl Drop for OpenQuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// The call may run.
    Allowed,
    /// It may not; the reason, as text for the model.
    Refused(String),
}

/// How long a decision is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerDeadline {
    /// The configured time for answers; also after a restart, when the call is resumed.
    ConfirmTime,
    /// While the outer call still runs, at most this long.
    Within(Duration),
}

/// Asks the requester of the turn or an owner, and records the decision.
///
/// # Errors
/// When the decision can't be recorded.
pub async fn confirm_call(
    services: &AgentServices,
    lane: &LaneHandle,
    scope: &CallScope,
    call: &ToolCall,
    tool: &dyn Tool,
    deadline: AnswerDeadline,
) -> Result<ConfirmOutcome, LedgerError> {
    let CallScope { confirmations, requester, tracker, .. } = scope;
    let confirm_timeout = services.settings.confirm_timeout;
    let started = Instant::now();
    let (remaining, pause) = match deadline {
        AnswerDeadline::ConfirmTime => (Duration::MAX, Some(tracker.pause())),
        // The outer call has started.
        AnswerDeadline::Within(remaining) => (remaining, None),
    };
    // A call that waits for a permit is not asked about once another question has expired.
    let Ok(permit) = timeout(remaining, confirmations.question_permits.acquire()).await else {
        return Ok(ConfirmOutcome::Refused(NO_TIME_REASON.to_owned()));
    };
    let _permit = permit.expect("the semaphore is never closed");
    if confirmations.timed_out.load(Ordering::Relaxed) {
        return Ok(ConfirmOutcome::Refused(
            "not run: an earlier question got no answer, so no one was asked".to_owned(),
        ));
    }
    let remaining = remaining.saturating_sub(started.elapsed());
    if remaining < MIN_ANSWER_TIME {
        return Ok(ConfirmOutcome::Refused(NO_TIME_REASON.to_owned()));
    }
    let answer_time = confirm_timeout.min(remaining);
    let key = retry_until_drained(|| services.outbox.load_question_key()).await?;
    let code = confirmation_code(&key, call);
    let name = tool.spec().name;
    let preview = timeout(PREVIEW_TIME, tool.preview(&call.arguments, &lane.lease.conversation)).await.ok().flatten();
    let Some((text, buttons)) = format_question(&name, call, preview.as_deref(), &code, answer_time) else {
        let reason = format!("not run: a question can show at most {MAX_ARGUMENTS} arguments");
        return Ok(ConfirmOutcome::Refused(reason));
    };
    let _guard = confirmations.track_question();
    let mut question = Question::open(services, lane, QuestionText { call, text, buttons }).await?;
    if question.is_closed() {
        return Ok(ConfirmOutcome::Refused("not run: nobody allowed this call in time".to_owned()));
    }
    let wait = async {
        let decided = wait_for_decision(services, &lane.lease.conversation, confirmations, requester, &code);
        tokio::pin!(decided);
        tokio::select! {
            biased;
            decision = &mut decided => Ok(Some(decision)),
            posted = question.wait_until_open(answer_time) => match posted {
                Ok(()) => Ok(timeout(confirm_timeout, decided).await.ok()),
                Err(reason) => Err(reason),
            },
        }
    };
    let decision = match timeout(remaining, wait).await.unwrap_or(Ok(None)) {
        Ok(decision) => decision,
        Err(reason) => {
            question.close("I couldn't ask, so I did not do it").await;
            return Ok(ConfirmOutcome::Refused(format!("not run: the question could not be shown ({reason})")));
        }
    };
    let Some(decision) = decision else {
        // A person who had less time than configured may still answer the next question.
        if answer_time == confirm_timeout {
            confirmations.timed_out.store(true, Ordering::Relaxed);
        }
        question.close("No answer in time, so I did not do it").await;
        let minutes = answer_time.as_secs().div_ceil(60);
        return Ok(ConfirmOutcome::Refused(format!("not run: nobody allowed this call within {minutes} min")));
    };
    drop(pause);
    let person = to_inline_code(&decision.sender.name, 60);
    let (closing_text, outcome) = match decision.allow {
        true => (format!("Allowed by {person}"), ConfirmOutcome::Allowed),
        false => (
            format!("Refused by {person}"),
            ConfirmOutcome::Refused(
                "the person refused this call; don't request it again unless they want it".to_owned(),
            ),
        ),
    };
    let closing = format_closing(&closing_text, &call.name);
    let decided = CallDecision { call: call.id, allowed: decision.allow, message: decision.id, closing };
    retry_until_drained(|| services.turns.journal_decision(&lane.lease, &decided)).await?;
    confirmations.mark_consumed(decision.id);
    publish_decision(services, lane, call.id, &closing_text, decision.allow).await;
    Ok(outcome)
}

/// Waits for a decision by a person who is allowed to make it.
async fn wait_for_decision(
    services: &AgentServices,
    conversation: &ConversationId,
    confirmations: &Confirmations,
    requester: &Sender,
    code: &str,
) -> ToolDecision {
    let is_valid = |decision: &&ToolDecision| {
        let is_authorized =
            decision.sender.is_same_person(requester) || (services.is_owner)(conversation.channel(), &decision.sender);
        is_authorized && decision.code.eq_ignore_ascii_case(code)
    };
    let mut decisions = confirmations.decisions.clone();
    loop {
        let found = decisions.borrow_and_update().iter().find(is_valid).cloned();
        if let Some(decision) = found {
            return decision;
        }
        if decisions.changed().await.is_err() {
            // The sender is gone: the turn ends, and this future is dropped with it.
            std::future::pending::<()>().await;
        }
    }
}

/// Formats the question as Markdown with buttons; `None` where there are too many arguments to show.
fn format_question(
    tool: &str,
    call: &ToolCall,
    preview: Option<&str>,
    code: &str,
    answer_time: Duration,
) -> Option<(String, Vec<Button>)> {
    let arguments = format_arguments(&call.arguments)?;
    let minutes = answer_time.as_secs().div_ceil(60);
    let preview = preview.map(|preview| format!("{preview}\n\n")).unwrap_or_default();
    let text = format!(
        "May I use `{tool}`?\n\n```\n{arguments}\n```\n\n{preview}Press a button, or send `/allow {code}` or \
         `/refuse {code}`. Without an answer within {minutes} min I won't do it."
    );
    let button = |label: &str, verb: &str| Button { label: label.to_owned(), command: format!("/{verb} {code}") };
    Some((text, vec![button("Allow", "allow"), button("Refuse", "refuse")]))
}

/// Formats each argument on its own line with an equal share of the length, so that a long one hides no other.
fn format_arguments(arguments: &Value) -> Option<String> {
    let Value::Object(fields) = arguments else { return Some(format_value(arguments, MAX_ARGUMENT_CHARS)) };
    if fields.len() > MAX_ARGUMENTS {
        return None;
    }
    let share = MAX_ARGUMENT_CHARS / fields.len().max(1);
    let line = |(name, value): (&String, &Value)| {
        let name = format_value(&Value::from(name.as_str()), MIN_ARGUMENT_CHARS);
        format!("{}: {}", name.trim_matches('"'), format_value(value, share))
    };
    Some(fields.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Formats a value as JSON on one line, without invisible characters or backticks; one that is too long is truncated
/// and followed by its length.
fn format_value(value: &Value, max_chars: usize) -> String {
    let json: String =
        value.to_string().chars().filter(|c| !is_unsafe_char(*c)).map(|c| if c == '`' { '\'' } else { c }).collect();
    match json.char_indices().nth(max_chars) {
        Some((cut, _)) => format!("{}… ({} characters)", &json[..cut], json.chars().count()),
        None => json,
    }
}

/// The code of one call: the same on every run, and different for any other call or arguments, and on every other
/// installation.
///
/// The hash starts with the key, and only a sixth of it is shown: the codes of known calls lead to no other code.
#[must_use]
pub fn confirmation_code(key: &QuestionKey, call: &ToolCall) -> String {
    let mut hash = Sha256::new();
    hash.update(key.expose_secret());
    hash.update([0]);
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
        scalar => hash.update(scalar.to_string()),
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
        let key = QuestionKey::new("of this installation".to_owned());
        let code_of = |ordinal, arguments| confirmation_code(&key, &call(ordinal, arguments));
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

    /// The attack: a model that knows its call computes the code, and has it sent as a message.
    #[test]
    fn code_differs_on_every_installation() {
        let call = call(0, json!({"path": "/shared/a"}));
        let codes = ["one", "two"].map(|secret| confirmation_code(&QuestionKey::new(secret.to_owned()), &call));
        assert_ne!(codes[0], codes[1]);
        assert!(!format!("{:?}", QuestionKey::new("one".to_owned())).contains("one"), "no log has it");
    }

    #[test]
    fn question_lists_all_arguments_and_commands_fit_buttons() {
        let long = format!("```\nend of the block \u{202e}{}", "x".repeat(5_000));
        let call = call(0, json!({"content": long, "path": "/shared/a"}));
        let (text, buttons) = format_question("file_write", &call, None, "ABCD2345", Duration::from_secs(600)).unwrap();
        assert!(text.starts_with("May I use `file_write`?") && text.contains("in 10 min"), "{text}");
        assert!(text.contains("\npath: \"/shared/a\"\n") && text.contains("… (50"), "{text}");
        assert!(text.matches("```").count() == 2 && !text.contains('\u{202e}') && text.len() < 4_000, "{text}");
        let commands: Vec<_> = buttons.iter().map(|button| button.command.as_str()).collect();
        assert_eq!(commands, ["/allow ABCD2345", "/refuse ABCD2345"]);
        assert!(commands.iter().all(|command| text.contains(*command)));
        let (text, _) =
            format_question("file_delete", &call, Some("3 files"), "ABCD2345", Duration::from_secs(600)).unwrap();
        assert!(text.contains("```\n\n3 files\n\nPress a button"), "{text}");
    }

    #[test]
    fn what_cannot_be_shown_is_not_asked() {
        let many: serde_json::Map<String, Value> = (0..=MAX_ARGUMENTS).map(|n| (format!("a{n}"), json!(1))).collect();
        assert_eq!(
            format_question("t", &call(0, Value::Object(many)), None, "ABCD2345", Duration::from_secs(600)),
            None
        );
        assert_eq!(format_arguments(&json!({})), Some(String::new()));
    }
}
