//! Live updates for the page: one listener on the bus, one task per open conversation that reads the ledger for all its
//! subscribers, and the frames of the event stream.
//!
//! Events are hints that something may have changed; the ledger's state is what is shown. Only streamed text comes from
//! events alone, until the turn is complete. A lost event delays an update by seconds, because unfinished turns are
//! polled.

mod renderer;
mod room;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::StreamExt;
use satchel_domain::{ChannelName, ConversationId};
use satchel_ports::{Archive, BusEvent, event_bus::EventStream};
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::room::RoomState;
use crate::url_signer::UrlSigner;

/// The comment that keeps an idle stream alive.
pub(crate) const KEEP_ALIVE: &[u8] = b": still here\n\n";

/// The maximum number of queued frames of a client; a slower one is disconnected and reconnects for a snapshot.
const MAX_QUEUED_FRAMES: usize = 128;

/// The maximum size of a client's queued frames in KiB, without its snapshot.
const MAX_QUEUED_KIB: usize = 4 * 1024;

/// The maximum number of rooms with a live turn and without subscribers.
const MAX_IDLE_ROOMS: usize = 512;

/// The rooms of all conversations with subscribers or a live turn.
pub(crate) struct LiveHub {
    archive: Arc<dyn Archive>,
    channel: ChannelName,
    urls: UrlSigner,
    rooms: Mutex<HashMap<ConversationId, Arc<LiveRoom>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

pub(crate) struct LiveRoom {
    conversation: ConversationId,
    /// Cancelled when what its clients have seen is no longer there.
    snapshots: Mutex<CancellationToken>,
    state: Mutex<RoomState>,
    wake: Notify,
}

/// A client's end of an event stream.
pub(crate) struct LiveSubscription {
    /// Its frames, in the event stream format.
    pub(crate) frames: mpsc::Receiver<QueuedFrame>,
    /// Cancelled when the client is too slow or the server stops.
    pub(crate) closed: CancellationToken,
}

/// Why the hub stopped listening to the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerEnd {
    Stopped,
    /// The bus closed while the server is running.
    BusClosed,
}

/// A frame in a client's queue.
#[derive(Debug)]
pub(crate) struct QueuedFrame {
    pub(crate) frame: Bytes,
    /// Its share of the client's queue, released when it is sent.
    _permit: OwnedSemaphorePermit,
}

struct Subscriber {
    frames: mpsc::Sender<QueuedFrame>,
    /// The free space of its queue, in KiB.
    queue_budget: Arc<Semaphore>,
    closed: CancellationToken,
}

