//! The messages of a conversation's history: text and references to files, never bytes.

use serde::{Deserialize, Serialize};

use crate::{Attachment, CallId, RefusedFile, Sender, Timestamp};

/// A tool call that the model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id of the call: its turn and ordinal.
    pub id: CallId,
    /// The tool's name as Satchel knows it, dots included.
    pub name: String,
    /// The arguments as the model gave them, not yet checked.
    pub arguments: serde_json::Value,
}

/// When a person's message was sent and, where others can read along and write too, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageOrigin {
    /// When, by the platform's clock where it tells, else by the ledger's.
    pub sent_at: Timestamp,
    /// Who; `None` where only one person writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Sender>,
    /// The name of the time zone that its sender had chosen then; `None` is the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What the message said before its sender edited it, if the model may have read that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_text: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum HistoryMessage<F = Attachment> {
    /// What a person wrote and sent.
    Person {
        /// The text; empty if files came alone.
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<F>,
        /// The files that could not be taken, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedFile>,
        /// When it was sent and by whom; `None` in what earlier versions recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<MessageOrigin>,
    },
    /// The model's text and the tool calls that it requested.
    Model {
        /// The text; empty if the model only requested tools.
        text: String,
        /// The calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The outcome of a tool call.
    Tool {
        /// The call.
        call: CallId,
        /// The outcome as the model reads it.
        text: String,
        /// The files that it made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<F>,
    },
    /// What Satchel tells the model, such as what could not be delivered.
    Note {
        /// The words.
        text: String,
    },
    /// What another program sent to the people of the conversation.
    Notification {
        /// The text; empty if files came alone.
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<F>,
        /// What became of it. The ledger says so when it is read; nothing of it is stored here.
        #[serde(skip)]
        delivery: NotificationDelivery,
    },
}

/// What became of a notification, by the parts of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NotificationDelivery {
    /// Nothing is known of its parts.
    #[default]
    Unknown,
    /// Something of it is still to be sent.
    Pending,
    /// All of it arrived.
    Arrived,
    /// Something of it was given up.
    Failed,
}

impl NotificationDelivery {
    /// Adds another part in this state.
    #[must_use]
    pub fn with_part(self, state: &str) -> Self {
        match (self, state) {
            (Self::Failed, _) | (_, "failed") => Self::Failed,
            // Others took its place, and count in its stead.
            (known, "replaced") => known,
            (Self::Unknown | Self::Arrived, "sent") => Self::Arrived,
            _ => Self::Pending,
        }
    }
}

impl<F> HistoryMessage<F> {
    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[F] {
        match self {
            Self::Person { attachments, .. }
            | Self::Tool { attachments, .. }
            | Self::Notification { attachments, .. } => attachments,
            Self::Model { .. } | Self::Note { .. } => &[],
        }
    }

    /// Returns its text, to change it.
    #[must_use]
    pub fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Person { text, .. }
            | Self::Model { text, .. }
            | Self::Tool { text, .. }
            | Self::Note { text }
            | Self::Notification { text, .. } => text,
        }
    }

    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, replace: impl FnMut(F) -> Result<G, E>) -> Result<HistoryMessage<G>, E> {
        Ok(match self {
            Self::Person { text, attachments, refused, origin } => {
                let attachments = attachments.into_iter().map(replace).collect::<Result<_, E>>()?;
                HistoryMessage::Person { text, attachments, refused, origin }
            }
            Self::Model { text, calls } => HistoryMessage::Model { text, calls },
            Self::Tool { call, text, attachments } => {
                let attachments = attachments.into_iter().map(replace).collect::<Result<_, E>>()?;
                HistoryMessage::Tool { call, text, attachments }
            }
            Self::Note { text } => HistoryMessage::Note { text },
            Self::Notification { text, attachments, delivery } => {
                let attachments = attachments.into_iter().map(replace).collect::<Result<_, E>>()?;
                HistoryMessage::Notification { text, attachments, delivery }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notification_has_arrived_once_all_its_parts_have() {
        for (states, expected) in [
            (&["sent", "sent"][..], NotificationDelivery::Arrived),
            (&[], NotificationDelivery::Unknown),
            (&["replaced", "sent"], NotificationDelivery::Arrived),
            (&["sent", "waiting"], NotificationDelivery::Pending),
            (&["pending", "sent"], NotificationDelivery::Pending),
            (&["sent", "failed", "pending"], NotificationDelivery::Failed),
        ] {
            let delivery = states.iter().fold(NotificationDelivery::default(), |all, state| all.with_part(state));
            assert_eq!(delivery, expected, "{states:?}");
        }
    }

    #[test]
    fn old_message_has_no_origin() {
        let stored = json!({ "role": "person", "text": "hi" });
        let message = HistoryMessage::Person { text: "hi".into(), attachments: vec![], refused: vec![], origin: None };
        assert_eq!(serde_json::from_value::<HistoryMessage>(stored.clone()).unwrap(), message);
        assert_eq!(serde_json::to_value(message).unwrap(), stored);
    }

    #[test]
    fn an_origin_is_read_as_it_was_stored() {
        let origin = |sender, timezone: Option<&str>| {
            let timezone = timezone.map(str::to_owned);
            Some(MessageOrigin { sent_at: Timestamp(5), sender, timezone, earlier_text: None })
        };
        let ada = json!({ "id": "7", "name": "Ada" });
        for (origin, stored) in [
            (origin(None, None), json!({ "sent_at": 5 })),
            (origin(None, Some("Asia/Tokyo")), json!({ "sent_at": 5, "timezone": "Asia/Tokyo" })),
            (origin(Some(Sender::new("7", "Ada")), None), json!({ "sent_at": 5, "sender": ada })),
        ] {
            let message = HistoryMessage::Person { text: "hi".into(), attachments: vec![], refused: vec![], origin };
            let value = serde_json::to_value(&message).unwrap();
            assert_eq!(value["origin"], stored);
            assert_eq!(serde_json::from_value::<HistoryMessage>(value).unwrap(), message);
        }
    }
}
