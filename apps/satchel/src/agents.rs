//! Builds the agents from their declarations.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use satchel_agent::{AgentProfile, AgentProfiles, Toolbox};
use satchel_domain::{AgentAudience, AgentSummary, ConversationId};
use satchel_ports::{LanguageModel, Tool};
use satchel_tools::tool_selection::select_tools;

use crate::build::BuildError;

/// An agent besides the default one: who it is, and what it answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDeclaration {
    /// Its name, by which people choose it: 1 to 64 ASCII letters, digits, dashes and underscores.
    pub name: String,
    /// What it is for, in a line for people.
    pub description: String,
    /// Its system prompt, such as [`add_instructions`](satchel_agent::prompt::add_instructions) makes it.
    pub instructions: String,
    /// The name of its model among [`Ports::models`](crate::ports::Ports::models); `None` for the default model.
    pub model: Option<String>,
    /// The names of its tools, or globs such as `attachment.*`; `None` for all tools.
    pub tools: Option<Vec<String>>,
    /// Who may choose it.
    pub allow: AgentAudience,
}

/// Builds the profiles of all agents. `tools` are those of the default one.
pub(crate) fn build_profiles(
    default: AgentProfile,
    tools: &[Arc<dyn Tool>],
    models: &BTreeMap<String, Arc<dyn LanguageModel>>,
    declarations: Vec<AgentDeclaration>,
    chats: HashMap<ConversationId, String>,
) -> Result<AgentProfiles, BuildError> {
    let names: Vec<String> = tools.iter().map(|tool| tool.spec().name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut others = Vec::new();
    for declaration in declarations {
        let AgentDeclaration { name, description, instructions, model, tools: patterns, allow } = declaration;
        let model = match model {
            None => Arc::clone(&default.model),
            Some(model) => find_model(models, &name, model)?,
        };
        let tools = match patterns {
            None => default.tools.clone(),
            Some(patterns) => {
                let selected = select_tools(&patterns, &names);
                let selected = selected.map_err(|source| BuildError::AgentTool { agent: name.clone(), source })?;
                let is_selected = |(_, name): &(&Arc<dyn Tool>, &&str)| selected.contains(*name);
                Toolbox::new(tools.iter().zip(&names).filter(is_selected).map(|(tool, _)| Arc::clone(tool)))
            }
        };
        others.push(AgentProfile { summary: AgentSummary { name, description, allow }, instructions, model, tools });
    }
    Ok(AgentProfiles::new(default, others, chats)?)
}

fn find_model(
    models: &BTreeMap<String, Arc<dyn LanguageModel>>,
    agent: &str,
    model: String,
) -> Result<Arc<dyn LanguageModel>, BuildError> {
    models.get(&model).cloned().ok_or_else(|| {
        let models = match models.is_empty() {
            true => "there are none besides the default one".to_owned(),
            false => format!("there are: {}", models.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        BuildError::AgentModel { agent: agent.to_owned(), model, models }
    })
}
