//! A model that answers by a script, for tests and for people who embed Satchel.
//!
//! The script is data (JSON), so that a test can hand it to another process:
//!
//! ```json
//! {"pick": "by_progress", "answers": [
//!   {"when": "report", "pieces": [
//!     {"text": "Looking. "}, {"wait_ms": 20},
//!     {"call": {"name": "file_read", "arguments": {"path": "/shared/a.txt"}}}]},
//!   {"when": "report", "pieces": [{"text": "Here "}, {"text": "it is."}]},
//!   {"when": "never", "refuse": {"reason": "the model is overloaded", "retryable": true}},
//!   {"when": "half", "pieces": [{"text": "So f"}, "break_off"]}
//! ]}
//! ```

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{future, stream};
use satchel_ports::{
    LanguageModel, ModelError, ModelEvent, ModelMessage, ModelRequest,
    language_model::{ModelStream, ModelToolCall, TokenUsage},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

/// Which of the matching answers is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrder {
    /// The first that has not been given yet. This state is lost when the process exits.
    #[default]
    InOrder,
    /// The n-th, where n is the number of the model's messages after the last message of a person in the request.
    /// It depends on the request alone, so that a model in a restarted process continues where the conversation
    /// stopped, and the same request always gets the same answer.
    ByProgress,
}

/// The script of a [`ScriptedModel`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelScript {
    /// Which of the matching answers is given.
    #[serde(default)]
    pub pick: AnswerOrder,
    pub answers: Vec<ScriptedAnswer>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// It matches only requests in which the person's last message contains this text; `None` matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The call fails with this error before any stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<ScriptedFailure>,
    /// The pieces of the answer. The end is added, unless a piece ends it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<ScriptedPiece>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedPiece {
    Text(String),
    /// A tool call; it may be invalid, as from a real model.
    Call {
        name: String,
        #[serde(default)]
        arguments: Value,
    },
    /// A pause of so many milliseconds.
    WaitMs(u64),
    Hang,
    Usage(TokenUsage),
    /// An error in the middle; nothing comes after it.
    Fail(ScriptedFailure),
    /// The stream ends without saying that it is complete.
    BreakOff,
}

/// An error of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptedFailure {
    /// Why, as text for the person.
    pub reason: String,
    /// Whether a retry may help.
    #[serde(default)]
    pub retryable: bool,
}

/// A model that answers by its script.
#[derive(Debug)]
pub struct ScriptedModel {
    script: ModelScript,
    /// The most requests that are kept.
    max_logged_requests: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each answer whether it was given; used when they are picked in order.
    used: Vec<bool>,
    request_count: u64,
    requests: VecDeque<ModelRequest>,
}

impl ScriptedModel {
    /// A model that follows the script.
    #[must_use]
    pub fn new(script: ModelScript) -> Self {
        let given = vec![false; script.answers.len()];
        Self { script, max_logged_requests: 0, state: Mutex::new(State { used: given, ..State::default() }) }
    }

