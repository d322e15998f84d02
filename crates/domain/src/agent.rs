//! The agents among which people choose, and which one answers in a conversation.

use std::collections::{HashMap, HashSet};

use crate::{ChannelName, ConversationId, InboundMessage, Sender};

/// The name of the agent that answers where no other one is chosen.
pub const DEFAULT_AGENT: &str = "default";

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Why agents can't be declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAgentError(String);

/// Who may choose an agent for a conversation, or run a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllowedPeople {
    /// The owners.
    #[default]
    Owners,
    /// Everybody who may talk to the bot.
    Everyone,
}

/// An agent as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSummary {
    /// Its name: 1 to 64 ASCII letters, digits, dashes and underscores.
    pub name: String,
    /// What it is for, in a line; may be empty.
    pub description: String,
    /// Who may choose it.
    pub allow: AllowedPeople,
}

impl AgentSummary {
    /// The agent that needs no declaration.
    #[must_use]
    pub fn default_agent() -> Self {
        Self {
            name: DEFAULT_AGENT.to_owned(),
            description: "answers unless another agent is chosen".to_owned(),
            allow: AllowedPeople::Owners,
        }
    }
}

/// The agents, and the chats that have one without anybody choosing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDirectory {
    /// The first is the default agent.
    agents: Vec<AgentSummary>,
    chats: HashMap<ConversationId, String>,
    /// The chats among them in which nobody chooses another one.
    locked: HashSet<ConversationId>,
}

impl Default for AgentDirectory {
    fn default() -> Self {
        Self { agents: vec![AgentSummary::default_agent()], chats: HashMap::new(), locked: HashSet::new() }
    }
}

impl AgentDirectory {
    /// Lists the default agent and these. `chats` names the agent of a chat, which its topics have too; a chat is named
    /// by its id, or by `@` and the id of the person whose private chat it is.
    ///
    /// # Errors
    /// When a name is invalid, taken, or that of no agent.
    pub fn new(
        agents: impl IntoIterator<Item = AgentSummary>,
        chats: HashMap<ConversationId, String>,
    ) -> Result<Self, InvalidAgentError> {
        let mut directory = Self { chats, ..Self::default() };
        for agent in agents {
            let name = &agent.name;
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_name_byte) {
                return Err(InvalidAgentError(format!(
                    "an agent can't be called {name:?}: a name has 1 to {MAX_NAME_BYTES} letters from a to z, digits, `-` \
                     and `_`"
                )));
            }
            if directory.find(name).is_some() {
                let reason = if name.eq_ignore_ascii_case(DEFAULT_AGENT) {
                    "an agent can't be called `default`: the agent without a declaration has this name".to_owned()
                } else {
                    format!("two agents are called `{name}`; give each its own name")
                };
                return Err(InvalidAgentError(reason));
            }
            directory.agents.push(agent);
        }
        let unknown = directory.chats.iter().filter(|(_, agent)| directory.find(agent).is_none()).min();
        match unknown {
            Some((chat, agent)) => Err(InvalidAgentError(format!(
                "{chat} is given the agent {agent:?}, which doesn't exist; the agents are {}",
                directory.names().collect::<Vec<_>>().join(", ")
            ))),
            None => Ok(directory),
        }
    }

    /// Lets nobody choose another agent than their own in these chats.
    #[must_use]
    pub fn with_locked_chats(self, chats: impl IntoIterator<Item = ConversationId>) -> Self {
        Self { locked: chats.into_iter().collect(), ..self }
    }

    /// Whether a chat of the channel has an agent without anybody choosing it.
    #[must_use]
    pub fn has_chats(&self, channel: &ChannelName) -> bool {
        self.chats.keys().any(|chat| chat.channel() == channel)
    }

    /// All agents, the default one first.
    #[must_use]
    pub fn agents(&self) -> &[AgentSummary] {
        &self.agents
    }

    /// The names of all agents, the default one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    /// Whether there is more than one agent.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.agents.len() > 1
    }

    /// Finds an agent by its name, in upper or lower case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&AgentSummary> {
        self.agents.iter().find(|agent| agent.name.eq_ignore_ascii_case(name))
    }

    /// The agent of a conversation unless another one is chosen: its own, or that of the nearest chat around it.
    #[must_use]
    pub fn home(&self, chat: &AgentChat<'_>) -> &AgentSummary {
        self.declared(chat).map_or(&self.agents[0], |(agent, _)| agent)
    }

    /// Whether nobody may choose another agent in a conversation, because its own, or the nearest chat around it that has one,
    /// is locked.
    #[must_use]
    pub fn is_locked(&self, chat: &AgentChat<'_>) -> bool {
        self.declared(chat).is_some_and(|(_, is_locked)| is_locked)
    }

    /// The agent that answers in a conversation: the chosen one if it still exists and the conversation isn't
    /// [locked](Self::is_locked), otherwise its [`home`](Self::home).
    #[must_use]
    pub fn current(&self, chat: &AgentChat<'_>, chosen: Option<&str>) -> &AgentSummary {
        let chosen = chosen.filter(|_| !self.is_locked(chat));
        chosen.and_then(|name| self.find(name)).unwrap_or_else(|| self.home(chat))
    }

    /// The agent that a conversation was given, or the nearest chat around it, and whether that chat is locked.
    fn declared(&self, chat: &AgentChat<'_>) -> Option<(&AgentSummary, bool)> {
        let AgentChat { conversation, parents, person } = *chat;
        let person_key = || {
            let key = format!("@{}", person?.id);
            ConversationId::new(conversation.channel().clone(), key).ok()
        };
        let declared = |id: &ConversationId| Some((self.find(self.chats.get(id)?)?, self.locked.contains(id)));
        declared(conversation)
            .or_else(|| declared(&conversation.chat()))
            .or_else(|| parents.iter().find_map(declared))
            .or_else(|| declared(&person_key()?))
    }
}

