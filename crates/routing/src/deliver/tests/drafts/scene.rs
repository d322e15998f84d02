//! A draft on a stage: a platform that answers as scripted and takes its time, a ledger that writes down what it is
//! asked.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, Part, PartContent, PartState, TurnId,
    capabilities::StreamRule,
    delivery::{DeliveryRules, SendError},
};
use satchel_ports::{
    Activity, Channel, FetchedFile, FileFetchError, HolderId, Lease, LedgerError, LookupOutcome, LookupRequest,
    MockBlobs, MockEventBus, MockLedger, PostRequest, PreviewRequest, TokioClock,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::{Answer, part, sending, sent};
use crate::{
    deliver::{DeliveryContext, DeliveryHandle, DraftHandle, Driver, DriverEnd},
    tables,
};

/// The least time between two edits on the stage.
pub(super) const INTERVAL: u64 = 1_100;

const TURN: TurnId = TurnId(Uuid::from_u128(100));

/// A draft that was opened when the scene was.
pub(super) fn opened() -> Part {
    Part { streamed: true, ..sending(part(5, PartContent::from_text(""))) }
}

/// How a scene opens. Answers that aren't scripted are good ones.
pub(super) struct Stage {
    pub(super) capabilities: ChannelCapabilities,
    pub(super) earlier: Option<Part>,
    pub(super) previews: Vec<Result<(), SendError>>,
    pub(super) sends: Vec<Answer>,
    pub(super) edits: Vec<Answer>,
    /// How long the platform takes for an answer.
    pub(super) takes_ms: u64,
    /// How often something earlier in the lane is still unsettled.
    pub(super) busy: usize,
    pub(super) begin_fails: bool,
    pub(super) save_fails: bool,
    /// Whether its edits panic.
    pub(super) panics: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            capabilities: ChannelCapabilities {
                stream: StreamRule::Edits { interval_ms: INTERVAL },
                ..tables::telegram()
            },
            earlier: None,
            previews: Vec::new(),
            sends: Vec::new(),
            edits: Vec::new(),
            takes_ms: 0,
            busy: 0,
            begin_fails: false,
            save_fails: false,
            panics: false,
        }
    }
}

/// What happened, each with the milliseconds since the scene opened.
#[derive(Clone)]
struct Log {
    opened: Instant,
    lines: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Log {
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap()
    }

    fn push(&self, line: String) {
        self.lines().push((self.now(), line));
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(u64, String)>> {
        self.lines.lock().unwrap()
    }
}

/// Mocks answer at once; this platform takes its time.
struct Platform {
    log: Log,
    takes: Duration,
    previews: Mutex<VecDeque<Result<(), SendError>>>,
    sends: Mutex<VecDeque<Answer>>,
    edits: Mutex<VecDeque<Answer>>,
    capabilities: ChannelCapabilities,
    panics: bool,
}

impl Platform {
    async fn answer(&self, script: &Mutex<VecDeque<Answer>>) -> Answer {
        // Under paused time.
        tokio::time::sleep(self.takes).await;
        self.log.push("answer".into());
        script.lock().unwrap().pop_front().unwrap_or_else(sent)
    }
}

fn text_of(request: &PostRequest) -> &str {
    match &request.content {
        PartContent::Text { text, .. } => text,
        other => panic!("not a text: {other:?}"),
    }
}

#[async_trait]
impl Channel for Platform {
    fn name(&self) -> ChannelName {
        ChannelName::new("console").unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        self.capabilities.clone()
    }

    async fn post(&self, request: &PostRequest) -> Answer {
        self.log.push(format!("send part {}: {}", request.part_id.0.as_u128(), text_of(request)));
        self.answer(&self.sends).await
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Answer {
        assert!(!self.panics, "as the test wants it");
        self.log.push(format!("edit {message}: {}", text_of(request)));
        self.answer(&self.edits).await
    }

    async fn show_preview(&self, request: &PreviewRequest) -> Result<(), SendError> {
        assert_eq!(request.turn, TURN);
        self.log.push(format!("preview: {}", request.text));
        // Under paused time.
        tokio::time::sleep(self.takes).await;
        self.previews.lock().unwrap().pop_front().unwrap_or(Ok(()))
    }

    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        panic!("a draft deletes nothing")
    }

    async fn find_sent(&self, _: &LookupRequest) -> Result<LookupOutcome, SendError> {
        panic!("a draft looks nothing up")
    }

