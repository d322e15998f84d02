//! The offer to show tables and formulas as such, which a reply makes as long as nobody has said whether they can be read.

use std::time::Duration;

use satchel_domain::{Button, ChannelCapabilities, Timestamp, capabilities::BlockOffer};
use satchel_ports::ledger::{ConversationSetting, ConversationSettings};
use satchel_routing::plan::{BlockGain, find_block_gain};

/// How long nothing is offered again.
const OFFER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The command of the offer's button, which sends a sample.
const SAMPLE_COMMAND: &str = "/rich sample";

/// A button under a reply, and what keeps the next ones from having it, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlocksOffer {
    pub(crate) button: Button,
    pub(crate) setting: ConversationSetting,
}

/// The offer that a reply makes: in a conversation for which nobody has chosen, with the first text in a day that has a table
/// or a formula.
pub(crate) fn offer_blocks(
    text: Option<&str>,
    capabilities: &ChannelCapabilities,
    settings: &ConversationSettings,
    now: Timestamp,
) -> Option<BlocksOffer> {
    let offer = capabilities.blocks?.offer.chosen(settings.blocks);
    let is_offered_lately =
        settings.blocks_offered_at.is_some_and(|at| now.saturating_duration_since(at) < OFFER_INTERVAL);
    if offer != BlockOffer::Ask || is_offered_lately {
        return None;
    }
    let label = match find_block_gain(text?)? {
        BlockGain::Table => "Show as a table",
        BlockGain::Formulas => "Show formulas",
    };
    let button = Button { label: label.to_owned(), command: SAMPLE_COMMAND.to_owned() };
    Some(BlocksOffer { button, setting: ConversationSetting::BlocksOffered(now) })
}

#[cfg(test)]
mod tests {
    use satchel_domain::capabilities::BlockRule;
    use satchel_routing::tables;

    use super::*;

    const TABLE: &str = "| A | B |\n|---|---|\n| 1 | 2 |";
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

    fn label(text: &str, offer: BlockOffer, settings: &ConversationSettings, now: i64) -> Option<String> {
        let table = tables::telegram();
        let blocks = table.blocks.map(|rule| BlockRule { offer, ..rule });
        let capabilities = ChannelCapabilities { blocks, ..table };
        let offer = offer_blocks(Some(text), &capabilities, settings, Timestamp(now))?;
        assert_eq!(offer.setting, ConversationSetting::BlocksOffered(Timestamp(now)));
        Some(offer.button.label)
    }

    #[test]
    fn a_reply_that_would_gain_offers_it_once_a_day() {
        let asked = |at: Option<i64>| ConversationSettings {
            blocks_offered_at: at.map(Timestamp),
            ..ConversationSettings::default()
        };
        let now = 10 * DAY_MS;
        for (text, at, expected) in [
            (TABLE, None, Some("Show as a table")),
            ("It is $x_1$.", None, Some("Show formulas")),
            ("Hello", None, None),
            (TABLE, Some(now - DAY_MS + 1), None),
            (TABLE, Some(now - DAY_MS), Some("Show as a table")),
        ] {
            assert_eq!(label(text, BlockOffer::Ask, &asked(at), now).as_deref(), expected, "{text} {at:?}");
        }
    }

    #[test]
    fn nothing_is_offered_where_somebody_has_decided() {
        let chosen = |choice| ConversationSettings { blocks: choice, ..ConversationSettings::default() };
        for (offer, choice) in [
            (BlockOffer::Ask, Some(true)),
            (BlockOffer::Ask, Some(false)),
            (BlockOffer::Auto, None),
            (BlockOffer::Never, None),
        ] {
            assert_eq!(label(TABLE, offer, &chosen(choice), 0), None, "{offer:?} {choice:?}");
        }
        let nowhere = offer_blocks(Some(TABLE), &tables::discord(), &chosen(None), Timestamp(0));
        assert_eq!(nowhere, None);
    }
}
