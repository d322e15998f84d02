//! What is stored of a channel's closures, by which owners are told once of each, whichever process finds out and however
//! often one is restarted.

use std::{collections::HashMap, error::Error, iter, sync::Arc, time::Duration};

use satchel_domain::{ChannelClosure, ChannelName, delivery::SendError};
use satchel_ports::{Channel, Inbox, LedgerError};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

/// What stands before the channel's name in the name under which its record is stored. No channel is called so.
const RECORD_PREFIX: &str = "closure-of-";

/// How long a platform may take to say whether it accepts an account.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many earlier closures of a channel are stored, each of other credentials.
const MAX_EARLIER: usize = 7;

/// The last closure of a channel for credentials, in all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ClosureRecord {
    /// The credentials that were refused.
    credentials: String,
    /// Counts the closures of the channel.
    number: u64,
    /// Whether the platform hasn't accepted the channel's account since.
    is_closed: bool,
}

/// The last closures of a channel in all processes, one for each of the last credentials that were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ClosureHistory {
    /// The last one, which earlier versions store alone.
    #[serde(flatten)]
    last: ClosureRecord,
    /// Those before it, the newest first.
    #[serde(default)]
    earlier: Vec<ClosureRecord>,
}

impl ClosureHistory {
    /// Puts a closure before all others, and in place of the one of its credentials.
    fn with_last(history: Option<Self>, last: ClosureRecord) -> Self {
        let records = history.into_iter().flat_map(Self::into_records);
        let others = records.filter(|record| record.credentials != last.credentials);
        Self { earlier: others.take(MAX_EARLIER).collect(), last }
    }

    /// Ends all closures.
    fn end_closures(mut self) -> Self {
        iter::once(&mut self.last).chain(&mut self.earlier).for_each(|record| record.is_closed = false);
        self
    }

    fn records(&self) -> impl Iterator<Item = &ClosureRecord> {
        iter::once(&self.last).chain(&self.earlier)
    }

    fn into_records(self) -> impl Iterator<Item = ClosureRecord> {
        iter::once(self.last).chain(self.earlier)
    }

    /// Returns the number of a closure with these credentials that began after that with the number `after`. Processes that
    /// find out at once count on from the same number.
    fn next_number(history: Option<&Self>, credentials: &str, after: u64) -> u64 {
        let records = || history.into_iter().flat_map(Self::records);
        let is_same =
            |record: &&ClosureRecord| record.credentials == credentials && record.is_closed && record.number > after;
        match records().find(is_same) {
            Some(record) => record.number,
            None => records().map(|record| record.number).max().unwrap_or(0).max(after).saturating_add(1),
        }
    }
}

/// The last closure of a channel in this process.
#[derive(Debug, Clone, Copy)]
struct NumberedClosure {
    /// Its number in this process.
    own: u32,
    /// Its number in all processes.
    number: u64,
    /// Whether the channel was open since.
    has_ended: bool,
}

/// The records of the channels' closures.
pub(super) struct ClosureRecords {
    inbox: Arc<dyn Inbox>,
    numbered: HashMap<ChannelName, NumberedClosure>,
}

impl ClosureRecords {
    pub(super) fn new(inbox: Arc<dyn Inbox>) -> Self {
        Self { inbox, numbered: HashMap::new() }
    }

    /// Returns what names a closure, the same in each process whose credentials are refused by it.
    pub(super) async fn id(&mut self, channel: &ChannelName, closure: &ChannelClosure) -> Result<String, LedgerError> {
        let ChannelClosure { credentials, number: own, .. } = closure;
        let last = self.numbered.get(channel).copied();
        let number = match last.filter(|last| last.own == *own) {
            // While other processes may have other credentials, that this channel is closed is stored once.
            Some(NumberedClosure { number, has_ended: false, .. }) => return Ok(format!("{credentials}-{number}")),
            Some(NumberedClosure { number, .. }) => Some(number),
            None => None,
        };
        let history = self.load(channel).await?;
        let number = number.unwrap_or_else(|| {
            let after = last.map_or(0, |last| last.number);
            ClosureHistory::next_number(history.as_ref(), credentials, after)
        });
        let record = ClosureRecord { credentials: credentials.clone(), number, is_closed: true };
        self.save(channel, &ClosureHistory::with_last(history, record)).await?;
        self.numbered.insert(channel.clone(), NumberedClosure { own: *own, number, has_ended: false });
        Ok(format!("{credentials}-{number}"))
    }

    /// Records that the platform accepts the account of a channel that is open. It is asked: a channel that has called nothing
    /// yet is open, too.
    pub(super) async fn open(&mut self, channel: &dyn Channel) -> Result<(), Box<dyn Error + Send + Sync>> {
        let name = channel.name();
        if let Some(last) = self.numbered.get_mut(&name) {
            last.has_ended = true;
        }
        let is_closed = |history: &ClosureHistory| history.records().any(|record| record.is_closed);
        let Some(history) = self.load(&name).await?.filter(is_closed) else { return Ok(()) };
        match timeout(PROBE_TIMEOUT, channel.probe()).await? {
            Ok(()) => Ok(self.save(&name, &history.end_closures()).await?),
            // That closes the channel.
            Err(SendError::AccountRefused { .. }) => Ok(()),
            Err(error) => Err(format!("{name} does not say whether it accepts the bot's account: {error}").into()),
        }
    }

    async fn load(&self, channel: &ChannelName) -> Result<Option<ClosureHistory>, LedgerError> {
        let Some(name) = record_name(channel) else { return Ok(None) };
        let stored = self.inbox.load_checkpoint(&name).await?;
        Ok(stored.and_then(|stored| serde_json::from_value(stored).ok()))
    }

    async fn save(&self, channel: &ChannelName, history: &ClosureHistory) -> Result<(), LedgerError> {
        let Some(name) = record_name(channel) else { return Ok(()) };
        self.inbox.save_checkpoint(&name, &serde_json::json!(history)).await
    }
}

fn record_name(channel: &ChannelName) -> Option<ChannelName> {
    ChannelName::new(format!("{RECORD_PREFIX}{channel}")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn history_is_bounded_and_begins_with_what_an_earlier_version_stored() {
        let stored = json!({ "credentials": "first", "number": 3, "is_closed": true });
        let mut history: ClosureHistory = serde_json::from_value(stored).unwrap();
        assert_eq!(ClosureHistory::next_number(Some(&history), "first", 0), 3);
        for number in 4..40 {
            let credentials = number.to_string();
            assert_eq!(ClosureHistory::next_number(Some(&history), &credentials, 0), number);
            history = ClosureHistory::with_last(Some(history), ClosureRecord { credentials, number, is_closed: true });
        }
        assert_eq!(history.earlier.len(), MAX_EARLIER);
        assert_eq!(serde_json::from_value::<ClosureHistory>(json!(history)).unwrap(), history);
        let numbers = ["39", "38"].map(|known| ClosureHistory::next_number(Some(&history), known, 0));
        assert_eq!(numbers, [39, 38], "they are still the same closures");
        assert_eq!(ClosureHistory::next_number(Some(&history.end_closures()), "39", 0), 40);
    }
}
