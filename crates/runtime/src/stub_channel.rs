//! A channel for tests, whose account the test refuses and accepts.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelClosure, ChannelName, ChannelState, ConversationId, FileReference, MessageRef,
    Timestamp, delivery::SendError,
};
use satchel_ports::{Channel, FetchedFile, FileFetchError, PostRequest};
use satchel_routing::tables;
use tokio::sync::watch;

/// A channel that is closed and opened by the test.
pub(crate) struct StubChannel {
    name: &'static str,
    state: watch::Sender<ChannelState>,
    closures: AtomicU32,
    is_unreachable: AtomicBool,
    /// The credentials, if a call refuses them before the channel knows.
    refused: Mutex<Option<String>>,
}

impl StubChannel {
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        let state = watch::Sender::new(ChannelState::Open);
        let (closures, is_unreachable) = (AtomicU32::new(0), AtomicBool::new(false));
        Arc::new(Self { name, state, closures, is_unreachable, refused: Mutex::default() })
    }

    /// Answers no look-up from now on. The account is accepted.
    pub(crate) fn cut_off(&self) {
        self.is_unreachable.store(true, Ordering::Relaxed);
    }

    /// Refuses these credentials in the next call, which closes the channel.
    pub(crate) fn refuse(&self, credentials: &str) {
        *self.refused.lock().unwrap() = Some(credentials.to_owned());
    }

    pub(crate) fn close(&self, credentials: &str) {
        self.state.send_replace(ChannelState::Closed(ChannelClosure {
            credentials: credentials.to_owned(),
            number: self.closures.fetch_add(1, Ordering::Relaxed) + 1,
            platform: self.name,
            reason: "says no".to_owned(),
            remedy: "get a new token".to_owned(),
            since: Timestamp(0),
        }));
    }

    pub(crate) fn open(&self) {
        self.state.send_replace(ChannelState::Open);
    }
}

#[async_trait]
impl Channel for StubChannel {
    fn name(&self) -> ChannelName {
        ChannelName::new(self.name).unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        tables::telegram()
    }

    async fn find_parents(&self, _: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        match self.is_unreachable.load(Ordering::Relaxed) {
            true => Err(SendError::NotSent { retry_after_ms: None, reason: "it can't be reached".to_owned() }),
            false => Ok(Vec::new()),
        }
    }

    fn state(&self) -> ChannelState {
        self.state.borrow().clone()
    }

    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        let mut states = self.state.subscribe();
        let next = states.wait_for(|current| current != state).await.unwrap();
        next.clone()
    }

    async fn probe(&self) -> Result<(), SendError> {
        let Some(credentials) = self.refused.lock().unwrap().take() else { return Ok(()) };
        self.close(&credentials);
        Err(SendError::AccountRefused { reason: "says no".to_owned() })
    }

    async fn post(&self, _: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        unreachable!("notices are stored for the channel's worker")
    }

    async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
        unreachable!("a notice has no files")
    }
}
