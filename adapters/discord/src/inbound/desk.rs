//! Where events are handed in: read, stored in the order of their channel, and only then said to be taken.

mod again;
mod asking;
mod keeping;
mod lane;
mod missed;
mod store;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use satchel_domain::UndecodableUpdate;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use self::{
    again::Again,
    asking::Page,
    lane::{Edited, Lane},
    store::{Directly, Stopped, Stored},
};
use super::{
    bookmark::Bookmark,
    history::{Ask, History},
    interactions,
    marks::{Marks, Ticket},
};
use crate::{address::channel_name, gateway::GatewayEvent, snowflake};

pub(super) use store::{Job, State, Store};

/// How many events wait at most until they are stored; of more, nothing is read from the gateway until there is room.
const MOST_WAITING: usize = 500;

/// How long is waited at the end for what is just being stored, and for the last bookmark.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Desk {
    store: Arc<Store>,
    marks: Marks,
    history: History,
    /// Open while what was missed is being read.
    missed: Option<Ticket>,
    /// How many messages were missed.
    missed_messages: usize,
    /// When the guilds that haven't come are no longer waited for.
    guilds_due: Option<Instant>,
    /// The guilds that came after they were no longer waited for, and are being read.
    returning: Vec<u64>,
    /// The channels that withhold their history.
    again: Again,
    /// Whether it was said that history is closed to us.
    told_closed: bool,
    edited: Edited,
    lanes: HashMap<u64, Lane>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    waiting: usize,
    kept: Option<Bookmark>,
    keep_at: Option<Instant>,
    is_keeping: bool,
    /// Whether it was tried to keep a session.
    has_tried: bool,
}

enum Done {
    /// Something of a channel is stored, or we stop.
    Stored { channel: u64, ticket: Option<Ticket>, stored: Result<Stored, Stopped> },
    /// A page of a channel's history was asked for, or we stop.
    Page { ask: Ask, page: Result<Page, Stopped> },
    /// An interaction is answered.
    Answered,
    /// A bookmark is kept, or isn't.
    Kept { bookmark: Bookmark, kept: bool },
}

impl Desk {
    /// A desk that goes on where a bookmark says.
    pub(super) fn new(store: Store, bookmark: Bookmark) -> Self {
        Self {
            store: Arc::new(store),
            kept: Some(bookmark.clone()),
            marks: Marks::at(bookmark),
            history: History::default(),
            missed: None,
            missed_messages: 0,
            guilds_due: None,
            returning: Vec::new(),
            again: Again::default(),
            told_closed: false,
            edited: Edited::default(),
            lanes: HashMap::new(),
            work: FuturesUnordered::new(),
            waiting: 0,
            keep_at: None,
            is_keeping: false,
            has_tried: false,
        }
    }

    /// Takes in what comes until nothing comes any more, or we are to stop. What was being stored by then is let
    /// finish, for what is durable should be remembered.
    pub(super) async fn take_all(mut self, mut coming: mpsc::Receiver<GatewayEvent>) {
        let (over, known) = (self.store.over.clone(), Arc::clone(&self.store.known));
        loop {
            let again_at = self.again.due();
            let keep_at = self.keep_at.filter(|_| !self.is_keeping);
            tokio::select! {
                () = over.cancelled() => break,
                event = coming.recv(), if self.waiting < MOST_WAITING => match event {
                    Some(event) => self.take(event),
                    None => break,
                },
                Some(done) = self.work.next() => self.settle(done),
                channels = known.wait_for_opened() => self.opened(channels),
                () = sleep_until(again_at.unwrap_or_else(Instant::now)), if again_at.is_some() => self.ask_again(),
                () = sleep_until(keep_at.unwrap_or_else(Instant::now)), if keep_at.is_some() => self.keep(),
                () = sleep_until(self.guilds_due.unwrap_or_else(Instant::now)), if self.guilds_due.is_some() => {
                    self.go_on_without_guilds();
                }
            }
        }
        over.cancel();
        let finishing = async {
            while let Some(done) = self.work.next().await {
                self.settle(done);
            }
        };
        // What isn't stored by then comes again.
        let _ = timeout(LAST_PATIENCE, finishing).await;
        if let Some(channels) = known.wait_for_opened().now_or_never() {
            self.opened(channels);
        }
        let bookmark = self.bookmark();
        if self.kept.as_ref() != Some(&bookmark) {
            let _ = timeout(LAST_PATIENCE, self.store.keep(&bookmark)).await;
        }
    }

    fn take(&mut self, event: GatewayEvent) {
        match event {
            GatewayEvent::Dispatch { resume_state, name, data } => {
                self.happened(&name, data, resume_state.has_message_content);
                self.marks.passed(resume_state);
            }
            GatewayEvent::Undecodable { key, reason } => {
                let ticket = self.marks.open(None);
                let (channel, reason) = (channel_name(), reason.to_owned());
                let update = UndecodableUpdate { channel, key, sender: None, raw: Value::Null, reason };
                self.enqueue(0, ticket, Job::Keep(Box::new(update)));
            }
        }
        self.keep_soon();
    }

