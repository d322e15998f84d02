//! Shows one conversation to everybody who looks at it: reads once, renders once, and sends the same bytes to all.

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
    LiveHub, LiveRoom, QueuedFrame, Subscriber, frame,
    room::{LiveCall, LiveTurn},
};
use crate::{
    markdown, view,
    wire::{self, Blocks, Gone, LiveTool, Question, QuestionButton, Snapshot, ToolChange},
};

/// How many turns a page is shown at first.
pub(crate) const MAX_SNAPSHOT_TURNS: u32 = 30;

/// The least time between two renderings of a growing text.
const RENDER_INTERVAL: Duration = Duration::from_millis(60);

/// A rendering of this many bytes makes the time until the next one twice as long: what is large changes less often.
const LARGE: usize = 32 * 1024;

/// The most time between two renderings.
const SLOWEST: Duration = Duration::from_secs(2);

/// How often what is unfinished is read again, in case that a hint was lost.
const UNFINISHED: Duration = Duration::from_secs(2);

/// How often the newest turns are read again, in case that a hint was lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// How many of the newest turns that are.
const NEWEST: u32 = 5;

/// How many changed turns are shown before clients get time to take what they were sent.
const AT_ONCE: usize = 16;

/// More changed calls than these are shown all at once.
const FEW_CALLS: usize = 8;

/// How long one read may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// What one task knows of its room.
struct RoomRenderer {
    hub: Arc<LiveHub>,
    room: Arc<LiveRoom>,
    clients: Vec<Subscriber>,
    /// What was last shown of each turn, as a digest.
    shown: HashMap<TurnId, u64>,
    /// Turns of which something will still change, and whether they are answered.
    unfinished: BTreeMap<TurnId, bool>,
    live: Option<RenderedTurn>,
    /// When a growing text may be rendered again.
    render_at: Instant,
    read_at: Instant,
}

/// What clients see of a running turn.
struct RenderedTurn {
    turn: TurnId,
    text: String,
    live: wire::Live,
}

/// Shows a room until nobody is left in it.
pub(super) async fn run_room(hub: Arc<LiveHub>, room: Arc<LiveRoom>) {
    let now = Instant::now();
    let mut tending = RoomRenderer {
        hub,
        room,
        clients: Vec::new(),
        shown: HashMap::new(),
        unfinished: BTreeMap::new(),
        live: None,
        render_at: now,
        read_at: now,
    };
    while let Some(due) = tending.step().await {
        let (hub, room) = (&tending.hub, &tending.room);
        tokio::select! {
            () = hub.stop.cancelled() => break,
            () = room.wake.notified() => {}
            () = sleep_until(due) => {}
        }
    }
}

impl RoomRenderer {
    /// Shows what has changed and tells when to look again at the latest; `None` when nobody is left.
    async fn step(&mut self) -> Option<Instant> {
        // Before anything is read: a first word is wanted at once.
        self.render(false);
        let (joining, dirty) = self.take_work();
        if let Err(error) = self.read(dirty).await {
            tracing::warn!(chat.id = %self.room.conversation, error = &error as &dyn std::error::Error,
                "reading the state of a page failed");
        }
        let mut due = self.render(!joining.is_empty());
        if !joining.is_empty() {
            match self.snapshot().await {
                Ok(snapshot) => {
                    for client in joining {
                        self.clients.extend(try_send_first(&snapshot, client));
                    }
                    // What the snapshot knew to be complete grows no longer.
                    due = self.render(true);
                }
                // They come back by themselves.
                Err(error) => tracing::warn!(chat.id = %self.room.conversation,
                    error = &error as &dyn std::error::Error, "showing a conversation failed"),
            }
        }
        self.clients.retain(|client| !client.frames.is_closed());
        if self.clients.is_empty() && self.hub.remove_if_empty(&self.room) {
            return None;
        }
        Some(due.map_or(self.read_at, |due| due.min(self.read_at)))
    }

    fn take_work(&self) -> (Vec<Subscriber>, Vec<TurnId>) {
        let mut state = self.room.state();
        let dirty: Vec<TurnId> = state.dirty.iter().take(AT_ONCE).copied().collect();
        dirty.iter().for_each(|turn| {
            state.dirty.remove(turn);
        });
        if !state.dirty.is_empty() {
            self.room.wake.notify_one();
        }
        (std::mem::take(&mut state.joining), dirty)
    }

