//! What is stored of a channel's last closure, by which owners are told of it once, whichever process finds out and however
//! often one is restarted.

use std::{collections::HashMap, error::Error, sync::Arc, time::Duration};

use satchel_domain::{ChannelClosure, ChannelName, delivery::SendError};
use satchel_ports::{Channel, Inbox, LedgerError};
use serde::Deserialize;
use tokio::time::timeout;

/// What stands before the channel's name in the name under which its record is stored. No channel is called so.
const RECORD_PREFIX: &str = "closure-of-";

/// How long a platform may take to say whether it accepts an account.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The last closure of a channel in all processes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ClosureRecord {
    /// The credentials that were refused.
    credentials: String,
    /// Counts the closures of the channel.
    number: u64,
    /// Whether the platform hasn't accepted the channel's account since.
    is_closed: bool,
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
            Some(NumberedClosure { number, .. }) => number,
            None => {
                let after = last.map_or(0, |last| last.number);
                next_number(self.load(channel).await?.as_ref(), credentials, after)
            }
        };
        self.save(channel, &ClosureRecord { credentials: credentials.clone(), number, is_closed: true }).await?;
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
        let Some(record) = self.load(&name).await?.filter(|record| record.is_closed) else { return Ok(()) };
        match timeout(PROBE_TIMEOUT, channel.probe()).await? {
            Ok(()) => Ok(self.save(&name, &ClosureRecord { is_closed: false, ..record }).await?),
            // That closes the channel.
            Err(SendError::AccountRefused { .. }) => Ok(()),
            Err(error) => Err(format!("{name} does not say whether it accepts the bot's account: {error}").into()),
        }
    }

    async fn load(&self, channel: &ChannelName) -> Result<Option<ClosureRecord>, LedgerError> {
        let Some(name) = record_name(channel) else { return Ok(None) };
        let stored = self.inbox.load_checkpoint(&name).await?;
        Ok(stored.and_then(|stored| serde_json::from_value(stored).ok()))
    }

    async fn save(&self, channel: &ChannelName, record: &ClosureRecord) -> Result<(), LedgerError> {
        let Some(name) = record_name(channel) else { return Ok(()) };
        let record = serde_json::json!({
            "credentials": record.credentials,
            "number": record.number,
            "is_closed": record.is_closed,
        });
        self.inbox.save_checkpoint(&name, &record).await
    }
}

fn record_name(channel: &ChannelName) -> Option<ChannelName> {
    ChannelName::new(format!("{RECORD_PREFIX}{channel}")).ok()
}

/// Returns the number of a closure with these credentials that began after that with the number `after`. Processes that find
/// out at once count on from the same number.
fn next_number(stored: Option<&ClosureRecord>, credentials: &str, after: u64) -> u64 {
    match stored {
        Some(ClosureRecord { credentials: refused, number, is_closed: true })
            if refused == credentials && *number > after =>
        {
            *number
        }
        _ => stored.map_or(0, |record| record.number).max(after).saturating_add(1),
    }
}
