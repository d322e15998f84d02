//! What was missed: which channels' histories are read after a session could not go on, and how far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use super::bookmark::Unread;
use crate::snowflake;

/// How many messages a page of history holds, which is the most that Discord gives at once.
pub(super) const PAGE: usize = 100;

/// How many channels' histories are asked for at once.
const AT_ONCE: usize = 8;

/// How many more that were withheld before. However long these take, no other waits for them.
const WITHHELD_AT_ONCE: usize = 1;

/// Ids are made by many machines, and a message may come after one with a greater id. So long before the mark is read
/// again.
const OVERLAP_MS: u64 = 60_000;

/// The kinds of channels that hold no messages: categories, forums and media channels, whose threads do (Channel Types).
const WITHOUT_MESSAGES: [u64; 3] = [4, 15, 16];

/// The id after which is read what was missed, where all up to `seen` is stored.
pub(super) fn start(seen: u64) -> u64 {
    seen.saturating_sub(snowflake::span(OVERLAP_MS))
}

/// The channels and threads of a guild, as GUILD_CREATE shows it, in which something was said after an id.
pub(super) fn with_news(guild: &Value, after: u64) -> Vec<u64> {
    let newer = |channel: &Value| {
        let kind = channel.get("type").and_then(Value::as_u64);
        let last = snowflake::read(channel, "last_message_id").filter(|last| *last > after);
        last.filter(|_| kind.is_none_or(|kind| !WITHOUT_MESSAGES.contains(&kind)))
            .and_then(|_| snowflake::read(channel, "id"))
    };
    channels(guild).filter_map(newer).collect()
}

fn channels(guild: &Value) -> impl Iterator<Item = &Value> {
    ["channels", "threads"].into_iter().filter_map(|list| guild.get(list)?.as_array()).flatten()
}

/// The reading of what was missed.
#[derive(Debug)]
pub(super) struct History {
    /// The guilds that have still to tell what was said in them.
    awaited: BTreeSet<u64>,
    channels: BTreeMap<u64, Reading>,
    missed: RoundRobin,
    withheld: RoundRobin,
}

/// The channels that are asked in their turn.
#[derive(Debug)]
struct RoundRobin {
    /// Those whose next page is to be asked for.
    queue: VecDeque<u64>,
    /// How many pages are asked for or being stored at the moment, so that no more of them are held.
    asked: usize,
    /// How many may be.
    most: usize,
}

/// How far a channel's history was read.
#[derive(Debug, Default)]
struct Reading {
    /// The guild that it was asked for; a page doesn't tell.
    guild: Option<u64>,
    after: u64,
    /// Whether no page has come yet, and one must, as far as the channel has told.
    is_promised: bool,
    /// Whether it was withheld before.
    was_withheld: bool,
    /// Whether a page has come and is being stored.
    has_come: bool,
    /// Whether there may be more.
    goes_on: bool,
    /// Whether something may have been missed since it was last asked for.
    again: bool,
    /// Whether the channel was deleted meanwhile.
    is_gone: bool,
}

/// A page to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) channel: u64,
    /// Its guild; none is a direct channel's.
    pub(super) guild: Option<u64>,
    /// The id after which it begins.
    pub(super) after: u64,
    /// Whether something must be on it, as far as the channel has told: it is the first page of a guild's channel.
    pub(super) is_promised: bool,
    /// Whether it was withheld before. What is said meanwhile waits only while a page that has come is stored.
    pub(super) was_withheld: bool,
}

/// What a page is to be read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Direct,
    Guild(u64),
    /// Of a channel that is gone.
    Gone,
}

impl Default for History {
    fn default() -> Self {
        let (awaited, channels) = (BTreeSet::new(), BTreeMap::new());
        Self { awaited, channels, missed: RoundRobin::of(AT_ONCE), withheld: RoundRobin::of(WITHHELD_AT_ONCE) }
    }
}

impl RoundRobin {
    fn of(most: usize) -> Self {
        Self { queue: VecDeque::new(), asked: 0, most }
    }

    fn next(&mut self) -> Option<u64> {
        let channel = if self.asked < self.most { self.queue.pop_front() } else { None }?;
        self.asked += 1;
        Some(channel)
    }

