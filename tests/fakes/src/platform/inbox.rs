//! What people do on the platform, and the updates that tell clients of it until they are confirmed.

use std::collections::{HashMap, VecDeque};

use satchel_domain::{ConversationId, MessageRef, Sender};

use crate::{
    FakeFile, TranscriptFile, TranscriptMessage,
    platform::State,
    transcript::{Contents, MessageKind},
    wire::{Update, UpdateFile},
};

#[derive(Default)]
pub(crate) struct Inbox {
    /// Not confirmed yet, oldest first. Bot API, getUpdates: "an update is considered confirmed as soon as getUpdates
    /// is called with an offset higher than its update_id".
    pub(crate) updates: VecDeque<Update>,
    pub(crate) files: HashMap<String, FakeFile>,
    /// Counts polls: a newer one ends the older ones with 409, as Telegram's.
    pub(crate) polls: u64,
    last_update: u64,
    last_file: u64,
    last_edit: u64,
}

impl Inbox {
    pub(crate) fn keep(&mut self, file: FakeFile) -> String {
        self.last_file += 1;
        let name = format!("file-{}", self.last_file);
        self.files.insert(name.clone(), file);
        name
    }

    /// Forgets what is confirmed by this offset and returns what is not, at most a hundred (Bot API, getUpdates:
    /// limit, "1-100").
    pub(crate) fn confirm(&mut self, offset: u64) -> Vec<Update> {
        self.updates.retain(|update| update.update >= offset);
        self.updates.iter().take(100).cloned().collect()
    }

    fn queue(&mut self, mut update: Update) {
        self.last_update += 1;
        update.update = self.last_update;
        self.updates.push_back(update);
    }
}

fn person() -> Sender {
    Sender::new("1001", "Person")
}

impl State {
    pub(crate) fn say(
        &mut self,
        conversation: &ConversationId,
        text: &str,
        files: Vec<FakeFile>,
        media_group: Option<String>,
    ) -> MessageRef {
        let message = self.store.new_id();
        let shown = files.iter().map(|file| TranscriptFile {
            filename: file.filename.clone(),
            mime: file.mime.clone(),
            bytes: file.bytes(),
            sha256: file.sha256(),
            form: None,
            caption: String::new(),
            content: None,
        });
        let contents = Contents { text: text.to_owned(), files: shown.collect() };
        let said = TranscriptMessage {
            id: message.clone(),
            own: false,
            kind: if files.is_empty() { MessageKind::Text } else { MessageKind::File },
            contents,
            edits: Vec::new(),
            deleted: false,
            reply_to: None,
            nonce: None,
            album: None,
            duration_ms: None,
        };
        self.store.add(conversation, said);
        let mut named = Vec::new();
        for file in files {
            let (filename, mime, bytes) = (file.filename.clone(), file.mime.clone(), file.bytes());
            named.push(UpdateFile { file: self.inbox.keep(file), filename, mime, bytes });
        }
        self.inbox.queue(Update {
            update: 0,
            conversation: conversation.clone(),
            message: message.clone(),
            edit: None,
            from: person(),
            text: text.to_owned(),
            files: named,
            media_group,
        });
        message
    }

    pub(crate) fn person_edits(&mut self, conversation: &ConversationId, message: &MessageRef, text: &str) {
        let Some(known) = self.store.find(conversation, message).filter(|known| !known.own) else { return };
        let before = Contents { text: text.to_owned(), files: known.contents.files.clone() };
        let before = std::mem::replace(&mut known.contents, before);
        known.edits.push(before);
        self.inbox.last_edit += 1;
        let edit = Some(self.inbox.last_edit);
        self.inbox.queue(Update {
            update: 0,
            conversation: conversation.clone(),
            message: message.clone(),
            edit,
            from: person(),
            text: text.to_owned(),
            files: Vec::new(),
            media_group: None,
        });
    }
}
