//! Renders a conversation for all its subscribers: reads once, renders once, and sends the same bytes to all.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use satchel_domain::{Button, TurnId};
use satchel_ports::{
    LedgerError,
    ledger::{TurnQuery, TurnRecord},
};
use tokio::{
    sync::mpsc::error::TrySendError,
    time::{Instant, sleep_until, timeout},
};

use super::{
    LiveHub, LiveRoom, QueuedFrame, Subscriber, event_frame, first_frame,
    room::{LiveCall, LiveMessage, LiveTurn},
};
use crate::{
    markdown, view,
    wire::{self, Blocks, Gone, LiveTool, Question, QuestionButton, Snapshot, ToolChange},
};

/// The number of turns in a snapshot.
pub(crate) const MAX_SNAPSHOT_TURNS: u32 = 30;

/// The minimum interval between two renderings of streamed text.
const RENDER_INTERVAL: Duration = Duration::from_millis(60);

/// The rendered size by which the interval grows by another [`RENDER_INTERVAL`], so that large texts are rendered less
/// often.
const RENDER_STEP_BYTES: usize = 32 * 1024;

/// The maximum interval between two renderings.
const MAX_RENDER_INTERVAL: Duration = Duration::from_secs(2);

/// How often unfinished turns are polled, in case an event was lost.
const UNFINISHED_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// How often the newest turns are polled, in case an event was lost.
const POLL_INTERVAL: Duration = Duration::from_secs(20);

/// How many of the newest turns are polled.
const MAX_POLLED_TURNS: u32 = 5;

/// How many changed turns are sent in one step, so that clients have time to read.
const MAX_TURNS_PER_STEP: usize = 16;

/// Up to this many changed calls are sent one by one, more of them in one frame.
const MAX_SINGLE_CALL_UPDATES: usize = 8;

/// The timeout of one read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of a room's render task.
struct RoomRenderer {
    hub: Arc<LiveHub>,
    room: Arc<LiveRoom>,
    clients: Vec<Subscriber>,
    /// The digest of each turn's last frame.
    shown_digests: HashMap<TurnId, u64>,
    /// The turns that can still change, and whether they have ended.
    unfinished: BTreeMap<TurnId, bool>,
    rendered: Option<RenderedTurn>,
    /// When streamed text may be rendered again.
    render_at: Instant,
    read_at: Instant,
}

/// The last frames of a running turn.
struct RenderedTurn {
    turn: TurnId,
    messages: Vec<RenderedMessage>,
    live: wire::Live,
}

/// A message of the model and its blocks.
struct RenderedMessage {
    message: LiveMessage,
    blocks: Vec<String>,
}

/// Renders a room until it has no subscribers.
pub(super) async fn run_room(hub: Arc<LiveHub>, room: Arc<LiveRoom>) {
    let now = Instant::now();
    let mut renderer = RoomRenderer {
        hub,
        room,
        clients: Vec::new(),
        shown_digests: HashMap::new(),
        unfinished: BTreeMap::new(),
        rendered: None,
        render_at: now,
        read_at: now,
    };
    while let Some(next_at) = renderer.step().await {
        let (hub, room) = (&renderer.hub, &renderer.room);
        tokio::select! {
            () = hub.stop.cancelled() => break,
            () = room.wake.notified() => {}
            () = sleep_until(next_at) => {}
        }
    }
}