    /// Reads what may have changed, and now and then what may have changed without a word.
    async fn read(&mut self, dirty: Vec<TurnId>) -> Result<(), LedgerError> {
        let mut wanted = dirty;
        if self.clients.is_empty() {
            return Ok(());
        }
        if Instant::now() >= self.read_at {
            self.schedule();
            let newest = self.turns(NEWEST).await?;
            self.note_all(&newest);
            wanted.extend(self.unfinished.keys().take(AT_ONCE));
            wanted.retain(|turn| !newest.iter().any(|record| record.id == *turn));
        }
        // The turn that runs may be another one now, which changes how that one is shown.
        let next = self.newest_unanswered();
        for turn in wanted {
            self.read_one(turn).await?;
        }
        if let Some(turn) = self.newest_unanswered().filter(|turn| Some(*turn) != next) {
            self.read_one(turn).await?;
        }
        self.schedule_sooner();
        Ok(())
    }

    async fn read_one(&mut self, turn: TurnId) -> Result<(), LedgerError> {
        let read = timeout(READ_TIME, self.hub.ledger.turn(turn)).await.map_err(|_| too_slow())?;
        let Some(record) = read?.filter(|record| record.conversation == self.room.conversation) else {
            self.unfinished.remove(&turn);
            return Ok(());
        };
        if record.id != turn {
            self.unfinished.remove(&turn);
            if self.shown.remove(&turn).is_some() {
                self.send(&frame::event_frame("gone", &Gone { turn: &turn.to_string() }));
            }
        }
        self.note_all(std::slice::from_ref(&record));
        Ok(())
    }

    async fn turns(&self, limit: u32) -> Result<Vec<TurnRecord>, LedgerError> {
        let query = TurnQuery { conversation: self.room.conversation.clone(), before: None, limit };
        timeout(READ_TIME, self.hub.ledger.turns(&query)).await.map_err(|_| too_slow())?
    }

    /// Everything that a page shows, for those who have just come.
    async fn snapshot(&mut self) -> Result<Bytes, LedgerError> {
        let mut records = self.turns(MAX_SNAPSHOT_TURNS + 1).await?;
        let more = records.len() > MAX_SNAPSHOT_TURNS as usize;
        if more {
            records.remove(0);
        }
        self.note_all(&records);
        self.render(true);
        let live = self.live.as_ref().map(|shown| shown.live.clone());
        self.schedule_sooner();
        Ok(frame::first_frame("snapshot", &Snapshot { turns: view::turns(&records), more, live }))
    }

    /// Takes in what the ledger says of turns, and shows those that have changed.
    fn note_all(&mut self, records: &[TurnRecord]) {
        for record in records {
            if record.ending.is_some() {
                self.room.state().on_turn_completed(record.id);
            }
            if view::is_over(record) {
                self.unfinished.remove(&record.id);
            } else {
                self.unfinished.insert(record.id, record.ending.is_some());
            }
        }
        // What grows is being answered, or else what has waited longest.
        let growing = self.room.state().growing.as_ref().map(|growing| growing.turn);
        let next = growing.or_else(|| self.newest_unanswered());
        for record in records {
            let turn = frame::event_frame("turn", &view::turn(record, next));
            let mut digest = DefaultHasher::new();
            turn.hash(&mut digest);
            let digest = digest.finish();
            if self.shown.insert(record.id, digest) != Some(digest) {
                self.send(&turn);
            }
        }
        self.forget_old();
    }

    /// The oldest turn that is not answered yet.
    fn newest_unanswered(&self) -> Option<TurnId> {
        self.unfinished.iter().find(|(_, answered)| !**answered).map(|(turn, _)| *turn)
    }

    /// Shows a growing text if it is time, and tells when it will be.
    fn render(&mut self, at_once: bool) -> Option<Instant> {
        let now = Instant::now();
        let growing = {
            let state = self.room.state();
            let Some(growing) = &state.growing else {
                self.live = None;
                return None;
            };
            let same_text =
                self.live.as_ref().is_some_and(|shown| shown.turn == growing.turn && shown.text == growing.text);
            if !same_text && !at_once && now < self.render_at {
                return Some(self.render_at);
            }
            growing.clone()
        };
        let rendered = self.show(growing);
        if rendered > 0 {
            self.render_at = now + render_interval(rendered);
        }
        None
    }

