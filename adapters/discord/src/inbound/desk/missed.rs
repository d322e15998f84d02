//! What was said while no session told of it: which histories are read and when, and what follows from each page.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use futures::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::{Desk, Done, asking::Page, store::Job};
use crate::{
    inbound::history::{self, Ask, Place},
    snowflake,
};

impl Desk {
    /// A new session has begun: what happened before it is told by history alone.
    pub(super) fn began(&mut self, ready: &Value) {
        tracing::debug!("a new Discord session started; reading missed messages from the history");
        self.something_was_missed();
        self.guilds_due = Some(Instant::now() + self.store.waits.guilds_timeout);
        // Those that had come back tell again what they have to, or have gone out of order since.
        self.returning.clear();
        let told = ready.get("guilds").and_then(Value::as_array);
        let guilds: BTreeSet<_> = told.into_iter().flatten().filter_map(|guild| snowflake::read(guild, "id")).collect();
        if told.is_some() {
            self.forget_all_guilds_but(&guilds);
        }
        self.history.await_guilds(guilds);
        let after = history::start(self.marks.seen()).max(self.marks.begun_at());
        for channel in self.marks.direct().collect::<Vec<_>>() {
            self.read_missed(channel, None, after);
        }
        self.ask_all_again();
        self.read_on();
    }

    /// A new session names all guilds that we are in. Of those that we have left meanwhile, nothing else tells.
    fn forget_all_guilds_but(&mut self, guilds: &BTreeSet<u64>) {
        let mut known = self.store.known.guild_ids();
        known.extend(self.marks.guilds());
        for left in known.difference(guilds) {
            self.forget_guild(*left);
        }
    }

    /// Whatever was withheld is asked for at once: a connection is there, and places that are out of order are told.
    pub(super) fn ask_all_again(&mut self) {
        for (channel, _) in self.marks.all_unread() {
            self.again.now(channel);
        }
    }

    fn something_was_missed(&mut self) {
        if self.missed.is_none() {
            self.missed = Some(self.marks.open_what_was_missed());
        }
    }

    fn read_missed(&mut self, channel: u64, guild: Option<u64>, after: u64) {
        self.hold(channel);
        let after = self.marks.unread(channel).map_or(after, |unread| unread.after.min(after));
        // What was withheld may be from before we were there, where we have left and come back since.
        let after = guild.map_or(after, |guild| self.store.known.first_visible_id(guild).max(after));
        self.history.read(channel, guild, after);
    }

    /// What comes in a channel waits from now on for its history.
    fn hold(&mut self, channel: u64) {
        if let Some(lane) = self.lanes.get_mut(&channel).filter(|_| !self.history.holds(channel)) {
            lane.history_is_asked();
        }
    }

    /// A guild tells of itself: what was said there since we were away is read.
    pub(super) fn guild_came(&mut self, guild: &Value) {
        // One that is out of order comes again.
        if guild.get("unavailable").and_then(Value::as_bool) == Some(true) {
            return;
        }
        let Some(id) = snowflake::read(guild, "id") else { return };
        let behind = self.marks.behind(id);
        if !self.history.guild_came(id) && behind.is_none() {
            // One that we are new to: what was said before we were there is not for us.
            return;
        }
        self.something_was_missed();
        self.returning.extend(behind.map(|_| id));
        let seen = behind.unwrap_or_else(|| self.marks.seen());
        let after = history::start(seen).max(self.marks.begun_at()).max(self.store.known.first_visible_id(id));
        for channel in history::with_news(guild, after) {
            self.read_missed(channel, Some(id), after);
        }
        let unread: Vec<_> = self.marks.all_unread().filter(|(_, unread)| unread.guild == Some(id)).collect();
        for (channel, unread) in unread {
            self.read_missed(channel, Some(id), unread.after);
        }
        self.read_on();
    }

    /// A guild is out of order, and comes back. Nothing tells what is said there meanwhile but history.
    pub(super) fn guild_went_out_of_order(&mut self, guild: u64) {
        let seen = self.marks.seen();
        self.marks.fell_behind(guild, seen);
        self.returning.retain(|returning| *returning != guild);
    }

    /// We are no longer in a guild.
    pub(super) fn guild_is_gone(&mut self, guild: u64) {
        self.forget_guild(guild);
        self.read_on();
    }

    fn forget_guild(&mut self, guild: u64) {
        self.store.known.remove_guild(guild);
        self.history.forget_guild(guild);
        if self.marks.left(guild) {
            self.tell_if_nothing_is_unread();
        }
    }

    /// A channel is no longer there.
    pub(super) fn channel_is_gone(&mut self, channel: u64) {
        self.store.known.remove_channel(channel);
        self.history.forget_channel(channel);
        self.nothing_is_unread_of(channel);
    }

    fn nothing_is_unread_of(&mut self, channel: u64) {
        self.again.never(channel);
        if self.marks.is_read(channel) {
            self.tell_if_nothing_is_unread();
        }
    }

