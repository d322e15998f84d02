//! A chat platform that writes down what reaches it and is as slow, or as broken, as it is told to be.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent, capabilities::StreamRule,
    delivery::SendError,
};
use satchel_ports::{Activity, Channel, FetchedFile, FileFetchError, PostRequest};
use satchel_routing::tables;
use tokio::sync::watch;

/// What a send does, once each.
#[derive(Clone, Copy)]
pub(super) enum Quirk {
    /// It is not taken, and may be tried again after so many milliseconds.
    NotNow(u64),
    Panics,
}

pub(super) struct Chat {
    stream: StreamRule,
    joins_messages: bool,
    log: Mutex<Vec<(ConversationId, String)>>,
    quirks: Mutex<VecDeque<Quirk>>,
    open: watch::Sender<bool>,
    takes: Mutex<Duration>,
    begun: AtomicU32,
    cut_off: AtomicU32,
    fetches: AtomicU32,
}

/// Counts the requests whose caller went away before they were answered.
struct InFlight<'a>(&'a AtomicU32, bool);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Chat {
    pub(super) fn new(stream: StreamRule) -> Self {
        Self {
            stream,
            joins_messages: false,
            log: Mutex::default(),
            quirks: Mutex::default(),
            open: watch::Sender::new(true),
            takes: Mutex::default(),
            begun: AtomicU32::new(0),
            cut_off: AtomicU32::new(0),
            fetches: AtomicU32::new(0),
        }
    }

    /// The same where what a person sends in quick succession is one message.
    pub(super) fn that_joins_messages(stream: StreamRule) -> Self {
        Self { joins_messages: true, ..Self::new(stream) }
    }

    /// From now on no request is answered, or all are again.
    pub(super) fn answers(&self, open: bool) {
        self.open.send_replace(open);
    }

    pub(super) fn takes(&self, time: Duration) {
        *self.takes.lock().unwrap() = time;
    }

    pub(super) fn next_send(&self, quirk: Quirk) {
        self.quirks.lock().unwrap().push_back(quirk);
    }

    /// How many requests have come, answered or not.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn cut_off(&self) -> u32 {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// How many files were asked for.
    pub(super) fn fetches(&self) -> u32 {
        self.fetches.load(Ordering::Relaxed)
    }

    /// What was sent and edited in the conversation, in order.
    pub(super) fn log(&self, conversation: &ConversationId) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(place, _)| place == conversation).map(|(_, line)| line.clone()).collect()
    }

    async fn request(&self, line: String, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let mut in_flight = InFlight(&self.cut_off, false);
        let takes = *self.takes.lock().unwrap();
        // A platform as slow as the test says.
        tokio::time::sleep(takes).await;
        self.open.subscribe().wait_for(|open| *open).await.expect("the chat outlives its requests");
        in_flight.1 = true;
        let quirk = self.quirks.lock().unwrap().pop_front();
        match quirk {
            Some(Quirk::NotNow(wait)) => {
                return Err(SendError::NotSent { retry_after_ms: Some(wait), reason: "busy".into() });
            }
            Some(Quirk::Panics) => panic!("as the test wants it"),
            None => {}
        }
        let mut log = self.log.lock().unwrap();
        log.push((request.conversation.clone(), line));
        Ok(vec![MessageRef(format!("m{}", log.len()))])
    }
}

fn text_of(request: &PostRequest) -> String {
    match &request.content {
        PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => {
            text.clone()
        }
        other => other.kind().to_owned(),
    }
}

#[async_trait]
impl Channel for Chat {
    fn name(&self) -> ChannelName {
        ChannelName::new("console").unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        ChannelCapabilities { stream: self.stream, joins_messages: self.joins_messages, ..tables::telegram() }
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.request(text_of(request), request).await
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        self.request(format!("edit: {}", text_of(request)), request).await.map(|_| vec![message.clone()])
    }

    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), SendError> {
        Ok(())
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    /// A file that never comes.
    async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        std::future::pending().await
    }
}
