//! The commands that the page completes, with the names of the agents, models and tasks that its people may choose.

use satchel_attachments::run::task_directory;
use satchel_domain::{AgentSummary, AllowedPeople, ChannelName, Sender, TaskSummary, task::TASK_COMMAND};
use satchel_intake::{
    access::IMPLICIT_OWNER_ID,
    commands::{AGENT_COMMAND, CommandFeatures, MODEL_COMMAND, command_menu, owner_menu},
};
use satchel_web::{PageCommand, PageCommandChoice};

use crate::{agents::AgentDeclaration, config::Config};

/// What people can choose from besides tasks.
pub(super) struct PageOffers<'a> {
    pub(super) agents: &'a [AgentDeclaration],
    /// The names of the models.
    pub(super) models: Vec<String>,
    pub(super) features: CommandFeatures,
}

/// Whether the people of the page are owners.
pub(super) fn is_owners_page(config: &Config, channel: &ChannelName) -> bool {
    config.access().is_owner(channel, &Sender::new(IMPLICIT_OWNER_ID, "Owner"))
}

/// Lists the menu's commands. Owners may choose every agent, model and task, other people the agents and tasks that are open
/// to everyone.
pub(super) fn list_commands(config: &Config, offers: PageOffers<'_>, channel: &ChannelName) -> Vec<PageCommand> {
    let PageOffers { agents, models, features } = offers;
    let is_owner = is_owners_page(config, channel);
    let is_permitted = |allow: AllowedPeople| is_owner || allow == AllowedPeople::Everyone;
    let declared = agents.iter().map(|agent| (agent.name.clone(), agent.description.clone(), agent.allow));
    let AgentSummary { name, description, allow } = AgentSummary::default_agent();
    let agents = std::iter::once((name, description, allow)).chain(declared);
    let agents = agents.filter(|(_, _, allow)| is_permitted(*allow));
    let choice = |name, description| PageCommandChoice { name, description, inputs: Vec::new() };
    let agents: Vec<PageCommandChoice> = agents.map(|(name, description, _)| choice(name, description)).collect();
    let models: Vec<PageCommandChoice> = models.into_iter().map(|name| choice(name, String::new())).collect();
    let tasks = task_directory(&config.playbooks);
    let tasks = tasks.tasks().iter().filter(|task| is_permitted(task.allow)).cloned();
    let tasks =
        tasks.map(|TaskSummary { name, description, inputs, .. }| PageCommandChoice { name, description, inputs });
    let tasks: Vec<PageCommandChoice> = tasks.collect();
    let command = |(name, description): (&str, &str)| PageCommand {
        name: name.to_owned(),
        description: description.to_owned(),
        choices: match name {
            AGENT_COMMAND => agents.clone(),
            MODEL_COMMAND => models.clone(),
            TASK_COMMAND => tasks.clone(),
            _ => Vec::new(),
        },
    };
    let of_owners = if is_owner { owner_menu(features) } else { Vec::new() };
    command_menu(features).into_iter().chain(of_owners).map(command).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        build::SatchelOptions,
        config::{ConfigSources, load_text},
    };

    const PLAYBOOK: &str = "\
agents:
  - id: reporter
    description: writes reports
    instructions: You report.
    actions: [{ id: report, prompt: 'The weather in {{ input.city }}' }]
tasks:
  - { id: weather, agent: reporter, action: report, description: what it will be like }
  - { id: berlin, agent: reporter, action: report, input: { city: Berlin }, allow: everyone }
";

    #[test]
    fn people_are_offered_what_they_may_choose() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("satchel.yaml"), PLAYBOOK).unwrap();
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
        let config = load_text(Path::new("satchel.yaml"), PLAYBOOK, &sources).unwrap().into_config().unwrap();
        let agents = SatchelOptions::from_config(&config).agents;
        let offered = |channel: &str| -> Vec<String> {
            let channel = ChannelName::new(channel).unwrap();
            let features = CommandFeatures {
                links: false,
                agents: true,
                models: true,
                tasks: true,
                reminders: false,
                rich: false,
            };
            let offers = PageOffers { agents: &agents, models: vec!["small".to_owned()], features };
            let commands = list_commands(&config, offers, &channel);
            let describe = |choice: &PageCommandChoice| format!("{} {:?}", choice.name, choice.inputs);
            let names = |command: &PageCommand| command.choices.iter().map(describe).collect::<Vec<_>>().join(", ");
            let shown = commands.iter().filter(|command| command.name == "new" || !command.choices.is_empty());
            let personas = commands.iter().filter(|command| command.name == "persona");
            shown.chain(personas).map(|command| format!("{}: {}", command.name, names(command))).collect()
        };
        assert_eq!(
            offered("web"),
            [
                "new: ",
                "agent: default [], reporter []",
                "task: weather [\"city\"], berlin []",
                "model: small []",
                "persona: "
            ]
        );
        assert_eq!(offered("elsewhere"), ["new: ", "task: berlin []"], "people who own nothing there");
    }
}
