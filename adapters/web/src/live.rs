//! What happens right now, for everybody who looks: one listener on the bus, one reader of the ledger for each
//! conversation that is looked at, however many look.
//!
//! Events are hints. They say that something may have changed, and what the ledger says then is what is shown; only the
//! text that is being written comes from them alone, until the turn is complete. A hint that was lost costs seconds,
//! because what is unfinished is read again in any case.

mod frame;
mod renderer;
mod room;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::StreamExt;
use satchel_domain::{ChannelName, ConversationId};
use satchel_ports::{BusEvent, Ledger, event_bus::EventStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use frame::KEEP_ALIVE;
use room::RoomState;

/// How many frames wait for a client; one that lets more wait is cut off and comes back for a snapshot.
const WAITING_FRAMES: usize = 128;

/// How much waits for a client, in KiB, behind its snapshot.
const WAITING_KIB: usize = 4 * 1024;

/// How many conversations in which something is being written are remembered while nobody looks.
const MAX_IDLE_ROOMS: usize = 512;

/// All conversations that are looked at or written in.
pub(crate) struct LiveHub {
    ledger: Arc<dyn Ledger>,
    channel: ChannelName,
    rooms: Mutex<HashMap<ConversationId, Arc<LiveRoom>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

pub(crate) struct LiveRoom {
    conversation: ConversationId,
    state: Mutex<RoomState>,
    wake: Notify,
}

/// A client's end of a stream of events.
pub(crate) struct LiveSubscription {
    /// What it is sent, as text of the event stream.
    pub(crate) frames: mpsc::Receiver<QueuedFrame>,
    /// Set when it was too slow or the server stops.
    pub(crate) cut: CancellationToken,
}

/// Why the hub follows the bus no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerEnd {
    Stopped,
    /// The bus closed while the server goes on.
    BusClosed,
}

/// A frame on its way to a client.
#[derive(Debug)]
pub(crate) struct QueuedFrame {
    pub(crate) frame: Bytes,
    /// The room that it takes until it is sent.
    _room: OwnedSemaphorePermit,
}

struct Subscriber {
    frames: mpsc::Sender<QueuedFrame>,
    /// What is left of [`WAITING_KIB`].
    room: Arc<Semaphore>,
    cut: CancellationToken,
}

impl LiveHub {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, channel: ChannelName, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { ledger, channel, rooms: Mutex::default(), tasks: TaskTracker::new(), stop })
    }

    /// Follows the bus until the server stops or the bus closes. A bus that closes after `stop`, as it does when the
    /// whole process stops, is no news.
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

    /// Begins to show a conversation to one more client.
    pub(crate) fn subscribe(self: &Arc<Self>, conversation: &ConversationId) -> LiveSubscription {
        let (sender, frames) = mpsc::channel(WAITING_FRAMES);
        let cut = self.stop.child_token();
        let mut rooms = self.rooms();
        let room = Arc::clone(rooms.entry(conversation.clone()).or_insert_with(|| LiveRoom::new(conversation)));
        let mut state = room.state();
        let room_left = Arc::new(Semaphore::new(WAITING_KIB));
        state.joining.push(Subscriber { frames: sender, room: room_left, cut: cut.clone() });
        if !std::mem::replace(&mut state.tended, true) {
            self.tasks.spawn(renderer::run_room(Arc::clone(self), Arc::clone(&room)));
        }
        drop(state);
        room.wake.notify_one();
        LiveSubscription { frames, cut }
    }

    /// Waits until nobody is shown anything any more.
    pub(crate) async fn wait_stopped(&self) {
        self.stop.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn on_event(&self, event: &BusEvent) {
        let mut rooms = self.rooms();
        let begins =
            matches!(event, BusEvent::TextDelta { .. } | BusEvent::ToolStarted { .. } | BusEvent::ToolFinished { .. });
        let conversation = event.conversation();
        if begins && !rooms.contains_key(conversation) {
            forget_some(&mut rooms);
            rooms.insert(conversation.clone(), LiveRoom::new(conversation));
        }
        let Some(room) = rooms.get(conversation).map(Arc::clone) else { return };
        let mut state = room.state();
        state.apply(event);
        let over = !state.tended && state.growing.is_none();
        drop(state);
        if over {
            rooms.remove(conversation);
        } else {
            room.wake.notify_one();
        }
    }

    /// Ends the work on a room in which nobody is left; `false` when somebody has just come.
    fn remove_if_empty(&self, room: &LiveRoom) -> bool {
        let mut rooms = self.rooms();
        let mut state = room.state();
        if !state.joining.is_empty() {
            return false;
        }
        state.tended = false;
        if state.growing.is_none() {
            rooms.remove(&room.conversation);
        }
        true
    }

    fn rooms(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<LiveRoom>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRoom {
    fn new(conversation: &ConversationId) -> Arc<Self> {
        let conversation = conversation.clone();
        Arc::new(Self { conversation, state: Mutex::default(), wake: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what nobody looks at within bounds: what was begun longest ago is forgotten, its end may have been missed.
fn forget_some(rooms: &mut HashMap<ConversationId, Arc<LiveRoom>>) {
    let unseen = rooms.iter().filter_map(|(conversation, room)| {
        let state = room.state();
        let growing = state.growing.as_ref().filter(|_| !state.tended)?;
        Some((growing.turn, conversation.clone()))
    });
    let mut unseen: Vec<_> = unseen.collect();
    if unseen.len() >= MAX_IDLE_ROOMS {
        unseen.sort_unstable();
        for (_, conversation) in unseen.drain(..MAX_IDLE_ROOMS / 2) {
            rooms.remove(&conversation);
        }
    }
}

#[cfg(test)]
mod tests;
