//! Drafts: what a bot shows a person of a message that it still writes, which is no message.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    TelegramRules,
    call::ReceivedCall,
    message::{ChatKind, FormattedText},
    platform_state::PlatformState,
    refusal::{ApiRefusal, bad},
    text, topics,
};

/// How long a draft is seen (sendMessageDraft: "a temporary 30-second preview").
const TTL: Duration = Duration::from_secs(30);

/// A draft as the bot has shown it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelegramDraft {
    /// Its `draft_id`.
    pub id: i64,
    /// The topic in which it stands.
    pub thread: Option<i64>,
    /// What it shows; nothing is "Thinking…".
    pub words: FormattedText,
    /// Whether it is seen now: it hasn't ended, and neither a later one nor a message has taken its place.
    pub visible: bool,
    shown_at: Instant,
}

impl TelegramDraft {
    /// The draft as it is at a moment.
    pub(crate) fn at(&self, now: Instant) -> Self {
        Self { visible: self.visible && now.duration_since(self.shown_at) < TTL, ..self.clone() }
    }
}

/// sendMessageDraft.
///
/// Telegram's API, AI features for bots: a draft is known by its id, its chat and its topic. The Bot API gives no words for its
/// refusals: that of other chats is Telegram's own (seen in public reports of bots), that of the id is ours.
pub(crate) fn show(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    if !rules.has_drafts {
        // tdlib/telegram-bot-api, `Client.cpp`: a method that the server doesn't know.
        return Err(ApiRefusal::new(404, "Not Found: method not found"));
    }
    let chat = platform.chat_of(call)?;
    let thread = topics::named_topic(platform, call, chat)?;
    if platform.chat(chat).kind != ChatKind::Private {
        // sendMessageDraft: chat_id, "the target private chat".
        return Err(bad("TEXTDRAFT_PEER_INVALID"));
    }
    // sendMessageDraft: draft_id, "must be non-zero".
    let id = call.integer("draft_id").filter(|id| *id != 0).ok_or_else(|| bad("draft identifier is invalid"))?;
    let words = text::read_text(call, "text")?;
    if words.units() > rules.text_units {
        // sendMessageDraft: text, "0-4096 characters after entities parsing".
        return Err(bad("message is too long"));
    }
    let (words, shown_at) = (words.keep_entities(rules.entities), platform.instant());
    let drafts = &mut platform.chat_mut(chat).drafts;
    drafts.iter_mut().filter(|draft| draft.id == id && draft.thread == thread).for_each(|draft| draft.visible = false);
    drafts.push(TelegramDraft { id, thread, words, visible: true, shown_at });
    Ok(json!(true))
}

/// Ends the drafts whose place a message of the bot takes (Telegram's API, AI features for bots: they are deleted "when receiving a
/// normal message within the same chat/bot forum topic").
pub(crate) fn end(drafts: &mut [TelegramDraft], thread: Option<i64>) {
    drafts.iter_mut().filter(|draft| draft.thread == thread).for_each(|draft| draft.visible = false);
}
