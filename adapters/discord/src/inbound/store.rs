//! Stores one thing, with as many attempts as it takes, and looks up in Discord's API what is needed before.

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use satchel_domain::{InboundMessage, Sender, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    backfill::{PAGE_SIZE, PageRequest},
    checkpoint::GatewayCheckpoint,
    interactions::PendingInteraction,
    reader::{self, InboundEvent, InboundReader},
    starters::StarterCache,
    wire::User,
};
use crate::{
    GatewayTimeouts,
    cache::GuildCache,
    classify::is_read_denied,
    rest::{ApiError, ApiRequest, CallError, RestClient},
    snowflake::{self, channel_name, stable_key},
};

/// How often a look-up for which others wait is attempted at least before it is skipped.
const MAX_ATTEMPTS: u32 = 5;

/// Something to store.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// A message, and the interaction to respond to once it is stored.
    Accept(Box<InboundMessage>, Option<PendingInteraction>),
    /// Nothing: the interaction only needs a response.
    Respond(PendingInteraction),
    Undecodable(Box<UndecodableUpdate>),
    /// An event of a guild's channel that has to be looked up first.
    Unresolved {
        channel: u64,
        name: String,
        data: Value,
        /// Whether guild messages contain their text.
        has_message_content: bool,
    },
}

/// Stores what arrives.
pub(super) struct InboundStore {
    pub(super) inbound: Arc<dyn Inbound>,
    pub(super) reader: InboundReader,
    pub(super) rest: RestClient,
    pub(super) cache: Arc<GuildCache>,
    /// Whether nothing is read without the parents of its channel.
    pub(super) needs_parents: bool,
    pub(super) timeouts: GatewayTimeouts,
    /// Ends all retries.
    pub(super) stop: CancellationToken,
    pub(super) state: StoreState,
}

#[derive(Debug, Default)]
pub(super) struct StoreState {
    /// How many jobs fail at the moment, so that an outage is logged once.
    failing: AtomicUsize,
    is_empty_message_reported: AtomicBool,
    lookups: LookupCache,
    pub(super) starters: StarterCache,
}

#[derive(Debug, Default)]
pub(super) struct StoreOutcome {
    /// The interaction to respond to now.
    pub(super) interaction: Option<PendingInteraction>,
    /// The sender, if the message was in a direct channel.
    pub(super) direct_sender: Option<DirectSender>,
}

/// The sender of a direct message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectSender {
    /// A person who may talk to the bot.
    Person(u64),
    /// A person who may not, or who is not known.
    Stranger,
}

/// The process stops: what was to be done is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cancelled;

/// A page of a channel's history.
#[derive(Debug)]
pub(super) enum HistoryPage {
    /// The oldest message first.
    Messages(Vec<Value>),
    /// For good: the bot may not read it, or the channel is gone.
    Forbidden,
    /// For now.
    Unavailable(CallError),
}

/// The channels and guilds that were looked up.
#[derive(Debug, Default)]
struct LookupCache(Mutex<BTreeSet<u64>>);

/// A channel or guild that could not be looked up, and why.
type LookupFailure = (u64, CallError);

/// How long a query is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryMode {
    Once,
    /// As long as Discord can't be reached; while it can, until the query has failed often and for long.
    UntilSuccess,
}

pub(super) enum QueryResult<T> {
    Found(T),
    Refused(CallError),
    Unavailable(CallError),
}

impl LookupCache {
    fn contains(&self, id: u64) -> bool {
        self.lock().contains(&id)
    }

