//! Stores one thing, however often it must be tried, and asks Discord what has to be known before.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use satchel_domain::{InboundMessage, Sender, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::asking::{Asked, Tries};
use crate::{
    GatewayTimeouts,
    address::channel_name,
    cache::GuildCache,
    digest::stable_key,
    inbound::{
        bookmark::Bookmark,
        interactions::PendingInteraction,
        reader::{self, InboundEvent, InboundReader},
        wire::User,
    },
    rest::RestClient,
    snowflake,
};

/// Something to be stored.
#[derive(Debug)]
pub(in crate::inbound) enum Job {
    /// What somebody said, and what is answered once it is stored.
    Accept(Box<InboundMessage>, Option<PendingInteraction>),
    /// Nothing; it is only answered.
    Answer(PendingInteraction),
    /// What can't be read.
    Keep(Box<UndecodableUpdate>),
    /// An event of a guild's channel of which nothing is known yet.
    Unknown {
        channel: u64,
        name: String,
        /// What Discord says about it.
        data: Value,
        /// Whether Discord shows us what people write.
        content: bool,
    },
}

/// Stores what comes in.
pub(in crate::inbound) struct Store {
    pub(in crate::inbound) inbound: Arc<dyn Inbound>,
    pub(in crate::inbound) reader: InboundReader,
    pub(in crate::inbound) rest: RestClient,
    pub(in crate::inbound) known: Arc<GuildCache>,
    pub(in crate::inbound) waits: GatewayTimeouts,
    /// Ends what is tried again and again.
    pub(in crate::inbound) over: CancellationToken,
    pub(in crate::inbound) state: State,
}

/// What a store remembers.
#[derive(Debug, Default)]
pub(in crate::inbound) struct State {
    /// How many things could not be stored so far, so that it is told once and not with each try.
    failing: AtomicUsize,
    told_emptied: AtomicBool,
    asked: Asked,
}

#[derive(Debug, Default)]
pub(super) struct Stored {
    /// What is answered now.
    pub(super) answer: Option<PendingInteraction>,
    /// Who has said it, where it was said directly.
    pub(super) directly: Option<Directly>,
}

/// Who says something in a direct channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directly {
    /// A person who may talk to us.
    Person(u64),
    /// Somebody who may not, so far, or of whom it isn't known.
    Stranger,
}

impl Job {
    /// Without a sender: it is of a guild, and whether it was said to us can't be told.
    fn of_nobody(mut self) -> Self {
        if let Self::Keep(update) = &mut self {
            update.sender = None;
        }
        self
    }

    /// The message that it tells of, and when that was edited last, if it is told by an edit.
    pub(super) fn version(&self) -> Option<(u64, Option<&str>)> {
        match self {
            Self::Accept(said, None) => {
                let edited = said.edit_of.as_ref().and_then(|_| said.key.split_once(':'));
                Some((said.message.as_ref()?.0.parse().ok()?, edited.map(|(_, at)| at)))
            }
            Self::Unknown { name, data, .. } if name == "MESSAGE_CREATE" => Some((snowflake::read(data, "id")?, None)),
            Self::Unknown { name, data, .. } if name == "MESSAGE_UPDATE" => {
                Some((snowflake::read(data, "id")?, Some(data.get("edited_timestamp")?.as_str()?)))
            }
            _ => None,
        }
    }
}

impl Store {
    /// What is to be stored of an event; nothing of most.
    pub(super) fn read(&self, name: &str, data: &Value, content: bool) -> Option<Job> {
        match self.reader.read(name, data) {
            InboundEvent::Message(message) => Some(Job::Accept(message, None)),
            InboundEvent::Interaction { interaction, message: Some(message) } => {
                Some(Job::Accept(message, Some(interaction)))
            }
            InboundEvent::Interaction { interaction, message: None } => {
                tracing::debug!("ignoring a pressed button without one of our commands");
                Some(Job::Answer(interaction))
            }
            InboundEvent::Ignored(reason) => {
                if reason == reader::EMPTY_MESSAGE_REASON
                    && content
                    && !self.state.told_emptied.swap(true, Ordering::Relaxed)
                {
                    tracing::warn!("ignoring a message: {reason}");
                }
                None
            }
            InboundEvent::Undecodable(reason) => Some(self.unreadable(name, data, reason)),
        }
    }

