//! What an edited message was before: its original, or the newest edit that was no longer in time to replace it.

use satchel_domain::{ConversationOpening, FileReference, InboundMessage, InboxId, Sha256, TurnId};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    parameters::Json,
    params,
    session::{Session, VerbResult},
    verbs::corrections::looks_like_command,
};

/// The version of a message that an edit changes, as it is stored.
pub(super) struct EarlierVersion {
    pub(super) sequence: i64,
    pub(super) turn: TurnId,
    id: InboxId,
    message: Value,
}

impl EarlierVersion {
    /// Finds it by the key of the original, which leads to the newest version.
    pub(super) async fn find<S: Session>(db: &S, edit: &InboundMessage) -> VerbResult<Option<Self>, S> {
        let Some(original) = &edit.edit_of else { return Ok(None) };
        let known: Option<(i64, Uuid, Uuid, Json<Value>)> = db
            .find(
                "SELECT inbox.sequence, inbox.turn, inbox.id, inbox.message FROM inbox_keys \
                 JOIN inbox ON inbox.sequence = inbox_keys.message \
                 WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2",
                params![edit.conversation.channel().as_str(), original.as_str()],
            )
            .await?;
        Ok(known.map(|(sequence, turn, id, Json(message))| {
            let (turn, id) = (TurnId(turn), InboxId(id));
            Self { sequence, turn, id, message }
        }))
    }

    /// A text that it has; `None` if it was forgotten.
    fn text(&self, field: &str) -> Option<&str> {
        self.message.get(field).and_then(Value::as_str)
    }

    /// Whether an edit changes nothing of it: platforms report those, too. Its sender wrote the same, whatever the message shows of
    /// others by now, or nothing is read of it that differs.
    pub(super) fn is_same(&self, edit: &InboundMessage) -> bool {
        let known = self.message.get("content_digest");
        edit.content_digest.is_some_and(|digest| known == Some(&json!(digest))) || self.reads_the_same(edit)
    }

    fn reads_the_same(&self, edit: &InboundMessage) -> bool {
        let files = self.files();
        let is_same_file = |(known, sent): (&FileReference, &FileReference)| match is_forgotten(known) {
            // Of some only their place is known.
            true => was_file(known, sent).unwrap_or(true),
            false => platform_name(known) == platform_name(sent),
        };
        self.text("text") == Some(edit.text.as_str())
            && files.len() == edit.files.len()
            && files.iter().zip(&edit.files).all(is_same_file)
    }

    /// Whether it was forgotten with its conversation: nothing of it is known.
    fn is_unknown(&self) -> bool {
        self.message.as_object().is_none_or(|fields| fields.is_empty())
    }

    /// Whether it, or a version before it, was forgotten with its conversation.
    fn edits_forgotten(&self) -> bool {
        self.is_unknown() || self.message.get("edits_forgotten").and_then(Value::as_bool).unwrap_or_default()
    }

    /// A list that it has; empty if it was forgotten.
    fn list<T: DeserializeOwned>(&self, field: &str) -> Vec<T> {
        serde_json::from_value(self.message.get(field).cloned().unwrap_or_default()).unwrap_or_default()
    }

    /// The opening that was put before it, with the files that it has left.
    pub(super) fn opening(&self) -> Option<ConversationOpening> {
        let stored = self.message.get("opening").filter(|opening| !opening.is_null())?;
        let opening = ConversationOpening::deserialize(stored).ok()?;
        let mut files = self.files();
        let files = files.split_off(files.len().saturating_sub(opening.file_count));
        Some(ConversationOpening { files, ..opening })
    }

    fn files(&self) -> Vec<FileReference> {
        self.list("files")
    }

    fn commands(&self) -> Vec<String> {
        self.list("earlier_commands")
    }

    /// The edit without what it says of files that were forgotten: who corrects the words beneath a file brings back none.
    fn without_forgotten_files(&self, edit: &InboundMessage) -> InboundMessage {
        let (mut edit, files) = (edit.clone(), self.files());
        let names: Vec<&str> = files.iter().map(platform_name).collect();
        for (place, sent) in edit.files.iter_mut().enumerate() {
            // Where one was taken out of the message, another one has moved to its place.
            let in_place = files.get(place).filter(|known| {
                is_forgotten(known) && was_file(known, sent).is_none() && !names.contains(&platform_name(sent))
            });
            let forgotten = files.iter().find(|known| was_file(known, sent) == Some(true)).or(in_place).cloned();
            // Any may be one that was forgotten with the conversation.
            if let Some(forgotten) = forgotten.or_else(|| self.is_unknown().then(|| sent.clone().into_forgotten())) {
                *sent = forgotten;
                edit.raw = Value::Null;
            }
        }
        edit
    }

    /// The edit that takes its place, since nobody has read it. What that corrects is what was read before.
    pub(super) fn replaced_by(&self, edit: &InboundMessage) -> InboundMessage {
        let earlier_text = self.text("earlier_text").map(str::to_owned);
        let earlier_commands = self.commands();
        let mut replaced_ids: Vec<InboxId> = self.list("replaced_ids");
        replaced_ids.push(self.id);
        let edits_forgotten = self.edits_forgotten();
        let edit = self.without_forgotten_files(edit);
        InboundMessage { earlier_text, earlier_commands, edits_forgotten, replaced_ids, ..edit }
    }

    /// The edit with what it corrects, since that may have been read.
    pub(super) fn corrected_by(&self, edit: &InboundMessage) -> InboundMessage {
        let earlier_text = self.text("text").map(str::to_owned);
        let mut earlier_commands = self.commands();
        earlier_commands.extend(self.text("earlier_text").filter(|text| looks_like_command(text)).map(str::to_owned));
        let edits_forgotten = self.edits_forgotten();
        InboundMessage { earlier_text, earlier_commands, edits_forgotten, ..self.without_forgotten_files(edit) }
    }
}

/// Whether a file was forgotten: of the reference to it nothing is left by which its channel could fetch it.
pub(super) fn is_forgotten(file: &FileReference) -> bool {
    file.locator.is_empty() && file.platform_id.is_none()
}

/// Whether a file that was forgotten was this one; `None` if nothing is known of what the platform called it.
fn was_file(forgotten: &FileReference, file: &FileReference) -> Option<bool> {
    let id = forgotten.forgotten_id?;
    Some(file.platform_id.as_deref().is_some_and(|name| Sha256::digest(name) == id))
}

/// What the platform calls a file.
pub(super) fn platform_name(file: &FileReference) -> &str {
    file.platform_id.as_deref().unwrap_or(&file.locator)
}
