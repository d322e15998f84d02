//! What a file of the configuration declares: agents with their actions, and tasks.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use satchel_domain::AllowedPeople;

use crate::{
    declaration::{Declaration, TemplateText},
    problem::SourcePosition,
};

/// The agents and tasks of one file.
#[derive(Debug, Clone)]
pub struct Playbook {
    pub file: Arc<Path>,
    /// The file's name without its extension: `workflow.id` of its tasks.
    pub id: String,
    pub agents: Vec<AgentConfig>,
    pub tasks: Vec<TaskConfig>,
}

/// Instructions with a model, tools and actions.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    pub id: String,
    /// One line for lists.
    pub description: String,
    pub instructions: String,
    /// A name under `models`, and where it was given; without it the default model.
    pub model: Option<(String, SourcePosition)>,
    /// The names of its tools, and where they were given; without them all.
    pub tools: Option<Vec<(String, SourcePosition)>>,
    pub allow: AllowedPeople,
    pub attachments: Vec<Declaration>,
    pub actions: Vec<ActionConfig>,
    pub position: SourcePosition,
}

/// One of an agent's prompts.
#[derive(Debug, Clone)]
pub struct ActionConfig {
    pub id: String,
    pub prompt: TemplateText,
    pub attachments: Vec<Declaration>,
}

/// An agent with an action, which can be run.
#[derive(Debug, Clone)]
pub struct TaskConfig {
    pub id: String,
    /// One line for lists.
    pub description: String,
    pub agent: String,
    pub agent_position: SourcePosition,
    pub action: String,
    pub action_position: SourcePosition,
    pub allow: AllowedPeople,
    /// Its own inputs, which whoever runs it can't change.
    pub input: Vec<(String, TemplateText)>,
    pub attachments: Vec<Declaration>,
    pub position: SourcePosition,
}

impl AgentConfig {
    #[must_use]
    pub fn action(&self, id: &str) -> Option<&ActionConfig> {
        self.actions.iter().find(|action| action.id == id)
    }
}

impl TaskConfig {
    /// The tasks whose output it needs, with the action that it performs.
    #[must_use]
    pub fn references(&self, agent: &AgentConfig, action: &ActionConfig) -> BTreeSet<String> {
        let templates = self.templates(agent, action);
        templates.flat_map(|text| text.template.referenced_tasks()).map(str::to_owned).collect()
    }

    /// The inputs that it mentions and doesn't give itself.
    #[must_use]
    pub fn inputs(&self, agent: &AgentConfig, action: &ActionConfig) -> BTreeSet<String> {
        let inputs = self.templates(agent, action).flat_map(|text| text.template.referenced_inputs());
        let is_own = |name: &str| self.input.iter().any(|(own, _)| own == name);
        let open = inputs.filter(|input| input.is_of_run || !is_own(input.name));
        open.map(|input| input.name.to_owned()).collect()
    }

    fn templates<'a>(
        &'a self,
        agent: &'a AgentConfig,
        action: &'a ActionConfig,
    ) -> impl Iterator<Item = &'a TemplateText> {
        let declarations = self.attachments.iter().chain(&agent.attachments).chain(&action.attachments);
        let texts = declarations.flat_map(Declaration::templates).chain([&action.prompt]);
        texts.chain(self.input.iter().map(|(_, text)| text))
    }
}