    /// What is to be stored of a message that history tells of a channel of `guild`, or of a direct one.
    pub(super) fn read_missed(&self, message: &Value, guild: Option<u64>) -> Option<Job> {
        match self.reader.read_history(message, guild) {
            InboundEvent::Message(message) => Some(Job::Accept(message, None)),
            InboundEvent::Undecodable(reason) => {
                let job = self.unreadable("MESSAGE_CREATE", message, reason);
                Some(if guild.is_some() { job.of_nobody() } else { job })
            }
            InboundEvent::Interaction { .. } | InboundEvent::Ignored(_) => None,
        }
    }

    fn unreadable(&self, name: &str, data: &Value, reason: &'static str) -> Job {
        let text = |field| data.get(field).and_then(Value::as_str);
        let key = match (text("id"), text("edited_timestamp")) {
            (Some(id), Some(edited)) => format!("{name}:{id}:{edited}"),
            (Some(id), None) => format!("{name}:{id}"),
            (None, _) => format!("{name}:unnumbered-{}", stable_key(data.to_string().as_bytes())),
        };
        Job::Keep(Box::new(UndecodableUpdate {
            channel: channel_name(),
            key,
            sender: sender(data, &self.known),
            raw: reader::without_token(data),
            reason: reason.to_owned(),
        }))
    }

    /// Whether an event is of a guild's channel of which not all is known. Once a session has begun each is; one that
    /// only goes on tells nothing of them to the next process.
    pub(super) fn is_of_unknown(&self, channel: u64, data: &Value) -> bool {
        data.get("guild_id").is_some_and(Value::is_string)
            && !self.known.is_complete(channel)
            && !self.state.asked.holds(channel)
    }

    /// Stores something. Returns what follows from it; if it isn't stored, we are to stop.
    pub(super) async fn store(&self, job: Job) -> Result<Stored, Stopped> {
        let job = match job {
            Job::Unknown { channel, name, data, content } => {
                let guild = snowflake::read(&data, "guild_id");
                for (place, error) in self.look_up(channel, guild, &self.state.asked, Tries::Often).await? {
                    tracing::warn!(place, %error, "channel metadata from Discord could not be decoded; continuing without it");
                }
                let Some(job) = self.read(&name, &data, content) else { return Ok(Stored::default()) };
                job
            }
            job => job,
        };
        let mut failures = 0;
        let is_taken = loop {
            let stored = match &job {
                Job::Accept(message, _) => {
                    self.inbound.accept(message.as_ref().clone()).await.map(|turn| turn.is_some())
                }
                Job::Keep(update) => self.inbound.record_undecodable(update.as_ref().clone()).await.map(|()| false),
                Job::Answer(_) | Job::Unknown { .. } => Ok(false),
            };
            self.note(failures, &stored);
            if let Ok(is_taken) = stored {
                break is_taken;
            }
            self.pause(self.waits.retry_delay(failures)).await?;
            failures = failures.saturating_add(1);
        };
        let directly = match &job {
            Job::Accept(said, _) if said.group => None,
            Job::Accept(said, _) if is_taken => said.sender.id.parse().ok().map(Directly::Person),
            Job::Accept(..) => Some(Directly::Stranger),
            // A sender is told in private alone.
            Job::Keep(update) => update.sender.as_ref().map(|_| Directly::Stranger),
            Job::Answer(_) | Job::Unknown { .. } => None,
        };
        let answer = match job {
            Job::Accept(_, answer) => answer,
            Job::Answer(interaction) => Some(interaction),
            Job::Keep(_) | Job::Unknown { .. } => None,
        };
        Ok(Stored { answer, directly })
    }

