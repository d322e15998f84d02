//! Who may talk to Satchel and who owns it, as the configuration says.
//!
//! People are known by the channel's own ids. A name is taken only where the platform vouches that nobody else has it
//! ([`Sender::handle`]); what people call themselves says nothing.

use std::collections::{HashMap, HashSet};

use satchel_domain::{ChannelName, ConversationId, Sender, remedy};

/// The sender's id of the owner where a channel is stated to be the owner's: the terminal's user, the page's visitor.
pub const IMPLICIT_OWNER_ID: &str = "owner";

/// The entry that stands for everybody.
const ALLOW_ALL: &str = "*";

/// Who may talk, on every channel.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    channels: HashMap<ChannelName, ChannelAccess>,
    /// The channels without rules on which [`IMPLICIT_OWNER_ID`] owns this Satchel.
    owner_channels: HashSet<ChannelName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChannelAccess {
    /// Ids and @names of those who may talk besides the owners; `*` for everybody.
    pub allow_users: Vec<String>,
    /// Ids and @names of those who may also approve others and allow tool calls.
    pub owners: Vec<String>,
    /// The private chats in which owners are asked about strangers, as far as they can be told from the ids.
    pub owner_chats: Vec<ConversationId>,
    /// Whether a topic of a private chat is as private as the chat: then each topic of an owner's chat is read by the owner alone.
    pub has_private_topics: bool,
}

impl AccessPolicy {
    /// The rules of these channels. A channel without rules asks nobody who they are: it has other ways, such as a
    /// token or the machine's own accounts. It has no owner unless [`AccessPolicy::with_owner_on`] states so.
    #[must_use]
    pub fn new(channels: impl IntoIterator<Item = (ChannelName, ChannelAccess)>) -> Self {
        Self { channels: channels.into_iter().collect(), owner_channels: HashSet::new() }
    }

    /// States that the sender [`IMPLICIT_OWNER_ID`] of these channels owns this Satchel and decides about all channels:
    /// nobody else gets through to them. A channel that has rules keeps to its rules.
    #[must_use]
    pub fn with_owner_on(mut self, channels: impl IntoIterator<Item = ChannelName>) -> Self {
        self.owner_channels.extend(channels);
        self
    }

    /// The rules of a channel, if it has any.
    #[must_use]
    pub fn channel_rules(&self, channel: &ChannelName) -> Option<&ChannelAccess> {
        self.channels.get(channel)
    }

    /// Whether somebody owns this Satchel, on the channel where they write.
    #[must_use]
    pub fn is_owner(&self, channel: &ChannelName, sender: &Sender) -> bool {
        match self.channel_rules(channel) {
            Some(rules) => rules.owners.iter().any(|entry| entry_matches(entry, sender)),
            None => self.owner_channels.contains(channel) && sender.id == IMPLICIT_OWNER_ID,
        }
    }

    /// Whether an owner alone reads a conversation, as far as its id tells.
    #[must_use]
    pub fn is_owner_chat(&self, conversation: &ConversationId) -> bool {
        match self.channel_rules(conversation.channel()) {
            Some(rules) if rules.has_private_topics => rules.owner_chats.contains(&conversation.chat()),
            Some(rules) => rules.owner_chats.contains(conversation),
            None => self.owner_channels.contains(conversation.channel()),
        }
    }

    /// Writes a reason for somebody: with the remedy, if there is one, for an owner, without it for anybody else.
    #[must_use]
    pub fn reason_for_sender(
        &self,
        channel: &ChannelName,
        sender: &Sender,
        reason: &str,
        remedy: Option<&str>,
    ) -> String {
        remedy::message_for(reason, remedy, self.is_owner(channel, sender))
    }

    /// Whether the owner on a channel decides about people of every channel, and not of this one alone.
    #[must_use]
    pub fn can_decide_everywhere(&self, channel: &ChannelName) -> bool {
        self.channel_rules(channel).is_none() && self.owner_channels.contains(channel)
    }
}

impl ChannelAccess {
    /// Returns whether the configuration allows a person.
    #[must_use]
    pub fn is_allowed(&self, sender: &Sender) -> bool {
        let is_listed = |entry: &String| entry == ALLOW_ALL || entry_matches(entry, sender);
        self.allow_users.iter().any(is_listed) || self.owners.iter().any(|entry| entry_matches(entry, sender))
    }
}

