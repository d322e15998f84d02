//! Tells owners that a channel is closed, once for each closure, on the channels that are open here or in another process.

mod record;

use std::{error::Error, sync::Arc, time::Duration};

use futures::future::select_all;
use satchel_domain::{
    ChannelClosure, ChannelName, ChannelState, ConversationId, InboundMessage, SATCHEL_SENDER_ID, Sender, SystemTask,
};
use satchel_intake::{InternalInbound, access::AccessPolicy};
use satchel_ports::{
    Channel, Conversations, Inbox, LedgerError,
    ledger::{ConversationQuery, GatewayDuty, Gateways},
};
use tokio_util::sync::CancellationToken;

use self::record::ClosureRecords;

/// When a notice that could not be stored is stored again, unless a channel is closed or opened before, and how often it is
/// looked up which closed channels other processes can use. By then this process has given back the gateways of its closed
/// channels.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The conversation in which the people of the page read a notice if they have none yet.
const FIRST_PAGE_KEY: &str = "main";

/// The notices about closed channels.
pub struct ClosureNotices {
    /// The channels of this process.
    pub channels: Vec<Arc<dyn Channel>>,
    /// Who owns this Satchel, and in which chats owners are reached.
    pub access: Arc<AccessPolicy>,
    /// The channel whose people are owners in each of its conversations: the page.
    pub owner_page: Option<ChannelName>,
    pub conversations: Arc<dyn Conversations>,
    /// Where it is stored which closures owners were told of.
    pub inbox: Arc<dyn Inbox>,
    /// Which channels processes can use: one whose account is refused holds no gateway.
    pub gateways: Arc<dyn Gateways>,
    pub inbound: InternalInbound,
    /// [`RETRY_INTERVAL`].
    pub retry_interval: Duration,
}

/// Where owners read a notice.
struct NoticeTarget {
    conversation: ConversationId,
    /// What tells this target from the others of its channel.
    key: String,
}

impl ClosureNotices {
    /// Tells owners until `stop` is cancelled. A notice that is repeated, by this process or another one, has the same key
    /// and is dropped.
    pub async fn run(self, stop: CancellationToken) {
        let mut records = ClosureRecords::new(Arc::clone(&self.inbox));
        let mut last_states = Vec::new();
        while !self.channels.is_empty() {
            let states: Vec<ChannelState> = self.channels.iter().map(|channel| channel.state()).collect();
            let are_several_closed = states.iter().filter(|state| state.closure().is_some()).count() > 1;
            let open_elsewhere = match are_several_closed && states == last_states {
                true => self.list_open_elsewhere().await,
                false => Ok(Vec::new()),
            };
            let told = self.notify_owners(&states, open_elsewhere, &mut records).await;
            let opening = stop.run_until_cancelled(self.record_openings(&states, &mut records)).await;
            let result = told.and(opening.unwrap_or(Ok(())));
            if let Err(error) = &result {
                let error: &(dyn Error + 'static) = &**error;
                tracing::warn!(
                    error,
                    "telling owners of a closed channel, or recording that one is open, failed; retrying"
                );
            }
            let changes = self.channels.iter().zip(&states).map(|(channel, state)| channel.next_state(state));
            let change = async {
                tokio::select! {
                    _ = select_all(changes) => {}
                    () = tokio::time::sleep(self.retry_interval), if result.is_err() || are_several_closed => {}
                }
            };
            if stop.run_until_cancelled(change).await.is_none() {
                return;
            }
            last_states = states;
        }
        stop.cancelled().await;
    }

    /// A notice that can't be stored holds up no other one. Nor does a failed look-up of the channels that are open elsewhere.
    async fn notify_owners(
        &self,
        states: &[ChannelState],
        open_elsewhere: Result<Vec<ChannelName>, LedgerError>,
        records: &mut ClosureRecords,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (open_elsewhere, mut result): (_, Result<(), Box<dyn Error + Send + Sync>>) = match open_elsewhere {
            Ok(channels) => (channels, Ok(())),
            Err(error) => (Vec::new(), Err(error.into())),
        };
        for (channel, state) in self.channels.iter().zip(states) {
            let Some(closure) = state.closure() else { continue };
            let name = channel.name();
            let targets = self.channels.iter().map(|target| target.name()).zip(states);
            // No notice that a channel is closed goes to that channel, though another process may be able to use it.
            let is_open = |(target, state): &(ChannelName, &ChannelState)| {
                state.closure().is_none() || (*target != name && open_elsewhere.contains(target))
            };
            let open: Vec<ChannelName> = targets.filter(is_open).map(|(target, _)| target).collect();
            let id = records.id(&name, closure).await?;
            for NoticeTarget { conversation, key } in self.list_targets(&open).await? {
                let key = format!("{SATCHEL_SENDER_ID}:closed:{name}:{id}:{key}");
                let message = InboundMessage::new(conversation, key, Sender::satchel());
                // Where this process can't send, one that can delivers it from the ledger.
                let told = self.inbound.accept(system_task(closure), message).await;
                result = result.and(told.map(|_| ()).map_err(Into::into));
            }
        }
        result
    }

    /// Lists the channels that some process can use.
    async fn list_open_elsewhere(&self) -> Result<Vec<ChannelName>, LedgerError> {
        let mut channels = self.gateways.list_held_gateways(GatewayDuty::Receive).await?;
        channels.extend(self.gateways.list_held_gateways(GatewayDuty::Deliver).await?);
        Ok(channels)
    }

    /// Records which channels' closures have ended.
    async fn record_openings(
        &self,
        states: &[ChannelState],
        records: &mut ClosureRecords,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        for (channel, _) in self.channels.iter().zip(states).filter(|(_, state)| state.closure().is_none()) {
            records.open(&**channel).await?;
        }
        Ok(())
    }

    /// The targets where owners read notices, on these channels.
    async fn list_targets(&self, channels: &[ChannelName]) -> Result<Vec<NoticeTarget>, LedgerError> {
        let mut targets = Vec::new();
        for name in channels {
            let owner_chats = self.access.channel_rules(name).map_or(&[][..], |rules| rules.owner_chats.as_slice());
            targets.extend(
                owner_chats.iter().map(|chat| NoticeTarget { conversation: chat.clone(), key: chat.to_string() }),
            );
            if self.owner_page.as_ref() == Some(name)
                && let Some(conversation) = self.last_used_conversation(name).await?
            {
                // Without its conversation, so that another one that is used meanwhile gets no second notice.
                targets.push(NoticeTarget { conversation, key: name.to_string() });
            }
        }
        Ok(targets)
    }

    async fn last_used_conversation(&self, channel: &ChannelName) -> Result<Option<ConversationId>, LedgerError> {
        let query = ConversationQuery { channel: channel.clone(), archived: false, before: None, limit: 1 };
        let listed = self.conversations.list_conversations(&query).await?;
        let last_used = listed.into_iter().max_by_key(|summary| summary.last_at).map(|summary| summary.conversation);
        Ok(last_used.or_else(|| ConversationId::new(channel.clone(), FIRST_PAGE_KEY).ok()))
    }
}

fn system_task(closure: &ChannelClosure) -> SystemTask {
    let ChannelClosure { platform, reason, remedy, .. } = closure;
    SystemTask::ChannelClosed { platform: (*platform).to_owned(), reason: reason.clone(), remedy: remedy.clone() }
}

#[cfg(test)]
mod tests;
