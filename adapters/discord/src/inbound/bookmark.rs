//! How far the stream has been taken in: what survives the process.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{cache::BoostedGuild, gateway::ResumeState, snowflake};

/// What survives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bookmark {
    /// The session, and the last event before which all is stored.
    pub(super) position: Option<ResumeState>,
    /// The message up to which all is stored, whatever becomes of the session. Ids grow with time.
    pub(super) seen_up_to: u64,
    /// The message up to which nothing is for us, because we were not there yet.
    pub(super) begun_at: u64,
    /// The direct channels of people who may talk to us, the latest last. Nothing else tells that they are there.
    pub(super) direct: Vec<u64>,
    /// The direct channels of people of whom it isn't known that they may talk to us, the latest last.
    pub(super) strangers: Vec<u64>,
    /// The guilds that have not come back yet, and up to which message all of each is stored.
    pub(super) behind: BTreeMap<u64, u64>,
    /// The channels whose history Discord has withheld so far.
    pub(super) unread: BTreeMap<u64, Unread>,
    /// The guilds that take larger files than others: a session that goes on doesn't tell of them again.
    pub(super) boosted: BTreeMap<u64, BoostedGuild>,
}

/// What is still to be read of a channel's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unread {
    /// Its guild; none is a direct channel's.
    pub(super) guild: Option<u64>,
    /// The message after which it begins.
    pub(super) after: u64,
}

impl Bookmark {
    /// Of who has never been here: nothing up to a message is for us.
    pub(super) fn beginning(begun_at: u64) -> Self {
        Self {
            position: None,
            seen_up_to: begun_at,
            begun_at,
            direct: Vec::new(),
            strangers: Vec::new(),
            behind: BTreeMap::new(),
            unread: BTreeMap::new(),
            boosted: BTreeMap::new(),
        }
    }

    /// As the port keeps it. Ids are text, as Discord writes them.
    pub(super) fn to_json(&self) -> Value {
        let mut kept = json!({
            "begun_at": self.begun_at.to_string(),
            "seen_up_to": self.seen_up_to.to_string(),
            "direct": ids(&self.direct),
        });
        if !self.strangers.is_empty() {
            kept["strangers"] = ids(&self.strangers);
        }
        if !self.behind.is_empty() {
            kept["behind"] = by_id(&self.behind, |seen| json!(seen.to_string()));
        }
        if !self.unread.is_empty() {
            kept["unread"] = by_id(&self.unread, |unread| {
                let mut told = json!({ "after": unread.after.to_string() });
                if let Some(guild) = unread.guild {
                    told["guild"] = json!(guild.to_string());
                }
                told
            });
        }
        if !self.boosted.is_empty() {
            kept["boosted"] = by_id(
                &self.boosted,
                |BoostedGuild { tier, channels }| json!({ "tier": tier, "channels": ids(channels) }),
            );
        }
        if let Some(ResumeState { server, session_id, resume_url, seq, has_message_content }) = &self.position {
            kept["server"] = json!(server);
            kept["session_id"] = json!(session_id);
            kept["resume_url"] = json!(resume_url);
            kept["seq"] = json!(seq);
            kept["content"] = json!(has_message_content);
        }
        kept
    }

    /// Reads what was kept; `None` if it is nothing of ours.
    pub(super) fn from_json(kept: &Value) -> Option<Self> {
        let text = |field| kept.get(field).and_then(Value::as_str);
        let position = || {
            Some(ResumeState {
                server: text("server")?.into(),
                session_id: text("session_id")?.into(),
                resume_url: text("resume_url")?.into(),
                seq: kept.get("seq")?.as_u64()?,
                has_message_content: kept.get("content")?.as_bool()?,
            })
        };
        Some(Self {
            position: position(),
            begun_at: text("begun_at")?.parse().ok()?,
            seen_up_to: text("seen_up_to")?.parse().ok()?,
            direct: read_ids(kept, "direct").collect(),
            strangers: read_ids(kept, "strangers").collect(),
            behind: read_by_id(kept, "behind", |seen| seen.as_str()?.parse().ok()),
            unread: read_by_id(kept, "unread", |unread| {
                Some(Unread { guild: snowflake::read(unread, "guild"), after: snowflake::read(unread, "after")? })
            }),
            boosted: read_by_id(kept, "boosted", |boosted| {
                let tier = boosted.get("tier")?.as_u64()?;
                Some(BoostedGuild { tier, channels: read_ids(boosted, "channels").collect() })
            }),
        })
    }
}

fn ids<'a>(ids: impl IntoIterator<Item = &'a u64>) -> Value {
    ids.into_iter().map(u64::to_string).collect()
}

fn read_ids<'a>(data: &'a Value, field: &str) -> impl Iterator<Item = u64> + use<'a> {
    data.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(|id| id.as_str()?.parse().ok())
}

fn by_id<T>(things: &BTreeMap<u64, T>, told: impl Fn(&T) -> Value) -> Value {
    things.iter().map(|(id, thing)| (id.to_string(), told(thing))).collect::<Map<_, _>>().into()
}

fn read_by_id<T>(data: &Value, field: &str, read: impl Fn(&Value) -> Option<T>) -> BTreeMap<u64, T> {
    let things = data.get(field).and_then(Value::as_object).into_iter().flatten();
    things.filter_map(|(id, thing)| Some((id.parse().ok()?, read(thing)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let position = ResumeState {
            server: "https://x".into(),
            session_id: "abc".into(),
            resume_url: "wss://x".into(),
            seq: 3,
            has_message_content: true,
        };
        let whole = Bookmark {
            position: Some(position),
            begun_at: 9,
            seen_up_to: u64::MAX,
            direct: vec![1, u64::MAX],
            strangers: vec![2],
            behind: [(3, 4), (u64::MAX, 0)].into(),
            unread: [(5, Unread { guild: Some(3), after: 6 }), (1, Unread { guild: None, after: u64::MAX })].into(),
            boosted: [(3, BoostedGuild { tier: 2, channels: [5, u64::MAX].into() })].into(),
        };
        for bookmark in [whole, Bookmark::beginning(7)] {
            let kept = bookmark.to_json().to_string();
            assert_eq!(Bookmark::from_json(&serde_json::from_str(&kept).unwrap()), Some(bookmark), "{kept}");
        }
        for odd in [Value::Null, json!({}), json!({ "seen_up_to": 7 }), json!({ "seen_up_to": "seven" })] {
            assert_eq!(Bookmark::from_json(&odd), None, "{odd}");
        }
    }
}