    /// Whether a channel was still to be asked, which it is no longer.
    fn takes_back(&mut self, channel: u64) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| *queued != channel);
        self.queue.len() < before
    }
}

impl History {
    /// A new session has begun; these guilds will tell what was said in them.
    pub(super) fn await_guilds(&mut self, guilds: impl IntoIterator<Item = u64>) {
        self.awaited = guilds.into_iter().collect();
    }

    /// Whether a guild has still to tell what was said in it.
    pub(super) fn awaits(&self, guild: u64) -> bool {
        self.awaited.contains(&guild)
    }

    /// A guild tells of itself. Whether it was awaited.
    pub(super) fn guild_came(&mut self, guild: u64) -> bool {
        self.awaited.remove(&guild)
    }

    /// A channel's history is to be read from an id on.
    /// In which guild it is is told here and not by its messages; `None` is a direct channel.
    pub(super) fn read(&mut self, channel: u64, guild: Option<u64>, after: u64) {
        // One that is still to be asked again has its turn with the others now.
        if !self.withheld.takes_back(channel)
            && let Some(reading) = self.channels.get_mut(&channel)
        {
            reading.again = true;
            return;
        }
        self.begin(channel, Reading { guild, after, is_promised: guild.is_some(), ..Reading::default() });
    }

    /// What was withheld of a channel that isn't being read is to be read.
    pub(super) fn read_withheld(&mut self, channel: u64, unread: Unread) {
        let Unread { guild, after } = unread;
        self.begin(channel, Reading { guild, after, was_withheld: true, ..Reading::default() });
    }

    fn begin(&mut self, channel: u64, reading: Reading) {
        self.turns(reading.was_withheld).queue.push_back(channel);
        self.channels.insert(channel, reading);
    }

    fn turns(&mut self, was_withheld: bool) -> &mut RoundRobin {
        if was_withheld { &mut self.withheld } else { &mut self.missed }
    }

    /// A channel is gone, and what is still told of it is for nobody.
    pub(super) fn forget_channel(&mut self, channel: u64) {
        if let Some(reading) = self.channels.get_mut(&channel) {
            reading.is_gone = true;
        }
    }

    /// A guild is gone with its channels, and isn't waited for.
    pub(super) fn forget_guild(&mut self, guild: u64) {
        self.awaited.remove(&guild);
        for reading in self.channels.values_mut().filter(|reading| reading.guild == Some(guild)) {
            reading.is_gone = true;
        }
    }

