//! `/agent`: which agents can answer in a conversation, and the choice among them.

use std::fmt::Write;

use satchel_domain::{
    AgentDirectory, AgentSummary, AllowedPeople, OutgoingResponse, agent::AgentChat, filename::to_inline_code,
};
use satchel_ports::ledger::ConversationSetting;

use super::files::MAX_NAME_CHARS;
use crate::pairing::CommandContext;

/// The agents, and what was chosen in a conversation.
#[derive(Debug, Clone, Copy)]
pub struct AgentChoice<'a> {
    pub directory: &'a AgentDirectory,
    /// The name of the chosen agent, which may have been removed since.
    pub chosen: Option<&'a str>,
    /// The chat in which the command was given.
    pub chat: AgentChat<'a>,
}

impl AgentChoice<'_> {
    /// The agent that answers unless somebody chooses another one.
    fn home(&self) -> &AgentSummary {
        self.directory.home(&self.chat)
    }

    /// The agent that answers now.
    fn current(&self) -> &AgentSummary {
        self.directory.current(&self.chat, self.chosen)
    }

    /// Whether a person may let `agent` answer. Anybody may undo what anybody may do: leave an open agent for the chat's
    /// own.
    fn is_permitted(&self, context: &CommandContext<'_>, agent: &AgentSummary) -> bool {
        let is_open = |agent: &AgentSummary| agent.allow == AllowedPeople::Everyone;
        let is_return = agent == self.home() && is_open(self.current());
        context.is_by_owner() || is_open(agent) || is_return
    }

    /// The name of the only agent that may answer in the chat; `None` where another one can be chosen.
    pub(super) fn locked_agent(&self) -> Option<&str> {
        self.directory.is_locked(&self.chat).then(|| self.home().name.as_str())
    }

    /// Whether a person may leave the chosen agent for the chat's own.
    pub(super) fn can_return(&self, context: &CommandContext<'_>) -> bool {
        self.is_permitted(context, self.home())
    }

    /// The agents that a person can use: those that they may choose, and the one that answers.
    fn usable<'a>(&'a self, context: &'a CommandContext<'_>) -> impl Iterator<Item = &'a AgentSummary> {
        let agents = self.directory.agents().iter();
        agents.filter(move |agent| *agent == self.current() || self.is_permitted(context, agent))
    }
}

/// Lists the agents that a person can use. The names of others may tell them what they are not to know.
pub(super) fn list_agents(context: &CommandContext<'_>, choice: &AgentChoice<'_>) -> OutgoingResponse {
    if let Some(agent) = choice.locked_agent() {
        return OutgoingResponse::from_text(locked_text(agent));
    }
    let current = choice.current();
    let mut text = String::new();
    if let Some(removed) = choice.chosen.filter(|name| choice.directory.find(name).is_none()) {
        let removed = to_inline_code(removed, MAX_NAME_CHARS);
        let _ =
            writeln!(text, "The agent {removed} was chosen here, but it was removed. `{}` answers.\n", current.name);
    }
    let usable: Vec<&AgentSummary> = choice.usable(context).collect();
    if usable.len() == 1 {
        let _ = match choice.directory.has_choice() {
            false => write!(text, "There is only one agent, so there is nothing to choose."),
            true => write!(text, "`{}` answers here. There is no other agent that you can use.", current.name),
        };
        return OutgoingResponse::from_text(text);
    }
    text.push_str("The agents:\n\n");
    for agent in usable {
        let _ = write!(text, "- `{}`", agent.name);
        if agent == current {
            text.push_str(" (answers here)");
        }
        if !agent.description.trim().is_empty() {
            let _ = write!(text, ": {}", agent.description.trim());
        }
        text.push('\n');
    }
    text.push_str("\n`/agent NAME` chooses one for this chat.");
    OutgoingResponse::from_text(text)
}

