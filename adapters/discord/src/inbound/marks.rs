//! What is still being stored, and how far the stream is taken in until it is.

use std::collections::BTreeMap;

use super::bookmark::{Bookmark, Unread};
use crate::gateway::ResumeState;

/// How many direct channels are kept in mind. Their history is read when a session could not go on.
const MOST_DIRECT: usize = 1_000;

/// How many more are of people who may not talk to us. Whoever is let in is so soon after they have written.
const MOST_STRANGERS: usize = 100;

/// What is still being stored, by the order in which it came.
#[derive(Debug)]
pub(super) struct Marks {
    /// Where the stream stands.
    latest: Option<ResumeState>,
    /// The greatest id of a message that came.
    greatest: u64,
    open: BTreeMap<Ticket, Open>,
    next: u64,
    /// What is kept, but for the position. What was once said to be seen stays so: a message that is changed later
    /// takes nothing back.
    kept: Bookmark,
}

/// Something that is being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What may be said to be stored while something isn't.
#[derive(Debug)]
struct Open {
    position: Option<ResumeState>,
    seen: u64,
}

impl Marks {
    /// Where a bookmark says that we are.
    pub(super) fn at(bookmark: Bookmark) -> Self {
        let (latest, greatest) = (bookmark.position.clone(), bookmark.seen_up_to);
        Self { latest, greatest, open: BTreeMap::new(), next: 0, kept: bookmark }
    }

    /// Something is to be stored that has come after everything so far, and before the next event that has passed.
    /// `message` is the new message that it is, if it is one.
    pub(super) fn open(&mut self, message: Option<u64>) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let seen = message.map_or(u64::MAX, |message| message.saturating_sub(1));
        self.open.insert(ticket, Open { position: self.latest.clone(), seen });
        ticket
    }

    /// Starts a backfill. The watermark does not pass it until it is complete.
    pub(super) fn open_what_was_missed(&mut self) -> Ticket {
        let seen = self.seen();
        let ticket = self.open(None);
        self.open.entry(ticket).and_modify(|open| open.seen = seen);
        ticket
    }

    pub(super) fn close(&mut self, ticket: Ticket) {
        self.open.remove(&ticket);
    }

    /// An event has come. What it brought to be stored was opened before.
    pub(super) fn passed(&mut self, position: ResumeState) {
        self.latest = Some(position);
    }

    /// A new message has come, whomever it is for.
    pub(super) fn came(&mut self, message: u64) {
        self.greatest = self.greatest.max(message);
    }

    /// Somebody who may talk to us did so in a direct channel, or is written to there.
    pub(super) fn came_directly(&mut self, channel: u64) {
        self.kept.strangers.retain(|stranger| *stranger != channel);
        is_latest(&mut self.kept.direct, channel, MOST_DIRECT);
    }

    /// Somebody wrote in a direct channel who may not talk to us. However many do, nobody else is forgotten for it.
    pub(super) fn stranger_came(&mut self, channel: u64) {
        if !self.kept.direct.contains(&channel) {
            is_latest(&mut self.kept.strangers, channel, MOST_STRANGERS);
        }
    }

    /// The direct channels that are known.
    pub(super) fn direct(&self) -> impl Iterator<Item = u64> {
        self.kept.direct.iter().chain(&self.kept.strangers).copied()
    }

    /// A guild is out of order: up to a message all of it is stored. What was known before stays.
    pub(super) fn fell_behind(&mut self, guild: u64, seen: u64) {
        self.kept.behind.entry(guild).or_insert(seen);
    }

    /// The message up to which all of a guild is stored that was out of order.
    pub(super) fn behind(&self, guild: u64) -> Option<u64> {
        self.kept.behind.get(&guild).copied()
    }

    /// A guild that was out of order is read.
    pub(super) fn caught_up(&mut self, guild: u64) {
        self.kept.behind.remove(&guild);
    }

    /// A channel's history is withheld.
    pub(super) fn withheld(&mut self, channel: u64, unread: Unread) {
        self.kept.unread.insert(channel, unread);
    }

    /// What is unread of a channel's history because it was withheld.
    pub(super) fn unread(&self, channel: u64) -> Option<Unread> {
        self.kept.unread.get(&channel).copied()
    }

    /// The channels whose history was withheld.
    pub(super) fn all_unread(&self) -> impl Iterator<Item = (u64, Unread)> {
        self.kept.unread.iter().map(|(channel, unread)| (*channel, *unread))
    }

    /// A channel's history is read, or gone. Whether something of it was unread.
    pub(super) fn is_read(&mut self, channel: u64) -> bool {
        self.kept.unread.remove(&channel).is_some()
    }

    /// We are no longer in a guild. Whether something of it was unread.
    pub(super) fn left(&mut self, guild: u64) -> bool {
        self.caught_up(guild);
        let before = self.kept.unread.len();
        self.kept.unread.retain(|_, unread| unread.guild != Some(guild));
        self.kept.unread.len() < before
    }

    /// The guilds of which something is still to be read.
    pub(super) fn guilds(&self) -> impl Iterator<Item = u64> {
        self.kept.behind.keys().copied().chain(self.kept.unread.values().filter_map(|unread| unread.guild))
    }

    /// Whether a session would be kept now.
    pub(super) fn has_position(&self) -> bool {
        self.open.first_key_value().map_or(&self.latest, |(_, open)| &open.position).is_some()
    }

    /// The message up to which nothing is for us.
    pub(super) fn begun_at(&self) -> u64 {
        self.kept.begun_at
    }

    /// The message up to which all is stored.
    pub(super) fn seen(&mut self) -> u64 {
        let stored = self.open.values().map(|open| open.seen).min().unwrap_or(u64::MAX);
        let seen = &mut self.kept.seen_up_to;
        *seen = self.greatest.min(stored).max(*seen);
        *seen
    }

    /// What may be kept now.
    pub(super) fn bookmark(&mut self) -> Bookmark {
        self.seen();
        let first = self.open.first_key_value().map(|(_, open)| &open.position);
        let position = first.unwrap_or(&self.latest).clone();
        Bookmark { position, ..self.kept.clone() }
    }
}

