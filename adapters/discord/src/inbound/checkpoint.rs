//! How far events are stored: the checkpoint that survives the process, and the watermark of what is being stored.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{cache::BoostedGuild, gateway::ResumeState, snowflake};

/// How many direct channels of people who may talk to the bot are remembered. Their history is read if a session could
/// not be resumed.
const MAX_DIRECT_CHANNELS: usize = 1_000;

/// How many direct channels of strangers are remembered. A person who is approved writes soon before.
const MAX_STRANGER_CHANNELS: usize = 100;

/// What survives the process. Ids grow with time, so one id separates what is stored from what is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GatewayCheckpoint {
    /// The session, and its last event before which everything is stored.
    pub(super) resume_state: Option<ResumeState>,
    /// The id up to which all messages are stored, whatever happens to the session.
    pub(super) watermark: u64,
    /// The id up to which no message is for the bot, because it did not exist yet.
    pub(super) start_id: u64,
    /// The direct channels of people who may talk to the bot, the latest last. Nothing else lists them.
    pub(super) direct_channels: Vec<u64>,
    /// The direct channels of people who are not known to be approved, the latest last.
    pub(super) stranger_channels: Vec<u64>,
    /// The unavailable guilds, and the id up to which all messages of each are stored.
    pub(super) behind: BTreeMap<u64, u64>,
    /// The channels whose history is unavailable.
    pub(super) unread: BTreeMap<u64, UnreadHistory>,
    /// The guilds with a larger file limit: a resumed session does not list them again.
    pub(super) boosted_guilds: BTreeMap<u64, BoostedGuild>,
}

/// What is still to be read of a channel's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnreadHistory {
    /// `None` for a direct channel.
    pub(super) guild: Option<u64>,
    /// The id of the message after which it starts.
    pub(super) after: u64,
}

impl GatewayCheckpoint {
    /// Creates the first checkpoint of a bot: no message up to this id is for it.
    pub(super) fn starting_at(start_id: u64) -> Self {
        Self {
            resume_state: None,
            watermark: start_id,
            start_id,
            direct_channels: Vec::new(),
            stranger_channels: Vec::new(),
            behind: BTreeMap::new(),
            unread: BTreeMap::new(),
            boosted_guilds: BTreeMap::new(),
        }
    }

    /// Serializes the checkpoint. The keys are stored and must stay; ids are text, as in Discord's API.
    pub(super) fn to_json(&self) -> Value {
        let mut stored = json!({
            "begun_at": self.start_id.to_string(),
            "seen_up_to": self.watermark.to_string(),
            "direct": ids_to_json(&self.direct_channels),
        });
        if !self.stranger_channels.is_empty() {
            stored["strangers"] = ids_to_json(&self.stranger_channels);
        }
        if !self.behind.is_empty() {
            stored["behind"] = map_to_json(&self.behind, |watermark| json!(watermark.to_string()));
        }
        if !self.unread.is_empty() {
            stored["unread"] = map_to_json(&self.unread, |unread| {
                let mut object = json!({ "after": unread.after.to_string() });
                if let Some(guild) = unread.guild {
                    object["guild"] = json!(guild.to_string());
                }
                object
            });
        }
        if !self.boosted_guilds.is_empty() {
            stored["boosted"] = map_to_json(
                &self.boosted_guilds,
                |BoostedGuild { tier, channels }| json!({ "tier": tier, "channels": ids_to_json(channels) }),
            );
        }
        if let Some(ResumeState { server, session_id, resume_url, seq, has_message_content }) = &self.resume_state {
            stored["server"] = json!(server);
            stored["session_id"] = json!(session_id);
            stored["resume_url"] = json!(resume_url);
            stored["seq"] = json!(seq);
            stored["content"] = json!(has_message_content);
        }
        stored
    }

