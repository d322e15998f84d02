//! How conversations are named on the command line: `console:main` and `main` mean the same everywhere.

use satchel_domain::{ConversationId, conversation::ParseConversationIdError};

/// The channel of a conversation that is named without one.
const CONSOLE: &str = "console";

/// Reads a conversation of any channel; one without a channel is the terminal's.
pub(super) fn parse_conversation(name: &str) -> Result<ConversationId, String> {
    let parsed = match name.contains(':') {
        true => name.parse(),
        false => format!("{CONSOLE}:{name}").parse(),
    };
    parsed.map_err(|_: ParseConversationIdError| {
        "a conversation is CHANNEL:ID, such as telegram:-100123, or the name of one in the terminal, such as main; it \
         consists of letters, digits and - _ . / @"
            .to_owned()
    })
}

/// Reads a conversation of the terminal, for commands that talk there.
pub(super) fn parse_console_conversation(name: &str) -> Result<ConversationId, String> {
    let conversation = parse_conversation(name)?;
    match conversation.channel().as_str() {
        CONSOLE => Ok(conversation),
        channel => Err(format!(
            "this command works in the terminal and can't use a conversation of {channel}; give it a name such as main"
        )),
    }
}