impl RoomRenderer {
    /// Sends what has changed. Returns when to continue at the latest; `None` without subscribers.
    async fn step(&mut self) -> Option<Instant> {
        // Before anything is read, so that the first text appears at once.
        self.render(false);
        let (joining, dirty) = self.take_work();
        if let Err(error) = self.refresh(dirty).await {
            tracing::warn!(chat.id = %self.room.conversation, error = &error as &dyn std::error::Error,
                "reading the state of a page failed");
        }
        let mut next_at = self.render(!joining.is_empty());
        if !joining.is_empty() {
            match self.snapshot().await {
                Ok(snapshot) => {
                    for client in joining {
                        self.clients.extend(try_send_first(&snapshot, client));
                    }
                    // A turn that the snapshot shows as complete is no longer live.
                    next_at = self.render(true);
                }
                // The clients reconnect automatically.
                Err(error) => tracing::warn!(chat.id = %self.room.conversation,
                    error = &error as &dyn std::error::Error, "showing a conversation failed"),
            }
        }
        self.clients.retain(|client| !client.frames.is_closed());
        if self.clients.is_empty() && self.hub.remove_if_empty(&self.room) {
            return None;
        }
        Some(next_at.map_or(self.read_at, |at| at.min(self.read_at)))
    }

    fn take_work(&self) -> (Vec<Subscriber>, Vec<TurnId>) {
        let mut state = self.room.state();
        let dirty: Vec<TurnId> = state.dirty.iter().take(MAX_TURNS_PER_STEP).copied().collect();
        dirty.iter().for_each(|turn| {
            state.dirty.remove(turn);
        });
        if !state.dirty.is_empty() {
            self.room.wake.notify_one();
        }
        (std::mem::take(&mut state.joining), dirty)
    }

    /// Reads the turns that may have changed, and polls others at intervals.
    async fn refresh(&mut self, dirty: Vec<TurnId>) -> Result<(), LedgerError> {
        let mut turns = dirty;
        if self.clients.is_empty() {
            return Ok(());
        }
        if Instant::now() >= self.read_at {
            self.schedule_poll();
            let newest = self.newest_turns(MAX_POLLED_TURNS).await?;
            self.apply_records(&newest);
            turns.extend(self.unfinished.keys().take(MAX_TURNS_PER_STEP));
            turns.retain(|turn| !newest.iter().any(|record| record.id == *turn));
        }
        // If another turn is next now, its state has changed.
        let next = self.oldest_unanswered();
        for turn in turns {
            self.refresh_turn(turn).await?;
        }
        if let Some(turn) = self.oldest_unanswered().filter(|turn| Some(*turn) != next) {
            self.refresh_turn(turn).await?;
        }
        self.schedule_unfinished_poll();
        Ok(())
    }

    async fn refresh_turn(&mut self, turn: TurnId) -> Result<(), LedgerError> {
        let read = timeout(READ_TIMEOUT, self.hub.archive.turn(turn)).await.map_err(|_| read_timeout_error())?;
        let Some(record) = read?.filter(|record| record.conversation == self.room.conversation) else {
            self.unfinished.remove(&turn);
            return Ok(());
        };
        if record.id != turn {
            self.unfinished.remove(&turn);
            if self.shown_digests.remove(&turn).is_some() {
                self.broadcast(&event_frame("gone", &Gone { turn: &turn.to_string() }));
            }
        }
        self.apply_records(std::slice::from_ref(&record));
        Ok(())
    }

    async fn newest_turns(&self, limit: u32) -> Result<Vec<TurnRecord>, LedgerError> {
        let query = TurnQuery { conversation: self.room.conversation.clone(), before: None, limit };
        timeout(READ_TIMEOUT, self.hub.archive.turns(&query)).await.map_err(|_| read_timeout_error())?
    }

    /// Returns the snapshot frame for new subscribers.
    async fn snapshot(&mut self) -> Result<Bytes, LedgerError> {
        let mut records = self.newest_turns(MAX_SNAPSHOT_TURNS + 1).await?;
        let more = records.len() > MAX_SNAPSHOT_TURNS as usize;
        if more {
            records.remove(0);
        }
        self.apply_records(&records);
        self.render(true);
        let live = self.rendered.as_ref().map(|rendered| rendered.live.clone());
        self.schedule_unfinished_poll();
        let turns = view::to_wire_turns(&records, &self.hub.urls);
        Ok(first_frame("snapshot", &Snapshot { turns, more, live }))
    }

