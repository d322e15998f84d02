//! Quotas: whom files count for, and what goes beyond.

use std::{fmt, sync::Arc};

use satchel_domain::{ChannelName, ConversationId, Sender};
use satchel_ports::ledger::{PersonKey, QuotaExceeded, QuotaScope, Quotas, UsageScope};

/// Tells whether somebody owns this Satchel.
pub type IsOwner = Arc<dyn Fn(&ChannelName, &Sender) -> bool + Send + Sync>;

/// How many bytes may be kept, and by whom more.
#[derive(Clone)]
pub struct QuotaRules {
    pub quotas: Quotas,
    /// Whom no quota binds.
    pub is_owner: IsOwner,
}

impl Default for QuotaRules {
    fn default() -> Self {
        Self { quotas: Quotas::NONE, is_owner: Arc::new(|_, _| false) }
    }
}

impl fmt::Debug for QuotaRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaRules").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

/// Whom files count for.
#[derive(Debug)]
pub struct Account {
    pub conversation: ConversationId,
    /// The person whose text was read last; `None` where nobody wrote one.
    pub person: Option<PersonKey>,
    /// Whether all whose texts were read are owners.
    pub is_owner: bool,
}

impl Account {
    /// The account of the people whose texts have led to a file, the last one behind the others. It has the lesser
    /// rights of all of them.
    #[must_use]
    pub fn new(rules: &QuotaRules, conversation: &ConversationId, people: &[Sender]) -> Self {
        let channel = conversation.channel();
        Self {
            conversation: conversation.clone(),
            is_owner: !people.is_empty() && people.iter().all(|sender| (rules.is_owner)(channel, sender)),
            person: people.last().map(|sender| PersonKey::new(channel, sender)),
        }
    }

    /// The scopes in which it counts, as rows name them.
    pub fn scopes(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let person = self.person.as_ref().map(|person| ("person", person.to_string()));
        [("conversation", self.conversation.to_string())].into_iter().chain(person)
    }

    /// The quotas that bind it, each with what counts for it. No quota binds an owner.
    #[must_use]
    pub fn quotas(&self, quotas: &Quotas) -> Vec<(QuotaScope, u64, UsageScope)> {
        if self.is_owner {
            return Vec::new();
        }
        let conversation = UsageScope::Conversation(self.conversation.clone());
        let person = self.person.clone().map(UsageScope::Person);
        let person = person.map(|person| (QuotaScope::Person, quotas.person, person));
        [(QuotaScope::Conversation, quotas.conversation, conversation)].into_iter().chain(person).collect()
    }
}

/// Returns how a quota is exceeded by what is needed besides what is used, if it is.
#[must_use]
pub fn find_excess(scope: QuotaScope, used: u64, quota: u64, needed: u64) -> Option<QuotaExceeded> {
    (used.saturating_add(needed) > quota).then_some(QuotaExceeded { scope, used, quota, needed })
}
