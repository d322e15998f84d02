//! Looks for messages of ours by asking for ids one by one.
//!
//! The Bot API reads no message, but it answers for an id: `stopMessageLiveLocation`, of which we send none, is refused
//! before anything is changed, in words that tell messages of the bot from others and from none
//! (tdlib/telegram-bot-api, `Client.cpp`: `check_message`; TDLib, `MessagesManager.cpp`: `edit_message_live_location`).

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

/// How many ids are asked for; with more of them the chat is too busy for certainty.
const MAX_IDS: usize = 100;

/// How many ids beyond the newest known one are asked for.
const MAX_IDS_PAST_NEWEST: i64 = 5;

/// The bytes for which a look-up waits a unit longer: the server passes a file on before it makes a message of it.
const MEGABYTE_BYTES: u64 = 1_000_000;

/// A look-up in one chat.
pub(crate) struct Lookup<'a> {
    pub(crate) client: &'a BotClient,
    pub(crate) ids: &'a MessageIds,
    pub(crate) settings: &'a LookupSettings,
    pub(crate) chat: ChatId,
    pub(crate) request: &'a LookupRequest,
}

/// What the bot may see and do in a chat.
enum Rights {
    /// It sees every message, and others' posts are not its own to edit.
    All,
    /// Some messages may be hidden from it.
    Partial,
    /// It may edit what others have posted, so that theirs look like its own.
    EditsOthers,
}

/// The bot, as `getMe` shows it.
#[derive(Deserialize)]
struct Me {
    id: u64,
    #[serde(default)]
    can_read_all_group_messages: bool,
}

/// The bot's place in a chat, as `getChatMember` shows it.
#[derive(Deserialize)]
struct Member {
    status: String,
    #[serde(default)]
    can_edit_messages: bool,
}

