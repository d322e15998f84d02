//! Looks up in Discord's API what a message only refers to: the message from which its thread was started, and the original of
//! a forward that doesn't show it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use satchel_domain::{ConversationOpening, InboundMessage};
use serde_json::Value;

use super::{
    reader,
    store::{Cancelled, InboundStore, QueryResult, RetryMode},
};
use crate::{
    cache::threads::StarterLocation,
    rest::{ApiError, CallError},
    snowflake,
};

/// How many messages from which threads were started are remembered until an allowed person writes there.
const MAX_UNUSED_STARTERS: usize = 100;

/// The threads whose starters were looked up. The ledger knows to which message of a thread its starter belongs, so this only
/// saves requests.
#[derive(Debug, Default)]
pub(super) struct StarterCache(Mutex<Starters>);

#[derive(Debug, Default)]
struct Starters {
    /// The threads without a starter, and those in which it was certainly passed with a message.
    done: BTreeSet<u64>,
    unused: BTreeMap<u64, ConversationOpening>,
}

impl StarterCache {
    fn is_done(&self, thread: u64) -> bool {
        self.lock().done.contains(&thread)
    }

    fn unused(&self, thread: u64) -> Option<ConversationOpening> {
        self.lock().unused.get(&thread).cloned()
    }

    fn insert(&self, thread: u64, opening: ConversationOpening) {
        let mut starters = self.lock();
        starters.unused.insert(thread, opening);
        if starters.unused.len() > MAX_UNUSED_STARTERS {
            starters.unused.pop_first();
        }
    }

    fn finish(&self, thread: u64) {
        let mut starters = self.lock();
        starters.unused.remove(&thread);
        starters.done.insert(thread);
    }

    fn lock(&self) -> MutexGuard<'_, Starters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboundStore {
    /// Adds to a message of a thread the one from which the thread was started, until that was passed once.
    pub(super) async fn add_opening(&self, message: &mut InboundMessage) -> Result<(), Cancelled> {
        let Some(thread) = snowflake::read(&message.raw, "channel_id") else { return Ok(()) };
        if self.state.starters.is_done(thread) || !self.reader.takes_opening(message) {
            return Ok(());
        }
        let Some(place) = self.cache.starter_location(thread) else { return Ok(()) };
        // The first message of a post is the starter itself.
        if place.is_post && snowflake::read(&message.raw, "id") == Some(thread) {
            return Ok(());
        }
        let opening = match self.state.starters.unused(thread) {
            Some(opening) => Some(opening),
            None => self.find_opening(thread, place).await?,
        };
        match opening {
            Some(opening) => {
                self.state.starters.insert(thread, opening.clone());
                message.opening = Some(Box::new(opening));
            }
            None => self.state.starters.finish(thread),
        }
        Ok(())
    }

    /// A message is stored, and what it brings of its thread's starter with it.
    pub(super) fn finish_opening(&self, message: &InboundMessage) {
        if self.reader.passes_opening(message)
            && let Some(thread) = snowflake::read(&message.raw, "channel_id")
        {
            self.state.starters.finish(thread);
        }
    }

    /// Returns the quotation of the message from which a thread was started; `None` if it wasn't started from a message.
    async fn find_opening(
        &self,
        thread: u64,
        place: StarterLocation,
    ) -> Result<Option<ConversationOpening>, Cancelled> {
        let path = format!("/channels/{}/messages/{thread}", place.channel);
        let (error, retry_mode) = match self.query::<Value>(&path, RetryMode::UntilSuccess).await? {
            QueryResult::Found(starter) => return Ok(Some(self.reader.quote_starter(Some(&starter)))),
            QueryResult::Refused(error) => (error, RetryMode::UntilSuccess),
            // The message has waited long enough.
            QueryResult::Unavailable(error) => (error, RetryMode::Once),
        };
        let is_unknown = matches!(error, CallError::Refused(ApiError { status: 404, .. }));
        if !place.is_post && is_unknown && place.is_older == Some(false) {
            return Ok(None);
        }
        tracing::debug!(channel.id = thread, %error, "the message from which a thread was started can't be read");
        if place.is_post {
            return Ok(Some(self.reader.quote_starter(None)));
        }
        // A thread that was started from a message begins with one that refers to it.
        let path = format!("/channels/{thread}/messages?after={thread}&limit=1");
        let first = match self.query::<Vec<Value>>(&path, retry_mode).await? {
            QueryResult::Found(mut messages) => messages.pop(),
            QueryResult::Refused(_) | QueryResult::Unavailable(_) => None,
        };
        Ok(match first.as_ref().map(reader::referenced_starter) {
            Some(None) => None,
            Some(Some(starter)) => Some(self.reader.quote_starter(starter)),
            // Where the bot may not read what was written before, it is unknown.
            None => Some(self.reader.quote_starter(None)),
        })
    }

    /// Adds to a forward the original if the forward shows nothing of it, where the bot can read it.
    pub(super) async fn add_original(&self, message: &mut InboundMessage) -> Result<(), Cancelled> {
        let Some((channel, original)) = self.reader.find_hidden_original(&message.raw) else { return Ok(()) };
        let path = format!("/channels/{channel}/messages/{original}");
        match self.query::<Value>(&path, RetryMode::UntilSuccess).await? {
            QueryResult::Found(original) => self.reader.add_original(message, &original),
            QueryResult::Refused(error) | QueryResult::Unavailable(error) => {
                tracing::debug!(%error, "a forwarded message can't be read");
            }
        }
        Ok(())
    }
}