/// Whether an entry of the configuration names somebody: by the exact id, or by the handle with or without its `@`.
fn entry_matches(entry: &str, sender: &Sender) -> bool {
    let handle = entry.strip_prefix('@').unwrap_or(entry);
    // A handle of digits alone must not match another person's id.
    let is_handle = handle.contains(|c: char| c.is_ascii_alphabetic());
    let matches_handle = |own: &String| is_handle && own.eq_ignore_ascii_case(handle);
    // Some messages have no sender that the platform tells.
    let matches_id = !entry.is_empty() && entry == sender.id;
    matches_id || sender.handle.as_ref().is_some_and(matches_handle)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn channel() -> ChannelName {
        ChannelName::new("telegram").unwrap()
    }

    fn access(allow_users: &[&str], owners: &[&str]) -> AccessPolicy {
        let texts = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect();
        let rules =
            ChannelAccess { allow_users: texts(allow_users), owners: texts(owners), ..ChannelAccess::default() };
        AccessPolicy::new([(channel(), rules)])
    }

    fn sender(id: &str, name: &str, handle: Option<&str>) -> Sender {
        Sender { handle: handle.map(str::to_owned), ..Sender::new(id, name) }
    }

    #[rstest]
    #[case::by_id(&["123"], sender("123", "Ada", None), true)]
    #[case::by_handle(&["@Ada_L"], sender("123", "Ada", Some("ada_l")), true)]
    #[case::by_handle_without_its_sign(&["ada_l"], sender("123", "Ada", Some("Ada_L")), true)]
    #[case::everybody(&["*"], sender("5", "Eve", None), true)]
    #[case::nobody(&[], sender("5", "Eve", None), false)]
    #[case::blank_entry(&["", "@"], sender("", "", Some("")), false)]
    #[case::a_longer_id(&["123"], sender("1234", "Eve", None), false)]
    #[case::a_padded_id(&["123"], sender(" 123", "Eve", None), false)]
    #[case::a_group_by_its_number(&["123"], sender("-123", "Eve", None), false)]
    // The attack: Eve calls herself what the owner's handle is, or what the owner's id is.
    #[case::a_name_that_looks_like_a_handle(&["@ada_l"], sender("5", "@ada_l", None), false)]
    #[case::a_name_that_looks_like_an_id(&["123"], sender("5", "123", Some("eve")), false)]
    // The attack: a platform that lets people take digits for a handle.
    #[case::a_handle_that_looks_like_an_id(&["123"], sender("5", "Eve", Some("123")), false)]
    // The attack: the first letter is Cyrillic.
    #[case::a_handle_of_look_alikes(&["@ada_l"], sender("5", "Eve", Some("аda_l")), false)]
    #[case::a_longer_handle(&["@ada"], sender("5", "Eve", Some("ada_")), false)]
    #[case::a_handle_with_its_sign(&["@@ada"], sender("5", "Eve", Some("ada")), false)]
    fn only_whom_an_entry_means_is_let_in(#[case] entries: &[&str], #[case] who: Sender, #[case] in_: bool) {
        let allowed = access(entries, &[]);
        assert_eq!(allowed.channel_rules(&channel()).unwrap().is_allowed(&who), in_);
        assert!(!allowed.is_owner(&channel(), &who), "whoever may talk owns nothing");
        let owned = access(&[], entries);
        let everybody = entries.contains(&"*");
        assert_eq!(owned.is_owner(&channel(), &who), in_ && !everybody);
        assert_eq!(owned.channel_rules(&channel()).unwrap().is_allowed(&who), in_ && !everybody, "owners may talk");
    }

    #[test]
    fn rules_are_those_of_their_channel() {
        let access = access(&["7"], &["7"]);
        let discord = ChannelName::new("discord").unwrap();
        assert!(!access.is_owner(&discord, &sender("7", "Ada", None)));
        assert!(access.channel_rules(&discord).is_none());
    }

    #[test]
    fn owners_chats_are_their_private_ones() {
        let rules = ChannelAccess { owner_chats: vec!["telegram:1".parse().unwrap()], ..ChannelAccess::default() };
        let access = AccessPolicy::new([(channel(), rules)]).with_owner_on([ChannelName::new("web").unwrap()]);
        for (chat, is_owners) in
            [("telegram:1", true), ("telegram:-100", false), ("web:a", true), ("console:main", false)]
        {
            assert_eq!(access.is_owner_chat(&chat.parse().unwrap()), is_owners, "{chat}");
        }
    }

    /// Catches: an owner who reads the remedy in their chat and not in its topics. On other channels what is named like a topic
    /// may have other readers.
    #[test]
    fn topics_of_owners_chats_are_private_where_the_channel_says_so() {
        for has_private_topics in [true, false] {
            let owner_chats = vec!["telegram:1".parse().unwrap()];
            let rules = ChannelAccess { owner_chats, has_private_topics, ..ChannelAccess::default() };
            let access = AccessPolicy::new([(channel(), rules)]);
            for (topic, is_owners) in
                [("telegram:1/7", has_private_topics), ("telegram:-1/7", false), ("telegram:12/7", false)]
            {
                assert_eq!(access.is_owner_chat(&topic.parse().unwrap()), is_owners, "{topic} {has_private_topics}");
            }
        }
    }

    #[test]
    fn channel_without_rules_has_only_a_stated_owner() {
        let web = ChannelName::new("web").unwrap();
        let claims_to_own = sender(IMPLICIT_OWNER_ID, "Owner", None);
        let unstated = access(&["7"], &["7"]);
        assert!(!unstated.is_owner(&web, &claims_to_own) && !unstated.can_decide_everywhere(&web));
        let stated = unstated.with_owner_on([web.clone(), channel()]);
        assert!(stated.is_owner(&web, &claims_to_own) && stated.can_decide_everywhere(&web));
        assert!(!stated.is_owner(&web, &sender("7", "Ada", None)));
        assert!(!stated.is_owner(&channel(), &claims_to_own), "rules win over the statement");
        assert!(!stated.can_decide_everywhere(&channel()));
    }
}