    /// A model that answers with these texts, in order.
    #[must_use]
    pub fn from_texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let answer =
            |text: T| ScriptedAnswer { pieces: vec![ScriptedPiece::Text(text.into())], ..ScriptedAnswer::default() };
        Self::new(ModelScript { pick: AnswerOrder::InOrder, answers: texts.into_iter().map(answer).collect() })
    }

    /// The same model, which keeps the last `requests` requests. The limit keeps a long run from filling the memory
    /// with whole conversations.
    #[must_use]
    pub fn with_request_log(self, requests: usize) -> Self {
        Self { max_logged_requests: requests, ..self }
    }

    /// How many requests the model got.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.lock_state().request_count
    }

    /// The requests, oldest first, as far as the model [keeps them](Self::with_request_log).
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.lock_state().requests.iter().cloned().collect()
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must still be able to read the requests.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks the answer to a request, and records the request.
    fn pick_answer(&self, request: &ModelRequest, progress: usize) -> Option<ScriptedAnswer> {
        let mut state = self.lock_state();
        let text = last_user_text(request);
        let is_match = |(_, answer): &(usize, &ScriptedAnswer)| {
            answer.when.as_ref().is_none_or(|when| text.contains(when.as_str()))
        };
        let mut matching = self.script.answers.iter().enumerate().filter(is_match);
        let picked = match self.script.pick {
            AnswerOrder::InOrder => matching.find(|(at, _)| !state.used[*at]),
            AnswerOrder::ByProgress => matching.nth(progress),
        };
        let picked = picked.map(|(at, answer)| (at, answer.clone()));
        state.request_count += 1;
        if self.max_logged_requests > 0 {
            if state.requests.len() == self.max_logged_requests {
                state.requests.pop_front();
            }
            state.requests.push_back(request.clone());
        }
        let (at, answer) = picked?;
        state.used[at] = true;
        Some(answer)
    }
}

#[async_trait]
impl LanguageModel for ScriptedModel {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let progress = count_progress(request);
        let model_messages =
            request.messages.iter().filter(|message| matches!(message, ModelMessage::Assistant { .. })).count();
        let Some(answer) = self.pick_answer(request, progress) else {
            let reason = format!(
                "the script of this model is over: none of its {} answers is left for this request",
                self.script.answers.len()
            );
            return Err(ModelError { reason, retryable: false, remedy: None });
        };
        if let Some(refusal) = answer.refuse {
            return Err(model_error(refusal));
        }
        let stream = PieceStream { pieces: answer.pieces.into(), model_messages, call_count: 0, is_finished: false };
        Ok(Box::pin(stream::unfold(stream, async |mut pieces| Some((pieces.next().await?, pieces)))))
    }
}

/// The rest of one answer.
struct PieceStream {
    pieces: VecDeque<ScriptedPiece>,
    model_messages: usize,
    call_count: usize,
    is_finished: bool,
}

impl PieceStream {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if self.is_finished {
            return None;
        }
        loop {
            match self.pieces.pop_front() {
                Some(ScriptedPiece::Text(text)) => return Some(Ok(ModelEvent::Text(text))),
                Some(ScriptedPiece::Call { name, arguments }) => {
                    let id = format!("scripted-{}-{}", self.model_messages, self.call_count);
                    self.call_count += 1;
                    return Some(Ok(ModelEvent::Call(ModelToolCall { id, name, arguments })));
                }
                Some(ScriptedPiece::Usage(usage)) => return Some(Ok(ModelEvent::Usage(usage))),
                Some(ScriptedPiece::WaitMs(milliseconds)) => sleep(Duration::from_millis(milliseconds)).await,
                Some(ScriptedPiece::Hang) => future::pending().await,
                Some(ScriptedPiece::Fail(failure)) => {
                    self.is_finished = true;
                    return Some(Err(model_error(failure)));
                }
                Some(ScriptedPiece::BreakOff) => return None,
                None => {
                    self.is_finished = true;
                    return Some(Ok(ModelEvent::Done));
                }
            }
        }
    }
}

fn model_error(failure: ScriptedFailure) -> ModelError {
    ModelError { reason: failure.reason, retryable: failure.retryable, remedy: None }
}

/// The number of the model's messages after the last message of a person.
fn count_progress(request: &ModelRequest) -> usize {
    let since = request.messages.iter().rev().take_while(|message| !matches!(message, ModelMessage::User { .. }));
    since.filter(|message| matches!(message, ModelMessage::Assistant { .. })).count()
}

/// The last message of a person.
fn last_user_text(request: &ModelRequest) -> &str {
    let last = request.messages.iter().rev().find_map(|message| match message {
        ModelMessage::User { text, .. } => Some(text.as_str()),
        _ => None,
    });
    last.unwrap_or_default()
}

#[cfg(test)]
mod tests;
