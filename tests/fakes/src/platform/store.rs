//! The messages of the platform: what `send`, `edit`, `delete` and `history` do once nothing speaks against it.

use std::collections::HashMap;

use satchel_domain::{ConversationId, MessageRef};
use tokio::time::Instant;

use crate::{
    FakeMode, PlatformRules, Transcript, TranscriptMessage,
    platform::{Ended, upload::Upload},
    transcript::{Contents, MessageKind},
    wire::{PastMessage, Why, WireError},
};

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) transcript: Transcript,
    pub(crate) keep_bytes: bool,
    pub(crate) ended: Ended,
    pub(crate) history_forbidden: bool,
    pub(crate) nonces: HashMap<(ConversationId, String), (Instant, Vec<MessageRef>)>,
    last_id: u64,
}

impl Store {
    pub(crate) fn peek_id(&self) -> u64 {
        self.last_id + 1
    }

    pub(crate) fn new_id(&mut self) -> MessageRef {
        self.last_id += 1;
        MessageRef(self.last_id.to_string())
    }

    pub(crate) fn add(&mut self, conversation: &ConversationId, message: TranscriptMessage) {
        self.transcript.conversations.entry(conversation.clone()).or_default().push(message);
    }

    /// A message that has not been deleted.
    pub(crate) fn find(
        &mut self,
        conversation: &ConversationId,
        message: &MessageRef,
    ) -> Option<&mut TranscriptMessage> {
        let messages = self.transcript.conversations.get_mut(conversation)?;
        messages.iter_mut().find(|known| known.id == *message && !known.deleted)
    }

    pub(crate) fn send(&mut self, rules: &PlatformRules, upload: Upload) -> Result<Vec<MessageRef>, WireError> {
        let Upload { message, contents } = upload;
        self.check_conversation(rules, &message.conversation)?;
        // Discord, Create Message: enforce_nonce returns the message that came with this nonce "in the past few
        // minutes" and makes no new one. Telegram has nothing of the kind.
        let nonce = message.nonce.clone().filter(|_| rules.mode == FakeMode::DiscordLike);
        let key = nonce.clone().filter(|_| message.enforce_nonce).map(|nonce| (message.conversation.clone(), nonce));
        if let Some((at, messages)) = key.as_ref().and_then(|key| self.nonces.get(key))
            && at.elapsed() < rules.nonce_window
        {
            return Ok(messages.clone());
        }
        if let Some(answered) = &message.reply_to
            && !message.reply_even_if_gone
            && self.find(&message.conversation, answered).is_none()
        {
            // Bot API, ReplyParameters: without allow_sending_without_reply the message must be there.
            return Err(WireError::new(400, Why::Other, "Bad Request: message to be replied not found"));
        }
        let album = rules.mode == FakeMode::TelegramLike && message.kind == MessageKind::Album;
        let pieces: Vec<Contents> = if album {
            // Bot API, sendMediaGroup: "an array of Messages", one a file.
            contents.files.into_iter().map(|file| Contents { text: String::new(), files: vec![file] }).collect()
        } else {
            vec![contents]
        };
        let first = MessageRef(self.peek_id().to_string());
        let mut messages = Vec::new();
        for contents in pieces {
            let id = self.new_id();
            messages.push(id.clone());
            let sent = TranscriptMessage {
                id,
                own: true,
                kind: message.kind,
                contents,
                edits: Vec::new(),
                deleted: false,
                reply_to: message.reply_to.clone(),
                nonce: nonce.clone(),
                album: album.then(|| first.clone()),
                duration_ms: message.voice.as_ref().map(|voice| voice.duration_ms),
            };
            self.add(&message.conversation, sent);
        }
        if let Some(key) = key {
            self.nonces.insert(key, (Instant::now(), messages.clone()));
        }
        Ok(messages)
    }

    pub(crate) fn edit(
        &mut self,
        rules: &PlatformRules,
        target: &MessageRef,
        upload: Upload,
    ) -> Result<Vec<MessageRef>, WireError> {
        let Upload { message, contents } = upload;
        self.check_conversation(rules, &message.conversation)?;
        let Some(known) = self.find(&message.conversation, target).filter(|known| known.own) else {
            // Bot API: these words; Discord: 404 with code 10008, "Unknown Message".
            let (status, words) = match rules.mode {
                FakeMode::TelegramLike => (400, "Bad Request: message to edit not found"),
                FakeMode::DiscordLike => (404, "10008: unknown message"),
            };
            return Err(WireError::new(status, Why::TargetGone, words));
        };
        if rules.mode == FakeMode::TelegramLike {
            // Bot API, editMessageText: "edit text messages"; a file can't be added to one.
            if message.kind != MessageKind::Text || known.kind != MessageKind::Text {
                return Err(WireError::new(
                    400,
                    Why::WrongKind,
                    "Bad Request: there is no text in the message to edit",
                ));
            }
            // Bot API: an edit that changes nothing is refused with these words.
            if known.contents == contents {
                let words = "Bad Request: message is not modified";
                return Err(WireError::new(400, Why::NotModified, words));
            }
        }
        // Discord, Edit Message: attachments are those that the edit names, so that an edit repeated changes nothing.
        let before = std::mem::replace(&mut known.contents, contents);
        known.edits.push(before);
        Ok(vec![known.id.clone()])
    }

    pub(crate) fn delete(&mut self, conversation: &ConversationId, message: &MessageRef) -> bool {
        let found = self.find(conversation, message);
        found.map(|message| message.deleted = true).is_some()
    }

    pub(crate) fn history(
        &self,
        conversation: &ConversationId,
        after: Option<&MessageRef>,
    ) -> Result<Vec<PastMessage>, WireError> {
        if self.history_forbidden {
            // Discord, Get Channel Messages: needs READ_MESSAGE_HISTORY; 50013 is "Missing Permissions".
            return Err(WireError::new(403, Why::Forbidden, "50013: missing permissions"));
        }
        let number = |message: &MessageRef| message.0.parse::<u64>().unwrap_or(0);
        let after = after.map_or(0, number);
        let messages = self.transcript.messages(conversation).iter();
        let past = messages.filter(|message| !message.deleted && number(&message.id) > after).map(|message| {
            let files = message.contents.files.iter().map(|file| (file.filename.clone(), file.bytes)).collect();
            PastMessage { message: message.id.clone(), own: message.own, text: message.contents.text.clone(), files }
        });
        // Discord, Get Channel Messages: "limit … max 100".
        Ok(past.take(100).collect())
    }

    fn check_conversation(&self, rules: &PlatformRules, conversation: &ConversationId) -> Result<(), WireError> {
        if self.ended.contains(conversation) { Err(chat_gone(rules.mode)) } else { Ok(()) }
    }
}

/// Bot API: 400 "chat not found"; Discord: 404 with code 10003, "Unknown Channel".
pub(crate) fn chat_gone(mode: FakeMode) -> WireError {
    match mode {
        FakeMode::TelegramLike => WireError::new(400, Why::Forbidden, "Bad Request: chat not found"),
        FakeMode::DiscordLike => WireError::new(404, Why::Forbidden, "10003: unknown channel"),
    }
}