    /// No guild is waited for any longer. Returns those that haven't come.
    pub(super) fn await_none(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.awaited)
    }

    /// Whether a channel's history is being read, or is going to be.
    pub(super) fn reads(&self, channel: u64) -> bool {
        self.channels.contains_key(&channel)
    }

    /// Whether what comes in a channel has to wait for its history. What was withheld may be so again: until it comes,
    /// nothing waits for it.
    pub(super) fn holds(&self, channel: u64) -> bool {
        self.channels.get(&channel).is_some_and(|reading| !reading.was_withheld || reading.has_come)
    }

    /// The next page that is to be asked for, if one may be now.
    pub(super) fn ask(&mut self) -> Option<Ask> {
        let channel = self.missed.next().or_else(|| self.withheld.next())?;
        let reading = self.channels.get_mut(&channel).expect("a channel in the queue is being read");
        reading.again = false;
        let Reading { guild, after, is_promised, was_withheld, .. } = *reading;
        Some(Ask { channel, guild, after, is_promised, was_withheld })
    }

    /// A page has come: so many messages, the last with this id. Returns where they were written.
    pub(super) fn came(&mut self, channel: u64, messages: usize, last: Option<u64>) -> Place {
        let reading = self.channels.get_mut(&channel).expect("a page was asked of a channel that is being read");
        // A page that brings nothing further would come again and again.
        let moves = last.is_some_and(|last| last > reading.after);
        reading.after = reading.after.max(last.unwrap_or(0));
        reading.goes_on = messages >= PAGE && moves && !reading.is_gone;
        reading.is_promised = false;
        reading.has_come = true;
        match reading.guild {
            _ if std::mem::take(&mut reading.is_gone) => Place::Gone,
            Some(guild) => Place::Guild(guild),
            None => Place::Direct,
        }
    }

    /// A page is stored. Whether the channel's history goes on; if not, what waits for it may go on.
    pub(super) fn stored(&mut self, channel: u64) -> bool {
        let reading = self.channels.get_mut(&channel).expect("a page was stored of a channel that is being read");
        reading.has_come = false;
        let (goes_on, was_withheld) = (reading.goes_on || reading.again, reading.was_withheld);
        let turns = self.turns(was_withheld);
        turns.asked -= 1;
        if goes_on {
            turns.queue.push_back(channel);
        } else {
            self.channels.remove(&channel);
        }
        goes_on
    }

    /// A page is withheld, and the channel's history no longer read. Returns what is unread of it; nothing where the
    /// channel is gone.
    pub(super) fn withheld(&mut self, channel: u64) -> Option<Unread> {
        let Reading { guild, after, was_withheld, is_gone, .. } =
            self.channels.remove(&channel).expect("a page was asked of a channel that is being read");
        self.turns(was_withheld).asked -= 1;
        (!is_gone).then_some(Unread { guild, after })
    }

    /// Whether all that was missed is stored, but for what is withheld.
    pub(super) fn is_over(&self) -> bool {
        self.awaited.is_empty() && self.channels.values().all(|reading| reading.was_withheld)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn direct(channel: u64, after: u64) -> Ask {
        Ask { channel, guild: None, after, is_promised: false, was_withheld: false }
    }

    #[test]
    fn ids_tell_the_time() {
        assert_eq!(start(snowflake::at_unix_ms(1_462_015_105_796)), snowflake::at_unix_ms(1_462_015_045_796));
        assert_eq!((snowflake::at_unix_ms(0), start(5)), (0, 0));
    }

    #[test]
    fn channels_and_threads_with_something_new_are_read() {
        let guild = json!({
            "channels": [
                { "id": "1", "type": 0, "last_message_id": "101" },
                { "id": "2", "type": 0, "last_message_id": "100" },
                { "id": "3", "type": 2, "last_message_id": "900" },
                { "id": "4", "type": 15, "last_message_id": "900" },
                { "id": "5", "type": 0, "last_message_id": null },
                { "id": "6", "type": 0 },
                { "id": 7, "type": 0, "last_message_id": "900" },
                "odd",
            ],
            "threads": [{ "id": "8", "type": 11, "last_message_id": "101" }, { "id": "9", "last_message_id": "102" }],
        });
        assert_eq!(with_news(&guild, 100), [1, 3, 8, 9]);
        let odd = json!({ "channels": 7 });
        assert_eq!(with_news(&odd, 0), [0_u64; 0]);
    }

    #[test]
    fn a_long_history_is_read_to_its_end() {
        let mut history = History::default();
        history.read(1, None, 10);
        for (after, messages) in [(10, PAGE), (110, PAGE), (210, 7)] {
            assert_eq!(history.ask(), Some(direct(1, after)));
            assert_eq!(history.ask(), None);
            assert!(history.holds(1));
            history.came(1, messages, Some(after + 100));
            assert_eq!(history.stored(1), messages == PAGE);
        }
        assert!(!history.holds(1) && history.is_over());
    }

    #[test]
    fn a_page_that_comes_again_ends_it() {
        let mut history = History::default();
        history.read(1, None, 10);
        assert_eq!(history.ask(), Some(direct(1, 10)));
        history.came(1, PAGE, Some(10));
        assert!(!history.stored(1));
    }

    #[test]
    fn messages_missed_during_backfill_are_read_too() {
        let mut history = History::default();
        history.read(1, None, 10);
        assert_eq!(history.ask(), Some(direct(1, 10)));
        history.read(1, None, 10);
        history.came(1, 3, Some(13));
        assert!(history.stored(1));
        assert_eq!(history.ask(), Some(direct(1, 13)));
        history.came(1, 0, None);
        assert!(!history.stored(1));
    }

    #[test]
    fn backfill_concurrency_is_bounded_and_fair() {
        let mut history = History::default();
        let channels: Vec<u64> = (0..AT_ONCE as u64 + 2).collect();
        for channel in &channels {
            history.read(*channel, None, 0);
        }
        let asked: Vec<u64> = std::iter::from_fn(|| history.ask()).map(|ask| ask.channel).collect();
        assert_eq!(asked, channels[..AT_ONCE]);
        history.came(3, 1, Some(7));
        assert_eq!(history.ask(), None, "the page is held until it is stored");
        assert!(!history.stored(3));
        assert_eq!((history.ask(), history.ask()), (Some(direct(AT_ONCE as u64, 0)), None));
    }

    #[test]
    fn page_belongs_to_guild_of_its_request() {
        let mut history = History::default();
        for (channel, guild) in [(1, None), (2, Some(9)), (3, Some(9)), (4, Some(8))] {
            history.read(channel, guild, 10);
        }
        let promised: Vec<bool> = std::iter::from_fn(|| history.ask()).map(|ask| ask.is_promised).collect();
        assert_eq!(promised, [false, true, true, true]);
        history.forget_channel(3);
        history.forget_guild(8);
        let places = [1, 2, 3, 4].map(|channel| history.came(channel, PAGE, Some(20)));
        assert_eq!(places, [Place::Direct, Place::Guild(9), Place::Gone, Place::Gone]);
        assert_eq!([1, 2, 3, 4].map(|channel| history.stored(channel)), [true, true, false, false]);
        history.ask();
        let further = Ask { guild: Some(9), ..direct(2, 20) };
        assert_eq!(history.ask(), Some(further), "nothing more is promised");
    }

    #[test]
    fn unavailable_history_stays_unread_from_its_position() {
        let mut history = History::default();
        for channel in [1, 2] {
            history.read(channel, Some(9), 10);
            history.ask();
        }
        history.came(1, PAGE, Some(20));
        history.stored(1);
        history.ask();
        history.forget_channel(2);
        let unread = Unread { guild: Some(9), after: 20 };
        assert_eq!([1, 2].map(|channel| history.withheld(channel)), [Some(unread), None]);
        assert!(history.is_over() && !history.holds(1));
        history.read_withheld(1, unread);
        assert_eq!(history.ask(), Some(Ask { guild: Some(9), was_withheld: true, ..direct(1, 20) }));
        assert!(history.is_over() && history.reads(1) && !history.holds(1), "nothing waits for it");
        history.came(1, PAGE, Some(30));
        assert!(history.holds(1), "but for what was shown");
        assert!(history.stored(1) && !history.holds(1));
    }

    #[test]
    fn unavailable_history_is_retried_in_own_slot() {
        let mut history = History::default();
        let withheld = |channel| Ask { was_withheld: true, ..direct(channel, 0) };
        for channel in [1, 2, 3] {
            history.read_withheld(channel, Unread { guild: None, after: 0 });
        }
        for channel in 10..11 + AT_ONCE as u64 {
            history.read(channel, None, 0);
        }
        let asked: Vec<Ask> = std::iter::from_fn(|| history.ask()).collect();
        let (missed, again) = asked.split_at(AT_ONCE);
        assert!(missed.iter().all(|ask| !ask.was_withheld), "{missed:?}");
        assert_eq!(again, [withheld(1)]);
        // A new session missed something there.
        history.read(2, None, 0);
        history.withheld(1);
        assert_eq!((history.ask(), history.ask()), (Some(withheld(3)), None));
        for channel in [10, 11] {
            history.came(channel, 0, None);
            history.stored(channel);
        }
        let last = [10 + AT_ONCE as u64, 2].map(|channel| Some(direct(channel, 0)));
        assert_eq!([history.ask(), history.ask()], last);
        assert!(history.holds(2));
    }

    #[test]
    fn it_is_over_when_every_guild_has_come() {
        let mut history = History::default();
        history.await_guilds([1, 2]);
        assert!(history.guild_came(1) && !history.guild_came(1) && !history.guild_came(3));
        assert!(!history.is_over());
        assert!(history.guild_came(2));
        assert!(history.is_over());
        history.await_guilds([1, 2]);
        history.guild_came(1);
        assert_eq!(history.await_none(), [2].into());
        assert!(history.is_over() && !history.guild_came(2));
    }
}
