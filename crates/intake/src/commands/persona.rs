//! `/persona`: who the assistant is in one conversation. Owners alone say so, since it takes the place of the operator's
//! instructions.

use satchel_domain::{OutgoingResponse, script::fenced_block};
use satchel_ports::ledger::ConversationSetting;

use crate::pairing::CommandContext;

/// The longest persona. Longer texts belong in the configuration.
const MAX_PERSONA_CHARS: usize = 8_000;

/// What is done with the persona of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonaCommand {
    Show,
    /// Takes the agent's own instructions again.
    Reset,
    Set(String),
}

impl PersonaCommand {
    /// Reads what stands behind the command.
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "" => Self::Show,
            text if text.eq_ignore_ascii_case("reset") => Self::Reset,
            text => Self::Set(text.to_owned()),
        }
    }
}

/// Shows or changes the persona, which is `current`.
pub(super) fn handle_persona(
    command: &PersonaCommand,
    context: &CommandContext<'_>,
    current: Option<&str>,
    setting: &mut Option<ConversationSetting>,
) -> OutgoingResponse {
    if !context.is_by_owner() {
        return OutgoingResponse::from_text("Only an owner can say who I am in this chat.");
    }
    OutgoingResponse::from_text(match (command, current) {
        (PersonaCommand::Show, Some(persona)) => {
            format!("My persona in this chat:\n\n{}\n\n`/persona reset` removes it.", fenced_block("", persona))
        }
        (PersonaCommand::Show, None) => {
            "I have no persona in this chat. `/persona TEXT` gives me one: who I am here, and how I answer.".to_owned()
        }
        (PersonaCommand::Reset, Some(_)) => {
            *setting = Some(ConversationSetting::Persona(None));
            "I have no persona in this chat any more.".to_owned()
        }
        (PersonaCommand::Reset, None) => "I have no persona in this chat.".to_owned(),
        (PersonaCommand::Set(persona), _) => match persona.chars().count() {
            chars if chars > MAX_PERSONA_CHARS => format!(
                "That is too long for a persona: it has {chars} characters, and {MAX_PERSONA_CHARS} is the most. Nothing \
                 has changed. An agent of your own can have a longer text."
            ),
            // Platforms split what is longer than a message: the number shows what has come.
            chars => {
                *setting = Some(ConversationSetting::Persona(Some(persona.clone())));
                format!(
                    "That is who I am in this chat from now on ({chars} characters). `/persona` shows the text, \
                     `/persona reset` removes it."
                )
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::commands::tests::{access, command_context, without_owner};

    /// The reply, and the persona that is to be stored.
    fn handle(text: &str, current: Option<&str>, is_owner: bool) -> (String, Option<Option<String>>) {
        let access = if is_owner { access() } else { without_owner() };
        let mut setting = None;
        let command = PersonaCommand::parse(text);
        let reply = handle_persona(&command, &command_context(&access), current, &mut setting);
        let stored = setting.map(|setting| match setting {
            ConversationSetting::Persona(persona) => persona,
            other => panic!("{other:?}"),
        });
        (reply.text.unwrap(), stored)
    }

    #[rstest]
    #[case::set("You are Ada.\n\nA gardener.", None, "That is who I am", Some(Some("You are Ada.\n\nA gardener.")))]
    #[case::set_anew("A pirate", Some("A gardener"), "That is who I am", Some(Some("A pirate")))]
    #[case::begins_with_reset("Reset clocks", None, "That is who I am", Some(Some("Reset clocks")))]
    #[case::reset("RESET", Some("A pirate"), "I have no persona in this chat any more.", Some(None))]
    #[case::nothing_to_reset("reset", None, "I have no persona in this chat.", None)]
    #[case::shown(
        "",
        Some("A pirate.\n\nArr"),
        "My persona in this chat:\n\n```\nA pirate.\n\nArr\n```\n\n`/persona",
        None
    )]
    #[case::none_to_show("", None, "I have no persona in this chat. `/persona TEXT` gives me one", None)]
    fn owner_shows_and_changes_persona(
        #[case] text: &str,
        #[case] current: Option<&str>,
        #[case] reply: &str,
        #[case] stored: Option<Option<&str>>,
    ) {
        let (text, actual) = handle(text, current, true);
        assert!(text.starts_with(reply), "{text}");
        assert_eq!(actual, stored.map(|persona| persona.map(str::to_owned)));
    }

    #[test]
    fn others_neither_see_nor_change_it() {
        for text in ["", "reset", "A pirate"] {
            let refused = ("Only an owner can say who I am in this chat.".to_owned(), None);
            assert_eq!(handle(text, Some("secret"), false), refused, "{text}");
        }
    }

    #[test]
    fn long_persona_is_refused() {
        let longest = "ё".repeat(MAX_PERSONA_CHARS);
        assert_eq!(handle(&longest, None, true).1, Some(Some(longest)));
        let (text, stored) = handle(&"x".repeat(1 << 20), Some("A pirate"), true);
        assert_eq!(stored, None);
        assert!(text.contains("it has 1048576 characters, and 8000 is the most. Nothing has changed."), "{text}");
    }
}
