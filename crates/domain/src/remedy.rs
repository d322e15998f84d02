//! What can be done about a failure: owners read it, others are sent to them.
//!
//! A remedy names configuration keys or programs on the machine, which only the owner can change.

/// Formats a reason with its remedy, for an owner.
#[must_use]
pub fn owner_message(reason: &str, remedy: &str) -> String {
    format!("{reason}: {remedy}")
}

/// Formats a reason for anybody else.
#[must_use]
pub fn public_message(reason: &str) -> String {
    format!("{reason}; ask the person who runs this bot")
}

/// Formats a reason for its reader, with the remedy for an owner; without a remedy, the reason alone.
#[must_use]
pub fn message_for(reason: &str, remedy: Option<&str>, is_owner: bool) -> String {
    match (remedy, is_owner) {
        (None, _) => reason.to_owned(),
        (Some(remedy), true) => owner_message(reason, remedy),
        (Some(_), false) => public_message(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owners_read_the_remedy() {
        assert_eq!(owner_message("no key", "set `models.main.api_key`"), "no key: set `models.main.api_key`");
        assert_eq!(public_message("no key"), "no key; ask the person who runs this bot");
        assert_eq!(message_for("no key", Some("set one"), true), "no key: set one");
        assert_eq!(message_for("no key", Some("set one"), false), "no key; ask the person who runs this bot");
        assert_eq!((message_for("busy", None, true), message_for("busy", None, false)), ("busy".into(), "busy".into()));
    }
}
