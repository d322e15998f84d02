//! The agents that answer, each with its own instructions, model and tools.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::{
    AgentDirectory, AgentSummary, ConversationId,
    agent::{AgentChat, InvalidAgentError},
};
use satchel_ports::{LanguageModel, language_model::ContentPart, ledger::QueuedTurn};

use crate::{Toolbox, prompt};

/// What one agent answers with.
#[derive(Clone)]
pub struct AgentProfile {
    /// Its name, and who may choose it.
    pub summary: AgentSummary,
    /// The system prompt: Satchel's own part and what [`prompt::add_instructions`] appends.
    pub instructions: String,
    pub model: Arc<dyn LanguageModel>,
    /// The only tools that it, and the scripts of its turns, can call.
    pub tools: Toolbox,
    /// What its model reads before the conversation, in every turn.
    pub context: Vec<ContentPart>,
}

impl AgentProfile {
    /// The default agent, with Satchel's own instructions.
    #[must_use]
    pub fn default_agent(model: Arc<dyn LanguageModel>, tools: Toolbox) -> Self {
        let (summary, instructions) = (AgentSummary::default_agent(), prompt::INSTRUCTIONS.to_owned());
        Self { summary, instructions, model, tools, context: Vec::new() }
    }
}

impl fmt::Debug for AgentProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentProfile").field("summary", &self.summary).finish_non_exhaustive()
    }
}

/// All agents.
#[derive(Debug, Clone)]
pub struct AgentProfiles {
    directory: Arc<AgentDirectory>,
    /// In the order of the directory, in which the default agent is the first.
    profiles: Arc<[Arc<AgentProfile>]>,
    /// The removed agents that the log names already.
    reported: Arc<Mutex<BTreeSet<String>>>,
}

impl AgentProfiles {
    /// Takes the default agent, the others, and the agents that chats have without anybody choosing them.
    ///
    /// # Errors
    /// When a name is invalid, taken, or that of no agent.
    pub fn new(
        default: AgentProfile,
        others: Vec<AgentProfile>,
        chats: HashMap<ConversationId, String>,
    ) -> Result<Self, InvalidAgentError> {
        let directory = AgentDirectory::new(others.iter().map(|agent| agent.summary.clone()), chats)?;
        let profiles = std::iter::once(default).chain(others).map(Arc::new).collect();
        Ok(Self { directory: Arc::new(directory), profiles, reported: Arc::default() })
    }

    /// The default agent alone.
    #[must_use]
    pub fn single(default: AgentProfile) -> Self {
        let profiles = Arc::new([Arc::new(default)]);
        Self { directory: Arc::default(), profiles, reported: Arc::default() }
    }

    /// The agents as people see them.
    #[must_use]
    pub fn directory(&self) -> &Arc<AgentDirectory> {
        &self.directory
    }

    /// The agent that answers where no other one is chosen.
    #[must_use]
    pub fn default_agent(&self) -> &Arc<AgentProfile> {
        &self.profiles[0]
    }

    /// Finds an agent by its name, in upper or lower case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<AgentProfile>> {
        let position = self.directory.agents().iter().position(|agent| agent.name.eq_ignore_ascii_case(name))?;
        self.profiles.get(position)
    }

    /// The agent of a turn that `recorded` has begun to answer, or else of a new one; `None` if that agent was removed.
    #[must_use]
    pub(crate) fn for_resumed(&self, turn: &QueuedTurn, recorded: Option<&str>) -> Option<Arc<AgentProfile>> {
        match recorded {
            Some(name) => self.find(name).cloned(),
            None => Some(Arc::clone(self.for_turn(turn))),
        }
    }

    /// The agent of a turn. A chosen one that was removed is logged once; the chat's own answers instead.
    #[must_use]
    pub fn for_turn(&self, turn: &QueuedTurn) -> &Arc<AgentProfile> {
        let Some(first) = turn.messages.first() else { return self.default_agent() };
        let (conversation, chosen) = (&first.message.conversation, turn.agent.as_deref());
        let current = self.directory.current(&AgentChat::from_message(&first.message), chosen);
        if let Some(removed) = chosen.filter(|name| self.directory.find(name).is_none()) {
            let is_new = self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(removed.to_owned());
            if is_new {
                tracing::warn!(
                    chat.id = %conversation, agent = removed,
                    "a chosen agent no longer exists; `{}` answers instead", current.name
                );
            }
        }
        self.find(&current.name).unwrap_or(self.default_agent())
    }
}