impl LiveHub {
    pub(crate) fn new(
        archive: Arc<dyn Archive>,
        channel: ChannelName,
        urls: UrlSigner,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self { archive, channel, urls, rooms: Mutex::default(), tasks: TaskTracker::new(), stop })
    }

    /// Listens to the bus until the server stops or the bus closes. A bus that closes after `stop`, as when the whole
    /// process stops, counts as stopped.
    pub(crate) async fn run(self: Arc<Self>, mut events: EventStream, stop: &CancellationToken) -> ListenerEnd {
        while let Some(Some(event)) = self.stop.run_until_cancelled(events.next()).await {
            if *event.conversation().channel() == self.channel {
                self.on_event(&event);
            }
        }
        match stop.is_cancelled() || self.stop.is_cancelled() {
            true => ListenerEnd::Stopped,
            false => ListenerEnd::BusClosed,
        }
    }

    /// Subscribes a client to a conversation.
    pub(crate) fn subscribe(self: &Arc<Self>, conversation: &ConversationId) -> LiveSubscription {
        let (sender, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
        let mut rooms = self.rooms();
        let new_room = || LiveRoom::new(conversation, self.stop.child_token());
        let room = Arc::clone(rooms.entry(conversation.clone()).or_insert_with(new_room));
        let closed = room.snapshots().child_token();
        let mut state = room.state();
        let queue_budget = Arc::new(Semaphore::new(MAX_QUEUED_KIB));
        state.joining.push(Subscriber { frames: sender, queue_budget, closed: closed.clone() });
        if !std::mem::replace(&mut state.has_renderer, true) {
            self.tasks.spawn(renderer::run_room(Arc::clone(self), Arc::clone(&room)));
        }
        drop(state);
        room.wake.notify_one();
        LiveSubscription { frames, closed }
    }

    /// Makes the clients of a conversation connect again, for a snapshot of what is left of it.
    pub(crate) fn resend_snapshot(&self, conversation: &ConversationId) {
        if let Some(room) = self.rooms().get(conversation) {
            let outdated = std::mem::replace(&mut *room.snapshots(), self.stop.child_token());
            outdated.cancel();
        }
    }

    /// Waits until all rooms have stopped.
    pub(crate) async fn wait_stopped(&self) {
        self.stop.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn on_event(&self, event: &BusEvent) {
        let mut rooms = self.rooms();
        let is_live_event =
            matches!(event, BusEvent::TextDelta { .. } | BusEvent::ToolStarted { .. } | BusEvent::ToolFinished { .. });
        let conversation = event.conversation();
        if is_live_event && !rooms.contains_key(conversation) {
            evict_idle_rooms(&mut rooms);
            rooms.insert(conversation.clone(), LiveRoom::new(conversation, self.stop.child_token()));
        }
        let Some(room) = rooms.get(conversation).map(Arc::clone) else { return };
        let mut state = room.state();
        state.apply(event);
        let is_idle = !state.has_renderer && state.live_turn.is_none();
        drop(state);
        if is_idle {
            rooms.remove(conversation);
        } else {
            room.wake.notify_one();
        }
    }

    /// Stops rendering a room without subscribers; returns `false` if one has just joined.
    fn remove_if_empty(&self, room: &LiveRoom) -> bool {
        let mut rooms = self.rooms();
        let mut state = room.state();
        if !state.joining.is_empty() {
            return false;
        }
        state.has_renderer = false;
        if state.live_turn.is_none() {
            rooms.remove(&room.conversation);
        }
        true
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<LiveRoom>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRoom {
    fn new(conversation: &ConversationId, snapshots: CancellationToken) -> Arc<Self> {
        let (conversation, snapshots) = (conversation.clone(), Mutex::new(snapshots));
        Arc::new(Self { conversation, snapshots, state: Mutex::default(), wake: Notify::new() })
    }

    fn snapshots(&self) -> MutexGuard<'_, CancellationToken> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Evicts the rooms with the oldest live turns if too many have no subscribers; their end may have been missed.
fn evict_idle_rooms(rooms: &mut HashMap<ConversationId, Arc<LiveRoom>>) {
    let idle_rooms = rooms.iter().filter_map(|(conversation, room)| {
        let state = room.state();
        let live_turn = state.live_turn.as_ref().filter(|_| !state.has_renderer)?;
        Some((live_turn.turn, conversation.clone()))
    });
    let mut idle_rooms: Vec<_> = idle_rooms.collect();
    if idle_rooms.len() >= MAX_IDLE_ROOMS {
        idle_rooms.sort_unstable();
        for (_, conversation) in idle_rooms.drain(..MAX_IDLE_ROOMS / 2) {
            rooms.remove(&conversation);
        }
    }
}

fn event_frame(name: &str, content: &impl Serialize) -> Bytes {
    write_frame(&format!("event: {name}\ndata: "), content)
}

/// Encodes the first event, with the reconnect delay.
fn first_frame(name: &str, content: &impl Serialize) -> Bytes {
    write_frame(&format!("retry: 1000\nevent: {name}\ndata: "), content)
}

fn write_frame(head: &str, content: &impl Serialize) -> Bytes {
    let mut frame = head.as_bytes().to_vec();
    // JSON has no line breaks but escaped ones, so it is one line of the event stream.
    serde_json::to_writer(&mut frame, content).expect("what is shown is plain data");
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

#[cfg(test)]
mod tests;