    fn note(&self, failures: u32, stored: &Result<bool, InboundError>) {
        let failing = &self.state.failing;
        match stored {
            Ok(_) if failures == 0 => {}
            Ok(_) => {
                if failing.fetch_sub(1, Ordering::Relaxed) == 1 {
                    tracing::info!("storing messages works again");
                }
            }
            Err(_) if failures > 0 => {}
            Err(error) => {
                if failing.fetch_add(1, Ordering::Relaxed) == 0 {
                    let error: &(dyn Error + 'static) = error;
                    tracing::error!(error, "storing messages failed; retrying with backoff");
                }
            }
        }
    }

    /// Keeps a bookmark. Whether it is kept.
    pub(super) async fn keep(&self, bookmark: &Bookmark) -> bool {
        match self.inbound.save_checkpoint(&channel_name(), bookmark.to_json()).await {
            Ok(()) => true,
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::debug!(error, "saving the checkpoint failed; retrying");
                false
            }
        }
    }

    pub(super) async fn pause(&self, wait: Duration) -> Result<(), Stopped> {
        self.over.run_until_cancelled(tokio::time::sleep(wait)).await.ok_or(Stopped)
    }
}

/// We are to stop, and it is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

/// Who sent what can't be read, as far as it tells. In guilds that is nobody: whether it was said to us can't be told.
fn sender(data: &Value, known: &GuildCache) -> Option<Sender> {
    let channel = snowflake::read(data, "channel_id")?;
    let elsewhere = ["guild_id", "member"].iter().any(|field| data.get(field).is_some_and(|value| !value.is_null()));
    if elsewhere || known.guild_id(channel).is_some() {
        return None;
    }
    let from = data.get("author").or_else(|| data.get("user"))?;
    let handle = User::deserialize(from).ok().and_then(|user| user.handle().map(str::to_owned));
    Some(Sender { handle, ..Sender::new(snowflake::read(from, "id")?.to_string(), "") })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::said_directly(json!({ "channel_id": "1", "author": { "id": "7", "username": "ada" }, "content": 5 }), Some("7"))]
    #[case::a_button(json!({ "channel_id": "1", "user": { "id": "7" } }), Some("7"))]
    #[case::in_a_guild(json!({ "channel_id": "1", "guild_id": "9", "author": { "id": "7" } }), None)]
    #[case::with_an_odd_guild(json!({ "channel_id": "1", "guild_id": 9, "author": { "id": "7" } }), None)]
    #[case::of_a_member(json!({ "channel_id": "1", "member": {}, "author": { "id": "7" } }), None)]
    #[case::in_a_known_guilds_channel(json!({ "channel_id": "2", "author": { "id": "7" } }), None)]
    #[case::nowhere(json!({ "author": { "id": "7" } }), None)]
    #[case::a_number(json!({ "channel_id": "1", "author": { "id": 7 } }), None)]
    #[case::nobody(json!({ "channel_id": "1" }), None)]
    #[case::nothing(json!([]), None)]
    fn undecodable_event_has_sender_only_if_private(#[case] data: Value, #[case] id: Option<&str>) {
        let known = GuildCache::default();
        known.record_channel(&json!({ "id": "2", "guild_id": "9" }));
        assert_eq!(sender(&data, &known).map(|sender| sender.id).as_deref(), id);
        known.remove_channel(2);
        assert_eq!(sender(&data, &known).map(|sender| sender.id).as_deref(), id, "a channel that is gone is no other");
    }

    #[rstest]
    #[case::a_name_of_one_s_own(json!({ "id": "7", "username": "ada", "discriminator": "0" }), Some("ada"))]
    #[case::of_old_with_a_number(json!({ "id": "7", "username": "ada", "discriminator": "0007" }), None)]
    #[case::odd(json!({ "id": "7", "username": 7 }), None)]
    fn undecodable_event_yields_usual_sender_handle(#[case] author: Value, #[case] handle: Option<&str>) {
        let sender = sender(&json!({ "channel_id": "1", "author": author }), &GuildCache::default()).unwrap();
        assert_eq!((sender.id.as_str(), sender.handle.as_deref()), ("7", handle));
    }
}
