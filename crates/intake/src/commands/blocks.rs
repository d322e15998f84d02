//! `/rich`: whether tables, formulas and lists are shown as such in a chat. No channel says whether a person's app shows
//! them, so the person does, after a sample.

use satchel_domain::{Button, OutgoingResponse, capabilities::BlockOffer};
use satchel_ports::ledger::ConversationSetting;

/// The command.
pub(super) const RICH_COMMAND: &str = "rich";

/// What `/rich` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCommand {
    /// Says how it is.
    Show,
    /// Sends a sample and asks whether it can be read.
    Sample,
    /// Turns it on or off.
    Set(bool),
}

/// Whether texts can be shown in blocks in a conversation, and whether people want that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockStatus {
    /// When the channel shows them; `None` where it has none.
    pub offer: Option<BlockOffer>,
    /// What a person has chosen.
    pub choice: Option<bool>,
}

impl BlockCommand {
    /// Reads what follows the name of the command.
    pub(super) fn parse(arguments: &[String]) -> Option<Self> {
        match arguments.join(" ").to_lowercase().as_str() {
            "" => Some(Self::Show),
            "sample" => Some(Self::Sample),
            "on" => Some(Self::Set(true)),
            "off" => Some(Self::Set(false)),
            _ => None,
        }
    }
}

impl BlockStatus {
    /// Whether there is anything to choose.
    pub(super) fn is_offered(self) -> bool {
        !matches!(self.offer, None | Some(BlockOffer::Never))
    }
}

/// The reply to `/rich`.
#[derive(Debug, PartialEq)]
pub(super) struct BlockReply {
    pub(super) response: OutgoingResponse,
    pub(super) setting: Option<ConversationSetting>,
    pub(super) buttons: Vec<Button>,
    /// Whether the reply is shown in blocks, whatever was chosen.
    pub(super) in_blocks: bool,
}

const NOT_AVAILABLE: &str = "Rich messages are not available in this chat. Tables and formulas come as text.";

const OFF_BY_OWNER: &str = "\
Rich messages are turned off here. The person who runs this bot can turn them on in the configuration.";

const ON: &str = "\
Rich messages are on here: tables, formulas and lists look like tables, formulas and lists. If one of my messages looks \
empty or broken, send `/rich off`.";

const OFF: &str = "\
Rich messages are off here: tables and formulas come as text. `/rich sample` shows what they look like as rich messages, \
`/rich on` turns them on.";

const SET_OFF: &str = "Rich messages are off here, and I won't ask again. `/rich on` turns them on.";

const SAMPLE: &str = "\
### Can you read this?

| Planet | Moons |
| :----- | ----: |
| Earth  |     1 |
| Mars   |     2 |

$$
a^2 + b^2 = c^2
$$

You should see a table and a formula. Press a button, or send `/rich on` or `/rich off`.";

/// Says or changes whether texts are shown in blocks.
pub(super) fn handle_rich(command: BlockCommand, status: BlockStatus) -> BlockReply {
    let reply = |text: &str| BlockReply {
        response: OutgoingResponse::from_text(text),
        setting: None,
        buttons: Vec::new(),
        in_blocks: false,
    };
    let Some(offer) = status.offer else { return reply(NOT_AVAILABLE) };
    if offer == BlockOffer::Never {
        return reply(OFF_BY_OWNER);
    }
    match command {
        BlockCommand::Show => reply(if offer.chosen(status.choice) == BlockOffer::Auto { ON } else { OFF }),
        BlockCommand::Set(is_on) => {
            let setting = Some(ConversationSetting::Blocks(Some(is_on)));
            BlockReply { setting, ..reply(if is_on { ON } else { SET_OFF }) }
        }
        BlockCommand::Sample => {
            let button = |label: &str, command: &str| Button { label: label.to_owned(), command: command.to_owned() };
            let buttons = vec![button("I can read this", "/rich on"), button("I can't", "/rich off")];
            BlockReply { buttons, in_blocks: true, ..reply(SAMPLE) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(command: &str, offer: Option<BlockOffer>, choice: Option<bool>) -> BlockReply {
        let arguments: Vec<String> = command.split_whitespace().skip(1).map(str::to_owned).collect();
        let command = BlockCommand::parse(&arguments).expect("a command");
        handle_rich(command, BlockStatus { offer, choice })
    }

    #[test]
    fn command_says_how_it_is() {
        let (ask, auto) = (Some(BlockOffer::Ask), Some(BlockOffer::Auto));
        for (offer, choice, expected) in [
            (None, None, NOT_AVAILABLE),
            (Some(BlockOffer::Never), Some(true), OFF_BY_OWNER),
            (ask, None, OFF),
            (ask, Some(true), ON),
            (ask, Some(false), OFF),
            (auto, None, ON),
            (auto, Some(false), OFF),
        ] {
            let reply = handle("/rich", offer, choice);
            assert_eq!(reply.response, OutgoingResponse::from_text(expected), "{offer:?} {choice:?}");
            assert_eq!((reply.setting, reply.in_blocks), (None, false));
        }
    }

    #[test]
    fn choice_is_kept_where_there_is_one() {
        for (command, is_on) in [("/rich on", true), ("/Rich OFF", false)] {
            let reply = handle(command, Some(BlockOffer::Ask), None);
            assert_eq!(reply.setting, Some(ConversationSetting::Blocks(Some(is_on))));
            assert_eq!(handle(command, Some(BlockOffer::Never), None).setting, None);
            assert_eq!(handle(command, None, None).setting, None);
        }
    }

    #[test]
    fn sample_asks_in_blocks_whether_it_can_be_read() {
        let reply = handle("/rich sample", Some(BlockOffer::Ask), None);
        let commands: Vec<_> = reply.buttons.iter().map(|button| button.command.as_str()).collect();
        assert_eq!((reply.in_blocks, commands), (true, vec!["/rich on", "/rich off"]));
        assert_eq!(handle("/rich sample", None, None).buttons, []);
    }
}