    /// Parses a stored checkpoint; `None` if it is none.
    pub(super) fn from_json(stored: &Value) -> Option<Self> {
        let text = |field| stored.get(field).and_then(Value::as_str);
        let resume_state = || {
            Some(ResumeState {
                server: text("server")?.into(),
                session_id: text("session_id")?.into(),
                resume_url: text("resume_url")?.into(),
                seq: stored.get("seq")?.as_u64()?,
                has_message_content: stored.get("content")?.as_bool()?,
            })
        };
        Some(Self {
            resume_state: resume_state(),
            start_id: text("begun_at")?.parse().ok()?,
            watermark: text("seen_up_to")?.parse().ok()?,
            direct_channels: parse_ids(stored, "direct").collect(),
            stranger_channels: parse_ids(stored, "strangers").collect(),
            behind: parse_map(stored, "behind", |watermark| watermark.as_str()?.parse().ok()),
            unread: parse_map(stored, "unread", |unread| {
                Some(UnreadHistory {
                    guild: snowflake::read(unread, "guild"),
                    after: snowflake::read(unread, "after")?,
                })
            }),
            boosted_guilds: parse_map(stored, "boosted", |boosted| {
                let tier = boosted.get("tier")?.as_u64()?;
                Some(BoostedGuild { tier, channels: parse_ids(boosted, "channels").collect() })
            }),
        })
    }
}

fn ids_to_json<'a>(ids: impl IntoIterator<Item = &'a u64>) -> Value {
    ids.into_iter().map(u64::to_string).collect()
}

fn parse_ids<'a>(data: &'a Value, field: &str) -> impl Iterator<Item = u64> + use<'a> {
    data.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(|id| id.as_str()?.parse().ok())
}

fn map_to_json<T>(map: &BTreeMap<u64, T>, to_json: impl Fn(&T) -> Value) -> Value {
    map.iter().map(|(id, value)| (id.to_string(), to_json(value))).collect::<Map<_, _>>().into()
}

fn parse_map<T>(data: &Value, field: &str, parse: impl Fn(&Value) -> Option<T>) -> BTreeMap<u64, T> {
    let entries = data.get(field).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(id, value)| Some((id.parse().ok()?, parse(value)?))).collect()
}

/// Tracks what is being stored, and so which checkpoint may be saved.
#[derive(Debug)]
pub(super) struct WatermarkTracker {
    /// After the last event that arrived.
    latest: Option<ResumeState>,
    /// The greatest id of a message that arrived.
    greatest: u64,
    in_flight: BTreeMap<InFlightId, InFlightEntry>,
    next_id: u64,
    /// The checkpoint without its resume state. Its watermark never goes back: an edit of an old message does not reopen
    /// what was stored.
    checkpoint: GatewayCheckpoint,
}

/// Something that is being stored. Ids grow in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InFlightId(u64);

/// The checkpoint while something is not stored.
#[derive(Debug)]
struct InFlightEntry {
    resume_state: Option<ResumeState>,
    max_watermark: u64,
}

impl WatermarkTracker {
    pub(super) fn from_checkpoint(checkpoint: GatewayCheckpoint) -> Self {
        let (latest, greatest) = (checkpoint.resume_state.clone(), checkpoint.watermark);
        Self { latest, greatest, in_flight: BTreeMap::new(), next_id: 0, checkpoint }
    }

    /// Starts to store something that arrived after the last event. `message` is its id if it is a new message.
    pub(super) fn begin(&mut self, message: Option<u64>) -> InFlightId {
        let max_watermark = message.map_or(u64::MAX, |message| message.saturating_sub(1));
        self.insert(max_watermark)
    }

    /// Starts a backfill. The watermark does not pass it until it is complete.
    pub(super) fn begin_backfill(&mut self) -> InFlightId {
        let max_watermark = self.low_watermark();
        self.insert(max_watermark)
    }

    fn insert(&mut self, max_watermark: u64) -> InFlightId {
        let id = InFlightId(self.next_id);
        self.next_id += 1;
        self.in_flight.insert(id, InFlightEntry { resume_state: self.latest.clone(), max_watermark });
        id
    }

    pub(super) fn complete(&mut self, id: InFlightId) {
        self.in_flight.remove(&id);
    }

    /// An event has arrived. Call it after [`Self::begin`] for what the event brings.
    pub(super) fn advance(&mut self, resume_state: ResumeState) {
        self.latest = Some(resume_state);
    }

    /// A new message has arrived, for anyone.
    pub(super) fn observe_message(&mut self, message: u64) {
        self.greatest = self.greatest.max(message);
    }

