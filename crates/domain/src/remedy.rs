//! What can be done about a failure: owners read it, others are sent to them.
//!
//! A remedy names keys of the configuration or programs on the machine, which nobody but the owner can change.

/// Writes a reason for an owner, with what they can do about it.
#[must_use]
pub fn for_owner(reason: &str, remedy: &str) -> String {
    format!("{reason}: {remedy}")
}

/// Writes the same reason for anybody else.
#[must_use]
pub fn for_others(reason: &str) -> String {
    format!("{reason}; ask the person who runs this bot")
}

/// Writes a reason for whoever reads it; without a remedy there is nothing that anybody could be asked to do.
#[must_use]
pub fn written(reason: &str, remedy: Option<&str>, by_owner: bool) -> String {
    match (remedy, by_owner) {
        (None, _) => reason.to_owned(),
        (Some(remedy), true) => for_owner(reason, remedy),
        (Some(_), false) => for_others(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owners_read_the_remedy() {
        assert_eq!(for_owner("no key", "set `models.main.api_key`"), "no key: set `models.main.api_key`");
        assert_eq!(for_others("no key"), "no key; ask the person who runs this bot");
        assert_eq!(written("no key", Some("set one"), true), "no key: set one");
        assert_eq!(written("no key", Some("set one"), false), "no key; ask the person who runs this bot");
        assert_eq!((written("busy", None, true), written("busy", None, false)), ("busy".into(), "busy".into()));
    }
}
