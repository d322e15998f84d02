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
#[derive(Clone)]
pub struct AgentProfiles {
    directory: Arc<AgentDirectory>,
    /// In the order of the directory, in which the default agent is the first.
    profiles: Arc<[Arc<AgentProfile>]>,
    models: Arc<ModelDirectory>,
    /// The removed agents and models that the log names already.
    reported: Arc<Mutex<BTreeSet<String>>>,
}

impl fmt::Debug for AgentProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentProfiles")
            .field("directory", &self.directory)
            .field("models", &self.models.names)
            .finish_non_exhaustive()
    }
}

/// The models that can be chosen for a conversation, by their names.
#[derive(Default)]
struct ModelDirectory {
    names: Vec<String>,
    models: Vec<Arc<dyn LanguageModel>>,
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
        Ok(Self::with_profiles(directory, profiles))
    }

    /// The default agent alone.
    #[must_use]
    pub fn single(default: AgentProfile) -> Self {
        Self::with_profiles(AgentDirectory::default(), Arc::new([Arc::new(default)]))
    }

    fn with_profiles(directory: AgentDirectory, profiles: Arc<[Arc<AgentProfile>]>) -> Self {
        let directory = Arc::new(directory);
        Self { directory, profiles, models: Arc::default(), reported: Arc::default() }
    }

    /// Lets nobody choose another agent than their own in these chats.
    #[must_use]
    pub fn with_locked_chats(self, chats: impl IntoIterator<Item = ConversationId>) -> Self {
        let directory = AgentDirectory::clone(&self.directory).with_locked_chats(chats);
        Self { directory: Arc::new(directory), ..self }
    }

    /// Adds the models that owners can choose for a conversation in place of the agent's own.
    #[must_use]
    pub fn with_models(self, models: impl IntoIterator<Item = (String, Arc<dyn LanguageModel>)>) -> Self {
        let (names, models) = models.into_iter().unzip();
        Self { models: Arc::new(ModelDirectory { names, models }), ..self }
    }

    /// Whether there is more than one model to choose from.
    #[must_use]
    pub fn has_model_choice(&self) -> bool {
        self.models.names.iter().any(|name| *name != self.default_agent().model.name())
    }

    /// The names of the models that can be chosen.
    #[must_use]
    pub fn model_names(&self) -> &[String] {
        &self.models.names
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
            Some(name) => self.find(name).map(|agent| self.with_settings(agent, turn)),
            None => Some(self.for_turn(turn)),
        }
    }

    /// The agent of a turn, with the persona and the model of its conversation.
    #[must_use]
    pub fn for_turn(&self, turn: &QueuedTurn) -> Arc<AgentProfile> {
        self.with_settings(self.chosen(turn), turn)
    }

    /// The name of the model that answers a turn unless another one is chosen.
    #[must_use]
    pub fn usual_model(&self, turn: &QueuedTurn) -> String {
        self.chosen(turn).model.name()
    }

    fn with_settings(&self, agent: &Arc<AgentProfile>, turn: &QueuedTurn) -> Arc<AgentProfile> {
        let persona = turn.settings.persona.as_deref();
        // The agent's own model may have fallbacks behind it.
        let chosen = turn.settings.model.as_deref().filter(|name| *name != agent.model.name());
        let model = chosen.and_then(|name| self.find_model(name, turn));
        if persona.is_none() && model.is_none() {
            return Arc::clone(agent);
        }
        let mut agent = AgentProfile::clone(agent);
        agent.instructions = persona.map_or(agent.instructions, prompt::add_instructions);
        agent.model = model.map_or(agent.model, Arc::clone);
        Arc::new(agent)
    }

    /// Finds a chosen model. One that was removed is logged once.
    fn find_model(&self, name: &str, turn: &QueuedTurn) -> Option<&Arc<dyn LanguageModel>> {
        let position = self.models.names.iter().position(|known| known == name);
        if position.is_none() && self.is_first_report(&format!("model {name}")) {
            let conversation = turn.messages.first().map(|queued| queued.message.conversation.to_string());
            tracing::warn!(
                chat.id = conversation,
                model = name,
                "a chosen model no longer exists; that of the agent answers instead"
            );
        }
        self.models.models.get(position?)
    }

    fn is_first_report(&self, removed: &str) -> bool {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(removed.to_owned())
    }

    /// The agent of a turn's conversation. A chosen one that was removed is logged once; the chat's own answers instead.
    fn chosen(&self, turn: &QueuedTurn) -> &Arc<AgentProfile> {
        let Some(first) = turn.messages.first() else { return self.default_agent() };
        let (conversation, chosen) = (&first.message.conversation, turn.settings.agent.as_deref());
        let current = self.directory.current(&AgentChat::from_message(&first.message), chosen);
        if let Some(removed) = chosen.filter(|name| self.directory.find(name).is_none())
            && self.is_first_report(&format!("agent {removed}"))
        {
            tracing::warn!(
                chat.id = %conversation, agent = removed,
                "a chosen agent no longer exists; `{}` answers instead", current.name
            );
        }
        self.find(&current.name).unwrap_or(self.default_agent())
    }
}