    fn happened(&mut self, name: &str, data: Value, content: bool) {
        let known = Arc::clone(&self.store.known);
        let id = snowflake::read(&data, "id");
        match name {
            "READY" => self.began(&data),
            "RESUMED" => self.ask_all_again(),
            "GUILD_CREATE" => {
                known.record_guild(&data);
                self.guild_came(&data);
            }
            "GUILD_UPDATE" => known.record_guild(&data),
            "GUILD_DELETE" => match id {
                // It comes back.
                Some(guild) if data.get("unavailable").and_then(Value::as_bool) == Some(true) => {
                    self.guild_went_out_of_order(guild);
                }
                Some(guild) => self.guild_is_gone(guild),
                None => {}
            },
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => known.record_channel(&data),
            "THREAD_LIST_SYNC" => {
                for thread in data.get("threads").and_then(Value::as_array).into_iter().flatten() {
                    known.record_channel(thread);
                }
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(channel) = id {
                    self.channel_is_gone(channel);
                }
            }
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "INTERACTION_CREATE" => self.said(name, data, content),
            _ => {}
        }
    }

    fn said(&mut self, name: &str, data: Value, content: bool) {
        let channel = snowflake::read(&data, "channel_id").unwrap_or(0);
        let message = snowflake::read(&data, "id").filter(|_| name == "MESSAGE_CREATE");
        if let Some(message) = message {
            self.marks.came(message);
        }
        // An interaction tells all that is needed, and waits for its answer.
        let job = if name != "INTERACTION_CREATE" && self.store.is_of_unknown(channel, &data) {
            Some(Job::Unknown { channel, name: name.to_owned(), data, content })
        } else {
            self.store.read(name, &data, content)
        };
        if let Some(job) = job.filter(|job| !self.edited.covers(job)) {
            let ticket = self.marks.open(message);
            self.enqueue(channel, ticket, job);
        }
    }

    fn enqueue(&mut self, channel: u64, ticket: Ticket, job: Job) {
        self.waiting += 1;
        self.lanes.entry(channel).or_default().push(ticket, job);
        self.advance(channel);
    }

    /// Begins what is next in a channel.
    fn advance(&mut self, channel: u64) {
        if self.store.over.is_cancelled() {
            return;
        }
        let lane = self.lanes.entry(channel).or_default();
        if lane.is_busy {
            return;
        }
        let waits = self.history.holds(channel);
        let Some((ticket, job)) = lane.next(waits) else {
            if !waits {
                self.lanes.remove(&channel);
            }
            return;
        };
        lane.is_busy = true;
        let store = Arc::clone(&self.store);
        self.work.push(async move { Done::Stored { channel, ticket, stored: store.store(job).await } }.boxed());
    }

    /// Satchel has opened direct channels, to write to somebody there.
    fn opened(&mut self, channels: Vec<u64>) {
        let known: BTreeSet<_> = self.marks.direct().collect();
        let is_new = channels.iter().any(|channel| !known.contains(channel));
        for channel in channels {
            self.marks.came_directly(channel);
        }
        if is_new {
            // Of one in which nobody has written to us no event tells again.
            self.keep_at = Some(Instant::now());
        } else {
            self.keep_soon();
        }
    }

    fn settle(&mut self, done: Done) {
        match done {
            Done::Stored { channel, ticket, stored: Ok(Stored { answer, directly }) } => {
                match directly {
                    Some(Directly::Person(person)) => {
                        self.marks.came_directly(channel);
                        self.store.known.record_direct_channel(person, channel);
                    }
                    Some(Directly::Stranger) => self.marks.stranger_came(channel),
                    None => {}
                }
                match ticket {
                    Some(ticket) => {
                        self.waiting -= 1;
                        self.marks.close(ticket);
                    }
                    None => self.missed_messages += 1,
                }
                if let Some(interaction) = answer {
                    let store = Arc::clone(&self.store);
                    let answering = async move { interactions::respond(&store.rest, &interaction).await };
                    self.work.push(answering.map(|()| Done::Answered).boxed());
                }
                let lane = self.lanes.entry(channel).or_default();
                lane.is_busy = false;
                let page_stored = ticket.is_none() && lane.has_stored_what_was_missed();
                if page_stored {
                    self.page_stored(channel);
                } else {
                    self.advance(channel);
                }
                self.keep_soon();
            }
            Done::Page { ask, page: Ok(page) } => {
                self.page_came(ask, page);
                self.keep_soon();
            }
            Done::Kept { bookmark, kept } => self.has_kept(bookmark, kept),
            Done::Stored { stored: Err(Stopped), .. } | Done::Page { page: Err(Stopped), .. } | Done::Answered => {}
        }
    }
}