    /// Remembers the direct channel of a person who may talk to the bot, or to whom the bot writes.
    pub(super) fn touch_direct_channel(&mut self, channel: u64) {
        self.checkpoint.stranger_channels.retain(|stranger| *stranger != channel);
        move_to_back(&mut self.checkpoint.direct_channels, channel, MAX_DIRECT_CHANNELS);
    }

    /// Remembers the direct channel of a stranger. Any number of strangers evicts nobody else.
    pub(super) fn touch_stranger_channel(&mut self, channel: u64) {
        if !self.checkpoint.direct_channels.contains(&channel) {
            move_to_back(&mut self.checkpoint.stranger_channels, channel, MAX_STRANGER_CHANNELS);
        }
    }

    /// Returns all direct channels, also those of strangers.
    pub(super) fn direct_channels(&self) -> impl Iterator<Item = u64> {
        self.checkpoint.direct_channels.iter().chain(&self.checkpoint.stranger_channels).copied()
    }

    /// A guild is unavailable; its messages are stored up to this id, unless it was behind already.
    pub(super) fn mark_behind(&mut self, guild: u64, watermark: u64) {
        self.checkpoint.behind.entry(guild).or_insert(watermark);
    }

    /// Returns the id up to which all messages of a guild are stored that is or was unavailable.
    pub(super) fn behind(&self, guild: u64) -> Option<u64> {
        self.checkpoint.behind.get(&guild).copied()
    }

    pub(super) fn clear_behind(&mut self, guild: u64) {
        self.checkpoint.behind.remove(&guild);
    }

    /// A channel's history is unavailable.
    pub(super) fn mark_unread(&mut self, channel: u64, unread: UnreadHistory) {
        self.checkpoint.unread.insert(channel, unread);
    }

    pub(super) fn unread(&self, channel: u64) -> Option<UnreadHistory> {
        self.checkpoint.unread.get(&channel).copied()
    }

    pub(super) fn all_unread(&self) -> impl Iterator<Item = (u64, UnreadHistory)> {
        self.checkpoint.unread.iter().map(|(channel, unread)| (*channel, *unread))
    }

    /// A channel's history is read, or the channel is gone. Returns whether it was unread.
    pub(super) fn clear_unread(&mut self, channel: u64) -> bool {
        self.checkpoint.unread.remove(&channel).is_some()
    }

    /// The bot is no longer in a guild. Returns whether something of it was unread.
    pub(super) fn remove_guild(&mut self, guild: u64) -> bool {
        self.clear_behind(guild);
        let before = self.checkpoint.unread.len();
        self.checkpoint.unread.retain(|_, unread| unread.guild != Some(guild));
        self.checkpoint.unread.len() < before
    }

    /// Returns the guilds of which something is still to be read.
    pub(super) fn guilds(&self) -> impl Iterator<Item = u64> {
        let GatewayCheckpoint { behind, unread, .. } = &self.checkpoint;
        behind.keys().copied().chain(unread.values().filter_map(|unread| unread.guild))
    }

    /// Whether a checkpoint of now would contain a session.
    pub(super) fn has_resume_state(&self) -> bool {
        self.resume_state().is_some()
    }

    fn resume_state(&self) -> &Option<ResumeState> {
        self.in_flight.first_key_value().map_or(&self.latest, |(_, entry)| &entry.resume_state)
    }

    /// Returns the id up to which no message is for the bot.
    pub(super) fn start_id(&self) -> u64 {
        self.checkpoint.start_id
    }

    /// Returns the id up to which all messages are stored.
    pub(super) fn low_watermark(&mut self) -> u64 {
        let stored = self.in_flight.values().map(|entry| entry.max_watermark).min().unwrap_or(u64::MAX);
        let watermark = &mut self.checkpoint.watermark;
        *watermark = self.greatest.min(stored).max(*watermark);
        *watermark
    }

    /// Returns the checkpoint that may be saved now.
    pub(super) fn checkpoint(&mut self) -> GatewayCheckpoint {
        self.low_watermark();
        GatewayCheckpoint { resume_state: self.resume_state().clone(), ..self.checkpoint.clone() }
    }
}

