//! Builds the agents from their declarations.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use satchel_agent::{AgentProfile, AgentProfiles, Toolbox};
use satchel_domain::{AgentSummary, AllowedPeople, ConversationId};
use satchel_ports::{LanguageModel, Tool, language_model::ContentPart};
use satchel_tools::tool_selection::select_tools;

use crate::build::BuildError;

/// An agent besides the default one: who it is, and what it answers with.
#[derive(Debug, Clone, PartialEq)]
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
    /// What its model reads before the conversation, in every turn.
    pub context: Vec<ContentPart>,
    /// Who may choose it.
    pub allow: AllowedPeople,
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
        let AgentDeclaration { name, description, instructions, model, tools: patterns, context, allow } = declaration;
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
        others.push(AgentProfile {
            summary: AgentSummary { name, description, allow },
            instructions,
            model,
            tools,
            context,
        });
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use satchel_ports::{MockLanguageModel, MockTool, SafetyTier, ToolSpec};
    use serde_json::json;

    use satchel_domain::agent::AgentChat;

    use super::*;

    fn tool(name: &'static str) -> Arc<dyn Tool> {
        let mut tool = MockTool::new();
        tool.expect_spec().returning(move || ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        });
        Arc::new(tool)
    }

    fn model(name: &'static str) -> Arc<dyn LanguageModel> {
        let mut model = MockLanguageModel::new();
        model.expect_name().returning(|| name.to_owned());
        Arc::new(model)
    }

    fn declaration(name: &str) -> AgentDeclaration {
        AgentDeclaration {
            name: name.to_owned(),
            description: String::new(),
            instructions: String::new(),
            model: None,
            tools: None,
            context: Vec::new(),
            allow: AllowedPeople::Owners,
        }
    }

    fn build(declarations: Vec<AgentDeclaration>, chats: &[(&str, &str)]) -> Result<AgentProfiles, BuildError> {
        let tools = [tool("dice"), tool("file.read"), tool("file.write")];
        let models = BTreeMap::from([("small".to_owned(), model("small"))]);
        let default = AgentProfile::default_agent(model("large"), Toolbox::new(tools.iter().cloned()));
        let chats = chats.iter().map(|(chat, agent)| (chat.parse().unwrap(), (*agent).to_owned())).collect();
        build_profiles(default, &tools, &models, declarations, chats)
    }

    /// The error and its source.
    fn error(declarations: Vec<AgentDeclaration>) -> String {
        let error = build(declarations, &[]).unwrap_err();
        error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    }

    #[test]
    fn declared_agents_have_their_models_and_tools() {
        let limited = AgentDeclaration {
            model: Some("small".to_owned()),
            tools: Some(vec!["file_*".to_owned()]),
            ..declaration("limited")
        };
        let chats = [("board:1", "limited"), ("board:2", "full")];
        let agents = build(vec![limited, declaration("full")], &chats).unwrap();
        let seen = |chat: &str| {
            let conversation: ConversationId = chat.parse().unwrap();
            let chat = AgentChat { conversation: &conversation, parents: &[], person: None };
            let home = agents.directory().home(&chat).name.clone();
            let profile = agents.find(&home).unwrap();
            let tools: Vec<String> = profile.tools.specs().iter().map(|spec| spec.name.clone()).collect();
            (profile.model.name(), tools.join(" "))
        };
        assert_eq!(seen("board:1"), ("small".to_owned(), "file.read file.write".to_owned()));
        assert_eq!(seen("board:2"), ("large".to_owned(), "dice file.read file.write".to_owned()));
        assert_eq!(seen("board:3"), seen("board:2"));
    }

    #[test]
    fn unknown_names_are_errors_with_known_ones() {
        let model = AgentDeclaration { model: Some("tiny".to_owned()), ..declaration("a") };
        assert_eq!(error(vec![model]), "the agent `a` can't have the model \"tiny\": there are: small");
        let tools = AgentDeclaration { tools: Some(vec!["maps".to_owned()]), ..declaration("a") };
        assert_eq!(
            error(vec![tools]),
            "the agent `a` can't have its tools: there is no tool `maps`; there are: dice, file.read, file.write"
        );
        assert_eq!(
            error(vec![declaration("a"), declaration("A")]),
            "two agents are called `A`; give each its own name"
        );
        let chat = build(vec![declaration("a")], &[("board:1", "b")]).unwrap_err().to_string();
        assert_eq!(chat, "board:1 is given the agent \"b\", which doesn't exist; the agents are default, a");
    }
}