    fn insert(&self, id: u64) {
        self.lock().insert(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreJob {
    /// Removes the sender of what is of a guild: whether it was addressed to the bot is unknown.
    fn without_sender(mut self) -> Self {
        if let Self::Undecodable(update) = &mut self {
            update.sender = None;
        }
        self
    }

    /// Returns the id of the message, and the time of its last edit if this is an edit.
    pub(super) fn version(&self) -> Option<(u64, Option<&str>)> {
        match self {
            Self::Accept(message, None) => {
                let edit = message.edit_of.as_ref().and_then(|_| message.key.split_once(':'));
                Some((message.message.as_ref()?.0.parse().ok()?, edit.map(|(_, edited_at)| edited_at)))
            }
            Self::Unresolved { name, data, .. } if name == "MESSAGE_CREATE" => {
                Some((snowflake::read(data, "id")?, None))
            }
            Self::Unresolved { name, data, .. } if name == "MESSAGE_UPDATE" => {
                Some((snowflake::read(data, "id")?, Some(data.get("edited_timestamp")?.as_str()?)))
            }
            _ => None,
        }
    }
}

impl InboundStore {
    /// Returns what to store of an event; nothing for most.
    pub(super) fn read(&self, name: &str, data: &Value, has_message_content: bool) -> Option<StoreJob> {
        match self.reader.read(name, data) {
            InboundEvent::Message(message) => Some(StoreJob::Accept(message, None)),
            InboundEvent::Interaction { interaction, message: Some(message) } => {
                Some(StoreJob::Accept(message, Some(interaction)))
            }
            InboundEvent::Interaction { interaction, message: None } => {
                tracing::debug!("ignoring a pressed button without one of our commands");
                Some(StoreJob::Respond(interaction))
            }
            InboundEvent::Ignored(reason) => {
                if reason == reader::EMPTY_MESSAGE_REASON
                    && has_message_content
                    && !self.state.is_empty_message_reported.swap(true, Ordering::Relaxed)
                {
                    tracing::warn!("ignoring a message: {reason}");
                }
                None
            }
            InboundEvent::Undecodable(reason) => Some(self.undecodable_job(name, data, reason)),
        }
    }

    /// Returns what to store of a message in the history of a channel of `guild`, or of a direct channel.
    pub(super) fn read_history(&self, message: &Value, guild: Option<u64>) -> Option<StoreJob> {
        match self.reader.read_history(message, guild) {
            InboundEvent::Message(message) => Some(StoreJob::Accept(message, None)),
            InboundEvent::Undecodable(reason) => {
                let job = self.undecodable_job("MESSAGE_CREATE", message, reason);
                Some(if guild.is_some() { job.without_sender() } else { job })
            }
            InboundEvent::Interaction { .. } | InboundEvent::Ignored(_) => None,
        }
    }

    fn undecodable_job(&self, name: &str, data: &Value, reason: &'static str) -> StoreJob {
        let text = |field| data.get(field).and_then(Value::as_str);
        let key = match (text("id"), text("edited_timestamp")) {
            (Some(id), Some(edited)) => format!("{name}:{id}:{edited}"),
            (Some(id), None) => format!("{name}:{id}"),
            (None, _) => format!("{name}:unnumbered-{}", stable_key(data.to_string().as_bytes())),
        };
        StoreJob::Undecodable(Box::new(UndecodableUpdate {
            channel: channel_name(),
            key,
            sender: direct_sender(data, &self.cache),
            raw: reader::without_quotations(&reader::without_token(data)),
            reason: reason.to_owned(),
        }))
    }

    /// Whether an event's channel has to be looked up. A new session lists all channels of its guilds; a session that the
    /// next process resumes lists none.
    pub(super) fn needs_lookup(&self, channel: u64, data: &Value) -> bool {
        data.get("guild_id").is_some_and(Value::is_string)
            && !self.cache.is_complete(channel)
            && !self.state.lookups.contains(channel)
    }

    /// Stores something, with retries until it is stored or the process stops.
    pub(super) async fn store(&self, job: StoreJob) -> Result<StoreOutcome, Cancelled> {
        let mut job = match job {
            StoreJob::Unresolved { channel, name, data, has_message_content } => {
                self.prepare_channel(channel, snowflake::read(&data, "guild_id")).await?;
                match self.read(&name, &data, has_message_content) {
                    Some(job) => job,
                    None => return Ok(StoreOutcome::default()),
                }
            }
            job => job,
        };
        if let StoreJob::Accept(message, None) = &mut job {
            self.add_original(message).await?;
            self.add_opening(message).await?;
        }
        let is_accepted = self.store_with_retries(&job).await?;
        if let StoreJob::Accept(message, None) = &job
            && is_accepted
        {
            self.finish_opening(message);
        }
        let direct_sender = match &job {
            StoreJob::Accept(message, _) if message.group => None,
            StoreJob::Accept(message, _) if is_accepted => message.sender.id.parse().ok().map(DirectSender::Person),
            StoreJob::Accept(..) => Some(DirectSender::Stranger),
            // Only direct messages have a sender.
            StoreJob::Undecodable(update) => update.sender.as_ref().map(|_| DirectSender::Stranger),
            StoreJob::Respond(_) | StoreJob::Unresolved { .. } => None,
        };
        let interaction = match job {
            StoreJob::Accept(_, interaction) => interaction,
            StoreJob::Respond(interaction) => Some(interaction),
            StoreJob::Undecodable(_) | StoreJob::Unresolved { .. } => None,
        };
        Ok(StoreOutcome { interaction, direct_sender })
    }

    /// Looks up what the events of a channel need to be read. What Discord doesn't tell is done without, unless it decides
    /// who answers.
    async fn prepare_channel(&self, channel: u64, guild: Option<u64>) -> Result<(), Cancelled> {
        if !self.needs_parents {
            for (place, error) in self.look_up(channel, guild, &self.state.lookups, RetryMode::UntilSuccess).await? {
                tracing::warn!(place, %error, "channel metadata from Discord could not be decoded; continuing without it");
            }
            return Ok(());
        }
        let mut attempts = 0;
        // Each look-up is a new one: an event of a channel that was looked up isn't waited for.
        while let Some((place, error)) =
            self.look_up(channel, guild, &LookupCache::default(), RetryMode::UntilSuccess).await?.pop()
        {
            tracing::warn!(place, %error, "channel metadata from Discord could not be decoded; messages there wait for it");
            self.pause(self.timeouts.retry_delay(attempts)).await?;
            attempts = attempts.saturating_add(1);
        }
        self.state.lookups.insert(channel);
        Ok(())
    }

    /// Returns whether the sender may talk to the bot.
    async fn store_with_retries(&self, job: &StoreJob) -> Result<bool, Cancelled> {
        let mut failures = 0;
        loop {
            let stored = match job {
                StoreJob::Accept(message, _) => {
                    self.inbound.accept(message.as_ref().clone()).await.map(|turn| turn.is_some())
                }
                StoreJob::Undecodable(update) => {
                    self.inbound.record_undecodable(update.as_ref().clone()).await.map(|()| false)
                }
                StoreJob::Respond(_) | StoreJob::Unresolved { .. } => Ok(false),
            };
            self.report_store_result(failures, &stored);
            if let Ok(is_accepted) = stored {
                return Ok(is_accepted);
            }
            self.pause(self.timeouts.retry_delay(failures)).await?;
            failures = failures.saturating_add(1);
        }
    }

    fn report_store_result(&self, failures: u32, stored: &Result<bool, InboundError>) {
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

    /// Saves a checkpoint. Returns whether that succeeded.
    pub(super) async fn save_checkpoint(&self, checkpoint: &GatewayCheckpoint) -> bool {
        match self.inbound.save_checkpoint(&channel_name(), checkpoint.to_json()).await {
            Ok(()) => true,
            Err(error) => {
                let error: &(dyn Error + 'static) = &error;
                tracing::debug!(error, "saving the checkpoint failed; retrying");
                false
            }
        }
    }

    /// Requests a page of a channel's history.
    pub(super) async fn request_page(&self, request: PageRequest) -> Result<HistoryPage, Cancelled> {
        let PageRequest { channel, guild, after, is_retry, .. } = request;
        let retry_mode = if is_retry { RetryMode::Once } else { RetryMode::UntilSuccess };
        // A resumed session lists no channels. A failed look-up is repeated here, because messages of the history are
        // read only once.
        if guild.is_some()
            && !self.cache.is_complete(channel)
            && let Some((_, error)) = self.look_up(channel, guild, &LookupCache::default(), retry_mode).await?.pop()
        {
            return Ok(HistoryPage::Unavailable(error));
        }
        let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE_SIZE}");
        Ok(match self.query::<Vec<Value>>(&path, retry_mode).await? {
            QueryResult::Found(mut messages) => {
                messages.sort_by_key(|message| snowflake::read(message, "id"));
                HistoryPage::Messages(messages)
            }
            QueryResult::Refused(error) if is_read_denied(&error) => HistoryPage::Forbidden,
            QueryResult::Refused(error) | QueryResult::Unavailable(error) => HistoryPage::Unavailable(error),
        })
    }

    /// Looks up what an event of a channel needs to be read: its guild, and the parents of a thread. Skips what is in
    /// `lookups`. Returns what is unavailable.
    async fn look_up(
        &self,
        channel: u64,
        guild: Option<u64>,
        lookups: &LookupCache,
        retry_mode: RetryMode,
    ) -> Result<Vec<LookupFailure>, Cancelled> {
        let mut failures = Vec::new();
        if let Some(guild) = guild.filter(|guild| !lookups.contains(*guild)) {
            match self.query(&format!("/guilds/{guild}"), retry_mode).await? {
                QueryResult::Found(found) => self.cache.record_guild(&found),
                QueryResult::Refused(_) => {}
                QueryResult::Unavailable(error) => failures.push((guild, error)),
            }
            lookups.insert(guild);
        }
        // A thread, its channel, and the category of that.
        let mut next = Some(channel);
        for _ in 0..3 {
            let Some(id) = next.take().filter(|id| !lookups.contains(*id)) else { break };
            match self.query(&format!("/channels/{id}"), retry_mode).await? {
                QueryResult::Found(found) => {
                    self.cache.record_channel(&found);
                    next = snowflake::read(&found, "parent_id");
                }
                QueryResult::Refused(_) => {}
                QueryResult::Unavailable(error) => failures.push((id, error)),
            }
            if id != channel {
                lookups.insert(id);
            }
        }
        // Last, because an event whose channel is in `lookups` is read without waiting.
        lookups.insert(channel);
        Ok(failures)
    }

    /// Queries the API. If Discord is reachable but keeps failing, the query is given up: otherwise its channel, and in
    /// the end all others, would wait for ever.
    pub(super) async fn query<T: DeserializeOwned>(
        &self,
        path: &str,
        mode: RetryMode,
    ) -> Result<QueryResult<T>, Cancelled> {
        let (mut failures, mut server_failures) = (0, 0);
        let mut since = Instant::now();
        loop {
            let request = self.rest.request(ApiRequest::get(path).low_priority());
            let wait = match self.stop.run_until_cancelled(request).await.ok_or(Cancelled)? {
                Ok(found) => return Ok(QueryResult::Found(found)),
                Err(CallError::Refused(refused)) if refused.status < 500 => {
                    return Ok(QueryResult::Refused(CallError::Refused(refused)));
                }
                Err(error) if mode == RetryMode::Once => return Ok(QueryResult::Unavailable(error)),
                Err(CallError::RateLimited { retry_after, .. }) => retry_after.unwrap_or_default(),
                Err(
                    error @ (CallError::Refused(ApiError { status: 500.., .. }) | CallError::InvalidResponse { .. }),
                ) => {
                    if server_failures == 0 {
                        since = Instant::now();
                    }
                    server_failures += 1;
                    if server_failures >= MAX_ATTEMPTS && since.elapsed() >= self.timeouts.unavailable_timeout {
                        return Ok(QueryResult::Unavailable(error));
                    }
                    Duration::ZERO
                }
                Err(_) => Duration::ZERO,
            };
            self.pause(wait.max(self.timeouts.retry_delay(failures))).await?;
            failures = failures.saturating_add(1);
        }
    }

    async fn pause(&self, delay: Duration) -> Result<(), Cancelled> {
        self.stop.run_until_cancelled(tokio::time::sleep(delay)).await.ok_or(Cancelled)
    }
}

/// Returns the sender of an undecodable event, if it is a direct one. In guilds nobody is the sender: whether it was
/// addressed to the bot is unknown.
fn direct_sender(data: &Value, cache: &GuildCache) -> Option<Sender> {
    let channel = snowflake::read(data, "channel_id")?;
    let is_in_guild = ["guild_id", "member"].iter().any(|field| data.get(field).is_some_and(|value| !value.is_null()));
    if is_in_guild || cache.guild_id(channel).is_some() {
        return None;
    }
    let author = data.get("author").or_else(|| data.get("user"))?;
    let handle = User::deserialize(author).ok().and_then(|user| user.handle().map(str::to_owned));
    Some(Sender { handle, ..Sender::new(snowflake::read(author, "id")?.to_string(), "") })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::direct_message(json!({ "channel_id": "1", "author": { "id": "7", "username": "ada" }, "content": 5 }), Some("7"))]
    #[case::button(json!({ "channel_id": "1", "user": { "id": "7" } }), Some("7"))]
    #[case::guild_message(json!({ "channel_id": "1", "guild_id": "9", "author": { "id": "7" } }), None)]
    #[case::odd_guild(json!({ "channel_id": "1", "guild_id": 9, "author": { "id": "7" } }), None)]
    #[case::guild_member(json!({ "channel_id": "1", "member": {}, "author": { "id": "7" } }), None)]
    #[case::channel_of_known_guild(json!({ "channel_id": "2", "author": { "id": "7" } }), None)]
    #[case::no_channel(json!({ "author": { "id": "7" } }), None)]
    #[case::numeric_id(json!({ "channel_id": "1", "author": { "id": 7 } }), None)]
    #[case::no_author(json!({ "channel_id": "1" }), None)]
    #[case::no_object(json!([]), None)]
    fn undecodable_event_has_sender_only_if_private(#[case] data: Value, #[case] id: Option<&str>) {
        let cache = GuildCache::default();
        cache.record_channel(&json!({ "id": "2", "guild_id": "9" }));
        assert_eq!(direct_sender(&data, &cache).map(|sender| sender.id).as_deref(), id);
        cache.remove_channel(2);
        assert_eq!(
            direct_sender(&data, &cache).map(|sender| sender.id).as_deref(),
            id,
            "a channel that is gone is no other"
        );
    }

    #[rstest]
    #[case::unique_name(json!({ "id": "7", "username": "ada", "discriminator": "0" }), Some("ada"))]
    #[case::legacy_name_with_number(json!({ "id": "7", "username": "ada", "discriminator": "0007" }), None)]
    #[case::odd(json!({ "id": "7", "username": 7 }), None)]
    fn undecodable_event_yields_usual_sender_handle(#[case] author: Value, #[case] handle: Option<&str>) {
        let sender = direct_sender(&json!({ "channel_id": "1", "author": author }), &GuildCache::default()).unwrap();
        assert_eq!((sender.id.as_str(), sender.handle.as_deref()), ("7", handle));
    }
}
