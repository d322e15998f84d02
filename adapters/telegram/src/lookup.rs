//! Looks up sent messages by querying message ids one by one.
//!
//! The Bot API has no method to read a message. `stopMessageLiveLocation` is used instead: the bot sends no live
//! locations, so it is always refused without a change, and the error text distinguishes the bot's messages, others',
//! and none (tdlib/telegram-bot-api, `Client.cpp`: `check_message`; TDLib, `MessagesManager.cpp`:
//! `edit_message_live_location`).

use std::{collections::BTreeSet, time::Duration};

use satchel_domain::{MessageRef, PartContent, delivery::SendError};
use satchel_ports::{LookupOutcome, LookupRange, LookupRequest, ledger::RecordedMessage};
use serde::{Deserialize, de::IgnoredAny};
use teloxide::{
    payloads::{GetChatMember, GetMe, StopMessageLiveLocation},
    types::{ChatId, MessageId, UserId},
};
use tokio::time::sleep;

use crate::{
    address::ConversationAddress,
    bot::{BotClient, CallError},
    classify::{ApiOperation, CallOutcome, IdStatus, classify_error, classify_id},
    message_ids::{Counter, MessageIds, Search},
    settings::LookupSettings,
};

/// How many ids are queried; with more the chat is too busy for a certain result.
const MAX_IDS: usize = 100;

/// How many ids beyond the newest known one are queried.
const MAX_IDS_PAST_NEWEST: i64 = 5;

/// Upload size per extra unit of delay: the server forwards a file before it creates the message.
const MEGABYTE_BYTES: u64 = 1_000_000;

/// A look-up in one chat.
pub(crate) struct Lookup<'a> {
    pub(crate) client: &'a BotClient,
    pub(crate) ids: &'a MessageIds,
    pub(crate) settings: &'a LookupSettings,
    pub(crate) chat: ChatId,
    pub(crate) request: &'a LookupRequest,
}

/// The bot's rights in a chat.
enum Rights {
    /// It sees every message and can't edit those of others.
    All,
    /// Some messages may be hidden from it.
    Partial,
    /// It can edit others' posts, so that they can't be told from its own.
    EditsOthers,
}

/// The bot, as returned by `getMe`.
#[derive(Deserialize)]
struct BotUser {
    id: u64,
    #[serde(default)]
    can_read_all_group_messages: bool,
}

/// The bot's membership in a chat, as returned by `getChatMember`.
#[derive(Deserialize)]
struct BotMember {
    status: String,
    #[serde(default)]
    can_edit_messages: bool,
}