impl Lookup<'_> {
    /// Looks for the part.
    pub(crate) async fn run(self) -> Result<LookupOutcome, SendError> {
        let part = self.request.part.part;
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
            LookupRange::Before(_) | LookupRange::Late(_) => self.pass().await?,
        };
        self.resolve(&search, &outcome);
        Ok(outcome)
    }

    /// Looks twice, since the server waits for a while by itself where Telegram asks it to.
    async fn find(&self, rights: Rights) -> Result<LookupOutcome, SendError> {
        let megabytes = self.upload_bytes().div_ceil(MEGABYTE_BYTES);
        let longer = self.settings.delay_per_megabyte.saturating_mul(u32::try_from(megabytes).unwrap_or(u32::MAX));
        sleep(self.settings.delay + longer).await;
        let first = self.pass().await?;
        let is_partial = |outcome: &LookupOutcome| match outcome {
            LookupOutcome::Found { messages, .. } => messages.len() < message_count(&self.request.part.content),
            LookupOutcome::Absent => true,
            LookupOutcome::Uncertain { .. } => false,
        };
        if !is_partial(&first) {
            return Ok(first);
        }
        sleep(self.settings.second_pass_delay).await;
        match (self.pass().await?, rights) {
            (LookupOutcome::Absent, _) if first != LookupOutcome::Absent => Ok(first),
            (LookupOutcome::Absent, Rights::Partial) => {
                Ok(LookupOutcome::uncertain("messages of the chat may be hidden from the bot"))
            }
            (outcome, _) => Ok(outcome),
        }
    }

    /// Asks for all ids in question once. Messages of others that it comes upon tell that there may be more behind them.
    async fn pass(&self) -> Result<LookupOutcome, SendError> {
        let LookupRequest { part, recorded, attempts, .. } = self.request;
        let Some((floor, ceiling)) = self.bounds() else {
            return Ok(LookupOutcome::uncertain("no message of the chat is known from before it was sent"));
        };
        let counter = Counter::new(self.chat);
        let mut taken: BTreeSet<i64> = numbers(&recorded.other, counter).collect();
        taken.extend(self.ids.sent(self.chat, part.part));
        taken.extend(self.settled_ids());
        let newest = taken.last().copied().unwrap_or(floor).max(floor);
        let (mut ours, mut asked, mut id) = (Vec::new(), 0, floor + 1);
        while id
            < ceiling
                .unwrap_or_else(|| newest.max(self.ids.newest(self.chat).unwrap_or(floor)) + MAX_IDS_PAST_NEWEST + 1)
        {
            if !taken.contains(&id) {
                asked += 1;
                if asked > MAX_IDS {
                    return Ok(LookupOutcome::uncertain("too many messages came since"));
                }
                match self.query_id(id).await? {
                    IdStatus::OwnMessage => {
                        self.ids.observe_message(self.chat, id);
                        ours.push(id);
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
        Ok(classify_found_ids(&ours, message_count(&part.content), *attempts))
    }

    /// The id behind which the part's begin, and the one before which they end where that is known.
    fn bounds(&self) -> Option<(i64, Option<i64>)> {
        let LookupRequest { range, recorded, .. } = self.request;
        let stored = numbers(&recorded.before, Counter::new(self.chat)).max();
        match range {
            LookupRange::After(after) => Some((stored.max(after.as_ref().and_then(number))?, None)),
            LookupRange::Before(sent) => Some((stored?, sent.iter().filter_map(number).min())),
            LookupRange::Late(sent) => Some((sent.iter().filter_map(number).max()?, None)),
        }
    }

    /// The messages as which a repeat has arrived.
    fn settled_ids(&self) -> impl Iterator<Item = i64> {
        let sent = match &self.request.range {
            LookupRange::After(_) => &[],
            LookupRange::Before(sent) | LookupRange::Late(sent) => sent.as_slice(),
        };
        sent.iter().filter_map(number)
    }

    /// Asks whose message an id is. A flood is waited out where it isn't long.
    async fn query_id(&self, id: i64) -> Result<IdStatus, SendError> {
        let Ok(number) = i32::try_from(id) else { return Ok(IdStatus::NoMessage) };
        let payload = StopMessageLiveLocation::new(self.chat, MessageId(number));
        loop {
            let answered: Result<IgnoredAny, CallError> = self.client.request(&payload).await;
            match classify_id(answered.err()) {
                Err(SendError::NotSent { retry_after_ms: Some(wait), .. })
                    if Duration::from_millis(wait) <= self.settings.max_flood_wait =>
                {
                    sleep(Duration::from_millis(wait)).await;
                }
                answer => return answer,
            }
        }
    }

    /// What the bot may see and do here.
    async fn rights(&self) -> Result<Rights, SendError> {
        if !(ConversationAddress { chat: self.chat, topic: None }).is_group() {
            return Ok(Rights::All);
        }
        let me: Me = match self
            .client
            .request(&GetMe::new())
            .await
            .map_err(|error| classify_error(error, ApiOperation::Probe))
        {
            Ok(me) => me,
            Err(CallOutcome::Failed(error)) => return Err(error),
            Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => return Ok(Rights::Partial),
        };
        let asked = GetChatMember::new(self.chat, UserId(me.id));
        let member: Member =
            match self.client.request(&asked).await.map_err(|error| classify_error(error, ApiOperation::Probe)) {
                Ok(member) => member,
                Err(CallOutcome::Failed(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. }))) => {
                    return Err(error);
                }
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

    /// What was found is known from now on, and the part in doubt no longer.
    fn resolve(&self, search: &Search<'_>, outcome: &LookupOutcome) {
        let part = self.request.part.part;
        match outcome {
            LookupOutcome::Found { messages, duplicates } => {
                let ids: Vec<i64> = messages.iter().chain(duplicates).filter_map(number).collect();
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

/// What messages of ours that nobody knew say about a part of `count` messages, of which `attempts` may have arrived. Of
/// several the newest is the part; of more than can be its own, something else of ours is unknown.
fn classify_found_ids(ours: &[i64], count: usize, attempts: u32) -> LookupOutcome {
    let refs = |ids: &[i64]| ids.iter().map(|id| MessageRef(id.to_string())).collect::<Vec<_>>();
    let attempts = usize::try_from(attempts).unwrap_or(usize::MAX);
    match ours.len() {
        0 => LookupOutcome::Absent,
        // Somebody may have deleted a part of an album.
        few if few <= count && attempts > 0 => LookupOutcome::Found { messages: refs(ours), duplicates: Vec::new() },
        many if many.is_multiple_of(count) && many / count <= attempts => {
            let (duplicates, messages) = ours.split_at(many - count);
            LookupOutcome::Found { messages: refs(messages), duplicates: refs(duplicates) }
        }
        _ => LookupOutcome::uncertain("more messages are unknown than the part can have made"),
    }
}

/// The ids of messages that this counter counts.
fn numbers(messages: &[RecordedMessage], counter: Counter) -> impl Iterator<Item = i64> {
    messages.iter().filter_map(move |known| {
        let place = ConversationAddress::parse(&known.conversation)?;
        if Counter::new(place.chat) == counter { number(&known.message) } else { None }
    })
}

fn number(message: &MessageRef) -> Option<i64> {
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
        for (ours, count, attempts) in [(&[7, 9][..], 1, 1), (&[5, 6, 7], 2, 9), (&[5, 6, 9, 10], 2, 1), (&[7], 1, 0)] {
            let outcome = classify_found_ids(ours, count, attempts);
            assert!(matches!(outcome, LookupOutcome::Uncertain { .. }), "{ours:?}: {outcome:?}");
        }
    }
}
