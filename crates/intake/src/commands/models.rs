//! `/model`: which models can answer in a conversation, and the choice among them. Owners alone choose: models differ in
//! what they cost and in who reads along.

use std::fmt::Write;

use satchel_domain::{OutgoingResponse, filename::to_inline_code};
use satchel_ports::ledger::ConversationSetting;

use super::files::MAX_NAME_CHARS;
use crate::pairing::CommandContext;

/// The models, and what was chosen in a conversation.
#[derive(Debug, Clone, Copy)]
pub struct ModelOffers<'a> {
    /// The names of those that can be chosen.
    pub names: &'a [String],
    /// The name of the model that answers unless another one is chosen. It may be missing in `names`.
    pub usual: &'a str,
    /// The name of the chosen model, which may have been removed since.
    pub chosen: Option<&'a str>,
}

impl<'a> ModelOffers<'a> {
    /// All names, the usual one first.
    fn all(&self) -> impl Iterator<Item = &'a str> {
        let (names, usual) = (self.names, self.usual);
        std::iter::once(usual).chain(names.iter().map(String::as_str).filter(move |name| *name != usual))
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        self.all().find(|known| *known == name).or_else(|| self.all().find(|known| known.eq_ignore_ascii_case(name)))
    }

    fn current(&self) -> &'a str {
        self.chosen.and_then(|name| self.find(name)).unwrap_or(self.usual)
    }

    /// Whether there is more than one model.
    #[must_use]
    pub fn has_choice(&self) -> bool {
        self.all().nth(1).is_some()
    }

    fn listed(&self) -> String {
        self.all().map(inline_code).collect::<Vec<_>>().join(", ")
    }
}

/// A name as code: the configuration takes any name.
fn inline_code(name: &str) -> String {
    to_inline_code(name, MAX_NAME_CHARS)
}

const OWNERS_ONLY: &str = "Only an owner can choose the model that answers in this chat.";

/// Lists the models.
pub(super) fn list_models(context: &CommandContext<'_>, choice: &ModelOffers<'_>) -> OutgoingResponse {
    if !context.is_by_owner() {
        return OutgoingResponse::from_text(OWNERS_ONLY);
    }
    let mut text = String::new();
    if let Some(removed) = choice.chosen.filter(|name| choice.find(name).is_none()) {
        let (removed, usual) = (inline_code(removed), inline_code(choice.usual));
        let _ = writeln!(text, "The model {removed} was chosen here, but it was removed. {usual} answers.\n");
    }
    if !choice.has_choice() {
        let _ = write!(text, "{} is the only model, so there is nothing to choose.", inline_code(choice.usual));
        return OutgoingResponse::from_text(text);
    }
    text.push_str("The models:\n\n");
    for name in choice.all() {
        let remark = if name == choice.current() { " (answers here)" } else { "" };
        let _ = writeln!(text, "- {}{remark}", inline_code(name));
    }
    text.push_str("\n`/model NAME` chooses one for this chat, `/model reset` takes the usual one again.");
    OutgoingResponse::from_text(text)
}

/// Lets another model answer from the next turn on.
pub(super) fn choose_model(
    context: &CommandContext<'_>,
    choice: &ModelOffers<'_>,
    name: &str,
    setting: &mut Option<ConversationSetting>,
) -> OutgoingResponse {
    if !context.is_by_owner() {
        return OutgoingResponse::from_text(OWNERS_ONLY);
    }
    let is_reset = choice.find(name).is_none() && name.eq_ignore_ascii_case("reset");
    let Some(model) = choice.find(name).or(is_reset.then_some(choice.usual)) else {
        let name = inline_code(name);
        return OutgoingResponse::from_text(match choice.has_choice() {
            true => format!("There is no model {name}. The models are {}.", choice.listed()),
            false => format!("There is no model {name}. {} is the only one.", inline_code(choice.usual)),
        });
    };
    // The usual model is not recorded: the chat gets another one with its agent or the configuration.
    let chosen = (model != choice.usual).then_some(model);
    if chosen == choice.chosen {
        return OutgoingResponse::from_text(format!("{} already answers here.", inline_code(model)));
    }
    *setting = Some(ConversationSetting::Model(chosen.map(str::to_owned)));
    OutgoingResponse::from_text(format!("{} answers here from now on.", inline_code(model)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::commands::tests::{access, command_context, without_owner};

    fn names() -> Vec<String> {
        ["large", "Small"].map(str::to_owned).to_vec()
    }

    fn list(names: &[String], chosen: Option<&str>, is_owner: bool) -> String {
        let access = if is_owner { access() } else { without_owner() };
        list_models(&command_context(&access), &ModelOffers { names, usual: "usual", chosen }).text.unwrap()
    }

    /// The reply, and the choice that is to be stored.
    fn choose(chosen: Option<&str>, name: &str, is_owner: bool) -> (String, Option<Option<String>>) {
        let access = if is_owner { access() } else { without_owner() };
        let mut setting = None;
        let choice = ModelOffers { names: &names(), usual: "usual", chosen };
        let reply = choose_model(&command_context(&access), &choice, name, &mut setting);
        let stored = setting.map(|setting| match setting {
            ConversationSetting::Model(model) => model,
            other => panic!("{other:?}"),
        });
        (reply.text.unwrap(), stored)
    }

    #[test]
    fn list_shows_current_model() {
        assert_eq!(
            list(&names(), Some("Small"), true),
            "The models:\n\n- `usual`\n- `large`\n- `Small` (answers here)\n\n\
             `/model NAME` chooses one for this chat, `/model reset` takes the usual one again."
        );
        assert!(list(&names(), None, true).contains("- `usual` (answers here)\n"));
        assert!(list(&names(), Some("gone"), true).starts_with(
            "The model `gone` was chosen here, but it was removed. `usual` answers.\n\nThe models:\n\n- `usual` (answers"
        ));
        assert_eq!(list(&[], None, true), "`usual` is the only model, so there is nothing to choose.");
        assert_eq!(list(&names(), None, false), OWNERS_ONLY);
    }

    #[rstest]
    #[case::another(None, "large", "`large` answers here from now on.", Some(Some("large")))]
    #[case::in_lower_case(None, "small", "`Small` answers here from now on.", Some(Some("Small")))]
    #[case::usual(Some("large"), "usual", "`usual` answers here from now on.", Some(None))]
    #[case::reset(Some("large"), "Reset", "`usual` answers here from now on.", Some(None))]
    #[case::removed(Some("gone"), "usual", "`usual` answers here from now on.", Some(None))]
    #[case::already(Some("large"), "large", "`large` already answers here.", None)]
    #[case::nothing_to_reset(None, "reset", "`usual` already answers here.", None)]
    #[case::unknown(None, "tiny", "There is no model `tiny`. The models are `usual`, `large`, `Small`.", None)]
    fn owner_chooses_a_model(
        #[case] chosen: Option<&str>,
        #[case] name: &str,
        #[case] reply: &str,
        #[case] stored: Option<Option<&str>>,
    ) {
        assert_eq!(choose(chosen, name, true), (reply.to_owned(), stored.map(|model| model.map(str::to_owned))));
        assert_eq!(choose(chosen, name, false), (OWNERS_ONLY.to_owned(), None));
    }
}
