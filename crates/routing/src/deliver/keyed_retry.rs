//! Retries of a part in doubt under its idempotency key.
//!
//! A key returns the message that arrived first under it, which may be the beginning of a streamed reply. If the full
//! retry is refused because of its files, a retry with the text alone still finds or makes that message; an edit then
//! adds the rest.

use std::time::Duration;

use satchel_domain::{
    ChannelCapabilities, Part, PartContent, Timestamp,
    capabilities::Idempotency,
    delivery::{DoubtRules, SendError},
};

/// The form of a retry under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryForm {
    /// As it is.
    Full,
    /// Without its files.
    TextOnly,
}

/// The state of a part's retries under its key.
pub(super) struct KeyedRetry {
    /// What is left to be done about doubt.
    pub(super) doubt_rules: DoubtRules,
    idempotency: Idempotency,
    /// The text of a part with files, until that is refused as well.
    text_only_content: Option<PartContent>,
}

impl KeyedRetry {
    /// Makes the state before the first retry.
    pub(super) fn new(part: &Part, capabilities: &ChannelCapabilities) -> Self {
        let ChannelCapabilities { idempotency, look_up, can_edit, .. } = *capabilities;
        let doubt_rules = DoubtRules { idempotency, look_up, may_resend: true };
        // Without an edit the rest could never be added to them.
        Self { doubt_rules, idempotency, text_only_content: text_only(&part.content).filter(|_| can_edit) }
    }

    /// The part as it is sent, where that is not as it is.
    pub(super) fn part_to_retry(&self, part: &Part, form: Option<RetryForm>) -> Option<Part> {
        let content = self.text_only_content.as_ref().filter(|_| form == Some(RetryForm::TextOnly))?;
        Some(Part { content: content.clone(), ..part.clone() })
    }

    /// Records that a retry did not arrive.
    pub(super) fn record_failure(&mut self, form: RetryForm, error: &SendError) {
        self.doubt_rules = self.doubt_rules.after_failed_retry(error);
        let is_transient = matches!(error, SendError::NotSent { .. } | SendError::InDoubt { .. });
        if form == RetryForm::TextOnly && !is_transient {
            self.text_only_content = None;
        }
    }

    /// Whether the text alone may be retried: the message that it finds or makes is not there twice, which also holds
    /// where doubt is held. It may not where nothing may be sent any more, nor with a label, which would appear in the
    /// message that it finds.
    pub(super) fn can_retry_text(&self, part: &Part, now: Timestamp) -> bool {
        let elapsed = part.first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        let is_allowed = self.doubt_rules.may_resend && !part.labelled;
        is_allowed && self.text_only_content.is_some() && self.idempotency.covers(elapsed)
    }
}

fn text_only(content: &PartContent) -> Option<PartContent> {
    match content {
        PartContent::Text { text, markup, files } if !files.is_empty() && !text.trim().is_empty() => {
            Some(PartContent::Text { text: text.clone(), markup: *markup, files: Vec::new() })
        }
        _ => None,
    }
}
