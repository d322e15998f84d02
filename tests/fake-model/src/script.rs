//! What the fake model server will say, and what goes wrong on the way, as data.

use std::time::Duration;

/// One scripted answer; each is given once, in order, to the first request that it fits.
#[derive(Debug, Clone, Default)]
pub struct ModelReply {
    pub(crate) when: Option<String>,
    pub(crate) pieces: Vec<ReplyPiece>,
    pub(crate) fault: Option<ModelFault>,
    pub(crate) finish: FinishReason,
    pub(crate) usage: (u64, u64),
    pub(crate) every_time: bool,
}

/// A piece of an answer's stream.
#[derive(Debug, Clone)]
pub enum ReplyPiece {
    /// A little text, in a frame of its own.
    Text(String),
    Call(ScriptedCall),
    /// Nothing for a while, counted from the request's arrival or the end of the wait before.
    Wait(Duration),
    /// A sign of life without content, as proxies and providers send them.
    Ping,
    /// The connection is cut.
    Cut,
    /// The stream ends in good order, but without the frame that says so.
    StopShort,
    Hang,
    /// A frame that is no JSON.
    Garbage,
    /// The provider's own way of telling a failure in mid-stream.
    Trouble(ProviderErrorCase),
}

/// A tool call as a model writes it.
#[derive(Debug, Clone)]
pub struct ScriptedCall {
    /// The tool's name on the wire.
    pub name: String,
    /// The arguments as text; broken JSON is as welcome here as from a real model.
    pub arguments: String,
    /// What has to come back with the call: Gemini's signature of it, the signature of the thought before it
    /// (Anthropic), or that thought itself (DeepSeek).
    pub signature: Option<String>,
}

impl ScriptedCall {
    #[must_use]
    pub fn new(name: &str, arguments: &str) -> Self {
        Self { name: name.to_owned(), arguments: arguments.to_owned(), signature: None }
    }

    /// The same call with something that has to come back.
    #[must_use]
    pub fn signed(self, signature: &str) -> Self {
        Self { signature: Some(signature.to_owned()), ..self }
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinishReason {
    #[default]
    Natural,
    /// At the model's longest answer.
    Length,
    /// Withheld by the provider's filter.
    Filtered,
}

/// What goes wrong before an answer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFault {
    /// A refusal in the provider's own words.
    Says(ProviderErrorCase),
    /// A rate limit with a wait in seconds.
    RateLimit {
        /// The wait, in seconds, as the header has it.
        retry_after: String,
    },
    /// 502 with an HTML body, as a proxy in front of a provider answers.
    BadGateway,
    Moved,
    /// No answer ever comes.
    Hang,
    /// The connection is cut before an answer.
    Cut,
    /// 200 with an HTML page, as a wrong address answers.
    Page,
}

/// What a provider means, whatever its words for it are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderErrorCase {
    /// The request breaks a rule.
    Invalid,
    /// An image of the request can't be processed.
    Image,
    /// The key is wrong.
    Key,
    /// The key may not do this.
    NotAllowed,
    /// There is no such model.
    Model,
    Rate,
    Quota,
    /// The conversation is too long.
    ContextTooLong,
    /// The request is too large.
    TooLarge,
    /// The provider's rules on content.
    Filtered,
    /// The model knows no tools.
    NoTools,
    /// A fault of the server.
    Server,
    /// Too much to do.
    Overloaded,
}

impl ModelReply {
    /// A text in one frame.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::pieces([ReplyPiece::Text(text.to_owned())])
    }

    /// A stream of pieces.
    #[must_use]
    pub fn pieces(pieces: impl IntoIterator<Item = ReplyPiece>) -> Self {
        Self { pieces: pieces.into_iter().collect(), usage: (11, 7), ..Self::default() }
    }

    /// Tool calls, all at once.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self::pieces(calls.into_iter().map(ReplyPiece::Call))
    }

    /// A fault instead of an answer.
    #[must_use]
    pub fn fault(fault: ModelFault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    /// Only for a request whose last message of a person holds these words.
    #[must_use]
    pub fn when(self, words: &str) -> Self {
        Self { when: Some(words.to_owned()), ..self }
    }

    /// Not once, but whenever it fits.
    #[must_use]
    pub fn every_time(self) -> Self {
        Self { every_time: true, ..self }
    }

    /// Ends in another way.
    #[must_use]
    pub fn ending(self, finish: FinishReason) -> Self {
        Self { finish, ..self }
    }

    /// Counts other tokens than 11 and 7.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        Self { usage: (input, output), ..self }
    }
}