/// Lets another agent answer from the next turn on.
pub(super) fn choose_agent(
    context: &CommandContext<'_>,
    choice: &AgentChoice<'_>,
    name: &str,
    setting: &mut Option<ConversationSetting>,
) -> OutgoingResponse {
    if let Some(agent) = choice.locked_agent() {
        return OutgoingResponse::from_text(locked_text(agent));
    }
    let Some(agent) = choice.usable(context).find(|agent| agent.name.eq_ignore_ascii_case(name)) else {
        return unknown_agent(context, choice, name);
    };
    // The chat's own agent is not recorded: the chat gets another one with the configuration.
    let chosen = (agent != choice.home()).then_some(agent.name.as_str());
    if agent == choice.current() && !(choice.is_permitted(context, agent) && chosen != choice.chosen) {
        return OutgoingResponse::from_text(format!("`{}` already answers here.", agent.name));
    }
    *setting = Some(ConversationSetting::Agent(chosen.map(str::to_owned)));
    OutgoingResponse::from_text(format!("`{}` answers here from now on.", agent.name))
}

/// The reply where only the configuration says who answers. It names no other agent, whether it exists or not.
fn locked_text(agent: &str) -> String {
    format!("`{agent}` always answers here. Nobody can choose another agent in this chat.")
}