    async fn probe(&self) -> Result<(), SendError> {
        panic!("a draft probes nothing")
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
        panic!("a draft fetches nothing")
    }
}

/// A reply that grows.
pub(super) struct Scene {
    draft: Option<DraftHandle>,
    driving: Pin<Box<dyn Future<Output = Result<DriverEnd, LedgerError>>>>,
    _handle: DeliveryHandle,
    log: Log,
}

impl Stage {
    pub(super) fn open(self) -> Scene {
        let log = Log { opened: Instant::now(), lines: Arc::default() };
        let mut ledger = MockLedger::default();
        let (lines, begin_fails, busy) = (log.clone(), self.begin_fails, Mutex::new(self.busy));
        ledger.outbox.expect_open_draft().returning(move |_, _, _| {
            lines.push("begin".into());
            let mut busy = busy.lock().unwrap();
            match (begin_fails, *busy) {
                (true, _) => Err(LedgerError::Full),
                (false, 0) => Ok(Some(opened())),
                (false, _) => {
                    *busy -= 1;
                    Ok(None)
                }
            }
        });
        let (lines, save_fails) = (log.clone(), self.save_fails);
        ledger.outbox.expect_save_part().returning(move |_, part| {
            let message = match &part.state {
                PartState::Open { message } => format!(" {message}"),
                _ => String::new(),
            };
            lines.push(format!("save {}{message}", part.state.as_str()));
            if save_fails { Err(LedgerError::Full) } else { Ok(()) }
        });
        let platform = Platform {
            log: log.clone(),
            takes: Duration::from_millis(self.takes_ms),
            previews: Mutex::new(self.previews.into()),
            sends: Mutex::new(self.sends.into()),
            edits: Mutex::new(self.edits.into()),
            capabilities: self.capabilities.clone(),
            panics: self.panics,
        };
        let delivery = DeliveryContext {
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            clock: Arc::new(TokioClock::default()),
            channel: Arc::new(platform),
            blobs: Arc::new(MockBlobs::new()),
            speech: None,
            bus: Arc::new(MockEventBus::new()),
            links: None,
            owner_reads: false,
            rules: DeliveryRules::default(),
            stop: CancellationToken::new(),
            process_stop: CancellationToken::new(),
        };
        let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
        let (handle, requests) = DeliveryHandle::new();
        let draft = handle.open_draft(TURN, None, self.earlier);
        let driving = Box::pin(Driver::new(delivery, lease, requests).run());
        Scene { draft: Some(draft), driving, _handle: handle, log }
    }
}

impl Scene {
    /// The model writes a piece.
    pub(super) fn writes(&self, piece: &str) {
        self.draft().update(|text| text.push_str(piece));
    }

    /// The model calls a tool, which is shown below what it wrote.
    pub(super) fn calls_tool(&self, tool: &str) {
        self.draft().update_in_message(|text| text.push_str(tool));
    }

    /// The model begins its next message.
    pub(super) fn begins_message(&self) {
        self.draft().update(String::clear);
    }

    fn draft(&self) -> &DraftHandle {
        self.draft.as_ref().expect("it has not ended")
    }

    pub(super) async fn passes(&mut self, milliseconds: u64) {
        tokio::select! {
            ended = &mut self.driving => panic!("nobody told it to finish: {ended:?}"),
            // Under paused time.
            () = tokio::time::sleep(Duration::from_millis(milliseconds)) => {}
        }
    }

    /// The turn starts again, if nothing of its reply is recorded or shown. Returns whether it can.
    pub(super) async fn withdraws(&mut self) -> bool {
        let draft = self.draft.as_ref().expect("it has not ended");
        tokio::select! {
            ended = &mut self.driving => panic!("nobody told it to finish: {ended:?}"),
            is_withdrawn = draft.withdraw() => is_withdrawn,
        }
    }

    /// The turn ends, and waits for the edit in flight.
    pub(super) async fn finish(&mut self) {
        let draft = self.draft.take().expect("it ends once");
        tokio::select! {
            ended = &mut self.driving => panic!("nobody told it to finish: {ended:?}"),
            () = draft.finish() => {}
        }
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lines().iter().map(|(_, line)| line.clone()).collect()
    }

    /// What reached the platform, and when.
    pub(super) fn calls(&self) -> Vec<(u64, String)> {
        let is_call = |line: &str| ["send", "edit", "preview"].iter().any(|call| line.starts_with(call));
        self.log.lines().iter().filter(|(_, line)| is_call(line)).cloned().collect()
    }
}
