//! A model that says what a script tells it to, for tests and for people who embed Satchel.
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

/// Which of the answers that fit a request is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerOrder {
    /// The first that has not been given yet. It forgets when the process ends.
    #[default]
    InOrder,
    /// The n-th, where n is the number of the model's messages after the last message of a person in the request.
    /// It looks at nothing but the request, so that a model in a process that was killed and started again goes on
    /// where the conversation stands, and the same request gets the same answer however often it is asked.
    ByProgress,
}

/// What a [`ScriptedModel`] will say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelScript {
    /// Which of the answers that fit a request is given.
    #[serde(default)]
    pub pick: AnswerOrder,
    pub answers: Vec<ScriptedAnswer>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAnswer {
    /// It fits only requests in which the last message of a person holds these words; `None` fits all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The model can't even be asked: no stream, only this error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<ScriptedFailure>,
    /// What it says, piece by piece. The end is added, unless a piece ends it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<ScriptedPiece>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedPiece {
    Text(String),
    /// A tool call; garbage is as welcome here as from a real model.
    Call {
        name: String,
        #[serde(default)]
        arguments: Value,
    },
    /// Nothing for so many milliseconds.
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
    /// Why, in words for the person.
    pub reason: String,
    /// Whether asking again may help.
    #[serde(default)]
    pub retryable: bool,
}

/// A model that says what its script tells it to.
#[derive(Debug)]
pub struct ScriptedModel {
    script: ModelScript,
    /// How many requests are remembered.
    memory: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each answer whether it was given; read when they are picked in order.
    given: Vec<bool>,
    asked: u64,
    requests: VecDeque<ModelRequest>,
}

impl ScriptedModel {
    /// A model that follows the script.
    #[must_use]
    pub fn new(script: ModelScript) -> Self {
        let given = vec![false; script.answers.len()];
        Self { script, memory: 0, state: Mutex::new(State { given, ..State::default() }) }
    }

    /// A model that says these texts, one an answer, in order.
    #[must_use]
    pub fn from_texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let answer =
            |text: T| ScriptedAnswer { pieces: vec![ScriptedPiece::Text(text.into())], ..ScriptedAnswer::default() };
        Self::new(ModelScript { pick: AnswerOrder::InOrder, answers: texts.into_iter().map(answer).collect() })
    }

    /// The same model, which remembers the last so many `requests`. Not all: a long run must not fill the memory with
    /// whole conversations.
    #[must_use]
    pub fn with_request_log(self, requests: usize) -> Self {
        Self { memory: requests, ..self }
    }

    /// How often the model was asked.
    #[must_use]
    pub fn request_count(&self) -> u64 {
        self.state().asked
    }

    /// What the model was asked, oldest first, as far as it [logs them](Self::with_request_log).
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.state().requests.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must still be able to look at the requests.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks the answer of a request, and remembers what was asked.
    fn pick(&self, request: &ModelRequest, progress: usize) -> Option<ScriptedAnswer> {
        let mut state = self.state();
        let words = last_user_text(request);
        let fitting = |(_, answer): &(usize, &ScriptedAnswer)| {
            answer.when.as_ref().is_none_or(|when| words.contains(when.as_str()))
        };
        let mut fitting = self.script.answers.iter().enumerate().filter(fitting);
        let picked = match self.script.pick {
            AnswerOrder::InOrder => fitting.find(|(at, _)| !state.given[*at]),
            AnswerOrder::ByProgress => fitting.nth(progress),
        };
        let picked = picked.map(|(at, answer)| (at, answer.clone()));
        state.asked += 1;
        if self.memory > 0 {
            if state.requests.len() == self.memory {
                state.requests.pop_front();
            }
            state.requests.push_back(request.clone());
        }
        let (at, answer) = picked?;
        state.given[at] = true;
        Some(answer)
    }
}

#[async_trait]
impl LanguageModel for ScriptedModel {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let progress = progress(request);
        let before =
            request.messages.iter().filter(|message| matches!(message, ModelMessage::Assistant { .. })).count();
        let Some(answer) = self.pick(request, progress) else {
            let reason = format!(
                "the script of this model is over: none of its {} answers is left for this request",
                self.script.answers.len()
            );
            return Err(ModelError { reason, retryable: false, remedy: None });
        };
        if let Some(refusal) = answer.refuse {
            return Err(error(refusal));
        }
        let pieces = PieceStream { pieces: answer.pieces.into(), before, calls: 0, over: false };
        Ok(Box::pin(stream::unfold(pieces, async |mut pieces| Some((pieces.next().await?, pieces)))))
    }
}

/// What is still to be said of one answer.
struct PieceStream {
    pieces: VecDeque<ScriptedPiece>,
    before: usize,
    calls: usize,
    over: bool,
}

impl PieceStream {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if self.over {
            return None;
        }
        loop {
            match self.pieces.pop_front() {
                Some(ScriptedPiece::Text(text)) => return Some(Ok(ModelEvent::Text(text))),
                Some(ScriptedPiece::Call { name, arguments }) => {
                    let id = format!("scripted-{}-{}", self.before, self.calls);
                    self.calls += 1;
                    return Some(Ok(ModelEvent::Call(ModelToolCall { id, name, arguments })));
                }
                Some(ScriptedPiece::Usage(usage)) => return Some(Ok(ModelEvent::Usage(usage))),
                Some(ScriptedPiece::WaitMs(milliseconds)) => sleep(Duration::from_millis(milliseconds)).await,
                Some(ScriptedPiece::Hang) => future::pending().await,
                Some(ScriptedPiece::Fail(failure)) => {
                    self.over = true;
                    return Some(Err(error(failure)));
                }
                Some(ScriptedPiece::BreakOff) => return None,
                None => {
                    self.over = true;
                    return Some(Ok(ModelEvent::Done));
                }
            }
        }
    }
}

fn error(failure: ScriptedFailure) -> ModelError {
    ModelError { reason: failure.reason, retryable: failure.retryable, remedy: None }
}

/// The number of the model's messages after the last message of a person.
fn progress(request: &ModelRequest) -> usize {
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
