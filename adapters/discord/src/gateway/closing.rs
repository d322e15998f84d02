//! What the end of a connection means for the next one.

use serenity::constants::close_codes;

/// The code with which we close: any but 1000 and 1001, with which the session would end too.
pub(super) const LEFT: u16 = 4000;

/// Invalid API version, for which serenity has no name (Opcodes and Status Codes, Gateway Close Event Codes).
const INVALID_API_VERSION: u16 = 4012;

/// What helps when we do what Discord doesn't know.
pub(super) const TOO_OLD: &str = "Discord no longer supports this version's gateway protocol; update Satchel";

/// What to do after the gateway closed the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// With the same session, where it was.
    Resume,
    Anew,
    /// With a new session that isn't shown what people write in guilds.
    WithoutContent,
    /// With a new session if this one was only to go on: then it may be another bot's. Else not at all, since Discord
    /// doesn't know the token.
    UnknownToken,
    /// Not at all; the words say why.
    Never(&'static str),
}

/// What follows when Discord closes a connection; without a code it is simply gone.
pub(super) fn after(code: Option<u16>) -> Next {
    match code {
        Some(close_codes::AUTHENTICATION_FAILED) => Next::UnknownToken,
        Some(close_codes::INVALID_SEQUENCE | close_codes::SESSION_TIMEOUT) => Next::Anew,
        Some(close_codes::DISALLOWED_GATEWAY_INTENTS) => Next::WithoutContent,
        Some(close_codes::SHARDING_REQUIRED) => {
            Next::Never("the bot is in more guilds than one connection can serve; remove it from some")
        }
        Some(close_codes::INVALID_SHARD | INVALID_API_VERSION | close_codes::INVALID_GATEWAY_INTENTS) => {
            Next::Never(TOO_OLD)
        }
        // A code that is new, too: a session that can't go on is answered with "invalid session", and nothing is lost.
        _ => Next::Resume,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_connection_broke(None, Next::Resume)]
    #[case::discord_goes_away(Some(1001), Next::Resume)]
    #[case::unknown_error(Some(4000), Next::Resume)]
    #[case::unknown_opcode(Some(4001), Next::Resume)]
    #[case::decode_error(Some(4002), Next::Resume)]
    #[case::not_authenticated(Some(4003), Next::Resume)]
    #[case::already_authenticated(Some(4005), Next::Resume)]
    #[case::authentication_failed(Some(4004), Next::UnknownToken)]
    #[case::invalid_sequence(Some(4007), Next::Anew)]
    #[case::rate_limited(Some(4008), Next::Resume)]
    #[case::session_timed_out(Some(4009), Next::Anew)]
    #[case::disallowed_intents(Some(4014), Next::WithoutContent)]
    #[case::a_new_code(Some(4099), Next::Resume)]
    fn each_code_says_how_it_goes_on(#[case] code: Option<u16>, #[case] next: Next) {
        assert_eq!(after(code), next);
    }

    #[rstest]
    #[case::invalid_shard(4010, "update Satchel")]
    #[case::sharding_required(4011, "guilds")]
    #[case::invalid_version(4012, "update Satchel")]
    #[case::invalid_intents(4013, "update Satchel")]
    fn fatal_close_code_is_reported_with_remedy(#[case] code: u16, #[case] words: &str) {
        let Next::Never(said) = after(Some(code)) else { panic!("{code} would be tried again") };
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn own_close_code_keeps_session() {
        assert!(![1000, 1001].contains(&LEFT));
        assert_eq!(after(Some(LEFT)), Next::Resume);
    }
}
