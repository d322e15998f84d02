//! Turns a response into the ordered physical sends of one channel.
//!
//! The only inputs are the response and the channel's capabilities: nothing that a tool or a turn keeps beside the
//! response can reach a person.

pub(crate) mod groups;
mod items;
mod texts;

use satchel_domain::{
    ChannelCapabilities, OutgoingResponse, PartContent,
    capabilities::{GroupingRule, TextLimit, VoiceRule},
    markdown::has_block,
    part::{FailureReason, FileItem, Plan, PlannedPart},
};

pub use self::texts::{BlockGain, find_block_gain};
use self::{
    groups::{FileGroup, can_share_message},
    texts::plan_text,
};
use crate::{
    label::LABEL_UNITS,
    notice::{MakeLink, NO_LINKS, notice_for_plan},
    split::{split, units},
};

/// Plans a response for a channel: every text chunk, then the voice, then the files in their order, then the closing
/// notice where a file can't be sent. Total and deterministic.
#[must_use]
pub fn plan(response: &OutgoingResponse, capabilities: &ChannelCapabilities) -> Plan {
    plan_with_links(response, capabilities, NO_LINKS)
}

/// The same plan with links, in its closing notice, to the files that can't be sent. They change nothing else of it.
#[must_use]
pub fn plan_with_links(response: &OutgoingResponse, capabilities: &ChannelCapabilities, links: MakeLink<'_>) -> Plan {
    let text = response.text.as_deref().filter(|text| !text.trim().is_empty());
    let texts = text.map(|text| plan_text(text, capabilities)).unwrap_or_default();
    let mut parts: Vec<PlannedPart> = texts.into_iter().map(PlannedPart::new).collect();
    let voice = plan_voice(response, text, capabilities);

    if voice.is_none()
        && let [PlannedPart { content: PartContent::Text { files, .. }, .. }] = parts.as_mut_slice()
        && let Some(bundled) = bundled_files(response, capabilities)
    {
        *files = bundled;
        return Plan { parts };
    }
    parts.extend(voice.map(PlannedPart::new));
    parts.extend(plan_files(response, capabilities));
    if let Some(text) = closing_notice(&parts, capabilities, links) {
        parts.push(PlannedPart::new(PartContent::Notice { text }));
    }
    Plan { parts }
}

/// The closing notice as one message.
fn closing_notice(parts: &[PlannedPart], capabilities: &ChannelCapabilities, links: MakeLink<'_>) -> Option<String> {
    let limit = reserve_label(&capabilities.text);
    let notice = notice_for_plan(parts, links)?;
    if split(&notice, &limit).len() == 1 {
        return Some(notice);
    }
    // A link that is cut leads nowhere. Where even the words are too long, their beginning says the most.
    let notice = notice_for_plan(parts, NO_LINKS)?;
    Some(split(&notice, &limit).into_iter().next().unwrap_or(notice))
}

/// The limit less the room for the label of a possible duplicate, where it leaves room for anything else.
pub(crate) fn reserve_label(limit: &TextLimit) -> TextLimit {
    TextLimit { max: limit.max.map(reserve_units), ..*limit }
}

fn reserve_units(max: usize) -> usize {
    if max >= 2 * LABEL_UNITS { max - LABEL_UNITS } else { max }
}

fn plan_voice(
    response: &OutgoingResponse,
    text: Option<&str>,
    capabilities: &ChannelCapabilities,
) -> Option<PartContent> {
    let request = response.voice.as_ref()?;
    let requested_text = request.text.as_deref().filter(|text| !text.trim().is_empty());
    let spoken_text = requested_text.or(text)?;
    Some(PartContent::Voice {
        text: spoken_text.to_owned(),
        in_text: text.is_some_and(|text| has_block(text, spoken_text)),
        prepared: None,
        as_file: capabilities.voice == VoiceRule::AudioFile,
        caption: String::new(),
    })
}

/// The files as they ride on the text's message, if the channel bundles and all of them may.
fn bundled_files(response: &OutgoingResponse, capabilities: &ChannelCapabilities) -> Option<Vec<FileItem>> {
    let GroupingRule::Messages { max, with_text: true } = capabilities.grouping else { return None };
    let attachments = &response.attachments;
    let all_fit = attachments.iter().all(|attachment| attachment.bytes <= capabilities.file_bytes);
    if attachments.is_empty() || attachments.len() > max || !all_fit {
        return None;
    }
    let mut items = Vec::with_capacity(attachments.len());
    for attachment in attachments {
        let (preceding, item) = items::with_caption(items::file_item(attachment, capabilities), capabilities);
        if !preceding.is_empty() {
            return None;
        }
        items.push(item);
    }
    let is_within_limit = capabilities.request_bytes.is_none_or(|limit| groups::total_bytes(&items) <= limit);
    is_within_limit.then(|| {
        groups::number_duplicate_names(&mut items);
        items
    })
}

fn plan_files(response: &OutgoingResponse, capabilities: &ChannelCapabilities) -> Vec<PlannedPart> {
    let mut parts = Vec::new();
    let mut group = FileGroup::default();
    for attachment in &response.attachments {
        let (preceding, item) = items::with_caption(items::file_item(attachment, capabilities), capabilities);
        if attachment.bytes > capabilities.file_bytes {
            parts.extend(group.take_part().map(PlannedPart::new));
            let failure = Some(FailureReason::TooLarge { limit: capabilities.file_bytes });
            // What the file shows is not told without the file; the notice names it.
            let item = items::file_item(attachment, capabilities);
            parts.push(PlannedPart { content: PartContent::File(item), failure });
            continue;
        }
        if !preceding.is_empty() || !can_share_message(group.items(), &item, capabilities) {
            parts.extend(group.take_part().map(PlannedPart::new));
        }
        parts.extend(preceding.into_iter().map(PlannedPart::new));
        group.push(item);
    }
    parts.extend(group.take_part().map(PlannedPart::new));
    parts
}

/// The beginning of a text that stays within `max` units, cut between characters.
pub(crate) fn truncate_to_units(text: &str, max: usize, limit: &TextLimit) -> String {
    if units(text, limit.unit) <= max {
        return text.to_owned();
    }
    crate::split::split_plain(text, &TextLimit { max: Some(max.saturating_sub(1)), ..*limit })
        .into_iter()
        .next()
        .map_or_else(String::new, |first| format!("{first}…"))
}

#[cfg(test)]
mod tests;