    /// Applies records of the ledger, and sends the turns that have changed.
    fn apply_records(&mut self, records: &[TurnRecord]) {
        for record in records {
            if record.ending.is_some() {
                self.room.state().on_turn_completed(record.id);
            }
            if view::is_final(record) {
                self.unfinished.remove(&record.id);
            } else {
                self.unfinished.insert(record.id, record.ending.is_some());
            }
        }
        // The live turn is running, or else the one that has waited longest.
        let live_turn = self.room.state().live_turn.as_ref().map(|live_turn| live_turn.turn);
        let next = live_turn.or_else(|| self.oldest_unanswered());
        for record in records {
            let turn = event_frame("turn", &view::to_wire_turn(record, next, &self.hub.urls));
            let mut digest = DefaultHasher::new();
            turn.hash(&mut digest);
            let digest = digest.finish();
            if self.shown_digests.insert(record.id, digest) != Some(digest) {
                self.broadcast(&turn);
            }
        }
        self.evict_old_digests();
    }

    /// Returns the oldest turn that has not ended.
    fn oldest_unanswered(&self) -> Option<TurnId> {
        self.unfinished.iter().find(|(_, answered)| !**answered).map(|(turn, _)| *turn)
    }

    /// Renders the live turn if it is time; else returns when it will be.
    fn render(&mut self, is_forced: bool) -> Option<Instant> {
        let now = Instant::now();
        let live_turn = {
            let state = self.room.state();
            let Some(live_turn) = &state.live_turn else {
                self.rendered = None;
                return None;
            };
            let same_text = self.rendered.as_ref().is_some_and(|rendered| {
                let messages = rendered.messages.iter().map(|rendered| &rendered.message);
                rendered.turn == live_turn.turn && messages.eq(&live_turn.messages)
            });
            if !same_text && !is_forced && now < self.render_at {
                return Some(self.render_at);
            }
            live_turn.clone()
        };
        let rendered_bytes = self.send_changes(live_turn);
        if rendered_bytes > 0 {
            self.render_at = now + render_interval(rendered_bytes);
        }
        None
    }

    /// Sends the changes of a live turn. Returns how many bytes of its text were sent.
    fn send_changes(&mut self, live_turn: LiveTurn) -> usize {
        let LiveTurn { turn, messages, tools, .. } = live_turn;
        let name = turn.to_string();
        let rendered = self.rendered.take().filter(|rendered| rendered.turn == turn);
        let earlier = rendered.as_ref().map_or(&[][..], |rendered| rendered.messages.as_slice());
        let messages: Vec<RenderedMessage> =
            messages.into_iter().map(|message| render_message(message, earlier)).collect();
        let tools: Vec<LiveTool> = tools.into_iter().map(|call| to_live_tool(call, &messages)).collect();
        let blocks: Vec<String> = messages.iter().flat_map(|message| message.blocks.iter().cloned()).collect();
        let Some(mut rendered) = rendered else {
            let live = wire::Live { turn: name, blocks, tools };
            self.broadcast(&event_frame("live", &live));
            let bytes = live.blocks.iter().map(String::len).sum();
            self.rendered = Some(RenderedTurn { turn, messages, live });
            return bytes;
        };
        let changed: Vec<&LiveTool> = tools.iter().filter(|tool| !rendered.live.tools.contains(tool)).collect();
        if changed.len() > MAX_SINGLE_CALL_UPDATES {
            rendered.live.tools.clone_from(&tools);
            self.broadcast(&event_frame("live", &rendered.live));
        } else {
            for tool in changed {
                self.broadcast(&event_frame("tool", &ToolChange { turn: &name, tool }));
            }
        }
        rendered.live.tools = tools;
        let mut bytes = 0;
        let same = blocks.iter().zip(&rendered.live.blocks).take_while(|(new, old)| new == old).count();
        if same < blocks.len() || same < rendered.live.blocks.len() {
            let rest = &blocks[same..];
            bytes = rest.iter().map(String::len).sum::<usize>().max(1);
            self.broadcast(&event_frame("blocks", &Blocks { turn: &name, from: same, blocks: rest }));
        }
        (rendered.messages, rendered.live.blocks) = (messages, blocks);
        self.rendered = Some(rendered);
        bytes
    }

