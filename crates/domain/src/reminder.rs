//! Reminders: schedules that people make in chat, once or recurring.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    AttachmentId,
    filename::{is_visually_empty, to_inline_code},
};

/// The most reminders that a person has at a time.
pub const MAX_REMINDERS_PER_PERSON: u32 = 100;

/// The most reminders that the calls of one turn make: a document that plants more is noticed.
pub const MAX_REMINDERS_PER_TURN: u32 = 5;

/// The longest text of a reminder, in characters.
pub const MAX_REMINDER_CHARS: usize = 4_000;

/// How much of a reminder's text a notice shows, in characters.
const MAX_NOTICE_CHARS: usize = 200;

/// The longest name of a person, in characters.
const MAX_NAME_CHARS: usize = 60;

/// The number by which people name a reminder. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReminderId(pub u64);

impl fmt::Display for ReminderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ReminderId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// What happens when a reminder is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReminderContent {
    /// A text and files of the conversation are delivered as they are.
    Message {
        /// The text; empty if there are only files.
        text: String,
        /// The files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<AttachmentId>,
    },
    /// The model gets this text and replies.
    Prompt(String),
}

impl ReminderContent {
    /// Returns its text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Message { text, .. } | Self::Prompt(text) => text,
        }
    }
}

/// Who made a reminder for its person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReminderAuthor {
    /// The person, by a command or a script of their own.
    Person,
    /// A model, in a turn of the person's.
    Model,
}

impl ReminderAuthor {
    /// Returns the name that is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Model => "model",
        }
    }
}

/// Who made a reminder and when, for the people who get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReminderOrigin {
    /// Who made it.
    pub author: ReminderAuthor,
    /// When, as people of its time zone write it; `None` of one that an earlier version stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// Whether it is due again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

impl ReminderOrigin {
    /// Says who made the reminder and when, as Markdown. `person` is the name of its person, where others read along.
    #[must_use]
    pub fn describe(&self, reminder: ReminderId, person: Option<&str>) -> String {
        let made = self.made.as_ref().map(|made| format!(" on {made}")).unwrap_or_default();
        let person = person.map(|name| if is_visually_empty(name) { "somebody" } else { name });
        let person = person.map(|name| to_inline_code(name, MAX_NAME_CHARS));
        let mut text = match (self.author, person) {
            (ReminderAuthor::Person, None) => format!("You set it{made}."),
            (ReminderAuthor::Person, Some(person)) => format!("{person} set it{made}."),
            (ReminderAuthor::Model, None) => format!("I set it{made}, in a reply to you."),
            (ReminderAuthor::Model, Some(person)) => format!("I set it{made}, in a reply to {person}."),
        };
        if self.repeats {
            text.push_str(&format!(" `/schedules cancel {reminder}` ends it."));
        }
        text
    }
}

/// A reminder that a model has made or cancelled, as the reply of that turn names it.
#[derive(Debug, Clone, Copy)]
pub struct ReminderNotice<'a> {
    /// The reminder.
    pub reminder: ReminderId,
    /// What happens when it is due.
    pub content: &'a ReminderContent,
    /// When it is due, as people write it.
    pub due: &'a str,
    /// When it is due again, as a cron expression.
    pub cron: Option<&'a str>,
}

impl ReminderNotice<'_> {
    /// Says that it was made, and how it is cancelled.
    #[must_use]
    pub fn made(&self) -> String {
        let Self { reminder, due, .. } = self;
        let (repeats, content) = (self.repetition(), self.excerpt());
        format!("I set reminder {reminder} for {due}{repeats}: {content}. `/schedules cancel {reminder}` cancels it.")
    }

    /// Says that it was cancelled.
    #[must_use]
    pub fn cancelled(&self) -> String {
        let Self { reminder, due, .. } = self;
        format!("I cancelled reminder {reminder}, due {due}{}: {}.", self.repetition(), self.excerpt())
    }

    fn repetition(&self) -> String {
        self.cron.map(|cron| format!(", again at {}", to_inline_code(cron, MAX_NOTICE_CHARS))).unwrap_or_default()
    }

    fn excerpt(&self) -> String {
        let text = self.content.text();
        let is_cut = text.chars().nth(MAX_NOTICE_CHARS).is_some();
        let excerpt = format!("{}{}", to_inline_code(text, MAX_NOTICE_CHARS), if is_cut { "…" } else { "" });
        let files = |count: usize| format!("{count} {}", if count == 1 { "file" } else { "files" });
        match self.content {
            ReminderContent::Prompt(_) => format!("{excerpt}, which I answer then"),
            ReminderContent::Message { files: attached, .. } => match (text.is_empty(), attached.len()) {
                (_, 0) => excerpt,
                (true, count) => files(count),
                (false, count) => format!("{excerpt}, with {}", files(count)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn notice_names_what_when_how_often_and_how_to_cancel() {
        let notice = |content: &ReminderContent, cron: Option<&str>| {
            let notice = ReminderNotice { reminder: ReminderId(3), content, due: "Friday at 09:00", cron };
            (notice.made(), notice.cancelled())
        };
        let file = AttachmentId(Uuid::from_u128(1));
        let message = |text: &str, files| ReminderContent::Message { text: text.into(), files };
        let (made, cancelled) = notice(&message("buy `milk`", vec![]), None);
        assert_eq!(made, "I set reminder 3 for Friday at 09:00: `buy milk`. `/schedules cancel 3` cancels it.");
        assert_eq!(cancelled, "I cancelled reminder 3, due Friday at 09:00: `buy milk`.");
        let (made, _) = notice(&ReminderContent::Prompt("the news".into()), Some("0 9 * * fri"));
        let expected = "I set reminder 3 for Friday at 09:00, again at `0 9 * * fri`: `the news`, which I answer then.";
        assert!(made.starts_with(expected), "{made}");
        let (made, _) = notice(&message("", vec![file, file]), None);
        assert!(made.starts_with("I set reminder 3 for Friday at 09:00: 2 files."), "{made}");
        let (made, _) = notice(&message(&"й".repeat(201), vec![file]), None);
        assert!(made.contains(&format!("`{}`…, with 1 file.", "й".repeat(200))), "{made}");
    }

    #[test]
    fn origin_names_author_and_time() {
        let origin =
            |author, made: Option<&str>, repeats| ReminderOrigin { author, made: made.map(str::to_owned), repeats };
        for (origin, person, expected) in [
            (origin(ReminderAuthor::Person, Some("Friday"), false), None, "You set it on Friday."),
            (origin(ReminderAuthor::Person, None, false), Some("A`da"), "`Ada` set it."),
            (origin(ReminderAuthor::Model, Some("Friday"), false), None, "I set it on Friday, in a reply to you."),
            (
                origin(ReminderAuthor::Model, Some("Friday"), true),
                Some("Ada"),
                "I set it on Friday, in a reply to `Ada`. `/schedules cancel 3` ends it.",
            ),
        ] {
            assert_eq!(origin.describe(ReminderId(3), person), expected);
        }
    }

    #[test]
    fn stored_reminder_content_is_read_back() {
        for (content, stored) in [
            (ReminderContent::Message { text: "tea".into(), files: vec![] }, r#"{"message":{"text":"tea"}}"#),
            (ReminderContent::Prompt("news".into()), r#"{"prompt":"news"}"#),
        ] {
            assert_eq!(serde_json::to_string(&content).unwrap(), stored);
            assert_eq!(serde_json::from_str::<ReminderContent>(stored).unwrap(), content);
        }
    }
}