/// Where an agent answers.
#[derive(Debug, Clone, Copy)]
pub struct AgentChat<'a> {
    /// The conversation.
    pub conversation: &'a ConversationId,
    /// The chats that it is part of, as in [`InboundMessage::parents`].
    pub parents: &'a [ConversationId],
    /// The person whose private chat it is.
    pub person: Option<&'a Sender>,
}

impl<'a> AgentChat<'a> {
    /// The chat of a message.
    #[must_use]
    pub fn from_message(message: &'a InboundMessage) -> Self {
        let person = (!message.group).then_some(&message.sender);
        Self { conversation: &message.conversation, parents: &message.parents, person }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentSummary {
        AgentSummary { name: name.into(), description: String::new(), allow: AllowedPeople::Owners }
    }

    fn directory(chats: &[(&str, &str)]) -> Result<AgentDirectory, String> {
        let chats = chats.iter().map(|(chat, agent)| (chat.parse().unwrap(), (*agent).to_owned())).collect();
        AgentDirectory::new([agent("kids"), agent("Cook-2")], chats).map_err(|error| error.to_string())
    }

    #[test]
    fn chosen_agent_precedes_that_of_chat() {
        let directory = directory(&[("telegram:-100", "kids"), ("discord:@803", "Cook-2")]).unwrap();
        let person = Sender::new("803", "Ada");
        for (conversation, person, chosen, expected) in [
            ("telegram:5", None, None, "default"),
            ("telegram:5", None, Some("cook-2"), "Cook-2"),
            ("telegram:-100", None, None, "kids"),
            ("telegram:-100/42", None, None, "kids"),
            ("telegram:-100/42", None, Some("default"), "default"),
            ("telegram:-100", None, Some("removed"), "kids"),
            ("telegram:-1001", None, Some("removed"), "default"),
            ("discord:7", Some(&person), None, "Cook-2"),
            ("discord:@803", None, None, "Cook-2"),
            ("discord:7", None, None, "default"),
            ("telegram:7", Some(&person), None, "default"),
        ] {
            let chat = AgentChat { conversation: &conversation.parse().unwrap(), parents: &[], person };
            let current = directory.current(&chat, chosen);
            assert_eq!(current.name, expected, "{conversation} {person:?} {chosen:?}");
        }
    }

    #[test]
    fn locked_chat_keeps_its_agent_whatever_was_chosen() {
        let chats = [("telegram:-100", "kids"), ("telegram:-100/42", "cook-2"), ("discord:@803", "kids")];
        let locked = ["telegram:-100", "discord:@803", "telegram:5"].map(|chat| chat.parse().unwrap());
        let directory = directory(&chats).unwrap().with_locked_chats(locked);
        let parent: [ConversationId; 1] = ["telegram:-100".parse().unwrap()];
        let private_chat: [ConversationId; 1] = ["discord:@803".parse().unwrap()];
        let person = Sender::new("803", "Ada");
        for (conversation, parents, person, expected) in [
            ("telegram:9", &parent[..], None, ("kids", true)),
            ("discord:7", &private_chat[..], None, ("kids", true)),
            ("telegram:-100", &[], None, ("kids", true)),
            ("telegram:-100/7", &[], None, ("kids", true)),
            ("discord:7", &[], Some(&person), ("kids", true)),
            ("telegram:-100/42", &[], None, ("default", false)),
            ("telegram:5", &[], None, ("default", false)),
        ] {
            let chat = AgentChat { conversation: &conversation.parse().unwrap(), parents, person };
            let current = directory.current(&chat, Some("default"));
            assert_eq!((current.name.as_str(), directory.is_locked(&chat)), expected, "{conversation}");
        }
    }

    #[test]
    fn topic_may_have_another_agent_than_chat() {
        let directory = directory(&[("telegram:-100", "kids"), ("telegram:-100/42", "cook-2")]).unwrap();
        let home = |conversation: &str| {
            let chat = AgentChat { conversation: &conversation.parse().unwrap(), parents: &[], person: None };
            directory.home(&chat).name.clone()
        };
        assert_eq!((home("telegram:-100/42").as_str(), home("telegram:-100/43").as_str()), ("Cook-2", "kids"));
    }

    #[test]
    fn nearest_chat_around_gives_the_agent() {
        let directory =
            directory(&[("discord:600", "kids"), ("discord:601", "cook-2"), ("discord:5009", "kids")]).unwrap();
        let home = |conversation: &str, parents: &[&str]| {
            let parents: Vec<ConversationId> = parents.iter().map(|parent| parent.parse().unwrap()).collect();
            let chat = AgentChat { conversation: &conversation.parse().unwrap(), parents: &parents, person: None };
            directory.home(&chat).name.clone()
        };
        for (conversation, parents, expected) in [
            ("discord:5003", &["discord:601", "discord:600"][..], "Cook-2"),
            ("discord:5004", &["discord:602", "discord:600"], "kids"),
            ("discord:5009", &["discord:601"], "kids"),
            ("discord:5004", &[], "default"),
        ] {
            assert_eq!(home(conversation, parents), expected, "{conversation} in {parents:?}");
        }
    }

    #[test]
    fn invalid_names_are_reported() {
        let error = |name: &str| {
            AgentDirectory::new([agent("kids"), agent(name)], HashMap::new()).map_err(|error| error.to_string()).err()
        };
        assert_eq!(error("cook"), None);
        assert_eq!(error("KIDS").as_deref(), Some("two agents are called `KIDS`; give each its own name"));
        assert!(error("Default").unwrap().starts_with("an agent can't be called `default`"));
        for name in ["", "two words", "ёж", "a\n", &"x".repeat(65)] {
            assert!(error(name).unwrap().starts_with(&format!("an agent can't be called {name:?}")));
        }
        assert_eq!(
            directory(&[("telegram:5", "cock")]).unwrap_err(),
            "telegram:5 is given the agent \"cock\", which doesn't exist; the agents are default, kids, Cook-2"
        );
    }

    #[test]
    fn undeclared_agents_leave_no_choice() {
        assert!(!AgentDirectory::default().has_choice() && directory(&[]).unwrap().has_choice());
    }
}