/// Makes a channel the last one, and removes the first ones beyond a limit.
fn move_to_back(channels: &mut Vec<u64>, channel: u64, limit: usize) {
    channels.retain(|other| *other != channel);
    channels.push(channel);
    if channels.len() > limit {
        channels.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As earlier versions stored it.
    const STORED: &str = r#"{"begun_at":"9","seen_up_to":"18446744073709551615","direct":["1","18446744073709551615"],
        "strangers":["2"],"behind":{"3":"4","18446744073709551615":"0"},
        "unread":{"1":{"after":"18446744073709551615"},"5":{"after":"6","guild":"3"}},
        "boosted":{"3":{"tier":2,"channels":["5","18446744073709551615"]}},
        "server":"https://x","session_id":"abc","resume_url":"wss://x","seq":3,"content":true}"#;

    fn full_checkpoint() -> GatewayCheckpoint {
        GatewayCheckpoint {
            resume_state: Some(resume_state(3)),
            start_id: 9,
            watermark: u64::MAX,
            direct_channels: vec![1, u64::MAX],
            stranger_channels: vec![2],
            behind: [(3, 4), (u64::MAX, 0)].into(),
            unread: [
                (5, UnreadHistory { guild: Some(3), after: 6 }),
                (1, UnreadHistory { guild: None, after: u64::MAX }),
            ]
            .into(),
            boosted_guilds: [(3, BoostedGuild { tier: 2, channels: [5, u64::MAX].into() })].into(),
        }
    }

    #[test]
    fn stored_checkpoint_keeps_its_form() {
        let stored: Value = serde_json::from_str(STORED).unwrap();
        assert_eq!(GatewayCheckpoint::from_json(&stored), Some(full_checkpoint()));
        assert_eq!(full_checkpoint().to_json(), stored);
        let first = json!({ "begun_at": "7", "seen_up_to": "7", "direct": [] });
        assert_eq!(GatewayCheckpoint::starting_at(7).to_json(), first);
        // One of a version that knew none of the rest.
        assert_eq!(GatewayCheckpoint::from_json(&first), Some(GatewayCheckpoint::starting_at(7)));
    }

    #[test]
    fn checkpoint_survives_serialization_and_garbage_is_none() {
        for checkpoint in [full_checkpoint(), GatewayCheckpoint::starting_at(7)] {
            let stored = checkpoint.to_json().to_string();
            let parsed = GatewayCheckpoint::from_json(&serde_json::from_str(&stored).unwrap());
            assert_eq!(parsed, Some(checkpoint), "{stored}");
        }
        for odd in [Value::Null, json!({}), json!({ "seen_up_to": 7 }), json!({ "seen_up_to": "seven" })] {
            assert_eq!(GatewayCheckpoint::from_json(&odd), None, "{odd}");
        }
    }

    fn resume_state(seq: u64) -> ResumeState {
        ResumeState {
            server: "https://x".into(),
            session_id: "abc".into(),
            resume_url: "wss://x".into(),
            seq,
            has_message_content: true,
        }
    }

    fn tracker_at_ten() -> WatermarkTracker {
        WatermarkTracker::from_checkpoint(GatewayCheckpoint {
            resume_state: Some(resume_state(10)),
            watermark: 1_000,
            direct_channels: vec![7],
            ..GatewayCheckpoint::starting_at(5)
        })
    }

    fn saved(tracker: &mut WatermarkTracker) -> (u64, u64) {
        let checkpoint = tracker.checkpoint();
        (checkpoint.resume_state.unwrap().seq, checkpoint.watermark)
    }

    #[test]
    fn watermark_stays_below_messages_being_stored() {
        let mut tracker = tracker_at_ten();
        tracker.observe_message(1_001);
        let first = tracker.begin(Some(1_001));
        tracker.advance(resume_state(11));
        tracker.observe_message(1_002);
        let second = tracker.begin(Some(1_002));
        tracker.advance(resume_state(12));
        assert_eq!(saved(&mut tracker), (10, 1_000));
        tracker.complete(second);
        assert_eq!(saved(&mut tracker), (10, 1_000), "the first is still on its way");
        tracker.complete(first);
        assert_eq!(saved(&mut tracker), (12, 1_002));
    }

    #[test]
    fn ignored_message_advances_the_watermark() {
        let mut tracker = tracker_at_ten();
        tracker.observe_message(1_005);
        tracker.advance(resume_state(11));
        assert_eq!(saved(&mut tracker), (11, 1_005));
    }

    #[test]
    fn edit_of_old_message_keeps_the_watermark() {
        let mut tracker = tracker_at_ten();
        let edit = tracker.begin(Some(5));
        tracker.advance(resume_state(11));
        assert_eq!(saved(&mut tracker), (10, 1_000));
        tracker.complete(edit);
        assert_eq!(saved(&mut tracker), (11, 1_000));
    }

    #[test]
    fn watermark_stays_until_backfill_completes() {
        let mut tracker = tracker_at_ten();
        let backfill = tracker.begin_backfill();
        tracker.advance(ResumeState { session_id: "new".into(), ..resume_state(1) });
        tracker.observe_message(2_000);
        let message = tracker.begin(Some(2_000));
        tracker.advance(ResumeState { session_id: "new".into(), ..resume_state(2) });
        tracker.complete(message);
        assert_eq!(saved(&mut tracker), (10, 1_000), "neither a session nor a message of now");
        tracker.complete(backfill);
        assert_eq!(
            tracker.checkpoint().resume_state,
            Some(ResumeState { session_id: "new".into(), ..resume_state(2) })
        );
        assert_eq!(tracker.low_watermark(), 2_000);
    }

    #[test]
    fn oldest_direct_channel_is_evicted_beyond_limit() {
        let mut tracker = tracker_at_ten();
        for channel in 100..100 + MAX_DIRECT_CHANNELS as u64 - 1 {
            tracker.touch_direct_channel(channel);
        }
        tracker.touch_direct_channel(7);
        tracker.touch_direct_channel(99);
        assert_eq!(
            (tracker.direct_channels().count(), tracker.direct_channels().next()),
            (MAX_DIRECT_CHANNELS, Some(101))
        );
        assert!(tracker.checkpoint().direct_channels.ends_with(&[7, 99]));
    }

    #[test]
    fn strangers_evict_no_direct_channel() {
        let mut tracker = tracker_at_ten();
        for channel in 100..101 + MAX_STRANGER_CHANNELS as u64 {
            tracker.touch_stranger_channel(channel);
        }
        tracker.touch_stranger_channel(7);
        let GatewayCheckpoint { direct_channels, stranger_channels, .. } = tracker.checkpoint();
        assert_eq!(
            (direct_channels, stranger_channels.len(), stranger_channels[0]),
            (vec![7], MAX_STRANGER_CHANNELS, 101)
        );
        tracker.touch_direct_channel(101);
        let GatewayCheckpoint { direct_channels, stranger_channels, .. } = tracker.checkpoint();
        assert_eq!((direct_channels, stranger_channels[0]), (vec![7, 101], 102), "whoever is let in is no stranger");
    }

    proptest! {
        /// Whatever the order in which things are stored, the checkpoint is the last event before the first that isn't.
        #[test]
        fn checkpoint_never_passes_an_unstored_event(kinds in prop::collection::vec(any::<bool>(), 1..40), order in any::<prop::sample::Index>()) {
            let mut tracker = tracker_at_ten();
            let mut in_flight: Vec<(u64, InFlightId)> = Vec::new();
            for (seq, stores) in (11..).zip(&kinds) {
                tracker.observe_message(1_000 + seq);
                if *stores {
                    in_flight.push((seq, tracker.begin(Some(1_000 + seq))));
                }
                tracker.advance(resume_state(seq));
            }
            let last = 10 + kinds.len() as u64;
            while !in_flight.is_empty() {
                let first = in_flight.iter().map(|(seq, _)| *seq).min().unwrap();
                prop_assert_eq!(saved(&mut tracker), (first - 1, 1_000 + first - 1));
                let (_, id) = in_flight.swap_remove(order.index(in_flight.len()));
                tracker.complete(id);
            }
            prop_assert_eq!(saved(&mut tracker), (last, 1_000 + last));
        }
    }
}
