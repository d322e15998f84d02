//! What goes under a doubtful part's key once more.
//!
//! A key answers with the message that came first under it, and that may be the beginning of a streamed reply. Where the
//! whole part is refused as a repeat, for its files, its words alone still find that message, or make it; what is missing
//! is then a matter of editing it.

use std::time::Duration;

use satchel_domain::{
    ChannelCapabilities, Part, PartContent, Timestamp,
    capabilities::Idempotency,
    delivery::{DoubtRules, SendError},
};

/// How a part is repeated under its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryForm {
    /// As it is.
    Full,
    /// Without its files.
    TextOnly,
}

/// The key of a part, and what is known of repeats under it.
pub(super) struct KeyedRetry {
    /// What is left to be done about doubt.
    pub(super) doubt: DoubtRules,
    idempotency: Idempotency,
    /// The words of a part that has files too, until they are refused as well.
    words: Option<PartContent>,
}

impl KeyedRetry {
    /// Before anything was repeated.
    pub(super) fn new(part: &Part, capabilities: &ChannelCapabilities) -> Self {
        let ChannelCapabilities { idempotency, look_up, can_edit, .. } = *capabilities;
        let doubt = DoubtRules { idempotency, look_up, may_resend: true };
        // Without an edit the rest could never be added to them.
        Self { doubt, idempotency, words: text_only(&part.content).filter(|_| can_edit) }
    }

    /// The part as it is sent, where that is not as it is.
    pub(super) fn part_to_retry(&self, part: &Part, repeat: Option<RetryForm>) -> Option<Part> {
        let words = self.words.as_ref().filter(|_| repeat == Some(RetryForm::TextOnly))?;
        Some(Part { content: words.clone(), ..part.clone() })
    }

    /// Heeds that a repeat did not arrive.
    pub(super) fn record_failure(&mut self, repeat: RetryForm, error: &SendError) {
        self.doubt = self.doubt.after_failed_retry(error);
        let may_pass = matches!(error, SendError::NotSent { .. } | SendError::InDoubt { .. });
        if repeat == RetryForm::TextOnly && !may_pass {
            self.words = None;
        }
    }

    /// Whether the words alone may be repeated: nothing that they find or make is there twice, which holds where doubt
    /// is held too. Where nothing may be sent any more they may not either, and a label would stand in the message that
    /// they find.
    pub(super) fn can_retry_text(&self, part: &Part, now: Timestamp) -> bool {
        let elapsed = part.first_attempt_at.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        let may_go = self.doubt.may_resend && !part.labelled;
        may_go && self.words.is_some() && self.idempotency.covers(elapsed)
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