    /// Sends a frame to all subscribers and disconnects those that are too slow.
    fn broadcast(&mut self, frame: &Bytes) {
        let clients = std::mem::take(&mut self.clients);
        self.clients = clients.into_iter().filter_map(|client| try_send(frame, client)).collect();
    }

    fn schedule_poll(&mut self) {
        self.read_at = Instant::now() + POLL_INTERVAL;
        self.schedule_unfinished_poll();
    }

    fn schedule_unfinished_poll(&mut self) {
        if !self.unfinished.is_empty() {
            self.read_at = self.read_at.min(Instant::now() + UNFINISHED_POLL_INTERVAL);
        }
    }

    /// Removes the digests of old turns.
    fn evict_old_digests(&mut self) {
        if self.shown_digests.len() > 4 * MAX_SNAPSHOT_TURNS as usize {
            let mut turns: Vec<TurnId> = self.shown_digests.keys().copied().collect();
            turns.sort_unstable();
            for turn in &turns[..2 * MAX_SNAPSHOT_TURNS as usize] {
                self.shown_digests.remove(turn);
            }
        }
    }
}

/// Queues a frame for a client and returns the client, unless it is gone or too slow.
fn try_send(frame: &Bytes, client: Subscriber) -> Option<Subscriber> {
    try_enqueue(frame, frame.len().div_ceil(1024), client)
}

/// Queues the snapshot for a client without counting its size: a reconnecting client must get it, however large it is.
fn try_send_first(snapshot: &Bytes, client: Subscriber) -> Option<Subscriber> {
    try_enqueue(snapshot, 0, client)
}

fn try_enqueue(frame: &Bytes, kib: usize, client: Subscriber) -> Option<Subscriber> {
    let permit =
        u32::try_from(kib).ok().and_then(|kib| Arc::clone(&client.queue_budget).try_acquire_many_owned(kib).ok());
    let queued = permit.map(|permit| client.frames.try_send(QueuedFrame { frame: frame.clone(), _permit: permit }));
    match queued {
        Some(Ok(())) => Some(client),
        Some(Err(TrySendError::Closed(_))) => None,
        Some(Err(TrySendError::Full(_))) | None => {
            tracing::debug!("closing the connection of a client that does not read");
            client.closed.cancel();
            None
        }
    }
}

/// Returns the interval until the next rendering, by the rendered size.
fn render_interval(bytes: usize) -> Duration {
    let times = u32::try_from(1 + bytes / RENDER_STEP_BYTES).unwrap_or(u32::MAX);
    RENDER_INTERVAL.saturating_mul(times).min(MAX_RENDER_INTERVAL)
}

/// Renders a message, unless that was done before.
fn render_message(message: LiveMessage, earlier: &[RenderedMessage]) -> RenderedMessage {
    let blocks = match earlier.iter().find(|rendered| rendered.message == message) {
        Some(rendered) => rendered.blocks.clone(),
        None => markdown::to_html_blocks(&message.text),
    };
    RenderedMessage { message, blocks }
}

/// Converts a tool call, which stands behind the blocks of the message that made it and of those before.
fn to_live_tool(live_call: LiveCall, messages: &[RenderedMessage]) -> LiveTool {
    let earlier = messages.iter().filter(|rendered| rendered.message.number <= live_call.message);
    let after = earlier.map(|rendered| rendered.blocks.len()).sum();
    let button = |button: Button| QuestionButton { label: button.label, command: button.command };
    let question = live_call.question.map(|(text, buttons)| Question {
        html: markdown::to_html(&text),
        buttons: buttons.into_iter().map(button).collect(),
    });
    LiveTool { call: live_call.call.to_string(), tool: live_call.tool, after, state: live_call.state, question }
}

fn read_timeout_error() -> LedgerError {
    LedgerError::Store { operation: "reading the turns of a conversation", source: "it took too long".into() }
}