/// A channel becomes the last one of those that are kept in mind.
fn is_latest(channels: &mut Vec<u64>, channel: u64, most: usize) {
    channels.retain(|known| *known != channel);
    channels.push(channel);
    if channels.len() > most {
        channels.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seq: u64) -> ResumeState {
        ResumeState {
            server: "https://x".into(),
            session_id: "abc".into(),
            resume_url: "wss://x".into(),
            seq,
            has_message_content: true,
        }
    }

    fn fresh() -> Marks {
        Marks::at(Bookmark { position: Some(at(10)), seen_up_to: 1_000, direct: vec![7], ..Bookmark::beginning(5) })
    }

    fn told(marks: &mut Marks) -> (u64, u64) {
        let bookmark = marks.bookmark();
        (bookmark.position.unwrap().seq, bookmark.seen_up_to)
    }

    #[test]
    fn watermark_stays_below_messages_being_stored() {
        let mut marks = fresh();
        marks.came(1_001);
        let first = marks.open(Some(1_001));
        marks.passed(at(11));
        marks.came(1_002);
        let second = marks.open(Some(1_002));
        marks.passed(at(12));
        assert_eq!(told(&mut marks), (10, 1_000));
        marks.close(second);
        assert_eq!(told(&mut marks), (10, 1_000), "the first is still on its way");
        marks.close(first);
        assert_eq!(told(&mut marks), (12, 1_002));
    }

    #[test]
    fn what_concerns_nobody_moves_the_mark() {
        let mut marks = fresh();
        marks.came(1_005);
        marks.passed(at(11));
        assert_eq!(told(&mut marks), (11, 1_005));
    }

    #[test]
    fn a_message_that_is_changed_takes_back_nothing() {
        let mut marks = fresh();
        let edit = marks.open(Some(5));
        marks.passed(at(11));
        assert_eq!(told(&mut marks), (10, 1_000));
        marks.close(edit);
        assert_eq!(told(&mut marks), (11, 1_000));
    }

    #[test]
    fn watermark_stays_until_backfill_completes() {
        let mut marks = fresh();
        let missed = marks.open_what_was_missed();
        marks.passed(ResumeState { session_id: "new".into(), ..at(1) });
        marks.came(2_000);
        let message = marks.open(Some(2_000));
        marks.passed(ResumeState { session_id: "new".into(), ..at(2) });
        marks.close(message);
        assert_eq!(told(&mut marks), (10, 1_000), "neither a session nor a message of now");
        marks.close(missed);
        assert_eq!(marks.bookmark().position, Some(ResumeState { session_id: "new".into(), ..at(2) }));
        assert_eq!(marks.seen(), 2_000);
    }

    #[test]
    fn oldest_direct_channel_is_evicted_beyond_limit() {
        let mut marks = fresh();
        for channel in 100..100 + MOST_DIRECT as u64 - 1 {
            marks.came_directly(channel);
        }
        marks.came_directly(7);
        marks.came_directly(99);
        assert_eq!((marks.direct().count(), marks.direct().next()), (MOST_DIRECT, Some(101)));
        assert!(marks.bookmark().direct.ends_with(&[7, 99]));
    }

    #[test]
    fn however_many_strangers_come_nobody_else_is_forgotten() {
        let mut marks = fresh();
        for channel in 100..101 + MOST_STRANGERS as u64 {
            marks.stranger_came(channel);
        }
        marks.stranger_came(7);
        let Bookmark { direct, strangers, .. } = marks.bookmark();
        assert_eq!((direct, strangers.len(), strangers[0]), (vec![7], MOST_STRANGERS, 101));
        marks.came_directly(101);
        let Bookmark { direct, strangers, .. } = marks.bookmark();
        assert_eq!((direct, strangers[0]), (vec![7, 101], 102), "whoever is let in is no stranger");
    }

    proptest! {
        /// Whatever the order in which things are stored, the mark is the last event before the first that isn't.
        #[test]
        fn the_mark_never_runs_ahead(kinds in prop::collection::vec(any::<bool>(), 1..40), order in any::<prop::sample::Index>()) {
            let mut marks = fresh();
            let mut open: Vec<(u64, Ticket)> = Vec::new();
            for (seq, stores) in (11..).zip(&kinds) {
                marks.came(1_000 + seq);
                if *stores {
                    open.push((seq, marks.open(Some(1_000 + seq))));
                }
                marks.passed(at(seq));
            }
            let last = 10 + kinds.len() as u64;
            while !open.is_empty() {
                let first = open.iter().map(|(seq, _)| *seq).min().unwrap();
                prop_assert_eq!(told(&mut marks), (first - 1, 1_000 + first - 1));
                let (_, ticket) = open.swap_remove(order.index(open.len()));
                marks.close(ticket);
            }
            prop_assert_eq!(told(&mut marks), (last, 1_000 + last));
        }
    }
}
