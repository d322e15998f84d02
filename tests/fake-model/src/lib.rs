//! A strict fake model server: the five wires on a free loopback port, scripted answers, faults, and a transcript; and
//! a strict fake of the servers that speak and listen.

mod anthropic;
mod error_bodies;
mod file_content;
mod gemini;
mod listing;
mod ollama;
mod openai_chat;
mod openai_responses;
mod recorded;
mod rules;
mod script;
mod serving;
pub mod speech;

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use satchel_fake_kit::{ListenerGate, TestClock, wait_for_change};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use self::{
    recorded::{
        RecordedCall, RecordedFile, RecordedPart, RecordedRequest, RecordedResult, RecordedTurn, RequestStatus,
    },
    script::{FinishReason, ModelFault, ModelReply, ProviderErrorCase, ReplyPiece, ScriptedCall},
};

/// A language in which models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelWire {
    /// OpenAI's chat completions.
    OpenAiChat,
    /// OpenAI's responses.
    OpenAiResponses,
    Anthropic,
    Gemini,
    Ollama,
}

impl ModelWire {
    pub const ALL: [Self; 5] = [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// A model that the fake server has on this wire, and that can see.
    #[must_use]
    pub fn model(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "gpt-4o-mini",
            Self::Anthropic => "claude-haiku-4-5",
            Self::Gemini => "gemini-2.5-flash",
            Self::Ollama => "gemma3:4b",
        }
    }
}

/// A model server on a free loopback port. It ends when it is dropped.
///
/// It takes one key, knows some models, and refuses what the provider would refuse. Without a script it answers
/// `Hello from the fake model.`
pub struct FakeModelServer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: TestClock,
    gate: Arc<ListenerGate>,
    stopped: CancellationToken,
    changed: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    models: BTreeSet<String>,
    script: Vec<(ModelReply, bool)>,
    requests: Vec<RecordedRequest>,
    open_to_all: bool,
}

impl FakeModelServer {
    /// The only key that it takes.
    pub const KEY: &'static str = "sk-fake-5e7c1a90canary";

    /// Starts a server.
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub async fn start() -> io::Result<Self> {
        let clock = TestClock::default();
        let gate = ListenerGate::open(clock.clone()).await?;
        let stopped = CancellationToken::new();
        let models = ModelWire::ALL.iter().map(|wire| wire.model().to_owned()).collect();
        let state = Mutex::new(State { models, ..State::default() });
        let shared = Arc::new(Shared {
            clock,
            gate: Arc::clone(&gate),
            stopped: stopped.clone(),
            changed: Notify::new(),
            state,
        });
        // It ends with the token, which is cancelled when the server is dropped.
        satchel_fake_kit::serve(gate, serving::router(Arc::clone(&shared)), stopped);
        Ok(Self { shared })
    }

    /// Where a client of this wire finds it, with a slash at the end.
    #[must_use]
    pub fn base_url(&self, wire: ModelWire) -> String {
        let path = match wire {
            ModelWire::OpenAiChat | ModelWire::OpenAiResponses | ModelWire::Anthropic => "v1/",
            ModelWire::Gemini => "v1beta/",
            ModelWire::Ollama => "",
        };
        format!("http://{}/{path}", self.shared.gate.address())
    }

    /// The clock that the waits of scripted answers go by.
    #[must_use]
    pub fn clock(&self) -> &TestClock {
        &self.shared.clock
    }

    /// Adds an answer to the script.
    pub fn reply(&self, reply: ModelReply) {
        self.shared.state().script.push((reply, false));
    }

    /// Lets it have another model.
    pub fn add_model(&self, model: &str) {
        self.shared.state().models.insert(model.to_owned());
    }

    /// Lets it have no models at all.
    pub fn remove_models(&self) {
        self.shared.state().models.clear();
    }

    /// Lets it take requests without a key, as a server of one's own does.
    pub fn ask_for_no_key(&self) {
        self.shared.state().open_to_all = true;
    }

    /// What it was asked, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.state().requests.clone()
    }

    /// The last request.
    ///
    /// # Panics
    /// When there was none.
    #[must_use]
    pub fn last(&self) -> RecordedRequest {
        self.requests().pop().expect("the server was asked")
    }

    /// Waits until what it was asked is as wanted.
    ///
    /// # Errors
    /// When it isn't within a minute.
    pub async fn wait_until(
        &self,
        wanted: impl Fn(&[RecordedRequest]) -> bool,
    ) -> Result<(), tokio::time::error::Elapsed> {
        wait_for_change(&self.shared.changed, || wanted(&self.shared.state().requests)).await
    }
}

impl Drop for FakeModelServer {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request and returns its place.
    fn on_request(&self, wire: ModelWire, body: Value) -> usize {
        let mut state = self.state();
        state.requests.push(RecordedRequest {
            wire,
            at: self.clock.now().into_std(),
            model: String::new(),
            system: String::new(),
            turns: Vec::new(),
            thoughts: Vec::new(),
            tools: Vec::new(),
            body,
            status: RequestStatus::Running,
        });
        let place = state.requests.len() - 1;
        drop(state);
        self.changed.notify_waiters();
        place
    }

    fn update_request(&self, place: usize, change: impl FnOnce(&mut RecordedRequest)) {
        change(&mut self.state().requests[place]);
        self.changed.notify_waiters();
    }

    /// The next answer of the script that fits.
    fn next_reply(&self, words: &str) -> ModelReply {
        let mut state = self.state();
        let fits = |(reply, given): &&mut (ModelReply, bool)| {
            !*given && reply.when.as_ref().is_none_or(|when| words.contains(when.as_str()))
        };
        match state.script.iter_mut().find(fits) {
            Some((reply, given)) => {
                *given = !reply.every_time;
                reply.clone()
            }
            None => ModelReply::text("Hello from the fake model."),
        }
    }
}

/// What a request says, in one form for all wires.
#[derive(Debug, Default)]
struct ParsedRequest {
    model: String,
    system: String,
    turns: Vec<RecordedTurn>,
    tools: Vec<String>,
    /// Signatures of the model's thoughts that came back.
    thoughts: Vec<String>,
    wants_usage: bool,
}

/// Writes an answer on one wire.
trait StreamWriter: Send {
    fn content_type(&self) -> &'static str;
    fn open(&mut self) -> String;
    fn text(&mut self, text: &str) -> String;
    fn call(&mut self, call: &ScriptedCall) -> String;
    fn ping(&mut self) -> String;
    fn end(&mut self, finish: FinishReason, usage: (u64, u64)) -> String;
    fn write_error(&mut self, case: ProviderErrorCase) -> String;
}

#[cfg(test)]
mod tests;