    fn tell_if_nothing_is_unread(&self) {
        if self.marks.all_unread().next().is_none() {
            tracing::info!("backfill complete for channels that failed before");
        }
    }

    /// A guild may be out of order for hours. The others go on; of each of these is kept in mind how far it was read.
    pub(super) fn go_on_without_guilds(&mut self) {
        self.guilds_due = None;
        let (seen, absent) = (self.marks.seen(), self.history.await_none());
        if !absent.is_empty() {
            tracing::warn!(
                guilds = absent.len(),
                "some guilds are unavailable; their backfill waits until they return"
            );
        }
        for guild in absent {
            self.marks.fell_behind(guild, seen);
        }
        self.read_on();
        self.keep_soon();
    }

    /// Whether a guild is out of order, as far as we were told.
    fn is_absent(&self, guild: u64) -> bool {
        self.history.awaits(guild) || (self.marks.behind(guild).is_some() && !self.returning.contains(&guild))
    }

    /// Asks again the channels that have withheld their history and are due. Those that are being read tell by
    /// themselves, and so do guilds when they come.
    pub(super) fn ask_again(&mut self) {
        for channel in self.again.take_due() {
            let Some(unread) = self.marks.unread(channel) else {
                self.again.never(channel);
                continue;
            };
            if !self.history.reads(channel) && !unread.guild.is_some_and(|guild| self.is_absent(guild)) {
                self.history.read_withheld(channel, unread);
            }
        }
        self.read_on();
    }

    /// Asks for the pages of history that may be asked for now, and sees whether all was read.
    pub(super) fn read_on(&mut self) {
        while let Some(ask) = self.history.ask() {
            let store = Arc::clone(&self.store);
            self.work.push(async move { Done::Page { ask, page: store.page(ask).await } }.boxed());
        }
        if !self.history.is_over() {
            return;
        }
        if let Some(missed) = self.missed.take() {
            self.guilds_due = None;
            self.marks.close(missed);
            for guild in self.returning.drain(..) {
                self.marks.caught_up(guild);
            }
        }
        let messages = std::mem::take(&mut self.missed_messages);
        if messages > 0 {
            tracing::info!(messages, "backfill stored the missed messages");
        }
    }

    /// A channel's page has come, or none.
    pub(super) fn page_came(&mut self, ask: Ask, page: Page) {
        match page {
            Page::Shown(messages) => {
                // Who may not read history is shown none.
                if messages.is_empty() && ask.is_promised {
                    self.tell_of_a_closed_channel(ask.channel);
                }
                self.was_shown(ask.channel, &messages);
            }
            // What is said of a place that is out of order need not be so.
            Page::Closed if ask.guild.is_some_and(|guild| self.is_absent(guild)) => self.was_withheld(ask.channel),
            Page::Closed => {
                if ask.is_promised || ask.was_withheld {
                    self.tell_of_a_closed_channel(ask.channel);
                }
                self.was_shown(ask.channel, &[]);
            }
            Page::Withheld(error) => {
                if self.marks.unread(ask.channel).is_none() {
                    tracing::warn!(
                        channel = ask.channel,
                        %error,
                        "backfill of a channel failed; it will be retried"
                    );
                }
                self.was_withheld(ask.channel);
            }
        }
    }

    fn tell_of_a_closed_channel(&mut self, channel: u64) {
        if !std::mem::replace(&mut self.told_closed, true) {
            tracing::warn!(
                channel,
                "backfill of a channel is not allowed; give the bot the permission Read Message History there"
            );
        }
    }

    fn was_shown(&mut self, channel: u64, messages: &[Value]) {
        let last = messages.last().and_then(|message| snowflake::read(message, "id"));
        let place = self.history.came(channel, messages.len(), last);
        let guild = if let Place::Guild(guild) = place { Some(guild) } else { None };
        let read = messages.iter().filter(|_| place != Place::Gone);
        let jobs: VecDeque<Job> = read.filter_map(|message| self.store.read_missed(message, guild)).collect();
        jobs.iter().for_each(|job| self.edited.told(job));
        let lane = self.lanes.entry(channel).or_default();
        for ticket in lane.take_told(&self.edited) {
            self.waiting -= 1;
            self.marks.close(ticket);
        }
        if jobs.is_empty() {
            self.page_stored(channel);
        } else {
            lane.was_missed(jobs);
            self.advance(channel);
        }
    }

    /// What was missed in a channel stays unread for now. It is kept in mind over the end of this process, and what is
    /// said there since goes on.
    fn was_withheld(&mut self, channel: u64) {
        if let Some(unread) = self.history.withheld(channel) {
            let waits = self.store.waits;
            self.marks.withheld(channel, unread);
            self.again.later(channel, |failures| waits.recheck_delay(failures));
        }
        self.read_on();
        self.advance(channel);
    }

    /// A channel's page is stored.
    pub(super) fn page_stored(&mut self, channel: u64) {
        let goes_on = self.history.stored(channel);
        if !goes_on {
            self.nothing_is_unread_of(channel);
        }
        self.read_on();
        self.advance(channel);
    }
}