    /// Sends what of a running turn has changed, and tells how many bytes of its text were sent.
    fn show(&mut self, growing: LiveTurn) -> usize {
        let LiveTurn { turn, text, tools, .. } = growing;
        let name = turn.to_string();
        let tools: Vec<LiveTool> = tools.into_iter().map(live_tool).collect();
        let Some(mut shown) = self.live.take().filter(|shown| shown.turn == turn) else {
            let live = wire::Live { turn: name, blocks: markdown::blocks(&text), tools };
            self.send(&frame::event_frame("live", &live));
            let bytes = live.blocks.iter().map(String::len).sum();
            self.live = Some(RenderedTurn { turn, text, live });
            return bytes;
        };
        let changed: Vec<&LiveTool> = tools.iter().filter(|tool| !shown.live.tools.contains(tool)).collect();
        if changed.len() > FEW_CALLS {
            shown.live.tools.clone_from(&tools);
            self.send(&frame::event_frame("live", &shown.live));
        } else {
            for tool in changed {
                self.send(&frame::event_frame("tool", &ToolChange { turn: &name, tool }));
            }
        }
        shown.live.tools = tools;
        let mut bytes = 0;
        if shown.text != text {
            let blocks = markdown::blocks(&text);
            let same = blocks.iter().zip(&shown.live.blocks).take_while(|(new, old)| new == old).count();
            if same < blocks.len() || same < shown.live.blocks.len() {
                let rest = &blocks[same..];
                bytes = rest.iter().map(String::len).sum::<usize>().max(1);
                self.send(&frame::event_frame("blocks", &Blocks { turn: &name, from: same, blocks: rest }));
            }
            (shown.text, shown.live.blocks) = (text, blocks);
        }
        self.live = Some(shown);
        bytes
    }

    /// Sends a frame to everybody; who lets too much wait is cut off.
    fn send(&mut self, frame: &Bytes) {
        let clients = std::mem::take(&mut self.clients);
        self.clients = clients.into_iter().filter_map(|client| try_send(frame, client)).collect();
    }

    fn schedule(&mut self) {
        self.read_at = Instant::now() + IDLE_TIMEOUT;
        self.schedule_sooner();
    }

    fn schedule_sooner(&mut self) {
        if !self.unfinished.is_empty() {
            self.read_at = self.read_at.min(Instant::now() + UNFINISHED);
        }
    }

    /// Digests of turns that nobody will hear of again are forgotten.
    fn forget_old(&mut self) {
        if self.shown.len() > 4 * MAX_SNAPSHOT_TURNS as usize {
            let mut turns: Vec<TurnId> = self.shown.keys().copied().collect();
            turns.sort_unstable();
            for turn in &turns[..2 * MAX_SNAPSHOT_TURNS as usize] {
                self.shown.remove(turn);
            }
        }
    }
}

/// Puts a frame into a client's queue and returns the client, unless it has gone or lets too much wait.
fn try_send(frame: &Bytes, client: Subscriber) -> Option<Subscriber> {
    try_enqueue(frame, frame.len().div_ceil(1024), client)
}

/// Puts the snapshot into a client's queue, which takes none of its room: however large it is, a client that came back
/// for it must be able to get it.
fn try_send_first(snapshot: &Bytes, client: Subscriber) -> Option<Subscriber> {
    try_enqueue(snapshot, 0, client)
}

fn try_enqueue(frame: &Bytes, kib: usize, client: Subscriber) -> Option<Subscriber> {
    let room = u32::try_from(kib).ok().and_then(|kib| Arc::clone(&client.room).try_acquire_many_owned(kib).ok());
    let waits = room.map(|room| client.frames.try_send(QueuedFrame { frame: frame.clone(), _room: room }));
    match waits {
        Some(Ok(())) => Some(client),
        Some(Err(TrySendError::Closed(_))) => None,
        Some(Err(TrySendError::Full(_))) | None => {
            tracing::debug!("closing the connection of a client that does not read");
            client.cut.cancel();
            None
        }
    }
}

/// How long to wait after so many bytes were rendered.
fn render_interval(bytes: usize) -> Duration {
    let times = u32::try_from(1 + bytes / LARGE).unwrap_or(u32::MAX);
    RENDER_INTERVAL.saturating_mul(times).min(SLOWEST)
}

fn live_tool(called: LiveCall) -> LiveTool {
    let button = |button: Button| QuestionButton { label: button.label, command: button.command };
    let question = called.question.map(|(text, buttons)| Question {
        html: markdown::html(&text),
        buttons: buttons.into_iter().map(button).collect(),
    });
    LiveTool { call: called.call.to_string(), tool: called.tool, state: called.state, question }
}

fn too_slow() -> LedgerError {
    LedgerError::Store { doing: "reading what a page shows", source: "it took too long".into() }
}
