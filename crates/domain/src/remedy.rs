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
    format!("{reason}; ask whoever runs me")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owners_read_the_remedy() {
        assert_eq!(for_owner("no key", "set `models.main.api_key`"), "no key: set `models.main.api_key`");
        assert_eq!(for_others("no key"), "no key; ask whoever runs me");
    }
}