/// The reply about an agent that doesn't exist, or that the person can't use.
fn unknown_agent(context: &CommandContext<'_>, choice: &AgentChoice<'_>, name: &str) -> OutgoingResponse {
    let names: Vec<String> = choice.usable(context).map(|agent| format!("`{}`", agent.name)).collect();
    let name = to_inline_code(name, MAX_NAME_CHARS);
    let limit = if context.is_by_owner() { "" } else { " that you can use" };
    OutgoingResponse::from_text(match names.as_slice() {
        [only] => format!("There is no agent {name}{limit}. {only} is the only one."),
        names => format!("There is no agent {name}{limit}. The agents are {}.", names.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rstest::rstest;
    use satchel_domain::{ConversationId, Sender, Timestamp, TurnId};
    use uuid::Uuid;

    use super::*;
    use crate::access::{AccessPolicy, ChannelAccess};

    const OWNER: &str = "1";
    const FRIEND: &str = "2";

    /// `kids` for everyone, `admin` for owners, and a chat that has `kids`, one that has `admin`.
    fn directory() -> AgentDirectory {
        let agent = |name: &str, description: &str, allow| AgentSummary {
            name: name.into(),
            description: description.into(),
            allow,
        };
        let agents =
            [agent("kids", "tells stories", AllowedPeople::Everyone), agent("admin", "", AllowedPeople::Owners)];
        let chats = [("telegram:-7", "kids"), ("telegram:-8", "admin"), ("telegram:@2", "kids")];
        let chats = chats.map(|(chat, agent)| (chat.parse().unwrap(), agent.to_owned()));
        AgentDirectory::new(agents, HashMap::from(chats)).unwrap()
    }

    /// A chat as one person writes in it.
    struct AgentHarness {
        conversation: ConversationId,
        parents: Vec<ConversationId>,
        sender: Sender,
        group: bool,
        access: AccessPolicy,
        directory: AgentDirectory,
    }

    impl AgentHarness {
        fn new(conversation: &str, sender: &str) -> Self {
            let conversation: ConversationId = conversation.parse().unwrap();
            let rules = ChannelAccess { owners: vec![OWNER.into()], ..ChannelAccess::default() };
            Self {
                access: AccessPolicy::new([(conversation.channel().clone(), rules)]),
                conversation,
                parents: Vec::new(),
                sender: Sender::new(sender, "Ada"),
                group: true,
                directory: directory(),
            }
        }

        fn context(&self) -> CommandContext<'_> {
            CommandContext {
                turn: TurnId(Uuid::nil()),
                repeated: false,
                conversation: &self.conversation,
                group: self.group,
                sender: &self.sender,
                access: &self.access,
                now: Timestamp(0),
            }
        }

        fn choice<'a>(&'a self, chosen: Option<&'a str>) -> AgentChoice<'a> {
            let person = (!self.group).then_some(&self.sender);
            let chat = AgentChat { conversation: &self.conversation, parents: &self.parents, person };
            AgentChoice { directory: &self.directory, chosen, chat }
        }

        fn list(&self, chosen: Option<&str>) -> String {
            list_agents(&self.context(), &self.choice(chosen)).text.unwrap()
        }

        /// The reply, and the choice that is to be stored.
        fn choose(&self, chosen: Option<&str>, name: &str) -> (String, Option<Option<String>>) {
            let mut setting = None;
            let reply = choose_agent(&self.context(), &self.choice(chosen), name, &mut setting);
            let stored = setting.map(|setting| match setting {
                ConversationSetting::Agent(agent) => agent,
                other => panic!("{other:?}"),
            });
            (reply.text.unwrap(), stored)
        }
    }

    /// Anybody may open a thread in a channel.
    #[test]
    fn thread_has_the_agent_of_its_channel() {
        let thread =
            AgentHarness { parents: vec!["telegram:-8".parse().unwrap()], ..AgentHarness::new("telegram:-9", FRIEND) };
        assert!(thread.list(None).contains("- `admin` (answers here)"), "{}", thread.list(None));
        let (reply, stored) = thread.choose(None, "default");
        let expected = "There is no agent `default` that you can use. The agents are `kids`, `admin`.";
        assert_eq!((reply.as_str(), stored), (expected, None));
    }

    /// The attack: a name that says what a person is not to know, such as that of a customer.
    #[test]
    fn agents_that_a_person_cannot_use_are_not_named() {
        let here = AgentHarness::new("telegram:-5", FRIEND);
        assert_eq!(
            here.list(None),
            "The agents:\n\n\
             - `default` (answers here): answers unless another agent is chosen\n\
             - `kids`: tells stories\n\n\
             `/agent NAME` chooses one for this chat."
        );
        assert!(here.list(Some("kids")).contains("- `kids` (answers here): tells stories\n"));
        let (hidden, unknown) = (here.choose(None, "admin").0, here.choose(None, "nimda").0);
        assert_eq!(hidden, unknown.replace("nimda", "admin"), "nobody learns whether it exists");
        let owner = AgentHarness::new("telegram:-5", OWNER);
        assert!(owner.list(None).contains("- `admin`\n"), "an owner can choose it");

        let closed =
            |name: &str| AgentSummary { name: name.into(), description: String::new(), allow: AllowedPeople::Owners };
        let directory = AgentDirectory::new([closed("admin")], HashMap::new()).unwrap();
        let alone = AgentHarness { directory, ..here };
        assert_eq!(alone.list(None), "`default` answers here. There is no other agent that you can use.");
    }

    #[test]
    fn chosen_agent_is_left_by_those_who_may_leave_it() {
        for (chat, sender, chosen, expected) in [
            ("telegram:-5", FRIEND, Some("kids"), true),
            ("telegram:-5", FRIEND, Some("admin"), false),
            ("telegram:-5", OWNER, Some("admin"), true),
            // Its own agent is open to everyone.
            ("telegram:-7", FRIEND, Some("admin"), true),
        ] {
            let here = AgentHarness::new(chat, sender);
            assert_eq!(here.choice(chosen).can_return(&here.context()), expected, "{chat} {sender} {chosen:?}");
        }
    }

    #[test]
    fn list_names_removed_agent_and_fallback() {
        let here = AgentHarness::new("telegram:-7", FRIEND);
        let text = here.list(Some("gone"));
        assert!(
            text.starts_with("The agent `gone` was chosen here, but it was removed. `kids` answers.\n\n"),
            "{text}"
        );
        let alone = AgentHarness { directory: AgentDirectory::default(), ..AgentHarness::new("telegram:-5", FRIEND) };
        assert_eq!(alone.list(None), "There is only one agent, so there is nothing to choose.");
    }

    /// Who may let which agent answer, and what is stored then.
    #[rstest]
    #[case::owner_any("-5", OWNER, None, "admin", Some(Some("admin")))]
    #[case::friend_open("-5", FRIEND, None, "KIDS", Some(Some("kids")))]
    #[case::friend_closed("-5", FRIEND, None, "admin", None)]
    #[case::friend_leaves_open("-5", FRIEND, Some("kids"), "default", Some(None))]
    #[case::friend_leaves_closed("-5", FRIEND, Some("admin"), "default", None)]
    #[case::friend_from_closed_to_open("-5", FRIEND, Some("admin"), "kids", Some(Some("kids")))]
    // The attack: a chat is given an agent with few tools, and somebody in it wants more.
    #[case::friend_leaves_own_of_chat("-7", FRIEND, None, "default", None)]
    #[case::owner_leaves_own_of_chat("-7", OWNER, None, "default", Some(Some("default")))]
    #[case::friend_returns_to_own_of_chat("-7", FRIEND, Some("default"), "kids", Some(None))]
    #[case::friend_returns_to_closed("-8", FRIEND, Some("kids"), "admin", Some(None))]
    #[case::friend_leaves_closed_of_chat("-8", FRIEND, None, "default", None)]
    #[case::removed_agent_is_forgotten("-5", OWNER, Some("gone"), "default", Some(None))]
    fn closed_agents_are_chosen_by_owners_alone(
        #[case] chat: &str,
        #[case] sender: &str,
        #[case] chosen: Option<&str>,
        #[case] name: &str,
        #[case] stored: Option<Option<&str>>,
    ) {
        let (text, actual) = AgentHarness::new(&format!("telegram:{chat}"), sender).choose(chosen, name);
        assert_eq!(actual, stored.map(|agent| agent.map(str::to_owned)), "{text}");
        match stored {
            Some(_) => assert!(text.ends_with("answers here from now on."), "{text}"),
            None => assert!(text.starts_with(&format!("There is no agent `{name}` that you can use.")), "{text}"),
        }
    }

    /// The attack: a child asks for another agent, whatever it is called, or an owner was tricked into choosing one before.
    #[test]
    fn nobody_chooses_another_agent_in_a_locked_chat() {
        let locked: ConversationId = "telegram:-7".parse().unwrap();
        let text = "`kids` always answers here. Nobody can choose another agent in this chat.";
        for sender in [FRIEND, OWNER] {
            let directory = directory().with_locked_chats([locked.clone()]);
            let here = AgentHarness { directory, ..AgentHarness::new("telegram:-7/42", sender) };
            for name in ["default", "admin", "nimda", "kids", "KIDS"] {
                assert_eq!(here.choose(Some("admin"), name), (text.to_owned(), None), "{sender} {name}");
            }
            assert_eq!(here.list(Some("admin")), text);
            assert_eq!(here.choice(Some("admin")).current().name, "kids");
        }
    }

    #[test]
    fn private_chat_has_agent_of_its_person() {
        let private = AgentHarness { group: false, ..AgentHarness::new("telegram:9", FRIEND) };
        assert_eq!(private.list(None), "`kids` answers here. There is no other agent that you can use.");
        let group = AgentHarness::new("telegram:9", FRIEND);
        assert!(group.list(None).contains("- `default` (answers here)"), "others write there too");
    }

    #[test]
    fn unknown_agent_names_existing_ones() {
        let here = AgentHarness::new("telegram:-5", OWNER);
        let (text, stored) = here.choose(None, "cook`s");
        assert_eq!((text.contains("The agents are `default`, `kids`, `admin`."), stored), (true, None), "{text}");
        let alone = AgentHarness { directory: AgentDirectory::default(), ..here };
        let (text, _) = alone.choose(None, "cook");
        assert_eq!(text, "There is no agent `cook`. `default` is the only one.");
    }

    #[test]
    fn current_agent_is_not_stored_twice() {
        let owner = AgentHarness::new("telegram:-5", OWNER);
        assert_eq!(owner.choose(Some("kids"), "kids"), ("`kids` already answers here.".into(), None));
        let friend = AgentHarness::new("telegram:-5", FRIEND);
        assert_eq!(friend.choose(Some("gone"), "default"), ("`default` already answers here.".into(), None));
    }
}