impl Lookup<'_> {
    /// Looks up the part.
    pub(crate) async fn run(self) -> Result<LookupOutcome, SendError> {
        let part = self.request.part.part_id;
        let Some(search) = self.ids.begin_search(self.chat).await else {
            return Ok(LookupOutcome::uncertain("another look-up is in progress in the chat"));
        };
        if self.ids.has_other_doubt(self.chat, part) {
            return Ok(LookupOutcome::uncertain("another message to the chat may have arrived as well"));
        }
        let rights = self.rights().await?;
        if matches!(rights, Rights::EditsOthers) {
            return Ok(LookupOutcome::uncertain(
                "the bot can edit other people's posts here, so an edit proves nothing",
            ));
        }
        let outcome = match &self.request.range {
            LookupRange::After(_) => self.find(rights).await?,
            LookupRange::Before(_) | LookupRange::Late(_) => self.scan_ids().await?,
        };
        self.resolve(&search, &outcome);
        Ok(outcome)
    }

    /// Scans twice, since the server itself may delay a request when Telegram rate-limits it.
    async fn find(&self, rights: Rights) -> Result<LookupOutcome, SendError> {
        let megabytes = self.upload_bytes().div_ceil(MEGABYTE_BYTES);
        let upload_delay =
            self.settings.delay_per_megabyte.saturating_mul(u32::try_from(megabytes).unwrap_or(u32::MAX));
        sleep(self.settings.delay + upload_delay).await;
        let first = self.scan_ids().await?;
        let is_partial = |outcome: &LookupOutcome| match outcome {
            LookupOutcome::Found { messages, .. } => messages.len() < message_count(&self.request.part.content),
            LookupOutcome::Absent => true,
            LookupOutcome::Uncertain { .. } => false,
        };
        if !is_partial(&first) {
            return Ok(first);
        }
        sleep(self.settings.second_pass_delay).await;
        match (self.scan_ids().await?, rights) {
            (LookupOutcome::Absent, _) if first != LookupOutcome::Absent => Ok(first),
            (LookupOutcome::Absent, Rights::Partial) => {
                Ok(LookupOutcome::uncertain("messages of the chat may be hidden from the bot"))
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Queries all candidate ids once. Each message of others that it meets extends the range.
    async fn scan_ids(&self) -> Result<LookupOutcome, SendError> {
        let LookupRequest { part, recorded, attempts, .. } = self.request;
        let Some((floor, ceiling)) = self.bounds() else {
            return Ok(LookupOutcome::uncertain("no message of the chat is known from before it was sent"));
        };
        let counter = Counter::new(self.chat);
        let mut known_ids: BTreeSet<i64> = recorded_ids(&recorded.other, counter).collect();
        known_ids.extend(self.ids.sent_ids(self.chat, part.part_id));
        known_ids.extend(self.settled_ids());
        let newest = known_ids.last().copied().unwrap_or(floor).max(floor);
        let (mut own_ids, mut query_count, mut id) = (Vec::new(), 0, floor + 1);
        while id
            < ceiling
                .unwrap_or_else(|| newest.max(self.ids.newest_id(self.chat).unwrap_or(floor)) + MAX_IDS_PAST_NEWEST + 1)
        {
            if !known_ids.contains(&id) {
                query_count += 1;
                if query_count > MAX_IDS {
                    return Ok(LookupOutcome::uncertain("too many messages came since"));
                }
                match self.query_id(id).await? {
                    IdStatus::OwnMessage => {
                        self.ids.observe_message(self.chat, id);
                        own_ids.push(id);
                    }
                    IdStatus::OtherMessage => self.ids.observe_message(self.chat, id),
                    IdStatus::NoMessage => {}
                    IdStatus::Unclear => {
                        return Ok(LookupOutcome::uncertain("Telegram's answer says nothing about the message"));
                    }
                }
                sleep(self.settings.interval).await;
            }
            id += 1;
        }
        Ok(classify_found_ids(&own_ids, message_count(&part.content), *attempts))
    }

    /// The id after which the part's messages start, and the one before which they end, if known.
    fn bounds(&self) -> Option<(i64, Option<i64>)> {
        let LookupRequest { range, recorded, .. } = self.request;
        let stored = recorded_ids(&recorded.before, Counter::new(self.chat)).max();
        match range {
            LookupRange::After(after) => Some((stored.max(after.as_ref().and_then(parse_message_id))?, None)),
            LookupRange::Before(sent) => Some((stored?, sent.iter().filter_map(parse_message_id).min())),
            LookupRange::Late(sent) => Some((sent.iter().filter_map(parse_message_id).max()?, None)),
        }
    }

    /// The messages as which a retry has arrived.
    fn settled_ids(&self) -> impl Iterator<Item = i64> {
        let sent = match &self.request.range {
            LookupRange::After(_) => &[],
            LookupRange::Before(sent) | LookupRange::Late(sent) => sent.as_slice(),
        };
        sent.iter().filter_map(parse_message_id)
    }

    /// Queries whose message an id is. Waits out a short rate limit.
    async fn query_id(&self, id: i64) -> Result<IdStatus, SendError> {
        let Ok(message_id) = i32::try_from(id) else { return Ok(IdStatus::NoMessage) };
        let payload = StopMessageLiveLocation::new(self.chat, MessageId(message_id));
        loop {
            let result: Result<IgnoredAny, CallError> = self.client.request(&payload).await;
            match classify_id(result.err()) {
                Err(SendError::NotSent { retry_after_ms: Some(wait), .. })
                    if Duration::from_millis(wait) <= self.settings.max_flood_wait =>
                {
                    sleep(Duration::from_millis(wait)).await;
                }
                status => return status,
            }
        }
    }

    /// Queries the bot's rights in the chat.
    async fn rights(&self) -> Result<Rights, SendError> {
        if !(ConversationAddress { chat: self.chat, topic: None }).is_group() {
            return Ok(Rights::All);
        }
        let me: BotUser = match self
            .client
            .request(&GetMe::new())
            .await
            .map_err(|error| classify_error(error, ApiOperation::Probe))
        {
            Ok(me) => me,
            Err(CallOutcome::Failed(error) | CallOutcome::TopicGone(error) | CallOutcome::RichUnknown(error)) => {
                return Err(error);
            }
            Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => return Ok(Rights::Partial),
        };
        let payload = GetChatMember::new(self.chat, UserId(me.id));
        let member: BotMember =
            match self.client.request(&payload).await.map_err(|error| classify_error(error, ApiOperation::Probe)) {
                Ok(member) => member,
                Err(CallOutcome::Failed(
                    error @ (SendError::NotSent { .. } | SendError::InDoubt { .. } | SendError::AccountRefused { .. }),
                )) => return Err(error),
                Err(_) => return Ok(Rights::Partial),
            };
        let is_admin = matches!(member.status.as_str(), "administrator" | "creator");
        Ok(match is_admin {
            true if member.can_edit_messages => Rights::EditsOthers,
            true => Rights::All,
            false if me.can_read_all_group_messages => Rights::All,
            false => Rights::Partial,
        })
    }

    fn upload_bytes(&self) -> u64 {
        match &self.request.part.content {
            PartContent::Voice { prepared: Some(voice), .. } => voice.bytes,
            content => content.files().iter().map(|item| item.attachment.bytes).sum(),
        }
    }

    /// Records the found messages and removes the part's doubt.
    fn resolve(&self, search: &Search<'_>, outcome: &LookupOutcome) {
        let part = self.request.part.part_id;
        match outcome {
            LookupOutcome::Found { messages, duplicates } => {
                let ids: Vec<i64> = messages.iter().chain(duplicates).filter_map(parse_message_id).collect();
                search.resolve(part, &ids);
            }
            LookupOutcome::Absent => search.resolve(part, &[]),
            LookupOutcome::Uncertain { .. } => {}
        }
    }
}

/// How many messages a content becomes.
fn message_count(content: &PartContent) -> usize {
    match content {
        PartContent::Album { items } => items.len().max(1),
        _ => 1,
    }
}

/// Classifies the bot's unrecorded messages for a part of `count` messages, sent by `attempts` attempts. Of several
/// copies the newest is the part; more messages than the attempts can have made leave the result uncertain.
fn classify_found_ids(own_ids: &[i64], count: usize, attempts: u32) -> LookupOutcome {
    let refs = |ids: &[i64]| ids.iter().map(|id| MessageRef(id.to_string())).collect::<Vec<_>>();
    let attempts = usize::try_from(attempts).unwrap_or(usize::MAX);
    match own_ids.len() {
        0 => LookupOutcome::Absent,
        // Items of an album may have been deleted.
        few if few <= count && attempts > 0 => LookupOutcome::Found { messages: refs(own_ids), duplicates: Vec::new() },
        many if many.is_multiple_of(count) && many / count <= attempts => {
            let (duplicates, messages) = own_ids.split_at(many - count);
            LookupOutcome::Found { messages: refs(messages), duplicates: refs(duplicates) }
        }
        _ => LookupOutcome::uncertain("more messages are unknown than the part can have made"),
    }
}

/// The ids of the recorded messages that share a counter.
fn recorded_ids(messages: &[RecordedMessage], counter: Counter) -> impl Iterator<Item = i64> {
    messages.iter().filter_map(move |recorded| {
        let address = ConversationAddress::parse(&recorded.conversation)?;
        if Counter::new(address.chat) == counter { parse_message_id(&recorded.message) } else { None }
    })
}

fn parse_message_id(message: &MessageRef) -> Option<i64> {
    message.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(ids: &[&str]) -> Vec<MessageRef> {
        ids.iter().map(|id| MessageRef((*id).to_owned())).collect()
    }

    #[test]
    fn of_several_attempts_the_newest_is_the_part() {
        let found = |messages: &[&str], duplicates: &[&str]| LookupOutcome::Found {
            messages: refs(messages),
            duplicates: refs(duplicates),
        };
        assert_eq!(classify_found_ids(&[], 1, 1), LookupOutcome::Absent);
        assert_eq!(classify_found_ids(&[7], 1, 1), found(&["7"], &[]));
        assert_eq!(classify_found_ids(&[7, 9], 1, 2), found(&["9"], &["7"]));
        assert_eq!(classify_found_ids(&[5, 6, 9, 10], 2, 3), found(&["9", "10"], &["5", "6"]));
        assert_eq!(classify_found_ids(&[5], 2, 1), found(&["5"], &[]));
    }

    #[test]
    fn more_messages_than_attempts_leave_no_certainty() {
        for (own_ids, count, attempts) in
            [(&[7, 9][..], 1, 1), (&[5, 6, 7], 2, 9), (&[5, 6, 9, 10], 2, 1), (&[7], 1, 0)]
        {
            let outcome = classify_found_ids(own_ids, count, attempts);
            assert!(matches!(outcome, LookupOutcome::Uncertain { .. }), "{own_ids:?}: {outcome:?}");
        }
    }
}
